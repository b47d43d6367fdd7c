package main

import (
	"context"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/shardonnay/shardonnay/internal/config"
	"github.com/shardonnay/shardonnay/internal/history"
	"github.com/shardonnay/shardonnay/internal/plan"
	"github.com/shardonnay/shardonnay/internal/rebalance"
	"github.com/shardonnay/shardonnay/internal/sim"
)

// TestDaemonAtWork lets the daemon loose on a simulated cluster until it finds nothing more to do, and looks at what it
// shows meanwhile: metrics that promtool has nothing to say about, a plan, health; and at what it leaves behind: nothing.
func TestDaemonAtWork(t *testing.T) {
	virtual := lopsided(t, sim.Config{})
	c := config.Default()
	c.Connection.Addresses = []string{serve(t, virtual, sim.Options{Speed: 60})}
	c.Mode = plan.Act
	c.Cycle.Interval, c.Cycle.Jitter, c.Cycle.Deadline = time.Second, 0, 20*time.Second
	c.Solver.TimeLimit = 2 * time.Second
	c.Pin.Newest, c.Pin.WriteShare, c.Stop.NodeSettle, c.Limits.CoolDown = false, 0, 0, time.Second
	c.HTTP.Listen = "127.0.0.1:0"
	s, err := connect(t.Context(), &c)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	current := func() *config.Config { return &c }
	d, err := newDaemon(s, current, history.New(), "", zap.NewNop(), nil)
	if err != nil {
		t.Fatal(err)
	}
	api, err := d.serve(current)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := api.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	before := virtual.Balance("search")

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var outcomes []rebalance.Outcome
	observe := d.loop.Observe
	d.loop.Observe = func(summary *rebalance.Summary) {
		observe(summary)
		outcomes = append(outcomes, summary.Outcome)
		if summary.Outcome == rebalance.Balanced && slices.Contains(outcomes, rebalance.Moved) {
			checkPages(t, api.URL())
			cancel()
		}
	}
	if err := d.loop.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(outcomes, rebalance.Balanced) {
		t.Errorf("the daemon did not come to an end: %v", outcomes)
	}
	if after := virtual.Balance("search"); before.PeakToMean < 2.5 || after.PeakToMean > 1.2 {
		t.Errorf("search peak/mean went from %.2f to %.2f, want from above 2.5 to below 1.2", before.PeakToMean, after.PeakToMean)
	}
	if tally := virtual.Tally(); tally.Refused > 0 || tally.Failed > 0 {
		t.Errorf("%d moves refused, %d failed", tally.Refused, tally.Failed)
	}
	if record := virtual.Setting("cluster.metadata.shardonnay.owner"); record != "" {
		t.Errorf("an ownership record is left behind: %s", record)
	}
}

func checkPages(t *testing.T, url string) {
	t.Helper()
	get := func(path string) string {
		answer, err := http.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		if answer.StatusCode != http.StatusOK {
			t.Errorf("%s: %s %s", path, answer.Status, body)
		}
		return string(body)
	}
	get("/healthz")
	get("/readyz")
	if p, err := plan.Read(strings.NewReader(get("/api/v1/plan"))); err != nil || p.Cluster.Name == "" {
		t.Errorf("/api/v1/plan: %v", err)
	}
	for path, want := range map[string]string{
		"/": "<title>Shardonnay</title>", "/api/v1/status": `"outcome":"balanced"`, "/api/v1/history": `"moved"`, "/api/v1/moves": `"state":"landed"`,
	} {
		if body := get(path); !strings.Contains(body, want) {
			t.Errorf("%s does not have %s", path, want)
		}
	}
	page := get("/metrics")
	for _, series := range []string{
		`shardonnay_cycles_total{outcome="moved"}`, `shardonnay_node_load_ratio{dimension="search",node="n1"}`, `shardonnay_ownership{state="us"} 1`,
		`shardonnay_moves_total{result="landed"}`, `shardonnay_objective_lower_bound`, `shardonnay_peak_to_mean_ratio{dimension="search",domain="all"}`,
		`shardonnay_mode{mode="act"} 1`, `shardonnay_last_outcome{outcome="balanced"} 1`, `shardonnay_config_reload_success 1`, `cluster_name="sim"`,
	} {
		if !strings.Contains(page, series) {
			t.Errorf("/metrics does not have %s", series)
		}
	}
	for _, positive := range []string{
		"cycle_overdue_seconds", "solver_pairs_priced_total", "solver_peak_memory_bytes", "move_duration_seconds_count", "move_size_bytes_sum",
	} {
		if figure(t, page, positive) <= 0 {
			t.Errorf("%s is not above 0", positive)
		}
	}
	if moved, size := figure(t, page, "moved_bytes_total"), figure(t, page, "move_size_bytes_sum"); moved != size {
		t.Errorf("%g bytes moved, and the sizes add up to %g", moved, size)
	}
	ended := figure(t, page, "moves_total") + figure(t, page, "moves_in_flight")
	if considered := figure(t, page, "moves_considered_total"); considered != ended || ended == 0 {
		t.Errorf("%g moves considered, %g ended or in flight", considered, ended)
	}
	promtool := exec.Command("promtool", "check", "metrics")
	promtool.Stdin = strings.NewReader(page)
	if out, err := promtool.CombinedOutput(); err != nil || len(strings.TrimSpace(string(out))) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}

// figure is the sum of a family's series on a page of metrics.
func figure(t *testing.T, page, name string) (sum float64) {
	t.Helper()
	for _, series := range regexp.MustCompile(`(?m)^shardonnay_`+name+`(?:\{[^}]*\})? (\S+)$`).FindAllStringSubmatch(page, -1) {
		value, err := strconv.ParseFloat(series[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += value
	}
	return sum
}

// TestSimulate plays a scenario with the real daemon in it, in virtual time.
func TestSimulate(t *testing.T) {
	got := execute(t, "simulate", "../../internal/sim/testdata/scenarios/heat-evens-out.txt")
	if got.code != 0 {
		t.Errorf("exit code %d: %s\n%s", got.code, got.stderr, got.stdout)
	}
	failing := file(t, "s.txt", "cluster opensearch 2.19.6 seed=1\nnodes 2\nindex a shards=1 replicas=1 size=1GB\nsettle\nassert unassigned == 7\n")
	if got := execute(t, "simulate", failing); got.code != 1 || !strings.Contains(got.stdout, "FAIL") {
		t.Errorf("exit code %d: %s", got.code, got.stdout)
	}
}

// TestCaptureAndPlan: a plan of a captured cluster is the plan of the cluster, twice the same bytes but for time and id.
func TestCaptureAndPlan(t *testing.T) {
	virtual := lopsided(t, sim.Config{})
	url := serve(t, virtual, sim.Options{Speed: 60})
	dir := t.TempDir() + "/capture"
	config := file(t, "c.yaml", "pin:\n  newest: false\n  write_share: 0\nsolver:\n  work_limit: 200000\n  workers: 1\n")
	execute(t, "capture", dir, "--address", url, "--samples", "2", "--interval", "2s").expect(t, 0)
	first := execute(t, "plan", "--config", config, "--capture", dir, "-o", "json")
	second := execute(t, "plan", "--config", config, "--capture", dir, "-o", "json")
	first.expect(t, 0)
	strip := func(text string) string {
		var lines []string
		for line := range strings.Lines(text) {
			if !strings.Contains(line, `"wall_s"`) {
				lines = append(lines, line)
			}
		}
		return strings.Join(lines, "")
	}
	if strip(first.stdout) != strip(second.stdout) {
		t.Error("two plans of one capture differ")
	}
	p, err := plan.Read(strings.NewReader(first.stdout))
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Moves) == 0 || p.Snapshot.Samples != 2 {
		t.Errorf("%d moves of %d samples", len(p.Moves), p.Snapshot.Samples)
	}
}

// TestRelease gives back what a daemon that died has left.
func TestRelease(t *testing.T) {
	virtual := lopsided(t, sim.Config{})
	url := serve(t, virtual, sim.Options{Speed: 60})
	got := execute(t, "release", "--address", url)
	if got.code != 0 || !strings.Contains(got.stdout, "no ownership record") {
		t.Errorf("nothing to release: %d %s %s", got.code, got.stdout, got.stderr)
	}
}
