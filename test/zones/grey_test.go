package zones

import (
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardonnay/shardonnay/internal/zones"
	"github.com/shardonnay/shardonnay/test/realcluster"
)

// heldBack is by how much what comes to the nodes of a grey zone is late: more than a probe waits (2 s), and less than the
// cluster does before it calls a node gone (5 s as advised), so that nobody is ever missing.
const heldBack = 2500 * time.Millisecond

// fault is in what way a zone is grey.
type fault struct {
	clients bool // what comes from clients is late too, and not only what comes from other nodes
	leads   bool // the cluster is led from there
}

func (f fault) String() string {
	who, from := "late for the other nodes", ", led from another"
	if f.clients {
		who = "late for everybody"
	}
	if f.leads {
		from = ", the one that leads"
	}
	return who + from
}

// greyZone is late for everybody on one product and for the other nodes alone on the other; -results plays all ways on both.
func greyZone(_ *testing.T, b *bed) { b.grey(fault{clients: b.Product == realcluster.OpenSearch2}) }

// grey lets a zone become grey: its nodes are there, and every write waits for them. Searches leave it; it is asked whether it
// may be taken out, and nothing done; told to do so by itself, the controller takes it out under writes, and once the fault is
// gone lets it back.
func (b *bed) grey(f fault) (left, asked, out, back time.Duration) {
	t, zone := b.t, ""
	if f.leads {
		zone = b.leadServes()
	} else {
		zone = b.servingWithoutLeader()
	}
	next := b.standby()
	b.must(b.CreateIndex(t.Context(), realcluster.Index{Name: "canary", Replicas: 2}))
	b.must(b.WaitGreen(t.Context()))
	var auto atomic.Bool
	r := b.run(func() zones.Config {
		config := quickly(zones.Act)
		config.Canary = "canary"
		if b.pace > 0 {
			config.Round = b.pace
		}
		if auto.Load() {
			config.Writes = zones.Auto
		}
		return config
	}, "")
	defer r.stop()
	r.healthy()
	w, s := b.index("written"), b.search(2, 20*time.Millisecond)

	// Searches leave it. Nobody is missing, and the other zones are well.
	began := time.Now()
	if b.holdBack(zone, 0, heldBack); f.clients {
		b.holdBack(zone, heldBack, heldBack)
	}
	present := func(s *zones.Status) {
		for _, z := range s.Zones {
			if z.Nodes < z.Members || slices.Contains(z.Health.Seen, zones.Missing) || z.Zone != zone && !z.Health.Healthy() {
				t.Errorf("zone %s has %d of %d nodes, and what is seen of it is %v", z.Zone, z.Nodes, z.Members, z.Health.Seen)
			}
		}
	}
	r.until("failover", 2*goal, func(s *zones.Status) bool { present(s); return s.Phase == zones.NoStandby })
	left = tenths(began)
	client := b.client(zone) // a grey leader is the last to apply what it publishes
	state, err := client.ZoneState(t.Context(), true)
	b.must(errors.Join(err, client.Close()))
	if weights := state.Weights.Values; weights[zone] != 0 || weights[next] != 1 || left > goal {
		t.Errorf("weights %v after %s", weights, left)
	}
	s.cutoff.Store(time.Now().UnixNano())
	s.wait(s.done.Load() + 2) // what was sent to the zone before may still wait for it
	searched, quick := s.done.Load(), time.Now()
	s.wait(searched + 50)
	if took := time.Since(quick); took > goal/2 {
		t.Errorf("50 searches take %s after the failover", took)
	}
	s.stop()
	if s.late.Load() > 0 {
		t.Errorf("%d searches failed after the failover: %s", s.late.Load(), s.first)
	}

	// Writes wait for it. Without a person's word that is all that is done.
	slow, since := w.done.Load(), time.Now()
	asking := r.until("asked", 2*goal, func(s *zones.Status) bool {
		present(s)
		return slices.ContainsFunc(s.Blocked, func(c zones.Check) bool { return c.Guard == zones.GuardApproval })
	})
	asked = tenths(began)
	z, _ := asking.Zone(zone)
	want := []zones.Signal{zones.Silent, zones.WriteTest}
	if f.clients {
		want = []zones.Signal{zones.Probe, zones.Silent, zones.SearchTest, zones.WriteTest}
	}
	if !slices.Equal(z.Health.Bad, want) {
		t.Errorf("zone %s is judged by %v", zone, z.Health.Bad)
	}
	looks := r.looked()
	r.until("some looks more", goal, func(s *zones.Status) bool { present(s); return r.looked() > looks+1 })
	rate := float64(w.done.Load()-slow) / time.Since(since).Seconds()
	if state := b.state(); asked < goal || r.count("drain") > 0 || state.Decommission.Value != "" {
		t.Errorf("asked after %s, %d drains, decommission %v", asked, r.count("drain"), state.Decommission)
	}

	// With it the zone leaves.
	auto.Store(true)
	told := time.Now()
	r.until("out", 4*goal, func(s *zones.Status) bool { return s.Write == zones.Gone })
	out = tenths(told)
	b.out = zone
	if want := []string{"drain", "decommission", "out"}; !slices.Equal(r.order(want), want) {
		t.Errorf("the order was %v", r.order(want))
	}
	free, since := w.done.Load(), time.Now()
	b.eventually("100 writes", func() bool { return w.done.Load() > free+100 })
	again := 100 / time.Since(since).Seconds()
	t.Logf("writes a second while the zone was grey: %.1f, while it is out: %.1f", rate, again)
	if again < 3*rate {
		t.Error("it was not the zone that held writes up")
	}
	if f.clients { // who does not answer does not come back
		looks = r.looked()
		r.until("some looks more", goal, func(s *zones.Status) bool {
			return r.looked() > looks && time.Since(since) > 2*quickly(zones.Act).Stable
		})
		if r.count("recommission") > 0 {
			t.Error("it was let back while it was grey")
		}
	}

	// And without the fault it comes back by itself.
	b.holdBack(zone, 0, 0)
	mended := time.Now()
	r.until("a standby again", 3*goal, steady)
	back = tenths(mended)
	b.out = ""
	w.stop()
	t.Logf("%d of %d writes failed: %s", w.failed.Load(), w.done.Load(), w.first)
	b.complete("written", w.acknowledged())
	b.must(b.WaitGreen(t.Context()))
	end, weights := b.state(), map[string]float64{"a": 1, "b": 1, "c": 1}
	weights[zone] = 0
	if !maps.Equal(end.Weights.Values, weights) || end.Decommission.Value != "" || len(end.Exclusions) > 0 || len(end.Voters) != 3 {
		t.Errorf("left behind: %+v", end)
	}
	if r.count("order") > 0 || r.count("recommission") != 1 {
		t.Errorf("%d orders, let back %d times", r.count("order"), r.count("recommission"))
	}
	for _, index := range []string{"written", "canary"} {
		b.must(b.Delete(t.Context(), "/"+index, nil))
	}
	t.Logf("%s: searches had left after %s, asked after %s, out %s after it was told to, a standby again %s after the fault had gone", f, left, asked, out, back)
	return left, asked, out, back
}

// tenths is the time since then.
func tenths(since time.Time) time.Duration { return time.Since(since).Round(100 * time.Millisecond) }

// holdBack lets what comes to a zone's nodes from clients, and from other nodes, be late.
func (b *bed) holdBack(zone string, clients, nodes time.Duration) {
	b.t.Helper()
	for _, i := range b.in(zone) {
		b.must(b.HoldBack(i, clients, nodes))
	}
}
