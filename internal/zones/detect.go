package zones

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/es"
)

// Signal is one way in which a zone shows that it is not well.
type Signal string

// The signals.
const (
	Probe      Signal = "probe"       // its nodes do not answer at their own addresses
	Missing    Signal = "missing"     // its nodes are not in the cluster
	Silent     Signal = "silent"      // its nodes do not answer the rest of the cluster
	Copies     Signal = "copies"      // its copies are not started
	SearchTest Signal = "search_test" // a search sent to it fails or takes long
	Latency    Signal = "latency"     // its searches take longer than those of the others
	Rejections Signal = "rejections"  // it refuses work
	FailOpen   Signal = "fail_open"   // searches had to go to a zone that does not serve
	WriteTest  Signal = "write_test"  // a write that waits for every copy takes long
	Manager    Signal = "manager"     // the cluster is led from there and does not get on
)

// Signals lists them in the order of the documentation.
var Signals = []Signal{Probe, Missing, Silent, Copies, SearchTest, Latency, Rejections, FailOpen, WriteTest, Manager}

// Health is the judgement on one zone.
type Health struct {
	Bad           []Signal  `json:"bad,omitempty"`    // signals that count, for as many rounds as they need
	Seen          []Signal  `json:"seen,omitempty"`   // those that were bad in the last round
	ReadImpaired  bool      `json:"read_impaired"`    // searches should go elsewhere
	WriteImpaired bool      `json:"write_impaired"`   // it holds up writes
	Since         time.Time `json:"since,omitzero"`   // of the first bad signal of this illness; zero while well
	Well          time.Time `json:"well,omitzero"`    // since when all signals have been good; zero where they are not
	Fraction      float64   `json:"missing_fraction"` // ratio of its data nodes that are gone or do not answer
	Started       float64   `json:"started_fraction"` // ratio of its usual copies that are started
}

// Healthy tells whether nothing speaks against the zone.
func (h Health) Healthy() bool { return len(h.Seen) == 0 && len(h.Bad) == 0 }

// Assessment is the judgement on all zones after a round.
type Assessment struct {
	Zones map[string]Health
	// Isolated says why nothing is to be concluded: it may be us who are cut off. Empty otherwise.
	Isolated string
}

// Detector judges zones from one look to the next. It is for one goroutine.
type Detector struct {
	running map[string]map[Signal]int // rounds a signal has been bad without a break
	canary  map[string][]bool         // the last looks at a zone's test search, true where bad
	usual   map[string]*median        // time of a zone's test search
	writes  *median                   // of the test write
	full    map[string]int            // copies a zone has when it is well
	since   map[string]time.Time
	well    map[string]time.Time
	slow    map[string]time.Time // since when a zone has held up writes
	waited  map[string]time.Time // when one last waited for it
	sure    map[string]time.Time // when something besides last spoke against it for as many rounds as that needs
	loads   map[cluster.NodeID]es.ZoneLoad
	roles   map[string]Role // of the last look
	frozen  time.Time       // until then what is usual is not learned
}

// NewDetector knows nothing yet.
func NewDetector() *Detector {
	return &Detector{
		running: map[string]map[Signal]int{}, canary: map[string][]bool{}, usual: map[string]*median{}, writes: &median{},
		full: map[string]int{}, since: map[string]time.Time{}, well: map[string]time.Time{}, slow: map[string]time.Time{},
		waited: map[string]time.Time{}, sure: map[string]time.Time{},
	}
}

// Freeze keeps what is usual from being learned until then: after a change of roles caches are cold. A change that a look
// shows does so by itself, whoever has made it; this is for one from before the first look.
func (d *Detector) Freeze(until time.Time) {
	if until.After(d.frozen) {
		d.frozen = until
	}
}

// need is how many rounds running a signal has to be bad to count.
var need = map[Signal]int{
	Probe: probeRounds, Missing: missingRounds, Silent: missingRounds, Copies: missingRounds, SearchTest: 1, Latency: slowRounds,
	Rejections: rejectedRounds, FailOpen: openRounds, WriteTest: 1, Manager: 1,
}

// Observe takes one look in. roles are those in force.
func (d *Detector) Observe(v *View, roster Roster, roles map[string]Role) Assessment {
	if v.State != nil { // else nobody has said what the roles are
		if d.roles != nil && !maps.Equal(roles, d.roles) {
			d.Freeze(v.At.Add(coldFor))
		}
		d.roles = maps.Clone(roles)
	}
	zones := roster.zones()
	bad := make(map[string]map[Signal]bool, len(zones))
	present := v.present()
	a := Assessment{Zones: make(map[string]Health, len(zones))}
	moved := d.rates(v, roster)
	for _, zone := range zones {
		seen := map[Signal]bool{}
		bad[zone] = seen
		h := Health{Started: 1}
		members := roster.data(zone)
		gone, mute, unheard := 0, 0, 0
		for _, m := range members {
			answered, probed := v.Probes[m.Name]
			missing := v.State != nil && !present[m.Name]
			if missing {
				gone++
			}
			if probed && !answered {
				mute++
			}
			if v.Silent[m.ID] {
				unheard++
			}
			if missing || probed && !answered {
				h.Fraction += 1 / float64(len(members))
			}
		}
		more := func(n int) bool { return float64(n) > zoneFraction*float64(len(members)) }
		seen[Probe], seen[Missing], seen[Silent] = more(mute), more(gone), more(unheard)
		if v.Silent == nil { // not asked in this round: what was so still counts
			seen[Silent] = d.running[zone][Silent] > 0
		}
		if v.Copies != nil {
			h.Started = d.started(zone, v.Copies[zone])
			seen[Copies] = h.Started < copiesFraction
		}
		seen[SearchTest] = d.testSearch(zone, v)
		if roles[zone] == Out { // it is meant to be gone; only whether it can be reached is of interest
			for _, s := range []Signal{Missing, Silent, Copies} {
				seen[s] = false
			}
		}
		a.Zones[zone] = h
	}
	d.compare(moved, roles, bad)
	d.testWrite(v, roster, bad)
	a.Isolated = isolated(v, bad, roles)
	for _, zone := range zones {
		a.Zones[zone] = d.judge(v.At, zone, a.Zones[zone], bad[zone], a.Isolated != "")
	}
	d.learn(v, a)
	return a
}

// isolated is the suspicion that we are the ones who are cut off: probes fail in more than one zone, or nobody who
// answers knows of an elected master.
func isolated(v *View, bad map[string]map[Signal]bool, roles map[string]Role) string {
	mute := 0
	for zone, seen := range bad {
		if seen[Probe] && roles[zone] != Out {
			mute++
		}
	}
	switch {
	case mute > 1:
		return fmt.Sprintf("the nodes of %d zones do not answer: it may be us who are cut off", mute)
	case v.State == nil:
		return "no node answers"
	}
	return ""
}

// judge turns what was seen into what counts. While we may be cut off nothing is added and nothing is cleared.
func (d *Detector) judge(now time.Time, zone string, h Health, seen map[Signal]bool, frozen bool) Health {
	if d.running[zone] == nil {
		d.running[zone] = map[Signal]int{}
	}
	running := d.running[zone]
	counts := map[Signal]bool{}
	for _, s := range Signals {
		switch {
		case frozen:
		case seen[s]:
			running[s]++
		default:
			running[s] = 0
		}
		if seen[s] {
			h.Seen = append(h.Seen, s)
		}
		if running[s] >= need[s] {
			h.Bad = append(h.Bad, s)
			counts[s] = true
		}
	}
	if frozen {
		h.Since, h.Well = d.since[zone], d.well[zone]
		return h
	}
	if len(h.Seen) > 0 {
		d.well[zone] = time.Time{}
		if d.since[zone].IsZero() {
			d.since[zone] = now
		}
	} else if d.well[zone].IsZero() {
		d.well[zone], d.since[zone] = now, time.Time{}
	}
	h.Since, h.Well = d.since[zone], d.well[zone]
	h.ReadImpaired = readImpaired(counts)
	// A zone that answers now and then holds writes up as well: quick ones in between begin nothing anew. It is called
	// impaired only when one has just waited for it.
	if counts[Probe] || counts[Silent] || counts[Manager] {
		d.sure[zone] = now
	}
	if counts[WriteTest] && now.Sub(d.sure[zone]) <= writeGap {
		if now.Sub(d.waited[zone]) > writeGap {
			d.slow[zone] = now
		}
		d.waited[zone] = now
		h.WriteImpaired = now.Sub(d.slow[zone]) >= writeHeld
	}
	return h
}

// readImpaired combines the signals: one that suffices, two that confirm each other, or a strong one with two weak ones.
func readImpaired(s map[Signal]bool) bool {
	weak := 0
	for _, one := range []Signal{Latency, Rejections, FailOpen} {
		if s[one] {
			weak++
		}
	}
	switch {
	case s[Missing]:
		return true
	case s[Probe] && (s[Copies] || s[SearchTest] || s[Silent]):
		return true
	case s[SearchTest] && s[Latency]:
		return true
	case s[Silent] && s[WriteTest]: // it answers us, and the other nodes wait for it
		return true
	}
	return (s[Probe] || s[SearchTest]) && weak >= 2
}

// started is the ratio of a zone's usual copies that are started.
func (d *Detector) started(zone string, now es.ZoneCopies) float64 {
	if d.full[zone] == 0 {
		return 1
	}
	return min(1, float64(now.Active)/float64(d.full[zone]))
}

// learn remembers what is usual while every zone is well.
func (d *Detector) learn(v *View, a Assessment) {
	for _, h := range a.Zones {
		if !h.Healthy() {
			return
		}
	}
	for zone, n := range v.Copies {
		d.full[zone] = n.Active + n.Initializing // one that was deleted is not missed, one that is on its way is
	}
	if v.At.Before(d.frozen) {
		return
	}
	for zone, c := range v.Canary {
		if c.Failed { // it says nothing of how long one takes that succeeds
			continue
		}
		if zone == "" {
			d.writes.add(v.At, c.Took)
			continue
		}
		if d.usual[zone] == nil {
			d.usual[zone] = &median{}
		}
		d.usual[zone].add(v.At, c.Took)
	}
}

// testSearch judges a zone's test search: bad where it is so in three of five looks.
func (d *Detector) testSearch(zone string, v *View) bool {
	c, tried := v.Canary[zone]
	if !tried {
		return false
	}
	limit := canaryLeast
	if usual := d.usual[zone]; usual != nil {
		limit = max(limit, canaryFactor*usual.value())
	}
	d.canary[zone] = append(d.canary[zone], c.Failed || c.Took > limit)
	if len(d.canary[zone]) > canaryOf {
		d.canary[zone] = d.canary[zone][1:]
	}
	n := 0
	for _, bad := range d.canary[zone] {
		if bad {
			n++
		}
	}
	return n >= canaryBad
}

// testWrite judges the test write, and whom it speaks against: the zone whose nodes do not answer, or that of a leader
// who does not get on.
func (d *Detector) testWrite(v *View, roster Roster, bad map[string]map[Signal]bool) {
	if leader := v.leaderZone(roster); leader != "" && bad[leader] != nil {
		// What a leader publishes waits for every node: where those of another zone do not answer, its queue is their doing.
		others := false
		for zone, seen := range bad {
			others = others || zone != leader && (seen[Probe] || seen[Silent])
		}
		bad[leader][Manager] = v.TaskWait > managerWait && !others
	}
	c, tried := v.Canary[""]
	if !tried || !c.Failed && c.Took <= max(canaryLeast, canaryFactor*d.writes.value()) {
		return
	}
	for _, seen := range bad {
		seen[WriteTest] = seen[Probe] || seen[Silent] || seen[Manager]
	}
}

// rate is what a zone did since the look before.
type rate struct {
	queries, operations, rejected, opened int64
	took                                  time.Duration
}

// rates sums by zone what its nodes did since the look before. A node that restarted in between adds nothing.
func (d *Detector) rates(v *View, roster Roster) map[string]rate {
	if v.Loads == nil {
		return nil
	}
	before := d.loads
	d.loads = v.Loads
	if before == nil {
		return nil
	}
	zones, where := map[string]rate{}, roster.byNode() // of hundreds of nodes, in every round
	for id, now := range v.Loads {
		then, known := before[id]
		if !known || now.Queries < then.Queries || now.Searches < then.Searches || now.Writes < then.Writes {
			continue
		}
		zone := where[id]
		r := zones[zone]
		r.queries += now.Queries - then.Queries
		r.took += now.QueryTime - then.QueryTime
		r.operations += now.Searches - then.Searches + now.Writes - then.Writes
		r.rejected += max(0, now.Rejected-then.Rejected)
		r.opened += max(0, now.FailedOpen-then.FailedOpen)
		zones[zone] = r
	}
	return zones
}

// compare judges the zones that serve beside each other.
func (d *Detector) compare(moved map[string]rate, roles map[string]Role, bad map[string]map[Signal]bool) {
	opened := false
	for _, r := range moved {
		opened = opened || r.opened > 0
	}
	for zone, seen := range bad {
		if moved == nil { // not looked at in this round: what was so still counts
			for _, s := range []Signal{Latency, Rejections, FailOpen} {
				seen[s] = d.running[zone][s] > 0
			}
			continue
		}
		r, ran := moved[zone]
		if !ran || roles[zone] != Active {
			continue
		}
		seen[Rejections] = r.rejected > 0 && float64(r.rejected) > rejectedShare*float64(r.operations+r.rejected)
		// The counter is one of the coordinating node and does not say whose copies were missing: it speaks against a zone only
		// beside something else.
		seen[FailOpen] = opened && (seen[Probe] || seen[Silent] || seen[Missing])
		var others []time.Duration
		for other, o := range moved {
			if other != zone && roles[other] == Active && o.queries > 0 {
				others = append(others, o.took/time.Duration(o.queries))
			}
		}
		if len(others) == 0 || r.queries == 0 {
			continue
		}
		slices.Sort(others)
		mean := r.took / time.Duration(r.queries)
		seen[Latency] = mean > slowLeast && mean > slowFactor*others[len(others)/2]
	}
}

// median is the middle of what was measured in the last quarter of an hour.
type median struct {
	at     []time.Time
	values []time.Duration
}

const medianOver = 15 * time.Minute

func (m *median) add(now time.Time, value time.Duration) {
	m.at, m.values = append(m.at, now), append(m.values, value)
	for len(m.at) > 1 && now.Sub(m.at[0]) > medianOver {
		m.at, m.values = m.at[1:], m.values[1:]
	}
}

func (m *median) value() time.Duration {
	if len(m.values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(m.values))
	return sorted[len(sorted)/2]
}
