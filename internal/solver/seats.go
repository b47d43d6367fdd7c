package solver

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
)

const (
	// seatRounds is where the search for seat prices ends if nothing else ended it; it converges in 10 to 20.
	seatRounds = 150
	// fruitless is after how many rounds without a better bound it ends too.
	fruitless = 6
	// firstWidth is how far a lump that nobody takes, or two do, moves its price at first, in moves of the copy. Prices of seats
	// end up a few tenths above the move, giants' some times that.
	firstWidth = 0.4
	// allWide is a width at which nothing holds the prices back any more.
	allWide = 25
	// batches is into how many batches the nodes of a pass are dealt.
	batches = 32
	// settling is how many sweeps the bundle makes after each batch.
	settling = 3
	// mostPasses is after how many passes all nodes are looked at, whatever they found.
	mostPasses = 4
)

// seating looks for the prices of the lumps' seats, and of the crowds, that prove most, all other prices as they are. The
// bound is a concave function of them, a sum over the nodes, and nodes' choices are its planes.
//
// A round is passes over the nodes in batches, each at the prices that the choices of those before it ask for, and then a look at all
// of them at the same prices, which is what proves. Without a pass all that are alike want the same lumps, and none of
// them the next time. There is another pass first where a look would find more that nobody knew of than the bound can rise.
type seating struct {
	q       *pricer // the prices of all else
	nodes   []int32 // in the order of a pass
	bundle  *bundle // a block is a node; prices are those of seats, then those of crowds
	choices []column
	answers []answer // the nodes' last ones
	each    float64  // tolerance of one node
	workers int
	allow   *allowance

	work   int64
	rounds int
}

func newSeating(q *pricer, nodes []int32, rng *rand.Rand, tol float64, workers int, allow *allowance) *seating {
	f := q.f
	s := &seating{q: q, nodes: slices.Clone(nodes), each: tol / float64(len(nodes)) / 4, workers: workers, allow: allow}
	rng.Shuffle(len(nodes), func(i, j int) { s.nodes[i], s.nodes[j] = s.nodes[j], s.nodes[i] })
	slope := make([]float64, len(f.lumps), len(f.lumps)+len(f.crowdRoom))
	for _, room := range f.crowdRoom {
		slope = append(slope, -room)
	}
	s.bundle = newBundle(len(nodes), slope)
	return s
}

// plane makes a choice of the node at a position a plane: a lump that leaves pays for its seat, and one that comes is paid.
func (s *seating) plane(at int, a *answer) {
	f, n := s.q.f, s.nodes[at]
	k := column{node: n, come: a.come}
	factors := make(map[int32]float64)
	crowd := func(c int32, sign float64) {
		for _, w := range f.crowds[f.p.Copies[c].Group] {
			factors[int32(len(f.lumps))+w.first+w.row[n]] += sign
		}
	}
	for i := range a.leave {
		c := a.leave[i].copy
		k.leave = append(k.leave, c)
		if lump := f.lumpOf[c]; lump >= 0 {
			factors[lump]++
		}
		crowd(c, -1)
	}
	for _, c := range a.come {
		factors[f.lumpOf[c]]--
		crowd(c, 1)
	}
	p := plane{cost: s.q.value(n, a, &s.work), id: len(s.choices)}
	for _, price := range slices.Sorted(maps.Keys(factors)) {
		if v := factors[price]; v != 0 {
			p.terms = append(p.terms, term{price, v})
		}
	}
	s.bundle.add(at, p)
	s.choices = append(s.choices, k)
}

// stand makes the choices of an assignment planes: the bundle knows what it costs.
func (s *seating) stand(assignment []int32) {
	in := s.q.f.stand(s.nodes, assignment)
	for at := range in {
		s.plane(at, &in[at])
	}
}

// start is where the search begins: each lump pays for the cheapest seat, as if no other wanted it. Those that nearly fill a
// node pay what they cost where the assignment has moved them.
func (s *seating) start(assignment []int32) *pricer {
	f := s.q.f
	q := s.q.cheapSeats(&s.work)
	load := make([]float64, len(f.slots))
	for c, n := range assignment {
		if f.movable[c] {
			for r, l := range f.loads(int32(c)) {
				load[int(n)*f.resources+r] += l
			}
		}
	}
	for at, c := range f.lumps {
		n := assignment[c]
		if n == f.p.Copies[c].Node || f.size(c) < giantShare {
			continue
		}
		price := s.q.moving(c)
		for d, l := range f.loads(c)[:f.balance] {
			i := int(n)*f.resources + d
			price += f.cost(&f.slots[i], f.slots[i].fixed+load[i]) - f.cost(&f.slots[i], f.slots[i].fixed+load[i]-l)
		}
		q.p.seat[at] = max(q.p.seat[at], price)
	}
	return q
}

// units are how far prices move before that is scaled: a lump's move, and the most of the group's for a crowd.
func (s *seating) units() []float64 {
	f := s.q.f
	unit := make([]float64, len(f.lumps)+len(f.crowdRoom))
	least := math.Inf(1)
	for at, c := range f.lumps {
		unit[at] = s.q.moving(c)
		if unit[at] > 0 {
			least = min(least, unit[at])
		}
		for _, w := range f.crowds[f.p.Copies[c].Group] {
			for v := w.first; v < w.first+w.values; v++ {
				unit[len(f.lumps)+int(v)] = max(unit[len(f.lumps)+int(v)], unit[at])
			}
		}
	}
	if math.IsInf(least, 1) { // moves are free
		least = 1 / (100 * float64(len(f.p.Nodes)))
	}
	for i := range unit {
		unit[i] = max(unit[i], least)
	}
	return unit
}

// priced is the pricer at prices of the bundle.
func (s *seating) priced(y []float64) *pricer {
	y = slices.Clone(y)
	return s.q.reseated(y[:len(s.q.f.lumps)], y[len(s.q.f.lumps):])
}

// look solves the nodes from one position to another at a pricer's prices, and makes planes of choices that are news there. It
// returns what the prices prove if these are all nodes, what the nodes' searches left open, and by how much the bundle had
// thought the nodes dearer.
func (s *seating) look(q *pricer, from, to int) (bound, open, news float64) {
	var earlier []answer
	if s.answers == nil {
		s.answers = make([]answer, len(s.nodes))
	} else {
		earlier = s.answers[from:to]
	}
	bound, answers, work := q.nodeBound(s.nodes[from:to], s.each, nodeSteps, s.workers, s.allow, earlier)
	copy(s.answers[from:to], answers)
	s.allow.used += work
	s.work += work
	y := slices.Concat(q.p.seat, q.p.crowd)
	for i := range answers {
		a := &answers[i]
		open += a.best - a.least
		if less := s.bundle.least(from+i, y) - a.best; less > s.each/2 {
			news += less
			s.plane(from+i, a)
		}
	}
	return bound, open, news
}

// pass solves the nodes in batches, each at the prices that all choices known by then ask for. It returns what was news of
// the second half: as much will be of all of them in a look at the prices where the pass ends. It gives up when there will by
// far be no time for that, as where the nodes' searches take long.
func (s *seating) pass() (news float64, ended bool) {
	before, allow := s.work, s.allow.part(1, 1, 1)[0]
	for batch := range batches {
		if per := allow.used / int64(max(1, batch)); batch >= batches/8 && !allow.hasFor(per*int64(2*batches-batch)/2) {
			return 0, false
		}
		from, to := batch*len(s.nodes)/batches, (batch+1)*len(s.nodes)/batches
		if from == to {
			continue
		}
		_, _, found := s.look(s.priced(s.bundle.y), from, to)
		if batch >= batches/2 {
			news += found
		}
		allow.used = s.work - before
		for range settling {
			s.bundle.sweep(s.each)
		}
	}
	return news, true
}

// search raises the bound, which prove is told, and returns the prices that prove most. It begins at prices and with an
// assignment's choices. goal is a bound that is enough, tol what the bound may stay below what could be proven.
func (s *seating) search(best *pricer, assignment []int32, tol, goal float64, prove func(bound float64)) *pricer {
	f := s.q.f
	constant := f.constant + sumOf(f.tierNow) + f.budgetTerm(s.q.p)
	s.stand(assignment)
	s.stand(f.p.Current())
	bound, open, _ := s.look(best, 0, len(s.nodes))
	prove(bound)
	width, unit, bad, raised := firstWidth, s.units(), 0, 0
	reach := make([]float64, len(unit))
	pass, look := s.work, s.work // work of the last ones; half of one proves nothing
	for s.rounds < seatRounds && s.rounds-raised < fruitless && bound < goal && !s.allow.spent(0) && s.allow.hasFor(look) {
		center := slices.Concat(best.p.seat, best.p.crowd)
		// What the nodes' searches left open is not to be had.
		rise := func() (expected float64) {
			for i := range reach {
				reach[i] = width * unit[i]
			}
			s.bundle.around(center, reach)
			return s.bundle.rise(bound-constant, tol/10) + constant - open - bound
		}
		expected := rise()
		for ; expected <= tol; expected = rise() {
			if width >= allWide {
				return best
			}
			width *= 2
		}
		for news, passes := math.Inf(1), 0; news > expected && expected > tol && passes < mostPasses && s.allow.hasFor(pass+look); passes++ {
			before := s.work
			found, ended := s.pass()
			if !ended {
				return best
			}
			news, pass = found, s.work-before
			expected = rise()
		}
		s.rounds++
		if expected <= tol {
			continue
		}
		next, before := s.priced(s.bundle.y), s.work
		var at float64
		at, open, _ = s.look(next, 0, len(s.nodes))
		look = s.work - before
		gain := at - bound
		if gain > 0 {
			bound, best, raised = at, next, s.rounds
			prove(bound)
		}
		// Wider if the bound rose as promised, narrower only if it fell by far more than was promised, or again and again, for most
		// falls are mended by the choices that come in.
		switch worse := -gain / expected; {
		case gain >= expected/2:
			width, bad = 2*width, 0
		case gain > 0:
			bad = 0
		default:
			if bad++; worse > 3 || worse > 1 && bad >= 3 {
				width, bad = width/min(worse, 4), 0
			}
		}
	}
	return best
}

// leavers are those of the best mix of choices.
func (s *seating) leavers() []move {
	if s.rounds == 0 {
		return nil
	}
	weights := make([]float64, len(s.choices))
	for _, planes := range s.bundle.blocks {
		for i := range planes {
			weights[planes[i].id] = planes[i].weight
		}
	}
	return leavers(s.nodes, s.choices, weights)
}
