package metrics

import (
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// zoneMetrics are the series of the zone controller. Before its first look there is only since when one is awaited.
type zoneMetrics struct {
	mode, phase, writePhase                *gauges
	role, weight, health, impaired, signal *gauges
	version, voters, looked                *gauges
	rotations                              *prometheus.CounterVec
	rotated, due, blocked                  *gauges
	failovers                              *prometheus.CounterVec
	failoverSeconds                        *prometheus.HistogramVec
	decommission, drain, rejoin, recovery  *gauges
	queries                                *prometheus.CounterVec
	failOpen                               *prometheus.CounterVec
	standbyShare                           *gauges
	primaries, shards, unprotected         *gauges
	stability                              *gauges
	foreign                                *prometheus.CounterVec
	hold, journalAge, isolated             *gauges

	queried, opened map[string]int64 // as last reported, by zone
}

func (m *Metrics) makeZones() {
	b, z := m.made, &m.zones
	zone := label{name: "zone"}
	z.mode = b.gauge("zone_mode", "1 for zones.mode at work, 0 for the others. While it is off, gauges of zones have no series.", label{"mode", zoneModes})
	z.phase = b.gauge("zone_phase", "1 for where the steering of searches stands, 0 for the others. steady is as it should be.", label{"phase", zonePhases})
	z.writePhase = b.gauge("zone_write_phase", "1 for where the one zone stands that leaves the cluster or comes back, 0 for the others. idle: none does.", label{"phase", zoneWritePhases})
	z.role = b.gauge("zone_role", "What a zone does: 2 it serves searches, 1 it stands by, 0 it is out of the cluster or on its way.", zone)
	z.weight = b.gauge("zone_weight", "Weight of a zone's copies for searches, as it stands in the cluster; no series where none is set.", zone)
	z.version = b.gauge("zone_weights_version", "Version of the weights; every change adds one. -1 where none were ever set.")
	z.health = b.gauge("zone_health", "1 while nothing speaks against a zone, else 0. One bad look makes it 0; a failover takes more.", zone)
	z.impaired = b.gauge("zone_impaired", "1 for a zone that searches should leave (read), or that holds up writes (write).", zone, label{"path", zonePaths})
	z.signal = b.gauge("zone_signal_bad", "1 for a signal that speaks against a zone, for as many looks as it needs to count. docs/zones.md has what each means.", zone, label{"signal", zoneSignals})
	z.looked = b.gauge("zone_last_look_timestamp_seconds", "When a look at the zones last showed enough to decide by, Unix time; from when on they are to be looked at where none has yet. Older than some rounds: nobody watches them.")
	z.isolated = b.gauge("zone_isolated", "1 while nothing is concluded because it may be the daemon that is cut off: nobody answers, or the nodes of several zones do not.")
	z.rotations = b.counter("zone_rotation_total", "Rotations by how they ended. failed: it was not seen through, and the former weights are back; refused: the cluster turned the weights down.", label{"result", zoneResults})
	z.rotated = b.gauge("zone_last_rotation_timestamp_seconds", "When roles last changed, Unix time, for whatever reason; 0 where it is not known.")
	z.due = b.gauge("zone_rotation_due_seconds", "Time until the next rotation, negative while one is overdue; 0 where none is meant to be.")
	z.blocked = b.gauge("zone_rotation_blocked", "1 for a guard that holds up what is due, 0 for the others.", label{"guard", zoneGuards})
	z.failovers = b.counter("zone_failover_total", "Failovers of a zone: searches left it (read), or it was taken out of the cluster (write), by how they ended.",
		zone, label{"kind", zonePaths}, label{"result", zoneResults})
	z.failoverSeconds = b.histogram("zone_failover_duration_seconds", "Time from the first sign against a zone, or from the order, until searches had left it.", failoverSeconds)
	z.decommission = b.gauge("zone_decommission_status", "1 for how far the server is with taking a zone out, 0 for the other statuses.", zone, label{"status", zoneDecommissions})
	z.drain = b.gauge("zone_drain_remaining_seconds", "Time until the zone that drains is taken out; 0 where none does.")
	z.rejoin = b.gauge("zone_rejoin_duration_seconds", "Time from letting the last zone back until all its nodes had joined.")
	z.recovery = b.gauge("zone_recovery_duration_seconds", "Time from there until all its copies were started again.")
	z.queries = b.counter("zone_queries_total", "Searches of shards that a zone's nodes have run since the daemon looks.", zone)
	z.standbyShare = b.gauge("zone_standby_query_share", "Ratio of the searches between the last two looks that ran in zones which do not serve.")
	z.failOpen = b.counter("zone_fail_open_total", "Searches that the servers sent to a zone which does not serve, for want of another copy. They do not count all of them.")
	z.primaries = b.gauge("zone_primaries", "Primaries in a zone, in the last complete snapshot. Writes go to them whatever the weights are.", zone)
	z.shards = b.gauge("zone_shards", "Copies in a zone by state, in the last complete snapshot.", zone, label{"state", zoneCopyStates})
	z.unprotected = b.gauge("zone_unprotected_shards", "Shards whose only started copy is in the zone, in the last complete snapshot: they would go with it.", zone)
	z.stability = b.gauge("zone_static_stability",
		"1 where the loss of any zone would be survived in this respect: a copy of every shard in every zone, as many nodes and processors in each, disks below the low watermark, and processors for the peak of the searches.",
		label{"check", zoneChecks})
	z.voters = b.gauge("zone_voting_nodes", "Nodes whose votes count. While it is 1 the cluster stands still without that node.")
	z.foreign = b.counter("zone_foreign_change_total", "Changes of weights or decommissions by somebody else, each of which makes the controller hold.")
	z.hold = b.gauge("zone_hold", "1 for why the controller holds, 0 for the other reasons.", label{"reason", zoneHolds})
	z.journalAge = b.gauge("zone_journal_age_seconds", "For how long decisions could not be written to the journal; 0 while it is current. What cannot be written is not done.")
	z.queried, z.opened = map[string]int64{}, map[string]int64{}
}

// Zones is what the zone controller has seen in one look; it has the figures of zones.Status.
type Zones struct {
	At                time.Time
	Judged            time.Time // when a look last showed enough to decide by; zero where none has yet
	Mode              string
	Phase, WritePhase string
	Version           int64
	Voters            int
	Changed, Due      time.Time // zero where not known, or none is meant to be
	Blocked           []string  // guards
	Hold              string    // why; empty while nothing holds
	Drain             time.Time // its end; zero where no zone drains
	JournalBroken     time.Duration
	CarriesPeak       bool
	Isolated          bool // it may be us who are cut off
	Zones             []Zone
}

// Zone is one of them.
type Zone struct {
	Name                        string
	Role                        int // 2 active, 1 standby, 0 out
	Weight                      *float64
	Well                        bool
	ReadImpaired, WriteImpaired bool
	Bad                         []string // signals
	Decommission                string   // status in lower case; empty for a zone that is not taken out
	Queries, FailedOpen         int64    // since its nodes started
	Counted                     bool     // whether these were read in this look
}

// ObserveZonesAwaited shows from when on the zones are to be looked at. It is shown before the first look, which may never
// come to an end.
func (m *Metrics) ObserveZonesAwaited(from time.Time) { m.zones.looked.set(seconds(from)) }

// ObserveZones shows a look at the zones.
func (m *Metrics) ObserveZones(s *Zones) {
	m.mu.Lock()
	defer m.mu.Unlock()
	z := &m.zones
	z.mode.only(s.Mode, zoneModes)
	z.phase.only(s.Phase, zonePhases)
	z.writePhase.only(s.WritePhase, zoneWritePhases)
	z.version.set(float64(s.Version))
	z.voters.set(float64(s.Voters))
	if !s.Judged.IsZero() {
		z.looked.set(seconds(s.Judged))
	}
	z.isolated.set(truth(s.Isolated))
	z.rotated.set(0)
	if !s.Changed.IsZero() {
		z.rotated.set(seconds(s.Changed))
	}
	until := func(g *gauges, t time.Time) {
		g.set(0)
		if !t.IsZero() {
			g.set(t.Sub(s.At).Seconds())
		}
	}
	until(z.due, s.Due)
	until(z.drain, s.Drain)
	z.hold.only(s.Hold, zoneHolds)
	z.journalAge.set(s.JournalBroken.Seconds())
	z.stability.set(truth(s.CarriesPeak), "capacity")
	among(z.blocked, zoneGuards, s.Blocked)
	var role, weight, health, impaired, signal, decommission []value
	searched, rested := int64(0), int64(0)
	counted := true
	for _, zone := range s.Zones {
		of := func(v float64, labels ...string) value { return value{append([]string{zone.Name}, labels...), v} }
		role = append(role, of(float64(zone.Role)))
		if zone.Weight != nil {
			weight = append(weight, of(*zone.Weight))
		}
		health = append(health, of(truth(zone.Well)))
		impaired = append(impaired, of(truth(zone.ReadImpaired), "read"), of(truth(zone.WriteImpaired), "write"))
		for _, word := range zoneSignals {
			signal = append(signal, of(truth(slices.Contains(zone.Bad, word)), word))
		}
		for _, status := range zoneDecommissions {
			decommission = append(decommission, of(truth(zone.Decommission == status), status))
		}
		for _, kind := range zonePaths {
			for _, result := range zoneResults {
				z.failovers.WithLabelValues(zone.Name, kind, result) // from the start: the first one is a rise then
			}
		}
		counted = counted && zone.Counted
		before, known := z.queried[zone.Name]
		queries, opened := grown(z.queried, zone.Name, zone.Queries), grown(z.opened, zone.Name, zone.FailedOpen)
		if !zone.Counted || !known || zone.Queries < before {
			queries, opened, counted = 0, 0, false
		}
		z.queries.WithLabelValues(zone.Name).Add(float64(queries))
		z.failOpen.WithLabelValues().Add(float64(opened))
		searched += queries
		if zone.Role != 2 {
			rested += queries
		}
	}
	if counted && searched > 0 {
		z.standbyShare.set(float64(rested) / float64(searched))
	}
	z.role.replace(role)
	z.weight.replace(weight)
	z.health.replace(health)
	z.impaired.replace(impaired)
	z.signal.replace(signal)
	z.decommission.replace(decommission)
}

// grown is by how much a count is above what it last was; what it is now is remembered, where it was read.
func grown(last map[string]int64, name string, now int64) int64 {
	before := last[name]
	if now > 0 {
		last[name] = now
	}
	return max(0, now-before)
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// among sets the series of some words to 1 and those of the others to 0.
func among(g *gauges, all, some []string) {
	for _, word := range all {
		g.set(truth(slices.Contains(some, word)), word)
	}
}

// ObserveRotation counts a rotation by how it ended: done, failed or refused.
func (m *Metrics) ObserveRotation(result string) { m.zones.rotations.WithLabelValues(result).Inc() }

// ObserveFailover counts a failover of a zone, of searches (read) or out of the cluster (write), by how it ended; took is
// how long searches took to leave, 0 where it is not about them.
func (m *Metrics) ObserveFailover(zone, kind, result string, took time.Duration) {
	m.zones.failovers.WithLabelValues(zone, kind, result).Inc()
	if took > 0 {
		m.zones.failoverSeconds.WithLabelValues().Observe(took.Seconds())
	}
}

// ObserveReturn shows how long a zone took to come back: its nodes, and where it has them, its copies.
func (m *Metrics) ObserveReturn(rejoin, recovery time.Duration) {
	m.zones.rejoin.set(rejoin.Seconds())
	if recovery > 0 {
		m.zones.recovery.set(recovery.Seconds())
	}
}

// ObserveForeignChange counts a change by somebody else.
func (m *Metrics) ObserveForeignChange() { m.zones.foreign.WithLabelValues().Inc() }

// ObserveZoneCopies shows where a snapshot's copies are by zone, which is the value of an attribute, and whether the loss
// of any zone would be survived; exempt are indices that need no copy in every zone.
func (m *Metrics) ObserveZoneCopies(s *cluster.Snapshot, attribute string, exempt []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	z := &m.zones
	zoneOf := make([]string, len(s.Nodes))
	nodes, processors := map[string]float64{}, map[string]float64{}
	below := true
	for n := range s.Nodes {
		node := &s.Nodes[n]
		zoneOf[n] = node.Attributes[attribute]
		if zoneOf[n] == "" || !node.IsData() {
			continue
		}
		nodes[zoneOf[n]]++
		processors[zoneOf[n]] += node.Processors
		if node.Disk.Total > 0 && node.Disk.Available < s.Settings.Low.Required(node.Disk.Total) {
			below = false
		}
	}
	primaries, states := map[string]float64{}, map[[2]string]float64{}
	type shard struct{ index, number int32 }
	where := map[shard]map[string]bool{}
	for c := range s.Copies {
		k := &s.Copies[c]
		at := shard{k.Index, k.Shard}
		if where[at] == nil {
			where[at] = map[string]bool{}
		}
		if k.Node == cluster.None {
			continue
		}
		zone := zoneOf[k.Node]
		states[[2]string{zone, strings.ToLower(k.State.String())}]++
		if k.Primary {
			primaries[zone]++
		}
		if k.State == cluster.Started || k.State == cluster.Relocating {
			where[at][zone] = true
		}
	}
	unprotected, spread := map[string]float64{}, true
	for at, in := range where {
		if len(in) == 1 {
			for zone := range in {
				unprotected[zone]++
			}
		}
		if index := &s.Indices[at.index]; len(in) < len(nodes) && !index.Closed && !cluster.MatchIndex(exempt, index.Name) {
			spread = false
		}
	}
	var byPrimary, byState, alone []value
	for zone := range nodes {
		byPrimary = append(byPrimary, value{[]string{zone}, primaries[zone]})
		alone = append(alone, value{[]string{zone}, unprotected[zone]})
		for _, state := range zoneCopyStates {
			byState = append(byState, value{[]string{zone, state}, states[[2]string{zone, state}]})
		}
	}
	z.primaries.replace(byPrimary)
	z.shards.replace(byState)
	z.unprotected.replace(alone)
	z.stability.set(truth(spread), "copies")
	z.stability.set(truth(alike(nodes, 1)), "nodes")
	z.stability.set(truth(alike(processors, zonesAlike)), "processors")
	z.stability.set(truth(below), "disks")
}

// zonesAlike is how much larger the largest zone may be than the smallest, as the controller's guard has it.
const zonesAlike = 1.1

func alike(sums map[string]float64, ratio float64) bool {
	least, most, first := 0.0, 0.0, true
	for _, sum := range sums {
		if first || sum < least {
			least = sum
		}
		most, first = max(most, sum), false
	}
	return most <= ratio*least
}
