package sim

import (
	"context"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"
)

// TestDemoIsHotAndCurable holds the demonstration cluster to what it is for: level by count and legal, hot by load, no
// copy too heavy, and soon evened out by somebody who only moves what is not being written to.
func TestDemoIsHotAndCurable(t *testing.T) {
	for seed := uint64(1); seed <= 5; seed++ {
		c := Demo(seed)
		if why := inconsistency(c); why != "" {
			t.Fatalf("seed %d: %s", seed, why)
		}
		loads, b := c.Loads(), c.Balance("search")
		if b.PeakToMean < 2.6 || b.PeakToMean > 3.2 {
			t.Errorf("seed %d: peak/mean of search is %.2f", seed, b.PeakToMean)
		}
		least, most, copies, total := 1<<30, 0, 0, 0.0
		for _, l := range loads {
			least, most, copies, total = min(least, l.Copies), max(most, l.Copies), copies+l.Copies, total+l.Search
		}
		if n := c.Counts(); len(loads) != 30 || n.Started != copies || copies < 900 || copies > 1500 || most-least > 2 {
			t.Errorf("seed %d: %d nodes, %+v, %d to %d copies a node", seed, len(loads), n, least, most)
		}
		for s := range c.allCopies {
			if share := s.group.search / float64(s.group.serving) / (total / 30); share > 0.5 {
				t.Errorf("seed %d: %s alone is %.2f of a node's fair share", seed, s.label(), share)
			}
			if ok, why := c.canRemain(s); !ok {
				t.Errorf("seed %d: %s may not remain: %s", seed, s.label(), why)
			}
		}
		before := c.Tally()
		c.Advance(time.Hour)
		if after := c.Tally(); after != before {
			t.Errorf("seed %d: the built-in balancer is not content: %+v", seed, after)
		}
		moves := descend(t, c, 1.08)
		if b := c.Balance("search"); b.PeakToMean > 1.08 || moves > 120 {
			t.Errorf("seed %d: %d moves lead to %.3f", seed, moves, b.PeakToMean)
		}
		if disk := c.Balance("disk"); disk.PeakToMean > 1.25 {
			t.Errorf("seed %d: disks end at %.2f", seed, disk.PeakToMean)
		}
	}
}

// descend takes the best move off the hottest node, again and again, as legal as moves are, and lets it land at once.
func descend(t *testing.T, c *Cluster, goal float64) int {
	for moves := 0; ; moves++ {
		b := c.Balance("search")
		if b.PeakToMean <= goal || moves > 400 {
			return moves
		}
		search := map[string]float64{}
		for _, l := range c.Loads() {
			search[l.Name] = l.Search
		}
		c.mu.Lock()
		from, gain := c.node(b.Hottest), 0.0
		var best *shardCopy
		var to *node
		for _, s := range from.copies {
			if s.group.idx.written() {
				continue
			}
			x := s.group.search / float64(s.group.serving)
			for _, n := range c.nodes {
				if g := x * (search[from.spec.Name] - search[n.spec.Name] - x); g > gain && c.canAllocate(s, n) != no {
					gain, best, to = g, s, n
				}
			}
		}
		if best == nil {
			c.mu.Unlock()
			return moves
		}
		c.instant = true
		c.relocate(best, to, true)
		c.instant = false
		c.mu.Unlock()
	}
}

// TestToyCoolsTheDemo drives the demonstration cluster over HTTP with a small rebalancer, under virtual time.
func TestToyCoolsTheDemo(t *testing.T) {
	_, report := play(t, "demo", `
		demo seed=1
		assert peak_to_mean search >= 2.5
		set cluster.routing.use_adaptive_replica_selection=false
		daemon interval=1m
		run 45m
		assert peak_to_mean search <= 1.15
		assert unassigned == 0
		assert returned == 0
		assert cycle_errors == 0
		assert moves <= 150
		daemon stop
		assert setting cluster.routing.rebalance.enable == all
	`, RunOptions{Start: func(_ context.Context, c *Cluster, addr string) (Daemon, error) { return newToy(c, addr), nil }})
	if !report.OK() {
		t.Error(report.Failed, report.Errors)
	}
	t.Logf("%d cycles, %+v", report.Cycles, report.Tally)
}

// TestSameSeedSameCluster: everything there is to see of two clusters made alike is alike, to the byte.
func TestSameSeedSameCluster(t *testing.T) {
	look := func() string {
		c := Demo(42)
		c.Advance(90 * time.Minute)
		c.Kill("data-a01")
		c.Advance(20 * time.Minute)
		out := FormatLoads(c.Loads())
		for _, path := range []string{"/_cluster/state", "/_nodes/stats?level=shards", "/_recovery", "/_cat/shards?format=json"} {
			rec := httptest.NewRecorder()
			c.Handler().ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), "GET", path, nil))
			out += rec.Body.String()
		}
		return out
	}
	if first, second := look(), look(); first != second {
		for i := range first {
			if first[i] != second[i] {
				t.Fatalf("they differ after %d bytes: ...%s\n...%s", i, first[max(0, i-200):i+100], second[max(0, i-200):i+100])
			}
		}
	}
	if fmt.Sprint(Demo(1).Loads()) == fmt.Sprint(Demo(2).Loads()) {
		t.Error("another seed makes the same cluster")
	}
}
