package rebalance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/cluster/clustertest"
	"github.com/shardonnay/shardonnay/internal/model"
	"github.com/shardonnay/shardonnay/internal/plan"
	"github.com/shardonnay/shardonnay/internal/solver"
)

// land is a cluster over regions: places are "region zone host", one for each node, named after them.
type land struct {
	*cluster.Snapshot
	t *testing.T
}

func newLand(t *testing.T, places ...string) *land {
	t.Helper()
	s, err := clustertest.Parse("cluster opensearch 2.19.6\n")
	if err != nil {
		t.Fatal(err)
	}
	for i, place := range places {
		f := strings.Fields(place)
		n := cluster.Node{
			ID: cluster.NodeID(fmt.Sprintf("n%04d", i)), Name: fmt.Sprintf("n%d", i), IP: fmt.Sprintf("10.0.%d.%d", i/250, i%250), Version: s.Cluster.Product.Version,
			Roles: []string{"data"}, Attributes: map[string]string{"region": f[0], "zone": f[1], "host": f[2]}, Processors: 1, CPU: -1,
			Disk: cluster.DiskUse{Total: 10 << 40, Available: 10 << 40}, Uptime: time.Hour,
		}
		n.Capacity[2] = 1
		n.Capacity[0], n.Capacity[1] = 1, 1
		s.Nodes = append(s.Nodes, n)
	}
	return &land{s, t}
}

// spots repeats a place for several nodes.
func spots(n int, place string) []string { return slices.Repeat([]string{place}, n) }

// index adds an index of shards with so many copies of a gigabyte each, every copy where at says, the first a primary.
func (l *land) index(name string, shards, copies int, at func(shard, copy int) int) {
	i := int32(len(l.Indices))
	l.Indices = append(l.Indices, cluster.Index{Name: name, UUID: name + "-uuid", Shards: shards, Replicas: copies - 1})
	for shard := range shards {
		for c := range copies {
			n := at(shard, c)
			k := cluster.Copy{
				Index: i, Shard: int32(shard), Node: int32(n), Target: cluster.None, Primary: c == 0, State: cluster.Started,
				AllocationID: fmt.Sprintf("%s/%d/%d", name, shard, c), Bytes: 1 << 30,
			}
			k.Load[2] = 1 << 30
			l.Copies = append(l.Copies, k)
			l.Nodes[n].Disk.Available -= k.Bytes
			l.Nodes[n].Disk.Store += k.Bytes
		}
	}
}

// anywhere deals copies out to nodes at random, no two of a shard to one.
func (l *land) anywhere(copies int, seed uint64) func(shard, copy int) int {
	rng := rand.New(rand.NewPCG(seed, 0))
	var order []int
	return func(_, c int) int {
		if c == 0 {
			order = rng.Perm(len(l.Nodes))[:copies]
		}
		return order[c]
	}
}

// regionPolicy balances disks and knows regions.
func regionPolicy() model.Policy {
	p := model.DefaultPolicy()
	p.Weights = map[string]float64{"search": 0, "index": 0}
	p.Regions = &model.Regions{Region: "region", Zone: "zone", Host: "host", Remainder: model.RemainderMain, Overload: 0.1, WAN: model.WAN{Factor: 4}}
	return p
}

// decide solves with a limit of work, so that every run is the same.
func (l *land) decide(policy model.Policy, seed uint64) (*Summary, error) {
	l.Sort()
	settings := Settings{Policy: policy, Mode: plan.DryRun, Solver: solver.Options{WorkLimit: 20_000_000, Seed: seed, Workers: 2}}
	return Decide(context.Background(), l.Snapshot, settings, solver.Solve)
}

func (l *land) mustDecide(policy model.Policy, seed uint64) *Summary {
	l.t.Helper()
	s, err := l.decide(policy, seed)
	if err != nil {
		l.t.Fatal(err)
	}
	return s
}

// spread counts the copies of every group per value of an attribute, at an assignment.
func (l *land) spread(s *Summary, node []int32, attribute string) map[string]map[string]int {
	count := make(map[string]map[string]int)
	for c := range s.Problem.Copies {
		name := s.Problem.Groups[s.Problem.Copies[c].Group].Name
		if count[name] == nil {
			count[name] = make(map[string]int)
		}
		at := l.NodeAt(cluster.NodeID(s.Problem.Nodes[node[c]].ID))
		count[name][l.Nodes[at].Attributes[attribute]]++
	}
	return count
}

func twoByThree() []string {
	var places []string
	for _, region := range []string{"A", "B"} {
		for zone := range 3 {
			for host := range 2 {
				places = append(places, fmt.Sprintf("%s %s%d %s%d-%d", region, region, zone, region, zone, host))
			}
		}
	}
	return places
}

// Two regions of three zones, three copies: every shard has two copies in one region and one in the other, none share a
// zone, and which region has two is even.
func TestA20EveryGroupTwoPlusOne(t *testing.T) {
	l := newLand(t, twoByThree()...)
	l.index("a", 1000, 3, l.anywhere(3, 1))
	s := l.mustDecide(regionPolicy(), 1)
	inA := 0
	for name, count := range l.spread(s, s.Result.Assignment, "region") {
		if count["A"]*count["B"] != 2 {
			t.Fatalf("%s: %v", name, count)
		}
		inA += count["A"] - 1
	}
	for name, count := range l.spread(s, s.Result.Assignment, "zone") {
		if len(count) != 3 {
			t.Fatalf("%s: %v", name, count)
		}
	}
	t.Logf("%d of 1000 shards have two copies in A; %v -> %v, at least %v", inA, s.Result.ObjectiveBefore, s.Result.Objective, s.Result.LowerBound)
	if inA < 450 || inA > 550 {
		t.Errorf("%d of 1000 shards have two copies in A", inA)
	}
}
