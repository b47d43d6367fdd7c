package solver

import (
	"math"
	"slices"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// level is the open choices at one depth of the search, their numbers side by side for the loops that run over all of them.
type level struct {
	depth int
	open  []int32
	loads [cluster.MaxDimensions][]float64
	gone  []float64
	stays []float64 // scratch: what each costs on the node at some slopes

	// For deciding one by one:
	rest []float64 // as lay makes it
	hint vector    // slopes that were best beside another choice
	must []way     // how each is decided because of those before

	// For plain branching:
	tangents      []tangent
	better, worse [][]int32 // who of those before is better, or worse, in all
}

// So many tangents are kept, those of use in front. Looking them all up costs less than improving slopes.
const mostTangents = 16

// total is what the node costs with a load.
func (q *nodeSolver) total(load *vector) (v float64) {
	for d := range q.dims {
		v += q.pieces[d].cost(load[d])
	}
	return v
}

// along is what a load costs at slopes.
func (q *nodeSolver) along(s, load *vector) (v float64) {
	for d := range q.dims {
		v += s[d] * load[d]
	}
	return v
}

// enter goes to the level below an earlier one, nil for the first, with nothing open there.
func (q *nodeSolver) enter(from *level) {
	depth := 0
	if from != nil {
		depth = from.depth + 1
	}
	if depth == len(q.levels) {
		q.levels = append(q.levels, &level{depth: depth})
	}
	q.level = q.levels[depth]
	q.cut(0)
}

// cut leaves the first n choices open.
func (q *nodeSolver) cut(n int) {
	q.open, q.gone = q.open[:n], q.gone[:n]
	for d := range q.dims {
		q.loads[d] = q.loads[d][:n]
	}
}

// keep puts open choice i in place n, which is not after it.
func (q *nodeSolver) keep(n, i int) {
	q.open[n], q.gone[n] = q.open[i], q.gone[i]
	for d := range q.dims {
		q.loads[d][n] = q.loads[d][i]
	}
}

// line opens a choice at the end of the line.
func (q *nodeSolver) line(id int32) {
	x := &q.choices[id]
	q.open, q.gone = append(q.open, id), append(q.gone, x.gone)
	for d := range q.dims {
		q.loads[d] = append(q.loads[d], x.load[d])
	}
}

// lineAll opens all choices.
func (q *nodeSolver) lineAll() {
	q.enter(nil)
	for i := range q.choices {
		q.line(int32(i))
	}
}

// price puts into stays what the open choices from i on cost on the node at slopes s.
func (q *nodeSolver) price(s *vector, i int) []float64 {
	q.stays = slices.Grow(q.stays[:0], len(q.open))[:len(q.open)]
	stays := q.stays[i:]
	clear(stays)
	for d := range q.dims {
		if slope := s[d]; slope != 0 {
			for j, l := range q.loads[d][i:] {
				stays[j] += slope * l
			}
		}
	}
	return stays
}

// lay puts into rest what the open choices from i on cost at least at slopes s, the tangents' constants included: each with all
// after it. Those before i stay as they were.
func (q *nodeSolver) lay(rest []float64, s *vector, i int) []float64 {
	n := len(q.open)
	rest = slices.Grow(rest[:0], n+1)[:n+1]
	rest[n] = 0
	for d := range q.dims {
		rest[n] += q.tangency(d, s[d], 0)
	}
	stays := q.price(s, i)
	for j := n - 1; j >= i; j-- {
		rest[j] = rest[j+1] + min(stays[j-i], q.gone[j])
	}
	return rest
}

// tangency is what the node costs at least at slope s in dimension d, with load there.
func (q *nodeSolver) tangency(d int, s, load float64) float64 {
	b := &q.pieces[d]
	if len(b.at) == 0 {
		return 0
	}
	k := b.knot(s)
	return b.value[k] + s*(load-b.at[k])
}

// raise improves slopes one dimension at a time, until the lower bound is enough, and returns the bound they give for the choices from i
// on with load there already. The bound is concave in each slope, and its derivative is what is there plus what stays, minus the load
// where the cost has that slope.
func (q *nodeSolver) raise(s, load *vector, i, sweeps int, enough float64) float64 {
	stays, gone := q.price(s, i), q.gone[i:]
	nodes := 0.0 // the part without the choices
	for d := range q.dims {
		nodes += q.tangency(d, s[d], load[d])
	}
	best := nodes
	for j, v := range stays {
		best += min(v, gone[j])
	}
	for range sweeps {
		was := best
		for d := range q.dims {
			if best >= enough {
				return best
			}
			b, loads := &q.pieces[d], q.loads[d][i:]
			if len(b.at) == 0 {
				continue
			}
			// The slope up to which each choice stays, the other dimensions' slopes given.
			q.until = q.until[:0]
			for j, l := range loads {
				if l > 0 {
					q.until = append(q.until, stayer{(gone[j]-stays[j])/l + s[d], l})
				}
			}
			low, high := b.price, b.slope[len(b.slope)-1]
			sure, open := load[d], q.until // of those whose slope is above high, and those in between
			for range 20 {
				mid := (low + high) / 2
				more, k := sure, 0
				for j := range open { // those that stay at mid come first
					if mid <= open[j].slope {
						more += open[j].load
						open[k], open[j] = open[j], open[k]
						k++
					}
				}
				if more > b.at[b.knot(mid)] {
					low, open = mid, open[:k]
				} else {
					high, sure, open = mid, more, open[k:]
				}
			}
			q.work += int64(len(loads))/2 + 1
			by, rest := 0.0, nodes-q.tangency(d, s[d], load[d])
			for _, try := range [2]float64{low, high} {
				change := try - s[d]
				v := rest + q.tangency(d, try, load[d])
				for j, l := range loads {
					v += min(stays[j]+change*l, gone[j])
				}
				if v > best {
					best, by = v, change
				}
			}
			if by != 0 {
				s[d] += by
				nodes = rest + q.tangency(d, s[d], load[d])
				for j, l := range loads {
					stays[j] += by * l
				}
			}
		}
		if best-was <= q.tol/4 {
			break
		}
	}
	return best
}

// stayer is a choice in one dimension: it stays while the slope is below.
type stayer struct{ slope, load float64 }

// tangent is a bound at slopes for all that is left from a choice on, ready to be looked up.
type tangent struct {
	slopes vector
	rest   []float64 // as lay makes it
}

// touch makes the tangent at slopes s.
func (q *nodeSolver) touch(s vector) {
	var rest []float64
	if len(q.tangents) == mostTangents {
		rest = q.tangents[mostTangents-1].rest
		q.tangents = q.tangents[:mostTangents-1]
	}
	q.tangents = slices.Insert(q.tangents, 0, tangent{s, q.lay(rest, &s, 0)})
}

// below is the best of the tangents' bounds from choice i on, with load there already, up to what is enough. The tangent that
// was enough is looked at first the next time.
func (q *nodeSolver) below(i int, load *vector, enough float64) float64 {
	least := math.Inf(-1)
	for at := range q.tangents {
		t := &q.tangents[at]
		if least = max(least, t.rest[i]+q.along(&t.slopes, load)); least >= enough {
			if at > 0 {
				q.tangents[at], q.tangents[at-1] = q.tangents[at-1], q.tangents[at]
			}
			break
		}
	}
	return least
}
