package solver

import (
	"maps"
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
	return cost + f.tableCost(g, at, depths), true
}

// tableCost is what group g pays for the wishes of its tables with its copies at these nodes; given depths, at those only.
func (f *frame) tableCost(g int32, at []int32, depths []int) (cost float64) {
	for _, t := range f.p.Groups[g].TierTables {
		table := &f.tables[t]
		if depths != nil && !slices.Contains(depths, table.row) {
			continue
		}
		row := f.tiers[table.row]
		count := func(value int32) (count int) {
			for _, n := range at {
				if row[n] == value {
					count++
				}
			}
			return count
		}
		for i, n := range at {
			if most, capped := table.most[row[n]]; capped && !slices.ContainsFunc(at[:i], func(m int32) bool { return row[m] == row[n] }) {
				cost += table.price * float64(max(0, count(row[n])-most))
			}
		}
		for _, floor := range table.floors {
			cost += table.price * float64(max(0, floor.least-count(floor.value)))
		}
	}
	return cost
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
	for _, t := range group.TierTables {
		table := &f.tables[t]
		row := f.tiers[table.row]
		from, to := row[f.p.Copies[c].Node], row[n]
		if from == to {
			continue
		}
		if most, capped := table.most[from]; capped && count(row, from) > most {
			gain += table.price
		}
		for _, floor := range table.floors {
			if floor.value == to && count(row, to) < floor.least {
				gain += table.price
			}
		}
	}
	return gain
}

// tierTable is one of the problem's tables by the ids of its values.
type tierTable struct {
	row    int // of frame.tiers
	price  float64
	most   map[int32]int
	floors []tierFloor
}

type tierFloor struct {
	value int32 // -1 where no node has it
	least int
}

// prepareTables compiles the tables. What they wish of values that no node has is the same wherever the copies are, and
// paid like the rest.
func (f *frame) prepareTables() {
	for t := range f.p.TierTables {
		source := &f.p.TierTables[t]
		table := tierTable{row: min(source.Depth, len(f.tiers)-1), most: make(map[int32]int)}
		if source.Depth < len(f.p.Objective.TierExcess) {
			table.price = f.p.Objective.TierExcess[source.Depth]
		}
		id := make(map[string]int32)
		for n := range f.p.Nodes {
			value := ""
			if table.row < len(f.p.Nodes[n].Tiers) {
				value = f.p.Nodes[n].Tiers[table.row]
			}
			id[value] = f.tiers[table.row][n]
		}
		for value, count := range source.Caps {
			if at, known := id[value]; known {
				table.most[at] = count
			}
		}
		for _, value := range slices.Sorted(maps.Keys(source.Floors)) {
			at, known := id[value]
			if !known {
				at = -1
			}
			table.floors = append(table.floors, tierFloor{at, source.Floors[value]})
		}
		f.tables = append(f.tables, table)
	}
}

// settled tells whether no legal move of group g changes what it pays for tiers: it pays nothing and wishes nothing.
func (f *frame) settled(g int32) bool { return f.tierNow[g] == 0 && len(f.p.Groups[g].TierTables) == 0 }
