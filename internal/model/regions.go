package model

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// Regions says how the copies of a shard are to spread over regions, their zones and hosts. Where all data nodes are in one
// region nothing of it has an effect.
type Regions struct {
	Region string // node attribute that names a node's region
	Zone   string // node attribute that names its zone; zones are not told apart where no data node has it
	Host   string // node attribute that names its host; empty for the node's address

	Remainder Remainder
	Layouts   []Layout // explicit counts; of those whose pattern fits an index the last holds
	Homes     []Home   // regions that primaries are kept in where they have to move anyway; the last that fits holds

	// Overload is how far above its fair share a node may be loaded, a ratio. The largest copy of its domain fits beside
	// that, so that a node below its share may always take a copy.
	Overload float64
	// CoolingDown holds shards of which a copy moved too recently for another one to move, unless it has to leave its node.
	CoolingDown map[ShardID]struct{}

	WAN WAN
}

// Remainder says where the copies go that are left when every region has its floor, floor(copies/regions).
type Remainder string

// The ways to place a remainder.
const (
	RemainderMain   Remainder = "main"   // all in one region, the shard's main region
	RemainderSpread Remainder = "spread" // at most one in each
)

// Layout gives the copies of the shards of some indices per region. Their sum is the number of copies.
type Layout struct {
	Pattern string
	Copies  map[string]int
}

// Home is the home region of the primaries of some indices.
type Home struct {
	Pattern, Region string
}

// ShardID names a shard over snapshots.
type ShardID struct {
	IndexUUID string
	Shard     int32
}

// WAN bounds what crosses between regions in one plan.
type WAN struct {
	// Closed lets nothing cross in this pass but what brings a region up to its floor.
	Closed bool
	// Left is how many bytes may still cross, per pair of regions; nil is no limit.
	Left map[Link]float64
	// Factor is how many times a byte that crosses counts in the price of its move; 1 is plain.
	Factor float64
}

// Link is the way from one region to another.
type Link struct {
	From string `json:"from"`
	To   string `json:"to"`
}

const (
	// With regions every wish has its price, each ten times the one below, so that a copy more in a region is never bought
	// with any number of zones that a shard can have, and one that has to leave leaves. All are far above what balance can
	// gain. The server's own awareness ranks with regions: it would move those copies itself.
	regionPrice, zonePrice, hostPrice = 1000, 100, 10
	regionalMustLeavePrice            = 10_000
	// rankPrice is the price of a step in the order of places for a copy that has to leave: below a host's, above what one
	// copy gains in balance. tieShare of it tells places of one rank apart.
	rankPrice, tieShare = 1, 1e-6
	// homePrice is what a primary pays that moves out of its home region, or moves and stays out of it.
	homePrice = 1
)

// The depths of the region tiers, from Built.topology.depth on.
const (
	regionTier = iota
	zoneTier
	hostTier
	regionTiers
)

// TierNames are the region tiers, outermost first.
var TierNames = [regionTiers]string{"region", "zone", "host"}

// topology is where the nodes of a snapshot stand.
type topology struct {
	policy *Regions
	// value is per node of the snapshot its value at each region tier, inner ones with the outer in front; empty for
	// nodes without data.
	value [][regionTiers]string
	zones bool // zones are told apart
	many  bool // there is more than one region
	depth int  // of the region among the problem's tiers
}

// Regional tells whether the snapshot's data nodes are in several regions by the policy.
func (r *Rules) regional() bool {
	if r.policy.Regions == nil {
		return false
	}
	first, many := "", false
	for n := range r.s.Nodes {
		if node := &r.s.Nodes[n]; node.IsData() {
			region := node.Attributes[r.policy.Regions.Region]
			many = many || first != "" && region != "" && region != first
			if region != "" {
				first = region
			}
		}
	}
	return many
}

// newTopology reads where the nodes stand. The error names nodes without a region, and zones that are in two.
func newTopology(s *cluster.Snapshot, policy *Regions) (*topology, error) {
	t := &topology{policy: policy, value: make([][regionTiers]string, len(s.Nodes))}
	fault := func(hint, format string, args ...any) error {
		return &cluster.Error{Class: cluster.Invalid, Op: "read the regions of the nodes", Err: fmt.Errorf(format, args...), Hint: hint}
	}
	var without []string
	regionOf := make(map[string]string) // zone -> region
	for n := range s.Nodes {
		node := &s.Nodes[n]
		if !node.IsData() {
			continue
		}
		region, zone := node.Attributes[policy.Region], node.Attributes[policy.Zone]
		if region == "" {
			without = append(without, nodeName(node))
			continue
		}
		if other, known := regionOf[zone]; zone != "" && known && other != region {
			return nil, fault("Name zones so that no two regions share one, such as "+region+"-"+zone+"; the servers compare them without their region",
				"zone %s is in the regions %s and %s", zone, min(region, other), max(region, other))
		}
		host := node.HostAddress()
		if policy.Host != "" {
			host = node.Attributes[policy.Host]
		}
		if host == "" {
			host = string(node.ID)
		}
		regionOf[zone] = region
		t.zones = t.zones || zone != ""
		t.value[n] = [regionTiers]string{region, region + "/" + zone, region + "/" + zone + "/" + host}
	}
	if len(without) > 0 {
		slices.Sort(without)
		return nil, fault("Set node.attr."+policy.Region+" on every data node, or leave regions.attribute empty",
			"%d data nodes do not have the attribute %s: %s", len(without), policy.Region, strings.Join(without[:min(len(without), 5)], ", "))
	}
	if t.zones {
		for n := range s.Nodes {
			if node := &s.Nodes[n]; node.IsData() && node.Attributes[policy.Zone] == "" {
				return nil, fault("Set node.attr."+policy.Zone+" on every data node, or on none", "node %s has no %s, and others have", nodeName(node), policy.Zone)
			}
		}
	}
	for n := range t.value {
		t.many = t.many || t.value[n][regionTier] != "" && t.value[n][regionTier] != t.first()
	}
	return t, nil
}

func nodeName(n *cluster.Node) string {
	if n.Name != "" {
		return n.Name
	}
	return string(n.ID)
}

func (t *topology) first() string {
	for n := range t.value {
		if region := t.value[n][regionTier]; region != "" {
			return region
		}
	}
	return ""
}

// tree is what of the regions a set of nodes has.
type tree struct {
	regions []string            // ascending
	zones   map[string][]string // region -> its zones, ascending
	hosts   map[string][]string // zone -> its hosts, ascending
	shared  bool                // some host has several nodes
}

// plant makes the tree of the nodes of the snapshot that are in.
func (t *topology) plant(in func(n int) bool) *tree {
	made := &tree{zones: make(map[string][]string), hosts: make(map[string][]string)}
	add := func(list []string, value string) []string {
		if at, known := slices.BinarySearch(list, value); !known {
			list = slices.Insert(list, at, value)
		}
		return list
	}
	seen := make(map[string]bool)
	for n, value := range t.value {
		if value[regionTier] == "" || !in(n) {
			continue
		}
		made.shared = made.shared || seen[value[hostTier]]
		seen[value[hostTier]] = true
		made.regions = add(made.regions, value[regionTier])
		made.zones[value[regionTier]] = add(made.zones[value[regionTier]], value[zoneTier])
		made.hosts[value[zoneTier]] = add(made.hosts[value[zoneTier]], value[hostTier])
	}
	return made
}

// Wishes is how many copies of a shard each region, zone and host is to have. Below the region a cap is the cap above,
// divided evenly and rounded up. Shards that wish the same share one.
type Wishes struct {
	Caps    [regionTiers]map[string]int // per tier, per value of the nodes it may live on
	Floors  map[string]int              // per region
	Main    string                      // the region with the remainder; empty where there is none or it is spread
	Relaxed bool                        // regions have fewer zones than copies: some zone has to hold several
}

// layout is the explicit layout of an index, nil where it has none.
func (r *Regions) layout(index string) map[string]int {
	for _, l := range slices.Backward(r.Layouts) {
		if cluster.MatchPattern(l.Pattern, index) {
			return l.Copies
		}
	}
	return nil
}

// home is the home region of an index, empty where it has none.
func (r *Regions) home(index string) string {
	for _, h := range slices.Backward(r.Homes) {
		if cluster.MatchPattern(h.Pattern, index) {
			return h.Region
		}
	}
	return ""
}

// wish says where the copies of a shard should be: copies of them, of which now[region] are there.
//
// Every region gets the floor. The remainder goes to one main region, and what it cannot hold to others; or it is spread,
// one each. No region gets more than it has zones; where there are not so many zones, each may hold one more copy, and so
// on, until there is room for all.
func (t *topology) wish(shard string, copies int, explicit, now map[string]int, on *tree) *Wishes {
	w := &Wishes{Floors: make(map[string]int)}
	w.Caps[regionTier] = make(map[string]int)
	if len(on.regions) == 0 {
		return w
	}
	room := func(string) int { return copies }
	if t.zones && len(on.regions) > 1 {
		zones := 0
		for _, region := range on.regions {
			zones += len(on.zones[region])
		}
		each := max(1, ceil(copies, zones)) // copies a zone
		room = func(region string) int { return each * len(on.zones[region]) }
		w.Relaxed = each > 1
	}
	floor := copies / len(on.regions)
	caps := w.Caps[regionTier]
	switch {
	case explicit != nil:
		for _, region := range on.regions {
			caps[region], w.Floors[region] = explicit[region], explicit[region]
			w.Relaxed = w.Relaxed || t.zones && explicit[region] > len(on.zones[region])
		}
	case t.policy.Remainder == RemainderSpread:
		for most := ceil(copies, len(on.regions)); ; most++ {
			sum := 0
			for _, region := range on.regions {
				caps[region], w.Floors[region] = min(most, room(region)), min(floor, room(region))
				sum += caps[region]
			}
			if sum >= copies {
				break
			}
		}
	default:
		rest := copies
		for _, region := range on.regions {
			w.Floors[region] = min(floor, room(region))
			rest -= w.Floors[region]
		}
		takes := func(region string) int { return min(rest, room(region)-w.Floors[region]) } // of the remainder, at most
		// The regions that can hold the whole remainder come first, so that where all of them can it is the hash that says.
		order := slices.Clone(on.regions)
		slices.SortFunc(order, func(a, b string) int {
			return cmp.Or(takes(b)-takes(a), cmp.Compare(rendezvous(shard, b), rendezvous(shard, a)))
		})
		chosen := w.fill(order, rest, takes)
		w.Main = order[0]
		// Where what a main region cannot hold is in others that can hold as much as those of the hash, it stays there.
		slices.SortStableFunc(order, func(a, b string) int { return cmp.Or(takes(b)-takes(a), now[b]-now[a]) })
		for i := range order {
			other := slices.Concat(order[i:i+1], order[:i], order[i+1:])
			if filled := w.fill(other, rest, takes); equalCounts(filled, now) {
				chosen, w.Main = filled, order[i] // it is so already
				break
			}
		}
		if rest == 0 {
			w.Main = ""
		}
		maps.Copy(caps, chosen)
	}
	return w
}

// divide fills in the caps below the region.
func (w *Wishes) divide(on *tree) {
	w.Caps[zoneTier], w.Caps[hostTier] = make(map[string]int), make(map[string]int)
	for _, region := range on.regions {
		for _, zone := range on.zones[region] {
			w.Caps[zoneTier][zone] = ceil(w.Caps[regionTier][region], len(on.zones[region]))
			for _, host := range on.hosts[zone] {
				w.Caps[hostTier][host] = ceil(w.Caps[zoneTier][zone], len(on.hosts[zone]))
			}
		}
	}
}

// fill gives every region its floor, then the rest in that order, as much as each takes.
func (w *Wishes) fill(order []string, rest int, takes func(string) int) map[string]int {
	count := make(map[string]int, len(order))
	for _, region := range order {
		more := min(rest, takes(region))
		count[region] = w.Floors[region] + more
		rest -= more
	}
	return count
}

func equalCounts(want, now map[string]int) bool {
	sum := 0
	for region, count := range want {
		if now[region] != count {
			return false
		}
		sum += count
	}
	for _, count := range now {
		sum -= count
	}
	return sum == 0
}

// ceil is a/b rounded up.
func ceil(a, b int) int { return (a + b - 1) / max(1, b) }

// rendezvous is a number that depends on nothing but the two names, evenly spread: the name with the largest number for a
// shard wins, and goes on winning when others come and go (highest random weight, Thaler and Ravishankar 1998).
func rendezvous(shard, name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(shard + "\x00" + name)) // never fails
	x := h.Sum64()
	// FNV leaves the high bits of short texts alike; this is the finalizer of MurmurHash3.
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// hash01 is rendezvous as a number from 0 to 1.
func hash01(shard, name string) float64 { return float64(rendezvous(shard, name)) / math.MaxUint64 }
