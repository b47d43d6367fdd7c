package model_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/shardonnay/shardonnay/internal/instance/instancetest"
	"github.com/shardonnay/shardonnay/internal/model"
)

// Sums kept over any series of moves, legal or not, price like the definition does.
func TestPlacementPricesLikeEvaluate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := instancetest.Problem(t, 5, 8)
		s := model.NewPlacement(p, instancetest.Assignment(t, p))
		for range rapid.IntRange(0, 12).Draw(t, "steps") {
			if len(p.Copies) == 0 {
				break
			}
			before := model.Total(model.Evaluate(p, s.Assignment()))
			if !instancetest.Close(before, s.Objective()) {
				t.Fatalf("objective %v, by definition %v", s.Objective(), before)
			}
			c, n := rapid.IntRange(0, len(p.Copies)-1).Draw(t, "copy"), int32(rapid.IntRange(0, len(p.Nodes)-1).Draw(t, "node"))
			delta := s.Delta(c, n)
			s.Move(c, n)
			after := model.Total(model.Evaluate(p, s.Assignment()))
			if !instancetest.Close(before+delta, after) {
				t.Fatalf("copy %d to %d: from %v, delta %v, by definition %v", c, n, before, delta, after)
			}
		}
		fresh := model.NewPlacement(p, s.Assignment())
		domains, _ := p.Domains()
		for d := range p.Dimensions {
			r := model.Utilization(p, domains, s.Assignment(), d)
			for n := range p.Nodes {
				if !instancetest.Close(r[n], s.Utilization(n, d)) || !instancetest.Close(fresh.Load(n, d), s.Load(n, d)) {
					t.Fatalf("node %d dimension %d: utilization %v, by definition %v", n, d, s.Utilization(n, d), r[n])
				}
			}
		}
		if fresh.Moves() != s.Moves() || !instancetest.Close(fresh.BytesMoved(), s.BytesMoved()) {
			t.Fatalf("%d moves of %v bytes, counted afresh %d of %v", s.Moves(), s.BytesMoved(), fresh.Moves(), fresh.BytesMoved())
		}
		s.Reset(p.Current())
		if diff := cmp.Diff(model.NewPlacement(p, nil).Objective(), s.Objective()); diff != "" {
			t.Fatalf("after Reset: %s", diff)
		}
	})
}

// From a legal placement, exactly the moves that Check lets pass are Legal; budgets are WithinLimits' business.
func TestPlacementJudgesLikeCheck(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := instancetest.Problem(t, 5, 8)
		s := model.NewPlacement(p, nil)
		for range 6 {
			var legal [][2]int
			for c := range p.Copies {
				for n := range p.Nodes {
					node := s.Assignment()
					node[c] = int32(n)
					budget, broken := false, []model.Violation(nil)
					for _, v := range model.Check(p, node) {
						if v.Rule == "budget" {
							budget = true
						} else {
							broken = append(broken, v)
						}
					}
					if got := s.Legal(c, int32(n)); got != (broken == nil) {
						t.Fatalf("copy %d to %d: Legal is %v, Check finds %v", c, n, got, broken)
					}
					if broken == nil {
						legal = append(legal, [2]int{c, n})
					}
					moved := model.NewPlacement(p, node)
					if moved.WithinLimits() == budget {
						t.Fatalf("copy %d to %d: WithinLimits is %v, Check says %v", c, n, moved.WithinLimits(), budget)
					}
				}
			}
			if len(legal) == 0 {
				return
			}
			move := legal[rapid.IntRange(0, len(legal)-1).Draw(t, "move")]
			s.Move(move[0], int32(move[1]))
		}
	})
}

// The inner loop of every search: no allocation.
func TestPlacementAllocatesNothing(t *testing.T) {
	p, err := model.Read(strings.NewReader(`{"version":1,"dimensions":[{"name":"d","weight":1}],
		"nodes":[{"id":"a","capacity":[1],"tiers":["x"]},{"id":"b","capacity":[1],"tiers":["y"]},{"id":"c","capacity":[1],"tiers":["y"]}],
		"classes":[{"nodes":[0,1,2]}],"indices":[{"name":"i","max_per_node":2,"fair_per_node":1,"spread_weight":1}],
		"groups":[{"index":0,"class":0,"tier_caps":[[0,1]],"tier_floors":[[0,1]]}],
		"copies":[{"group":0,"node":0,"load":[1]},{"group":0,"node":1,"load":[1]}],
		"objective":{"phi":{"points":[1],"slopes":[1]},"spread":{"per_copy":1},"tier_excess":[1]}}`))
	if err != nil {
		t.Fatal(err)
	}
	s := model.NewPlacement(p, nil)
	if n := testing.AllocsPerRun(100, func() {
		if s.Legal(1, 2) && s.Delta(1, 2) < 1 {
			s.Move(1, 2)
			s.Move(1, 1)
		}
	}); n != 0 {
		t.Errorf("%v allocations a round", n)
	}
}
