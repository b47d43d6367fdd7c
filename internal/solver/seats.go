package solver

import (
	"math"
	"slices"

	"github.com/shardonnay/shardonnay/internal/solver/clp"
)

// seatSteps bounds the branches of one answer. An answer cut short asks for less than it might: that is no fault, for any
// seat price proves a bound.
const seatSteps = 200

// seatPrices are what the giants pay for their seats at the prices at hand: the prices of an assignment problem, in which
// every giant takes the seat of one node or stays, and every node has one seat to give. Prices of the single cheapest seat
// would send all giants to the same few nodes, and the bound would be blind to what the next ones cost.
func (q *pricer) seatPrices(nodes []int32, workers int) (seat []float64, work int64, err error) {
	f := q.f
	seat = make([]float64, len(f.giants))
	if len(seat) == 0 {
		return seat, 0, nil
	}
	stay := q.worthLeaving(&work)
	answers := make([]answer, len(nodes))
	work += parallel(workers, len(nodes), 4, func(from, to int) int64 {
		s := nodeSolver{f: f, q: q, asking: true}
		for i := from; i < to; i++ {
			answers[i] = s.solve(nodes[i], stay, 0, seatSteps)
		}
		return s.work
	})
	seat, err = assign(stay, answers)
	return seat, work, err
}

// worthLeaving is, per giant, what its node saves if it leaves for nothing: above this price it stays.
func (q *pricer) worthLeaving(work *int64) []float64 {
	f := q.f
	s := nodeSolver{f: f, q: q}
	worth := make([]float64, len(f.giants))
	for g, c := range f.giants {
		n, seat := f.p.Copies[c].Node, make([]float64, len(f.giants))
		free := s.solve(n, seat, 0, seatSteps).best
		seat[g] = math.Inf(1)
		worth[g] = max(0, s.solve(n, seat, 0, seatSteps).best-free)
	}
	*work += s.work
	return worth
}

// assign solves the assignment problem as a linear program: its price of a giant is what it pays for a seat.
func assign(stay []float64, answers []answer) ([]float64, error) {
	unit := slices.Max(stay)
	for i := range answers {
		for _, s := range answers[i].seats {
			unit = max(unit, math.Abs(s.cost))
		}
	}
	if unit == 0 {
		return make([]float64, len(stay)), nil
	}
	p := &clp.Problem{}
	for range stay {
		p.Rows = append(p.Rows, clp.Bounds{Lower: 1, Upper: math.Inf(1)})
	}
	positive := clp.Bounds{Lower: 0, Upper: math.Inf(1)}
	for g, worth := range stay {
		p.Columns.Add(worth/unit, positive)
		p.Columns.Put(int32(g), 1)
	}
	rows := make(map[int32]int32) // per answer with a seat somebody may want
	for g, seats := range cheapestSeats(stay, answers) {
		for _, s := range seats {
			row, known := rows[s.node]
			if !known {
				row = int32(len(p.Rows))
				rows[s.node] = row
				p.Rows = append(p.Rows, clp.Bounds{Lower: math.Inf(-1), Upper: 1})
			}
			p.Columns.Add(s.cost/unit, positive)
			p.Columns.Put(int32(g), 1)
			p.Columns.Put(row, 1)
		}
	}
	solution, err := clp.Solve(p, clp.Limits{Iterations: 20000})
	if err != nil {
		return nil, err
	}
	seat := make([]float64, len(stay))
	for g := range seat {
		seat[g] = stay[g]
		if solution.Status == clp.Optimal {
			seat[g] = min(max(0, solution.Price[g]*unit), stay[g])
		}
	}
	return seat, nil
}

// cheapestSeats lists for every giant the cheapest seats that cost less than staying is worth to it, by position in answers,
// as many as there are giants: with so many to choose from, one is always left.
func cheapestSeats(stay []float64, answers []answer) [][]candidate {
	seats := make([][]candidate, len(stay))
	for i := range answers {
		for _, s := range answers[i].seats {
			if s.cost < stay[s.node] {
				seats[s.node] = append(seats[s.node], candidate{s.cost, int32(i)})
			}
		}
	}
	for g := range seats {
		slices.SortStableFunc(seats[g], func(a, b candidate) int { return order(a.cost, b.cost) })
		seats[g] = seats[g][:min(len(seats[g]), len(stay))]
	}
	return seats
}
