package clp

import (
	"fmt"
	"math"
	"runtime"

	"github.com/lanl/clp"
)

// Solve solves p from scratch by the dual simplex method. An error means that p is no linear program (a shape or a
// number that cannot be); how the solve ended is in the solution's Status.
func Solve(p *Problem, limits Limits) (*Solution, error) {
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("not a linear program: %w", err)
	}
	if p.Columns.Len() == 0 || len(p.Rows) == 0 {
		return p.solveEmpty(), nil // an empty matrix is an exception inside the library
	}
	entries := 0
	matrix := clp.NewPackedMatrix()
	matrix.Reserve(p.Columns.Len(), len(p.Columns.Row), false) // without, appending is quadratic
	var column []clp.Nonzero
	for j := range p.Columns.Cost {
		column = column[:0]
		for k := p.Columns.Start[j]; k < p.Columns.Start[j+1]; k++ {
			column = append(column, clp.Nonzero{Index: int(p.Columns.Row[k]), Value: p.Columns.Value[k]})
		}
		entries += len(column)
		matrix.AppendColumn(column)
	}
	if entries == 0 {
		return p.solveEmpty(), nil
	}
	matrix.SetDimensions(len(p.Rows), p.Columns.Len()) // rows that no column is in
	simplex := clp.NewSimplex()
	defer runtime.KeepAlive(simplex) // its finalizer frees what the calls below read
	simplex.LoadProblem(matrix, convert(p.Columns.Bounds), p.Columns.Cost, convert(p.Rows), nil)
	simplex.SetOptimizationDirection(clp.Minimize)
	if limits.Iterations > 0 {
		simplex.SetMaxIterations(limits.Iterations)
	}
	if limits.Seconds > 0 {
		simplex.SetMaxSeconds(limits.Seconds)
	}
	s := &Solution{Status: status(int(simplex.Dual(clp.NoValuesPass, clp.NoStartFinishOptions)))}
	if s.Status == Optimal {
		p.accept(s, simplex.PrimalColumnSolution(), simplex.DualRowSolution())
	}
	return s, nil
}

// accept fills in an optimal solution after looking at it: values that do not keep the bounds are a failure, whatever
// the library says.
func (p *Problem) accept(s *Solution, x, price []float64) {
	if !p.feasible(x) {
		s.Status = Failed
		return
	}
	s.X, s.Price, s.Objective, s.Bound = x, price, p.cost(x), p.bound(price)
}

// solveEmpty solves a problem without entries: every column goes to its cheaper bound.
func (p *Problem) solveEmpty() *Solution {
	s := &Solution{X: make([]float64, p.Columns.Len()), Price: make([]float64, len(p.Rows))}
	for _, row := range p.Rows {
		if row.Lower > 0 || row.Upper < 0 {
			return &Solution{Status: Infeasible}
		}
	}
	for j, cost := range p.Columns.Cost {
		b := p.Columns.Bounds[j]
		value := min(max(0, b.Lower), b.Upper)
		switch {
		case cost > 0:
			value = b.Lower
		case cost < 0:
			value = b.Upper
		}
		if math.IsInf(value, 0) {
			return &Solution{Status: Unbounded}
		}
		s.X[j] = value
	}
	s.Objective = p.cost(s.X)
	s.Bound = s.Objective
	return s
}

func convert(bounds []Bounds) []clp.Bounds {
	out := make([]clp.Bounds, len(bounds))
	for i, b := range bounds {
		out[i] = clp.Bounds(b)
	}
	return out
}

// status maps CLP's problem status.
func status(s int) Status {
	switch s {
	case 0:
		return Optimal
	case 1:
		return Infeasible
	case 2:
		return Unbounded
	case 3:
		return Limit
	}
	return Failed // 4 is errors, 5 stopped by an event, -1 unknown
}
