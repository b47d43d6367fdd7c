package mover

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/es"
	"github.com/shardonnay/shardonnay/internal/model"
)

// maxForecast bounds how many moves of the server's balancer are foretold: past it the answer is "many".
const maxForecast = 200

// forecast foretells which copies the server's own balancer will move off their nodes once the setting has that value. It
// plays the balancer: index by index, as long as the heaviest and the lightest node differ by more than the threshold, a
// copy goes from the one to the other where the deciders let it.
//
// A node's weight for an index is what it has above the average in copies, in copies of that index and, on Elasticsearch
// 8.6 and newer, in bytes, each times its setting. Forecast write loads, which data streams have there, are not ours to
// see.
func forecast(s *cluster.Snapshot, raw es.RawSettings, setting string, restored bool) []Return {
	if s == nil {
		return nil
	}
	if !restored {
		setting, _ = raw.Effective(rebalanceKey)
	}
	if setting == unset {
		setting = "all"
	}
	b := newBalancer(s.Projected(), raw, setting)
	for b.moves < maxForecast && b.round() {
	}
	return b.returns()
}

type balancer struct {
	s       *cluster.Snapshot
	state   *model.State
	setting string
	nodes   []int // positions of data nodes
	onNode  []int
	onIndex [][]int // per index, per position in nodes
	copies  [][]int // per index
	bytes   []float64

	shard, index, disk, threshold float64

	moves int
	taken map[[2]int]int // index and node (position in the snapshot) it takes copies off -> where the first went
}

func newBalancer(s *cluster.Snapshot, raw es.RawSettings, setting string) *balancer {
	number := func(key string, otherwise float64) float64 {
		text, _ := raw.Effective("cluster.routing.allocation.balance." + key)
		if value, err := strconv.ParseFloat(text, 64); err == nil {
			return value
		}
		return otherwise
	}
	b := &balancer{
		s: s, state: model.NewRules(s, &model.Policy{}).Start(), setting: setting, taken: make(map[[2]int]int),
		shard: number("shard", 0.45), index: number("index", 0.55), threshold: number("threshold", 1),
		onIndex: make([][]int, len(s.Indices)), copies: make([][]int, len(s.Indices)),
	}
	if s.Cluster.Product.HasDesiredBalance() {
		b.disk = number("disk_usage", 2e-11)
	} else if sum := b.shard + b.index; sum > 0 {
		b.shard, b.index = b.shard/sum, b.index/sum
	}
	at := make([]int, len(s.Nodes))
	for n := range s.Nodes {
		at[n] = cluster.None
		if s.Nodes[n].IsData() {
			at[n] = len(b.nodes)
			b.nodes = append(b.nodes, n)
		}
	}
	b.onNode, b.bytes = make([]int, len(b.nodes)), make([]float64, len(b.nodes))
	for i := range b.onIndex {
		b.onIndex[i] = make([]int, len(b.nodes))
	}
	for c := range s.Copies {
		k := &s.Copies[c]
		if k.Node == cluster.None || at[k.Node] == cluster.None {
			continue
		}
		b.count(int(k.Index), at[k.Node], 1, k.Bytes)
		b.copies[k.Index] = append(b.copies[k.Index], c)
	}
	return b
}

func (b *balancer) count(index, node, by int, bytes int64) {
	b.onNode[node] += by
	b.onIndex[index][node] += by
	b.bytes[node] += float64(by) * float64(bytes)
}

// may tells whether the setting lets the balancer move this copy: the index's own value wins over the cluster's.
func (b *balancer) may(c int) bool {
	k := &b.s.Copies[c]
	setting := b.setting
	if own := b.s.Indices[k.Index].RebalanceEnable; own != "" {
		setting = own
	}
	switch setting {
	case "none":
		return false
	case "primaries":
		return k.Primary
	case "replicas":
		return !k.Primary
	}
	return true
}

// round goes over all indices once and tells whether anything moved.
func (b *balancer) round() bool {
	moved := false
	for index := range b.s.Indices {
		for b.moves < maxForecast && b.level(index) {
			moved = true
		}
	}
	return moved
}

// level moves one copy of an index from a heavy node to a light one, if the two differ by enough.
func (b *balancer) level(index int) bool {
	weight := make([]float64, len(b.nodes))
	order := make([]int, len(b.nodes))
	largest := int64(0)
	for _, c := range b.copies[index] {
		largest = max(largest, b.s.Copies[c].Bytes)
	}
	for n := range b.nodes {
		order[n] = n
		weight[n] = b.shard*float64(b.onNode[n]) + b.index*float64(b.onIndex[index][n]) + b.disk*b.bytes[n]
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(weight[x], weight[y]) })
	enough := b.threshold + 0.001 // what the servers add against rounding
	if b.disk > 0 {
		enough = b.threshold*(b.shard+b.index+b.disk*float64(largest)) + 0.001
	}
	for _, from := range slices.Backward(order) {
		for _, to := range order {
			if weight[from]-weight[to] <= enough {
				break
			}
			for _, c := range b.copies[index] {
				if b.state.At(c) == b.nodes[from] && b.may(c) && b.state.Refusals(c, b.nodes[to]) == 0 {
					b.move(c, from, to)
					return true
				}
			}
		}
	}
	return false
}

func (b *balancer) move(c, from, to int) {
	k := &b.s.Copies[c]
	b.state.Begin(c, b.nodes[to])
	b.state.Land(c)
	b.count(int(k.Index), from, -1, k.Bytes)
	b.count(int(k.Index), to, 1, k.Bytes)
	b.moves++
	key := [2]int{int(k.Index), b.nodes[from]}
	if _, seen := b.taken[key]; !seen {
		b.taken[key] = b.nodes[to]
	} else if b.taken[key] != b.nodes[to] {
		b.taken[key] = cluster.None
	}
}

// returns lists every copy that may be one of those taken off its node.
func (b *balancer) returns() []Return {
	var all []Return
	for c := range b.s.Copies {
		k := &b.s.Copies[c]
		if k.Node == cluster.None {
			continue
		}
		to, taken := b.taken[[2]int{int(k.Index), int(k.Node)}]
		if !taken || !b.may(c) {
			continue
		}
		r := Return{
			Index: b.s.Indices[k.Index].Name, Shard: int(k.Shard), Primary: k.Primary, From: b.s.Nodes[k.Node].ID,
			Why: fmt.Sprintf("%s holds more copies than the server's balancer likes", b.s.Nodes[k.Node].Name),
		}
		if to != cluster.None {
			r.To = b.s.Nodes[to].ID
		}
		all = append(all, r)
	}
	return all
}
