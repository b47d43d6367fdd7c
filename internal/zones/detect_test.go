package zones

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/es"
)

// watched is a detector over three zones with two nodes each, and what it is shown in the next round.
type watched struct {
	t      *testing.T
	d      *Detector
	roster Roster
	roles  map[string]Role
	now    time.Time
	total  map[cluster.NodeID]es.ZoneLoad
}

func watch(t *testing.T) *watched {
	w := &watched{
		t: t, d: NewDetector(), roster: Roster{}, roles: map[string]Role{"a": Active, "b": Active, "c": Standby},
		now: time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC), total: map[cluster.NodeID]es.ZoneLoad{},
	}
	for _, zone := range []string{"a", "b", "c"} {
		for i := range 2 {
			name := fmt.Sprintf("%s%d", zone, i+1)
			w.roster[name] = Member{ID: cluster.NodeID("id-" + name), Name: name, Zone: zone, Data: true, Reached: true}
		}
	}
	for range 3 {
		if a := w.round(nil); !a.Zones["a"].Healthy() || !a.Zones["b"].Healthy() || !a.Zones["c"].Healthy() {
			t.Fatalf("all is well, and it is said that %+v", a)
		}
	}
	return w
}

// round shows a cluster that is well but for what spoil does to it.
func (w *watched) round(spoil func(v *View)) Assessment {
	w.now = w.now.Add(5 * time.Second)
	v := &View{
		At: w.now, State: &es.ZoneState{Leader: "id-a1"}, Probes: map[string]bool{}, Silent: map[cluster.NodeID]bool{},
		Copies: map[string]es.ZoneCopies{}, Loads: map[cluster.NodeID]es.ZoneLoad{}, Canary: map[string]Canary{"": {Took: 20 * time.Millisecond}},
	}
	for name, m := range w.roster {
		v.State.Nodes = append(v.State.Nodes, es.ZoneNode{ID: m.ID, Name: name})
		v.Probes[name] = true
		v.Copies[m.Zone] = es.ZoneCopies{Active: 100}
		v.Canary[m.Zone] = Canary{Took: 10 * time.Millisecond}
		load := w.total[m.ID]
		load.Queries, load.QueryTime, load.Searches = load.Queries+100, load.QueryTime+time.Second, load.Searches+100
		v.Loads[m.ID] = load
	}
	if spoil != nil {
		spoil(v)
	}
	w.total = v.Loads
	return w.d.Observe(v, w.roster, w.roles)
}

// mute makes the nodes of a zone not answer at their own addresses.
func mute(names ...string) func(v *View) {
	return func(v *View) {
		for _, name := range names {
			v.Probes[name] = false
		}
	}
}

func gone(names ...string) func(v *View) {
	return func(v *View) {
		v.State.Nodes = slices.DeleteFunc(v.State.Nodes, func(n es.ZoneNode) bool { return slices.Contains(names, n.Name) })
	}
}

func silent(names ...string) func(v *View) {
	return func(v *View) {
		for _, name := range names {
			v.Silent[cluster.NodeID("id-"+name)] = true
		}
	}
}

func both(one, other func(v *View)) func(v *View) {
	return func(v *View) {
		one(v)
		other(v)
	}
}

// after is in which round of an illness a zone is first called impaired; 0 is never within twelve.
func (w *watched) after(zone string, spoil func(v *View)) int {
	for i := range 12 {
		if w.round(spoil).Zones[zone].ReadImpaired {
			return i + 1
		}
	}
	return 0
}

// TestWhatImpairsAZone: which signs let searches leave a zone, and in which round of five seconds.
func TestWhatImpairsAZone(t *testing.T) {
	slow := func(v *View) {
		for _, id := range []cluster.NodeID{"id-a1", "id-a2"} {
			load := v.Loads[id]
			load.QueryTime += 100 * time.Second
			v.Loads[id] = load
		}
	}
	refusing := func(v *View) {
		load := v.Loads["id-a1"]
		load.Rejected += 50
		v.Loads["id-a1"] = load
	}
	failing := func(v *View) { v.Canary["a"] = Canary{Failed: true} }
	for _, test := range []struct {
		name  string
		spoil func(v *View)
		round int
	}{
		{"both nodes are not in the cluster", gone("a1", "a2"), 2},
		{"one of two nodes is not in the cluster", gone("a1"), 0},
		{"nobody answers, and the rest of the cluster does not hear from them", both(mute("a1", "a2"), silent("a1", "a2")), 3},
		{"nobody answers us, and the cluster is content", mute("a1", "a2"), 0},
		{"the cluster does not hear from them, and we do", silent("a1", "a2"), 0},
		{"half of the zone does not answer anybody", both(mute("a1"), silent("a1")), 0},
		{"nobody answers, and few copies are started", both(mute("a1", "a2"), func(v *View) { v.Copies["a"] = es.ZoneCopies{Active: 49} }), 3},
		{"few copies are started", func(v *View) { v.Copies["a"] = es.ZoneCopies{Active: 10, Initializing: 90} }, 0},
		{"a write waits, and the rest of the cluster does not hear from them", both(silent("a1", "a2"), slowWrite), 2},
		{"a write waits, and half of the zone is not heard from", both(silent("a1"), slowWrite), 0},
		{"a write waits", slowWrite, 0},
		{"the test search fails and nobody answers", both(mute("a1", "a2"), failing), 3},
		{"the test search fails", failing, 0},
		{"the test search fails and searches take long", both(failing, slow), 6},
		{"searches take long", slow, 0},
		{"searches take long and work is refused", both(slow, refusing), 0},
		{"nobody answers, searches take long and work is refused", both(mute("a1", "a2"), both(slow, refusing)), 6},
	} {
		t.Run(test.name, func(t *testing.T) {
			if round := watch(t).after("a", test.spoil); round != test.round {
				t.Errorf("impaired in round %d, want %d", round, test.round)
			}
		})
	}
}

// TestTwoZonesThatDoNotAnswerMayBeUs: then nothing is concluded and nothing is forgotten.
func TestTwoZonesThatDoNotAnswerMayBeUs(t *testing.T) {
	w := watch(t)
	for range 20 {
		a := w.round(mute("a1", "a2", "b1", "b2"))
		if a.Isolated == "" || a.Zones["a"].ReadImpaired || a.Zones["b"].ReadImpaired {
			t.Fatalf("%+v", a)
		}
	}
	if a := w.round(nil); a.Isolated != "" || !a.Zones["a"].Healthy() {
		t.Errorf("%+v", a)
	}
}

// TestAZoneThatIsOutIsNotMissed: it is meant to be gone.
func TestAZoneThatIsOutIsNotMissed(t *testing.T) {
	w := watch(t)
	w.roles["c"] = Out
	for range 10 {
		if a := w.round(both(gone("c1", "c2"), func(v *View) { delete(v.Copies, "c") })); !a.Zones["c"].Healthy() {
			t.Fatalf("%+v", a.Zones["c"])
		}
	}
}

// TestWellAgain: a zone is well from when the last sign has gone, and the next illness begins anew.
func TestWellAgain(t *testing.T) {
	w := watch(t)
	var ill time.Time
	for i := range 5 {
		a := w.round(gone("a1", "a2"))
		if i == 0 {
			ill = w.now
		}
		if h := a.Zones["a"]; !h.Since.Equal(ill) || !h.Well.IsZero() {
			t.Fatalf("%+v", h)
		}
	}
	h := w.round(nil).Zones["a"]
	if well := w.now; !h.Well.Equal(well) || !h.Since.IsZero() || h.ReadImpaired {
		t.Errorf("%+v", h)
	}
	w.round(nil)
	if h := w.round(gone("a1", "a2")).Zones["a"]; !h.Since.Equal(w.now) || h.ReadImpaired {
		t.Errorf("%+v", h)
	}
}

func slowWrite(v *View) { v.Canary[""] = Canary{Took: 3 * time.Second} }

// TestWritesAreHeldUpForAMinute: a slow write speaks against the zone that is ill besides, and only when it lasts.
func TestWritesAreHeldUpForAMinute(t *testing.T) {
	w := watch(t)
	for range 30 {
		for zone, h := range w.round(slowWrite).Zones {
			if h.WriteImpaired {
				t.Fatalf("nothing else is wrong with zone %s", zone)
			}
		}
	}
	for _, test := range []struct {
		name    string
		besides func(v *View)
		after   int // rounds until that counts
	}{
		{"its nodes do not answer us", mute("b1", "b2"), probeRounds},
		{"they do not answer the rest of the cluster", silent("b1", "b2"), missingRounds},
	} {
		t.Run(test.name, func(t *testing.T) {
			w, rounds := watch(t), 0
			for range 30 {
				rounds++
				a := w.round(both(slowWrite, test.besides))
				if a.Zones["a"].WriteImpaired || a.Zones["c"].WriteImpaired {
					t.Fatalf("%+v", a)
				}
				if a.Zones["b"].WriteImpaired {
					break
				}
			}
			if want := test.after + int(writeHeld/(5*time.Second)); rounds != want {
				t.Errorf("impaired in round %d, want %d", rounds, want)
			}
			if w.round(test.besides).Zones["b"].WriteImpaired {
				t.Error("writes are quick again")
			}
		})
	}
}

// TestAZoneThatAnswersNowAndThenHoldsUpWrites: quick writes in between do not begin the minute anew, unless there are some for
// longer than half of it; and a zone is called impaired only while it is ill.
func TestAZoneThatAnswersNowAndThenHoldsUpWrites(t *testing.T) {
	ill := both(slowWrite, silent("b1", "b2"))
	for _, test := range []struct {
		bad, good int // rounds
		rounds    int // in which of them it is first called impaired; 0 for never
	}{
		{3, 1, 14}, // sure in round 2, and for a minute in round 14, which is bad
		{3, 5, 17}, // round 14 is good, and 17 is the first bad one after it
		{2, 6, 0},  // 35 s from one slow write to the next
		{3, 6, 0},
		{1, 1, 0}, // never twice in a row: not sure that it is this zone
		{12, 100, 0},
	} {
		w, first := watch(t), 0
		for i := range 100 {
			bad := i%(test.bad+test.good) < test.bad
			spoil := func(*View) {}
			if bad {
				spoil = ill
			}
			for zone, h := range w.round(spoil).Zones {
				if h.WriteImpaired && (!bad || zone != "b") {
					t.Fatalf("%+v: zone %s is impaired in round %d", test, zone, i+1)
				}
				if h.WriteImpaired && first == 0 {
					first = i + 1
				}
			}
		}
		if first != test.rounds {
			t.Errorf("%+v: impaired in round %d", test, first)
		}
	}
}

// TestALeaderThatWaitsForAnotherZoneIsWell: the queue of who leads from a speaks against a, unless it is zone b that it waits for.
func TestALeaderThatWaitsForAnotherZoneIsWell(t *testing.T) {
	stuck := func(v *View) { v.TaskWait = managerWait + time.Second }
	if h := watch(t).round(both(stuck, slowWrite)).Zones["a"]; !slices.Equal(h.Bad, []Signal{WriteTest, Manager}) {
		t.Errorf("a leader that does not get on is judged by %v", h.Bad)
	}
	for name, waits := range map[string]func(v *View){"silent": silent("b1", "b2"), "mute": mute("b1", "b2")} {
		w := watch(t)
		for range 30 {
			if a := w.round(both(both(stuck, slowWrite), waits)); !a.Zones["a"].Healthy() {
				t.Fatalf("zone b is %s, and zone a is judged by %v", name, a.Zones["a"].Seen)
			}
		}
	}
}
