package zones

import (
	"strings"
	"testing"
	"time"
)

// TestAnOrderIsAnsweredOnceAndForWhatItIs: a hold that ends while a zone drains is not refused afterwards for the drain, and who
// asks for something that has to wait is told for what.
func TestAnOrderIsAnsweredOnceAndForWhatItIs(t *testing.T) {
	b := newBed(t, layout{})
	b.until("first weights", time.Minute, steady)
	ask := func(verb Verb, zone, want string) {
		t.Helper()
		b.order(verb, zone)
		id := b.c.Status().Handled
		if s := b.until("answered", time.Minute, func(s *Status) bool { return s.Handled != id }); !strings.Contains(s.Result, want) {
			t.Errorf("%s %s: %q, want %q", verb, zone, s.Result, want)
		}
	}
	ask(OrderOut, "c", "zone c drains for 30s")
	if err := b.SetPersistent(map[string]string{HoldKey: settingText(Hold{Reason: "work", By: "a person", Since: b.Now()})}); err != nil {
		t.Fatal(err)
	}
	b.until("holding", time.Minute, func(s *Status) bool { return s.Phase == Holding })
	if err := b.SetPersistent(map[string]string{HoldKey: ""}); err != nil {
		t.Fatal(err)
	}
	ask(OrderResume, "", "resumed")
	ask(OrderResume, "", "nothing to resume")
	ask(OrderOut, "b", "zone c is leaving; zones abort keeps it")
	b.until("out", 5*time.Minute, func(s *Status) bool { return s.Write == Gone })
	ask(OrderOut, "b", "zone c is out of the cluster; recommission it first")
	ask(OrderRecommission, "", "may come back")
	ask(OrderOut, "b", "zone c is coming back; wait until it stands by")
	b.until("back", 10*time.Minute, steady)
	b.kill("b")
	b.until("failover", 2*time.Minute, func(s *Status) bool { return s.Phase == NoStandby })
	ask(OrderAbort, "", "nothing to abort")
	ask(OrderRotate, "", "no zone could take over")
}
