package dispersion

import (
	"cmp"
	"math"
	"slices"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/model"
	"github.com/shardonnay/shardonnay/internal/plan"
)

// Version is the version of the report's format.
const Version = 1

// Report is the dispersion of a cluster. Ratios are from 0 up, counts are of copies unless said otherwise.
type Report struct {
	Version int      `json:"version"`
	Cluster string   `json:"cluster"`
	Regions []string `json:"regions"`
	Shards  int      `json:"shards"`
	Copies  int      `json:"copies"`
	// Dispersion is the copies that are above a cap at the worst tier, over all copies: 0 is as unique as possible. This is
	// the figure of Swift's ring builder.
	Dispersion Reach  `json:"dispersion"`
	WorstTier  string `json:"worst_tier"` // now; empty where nothing is above a cap
	// Missing is, per region, how many copies its shards lack there.
	Missing map[string]Counts `json:"missing"`
	// Balance is how far the node that is furthest from its share of bytes is from it, a ratio of the share.
	Balance Reach `json:"balance"`
	// RequiredOverload is how far above its share of bytes some node has to be for dispersion to be 0.
	RequiredOverload float64  `json:"required_overload"`
	Overload         float64  `json:"overload"`     // what regions.overload allows
	CoolingDown      int      `json:"cooling_down"` // shards that stay because a copy of theirs moved not long ago
	Tiers            []Tier   `json:"tiers"`
	Outside          []Shard  `json:"outside"` // every shard above a cap or below a floor now, by name
	Relaxed          []string `json:"relaxed"` // indices with more copies than there are zones for them
}

// Reach is a figure now, after the plan's moves, and with the placement the solver would like.
type Reach struct {
	Now    float64 `json:"now"`
	After  float64 `json:"after"`
	Target float64 `json:"target"`
}

// Counts is a count at the same three times.
type Counts struct {
	Now    int `json:"now"`
	After  int `json:"after"`
	Target int `json:"target"`
}

// Tier is one of region, zone and host.
type Tier struct {
	Tier   string  `json:"tier"`
	Excess Counts  `json:"excess"` // copies above their cap
	Values []Value `json:"values"`
}

// Value is one region, zone or host, now.
type Value struct {
	Value  string  `json:"value"`
	Over   int     `json:"over"`   // shards with more copies there than their cap
	Ratio  float64 `json:"ratio"`  // of all shards that may be there
	Cap    int     `json:"cap"`    // the largest of any shard
	Copies []int   `json:"copies"` // shards with 0, 1, 2, ... copies there
}

// Shard is a shard that has too many or too few copies at a value.
type Shard struct {
	Shard   string `json:"shard"` // index/number
	Tier    string `json:"tier"`
	Value   string `json:"value"`
	Copies  int    `json:"copies"`
	AtMost  int    `json:"at_most"`
	AtLeast int    `json:"at_least"`
}

// Of makes the report for a problem with regions in its policy, a plan for it and the assignment that the solver would like.
func Of(b *model.Built, p *plan.Plan, target []int32) *Report {
	problem := b.Problem
	r := &Report{
		Version: Version, Cluster: b.Snapshot.Cluster.Name, Regions: []string{}, Shards: len(problem.Groups), Copies: len(problem.Copies),
		Missing: make(map[string]Counts), Overload: b.Rules.Policy().Regions.Overload, Outside: []Shard{}, Relaxed: []string{},
	}
	m := measure{b: b, members: make([][]int32, len(problem.Groups))}
	for c := range problem.Copies {
		g := problem.Copies[c].Group
		m.members[g] = append(m.members[g], int32(c))
	}
	for n := range problem.Nodes {
		if region := b.Tier(int32(n), 0); !slices.Contains(r.Regions, region) {
			r.Regions = append(r.Regions, region)
		}
	}
	slices.Sort(r.Regions)
	now, after := problem.Current(), afterPlan(b, p)
	for tier, name := range model.TierNames {
		if name == "zone" && !b.Zoned() {
			continue
		}
		r.Tiers = append(r.Tiers, Tier{
			Tier: name, Values: m.values(tier, now),
			Excess: Counts{m.excess(tier, now), m.excess(tier, after), m.excess(tier, target)},
		})
	}
	worst := func(of func(Counts) int) float64 {
		most := 0
		for i := range r.Tiers {
			most = max(most, of(r.Tiers[i].Excess))
		}
		return float64(most) / float64(max(1, r.Copies))
	}
	r.Dispersion = Reach{
		worst(func(c Counts) int { return c.Now }), worst(func(c Counts) int { return c.After }), worst(func(c Counts) int { return c.Target }),
	}
	most := 0
	for i := range r.Tiers {
		if r.Tiers[i].Excess.Now > most {
			most, r.WorstTier = r.Tiers[i].Excess.Now, r.Tiers[i].Tier
		}
	}
	for _, region := range r.Regions {
		r.Missing[region] = Counts{m.missing(region, now), m.missing(region, after), m.missing(region, target)}
	}
	r.Outside = append(r.Outside, m.outside(now)...)
	for g, w := range b.Wishes {
		if name := problem.Indices[problem.Groups[g].Index].Name; w.Relaxed && !slices.Contains(r.Relaxed, name) {
			r.Relaxed = append(r.Relaxed, name)
		}
	}
	r.CoolingDown = len(b.Rules.Policy().Regions.CoolingDown)
	shares := m.shares()
	r.Balance = Reach{m.balance(now, shares), m.balance(after, shares), m.balance(target, shares)}
	r.RequiredOverload = m.requiredOverload(shares)
	return r
}

// afterPlan is where the copies are once all of the plan's moves have landed.
func afterPlan(b *model.Built, p *plan.Plan) []int32 {
	node := b.Problem.Current()
	at := make(map[string]int, len(node))
	for c := range node {
		at[b.Snapshot.Copies[b.CopyOf[c]].AllocationID] = c
	}
	to := make(map[cluster.NodeID]int32, len(b.NodeOf))
	for n, of := range b.NodeOf {
		to[b.Snapshot.Nodes[of].ID] = int32(n)
	}
	for i := range p.Moves {
		if c, known := at[p.Moves[i].AllocationID]; known {
			node[c] = to[p.Moves[i].To.ID]
		}
	}
	return node
}

// measure counts copies of shards at the values of tiers.
type measure struct {
	b       *model.Built
	members [][]int32 // per group
}

// count is how many copies of group g each value of a tier has.
func (m *measure) count(g, tier int, node []int32) map[string]int {
	count := make(map[string]int, len(m.members[g]))
	for _, c := range m.members[g] {
		count[m.b.Tier(node[c], tier)]++
	}
	return count
}

func (m *measure) excess(tier int, node []int32) (sum int) {
	for g, w := range m.b.Wishes {
		for value, copies := range m.count(g, tier, node) {
			if most, capped := w.Caps[tier][value]; capped {
				sum += max(0, copies-most)
			}
		}
	}
	return sum
}

func (m *measure) missing(region string, node []int32) (sum int) {
	for g, w := range m.b.Wishes {
		if least := w.Floors[region]; least > 0 {
			sum += max(0, least-m.count(g, 0, node)[region])
		}
	}
	return sum
}

func (m *measure) values(tier int, node []int32) []Value {
	rows := make(map[string]*Value)
	for g, w := range m.b.Wishes {
		count := m.count(g, tier, node)
		for value, most := range w.Caps[tier] {
			row := rows[value]
			if row == nil {
				row = &Value{Value: value}
				rows[value] = row
			}
			for len(row.Copies) <= count[value] {
				row.Copies = append(row.Copies, 0)
			}
			row.Copies[count[value]]++
			row.Cap = max(row.Cap, most)
			if count[value] > most {
				row.Over++
			}
		}
	}
	list := make([]Value, 0, len(rows))
	for _, row := range rows {
		shards := 0
		for _, n := range row.Copies {
			shards += n
		}
		row.Ratio = float64(row.Over) / float64(max(1, shards))
		list = append(list, *row)
	}
	slices.SortFunc(list, func(a, b Value) int { return cmp.Compare(a.Value, b.Value) })
	return list
}

// outside lists the shards above a cap or below a floor.
func (m *measure) outside(node []int32) (list []Shard) {
	for g, w := range m.b.Wishes {
		name := m.b.Problem.Groups[g].Name
		for tier, label := range model.TierNames {
			if label == "zone" && !m.b.Zoned() {
				continue
			}
			count := m.count(g, tier, node)
			values := make([]string, 0, len(count))
			for value := range count {
				values = append(values, value)
			}
			if tier == 0 {
				for region := range w.Floors {
					if _, there := count[region]; !there {
						values = append(values, region)
					}
				}
			}
			slices.Sort(values)
			for _, value := range values {
				most, capped := w.Caps[tier][value]
				least := 0
				if tier == 0 {
					least = w.Floors[value]
				}
				if capped && (count[value] > most || count[value] < least) {
					list = append(list, Shard{Shard: name, Tier: label, Value: value, Copies: count[value], AtMost: most, AtLeast: least})
				}
			}
		}
	}
	slices.SortStableFunc(list, func(a, b Shard) int { return cmp.Compare(a.Shard, b.Shard) })
	return list
}

// shares is the bytes that every node would carry if each had its part by its disk; 0 for a node that is to carry none.
func (m *measure) shares() []float64 {
	p := m.b.Problem
	shares := make([]float64, len(p.Nodes))
	domains, _ := p.Domains()
	domainOf := make(map[int32]int)
	bytes := make([]float64, len(domains))
	for i := range domains {
		for _, class := range domains[i].Classes {
			domainOf[class] = i
		}
	}
	for c := range p.Copies {
		bytes[domainOf[p.Groups[p.Copies[c].Group].Class]] += p.Copies[c].Bytes
	}
	for i := range domains {
		sum := 0.0
		for _, n := range domains[i].Nodes {
			sum += m.weight(n)
		}
		for _, n := range domains[i].Nodes {
			if sum > 0 {
				shares[n] = m.weight(n) / sum * bytes[i]
			}
		}
	}
	return shares
}

// weight is what a node's share goes by: its capacity for disk, or, where that is no dimension, for whatever comes first.
func (m *measure) weight(n int32) float64 {
	return m.b.Problem.Nodes[n].Capacity[max(0, m.b.Snapshot.DimensionAt(cluster.DiskBytes.Name))]
}

func (m *measure) balance(node []int32, shares []float64) (worst float64) {
	bytes := make([]float64, len(shares))
	for c := range m.b.Problem.Copies {
		bytes[node[c]] += m.b.Problem.Copies[c].Bytes
	}
	for n, share := range shares {
		if share > 0 {
			worst = max(worst, math.Abs(bytes[n]-share)/share)
		}
	}
	return worst
}

// requiredOverload compares what every node would carry if copies were as far apart as they can be with its share. At each
// tier what is above is divided by weight, but no value gets less than the even part rounded down or more than it rounded
// up, and no node more than one copy of a shard (Swift's ring builder, "wanted" replicas).
func (m *measure) requiredOverload(shares []float64) (most float64) {
	p := m.b.Problem
	type profile struct {
		wishes *model.Wishes
		class  int32
		copies int
	}
	bytes := make(map[profile]float64) // of a copy, summed over the shards that wish the same
	var order []profile
	for g, w := range m.b.Wishes {
		of := profile{w, p.Groups[g].Class, len(m.members[g])}
		if _, seen := bytes[of]; !seen {
			order = append(order, of)
		}
		sum := 0.0
		for _, c := range m.members[g] {
			sum += p.Copies[c].Bytes
		}
		bytes[of] += sum / float64(max(1, of.copies))
	}
	wanted := make([]float64, len(p.Nodes))
	for _, of := range order {
		m.divide(p.Classes[of.class].Nodes, of.wishes, 0, float64(of.copies), bytes[of], wanted)
	}
	for n, share := range shares {
		if share > 0 {
			most = max(most, wanted[n]/share-1)
		}
	}
	if most < 1e-9 {
		return 0 // the rounding of sums
	}
	return most
}

// divide gives copies to the values of a tier among the nodes, and on to those within.
func (m *measure) divide(nodes []int32, w *model.Wishes, tier int, copies, bytes float64, wanted []float64) {
	type part struct {
		nodes  []int32
		weight float64
		value  string
	}
	var parts []part
	for _, n := range nodes {
		if m.weight(n) <= 0 {
			continue
		}
		value := string(rune(0)) // a node below a host: each is a part
		at := -1
		if tier < len(model.TierNames) {
			value = m.b.Tier(n, tier)
			at = slices.IndexFunc(parts, func(x part) bool { return x.value == value })
		}
		if at < 0 {
			at = len(parts)
			parts = append(parts, part{value: value})
		}
		parts[at].nodes = append(parts[at].nodes, n)
		parts[at].weight += m.weight(n)
	}
	weights, least, most := make([]float64, len(parts)), make([]float64, len(parts)), make([]float64, len(parts))
	for i := range parts {
		even := copies / float64(len(parts))
		weights[i], least[i], most[i] = parts[i].weight, math.Floor(even+1e-9), math.Ceil(even-1e-9)
		if tier == 0 {
			least[i], most[i] = float64(w.Floors[parts[i].value]), float64(w.Caps[0][parts[i].value])
		}
		if tier == len(model.TierNames) {
			least[i], most[i] = 0, 1
		}
	}
	for i, copies := range model.Divide(copies, weights, least, most) {
		if tier == len(model.TierNames) {
			wanted[parts[i].nodes[0]] += copies * bytes
		} else {
			m.divide(parts[i].nodes, w, tier+1, copies, bytes, wanted)
		}
	}
}
