package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/shardonnay/shardonnay/internal/cluster/clustertest"
	"github.com/shardonnay/shardonnay/internal/model"
	"github.com/shardonnay/shardonnay/internal/plan"
	"github.com/shardonnay/shardonnay/internal/rightsize"
	"github.com/shardonnay/shardonnay/internal/sim"
)

// What would be is the same from a live cluster and from its capture, stands beside what is, and is never carried out.
func TestWhatIf(t *testing.T) {
	address := serve(t, lopsided(t, sim.Config{}), sim.Options{})
	captured := filepath.Join(t.TempDir(), "capture")
	execute(t, "capture", captured, "--address", address).expect(t, 0)
	changes := []string{"--what-if", "add-node:n4,like=n1", "--what-if", "remove-node:n2", "--what-if", "scale-load:a,search=2", "--what-if", "grow:*,disk=1.5"}
	read := func(args ...string) plan.Plan {
		t.Helper()
		r := execute(t, append(args, "-o", "json", "--max-moves", "0", "--max-bytes", "0")...)
		r.expect(t, 0)
		var p plan.Plan
		if err := json.Unmarshal([]byte(r.stdout), &p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	saved := filepath.Join(t.TempDir(), "plan.json")
	live := append([]string{"plan", "--address", address, "--one-sample", "--save", saved}, changes...)
	p, q, today := read(live...), read(append([]string{"plan", "--capture", captured}, changes...)...), read("plan", "--capture", captured)
	if p.WhatIf == nil || len(p.WhatIf.Changes) != 4 || p.WhatIf.Changes[0] != "add-node:n4,like=n1" || p.Snapshot.Nodes != 4 {
		t.Fatalf("%+v, %d nodes", p.WhatIf, p.Snapshot.Nodes)
	}
	if p.WhatIf.Today.Nodes != 3 || p.WhatIf.Today.Objective.Before != today.Objective.Before || p.WhatIf.Today.Totals.Moves != len(today.Moves) {
		t.Errorf("today is shown as %+v, it is %+v with %d moves", p.WhatIf.Today.Objective, today.Objective, len(today.Moves))
	}
	if p.Objective.Before != q.Objective.Before || len(p.Moves) != len(q.Moves) {
		t.Errorf("live %v and %d moves, captured %v and %d", p.Objective.Before, len(p.Moves), q.Objective.Before, len(q.Moves))
	}
	arrived := 0
	for _, m := range p.Moves {
		if m.To.Name == "n4" {
			arrived++
		}
		if m.To.Name == "n2" {
			t.Errorf("%s/%d goes to the node that is to be removed", m.Index, m.Shard)
		}
	}
	if arrived == 0 {
		t.Error("nothing goes to the new node")
	}
	execute(t, "apply", saved, "--address", address, "--yes").expect(t, 6, "it is for a cluster as it might be (add-node:n4,like=n1 remove-node:n2")
	execute(t, "plan", "--capture", captured, "--what-if", "remove-node:n9").expect(t, 2, "there is no node n9; there are n1, n2, n3")
	execute(t, "plan", "--capture", captured, "--what-if", "lose-moon:n9").expect(t, 2, "lose-zone:ZONE")
}

// The answer to how few nodes would do is the same from a live cluster and from its capture, and counts what might be.
func TestRightSize(t *testing.T) {
	address := serve(t, lopsided(t, sim.Config{}), sim.Options{})
	captured := filepath.Join(t.TempDir(), "capture")
	execute(t, "capture", captured, "--address", address).expect(t, 0)
	read := func(args ...string) rightsize.Generation {
		t.Helper()
		r := execute(t, append([]string{"plan", "--right-size", "-o", "json"}, args...)...)
		r.expect(t, 0)
		var a rightsize.Answer
		if err := json.Unmarshal([]byte(r.stdout), &a); err != nil {
			t.Fatal(err)
		}
		if len(a.Domains) != 1 || len(a.Domains[0].Generations) != 1 {
			t.Fatalf("%+v", a.Domains)
		}
		return a.Domains[0].Generations[0]
	}
	live, cold := read("--address", address, "--one-sample"), read("--capture", captured)
	if live.AtLeast != cold.AtLeast || live.Enough != cold.Enough || cold.Enough < 1 || cold.Enough > 3 {
		t.Errorf("live at least %d and enough %d, captured %d and %d", live.AtLeast, live.Enough, cold.AtLeast, cold.Enough)
	}
	doubled := read("--capture", captured, "--what-if", "scale-load:*,search=4")
	if doubled.AtLeast <= cold.AtLeast || doubled.Enough < doubled.AtLeast {
		t.Errorf("for four times the searches at least %d and enough %d, before %d", doubled.AtLeast, doubled.Enough, cold.AtLeast)
	}
	if table := execute(t, "plan", "--capture", captured, "--right-size").stdout; !strings.Contains(table, "at least") || !strings.Contains(table, "n1") {
		t.Error(table)
	}
	execute(t, "plan", "--capture", captured, "--right-size", "--limit", "search=2").expect(t, 2, "a share above 0 and at most 1")
	for _, ofAPlan := range [][]string{{"--save", filepath.Join(t.TempDir(), "plan.json")}, {"--dump-problem", filepath.Join(t.TempDir(), "problem")}, {"--detailed-exit-code"}} {
		execute(t, append([]string{"plan", "--capture", captured, "--right-size"}, ofAPlan...)...).expect(t, 2, "right-size", ofAPlan[0][2:])
	}
	execute(t, "plan", "--capture", captured, "--limit", "search=0.5").expect(t, 2, "--limit", "--right-size")
	execute(t, "plan", "--capture", captured, "--right-size", "--limit", "search=half").expect(t, 2, `"half" is not a number`)
}

// A cluster without any index is as even as can be, for every command that looks at it.
func TestEmptyCluster(t *testing.T) {
	virtual := sim.New(sim.Config{Seed: 1})
	for _, name := range []string{"n1", "n2"} {
		if _, err := virtual.AddNode(sim.NodeSpec{Name: name, Processors: 4}); err != nil {
			t.Fatal(err)
		}
	}
	address := serve(t, virtual, sim.Options{})
	captured := filepath.Join(t.TempDir(), "capture")
	for _, args := range [][]string{
		{"plan", "--one-sample"},
		{"plan", "--one-sample", "-o", "json"},
		{"plan", "--one-sample", "--what-if", "remove-node:n2"},
		{"plan", "--one-sample", "--right-size"},
		{"doctor"},
		{"capture", captured},
	} {
		r := execute(t, append(args, "--address", address)...)
		r.expect(t, 0)
		if r.stdout == "" && args[0] != "capture" {
			t.Errorf("%v says nothing", args)
		}
	}
	execute(t, "plan", "--capture", captured).expect(t, 0)
}

// Right-size counts the loss of a zone itself: once, also where plans count loads with a zone lost.
func TestRightSizeWhereZonesTakeTurns(t *testing.T) {
	s, err := clustertest.Parse(`
set awareness=zone forced=a,b,c
node n1 zone=a processors=4 disk=100gb free=60gb
node n2 zone=b processors=4 disk=100gb free=60gb
node n3 zone=c processors=4 disk=100gb free=60gb
index i replicas=2
copy i/0 p n1 bytes=1gb search=1
copy i/0 r n2 bytes=1gb search=1
copy i/0 r n3 bytes=1gb search=1
`)
	if err != nil {
		t.Fatal(err)
	}
	answer := func(change func(*model.Policy)) string {
		policy := model.DefaultPolicy()
		change(&policy)
		var out bytes.Buffer
		if err := rightSize(&out, s, &policy, nil, nil, asJSON); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	plain := answer(func(*model.Policy) {})
	turns := answer(func(p *model.Policy) { p.Zones, p.MaxLoadAfterLoss = "zone", 0.7 })
	if diff := cmp.Diff(plain, turns); diff != "" || !strings.Contains(plain, `"zone_lost": 0.375`) {
		t.Error(plain, diff)
	}
}
