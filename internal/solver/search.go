package solver

import (
	"slices"

	"github.com/shardonnay/shardonnay/internal/model"
)

// search is a placement that is being improved, with the copies worth touching listed by node.
type search struct {
	*model.Placement
	f    *frame
	pool []int32   // copies that may move; the others stay where they are
	on   [][]int32 // per node: its pool copies
	at   []int32   // per copy: position in its node's list; -1 outside the pool
	work int64     // deltas computed
}

// newSearch starts from an assignment, nil is the present state.
func newSearch(f *frame, node []int32, pool []int32) *search {
	s := &search{Placement: model.NewPlacement(f.p, node), f: f, pool: pool, on: make([][]int32, len(f.p.Nodes)), at: make([]int32, len(f.p.Copies))}
	s.list()
	return s
}

func (s *search) list() {
	for n := range s.on {
		s.on[n] = s.on[n][:0]
	}
	for c := range s.at {
		s.at[c] = -1
	}
	for _, c := range s.pool {
		n := s.Node(int(c))
		s.at[c] = int32(len(s.on[n]))
		s.on[n] = append(s.on[n], c)
	}
}

// reset goes to another assignment.
func (s *search) reset(node []int32) {
	s.Reset(node)
	s.list()
}

// clone is a search of its own that starts where s is.
func (s *search) clone() *search {
	c := &search{Placement: s.Clone(), f: s.f, pool: s.pool, on: make([][]int32, len(s.on)), at: make([]int32, len(s.at))}
	c.list()
	return c
}

// move puts copy c on node n.
func (s *search) move(c, n int32) {
	if at := s.at[c]; at >= 0 {
		a := s.Node(int(c))
		list := s.on[a]
		last := list[len(list)-1]
		list[at], s.at[last] = last, at
		s.on[a] = list[:len(list)-1]
		s.at[c] = int32(len(s.on[n]))
		s.on[n] = append(s.on[n], c)
	}
	s.Move(int(c), n)
}

// swap lets copies c and e change places.
func (s *search) swap(c, e int32) {
	a, b := s.Node(int(c)), s.Node(int(e))
	s.move(c, b)
	s.move(e, a)
}

func (s *search) away(c int32) bool { return s.Node(int(c)) != s.f.p.Copies[c].Node }

// affordable tells whether the budgets still hold when copy c goes to n and, if e is not negative, e to where c is.
func (s *search) affordable(c, n, e int32) bool {
	limits := &s.f.p.Limits
	if limits.MaxMoves == 0 && limits.MaxBytes == 0 {
		return true
	}
	moves, bytes := s.Moves(), s.BytesMoved()
	tally := func(c, to int32) {
		k := &s.f.p.Copies[c]
		was, is := s.away(c), to != k.Node
		if is && !was {
			moves, bytes = moves+1, bytes+k.Bytes
		} else if was && !is {
			moves, bytes = moves-1, bytes-k.Bytes
		}
	}
	tally(c, n)
	if e >= 0 {
		tally(e, s.Node(int(c)))
	}
	return (limits.MaxMoves == 0 || moves <= max(limits.MaxMoves, s.Moves()-1)) &&
		(limits.MaxBytes == 0 || bytes <= max(limits.MaxBytes*(1+diskSlack/2), s.BytesMoved()*(1-diskSlack)))
}

// moved lists the copies that are away, whether of the pool or not.
func (s *search) moved() (copies []int32) {
	for c := range s.f.p.Copies {
		if s.away(int32(c)) {
			copies = append(copies, int32(c))
		}
	}
	return copies
}

// worthMoving are the copies that could gain by leaving, or nearly: what leaving can save at most is at least this share
// of what moving costs. The others only ever move to make room, which is rare enough to leave out.
const worthMoving = 0.5

// interesting is the pool for a search: copies worth moving at the loads of one of the assignments, and those that one of
// them has moved. The present state is one more.
func (f *frame) interesting(assignments ...[]int32) []int32 {
	wanted := make([]bool, len(f.p.Copies))
	for _, node := range append(assignments, f.p.Current()) {
		load := make([]float64, len(f.slots))
		for i := range f.slots {
			load[i] = f.slots[i].fixed
		}
		for c, n := range node {
			if f.movable[c] {
				for r, l := range f.loads(int32(c)) {
					load[int(n)*f.resources+r] += l
				}
			}
		}
		for c, n := range node {
			if !f.movable[c] {
				continue
			}
			k := &f.p.Copies[c]
			gain := f.stayPrice[c] + f.tierNow[k.Group]
			for r, l := range f.loads(int32(c))[:f.balance] {
				i := int(n)*f.resources + r
				gain += f.slopeAbove(&f.slots[i], load[i]) * l
			}
			wanted[c] = wanted[c] || n != k.Node || gain > 0 && gain >= worthMoving*f.moveCost[c]
		}
	}
	return listed(wanted)
}

// listed are the copies that are wanted, in order.
func listed(wanted []bool) (copies []int32) {
	for c, yes := range wanted {
		if yes {
			copies = append(copies, int32(c))
		}
	}
	return copies
}

// largestPerNode is how many of the largest copies there are for each node in a large problem's pool.
const largestPerNode = 2

// largest is the pool for a search that has no time for all that are interesting: the largest copies, and those that one of the
// assignments has moved.
func (f *frame) largest(assignments ...[]int32) []int32 {
	wanted := make([]bool, len(f.p.Copies))
	for _, c := range f.large(largestPerNode * len(f.p.Nodes)) {
		wanted[c] = true
	}
	for _, node := range assignments {
		for c, n := range node {
			wanted[c] = wanted[c] || n != f.p.Copies[c].Node
		}
	}
	return listed(wanted)
}

// wishing is the pool of the copies whose groups have wishes and pay for tiers now.
func (f *frame) wishing() []int32 {
	return slices.DeleteFunc(f.everything(), func(c int32) bool {
		g := f.p.Copies[c].Group
		return f.tierNow[g] == 0 || len(f.p.Groups[g].TierTables) == 0
	})
}

// everything is the pool of all copies that can move.
func (f *frame) everything() []int32 { return listed(f.movable) }
