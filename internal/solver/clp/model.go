package clp

// #cgo pkg-config: clp
// #include <coin/Clp_C_Interface.h>
import "C"

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"unsafe"
)

// Model is a linear program inside CLP that grows rows and columns and solves on from its last basis. Its owner closes
// it. It is not safe for use by several goroutines; several models are.
//
// What it answers is not checked here, for the program would have to be kept twice: who uses its prices proves what he
// concludes from them.
type Model struct {
	native     unsafe.Pointer
	rows, cols int
}

// NewModel is a model with rows and no columns.
func NewModel(rows []Bounds) (*Model, error) {
	m := &Model{native: C.Clp_newModel()}
	C.Clp_setLogLevel(m.native, 0)
	if err := m.AddRows(rows); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// Close frees the native memory.
func (m *Model) Close() {
	if m.native != nil {
		C.Clp_deleteModel(m.native)
		m.native = nil
	}
}

// Rows and Cols are the model's size.
func (m *Model) Rows() int { return m.rows }

// Cols is the number of columns.
func (m *Model) Cols() int { return m.cols }

// AddRows appends rows that no column is in yet.
func (m *Model) AddRows(rows []Bounds) error {
	if len(rows) == 0 {
		return nil
	}
	for i, b := range rows {
		if !ordered(b) {
			return fmt.Errorf("row %d has bounds %v to %v", i, b.Lower, b.Upper)
		}
	}
	lower, upper := split(rows)
	starts := make([]C.CoinBigIndex, len(rows)+1)
	var noIndex C.int
	var noValue C.double
	C.Clp_addRows(m.native, C.int(len(rows)), &lower[0], &upper[0], &starts[0], &noIndex, &noValue)
	m.rows += len(rows)
	return nil
}

// AddColumns appends columns; they start at their lower bound.
func (m *Model) AddColumns(c *Columns) error {
	if err := c.check(m.rows); err != nil {
		return err
	}
	if c.Len() == 0 {
		return nil
	}
	lower, upper := split(c.Bounds)
	starts := make([]C.CoinBigIndex, len(c.Start))
	for i, s := range c.Start {
		starts[i] = C.CoinBigIndex(s)
	}
	var rows *C.int
	var values *C.double
	if len(c.Row) > 0 {
		rows, values = (*C.int)(&c.Row[0]), (*C.double)(&c.Value[0])
	} else {
		rows, values = new(C.int), new(C.double)
	}
	C.Clp_addColumns(m.native, C.int(c.Len()), &lower[0], &upper[0], (*C.double)(&c.Cost[0]), &starts[0], rows, values)
	m.cols += c.Len()
	return nil
}

// SetCosts sets the costs of the first columns. The basis stays feasible.
func (m *Model) SetCosts(cost []float64) error {
	if len(cost) > m.cols {
		return fmt.Errorf("%d costs for %d columns", len(cost), m.cols)
	}
	for j, c := range cost {
		if !(math.Abs(c) <= mostCost) {
			return fmt.Errorf("column %d would cost %v", j, c)
		}
	}
	if m.cols == 0 {
		return nil
	}
	all := slices.Clone(unsafe.Slice((*float64)(C.Clp_objective(m.native)), m.cols))
	copy(all, cost)
	C.Clp_chgObjCoefficients(m.native, (*C.double)(&all[0]))
	return nil
}

func split(bounds []Bounds) (lower, upper []C.double) {
	for _, b := range bounds {
		lower, upper = append(lower, C.double(b.Lower)), append(upper, C.double(b.Upper))
	}
	return lower, upper
}

// errEmpty is what CLP would answer with an exception.
var errEmpty = errors.New("the model has no rows or no columns")

// Solve goes on from the last basis by the primal simplex method, for which new columns leave the basis feasible. It
// returns the simplex iterations made.
func (m *Model) Solve(limits Limits) (end Status, iterations int, err error) {
	if m.rows == 0 || m.cols == 0 {
		return Failed, 0, errEmpty
	}
	most := 1 << 30
	if limits.Iterations > 0 {
		most = limits.Iterations
	}
	seconds := -1.0
	if limits.Seconds > 0 {
		seconds = limits.Seconds
	}
	C.Clp_setNumberIterations(m.native, 0)
	C.Clp_setMaximumIterations(m.native, C.int(most))
	C.Clp_setMaximumSeconds(m.native, C.double(seconds))
	C.Clp_primal(m.native, 0)
	return status(int(C.Clp_status(m.native))), int(C.Clp_numberIterations(m.native)), nil
}

// Objective is the cost of the last solve's values.
func (m *Model) Objective() float64 { return float64(C.Clp_objectiveValue(m.native)) }

// X is the last solve's value of every column.
func (m *Model) X() []float64 {
	return slices.Clone(unsafe.Slice((*float64)(C.Clp_primalColumnSolution(m.native)), m.cols))
}

// Price is the last solve's price of every row.
func (m *Model) Price() []float64 {
	return slices.Clone(unsafe.Slice((*float64)(C.Clp_dualRowSolution(m.native)), m.rows))
}

// Version is CLP's version.
func Version() string { return C.GoString(C.Clp_Version()) }
