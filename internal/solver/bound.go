package solver

import (
	"math"
	"math/rand/v2"
	"slices"
)

const (
	// partNodes is how many nodes one linear program is about. Column generation takes a second for a hundred nodes, and
	// far more than twice that for two hundred; above, the nodes are dealt into parts that are alike, and the parts'
	// prices together prove the bound of the whole.
	partNodes = 128
	// deals is how often the nodes are dealt anew while that raises the bound.
	deals = 4
	// boundTolerance is what the bound may be less than the best that the programs can prove, as a share of what there is
	// to gain.
	boundTolerance = 1e-4
)

// bound proves node by node: at the prices it starts from, and then at those of linear programs over parts of the nodes. It
// returns who leaves, by the last programs.
func (r *run) bound(starts []start, rng *rand.Rand, allow *allowance) (leave []move, err error) {
	f := r.f
	tol := boundTolerance * max(0, r.result.ObjectiveBefore-r.result.LowerBound)
	p := &proof{run: r, rng: rng, allow: allow, tol: tol, nodes: f.nodes(), node: slices.Clone(r.node)}
	best := starts[len(starts)-1].prices
	parts := (len(p.nodes) + partNodes - 1) / partNodes
	if parts == 1 {
		run, err := p.solve([][]int32{p.nodes}, best)
		if err != nil {
			return nil, err
		}
		r.prove(run.bound, Nodewise)
		r.result.Warm = f.warmth(run.prices)
		return run.leave, nil
	}
	reached := math.Inf(-1)
	for _, s := range starts {
		if math.IsInf(s.bound, -1) {
			s.bound = p.evaluate(s.prices, nil)
		}
		if s.bound > reached {
			reached, best = s.bound, s.prices
		}
	}
	for range deals {
		run, err := p.solve(p.deal(parts), best)
		if err != nil {
			return nil, err
		}
		leave = run.leave
		// Each part found prices as if it were alone. Together they may be too low somewhere for all the others: on the
		// way there from the best so far, they are not yet.
		raised := false
		for _, way := range []float64{1, 0.5, 0.25} {
			if allow.timeOver() {
				break
			}
			at := best.blend(run.prices, way)
			if b := p.evaluate(at, run.seat); b > reached {
				reached, best, raised = b, at, true
				break
			}
		}
		if !raised || allow.spent(0) {
			break
		}
	}
	r.result.Warm = f.warmth(best)
	return leave, nil
}

// proof is what the steps of one bound share.
type proof struct {
	*run
	rng   *rand.Rand
	allow *allowance
	tol   float64
	nodes []int32
	node  []int32 // the answer when it began
}

// evaluate proves what prices prove for all nodes together.
func (p *proof) evaluate(at *prices, seat []float64) float64 {
	bound, _, work := p.f.newPricer(at, p.rng).nodeBound(p.nodes, seat, p.tol/float64(len(p.nodes))/4, nodeSteps, p.o.Workers)
	p.allow.used += work
	p.result.Counters.PairsPriced += work
	p.result.Counters.Rounds++
	p.prove(bound, Nodewise)
	return bound
}

// solve runs column generation on every part, as many side by side as there are workers, and puts the parts together.
func (p *proof) solve(parts [][]int32, from *prices) (all masterRun, err error) {
	f := p.f
	runs, errs, masters := make([]masterRun, len(parts)), make([]error, len(parts)), make([]*master, len(parts))
	seeds := make([]*rand.Rand, len(parts))
	for i := range seeds {
		seeds[i] = rand.New(rand.NewPCG(p.rng.Uint64(), uint64(i)))
	}
	share := 1.0
	if len(parts) > 1 {
		share = 0.5 // there will be another deal
	}
	shares := p.allow.part(share, len(parts), p.o.Workers)
	parallel(p.o.Workers, len(parts), 1, func(i, _ int) int64 {
		part := f
		if len(parts) > 1 {
			part = f.within(parts[i])
		}
		if masters[i], errs[i] = newMaster(part, parts[i]); errs[i] == nil {
			defer masters[i].close()
			runs[i], errs[i] = masters[i].generate(from, p.node, p.tol/float64(len(parts)), seeds[i], &shares[i])
		}
		return 0
	})
	all = masterRun{prices: f.noPrices(), seat: make([]float64, len(f.giants)), bound: runs[0].bound}
	for i, m := range masters {
		if errs[i] != nil {
			return all, errs[i]
		}
		p.allow.used += shares[i].used
		c := &p.result.Counters
		c.PairsPriced += m.pairs
		c.ColumnsBuilt += int64(len(m.columns))
		c.LPSolves += int64(m.solves)
		c.CLPIterations += m.iterations
		c.Rounds += int64(m.rounds)
		all.leave = append(all.leave, runs[i].leave...)
		for _, n := range parts[i] {
			copy(all.prices.slot[int(n)*f.resources:int(n+1)*f.resources], runs[i].prices.slot[int(n)*f.resources:])
		}
		all.prices.move = max(all.prices.move, runs[i].prices.move)
		all.prices.bytes = max(all.prices.bytes, runs[i].prices.bytes)
		for g, c := range m.f.giants {
			all.seat[slices.Index(f.giants, c)] = runs[i].seat[g]
		}
	}
	return all, nil
}

// deal splits the nodes into parts that are alike, as many of each zone, of the hot and the cold; every time into others.
func (p *proof) deal(count int) [][]int32 {
	f, parts, nodes := p.f, make([][]int32, count), slices.Clone(p.nodes)
	hottest := func(n int32) float64 {
		most := 0.0
		for d := range f.balance {
			most = max(most, f.now.Utilization(int(n), d))
		}
		return most
	}
	slices.SortStableFunc(nodes, func(a, b int32) int {
		if x, y := f.tiers[0][a], f.tiers[0][b]; x != y {
			return int(x - y)
		}
		return order(hottest(a), hottest(b))
	})
	for at := 0; at < len(nodes); at += count { // each part gets one of those that are alike
		alike := nodes[at:min(at+count, len(nodes))]
		p.rng.Shuffle(len(alike), func(i, j int) { alike[i], alike[j] = alike[j], alike[i] })
		for i, n := range alike {
			parts[i] = append(parts[i], n)
		}
	}
	return parts
}
