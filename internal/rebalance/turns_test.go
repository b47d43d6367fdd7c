package rebalance

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/shardonnay/shardonnay/internal/cluster/clustertest"
	"github.com/shardonnay/shardonnay/internal/model"
	"github.com/shardonnay/shardonnay/internal/plan"
	"github.com/shardonnay/shardonnay/internal/solver"
)

// decided plans for a cluster in which zones take turns, or all serve.
func decided(t *testing.T, text string, turns bool) *Summary {
	t.Helper()
	s, err := clustertest.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	policy := model.DefaultPolicy()
	if turns {
		policy.Zones = "zone"
	}
	summary, err := Decide(t.Context(), s, Settings{
		Mode: plan.DryRun, Policy: policy, Solver: solver.Options{WorkLimit: 300_000, Seed: 1, Workers: 1},
	}, solver.Solve)
	if err != nil {
		t.Fatal(err)
	}
	return summary
}

// TestSearchLoadOfZonesThatTakeTurns: a copy counts for what it has to carry while another zone rests, whether or not its
// own rests now.
func TestSearchLoadOfZonesThatTakeTurns(t *testing.T) {
	const text = `
set awareness=zone forced=a,b,c
node n1 zone=a disk=100gb free=60gb
node n2 zone=b disk=100gb free=60gb
node n3 zone=c disk=100gb free=60gb
index three replicas=2
index two replicas=1
index one
copy three/0 p n1 bytes=1gb search=0.3
copy three/0 r n2 bytes=1gb search=0.3
copy three/0 r n3 bytes=1gb search=0.3
copy two/0 p n1 bytes=1gb search=0.2
copy two/0 r n2 bytes=1gb search=0.2
copy one/0 p n1 bytes=1gb search=0.1
`
	want := map[string]float64{
		"three/0": 0.45, // of 0.9 in all, by two while one rests
		"two/0":   0.4,  // of 0.4 in all, alone while the zone of the other rests
		"one/0":   0.1,  // alone, always
	}
	p := decided(t, text, true).Problem
	for _, c := range p.Copies {
		name := p.Groups[c.Group].Name
		if math.Abs(c.Load[0]-want[name]) > 1e-12 {
			t.Errorf("a copy of %s counts for %g, want %g", name, c.Load[0], want[name])
		}
	}
	for _, g := range p.Groups {
		floors := 0
		if g.Name == "three/0" {
			floors = 1
		}
		if len(g.TierFloors) != floors {
			t.Errorf("%s has the floors %v", g.Name, g.TierFloors)
		}
	}
	measured := map[string]float64{"three/0": 0.3, "two/0": 0.2, "one/0": 0.1}
	p = decided(t, text, false).Problem
	for _, c := range p.Copies {
		if g := p.Groups[c.Group]; c.Load[0] != measured[g.Name] || len(g.TierFloors) > 0 {
			t.Errorf("without turns a copy of %s counts for %g, with the floors %v", g.Name, c.Load[0], g.TierFloors)
		}
	}
}

// TestNoZoneLosesItsLastCopy: with four copies in three zones awareness lets two be in each of two, and none in the third.
// Whatever balance would gain, a zone that has a copy keeps one.
func TestNoZoneLosesItsLastCopy(t *testing.T) {
	var text strings.Builder
	text.WriteString("set awareness=zone forced=a,b,c\n")
	for _, node := range []string{"a1", "a2", "b1", "b2", "c1"} {
		fmt.Fprintf(&text, "node %s zone=%s disk=1000gb free=900gb\n", node, node[:1])
	}
	for i := range 12 {
		fmt.Fprintf(&text, "index i%d replicas=3\n", i)
	}
	for i := range 12 { // all of zone c is on one node, and hot
		at := []string{"a1", "b1", "b2", "c1"}
		if i%2 == 0 {
			at = []string{"a1", "a2", "b1", "c1"}
		}
		for k, node := range at {
			role := "r"
			if k == 0 {
				role = "p"
			}
			fmt.Fprintf(&text, "copy i%d/0 %s %s bytes=1gb search=0.2\n", i, role, node)
		}
	}
	empty := func(s *Summary) int {
		at := make(map[string]string) // zone of each copy after the plan
		for c := range s.Snapshot.Copies {
			k := &s.Snapshot.Copies[c]
			at[k.AllocationID] = s.Snapshot.Nodes[k.Node].Attributes["zone"]
		}
		for _, m := range s.Plan.Moves {
			at[m.AllocationID] = m.To.Zone
		}
		in := make(map[string]map[string]bool)
		for id, zone := range at {
			index, _, _ := strings.Cut(id, "/")
			if in[index] == nil {
				in[index] = make(map[string]bool)
			}
			in[index][zone] = true
		}
		n := 0
		for _, zones := range in {
			n += 3 - len(zones)
		}
		return n
	}
	if n := empty(decided(t, text.String(), false)); n == 0 {
		t.Error("without turns nothing leaves zone c either: this shows nothing")
	}
	turned := decided(t, text.String(), true)
	if n := empty(turned); n > 0 {
		t.Errorf("%d shards have lost a zone:\n%v", n, turned.Plan.Moves)
	}
}
