package rebalance

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/cluster/clustertest"
	"github.com/shardonnay/shardonnay/internal/model"
	"github.com/shardonnay/shardonnay/internal/plan"
	"github.com/shardonnay/shardonnay/internal/solver"
)

// drawZoned draws a cluster of two to four zones, kept apart by awareness: the zones as large as each other or not, shards with
// a copy in every zone or with any number, placed as awareness lets them.
func drawZoned(t *rapid.T, wholly bool) *cluster.Snapshot {
	s, err := clustertest.Parse("set awareness=zone")
	if err != nil {
		t.Fatal(err)
	}
	zones := rapid.IntRange(2, 4).Draw(t, "zones")
	names := []string{"a", "b", "c", "d"}[:zones]
	if rapid.Bool().Draw(t, "forced") {
		s.Settings.ForcedAwareness = map[string][]string{"zone": names}
	}
	of := make([][]int32, zones)
	for z := range zones {
		for i := range rapid.IntRange(2, 4).Draw(t, "nodes") {
			name := fmt.Sprintf("%s%d", names[z], i)
			processors := rapid.SampledFrom([]float64{1, 1, 2}).Draw(t, "processors")
			of[z] = append(of[z], int32(len(s.Nodes)))
			s.Nodes = append(s.Nodes, cluster.Node{
				ID: cluster.NodeID(name), Name: name, Version: s.Cluster.Product.Version, Roles: []string{"data"}, Attributes: map[string]string{"zone": names[z]},
				Processors: processors, Capacity: cluster.Load{processors, processors, 1 << 40}, Disk: cluster.DiskUse{Total: 1 << 40, Available: 1 << 39},
				Base: cluster.Load{rapid.SampledFrom([]float64{0, 0, 0.05}).Draw(t, "base")},
			})
		}
	}
	for i := range rapid.IntRange(1, 12).Draw(t, "indices") {
		copies := zones
		if !wholly {
			copies = rapid.IntRange(1, zones+1).Draw(t, "copies")
		}
		s.Indices = append(s.Indices, cluster.Index{Name: fmt.Sprintf("i%d", i), UUID: fmt.Sprintf("u%d", i), Shards: 1, Replicas: copies - 1})
		search := float64(rapid.IntRange(0, 400).Draw(t, "search")) / 1000
		order := rapid.Permutation([]int{0, 1, 2, 3}[:zones]).Draw(t, "order")
		var at []int32
		for c := range copies {
			n := rapid.SampledFrom(of[order[c%zones]]).Draw(t, "node")
			for slices.Contains(at, n) {
				n = of[order[c%zones]][(slices.Index(of[order[c%zones]], n)+1)%len(of[order[c%zones]])]
			}
			at = append(at, n)
			k := cluster.Copy{
				Index: int32(i), Node: n, Target: cluster.None, Primary: c == 0, State: cluster.Started, AllocationID: fmt.Sprintf("%d/%d", i, c), Bytes: 1 << 30,
			}
			k.Load = cluster.Load{search, float64(rapid.IntRange(0, 200).Draw(t, "index")) / 1000, float64(k.Bytes)}
			s.Copies = append(s.Copies, k)
		}
	}
	s.Sort()
	return s
}

// lost counts what every node carries in search with a zone lost, shard by shard, from nothing but who has which copies.
func lost(s *cluster.Snapshot, at map[string]cluster.NodeID, zone string) map[cluster.NodeID]float64 {
	zoneOf, sum := make(map[cluster.NodeID]string), make(map[cluster.NodeID]float64)
	for n := range s.Nodes {
		zoneOf[s.Nodes[n].ID] = s.Nodes[n].Attributes["zone"]
		sum[s.Nodes[n].ID] = s.Nodes[n].Base[0]
	}
	searches, holders := make(map[int32]float64), make(map[int32][]cluster.NodeID)
	for c := range s.Copies {
		k := &s.Copies[c]
		searches[k.Index] += k.Load[0]
		if node := at[k.AllocationID]; zoneOf[node] != zone {
			holders[k.Index] = append(holders[k.Index], node)
		}
	}
	for index, nodes := range holders {
		for _, node := range nodes {
			sum[node] += searches[index] / float64(len(nodes))
		}
	}
	return sum
}

// indexing counts what every node carries in index; a lost zone changes nothing about it.
func indexing(s *cluster.Snapshot, at map[string]cluster.NodeID) map[cluster.NodeID]float64 {
	sum := make(map[cluster.NodeID]float64)
	for c := range s.Copies {
		sum[at[s.Copies[c].AllocationID]] += s.Copies[c].Load[1]
	}
	return sum
}

// worstCase is what lost can be at most on each node for any zone and any placement that awareness allows: each copy serves with
// as few others as there may be.
func worstCase(s *cluster.Snapshot, zones int) map[cluster.NodeID]float64 {
	sum := make(map[cluster.NodeID]float64)
	for n := range s.Nodes {
		sum[s.Nodes[n].ID] = s.Nodes[n].Base[0]
	}
	for c := range s.Copies {
		k := &s.Copies[c]
		copies := s.Indices[k.Index].Replicas + 1
		left := max(1, copies-(copies+zones-1)/zones)
		sum[s.Nodes[k.Node].ID] += k.Load[0] * float64(copies) / float64(left)
	}
	return sum
}

// TestLoadAfterTheLossOfAnyZone: whatever a plan moves, no node comes above the limit for the loss of any zone, nor
// further above it; and what is above all the same the plan says.
func TestLoadAfterTheLossOfAnyZone(t *testing.T) {
	moved, relieved, explained := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		wholly := rapid.Bool().Draw(t, "a copy in every zone")
		s := drawZoned(t, wholly)
		zones := make(map[string]bool)
		at := make(map[string]cluster.NodeID)
		for n := range s.Nodes {
			zones[s.Nodes[n].Attributes["zone"]] = true
		}
		for c := range s.Copies {
			at[s.Copies[c].AllocationID] = s.Nodes[s.Copies[c].Node].ID
		}
		policy := model.DefaultPolicy()
		policy.PinWriteShare, policy.Zones = 0, "zone"
		policy.MaxLoadAfterLoss = rapid.SampledFrom([]float64{0.3, 0.5, 0.7, 0.9}).Draw(t, "limit")
		policy.Tolerance = rapid.SampledFrom([]float64{0.05, 0.5}).Draw(t, "tolerance")
		indexed := indexing(s, at)
		worst := worstCase(s, len(zones))
		before := make(map[string]map[cluster.NodeID]float64)
		for zone := range zones {
			before[zone] = lost(s, at, zone)
		}
		summary, err := Decide(t.Context(), s, Settings{
			Mode: plan.DryRun, Policy: policy, Solver: solver.Options{WorkLimit: 20_000, Seed: 1, Workers: 1},
		}, solver.Solve)
		if err != nil {
			t.Fatal(err)
		}
		limit := func(n *cluster.Node) float64 { return policy.MaxLoadAfterLoss * n.Capacity[0] }
		zoneOf := func(n *cluster.Node) string { return n.Attributes["zone"] }
		for i := range summary.Plan.Moves {
			at[summary.Plan.Moves[i].AllocationID] = summary.Plan.Moves[i].To.ID
			moved++
		}
		for zone := range zones {
			after := lost(s, at, zone)
			for n := range s.Nodes {
				node := &s.Nodes[n]
				if zoneOf(node) == zone {
					continue
				}
				most := max(limit(node), worst[node.ID])
				if wholly { // then what is counted is what is: the loss of any zone is like that of any other
					most = limit(node)
					for other := range zones {
						if other != zoneOf(node) {
							most = max(most, before[other][node.ID])
						}
					}
				}
				if index := indexing(s, at)[node.ID]; index > max(limit(node), indexed[node.ID])*(1+1e-6) {
					t.Fatalf("%s indexes %g of at most %g", node.Name, index, limit(node))
				}
				if after[node.ID] > most*(1+1e-6)+1e-9 {
					t.Fatalf("with zone %s lost %s carries %g of at most %g", zone, node.Name, after[node.ID], most)
				}
			}
		}
		for n := range s.Nodes {
			node := &s.Nodes[n]
			above, was := false, false
			for zone := range zones {
				if zoneOf(node) != zone {
					above = above || lost(s, at, zone)[node.ID] > limit(node)*(1+1e-4)
					was = was || before[zone][node.ID] > limit(node)*(1+1e-4)
				}
			}
			said := slices.ContainsFunc(summary.Plan.Verdicts, func(v plan.Verdict) bool {
				return v.Kind == plan.ZoneLoss && v.Subject == "node/"+node.Name && slices.Contains(v.Binding, "search")
			})
			switch {
			case above && !said:
				t.Fatalf("%s is above its limit of %g, and the plan does not say so: %+v", node.Name, limit(node), summary.Plan.Verdicts)
			case above:
				explained++
			case was:
				relieved++
			}
		}
	})
	if moved == 0 || relieved == 0 || explained == 0 {
		t.Errorf("%d moves, %d nodes relieved, %d explained: this shows nothing", moved, relieved, explained)
	}
	t.Logf("%d moves, %d nodes relieved, %d explained", moved, relieved, explained)
}
