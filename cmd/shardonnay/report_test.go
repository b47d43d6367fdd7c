package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shardonnay/shardonnay/internal/dispersion"
	"github.com/shardonnay/shardonnay/internal/sim"
)

// block is the first block of code on docs/regions.md that begins so.
func block(t *testing.T, begins string) string { return blockOf(t, "regions.md", begins) }

// blockOf is the same of any page.
func blockOf(t *testing.T, name, begins string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	for i, part := range strings.Split(string(page), "```") {
		if text := strings.TrimPrefix(strings.TrimPrefix(part, "yaml"), "\n"); i%2 == 1 && strings.HasPrefix(text, begins) {
			return text
		}
	}
	t.Fatalf("docs/%s has no block that begins with %q", name, begins)
	return ""
}

// travel is the page's cluster.
func travel(t *testing.T) (virtual *sim.Cluster) {
	t.Helper()
	scenario, err := sim.ParseScenario("docs/regions.md", strings.NewReader(block(t, "cluster opensearch")+"daemon\n"))
	if err != nil {
		t.Fatal(err)
	}
	enough := errors.New("it is there")
	_, err = scenario.Run(t.Context(), sim.RunOptions{Start: func(_ context.Context, c *sim.Cluster, _ string) (sim.Daemon, error) {
		virtual = c
		return nil, enough
	}})
	if !errors.Is(err, enough) {
		t.Fatal(err)
	}
	return virtual
}

// The page's cluster, configuration and report are what the program makes of them, live and from a capture; a layout that
// the server would undo is refused, and so is a report without regions.
func TestReportDispersion(t *testing.T) {
	virtual := travel(t)
	address := serve(t, virtual, sim.Options{})
	config := file(t, "shardonnay.yaml", block(t, "cycle:")+"solver: {work_limit: 200000}\n")
	r := execute(t, "report", "dispersion", "--config", config, "--address", address)
	r.expect(t, 0, "")
	if want := block(t, "Dispersion of travel"); !strings.HasPrefix(r.stdout, strings.Split(want, "\nnode furthest")[0]) {
		t.Errorf("the page shows\n%s\nand it is\n%s", want, r.stdout)
	}
	captured := filepath.Join(t.TempDir(), "capture")
	execute(t, "capture", captured, "--address", address).expect(t, 0)
	r = execute(t, "report", "dispersion", "--config", config, "--capture", captured, "-o", "json")
	r.expect(t, 0)
	var report dispersion.Report
	if err := json.Unmarshal([]byte(r.stdout), &report); err != nil {
		t.Fatal(err)
	}
	if report.Dispersion.Now != 5.0/48 || report.Dispersion.Target != 0 || report.Missing["us"].Now != 3 || len(report.Outside) != 10 {
		t.Errorf("%+v", report)
	}
	r = execute(t, "report", "dispersion", "--config", config, "--capture", captured, "-v")
	r.expect(t, 0)
	for _, want := range []string{"eu/eu-a/10.0.0.1", "0: 10, 1: 8", "archive/0   region  us"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("-v does not show %q:\n%s", want, r.stdout)
		}
	}
	execute(t, "report", "dispersion", "--capture", captured).expect(t, 2, "regions.attribute is not set")

	if err := virtual.SetPersistent(map[string]string{"cluster.routing.allocation.awareness.attributes": "zone,region"}); err != nil {
		t.Fatal(err)
	}
	layout := file(t, "layout.yaml", block(t, "regions:\n  attribute: region\n  layout:"))
	execute(t, "report", "dispersion", "--config", layout, "--address", address).expect(t, 2,
		"index bookings: its 3 copies are to be 3+0, 3 of them in region eu, but the server's awareness of region lets each value have 2 at most")
}

// The daemon brings the page's cluster to where its copies should be, all floors at once though every tenth cycle alone lets
// copies cross.
func TestRegionsInTheSimulator(t *testing.T) {
	story := file(t, "regions.txt", block(t, "cluster opensearch")+"daemon interval=1m\nrun 8m\nassert landed == 5\nassert unassigned == 0\n")
	config := file(t, "shardonnay.yaml", "regions: {attribute: region}\nsolver: {work_limit: 200000}\n")
	execute(t, "simulate", story, "--config", config).expect(t, 0)
}
