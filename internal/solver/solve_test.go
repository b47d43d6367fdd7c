package solver

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shardonnay/shardonnay/internal/instance"
	"github.com/shardonnay/shardonnay/internal/instance/instancetest"
	"github.com/shardonnay/shardonnay/internal/model"
)

func generate(t testing.TB, nodes, copies int, seed uint64, change ...func(*instance.Options)) *model.Problem {
	t.Helper()
	o := instance.Defaults(nodes, copies, seed)
	for _, c := range change {
		c(&o)
	}
	p, err := instance.Generate(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func solve(t testing.TB, p *model.Problem, o Options) *Result {
	t.Helper()
	r, err := Solve(context.Background(), p, o)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Checked {
		t.Fatalf("%s: the answer does not stand the independent check: %v", p.Name, model.Check(p, r.Assignment))
	}
	if r.Objective > r.ObjectiveBefore || r.LowerBound > r.Objective {
		t.Fatalf("%s: %v -> %v, at least %v", p.Name, r.ObjectiveBefore, r.Objective, r.LowerBound)
	}
	return r
}

// Clusters of a useful size, with every kind of trouble: most of what can be gained is gained, and the bound says so.
func TestSolveGeneratedClusters(t *testing.T) {
	for _, test := range []struct {
		name     string
		p        *model.Problem
		captured float64
	}{
		{"small", generate(t, 10, 500, 1), 0.9},
		{"medium", generate(t, 24, 900, 2), 0.95},
		{"thrifty", generate(t, 24, 900, 3, func(o *instance.Options) { o.Lambda = 5 }), 0.85},
		{"eager", generate(t, 24, 900, 4, func(o *instance.Options) { o.Lambda = 0.2 }), 0.95},
		{"moves for nothing", generate(t, 24, 900, 5, func(o *instance.Options) { o.Lambda = 0 }), 0.97},
		{"one dimension", generate(t, 24, 900, 6, func(o *instance.Options) { o.Dimensions = 1 }), 0.95},
		{"five dimensions", generate(t, 24, 900, 7, func(o *instance.Options) { o.Dimensions = 5 }), 0.93},
		{"tight disks", generate(t, 24, 900, 8, func(o *instance.Options) { o.DiskFill = 0.78 }), 0.9},
		{"giants", generate(t, 24, 900, 9, func(o *instance.Options) { o.Giants = 4 }), 0.9},
		{"many drain", generate(t, 24, 900, 10, func(o *instance.Options) { o.Draining = 8 }), 0.9},
		{"much pinned", generate(t, 24, 900, 11, func(o *instance.Options) { o.Pinned = 0.7 }), 0.9},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := solve(t, test.p, Options{WorkLimit: 3_000_000, Seed: 1, Workers: 2})
			t.Logf("%v -> %v, at least %v by %s: captured %.4f, %+v", r.ObjectiveBefore, r.Objective, r.LowerBound, r.BoundKind, r.Captured(), r.Counters)
			if r.Captured() < test.captured {
				t.Errorf("captured %.4f, want %.2f", r.Captured(), test.captured)
			}
		})
	}
}

// The plain descent is a yardstick: it makes things better by itself, and no solve is worse than it.
func TestSolveIsNeverWorseThanDescent(t *testing.T) {
	for seed := range uint64(3) {
		p := generate(t, 10, 400, seed)
		for _, work := range []int64{300_000, 1_500_000} {
			d := Descent(context.Background(), p, Options{WorkLimit: work})
			if !d.Checked || d.Objective >= d.ObjectiveBefore {
				t.Fatalf("seed %d: descent from %v to %v, checked %v", seed, d.ObjectiveBefore, d.Objective, d.Checked)
			}
			if r := solve(t, p, Options{WorkLimit: work, Seed: seed}); r.Objective > d.Objective {
				t.Errorf("seed %d: work %d ends at %v, the descent at %v", seed, work, r.Objective, d.Objective)
			}
		}
	}
}

// Where the optimum is known by construction, bound and answer meet there: what is left of a gap elsewhere is not the search's
// or the bound's on instances as plain as these.
func TestPlantedOptimum(t *testing.T) {
	for seed := range uint64(3) {
		p, optimum, err := instance.Planted(instance.Defaults(60, 3600, seed))
		if err != nil {
			t.Fatal(err)
		}
		r := solve(t, p, Options{WorkLimit: 4_000_000, Seed: seed})
		if r.LowerBound > optimum*(1+1e-9) || r.Objective < optimum*(1-1e-9) {
			t.Fatalf("seed %d: %v, at least %v, but the optimum is %v", seed, r.Objective, r.LowerBound, optimum)
		}
		if c := captured(r.ObjectiveBefore, r.Objective, optimum); c < 0.999 || r.Captured() < 0.999 {
			t.Errorf("seed %d: captured %.5f of the optimum, %.5f of the bound", seed, c, r.Captured())
		}
	}
}

// Nor is a solve with a budget worse than the best so many moves one by one, and its bound knows the budget: it is far above
// what all moves together could reach.
func TestSolveIsNeverWorseThanTheBestMoves(t *testing.T) {
	for seed := range uint64(2) {
		free := solve(t, generate(t, 40, 2400, seed), Options{WorkLimit: 1_000_000, Seed: seed})
		for _, moves := range []int{3, 12} {
			p := generate(t, 40, 2400, seed)
			p.Limits.MaxMoves = moves
			d := Descent(context.Background(), p, Options{WorkLimit: 1_000_000})
			r := solve(t, p, Options{WorkLimit: 1_000_000, Seed: seed})
			if !d.Checked || d.Objective >= d.ObjectiveBefore || r.Objective > d.Objective {
				t.Errorf("seed %d: %d moves come to %v, the best ones by one to %v, before is %v", seed, moves, r.Objective, d.Objective, d.ObjectiveBefore)
			}
			if known := (r.LowerBound - free.LowerBound) / (r.Objective - free.Objective); known < 0.5 {
				t.Errorf("seed %d: %d moves come to %v, at least %v; without a budget %v, at least %v", seed, moves, r.Objective, r.LowerBound, free.Objective, free.LowerBound)
			}
		}
	}
}

// Limits on work alone make a run repeat, whoever does the work.
func TestSameWorkSameAnswer(t *testing.T) {
	for name, p := range map[string]*model.Problem{
		"one part":     generate(t, 30, 1000, 1),
		"several":      generate(t, 140, 1500, 2),
		"with a limit": func() *model.Problem { p := generate(t, 20, 600, 3); p.Limits.MaxMoves = 15; return p }(),
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{WorkLimit: 1_200_000, Seed: 7, Workers: 1}
			one := solve(t, p, o)
			o.Workers = 2
			two := solve(t, p, o)
			o.Workers = 5
			five := solve(t, p, o)
			if !slices.Equal(one.Assignment, two.Assignment) || !slices.Equal(two.Assignment, five.Assignment) {
				t.Error("the assignments differ")
			}
			if one.LowerBound != two.LowerBound || one.Counters != two.Counters {
				t.Errorf("bound %v and %v, work %+v and %+v", one.LowerBound, two.LowerBound, one.Counters, two.Counters)
			}
			if o.Seed = 8; slices.Equal(solve(t, p, o).Assignment, one.Assignment) && name == "several" {
				t.Error("another seed gives the very same answer: is it used?")
			}
		})
	}
}

// Budgets are hard, and what they leave is well spent.
func TestBudgets(t *testing.T) {
	free := solve(t, generate(t, 24, 800, 1), Options{WorkLimit: 4_000_000})
	last := free.ObjectiveBefore
	for _, moves := range []int{2, 15} {
		p := generate(t, 24, 800, 1)
		p.Limits.MaxMoves = moves
		r := solve(t, p, Options{WorkLimit: 4_000_000})
		made := 0
		for c, n := range r.Assignment {
			if n != p.Copies[c].Node {
				made++
			}
		}
		if made > moves || made == 0 {
			t.Errorf("%d moves of at most %d", made, moves)
		}
		if r.Objective >= last {
			t.Errorf("with %d moves %v, with fewer %v", moves, r.Objective, last)
		}
		last = r.Objective
		t.Logf("%d moves: captured %.4f of what they can, gap %.4f", moves, r.Captured(), r.Gap())
		if r.Captured() < 0.8 {
			t.Errorf("with %d moves captured %.4f", moves, r.Captured())
		}
	}
	p := generate(t, 24, 800, 1)
	p.Limits.MaxBytes = 1e12
	r := solve(t, p, Options{WorkLimit: 4_000_000})
	if made := model.NewPlacement(p, r.Assignment).BytesMoved(); made > p.Limits.MaxBytes || made == 0 {
		t.Errorf("%v bytes of at most %v", made, p.Limits.MaxBytes)
	}
}

// A time limit ends a solve that would run for longer, with an answer that holds. How good it is by then is a matter of the
// machine.
func TestTimeLimit(t *testing.T) {
	p := generate(t, 100, 6000, 1)
	r := solve(t, p, Options{TimeLimit: 1500 * time.Millisecond, Workers: 2})
	if r.Limit != TimeLimit || r.Status != Limited || !r.Checked || r.Objective > r.ObjectiveBefore {
		t.Errorf("%s by %s, checked %t, objective from %v to %v", r.Status, r.Limit, r.Checked, r.ObjectiveBefore, r.Objective)
	}
	t.Logf("captured %.4f", r.Captured())
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	c, err := Solve(ctx, p, Options{})
	if err != nil || !c.Checked || c.Objective > c.ObjectiveBefore {
		t.Errorf("cancelled at once: %+v, %v", c, err)
	}
}

// Where disks are full no copy fits anywhere, and copies have to change places. A problem too large for the plain descent to come
// first gains by that what the descent gains, up to two in a hundred, for the same work: a search of single moves gains half.
func TestFullDisksOnManyNodes(t *testing.T) {
	p := generate(t, partNodes+12, 4000, 1, func(o *instance.Options) { o.DiskFill = 0.78 })
	o := Options{WorkLimit: 8_000_000, Seed: 1}
	plain := Descent(context.Background(), p, o)
	r := solve(t, p, o)
	t.Logf("%v -> %v, the plain descent %v", r.ObjectiveBefore, r.Objective, plain.Objective)
	if gains := r.ObjectiveBefore - plain.Objective; r.ObjectiveBefore-r.Objective < 0.98*gains {
		t.Errorf("%v for the same work, the plain descent %v", r.Objective, plain.Objective)
	}
}

// The next cycle starts from this one's prices, and stops as soon as the gap is small enough.
func TestWarmStartAndTargetGap(t *testing.T) {
	p := generate(t, 30, 1200, 1)
	cold := solve(t, p, Options{WorkLimit: 2_000_000})
	drift := rand.New(rand.NewPCG(1, 1))
	for c := range p.Copies {
		if drift.IntN(50) == 0 {
			p.Copies[c].Load[0] *= 1.5
		}
	}
	p.Nodes[3].ID = "new-node" // and one node is a stranger
	warm := solve(t, p, Options{WorkLimit: 2_000_000, Warm: cold.Warm})
	if warm.Captured() < cold.Captured()-0.02 {
		t.Errorf("cold captured %.4f, warm %.4f", cold.Captured(), warm.Captured())
	}
	soon := solve(t, p, Options{WorkLimit: 2_000_000, Warm: cold.Warm, TargetGap: warm.Gap() + 0.1})
	if soon.Counters.MovesTried >= warm.Counters.MovesTried || soon.Status != Feasible {
		t.Errorf("with an easy target %d moves were tried, without %d; %s", soon.Counters.MovesTried, warm.Counters.MovesTried, soon.Status)
	}
}

// After a drift, what was found before is most of the new answer, for a quarter of the work and with few moves more.
func TestWarmAnswerGoesOn(t *testing.T) {
	moves := func(p *model.Problem, node []int32) int { return model.NewPlacement(p, node).Moves() }
	for seed := range uint64(2) {
		p := generate(t, 40, 2400, seed)
		first := solve(t, p, Options{WorkLimit: 6_000_000, Seed: seed})
		q := instance.Drift(p, 0.02, seed)
		cold := solve(t, q, Options{WorkLimit: 6_000_000, Seed: seed})
		warm := solve(t, q, Options{WorkLimit: 2_000_000, Seed: seed, Warm: first.Warm})
		gained := func(r *Result) float64 { return captured(r.ObjectiveBefore, r.Objective, cold.LowerBound) }
		t.Logf("seed %d: cold %.4f with %d moves, warm %.4f with %d", seed, gained(cold), moves(q, cold.Assignment), gained(warm), moves(q, warm.Assignment))
		if gained(warm) < gained(cold)-0.005 {
			t.Errorf("seed %d: warm gains %.4f, cold %.4f", seed, gained(warm), gained(cold))
		}
		// Of some seventy moves, a few more or less are chance; at 750 nodes it is two in a hundred.
		if w, c := moves(q, warm.Assignment), moves(q, cold.Assignment); float64(w) > 1.1*float64(c)+1 {
			t.Errorf("seed %d: %d moves, cold %d", seed, w, c)
		}
	}
}

// What nodes are called, in which order they come and in which unit a dimension is measured changes no optimum.
func TestOptimumDoesNotDependOnNamesAndUnits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := instancetest.Problem(t, 4, 5)
		want := solveTiny(t, p)
		q := *p
		q.Nodes, q.Copies, q.Classes = slices.Clone(p.Nodes), slices.Clone(p.Copies), slices.Clone(p.Classes)
		to := rapid.Permutation([]int{0, 1, 2, 3}[:len(p.Nodes)]).Draw(t, "order")
		unit := float64(rapid.SampledFrom([]int{2, 1000, 1 << 30}).Draw(t, "unit"))
		for n := range p.Nodes {
			node := p.Nodes[n]
			node.ID = fmt.Sprint("renamed-", to[n])
			node.Capacity, node.Base = slices.Clone(node.Capacity), slices.Clone(node.Base)
			node.Capacity[0] *= unit
			if node.Base != nil {
				node.Base[0] *= unit
			}
			if node.MaxLoad = slices.Clone(node.MaxLoad); node.MaxLoad != nil {
				node.MaxLoad[0] *= unit
			}
			q.Nodes[to[n]] = node
		}
		for k := range q.Classes {
			nodes := make([]int32, 0, len(p.Classes[k].Nodes))
			for _, n := range p.Classes[k].Nodes {
				nodes = append(nodes, int32(to[n]))
			}
			slices.Sort(nodes)
			q.Classes[k].Nodes = nodes
		}
		for c := range q.Copies {
			q.Copies[c].Node = int32(to[p.Copies[c].Node])
			q.Copies[c].Load = slices.Clone(p.Copies[c].Load)
			q.Copies[c].Load[0] *= unit
		}
		if got := solveTiny(t, &q); !instancetest.Close(got, want) {
			t.Fatalf("%v became %v", want, got)
		}
	})
}

func solveTiny(t *rapid.T, p *model.Problem) float64 {
	r, err := Solve(context.Background(), p, Options{Workers: 1})
	if err != nil || r.Status != Optimal || !r.Checked {
		t.Fatalf("%+v, %v", r, err)
	}
	return r.Objective
}

// The ladder: what a solve costs and how far it comes with work in proportion to size.
func BenchmarkSolve(b *testing.B) {
	for _, size := range [][2]int{{10, 500}, {50, 3000}, {100, 6000}} {
		b.Run(fmt.Sprintf("%dx%d", size[0], size[1]), func(b *testing.B) {
			p := generate(b, size[0], size[1], 1)
			for b.Loop() {
				r := solve(b, p, Options{WorkLimit: int64(3000 * size[1]), Seed: 1, Workers: 2})
				b.ReportMetric(r.Captured(), "captured")
				b.ReportMetric(r.Gap(), "gap")
				b.ReportMetric(float64(r.Counters.ColumnsBuilt), "columns")
				b.ReportMetric(float64(r.Counters.MovesTried), "moves-tried")
			}
		})
	}
}

func BenchmarkDescent(b *testing.B) {
	for _, size := range [][2]int{{10, 500}, {50, 3000}} {
		b.Run(fmt.Sprintf("%dx%d", size[0], size[1]), func(b *testing.B) {
			p := generate(b, size[0], size[1], 1)
			for b.Loop() {
				if r := Descent(context.Background(), p, Options{}); !r.Checked {
					b.Fatal("the answer does not stand the check")
				}
			}
		})
	}
}

// One round of pricing at full scale: all pairs of 750 nodes and 50 000 copies, as far as they can matter.
func BenchmarkPricing(b *testing.B) {
	p := generate(b, 750, 50000, 1)
	f := newFrame(p)
	w := newFlow(f)
	w.narrow(widest)
	rng := rand.New(rand.NewPCG(1, 1))
	prices := w.prices()
	for b.Loop() {
		_, pairs := f.newPricer(prices, rng).groups(2)
		b.ReportMetric(float64(pairs), "pairs")
	}
}
