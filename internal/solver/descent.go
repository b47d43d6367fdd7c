package solver

import "slices"

// least is the smallest gain that counts: below it, differences are the rounding of sums.
func (s *search) least() float64 { return 1e-12 * (1 + s.Objective()) }

// descend makes best moves and best swaps until none pays, or the allowance ends. It never makes anything worse. It is
// what a plain greedy search does, and the yardstick for everything else here.
func (s *search) descend(allow *allowance) {
	for {
		moved, over := s.bestMoves(allow)
		if over {
			return
		}
		swapped, over := s.bestSwaps(allow)
		if over || moved+swapped == 0 {
			return
		}
	}
}

// bestMoves lets every pool copy make its best move, round after round, until none has one.
func (s *search) bestMoves(allow *allowance) (made int, over bool) {
	for before := -1; made != before; {
		before = made
		for _, c := range s.pool {
			was := s.work
			if to := s.bestMove(c); to >= 0 {
				s.move(c, to)
				made++
			}
			if s.work != was && allow.spent(s.work-was) {
				return made, true
			}
		}
	}
	return made, false
}

// bestMove is where copy c goes for the largest gain; -1 if no legal move gains.
func (s *search) bestMove(c int32) int32 {
	home, a := s.f.p.Copies[c].Node, s.Node(int(c))
	gain, to := s.least(), int32(-1)
	leave := s.DeltaLeave(int(c))
	s.work++
	if a != home {
		if d := s.Delta(int(c), home); -d > gain && s.Legal(int(c), home) {
			gain, to = -d, home
		}
	}
	// Going elsewhere costs the move at least; a copy on its way already has paid it in leave.
	least, tiers := leave+s.f.moveCost[c], !s.f.settled(s.f.p.Copies[c].Group)
	if -least <= gain && !tiers {
		return to
	}
	nodes := s.f.targets(c)
	for i := range nodes {
		n := nodes[(i+int(c))%len(nodes)] // of nodes that are equally good, not the same one for everybody
		if n == a || n == home {
			continue
		}
		s.work++
		d := leave + s.DeltaEnter(int(c), n)
		if tiers {
			d = s.Delta(int(c), n)
		}
		if -d > gain && s.Legal(int(c), n) && s.affordable(c, n, -1) {
			gain, to = -d, n
			if !tiers && -least <= gain+s.least() {
				break // as good as can be
			}
		}
	}
	return to
}

// bestSwaps lets every pool copy that is away, or would gain by leaving, make its best swap, once.
func (s *search) bestSwaps(allow *allowance) (made int, over bool) {
	for _, c := range s.pool {
		if !s.away(c) && s.DeltaLeave(int(c))+s.f.moveCost[c] >= 0 && s.f.tierNow[s.f.p.Copies[c].Group] == 0 {
			continue
		}
		best, with, was := -s.least(), int32(-1), s.work
		for n := range s.on {
			if int32(n) == s.Node(int(c)) {
				continue
			}
			best, with = s.partner(c, int32(n), best, with)
			if s.work-was > 1<<14 {
				if allow.spent(s.work - was) {
					over = true
					break
				}
				was = s.work
			}
		}
		if with >= 0 {
			s.swap(c, with)
			made++
		}
		if over || allow.spent(s.work-was) {
			return made, true
		}
	}
	return made, false
}

// partner is the copy on node n that c gains most by changing places with, if that is better than the best so far.
func (s *search) partner(c, n int32, best float64, with int32) (float64, int32) {
	for _, e := range s.on[n] {
		s.work++
		if d := s.DeltaSwap(int(c), int(e)); d < best && s.LegalSwap(int(c), int(e)) && s.affordable(c, n, e) {
			best, with = d, e
		}
	}
	return best, with
}

// promisingNodes is on how many nodes a copy looks for one to change places with.
const promisingNodes = 12

// promisingSwaps is as bestSwaps, round after round, but looks only at the nodes where the copy itself would gain most: where
// disks are full it fits nowhere, but one that it would replace may cost little to have. That is a fiftieth of the work on
// many nodes.
func (s *search) promisingSwaps(allow *allowance) (made int, over bool) {
	for before := -1; made != before; {
		before = made
		for _, c := range s.pool {
			home, a := s.f.p.Copies[c].Node, s.Node(int(c))
			leave, was := s.DeltaLeave(int(c)), s.work
			s.work++
			if a == home && leave+s.f.moveCost[c] >= 0 {
				continue
			}
			var nodes []candidate
			for _, n := range s.f.targets(c) {
				if n == a {
					continue
				}
				s.work++
				var v float64
				if n == home {
					v = s.Delta(int(c), n)
				} else {
					v = leave + s.DeltaEnter(int(c), n)
				}
				if v < -s.least() && (len(nodes) < promisingNodes || v < nodes[len(nodes)-1].cost) {
					at, _ := slices.BinarySearchFunc(nodes, v, func(x candidate, v float64) int { return order(x.cost, v) })
					nodes = slices.Insert(nodes[:min(len(nodes), promisingNodes-1)], min(at, promisingNodes-1), candidate{v, n})
				}
			}
			best, with := -s.least(), int32(-1)
			for _, x := range nodes {
				best, with = s.partner(c, x.node, best, with)
			}
			if with >= 0 {
				s.swap(c, with)
				made++
			}
			if allow.spent(s.work - was) {
				return made, true
			}
		}
	}
	return made, false
}

// steepest makes the single moves that gain most, one after the other, within the budgets until none pays: what a person
// would do with a list of the best moves. Whose best move is looked at again only when it comes up, or when one of its nodes
// has changed.
func (s *search) steepest(allow *allowance) {
	waiting := newMoveQueue()
	to := make(map[int32]int32)
	put := func(c int32) {
		waiting.drop(c)
		if n := s.bestMove(c); n >= 0 {
			to[c] = n
			waiting.put(c, s.Delta(int(c), n))
		}
	}
	work := func(do func()) (over bool) {
		was := s.work
		do()
		return allow.spent(s.work - was)
	}
	for _, c := range s.pool {
		if work(func() { put(c) }) {
			return
		}
	}
	for m, ok := waiting.next(); ok; m, ok = waiting.next() {
		n, from := to[m.copy], s.Node(int(m.copy))
		if s.Delta(int(m.copy), n) > m.delta+s.least() || !s.Legal(int(m.copy), n) || !s.affordable(m.copy, n, -1) {
			put(m.copy) // something has come between: no more than it, or not at all
			continue
		}
		s.move(m.copy, n)
		if work(func() {
			for _, list := range [2][]int32{slices.Clone(s.on[from]), slices.Clone(s.on[n])} {
				for _, c := range list {
					put(c)
				}
			}
		}) {
			return
		}
	}
}
