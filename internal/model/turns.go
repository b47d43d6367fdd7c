package model

import (
	"slices"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// turns is what a cluster whose zones take turns in serving searches asks of a placement.
type turns struct {
	attribute string
	zones     []string // values of the attribute on data nodes, sorted
	depth     int      // of the tier that stands for the attribute; -1 where it is none of awareness
	search    int      // position of the search dimension; cluster.None where there is none
}

// newTurns is nil where zones do not take turns.
func newTurns(b *Built) *turns {
	attribute := b.Rules.policy.Zones
	if attribute == "" {
		return nil
	}
	t := &turns{attribute: attribute, depth: slices.IndexFunc(b.Rules.attribute, func(a awareness) bool { return a.name == attribute }), search: b.Snapshot.DimensionAt(cluster.SearchTime.Name)}
	for n := range b.Snapshot.Nodes {
		if zone := b.Snapshot.Nodes[n].Attributes[attribute]; zone != "" && !slices.Contains(t.zones, zone) {
			t.zones = append(t.zones, zone)
		}
	}
	slices.Sort(t.zones)
	return t
}

// shares are the factors by which a group's copies are worth more than an even share of its searches: while one zone
// rests, those of the others share what all would. Counted is the worst that comes with any zone but the copy's own at
// rest, so that a standby is as level as those that serve before it is needed. Search replicas go by no weights. Copies are
// positions in the snapshot.
func (t *turns) shares(s *cluster.Snapshot, copies []int32) []float64 {
	in := make(map[string]int, len(t.zones))
	zone := func(c int32) string { return s.Nodes[s.Copies[c].Node].Attributes[t.attribute] }
	for _, c := range copies {
		in[zone(c)]++
	}
	shares := make([]float64, len(copies))
	for i, c := range copies {
		if shares[i] = 1; s.Copies[c].SearchOnly {
			continue
		}
		for _, rests := range t.zones {
			if serve := len(copies) - in[rests]; rests != zone(c) && serve > 0 {
				shares[i] = max(shares[i], float64(len(copies))/float64(serve))
			}
		}
	}
	return shares
}

// floor keeps one copy in every zone of a shard that has enough: then any zone can be lost, or rest, without it.
func (t *turns) floor(copies int) []TierLimit {
	if t.depth < 0 || len(t.zones) < 2 || copies < len(t.zones) {
		return nil
	}
	return []TierLimit{{t.depth, 1}}
}
