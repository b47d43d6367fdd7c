package zones

import (
	"maps"
	"slices"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/es"
)

// View is one look at a cluster's zones. What was not asked or not answered is nil.
type View struct {
	At      time.Time
	Product cluster.Product

	// State is that of the node which has applied the newest one; nil where none answered.
	State *es.ZoneState
	// Behind are the nodes which have not applied the new weights that are awaited, of those that answer.
	Behind []string
	// Probes tells of each node of the roster whether it answered at its own address; nodes without an address that ever
	// answered are not there.
	Probes map[string]bool
	// Silent are nodes that did not answer the cluster's own questions.
	Silent map[cluster.NodeID]bool

	Loads    map[cluster.NodeID]es.ZoneLoad
	Copies   map[string]es.ZoneCopies // by zone
	TaskWait time.Duration            // of the oldest task of the elected master
	Canary   map[string]Canary        // by zone

	Settings *Settings
	Routing  *Routing
}

// Settings are the cluster's own about zones, and what people have asked of the controller.
type Settings struct {
	Aware         []string // awareness attributes
	Forced        []string // values of our attribute that count without nodes
	Excluded      []string // values of our attribute that allocation keeps out of
	IgnoreWeights bool
	Low           cluster.Watermark
	Orders        Orders
}

// Routing is where every copy is, read for guards.
type Routing struct {
	*es.Routing
	InSync    map[string]map[int][]string
	Snapshots int // shards whose primaries are being written to a snapshot
}

// Canary is a search (and, for the cluster as a whole, a write) that proves a zone.
type Canary struct {
	Took   time.Duration
	Failed bool
}

// Member is a node that a zone is expected to have.
type Member struct {
	ID         cluster.NodeID `json:"id"`
	Name       string         `json:"name"`
	Zone       string         `json:"zone"`
	Data       bool           `json:"data"`
	Eligible   bool           `json:"eligible"` // to lead and vote
	Address    string         `json:"address"`  // of its REST interface, with scheme; empty where it publishes none
	Reached    bool           `json:"reached"`  // it has answered there at least once
	Processors float64        `json:"processors"`
	Heap       int64          `json:"heap_bytes"`
	LastSeen   time.Time      `json:"last_seen"` // in the cluster
}

// Roster are the nodes that are expected, by name: a node that is gone is missed as long as it is on it.
type Roster map[string]Member

// forgetAfter is how long a node stays expected that has not been seen, while its zone is well without it: somebody has
// taken it away.
const forgetAfter = time.Hour

// zones lists the zones of the roster's data nodes, sorted.
func (r Roster) zones() []string {
	found := map[string]bool{}
	for _, m := range r {
		if m.Data {
			found[m.Zone] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// of lists a zone's members by name.
func (r Roster) of(zone string) []Member {
	var members []Member
	for _, name := range slices.Sorted(maps.Keys(r)) {
		if r[name].Zone == zone {
			members = append(members, r[name])
		}
	}
	return members
}

// data lists a zone's data nodes.
func (r Roster) data(zone string) []Member {
	return slices.DeleteFunc(r.of(zone), func(m Member) bool { return !m.Data })
}

// zoneOf is the zone of a node by its id; empty for a stranger.
func (r Roster) zoneOf(id cluster.NodeID) string {
	for _, m := range r {
		if m.ID == id {
			return m.Zone
		}
	}
	return ""
}

// byNode gives the zone of each node by its id.
func (r Roster) byNode() map[cluster.NodeID]string {
	where := make(map[cluster.NodeID]string, len(r))
	for _, m := range r {
		where[m.ID] = m.Zone
	}
	return where
}

// voters are the nodes of a zone that may lead.
func (r Roster) voters(zone string) []cluster.NodeID {
	var nodes []cluster.NodeID
	for _, m := range r.of(zone) {
		if m.Eligible {
			nodes = append(nodes, m.ID)
		}
	}
	return nodes
}

// present tells which members are in the cluster.
func (v *View) present() map[string]bool {
	names := map[string]bool{}
	if v.State != nil {
		for _, n := range v.State.Nodes {
			names[n.Name] = true
		}
	}
	return names
}

// weights are those in force as far as the newest state knows.
func (v *View) weights() es.ZoneWeights {
	if v.State == nil {
		return es.ZoneWeights{Version: -1}
	}
	return v.State.Weights
}

// leaderZone is the zone of the node that leads; empty where none does or it is a stranger.
func (v *View) leaderZone(r Roster) string {
	if v.State == nil || v.State.Leader == "" {
		return ""
	}
	return r.zoneOf(v.State.Leader)
}

// Role is what a zone does.
type Role string

// The roles.
const (
	Active  Role = "active"  // searches go there
	Standby Role = "standby" // its copies are kept in step, searches go elsewhere
	Out     Role = "out"     // it is out of the cluster, or on its way
)

// roles are read off the weights, a decommission, and a fence of ours.
func (s *State) roles(v *View) map[string]Role {
	w, out := v.weights(), decommissionOf(v)
	zones := s.Roster.zones()
	roles := make(map[string]Role, len(zones))
	for _, zone := range zones {
		weight, weighed := w.Values[zone]
		switch {
		case out.Value == zone && out.Status != es.DecommissionFailed, s.Write == Gone && s.Leaving.Zone == zone:
			roles[zone] = Out
		case weighed && weight < 1: // the server too takes a fraction for nothing
			roles[zone] = Standby
		default:
			roles[zone] = Active
		}
	}
	return roles
}

// weightsFor are the weights in which only the given zones do not serve.
func weightsFor(zones []string, resting ...string) map[string]float64 {
	w := make(map[string]float64, len(zones))
	for _, zone := range zones {
		w[zone] = 1
		if slices.Contains(resting, zone) {
			w[zone] = 0
		}
	}
	return w
}

// serving lists the zones of a weight, sorted.
func serving(w map[string]float64) []string {
	var zones []string
	for zone, weight := range w {
		if weight >= 1 {
			zones = append(zones, zone)
		}
	}
	slices.Sort(zones)
	return zones
}
