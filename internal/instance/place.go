package instance

import (
	"container/heap"
	"fmt"
	"slices"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// place puts the copies where a balancer that levels counts would have put them as they were created: oldest index
// first, each copy on the node with the fewest copies that holds none of the index yet, in a zone below its cap, within
// the disk limit; ties at random.
func (g *generator) place() error {
	queue := &nodeQueue{rank: g.rng.Perm(g.Nodes), count: make([]int, g.Nodes)}
	for n := range g.Nodes - g.Empty {
		queue.nodes = append(queue.nodes, int32(n))
	}
	in := make([][]bool, len(g.p.Classes))
	for k := range in {
		in[k] = make([]bool, g.Nodes)
		for _, n := range g.p.Classes[k].Nodes {
			in[k][n] = true
		}
	}
	heap.Init(queue)
	used := make([]float64, g.Nodes)
	holds := make([]int, g.Nodes) // index+1 that the node got a copy of last
	start := make([]int, len(g.p.Groups)+1)
	for c := range g.p.Copies {
		start[g.p.Copies[c].Group+1] = c + 1
	}
	for group := range slices.Backward(g.p.Groups) {
		index := int(g.p.Groups[group].Index)
		most := len(g.p.Copies)
		if caps := g.p.Groups[group].TierCaps; len(caps) > 0 {
			most = caps[0].Count()
		}
		var inZone [zones]int
		var on []int32
		for c := start[group]; c < start[group+1]; c++ {
			var aside []int32
			chosen, fallback := int32(-1), int32(-1)
			for chosen < 0 && queue.Len() > 0 {
				n := heap.Pop(queue).(int32)
				aside = append(aside, n)
				fits := used[n]+g.p.Copies[c].Bytes <= g.p.Nodes[n].Disk.Limit && inZone[n%zones] < most && in[g.p.Groups[group].Class][n]
				for _, other := range on {
					fits = fits && n != other
				}
				switch {
				case fits && holds[n] != index+1:
					chosen = n
				case fits && fallback < 0:
					fallback = n
				}
				if fallback >= 0 && len(aside) > 4*zones {
					break // the index is everywhere among the emptiest
				}
			}
			if chosen < 0 {
				chosen = fallback
			}
			if chosen < 0 {
				return &cluster.Error{
					Class: cluster.Invalid, Op: "generate an instance", Err: fmt.Errorf("copy %d fits on no disk", c),
					Hint: "Lower the disk fill or raise the number of copies",
				}
			}
			g.p.Copies[c].Node = chosen
			used[chosen] += g.p.Copies[c].Bytes
			holds[chosen] = index + 1
			queue.count[chosen]++
			inZone[chosen%zones]++
			on = append(on, chosen)
			for _, n := range aside {
				heap.Push(queue, n)
			}
		}
	}
	return nil
}

// nodeQueue is a heap of nodes, fewest copies first.
type nodeQueue struct {
	nodes []int32
	count []int
	rank  []int // order among equals
}

func (q *nodeQueue) Len() int { return len(q.nodes) }

func (q *nodeQueue) Less(i, j int) bool {
	a, b := q.nodes[i], q.nodes[j]
	if q.count[a] != q.count[b] {
		return q.count[a] < q.count[b]
	}
	return q.rank[a] < q.rank[b]
}
func (q *nodeQueue) Swap(i, j int) { q.nodes[i], q.nodes[j] = q.nodes[j], q.nodes[i] }
func (q *nodeQueue) Push(x any)    { q.nodes = append(q.nodes, x.(int32)) }

func (q *nodeQueue) Pop() any {
	last := q.nodes[len(q.nodes)-1]
	q.nodes = q.nodes[:len(q.nodes)-1]
	return last
}
