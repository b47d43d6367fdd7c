package solver

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/shardonnay/shardonnay/internal/instance/instancetest"
)

// A flow ends where its own cost and the bound from its prices nearly meet: that is what makes the prices good.
func TestFlowFindsGoodPrices(t *testing.T) {
	f := newFrame(generate(t, 40, 2400, 1))
	w := newFlow(f)
	start := w.value()
	if now := f.now.Objective(); start > now*(1+1e-9) {
		t.Errorf("with all at home the flow costs %v, more than the present state, %v", start, now)
	}
	_, bound, pairs, rounds := w.settle(nil, rand.New(rand.NewPCG(1, 1)), 2, func(int64) int { return flowRounds }, func() bool { return false })
	if value := w.value(); bound > value+1e-9 || value-bound > 0.03*(start-bound) {
		t.Errorf("flow %v, bound %v, from %v", value, bound, start)
	}
	if rounds != flowRounds || pairs == 0 {
		t.Errorf("%d rounds, %d pairs", rounds, pairs)
	}
}

// Where every copy fits below phi's first point, the relaxation charges nothing twice and forgives nothing: with all at
// home it costs what the present state does.
func TestFlowAtHomeCostsThePresentState(t *testing.T) {
	p := generate(t, 40, 2400, 1)
	const small = 0.09 // of a node's capacity; a fair share is at least three times that
	for c := range p.Copies {
		k := &p.Copies[c]
		k.Pinned = false
		for d := range k.Load {
			k.Load[d] = min(k.Load[d], small*p.Nodes[0].Capacity[d])
		}
	}
	f := newFrame(p)
	if start, now := newFlow(f).value(), f.now.Objective(); math.Abs(start-now) > 1e-9*now {
		t.Errorf("with all at home the flow costs %v, the present state %v", start, now)
	}
}

// A sweep never makes the rounded cost worse, and the loads it keeps are those of the shares.
func TestSweepKeepsItsBooks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newFrame(instancetest.Problem(t, 5, 10))
		w, home := newFlow(f), newFlow(f)
		rng := rand.New(rand.NewPCG(1, 1))
		for range 4 {
			w.narrow(rapid.Float64Range(narrowest, widest).Draw(t, "width"))
			found, _ := f.newPricer(w.prices(), rng).groups(1)
			w.add(found)
			w.sweep()
		}
		for g := range w.groups {
			total := 0.0
			for i := range w.groups[g] {
				x := &w.groups[g][i]
				if x.share < 0 || x.share > 1+1e-9 {
					t.Fatalf("group %d follows a pattern by %v", g, x.share)
				}
				total += x.share
				for j, at := range x.slot {
					home.load[at] += x.share * x.add[j]
				}
			}
			if total > 1+1e-9 {
				t.Fatalf("group %d follows patterns by %v in all", g, total)
			}
		}
		for i := range w.load {
			if !instancetest.Close(w.load[i], home.load[i]) {
				t.Fatalf("slot %d has load %v, its shares make %v", i, w.load[i], home.load[i])
			}
		}
	})
}
