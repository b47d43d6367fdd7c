package plan

import (
	"fmt"
	"math"
	"strings"

	"github.com/shardonnay/shardonnay/internal/model"
)

// explain says what moving copy c to node to is for, and what it does there, before it is made.
func (s *sequencer) explain(c int, to int32, gain float64) (Reason, string) {
	from := s.place.Node(c)
	rest := gain
	most, change := 0, 0.0
	for d := range s.p.Dimensions {
		part := s.loads.gain(s.place, c, to, d, 0)
		rest -= part
		if d == 0 || math.Abs(part) > math.Abs(change) {
			most, change = d, part
		}
	}
	source := s.name(from)
	if s.p.Copies[c].MustLeave {
		node := &s.b.Snapshot.Nodes[s.b.NodeOf[from]]
		why := s.b.Rules.KeepsOut(int(s.b.CopyOf[c]), int(s.b.NodeOf[from])) & (model.NodeShutdown | model.Filter | model.DataTier)
		arrival := fmt.Sprintf("%s %s", s.name(to), s.multiples(to, most, s.p.Copies[c].Load[most]))
		switch {
		case node.Leaving != "":
			return Evacuate, fmt.Sprintf("%s is on its way out (%s), %s", source, node.Leaving, arrival)
		case why != 0:
			return Evacuate, fmt.Sprintf("%s may not keep it (%s), %s", source, why, arrival)
		}
		used := 1 - float64(node.Disk.Available)/float64(node.Disk.Total)
		return ForDisk, fmt.Sprintf("%s disk %.0f%% used, over the high watermark", source, 100*used)
	}
	if rest > math.Abs(gain-rest) {
		group := &s.p.Groups[s.p.Copies[c].Group]
		if depth, over := s.outsideTiers(c, to, group.TierCaps, true); over {
			return ForTier, fmt.Sprintf("fewer copies of %s in %s", group.Name, s.p.Nodes[from].Tiers[depth])
		}
		if depth, under := s.outsideTiers(c, to, group.TierFloors, false); under {
			return ForFloor, fmt.Sprintf("more copies of %s in %s", group.Name, s.p.Nodes[to].Tiers[depth])
		}
		if reason, text := s.explainRegions(c, to); reason != "" {
			return reason, text
		}
		index := group.Index
		count := s.copiesOn(index, from)
		return ForSpread, fmt.Sprintf("%s %d -> %d copies of %s", source, count, count-1, s.p.Indices[index].Name)
	}
	return ForBalance, fmt.Sprintf("%s %s", source, s.multiples(from, most, -s.p.Copies[c].Load[most]))
}

// multiples is a node's load in dimension d before and after a change, "search 4.7x -> 3.1x of mean".
func (s *sequencer) multiples(n int32, d int, change float64) string {
	name := s.p.Dimensions[d].Name
	fair := s.loads.fair(n, d)
	if fair <= 0 {
		return name + " of no account"
	}
	load := s.place.Load(int(n), d)
	return fmt.Sprintf("%s %s -> %s of mean", name, times(load/fair), times((load+change)/fair))
}

// times writes a multiple of the mean.
func times(r float64) string {
	if r = math.Abs(r); r >= 9.95 {
		return fmt.Sprintf("%.0fx", r)
	}
	if r < 1.995 {
		return fmt.Sprintf("%.2fx", r)
	}
	return fmt.Sprintf("%.1fx", r)
}

// outsideTiers is the first depth at which copy c leaves a value with too many copies, or enters one with too few.
func (s *sequencer) outsideTiers(c int, to int32, limits []model.TierLimit, over bool) (depth int, outside bool) {
	from := s.place.Node(c)
	for _, limit := range limits {
		depth = limit.Depth()
		if depth >= len(s.p.Nodes[from].Tiers) || depth >= len(s.p.Nodes[to].Tiers) {
			continue
		}
		leaves, enters := s.p.Nodes[from].Tiers[depth], s.p.Nodes[to].Tiers[depth]
		if leaves == enters {
			continue
		}
		count := map[string]int{}
		for _, other := range s.place.Group(s.p.Copies[c].Group) {
			if tiers := s.p.Nodes[s.place.Node(int(other))].Tiers; depth < len(tiers) {
				count[tiers[depth]]++
			}
		}
		if over && count[leaves] > limit.Count() || !over && count[enters] < limit.Count() {
			return depth, true
		}
	}
	return 0, false
}

// copiesOn counts the copies of an index on a node.
func (s *sequencer) copiesOn(index, n int32) int {
	if s.ofIndex == nil {
		s.ofIndex = make([][]int32, len(s.p.Indices))
		for c := range s.p.Copies {
			i := s.p.Groups[s.p.Copies[c].Group].Index
			s.ofIndex[i] = append(s.ofIndex[i], int32(c))
		}
	}
	count := 0
	for _, c := range s.ofIndex[index] {
		if s.place.Node(int(c)) == n {
			count++
		}
	}
	return count
}

// name is how people call a node of the problem.
func (s *sequencer) name(n int32) string { return nodeName(s.b, n) }

func nodeName(b *model.Built, n int32) string {
	node := &b.Snapshot.Nodes[b.NodeOf[n]]
	if node.Name != "" {
		return node.Name
	}
	return string(node.ID)
}

// subjectShard and the like are how verdicts name what they are about.
func (s *sequencer) subjectShard(c int32) string {
	return "shard/" + s.p.Groups[s.p.Copies[c].Group].Name
}

func (s *sequencer) subjectNode(n int32) string { return "node/" + s.name(n) }

// listed joins the first few of names and counts the others.
func listed(names []string) string {
	if len(names) <= listedNames {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:listedNames], ", "), len(names)-listedNames)
}
