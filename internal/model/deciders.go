package model

import (
	"math/bits"
	"strings"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// Deciders is a set of reasons why a copy may not go to a node, or may not move at all: the servers' allocation
// deciders under their own names, then rules of our own.
type Deciders uint32

// The servers' deciders, in the order they are reported, then ours.
const (
	SameShard Deciders = 1 << iota
	Filter
	DataTier
	TargetPool
	Awareness
	DiskThreshold
	ShardsLimit
	LoadAwareness
	NodeVersion
	NodeShutdown
	MaxRetry
	SnapshotInProgress
	// RebalanceOnlyWhenActive: some copy of the shard is not active. The server asks this of its balancer only; we ask it of ourselves.
	RebalanceOnlyWhenActive
	// NotStarted: the copy itself is initializing or already relocating.
	NotStarted
	// IndexBusy: an operation on the index, or a setting of its owner, wants its copies where they are.
	IndexBusy
	// Pinned: the configuration keeps it where it is.
	Pinned
	// CoolDown: it moved not long ago.
	CoolDown
	// Overload: the node would carry more than regions.overload allows.
	Overload
	// CrossRegion: it would cross between regions in a pass that lets nothing cross.
	CrossRegion
	// ZoneLoss: with a zone lost the node would carry more than zones.max_load_after_loss allows.
	ZoneLoss
)

// AllDeciders is the set of all of them.
const AllDeciders = ZoneLoss<<1 - 1

var deciderNames = []string{
	"same_shard", "filter", "data_tier", "target_pool", "awareness", "disk_threshold", "shards_limit", "load_awareness",
	"node_version", "node_shutdown", "max_retry", "snapshot_in_progress", "rebalance_only_when_active", "not_started", "index_busy", "pinned", "cool_down",
	"overload", "cross_region", "zone_loss",
}

// Names lists the set's members, in their fixed order.
func (d Deciders) Names() []string {
	names := make([]string, 0, bits.OnesCount32(uint32(d)))
	for i, name := range deciderNames {
		if d&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// String joins the names.
func (d Deciders) String() string { return strings.Join(d.Names(), ", ") }

// Rules are the allocation deciders of one snapshot under one policy. They say what the server would say to a move, and
// add what the server would let pass but must not happen.
type Rules struct {
	s      *cluster.Snapshot
	policy *Policy

	class     []int32    // per shard group, position in classes
	classes   []nodeSet  // distinct sets of nodes a group may be sent to
	why       []Deciders // per class and node (class*nodes+node): what keeps the node out
	pinned    []Deciders // per copy: what keeps it from moving at all
	group     []int32    // per copy: its shard group
	groups    []copyRange
	attribute []awareness
	caps      [][]int // per attribute, per index: most copies of a shard on one value; 0 is no cap
	total     int     // configured copies in the cluster
}

type copyRange struct{ from, to int32 }

type awareness struct {
	name  string
	value []string // per node; empty where the node lacks the attribute
	known int      // distinct values that count, forced ones included
}

// NewRules compiles the deciders for a snapshot (projected or not). Both arguments are read, never changed.
func NewRules(s *cluster.Snapshot, policy *Policy) *Rules {
	r := &Rules{s: s, policy: policy}
	r.group = make([]int32, len(s.Copies))
	for c := range s.Copies {
		if c == 0 || s.Copies[c].Key() != s.Copies[c-1].Key() {
			r.groups = append(r.groups, copyRange{int32(c), int32(c)})
		}
		r.groups[len(r.groups)-1].to = int32(c) + 1
		r.group[c] = int32(len(r.groups) - 1)
	}
	for i := range s.Indices {
		r.total += s.Indices[i].Shards * (1 + s.Indices[i].Replicas)
	}
	r.compileAwareness()
	r.compileClasses()
	r.compilePins()
	return r
}

// Policy is the policy the rules were compiled under.
func (r *Rules) Policy() *Policy { return r.policy }

func (r *Rules) compileAwareness() {
	for _, name := range r.s.Settings.AwarenessAttributes {
		a := awareness{name: name, value: make([]string, len(r.s.Nodes))}
		values := make(map[string]struct{})
		for n := range r.s.Nodes {
			node := &r.s.Nodes[n]
			a.value[n] = node.Attributes[name]
			if node.IsData() && a.value[n] != "" {
				values[a.value[n]] = struct{}{}
			}
		}
		for _, forced := range r.s.Settings.ForcedAwareness[name] {
			values[forced] = struct{}{}
		}
		a.known = max(1, len(values))
		r.attribute = append(r.attribute, a)
		caps := make([]int, len(r.s.Indices))
		for i := range r.s.Indices {
			index := &r.s.Indices[i]
			if strings.HasSuffix(index.AutoExpand, "-all") && r.s.Cluster.Product.Distribution == cluster.Elasticsearch {
				continue // Elasticsearch leaves indices that expand to every node out of awareness
			}
			caps[i] = (index.Replicas + a.known) / a.known // ceil((replicas+1)/known)
		}
		r.caps = append(r.caps, caps)
	}
}

// nodeSet is a bit set over node positions, as text so that it can key a map.
type nodeSet string

func (set nodeSet) has(n int) bool { return set[n/8]&(1<<(n%8)) != 0 }

// compileClasses finds, for every shard group, the nodes it may be sent to, whatever stands where: roles, filters, tiers
// and versions. Groups that may go to the same nodes share a class.
func (r *Rules) compileClasses() {
	r.class = make([]int32, len(r.groups))
	known := make(map[string]int32)
	perIndex := make(map[int32]int32) // index -> class, while versions are not mixed
	mixed := r.mixedVersions()
	why := make([]Deciders, len(r.s.Nodes))
	for g, span := range r.groups {
		i := r.s.Copies[span.from].Index
		if class, done := perIndex[i]; done && !mixed {
			r.class[g] = class
			continue
		}
		set := make([]byte, (len(r.s.Nodes)+7)/8)
		var key strings.Builder
		for n := range r.s.Nodes {
			why[n] = r.keepsOut(span, n, mixed)
			if why[n] == 0 {
				set[n/8] |= 1 << (n % 8)
			}
			key.WriteByte(byte(why[n]))
			key.WriteByte(byte(why[n] >> 8))
			key.WriteByte(byte(why[n] >> 16))
		}
		class, seen := known[key.String()]
		if !seen {
			class = int32(len(r.classes))
			known[key.String()] = class
			r.classes = append(r.classes, nodeSet(set))
			r.why = append(r.why, why...)
		}
		r.class[g], perIndex[i] = class, class
	}
}

func (r *Rules) mixedVersions() bool {
	first := -1
	for n := range r.s.Nodes {
		if !r.s.Nodes[n].IsData() {
			continue
		}
		if first >= 0 && r.s.Nodes[n].Version != r.s.Nodes[first].Version {
			return true
		}
		first = n
	}
	return false
}

// keepsOut lists what forbids node n to a shard group for reasons that no other copy's place changes.
func (r *Rules) keepsOut(span copyRange, n int, mixed bool) (why Deciders) {
	node, index := &r.s.Nodes[n], &r.s.Indices[r.s.Copies[span.from].Index]
	if special(node) {
		why |= TargetPool
	}
	if node.Leaving != "" {
		why |= NodeShutdown
	}
	if !r.s.Settings.Filter.Matches(node) || !index.Filter.Matches(node) {
		why |= Filter
	}
	if !r.inTier(index, node) {
		why |= DataTier
	}
	for _, a := range r.attribute {
		if a.value[n] == "" {
			why |= Awareness
		}
	}
	if mixed {
		// In a rolling upgrade a primary may not go back to an older node nor a replica below its primary. Staying within the
		// version the whole shard is on satisfies both, whatever roles do meanwhile.
		for c := span.from; c < span.to; c++ {
			if at := r.s.Copies[c].Node; at != cluster.None && r.s.Nodes[at].Version != node.Version {
				why |= NodeVersion
			}
		}
	}
	return why
}

// holds lists the roles under which a node takes shard copies.
func holds(node *cluster.Node) (roles []string) {
	for _, role := range node.Roles {
		if role == "data" || strings.HasPrefix(role, "data_") || role == "search" || role == "warm" {
			roles = append(roles, role)
		}
	}
	return roles
}

// special tells whether a node takes no ordinary copy: it is kept for searchable snapshots or for search replicas alone.
func special(node *cluster.Node) bool {
	for _, role := range holds(node) {
		if role != "data_frozen" && role != "search" && role != "warm" {
			return false
		}
	}
	return true
}

// inTier applies Elasticsearch's tier preference: the first tier of the list that has any node wins.
func (r *Rules) inTier(index *cluster.Index, node *cluster.Node) bool {
	if r.s.Cluster.Product.Distribution != cluster.Elasticsearch {
		return true
	}
	for _, tier := range index.TierPreference {
		populated := false
		for n := range r.s.Nodes {
			populated = populated || r.s.Nodes[n].Leaving == "" && serves(&r.s.Nodes[n], tier)
		}
		if populated {
			return serves(node, tier)
		}
	}
	return true
}

func serves(node *cluster.Node, tier string) bool { return node.HasRole(tier) || node.HasRole("data") }
