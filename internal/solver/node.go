package solver

import (
	"cmp"
	"math"
	"slices"

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
// and the node at least its cost's tangent. What is heavy is branched on first, tables then decide most of the others, and
// branching what they leave open. It is one goroutine's scratch.
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

	best     float64 // of the choices found
	chosen   []bool  // who leaves, or does not come, then
	trial    []bool
	tables   knapsack
	tangents []tangent

	// The open choices, their numbers side by side, and scratch of the loops over them.
	open          []int32
	loads         [cluster.MaxDimensions][]float64
	gone          []float64
	stays         []float64
	until         []stayer
	turns         []turn
	better, worse [][]int32 // who of those before is better, or worse, in all
}

func (q *nodeSolver) total(load *vector) float64 {
	v := 0.0
	for d := range q.dims {
		v += q.pieces[d].cost(load[d])
	}
	return v
}

func (q *nodeSolver) staying(s *vector, x *choice) float64 {
	v := 0.0
	for d := range q.dims {
		v += s[d] * x.load[d]
	}
	return v
}

// line puts the open choices' numbers side by side, for the loops that run over all of them.
func (q *nodeSolver) line(open []int32) {
	q.open, q.gone = open, q.gone[:0]
	for d := range q.dims {
		q.loads[d] = q.loads[d][:0]
	}
	for _, i := range open {
		x := &q.choices[i]
		q.gone = append(q.gone, x.gone)
		for d := range q.dims {
			q.loads[d] = append(q.loads[d], x.load[d])
		}
	}
	q.stays = append(q.stays[:0], make([]float64, len(open))...)
}

// price puts into stays what the open choices from i on cost on the node at slopes s.
func (q *nodeSolver) price(s *vector, i int) []float64 {
	stays := q.stays[i:]
	clear(stays)
	for d := range q.dims {
		if slope := s[d]; slope != 0 {
			for j, l := range q.loads[d][i:] {
				stays[j] += slope * l
			}
		}
	}
	return stays
}

// tangency is what the node costs at least at slope s in dimension d, with load there.
func (q *nodeSolver) tangency(d int, s, load float64) float64 {
	b := &q.pieces[d]
	if len(b.at) == 0 {
		return 0
	}
	k := b.knot(s)
	return b.value[k] + s*(load-b.at[k])
}

// raise improves slopes one dimension at a time, and returns the lower bound they give for the choices from i on with load
// there already. The bound is concave in each slope, and its derivative is what is there plus what stays, minus the load
// where the cost has that slope.
func (q *nodeSolver) raise(s, load *vector, i, sweeps int) float64 {
	stays, gone := q.price(s, i), q.gone[i:]
	nodes := 0.0 // the part without the choices
	for d := range q.dims {
		nodes += q.tangency(d, s[d], load[d])
	}
	best := nodes
	for j, v := range stays {
		best += min(v, gone[j])
	}
	for range sweeps {
		was := best
		for d := range q.dims {
			b, loads := &q.pieces[d], q.loads[d][i:]
			if len(b.at) == 0 {
				continue
			}
			// The slope up to which each choice stays, the other dimensions' slopes given.
			q.until = q.until[:0]
			for j, l := range loads {
				if l > 0 {
					q.until = append(q.until, stayer{(gone[j]-stays[j])/l + s[d], l})
				}
			}
			low, high := b.price, b.slope[len(b.slope)-1]
			sure, open := load[d], q.until // of those whose slope is above high, and those in between
			for range 20 {
				mid := (low + high) / 2
				more, k := sure, 0
				for j := range open { // those that stay at mid come first
					if mid <= open[j].slope {
						more += open[j].load
						open[k], open[j] = open[j], open[k]
						k++
					}
				}
				if more > b.at[b.knot(mid)] {
					low, open = mid, open[:k]
				} else {
					high, sure, open = mid, more, open[k:]
				}
			}
			q.work += int64(len(loads))/2 + 1
			by, rest := 0.0, nodes-q.tangency(d, s[d], load[d])
			for _, try := range [2]float64{low, high} {
				change := try - s[d]
				v := rest + q.tangency(d, try, load[d])
				for j, l := range loads {
					v += min(stays[j]+change*l, gone[j])
				}
				if v > best {
					best, by = v, change
				}
			}
			if by != 0 {
				s[d] += by
				nodes = rest + q.tangency(d, s[d], load[d])
				for j, l := range loads {
					stays[j] += by * l
				}
			}
		}
		if best-was <= q.tol/4 {
			break
		}
	}
	return best
}

// stayer is a choice in one dimension: it stays while the slope is below.
type stayer struct{ slope, load float64 }

// tangent is a bound at slopes for all that is left from a choice on, ready to be looked up.
type tangent struct {
	slopes vector
	base   float64
	rest   []float64 // per choice: what it and those after it cost at least
}

// touch makes the tangent at slopes s.
func (q *nodeSolver) touch(s vector) {
	var t tangent
	if len(q.tangents) == mostTangents {
		t.rest = q.tangents[mostTangents-1].rest
		q.tangents = q.tangents[:mostTangents-1]
	}
	t.slopes, t.rest = s, append(t.rest[:0], make([]float64, len(q.open)+1)...)
	for d := range q.dims {
		t.base += q.tangency(d, s[d], 0)
	}
	stays := q.price(&s, 0)
	for i := len(q.open) - 1; i >= 0; i-- {
		t.rest[i] = t.rest[i+1] + min(stays[i], q.gone[i])
	}
	q.tangents = slices.Insert(q.tangents, 0, t)
}

// below is the best of the tangents' bounds from choice i on, with load there already, up to what is enough. The tangent that
// was enough is looked at first the next time.
func (q *nodeSolver) below(i int, load *vector, enough float64) float64 {
	least := math.Inf(-1)
	for at := range q.tangents {
		t := &q.tangents[at]
		v := t.base + t.rest[i]
		for d := range q.dims {
			v += t.slopes[d] * load[d]
		}
		if least = max(least, v); least >= enough {
			if at > 0 {
				q.tangents[at], q.tangents[at-1] = q.tangents[at-1], q.tangents[at]
			}
			break
		}
	}
	return least
}

// branch decides the open choice i and on. It returns a lower bound of what is below.
func (q *nodeSolver) branch(i int, load vector, paid float64) float64 {
	enough := q.best - q.tol
	bound := paid + q.below(i, &load, enough-paid)
	if bound >= enough {
		return bound
	}
	if i == len(q.open) {
		return q.found(paid + q.total(&load))
	}
	if q.steps--; q.steps < 0 {
		return bound
	}
	if q.steps%tangentEvery == 0 {
		s := q.tangents[0].slopes
		if v := paid + q.raise(&s, &load, i, 1); v > bound {
			bound = v
			q.touch(s)
			if bound >= enough {
				return bound
			}
		}
	}
	gone, more, stay := q.gone[i], load, 0.0
	for d := range q.dims {
		more[d] += q.loads[d][i]
		stay += q.tangents[0].slopes[d] * q.loads[d][i]
	}
	stays, leaves := true, true
	for _, j := range q.better[i] { // one that costs less and brings more is out: so is this
		stays = stays && !q.trial[q.open[j]]
	}
	for _, j := range q.worse[i] {
		leaves = leaves && q.trial[q.open[j]]
	}
	least := math.Inf(1)
	leave := stay > gone
	for range 2 { // the likelier way first
		q.trial[q.open[i]] = leave
		if leave && leaves {
			least = min(least, q.branch(i+1, load, paid+gone))
		} else if !leave && stays {
			least = min(least, q.branch(i+1, more, paid))
		}
		leave = !leave
	}
	return least
}

// found keeps the trial, which costs v, if it is the best. It returns v.
func (q *nodeSolver) found(v float64) float64 {
	if v < q.best {
		q.best = v
		copy(q.chosen, q.trial)
	}
	return v
}

// compare finds, for each open choice, who of those before it is better in all: less load, and costs more to be without. Who is
// worse is not on the node without the better one; otherwise they could change places.
func (q *nodeSolver) compare() {
	q.better, q.worse = make([][]int32, len(q.open)), make([][]int32, len(q.open))
	for i := range q.open {
		for j := i - 1; j >= max(0, i-nearby); j-- {
			a, b := &q.choices[q.open[j]], &q.choices[q.open[i]]
			less, more := a.gone >= b.gone, a.gone <= b.gone
			for d := range q.dims {
				less, more = less && a.load[d] <= b.load[d], more && a.load[d] >= b.load[d]
			}
			if less && len(q.better[i]) < mostCompared {
				q.better[i] = append(q.better[i], int32(j))
			} else if more && !less && len(q.worse[i]) < mostCompared {
				q.worse[i] = append(q.worse[i], int32(j))
			}
		}
	}
}

const (
	// rootSweeps is how often all slopes are improved for all choices at first, againSweeps after some have been decided.
	rootSweeps, againSweeps = 6, 2
	// So many tangents are kept, those of use in front. Looking them all up costs less than improving slopes, which is done
	// once in so many branches.
	mostTangents, tangentEvery = 16, 32
	// A choice is heavy that weighs so many times the mean. The relaxation takes a fraction of it, and its slopes tell nothing of
	// the others then: so it is decided before tables are made.
	heavyWeight = 4
	// A choice is compared with so many before it, and so many better and worse ones are kept: the nearest in weight tell most.
	nearby, mostCompared = 32, 8
	// fewOpen is up to how many open choices nothing is taken for heavy.
	fewOpen = 16
)

// manyOpen is from how many open choices on tables are made: fewer, branching alone decides with less work. At 24 nodes they took
// from the programs what these needed.
var manyOpen = 128

// tableCells is how fine the tables are, one after the other, each for what those before it left open.
var tableCells = []int{64, 256, 1024}

// decide solves the choices at hand: it returns a lower bound and leaves the best found in best and chosen. It begins at slopes s, and
// tries what an earlier answer chose.
func (q *nodeSolver) decide(s *vector, earlier *answer) float64 {
	n := len(q.choices)
	q.chosen, q.trial = append(q.chosen[:0], make([]bool, n)...), append(q.trial[:0], make([]bool, n)...)
	open := make([]int32, n)
	for i := range open {
		open[i] = int32(i)
	}
	q.line(open)
	for d := range q.dims {
		s[d] = q.pieces[d].price
		if earlier != nil && len(q.pieces[d].at) > 0 {
			s[d] = min(max(s[d], earlier.slopes[d]), q.top[d])
		}
	}
	root := q.raise(s, &q.fixed, 0, rootSweeps)
	q.guess(s)
	if earlier != nil {
		q.again(earlier)
	}
	if root >= q.best-q.tol {
		return root
	}
	return min(q.explore(*s, q.fixed, 0, root), q.best)
}

// explore decides the open choices, with load there already and so much paid, when the relaxation at slopes s says least. It
// returns a lower bound.
func (q *nodeSolver) explore(s, load vector, paid, least float64) float64 {
	stay, leave := q.lean(&s, least)
	aside := q.settle(stay, leave, &load, &paid)
	if i := q.heaviest(&s); i >= 0 {
		return min(aside, q.part(i, s, load, paid))
	}
	many := len(q.open) >= manyOpen
	for _, cells := range tableCells {
		if !many || len(q.open) <= fewOpen || q.steps <= 0 {
			break
		}
		least := paid + q.raise(&s, &load, 0, againSweeps)
		if least >= q.best-q.tol {
			return min(aside, least)
		}
		stay, leave := q.lean(&s, least)
		aside = min(aside, q.settle(stay, leave, &load, &paid))
		for d := range q.dims {
			if s[d] <= q.pieces[d].price {
				continue
			}
			least, ok := q.tables.solve(q, d, cells, &s, &load, paid)
			if !ok {
				continue
			}
			if least >= q.best-q.tol {
				return min(aside, least)
			}
			q.tables.pick(q, cells)
			q.improve(load, paid)
			aside = min(aside, q.settle(q.tables.stay, q.tables.leave, &load, &paid))
		}
	}
	q.arrange(&s)
	q.tangents = q.tangents[:0]
	q.touch(s)
	q.compare()
	return min(aside, q.branch(0, load, paid))
}

// part decides the open choice i both ways.
func (q *nodeSolver) part(i int, s, load vector, paid float64) float64 {
	id, open := q.open[i], q.open
	x := &q.choices[id]
	below := math.Inf(1)
	for _, leave := range [2]bool{!x.guest, x.guest} {
		q.steps--
		at, there, cost := s, load, paid
		if leave {
			cost += x.gone
		} else {
			for d := range q.dims {
				there[d] += x.load[d]
			}
		}
		q.line(slices.Delete(slices.Clone(open), i, i+1))
		q.trial[id] = leave
		v := cost + q.raise(&at, &there, 0, againSweeps)
		if v < q.best-q.tol {
			v = q.explore(at, there, cost, v)
		}
		below = min(below, v)
	}
	return below
}

// heaviest is the open choice that weighs most, at slopes s, if that is far more than the mean, otherwise -1.
func (q *nodeSolver) heaviest(s *vector) int {
	if len(q.open) <= fewOpen || q.steps <= 0 {
		return -1
	}
	at, most, all := -1, 0.0, 0.0
	for i, v := range q.price(s, 0) {
		w := max(v, q.gone[i])
		all += w
		if w > most {
			at, most = i, w
		}
	}
	if most*float64(len(q.open)) <= heavyWeight*all {
		return -1
	}
	return at
}

// lean is what the node costs at least if a choice stays, and if it leaves, by the relaxation at slopes s, which says least.
func (q *nodeSolver) lean(s *vector, least float64) (stay, leave []float64) {
	stay, leave = make([]float64, len(q.open)), make([]float64, len(q.open))
	for i, v := range q.price(s, 0) {
		stay[i], leave[i] = least+max(0, v-q.gone[i]), least+max(0, q.gone[i]-v)
	}
	return stay, leave
}

// settle decides the choices that would cost more than there is to find, were they decided the other way, and adds what they
// bring and cost. The others stay open. It returns what the node costs at least if one of them is decided the other way.
func (q *nodeSolver) settle(stay, leave []float64, load *vector, paid *float64) (aside float64) {
	enough := q.best - q.tol
	aside = math.Inf(1)
	open := q.open[:0]
	for i, id := range q.open {
		if stay[i] < enough && leave[i] < enough {
			open = append(open, id)
			continue
		}
		aside = min(aside, max(stay[i], leave[i]))
		x := &q.choices[id]
		if q.trial[id] = stay[i] > leave[i]; q.trial[id] {
			*paid += x.gone
			continue
		}
		for d := range q.dims {
			load[d] += x.load[d]
		}
	}
	q.line(open)
	return aside
}

// arrange sorts the open choices for branching, the largest first.
func (q *nodeSolver) arrange(s *vector) {
	q.turns = q.turns[:0]
	for i, v := range q.price(s, 0) {
		q.turns = append(q.turns, turn{q.open[i], max(v, q.gone[i])})
	}
	slices.SortFunc(q.turns, func(a, b turn) int { return cmp.Or(order(b.weight, a.weight), int(a.at-b.at)) })
	for i, t := range q.turns {
		q.open[i] = t.at
	}
	q.line(q.open)
}

// turn is a choice's place in the order of decisions.
type turn struct {
	at     int32
	weight float64
}

// guess rounds the relaxation, without guests, and improves that.
func (q *nodeSolver) guess(s *vector) {
	q.best = math.Inf(1)
	for i := range q.choices {
		x := &q.choices[i]
		q.trial[i] = x.guest || q.staying(s, x) > x.gone
	}
	q.improve(q.fixed, 0)
}

// again tries what an earlier answer chose, at other prices.
func (q *nodeSolver) again(earlier *answer) {
	for i := range q.choices {
		x := &q.choices[i]
		if x.guest {
			q.trial[i] = !slices.Contains(earlier.come, x.copy)
		} else {
			q.trial[i] = slices.ContainsFunc(earlier.leave, func(y choice) bool { return y.copy == x.copy })
		}
	}
	q.improve(q.fixed, 0)
}

// improve changes single open choices of the trial while that helps, with load of the decided ones there and so much paid, and
// keeps it if it is the best.
func (q *nodeSolver) improve(load vector, paid float64) {
	flip := func(i int, load vector, paid float64) (vector, float64) {
		sign := 1.0
		if q.trial[q.open[i]] {
			paid -= q.gone[i]
		} else {
			paid, sign = paid+q.gone[i], -1
		}
		for d := range q.dims {
			load[d] += sign * q.loads[d][i]
		}
		return load, paid
	}
	for i, id := range q.open {
		if q.trial[id] {
			paid += q.gone[i]
			continue
		}
		for d := range q.dims {
			load[d] += q.loads[d][i]
		}
	}
	best := paid + q.total(&load)
	for range q.open {
		at, least := -1, best
		for i := range q.open {
			l, p := flip(i, load, paid)
			if v := p + q.total(&l); v < least {
				at, least = i, v
			}
		}
		q.work += int64(len(q.open))
		if at < 0 {
			break
		}
		load, paid = flip(at, load, paid)
		q.trial[q.open[at]], best = !q.trial[q.open[at]], least
	}
	q.found(best)
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

// nodeBound solves every node of the frame at the pricer's prices: the lower bound that they prove node by node, and the
// answers by node. When the allowance's time is over the rest is done without branching: that proves less.
// Answers at other prices, nil if there are none, are where it begins.
func (q *pricer) nodeBound(nodes []int32, tol float64, steps, workers int, allow *allowance, earlier []answer) (bound float64, answers []answer, work int64) {
	answers = make([]answer, len(nodes))
	work = parallel(workers, len(nodes), 4, func(from, to int) int64 {
		s := nodeSolver{f: q.f, q: q}
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
