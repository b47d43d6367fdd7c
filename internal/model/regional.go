package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// regional adds to a problem what its nodes' regions ask for.
type regional struct {
	*topology
	b      *Built
	trees  map[string]*tree    // per set of nodes
	tables map[string]int32    // by content
	known  map[string]*Wishes  // by what they follow from
	of     map[*Wishes][]int32 // positions of the tables that say the same
	away   map[string]int32    // region -> toll table of all others
	narrow map[narrowing]int32 // class and region -> class
}

type narrowing struct {
	class  int32
	region string
}

func newRegional(b *Built, t *topology) *regional {
	return &regional{
		topology: t, b: b, trees: make(map[string]*tree), tables: make(map[string]int32), known: make(map[string]*Wishes), of: make(map[*Wishes][]int32),
		away: make(map[string]int32), narrow: make(map[narrowing]int32),
	}
}

// treeOf is the tree of the nodes a shard may be sent to: those of its class that carry load, or, for search replicas, the
// search nodes.
func (x *regional) treeOf(class int32, searchOnly bool) *tree {
	key := fmt.Sprint(class, searchOnly)
	if made := x.trees[key]; made != nil {
		return made
	}
	s := x.b.Snapshot
	made := x.plant(func(n int) bool {
		node := &s.Nodes[n]
		if searchOnly {
			return node.HasRole("search") && node.Leaving == ""
		}
		return x.b.Rules.classes[class].has(n) && slices.ContainsFunc(node.Capacity[:len(s.Dimensions)], func(c float64) bool { return c > 0 })
	})
	x.trees[key] = made
	return made
}

// group notes what the shard of the last problem group wishes and gives it the tables for that. copies are the positions in
// the snapshot of the group's copies.
func (x *regional) group(copies []int32, searchOnly bool) error {
	b, p := x.b, x.b.Problem
	g := int32(len(p.Groups) - 1)
	group := &p.Groups[g]
	class, name := group.Class, b.Snapshot.Indices[group.Index].Name
	on := x.treeOf(class, searchOnly)
	now := make(map[string]int)
	for _, c := range copies {
		now[x.value[b.Snapshot.Copies[c].Node][regionTier]]++
	}
	var explicit map[string]int
	if !searchOnly {
		explicit = x.policy.layout(name)
	}
	if err := x.fits(name, explicit, 1+b.Snapshot.Indices[group.Index].Replicas, len(copies), on); err != nil {
		return err
	}
	w := x.wish(group.Name, len(copies), explicit, now, on)
	key := fmt.Sprint(class, searchOnly, len(copies), w.Caps[regionTier], w.Floors, w.Main)
	if same := x.known[key]; same != nil {
		w = same
	} else {
		w.divide(on)
		x.known[key] = w
	}
	b.Wishes = append(b.Wishes, w)
	if !x.many || len(on.regions) < 2 {
		return nil
	}
	if err := x.legal(group, w, len(copies), searchOnly); err != nil {
		return err
	}
	group.TierTables = x.tablesOf(w, len(copies), on)
	lacks := slices.ContainsFunc(on.regions, func(region string) bool { return now[region] < w.Floors[region] })
	if x.policy.WAN.Closed && !lacks && !searchOnly {
		if from := b.sourceRegion(copies); from != "" {
			group.Class = x.within(class, from)
		}
	}
	return nil
}

// fits refuses an explicit layout that is not for so many copies, or names a region that there is not.
func (x *regional) fits(index string, explicit map[string]int, configured, standing int, on *tree) error {
	if explicit == nil {
		return nil
	}
	sum := 0
	for region, count := range explicit {
		sum += count
		if count > 0 && !slices.Contains(on.regions, region) {
			return regionFault("Correct regions.layout, or the nodes' attributes",
				"the layout of %s names the region %s, where none of the nodes is that it may live on", index, region)
		}
	}
	if sum != configured && standing == configured {
		return regionFault("Give the index as many copies as its layout has, or correct regions.layout",
			"the layout of %s is for %d copies and it has %d", index, sum, configured)
	}
	return nil
}

func regionFault(hint, format string, args ...any) error {
	return &cluster.Error{Class: cluster.Invalid, Op: "place copies in regions", Err: fmt.Errorf(format, args...), Hint: hint}
}

// legal refuses wishes that the server's own awareness would undo: it lets each value have ceil(copies/values) copies at most.
func (x *regional) legal(group *Group, w *Wishes, copies int, searchOnly bool) error {
	if searchOnly {
		return nil
	}
	for a := range x.b.Rules.attribute {
		aware := &x.b.Rules.attribute[a]
		limit := x.b.Rules.caps[a][group.Index]
		tier := map[string]int{x.policy.Region: regionTier, x.policy.Zone: zoneTier}
		at, ours := tier[aware.name]
		if !ours || limit == 0 {
			continue
		}
		for _, value := range sortedKeys(w.Caps[at]) {
			if most := w.Caps[at][value]; most > limit && most <= copies {
				return regionFault(
					fmt.Sprintf("Take %s out of cluster.routing.allocation.awareness.attributes and leave it to us, or set regions.remainder to spread, or change the layout", aware.name),
					"index %s: its %d copies are to be %s, %d of them in %s %s, but the server's awareness of %s lets each value have %d at most: it would undo the moves",
					x.b.Problem.Indices[group.Index].Name, copies, countsText(w.Caps[regionTier]), most, TierNames[at], value, aware.name, limit)
			}
		}
	}
	return nil
}

// countsText writes copies per region, "3+1+1", the most first.
func countsText(counts map[string]int) string {
	var sorted []int
	for _, count := range counts {
		sorted = append(sorted, count)
	}
	slices.SortFunc(sorted, func(a, b int) int { return b - a })
	texts := make([]string, len(sorted))
	for i, count := range sorted {
		texts[i] = fmt.Sprint(count)
	}
	return strings.Join(texts, "+")
}

// tablesOf are the positions of the tables that say what w says.
func (x *regional) tablesOf(w *Wishes, copies int, on *tree) []int32 {
	if at, done := x.of[w]; done {
		return at
	}
	var at []int32
	for tier := range w.Caps {
		if tier == zoneTier && !x.zones || tier == hostTier && !on.shared {
			continue // not told apart, or what same_shard says already
		}
		table := TierTable{Depth: x.depth + tier, Caps: make(map[string]int)}
		for value, most := range w.Caps[tier] {
			if most < copies {
				table.Caps[value] = most
			}
		}
		if tier == regionTier {
			table.Floors = make(map[string]int)
			for region, least := range w.Floors {
				if least > 0 {
					table.Floors[region] = least
				}
			}
		}
		if len(table.Caps)+len(table.Floors) > 0 {
			at = append(at, x.table(table))
		}
	}
	x.of[w] = at
	return at
}

func (x *regional) table(t TierTable) int32 {
	key := fmt.Sprint(t) // maps are printed in the order of their keys
	at, known := x.tables[key]
	if !known {
		at = int32(len(x.b.Problem.TierTables))
		x.tables[key] = at
		x.b.Problem.TierTables = append(x.b.Problem.TierTables, t)
	}
	return at
}

// within is the class of those nodes of a class that are in a region. It shares nodes with the whole, so that both are of
// one domain.
func (x *regional) within(class int32, region string) int32 {
	key := narrowing{class, region}
	at, known := x.narrow[key]
	if !known {
		var part Class
		for _, n := range x.b.Problem.Classes[class].Nodes {
			if x.value[x.b.NodeOf[n]][regionTier] == region {
				part.Nodes = append(part.Nodes, n)
			}
		}
		at = int32(len(x.b.Problem.Classes))
		x.narrow[key] = at
		x.b.Problem.Classes = append(x.b.Problem.Classes, part)
	}
	return at
}

// prices are those of the wishes, and the tolls: for what crosses between regions, for a primary away from home, and for
// the places of copies that have to leave.
func (x *regional) prices() {
	b, p := x.b, x.b.Problem
	p.Objective.MustLeave = regionalMustLeavePrice
	for depth := range p.Objective.TierExcess {
		p.Objective.TierExcess[depth] = regionPrice
	}
	p.Objective.TierExcess[x.depth+zoneTier], p.Objective.TierExcess[x.depth+hostTier] = zonePrice, hostPrice
	members := make([][]int32, len(p.Groups)) // positions in the snapshot
	for c := range p.Copies {
		members[p.Copies[c].Group] = append(members[p.Copies[c].Group], b.CopyOf[c])
	}
	for c := range p.Copies {
		k := &p.Copies[c]
		if k.Pinned {
			continue
		}
		group := &p.Groups[k.Group]
		if len(group.TierTables) == 0 {
			continue
		}
		if from := b.sourceRegion(members[k.Group]); from != "" && x.policy.WAN.Factor > 1 {
			k.Tolls = append(k.Tolls, Toll{x.elsewhere(from), (x.policy.WAN.Factor - 1) * p.Objective.Move.PerByte * k.Bytes * k.MoveWeight})
		}
		if home := x.policy.home(p.Indices[group.Index].Name); home != "" && k.Primary {
			k.Tolls = append(k.Tolls, Toll{x.elsewhere(home), homePrice})
		}
		if k.MustLeave {
			k.Tolls = append(k.Tolls, Toll{x.ranks(int32(c), members[k.Group]), rankPrice})
		}
	}
}

// elsewhere is the toll table with the price 1 for every region but one.
func (x *regional) elsewhere(region string) int32 {
	at, known := x.away[region]
	if !known {
		table := TollTable{Depth: x.depth + regionTier, Price: make(map[string]float64)}
		for n := range x.value {
			if other := x.value[n][regionTier]; other != "" && other != region {
				table.Price[other] = 1
			}
		}
		at = int32(len(x.b.Problem.TollTables))
		x.away[region] = at
		x.b.Problem.TollTables = append(x.b.Problem.TollTables, table)
	}
	return at
}

// ranks is the toll table of the places for copy c of the problem: the lost copy's region before others, there unused zones
// before unused hosts before the rest, and a fixed order among places of one rank.
func (x *regional) ranks(c int32, members []int32) int32 {
	s, lost := x.b.Snapshot, x.b.CopyOf[c]
	table := TollTable{Depth: x.depth + hostTier, Price: make(map[string]float64)}
	for _, n := range x.b.NodeOf {
		value := x.value[n]
		if _, done := table.Price[value[hostTier]]; done || value[regionTier] == "" {
			continue
		}
		rank := 0.0
		if value[regionTier] != x.value[s.Copies[lost].Node][regionTier] {
			rank += 3
		}
		used := func(tier int) bool {
			return slices.ContainsFunc(members, func(other int32) bool {
				return other != lost && x.value[s.Copies[other].Node][tier] == value[tier]
			})
		}
		for _, tier := range []int{zoneTier, hostTier} {
			if used(tier) {
				rank++
			}
		}
		table.Price[value[hostTier]] = rank + tieShare*hash01(x.b.Problem.Groups[x.b.Problem.Copies[c].Group].Name, value[hostTier])
	}
	x.b.Problem.TollTables = append(x.b.Problem.TollTables, table)
	return int32(len(x.b.Problem.TollTables) - 1)
}

// shares scales the nodes' capacities by region, so that a fair share is one that the wishes about regions permit: with
// three copies in one region and one in the other, nodes of the first are to carry three times as much. Within a region
// capacities keep their proportions.
func (x *regional) shares() {
	b, p := x.b, x.b.Problem
	domains, ofNode := p.Domains()
	domainOf := make(map[int32]int)
	for i := range domains {
		for _, class := range domains[i].Classes {
			domainOf[class] = i
		}
	}
	type place struct {
		domain int
		region string
	}
	for d := range p.Dimensions {
		capacity, sum := make(map[place]float64), make([]float64, len(domains))
		for n := range p.Nodes {
			if i := ofNode[n]; i >= 0 {
				capacity[place{int(i), b.Tier(int32(n), regionTier)}] += p.Nodes[n].Capacity[d]
				sum[i] += p.Nodes[n].Capacity[d]
			}
		}
		load, copies := make([]float64, len(p.Groups)), make([]int, len(p.Groups))
		for c := range p.Copies {
			load[p.Copies[c].Group] += p.Copies[c].Load[d]
			copies[p.Copies[c].Group]++
		}
		wanted, all := make(map[place]float64), make([]float64, len(domains))
		for g := range p.Groups {
			if load[g] == 0 {
				continue
			}
			i, w := domainOf[p.Groups[g].Class], b.Wishes[g]
			regions := sortedKeys(w.Caps[regionTier])
			weights, least, most := make([]float64, len(regions)), make([]float64, len(regions)), make([]float64, len(regions))
			for r, region := range regions {
				weights[r], least[r], most[r] = capacity[place{i, region}], float64(w.Floors[region]), float64(w.Caps[regionTier][region])
			}
			for r, part := range Divide(float64(copies[g]), weights, least, most) {
				wanted[place{i, regions[r]}] += load[g] * part / float64(copies[g])
				all[i] += load[g] * part / float64(copies[g])
			}
		}
		for n := range p.Nodes {
			i := ofNode[n]
			if i < 0 || all[i] == 0 {
				continue
			}
			at := place{int(i), b.Tier(int32(n), regionTier)}
			if capacity[at] > 0 {
				p.Nodes[n].Capacity[d] *= wanted[at] / all[i] * sum[i] / capacity[at]
			}
		}
	}
}

// Divide shares an amount out by weight, within the bounds of each, as far as these permit.
func Divide(amount float64, weights, least, most []float64) []float64 {
	at := func(scale float64) (parts []float64, sum float64) {
		parts = make([]float64, len(weights))
		for i, weight := range weights {
			parts[i] = min(most[i], max(least[i], scale*weight))
			sum += parts[i]
		}
		return parts, sum
	}
	low, high := 0.0, 1.0
	for i, weight := range weights {
		if weight > 0 {
			high = max(high, most[i]/weight)
		}
	}
	for range 100 { // halves the range each time: the digits of a double are spent before
		middle := (low + high) / 2
		if _, sum := at(middle); sum < amount {
			low = middle
		} else {
			high = middle
		}
	}
	parts, _ := at(high)
	return parts
}

// overload limits every node's load, where even hosts would ask too much of small ones. A node below its share may take a
// copy whatever its size, so that there is always one that may.
func (x *regional) overload() {
	p := x.b.Problem
	domains, ofNode := p.Domains()
	largest := make([][]float64, len(domains)) // per domain and dimension: a copy
	for i := range largest {
		largest[i] = make([]float64, len(p.Dimensions))
	}
	domainOf := make(map[int32]int)
	for i := range domains {
		for _, class := range domains[i].Classes {
			domainOf[class] = i
		}
	}
	for c := range p.Copies {
		of := largest[domainOf[p.Groups[p.Copies[c].Group].Class]]
		for d, load := range p.Copies[c].Load {
			of[d] = max(of[d], load)
		}
	}
	for n := range p.Nodes {
		i := ofNode[n]
		if i < 0 {
			continue
		}
		p.Nodes[n].MaxLoad = make([]float64, len(p.Dimensions))
		for d := range p.Dimensions {
			// Without a share there is no limit: what is there or comes is what the prices let come.
			if fair := p.Nodes[n].Capacity[d] * domains[i].Mean[d]; fair > 0 && p.Dimensions[d].Weight > 0 {
				p.Nodes[n].MaxLoad[d] = max((1+x.policy.Overload)*fair, fair+largest[i][d])
			}
		}
	}
}

// Regional tells whether the problem knows of several regions.
func (b *Built) Regional() bool { return b.topology != nil && b.topology.many }

// Tier is node n's (of the problem) value at a region tier, inner ones with the outer in front; empty where there are none.
func (b *Built) Tier(n int32, tier int) string {
	if b.topology == nil {
		return ""
	}
	return b.topology.value[b.NodeOf[n]][tier]
}

// Region is the region of a node of the snapshot; empty where there are none.
func (b *Built) Region(n int) string {
	if b.topology == nil || n == cluster.None {
		return ""
	}
	return b.topology.value[n][regionTier]
}

// sourceRegion is the region that the data of a shard's copies comes from: its primary's; empty where it has none.
func (b *Built) sourceRegion(copies []int32) string {
	for _, c := range copies {
		if k := &b.Snapshot.Copies[c]; k.Primary && k.Node != cluster.None {
			return b.Region(int(k.Node))
		}
	}
	return ""
}

// Zoned tells whether zones are told apart.
func (b *Built) Zoned() bool { return b.topology != nil && b.topology.zones }
