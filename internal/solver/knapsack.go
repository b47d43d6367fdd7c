package solver

import (
	"math"
	"slices"
)

// knapsack is a node's subproblem with all dimensions but one priced by slopes: whole choices under the cost of their load in
// that dimension. Tables over that load, in cells and rounded down, solve it, and tell for every choice what the node costs at
// least if it stays, and if it leaves. No choice is cut into fractions there, so that decides most of them.
type knapsack struct {
	items       []item
	after       []float64 // item, cell: what items from that one on and the load's cost come to at least, with the cell's load from others
	before      []float64 // cell: what items before come to at least, with that load of theirs
	stay, leave []float64 // per open choice: what the node costs at least then
}

// item is an open choice with a load in the dimension that would rather stay than pay for leaving.
type item struct {
	choice int
	value  float64 // of staying, less what it pays in the other dimensions
	load   float64
	cells  int // of its load, rounded down
}

// solve fills stay and leave for dimension d, the others' slopes given, with load there already and so much paid. It returns what the
// node costs at least. It is false where the cost has no bend above the load: slopes tell all there.
func (k *knapsack) solve(q *nodeSolver, d, cells int, s, load *vector, paid float64) (least float64, ok bool) {
	b := &q.pieces[d]
	last := len(b.at) - 1
	if last < 0 || b.at[last] <= load[d] {
		return 0, false
	}
	cell, top := (b.at[last]-load[d])/float64(cells), b.slope[last]
	sure := paid + k.sort(q, d, cell, cells, s)
	for e := range q.dims {
		if e != d {
			sure += q.tangency(e, s[e], load[e])
		}
	}
	n, width := len(k.items), cells+1
	k.after, k.before = slices.Grow(k.after[:0], (n+1)*width)[:(n+1)*width], slices.Grow(k.before[:0], width)[:width]
	row := func(i int) []float64 { return k.after[i*width : (i+1)*width] }
	to := row(n)
	for at := range to { // the last cell is all from the last bend on, where the cost is a line
		to[at] = b.cost(load[d] + float64(at)*cell)
	}
	over := func(x *item, at int) float64 { return top * (x.load - float64(cells-at)*cell) }
	for i := n - 1; i >= 0; i-- {
		x, from := &k.items[i], to
		to = row(i)
		within := cells - x.cells
		with, without, into := from[x.cells:cells], from[:within], to[:within]
		with, without = with[:len(into)], without[:len(into)]
		for at := range into {
			into[at] = min(without[at], with[at]-x.value)
		}
		for at := within; at <= cells; at++ {
			to[at] = min(from[at], from[cells]-x.value+over(x, at))
		}
	}
	least = sure + to[0]
	for i := range k.stay {
		k.stay[i] += least
		k.leave[i] += least
	}
	for at := range k.before {
		k.before[at] = math.Inf(1)
	}
	k.before[0] = 0
	reach := 1 // cells that items before can reach, the last one aside
	for i := range k.items {
		x, from := &k.items[i], row(i+1)
		inf := math.Inf(1)
		stay, leave, beyond := inf, inf, inf
		for at, v := range k.before[:reach] {
			leave = min(leave, v+from[at])
		}
		leave = min(leave, k.before[cells]+from[cells])
		within := min(reach, cells-x.cells)
		with := from[x.cells:]
		for at, v := range k.before[:within] {
			stay = min(stay, v+with[at])
		}
		for at := within; at < reach; at++ {
			beyond = min(beyond, k.before[at]+over(x, at))
		}
		beyond = min(beyond, k.before[cells]+over(x, cells))
		k.stay[x.choice], k.leave[x.choice] = sure-x.value+min(stay, beyond+from[cells]), sure+leave
		for at := within - 1; at >= 0; at-- {
			k.before[at+x.cells] = min(k.before[at+x.cells], k.before[at]-x.value)
		}
		k.before[cells] = min(k.before[cells], beyond-x.value)
		reach = max(reach, within+x.cells)
	}
	q.work += int64(n*width) / 8
	return least, true
}

// sort lists the items, and returns what all choices cost with the items gone. What the others' opposite costs more goes to stay and leave.
func (k *knapsack) sort(q *nodeSolver, d int, cell float64, cells int, s *vector) (sure float64) {
	stays := q.price(s, 0)
	k.items = k.items[:0]
	k.stay, k.leave = append(k.stay[:0], make([]float64, len(q.open))...), append(k.leave[:0], make([]float64, len(q.open))...)
	for i, gone := range q.gone {
		load := q.loads[d][i]
		value := gone - (stays[i] - s[d]*load)
		switch {
		case value <= 0:
			sure += gone
			k.stay[i] = -value
		case load == 0:
			sure += gone - value
			k.leave[i] = value
		default:
			sure += gone
			k.items = append(k.items, item{i, value, load, int(min(load/cell*(1-1e-12), float64(cells)))})
		}
	}
	return sure
}

// pick makes what the tables choose the trial, for the open choices.
func (k *knapsack) pick(q *nodeSolver, cells int) {
	for i, id := range q.open {
		q.trial[id] = k.stay[i] > k.leave[i]
	}
	at, width := 0, cells+1
	for i := range k.items {
		x := &k.items[i]
		gone := k.after[i*width+at] >= k.after[(i+1)*width+at]
		q.trial[q.open[x.choice]] = gone
		if !gone {
			at = min(at+x.cells, cells)
		}
	}
}
