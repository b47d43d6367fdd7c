package zones

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardonnay/shardonnay/internal/es"
	"github.com/shardonnay/shardonnay/internal/zones"
	"github.com/shardonnay/shardonnay/test/realcluster"
)

// The weights in which two zones serve and one stands by.
var (
	standbyA = map[string]float64{"a": 0, "b": 1, "c": 1}
	standbyB = map[string]float64{"a": 1, "b": 0, "c": 1}
	standbyC = map[string]float64{"a": 1, "b": 1, "c": 0}
)

// goal is how long a failover of searches may take from the first bad signal.
const goal = time.Minute

// TestScenarios plays the acceptance scenarios for real clusters, one after the other on one cluster: each begins and ends
// with two zones serving and one standing by.
func TestScenarios(t *testing.T) {
	opensearch(t, func(t *testing.T, p realcluster.Product) {
		b := newBed(t, p)
		for _, scenario := range []struct {
			name string
			play func(t *testing.T, b *bed)
		}{
			{"A1_first_weights", firstWeights},
			{"A18_a_dry_run_sends_nothing", dryRun},
			{"canaries_prove_every_zone", canaries},
			{"A2_every_zone_stands_by_in_turn", rotations},
			{"A3_searches_fail_open", failOpen},
			{"A4_a_killed_zone_fails_over", killedZone},
			{"A5_a_frozen_zone_fails_over", frozenZone},
			{"A6_a_frozen_zone_that_leads_fails_over", frozenLeader},
			{"A7_half_a_zone_is_no_failure", halfZone},
			{"A9_what_a_person_changes_stays", foreignWeights},
			{"A11_the_only_copy_is_not_taken_out", onlyCopy},
			{"A12_A13_A14_A19_a_zone_leaves_and_comes_back", takenOut},
			{"A15_a_stuck_drain_is_dropped_and_asked_for_again", stuckDrain},
			{"A17_a_restart_in_the_drain_goes_on", restartedInDrain},
			{"a_grey_zone_is_left_by_searches_and_by_writes", greyZone},
		} {
			ok := t.Run(scenario.name, func(t *testing.T) {
				b := &bed{Cluster: b.Cluster, t: t}
				scenario.play(t, b)
			})
			if !ok {
				t.Fatal("what follows would begin in another state")
			}
		}
	})
}

// fixed is a configuration that does not change.
func fixed(c zones.Config) func() zones.Config { return func() zones.Config { return c } }

func steady(s *zones.Status) bool { return s.Phase == zones.Steady && s.Write == zones.Idle }

// healthy waits until a controller has seen every zone well.
func (r *runner) healthy() {
	r.t.Helper()
	r.until("every zone well", time.Minute, func(s *zones.Status) bool {
		for _, z := range s.Zones {
			if !z.Health.Healthy() || z.Nodes < z.Members || z.Copies.Initializing > 0 {
				return false
			}
		}
		return steady(s) && len(s.Zones) == 3
	})
}

// whole restarts what was killed and waits until all copies are back.
func (b *bed) whole(killed ...int) {
	b.t.Helper()
	for _, i := range killed {
		b.must(b.StartAgain(i))
	}
	b.must(b.WaitGreen(b.t.Context()))
}

// text is that of the last note of an event.
func (r *runner) text(event string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range slices.Backward(r.notes) {
		if n.Event == event {
			return n.Text
		}
	}
	return ""
}

func dryRun(t *testing.T, b *bed) {
	config := quickly(zones.DryRun)
	config.Drain = time.Second
	r := b.run(fixed(config), "")
	r.healthy()
	before := b.state()
	leads := b.leaderZone()
	b.order(zones.OrderOut, "c")
	want := "PUT /_cluster/decommission/awareness/zone/c?no_delay=true"
	if leads == "c" {
		want = "POST /_cluster/voting_config_exclusions?node_ids=" + string(before.Leader)
	}
	r.until("the departure, not sent", goal, func(s *zones.Status) bool { return s.Would == want })
	b.order(zones.OrderAbort, "")
	r.until("aborted", goal, steady)
	for _, i := range b.in("a") {
		b.must(b.Kill(i))
	}
	request := fmt.Sprintf(`{"_version":%d,"weights":{"a":"0","b":"1","c":"1"}}`, before.Weights.Version)
	r.until("the failover, not sent", goal, func(s *zones.Status) bool { return strings.HasSuffix(s.Would, request) })
	after := b.stateOutside("a")
	if !maps.Equal(after.Weights.Values, before.Weights.Values) || after.Weights.Version != before.Weights.Version || after.Decommission.Value != "" || len(after.Exclusions) > 0 {
		t.Errorf("a dry run has changed %+v to %+v", before, after)
	}
	r.stop()
	b.whole(b.in("a")...)
}

func firstWeights(t *testing.T, b *bed) {
	r := b.run(fixed(quickly(zones.Act)), "")
	defer r.stop()
	r.until("first weights", goal, steady)
	if w, version := b.weights(); !maps.Equal(w, standbyC) || version != 0 {
		t.Fatalf("weights %v at version %d", w, version)
	}
	before := b.queries()
	s := b.search(4, 0)
	s.wait(300)
	s.stop()
	after := b.queries()
	a, bb, c := after["a"]-before["a"], after["b"]-before["b"], after["c"]-before["c"]
	t.Logf("%d searches of 3 shards: a %d, b %d, c %d", s.done.Load(), a, bb, c)
	if c != 0 || s.failed.Load() > 0 || a < bb*9/10 || bb < a*9/10 {
		t.Errorf("queries of a, b, c: %d, %d, %d; failed %d %s", a, bb, c, s.failed.Load(), s.first)
	}
}

func canaries(t *testing.T, b *bed) {
	b.must(b.CreateIndex(t.Context(), realcluster.Index{Name: "canary", Replicas: 2}))
	b.must(b.WaitGreen(t.Context()))
	config := quickly(zones.Act)
	config.Canary = "canary"
	r := b.run(fixed(config), "")
	r.healthy()
	looks := r.looked()
	s := r.until("some looks more", goal, func(*zones.Status) bool { return r.looked() > looks+6 })
	for _, z := range s.Zones {
		if !z.Health.Healthy() {
			t.Errorf("zone %s: %v", z.Zone, z.Health.Seen)
		}
	}
	b.order(zones.OrderRotate, "") // nobody searches but the canaries: they are not taken for a zone's that stands by
	r.until("rotation", goal, func(*zones.Status) bool { return r.count("done") > 0 })
	r.stop()
	var found struct {
		Version int `json:"_version"`
	}
	b.must(b.Get(t.Context(), "/canary/_doc/shardonnay", &found))
	if found.Version < 5 {
		t.Errorf("the canary was written %d times", found.Version)
	}
	b.must(b.Delete(t.Context(), "/canary", nil))
}

func rotations(t *testing.T, b *bed) {
	config := quickly(zones.Act)
	config.Rotation = 2 * time.Second
	r := b.run(fixed(config), "")
	s := b.search(2, 5*time.Millisecond)
	_, version := b.weights()
	begun := r.count("done")
	var once atomic.Int32
	stands := map[string]bool{}
	r.until("three rotations", 2*goal, func(s *zones.Status) bool {
		standing := 0
		for _, z := range s.Zones {
			if z.Role == zones.Standby {
				standing++
				stands[z.Zone] = true
			}
		}
		if standing > 1 {
			once.Add(1)
		}
		return r.count("done") >= begun+3 && len(stands) == 3
	})
	r.stop()
	s.stop()
	if _, now := b.weights(); now != version+int64(r.count("done")-begun) {
		t.Errorf("from version %d to %d in %d rotations", version, now, r.count("done")-begun)
	}
	if once.Load() > 0 || s.failed.Load() > 0 {
		t.Errorf("%d looks with two standbys; %d of %d searches failed: %s", once.Load(), s.failed.Load(), s.done.Load(), s.first)
	}
}

func failOpen(t *testing.T, b *bed) {
	// One shard whose copies are on the nodes that do not lead.
	var names []string
	var killed []int
	resting := b.standby()
	for i, n := range b.Nodes() {
		if !n.Eligible {
			names = append(names, n.Name)
			if n.Zone != resting {
				killed = append(killed, i)
			}
		}
	}
	b.must(b.CreateIndex(t.Context(), realcluster.Index{Name: "alone", Shards: 1, Replicas: 2, Settings: map[string]any{
		"routing.allocation.include._name": strings.Join(names, ","),
	}}))
	b.must(b.Post(t.Context(), "/alone/_doc?refresh=true", `{"n":1}`, nil))
	b.must(b.WaitGreen(t.Context()))
	r := b.run(fixed(quickly(zones.Act)), "")
	r.healthy()
	_, version := b.weights()
	before := b.queries()
	for _, i := range killed {
		b.must(b.Kill(i))
	}
	s := b.searchIndex("alone", 2, 5*time.Millisecond)
	s.wait(100)
	s.stop()
	if s.failed.Load() > 0 {
		t.Errorf("%d of %d searches failed: %s", s.failed.Load(), s.done.Load(), s.first)
	}
	if after := b.queries(); after[resting] <= before[resting] {
		t.Errorf("the standby %s has served nothing: %v, then %v", resting, before, after)
	}
	if _, now := b.weights(); now != version {
		t.Errorf("half of two zones is gone and the weights went from version %d to %d", version, now)
	}
	r.stop()
	b.whole(killed...)
	b.must(b.Delete(t.Context(), "/alone", nil))
}

// failedOver lets a zone fail and measures until the new weights are in force.
func (b *bed) failedOver(zone string, fail func()) (took time.Duration) {
	b.t.Helper()
	config := quickly(zones.Act)
	if b.pace > 0 {
		config.Round = b.pace
	}
	r := b.run(fixed(config), "")
	defer r.stop()
	r.healthy()
	next := b.standby()
	copies := b.placed(zone)
	s := b.search(2, 20*time.Millisecond)
	s.wait(100)
	before := s.quantiles(0)
	began := time.Now()
	fail()
	r.until("failover", 2*goal, func(s *zones.Status) bool { return s.Phase == zones.NoStandby })
	took = time.Since(began)
	s.cutoff.Store(time.Now().UnixNano())
	s.wait(s.done.Load() + 2) // what was sent to the zone before may still wait for its timeout
	count := s.done.Load()
	s.wait(count + 100)
	s.stop()
	after := s.quantiles(count)
	if w, _ := b.weights(); w[zone] != 0 || w[next] != 1 {
		b.t.Errorf("weights %v after zone %s failed and %s stood by", w, zone, next)
	}
	if took > goal {
		b.t.Errorf("failover took %s", took)
	}
	if s.late.Load() > 0 {
		b.t.Errorf("%d searches failed after the failover: %s", s.late.Load(), s.first)
	}
	if now := b.placed(zone); !slices.Equal(now, copies) {
		b.t.Errorf("copies were moved:\n%v\n%v", copies, now)
	}
	b.wrote = r.dir
	b.after += s.done.Load() - count
	b.t.Logf("zone %s failed over to %s in %s; %d searches, %d failed, %d of them sent after it; they took %s before, %s after",
		zone, next, took.Round(time.Millisecond), s.done.Load(), s.failed.Load(), s.late.Load(), before, after)
	return took
}

func killedZone(t *testing.T, b *bed) {
	zone := b.servingWithoutLeader()
	b.failedOver(zone, func() {
		for _, i := range b.in(zone) {
			b.must(b.Kill(i))
		}
	})
	b.whole(b.in(zone)...)
}

func frozenZone(t *testing.T, b *bed) {
	zone := b.servingWithoutLeader()
	b.failedOver(zone, func() {
		for _, i := range b.in(zone) {
			b.must(b.Freeze(i))
		}
	})
	b.thaw(zone)
}

// leadServes is the zone from which the cluster is led; where it stands by it is made to serve.
func (b *bed) leadServes() string {
	b.t.Helper()
	zone := b.leaderZone()
	if zone == b.standby() {
		r := b.run(fixed(quickly(zones.Act)), "")
		r.healthy()
		b.order(zones.OrderRotate, "")
		r.until("rotation", goal, func(*zones.Status) bool { return r.count("done") > 0 })
		r.stop()
	}
	return zone
}

// frozenLeader: what is sent while a leader hangs does not arrive, and the journal tells of every try.
func frozenLeader(t *testing.T, b *bed) {
	zone := b.leadServes()
	b.failedOver(zone, func() {
		for _, i := range b.in(zone) {
			b.must(b.Freeze(i))
		}
	})
	b.thaw(zone)
	journal, err := os.ReadFile(filepath.Join(b.wrote, "zones.jsonl"))
	b.must(err)
	if tries, again := bytes.Count(journal, []byte(`"request":"PUT /_cluster/routing`)), bytes.Count(journal, []byte(`"event":"sent_again"`)); tries < 2 || again < 1 {
		t.Errorf("the journal tells of %d tries, %d of them again:\n%s", tries, again, journal)
	}
}

// thaw lets a zone's nodes go on and waits until they are back.
func (b *bed) thaw(zone string) {
	b.t.Helper()
	for _, i := range b.in(zone) {
		b.must(b.Thaw(i))
	}
	b.must(b.WaitGreen(b.t.Context()))
}

func halfZone(t *testing.T, b *bed) {
	config := quickly(zones.Act)
	r := b.run(fixed(config), "")
	r.healthy()
	_, version := b.weights()
	half := -1
	for _, i := range b.in(b.standby()) {
		if !b.Nodes()[i].Eligible {
			half = i
		}
	}
	b.must(b.Kill(half))
	r.until("the node is missed", goal, func(s *zones.Status) bool {
		z, _ := s.Zone(b.Nodes()[half].Zone)
		return z.Nodes == 1
	})
	b.order(zones.OrderRotate, "")
	r.until("the rotation is refused", goal, func(*zones.Status) bool { return strings.Contains(r.text("order"), "not whole") })
	looks := r.looked()
	r.until("some looks more", goal, func(*zones.Status) bool { return r.looked() > looks+5 })
	if _, now := b.weights(); now != version || r.count("failover") > 0 {
		t.Errorf("version %d, then %d; %d failovers", version, now, r.count("failover"))
	}
	r.stop()
	b.whole(half)
}

func foreignWeights(t *testing.T, b *bed) {
	r := b.run(fixed(quickly(zones.Act)), "")
	r.healthy()
	w, version := b.weights()
	other := standbyA
	if maps.Equal(w, standbyA) {
		other = standbyB
	}
	b.putWeights(other, version)
	began := time.Now()
	r.until("holding", 10*time.Second, func(s *zones.Status) bool { return s.Phase == zones.Holding })
	t.Logf("holding after %s: %s", time.Since(began).Round(time.Millisecond), r.text("foreign_weights"))
	if text := r.text("foreign_weights"); !strings.Contains(text, fmt.Sprintf("version %d", version)) || !strings.Contains(text, fmt.Sprintf("version %d", version+1)) {
		t.Errorf("the audit says %q", text)
	}
	looks := r.looked()
	r.until("some looks more", goal, func(*zones.Status) bool { return r.looked() > looks+3 })
	if w, now := b.weights(); !maps.Equal(w, other) || now != version+1 {
		t.Errorf("weights %v at version %d", w, now)
	}
	b.order(zones.OrderResume, "")
	r.until("resumed", goal, steady)
	if w, now := b.weights(); !maps.Equal(w, other) || now != version+1 {
		t.Errorf("weights %v at version %d after the hold", w, now)
	}
}

func onlyCopy(t *testing.T, b *bed) {
	zone := b.standby()
	b.must(b.CreateIndex(t.Context(), realcluster.Index{Name: "lonely", Shards: 1, Settings: map[string]any{"routing.allocation.include.zone": zone}}))
	b.must(b.WaitGreen(t.Context()))
	r := b.run(fixed(quickly(zones.Act)), "")
	r.healthy()
	before := b.state()
	b.order(zones.OrderOut, zone)
	r.until("refused", goal, func(*zones.Status) bool { return strings.Contains(r.text("order"), "refused") })
	if !strings.Contains(r.text("order"), "lonely/0") {
		t.Errorf("the refusal does not name the shard: %s", r.text("order"))
	}
	after := b.state()
	if after.Weights.Version != before.Weights.Version || after.Decommission.Value != "" || len(after.Exclusions) > 0 || r.count("sent") > 0 {
		t.Errorf("something was changed: %+v", after)
	}
	r.stop()
	b.must(b.Delete(t.Context(), "/lonely", nil))
}

// takenOut is a whole life: the zone that leads is taken out while writes go on, nothing else is done meanwhile, and it
// comes back. A load balancer follows, and no search through it fails.
func takenOut(t *testing.T, b *bed) {
	var due atomic.Bool
	r := b.run(func() zones.Config {
		config := quickly(zones.Act)
		config.Drain = 10 * time.Second // within which the balancer has asked every node twice
		if due.Load() {
			config.Rotation = time.Second
		}
		return config
	}, "")
	r.healthy()
	balancer := b.balance()
	balancer.sees(b.standby(), "DOWN 421")
	through := balancer.search()
	for rotations := 1; rotations == 1 || b.standby() == b.leaderZone(); rotations++ {
		b.order(zones.OrderRotate, "")
		r.until("rotation", goal, func(*zones.Status) bool { return r.count("done") >= rotations })
		balancer.sees(b.standby(), "DOWN 421")
	}
	zone := b.leaderZone()
	w := b.index("written")
	begun, rotated := r.count("sent"), r.count("rotate")
	b.order(zones.OrderOut, zone)
	out := r.until("out", 2*goal, func(s *zones.Status) bool { return s.Write == zones.Gone })
	b.out = zone
	if want := []string{"drain", "hand_over", "handed_over", "decommission", "out"}; !slices.Equal(r.order(want), want) {
		t.Errorf("the order was %v", r.order(want))
	}
	if sent, want := r.sent(begun), []string{
		"PUT /_cluster/routing/awareness/zone/weights", "POST /_cluster/voting_config_exclusions", "DELETE /_cluster/voting_config_exclusions",
		"PUT /_cluster/decommission/awareness/zone/" + zone,
	}; !slices.Equal(sent, want) {
		t.Errorf("sent were %v", sent)
	}
	outside := b.client(zone)
	health, err := outside.Health(t.Context())
	b.must(errors.Join(err, outside.Close()))
	if health.Status != "yellow" {
		t.Errorf("the cluster is %s", health.Status)
	}
	state := b.stateOutside(zone)
	if state.Decommission.Status != es.DecommissionSuccessful || len(state.Exclusions) > 0 || len(state.Nodes) != 4 || b.zoneOf(state) == zone {
		t.Errorf("decommission %v, exclusions %v, %d nodes, led from %s", state.Decommission, state.Exclusions, len(state.Nodes), b.zoneOf(state))
	}
	if out.Voters != 1 {
		t.Errorf("%d voters", out.Voters)
	}
	if z, _ := out.Zone(zone); z.Role != zones.Out {
		t.Errorf("zone %s is %s", zone, z.Role)
	}
	b.notOverAllocated(zone)

	// A19: what a load balancer sees.
	b.inService(zone)
	balancer.sees(zone, "DOWN 424")

	// A13: nothing else happens meanwhile.
	b.order(zones.OrderRotate, "")
	r.until("no rotation", goal, func(*zones.Status) bool { return strings.Contains(r.text("order"), "rotate: refused") })
	other := map[string]string{"a": "b", "b": "c", "c": "a"}[zone]
	b.order(zones.OrderOut, other)
	r.until("no second zone", goal, func(*zones.Status) bool { return strings.Contains(r.text("order"), "out "+other+": refused") })
	if text := r.text("order"); !strings.Contains(text, "zone "+zone+" is out of the cluster") {
		t.Errorf("the refusal does not say why: %s", text)
	}
	due.Store(true)
	looks := r.looked()
	r.until("some looks more", goal, func(*zones.Status) bool { return r.looked() > looks+3 })
	if now := b.stateOutside(zone); now.Weights.Version != state.Weights.Version || r.count("rotate") != rotated {
		t.Errorf("a rotation was due, and the weights are %+v", now.Weights)
	}
	due.Store(false)
	err = b.tryWeights(zone, map[string]float64{"a": 1, "b": 1, "c": 1}, state.Weights.Version)
	if status, ok := errors.AsType[*es.StatusError](err); !ok || status.Status != http.StatusConflict {
		t.Errorf("the server took weights for a zone that is out: %v", err)
	}

	// A14: it comes back.
	began := time.Now()
	b.order(zones.OrderRecommission, "")
	r.until("rejoined", 3*goal, func(*zones.Status) bool { return r.count("rejoined") > 0 })
	b.out = ""
	t.Logf("its nodes were back after %s", time.Since(began).Round(time.Millisecond))
	r.until("a standby again", goal, steady)
	if weights, _ := b.weights(); weights[zone] != 0 {
		t.Errorf("weights %v", weights)
	}
	balancer.sees(zone, "DOWN 421")
	through.stop()
	if t.Logf("%d searches by the load balancer", through.done.Load()); through.failed.Load() > 0 {
		t.Errorf("%d of %d searches by the load balancer failed: %s", through.failed.Load(), through.done.Load(), through.first)
	}
	w.stop()
	if w.failed.Load() > 0 {
		t.Errorf("%d of %d writes failed: %s", w.failed.Load(), w.done.Load(), w.first)
	}
	b.complete("written", w.acknowledged())
	b.must(b.WaitGreen(t.Context()))
	if state := b.state(); state.Decommission.Value != "" || len(state.Exclusions) > 0 || len(state.Voters) != 3 {
		t.Errorf("left behind: %+v", state)
	}
	r.stop()
	b.must(b.Delete(t.Context(), "/written", nil))
}

// stuckDrain: where the server waits out the drain and its leader is restarted meanwhile, nobody goes on with it. While there
// is no leader no node calls itself in service, and searches go on by the load balancer's second list.
func stuckDrain(t *testing.T, b *bed) {
	zone := b.servingWithoutLeader()
	config := quickly(zones.Act)
	config.ServerTime, config.Drain = true, 10*time.Second
	r := b.run(fixed(config), "")
	r.healthy()
	b.order(zones.OrderOut, zone)
	r.until("draining", goal, func(s *zones.Status) bool { return s.Decommission == es.DecommissionDraining })
	leader, balancer := b.leader(), b.balance()
	balancer.sees(zone, "DOWN 421")
	b.must(b.Kill(leader))
	b.eventually("no node is in service, and the one that is gone is in no list", func() bool {
		return len(balancer.up("in_service")) == 0 && !slices.Contains(balancer.up("without_leader"), b.Nodes()[leader].Name)
	})
	s := balancer.search()
	s.wait(50)
	if s.stop(); s.failed.Load() > 0 {
		t.Errorf("%d of %d searches without a leader failed: %s", s.failed.Load(), s.done.Load(), s.first)
	}
	b.must(b.StartAgain(leader))
	r.until("the stuck drain is dropped", 5*goal, func(*zones.Status) bool { return r.count("fence_stuck") > 0 })
	r.until("out all the same", 5*goal, func(s *zones.Status) bool { return s.Write == zones.Gone })
	b.out = zone
	if r.count("decommission") != 2 {
		t.Errorf("the decommission was asked for %d times", r.count("decommission"))
	}
	b.order(zones.OrderRecommission, "")
	r.until("a standby again", 2*goal, steady)
	b.must(b.WaitGreen(t.Context()))
}

func restartedInDrain(t *testing.T, b *bed) {
	zone := b.servingWithoutLeader()
	config := quickly(zones.Act)
	config.Drain = 8 * time.Second
	r := b.run(fixed(config), "")
	r.healthy()
	b.order(zones.OrderOut, zone)
	s := r.until("draining", goal, func(s *zones.Status) bool { return s.Write == zones.Draining && s.Phase == zones.Steady })
	r.stop()
	until, cancel := context.WithDeadline(t.Context(), s.Leaving.Deadline)
	<-until.Done()
	cancel()
	r = b.run(fixed(config), r.dir)
	r.until("out", goal, func(s *zones.Status) bool { return s.Write == zones.Gone })
	b.out = zone
	if r.count("decommission") != 1 {
		t.Errorf("the decommission was asked for %d times", r.count("decommission"))
	}
	b.order(zones.OrderRecommission, "")
	r.until("a standby again", 2*goal, steady)
	b.must(b.WaitGreen(t.Context()))
}
