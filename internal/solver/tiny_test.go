package solver

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/shardonnay/shardonnay/internal/instance/instancetest"
	"github.com/shardonnay/shardonnay/internal/model"
	"github.com/shardonnay/shardonnay/internal/solver/exhaustive"
)

// Tiny problems of every kind are solved to the proven optimum.
func TestSolveEqualsExhaustiveSearch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := instancetest.Problem(t, 4, 5)
		_, want := exhaustive.Best(p)
		r, err := Solve(context.Background(), p, Options{Workers: 1})
		if err != nil {
			t.Fatal(err)
		}
		if r.Status != Optimal || !instancetest.Close(r.Objective, want) || !r.Checked {
			t.Fatalf("%s with %v (bound %v by %s, checked %v), exhaustive search finds %v", r.Status, r.Objective, r.LowerBound, r.BoundKind, r.Checked, want)
		}
		if r.LowerBound > want+1e-9 {
			t.Fatalf("bound %v above the optimum %v", r.LowerBound, want)
		}
	})
}

// Whatever the prices, no bound is above the optimum.
func TestBoundsHoldAtAnyPrices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := instancetest.Problem(t, 4, 5)
		_, want := exhaustive.Best(p)
		f := newFrame(p)
		prices := f.noPrices()
		for i := range prices.slot {
			prices.slot[i] = rapid.Float64Range(0, 1).Draw(t, "price")
		}
		prices.move, prices.bytes = rapid.Float64Range(0, 0.1).Draw(t, "a move"), rapid.Float64Range(0, 0.1).Draw(t, "a byte")
		f.restrict(prices)
		rng := rand.New(rand.NewPCG(1, 1))
		q := f.newPricer(prices, rng)
		found, _ := q.groups(1)
		if bound := q.groupBound(found); bound > want+1e-9 {
			t.Fatalf("by groups %v, the optimum is %v", bound, want)
		}
		nodes := f.nodes()
		// Every copy may be a lump here, whether it is large or not: the bound has to hold for any choice of them.
		var lumps []int32
		for c := range p.Copies {
			if f.movable[c] && rapid.Bool().Draw(t, "lump") {
				lumps = append(lumps, int32(c))
			}
		}
		f.setLumps(lumps)
		seat := make([]float64, len(lumps))
		for g := range seat {
			seat[g] = rapid.Float64Range(0, 2).Draw(t, "seat")
		}
		crowd := make([]float64, len(f.crowdRoom))
		for i := range crowd {
			crowd[i] = rapid.Float64Range(0, 1).Draw(t, "crowd")
		}
		always := allowance{ctx: context.Background()}
		for _, seats := range [][]float64{nil, seat} {
			q := q.reseated(seats, crowd)
			bound, answers, _ := q.nodeBound(nodes, 0, 1000, 1, &always, nil)
			if bound > want+1e-9 {
				t.Fatalf("by nodes %v (seats %v), the optimum is %v", bound, seats, want)
			}
			for n := range answers {
				if answers[n].least > answers[n].best+1e-9 {
					t.Fatalf("node %d: at least %v, but %v is possible", n, answers[n].least, answers[n].best)
				}
			}
			cut, _, _ := q.nodeBound(nodes, 0, 1, 1, &always, nil)
			if cut > bound+1e-9 {
				t.Fatalf("cut short the node bound is %v, to the end %v", cut, bound)
			}
		}
	})
}

// The bound of a flow, of the linear programs and of every step on the way stays below the optimum, and no step makes
// anything worse.
func TestStepsKeepTheirPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := instancetest.Problem(t, 4, 5)
		best, want := exhaustive.Best(p)
		r := newRun(context.Background(), p, Options{WorkLimit: 1 << 40})
		before := r.result.Objective
		if len(r.f.everything()) == 0 {
			if !instancetest.Close(before, want) {
				t.Fatalf("nothing can move, yet %v (at %v) beats %v", want, best, before)
			}
			return
		}
		holds := func(step string) {
			t.Helper()
			if r.result.LowerBound > want+1e-9 {
				t.Fatalf("after %s the bound is %v, the optimum %v", step, r.result.LowerBound, want)
			}
			if total := model.Total(model.Evaluate(p, r.node)); total > before+1e-9 || !instancetest.Close(total, r.result.Objective) {
				t.Fatalf("after %s the objective is %v and said to be %v; it was %v", step, total, r.result.Objective, before)
			}
			if broken := model.Check(p, r.node); broken != nil {
				t.Fatalf("after %s: %v", step, broken)
			}
			before = r.result.Objective
		}
		free, _, err := r.open()
		if err != nil {
			t.Fatal(err)
		}
		holds("the opening")
		w := r.flow()
		holds("the flow")
		from := w.startPrices()
		if err := r.propose(w.round(), "round"); err != nil {
			t.Fatal(err)
		}
		holds("rounding")
		allow := r.allow(1, 1)
		leave, err := r.bound([]start{free, {prices: from, bound: math.Inf(-1)}}, r.rng, &allow)
		if err != nil {
			t.Fatal(err)
		}
		holds("the linear programs")
		if err := r.propose(leave, "nodes"); err != nil {
			t.Fatal(err)
		}
		holds("the programs' answer")
		s := newSearch(r.f, r.node, r.f.interesting(r.node))
		anneal := allowance{ctx: r.ctx, most: 5000}
		s.cool(s.heat(r.result.ObjectiveBefore), r.rng, 1, &anneal)
		if broken := model.Check(p, s.Assignment()); broken != nil {
			t.Fatalf("annealing breaks rules: %v", broken)
		}
		if total := model.Total(model.Evaluate(p, s.Assignment())); !instancetest.Close(total, s.Objective()) {
			t.Fatalf("annealing says %v, the definition %v", s.Objective(), total)
		}
		r.take(s, "anneal")
		holds("annealing")
		s.reset(r.node)
		if _, err := s.economise(&allow); err != nil {
			t.Fatal(err)
		}
		if s.Objective() > before+1e-9 {
			t.Fatalf("economising makes %v of %v", s.Objective(), before)
		}
		r.take(s, "economise")
		holds("economising")
	})
}
