// Package instancetest draws arbitrary small problems for property tests: every kind of rule and price, states that
// break rules, nodes without capacity, several domains. It stands after model and is imported by tests only.
package instancetest

import (
	"fmt"
	"math"

	"pgregory.net/rapid"

	"github.com/shardonnay/shardonnay/internal/model"
)

// Problem draws a valid problem of at most nodes nodes and copies copies. Loads and sizes are small integers, so that
// sums are exact and a rule that holds with equality is not a matter of rounding.
func Problem(t *rapid.T, nodes, copies int) *model.Problem {
	some := func(label string, oneIn int) bool { return rapid.IntRange(1, oneIn).Draw(t, label) == oneIn }
	number := func(label string, most int) float64 { return float64(rapid.IntRange(0, most).Draw(t, label)) }
	// Sampled, for ranges favour small numbers, and a problem of one node and no copy tests little.
	size := func(label string, from, to int) int {
		var sizes []int
		for i := from; i <= to; i++ {
			sizes = append(sizes, i)
		}
		return rapid.SampledFrom(sizes).Draw(t, label)
	}
	p := &model.Problem{Version: model.ProblemVersion, Name: "drawn"}
	N, D := size("nodes", 1, nodes), size("dimensions", 1, 3)
	for d := range D {
		p.Dimensions = append(p.Dimensions, model.Dimension{
			Name: fmt.Sprint("d", d), Weight: number("weight", 2), Shift: number("shift", 2) / 8,
		})
	}
	depths := rapid.IntRange(0, 2).Draw(t, "depths")
	for n := range N {
		node := model.Node{ID: fmt.Sprint("n", n), AcceptsNew: !some("draining", 6)}
		for range D {
			capacity := 1 + number("capacity", 3)
			if some("no capacity", 10) {
				capacity = 0
			}
			node.Capacity = append(node.Capacity, capacity)
		}
		if some("base", 4) {
			for range D {
				node.Base = append(node.Base, number("base load", 3))
			}
		}
		if some("disk limit", 3) {
			node.Disk = model.Disk{Limit: 1 + number("limit", 12), UsedOther: number("others", 2)}
		}
		if some("max copies", 5) {
			node.MaxCopies = rapid.IntRange(1, 3).Draw(t, "most copies")
		}
		if some("load limit", 4) {
			for range D {
				node.MaxLoad = append(node.MaxLoad, number("most load", 12))
			}
		}
		for depth := range rapid.IntRange(0, depths).Draw(t, "tiers") {
			node.Tiers = append(node.Tiers, fmt.Sprint("t", depth, rapid.IntRange(0, 1).Draw(t, "tier")))
		}
		p.Nodes = append(p.Nodes, node)
	}
	for range rapid.IntRange(1, 3).Draw(t, "classes") {
		var class model.Class
		for n := range N {
			if !some("not in class", 3) {
				class.Nodes = append(class.Nodes, int32(n))
			}
		}
		p.Classes = append(p.Classes, class)
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "indices") {
		index := model.Index{Name: fmt.Sprint("i", i), SpreadWeight: number("spread weight", 2)}
		if some("max per node", 4) {
			index.MaxPerNode = rapid.IntRange(1, 2).Draw(t, "most per node")
		}
		if some("spread", 2) {
			index.FairPerNode = rapid.IntRange(1, 2).Draw(t, "fair per node")
		}
		p.Indices = append(p.Indices, index)
	}
	// Values of tables: those that nodes may have, none, and one that no node has.
	value := func(depth int) string {
		return rapid.SampledFrom([]string{fmt.Sprint("t", depth, 0), fmt.Sprint("t", depth, 1), "", "nowhere"}).Draw(t, "value")
	}
	for range rapid.IntRange(0, 2).Draw(t, "tier tables") {
		table := model.TierTable{Depth: rapid.IntRange(0, 2).Draw(t, "depth"), Caps: map[string]int{}, Floors: map[string]int{}}
		for range rapid.IntRange(0, 2).Draw(t, "values") {
			table.Caps[value(table.Depth)] = rapid.IntRange(0, 2).Draw(t, "at most")
			table.Floors[value(table.Depth)] = rapid.IntRange(0, 2).Draw(t, "at least")
		}
		p.TierTables = append(p.TierTables, table)
	}
	for range rapid.IntRange(0, 2).Draw(t, "toll tables") {
		table := model.TollTable{Depth: rapid.IntRange(0, 2).Draw(t, "depth"), Price: map[string]float64{}}
		for range rapid.IntRange(0, 2).Draw(t, "values") {
			table.Price[value(table.Depth)] = number("price", 3) / 8
		}
		p.TollTables = append(p.TollTables, table)
	}
	for C := size("copies", 0, copies); C > 0; {
		g := int32(len(p.Groups))
		group := model.Group{
			Index: int32(rapid.IntRange(0, len(p.Indices)-1).Draw(t, "index")), Name: fmt.Sprint("g", g),
			Class: int32(rapid.IntRange(0, len(p.Classes)-1).Draw(t, "class")),
		}
		for depth := range 3 {
			if some("cap", 4) {
				group.TierCaps = append(group.TierCaps, model.TierLimit{depth, rapid.IntRange(0, 2).Draw(t, "most")})
			}
			if some("floor", 6) {
				group.TierFloors = append(group.TierFloors, model.TierLimit{depth, rapid.IntRange(0, 2).Draw(t, "least")})
			}
		}
		for at := range p.TierTables {
			if some("table", 2) {
				group.TierTables = append(group.TierTables, int32(at))
			}
		}
		p.Groups = append(p.Groups, group)
		for range size("copies of the group", 1, min(C, 3)) {
			C--
			k := model.Copy{
				Group: g, Node: int32(rapid.IntRange(0, N-1).Draw(t, "at")), Pinned: some("pinned", 8), MustLeave: some("must leave", 6),
				MoveWeight: number("move weight", 2), Bytes: number("bytes", 5),
			}
			for range D {
				k.Load = append(k.Load, float64(size("load", 0, 6)))
			}
			for at := range p.TollTables {
				if some("toll", 3) {
					k.Tolls = append(k.Tolls, model.Toll{Table: int32(at), Factor: number("factor", 2)})
				}
			}
			p.Copies = append(p.Copies, k)
		}
	}
	slope, point := 0.0, 1.0
	for range size("knots", 0, 3) {
		slope += float64(size("steeper", 0, 4)) / 4
		p.Objective.Phi.Points = append(p.Objective.Phi.Points, point)
		p.Objective.Phi.Slopes = append(p.Objective.Phi.Slopes, slope)
		point += (1 + number("further", 3)) / 8
	}
	p.Objective.Spread.PerCopy = number("spread price", 4) / 16
	p.Objective.Move = model.MovePrice{PerByte: number("per byte", 4) / 256, PerMove: number("per move", 4) / 256}
	p.Objective.MustLeave = number("must leave price", 3)
	for range rapid.IntRange(0, 3).Draw(t, "tier prices") {
		p.Objective.TierExcess = append(p.Objective.TierExcess, number("tier price", 4)/4)
	}
	if some("move budget", 6) {
		p.Limits.MaxMoves = rapid.IntRange(1, 3).Draw(t, "max moves")
	}
	if some("byte budget", 6) {
		p.Limits.MaxBytes = 1 + number("max bytes", 8)
	}
	if err := p.Validate(); err != nil {
		t.Fatalf("drew an invalid problem: %v", err)
	}
	return p
}

// Assignment draws any assignment, legal or not.
func Assignment(t *rapid.T, p *model.Problem) []int32 {
	node := p.Current()
	for c := range node {
		if rapid.Bool().Draw(t, "moved") {
			node[c] = int32(rapid.IntRange(0, len(p.Nodes)-1).Draw(t, "to"))
		}
	}
	return node
}

// Close tells whether two objectives are the same number up to what the order of summing does: one part in 10^9.
func Close(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(a), math.Abs(b)) }
