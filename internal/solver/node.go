package solver

import (
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

// knot is where the cost's slope passes s, for s from the price to the last slope.
func (b *piece) knot(s float64) int {
	k := 0
	for k < len(b.slope)-1 && b.slope[k] < s {
		k++
	}
	return k
}

// choice is a copy at home on a node that may leave: it takes its load along and costs gone.
type choice struct {
	copy   int32
	load   vector
	gone   float64
	offers []candidate
}

// nodeSolver decides, for one node at given prices, which of the copies at home leave: whole copies, by branch and bound.
// Its relaxation prices each dimension's load by a slope: at slopes s, a copy that stays costs s x load, and the node at
// least its cost's tangent. It is one goroutine's scratch.
type nodeSolver struct {
	f       *frame
	q       *pricer
	dims    int
	pieces  [cluster.MaxDimensions]piece
	fixed   vector // load of what stays for sure
	choices []choice
	best    float64 // of the choices found
	beat    float64 // what costs as much is not looked for
	chosen  []bool  // who leaves then
	trial   []bool
	until   []stayer
	slopes  vector // of the root's relaxation
	top     vector // of the cost at all of the load
	steps   int    // branches left
	tol     float64
	asking  bool // what every giant would have to pay, not only who comes
	work    int64
	copies  map[int32]choice // of this node: offers are the same whatever comes in
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

// dual is a lower bound by slopes s for the choices from i on, with load there already.
func (q *nodeSolver) dual(s, load *vector, i int) float64 {
	v := 0.0
	for d := range q.dims {
		if b := &q.pieces[d]; len(b.at) > 0 {
			k := b.knot(s[d])
			v += b.value[k] + s[d]*(load[d]-b.at[k])
		}
	}
	for ; i < len(q.choices); i++ {
		v += min(q.staying(s, &q.choices[i]), q.choices[i].gone)
	}
	q.work += int64(len(q.choices) - i + 1)
	return v
}

// raise improves the slopes one dimension at a time: the bound is concave in each, and its derivative is what is there
// plus what stays, minus the load where the cost has that slope.
func (q *nodeSolver) raise(s, load *vector, i, sweeps int) float64 {
	best := q.dual(s, load, i)
	for range sweeps {
		was := best
		for d := range q.dims {
			b := &q.pieces[d]
			if len(b.at) == 0 {
				continue
			}
			// The slope up to which each choice stays, the other dimensions' slopes given.
			q.until = q.until[:0]
			for j := i; j < len(q.choices); j++ {
				x := &q.choices[j]
				if x.load[d] > 0 {
					q.until = append(q.until, stayer{(x.gone-q.staying(s, x))/x.load[d] + s[d], x.load[d]})
				}
			}
			low, high, old := b.price, b.slope[len(b.slope)-1], s[d]
			for range 20 {
				mid := (low + high) / 2
				more := load[d] - b.at[b.knot(mid)]
				for k := range q.until {
					if mid <= q.until[k].slope {
						more += q.until[k].load
					}
				}
				if more > 0 {
					low = mid
				} else {
					high = mid
				}
			}
			q.work += 4 * int64(len(q.choices)-i+1)
			at := old
			for _, try := range [2]float64{low, high} {
				s[d] = try
				if v := q.dual(s, load, i); v > best {
					best, at = v, try
				}
			}
			s[d] = at
		}
		if best-was <= q.tol/4 {
			break
		}
	}
	return best
}

// stayer is a choice in one dimension: it stays while the slope is below.
type stayer struct{ slope, load float64 }

// branch decides choice i and on. It returns a lower bound of what is below, the tolerance included.
func (q *nodeSolver) branch(i int, load vector, paid float64, s vector) float64 {
	enough := q.best - q.tol
	if paid+q.dual(&s, &load, i) >= enough {
		return enough
	}
	if i == len(q.choices) {
		v := paid + q.total(&load)
		if v < q.best {
			q.best = v
			copy(q.chosen, q.trial)
		}
		return v
	}
	bound := paid + q.raise(&s, &load, i, 1)
	if bound >= enough {
		return enough
	}
	if q.steps--; q.steps < 0 {
		return bound
	}
	x := &q.choices[i]
	more := load
	for d := range q.dims {
		more[d] += x.load[d]
	}
	least := math.Inf(1)
	leave := q.staying(&s, x) > x.gone
	for range 2 { // the likelier way first
		q.trial[i] = leave
		if leave {
			least = min(least, q.branch(i+1, load, paid+x.gone, s))
		} else {
			least = min(least, q.branch(i+1, more, paid, s))
		}
		leave = !leave
	}
	return least
}

// decide solves the choices at hand: it returns a lower bound and leaves the best found in best and chosen.
func (q *nodeSolver) decide() float64 {
	n := len(q.choices)
	q.chosen, q.trial = append(q.chosen[:0], make([]bool, n)...), append(q.trial[:0], make([]bool, n)...)
	var s vector
	for d := range q.dims {
		s[d] = q.pieces[d].price
	}
	q.raise(&s, &q.fixed, 0, 6)
	q.slopes = s
	if n == 0 {
		q.best = min(q.total(&q.fixed), q.beat)
		return q.best
	}
	weight := func(x *choice) float64 { return max(q.staying(&s, x), x.gone) }
	slices.SortStableFunc(q.choices, func(a, b choice) int { return order(weight(&b), weight(&a)) })
	q.guess(&s)
	q.best = min(q.best, q.beat)
	return min(q.branch(0, q.fixed, 0, s), q.best)
}

// guess rounds the relaxation and changes single choices while that helps.
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
		if q.chosen[i] = q.staying(s, &q.choices[i]) > q.choices[i].gone; q.chosen[i] {
			paid += q.choices[i].gone
		} else {
			for d := range q.dims {
				load[d] += q.choices[i].load[d]
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
	least  float64     // no choice costs less
	best   float64     // what this one costs
	leave  []choice    // who leaves
	giants []int32     // who comes in, of the giants
	load   vector      // then
	bytes  [2]float64  // bytes and copies of the home copies that stay
	seats  []candidate // per giant that might come in: the least it would have to pay for its seat, and its position in frame.giants
}

// prepare sets up node n with more load on it than its own. It returns what the choices do not include.
func (q *nodeSolver) prepare(n int32, seat []float64, more *vector) (constant float64) {
	f, R := q.f, q.f.resources
	q.dims = f.balance
	slots := f.slots[int(n)*R : int(n+1)*R]
	prices := q.q.p.slot[int(n)*R : int(n+1)*R]
	var full vector
	q.top = vector{}
	for d := range q.dims {
		q.fixed[d] = slots[d].fixed + more[d]
		full[d] = q.fixed[d]
	}
	for _, c := range f.home[n] {
		for d := range q.dims {
			full[d] += f.load[int(c)*R+d]
		}
	}
	for d := range q.dims {
		b := &q.pieces[d]
		f.piece(int(n)*R+d, prices[d], b)
		if len(b.at) > 0 {
			q.top[d] = b.price
			if full[d] > b.at[0] {
				q.top[d] = b.slope[b.below(full[d])]
			}
		}
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
		x, known := q.copies[c]
		if !known {
			if !(f.isGiant[c] && seat != nil) && q.q.elsewhere(c)-f.tierNow[f.p.Copies[c].Group] >= gain {
				for d := range q.dims {
					q.fixed[d] += load[d]
				}
				continue
			}
			x = q.choice(c, seat)
			q.copies[c] = x
		}
		if x.gone >= gain {
			for d := range q.dims {
				q.fixed[d] += load[d]
			}
			continue
		}
		x.gone -= f.stayPrice[c] + held
		q.choices = append(q.choices, x)
	}
	return constant
}

// steep improves slopes for the prepared node, and keeps them where the copies left out of the choices stay whatever
// comes in: up to the cost's slope at all of its load.
func (q *nodeSolver) steep(s vector, sweeps int) vector {
	q.raise(&s, &q.fixed, 0, sweeps)
	for d := range q.dims {
		s[d] = min(s[d], q.top[d])
	}
	return s
}

// choice prices leaving for copy c: the cheapest node elsewhere, or a giant's seat price.
func (q *nodeSolver) choice(c int32, seat []float64) choice {
	x := choice{copy: c, gone: math.Inf(1)}
	copy(x.load[:], q.f.loads(c)[:q.dims])
	if q.f.isGiant[c] && seat != nil {
		x.gone = seat[slices.Index(q.f.giants, c)]
		return x
	}
	x.offers = q.q.offers(c, nil, &q.work)
	for _, offer := range x.offers {
		x.gone = min(x.gone, offer.cost-q.f.tierGain(c, offer.node))
	}
	return x
}

// solve finds the best for node n. seat holds every giant's price of a seat elsewhere; nil treats giants like others.
func (q *nodeSolver) solve(n int32, seat []float64, tol float64, steps int) answer {
	q.copies = make(map[int32]choice)
	q.tol, q.steps, q.beat = tol, steps, math.Inf(1)
	var none vector
	constant := q.prepare(n, seat, &none)
	a := q.answer(n, constant, q.decide()+constant, 0, nil)
	if len(q.f.giants) > 0 && seat != nil {
		q.seatGiants(n, seat, steps, &a)
	}
	return a
}

func (q *nodeSolver) answer(n int32, constant, least, paid float64, giants []int32) answer {
	a := answer{least: least + paid, best: q.best + constant + paid, load: q.fixed, giants: giants}
	left := make(map[int32]bool, 4)
	for i := range q.choices {
		if q.chosen[i] {
			a.leave = append(a.leave, q.choices[i])
			left[q.choices[i].copy] = true
			continue
		}
		for d := range q.dims {
			a.load[d] += q.choices[i].load[d]
		}
	}
	for _, c := range q.f.home[n] {
		if !left[c] {
			a.bytes[0] += q.f.p.Copies[c].Bytes
			a.bytes[1]++
		}
	}
	return a
}

// seatGiants tries each giant as a guest of node n. Pairs are not tried but bounded: at slopes fit for two guests every
// further guest costs more than its seat price, or the bound says so.
func (q *nodeSolver) seatGiants(n int32, seat []float64, steps int, a *answer) {
	f, R := q.f, q.f.resources
	type guest struct {
		at   int     // in giants
		pays float64 // its move and its bytes, minus its seat price
		load vector
	}
	var guests []guest
	var smallest vector
	for at, c := range f.giants {
		if f.p.Copies[c].Node == n || !slices.Contains(f.targets(c), n) {
			continue
		}
		x := guest{at: at, pays: q.q.moving(c) - f.tierGain(c, n) - seat[at]}
		bytes := &f.slots[int(n)*R+f.balance]
		if bytes.fixed+f.p.Copies[c].Bytes > bytes.most {
			continue
		}
		for r := f.balance; r < R; r++ {
			x.pays += q.q.p.slot[int(n)*R+r] * f.load[int(c)*R+r]
		}
		copy(x.load[:], f.loads(c)[:q.dims])
		for d := range q.dims {
			if len(guests) == 0 {
				smallest[d] = x.load[d]
			}
			smallest[d] = min(smallest[d], x.load[d])
		}
		guests = append(guests, x)
	}
	if len(guests) == 0 {
		return
	}
	var none vector
	alone := *a // the answer without guests
	constant := q.prepare(n, seat, &none)
	slopes := q.steep(q.slopes, 2)
	root := q.dual(&slopes, &q.fixed, 0) + constant
	for _, x := range guests {
		low := root + x.pays
		for d := range q.dims {
			low += slopes[d] * x.load[d]
		}
		a.seats = append(a.seats, candidate{low + seat[x.at] - alone.least, int32(x.at)})
	}
	for i, x := range guests {
		// The slopes of the empty node are a bound too: most giants are dismissed by it.
		if a.seats[i].cost-seat[x.at] >= 0 {
			continue
		}
		constant := q.prepare(n, seat, &x.load)
		q.steps, q.beat = steps, math.Inf(1)
		if !q.asking {
			q.beat = a.best - x.pays - constant
		}
		least := q.decide() + constant + x.pays
		a.seats[i].cost = least - alone.least + seat[x.at]
		if value := q.best + constant + x.pays; q.best < q.beat && value < a.best {
			seats, lower := a.seats, min(a.least, least)
			*a = q.answer(n, constant, least-x.pays, x.pays, []int32{f.giants[x.at]})
			a.seats, a.least = seats, lower
		} else {
			a.least = min(a.least, least)
		}
	}
	q.beat = math.Inf(1)
	if len(guests) < 2 {
		return
	}
	for d := range q.dims {
		smallest[d] *= 2
	}
	constant = q.prepare(n, seat, &smallest)
	s := q.steep(slopes, 3)
	var fixed vector
	for d := range q.dims {
		fixed[d] = q.fixed[d] - smallest[d]
	}
	two := q.dual(&s, &fixed, 0) + constant
	terms := make([]float64, len(guests))
	for i, x := range guests {
		terms[i] = x.pays
		for d := range q.dims {
			terms[i] += s[d] * x.load[d]
		}
	}
	slices.Sort(terms)
	for i, term := range terms {
		if i < 2 || term < 0 {
			two += term
		}
	}
	a.least = min(a.least, two)
}

// nodeBound solves every node of the frame at the pricer's prices: the lower bound that they prove node by node, and the
// answers by node. seat is as for solve.
func (q *pricer) nodeBound(nodes []int32, seat []float64, tol float64, steps, workers int) (bound float64, answers []answer, work int64) {
	answers = make([]answer, len(nodes))
	work = parallel(workers, len(nodes), 4, func(from, to int) int64 {
		s := nodeSolver{f: q.f, q: q}
		for i := from; i < to; i++ {
			answers[i] = s.solve(nodes[i], seat, tol, steps)
		}
		return s.work
	})
	bound = q.f.constant + q.f.budgetTerm(q.p)
	for _, t := range q.f.tierNow {
		bound += t
	}
	for i := range answers {
		bound += answers[i].least
	}
	return bound, answers, work
}
