package solver

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// someNode draws a node's subproblem: bends of its costs, and choices of which some are far larger than others.
func someNode(t *rapid.T, choices int) *nodeSolver {
	q := &nodeSolver{dims: rapid.IntRange(1, 3).Draw(t, "dimensions"), steps: 1 << 30}
	for d := range q.dims {
		b := &q.pieces[d]
		q.fixed[d] = float64(rapid.IntRange(0, 4).Draw(t, "fixed"))
		bends := rapid.IntRange(0, 4).Draw(t, "bends")
		if bends > 0 {
			b.price = rapid.SampledFrom([]float64{0, 0, 0.5}).Draw(t, "price")
		}
		at, value, slope := 1.0, 0.0, b.price
		for range bends {
			step := float64(rapid.IntRange(1, 6).Draw(t, "bend"))
			at, value = at+step, value+slope*step
			slope += float64(rapid.IntRange(1, 8).Draw(t, "slope")) / 4
			if len(b.at) == 0 { // what it costs below the first bend does not matter
				value = 0
			}
			b.at, b.value, b.slope = append(b.at, at), append(b.value, value), append(b.slope, slope)
			q.top[d] = slope
		}
	}
	for i := range choices {
		x := choice{copy: int32(i), guest: rapid.Bool().Draw(t, "guest"), gone: rapid.Float64Range(-1, 4).Draw(t, "gone")}
		large := 1.0
		if rapid.IntRange(0, 7).Draw(t, "large") == 0 {
			large = 8
			x.gone *= 8
		}
		for d := range q.dims {
			x.load[d] = large * rapid.SampledFrom([]float64{0, 0.1, 0.25, 0.7, 1, 1.5}).Draw(t, "load")
		}
		q.choices = append(q.choices, x)
	}
	return q
}

// everyWay is what the node costs at least with each choice staying, and leaving.
func everyWay(q *nodeSolver) (stay, leave []float64) {
	n := len(q.choices)
	stay, leave = make([]float64, n), make([]float64, n)
	for i := range n {
		stay[i], leave[i] = math.Inf(1), math.Inf(1)
	}
	for set := range 1 << n {
		load, paid := q.fixed, 0.0
		for i := range q.choices {
			if set>>i&1 == 1 {
				paid += q.choices[i].gone
				continue
			}
			for d := range q.dims {
				load[d] += q.choices[i].load[d]
			}
		}
		v := paid + q.total(&load)
		for i := range n {
			if set>>i&1 == 1 {
				leave[i] = min(leave[i], v)
			} else {
				stay[i] = min(stay[i], v)
			}
		}
	}
	return stay, leave
}

// Tables never promise more than is true of any choice, however coarse they are and whatever the slopes.
func TestTablesPromiseNoMoreThanIsTrue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := someNode(t, rapid.IntRange(1, 9).Draw(t, "choices"))
		stay, leave := everyWay(q)
		q.lineAll()
		var s vector
		for d := range q.dims {
			if b := &q.pieces[d]; len(b.at) > 0 {
				s[d] = b.price + rapid.Float64Range(0, 1).Draw(t, "slope")*(q.top[d]-b.price)
			}
		}
		for d := range q.dims {
			cells := rapid.SampledFrom([]int{1, 3, 64, 1000}).Draw(t, "cells")
			var k knapsack
			least, ok := k.solve(q, d, cells, &s, &q.fixed, 0)
			if !ok {
				continue
			}
			for i := range q.choices {
				if k.stay[i] > stay[i]+1e-9 || k.leave[i] > leave[i]+1e-9 || least > min(stay[i], leave[i])+1e-9 {
					t.Fatalf("dimension %d, choice %d: at least %v if it stays and %v if it leaves, %v in all; it is %v and %v", d, i, k.stay[i], k.leave[i], least, stay[i], leave[i])
				}
			}
		}
	})
}

// fullNode draws the subproblem that slopes, and single changes, know least of: room for one and a half of choices that are nearly alike.
func fullNode(t *rapid.T, choices int) *nodeSolver {
	q := &nodeSolver{dims: rapid.IntRange(1, 3).Draw(t, "dimensions"), steps: 1 << 30}
	rooms := rapid.Float64Range(1, 4).Draw(t, "room")
	for d := range q.dims {
		q.pieces[d] = piece{at: []float64{rooms, 1.5 * rooms}, value: []float64{0, 0.5 * rooms}, slope: []float64{1, 4}}
		q.top[d] = 4
	}
	for i := range choices {
		x := choice{copy: int32(i), guest: rapid.Bool().Draw(t, "guest")}
		for d := range q.dims {
			x.load[d] = rapid.Float64Range(0.2, 1).Draw(t, "load")
			x.gone += x.load[d] * rapid.Float64Range(0.4, 0.6).Draw(t, "worth")
		}
		q.choices = append(q.choices, x)
	}
	return q
}

// With tables or without, one by one or by plain branching, and some choices heavy: the best is found to the tolerance, and the bound is no
// more than that.
func TestNodesAreSolvedToTheEnd(t *testing.T) {
	some, many := someOpen, manyOpen
	t.Cleanup(func() { someOpen, manyOpen = some, many })
	rapid.Check(t, func(t *rapid.T) {
		someOpen = rapid.SampledFrom([]int{0, 6, some}).Draw(t, "one by one from")
		manyOpen = rapid.SampledFrom([]int{0, many}).Draw(t, "tables from")
		kind := rapid.SampledFrom([]func(*rapid.T, int) *nodeSolver{someNode, fullNode}).Draw(t, "kind")
		q := kind(t, rapid.IntRange(10, fewOpen+2).Draw(t, "choices"))
		stay, leave := everyWay(q)
		want := min(stay[0], leave[0])
		q.tol = rapid.SampledFrom([]float64{0, 0.01, 0.3}).Draw(t, "tolerance")
		var s vector
		least := q.decide(&s, nil)
		if least > want+1e-9 || least < want-q.tol-1e-9 || q.best > want+q.tol+1e-9 || q.best < want-1e-9 {
			t.Fatalf("at least %v and %v found at a tolerance of %v; the best is %v", least, q.best, q.tol, want)
		}
		load, paid := q.fixed, 0.0
		for i := range q.choices {
			if q.chosen[i] {
				paid += q.choices[i].gone
				continue
			}
			for d := range q.dims {
				load[d] += q.choices[i].load[d]
			}
		}
		if v := paid + q.total(&load); math.Abs(v-q.best) > 1e-9 {
			t.Fatalf("what is chosen costs %v, not %v", v, q.best)
		}
	})
}
