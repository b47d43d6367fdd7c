package rightsize

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/model"
)

// Version is the version of the answer's JSON.
const Version = 1

// DefaultLimit is the share of its capacity that a node may use in a dimension for which no limit is given: what is above is
// for the peaks within a minute, which a mean does not show.
const DefaultLimit = 0.7

// Answer says how few nodes would do. docs/plan.md describes every field for readers of the JSON.
type Answer struct {
	Version  int                `json:"version"`
	Cluster  string             `json:"cluster"`
	WhatIf   []string           `json:"what_if,omitempty"` // changes made to the cluster before
	Warnings []string           `json:"warnings"`          // of the snapshot
	Limits   map[string]float64 `json:"limits"`            // share of a node's capacity, by dimension
	Domains  []Domain           `json:"domains"`
}

// Domain is a set of nodes that compete for the same copies.
type Domain struct {
	Name        string       `json:"domain"`
	Zones       []string     `json:"zones"` // any one of which may be lost; empty where there are not two
	Nodes       int          `json:"nodes"` // today
	Copies      int          `json:"copies"`
	Generations []Generation `json:"generations"`
}

// Generation is what it would take of nodes of one kind: those of about the same capacity.
type Generation struct {
	Like     string             `json:"like"`  // the first name of such nodes
	Nodes    int                `json:"nodes"` // of them today
	Capacity map[string]float64 `json:"capacity"`
	AtLeast  int                `json:"at_least"` // fewer nodes cannot do, however copies are placed; 0 where none can
	Binding  []string           `json:"binding"`  // what one node less would break; empty where there is none less
	Enough   int                `json:"enough"`   // for so many a placement was found; 0 where none was
	PerZone  []int              `json:"per_zone"` // of those, in the order of the domain's zones
	Peaks    []Peak             `json:"peaks"`    // of that placement
	Reason   string             `json:"reason"`   // why there is no answer; empty where there is one
}

// Peak is the fullest node in one dimension.
type Peak struct {
	Dimension string  `json:"dimension"`
	Share     float64 `json:"share"`     // of its capacity
	WithZone  float64 `json:"zone_lost"` // the same after the loss of the zone that hurts most
}

// Size answers for the snapshot that b was built from, moves aside: as if every copy could be placed anew. limits are shares
// of a node's capacity by dimension, DefaultLimit where none is given; on disks the server's low watermark limits besides.
// An error names a limit that cannot be meant.
func Size(b *model.Built, limits map[string]float64) (*Answer, error) {
	s, p := b.Snapshot, b.Problem
	a := &Answer{Version: Version, Cluster: s.Cluster.Name, Warnings: append([]string{}, s.Warnings...), Limits: make(map[string]float64), Domains: []Domain{}}
	for _, d := range s.Dimensions {
		a.Limits[d.Name] = DefaultLimit
	}
	for name, limit := range limits {
		if _, known := a.Limits[name]; !known || !(limit > 0 && limit <= 1) {
			return nil, &cluster.Error{
				Class: cluster.Invalid, Op: "read limit", What: fmt.Sprintf("%s=%g", name, limit), Err: fmt.Errorf("a limit is a measured dimension and a share above 0 and at most 1"),
				Hint: fmt.Sprintf("Measured are %s", dimensionNames(s)),
			}
		}
		a.Limits[name] = limit
	}
	domains, _ := p.Domains()
	names := b.DomainNames(domains)
	for i := range domains {
		d := newDemand(b, &domains[i])
		if len(d.groups) == 0 {
			continue
		}
		answer := Domain{Name: names[i], Zones: d.zones, Nodes: len(domains[i].Nodes), Copies: d.copies}
		for _, g := range generations(b, &domains[i]) {
			answer.Generations = append(answer.Generations, d.size(g, a.Limits))
		}
		a.Domains = append(a.Domains, answer)
	}
	return a, nil
}

func dimensionNames(s *cluster.Snapshot) string {
	names := make([]string, len(s.Dimensions))
	for i, d := range s.Dimensions {
		names[i] = d.Name
	}
	return strings.Join(names, ", ")
}

// demand is what the nodes of a domain have to carry, wherever it stands now.
type demand struct {
	b      *model.Built
	zones  []string // at least two, or none
	search int      // position of the dimension that copies share among them; None where it is not measured
	groups []shard
	copies int
}

// shard is the copies of one shard.
type shard struct {
	name  string
	loads [][]float64 // of each copy, by dimension
}

// total is what all copies of the shard cost together in a dimension.
func (g *shard) total(d int) float64 {
	sum := 0.0
	for _, load := range g.loads {
		sum += load[d]
	}
	return sum
}

func newDemand(b *model.Built, domain *model.Domain) *demand {
	d := &demand{b: b, search: b.Snapshot.DimensionAt(cluster.SearchTime.Name)}
	for _, n := range domain.Nodes {
		zone := b.Snapshot.Zone(int(b.NodeOf[n]))
		if zone != "" && b.Problem.Nodes[n].AcceptsNew && !slices.Contains(d.zones, zone) {
			d.zones = append(d.zones, zone)
		}
	}
	slices.Sort(d.zones)
	if len(d.zones) < 2 {
		d.zones = []string{}
	}
	last := int32(-1)
	for c := range b.Problem.Copies {
		k := &b.Problem.Copies[c]
		if !slices.Contains(domain.Classes, b.Problem.Groups[k.Group].Class) {
			continue
		}
		if k.Group != last {
			last = k.Group
			d.groups = append(d.groups, shard{name: b.Problem.Groups[k.Group].Name})
		}
		g := &d.groups[len(d.groups)-1]
		g.loads = append(g.loads, k.Load)
		d.copies++
	}
	return d
}

// kind is a generation: what one of its nodes can carry.
type kind struct {
	like     string
	nodes    int
	capacity []float64 // by dimension; 0 where it is not known
	base     []float64 // what a node carries beside copies
	disk     float64   // bytes that copies may use at most by the watermark; 0 is no limit
}

// sameKind is how far capacities of one generation may be apart: disks of one make differ by some blocks.
const sameKind = 0.05

// generations sorts a domain's nodes by capacity, those on their way out aside. What a node carries beside copies is the mean
// of its generation.
func generations(b *model.Built, domain *model.Domain) []*kind {
	var kinds []*kind
	for _, n := range domain.Nodes {
		node := &b.Problem.Nodes[n]
		if !node.AcceptsNew {
			continue
		}
		at := slices.IndexFunc(kinds, func(k *kind) bool {
			for d, capacity := range k.capacity {
				if math.Abs(capacity-node.Capacity[d]) > sameKind*capacity {
					return false
				}
			}
			return true
		})
		if at < 0 {
			at = len(kinds)
			kinds = append(kinds, &kind{
				like: b.Snapshot.Nodes[b.NodeOf[n]].Name, capacity: slices.Clone(node.Capacity), base: make([]float64, len(node.Capacity)),
				disk: node.Disk.Limit,
			})
		}
		k := kinds[at]
		k.like = min(k.like, b.Snapshot.Nodes[b.NodeOf[n]].Name)
		k.nodes++
		disk := b.Snapshot.DimensionAt(cluster.DiskBytes.Name)
		for d := range k.base {
			beside := node.Base[d]
			if d == disk {
				beside += node.Disk.UsedOther
			}
			k.base[d] += (beside - k.base[d]) / float64(k.nodes)
			k.capacity[d] = min(k.capacity[d], node.Capacity[d])
		}
		if node.Disk.Limit > 0 {
			k.disk = min(k.disk, node.Disk.Limit)
		}
	}
	return kinds
}

// usable is how much of each dimension the copies on one such node may take; negative where it is not limited.
func (k *kind) usable(s *cluster.Snapshot, limits map[string]float64) []float64 {
	usable := make([]float64, len(k.capacity))
	for d := range usable {
		usable[d] = -1
		if k.capacity[d] <= 0 {
			continue
		}
		most := limits[s.Dimensions[d].Name] * k.capacity[d]
		if s.Dimensions[d].Name == cluster.DiskBytes.Name && k.disk > 0 {
			most = min(most, k.disk)
		}
		usable[d] = max(0, most-k.base[d])
	}
	return usable
}

// size finds out how many nodes of a kind it takes.
func (d *demand) size(k *kind, limits map[string]float64) Generation {
	s := d.b.Snapshot
	answer := Generation{Like: k.like, Nodes: k.nodes, Capacity: make(map[string]float64), Binding: []string{}, PerZone: []int{}, Peaks: []Peak{}}
	for i, capacity := range k.capacity {
		answer.Capacity[s.Dimensions[i].Name] = capacity
	}
	usable := k.usable(s, limits)
	if answer.Reason = d.impossible(usable); answer.Reason != "" {
		return answer
	}
	answer.AtLeast, answer.Binding = d.least(usable)
	// Near the bound every node counts; further off a few more do no harm, and each try costs a placement of all copies.
	for n := answer.AtLeast; n <= answer.AtLeast+answer.AtLeast/2+slack; n += 1 + (n-answer.AtLeast)/8 {
		if placed := d.place(n, usable); placed != nil {
			answer.Enough, answer.PerZone = n, placed.perZone
			answer.Peaks = placed.peaks(d, k)
			return answer
		}
	}
	answer.Reason = fmt.Sprintf("no placement was found for %d nodes or a few more", answer.AtLeast)
	return answer
}

// slack is how many nodes above the bound are tried in a small cluster, where one copy more or less on a node counts.
const slack = 10
