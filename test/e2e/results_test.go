package e2e

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/shardonnay/shardonnay/internal/plan"
	"github.com/shardonnay/shardonnay/test/realcluster"
	"github.com/shardonnay/shardonnay/test/traffic"
)

var (
	results     = flag.Bool("results", false, "measure for longer and write the table of docs/results.md")
	resultsTime = flag.Duration("results-time", 2*time.Minute, "how long the server's own balancer and the daemon have, each")
)

const resultsFile = "../../docs/results.md"

// figures is one measurement of a cluster under traffic.
type figures struct{ search, busy, index, disk float64 }

func figuresOf(l traffic.Load) figures {
	return figures{traffic.PeakToMean(l.Search), traffic.PeakToMean(l.SearchBusy), traffic.PeakToMean(l.Index), traffic.PeakToMean(l.Disk)}
}

// TestResults gives the server's own balancer and then the daemon the same time under the same traffic, and writes what
// came of it. It only runs when asked for: it takes a quarter of an hour.
func TestResults(t *testing.T) {
	if !*results {
		t.Skip("make results runs this")
	}
	const window = 15 * time.Second
	var rows []string
	realcluster.ForEach(t, func(t *testing.T, p realcluster.Product) {
		ctx, cancel := context.WithTimeout(t.Context(), 4**resultsTime+5*time.Minute)
		defer cancel()
		c := realcluster.Shared(t, p)
		w, err := traffic.Build(ctx, c, 1)
		if err != nil {
			t.Fatal(err)
		}
		stop := w.Start()
		first := measure(ctx, t, w, window)
		settle(ctx, t, *resultsTime) // the server's own rebalancing is on all the while
		servers := measure(ctx, t, w, window)

		d := startDaemon(t, heatConfig(t, c, w))
		settle(ctx, t, *resultsTime)
		moves, moved, even := 0, int64(0), 0
		d.pause(t)
		last := measure(ctx, t, w, window)
		before, own, after := figuresOf(w.Reweigh(first)), figuresOf(w.Reweigh(servers)), figuresOf(last) // all by the same costs
		d.mu.Lock()
		for _, line := range d.lines {
			if line.Message == "move ended" && line.State == "landed" {
				moves, moved = moves+1, moved+line.Bytes
			}
		}
		d.mu.Unlock()
		for i, outcome := range d.cycles() {
			if outcome == "moved" {
				even = i
			}
		}
		_, body := d.get(t, "/api/v1/plan")
		var planned plan.Plan
		if err := json.Unmarshal(body, &planned); err != nil {
			t.Fatal(err)
		}
		if code := d.stop(t); code != 0 {
			t.Errorf("the daemon ended with %d", code)
		}
		totals := stop()
		indices, copies := count(t, c)
		rows = append(rows, fmt.Sprintf("| %s | %d / %d | %.2f (%.2f) | %.2f (%.2f) | **%.2f** (%.2f) | %.2f → %.2f | %.2f → %.2f | %d | %.1f MiB | %d | %.4f | %d of %d |",
			p.Name(), indices, copies, before.search, before.busy, own.search, own.busy, after.search, after.busy, before.index, after.index,
			before.disk, after.disk, moves, float64(moved)/(1<<20), even, planned.Objective.Gap, totals.FailedSearches, totals.Searches))
		t.Log(rows[len(rows)-1])
	})
	table := fmt.Sprintf("`make results`, %s, %d cores, %s each for the server's own balancer and for the daemon.\n\n", time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), *resultsTime) +
		"| product | indices / copies | at first: search (busy time) | server's own balancer | Shardonnay | indexing | disk | moves | moved | last cycle that moved | gap at the end | failed searches |\n" +
		"| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n" + strings.Join(rows, "\n") + "\n"
	if err := writeBetween(resultsFile, "results", table); err != nil {
		t.Fatal(err)
	}
}

// settle lets time pass.
func settle(ctx context.Context, t *testing.T, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		t.Fatal(ctx.Err())
	}
}

// writeBetween replaces what stands between the markers of that name in a page.
func writeBetween(path, name, text string) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	begin, end := "<!-- "+name+":begin -->\n", "<!-- "+name+":end -->"
	before, rest, found := strings.Cut(string(page), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		return fmt.Errorf("%s has no markers %q and %q", path, begin, end)
	}
	return os.WriteFile(path, []byte(before+begin+text+end+after), 0o644)
}
