package model

import (
	"slices"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// Relocation is a copy going from one node to another; all are positions in the snapshot.
type Relocation struct{ Copy, From, To int }

// maxBuiltin bounds a forecast: past so many relocations their exact list tells nobody more.
const maxBuiltin = 1000

// builtinSlack is what the servers add to the threshold before they compare a difference of weights with it.
const builtinSlack = 0.001

// Builtin foretells what the server's own balancer would move, were it on, from the placement of s: all relocations
// until it is content, in its order, throttling aside. It knows counts, and bytes where the product weighs them; forecasts
// of write load it takes for equal, which they are where nothing forecasts them.
//
// The balancer compares nodes index by index: weight = shard x (copies on the node - mean) + index x (copies of the index
// on the node - mean) + disk x (bytes on the node - mean), the factors scaled to add up to one, and moves a copy of the
// index from the heaviest to the lightest node while their weights differ by more than the threshold.
func Builtin(s *cluster.Snapshot) []Relocation {
	w := s.Settings.Balancer
	sum := w.Shard + w.Index + w.Disk + w.WriteLoad
	if sum <= 0 {
		return nil
	}
	policy := Policy{}
	b := builtin{s: s, rules: NewRules(s, &policy), shard: w.Shard / sum, index: w.Index / sum, disk: w.Disk / sum, threshold: w.Threshold + builtinSlack}
	b.state = b.rules.Start()
	b.bytes, b.copies = make([]float64, len(s.Nodes)), make([]int, len(s.Nodes))
	b.ofIndex = make([][]int, len(s.Indices))
	for c := range s.Copies {
		if home := b.state.Home(c); home != cluster.None {
			b.copies[home]++
			b.bytes[home] += float64(s.Copies[c].Bytes)
			b.ofIndex[s.Copies[c].Index] = append(b.ofIndex[s.Copies[c].Index], c)
		}
	}
	for changed := true; changed && len(b.moves) < maxBuiltin; {
		before := len(b.moves)
		for i := range s.Indices {
			if s.Indices[i].RebalanceEnable == "" || s.Indices[i].RebalanceEnable == "all" {
				b.level(int32(i))
			}
		}
		changed = len(b.moves) > before
	}
	return b.moves
}

type builtin struct {
	s                             *cluster.Snapshot
	rules                         *Rules
	state                         *State
	shard, index, disk, threshold float64
	copies                        []int     // per node
	bytes                         []float64 // per node
	ofIndex                       [][]int   // per index: its copies that stand somewhere
	moves                         []Relocation
}

// level moves copies of one index until no pair of nodes that hold it or may hold it differs by more than the threshold.
func (b *builtin) level(index int32) {
	copies := b.ofIndex[index]
	if len(copies) == 0 {
		return
	}
	count := make([]int, len(b.s.Nodes))
	for _, c := range copies {
		count[b.state.Home(c)]++
	}
	var nodes []int
	for n := range b.s.Nodes {
		if b.rules.KeepsOut(copies[0], n) == 0 || count[n] > 0 {
			nodes = append(nodes, n)
		}
	}
	weight := func(n int) float64 {
		// The means are the same for all nodes and drop out of every difference.
		return b.shard*float64(b.copies[n]) + b.index*float64(count[n]) + b.disk*b.bytes[n]
	}
	for len(b.moves) < maxBuiltin {
		slices.SortStableFunc(nodes, func(m, n int) int {
			switch x, y := weight(m), weight(n); {
			case x < y:
				return -1
			case x > y:
				return 1
			}
			return 0
		})
		if !b.heaviestToLightest(copies, nodes, weight, count) {
			return
		}
	}
}

// heaviestToLightest makes the first relocation that the order of weights suggests and the deciders allow.
func (b *builtin) heaviestToLightest(copies, nodes []int, weight func(int) float64, count []int) bool {
	for high := len(nodes) - 1; high > 0; high-- {
		if count[nodes[high]] == 0 {
			continue
		}
		for low := range high {
			if weight(nodes[high])-weight(nodes[low]) <= b.threshold {
				break
			}
			for _, c := range copies {
				if b.state.Home(c) != nodes[high] || b.s.Copies[c].State != cluster.Started || b.state.Refusals(c, nodes[low]) != 0 {
					continue
				}
				b.moves = append(b.moves, Relocation{c, nodes[high], nodes[low]})
				b.state.Begin(c, nodes[low])
				b.state.Land(c)
				b.copies[nodes[high]]--
				b.copies[nodes[low]]++
				b.bytes[nodes[high]] -= float64(b.s.Copies[c].Bytes)
				b.bytes[nodes[low]] += float64(b.s.Copies[c].Bytes)
				count[nodes[high]]--
				count[nodes[low]]++
				return true
			}
		}
	}
	return false
}
