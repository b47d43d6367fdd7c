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
// and the node at least its cost's tangent. It is one goroutine's scratch.
type nodeSolver struct {
	f      *frame
	q      *pricer
	dims   int
	tol    float64 // what a bound may be too low
	steps  int     // branches left
	work   int64
	pieces [cluster.MaxDimensions]piece
	top    vector // the steepest slopes that matter

	fixed   vector // load of what stays for sure
	choices []choice
	open    int // choices from here on are decided
	heavy   int // so many of the first are far larger than the others
	guests  []choice

	best          float64 // of the choices found
	chosen        []bool  // who leaves, or does not come, then
	trial         []bool
	tangents      []tangent
	better, worse [][]int32 // per open choice: who of those before it is better, or worse, in all

	// The open choices' numbers side by side, and scratch of the loops over them.
	loads [cluster.MaxDimensions][]float64
	gone  []float64
	stays []float64
	until []stayer
	turns []turn
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
func (q *nodeSolver) line() {
	q.gone = q.gone[:0]
	for d := range q.dims {
		q.loads[d] = q.loads[d][:0]
	}
	for i := range q.open {
		x := &q.choices[i]
		q.gone = append(q.gone, x.gone)
		for d := range q.dims {
			q.loads[d] = append(q.loads[d], x.load[d])
		}
	}
	q.stays = append(q.stays[:0], make([]float64, q.open)...)
}

// price puts into stays what the choices from i on cost on the node at slopes s.
func (q *nodeSolver) price(s *vector, i int) []float64 {
	stays := q.stays[i:q.open]
	clear(stays)
	for d := range q.dims {
		if slope := s[d]; slope != 0 {
			for j, l := range q.loads[d][i:q.open] {
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
	stays, gone := q.price(s, i), q.gone[i:q.open]
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
			b, loads := &q.pieces[d], q.loads[d][i:q.open]
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
	t.slopes, t.rest = s, append(t.rest[:0], make([]float64, q.open+1)...)
	for d := range q.dims {
		t.base += q.tangency(d, s[d], 0)
	}
	stays := q.price(&s, 0)
	for i := q.open - 1; i >= 0; i-- {
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

// branch decides choice i and on. It returns a lower bound of what is below, the tolerance included.
func (q *nodeSolver) branch(i int, load vector, paid float64) float64 {
	enough := q.best - q.tol
	bound := paid + q.below(i, &load, enough-paid)
	if bound >= enough {
		return enough
	}
	if i == q.open {
		v := paid + q.total(&load)
		if v < q.best {
			q.best = v
			copy(q.chosen, q.trial)
		}
		return v
	}
	q.steps--
	if i < q.heavy || q.steps >= 0 && q.steps%tangentEvery == 0 {
		s := q.tangents[0].slopes
		if v := paid + q.raise(&s, &load, i, 1); v > bound {
			bound = v
			q.touch(s)
			if bound >= enough {
				return enough
			}
		}
	}
	if q.steps < 0 && i >= q.heavy {
		return bound
	}
	x := &q.choices[i]
	more := load
	for d := range q.dims {
		more[d] += x.load[d]
	}
	stays, leaves := true, true
	for _, j := range q.better[i] { // one that costs less and brings more is out: so is this
		stays = stays && !q.trial[j]
	}
	for _, j := range q.worse[i] {
		leaves = leaves && q.trial[j]
	}
	least := math.Inf(1)
	leave := q.staying(&q.tangents[0].slopes, x) > x.gone
	for range 2 { // the likelier way first
		q.trial[i] = leave
		if leave && leaves {
			least = min(least, q.branch(i+1, load, paid+x.gone))
		} else if !leave && stays {
			least = min(least, q.branch(i+1, more, paid))
		}
		leave = !leave
	}
	return least
}

// compare finds, for each open choice, who of those before it is better in all: less load, and costs more to be without. Who is
// worse is not on the node without the better one; otherwise they could change places.
func (q *nodeSolver) compare() {
	q.better, q.worse = make([][]int32, q.open), make([][]int32, q.open)
	for i := range q.open {
		for j := i - 1; j >= max(0, i-nearby); j-- {
			a, b := &q.choices[j], &q.choices[i]
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
	// rootSweeps is how often all slopes are improved before the first branch; then once at a time.
	rootSweeps = 6
	// So many tangents are kept, those of use in front. Looking them all up costs less than improving slopes, which is done at
	// the heavy choices, after which all is different, and else once in so many branches.
	mostTangents, tangentEvery = 16, 32
	// A choice is heavy that weighs so many times the middle one; so many of them are at most.
	heavyWeight, mostHeavy = 8, 32
	// A choice is compared with so many before it, and so many better and worse ones are kept: the nearest in weight tell most.
	nearby, mostCompared = 32, 8
)

// decide solves the choices at hand: it returns a lower bound and leaves the best found in best and chosen.
func (q *nodeSolver) decide() float64 {
	n := len(q.choices)
	q.open = n
	q.line()
	q.chosen, q.trial = append(q.chosen[:0], make([]bool, n)...), append(q.trial[:0], make([]bool, n)...)
	var s vector
	for d := range q.dims {
		s[d] = q.pieces[d].price
	}
	root := q.raise(&s, &q.fixed, 0, rootSweeps)
	q.guess(&s)
	if root >= q.best-q.tol {
		return root
	}
	load, paid := q.settle(&s, root)
	q.tangents = q.tangents[:0]
	q.touch(s)
	q.compare()
	return min(q.branch(0, load, paid), q.best)
}

// settle decides the choices that would cost more than there is to find, were they decided otherwise than the relaxation
// does. It puts the open ones first, the largest before the others, and returns what the decided ones bring and cost.
func (q *nodeSolver) settle(s *vector, root float64) (load vector, paid float64) {
	load = q.fixed
	stays := q.price(s, 0)
	q.turns = q.turns[:0]
	var decided []choice
	var chosen []bool
	for i := range q.choices {
		x := &q.choices[i]
		if root+math.Abs(stays[i]-x.gone) < q.best-q.tol {
			q.turns = append(q.turns, turn{int32(i), max(stays[i], x.gone)})
			continue
		}
		if stays[i] > x.gone {
			paid += x.gone
		} else {
			for d := range q.dims {
				load[d] += x.load[d]
			}
		}
		decided = append(decided, *x)
		chosen = append(chosen, q.chosen[i])
		q.trial[len(q.choices)-len(decided)] = stays[i] > x.gone
	}
	slices.SortFunc(q.turns, func(a, b turn) int { return cmp.Or(order(b.weight, a.weight), int(a.at-b.at)) })
	q.open, q.heavy = len(q.turns), 0
	for q.heavy < min(q.open, mostHeavy) && (q.heavy < 2 || q.turns[q.heavy].weight > heavyWeight*q.turns[q.open/2].weight) {
		q.heavy++
	}
	open, was := make([]choice, 0, len(q.turns)), make([]bool, 0, len(q.turns))
	for _, t := range q.turns {
		open, was = append(open, q.choices[t.at]), append(was, q.chosen[t.at])
	}
	slices.Reverse(decided)
	slices.Reverse(chosen)
	q.choices, q.chosen = slices.Concat(open, decided), slices.Concat(was, chosen)
	q.line()
	return load, paid
}

// turn is a choice's place in the order of decisions.
type turn struct {
	at     int32
	weight float64
}

// guess rounds the relaxation, without guests, and changes single choices while that helps.
func (q *nodeSolver) guess(s *vector) {
	load, paid := q.fixed, 0.0
	flip := func(i int, load vector, paid float64) (vector, float64) {
		x, sign := &q.choices[i], 1.0
		if q.chosen[i] {
			paid -= x.gone
		} else {
			paid, sign = paid+x.gone, -1
		}
		for d := range q.dims {
			load[d] += sign * x.load[d]
		}
		return load, paid
	}
	for i := range q.choices {
		x := &q.choices[i]
		if q.chosen[i] = x.guest || q.staying(s, x) > x.gone; q.chosen[i] {
			paid += x.gone
		} else {
			for d := range q.dims {
				load[d] += x.load[d]
			}
		}
	}
	q.best = paid + q.total(&load)
	for range q.choices {
		at, least := -1, q.best
		for i := range q.choices {
			l, p := flip(i, load, paid)
			if v := p + q.total(&l); v < least {
				at, least = i, v
			}
		}
		q.work += int64(len(q.choices))
		if at < 0 {
			break
		}
		load, paid = flip(at, load, paid)
		q.chosen[at], q.best = !q.chosen[at], least
	}
}

// answer is what is best for one node at the prices.
type answer struct {
	least float64    // no choice costs less
	best  float64    // what this one costs
	leave []choice   // who leaves
	come  []int32    // the lumps that come
	load  vector     // then
	bytes [2]float64 // bytes and copies of the home copies that stay
}

// prepare sets up node n. It returns what the choices do not include, and what lumps pay that come for nothing.
//
// Slopes are followed up to that of the node with all at home, and up to where a guest, in the dimension where it is largest,
// costs more than it pays. Whom no slope up to there makes leave is no choice but stays. Beyond, the cost is taken to rise no
// steeper: that is less than it does, and so the bound holds whatever comes.
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
	var steepest [cluster.MaxDimensions]int
	for d := range q.dims {
		i := int(n)*R + d
		f.piece(i, q.q.p.slot[i], &q.pieces[d])
		steepest[d] = q.pieces[d].slopeAt(full[d])
	}
	var smallest, reach vector // of the guests that are largest in a dimension: the least load, and what load is left without them
	weightless := 0
	for i := range q.guests {
		x, main, size := &q.guests[i], 0, 0.0
		for d := range q.dims {
			if share := x.load[d] * slots[d].scale; share > size {
				main, size = d, share
			}
		}
		if size == 0 {
			weightless++
			continue
		}
		b := &q.pieces[main]
		for k := steepest[main] + 1; k < len(b.at) && b.cost(b.at[k])-b.cost(b.at[k]-x.load[main]) < x.gone; k++ {
			steepest[main] = k
		}
		if smallest[main] == 0 || x.load[main] < smallest[main] {
			smallest[main] = x.load[main]
		}
		if last := len(b.at) - 1; last < 0 || b.slope[last]*x.load[main] < x.gone {
			reach[main] = math.Inf(1) // it comes whatever is there
		} else {
			reach[main] = max(reach[main], b.at[last]+x.load[main])
		}
	}
	most := float64(weightless) // guests that come at most
	for d := range q.dims {
		if b, next := &q.pieces[d], steepest[d]+1; next < len(b.at) {
			reach[d] = min(reach[d], b.at[next])
		}
		if smallest[d] > 0 {
			most += math.Floor((1 + 1e-9) * max(0, reach[d]-slots[d].fixed) / smallest[d])
		}
		q.top[d] = q.pieces[d].flatten(steepest[d])
	}
	constant = q.stayers(n)
	q.invite(int(min(most, float64(len(q.guests)))))
	for i := range q.choices {
		if q.choices[i].guest {
			constant -= q.choices[i].gone
		}
	}
	return constant, free
}

// invite makes choices of the guests, but for those to whom so many others would be preferred as come at most: who brings
// more load and costs less to be without can always give way to one of them.
func (q *nodeSolver) invite(most int) {
	slices.SortStableFunc(q.guests, func(a, b choice) int { return order(b.gone, a.gone) })
	home := len(q.choices)
	for i := range q.guests {
		x := &q.guests[i]
		if !q.welcome(x) {
			continue
		}
		preferred := 0
		for j := home; j < len(q.choices) && preferred < most; j++ {
			y, less := &q.choices[j], true
			for d := range q.dims {
				less = less && (y.load[d] <= x.load[d] || q.top[d] == 0)
			}
			if less {
				preferred++
			}
		}
		q.work += int64(len(q.choices)-home)/8 + 1
		if preferred < most {
			q.choices = append(q.choices, *x)
		}
	}
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

// solve finds the best for node n.
func (q *nodeSolver) solve(n int32, tol float64, steps int) answer {
	q.tol, q.steps = tol, steps
	constant, free := q.prepare(n)
	alone := !q.f.crowded[n] && !slices.ContainsFunc(q.choices, func(x choice) bool { return x.guest })
	if known := q.q.alone[n]; alone && known != nil { // no price of a seat matters to it
		a := *known
		a.least += free
		return a
	}
	least := q.decide() + constant
	a := answer{least: least, best: q.best + constant, load: q.fixed}
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
func (q *pricer) nodeBound(nodes []int32, tol float64, steps, workers int, allow *allowance) (bound float64, answers []answer, work int64) {
	answers = make([]answer, len(nodes))
	work = parallel(workers, len(nodes), 4, func(from, to int) int64 {
		s := nodeSolver{f: q.f, q: q}
		branches := steps
		if allow.timeOver() {
			branches = 0
		}
		for i := from; i < to; i++ {
			answers[i] = s.solve(nodes[i], tol, branches)
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
