package solver

import (
	"slices"
	"sync"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// vector is one number per balance dimension.
type vector [cluster.MaxDimensions]float64

// piece is a balance slot as a node subproblem sees it: the slot's cost, except that below the knot where its slope
// passes the price, room earns the price, for others would pay that for it.
type piece struct {
	price float64   // of a unit of room
	at    []float64 // knots whose slope is above the price, and the last; native load
	value []float64 // cost there
	slope []float64 // from there on
}

func (f *frame) piece(i int, price float64, to *piece) {
	s := &f.slots[i]
	to.price, to.at, to.value, to.slope = price, to.at[:0], to.value[:0], to.slope[:0]
	if s.share == 0 {
		return
	}
	for k, knot := range f.p.Objective.Phi.Points {
		slope := f.p.Objective.Phi.Slopes[k] * s.share * s.scale
		if slope > price || k == len(f.p.Objective.Phi.Points)-1 { // at the steepest price the last piece is the line itself
			x := (knot + s.shift) / s.scale
			to.at, to.value, to.slope = append(to.at, x), append(to.value, f.cost(s, x)), append(to.slope, slope)
		}
	}
}

// cost is the least of cost(load+z) - price x z over the room z >= 0 that is sold.
func (b *piece) cost(load float64) float64 {
	if len(b.at) == 0 {
		return 0
	}
	if load <= b.at[0] {
		return b.value[0] - b.price*(b.at[0]-load)
	}
	k := b.below(load)
	return b.value[k] + b.slope[k]*(load-b.at[k])
}

// below is the last knot not above a load that is above the first.
func (b *piece) below(load float64) int {
	k := len(b.at) - 1
	for k > 0 && b.at[k] > load {
		k--
	}
	return k
}

// slopeAt is which slope a load is on, the higher one at a knot; -1 below the first knot, where the slope is the price.
func (b *piece) slopeAt(load float64) int {
	if len(b.at) == 0 || load < b.at[0] {
		return -1
	}
	return b.below(load)
}

// flatten lets the slope rise no further than slope k, and returns that. Up to there the cost is the same, beyond it is less.
func (b *piece) flatten(k int) float64 {
	if len(b.at) == 0 {
		return 0
	}
	if k < 0 {
		k, b.slope[0] = 0, b.price
	}
	b.at, b.value, b.slope = b.at[:k+1], b.value[:k+1], b.slope[:k+1]
	return b.slope[k]
}

// knot is where the cost's slope passes s, for s from the price to the last slope.
func (b *piece) knot(s float64) int {
	k := 0
	for k < len(b.slope)-1 && b.slope[k] < s {
		k++
	}
	return k
}

// choice is a copy that may leave the node, or a lump that may come: a guest. Leaving takes its load along and costs gone; a
// guest costs gone if it does not come, for that is what the node misses then.
type choice struct {
	copy   int32
	guest  bool
	load   vector
	gone   float64
	offers []candidate
}

// nodeSolver decides, for one node at given prices, which of the copies at home leave and which lumps come: whole copies, by
// branch and bound. Its relaxation prices each dimension's load by a slope: at slopes s, a copy on the node costs s x load,
// and the node at least its cost's tangent. What is heavy is decided first, tables then decide most of the others, and
// what they leave open is decided one by one or, where that is little, by plain branching. It is one goroutine's scratch.
type nodeSolver struct {
	f      *frame
	q      *pricer
	dims   int
	tol    float64 // what a bound may be too low
	steps  int     // branches left
	work   int64
	pieces [cluster.MaxDimensions]piece
	top    vector                     // the steepest slopes that matter
	reach  [cluster.MaxDimensions]int // up to which piece of its cost a dimension is followed; -1 is below the first knot

	fixed   vector // load of what stays for sure
	choices []choice
	guests  []choice

	best            float64 // of the choices found
	chosen          []bool  // who leaves, or does not come, then
	trial           []bool
	tables          knapsack
	levels          []*level
	*level          // the one at hand
	ifStay, ifLeave []float64
	until           []stayer
	turns           []turn
}

// answer is what is best for one node at the prices.
type answer struct {
	least float64    // no choice costs less
	best  float64    // what this one costs
	leave []choice   // who leaves
	come  []int32    // the lumps that come
	load  vector     // then
	bytes [2]float64 // bytes and copies of the home copies that stay

	slopes vector // at which the relaxation of all choices is best
}

// prepare sets up node n. It returns what the choices do not include, and what lumps pay that come for nothing.
//
// Slopes are followed up to that of the node with all at home, and up to where a guest, in the dimension where it is largest,
// costs more than it pays, and at least as far as reach says. Whom no slope up to there makes leave is no choice but stays. Beyond,
// the cost is taken to rise no steeper: that is less than it does, and so the bound holds whatever comes.
func (q *nodeSolver) prepare(n int32) (constant, free float64) {
	f, R := q.f, q.f.resources
	q.dims = f.balance
	slots := f.slots[int(n)*R : int(n+1)*R]
	var full vector
	for d := range q.dims {
		full[d] = slots[d].fixed
	}
	for _, c := range f.home[n] {
		for d := range q.dims {
			full[d] += f.load[int(c)*R+d]
		}
	}
	free = q.findGuests(n)
	for d := range q.dims {
		i := int(n)*R + d
		f.piece(i, q.q.p.slot[i], &q.pieces[d])
		q.reach[d] = max(q.reach[d], q.pieces[d].slopeAt(full[d]))
	}
	for i := range q.guests {
		x, main, size := &q.guests[i], 0, 0.0
		for d := range q.dims {
			if share := x.load[d] * slots[d].scale; share > size {
				main, size = d, share
			}
		}
		if size == 0 {
			continue
		}
		b := &q.pieces[main]
		for k := q.reach[main] + 1; k < len(b.at) && b.cost(b.at[k])-b.cost(b.at[k]-x.load[main]) < x.gone; k++ {
			q.reach[main] = k
		}
	}
	for d := range q.dims {
		q.top[d] = q.pieces[d].flatten(q.reach[d])
	}
	constant = q.stayers(n)
	for i := range q.guests {
		if x := &q.guests[i]; q.welcome(x) {
			q.choices = append(q.choices, *x)
			constant -= x.gone
		}
	}
	return constant, free
}

// stayers sorts the copies at home into those that stay for sure and those that have a choice. It returns what they cost
// without the choices.
func (q *nodeSolver) stayers(n int32) (constant float64) {
	f, R := q.f, q.f.resources
	slots := f.slots[int(n)*R : int(n+1)*R]
	prices := q.q.p.slot[int(n)*R : int(n+1)*R]
	for d := range q.dims {
		q.fixed[d] = slots[d].fixed
	}
	for r := q.dims; r < R; r++ {
		if prices[r] > 0 {
			constant -= prices[r] * (slots[r].most - slots[r].fixed)
		}
	}
	q.choices = q.choices[:0]
	for _, c := range f.home[n] {
		load := f.loads(c)
		constant += f.stayPrice[c]
		gain := f.stayPrice[c] // leaving saves at most this
		for d := range q.dims {
			gain += q.top[d] * load[d]
		}
		held := 0.0 // what its bytes and itself pay here
		for r := q.dims; r < R; r++ {
			if prices[r] > 0 {
				held += prices[r] * load[r]
			}
		}
		constant += held
		gain += held
		if x, wants := q.leaver(c, gain); wants {
			x.gone -= f.stayPrice[c] + held
			q.choices = append(q.choices, x)
			continue
		}
		for d := range q.dims {
			q.fixed[d] += load[d]
		}
	}
	return constant
}

// leaver prices leaving for copy c, if that may cost less than it gains: a lump's seat, or the cheapest node elsewhere.
func (q *nodeSolver) leaver(c int32, gain float64) (choice, bool) {
	f, seat := q.f, q.q.p.seat
	g, home := f.p.Copies[c].Group, f.p.Copies[c].Node
	crowding := f.crowding(q.q.p.crowd, g, home)
	if at := f.lumpOf[c]; at >= 0 && seat != nil {
		x := choice{copy: c, gone: seat[at] - crowding}
		copy(x.load[:], f.loads(c)[:q.dims])
		return x, x.gone < gain
	}
	if q.q.elsewhere(c)-crowding-f.tierNow[g] >= gain {
		return choice{}, false
	}
	x := q.q.leaving(c, &q.work)
	x.gone -= crowding
	return x, x.gone < gain
}

// negligible is the share of its move that a guest pays for nothing but rounding.
const negligible = 1e-9

// findGuests lists the lumps that would come to node n for what they pay. It returns what the others pay at most.
func (q *nodeSolver) findGuests(n int32) (free float64) {
	f, R, seat := q.f, q.f.resources, q.q.p.seat
	q.guests = q.guests[:0]
	if seat == nil {
		return 0
	}
	bytes := &f.slots[int(n)*R+f.balance]
	for at, c := range f.lumps {
		if seat[at] <= f.moveCost[c] && f.tierNow[f.p.Copies[c].Group] == 0 || f.p.Copies[c].Node == n || !f.mayTake(n, c) {
			continue
		}
		if bytes.fixed+f.p.Copies[c].Bytes > bytes.most {
			continue
		}
		switch x := q.guest(n, c); {
		case x.gone > negligible*f.moveCost[c]:
			q.guests = append(q.guests, x)
		case x.gone > 0:
			free -= x.gone
		}
	}
	q.work += int64(len(f.lumps)) / 16
	return free
}

// guest is lump c as a choice of node n: not to come costs what it pays, less its move and its bytes.
func (q *nodeSolver) guest(n, c int32) choice {
	f, R := q.f, q.f.resources
	x := choice{copy: c, guest: true, gone: q.q.p.seat[f.lumpOf[c]] - q.q.moving(c) - f.crowding(q.q.p.crowd, f.p.Copies[c].Group, n) + f.tierGain(c, n)}
	for r := f.balance; r < R; r++ {
		x.gone -= q.q.p.slot[int(n)*R+r] * f.load[int(c)*R+r]
	}
	copy(x.load[:], f.loads(c)[:q.dims])
	return x
}

// welcome tells whether the node is better off with the guest, if all who have a choice were gone.
func (q *nodeSolver) welcome(x *choice) bool {
	more := 0.0
	for d := range q.dims {
		more += q.pieces[d].cost(q.fixed[d]+x.load[d]) - q.pieces[d].cost(q.fixed[d])
	}
	return more < x.gone
}

// solve finds the best for node n. An answer at other prices, if there is one, is where it begins.
func (q *nodeSolver) solve(n int32, tol float64, steps int, earlier *answer) answer {
	q.tol, q.steps = tol, steps
	for d := range q.reach {
		q.reach[d] = -1
	}
	a := q.reached(n, earlier)
	for q.beyond(n, &a.load) && q.steps > 0 {
		a = q.reached(n, earlier)
	}
	return a
}

// beyond tells whether a load is where the node's cost is steeper than it was followed, and lets it be followed up to there.
func (q *nodeSolver) beyond(n int32, load *vector) (more bool) {
	var b piece
	for d := range q.dims {
		i := int(n)*q.f.resources + d
		q.f.piece(i, q.q.p.slot[i], &b)
		if k := b.slopeAt(load[d]); k > q.reach[d] {
			q.reach[d], more = k, true
		}
	}
	return more
}

// reached finds the best for node n with its costs followed as far as they are.
func (q *nodeSolver) reached(n int32, earlier *answer) answer {
	constant, free := q.prepare(n)
	alone := !q.f.crowded[n] && !slices.ContainsFunc(q.choices, func(x choice) bool { return x.guest })
	if known := q.q.alone[n]; alone && known != nil { // no price of a seat matters to it
		a := *known
		a.least += free
		return a
	}
	a := answer{load: q.fixed}
	a.least = q.decide(&a.slopes, earlier) + constant
	a.best = q.best + constant
	left := make(map[int32]bool, 4)
	for i := range q.choices {
		x := &q.choices[i]
		if q.chosen[i] {
			if !x.guest {
				a.leave = append(a.leave, *x)
				left[x.copy] = true
			}
			continue
		}
		if x.guest {
			a.come = append(a.come, x.copy)
		}
		for d := range q.dims {
			a.load[d] += x.load[d]
		}
	}
	for _, c := range q.f.home[n] {
		if !left[c] {
			a.bytes[0] += q.f.p.Copies[c].Bytes
			a.bytes[1]++
		}
	}
	if alone {
		known := a
		q.q.alone[n] = &known
	}
	a.least += free
	return a
}

// solvers are at hand from one node to the next, so that their scratch is used again.
var solvers = sync.Pool{New: func() any { return new(nodeSolver) }}

// nodeBound solves every node of the frame at the pricer's prices: the lower bound that they prove node by node, and the
// answers by node. When the allowance's time is over the rest is done without branching: that proves less.
// Answers at other prices, nil if there are none, are where it begins.
func (q *pricer) nodeBound(nodes []int32, tol float64, steps, workers int, allow *allowance, earlier []answer) (bound float64, answers []answer, work int64) {
	answers = make([]answer, len(nodes))
	work = parallel(workers, len(nodes), 1, func(from, to int) int64 {
		s := solvers.Get().(*nodeSolver)
		defer solvers.Put(s)
		s.f, s.q, s.work = q.f, q, 0
		branches := steps
		if allow.timeOver() {
			branches = 0
		}
		for i := from; i < to; i++ {
			var before *answer
			if earlier != nil {
				before = &earlier[i]
			}
			answers[i] = s.solve(nodes[i], tol, branches, before)
		}
		return s.work
	})
	bound = q.f.constant + q.f.budgetTerm(q.p) + q.f.crowdTerm(q.p)
	for _, t := range q.f.tierNow {
		bound += t
	}
	for i := range answers {
		bound += answers[i].least
	}
	return bound, answers, work
}
