package model

import (
	"fmt"
	"iter"
	"slices"
)

// Violation is one hard rule that an assignment breaks although the present state does not break it as much.
type Violation struct {
	Rule string // the decider's name: "same_shard", "filter", "awareness", "disk_threshold", "shards_limit", ...
	Text string
}

func (v Violation) String() string { return v.Rule + ": " + v.Text }

// diskSlack absorbs rounding in sums of many sizes: one part in 10^9 of a disk is a kilobyte on a terabyte.
const diskSlack = 1e-9

// Check returns every hard rule that the assignment breaks, none for a legal one. A rule the present state already breaks
// only asks for not making it worse. Check shares no code with the search.
func Check(p *Problem, node []int32) []Violation {
	if len(node) != len(p.Copies) {
		return []Violation{{"assignment", fmt.Sprintf("has %d entries for %d copies", len(node), len(p.Copies))}}
	}
	for c, n := range node {
		if n < 0 || int(n) >= len(p.Nodes) {
			return []Violation{{"assignment", fmt.Sprintf("copy %d is on node position %d of %d", c, n, len(p.Nodes))}}
		}
	}
	var found []Violation
	broken := func(rule, format string, args ...any) {
		found = append(found, Violation{rule, fmt.Sprintf(format, args...)})
	}
	before := p.Current()
	moves, bytes := 0, 0.0
	for c := range p.Copies {
		k := &p.Copies[c]
		if node[c] == k.Node {
			continue
		}
		moves, bytes = moves+1, bytes+k.Bytes
		group := &p.Groups[k.Group]
		target := p.Nodes[node[c]].ID
		if k.Pinned {
			broken("pinned", "copy %d of %s moved to %s", c, group.Name, target)
		}
		if _, in := slices.BinarySearch(p.Classes[group.Class].Nodes, node[c]); !in {
			broken("filter", "copy %d of %s moved to %s, which its class does not hold", c, group.Name, target)
		}
		if !p.Nodes[node[c]].AcceptsNew {
			broken("accepts_new", "copy %d of %s moved to %s", c, group.Name, target)
		}
	}
	if p.Limits.MaxMoves > 0 && moves > p.Limits.MaxMoves {
		broken("budget", "%d moves of at most %d", moves, p.Limits.MaxMoves)
	}
	if p.Limits.MaxBytes > 0 && bytes > p.Limits.MaxBytes*(1+diskSlack) {
		broken("budget", "%.0f bytes of at most %.0f", bytes, p.Limits.MaxBytes)
	}
	p.compareCounts(before, node, func(c int, n int32) [2]int32 { return [2]int32{p.Copies[c].Group, n} },
		func([2]int32) int { return 1 },
		func(key [2]int32, count int) {
			broken("same_shard", "%d copies of %s on %s", count, p.Groups[key[0]].Name, p.Nodes[key[1]].ID)
		})
	p.compareCounts(before, node, func(_ int, n int32) [2]int32 { return [2]int32{0, n} },
		func(key [2]int32) int { return p.Nodes[key[1]].MaxCopies },
		func(key [2]int32, count int) { broken("shards_limit", "%d copies on %s", count, p.Nodes[key[1]].ID) })
	p.compareCounts(before, node, func(c int, n int32) [2]int32 { return [2]int32{p.Groups[p.Copies[c].Group].Index, n} },
		func(key [2]int32) int { return p.Indices[key[0]].MaxPerNode },
		func(key [2]int32, count int) {
			broken("shards_limit", "%d copies of %s on %s", count, p.Indices[key[0]].Name, p.Nodes[key[1]].ID)
		})
	usedBefore, usedAfter := p.diskUsed(before), p.diskUsed(node)
	for n := range p.Nodes {
		limit := p.Nodes[n].Disk.Limit
		if limit > 0 && usedAfter[n] > max(limit, usedBefore[n])*(1+diskSlack) {
			broken("disk_threshold", "%s would hold %.0f bytes of at most %.0f", p.Nodes[n].ID, usedAfter[n], limit)
		}
	}
	for d, dimension := range p.Dimensions {
		loadBefore, loadAfter := p.loadOf(before, d), p.loadOf(node, d)
		for c := range p.Copies {
			if k := &p.Copies[c]; k.MustLeave && node[c] != k.Node {
				loadAfter[node[c]] -= k.Load[d] // where it has to go it may
			}
		}
		for n := range p.Nodes {
			if limit := p.Nodes[n].maxLoad(d); limit > 0 && loadAfter[n] > max(limit, loadBefore[n])*(1+diskSlack) {
				broken("overload", "%s would carry %g of at most %g in %s", p.Nodes[n].ID, loadAfter[n], limit, dimension.Name)
			}
		}
	}
	excessBefore := make(map[tierKey]int)
	for excess := range p.tierExcess(before) { // of the rules; the wishes of tables forbid nothing
		excessBefore[excess.tierKey] = max(excess.copies, excessBefore[excess.tierKey]) // two limits at one depth: the tighter
	}
	for excess := range p.tierExcess(node) {
		if excess.copies > excessBefore[excess.tierKey] {
			broken("awareness", "%s: %d copies too many or too few at depth %d value %s", p.Groups[excess.group].Name,
				excess.copies, excess.depth, excess.value)
		}
	}
	return found
}

// compareCounts counts copies by key and reports every key whose count is above its limit (0 is none) and above what it
// was before.
func (p *Problem) compareCounts(before, after []int32, key func(c int, n int32) [2]int32, limit func([2]int32) int,
	report func(key [2]int32, count int),
) {
	was, is := make(map[[2]int32]int), make(map[[2]int32]int)
	for c := range p.Copies {
		was[key(c, before[c])]++
		is[key(c, after[c])]++
	}
	var over [][2]int32
	for k, count := range is {
		if bound := limit(k); bound > 0 && count > max(bound, was[k]) {
			over = append(over, k)
		}
	}
	slices.SortFunc(over, func(a, b [2]int32) int { return slices.Compare(a[:], b[:]) })
	for _, k := range over {
		report(k, is[k])
	}
}

func (p *Problem) diskUsed(node []int32) []float64 {
	used := make([]float64, len(p.Nodes))
	for n := range used {
		used[n] = p.Nodes[n].Disk.UsedOther
	}
	for c := range p.Copies {
		used[node[c]] += p.Copies[c].Bytes
	}
	return used
}

// loadOf is what every node carries in dimension d, base included.
func (p *Problem) loadOf(node []int32, d int) []float64 {
	load := make([]float64, len(p.Nodes))
	for n := range load {
		if p.Nodes[n].Base != nil {
			load[n] = p.Nodes[n].Base[d]
		}
	}
	for c := range p.Copies {
		load[node[c]] += p.Copies[c].Load[d]
	}
	return load
}

// maxLoad is the node's limit of load in dimension d, 0 where it has none.
func (n *Node) maxLoad(d int) float64 {
	if d < len(n.MaxLoad) {
		return n.MaxLoad[d]
	}
	return 0
}

type tierKey struct {
	group int32
	depth int
	floor bool
	value string
}

type tierDeviation struct {
	tierKey
	copies int // above the cap or missing below the floor; positive
}

// tierExcess yields, group by group, where an assignment is above a tier cap or below a tier floor. Floors count the
// values that the nodes of the group's class have.
func (p *Problem) tierExcess(node []int32) iter.Seq[tierDeviation] {
	return func(yield func(tierDeviation) bool) {
		copies := make([][]int32, len(p.Groups))
		for c := range p.Copies {
			g := p.Copies[c].Group
			if len(p.Groups[g].TierCaps)+len(p.Groups[g].TierFloors) > 0 {
				copies[g] = append(copies[g], node[c])
			}
		}
		count := make(map[string]int)
		for g := range p.Groups {
			group := &p.Groups[g]
			for _, limit := range group.TierCaps {
				clear(count)
				for _, n := range copies[g] {
					count[p.Nodes[n].tier(limit.Depth())]++
				}
				for _, value := range sortedKeys(count) {
					if above := count[value] - limit.Count(); above > 0 &&
						!yield(tierDeviation{tierKey{int32(g), limit.Depth(), false, value}, above}) {
						return
					}
				}
			}
			for _, limit := range group.TierFloors {
				clear(count)
				for _, n := range p.Classes[group.Class].Nodes {
					count[p.Nodes[n].tier(limit.Depth())] = 0
				}
				for _, n := range copies[g] {
					if _, ours := count[p.Nodes[n].tier(limit.Depth())]; ours {
						count[p.Nodes[n].tier(limit.Depth())]++
					}
				}
				for _, value := range sortedKeys(count) {
					if missing := limit.Count() - count[value]; missing > 0 &&
						!yield(tierDeviation{tierKey{int32(g), limit.Depth(), true, value}, missing}) {
						return
					}
				}
			}
		}
	}
}

// tableExcess yields, group by group, where an assignment is above a cap or below a floor of the group's tables.
func (p *Problem) tableExcess(node []int32) iter.Seq[tierDeviation] {
	return func(yield func(tierDeviation) bool) {
		copies := make([][]int32, len(p.Groups))
		for c := range p.Copies {
			if g := p.Copies[c].Group; len(p.Groups[g].TierTables) > 0 {
				copies[g] = append(copies[g], node[c])
			}
		}
		for g := range p.Groups {
			for _, at := range p.Groups[g].TierTables {
				table := &p.TierTables[at]
				on := func(value string) (count int) {
					for _, n := range copies[g] {
						if p.Nodes[n].tier(table.Depth) == value {
							count++
						}
					}
					return count
				}
				for _, value := range sortedKeys(table.Caps) {
					if above := on(value) - table.Caps[value]; above > 0 && !yield(tierDeviation{tierKey{int32(g), table.Depth, false, value}, above}) {
						return
					}
				}
				for _, value := range sortedKeys(table.Floors) {
					if missing := table.Floors[value] - on(value); missing > 0 && !yield(tierDeviation{tierKey{int32(g), table.Depth, true, value}, missing}) {
						return
					}
				}
			}
		}
	}
}

// tier is the node's value at a depth; empty where it has none.
func (n *Node) tier(depth int) string {
	if depth < len(n.Tiers) {
		return n.Tiers[depth]
	}
	return ""
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
