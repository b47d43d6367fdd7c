package mover

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/es"
	"github.com/shardonnay/shardonnay/internal/model"
)

// maxForecast bounds how many moves of the server's balancer are foretold: past it the answer is "many".
const maxForecast = 200

// forecast foretells what the server's own balancer will do once the setting has that value: about how many moves it will
// make, and which copies come into question. It plays the balancer: index by index, as long as the heaviest and the
// lightest node differ by more than the threshold, a copy goes from the one to the other where the deciders let it. In
// which order the server takes the indices, and which of several copies, nobody can foretell; hence all that come into
// question on the way are named.
//
// A node's weight for an index is what it has above the average in copies, in copies of that index and, on Elasticsearch
// 8.6 and newer, in bytes, each times its setting. Forecast write loads, which data streams have there, are not ours to
// see.
func forecast(s *cluster.Snapshot, raw es.RawSettings, setting string, restored bool) (moves int, returns []Return) {
	if !restored {
		setting, _ = raw.Effective(rebalanceKey)
	}
	if setting == unset {
		setting = "all"
	}
	b := newBalancer(s.Projected(), raw, setting)
	for round := 0; b.moves < maxForecast; round++ {
		if round&(round-1) == 0 {
			// What comes into question changes little from one round to the next, and to ask of every copy is dear.
			b.question()
		}
		if !b.round() {
			break
		}
	}
	return b.moves, b.returns()
}

// refreshed is the snapshot with its copies where the routing table has them by now. The latest snapshot is from before
// the latest moves.
func refreshed(s *cluster.Snapshot, routing *es.Routing) *cluster.Snapshot {
	groups := make(map[shardKey][]*es.RoutingCopy)
	for i := range routing.Copies {
		k := &routing.Copies[i]
		key := shardKey{k.Index, k.Shard}
		groups[key] = append(groups[key], k)
	}
	for _, group := range groups {
		slices.SortStableFunc(group, func(a, b *es.RoutingCopy) int { // as the snapshot has them
			if a.Primary != b.Primary {
				return map[bool]int{true: -1, false: 1}[a.Primary]
			}
			return cmp.Compare(a.AllocationID, b.AllocationID)
		})
	}
	fresh := *s
	fresh.Copies = slices.Clone(s.Copies)
	for c := range fresh.Copies {
		k := &fresh.Copies[c]
		key := shardKey{s.Indices[k.Index].Name, int(k.Shard)}
		k.Node, k.Target, k.State = cluster.None, cluster.None, cluster.Unassigned
		if group := groups[key]; len(group) > 0 {
			k.Node, k.Target = int32(s.NodeAt(group[0].Node)), int32(s.NodeAt(group[0].Target))
			k.State, k.Primary, k.AllocationID = group[0].State, group[0].Primary, group[0].AllocationID
			groups[key] = group[1:]
		}
	}
	return &fresh
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
	atOnce                        int // moves between two of its looks at all indices

	moves  int
	asked  []bool // per copy: it came into question
	likely []bool // per copy: it was the one taken
	at     []int  // per node of the snapshot: position in nodes, None for one without data
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
		s: s, state: model.NewRules(s, &model.Policy{}).Start(), setting: setting, asked: make([]bool, len(s.Copies)), likely: make([]bool, len(s.Copies)), at: make([]int, len(s.Nodes)),
		shard: number("shard", 0.45), index: number("index", 0.55), threshold: number("threshold", 1),
		onIndex: make([][]int, len(s.Indices)), copies: make([][]int, len(s.Indices)),
	}
	if b.atOnce = s.Settings.ConcurrentRebalance; b.atOnce < 0 {
		b.atOnce = maxForecast
	}
	if s.Cluster.Product.HasDesiredBalance() {
		b.atOnce = 1 // it computes where all should be, a move at a time
		b.disk = number("disk_usage", 2e-11)
	} else if sum := b.shard + b.index; sum > 0 {
		b.shard, b.index = b.shard/sum, b.index/sum
	}
	for n := range s.Nodes {
		b.at[n] = cluster.None
		if s.Nodes[n].IsData() {
			b.at[n] = len(b.nodes)
			b.nodes = append(b.nodes, n)
		}
	}
	b.onNode, b.bytes = make([]int, len(b.nodes)), make([]float64, len(b.nodes))
	for i := range b.onIndex {
		b.onIndex[i] = make([]int, len(b.nodes))
	}
	for c := range s.Copies {
		k := &s.Copies[c]
		if k.Node == cluster.None || b.at[k.Node] == cluster.None {
			continue
		}
		b.count(int(k.Index), b.at[k.Node], 1, k.Bytes)
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

// round makes as many moves as the server has under way at a time, of the least level indices first, and tells whether
// there was any.
func (b *balancer) round() bool {
	indices, spread := make([]int, len(b.s.Indices)), make([]float64, len(b.s.Indices))
	for index := range indices {
		indices[index] = index
		least, most := math.Inf(1), math.Inf(-1)
		for n := range b.nodes {
			weight := b.weight(index, n)
			least, most = min(least, weight), max(most, weight)
		}
		spread[index] = most - least
	}
	slices.SortStableFunc(indices, func(x, y int) int { return cmp.Compare(spread[y], spread[x]) })
	made := 0
	for _, index := range indices {
		for made < b.atOnce && b.level(index) {
			made++
		}
		if made == b.atOnce {
			break
		}
	}
	return made > 0
}

// weight is what node n weighs for an index.
func (b *balancer) weight(index, n int) float64 {
	return b.shard*float64(b.onNode[n]) + b.index*float64(b.onIndex[index][n]) + b.disk*b.bytes[n]
}

// weights is what every node weighs for an index, the nodes by weight, and the difference that is worth a move.
func (b *balancer) weights(index int) (weight []float64, order []int, enough float64) {
	weight, order = make([]float64, len(b.nodes)), make([]int, len(b.nodes))
	for n := range b.nodes {
		order[n] = n
		weight[n] = b.weight(index, n)
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(weight[x], weight[y]) })
	enough = b.threshold
	if b.disk > 0 {
		largest := int64(0)
		for _, c := range b.copies[index] {
			largest = max(largest, b.s.Copies[c].Bytes)
		}
		enough *= b.shard + b.index + b.disk*float64(largest)
	}
	return weight, order, enough + 0.001 // what the servers add against rounding
}

// target is the lightest node that copy c may go to and that is enough lighter than its own.
func (b *balancer) target(c int, weight []float64, order []int, enough float64) (node int, found bool) {
	from := b.at[b.state.At(c)]
	if from == cluster.None || !b.may(c) {
		return 0, false
	}
	for _, to := range order {
		if weight[from]-weight[to] <= enough {
			return 0, false
		}
		if b.state.Refusals(c, b.nodes[to]) == 0 {
			return to, true
		}
	}
	return 0, false
}

// question marks the copies that the balancer could move as things stand.
func (b *balancer) question() {
	for index := range b.s.Indices {
		weight, order, enough := b.weights(index)
		for _, c := range b.copies[index] {
			if _, found := b.target(c, weight, order, enough); found {
				b.asked[c] = true
			}
		}
	}
}

// level moves one copy of an index from the heaviest node that has one to go, if that is worth it.
func (b *balancer) level(index int) bool {
	weight, order, enough := b.weights(index)
	best, to := cluster.None, 0
	for _, c := range b.copies[index] {
		node, found := b.target(c, weight, order, enough)
		if found && (best == cluster.None || weight[b.at[b.state.At(c)]] > weight[b.at[b.state.At(best)]]) {
			best, to = c, node
		}
	}
	if best == cluster.None {
		return false
	}
	bytes := b.s.Copies[best].Bytes
	b.count(index, b.at[b.state.At(best)], -1, bytes)
	b.count(index, to, 1, bytes)
	b.state.Begin(best, b.nodes[to])
	b.state.Land(best)
	b.moves++
	b.likely[best] = true
	return true
}

// returns lists the copies that come into question.
func (b *balancer) returns() []Return {
	var all []Return
	for c := range b.s.Copies {
		if k := &b.s.Copies[c]; b.asked[c] {
			all = append(all, Return{
				Index: b.s.Indices[k.Index].Name, Shard: int(k.Shard), Primary: k.Primary, From: b.s.Nodes[k.Node].ID, Likely: b.likely[c],
				Why: fmt.Sprintf("%s holds more copies than the server's balancer likes", b.s.Nodes[k.Node].Name),
			})
		}
	}
	return all
}
