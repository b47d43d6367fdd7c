package clp

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var inf = math.Inf(1)

// program builds a problem from dense rows: {lower, coefficients..., upper}.
func program(cost []float64, bounds []Bounds, rows ...[]float64) *Problem {
	p := &Problem{}
	for _, row := range rows {
		p.Rows = append(p.Rows, Bounds{row[0], row[len(row)-1]})
	}
	for j, c := range cost {
		p.Columns.Add(c, bounds[j])
		for i, row := range rows {
			p.Columns.Put(int32(i), row[j+1])
		}
	}
	return p
}

func TestSolveKnownPrograms(t *testing.T) {
	positive := Bounds{0, inf}
	for _, test := range []struct {
		name      string
		p         *Problem
		status    Status
		objective float64
	}{
		{"two rows bind", program([]float64{-1, -1}, []Bounds{positive, positive}, []float64{-inf, 1, 2, 4}, []float64{-inf, 3, 1, 6}), Optimal, -2.8},
		{"bounds bind", program([]float64{-1, 2}, []Bounds{{0, 3}, {1, 5}}, []float64{-inf, 1, 1, 100}), Optimal, -1},
		{"equality", program([]float64{1, 3}, []Bounds{positive, positive}, []float64{2, 1, 1, 2}), Optimal, 2},
		{"degenerate", program([]float64{-1, -1, 0}, []Bounds{positive, positive, positive},
			[]float64{-inf, 1, 0, 1, 1}, []float64{-inf, 0, 1, 1, 1}, []float64{-inf, 1, 1, 2, 2}, []float64{-inf, 1, 1, 0, 2}), Optimal, -2},
		{"no two rows agree", program([]float64{1}, []Bounds{positive}, []float64{3, 1, inf}, []float64{-inf, 1, 2}), Infeasible, 0},
		{"falls for ever", program([]float64{-1, 0}, []Bounds{positive, positive}, []float64{-inf, 1, -1, 1}), Unbounded, 0},
		{"free column", program([]float64{1}, []Bounds{Free}, []float64{-7, 1, inf}), Optimal, -7},
		{"a row without entries", program([]float64{1, 1}, []Bounds{positive, positive}, []float64{1, 1, 1, 1}, []float64{-1, 0, 0, 1}), Optimal, 1},
		{"no columns", &Problem{Rows: []Bounds{{-1, 1}}}, Optimal, 0},
		{"no columns, and a row wants some", &Problem{Rows: []Bounds{{1, 2}}}, Infeasible, 0},
		{"no rows", program([]float64{-2, 3}, []Bounds{{0, 4}, {-1, 1}}), Optimal, -11},
		{"no rows, and nothing ends it", program([]float64{-1}, []Bounds{positive}), Unbounded, 0},
		{"nothing at all", &Problem{}, Optimal, 0},
		{"only zeros", program([]float64{1}, []Bounds{{2, 3}}, []float64{-inf, 0, 1}), Optimal, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, err := Solve(test.p, Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if s.Status != test.status {
				t.Fatalf("ends %v, want %v", s.Status, test.status)
			}
			if s.Status == Optimal && (math.Abs(s.Objective-test.objective) > 1e-6 || math.Abs(s.Bound-test.objective) > 1e-6) {
				t.Errorf("objective %v, bound %v, want %v", s.Objective, s.Bound, test.objective)
			}
		})
	}
}

// What does not fit is an error of ours before it is the end of the process.
func TestSolveRefusesWhatDoesNotFit(t *testing.T) {
	good := func() *Problem { return program([]float64{1, 1}, []Bounds{{0, 1}, {0, 1}}, []float64{1, 1, 1, 2}) }
	for name, spoil := range map[string]func(*Problem){
		"row 5 of 1":         func(p *Problem) { p.Columns.Row[1] = 5 },
		"row -1 of 1":        func(p *Problem) { p.Columns.Row[0] = -1 },
		"do not fit":         func(p *Problem) { p.Columns.Cost = p.Columns.Cost[:1] },
		"starts run":         func(p *Problem) { p.Columns.Start[2] = 1 },
		"have to ascend":     func(p *Problem) { p.Columns.Start[1] = 9; p.Columns.Start[2] = 2 },
		"costs NaN":          func(p *Problem) { p.Columns.Cost[0] = math.NaN() },
		"costs 1e+25":        func(p *Problem) { p.Columns.Cost[0] = 1e25 },
		"the value +Inf":     func(p *Problem) { p.Columns.Value[1] = inf },
		"row 0 has bounds":   func(p *Problem) { p.Rows[0] = Bounds{2, 1} },
		"within 3 to 1":      func(p *Problem) { p.Columns.Bounds[1] = Bounds{3, 1} },
		"bounds NaN":         func(p *Problem) { p.Rows[0].Lower = math.NaN() },
		"is twice in row 0":  func(p *Problem) { p.Columns.Start = []int32{0, 2, 2} },
		"bounds +Inf to +In": func(p *Problem) { p.Rows[0] = Bounds{inf, inf} },
	} {
		p := good()
		spoil(p)
		if _, err := Solve(p, Limits{}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	m, err := NewModel([]Bounds{{1, 2}})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if _, _, err := m.Solve(Limits{}); err == nil {
		t.Error("a model without columns was solved")
	}
	p := good()
	p.Columns.Row[1] = 5
	if err := m.AddColumns(&p.Columns); err == nil {
		t.Error("a column in a row that is not there was added")
	}
	if err := m.SetCosts([]float64{1}); err == nil {
		t.Error("a column that is not there got a cost")
	}
	if err := m.AddRows([]Bounds{{2, 1}}); err == nil {
		t.Error("a row with its bounds crossed was added")
	}
}

func TestSolveStopsAtItsLimit(t *testing.T) {
	p := &Problem{}
	for range 60 {
		p.Rows = append(p.Rows, Bounds{1, inf})
	}
	for j := range 120 {
		p.Columns.Add(float64(1+j%7), Bounds{0, inf})
		for i := range 60 {
			if j%60 == i || (i*j+i+j)%5 == 0 {
				p.Columns.Put(int32(i), float64(1+(i+j)%3))
			}
		}
	}
	s, err := Solve(p, Limits{Iterations: 2})
	if err != nil || s.Status != Limit {
		t.Fatalf("ends %v, %v", s, err)
	}
	if s, err = Solve(p, Limits{}); err != nil || s.Status != Optimal || s.Objective-s.Bound > 1e-6 {
		t.Fatalf("without a limit it ends %+v, %v", s, err)
	}
}

// Any small program: the two ways in agree, and an optimal answer stands between its own bound and every other feasible
// point.
func TestSolveAndModelAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows, cols := rapid.IntRange(1, 5).Draw(t, "rows"), rapid.IntRange(1, 7).Draw(t, "columns")
		number := func(label string) float64 { return float64(rapid.IntRange(-4, 4).Draw(t, label)) }
		p := &Problem{}
		for range rows {
			b := Bounds{-inf, number("upper")}
			if rapid.Bool().Draw(t, "lower too") {
				b.Lower = b.Upper - float64(rapid.IntRange(0, 5).Draw(t, "range"))
			}
			p.Rows = append(p.Rows, b)
		}
		for range cols {
			p.Columns.Add(number("cost"), Bounds{0, float64(rapid.IntRange(0, 6).Draw(t, "most"))})
			for i := range rows {
				p.Columns.Put(int32(i), number("value"))
			}
		}
		s, err := Solve(p, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		m, err := NewModel(p.Rows)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		// Half of the columns first, a solve, then the others: the basis has to survive.
		half := Columns{Start: []int32{0}}
		rest := Columns{Start: []int32{0}}
		for j := range p.Columns.Cost {
			to := &half
			if j >= cols/2 {
				to = &rest
			}
			to.Add(p.Columns.Cost[j], p.Columns.Bounds[j])
			for k := p.Columns.Start[j]; k < p.Columns.Start[j+1]; k++ {
				to.Put(p.Columns.Row[k], p.Columns.Value[k])
			}
		}
		if err := m.AddColumns(&half); err != nil {
			t.Fatal(err)
		}
		if half.Len() > 0 {
			if _, _, err := m.Solve(Limits{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := m.AddColumns(&rest); err != nil {
			t.Fatal(err)
		}
		end, _, err := m.Solve(Limits{})
		if err != nil {
			t.Fatal(err)
		}
		// A row that no column is in and that wants one makes CLP give up rather than say infeasible.
		if len(p.Columns.Row) > 0 && (end == Optimal) != (s.Status == Optimal) {
			t.Fatalf("from scratch it ends %v, from a basis %v", s.Status, end)
		}
		if s.Status != Optimal {
			return
		}
		if s.Objective-s.Bound > 1e-6 {
			t.Fatalf("objective %v, bound %v", s.Objective, s.Bound)
		}
		if len(p.Columns.Row) > 0 && math.Abs(m.Objective()-s.Objective) > 1e-6 {
			t.Fatalf("from scratch %v, from a basis %v", s.Objective, m.Objective())
		}
		if b := p.bound(m.Price()); len(p.Columns.Row) > 0 && s.Objective-b > 1e-6 {
			t.Fatalf("objective %v, bound from the model's prices %v", s.Objective, b)
		}
		// Other costs for some of the columns: as from scratch with them.
		changed := rapid.IntRange(0, cols).Draw(t, "columns that cost something else")
		for j := range changed {
			p.Columns.Cost[j] = number("cost now")
		}
		if err := m.SetCosts(p.Columns.Cost[:changed]); err != nil {
			t.Fatal(err)
		}
		if s, err = Solve(p, Limits{}); err != nil || s.Status != Optimal {
			t.Fatalf("at other costs it ends %v, %v", s.Status, err)
		}
		if end, _, err = m.Solve(Limits{}); err != nil || len(p.Columns.Row) > 0 && (end != Optimal || math.Abs(m.Objective()-s.Objective) > 1e-6) {
			t.Fatalf("at other costs from scratch %v, from a basis %v (%v, %v)", s.Objective, m.Objective(), end, err)
		}
		point := make([]float64, cols)
		for j := range point {
			point[j] = rapid.Float64Range(0, p.Columns.Bounds[j].Upper).Draw(t, "x")
		}
		if p.feasible(point) && p.cost(point) < s.Bound-1e-3 {
			t.Fatalf("%v is feasible and costs %v, less than the bound %v", point, p.cost(point), s.Bound)
		}
	})
}

func TestVersion(t *testing.T) {
	if !strings.HasPrefix(Version(), "1.") {
		t.Errorf("CLP version %q", Version())
	}
}
