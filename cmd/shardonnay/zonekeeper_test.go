package main

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/shardonnay/shardonnay/internal/config"
	"github.com/shardonnay/shardonnay/internal/history"
	"github.com/shardonnay/shardonnay/internal/metrics"
	"github.com/shardonnay/shardonnay/internal/plan"
	"github.com/shardonnay/shardonnay/internal/rebalance"
	"github.com/shardonnay/shardonnay/internal/sim"
	"github.com/shardonnay/shardonnay/internal/zones"
)

// TestA28UnsupportedProducts: where a product cannot be steered, mode act of the zones says why and only looks; the
// optimiser moves what is worth moving all the same.
func TestA28UnsupportedProducts(t *testing.T) {
	for _, product := range []sim.Config{
		{Distribution: "opensearch", Version: "2.5.0"}, {Distribution: "elasticsearch", Version: "8.17.1"},
	} {
		t.Run(product.Distribution+" "+product.Version, func(t *testing.T) {
			virtual := lopsided(t, product)
			c := config.Default()
			c.Connection.Addresses = []string{serve(t, virtual, sim.Options{Speed: 60})}
			c.Mode, c.Zones.Mode, c.Zones.Round = plan.Act, "act", time.Second
			c.Cycle.Interval, c.Cycle.Jitter, c.Cycle.Deadline = time.Second, 0, 20*time.Second
			c.Pin.Newest, c.Pin.WriteShare, c.Stop.NodeSettle = false, 0, 0
			c.Solver.TimeLimit, c.State.Dir = 2*time.Second, t.TempDir()
			s, err := connect(t.Context(), &c)
			if err != nil {
				t.Fatal(err)
			}
			defer s.close()
			core, logged := observer.New(zapcore.InfoLevel)
			d, err := newDaemon(s, func() *config.Config { return &c }, history.New(), "", zap.New(core), nil)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			observe := d.loop.Observe
			var outcomes []rebalance.Outcome
			d.loop.Observe = func(summary *rebalance.Summary) {
				observe(summary)
				if outcomes = append(outcomes, summary.Outcome); summary.Outcome == rebalance.Moved {
					cancel()
				}
			}
			if err := d.run(ctx); err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(outcomes, rebalance.Moved) {
				t.Errorf("nothing was moved: %v", outcomes)
			}
			status := d.zones.Status()
			if status == nil || !strings.Contains(status.Unsupported, product.Version) || status.Busy() != "" {
				t.Fatalf("the status is %+v", status)
			}
			said := 0
			for _, line := range logged.FilterMessage("zones").All() {
				if line.ContextMap()["event"] == "unsupported" {
					said++
				}
			}
			if said != 1 {
				t.Errorf("the reason was logged %d times", said)
			}
			for _, key := range []string{"zones_owner", "zones_order"} {
				if record := virtual.Setting("cluster.metadata.shardonnay." + key); record != "" {
					t.Errorf("%s was written: %s", key, record)
				}
			}
		})
	}
}

// TestA8A14Figures: that it may be the daemon that is cut off is a figure, and so is how long a zone took to come back.
func TestA8A14Figures(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	k := &zoneKeeper{metrics: metrics.New(registry), log: zap.NewNop(), said: map[string]string{}}
	figure := func(name string) float64 {
		t.Helper()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == name && len(f.GetMetric()) == 1 {
				return f.GetMetric()[0].GetGauge().GetValue()
			}
		}
		t.Fatalf("there is no %s", name)
		return 0
	}
	for _, isolated := range []string{"", "no node answers", ""} {
		k.observe(&zones.Status{Mode: zones.Act, Isolated: isolated})
		if got := figure("shardonnay_zone_isolated"); got != map[bool]float64{true: 1}[isolated != ""] {
			t.Errorf("isolated %q is shown as %g", isolated, got)
		}
	}
	let := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	joined, whole := let.Add(121*time.Second), let.Add(200*time.Second)
	k.observe(&zones.Status{At: let, Mode: zones.Act, Write: zones.Rejoining, Leaving: &zones.Leaving{Zone: "a", Returning: let}})
	back := &zones.Leaving{Zone: "a", Returning: let, Joined: joined}
	k.observe(&zones.Status{At: joined, Mode: zones.Act, Write: zones.Recovering, Leaving: back, Notes: []zones.Note{{Event: "rejoined", Zone: "a"}}})
	k.observe(&zones.Status{At: whole, Mode: zones.Act, Write: zones.Idle, Notes: []zones.Note{{Event: "recovered", Zone: "a"}}})
	rejoin, recovery := figure("shardonnay_zone_rejoin_duration_seconds"), figure("shardonnay_zone_recovery_duration_seconds")
	if rejoin != 121 || recovery != 79 {
		t.Errorf("its nodes were back after %g s, its copies %g s after them", rejoin, recovery)
	}
}
