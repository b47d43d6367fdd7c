package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardonnay/shardonnay/test/realcluster"
	"github.com/shardonnay/shardonnay/test/traffic"
)

const (
	rebalanceSetting = "cluster.routing.rebalance.enable"
	rebalanceKey     = "persistent." + rebalanceSetting // as the cluster's settings are listed here
)

// goal is the peak over mean at which a load counts as even on a test cluster.
const goal = 1.15

// mostCycles is within how many cycles the load has to be even, counted from the first that moves something.
const mostCycles = 10

// sampling allows for what two short windows of steady traffic differ by: a few hundred writes in each.
const sampling = 1.10

// heatConfig is the configuration for a cluster under traffic. Indices that are written to stay where they are, as the
// default has it for the newest of each series; the test's have no series.
func heatConfig(t *testing.T, c *realcluster.Cluster, w *traffic.Workload) settings {
	t.Helper()
	return fast(c, "act", t.TempDir()).withToken(t).with("pin", settings{"indices": w.Written})
}

// token lets the tests pause a daemon.
const token = "e2e-token"

// withToken lets pause and resume be asked for.
func (s settings) withToken(t *testing.T) settings {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	return s.with("http", settings{"token_file": file})
}

// pause stops the daemon from moving further, and returns when the cycle under way has ended.
func (d *daemon) pause(t *testing.T) {
	t.Helper()
	request, err := http.NewRequest(http.MethodPost, d.url+"/api/v1/pause", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("pause: %s", answer.Status)
	}
	// The cycle under way may still move; one that does not, or starts later, leaves all as it is.
	if _, ok := d.awaitFrom(d.position(), time.Minute, func(l logLine) bool { return l.Message == "cycle" && l.Outcome != "moved" }); !ok {
		t.Fatal("no cycle ended after the pause")
	}
}

// TestHeatEvensOut is what the program is for: real searches heat some nodes, the daemon cools them, and afterwards the
// cluster is as it was, only even.
func TestHeatEvensOut(t *testing.T) {
	realcluster.ForEach(t, func(t *testing.T, p realcluster.Product) {
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
		defer cancel()
		c := realcluster.Shared(t, p)
		w, err := traffic.Build(ctx, c, 1)
		if err != nil {
			t.Fatal(err)
		}
		indices, copies := count(t, c)
		if indices < 40 || copies < 200 {
			t.Fatalf("%d indices and %d copies, the test wants at least 40 and 200", indices, copies)
		}
		stop := w.Start()
		stopped := false
		defer func() {
			if !stopped {
				stop()
			}
		}()
		settingBefore := setting(t, c, rebalanceKey)
		before := measure(ctx, t, w, 6*time.Second)
		t.Logf("before: %s; by queries alone, in the long run, %.2f", before, expected(ctx, t, c, w))
		if peak := traffic.PeakToMean(before.Search); peak < 1.8 {
			t.Fatalf("search peak/mean is %.2f before, the test wants at least 1.8", peak)
		}

		learned := learnCosts(ctx, t, w)
		d := startDaemon(t, heatConfig(t, c, w))
		t.Logf("cycles: %s", strings.Join(d.cyclesFrom(t, mostCycles), " "))
		d.pause(t)
		learned()
		mark, err := w.Mark(ctx)
		if err != nil {
			t.Fatal(err)
		}
		after := measure(ctx, t, w, 12*time.Second)
		t.Logf("after:  %s; by queries alone, in the long run, %.2f", after, expected(ctx, t, c, w))
		if len(after.Changed) > 0 {
			t.Errorf("copies changed while nothing should move: %v", after.Changed)
		}

		released := d.position()
		if code := d.stop(t); code != 0 {
			t.Errorf("the daemon ended with %d", code)
		}
		given, ok := d.awaitFrom(released, time.Second, func(l logLine) bool { return l.Message == "rebalancing given back" })
		if !ok {
			t.Error("the daemon did not say that it gave rebalancing back")
		}
		if got := setting(t, c, rebalanceKey); got != settingBefore {
			t.Errorf("%s is %q, it was %q before", rebalanceKey, got, settingBefore)
		}
		// While all stays put, the fresh window goes on: where a server deals searches to copies at random, as Elasticsearch 7 does,
		// a hot copy's share of twelve seconds is off by a tenth.
		last := mark
		staysPut(ctx, t, c, given.Returns, func() {
			if now, err := w.Mark(ctx); err != nil {
				t.Fatal(err)
			} else if w.SameCopies(mark, now) {
				last = now
			}
		})
		if longer := w.Between(mark, last); longer.Window > after.Window {
			t.Logf("and on: %s", longer)
			after = longer
		}
		if peak := traffic.PeakToMean(after.Search); peak > goal {
			t.Errorf("search peak/mean is %.2f after, the test wants at most %.2f", peak, goal)
		}
		// No worse than at the start by the same costs, or as even as search is asked to be: a level cluster need not stay exactly so.
		before = w.Reweigh(before)
		noWorse(t, "index", before.Index, after.Index)
		noWorse(t, "disk", before.Disk, after.Disk)

		totals := stop()
		stopped = true
		if totals.FailedSearches > 0 {
			t.Errorf("%d of %d searches failed: %v", totals.FailedSearches, totals.Searches, totals.FirstError)
		}
		nothingLost(ctx, t, c, totals)
	})
}

// cyclesFrom waits until so many cycles have ended from the first that moved on, and gives the outcomes of all. Later
// cycles know the load better than the first, and settle what was within the noise then.
func (d *daemon) cyclesFrom(t *testing.T, n int) []string {
	t.Helper()
	for {
		seen := d.position()
		outcomes := d.cycles()
		started := slices.Index(outcomes, "moved")
		if started >= 0 && len(outcomes)-started >= n {
			return outcomes
		}
		if started < 0 && len(outcomes) > n {
			t.Fatalf("the daemon does not come to move: %v", outcomes)
		}
		if _, ok := d.awaitFrom(seen, time.Minute, func(l logLine) bool { return l.Message == "cycle" }); !ok {
			t.Fatalf("no cycle ended for a minute; so far %v", outcomes)
		}
	}
}

// learnCosts measures on and on until it is told to end, so that what a query of each index costs is well known by then.
func learnCosts(ctx context.Context, t *testing.T, w *traffic.Workload) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		var err error
		for err == nil {
			_, err = w.Measure(ctx, 4*time.Second)
		}
		if ctx.Err() != nil {
			err = nil
		}
		done <- err
	}()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func measure(ctx context.Context, t *testing.T, w *traffic.Workload, window time.Duration) traffic.Load {
	t.Helper()
	load, err := w.Measure(ctx, window)
	if err != nil {
		t.Fatal(err)
	}
	return load
}

// expected is the peak over mean of queries per node that the traffic comes to in the long run with the copies where they
// are.
func expected(ctx context.Context, t *testing.T, c *realcluster.Cluster, w *traffic.Workload) float64 {
	t.Helper()
	copies, err := c.Copies(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return traffic.PeakToMean(w.ExpectedSearch(copies))
}

func noWorse(t *testing.T, what string, before, after []float64) {
	t.Helper()
	was, is := traffic.PeakToMean(before), traffic.PeakToMean(after)
	if is > max(was*sampling, goal) {
		t.Errorf("%s peak/mean went from %.3f to %.3f", what, was, is)
	}
}

func count(t *testing.T, c *realcluster.Cluster) (indices, copies int) {
	t.Helper()
	all, err := c.Copies(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string]bool)
	for _, k := range all {
		names[k.Index] = true
	}
	return len(names), len(all)
}

func setting(t *testing.T, c *realcluster.Cluster, key string) string {
	t.Helper()
	all, err := c.Settings(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all[key]
}

// staysPut watches for half a minute that no copy moves, but those that giving back has named. It calls look time and again.
func staysPut(ctx context.Context, t *testing.T, c *realcluster.Cluster, named []string, look func()) {
	t.Helper()
	place := func() map[string]string {
		all, err := c.Copies(ctx)
		if err != nil {
			t.Fatal(err)
		}
		at := make(map[string]string)
		for _, k := range all {
			if k.State != "STARTED" && k.State != "RELOCATING" {
				t.Errorf("%s/%d on %s is %s", k.Index, k.Shard, k.Node, k.State)
			}
			node := k.Node
			if k.RelocatingTo != "" {
				node = k.RelocatingTo
			}
			at[fmt.Sprintf("%s/%d %t %s", k.Index, k.Shard, k.Primary, node)] = fmt.Sprintf("%s/%d", k.Index, k.Shard)
		}
		return at
	}
	before := place()
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	ticker := time.NewTicker(2 * time.Second)
	defer ticker.Stop()
	moved := make(map[string]bool)
	for watching := true; watching; {
		select {
		case <-deadline.C:
			watching = false
		case <-ticker.C:
		}
		look()
		now := place()
		for where, shard := range before {
			if _, still := now[where]; !still {
				moved[shard] = true
			}
		}
	}
	for shard := range moved {
		if !slices.Contains(named, shard) {
			t.Errorf("%s moved after rebalancing was given back, and giving back had not said so", shard)
		}
	}
	t.Logf("%d copies moved in the half minute after giving back, of %d named", len(moved), len(named))
}

// nothingLost counts the documents of every index against those that were acknowledged.
func nothingLost(ctx context.Context, t *testing.T, c *realcluster.Cluster, totals traffic.Totals) {
	t.Helper()
	if err := c.WaitGreen(ctx); err != nil {
		t.Error(err)
	}
	for index, want := range totals.Docs {
		got, err := c.DocCount(ctx, index)
		if err != nil {
			t.Error(err)
		} else if got < want || got > want+totals.Uncertain[index] {
			t.Errorf("%s has %d documents, %d were acknowledged (and %d may be)", index, got, want, totals.Uncertain[index])
		}
	}
}
