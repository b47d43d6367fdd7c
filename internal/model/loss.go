package model

import (
	"slices"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// When a zone is lost its searches fall to the copies that are left, each shard's to its own: they are interchangeable, so
// that each takes the same part. With m of N copies left a copy serves N/m of what it did, whichever node of its zone holds
// it. Awareness bounds m from below wherever copies are moved, and so one factor a shard covers every zone and every
// placement: a limit of load in these terms is a limit after any loss. It is exact where each zone has as many copies of
// each shard, and on the safe side elsewhere. A write is done by every copy anyway: what indexing costs does not grow.

// LossLimited tells whether nodes have limits of what they would carry with a zone lost: they do if the policy has one, and
// awareness keeps copies apart by the zones' attribute.
func (b *Built) LossLimited() bool {
	return b.Rules.policy.MaxLoadAfterLoss > 0 && b.Rules.policy.Zones != "" && b.zoneAwareness() != cluster.None
}

// zoneAwareness is the position of the zones' attribute among those of awareness, cluster.None where it is none of them.
func (b *Built) zoneAwareness() int {
	return slices.IndexFunc(b.Rules.attribute, func(a awareness) bool { return a.name == b.Rules.policy.Zones })
}

// zoneCap is how many copies of an index's shards may be in one zone; 0 where awareness leaves the index out.
func (b *Built) zoneCap(index int32) int { return b.Rules.caps[b.zoneAwareness()][index] }

// lossShares raises a group's shares to what each copy serves at most with a zone lost, wherever legal moves take the
// others: the zone has as many copies as awareness lets it have, or as many as it has now if that is more. Search replicas
// stand in for one another only.
func (t *turns) lossShares(s *cluster.Snapshot, copies []int32, most int, shares []float64) {
	for _, searchOnly := range []bool{false, true} {
		count, crowd, in := 0, most, make(map[string]int, len(t.zones))
		for _, c := range copies {
			if k := &s.Copies[c]; k.SearchOnly == searchOnly {
				count++
				zone := s.Nodes[k.Node].Attributes[t.attribute]
				in[zone]++
				crowd = max(crowd, in[zone])
			}
		}
		for i, c := range copies {
			if s.Copies[c].SearchOnly == searchOnly {
				shares[i] = max(shares[i], float64(count)/float64(max(1, count-crowd)))
			}
		}
	}
}

// lossDimensions are those that are limited: what keeps processors busy. Disks have watermarks.
func (b *Built) lossDimensions() (limited []int) {
	for d := range b.Snapshot.Dimensions {
		dimension := &b.Problem.Dimensions[d]
		if (dimension.Name == cluster.SearchTime.Name || dimension.Name == cluster.IndexTime.Name) && dimension.Weight > 0 {
			limited = append(limited, d)
		}
	}
	return limited
}

// LossLimit is the most that node n may carry in dimension d with a zone lost; 0 where there is no limit.
func (b *Built) LossLimit(n int32, d int) float64 {
	if !b.LossLimited() || !slices.Contains(b.lossDimensions(), d) {
		return 0
	}
	return b.Rules.policy.MaxLoadAfterLoss * b.Problem.Nodes[n].Capacity[d]
}

// lossLimits puts the limits on the nodes. They keep nodes below; what brings down one that is above is a price: for each
// dimension with such a node one dimension more, with the same loads, that costs dearly from a little below the limit on. It is there
// for as long as it is needed, and only for domains that could be below: where all together carry too much, evenness
// within them gains nothing that would be worth the bytes.
func (b *Built) lossLimits() {
	p := b.Problem
	domains, ofNode := p.Domains()
	current := p.Current()
	var repairs []repair
	for _, d := range b.lossDimensions() {
		r, load := repair{of: d}, p.loadOf(current, d)
		for n := range p.Nodes {
			node, limit := &p.Nodes[n], b.LossLimit(int32(n), d)
			if limit <= 0 || ofNode[n] < 0 {
				continue
			}
			if node.MaxLoad == nil {
				node.MaxLoad = make([]float64, len(p.Dimensions))
			}
			if most := node.MaxLoad[d]; most == 0 || limit < most {
				node.MaxLoad[d] = limit
			}
			if mean := domains[ofNode[n]].Mean[d]; load[n] > limit && mean > 0 && mean < b.Rules.policy.MaxLoadAfterLoss {
				r.add(ofNode[n], max(0, b.Rules.policy.MaxLoadAfterLoss/mean-1-lossMargin))
			}
		}
		if len(r.domains) > 0 {
			repairs = append(repairs, r)
		}
	}
	for i := range repairs {
		b.price(&repairs[i], ofNode)
	}
}

// repair is what brings nodes down that are above their limit in a dimension.
type repair struct {
	of      int
	domains []int32 // with a node above
	free    float64 // above the mean: a margin below the limit, in the fullest of them
}

func (r *repair) add(domain int32, free float64) {
	if len(r.domains) == 0 || free < r.free {
		r.free = free
	}
	if !slices.Contains(r.domains, domain) {
		r.domains = append(r.domains, domain)
	}
}

const (
	// lossMargin is how far below the limit, in parts of the mean, a node that was above is to come: phi is flat where it
	// begins, so that a node just above would stay there; and one just below would be above again with the next measurement.
	lossMargin = 0.05
	// lossWeight makes a node that is above its limit worth several times what moving the copies that are too many costs,
	// where those are neither the hottest nor the coldest for their bytes; and less than a copy that has to leave.
	lossWeight = 50
)

// price adds the dimension of a repair. Where it begins nearer to the mean than balance does, the start of phi comes down to it, and the other dimensions are shifted by as much.
func (b *Built) price(r *repair, ofNode []int32) {
	p, policy := b.Problem, b.Rules.policy
	start := p.Objective.Phi.Points[0] - 1
	if r.free < start {
		for d := range p.Dimensions {
			p.Dimensions[d].Shift += start - r.free
		}
		start = r.free
		p.Objective.Phi = Parabola(1 + start)
	}
	p.Dimensions = append(p.Dimensions, Dimension{
		Name: p.Dimensions[r.of].Name + "_after_loss", Weight: lossWeight * max(1, policy.MoveCost), Shift: r.free - start,
	})
	for n := range p.Nodes {
		node, capacity := &p.Nodes[n], 0.0
		if slices.Contains(r.domains, ofNode[n]) {
			capacity = node.Capacity[r.of]
		}
		node.Capacity, node.Base = append(node.Capacity, capacity), append(node.Base, node.Base[r.of])
		if node.MaxLoad != nil {
			node.MaxLoad = append(node.MaxLoad, 0)
		}
	}
	for c := range p.Copies {
		k := &p.Copies[c]
		k.Load = append(slices.Clip(k.Load), k.Load[r.of]) // the loads of all copies are one array
	}
}

// LossZones are the zones that may be lost, in order.
func (b *Built) LossZones() []string {
	if t := newTurns(b); t != nil {
		return t.zones
	}
	return nil
}

// ZoneOf is the zone of a node of the problem, empty where it has none.
func (b *Built) ZoneOf(n int32) string {
	return b.Snapshot.Nodes[b.NodeOf[n]].Attributes[b.Rules.policy.Zones]
}

// AfterLoss counts what each node carries in each measured dimension once a zone is lost, copies being where node says: searches of
// the copies that are gone fall to those left of the same shard, each takes the same part. Under segment replication one of
// those left becomes the primary and does its indexing; which one is not known, so each counts for its chance. Nodes of
// the zone carry nothing. It goes by loads as they were measured, copy by copy, and not by the problem's.
func (b *Built) AfterLoss(node []int32, zone string) [][]float64 {
	p, s := b.Problem, b.Snapshot
	search, index := s.DimensionAt(cluster.SearchTime.Name), s.DimensionAt(cluster.IndexTime.Name)
	after := make([][]float64, len(p.Nodes))
	for n := range after {
		after[n] = make([]float64, len(s.Dimensions))
		if b.ZoneOf(int32(n)) != zone {
			copy(after[n], p.Nodes[n].Base)
		}
	}
	for from, to := range b.groupSpans() {
		var all, left [2]int // by search replica or not
		primary := -1
		for c := from; c < to; c++ {
			k := &s.Copies[b.CopyOf[c]]
			kind := kindOf(k)
			all[kind]++
			switch {
			case b.ZoneOf(node[c]) != zone:
				left[kind]++
			case k.Primary:
				primary = c
			}
		}
		for c := from; c < to; c++ {
			k := &s.Copies[b.CopyOf[c]]
			if b.ZoneOf(node[c]) == zone {
				continue
			}
			for d := range s.Dimensions {
				load := k.Load[d]
				switch {
				case d == search:
					load *= float64(all[kindOf(k)]) / float64(left[kindOf(k)])
				case d == index && primary >= 0 && !k.SearchOnly && s.Indices[k.Index].Replication == "SEGMENT":
					load += max(0, s.Copies[b.CopyOf[primary]].Load[d]-load) / float64(left[0])
				}
				after[node[c]][d] += load
			}
		}
	}
	return after
}

func kindOf(k *cluster.Copy) int {
	if k.SearchOnly {
		return 1
	}
	return 0
}

// groupSpans yields the copies of each group of the problem: from the first to before the second.
func (b *Built) groupSpans() func(yield func(from, to int) bool) {
	return func(yield func(from, to int) bool) {
		copies := b.Problem.Copies
		for from := 0; from < len(copies); {
			to := from + 1
			for to < len(copies) && copies[to].Group == copies[from].Group {
				to++
			}
			if !yield(from, to) {
				return
			}
			from = to
		}
	}
}

// Rebuild is what the server would do after the loss of a zone, in one domain.
type Rebuild struct {
	Bytes float64 // of copies that awareness lets it build anew in the other zones
	Room  float64 // bytes that are free there below the watermarks
}

// Rebuilt says for each domain what the server would build anew once a zone is lost, copies being where node says. Where the
// zones are forced it keeps the lost one's part free and rebuilds nothing. ok is false where no disk has a limit.
func (b *Built) Rebuilt(node []int32, zone string, domains []Domain) (all []Rebuild, ok bool) {
	p := b.Problem
	used := make([]float64, len(p.Nodes))
	domainOf := make([]int, len(p.Classes))
	all = make([]Rebuild, len(domains))
	for c := range p.Copies {
		used[node[c]] += p.Copies[c].Bytes
	}
	for i := range domains {
		for _, class := range domains[i].Classes {
			domainOf[class] = i
		}
		for _, n := range domains[i].Nodes {
			disk := &p.Nodes[n].Disk
			if disk.Limit <= 0 {
				return nil, false
			}
			if p.Nodes[n].AcceptsNew && b.ZoneOf(n) != zone {
				all[i].Room += max(0, disk.Limit-disk.UsedOther-used[n])
			}
		}
	}
	values := slices.Clone(b.Snapshot.Settings.ForcedAwareness[b.Rules.policy.Zones])
	for _, other := range b.LossZones() {
		if other != zone && !slices.Contains(values, other) {
			values = append(values, other)
		}
	}
	for from, to := range b.groupSpans() {
		group := &p.Groups[p.Copies[from].Group]
		in := make(map[string]int)
		for c := from; c < to; c++ {
			in[b.ZoneOf(node[c])]++
		}
		places := make(map[string]int) // nodes outside the zone that may hold a copy and have none
		for _, n := range p.Classes[group.Class].Nodes {
			if other := b.ZoneOf(n); other != zone && p.Nodes[n].AcceptsNew {
				places[other]++
			}
		}
		most, seats := len(values), 0
		if most = (to - from + max(1, most) - 1) / max(1, most); b.zoneCap(group.Index) == 0 {
			most = to - from
		}
		for other, nodes := range places {
			seats += max(0, min(most, nodes)-in[other])
		}
		for c := from; c < to && seats > 0; c++ {
			if b.ZoneOf(node[c]) == zone {
				all[domainOf[group.Class]].Bytes += p.Copies[c].Bytes
				seats--
			}
		}
	}
	return all, true
}
