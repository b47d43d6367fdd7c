package solver

import (
	"math/rand/v2"
	"slices"
	"time"
)

// groupNodes is how many nodes one linear program is about. Column generation takes a second for a hundred nodes, and
// far more than twice that for two hundred; above, the nodes are dealt into parts that are alike, and the parts' prices
// together prove the bound of the whole.
const groupNodes = 128

// fewIncoming is below how many copies coming in a node's room has no price: its own copies are decided by the node
// subproblem, which knows their cost, and where nobody wants in, a price would only give the node credit for room that
// nobody takes.
const fewIncoming = 0.1

// startPrices are the flow's prices as the linear programs start from them.
func (w *flow) startPrices() *prices {
	p := w.prices()
	for n, in := range w.incoming() {
		if in < fewIncoming {
			clear(p.slot[n*w.f.resources : (n+1)*w.f.resources])
		}
	}
	return p
}

// search is the long part: the bound by linear programs on one side, annealing on the other; then what the programs
// suggest, and annealing on with all that is left.
func (r *run) search(from *prices) error {
	seeds := [3]*rand.Rand{}
	for i := range seeds {
		seeds[i] = rand.New(rand.NewPCG(r.rng.Uint64(), uint64(i)))
	}
	s := newSearch(r.f, r.node, r.f.interesting(r.node))
	proof, first := r.allow(0.7, 0.25), r.allow(0.25, 0.2)
	var leave []move
	var err error
	heat := s.heat(r.result.ObjectiveBefore)
	if r.o.Workers > 1 {
		proved := make(chan struct{})
		go func() {
			defer close(proved)
			leave, err = r.bound(from, seeds[0], &proof)
		}()
		s.cool(heat, seeds[1], 1, &first)
		best, node := s.Objective(), s.Assignment()
		for waiting := r.o.TimeLimit > 0; waiting; { // who counts only work does not look at who is first
			select {
			case <-proved:
				waiting = false
			default:
				more := allowance{ctx: r.ctx, since: time.Now(), until: time.Now().Add(r.o.TimeLimit / 20)}
				s.cool(heat/4, seeds[1], 1, &more)
				if s.Objective() < best {
					best, node = s.Objective(), s.Assignment()
				}
			}
		}
		<-proved
		s.reset(node)
	} else {
		leave, err = r.bound(from, seeds[0], &proof)
		first = r.allow(0.25, 0.2) // its time starts now
		s.cool(heat, seeds[1], 1, &first)
	}
	if err != nil {
		return err
	}
	r.used += proof.used + first.used
	r.take(s, "anneal")
	r.result.Counters.MovesTried += s.work
	if err := r.improve(leave, "nodes"); err != nil || r.enough() {
		return err
	}
	return r.settle(seeds[2])
}

// settle anneals from the best answer with what is left, less what the last polish needs.
func (r *run) settle(rng *rand.Rand) error {
	rest := r.allow(1, 0.9)
	if !rest.until.IsZero() {
		rest.until = rest.until.Add(-r.o.TimeLimit / 25)
	}
	s := newSearch(r.f, r.node, r.f.interesting(r.node))
	s.cool(s.heat(r.result.ObjectiveBefore), rng, r.o.Workers, &rest)
	r.used += rest.used
	r.take(s, "anneal")
	last := r.allow(1, 1)
	s.pool = r.f.everything()
	s.reset(r.node)
	solves, err := s.economise(&last)
	r.result.Counters.LPSolves += int64(solves)
	s.bestMoves(&last)
	s.ejections(r.f.large(largeCopies), &last)
	r.take(s, "polish")
	s.pool = r.f.interesting(r.node)
	s.reset(r.node)
	s.descend(&last)
	r.take(s, "polish")
	r.result.Counters.MovesTried += s.work
	r.spent(&last)
	return err
}

// bound proves node by node: at the flow's prices at once, then at the prices of the linear programs. It returns who
// leaves, by the programs.
func (r *run) bound(from *prices, rng *rand.Rand, allow *allowance) (leave []move, err error) {
	f := r.f
	all := make([]int32, len(f.p.Nodes))
	for n := range all {
		all[n] = int32(n)
	}
	tol := 1e-4 * max(0, r.result.ObjectiveBefore-r.result.LowerBound)
	evaluate := func(p *prices, seat []float64) {
		bound, _, work := f.newPricer(p, rng).nodeBound(all, seat, tol/float64(len(all))/4, nodeSteps, r.o.Workers)
		allow.used += work
		r.result.Counters.Rounds++
		r.prove(bound, Nodewise)
	}
	node := slices.Clone(r.node)
	parts := r.deal()
	if len(parts) > 1 {
		evaluate(from, nil)
	}
	runs, errs := make([]masterRun, len(parts)), make([]error, len(parts))
	masters := make([]*master, len(parts))
	seeds := make([]*rand.Rand, len(parts))
	for i := range seeds {
		seeds[i] = rand.New(rand.NewPCG(rng.Uint64(), uint64(i)))
	}
	shares := allow.part(1, len(parts), r.o.Workers)
	parallel(r.o.Workers, len(parts), 1, func(i, _ int) int64 {
		part := f
		if len(parts) > 1 {
			part = f.within(parts[i])
		}
		if masters[i], errs[i] = newMaster(part, parts[i]); errs[i] == nil {
			defer masters[i].close()
			runs[i], errs[i] = masters[i].generate(from, node, tol/float64(len(parts)), seeds[i], &shares[i])
		}
		return 0
	})
	prices, seat := f.noPrices(), make([]float64, len(f.giants))
	for i := range parts {
		if errs[i] != nil {
			return nil, errs[i]
		}
		allow.used += shares[i].used
		m, c := masters[i], &r.result.Counters
		c.PairsPriced += m.pairs
		c.ColumnsBuilt += int64(len(m.columns))
		c.LPSolves += int64(m.solves)
		c.CLPIterations += m.iterations
		c.Rounds += int64(m.rounds)
		leave = append(leave, runs[i].leave...)
		for _, n := range parts[i] {
			copy(prices.slot[int(n)*f.resources:int(n+1)*f.resources], runs[i].prices.slot[int(n)*f.resources:])
		}
		prices.move = max(prices.move, runs[i].prices.move)
		prices.bytes = max(prices.bytes, runs[i].prices.bytes)
		for g, c := range m.f.giants {
			seat[slices.Index(f.giants, c)] = runs[i].seat[g]
		}
	}
	if len(parts) == 1 {
		r.prove(runs[0].bound, Nodewise)
	} else {
		evaluate(prices, seat)
	}
	if r.result.BoundKind == Nodewise {
		r.result.Warm = f.warmth(prices)
	}
	return leave, nil
}

// deal splits the nodes into parts of at most groupNodes that are alike: as many of each zone, of the hot and the cold.
func (r *run) deal() [][]int32 {
	f := r.f
	N := len(f.p.Nodes)
	parts := make([][]int32, (N+groupNodes-1)/groupNodes)
	nodes := make([]int32, N)
	for n := range nodes {
		nodes[n] = int32(n)
	}
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
	for i, n := range nodes {
		parts[i%len(parts)] = append(parts[i%len(parts)], n)
	}
	return parts
}
