package solver

import (
	"encoding/json"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/shardonnay/shardonnay/internal/model"
)

// TestReport: the fields other programs rely on, and figures that can be checked by hand.
func TestReport(t *testing.T) {
	p := &model.Problem{
		Version: 1, Dimensions: []model.Dimension{{Name: "search", Weight: 1}},
		Nodes:   []model.Node{{ID: "a", Capacity: []float64{1}}, {ID: "b", Capacity: []float64{1}, AcceptsNew: true}},
		Classes: []model.Class{{Nodes: []int32{0, 1}}}, Groups: []model.Group{{Name: "x/0"}, {Name: "y/0"}}, Indices: make([]model.Index, 1),
		Copies:    []model.Copy{{Bytes: 10, Load: []float64{1}, MoveWeight: 1}, {Group: 1, Bytes: 7, Load: []float64{1}, MoveWeight: 1}},
		Objective: model.Objective{Phi: model.Parabola(1), Move: model.MovePrice{PerByte: 0.001, PerMove: 0.002}},
	}
	r := &Result{
		Status: Feasible, Assignment: []int32{0, 1}, ObjectiveBefore: 1, Objective: 0.02, LowerBound: 0.01, BoundKind: Lagrangian, Limit: NoLimit, Checked: true,
		Wall: 2 * time.Second, CPU: 3 * time.Second,
		Trace: []TracePoint{{T: 0.5, Objective: 0.5}, {T: 1, Objective: 0.05}, {T: 1.5, Objective: 0.02}},
	}
	report := NewReport(p, 7, r)
	if report.Moves != 1 || report.BytesMoved != 7 || report.PeakRSSBytes < 1<<20 {
		t.Errorf("moves %d, bytes %g, memory %d", report.Moves, report.BytesMoved, report.PeakRSSBytes)
	}
	// The move to b evens all out: what is left is the price of the move, of which the bound says 0.01.
	if report.BytesLowerBound < 7.999 || report.BytesLowerBound > 8.001 {
		t.Errorf("bytes at least %g, want (0.01 - 0.002) / 0.001", report.BytesLowerBound)
	}
	if curve := report.GainCurve; len(curve) != 2 || curve[1].Moves != 1 || curve[1].Bytes != 7 || math.Abs(curve[1].Objective-0.009) > 1e-12 {
		t.Errorf("gain curve %v", curve)
	}
	// Of 0.99 that could be gained: 0.5 is half of it, 0.95 is 0.9596, 0.98 is 0.9899.
	if diff := cmp.Diff(map[string]float64{"0.90": 1, "0.97": 1.5}, report.TimeTo); diff != "" {
		t.Error(diff)
	}
	content, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(content, &fields); err != nil {
		t.Fatal(err)
	}
	var names []string
	for name := range fields {
		names = append(names, name)
	}
	slices.Sort(names)
	want := []string{
		"bytes_lower_bound", "bytes_moved", "captured", "checked", "clp_iterations", "columns_built", "cpu_s", "gain_curve", "gap", "instance", "limit", "lower_bound", "lower_bound_kind", "lp_solves",
		"moves", "objective", "objective_before", "pairs_priced", "peak_rss_bytes", "rounds", "status", "time_to", "trace", "version", "wall_s",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
}
