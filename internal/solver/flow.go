package solver

import (
	"math"
	"math/rand/v2"
	"slices"
)

// flow is a fractional answer to the relaxation: how much of every group follows which pattern of moves, the rest stays.
// A slot's price follows its load, as travel times follow traffic: sweep by sweep, each group shifts parts from dearer
// patterns to its cheapest one, until no shift pays. phi's corners are rounded off over a width that shrinks, for at a
// corner shared by many groups no single shift pays although together they would.
type flow struct {
	f      *frame
	width  float64   // of the rounding, in units of utilization
	load   []float64 // per slot, native units
	price  []float64 // per slot, a native unit
	jump   []float64 // how much phi's slope rises at each of its points
	wall   float64   // price scale of hard limits
	groups [][]path
	work   int64
}

// path is one pattern of a group in use.
type path struct {
	moves []move
	cost  float64 // of all of it, beyond what the slots' prices say
	slot  []int32
	add   []float64 // to the slot's load
	share float64   // of the group that follows it
}

func newFlow(f *frame) *flow {
	w := &flow{f: f, load: make([]float64, len(f.slots)), price: make([]float64, len(f.slots)), groups: make([][]path, len(f.p.Groups))}
	last := 0.0
	for _, slope := range f.p.Objective.Phi.Slopes {
		w.jump = append(w.jump, slope-last)
		last = slope
	}
	w.wall = max(last, 1) / float64(len(f.p.Nodes))
	for i := range f.slots {
		w.load[i] = f.slots[i].fixed
	}
	for c := range f.p.Copies {
		if f.movable[c] {
			for r, l := range f.loads(int32(c)) {
				i := int(f.p.Copies[c].Node)*f.resources + r
				inside, _ := f.split(&f.slots[i], l)
				w.load[i] += inside
			}
		}
	}
	return w
}

// narrow sets the width and all prices from the loads.
func (w *flow) narrow(width float64) {
	w.width = width
	for i := range w.price {
		w.price[i] = w.priceAt(i)
	}
}

// priceAt is the slope of slot i's rounded cost at its load.
func (w *flow) priceAt(i int) float64 {
	s, x := &w.f.slots[i], w.load[i]
	if s.share > 0 {
		r, slope := x*s.scale-s.shift, 0.0
		for k, at := range w.f.p.Objective.Phi.Points {
			over := (r-at)/w.width + 0.5
			if over <= 0 {
				break
			}
			slope += w.jump[k] * min(over, 1)
		}
		return slope * s.share * s.scale
	}
	if math.IsInf(s.most, 1) {
		return 0
	}
	// A hard limit is a wall that rises over the last width below it.
	if over := (x/s.most-1)/w.width + 1; over > 0 {
		return w.wall * over / s.most
	}
	return 0
}

// add puts patterns that are new into use, with nothing following them yet.
func (w *flow) add(found []priced) {
	for g := range found {
	next:
		for _, moves := range found[g].patterns {
			for i := range w.groups[g] {
				if slices.Equal(w.groups[g][i].moves, moves) {
					continue next
				}
			}
			w.groups[g] = append(w.groups[g], w.f.path(int32(g), moves))
		}
	}
}

// path is the pattern with what it costs and adds.
func (f *frame) path(g int32, moves []move) path {
	x := path{moves: moves}
	if !f.settled(g) {
		after, _ := f.tierRules(g, f.placed(g, moves), nil)
		x.cost = after - f.tierNow[g]
	}
	for _, m := range moves {
		from := f.p.Copies[m.copy].Node
		x.cost += f.moveCost[m.copy] - f.stayPrice[m.copy]
		for r, l := range f.loads(m.copy) {
			for _, end := range [2]struct {
				node int32
				sign float64
			}{{from, -1}, {m.node, 1}} {
				i := end.node*int32(f.resources) + int32(r)
				inside, charge := f.split(&f.slots[i], l)
				x.cost += end.sign * charge
				if inside != 0 && f.slots[i].shared() {
					x.slot, x.add = append(x.slot, i), append(x.add, end.sign*inside)
				}
			}
		}
	}
	return x
}

func (w *flow) costOf(x *path) float64 {
	cost := x.cost
	for i, s := range x.slot {
		cost += x.add[i] * w.price[s]
	}
	w.work += int64(len(x.slot))
	return cost
}

func (w *flow) shift(x *path, by float64) {
	x.share += by
	for i, s := range x.slot {
		w.load[s] += by * x.add[i]
		w.price[s] = w.priceAt(int(s))
	}
	w.work += 2 * int64(len(x.slot))
}

// dust is a share that is nothing.
const dust = 1e-12

// sweep lets every group shift once, from each of its patterns to its cheapest.
func (w *flow) sweep() {
	for g := range w.groups {
		paths := w.groups[g]
		if len(paths) == 0 {
			continue
		}
		stay := path{share: 1}
		best, least := &stay, 0.0
		for i := range paths {
			stay.share -= paths[i].share
			if cost := w.costOf(&paths[i]); cost < least {
				best, least = &paths[i], cost
			}
		}
		w.even(&stay, best)
		for i := range paths {
			w.even(&paths[i], best)
		}
	}
}

// even shifts from x to best until both cost the same or nothing is left.
func (w *flow) even(x, best *path) {
	if x == best || x.share <= dust {
		return
	}
	above := w.costOf(x) - w.costOf(best)
	if above <= 0 {
		return
	}
	low, lowAt, at := above, 0.0, x.share
	highAt := at
	w.shift(x, -at)
	w.shift(best, at)
	high := w.costOf(x) - w.costOf(best)
	for try := 0; high < 0 && try < 6; try++ { // regula falsi: the difference falls along the shift
		next := lowAt + (highAt-lowAt)*low/(low-high)
		w.shift(x, at-next)
		w.shift(best, next-at)
		at = next
		switch now := w.costOf(x) - w.costOf(best); {
		case math.Abs(now) < 1e-3*above:
			try = 6
		case now > 0:
			low, lowAt = now, at
		default:
			high, highAt = now, at
		}
	}
	if x.share < dust {
		x.share = 0
	}
}

// prune drops unused patterns that are not the cheapest; pricing offers them again if they become it.
func (w *flow) prune() {
	for g := range w.groups {
		best := 0.0
		for i := range w.groups[g] {
			best = min(best, w.costOf(&w.groups[g][i]))
		}
		w.groups[g] = slices.DeleteFunc(w.groups[g], func(x path) bool { return x.share == 0 && w.costOf(&x) > best })
	}
}

// prices are the flow's prices, fit for a bound.
func (w *flow) prices() *prices {
	p := w.f.noPrices()
	copy(p.slot, w.price)
	w.f.restrict(p)
	return p
}

// value is the relaxation's objective of the flow: no bound, but what the bound comes near to.
func (w *flow) value() float64 {
	total := w.f.constant
	for i := range w.f.slots {
		total += w.f.cost(&w.f.slots[i], w.load[i])
	}
	for c := range w.f.p.Copies {
		if w.f.movable[c] {
			total += w.f.stayPrice[c]
			for r, l := range w.f.loads(int32(c)) {
				_, charge := w.f.split(&w.f.slots[int(w.f.p.Copies[c].Node)*w.f.resources+r], l)
				total += charge
			}
		}
	}
	for g := range w.groups {
		total += w.f.tierNow[g]
		for i := range w.groups[g] {
			total += w.groups[g][i].share * w.groups[g][i].cost
		}
	}
	return total
}

// incoming is how many copies, parts added up, come to each node.
func (w *flow) incoming() []float64 {
	in := make([]float64, len(w.f.p.Nodes))
	for g := range w.groups {
		for _, x := range w.groups[g] {
			for _, m := range x.moves {
				in[m.node] += x.share
			}
		}
	}
	return in
}

const (
	// The width starts where prices are smooth over the whole range in which nodes differ and ends well below phi's
	// first step. Guesses that held on every instance tried; slower shrinking is better and slower.
	widest, narrowest = 0.2, 0.002
	sweepsPerRound    = 5
	// flowRounds is how many rounds a flow takes if it may: 66 of them shrink the width by 7 % each.
	flowRounds, fewestRounds = 90, 24
)

// settle runs rounds of pricing and sweeping, and returns the best bound with its prices. From warm prices it starts
// narrower. rounds tells how many rounds it may take after it has seen the work of one.
func (w *flow) settle(warm *prices, rng *rand.Rand, workers int, rounds func(work int64) int, stop func() bool) (best *prices, bound float64, pairs int64, done int) {
	bound = math.Inf(-1)
	width := widest
	if warm != nil {
		found, work := w.f.newPricer(warm, rng).groups(workers)
		w.add(found)
		pairs += work
		width = widest / 4
	}
	most, shrink := flowRounds, 0.93
	for done = 0; done < most && !stop(); done++ {
		w.narrow(width)
		current := w.prices()
		q := w.f.newPricer(current, rng)
		found, work := q.groups(workers)
		pairs += work
		if b := q.groupBound(found); b > bound {
			best, bound = current, b
		}
		w.add(found)
		before := w.work
		for range sweepsPerRound {
			w.sweep()
		}
		w.prune()
		if done == 1 {
			if most = rounds(work + w.work - before); most < flowRounds {
				shrink = math.Pow(narrowest/widest, 1/(0.7*float64(most)))
			}
		}
		width = max(width*shrink, narrowest)
	}
	return best, bound, pairs, done
}
