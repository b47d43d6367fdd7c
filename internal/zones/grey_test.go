package zones

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardonnay/shardonnay/internal/sim"
)

// grey makes a zone one whose nodes answer us and are in the cluster, and do not answer its other nodes; what is written to
// every copy is not taken.
func (b *bed) grey(zone string) {
	b.config.Canary = "logs"
	b.Inject(sim.Fault{Kind: sim.FaultStatus, Status: 503, Method: "PUT", Path: "/logs/_doc/*"})
	b.each(zone, func(name string) bool { return b.Mute(name, true) })
}

// TestAZoneThatHoldsUpWritesIsAskedFor: searches leave it, and with approve nothing else is done before a person says so.
func TestAZoneThatHoldsUpWritesIsAskedFor(t *testing.T) {
	b := newBed(t, layout{})
	b.until("first weights", time.Minute, steady)
	b.grey("a")
	began := b.Now()
	b.until("failover", time.Minute, func(s *Status) bool { return s.Phase == NoStandby && b.standby() == "a" })
	asks := func(s *Status) bool {
		return slices.ContainsFunc(s.Blocked, func(c Check) bool {
			return c.Guard == GuardApproval && strings.Contains(c.Text, "zones failover a --out")
		})
	}
	asked := b.until("asked", 5*time.Minute, asks).At.Sub(began)
	if asked < writeHeld || asked > writeHeld+time.Minute {
		t.Errorf("asked after %s", asked)
	}
	for range 60 {
		if s := b.round(); s.Write != Idle || !asks(s) {
			t.Fatalf("%s, %v", s.Write, s.Blocked)
		}
	}
	if n := b.count("blocked"); n != 1 {
		t.Errorf("it is said %d times:\n%s", n, b.said())
	}
	b.config.Writes = Never
	if s := b.round(); asks(s) {
		t.Error("it is asked where nobody may say yes")
	}
	b.config.Writes = Approve
	b.order(OrderOut, "a")
	if s := b.until("out", 5*time.Minute, func(s *Status) bool { return s.Write == Gone }); asks(s) {
		t.Error("it is still asked")
	}
}

// TestAZoneThatIsGreyNowAndThenIsTakenOut: it answers in every third look; neither begins its minute anew, nor is its drain
// called off because the last look found it well. One that stays well is kept.
func TestAZoneThatIsGreyNowAndThenIsTakenOut(t *testing.T) {
	for _, staysWell := range []bool{false, true} {
		b := newBed(t, layout{})
		b.until("first weights", time.Minute, steady)
		b.config.Writes = Auto
		well := func() {
			b.each("a", func(name string) bool { return b.Mute(name, false) })
			b.ClearFaults()
		}
		looks := 0
		b.until("out, or not", 10*time.Minute, func(s *Status) bool {
			if b.count("abort")+b.count("decommission") > 0 {
				return s.Write != Fencing
			}
			if looks++; looks%3 > 0 && !(staysWell && b.count("drain") > 0) {
				b.grey("a")
			} else {
				well()
			}
			return false
		})
		if out := b.c.Status().Write == Gone; out == staysWell || b.count("drain") != 1 || b.count("abort") > 0 != staysWell {
			t.Errorf("stays well: %t, out: %t\n%s", staysWell, out, b.said())
		}
	}
}

// TestAGreyZoneDoesNotComeBackForEver: what makes it grey cannot be seen while it is out, so that it comes back by itself; the
// second time within two hours it stays out until a person releases it.
func TestAGreyZoneDoesNotComeBackForEver(t *testing.T) {
	b := newBed(t, layout{})
	b.until("first weights", time.Minute, steady)
	b.config.Writes = Auto
	b.grey("a")
	gone := func(s *Status) bool { return s.Write == Gone }
	b.until("out", 10*time.Minute, gone)
	b.until("back by itself", 10*time.Minute, func(*Status) bool { return b.count("recovered") == 1 })
	if b.count("standby_again") > 0 {
		t.Errorf("a zone that was out is said to have been well:\n%s", b.said())
	}
	b.until("out again", 10*time.Minute, gone)
	if b.count("flapping") != 1 || b.count("drain") != 2 {
		t.Error(b.said())
	}
	for range int(10 * b.config.Stable / b.config.Round) {
		if s := b.round(); s.Write != Gone {
			t.Fatalf("it is %s", s.Write)
		}
	}
	b.order(OrderRelease, "a")
	b.until("back again", 10*time.Minute, func(*Status) bool { return b.count("rejoined") == 2 })
	b.each("a", func(name string) bool { return b.Mute(name, false) })
	b.ClearFaults()
	b.until("a standby again", 10*time.Minute, func(s *Status) bool { return steady(s) && b.standby() == "a" })
	b.until("green", 10*time.Minute, func(*Status) bool { return b.Status() == "green" })
}
