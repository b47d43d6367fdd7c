package zones

import (
	"testing"
	"time"
)

// TestWhatIsUsual: times of well zones, not those of tests that failed, and not those of five minutes after roles have changed.
func TestWhatIsUsual(t *testing.T) {
	w := watch(t)
	newest := func() [2]time.Duration {
		a, writes := w.d.usual["a"].values, w.d.writes.values
		return [2]time.Duration{a[len(a)-1], writes[len(writes)-1]}
	}
	took := func(d time.Duration) func(v *View) {
		return func(v *View) { v.Canary["a"], v.Canary[""] = Canary{Took: d}, Canary{Took: d} }
	}
	usual := [2]time.Duration{10 * time.Millisecond, 20 * time.Millisecond}
	w.round(func(v *View) {
		v.Canary["a"], v.Canary[""] = Canary{Took: time.Second, Failed: true}, Canary{Took: time.Second, Failed: true}
	})
	if newest() != usual {
		t.Errorf("what failed is taken for usual: %v", newest())
	}
	w.roles["b"], w.roles["c"] = Standby, Active
	cold := took(500 * time.Millisecond)
	for began := w.now; w.now.Sub(began) < coldFor; {
		if w.round(cold); newest() != usual {
			t.Fatalf("%v is taken for usual %s after roles changed", newest(), w.now.Sub(began))
		}
	}
	w.round(func(v *View) { v.State = nil }) // nobody says what the roles are: that is no change
	if w.round(took(30 * time.Millisecond)); newest() != [2]time.Duration{30 * time.Millisecond, 30 * time.Millisecond} {
		t.Errorf("nothing is learned any more: %v", newest())
	}
}

// learned is when the time of a test search was last taken for usual; zero where none was yet.
func (b *bed) learned() time.Time {
	var last time.Time
	for _, m := range b.c.detector.usual {
		if at := m.at[len(m.at)-1]; at.After(last) {
			last = at
		}
	}
	return last
}

// TestWhatIsUsualIsNotLearnedFromColdCaches: for five minutes after roles have changed, whoever changed them and whether or
// not the controller was restarted meanwhile; and from then on again.
func TestWhatIsUsualIsNotLearnedFromColdCaches(t *testing.T) {
	b := newBed(t, layout{})
	b.config.Canary = "logs"
	b.until("first weights", time.Minute, steady)
	again := func(what string, changed time.Time) {
		t.Helper()
		b.until(what+": learning again", 10*time.Minute, func(*Status) bool { return b.learned().After(changed) })
		// Roles count as changed once the weights have been read back, two looks at most after they were first seen.
		if after := b.learned().Sub(changed); after < coldFor-2*b.config.Round || after > coldFor+time.Minute {
			t.Errorf("%s: it is learned again %s after roles changed", what, after)
		}
	}
	changed := func() time.Time { return b.c.Status().Changed }
	restart := func() { b.end(); b.begin() }
	again("first weights", changed())

	b.order(OrderRotate, "")
	b.until("rotation", time.Minute, func(s *Status) bool { return b.standby() == "a" && steady(s) })
	again("rotation", changed())

	b.order(OrderRotate, "")
	b.until("written", time.Minute, func(s *Status) bool { return s.Phase == Verifying })
	written := b.Now()
	restart()
	b.until("rotation gone on with", time.Minute, func(s *Status) bool { return b.standby() == "b" && steady(s) })
	again("restart between writing and reading back", changed())
	if first := changed(); first.Before(written) {
		t.Errorf("roles changed at %s and were written at %s", first, written)
	}

	b.order(OrderFailover, "a")
	b.until("failover", time.Minute, func(s *Status) bool { return b.standby() == "a" && steady(s) })
	at := changed()
	b.until("two minutes", time.Hour, func(s *Status) bool { return s.At.Sub(at) > 2*time.Minute })
	restart()
	again("restart two minutes after a failover", at)

	_, version := b.zoneWeights()
	if err := b.client.PutZoneWeights(t.Context(), "zone", map[string]float64{"a": 1, "b": 0, "c": 1}, version); err != nil {
		t.Fatal(err)
	}
	at = b.until("holding", time.Minute, func(s *Status) bool { return s.Phase == Holding }).At
	restart()
	again("somebody else's weights, and a restart", at)
}
