package clustertest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// Land is a cluster over regions.
type Land struct {
	*cluster.Snapshot
}

// NewLand makes a node of 10 TiB for each place, "region zone host", called n0, n1 and so on, with those attributes.
func NewLand(places ...string) *Land {
	s, err := Parse("cluster opensearch 2.19.6")
	if err != nil {
		panic(err) // it is a constant
	}
	for i, place := range places {
		f := strings.Fields(place)
		n := cluster.Node{
			ID: cluster.NodeID(fmt.Sprintf("n%04d", i)), Name: fmt.Sprintf("n%d", i), IP: fmt.Sprintf("10.0.%d.%d", i/250, i%250), Version: s.Cluster.Product.Version,
			Roles: []string{"data"}, Attributes: map[string]string{"region": f[0], "zone": f[1], "host": f[2]}, Processors: 1, CPU: -1,
			Capacity: cluster.Load{1, 1, 1}, Disk: cluster.DiskUse{Total: 10 << 40, Available: 10 << 40}, Uptime: time.Hour,
		}
		s.Nodes = append(s.Nodes, n)
	}
	return &Land{s}
}

// Spots repeats a place for several nodes.
func Spots(n int, place string) []string { return slices.Repeat([]string{place}, n) }

// TwoByThree are the places of two regions, A and B, of three zones with two hosts each.
func TwoByThree() (places []string) {
	for _, region := range []string{"A", "B"} {
		for zone := range 3 {
			for host := range 2 {
				places = append(places, fmt.Sprintf("%s %s%d %s%d-%d", region, region, zone, region, zone, host))
			}
		}
	}
	return places
}

// Add adds an index of so many shards with so many copies of a gigabyte each; at says on which node a copy stands, the
// first of a shard is the primary.
func (l *Land) Add(name string, shards, copies int, at func(shard, copy int) int) {
	i := int32(len(l.Indices))
	l.Indices = append(l.Indices, cluster.Index{Name: name, UUID: name + "-uuid", Shards: shards, Replicas: copies - 1})
	for shard := range shards {
		for c := range copies {
			n := at(shard, c)
			k := cluster.Copy{
				Index: i, Shard: int32(shard), Node: int32(n), Target: cluster.None, Primary: c == 0, State: cluster.Started,
				AllocationID: fmt.Sprintf("%s/%d/%d", name, shard, c), Bytes: 1 << 30,
			}
			k.Load[l.DimensionAt(cluster.DiskBytes.Name)] = float64(k.Bytes)
			l.Copies = append(l.Copies, k)
			l.hold(k.Node, k.Bytes)
		}
	}
}

func (l *Land) hold(n int32, bytes int64) {
	l.Nodes[n].Disk.Available -= bytes
	l.Nodes[n].Disk.Store += bytes
}

// Anywhere deals copies out to nodes at random, no two of a shard to one.
func (l *Land) Anywhere(copies int, seed uint64) func(shard, copy int) int {
	rng := rand.New(rand.NewPCG(seed, 0))
	var order []int
	return func(_, c int) int {
		if c == 0 {
			order = rng.Perm(len(l.Nodes))[:copies]
		}
		return order[c]
	}
}

// Move carries a move out at once. The copy has another allocation id then, as on a server.
func (l *Land) Move(allocationID string, to cluster.NodeID) {
	for c := range l.Copies {
		if k := &l.Copies[c]; k.AllocationID == allocationID {
			l.hold(k.Node, -k.Bytes)
			k.Node = int32(l.NodeAt(to))
			l.hold(k.Node, k.Bytes)
			k.AllocationID += "'"
		}
	}
}
