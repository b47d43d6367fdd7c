package e2e

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// scaleStory is a cluster of the size the project was made for: 750 nodes in three zones with 50 000 copies.
const scaleStory = `cluster %s seed=1
set cluster.routing.rebalance.enable=none
set cluster.routing.allocation.awareness.attributes=zone
nodes 750 zones=a,b,c cpu=16 disk=20TB
series logs-a logs-b logs-c logs-d logs-e logs-f shards=8 replicas=2 keep=300 size=400GB search=4 write=2
series hot-a hot-b shards=12 replicas=1 keep=30 size=60GB search=90 write=1
series idx-a idx-b shards=2 replicas=1 keep=600 size=50GB search=1
settle
`

// The whole cycle at full size, against a simulated cluster in a process of its own: the daemon stays within its memory,
// asks for little, and finds moves. What it took is logged, not judged: that is a matter of the machine.
func TestCycleAtScale(t *testing.T) {
	for _, product := range []string{"opensearch 2.19.6", "elasticsearch 8.19.0"} {
		t.Run(strings.ReplaceAll(product, " ", "-"), func(t *testing.T) {
			address := simulated(t, fmt.Sprintf(scaleStory, product))
			d := startDaemon(t, settings{
				"connection": settings{"addresses": []string{address}},
				"mode":       "dry-run",
				"cycle":      settings{"interval": "2s", "jitter": 0},
				"sampling":   settings{"window": "1s", "settle": "1s"},
				"solver":     settings{"time_limit": "5s"},
				"http":       settings{"listen": "127.0.0.1:0"},
				"log":        settings{"format": "json"},
			})
			const cycles = 3
			done := 0
			for from := 0; done < cycles; done++ {
				line, ok := d.awaitFrom(from, 4*time.Minute, func(l logLine) bool { return l.Message == "cycle" })
				if !ok {
					t.Fatalf("no cycle ended within four minutes; so far %v", d.cycles())
				}
				t.Log(line.raw)
				if line.Outcome == "failed" || line.Outcome == "snapshot_incomplete" {
					t.Fatalf("cycle %d: %s: %s", done+1, line.Outcome, line.Reason)
				}
				from = d.position()
			}
			series := d.metrics(t)
			copies := series("shardonnay_snapshot_copies", "", "")
			if copies < 49_000 {
				t.Errorf("the snapshot has %v copies", copies)
			}
			if planned := series("shardonnay_plan_moves", "", ""); planned == 0 {
				t.Error("no moves were planned: the cluster is not level")
			}
			memory := peakMemory(t, d.cmd.Process.Pid)
			reads, received := series("shardonnay_requests_total", "kind", "read"), series("shardonnay_request_bytes_total", "direction", "received")
			t.Logf("a cycle: %.0f reads, %.1f MB received, %.2f s of the daemon's processor time (the solver's is its own process's)",
				reads/float64(done), received/float64(done)/1e6, series("process_cpu_seconds_total", "", "")/float64(done))
			for _, stage := range []string{"collect", "model", "solve", "plan"} {
				t.Logf("%s: %.2f s on average", stage, series("shardonnay_cycle_duration_seconds", "stage", stage))
			}
			t.Logf("%d MiB of memory at most", memory>>20)
			if memory > 512<<20 {
				t.Errorf("the daemon took %d MiB, it may take 512", memory>>20)
			}
			// Node statistics come in batches; the other questions are asked once a cycle each.
			if perCycle := reads / float64(done); perCycle > 60 {
				t.Errorf("%v reads a cycle, expected a few dozen", perCycle)
			}
			if perCopy := received / float64(done) / copies; perCopy > 200 {
				t.Errorf("%v bytes a copy and cycle, expected compressed answers with nothing in them that is not needed", perCopy)
			}
		})
	}
}

// simulated starts the simulator in a process of its own, and gives the address at which the story's cluster answers.
func simulated(t *testing.T, story string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "story.txt")
	if err := os.WriteFile(file, []byte(story), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "simulate", file, "--serve", "127.0.0.1:0")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the simulator: %v", err)
		}
	})
	lines := bufio.NewScanner(stdout)
	answers := regexp.MustCompile(`answers at (http://\S+)`)
	for lines.Scan() {
		if found := answers.FindStringSubmatch(lines.Text()); found != nil {
			return found[1]
		}
	}
	t.Fatal("the simulator ended before its cluster answered")
	return ""
}

// metrics reads the daemon's series: the value of the one with that label, or the sum of all; a histogram's is its mean.
func (d *daemon) metrics(t *testing.T) func(name, label, value string) float64 {
	t.Helper()
	_, body := d.get(t, "/metrics")
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	return func(name, label, value string) (sum float64) {
		family, found := families[name]
		if !found {
			t.Fatalf("there is no series %s", name)
		}
		for _, m := range family.Metric {
			matches := label == ""
			for _, l := range m.Label {
				matches = matches || l.GetName() == label && l.GetValue() == value
			}
			if !matches {
				continue
			}
			if h := m.GetHistogram(); h != nil && h.GetSampleCount() > 0 {
				sum += h.GetSampleSum() / float64(h.GetSampleCount())
			}
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
		return sum
	}
}

// peakMemory is the most memory a process has had resident, in bytes.
func peakMemory(t *testing.T, pid int) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Logf("this system does not tell how much memory the daemon took, the rest is judged: %v", err)
		return 0
	}
	found := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	if found == nil {
		t.Fatal("no VmHWM in /proc")
	}
	kilobytes, err := strconv.ParseInt(string(found[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kilobytes << 10
}
