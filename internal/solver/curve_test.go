package solver

import (
	"context"
	"math"
	"testing"

	"github.com/shardonnay/shardonnay/internal/instance"
	"github.com/shardonnay/shardonnay/internal/model"
)

// The gain curve is the answer, move by move: it begins at the present state, ends at the answer, every point is what that
// many moves come to, and few of them bring most of the gain.
func TestGainCurveIsTheAnswerMoveByMove(t *testing.T) {
	for seed := range uint64(4) {
		p := generate(t, 30, 1800, seed, func(*instance.Options) {})
		r, err := Solve(context.Background(), p, Options{WorkLimit: 3_000_000, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		curve := GainCurve(p, r.Assignment)
		first, last := curve[0], curve[len(curve)-1]
		if first.Moves != 0 || first.Bytes != 0 || math.Abs(first.Objective-r.ObjectiveBefore) > 1e-12 {
			t.Errorf("seed %d: the curve begins at %+v, before is %v", seed, first, r.ObjectiveBefore)
		}
		moves, bytes := 0, 0.0
		for c, n := range r.Assignment {
			if n != p.Copies[c].Node {
				moves++
				bytes += p.Copies[c].Bytes
			}
		}
		if last.Moves != moves || math.Abs(last.Bytes-bytes) > 1e-6*bytes || math.Abs(last.Objective-r.Objective) > 1e-9*r.Objective {
			t.Errorf("seed %d: the curve ends at %+v, the answer is %d moves, %v bytes, %v", seed, last, moves, bytes, r.Objective)
		}
		for i, point := range curve {
			if point.Moves != i {
				t.Fatalf("seed %d: point %d has %d moves", seed, i, point.Moves)
			}
		}
		// An order that does not know what matters, of all the same moves, is behind at every quarter.
		s := model.NewPlacement(p, nil)
		for c, n := range r.Assignment {
			if n != p.Copies[c].Node {
				s.Move(c, n)
				if k := s.Moves(); k%max(1, moves/4) == 0 && k < moves && curve[k].Objective > s.Objective()+1e-12 {
					t.Errorf("seed %d: the best %d moves come to %v, the first %d in any order to %v", seed, k, curve[k].Objective, k, s.Objective())
				}
			}
		}
	}
}

// Two full nodes that change copies with each other: neither move is legal alone, and both are on the curve.
func TestGainCurveEndsWithWhatIsOnlyLegalTogether(t *testing.T) {
	p := &model.Problem{
		Version: 1, Dimensions: []model.Dimension{{Name: "search", Weight: 1}},
		Nodes: []model.Node{
			{ID: "a", Capacity: []float64{1}, Disk: model.Disk{Limit: 10}, AcceptsNew: true},
			{ID: "b", Capacity: []float64{1}, Disk: model.Disk{Limit: 10}, AcceptsNew: true},
		},
		Classes: []model.Class{{Nodes: []int32{0, 1}}}, Indices: make([]model.Index, 1),
		Groups: []model.Group{{Name: "x/0"}, {Name: "y/0"}},
		Copies: []model.Copy{{Bytes: 10, Load: []float64{3}}, {Group: 1, Node: 1, Bytes: 10, Load: []float64{1}}},
	}
	curve := GainCurve(p, []int32{1, 0})
	if len(curve) != 3 || curve[2].Moves != 2 || curve[2].Bytes != 20 {
		t.Errorf("curve %+v, want both moves on it", curve)
	}
}
