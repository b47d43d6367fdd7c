package solver

import (
	"slices"

	"github.com/shardonnay/shardonnay/internal/model"
)

// move is one copy going to a node.
type move struct{ copy, node int32 }

// placed is where the copies of group g are after the moves.
func (f *frame) placed(g int32, moves []move) []int32 {
	members := f.group(g)
	at := make([]int32, len(members))
	for i, c := range members {
		at[i] = f.p.Copies[c].Node
		for _, m := range moves {
			if m.copy == c {
				at[i] = m.node
			}
		}
	}
	return at
}

// judge tells what group g pays for tiers after the moves, and whether they keep the rules that are the group's own:
// same_shard, caps and floors.
func (f *frame) judge(g int32, moves []move) (cost float64, legal bool) {
	at, members := f.placed(g, moves), f.group(g)
	for i := range at {
		now, was := 0, 0
		for j := range at {
			if at[j] == at[i] {
				now++
			}
			if f.p.Copies[members[j]].Node == at[i] {
				was++
			}
		}
		if now > max(1, was) {
			return 0, false
		}
	}
	return f.tierRules(g, at, nil)
}

func (f *frame) tierPrice(limit model.TierLimit) float64 {
	if limit.Depth() < len(f.p.Objective.TierExcess) {
		return f.p.Objective.TierExcess[limit.Depth()]
	}
	return 0
}

// tierRow is every node's value at the depth a limit is about.
func (f *frame) tierRow(limit model.TierLimit) (row []int32, depth int) {
	depth = min(limit.Depth(), len(f.tiers)-1)
	return f.tiers[depth], depth
}

// tierRules is what group g pays for caps and floors with its copies at these nodes, and whether none is more broken
// than now. Given depths, it looks at those only.
func (f *frame) tierRules(g int32, at []int32, depths []int) (cost float64, legal bool) {
	group, members := &f.p.Groups[g], f.group(g)
	is := func(row []int32, value int32) (count int) {
		for _, n := range at {
			if row[n] == value {
				count++
			}
		}
		return count
	}
	was := func(row []int32, value int32) (count int) {
		for _, c := range members {
			if row[f.p.Copies[c].Node] == value {
				count++
			}
		}
		return count
	}
	for _, limit := range group.TierCaps {
		row, depth := f.tierRow(limit)
		if depths != nil && !slices.Contains(depths, depth) {
			continue
		}
		for i, n := range at {
			if slices.ContainsFunc(at[:i], func(m int32) bool { return row[m] == row[n] }) {
				continue // counted
			}
			if above := is(row, row[n]) - limit.Count(); above > 0 {
				if above > was(row, row[n])-limit.Count() {
					return 0, false
				}
				cost += f.tierPrice(limit) * float64(above)
			}
		}
	}
	for _, limit := range group.TierFloors {
		row, depth := f.tierRow(limit)
		if depths != nil && !slices.Contains(depths, depth) {
			continue
		}
		for _, value := range f.floorValues(group.Class, row) {
			if missing := limit.Count() - is(row, value); missing > 0 {
				if missing > max(0, limit.Count()-was(row, value)) {
					return 0, false
				}
				cost += f.tierPrice(limit) * float64(missing)
			}
		}
	}
	return cost, true
}

// floorValues are the values of a class's nodes in a row of tiers.
func (f *frame) floorValues(class int32, row []int32) []int32 {
	var values []int32
	for _, n := range f.p.Classes[class].Nodes {
		if !slices.Contains(values, row[n]) {
			values = append(values, row[n])
		}
	}
	return values
}

// tierGain is at least what group g stops paying for tiers because copy c goes to node n, whatever its other copies do
// (positive). A cap's excess falls by one at most if the copy's value has any, a floor's lack by one at most if the new
// value lacks any; what the move would add elsewhere may be offset by the others and is not counted.
func (f *frame) tierGain(c, n int32) (gain float64) {
	g := f.p.Copies[c].Group
	if f.tierNow[g] == 0 {
		return 0
	}
	group := &f.p.Groups[g]
	count := func(row []int32, value int32) (k int) {
		for _, e := range f.group(g) {
			if row[f.p.Copies[e].Node] == value {
				k++
			}
		}
		return k
	}
	for _, limit := range group.TierCaps {
		row, _ := f.tierRow(limit)
		from := row[f.p.Copies[c].Node]
		if from != row[n] && count(row, from) > limit.Count() {
			gain += f.tierPrice(limit)
		}
	}
	for _, limit := range group.TierFloors {
		row, _ := f.tierRow(limit)
		if row[f.p.Copies[c].Node] != row[n] && count(row, row[n]) < limit.Count() {
			gain += f.tierPrice(limit)
		}
	}
	return gain
}
