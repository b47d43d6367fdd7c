package solver

import (
	"container/heap"

	"github.com/shardonnay/shardonnay/internal/model"
)

// CurvePoint is what the best so many moves of an answer come to.
type CurvePoint struct {
	Moves     int     `json:"moves"`
	Bytes     float64 `json:"bytes"`
	Objective float64 `json:"objective"`
}

// GainCurve says what the best so many moves of an assignment come to, for every number of moves: a plan for every budget
// at once. It goes from the present state to the assignment, each step by the move that gains most, and from the
// assignment back, each step by the return that loses least; a point is the better of both. The first way knows best which
// moves to begin with, the second which only gain together.
func GainCurve(p *model.Problem, assignment []int32) []CurvePoint {
	curve, back := walk(p, p.Current(), assignment), walk(p, assignment, p.Current())
	for i, there := range back {
		if k := len(back) - 1 - i; there.Objective < curve[k].Objective {
			curve[k] = there
		}
	}
	return curve
}

// walk goes from one assignment to another, copy by copy: always the one that lowers the objective most or raises it least,
// of those that are legal by then. What is only legal together, a ring of swaps on full disks, comes last. The points are
// one more than the copies on whose node the assignments differ.
func walk(p *model.Problem, from, to []int32) []CurvePoint {
	s := model.NewPlacement(p, from)
	point := func() CurvePoint { return CurvePoint{s.Moves(), s.BytesMoved(), s.Objective()} }
	points := []CurvePoint{point()}
	waiting := newMoveQueue()
	near := make([][]int32, len(p.Nodes)) // per node: the copies that are to leave it or to come
	put := func(c int32) {
		waiting.drop(c)
		if n := to[c]; s.Node(int(c)) != n && s.Legal(int(c), n) {
			waiting.put(c, s.Delta(int(c), n))
		}
	}
	for c := range p.Copies {
		if from[c] != to[c] {
			near[from[c]], near[to[c]] = append(near[from[c]], int32(c)), append(near[to[c]], int32(c))
			put(int32(c))
		}
	}
	for m, ok := waiting.next(); ok; m, ok = waiting.next() {
		s.Move(int(m.copy), to[m.copy])
		points = append(points, point())
		put(m.copy)
		for _, changed := range [3][]int32{near[from[m.copy]], near[to[m.copy]], s.Group(p.Copies[m.copy].Group)} {
			for _, c := range changed {
				put(c)
			}
		}
	}
	for c := range p.Copies {
		if s.Node(c) != to[c] {
			s.Move(c, to[c])
			points = append(points, point())
		}
	}
	return points
}

// queuedMove is a move with what it changed the objective by when that was looked at last.
type queuedMove struct {
	copy  int32
	delta float64
}

// moveQueue is a heap of moves, those that gain most first. An entry counts only if its delta still is the copy's.
type moveQueue struct {
	list  []queuedMove
	delta map[int32]float64
}

func newMoveQueue() *moveQueue { return &moveQueue{delta: make(map[int32]float64)} }

// put queues a copy's move, in place of one queued before.
func (q *moveQueue) put(c int32, delta float64) {
	q.delta[c] = delta
	heap.Push(q, queuedMove{c, delta})
}

// drop forgets a copy's move.
func (q *moveQueue) drop(c int32) { delete(q.delta, c) }

// next takes the move that gains most; ok is false where none is left.
func (q *moveQueue) next() (m queuedMove, ok bool) {
	for q.Len() > 0 {
		m = heap.Pop(q).(queuedMove)
		if delta, known := q.delta[m.copy]; known && delta == m.delta {
			return m, true
		}
	}
	return m, false
}

// Len is the number of entries; container/heap calls it.
func (q *moveQueue) Len() int { return len(q.list) }

// Less puts what gains more first; container/heap calls it.
func (q *moveQueue) Less(i, j int) bool {
	if q.list[i].delta != q.list[j].delta {
		return q.list[i].delta < q.list[j].delta
	}
	return q.list[i].copy < q.list[j].copy
}

// Swap changes two entries; container/heap calls it.
func (q *moveQueue) Swap(i, j int) { q.list[i], q.list[j] = q.list[j], q.list[i] }

// Push adds an entry; container/heap calls it.
func (q *moveQueue) Push(x any) { q.list = append(q.list, x.(queuedMove)) }

// Pop takes the last entry; container/heap calls it.
func (q *moveQueue) Pop() any {
	last := q.list[len(q.list)-1]
	q.list = q.list[:len(q.list)-1]
	return last
}
