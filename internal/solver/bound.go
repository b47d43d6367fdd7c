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

// bound proves node by node: first at prices of the lumps' seats, and then, if there are prices of rooms to start from, at
// those of linear programs over parts of the nodes. It returns who leaves, by the last programs.
func (r *run) bound(starts []start, rng *rand.Rand, allow *allowance) (leave []move, err error) {
	f := r.f
	p := r.proof(rng, allow)
	share := seatShare
	if len(starts) == 1 {
		share = 1
	}
	if len(starts) > 1 && r.short() {
		// Prices of rooms are what matters. Only who nearly fills a node is a lump then: the programs come further.
		starts = starts[1:]
		own := *f
		own.lumpFrom = giantShare
		own.setLumps(own.lumpy(mostLumps))
		p.f = &own
	} else if leave = p.seats(&starts[0], seatLevels, share, 1); len(starts) == 1 || allow.spent(0) {
		return leave, nil
	}
	parts := f.parts()
	var best *prices
	reached := math.Inf(-1)
	for i := range starts {
		s := &starts[i]
		if math.IsInf(s.bound, -1) {
			s.bound = p.evaluate(s.prices)
		}
		if s.bound > reached {
			reached, best = s.bound, p.seated(s)
		}
	}
	for range deals {
		run, err := p.solve(p.deal(parts), best)
		if err != nil {
			return nil, err
		}
		leave = run.leave
		if parts == 1 {
			r.prove(run.bound, Nodewise)
			best = run.prices
			break
		}
		// Each part found prices as if it were alone. Together they may be too low somewhere for all the others: on the
		// way there from the best so far, they are not yet.
		raised := false
		for _, way := range []float64{1, 0.5, 0.25} {
			if allow.timeOver() {
				break
			}
			at := best.blend(run.prices, way)
			if b := p.evaluate(at); b > reached {
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
	f     *frame
	rng   *rand.Rand
	allow *allowance
	tol   float64
	nodes []int32
	node  []int32 // the answer when it began
}

func (r *run) proof(rng *rand.Rand, allow *allowance) *proof {
	tol := boundTolerance * max(0, r.result.ObjectiveBefore-r.result.LowerBound)
	return &proof{run: r, f: r.f, rng: rng, allow: allow, tol: tol, nodes: r.f.nodes(), node: slices.Clone(r.node)}
}

// parts is into how many parts of up to partNodes the nodes are dealt.
func (f *frame) parts() int { return (len(f.p.Nodes) + partNodes - 1) / partNodes }

const (
	// seatShare is the part of the bound's allowance that is for the seats, where other programs follow.
	seatShare = 0.5
	// seatTolerance is how far the bound may stay below what prices of seats could prove, as a share of the objective.
	seatTolerance = 1e-3
)

// seatLevels is for how many lumps prices of seats are looked for, the largest ones first: those matter most, and take the
// shortest time, for every node looks at every lump in every round.
var seatLevels = []int{32, 128, 16 * mostLumps}

// seats finds prices of the lumps' seats, for as many lumps as one level says after the other, each from where the one before
// came to, with a share of the allowance. It returns who leaves by the last prices' mix of choices.
func (p *proof) seats(from *start, levels []int, share float64, workers int) (leave []move) {
	allow := p.allow.part(share, 1, 1)[0]
	defer func() { p.allow.used += allow.used }()
	for _, most := range levels {
		f := *p.f
		f.setLumps(p.f.lumpy(most))
		if len(f.lumps) == 0 || from.seats != nil && len(f.lumps) <= len(from.of.lumps) {
			continue // nothing new
		}
		tol := seatTolerance * p.result.Objective
		s := newSeating(f.newPricer(from.prices, p.rng), p.nodes, p.rng, tol, workers, &allow)
		q := s.start(p.node)
		if from.seats != nil {
			f.seatsOf(q.p, from.of, from.seats)
		}
		best := s.search(q, p.node, tol, p.goal(), func(bound float64) {
			from.bound = max(from.bound, bound)
			p.prove(bound, Nodewise)
		})
		if moves := s.leavers(); moves != nil {
			leave = moves
		}
		p.count(s.work, len(s.choices), 0, 0, s.rounds)
		from.of, from.seats = &f, best.p
		if allow.spent(0) || p.enough() {
			break
		}
	}
	return leave
}

// seated are a start's prices for the lumps of the whole frame.
func (p *proof) seated(s *start) *prices {
	q := p.f.newPricer(s.prices, p.rng).cheapSeats(&p.allow.used)
	if s.seats != nil {
		p.f.seatsOf(q.p, s.of, s.seats)
	}
	return q.p
}

// count books work.
func (r *run) count(pairs int64, columns, solves int, iterations int64, rounds int) {
	c := &r.result.Counters
	c.PairsPriced += pairs
	c.ColumnsBuilt += int64(columns)
	c.LPSolves += int64(solves)
	c.CLPIterations += iterations
	c.Rounds += int64(rounds)
}

// apart looks for seats in parts of the nodes, as if each were alone: what they then choose proves nothing for the
// whole, but tells who should leave.
func (p *proof) apart(parts [][]int32) (leave []move) {
	f := p.f
	leaves, works := make([][]move, len(parts)), make([]seating, len(parts))
	shares := p.allow.part(1, len(parts), p.o.Workers)
	seeds := make([]*rand.Rand, len(parts))
	for i := range seeds {
		seeds[i] = rand.New(rand.NewPCG(p.rng.Uint64(), uint64(i)))
	}
	parallel(p.o.Workers, len(parts), 1, func(i, _ int) int64 {
		part := f.within(parts[i])
		if len(part.lumps) == 0 || shares[i].timeOver() {
			return 0
		}
		tol := seatTolerance * p.result.Objective / float64(len(parts))
		s := newSeating(part.newPricer(part.noPrices(), seeds[i]), parts[i], seeds[i], tol, 1, &shares[i])
		s.search(s.start(p.node), p.node, tol, math.Inf(1), func(float64) {})
		leaves[i], works[i] = s.leavers(), *s
		return 0
	})
	for i := range parts {
		p.allow.used += shares[i].used
		p.count(works[i].work, len(works[i].choices), 0, 0, works[i].rounds)
		leave = append(leave, leaves[i]...)
	}
	slices.SortFunc(leave, func(a, b move) int { return int(a.copy - b.copy) })
	return leave
}

// goal is the bound that ends the solve.
func (r *run) goal() float64 {
	return r.result.Objective - max(proven, r.o.TargetGap)*max(math.Abs(r.result.Objective), 1e-9)
}

// evaluate proves what prices prove for all nodes together.
func (p *proof) evaluate(at *prices) float64 {
	bound, _, work := p.f.newPricer(at, p.rng).nodeBound(p.nodes, p.tol/float64(len(p.nodes))/4, nodeSteps, p.o.Workers, p.allow, nil)
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
		part, start := f, from
		if len(parts) > 1 {
			part = f.within(parts[i])
			start = part.newPricer(from.unseated(), seeds[i]).cheapSeats(&shares[i].used).p
			part.seatsOf(start, f, from)
		}
		if masters[i], errs[i] = newMaster(part, parts[i]); errs[i] == nil {
			defer masters[i].close()
			runs[i], errs[i] = masters[i].generate(start, p.node, p.tol/float64(len(parts)), seeds[i], &shares[i])
		}
		return 0
	})
	all = masterRun{prices: f.noPrices(), bound: runs[0].bound}
	all.prices.seat, all.prices.crowd = make([]float64, len(f.lumps)), make([]float64, len(f.crowdRoom))
	for i, m := range masters {
		if errs[i] != nil {
			return all, errs[i]
		}
		p.allow.used += shares[i].used
		p.count(m.pairs, len(m.columns), m.solves, m.iterations, m.rounds)
		all.leave = append(all.leave, runs[i].leave...)
		for _, n := range parts[i] {
			copy(all.prices.slot[int(n)*f.resources:int(n+1)*f.resources], runs[i].prices.slot[int(n)*f.resources:])
		}
		all.prices.move = max(all.prices.move, runs[i].prices.move)
		all.prices.bytes = max(all.prices.bytes, runs[i].prices.bytes)
		f.seatsOf(all.prices, m.f, runs[i].prices)
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
