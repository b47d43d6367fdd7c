package clp

import (
	"fmt"
	"math"
	"slices"
)

// Bounds are the least and the largest value of a row or column; ±Inf is none.
type Bounds struct{ Lower, Upper float64 }

// Free has no bound.
var Free = Bounds{math.Inf(-1), math.Inf(1)}

// Columns are variables in compressed form: the entries of column j are Row[Start[j]:Start[j+1]] and Value likewise, so
// Start has one more element than there are columns.
type Columns struct {
	Cost   []float64
	Bounds []Bounds
	Start  []int32
	Row    []int32
	Value  []float64
}

// Add appends a column without entries; Put gives it some.
func (c *Columns) Add(cost float64, bounds Bounds) {
	if len(c.Start) == 0 {
		c.Start = append(c.Start, 0)
	}
	c.Cost, c.Bounds, c.Start = append(c.Cost, cost), append(c.Bounds, bounds), append(c.Start, int32(len(c.Row)))
}

// Put adds an entry to the last column. A row may be put once a column.
func (c *Columns) Put(row int32, value float64) {
	if value != 0 {
		c.Row, c.Value = append(c.Row, row), append(c.Value, value)
		c.Start[len(c.Start)-1] = int32(len(c.Row))
	}
}

// Len is the number of columns.
func (c *Columns) Len() int { return len(c.Cost) }

// Problem is: minimise cost x over the columns' bounds, each row's sum within the row's bounds.
type Problem struct {
	Rows    []Bounds
	Columns Columns
}

// Status is how a solve ended.
type Status int

// The ends. Anything CLP says that is none of the first four is Failed.
const (
	Optimal    Status = iota
	Infeasible        // no values satisfy all bounds
	Unbounded         // the cost falls for ever
	Limit             // iterations or seconds ran out; there may be values, but they prove nothing
	Failed            // numerical trouble, or an answer that does not stand the check
)

// String names the end.
func (s Status) String() string {
	return [...]string{"optimal", "infeasible", "unbounded", "limit", "failed"}[s]
}

// Limits bound one solve; 0 is no bound.
type Limits struct {
	Iterations int
	Seconds    float64
}

// Solution is what a solve found. X, Price and the numbers are set for Optimal only.
type Solution struct {
	Status    Status
	X         []float64 // per column
	Price     []float64 // per row: the cost's change per unit that the row's binding bound is raised
	Objective float64   // computed here from X
	Bound     float64   // computed here from Price: no values cost less. -Inf where the prices prove nothing
}

// Tolerances of the check, relative to 1 + the size of what is compared. CLP's own are 1e-7 on a scaled problem; a
// hundred times that after scaling back is still an answer, more is not.
const tolerance = 1e-5

// mostCost is what a column may cost: CLP ends the process from 1e25 on.
const mostCost = 1e24

// check reports a shape that CLP would answer with the end of the process.
func (p *Problem) check() error {
	for i, b := range p.Rows {
		if !ordered(b) {
			return fmt.Errorf("row %d has bounds %v to %v", i, b.Lower, b.Upper)
		}
	}
	return p.Columns.check(len(p.Rows))
}

func (c *Columns) check(rows int) error {
	n := len(c.Cost)
	if len(c.Bounds) != n || len(c.Start) != n+1 && (n > 0 || len(c.Start) > 0) || len(c.Row) != len(c.Value) {
		return fmt.Errorf("%d costs, %d bounds, %d starts, %d rows and %d values do not fit together",
			n, len(c.Bounds), len(c.Start), len(c.Row), len(c.Value))
	}
	if n == 0 {
		return nil
	}
	if c.Start[0] != 0 || int(c.Start[n]) != len(c.Row) || !slices.IsSorted(c.Start) {
		return fmt.Errorf("starts run from %d to %d over %d entries, and have to ascend", c.Start[0], c.Start[n], len(c.Row))
	}
	seen := make([]int32, rows)
	for j := range n {
		if !(math.Abs(c.Cost[j]) <= mostCost) || !ordered(c.Bounds[j]) {
			return fmt.Errorf("column %d costs %v within %v to %v", j, c.Cost[j], c.Bounds[j].Lower, c.Bounds[j].Upper)
		}
		for k := c.Start[j]; k < c.Start[j+1]; k++ {
			if row := c.Row[k]; row < 0 || int(row) >= rows {
				return fmt.Errorf("column %d is in row %d of %d", j, row, rows)
			} else if seen[row] == int32(j+1) {
				return fmt.Errorf("column %d is twice in row %d", j, row)
			}
			seen[c.Row[k]] = int32(j + 1)
			if math.IsNaN(c.Value[k]) || math.IsInf(c.Value[k], 0) {
				return fmt.Errorf("column %d has the value %v in row %d", j, c.Value[k], c.Row[k])
			}
		}
	}
	return nil
}

func ordered(b Bounds) bool {
	return b.Lower <= b.Upper && !math.IsInf(b.Lower, 1) && !math.IsInf(b.Upper, -1)
}

// activity is every row's sum.
func (p *Problem) activity(x []float64) []float64 {
	sum := make([]float64, len(p.Rows))
	for j := range p.Columns.Cost {
		for k := p.Columns.Start[j]; k < p.Columns.Start[j+1]; k++ {
			sum[p.Columns.Row[k]] += p.Columns.Value[k] * x[j]
		}
	}
	return sum
}

// feasible tells whether x keeps all bounds within the tolerance.
func (p *Problem) feasible(x []float64) bool {
	within := func(v float64, b Bounds) bool {
		slack := tolerance * (1 + math.Abs(v))
		return v >= b.Lower-slack && v <= b.Upper+slack
	}
	for j, v := range x {
		if !within(v, p.Columns.Bounds[j]) {
			return false
		}
	}
	for i, v := range p.activity(x) {
		if !within(v, p.Rows[i]) {
			return false
		}
	}
	return true
}

// bound is the least cost that the prices prove: a positive price values a row at its lower bound, a negative one at its
// upper bound, and what a column then costs beyond its rows' prices counts at the bound that is cheaper. It is valid for
// any prices, so that nothing rests on how they were found.
func (p *Problem) bound(price []float64) float64 {
	total := 0.0
	worth := func(v float64, b Bounds) float64 {
		switch {
		case v > 0:
			return v * b.Lower
		case v < 0:
			return v * b.Upper
		}
		return 0
	}
	usable := make([]float64, len(price))
	for i, v := range price {
		if w := worth(v, p.Rows[i]); !math.IsInf(w, 0) { // a price against no bound is rounding: do without it
			usable[i] = v
			total += w
		}
	}
	for j, cost := range p.Columns.Cost {
		reduced, size := cost, math.Abs(cost)
		for k := p.Columns.Start[j]; k < p.Columns.Start[j+1]; k++ {
			part := p.Columns.Value[k] * usable[p.Columns.Row[k]]
			reduced -= part
			size += math.Abs(part)
		}
		if math.Abs(reduced) <= 1e-12*size {
			continue // zero but for rounding
		}
		total += worth(reduced, p.Columns.Bounds[j])
	}
	return total
}

func (p *Problem) cost(x []float64) float64 {
	total := 0.0
	for j, v := range x {
		total += p.Columns.Cost[j] * v
	}
	return total
}
