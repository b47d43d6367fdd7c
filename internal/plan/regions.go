package plan

import (
	"fmt"
	"maps"

	"github.com/shardonnay/shardonnay/internal/model"
)

// regional tells whether the nodes are in several regions.
func (s *sequencer) regional() bool { return s.b.Regional() }

// wan is what may cross between regions.
func (s *sequencer) wan() *model.WAN { return &s.b.Rules.Policy().Regions.WAN }

// linkBudgets is what may cross, for the sequencer to take from.
func (s *sequencer) linkBudgets() map[model.Link]float64 {
	if !s.regional() {
		return nil
	}
	return maps.Clone(s.wan().Left)
}

// crossing is the way between regions that the data of copy c takes to node to, if it takes one. A replica's comes from its
// primary, wherever the replica stands.
func (s *sequencer) crossing(c int, to int32) (link model.Link, crosses bool) {
	if !s.regional() {
		return link, false
	}
	sender := s.sender(c)
	if s.p.Copies[c].Primary {
		sender = int(s.b.NodeOf[s.place.Node(c)])
	}
	link = model.Link{From: s.b.Region(sender), To: s.b.Region(int(s.b.NodeOf[to]))}
	return link, link.From != link.To
}

// spend takes what copy c carries to node to from what may cross, and tells whether there was so much. What is negative is
// for the caller to throw away.
func (s *sequencer) spend(links map[model.Link]float64, c, to int32) bool {
	if links == nil {
		return true
	}
	link, crosses := s.crossing(int(c), to)
	if crosses {
		links[link] -= s.p.Copies[c].Bytes
	}
	return !crosses || links[link] >= 0
}

// linksAfford tells whether what may still cross between regions has room for copy c to node to.
func (s *sequencer) linksAfford(c, to int32) bool { return s.spend(maps.Clone(s.links), c, to) }

// regionRefusals is what regions forbid to copy c on its way to node to: to cross in a pass that is closed, unless that
// brings a region up to its floor, and to follow another copy of its shard in one plan, unless it has to leave.
func (s *sequencer) regionRefusals(c int, to int32) (why model.Deciders) {
	if !s.regional() {
		return 0
	}
	group := s.p.Copies[c].Group
	if s.wan().Closed && !s.restoresFloor(group, to) {
		if _, crosses := s.crossing(c, to); crosses {
			why |= model.CrossRegion
		}
	}
	if len(s.group[group]) > 0 && !s.p.Copies[c].MustLeave {
		why |= model.CoolDown
	}
	return why
}

// restoresFloor tells whether node to is in a region that has fewer copies of the group than its floor.
func (s *sequencer) restoresFloor(group, to int32) bool {
	region, there := s.b.Region(int(s.b.NodeOf[to])), 0
	for _, c := range s.place.Group(group) {
		if s.b.Region(int(s.b.NodeOf[s.place.Node(int(c))])) == region {
			there++
		}
	}
	return there < s.b.Wishes[group].Floors[region]
}

// explainRegions says which wish about regions, zones or hosts copy c fulfils by going to node to, the outermost first; no
// reason where it fulfils none.
func (s *sequencer) explainRegions(c int, to int32) (Reason, string) {
	if !s.regional() {
		return "", ""
	}
	group, from := s.p.Copies[c].Group, s.place.Node(c)
	if region := s.b.Tier(to, 0); region != s.b.Tier(from, 0) && s.restoresFloor(group, to) {
		return ForFloor, fmt.Sprintf("more copies of %s in %s", s.p.Groups[group].Name, region)
	}
	for tier := range model.TierNames {
		value, there := s.b.Tier(from, tier), 0
		for _, other := range s.place.Group(group) {
			if s.b.Tier(s.place.Node(int(other)), tier) == value {
				there++
			}
		}
		if most, capped := s.b.Wishes[group].Caps[tier][value]; capped && there > most && s.b.Tier(to, tier) != value {
			return ForTier, fmt.Sprintf("fewer copies of %s in %s", s.p.Groups[group].Name, value)
		}
	}
	return "", ""
}

// sameGroupTwice tells whether a chain moves two copies of one shard.
func (s *sequencer) sameGroupTwice(chain []int32) bool {
	seen := make(map[int32]bool, len(chain))
	for _, c := range chain {
		if seen[s.p.Copies[c].Group] && !s.p.Copies[c].MustLeave {
			return true
		}
		seen[s.p.Copies[c].Group] = true
	}
	return false
}

// layouts says which indices cannot be as far apart as they should.
func (s *sequencer) layouts() (found []Verdict) {
	if !s.regional() {
		return nil
	}
	seen := make(map[int32]bool)
	var names []string
	for g := range s.p.Groups {
		if index := s.p.Groups[g].Index; s.b.Wishes[g].Relaxed && !seen[index] {
			seen[index] = true
			names = append(names, s.p.Indices[index].Name)
		}
	}
	if len(names) > 0 {
		found = append(found, Verdict{
			Kind: Zones, Subject: "cluster", Binding: []string{"zones"},
			Text:   "There are fewer zones than copies for " + listed(names) + ": some zone holds several copies of a shard, on different hosts where there are any",
			Advice: "Add a zone, or lower number_of_replicas",
		})
	}
	return found
}
