package zones

import (
	"maps"
	"slices"
	"time"

	"github.com/shardonnay/shardonnay/internal/es"
)

// Phase is where the reading side stands.
type Phase string

// The phases.
const (
	Starting  Phase = "starting"   // the weights have not been looked at yet
	Steady    Phase = "steady"     // as it should be
	Verifying Phase = "verifying"  // new weights are written and not yet seen everywhere
	NoStandby Phase = "no_standby" // a zone has failed over and is not well again: nobody could take over from another
	Holding   Phase = "holding"    // somebody else has changed something, or asked for peace
)

// WritePhase is where the writing side stands: one zone leaves the cluster and comes back.
type WritePhase string

// The phases.
const (
	Idle       WritePhase = "idle"
	Draining   WritePhase = "draining"   // the zone gets no searches any more; what runs there ends
	Fencing    WritePhase = "fencing"    // the decommission has been asked for
	Gone       WritePhase = "out"        // the zone is out
	Rejoining  WritePhase = "rejoining"  // its nodes may come back
	Recovering WritePhase = "recovering" // its copies catch up
)

// State is all that the controller remembers. A copy of it stands in every line of the journal.
type State struct {
	Cluster string     `json:"cluster"` // UUID
	Phase   Phase      `json:"phase"`
	Write   WritePhase `json:"write"`

	Known       es.ZoneWeights       `json:"known"`             // weights that are ours or that we have adopted
	Serving     map[string]time.Time `json:"serving"`           // since when a zone has been serving
	Changed     time.Time            `json:"changed"`           // when roles last changed
	Leader      string               `json:"leader,omitempty"`  // node id
	LeaderSince time.Time            `json:"leader_since"`      //
	Change      *Change              `json:"change,omitempty"`  // that is being verified
	Hold        *Hold                `json:"hold,omitempty"`    //
	Pin         string               `json:"pin,omitempty"`     // the zone that is to stand by
	Failed      map[string][]Flap    `json:"failed,omitempty"`  // failovers of each zone in the last hours
	Kept        []string             `json:"kept,omitempty"`    // zones that stay standby until a person releases them
	Votes       bool                 `json:"votes,omitempty"`   // exclusions from voting are ours
	Leaving     *Leaving             `json:"leaving,omitempty"` // the zone of the writing side
	Handled     string               `json:"handled,omitempty"` // id of the last order that was carried out or refused
	Roster      Roster               `json:"roster"`            //
	Peak        Peak                 `json:"peak"`              //
	Timer       time.Time            `json:"timer,omitzero"`    // until then a server's own drain timer may fire
}

// Flap is one failover.
type Flap struct {
	At  time.Time `json:"at"`
	Out bool      `json:"out,omitempty"` // of writes: the zone was taken out, by the controller itself
}

// Hold is why the controller changes nothing.
type Hold struct {
	Kind   string    `json:"kind,omitempty"` // the event that began it; "hold" where a person did
	Reason string    `json:"reason"`
	By     string    `json:"by"` // "shardonnay" or a person
	Since  time.Time `json:"since"`
}

// ChangeKind is what new weights are for.
type ChangeKind string

// The kinds.
const (
	Initialise ChangeKind = "initialise"
	Rotate     ChangeKind = "rotate"
	FailOver   ChangeKind = "failover"
	TakeOut    ChangeKind = "take_out" // the zone leaves the write path
	Restore    ChangeKind = "restore"  // the weights from before a rotation that was not seen through
)

// Change is one replacement of the weights.
type Change struct {
	ID       string             `json:"id"`
	Kind     ChangeKind         `json:"kind"`
	Zone     string             `json:"zone"` // that stops serving; of an initialisation the first standby
	Cause    string             `json:"cause"`
	Weights  map[string]float64 `json:"weights"`
	Former   map[string]float64 `json:"former,omitempty"`
	Version  int64              `json:"version"`          // that the weights had before
	Began    time.Time          `json:"began"`            // of the first bad signal, or of the decision
	Written  time.Time          `json:"written"`          // first sent
	Sent     time.Time          `json:"sent"`             // last sent
	Seen     time.Time          `json:"seen,omitzero"`    // read back in every zone that is well
	Checks   []Check            `json:"checks,omitempty"` // the guards, as they were
	Baseline map[string]int64   `json:"baseline,omitempty"`
}

// Leaving is the zone of the writing side.
type Leaving struct {
	Zone       string    `json:"zone"`
	By         string    `json:"by"`               // who asked or approved
	Cause      string    `json:"cause"`            //
	Soft       bool      `json:"soft,omitempty"`   // it stays in the cluster, without copies
	Ill        bool      `json:"ill"`              // it was not well when it began: a zone that gets well again stays
	Fenced     bool      `json:"fenced,omitempty"` // copies were seen to be kept off it: who ends that lets it back
	Late       bool      `json:"late,omitempty"`   // that its nodes are not back in time has been said
	Began      time.Time `json:"began"`
	Deadline   time.Time `json:"deadline"`             // of the drain
	HandedOver time.Time `json:"handed_over,omitzero"` // when the zone's votes were taken for the leader to leave it
	Idle       time.Time `json:"idle,omitzero"`        // since when nothing has run there
	Asked      time.Time `json:"asked,omitzero"`       // when the decommission was asked for
	Tries      int       `json:"tries"`                //
	Undone     bool      `json:"undone,omitempty"`     // a stuck decommission was dropped and is to be asked for again
	Again      time.Time `json:"again,omitzero"`       // not before
	Out        time.Time `json:"out,omitzero"`         //
	Reachable  time.Time `json:"reachable,omitzero"`   // since when its nodes have answered at their own addresses again
	Returning  time.Time `json:"returning,omitzero"`   // when it was recommissioned
	Joined     time.Time `json:"joined,omitzero"`      // when all its nodes were back
}

// resting are the zones that do not serve by the weights we know of.
func (s *State) resting() []string {
	var zones []string
	for zone, weight := range s.Known.Values {
		if weight < 1 {
			zones = append(zones, zone)
		}
	}
	slices.Sort(zones)
	return zones
}

// weighed is when the weights that are in force, or on their way, were written, as far as it is remembered.
func (s *State) weighed() time.Time {
	if s.Change != nil {
		return s.Change.Written
	}
	return s.Changed
}

// clone is a copy that can be changed without changing s.
func (s *State) clone() *State {
	c := *s
	c.Serving, c.Failed, c.Roster = maps.Clone(s.Serving), maps.Clone(s.Failed), maps.Clone(s.Roster)
	c.Kept, c.Peak.Buckets = slices.Clone(s.Kept), slices.Clone(s.Peak.Buckets)
	if s.Change != nil {
		change := *s.Change
		c.Change = &change
	}
	if s.Leaving != nil {
		leaving := *s.Leaving
		c.Leaving = &leaving
	}
	return &c
}

// Peak is the search load of a day: the most busy threads of each five minutes.
type Peak struct {
	Begun   time.Time `json:"begun"` // of the newest bucket
	Buckets []float64 `json:"buckets,omitempty"`
}

const (
	peakBucket  = 5 * time.Minute
	peakBuckets = int(24 * time.Hour / peakBucket)
)

// add takes a mean number of busy threads in.
func (p *Peak) add(now time.Time, busy float64) {
	if len(p.Buckets) == 0 || now.Sub(p.Begun) >= peakBucket {
		p.Begun = now
		p.Buckets = append(p.Buckets, busy)
		if len(p.Buckets) > peakBuckets {
			p.Buckets = p.Buckets[1:]
		}
		return
	}
	last := len(p.Buckets) - 1
	p.Buckets[last] = max(p.Buckets[last], busy)
}

// p99 is what the load stays under for 99 % of the buckets; 0 where nothing is known.
func (p *Peak) p99() float64 {
	if len(p.Buckets) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(p.Buckets))
	return sorted[(len(sorted)*99-1)/100]
}

func sortedNames(r Roster) []string { return slices.Sorted(maps.Keys(r)) }
