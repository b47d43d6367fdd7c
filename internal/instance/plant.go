package instance

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/model"
)

const (
	// Of how many nodes one in the planted instance has a hot copy that was put elsewhere, and how much of a mean node's
	// search load such a copy carries.
	plantedOneIn           = 5
	plantedLow, plantedMax = 0.40, 0.60
	// Ordinary copies carry no more than this share of a mean node's load, so that nodes can be level.
	plantedCap = 0.08
	// levelTries is how many nodes a copy is tried on while the level state is made.
	levelTries = 128
)

// Planted makes an instance whose best placement is known by construction, with what it costs. Everything is level at first,
// so that nothing costs anything, with hot copies here and there; then each hot copy is put on another node, one that has no
// hot copy of its own, and at most one on each.
//
// The optimum is what it costs to move them all away again. It cannot be less: take a node with a displaced copy x of search
// load l, o of it above where phi begins. Either x leaves, which costs its move m. Or others leave, with search load a in all;
// that costs at least a times the least price per load among them, and what is left over costs phi. A displacement stays only
// if that sum is at least m for every a. Arrivals only add, and other nodes cost at least nothing.
func Planted(o Options) (p *model.Problem, optimum float64, err error) {
	o.Pinned, o.Giants, o.Draining, o.Middling, o.Empty, o.DrainZone, o.TwoTiers = 0, 0, 0, 0, 0, false, false
	if err := o.Validate(); err != nil {
		return nil, 0, err
	}
	g := newGenerator(o)
	g.cap, g.everyDay = plantedCap, true
	g.p.Name = fmt.Sprintf("planted-n%d-c%d-s%d", o.Nodes, o.Copies, o.Seed)
	g.nodes()
	g.indices()
	g.copies()
	hot := g.heatUp()
	domains, _ := g.p.Domains()
	all := &domains[0] // one class: one domain, whose means do not depend on who is where
	if err := g.level(all); err != nil {
		return nil, 0, err
	}
	g.objective()
	s := model.NewPlacement(g.p, nil)
	start := 1.05
	for n := range g.p.Nodes {
		for d := range g.p.Dimensions {
			start = max(start, s.Utilization(n, d)+0.005)
		}
	}
	g.p.Objective.Phi = model.Parabola(start)
	optimum = g.displace(hot, all)
	return g.p, optimum, g.p.Validate()
}

// heatUp gives some copies, one of a group, most of a node's search load, and takes as much from the others.
func (g *generator) heatUp() (hot []int32) {
	fair := 0.0
	for c := range g.p.Copies {
		fair += g.p.Copies[c].Load[0] / float64(g.Nodes)
	}
	chosen, heat := make([]bool, len(g.p.Copies)), 0.0
	for _, group := range g.rng.Perm(len(g.p.Groups))[:g.Nodes/plantedOneIn] {
		c := slices.IndexFunc(g.p.Copies, func(k model.Copy) bool { return k.Group == int32(group) })
		chosen[c] = true
		hot = append(hot, int32(c))
	}
	for _, c := range hot {
		g.p.Copies[c].Load[0] = (plantedLow + (plantedMax-plantedLow)*g.rng.Float64()) * fair
		heat += g.p.Copies[c].Load[0]
	}
	rest := 0.0
	for c := range g.p.Copies {
		if !chosen[c] {
			rest += g.p.Copies[c].Load[0]
		}
	}
	for c := range g.p.Copies {
		if !chosen[c] {
			g.p.Copies[c].Load[0] *= (fair*float64(g.Nodes) - heat) / rest
		}
	}
	return hot
}

// level places every copy, largest first, on the node where it makes the fullest dimension least full, of some tried at
// random in a zone where its group has none.
func (g *generator) level(all *model.Domain) error {
	D := g.Dimensions
	mean := all.Mean
	size := make([]float64, len(g.p.Copies))
	turns := make([]int, len(g.p.Copies))
	for c := range turns {
		turns[c] = c
		for d, l := range g.p.Copies[c].Load {
			size[c] = max(size[c], l/mean[d]/g.p.Nodes[0].Capacity[d])
		}
	}
	slices.SortStableFunc(turns, func(a, b int) int { return cmp.Compare(size[b], size[a]) })
	load := make([]float64, g.Nodes*D)
	used := make([]float64, g.Nodes)
	inZone := make([][zones]int, len(g.p.Groups))
	on := make([][]int32, len(g.p.Groups))
	for _, c := range turns {
		k := &g.p.Copies[c]
		most := zones * zones
		if caps := g.p.Groups[k.Group].TierCaps; len(caps) > 0 {
			most = caps[0].Count()
		}
		best, at := math.Inf(1), -1
		for try := range g.Nodes {
			if try >= levelTries && at >= 0 {
				break
			}
			n := g.rng.IntN(g.Nodes)
			if inZone[k.Group][n%zones] >= most || slices.Contains(on[k.Group], int32(n)) || used[n]+k.Bytes > g.p.Nodes[n].Disk.Limit {
				continue
			}
			fullest := 0.0
			for d, l := range k.Load {
				fullest = max(fullest, (load[n*D+d]+l)/g.p.Nodes[n].Capacity[d]/mean[d])
			}
			if fullest < best {
				best, at = fullest, n
			}
		}
		if at < 0 {
			return &cluster.Error{
				Class: cluster.Invalid, Op: "generate an instance", Err: fmt.Errorf("copy %d fits nowhere", c), Hint: "Lower the disk fill or raise the number of copies",
			}
		}
		k.Node = int32(at)
		used[at] += k.Bytes
		inZone[k.Group][at%zones]++
		on[k.Group] = append(on[k.Group], k.Node)
		for d, l := range k.Load {
			load[at*D+d] += l
		}
	}
	return nil
}

// displace puts hot copies on nodes that have none, as far as moving them away again is the cheapest cure there, and
// returns what that costs in all.
func (g *generator) displace(hot []int32, all *model.Domain) (optimum float64) {
	s := model.NewPlacement(g.p, nil)
	taken := make([]bool, g.Nodes)
	for _, c := range hot {
		taken[s.Node(int(c))] = true
	}
	relief := g.cheapestRelief()
	for _, x := range hot {
		for _, n := range g.rng.Perm(g.Nodes) {
			if taken[n] || !s.Legal(int(x), int32(n)) || !g.curable(s, all, x, n, relief[n]) {
				continue
			}
			s.Move(int(x), int32(n))
			taken[n] = true
			optimum += g.p.MoveCost(int(x))
			break
		}
	}
	for c := range g.p.Copies {
		g.p.Copies[c].Node = s.Node(c)
	}
	return optimum
}

// cheapestRelief is, per node, the least that moving away one unit of its search load costs.
func (g *generator) cheapestRelief() []float64 {
	least := make([]float64, g.Nodes)
	for n := range least {
		least[n] = math.Inf(1)
	}
	for c := range g.p.Copies {
		if l := g.p.Copies[c].Load[0]; l > 0 {
			n := g.p.Copies[c].Node
			least[n] = min(least[n], g.p.MoveCost(c)/l)
		}
	}
	return least
}

// curable tells whether on node n the hot copy x costs nothing but search balance, and moving it away again is the cheapest
// cure, where the others ask price for a unit of their load.
func (g *generator) curable(s *model.Placement, all *model.Domain, x int32, n int, price float64) bool {
	phi := &g.p.Objective.Phi
	s.Move(int(x), int32(n))
	defer s.Move(int(x), g.p.Copies[x].Node)
	for d := 1; d < g.Dimensions; d++ {
		if s.Utilization(n, d) > phi.Points[0] {
			return false
		}
	}
	over := s.Utilization(n, 0) - phi.Points[0]
	share, unit := g.p.Nodes[n].Capacity[0]/all.Capacity[0], g.p.Nodes[n].Capacity[0]*all.Mean[0] // of utilization 1
	cost := g.p.MoveCost(int(x))
	if over <= 0 || over*unit > g.p.Copies[x].Load[0] {
		return false
	}
	// The sum is convex in what leaves: it is least where what is left is nothing, everything, or at a bend of phi.
	for _, left := range append([]float64{over}, phi.Points...) {
		if left != over {
			left -= phi.Points[0]
		}
		if left <= over && price*(over-left)*unit+share*phi.At(phi.Points[0]+left) < cost {
			return false
		}
	}
	return true
}
