package solver

import (
	"math"
	"slices"
)

// roundBatches is in how many parts a flow is made whole; between two, the rest evens out again.
const roundBatches = 40

// round makes the flow whole: group after group, those first whose choice matters most, takes the one pattern that
// really costs least given all others. The groups that are still in parts then even out what that has changed. The flow
// is used up. It returns the moves.
func (w *flow) round() []move {
	type item struct {
		group  int32
		weight float64
	}
	var items []item
	for g := range w.groups {
		weight := -1.0
		for i := range w.groups[g] {
			x := &w.groups[g][i]
			for j, at := range x.slot {
				s := &w.f.slots[at]
				weight = max(weight, math.Abs(x.add[j])*s.scale*s.share)
			}
		}
		if weight >= 0 {
			items = append(items, item{int32(g), weight})
		}
	}
	slices.SortStableFunc(items, func(a, b item) int { return order(b.weight, a.weight) })
	var moves []move
	for b := range roundBatches {
		for _, it := range items[b*len(items)/roundBatches : (b+1)*len(items)/roundBatches] {
			paths := w.groups[it.group]
			w.groups[it.group] = nil
			for i := range paths {
				if paths[i].share != 0 {
					w.shift(&paths[i], -paths[i].share)
				}
			}
			best, least := -1, 0.0
			for i := range paths {
				if cost := w.whole(&paths[i]); cost < least {
					best, least = i, cost
				}
			}
			if best >= 0 {
				w.shift(&paths[best], 1)
				moves = append(moves, paths[best].moves...)
			}
		}
		w.sweep()
		w.sweep()
	}
	return moves
}

// whole is what all of a pattern costs on top of the loads there are, by the true cost of the slots.
func (w *flow) whole(x *path) float64 {
	cost := x.cost
	for i, at := range x.slot {
		s, after := &w.f.slots[at], w.load[at]+x.add[i]
		if x.add[i] > 0 && after > s.most {
			return math.Inf(1)
		}
		cost += w.f.cost(s, after) - w.f.cost(s, w.load[at])
	}
	return cost
}

// carryOut makes the moves that are legal, in the order that lets most be: a move that another one has to make room for
// waits. Moves without a node, or to one that never becomes legal, go to the best one; what has none stays.
func (s *search) carryOut(moves []move) {
	waiting := slices.Clone(moves)
	weight := func(m move) float64 {
		most := 0.0
		for r, l := range s.f.loads(m.copy)[:s.f.balance] {
			most = max(most, l*s.f.slots[int(s.f.p.Copies[m.copy].Node)*s.f.resources+r].scale)
		}
		return most
	}
	slices.SortStableFunc(waiting, func(a, b move) int { return order(weight(b), weight(a)) })
	for len(waiting) > 0 {
		left := waiting[:0]
		for _, m := range waiting {
			to := m.node
			if to < 0 {
				to = s.bestTarget(m.copy)
			}
			if to >= 0 && s.Legal(int(m.copy), to) {
				s.move(m.copy, to)
			} else {
				left = append(left, m)
			}
		}
		if len(left) == len(waiting) {
			// Nobody can go where he was to go: who found no place at all stays, and then the first of the others looks for one.
			if left = slices.DeleteFunc(left, func(m move) bool { return m.node < 0 }); len(left) == len(waiting) {
				left[0].node = -1
			}
		}
		waiting = left
	}
}

// bestTarget is the legal node other than its own where copy c costs least, -1 if there is none.
func (s *search) bestTarget(c int32) int32 {
	best, at := math.Inf(1), int32(-1)
	for _, n := range s.f.targets(c) {
		if n == s.Node(int(c)) {
			continue
		}
		s.work++
		if d := s.Delta(int(c), n); d < best && s.Legal(int(c), n) {
			best, at = d, n
		}
	}
	return at
}
