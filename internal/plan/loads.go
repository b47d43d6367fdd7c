package plan

import (
	"math"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/model"
)

// loads answers what a move does to the balance of one dimension alone.
type loads struct {
	p       *model.Problem
	domains []model.Domain
	ofNode  []int32
}

func newLoads(p *model.Problem) *loads {
	l := &loads{p: p}
	l.domains, l.ofNode = p.Domains()
	return l
}

// fair is the load node n carries in dimension d when all is even; 0 where it takes no part in it.
func (l *loads) fair(n int32, d int) float64 {
	if i := l.ofNode[n]; i >= 0 {
		return l.p.Nodes[n].Capacity[d] * l.domains[i].Mean[d]
	}
	return 0
}

// cost is what node n's load in dimension d costs in the objective.
func (l *loads) cost(n int32, d int, load float64) float64 {
	fair := l.fair(n, d)
	if fair <= 0 {
		return 0
	}
	dimension := &l.p.Dimensions[d]
	share := l.p.Nodes[n].Capacity[d] / l.domains[l.ofNode[n]].Capacity[d]
	return dimension.Weight * share * l.p.Objective.Phi.At(load/fair-dimension.Shift)
}

// gain is what the balance of dimension d costs less when copy c, whose load is really off by error, goes to node to.
func (l *loads) gain(place *model.Placement, c int, to int32, d int, off float64) float64 {
	from, load := place.Node(c), l.p.Copies[c].Load[d]
	at, there := place.Load(int(from), d), place.Load(int(to), d)
	return l.cost(from, d, at+off) - l.cost(from, d, at-load) + l.cost(to, d, there) - l.cost(to, d, there+load+off)
}

// doubtful tells whether a move that pays by the expected loads would not if the copy's loads were a standard deviation
// lower or higher: then noise alone may explain it.
func (l *loads) doubtful(place *model.Placement, c int, to int32, deviation *cluster.Load, gain, cost float64) bool {
	lower, higher, expected := 0.0, 0.0, 0.0
	for d := range l.p.Dimensions {
		off := min(deviation[d], l.p.Copies[c].Load[d])
		nominal := l.gain(place, c, to, d, 0)
		expected += nominal
		if off == 0 {
			lower, higher = lower+nominal, higher+nominal
			continue
		}
		lower += l.gain(place, c, to, d, -off)
		higher += l.gain(place, c, to, d, off)
	}
	rest := gain - expected // spread, tiers: counted, not measured
	return gain > cost && rest+min(lower, higher) <= cost
}

// evenness sums up dimension d over the nodes of domain i under an assignment.
func (l *loads) evenness(i int, d int, utilization []float64) Evenness {
	domain := &l.domains[i]
	var e Evenness
	variance, nodes := 0.0, 0
	for _, n := range domain.Nodes {
		if r := utilization[n]; r >= 0 {
			e.PeakToMean = max(e.PeakToMean, r)
			variance += l.p.Nodes[n].Capacity[d] / domain.Capacity[d] * (r - 1) * (r - 1)
			nodes++
		}
	}
	e.CV = math.Sqrt(variance)
	e.Max = e.PeakToMean * l.mean(i, d)
	return e
}

// mean is the load of a node of average capacity in domain i when all is even.
func (l *loads) mean(i int, d int) float64 {
	nodes := 0
	for _, n := range l.domains[i].Nodes {
		if l.p.Nodes[n].Capacity[d] > 0 {
			nodes++
		}
	}
	if nodes == 0 {
		return 0
	}
	return l.domains[i].Mean[d] * l.domains[i].Capacity[d] / float64(nodes)
}

// start is the multiple of the fair share up to which a load costs nothing, noise margins aside.
func (l *loads) start() float64 {
	if len(l.p.Objective.Phi.Points) == 0 {
		return 1
	}
	return l.p.Objective.Phi.Points[0]
}
