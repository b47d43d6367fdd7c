package zones

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/es"
)

// Guard names one condition that has to hold before something is changed.
type Guard string

// The guards. docs/zones.md says of each why it is there.
const (
	GuardAwareness Guard = "awareness"        // the attribute is one of awareness, forced for exactly our zones, and every data node has it
	GuardNoOut     Guard = "no_decommission"  // no zone is out or on its way
	GuardOurs      Guard = "weights_ours"     // the weights are those of our attribute, and those we know of
	GuardServed    Guard = "served"           // every shard has a started copy in a zone that will serve
	GuardNotLess   Guard = "not_less_served"  // at least as many shards are served as without the zone that fails
	GuardHealthy   Guard = "healthy"          // every zone is well
	GuardStability Guard = "static_stability" // any zone could be lost now
	GuardQuiet     Guard = "quiet"            // nothing recovers or moves in the zone that will serve
	GuardSettled   Guard = "settled"          // the last change is long enough ago, and the leader leads for a while
	GuardStandby   Guard = "standby_well"     // the zone that is to take over is well
	GuardZeros     Guard = "zeros"            // no more zones rest than the server allows
	GuardInSync    Guard = "in_sync"          // every shard has a copy that is in step outside the zone
	GuardVoters    Guard = "voters"           // the rest can elect a leader, and the zone has somebody to be excluded
	GuardNoVotes   Guard = "no_exclusions"    // nobody else has taken votes: they would be given back
	GuardCapacity  Guard = "capacity"         // the zones that stay carry the load
	GuardSnapshots Guard = "no_snapshot"      // no snapshot runs
	GuardFence     Guard = "fence_free"       // nobody else keeps copies off a zone by filters
	GuardAccepted  Guard = "accepted"         // the cluster does what it was asked to
	GuardApproval  Guard = "approval"         // a person has said that the zone which holds up writes may be taken out
	GuardOne       Guard = "one_zone"         // no other zone is ill
)

// Check is one guard's answer.
type Check struct {
	Guard Guard  `json:"guard"`
	OK    bool   `json:"ok"`
	Warns bool   `json:"warns,omitempty"` // it does not hold anything up
	Text  string `json:"text"`            // what is so, and the cure where it is not as it should be
}

// blocking are the checks that forbid.
func blocking(checks []Check) []Check {
	var found []Check
	for _, c := range checks {
		if !c.OK && !c.Warns {
			found = append(found, c)
		}
	}
	return found
}

// texts joins what the checks say.
func texts(checks []Check) string {
	all := make([]string, 0, len(checks))
	for _, c := range checks {
		all = append(all, c.Text)
	}
	return strings.Join(all, "; ")
}

func check(guard Guard, ok bool, well, ill string, values ...any) Check {
	if ok {
		return Check{Guard: guard, OK: true, Text: well}
	}
	return Check{Guard: guard, Text: fmt.Sprintf(ill, values...)}
}

// warning does not hold anything up.
func warning(c Check) Check {
	c.Warns = true
	return c
}

// situation is what guards look at.
type situation struct {
	config Config
	view   *View
	roster Roster
	state  *State
	health Assessment
}

// zones are those of the roster, and one that is out, whose nodes whoever looks for the first time has never seen.
func (s *situation) zones() []string {
	zones := s.roster.zones()
	if l := s.state.Leaving; l != nil && !slices.Contains(zones, l.Zone) {
		zones = append(zones, l.Zone)
		slices.Sort(zones)
	}
	return zones
}

// awareness is G1, and W5: without forced values the copies of a lost zone would be rebuilt in the others.
func (s *situation) awareness() Check {
	set, zones := s.view.Settings, s.zones()
	a := s.config.Attribute
	if set == nil {
		return check(GuardAwareness, false, "", "the cluster's settings could not be read")
	}
	if !slices.Contains(set.Aware, a) {
		return check(GuardAwareness, false, "", "%q is no awareness attribute; add it to cluster.routing.allocation.awareness.attributes", a)
	}
	forced := slices.Sorted(slices.Values(set.Forced))
	if !slices.Equal(forced, zones) {
		return check(GuardAwareness, false, "", "the zones are %s and the forced values %s; set cluster.routing.allocation.awareness.force.%s.values to %s",
			listed(zones), listed(forced), a, strings.Join(zones, ","))
	}
	for _, m := range s.roster {
		if m.Data && m.Zone == "" {
			return check(GuardAwareness, false, "", "data node %s has no attribute %s; set node.attr.%s in its elasticsearch.yml or opensearch.yml and restart it", m.Name, a, a)
		}
	}
	return check(GuardAwareness, true, fmt.Sprintf("%s is forced for %s", a, listed(zones)), "")
}

func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// noDecommission is G2 and W4.
func (s *situation) noDecommission() Check {
	d := s.view.State.Decommission
	return check(GuardNoOut, d.Value == "" || d.Status == es.DecommissionFailed, "no zone is decommissioned",
		"zone %s is decommissioned (%s); recommission it first", d.Value, d.Status)
}

// ours is G3.
func (s *situation) ours() Check {
	w := s.view.weights()
	if w.Attribute != "" && w.Attribute != s.config.Attribute {
		return check(GuardOurs, false, "", "the cluster's weights are those of attribute %q, and there can be one set only; remove them, or set zones.attribute to it", w.Attribute)
	}
	known := s.zones()
	if s.view.Settings != nil {
		known = append(known, s.view.Settings.Forced...) // of one that is out nobody may be known
	}
	for zone, weight := range w.Values {
		if !slices.Contains(known, zone) || weight < 0 {
			return check(GuardOurs, false, "", "the weights have %q at %g, which is no zone or no weight; put right weights in", zone, weight)
		}
	}
	return check(GuardOurs, true, fmt.Sprintf("the weights are at version %d", w.Version), "")
}

// groups calls do for each shard of an open index that is not exempt, with its copies.
func (s *situation) groups(do func(index string, shard int, copies []es.RoutingCopy)) {
	all := s.view.Routing.Copies
	for i := 0; i < len(all); {
		j := i + 1
		for j < len(all) && all[j].Index == all[i].Index && all[j].Shard == all[i].Shard {
			j++
		}
		if !s.view.Routing.Closed[all[i].Index] && !cluster.MatchIndex(s.config.Exempt, all[i].Index) {
			do(all[i].Index, all[i].Shard, all[i:j])
		}
		i = j
	}
}

// servedBy counts the shards with a started copy in one of the zones, and names one without.
func (s *situation) servedBy(zones []string) (served, total int, without string) {
	where := s.zonesOfNodes()
	s.groups(func(index string, shard int, copies []es.RoutingCopy) {
		total++
		for _, c := range copies {
			if (c.State == cluster.Started || c.State == cluster.Relocating) && slices.Contains(zones, where[c.Node]) {
				served++
				return
			}
		}
		if without == "" {
			without = fmt.Sprintf("%s/%d", index, shard)
		}
	})
	return served, total, without
}

func (s *situation) zonesOfNodes() map[cluster.NodeID]string { return s.roster.byNode() }

// served is G4.
func (s *situation) served(zones []string) Check {
	served, total, without := s.servedBy(zones)
	return check(GuardServed, served == total, fmt.Sprintf("all %d shards have a started copy in %s", total, listed(zones)),
		"%d of %d shards have no started copy in %s, %s for one; give them a replica in every zone, or exempt the index (zones.exempt_indices)",
		total-served, total, listed(zones), without)
}

// notLess is F3.
func (s *situation) notLess(before, after []string) Check {
	was, _, _ := s.servedBy(before)
	will, total, without := s.servedBy(after)
	return check(GuardNotLess, will >= was, fmt.Sprintf("%d of %d shards will be served, %d were", will, total, was),
		"%d shards would be served and %d are, %s would not", will, was, without)
}

// healthy is G5.
func (s *situation) healthy() Check {
	for _, zone := range s.zones() {
		if h := s.health.Zones[zone]; !h.Healthy() {
			return check(GuardHealthy, false, "", "zone %s is not well: %s", zone, signalNames(h))
		}
	}
	return check(GuardHealthy, true, "every zone is well", "")
}

func signalNames(h Health) string {
	names := make([]string, 0, len(h.Seen))
	for _, signal := range h.Seen {
		names = append(names, string(signal))
	}
	for _, signal := range h.Bad {
		if !slices.Contains(h.Seen, signal) {
			names = append(names, string(signal))
		}
	}
	return strings.Join(names, ", ")
}

// whole says whether all nodes of a zone are there: a zone that has lost some is not to become one that serves.
func (s *situation) whole(zone string) Check {
	h := s.health.Zones[zone]
	return check(GuardStandby, h.Healthy() && h.Fraction == 0 && h.Started >= wellFraction, fmt.Sprintf("zone %s is well and whole", zone),
		"zone %s is not whole: %.0f%% of its nodes are missing, %.0f%% of its copies started (%s)", zone, 100*h.Fraction, 100*h.Started, signalNames(h))
}

// standbyWell is F2: for a failover a standby that lost a node is better than none.
func (s *situation) standbyWell(zone string) Check {
	h := s.health.Zones[zone]
	return check(GuardStandby, h.Healthy(), fmt.Sprintf("zone %s is well", zone), "zone %s, which is to take over, is not well: %s", zone, signalNames(h))
}

// quiet is the first half of G7.
func (s *situation) quiet(zone string) Check {
	n := s.view.Copies[zone]
	return check(GuardQuiet, n.Initializing == 0 && n.Relocating == 0, fmt.Sprintf("nothing recovers or moves in zone %s", zone),
		"%d copies recover and %d move in zone %s; it goes on once they have landed", n.Initializing, n.Relocating, zone)
}

// settled is the second half of G7.
func (s *situation) settled() Check {
	now := s.view.At
	if since := now.Sub(s.state.Changed); since < s.config.settled() {
		return check(GuardSettled, false, "", "roles changed %s ago; the next rotation is after %s", round(since), round(s.config.settled()))
	}
	if since := now.Sub(s.state.LeaderSince); since < s.config.leaderStable() {
		return check(GuardSettled, false, "", "the leader was elected %s ago; a rotation waits until it has led for %s", round(since), round(s.config.leaderStable()))
	}
	return check(GuardSettled, true, "roles and leader are settled", "")
}

func round(d time.Duration) time.Duration {
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Second)
}

// zeros is F4.
func (s *situation) zeros(weights map[string]float64) Check {
	resting := len(weights) - len(serving(weights))
	return check(GuardZeros, resting <= len(weights)/2, "no more than half of the zones rest", "%d of %d zones would rest; the server allows half", resting, len(weights))
}

// inSync is W1. A shard that has no copy in step anywhere is named too.
func (s *situation) inSync(zone string) Check {
	where := s.zonesOfNodes()
	var only, nowhere []string
	s.groups(func(index string, shard int, copies []es.RoutingCopy) {
		inStep := s.view.Routing.InSync[index][shard]
		elsewhere, any := false, false
		for _, c := range copies {
			if (c.State == cluster.Started || c.State == cluster.Relocating) && slices.Contains(inStep, c.AllocationID) {
				any = true
				elsewhere = elsewhere || where[c.Node] != zone
			}
		}
		switch {
		case !any:
			nowhere = append(nowhere, fmt.Sprintf("%s/%d", index, shard))
		case !elsewhere:
			only = append(only, fmt.Sprintf("%s/%d", index, shard))
		}
	})
	if len(nowhere) > 0 {
		return check(GuardInSync, false, "", "%d shards have no copy that is started and in step anywhere: %s; bring them back first", len(nowhere), firstFew(nowhere))
	}
	return check(GuardInSync, len(only) == 0, "every shard has a copy in step outside zone "+zone,
		"%d shards have their only copy in zone %s: %s; give them a replica in another zone first", len(only), zone, firstFew(only))
}

// firstFew keeps a message readable.
func firstFew(names []string) string {
	const few = 5
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
}

// voters is W2.
func (s *situation) voters(zone string) Check {
	eligible := len(s.roster.voters(zone))
	if eligible == 0 {
		return check(GuardVoters, false, "", "zone %s has no node that may lead, and the server decommissions no such zone; fence it instead (failover %s --out --soft)", zone, zone)
	}
	present := s.view.present()
	voting, alive := 0, 0
	for _, m := range s.roster {
		if m.Zone == zone || !m.Eligible {
			continue
		}
		voting++
		if answered, probed := s.view.Probes[m.Name]; present[m.Name] && (!probed || answered) {
			alive++
		}
	}
	return check(GuardVoters, voting > 0 && 2*alive > voting, fmt.Sprintf("%d of %d nodes that may lead are outside zone %s and well", alive, voting+eligible, zone),
		"only %d of the %d nodes outside zone %s that may lead are well", alive, voting, zone)
}

// voterAlone warns of what a decommission does to three voters.
func (s *situation) voterAlone(zone string) Check {
	left := 0
	for _, m := range s.roster {
		if m.Zone != zone && m.Eligible {
			left++
		}
	}
	return warning(check(GuardVoters, left >= 3, fmt.Sprintf("%d nodes that may lead stay", left),
		"only %d nodes that may lead stay: the cluster will have a single voter, and stands still without it until the zone is back", left))
}

// noForeignVotes is W3.
func (s *situation) noForeignVotes() Check {
	names := make([]string, 0, len(s.view.State.Exclusions))
	for _, e := range s.view.State.Exclusions {
		names = append(names, e.Name)
	}
	return check(GuardNoVotes, len(names) == 0, "every node that may lead has its vote", "%s have no vote, by somebody else's wish, and would get it back; clear the voting exclusions first", listed(names))
}

// oneIll is W8.
func (s *situation) oneIll(zone string) Check {
	for _, other := range s.zones() {
		if h := s.health.Zones[other]; other != zone && !h.Healthy() {
			return check(GuardOne, false, "", "zone %s is not well either: %s", other, signalNames(h))
		}
	}
	return check(GuardOne, true, "every other zone is well", "")
}

// noSnapshot is W7.
func (s *situation) noSnapshot() Check {
	n := s.view.Routing.Snapshots
	return warning(check(GuardSnapshots, n == 0, "no snapshot runs", "%d shards are being written to a snapshot; those whose primary is in the zone will be missing in it", n))
}

// carries is W6: the zones that stay carry the peak of the load at 70 % of their capacity, with their full share of the copies on disk.
func (s *situation) carries(zones []string) Check {
	peak, capacity := s.state.Peak.p99(), 0.0
	for _, m := range s.roster {
		if m.Data && slices.Contains(zones, m.Zone) {
			capacity += m.Processors
		}
	}
	if peak == 0 {
		return warning(check(GuardCapacity, false, "", "the load is not known yet; it takes a day to know its peak"))
	}
	return check(GuardCapacity, peak <= peakShare*capacity, fmt.Sprintf("the peak of %.2f busy threads is %.0f%% of the %.0f processors of %s", peak, 100*peak/capacity, capacity, listed(zones)),
		"the peak of %.2f busy threads is more than %.0f%% of the %.0f processors of %s; add nodes there", peak, 100*peakShare, capacity, listed(zones))
}

// stability is G6: could any zone be lost now? Every answer is given, so that a report is complete.
func (s *situation) stability() []Check {
	zones := s.zones()
	var least, most float64
	counts := map[int]bool{}
	for i, zone := range zones {
		sum := 0.0
		for _, m := range s.roster.data(zone) {
			sum += m.Processors
		}
		if i == 0 || sum < least {
			least = sum
		}
		most = max(most, sum)
		counts[len(s.roster.data(zone))] = true
	}
	checks := []Check{
		check(GuardStability, most <= capacityRatio*least, "the zones have the same number of processors",
			"the zones have from %.0f to %.0f processors; make them alike", least, most),
		check(GuardStability, len(counts) == 1, "the zones have the same number of data nodes", "the zones have different numbers of data nodes; make them alike"),
	}
	if s.view.Routing != nil {
		checks = append(checks, s.spread())
	}
	rest := s.state.resting()
	for _, lost := range zones {
		if slices.Contains(rest, lost) {
			continue // whoever serves now goes on serving
		}
		left := slices.DeleteFunc(slices.Clone(zones), func(zone string) bool { return zone == lost })
		c := s.carries(left)
		c.Guard = GuardStability
		checks = append(checks, c)
	}
	return append(checks, s.disks())
}

// spread looks for shards that do not have one copy in every zone.
func (s *situation) spread() Check {
	where, zones := s.zonesOfNodes(), len(s.zones())
	var uneven []string
	s.groups(func(index string, shard int, copies []es.RoutingCopy) {
		in := map[string]int{}
		for _, c := range copies {
			if c.State == cluster.Started || c.State == cluster.Relocating {
				in[where[c.Node]]++
			}
		}
		if len(in) < zones || len(copies)%zones != 0 {
			uneven = append(uneven, fmt.Sprintf("%s/%d", index, shard))
		}
	})
	return check(GuardStability, len(uneven) == 0, "every shard has a copy in every zone",
		"%d shards do not have a started copy in every zone: %s; set their replicas to one less than a multiple of %d", len(uneven), firstFew(uneven), zones)
}

// disks looks for nodes that are over the low watermark: there a copy could not be built again.
func (s *situation) disks() Check {
	var full []string
	for _, name := range sortedNames(s.roster) {
		m := s.roster[name]
		load, known := s.view.Loads[m.ID]
		if known && m.Data && load.DiskTotal > 0 && s.view.Settings != nil && load.DiskFree < s.view.Settings.Low.Required(load.DiskTotal) {
			full = append(full, name)
		}
	}
	return check(GuardStability, len(full) == 0, "every disk is below the low watermark", "%d nodes are over the low disk watermark: %s; add disk space", len(full), firstFew(full))
}

// forRotation are G1 to G7.
func (s *situation) forRotation(next string, weights map[string]float64, byHand bool) []Check {
	checks := []Check{s.awareness(), s.noDecommission(), s.ours(), s.served(serving(weights)), s.healthy(), s.whole(next), s.quiet(next), s.zeros(weights)}
	if !byHand {
		checks = append(checks, s.settled())
	}
	return append(checks, s.stability()...)
}

// forFailover are F1 to F4; that a zone could not be lost any more only warns.
func (s *situation) forFailover(bad, next string, weights map[string]float64) []Check {
	before := slices.DeleteFunc(serving(s.view.weights().Values), func(zone string) bool { return zone == bad })
	checks := []Check{s.awareness(), s.ours(), s.standbyWell(next), s.notLess(before, serving(weights)), s.zeros(weights)}
	return append(checks, warning(s.spread()))
}

// fenceFree looks for filters on zones that are not ours.
func (s *situation) fenceFree(zone string) Check {
	other := slices.DeleteFunc(slices.Clone(s.view.Settings.Excluded), func(value string) bool { return value == zone })
	return check(GuardFence, len(other) == 0, "no other zone is kept free of copies", "%s is %s already, by somebody else's wish; remove it first",
		excludeKey(s.config.Attribute), listed(other))
}

// forFence are those of forWrites that a fence needs: the zone's nodes stay and go on voting.
func (s *situation) forFence(zone string) []Check {
	left := slices.DeleteFunc(s.zones(), func(other string) bool { return other == zone })
	return []Check{s.inSync(zone), s.noDecommission(), s.awareness(), s.fenceFree(zone), s.carries(left), s.noSnapshot(), s.oneIll(zone)}
}

// forWrites are W1 to W8.
func (s *situation) forWrites(zone string) []Check {
	left := slices.DeleteFunc(s.zones(), func(other string) bool { return other == zone })
	return []Check{
		s.inSync(zone), s.voters(zone), s.voterAlone(zone), s.noForeignVotes(), s.noDecommission(), s.awareness(), s.carries(left), s.noSnapshot(), s.oneIll(zone),
	}
}
