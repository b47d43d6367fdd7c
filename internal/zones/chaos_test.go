package zones

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/shardonnay/shardonnay/internal/sim"
)

// TestChaos lets bad days happen one after the other, at most one zone ill at a time, with people giving orders in
// between, answers lost and the controller restarted. Whatever happens, no more than one zone rests, no shard loses its
// last copy, and when the bad days are over everything is as it should be. A failing seed can be played again alone.
func TestChaos(t *testing.T) {
	for seed := range max(1, 4/everyPoint) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			b := newBed(t, layout{})
			b.config.Round, b.config.Clear, b.config.Drain, b.config.Rotation = 10*time.Second, 30*time.Second, 30*time.Second, 5*time.Minute
			b.until("first weights", 10*time.Minute, steady)
			b.chaos(rand.New(rand.NewPCG(uint64(seed), 1)))
			events := map[string]int{}
			for _, n := range b.notes {
				events[n.Event]++
			}
			t.Log(events)
			if t.Failed() {
				t.Log(b.said())
			}
		})
	}
}

// chaos plays sixty events.
func (b *bed) chaos(random *rand.Rand) {
	zones := []string{"a", "b", "c"}
	down := ""
	for range 60 {
		zone := zones[random.IntN(3)]
		switch random.IntN(10) {
		case 0:
			if down == "" {
				b.kill(zone)
				down = zone
			}
		case 1, 2:
			if down != "" {
				b.restart(down)
				down = ""
			}
		case 3:
			b.order([]Verb{OrderRotate, OrderFailover, OrderOut, OrderAbort, OrderRecommission, OrderResume}[random.IntN(6)], zone)
		case 4:
			b.Inject(sim.Fault{Kind: sim.FaultLost, Method: []string{"PUT", "DELETE", "POST"}[random.IntN(3)], Count: 1})
		case 5:
			b.Inject(sim.Fault{Kind: sim.FaultStatus, Status: 503, Method: "PUT", Path: "/_cluster/*", Count: 1 + random.IntN(3)})
		case 6:
			b.LoseMaster(time.Duration(random.IntN(20)) * time.Second)
		case 7:
			b.end()
			b.begin()
		}
		for range 1 + random.IntN(8) {
			b.round()
			b.bounded(down)
		}
	}
	b.ClearFaults()
	if down != "" {
		b.restart(down)
	}
	b.order(OrderResume, "")
	for range 3 { // whatever was under way ends, or is ended
		for range 60 {
			if s := b.round(); steady(s) {
				break
			}
			b.bounded("")
		}
		if s := b.c.Status(); s.Write == Gone {
			b.order(OrderRecommission, "")
		} else if s.Phase == Holding {
			b.order(OrderResume, "")
		}
	}
	b.until("all as it should be", time.Hour, func(s *Status) bool {
		_, out, _ := b.Decommissioned()
		return steady(s) && out == "" && b.Status() == "green" && len(b.Voters()) == 3
	})
	if w, _ := b.zoneWeights(); len(serving(w)) != 2 {
		b.t.Errorf("weights %v", w)
	}
}

// bounded checks what must hold at any time.
func (b *bed) bounded(down string) {
	b.t.Helper()
	w, _ := b.zoneWeights()
	if rest := len(w) - len(serving(w)); rest > 1 {
		b.t.Fatalf("%d zones rest: %v", rest, w)
	}
	_, out, _ := b.Decommissioned()
	// With a zone out and another one down a third of the copies serves; without the controller's doing no shard is lost.
	if b.Status() == "red" && (out == "" || out == down || down == "") {
		b.t.Fatalf("a shard has no primary; zone %q is out, zone %q is down", out, down)
	}
}
