package zones

import (
	"maps"
	"testing"
	"time"

	"github.com/shardonnay/shardonnay/internal/zones"
	"github.com/shardonnay/shardonnay/test/realcluster"
)

// TestA1FirstWeights: without weights the controller writes the first ones, and the standby gets no searches.
func TestScenarios(t *testing.T) {
	opensearch(t, func(t *testing.T, p realcluster.Product) {
		b := newBed(t, p)
		config := quickly(zones.Act)
		r := b.run(func() zones.Config { return config }, "")
		r.until("first weights", time.Minute, func(s *zones.Status) bool { return s.Phase == zones.Steady })
		weights, version := b.weights()
		if version != 0 || !maps.Equal(weights, map[string]float64{"a": 1, "b": 1, "c": 0}) {
			t.Fatalf("weights %v at version %d", weights, version)
		}
		before := b.queries()
		s := b.search(4, 0)
		for s.done.Load() < 300 {
			time.Sleep(10 * time.Millisecond)
		}
		s.stop()
		after := b.queries()
		t.Logf("%d searches, %d failed (%s): %v %v", s.done.Load(), s.failed.Load(), s.first, before, after)
		// A4
		load := b.search(2, 20*time.Millisecond)
		began := time.Now()
		for _, i := range b.in("a") {
			b.must(b.Kill(i))
		}
		r.until("failover", time.Minute, func(s *zones.Status) bool { return s.Phase == zones.NoStandby })
		t.Logf("failover after %s: %d searches, %d failed (%s)", time.Since(began), load.done.Load(), load.failed.Load(), load.first)
		w, v := b.weights()
		t.Log(w, v)
		for _, i := range b.in("a") {
			b.must(b.Restart(t.Context(), i))
		}
		r.until("standby again", time.Minute, func(s *zones.Status) bool { return s.Phase == zones.Steady })
		load.stop()
		t.Logf("%d searches, %d failed (%s)", load.done.Load(), load.failed.Load(), load.first)
	})
}
