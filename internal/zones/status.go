package zones

import (
	"fmt"
	"slices"
	"time"

	"github.com/shardonnay/shardonnay/internal/es"
)

// Status is what the controller knows and does, for people and programs.
type Status struct {
	At           time.Time             `json:"at"`
	Mode         Mode                  `json:"mode"`
	Attribute    string                `json:"attribute"`
	Unsupported  string                `json:"unsupported,omitempty"` // why nothing but observing is possible
	Isolated     string                `json:"isolated,omitempty"`    // why nothing is concluded: it may be us who are cut off
	Phase        Phase                 `json:"phase"`
	Write        WritePhase            `json:"write"`
	Version      int64                 `json:"weights_version"` // -1 where there are none
	Zones        []ZoneStatus          `json:"zones"`
	Hold         *Hold                 `json:"hold,omitempty"`
	Pin          string                `json:"pin,omitempty"`
	Change       *Change               `json:"change,omitempty"`
	Leaving      *Leaving              `json:"leaving,omitempty"`
	Decommission es.DecommissionStatus `json:"decommission,omitempty"`
	Due          time.Time             `json:"rotation_due,omitzero"`
	Changed      time.Time             `json:"changed,omitzero"`  // when roles last changed
	Blocked      []Check               `json:"blocked,omitempty"` // what holds up what is due
	Would        string                `json:"would,omitempty"`   // the request that a dry run did not send
	Owner        *Owner                `json:"owner,omitempty"`   // the other instance that runs the zones
	Handled      string                `json:"handled,omitempty"` // id of the last order that was dealt with
	Result       string                `json:"result,omitempty"`  // what came of it
	Peak         float64               `json:"peak_busy_threads"` // of searches, stayed under for 99 % of a day; 0 where it is not known
	Voters       int                   `json:"voters"`            // nodes whose votes count
	Leader       string                `json:"leader,omitempty"`  // zone of the node that leads
	Notes        []Note                `json:"notes,omitempty"`   // what was decided, refused or seen in this round
	// Judged is when a look last showed enough to decide by; zero where none has yet.
	Judged time.Time `json:"judged,omitzero"`
	// Unwritten is since when the journal cannot be written; zero while it can.
	Unwritten time.Time           `json:"journal_broken_since,omitzero"`
	Loads     map[string]ZoneWork `json:"work,omitempty"` // since the nodes started, by zone

	again bool
}

// ZoneStatus is one zone.
type ZoneStatus struct {
	Zone    string        `json:"zone"`
	Role    Role          `json:"role"`
	Weight  *float64      `json:"weight"` // null where none is set
	Health  Health        `json:"health"`
	Nodes   int           `json:"nodes"`    // data nodes in the cluster
	Members int           `json:"expected"` // data nodes
	Copies  es.ZoneCopies `json:"copies"`
	// Endpoints are the zone's nodes, for whoever keeps a load balancer's list.
	Endpoints  []Endpoint `json:"endpoints,omitempty"`
	Processors float64    `json:"processors"` // of the data nodes
}

// Endpoint is one node as clients reach it.
type Endpoint struct {
	Name    string `json:"name"`
	Address string `json:"address,omitempty"` // of its REST interface, with scheme; empty where it publishes none
	Up      bool   `json:"up"`                // it is in the cluster and, where it can be asked, answers
}

// ZoneWork is what a zone's nodes have done.
type ZoneWork struct {
	Queries    int64 `json:"queries"`
	FailedOpen int64 `json:"fail_open"`
}

// report makes the status of a look.
func (c *Controller) report(config Config, v *View) *Status {
	s := &Status{
		At: v.At, Mode: config.Mode, Attribute: config.Attribute, Unsupported: supported(v), Isolated: c.health.Isolated, Version: v.weights().Version,
		Notes: c.extra,
	}
	c.extra = nil
	out := decommissionOf(v)
	s.Decommission = out.Status
	roles := c.state.roles(v)
	present := v.present()
	for _, zone := range c.state.Roster.zones() {
		z := ZoneStatus{Zone: zone, Role: roles[zone], Health: c.health.Zones[zone], Copies: v.Copies[zone]}
		if weight, weighed := v.weights().Values[zone]; weighed {
			z.Weight = &weight
		}
		for _, m := range c.state.Roster.of(zone) {
			if m.Data {
				z.Members++
				z.Processors += m.Processors
			}
			if m.Data && present[m.Name] {
				z.Nodes++
			}
			answered, probed := v.Probes[m.Name]
			z.Endpoints = append(z.Endpoints, Endpoint{m.Name, m.Address, present[m.Name] && (answered || !probed)})
		}
		s.Zones = append(s.Zones, z)
	}
	if last := c.Status(); v.State == nil && last != nil { // what was so last is nearer to the truth than nothing
		s.Zones, s.Version, s.Decommission, s.Voters, s.Leader = last.Zones, last.Version, last.Decommission, last.Voters, last.Leader
	}
	if v.State != nil {
		s.Voters, s.Leader = len(v.State.Voters), v.leaderZone(c.state.Roster)
	}
	if v.Loads != nil {
		s.Loads = map[string]ZoneWork{}
		where := c.state.Roster.byNode()
		for id, l := range v.Loads {
			zone := where[id]
			w := s.Loads[zone]
			w.Queries, w.FailedOpen = w.Queries+l.Queries, w.FailedOpen+l.FailedOpen
			s.Loads[zone] = w
		}
	}
	return s
}

// show publishes the status, with what the round made of it.
func (c *Controller) show(s *Status) {
	state := c.state
	s.Phase, s.Write, s.Hold, s.Pin, s.Change, s.Leaving, s.Changed = state.Phase, state.Write, state.Hold, state.Pin, state.Change, state.Leaving, state.Changed
	s.Handled, s.Result, s.Peak = state.Handled, c.handled, state.Peak.p99()
	s.Judged, s.Unwritten = c.judged, c.unwritten
	s.Notes = append(s.Notes, c.extra...)
	c.extra = nil
	s.Due = due(c.Config(), state)
	c.mu.Lock()
	c.status = s
	c.mu.Unlock()
	if c.Observe != nil {
		c.Observe(s)
	}
}

// due is when the next rotation is; zero where none will be.
func due(config Config, state *State) time.Time {
	if config.Rotation > 0 && !state.Changed.IsZero() && len(state.Roster.zones()) > 2 {
		return state.Changed.Add(config.Rotation)
	}
	return time.Time{}
}

// Status is that of the last look; nil before the first. It may be called at any time.
func (c *Controller) Status() *Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

// Zone finds a zone's status.
func (s *Status) Zone(name string) (ZoneStatus, bool) {
	i := slices.IndexFunc(s.Zones, func(z ZoneStatus) bool { return z.Zone == name })
	if i < 0 {
		return ZoneStatus{}, false
	}
	return s.Zones[i], true
}

// Busy says why copies are better left where they are for now: roles are changing, or a zone is not in its role, so that a
// move could take a copy from where it is needed next. Empty where nothing speaks against moves, as everywhere that zones
// are not run by this instance.
func (s *Status) Busy() string {
	switch {
	case s.Mode != Act, s.Unsupported != "", s.Owner != nil:
		return ""
	case s.Leaving != nil:
		return fmt.Sprintf("zone %s is on its way out of the cluster or back (%s)", s.Leaving.Zone, s.Write)
	case s.Phase == Holding:
		return "the zone controller holds: " + s.Hold.Reason
	case s.Phase == NoStandby:
		return "a zone has failed and none stands by"
	case s.Phase == Verifying:
		return "the roles of the zones are changing"
	case s.Phase != Steady && len(s.Blocked) > 0:
		return "the zones have no roles yet: " + texts(s.Blocked)
	case s.Phase != Steady:
		return "the zones have no roles yet"
	}
	return ""
}

// CarriesPeak tells whether, whichever zone is lost, the others carry the peak of the search load.
func (s *Status) CarriesPeak() bool {
	all := 0.0
	for _, z := range s.Zones {
		all += z.Processors
	}
	return !slices.ContainsFunc(s.Zones, func(z ZoneStatus) bool { return s.Peak > peakShare*(all-z.Processors) })
}
