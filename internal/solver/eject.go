package solver

import "slices"

// undoable is a step that can be taken back.
type undoable struct{ copy, from int32 }

// ejectNodes is how many nodes an ejection tries for one copy.
const ejectNodes = 64

// ejections moves each of these copies, large ones, to where it costs least once the others there have given way: a
// single move never gets there, for it costs at first. Each copy tries its most promising nodes and takes the best, if
// that is better than where it is.
func (s *search) ejections(copies []int32, allow *allowance) {
	for _, c := range copies {
		was := s.work
		type try struct {
			node  int32
			delta float64
		}
		var tries []try
		for _, n := range s.f.targets(c) {
			if n != s.Node(int(c)) && s.Legal(int(c), n) && s.affordable(c, n, -1) {
				tries = append(tries, try{n, s.Delta(int(c), n)})
				s.work++
			}
		}
		slices.SortStableFunc(tries, func(a, b try) int { return order(a.delta, b.delta) })
		best, at := s.Objective()-s.least(), int32(-1)
		for _, t := range tries[:min(len(tries), ejectNodes)] {
			steps := s.eject(c, t.node)
			if now := s.Objective(); now < best {
				best, at = now, t.node
			}
			s.takeBack(steps)
			if allow.spent(s.work - was) {
				return
			}
			was = s.work
		}
		if at >= 0 {
			s.eject(c, at)
		}
	}
}

// eject moves copy c to node n, then lets the copies on both of its nodes, and those that had left its old one, make
// their best moves.
func (s *search) eject(c, n int32) (steps []undoable) {
	a := s.Node(int(c))
	step := func(c, n int32) {
		steps = append(steps, undoable{c, s.Node(int(c))})
		s.move(c, n)
	}
	step(c, n)
	for range 3 {
		before := len(steps)
		for _, list := range [][]int32{slices.Clone(s.on[n]), slices.Clone(s.on[a]), s.f.home[a]} {
			for _, e := range list {
				if e == c || s.at[e] < 0 {
					continue
				}
				if to := s.bestMove(e); to >= 0 {
					step(e, to)
				}
			}
		}
		if len(steps) == before {
			break
		}
	}
	return steps
}

func (s *search) takeBack(steps []undoable) {
	for _, u := range slices.Backward(steps) {
		s.move(u.copy, u.from)
	}
}
