package solver

import (
	"maps"
	"math"
	"slices"

	"github.com/shardonnay/shardonnay/internal/solver/clp"
)

const (
	// seatRounds is where the search for seat prices ends if nothing else ended it; it converges in 40 to 60.
	seatRounds = 150
	// fruitless is after how many rounds without a better bound it ends too.
	fruitless = 25
	// firstWidth is the box's first width, in moves of the copy: prices of seats end up a few tenths above the move, giants'
	// some times that.
	firstWidth = 0.25
	// allWide is a width at which the box holds nothing back any more.
	allWide = 1e4
)

// seating looks for the prices of the lumps' seats, and of the crowds, that prove most, all other prices as they are. The
// bound is a concave function of them. Cutting planes, nodes' choices as columns of a linear program, describe it from
// above, and a box around the best prices so far keeps the next ones near: without it the first programs, which know few
// choices, ask for prices at which everybody or nobody moves.
//
//	minimise    sum of choice costs x choice + (price + width) x bought - (price - width) x sold
//	node        the choices of a node add up to 1
//	lump        choices in which it leaves - choices in which it comes - bought + sold <= 0             price: of its seat
//	crowd       copies of the group that come to the tier value - those that leave it - ... <= room     price: of the crowd
type seating struct {
	q       *pricer // the prices of all else
	nodes   []int32
	lp      *clp.Model
	unit    float64 // objective units per unit of the program's cost
	columns clp.Columns
	choices []column // of all columns behind the box's
	work    int64

	rounds, solves int
	iterations     int64
}

func newSeating(q *pricer, nodes []int32) (*seating, error) {
	f := q.f
	s := &seating{q: q, nodes: nodes, unit: 1 / (100 * float64(len(f.p.Nodes)))}
	var rows []clp.Bounds
	for range nodes {
		rows = append(rows, clp.Bounds{Lower: 1, Upper: 1})
	}
	for range f.lumps {
		rows = append(rows, clp.Bounds{Lower: math.Inf(-1), Upper: 0})
	}
	for _, room := range f.crowdRoom {
		rows = append(rows, clp.Bounds{Lower: math.Inf(-1), Upper: room})
	}
	for row := len(nodes); row < len(rows); row++ {
		for _, sign := range [2]float64{-1, 1} { // bought and sold
			s.columns.Add(0, clp.Bounds{Lower: 0, Upper: math.Inf(1)})
			s.columns.Put(int32(row), sign)
		}
	}
	var err error
	s.lp, err = clp.NewModel(rows)
	return s, err
}

func (s *seating) close() { s.lp.Close() }

// put makes a column of a choice of the node at a position.
func (s *seating) put(at int, a *answer) {
	f, n := s.q.f, s.nodes[at]
	first := int32(len(s.nodes))
	k := column{node: n, come: a.come}
	crowds := make(map[int32]float64)
	crowd := func(c int32, sign float64) {
		for _, w := range f.crowds[f.p.Copies[c].Group] {
			crowds[first+int32(len(f.lumps))+w.first+w.row[n]] += sign
		}
	}
	s.columns.Add(s.q.value(n, a, &s.work)/s.unit, clp.Bounds{Lower: 0, Upper: math.Inf(1)})
	s.columns.Put(int32(at), 1)
	for i := range a.leave {
		c := a.leave[i].copy
		k.leave = append(k.leave, c)
		if lump := f.lumpOf[c]; lump >= 0 {
			s.columns.Put(first+lump, 1)
		}
		crowd(c, -1)
	}
	for _, c := range a.come {
		s.columns.Put(first+f.lumpOf[c], -1)
		crowd(c, 1)
	}
	for _, row := range slices.Sorted(maps.Keys(crowds)) {
		if v := crowds[row]; v != 0 {
			s.columns.Put(row, v)
		}
	}
	s.choices = append(s.choices, k)
}

// stand puts the choices of an assignment: the program can do what it does.
func (s *seating) stand(assignment []int32) {
	in := s.q.f.stand(s.nodes, assignment)
	for at := range in {
		s.put(at, &in[at])
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

// box sets what prices above and below the box around a pricer's cost.
func (s *seating) box(around *pricer, unit []float64, width float64) error {
	cost := make([]float64, 0, 2*len(unit))
	far := max(s.q.f.now.Objective(), s.unit) // no seat is worth more than all there is to gain
	for i, y := range slices.Concat(around.p.seat, around.p.crowd) {
		w := min(width*unit[i], far)
		cost = append(cost, (y+w)/s.unit, -max(0, y-w)/s.unit)
	}
	return s.lp.SetCosts(cost)
}

// units are the box's widths before they are scaled: a lump's move, and the most of the group's for a crowd.
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
		least = s.unit
	}
	for i := range unit {
		unit[i] = max(unit[i], least)
	}
	return unit
}

// search raises the bound, which prove is told, and returns the prices that prove most. It begins at prices and with an
// assignment's choices. goal is a bound that is enough.
func (s *seating) search(best *pricer, assignment []int32, tol, goal float64, workers int, allow *allowance, prove func(bound float64)) (*pricer, error) {
	f := s.q.f
	lumps, boxes, each := len(f.lumps), len(f.lumps)+len(f.crowdRoom), tol/float64(len(s.nodes))/4
	constant := f.constant + sumOf(f.tierNow) + f.budgetTerm(s.q.p)
	width, unit, bad := firstWidth, s.units(), 0
	node := make([]float64, len(s.nodes)) // what the program thinks a node costs
	for i := range node {
		node[i] = math.Inf(1)
	}
	s.stand(f.p.Current())
	s.stand(assignment)
	var earlier []answer
	look := func(q *pricer) (float64, []answer) {
		bound, answers, work := q.nodeBound(s.nodes, each, nodeSteps, workers, allow, earlier)
		earlier = answers
		allow.used += work
		s.work += work
		s.rounds++
		return bound, answers
	}
	bound, answers := look(best)
	prove(bound)
	boxed, raised := true, 1
	for s.rounds < seatRounds && s.rounds-raised < fruitless && bound < goal {
		added := 0
		for i := range answers {
			if answers[i].best < node[i]-each/2 {
				s.put(i, &answers[i])
				added++
			}
		}
		if added == 0 && s.rounds > 1 { // the program knows all choices that matter within the box, as far as they were looked for
			if !boxed || width > allWide {
				break
			}
			width, bad = 2*width, 0
		}
		if err := s.lp.AddColumns(&s.columns); err != nil {
			return best, err
		}
		s.columns = clp.Columns{}
		if err := s.box(best, unit, width); err != nil {
			return best, err
		}
		end, iterations, err := s.lp.Solve(clp.Limits{Iterations: 20000, Seconds: allow.seconds()})
		s.iterations += int64(iterations)
		s.solves++
		if err != nil || end != clp.Optimal || allow.spent(int64(iterations)*int64(s.lp.Rows())/iterationWork) {
			return best, err // the bound stands, whatever the program says
		}
		price := s.lp.Price()
		for i := range node {
			node[i] = price[i] * s.unit
		}
		y := make([]float64, boxes)
		for i := range y {
			y[i] = max(0, -price[len(s.nodes)+i]*s.unit)
		}
		next := s.q.reseated(y[:lumps], y[lumps:])
		var at float64
		at, answers = look(next)
		expected, gain := s.lp.Objective()*s.unit+constant-bound, at-bound
		if gain > 0 {
			bound, best, raised = at, next, s.rounds
			prove(bound)
		}
		boxed = false
		for j, x := range s.lp.X()[:2*boxes] {
			if x > 1e-6 {
				boxed = true
				if gain > 0 {
					unit[j/2] *= 1.5 // that price wants to go further
				}
			}
		}
		// The rule of trust regions for such programs: wider if the bound rose as promised, narrower only if it fell by far
		// more than was promised, or again and again, for most falls are mended by the choices that come in.
		worse := min(1, width) * -gain / max(expected, math.SmallestNonzeroFloat64)
		switch {
		case expected <= tol && !boxed:
			return best, nil
		case expected <= tol:
			width, bad = 4*width, 0
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
	return best, nil
}

// leavers are those of the last program, nil if there was none.
func (s *seating) leavers() []move {
	if s.solves == 0 {
		return nil
	}
	return leavers(s.nodes, s.choices, s.lp.X()[2*(len(s.q.f.lumps)+len(s.q.f.crowdRoom)):])
}
