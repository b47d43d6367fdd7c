package solver

import (
	"math"
	"slices"

	"github.com/shardonnay/shardonnay/internal/solver/clp"
)

// economise keeps those moves of a placement that earn what they cost, within the budgets: which to keep is a linear
// program over the loads of the touched nodes, its answer is made whole, largest parts first. The search goes back to
// where it was if the outcome is worse, unless that was over budget. It tells how often it solved.
func (s *search) economise(allow *allowance) (solves int, err error) {
	before, start := s.Objective(), s.Assignment()
	within := s.WithinLimits()
	moved := s.moved()
	if len(moved) == 0 {
		return 0, nil
	}
	keep, err := s.worthKeeping(moved, allow)
	if err != nil {
		return 0, err
	}
	if keep == nil { // no answer in time: the cheapest way to get within the budgets
		keep = make([]float64, len(moved))
	}
	s.reset(s.f.p.Current())
	turns := make([]int, len(moved))
	for i := range turns {
		turns[i] = i
	}
	slices.SortStableFunc(turns, func(i, j int) int { return order(keep[j], keep[i]) })
	for _, sure := range []float64{0.999, 0} {
		// Whoever the program keeps whole goes first, then whoever still gains. Twice each: some wait for others.
		for range 2 {
			for _, i := range turns {
				c := moved[i]
				if s.away(c) || keep[i] < sure || !s.Legal(int(c), start[c]) || !s.affordable(c, start[c], -1) {
					continue
				}
				if sure > 0 || s.Delta(int(c), start[c]) < 0 {
					s.move(c, start[c])
				}
			}
		}
	}
	if within && s.Objective() >= before {
		s.reset(start)
	}
	return 1, nil
}

// worthKeeping solves the linear program: how much of each move to keep. It is nil where the program has no answer.
func (s *search) worthKeeping(moved []int32, allow *allowance) ([]float64, error) {
	f := s.f
	load := make([]float64, len(f.slots)) // with all at home
	for c := range f.p.Copies {
		if f.movable[c] {
			for r, l := range f.loads(int32(c)) {
				load[int(f.p.Copies[c].Node)*f.resources+r] += l
			}
		}
	}
	unit := 1 / (100 * float64(len(f.p.Nodes)))
	p := &clp.Problem{}
	rowOf := make(map[int]int32)
	row := func(i int) int32 {
		at, known := rowOf[i]
		if known {
			return at
		}
		slot := &f.slots[i]
		x := (slot.fixed + load[i]) * slot.unit()
		most := 1.0
		if slot.share > 0 {
			most = f.p.Objective.Phi.Points[0] + slot.shift
		}
		at = int32(len(p.Rows))
		rowOf[i] = at
		p.Rows = append(p.Rows, clp.Bounds{Lower: math.Inf(-1), Upper: most - x})
		return at
	}
	limits := &f.p.Limits
	budgets := []clp.Bounds{{Lower: math.Inf(-1), Upper: 1}, {Lower: math.Inf(-1), Upper: 1}} // moves, bytes
	p.Rows = append(p.Rows, budgets...)
	for _, c := range moved {
		cost := f.moveCost[c] - f.stayPrice[c]
		from, to := int(f.p.Copies[c].Node)*f.resources, int(s.Node(int(c)))*f.resources
		p.Columns.Add(cost/unit, clp.Bounds{Lower: 0, Upper: 1})
		if limits.MaxMoves > 0 {
			p.Columns.Put(0, 1/float64(limits.MaxMoves))
		}
		if limits.MaxBytes > 0 {
			p.Columns.Put(1, f.p.Copies[c].Bytes/limits.MaxBytes)
		}
		for r, l := range f.loads(c) {
			for _, end := range [2]struct {
				slot int
				sign float64
			}{{from + r, -1}, {to + r, 1}} {
				if f.slots[end.slot].shared() && l > 0 {
					p.Columns.Put(row(end.slot), end.sign*l*f.slots[end.slot].unit())
				}
			}
		}
	}
	phi := &f.p.Objective.Phi
	for i := range f.slots { // in the order of slots: a map's would differ from run to run
		at, used := rowOf[i]
		if slot := &f.slots[i]; used && slot.share > 0 {
			for k, slope := range phi.Slopes {
				width := 1e6
				if k+1 < len(phi.Points) {
					width = phi.Points[k+1] - phi.Points[k]
				}
				p.Columns.Add(slope*slot.share/unit, clp.Bounds{Lower: 0, Upper: width})
				p.Columns.Put(at, -1)
			}
		}
	}
	solution, err := clp.Solve(p, clp.Limits{Iterations: 50000, Seconds: allow.seconds()})
	if err != nil || solution.Status != clp.Optimal {
		return nil, err
	}
	return solution.X[:len(moved)], nil
}
