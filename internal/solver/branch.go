package solver

import (
	"cmp"
	"math"
	"slices"
)

const (
	// rootSweeps is how often all slopes are improved for all choices at first, againSweeps after some have been decided.
	rootSweeps, againSweeps = 6, 2
	// Slopes are improved once every so many choices decided one by one, and every so many branches.
	raiseEvery, tangentEvery = 4, 32
	// A choice is heavy that weighs so many times the mean. The relaxation takes a fraction of it, and its slopes tell nothing of
	// the others then: so it is decided before tables are made.
	heavyWeight = 4
	// A choice is compared with so many next to it in weight, which tell most, and so many better and worse ones are kept.
	nearby, mostCompared = 32, 8
	// choicesPerStep is how many choices looked at count as much as a branch.
	choicesPerStep = 16
	// fewOpen is up to how many open choices nothing is taken for heavy, nor are tables made.
	fewOpen = 16
)

// From so many open choices on they are decided one by one, and tables are made. Fewer, plain branching does it with less work: at 140
// nodes in half the time. At 24 nodes tables took from the programs what these needed.
var someOpen, manyOpen = 64, 128

// tableCells is how fine the tables are, one after the other, each for what those before it left open.
var tableCells = []int{64, 256}

// decide solves the choices at hand: it returns a lower bound and leaves the best found in best and chosen. It begins at slopes s, and
// tries what an earlier answer chose.
func (q *nodeSolver) decide(s *vector, earlier *answer) float64 {
	n := len(q.choices)
	q.chosen, q.trial = append(q.chosen[:0], make([]bool, n)...), append(q.trial[:0], make([]bool, n)...)
	q.lineAll()
	for d := range q.dims {
		s[d] = q.pieces[d].price
		if earlier != nil && len(q.pieces[d].at) > 0 {
			s[d] = min(max(s[d], earlier.slopes[d]), q.top[d])
		}
	}
	root := q.raise(s, &q.fixed, 0, rootSweeps, math.Inf(1))
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
	aside, more := q.lean(&s, least, &load, &paid), true
	for i, v := range q.price(&s, 0) {
		q.trial[q.open[i]] = v > q.gone[i]
	}
	q.improve(load, paid)
	q.arrange(&s)
	for k := q.heavy(); more && k > 0; k = q.heavy() {
		least, more = q.oneByOne(k, &s, &load, &paid)
		if aside = min(aside, least); more {
			q.raise(&s, &load, 0, againSweeps, math.Inf(1))
			q.arrange(&s)
		}
	}
	if more && len(q.open) >= manyOpen {
		least, more = q.tabled(&s, &load, &paid)
		aside = min(aside, least)
		q.arrange(&s)
	}
	if more && len(q.open) < someOpen {
		q.tangents = q.tangents[:0]
		q.touch(s)
		q.compare()
		least = q.branch(0, load, paid)
	} else if more {
		least, _ = q.oneByOne(len(q.open), &s, &load, &paid)
	}
	return min(aside, least)
}

// tabled decides open choices by tables. It returns what the node costs at least if one of them is decided the other way, and whether
// there is more to find.
func (q *nodeSolver) tabled(s, load *vector, paid *float64) (aside float64, more bool) {
	aside = math.Inf(1)
	for _, cells := range tableCells {
		if len(q.open) <= fewOpen || q.steps <= 0 {
			break
		}
		least := *paid + q.raise(s, load, 0, againSweeps, q.best-q.tol-*paid)
		if least >= q.best-q.tol {
			return min(aside, least), false
		}
		aside = min(aside, q.lean(s, least, load, paid))
		for d := range q.dims {
			if s[d] <= q.pieces[d].price {
				continue
			}
			least, ok := q.tables.solve(q, d, cells, s, load, *paid)
			if !ok {
				continue
			}
			if least >= q.best-q.tol {
				return min(aside, least), false
			}
			q.tables.pick(q, cells)
			q.improve(*load, *paid)
			aside = min(aside, q.settle(q.tables.stay, q.tables.leave, load, paid))
		}
	}
	return aside, true
}

// oneByOne decides the first k open choices as the slopes would, one after the other, and for each looks at all that is possible if it is the
// first that is decided otherwise. It returns a lower bound of that, and whether there is more to find if none is: then the others are
// what is open.
func (q *nodeSolver) oneByOne(k int, s, load *vector, paid *float64) (least float64, more bool) {
	q.must = append(q.must[:0], make([]way, len(q.open))...)
	q.hint = *s
	q.rest = q.lay(q.rest, s, 0)
	least = math.Inf(1)
	for i := range k {
		enough := q.best - q.tol - *paid
		bound := q.rest[i] + q.along(s, load)
		if bound < enough && i%raiseEvery == raiseEvery-1 {
			better := *s
			if v := q.raise(&better, load, i, 1, enough); v > bound {
				*s, bound = better, v
				q.rest = q.lay(q.rest, s, i)
			}
		}
		if bound >= enough || q.steps <= 0 {
			return min(least, *paid+bound), false
		}
		q.steps--
		to := q.must[i]
		if to == either {
			if to = leaves; q.stays[i] <= q.gone[i] {
				to = stays
			}
			least = min(least, q.otherwise(i, -to, s, load, *paid))
		}
		for j := i + 1; j < min(len(q.open), i+1+nearby); j++ {
			if q.must[j] == either {
				q.must[j] = q.follows(q.level, i, to, j)
			}
		}
		q.put(q.level, i, to, load, paid)
	}
	if k == len(q.open) {
		return min(least, q.found(*paid+q.total(load))), false
	}
	n := 0
	for i := k; i < len(q.open); i++ {
		if to := q.must[i]; to != either {
			q.put(q.level, i, to, load, paid)
			continue
		}
		q.keep(n, i)
		n++
	}
	q.cut(n)
	return least, true
}

// way is how a choice is decided.
type way int8

const (
	leaves way = -1
	either way = 0
	stays  way = 1
)

// put decides a level's open choice.
func (q *nodeSolver) put(at *level, i int, to way, load *vector, paid *float64) {
	if q.trial[at.open[i]] = to == leaves; to == leaves {
		*paid += at.gone[i]
		return
	}
	for d := range q.dims {
		load[d] += at.loads[d][i]
	}
}

// follows tells how choice j, which comes after i, is decided because of how i is: where one is better in all, with less load and more to miss,
// the worse one is not on the node without it, for they could change places.
func (q *nodeSolver) follows(at *level, i int, to way, j int) way {
	worse, better := at.gone[j] <= at.gone[i], at.gone[j] >= at.gone[i]
	for d := range q.dims {
		l, m := at.loads[d][i], at.loads[d][j]
		worse, better = worse && m >= l, better && m <= l
	}
	switch {
	case to == leaves && worse: // or the same: the first of them stays
		return leaves
	case to == stays && better && !worse:
		return stays
	}
	return either
}

// otherwise decides the open choices after i, which goes a way that the slopes would not. Whoever costs more beside what is on the node than
// it is missed leaves, without a look at the others: the more there is, the more each one costs. That is what slopes do not see, which let a
// part of a large choice fill what room is left.
func (q *nodeSolver) otherwise(i int, to way, s, load *vector, paid float64) float64 {
	from, at, with := q.level, *s, *load
	if to == stays {
		if costs := q.costs(load); q.more(from, i, load, &costs) >= from.gone[i] {
			return math.Inf(1) // no better than if it leaves
		}
	}
	q.put(from, i, to, &with, &paid)
	if bound := paid + from.rest[i+1] + q.along(s, &with); bound >= q.best-q.tol {
		return bound
	}
	costs := q.costs(&with)
	q.enter(from)
	defer func() { q.level = from }()
	left := len(from.open) - i - 1
	for j := i + 1; j < len(from.open); j++ {
		goes := from.must[j]
		if goes == either && j <= i+nearby {
			goes = q.follows(from, i, to, j)
		}
		if goes == either && to == stays && q.more(from, j, &with, &costs) >= from.gone[j] {
			goes = leaves
		}
		if goes == either {
			q.line(from.open[j])
			continue
		}
		if q.put(from, j, goes, &with, &paid); goes == stays {
			costs = q.costs(&with)
		}
	}
	q.steps -= left / choicesPerStep
	q.work += int64(left) / 4
	enough := q.best - q.tol - paid
	bound := q.raise(&at, &with, 0, 0, enough)
	if hint := from.hint; bound < enough && hint != at {
		if b := q.raise(&hint, &with, 0, 0, enough); b > bound {
			at, bound = hint, b
		}
	}
	if bound < enough {
		bound = q.raise(&at, &with, 0, 1, enough)
		from.hint = at
	}
	if bound >= enough {
		return paid + bound
	}
	return q.explore(at, with, paid, paid+bound)
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
		if v := paid + q.raise(&s, &load, i, 1, enough-paid); v > bound {
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
	mayStay, mayLeave := true, true
	for _, j := range q.better[i] { // one that costs less and brings more is out: so is this
		mayStay = mayStay && !q.trial[q.open[j]]
	}
	for _, j := range q.worse[i] {
		mayLeave = mayLeave && q.trial[q.open[j]]
	}
	least := math.Inf(1)
	leave := stay > gone
	for range 2 { // the likelier way first
		q.trial[q.open[i]] = leave
		if leave && mayLeave {
			least = min(least, q.branch(i+1, load, paid+gone))
		} else if !leave && mayStay {
			least = min(least, q.branch(i+1, more, paid))
		}
		leave = !leave
	}
	return least
}

// compare finds, for each open choice, whom of those before it decides its way: the better and the worse ones.
func (q *nodeSolver) compare() {
	q.better, q.worse = make([][]int32, len(q.open)), make([][]int32, len(q.open))
	for i := range q.open {
		for j := i - 1; j >= max(0, i-nearby); j-- {
			if q.follows(q.level, j, leaves, i) == leaves {
				if len(q.better[i]) < mostCompared {
					q.better[i] = append(q.better[i], int32(j))
				}
			} else if q.follows(q.level, j, stays, i) == stays && len(q.worse[i]) < mostCompared {
				q.worse[i] = append(q.worse[i], int32(j))
			}
		}
	}
}

// costs are what a load costs, by dimension.
func (q *nodeSolver) costs(load *vector) (costs vector) {
	for d := range q.dims {
		costs[d] = q.pieces[d].cost(load[d])
	}
	return costs
}

// more is what the open choice j adds to what a load costs.
func (q *nodeSolver) more(from *level, j int, load, costs *vector) (v float64) {
	for d := range q.dims {
		if l := from.loads[d][j]; l > 0 {
			v += q.pieces[d].cost(load[d]+l) - costs[d]
		}
	}
	return v
}

// heavy is how many of the open choices, which are in order, are heavy.
func (q *nodeSolver) heavy() int {
	if len(q.open) < manyOpen || len(q.open) <= fewOpen || q.steps <= 0 {
		return 0
	}
	all := 0.0
	for i := range q.turns {
		all += q.turns[i].weight
	}
	k := 0
	for k < len(q.turns) && q.turns[k].weight*float64(len(q.turns)-k) > heavyWeight*all {
		all -= q.turns[k].weight
		k++
	}
	return k
}

// lean settles the open choices by what the relaxation at slopes s says, which is at least so much.
func (q *nodeSolver) lean(s *vector, least float64, load *vector, paid *float64) (aside float64) {
	q.ifStay, q.ifLeave = q.ifStay[:0], q.ifLeave[:0]
	for i, v := range q.price(s, 0) {
		q.ifStay, q.ifLeave = append(q.ifStay, least+max(0, v-q.gone[i])), append(q.ifLeave, least+max(0, q.gone[i]-v))
	}
	return q.settle(q.ifStay, q.ifLeave, load, paid)
}

// settle decides the choices that would cost more than there is to find, were they decided the other way, and adds what they
// bring and cost. The others stay open. It returns what the node costs at least if one of them is decided the other way.
func (q *nodeSolver) settle(stay, leave []float64, load *vector, paid *float64) (aside float64) {
	enough := q.best - q.tol
	aside = math.Inf(1)
	n := 0
	for i := range q.open {
		if stay[i] < enough && leave[i] < enough {
			q.keep(n, i)
			n++
			continue
		}
		aside = min(aside, max(stay[i], leave[i]))
		to := stays
		if stay[i] > leave[i] {
			to = leaves
		}
		q.put(q.level, i, to, load, paid)
	}
	q.cut(n)
	return aside
}

// arrange sorts the open choices for branching, the weightiest first.
func (q *nodeSolver) arrange(s *vector) {
	q.turns = q.turns[:0]
	for i, v := range q.price(s, 0) {
		q.turns = append(q.turns, turn{q.open[i], max(v, q.gone[i])})
	}
	slices.SortFunc(q.turns, func(a, b turn) int { return cmp.Or(order(b.weight, a.weight), int(a.at-b.at)) })
	q.cut(0)
	for _, t := range q.turns {
		q.line(t.at)
	}
}

// turn is a choice's place in the order of decisions.
type turn struct {
	at     int32
	weight float64
}

// found keeps the trial, which costs v, if it is the best. It returns v.
func (q *nodeSolver) found(v float64) float64 {
	if v < q.best {
		q.best = v
		copy(q.chosen, q.trial)
	}
	return v
}

// guess rounds the relaxation, without guests, and improves that.
func (q *nodeSolver) guess(s *vector) {
	q.best = math.Inf(1)
	for i := range q.choices {
		x := &q.choices[i]
		q.trial[i] = x.guest || q.along(s, &x.load) > x.gone
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
