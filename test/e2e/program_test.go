package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/shardonnay/shardonnay/test/built"
	"github.com/shardonnay/shardonnay/test/realcluster"
)

// program is the built binary.
var program string

func TestMain(m *testing.M) {
	os.Exit(built.Main(func(made string) int {
		program = made
		return realcluster.Main(m)
	}))
}

// settings is a configuration file's content.
type settings map[string]any

// fast is a configuration for a test cluster: six nodes on two cores, where cycles are seconds and everything is always
// busy.
func fast(c *realcluster.Cluster, mode string, stateDir string) settings {
	return settings{
		"connection": settings{"addresses": c.Addresses()},
		"mode":       mode,
		"cycle":      settings{"interval": "4200ms", "jitter": 0, "time_limit": "30s", "deadline": "40s"},
		"sampling":   settings{"window": "4s", "half_life": "2m", "settle": "4s"},
		"balance":    settings{"move_cost": 0.01, "tolerance": 0.02},
		"pin":        settings{"newest": false, "write_share": 0},
		"limits":     settings{"max_moves_per_cycle": 30, "in_flight": 6, "per_index": 0, "cool_down": "20s"},
		"stop":       settings{"cpu": 0, "rejections": 0, "node_settle": "0s", "disk_margin": 0},
		"ownership":  settings{"holder": "e2e", "lease": "20s", "renew": "5s"},
		"solver":     settings{"time_limit": "500ms", "workers": 1}, // the servers need the cores more
		"state":      settings{"dir": stateDir},
		"http":       settings{"listen": "127.0.0.1:0", "debug": true},
		"log":        settings{"format": "json"},
	}
}

// with returns the settings with one section's keys changed.
func (s settings) with(section string, values settings) settings {
	changed := maps.Clone(s)
	merged := settings{}
	if old, ok := s[section].(settings); ok {
		maps.Copy(merged, old)
	}
	maps.Copy(merged, values)
	changed[section] = merged
	return changed
}

// file writes the settings where a command can read them.
func (s settings) file(t *testing.T) string {
	t.Helper()
	content, err := yaml.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "shardonnay.yaml")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// run runs a command to its end and gives standard output and the exit code.
func run(t *testing.T, args ...string) (stdout string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	var out, err bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &err
	failure := cmd.Run()
	var exit *exec.ExitError
	if failure != nil && !errors.As(failure, &exit) {
		t.Fatalf("shardonnay %s: %v", strings.Join(args, " "), failure)
	}
	t.Logf("shardonnay %s: exit code %d\n%s", strings.Join(args, " "), cmd.ProcessState.ExitCode(), err.String())
	return out.String(), cmd.ProcessState.ExitCode()
}

// daemon is a running `shardonnay run`.
type daemon struct {
	cmd  *exec.Cmd
	url  string
	done chan struct{}

	mu    sync.Mutex
	lines []logLine
	fresh *sync.Cond
}

// logLine is one entry of the daemon's log.
type logLine struct {
	Message string `json:"msg"`
	Level   string `json:"level"`
	URL     string `json:"url"`
	Outcome string `json:"outcome"`
	Reason  string `json:"reason"`
	State   string `json:"state"`
	Index   string `json:"index"`
	To      string `json:"to"`
	Adopted bool   `json:"adopted"`
	Bytes   int64  `json:"bytes"`
	// Returns are the shards that giving rebalancing back expects the server to move.
	Returns []string `json:"returns"`
	raw     string
}

// startDaemon starts the daemon and waits until it listens. It is killed when the test ends, if it still runs then.
func startDaemon(t *testing.T, s settings) *daemon {
	t.Helper()
	d := &daemon{cmd: exec.Command(program, "run", "--config", s.file(t)), done: make(chan struct{})}
	d.fresh = sync.NewCond(&d.mu)
	stderr, err := d.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(d.done)
		d.read(stderr)
		_ = d.cmd.Wait() // its exit code is in ProcessState
		d.fresh.Broadcast()
	}()
	t.Cleanup(func() {
		_ = d.cmd.Process.Kill()
		<-d.done
		if t.Failed() {
			for _, line := range d.lines {
				t.Log(line.raw)
			}
		}
	})
	d.url = d.await(t, 30*time.Second, "listening", func(l logLine) bool { return l.Message == "listening" }).URL
	return d
}

func (d *daemon) read(r io.Reader) {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		line := logLine{raw: scanner.Text()}
		_ = json.Unmarshal(scanner.Bytes(), &line) // a line that is not JSON is kept as it is
		d.mu.Lock()
		d.lines = append(d.lines, line)
		d.mu.Unlock()
		d.fresh.Broadcast()
	}
}

// await gives the first log line from the start on that satisfies the condition, once it is there.
func (d *daemon) await(t *testing.T, timeout time.Duration, what string, satisfies func(logLine) bool) logLine {
	t.Helper()
	line, ok := d.awaitFrom(0, timeout, satisfies)
	if !ok {
		t.Fatalf("the daemon did not come to %q within %s", what, timeout)
	}
	return line
}

// awaitFrom waits for a line at or after the given position.
func (d *daemon) awaitFrom(from int, timeout time.Duration, satisfies func(logLine) bool) (logLine, bool) {
	deadline := time.Now().Add(timeout)
	wake := time.AfterFunc(timeout, d.fresh.Broadcast)
	defer wake.Stop()
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		for ; from < len(d.lines); from++ {
			if satisfies(d.lines[from]) {
				return d.lines[from], true
			}
		}
		select {
		case <-d.done:
			return logLine{}, false
		default:
		}
		if time.Now().After(deadline) {
			return logLine{}, false
		}
		d.fresh.Wait()
	}
}

// position is where the log stands now, for awaitFrom.
func (d *daemon) position() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.lines)
}

// cycles lists the outcomes of the cycles so far.
func (d *daemon) cycles() (outcomes []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, line := range d.lines {
		if line.Message == "cycle" {
			outcomes = append(outcomes, line.Outcome)
		}
	}
	return outcomes
}

// stop ends the daemon as Kubernetes does, and gives its exit code.
func (d *daemon) stop(t *testing.T) int {
	t.Helper()
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-d.done:
	case <-time.After(30 * time.Second):
		t.Fatal("the daemon did not end within 30 s of SIGTERM")
	}
	return d.cmd.ProcessState.ExitCode()
}

// kill ends the daemon as a power cut does.
func (d *daemon) kill(t *testing.T) {
	t.Helper()
	if err := d.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-d.done
}

// get reads one of the daemon's own pages.
func (d *daemon) get(t *testing.T, path string) (int, []byte) {
	t.Helper()
	answer, err := http.Get(d.url + path)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, body
}
