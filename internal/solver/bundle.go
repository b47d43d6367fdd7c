package solver

import "math"

// bundle describes a concave function of prices, none of them negative, from above: slope x prices, plus for each block the
// least of its planes. It finds the prices where the description, less a quadratic term around a center, is highest: the
// proximal bundle method. The term keeps prices near where the function is known; without it a description that knows few
// planes asks for prices beyond all measure.
//
// The planes of a block have weights that add up to one. Prices are highest where the weights' mean of the planes lies flat,
// the term included, so that for each mix of planes there are prices, and the best mix is found two planes of a block at a
// time, exactly: block-coordinate ascent on the dual quadratic program, with the pairs of sequential minimal optimization.
type bundle struct {
	slope  []float64
	center []float64
	reach  []float64 // how far from its center an imbalance of one takes a price
	at     []float64 // center + reach x (slope + the planes' mean)
	y      []float64 // the prices: at, where it is not negative
	blocks [][]plane
	change []float64 // scratch: per price, what differs between two planes
}

// plane is what a block costs at prices y: cost + sum of factor x y over its terms.
type plane struct {
	cost   float64
	terms  []term
	weight float64
	id     int // the owner's
}

// term is a price's part in a plane.
type term struct {
	price  int32
	factor float64
}

func newBundle(blocks int, slope []float64) *bundle {
	n := len(slope)
	return &bundle{slope: slope, blocks: make([][]plane, blocks), at: make([]float64, n), y: make([]float64, n), change: make([]float64, n)}
}

func (p *plane) value(y []float64) float64 {
	v := p.cost
	for _, t := range p.terms {
		v += t.factor * y[t.price]
	}
	return v
}

// add adds a plane to a block. The first one has all the weight.
func (b *bundle) add(block int, p plane) {
	if len(b.blocks[block]) == 0 {
		p.weight = 1
	}
	b.blocks[block] = append(b.blocks[block], p)
}

// least is what a block costs at prices y, as far as its planes tell.
func (b *bundle) least(block int, y []float64) float64 {
	least := math.Inf(1)
	for i := range b.blocks[block] {
		least = min(least, b.blocks[block][i].value(y))
	}
	return least
}

// around sets center and reach, and what the prices are with the weights as they are.
func (b *bundle) around(center, reach []float64) {
	b.center, b.reach = center, reach
	for i := range b.at {
		b.at[i] = center[i] + reach[i]*b.slope[i]
	}
	for _, planes := range b.blocks {
		for i := range planes {
			if p := &planes[i]; p.weight > 0 {
				for _, t := range p.terms {
					b.at[t.price] += reach[t.price] * p.weight * t.factor
				}
			}
		}
	}
	for i, v := range b.at {
		b.y[i] = max(0, v)
	}
}

// weigh adds to a plane's weight.
func (b *bundle) weigh(p *plane, by float64) {
	p.weight += by
	for _, t := range p.terms {
		b.at[t.price] += b.reach[t.price] * by * t.factor
		b.y[t.price] = max(0, b.at[t.price])
	}
}

// pairs is how often in a row two planes of a block share their weight anew.
const pairs = 3

// sweep improves the weights of every block once.
func (b *bundle) sweep(tol float64) {
	for _, planes := range b.blocks {
		for range pairs {
			var low, high *plane
			least, most := math.Inf(1), math.Inf(-1)
			for i := range planes {
				p := &planes[i]
				v := p.value(b.y)
				if v < least {
					least, low = v, p
				}
				if p.weight > 0 && v > most {
					most, high = v, p
				}
			}
			if most-least <= tol || low == high {
				break
			}
			by := high.weight
			if curvature := b.curvature(low, high); curvature > 0 {
				by = min(by, (most-least)/curvature)
			}
			b.weigh(low, by)
			b.weigh(high, -by)
		}
	}
}

// curvature is how fast at least the difference of two planes closes as weight goes from one to the other. Prices that stay at
// zero, whatever part of the weight goes, are left out; of others that are at zero on the way the step is too short, never too long.
func (b *bundle) curvature(low, high *plane) (v float64) {
	for _, t := range low.terms {
		b.change[t.price] += t.factor
	}
	for _, t := range high.terms {
		b.change[t.price] -= t.factor
	}
	for _, terms := range [2][]term{low.terms, high.terms} {
		for _, t := range terms {
			d, at := b.change[t.price], b.at[t.price]
			b.change[t.price] = 0
			if max(at, at+high.weight*b.reach[t.price]*d) > 0 {
				v += d * d * b.reach[t.price]
			}
		}
	}
	return v
}

// values are the description at the prices, and what it is nowhere above, both less the quadratic term there.
func (b *bundle) values() (reached, ceiling float64) {
	for i, y := range b.y {
		d := y - b.center[i]
		reached += b.slope[i] * y
		if b.reach[i] > 0 {
			reached -= d * d / (2 * b.reach[i])
		}
	}
	ceiling = reached
	for n, planes := range b.blocks {
		reached += b.least(n, b.y)
		for i := range planes {
			if planes[i].weight > 0 {
				ceiling += planes[i].weight * planes[i].value(b.y)
			}
		}
	}
	return reached, ceiling
}

const (
	// sweepsBetween values are looked at; so many sweeps are made at most.
	sweepsBetween, mostSweeps = 10, 500
	// nearEnough is how near the prices come to the highest point, as a share of what it is above what is known.
	nearEnough = 0.05
)

// rise brings the prices to where the description, less the quadratic term, is highest, to within tol or nearEnough of what it is
// above known. It returns what it is nowhere above.
func (b *bundle) rise(known, tol float64) float64 {
	for sweeps := 0; ; sweeps += sweepsBetween {
		reached, ceiling := b.values()
		if ceiling-reached <= max(tol, nearEnough*(reached-known)) || sweeps >= mostSweeps {
			return ceiling
		}
		for range sweepsBetween {
			b.sweep(tol / float64(len(b.blocks)))
		}
	}
}
