package model

// Term is one named part of the objective.
type Term struct {
	Name   string  `json:"name"` // "balance.search", "spread", "must_leave", "tier", MoveTerm
	Weight float64 `json:"weight"`
	Value  float64 `json:"value"` // weight included
}

// MoveTerm names the term that moves pay.
const MoveTerm = "move"

// Evaluate computes the objective of an assignment from its definition, term by term, in the order of
// docs/formulation.md. It is slow and plain on purpose: the search keeps sums, this is what they are checked against.
func Evaluate(p *Problem, node []int32) []Term {
	terms := make([]Term, 0, len(p.Dimensions)+4)
	domains, _ := p.Domains()
	for d, dimension := range p.Dimensions {
		utilization := Utilization(p, domains, node, d)
		value := 0.0
		for i := range domains {
			for _, n := range domains[i].Nodes {
				if r := utilization[n]; r >= 0 {
					value += p.Nodes[n].Capacity[d] / domains[i].Capacity[d] * p.Objective.Phi.At(r-dimension.Shift)
				}
			}
		}
		terms = append(terms, Term{"balance." + dimension.Name, dimension.Weight, dimension.Weight * value})
	}
	spread, leave, tier, move := 0.0, 0.0, 0.0, 0.0
	perNode := make(map[[2]int32]int)
	for c := range p.Copies {
		k := &p.Copies[c]
		perNode[[2]int32{p.Groups[k.Group].Index, node[c]}]++
		if node[c] != k.Node {
			move += p.MoveCost(c) + p.Toll(c, node[c])
		} else if k.MustLeave {
			leave += p.Objective.MustLeave
		}
	}
	for i := range p.Indices {
		index := &p.Indices[i]
		if index.FairPerNode <= 0 || index.SpreadWeight == 0 {
			continue
		}
		for n := range p.Nodes {
			if above := perNode[[2]int32{int32(i), int32(n)}] - index.FairPerNode; above > 0 {
				spread += p.Objective.Spread.PerCopy * index.SpreadWeight * float64(above)
			}
		}
	}
	for excess := range p.tierExcess(node) {
		tier += p.tierPrice(excess.depth) * float64(excess.copies)
	}
	for excess := range p.tableExcess(node) {
		tier += p.tierPrice(excess.depth) * float64(excess.copies)
	}
	return append(terms, Term{"spread", 1, spread}, Term{"must_leave", 1, leave}, Term{"tier", 1, tier}, Term{MoveTerm, 1, move})
}

// Total is the objective: the sum of the terms.
func Total(terms []Term) float64 {
	sum := 0.0
	for _, term := range terms {
		sum += term.Value
	}
	return sum
}

// Utilization is, for every node, its load in dimension d over its capacity, relative to its domain's mean: 1 is
// exactly fair. It is -1 for a node outside every domain, without capacity, or in a domain that carries nothing in d.
func Utilization(p *Problem, domains []Domain, node []int32, d int) []float64 {
	load := p.loadOf(node, d)
	r := make([]float64, len(p.Nodes))
	for n := range r {
		r[n] = -1
	}
	for i := range domains {
		for _, n := range domains[i].Nodes {
			if capacity := p.Nodes[n].Capacity[d]; capacity > 0 && domains[i].Mean[d] > 0 {
				r[n] = load[n] / capacity / domains[i].Mean[d]
			}
		}
	}
	return r
}

func (p *Problem) tierPrice(depth int) float64 {
	if depth < len(p.Objective.TierExcess) {
		return p.Objective.TierExcess[depth]
	}
	return 0
}
