package model

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// Built is a problem with the way back to the snapshot it was built from.
type Built struct {
	Problem  *Problem
	Rules    *Rules
	Snapshot *cluster.Snapshot // the projected one
	CopyOf   []int32           // per copy of the problem: its position in the snapshot
	NodeOf   []int32           // per node of the problem: its position in the snapshot
	Wishes   []*Wishes         // per group of the problem: where its copies should be; nil without regions in the policy

	topology *topology // nil without regions in the policy
}

// Build returns the placement problem for s under the policy. s is a projected snapshot: what is in flight has landed.
// Copies that stand nowhere are the server's business and left out; everything the present state already breaks becomes
// "do not worsen", so that a problem always has the present assignment as a solution. Neither argument is changed.
func Build(s *cluster.Snapshot, policy *Policy) (*Built, error) {
	b := &Built{Rules: NewRules(s, policy), Snapshot: s, Problem: &Problem{Version: ProblemVersion, Name: s.Cluster.Name}}
	if len(s.Dimensions) == 0 || len(s.Dimensions) > cluster.MaxDimensions {
		return nil, &cluster.Error{
			Class: cluster.Invalid, Op: "build the placement problem", Err: fmt.Errorf("%d dimensions, from 1 to %d are possible", len(s.Dimensions), cluster.MaxDimensions),
			Hint: "Configure at least one dimension under balance.dimensions",
		}
	}
	var regions *regional
	if policy.Regions != nil {
		var err error
		if b.topology, err = newTopology(s, policy.Regions); err != nil {
			return nil, err
		}
		b.topology.depth = len(b.Rules.attribute)
		regions = newRegional(b, b.topology)
	}
	nodeAt := b.nodes()
	if len(b.Problem.Nodes) == 0 {
		return nil, &cluster.Error{
			Class: cluster.Infeasible, Op: "build the placement problem", Err: fmt.Errorf("the cluster has no data node"),
			Hint: "Check that the nodes have a data role and have joined",
		}
	}
	b.classes(nodeAt)
	if err := b.copies(nodeAt, regions); err != nil {
		return nil, err
	}
	b.markMustLeave()
	b.prices()
	if b.Regional() {
		regions.shares()
		regions.prices()
	}
	b.noise()
	if b.Regional() {
		regions.overload()
	}
	if b.LossLimited() {
		b.lossLimits()
	}
	return b, nil
}

// DomainNames names each domain by the data roles all its nodes share, numbered where two share the same.
func (b *Built) DomainNames(domains []Domain) []string {
	names := make([]string, len(domains))
	if len(names) == 1 {
		names[0] = "all"
		return names
	}
	taken := make(map[string]int)
	for i := range domains {
		var shared []string
		for j, n := range domains[i].Nodes {
			roles := slices.DeleteFunc(slices.Clone(b.Snapshot.Nodes[b.NodeOf[n]].Roles), func(role string) bool {
				return role != "data" && !strings.HasPrefix(role, "data_") && role != "search" && role != "warm"
			})
			if j == 0 {
				shared = roles
			} else {
				shared = slices.DeleteFunc(shared, func(role string) bool { return !slices.Contains(roles, role) })
			}
		}
		name := strings.Join(shared, "+")
		if name == "" {
			name = "mixed"
		}
		if taken[name]++; taken[name] > 1 {
			name = fmt.Sprintf("%s/%d", name, taken[name])
		}
		names[i] = name
	}
	return names
}

// nodes adds the data nodes and says where each of the snapshot's went, None for the others.
func (b *Built) nodes() (at []int32) {
	s, policy := b.Snapshot, b.Rules.policy
	at = make([]int32, len(s.Nodes))
	for n := range s.Nodes {
		node := &s.Nodes[n]
		at[n] = cluster.None
		if !node.IsData() {
			continue
		}
		at[n] = int32(len(b.Problem.Nodes))
		b.NodeOf = append(b.NodeOf, int32(n))
		added := Node{ID: string(node.ID), AcceptsNew: node.Leaving == ""}
		for d := range s.Dimensions {
			capacity := node.Capacity[d]
			if node.Leaving != "" {
				capacity = 0 // soon gone: it is not part of what the others are compared with
			}
			added.Capacity = append(added.Capacity, capacity)
			added.Base = append(added.Base, node.Base[d])
		}
		for _, a := range b.Rules.attribute {
			added.Tiers = append(added.Tiers, a.value[n])
		}
		if b.Regional() {
			added.Tiers = append(added.Tiers, b.topology.value[n][:]...)
		}
		if s.Settings.SameShardHost {
			added.Tiers = append(added.Tiers, node.HostAddress())
		}
		if s.Settings.DiskThreshold && node.Disk.Total > 0 {
			total := float64(node.Disk.Total)
			required := max(float64(s.Settings.Low.Required(node.Disk.Total)), float64(s.Settings.High.Required(node.Disk.Total)))
			added.Disk = Disk{Limit: max(1, total-required-policy.GrowthShare*total), UsedOther: float64(node.Disk.Other())}
		}
		added.MaxCopies = smallestLimit(s.Settings.TotalShardsPerNode, s.Settings.LoadAwareness.Limit(b.Rules.total))
		b.Problem.Nodes = append(b.Problem.Nodes, added)
	}
	return at
}

// smallestLimit is the smallest of those limits that are set (positive), 0 where none is.
func smallestLimit(limits ...int) int {
	smallest := 0
	for _, limit := range limits {
		if limit > 0 && (smallest == 0 || limit < smallest) {
			smallest = limit
		}
	}
	return smallest
}

func (b *Built) classes(nodeAt []int32) {
	for _, set := range b.Rules.classes {
		var class Class
		for n := range b.Snapshot.Nodes {
			if nodeAt[n] != cluster.None && set.has(n) {
				class.Nodes = append(class.Nodes, nodeAt[n])
			}
		}
		b.Problem.Classes = append(b.Problem.Classes, class)
	}
}

// copies adds the groups and their copies. Search replicas are a group of their own where regions matter: they spread
// apart from the others.
func (b *Built) copies(nodeAt []int32, regions *regional) error {
	s, policy, p := b.Snapshot, b.Rules.policy, b.Problem
	for i := range s.Indices {
		index := &s.Indices[i]
		p.Indices = append(p.Indices, Index{Name: index.Name, MaxPerNode: index.TotalShardsPerNode, SpreadWeight: policy.SpreadWeight})
	}
	perIndex := make([]int, len(s.Indices))
	classOf := make([]int32, len(s.Indices))
	dimensions := len(s.Dimensions)
	loads := make([]float64, 0, len(s.Copies)*dimensions) // one allocation for all
	indexAt := s.DimensionAt(cluster.IndexTime.Name)
	turns := newTurns(b)
	var group []int32 // the copies of one, positions in the snapshot
	for g, span := range b.Rules.groups {
		for _, part := range b.Rules.parts(span, b.Regional()) {
			group = group[:0]
			for c := span.from; c < span.to; c++ {
				if k := &s.Copies[c]; k.Node != cluster.None && nodeAt[k.Node] != cluster.None && part.holds(k) {
					group = append(group, c)
				}
			}
			if len(group) == 0 {
				continue
			}
			first := &s.Copies[group[0]]
			p.Groups = append(p.Groups, Group{
				Index: first.Index, Name: fmt.Sprintf("%s/%d%s", s.Indices[first.Index].Name, first.Shard, part.suffix),
				Class: b.Rules.class[g], TierCaps: b.tierCaps(first.Index),
			})
			if regions != nil {
				if err := regions.group(group, part.searchOnly); err != nil {
					return err
				}
			}
			var shares []float64
			if turns != nil {
				shares = turns.shares(s, group)
				if b.LossLimited() {
					turns.lossShares(s, group, b.zoneCap(first.Index), shares)
				}
				p.Groups[len(p.Groups)-1].TierFloors = turns.floor(len(group))
			}
			for i, c := range group {
				k := &s.Copies[c]
				perIndex[k.Index]++
				classOf[k.Index] = b.Rules.class[g]
				loads = append(loads, k.Load[:dimensions]...)
				if turns != nil && turns.search != cluster.None {
					loads[len(loads)-dimensions+turns.search] *= shares[i]
				}
				weight := 1.0
				if indexAt != cluster.None && k.Load[indexAt] > 0 {
					weight = max(1, policy.WriteFactor)
				}
				p.Copies = append(p.Copies, Copy{
					Group: int32(len(p.Groups) - 1), Node: nodeAt[k.Node], Primary: k.Primary, Pinned: b.Rules.pinned[c] != 0,
					MoveWeight: weight, Bytes: float64(k.Bytes), BytesMoving: float64(k.BytesMoving),
					Load: loads[len(loads)-dimensions:],
				})
				b.CopyOf = append(b.CopyOf, c)
			}
		}
	}
	for i := range p.Indices {
		if perIndex[i] == 0 {
			continue // nor is there a class, where no index has a copy
		}
		if homes := len(p.Classes[classOf[i]].Nodes); homes > 0 {
			p.Indices[i].FairPerNode = (perIndex[i] + homes - 1) / homes
		}
	}
	return nil
}

// part is one of the groups that the copies of a shard are dealt into.
type part struct {
	all, searchOnly bool
	suffix          string // of the group's name
}

func (p part) holds(k *cluster.Copy) bool { return p.all || k.SearchOnly == p.searchOnly }

// parts are the groups that a shard's copies make: one, unless search replicas are to be apart and there are any.
func (r *Rules) parts(span copyRange, apart bool) []part {
	if apart {
		for c := span.from; c < span.to; c++ {
			if r.s.Copies[c].SearchOnly {
				return []part{{}, {searchOnly: true, suffix: " search"}}
			}
		}
	}
	return []part{{all: true}}
}

// tierCaps are the awareness caps of an index's shards, then one copy per host where the cluster wants that.
func (b *Built) tierCaps(index int32) (caps []TierLimit) {
	for depth := range b.Rules.attribute {
		if limit := b.Rules.caps[depth][index]; limit > 0 && limit <= b.Snapshot.Indices[index].Replicas {
			caps = append(caps, TierLimit{depth, limit}) // a cap that holds all copies is none
		}
	}
	if b.Snapshot.Settings.SameShardHost {
		depth := len(b.Rules.attribute)
		if b.Regional() {
			depth += regionTiers
		}
		caps = append(caps, TierLimit{depth, 1})
	}
	return caps
}

// markMustLeave marks the copies the server would not let remain: on nodes on their way out or behind a filter, and, on
// a node above the high watermark, as many as bring it below, the least used bytes first.
func (b *Built) markMustLeave() {
	s, p := b.Snapshot, b.Problem
	byNode := make([][]int32, len(p.Nodes))
	for c := range p.Copies {
		k := &p.Copies[c]
		byNode[k.Node] = append(byNode[k.Node], int32(c))
		k.MustLeave = !k.Pinned && b.Rules.KeepsOut(int(b.CopyOf[c]), int(b.NodeOf[k.Node]))&(NodeShutdown|Filter|DataTier) != 0
	}
	if !s.Settings.DiskThreshold {
		return
	}
	searchAt := s.DimensionAt(cluster.SearchTime.Name)
	for n := range p.Nodes {
		disk := s.Nodes[b.NodeOf[n]].Disk
		excess := float64(s.Settings.High.Required(disk.Total) - disk.Available)
		if disk.Total <= 0 || excess <= 0 {
			continue
		}
		heatPerByte := func(c int32) float64 {
			k := &p.Copies[c]
			if searchAt == cluster.None || k.Bytes <= 0 {
				return math.Inf(1)
			}
			return k.Load[searchAt] / k.Bytes
		}
		slices.SortStableFunc(byNode[n], func(a, c int32) int {
			switch x, y := heatPerByte(a), heatPerByte(c); {
			case x < y:
				return -1
			case x > y:
				return 1
			}
			return 0
		})
		for _, c := range byNode[n] {
			if k := &p.Copies[c]; excess > 0 && !k.Pinned && k.Bytes > 0 {
				k.MustLeave = true
				excess -= k.Bytes
			}
		}
	}
}

// prices puts the policy's wishes into the objective's units.
func (b *Built) prices() {
	p, policy := b.Problem, b.Rules.policy
	allBytes := 0.0
	for c := range p.Copies {
		allBytes += p.Copies[c].Bytes
	}
	copies := max(1, len(p.Copies))
	p.Objective = Objective{
		Phi:       Parabola(1 + policy.Tolerance),
		MustLeave: mustLeavePrice,
		Spread:    Spread{PerCopy: 1 / float64(copies)},
		Move:      MovePrice{PerMove: policy.MoveCost * perMoveShare / float64(copies)},
	}
	if allBytes > 0 {
		p.Objective.Move.PerByte = policy.MoveCost / allBytes
	}
	for range p.Nodes[0].Tiers {
		p.Objective.TierExcess = append(p.Objective.TierExcess, tierPrice)
	}
	p.Limits = Limits{MaxMoves: policy.MaxMoves, MaxBytes: float64(policy.MaxBytes)}
	for d, dimension := range b.Snapshot.Dimensions {
		weight, named := policy.Weights[dimension.Name]
		if !named {
			weight = 1
		}
		p.Dimensions = append(p.Dimensions, Dimension{Name: b.Snapshot.Dimensions[d].Name, Weight: weight})
	}
}

// noise widens each dimension's free range by what its measurement alone makes a node's utilization vary: the root mean
// square over nodes of the standard deviation of r, as far as it is above the tolerance.
func (b *Built) noise() {
	p := b.Problem
	domains, ofNode := p.Domains()
	for d := range p.Dimensions {
		variance := make([]float64, len(p.Nodes))
		for c := range p.Copies {
			deviation := b.Snapshot.Copies[b.CopyOf[c]].Deviation[d]
			variance[p.Copies[c].Node] += deviation * deviation
		}
		sum, nodes := 0.0, 0
		for n := range p.Nodes {
			if i := ofNode[n]; i >= 0 && domains[i].Mean[d] > 0 && p.Nodes[n].Capacity[d] > 0 {
				fair := p.Nodes[n].Capacity[d] * domains[i].Mean[d]
				sum += variance[n] / (fair * fair)
				nodes++
			}
		}
		if nodes > 0 {
			p.Dimensions[d].Shift = min(maxShift, max(0, math.Sqrt(sum/float64(nodes))-b.Rules.policy.Tolerance))
		}
	}
}
