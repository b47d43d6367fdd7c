package sim

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// The products a cluster can speak for.
const (
	OpenSearch    = "opensearch"
	Elasticsearch = "elasticsearch"
)

// Config describes a cluster before it has nodes. The zero value is an OpenSearch 2.19.6.
type Config struct {
	Name         string            // cluster name; "sim" when empty
	Distribution string            // OpenSearch (default) or Elasticsearch
	Version      string            // default 2.19.6 or 8.19.0; nodes may differ (NodeSpec.Version)
	Seed         uint64            // feeds every id and every noise
	Start        time.Time         // virtual time of birth; default 2026-03-02 00:00 UTC, a Monday
	OSS          bool              // Elasticsearch without x-pack, as built from Maven artifacts: no data streams, tiers, shutdown API
	Legacy       bool              // Elasticsearch 8.6+ with cluster.routing.allocation.type: balanced, so without desired balance
	Settings     map[string]string // what the nodes' yml files say; shown among the defaults
	Noise        float64           // amplitude of the noise of traffic, a ratio; default 0.03, negative for none
	Auth         *Auth             // nil: anybody may do anything
	Managed      bool              // a managed service that refuses reroute with a bare message, as AWS does
}

// Auth is what the cluster asks for. Either way in is enough.
type Auth struct {
	User, Password string
	APIKey         string // the text after "ApiKey " in the Authorization header
}

// NodeSpec describes one node.
type NodeSpec struct {
	Name       string
	Host       string            // default: an address of its own; nodes with one host share it for same_shard.host
	Attributes map[string]string // "zone": "a"
	Roles      []string          // default: everything the product calls its own ("data" among them)
	Processors int               // default 8
	Disk       int64             // bytes of the file system; default 1 TB
	OtherDisk  int64             // bytes in use that are no shard's
	Bandwidth  float64           // bytes per second the hardware copies at most; 0: only the cluster's setting limits
	Version    string            // default: the cluster's
}

// IndexSpec describes one index. Rates are for the whole index over all its shards, as long as its age factor is 1.
type IndexSpec struct {
	Name       string
	Shards     int               // default 1
	Replicas   int               // copies beside the primary
	Age        time.Duration     // how long before now it was created
	Bytes      int64             // over all primaries, now
	Docs       int64             // over all primaries; default Bytes/DocBytes
	DocBytes   float64           // bytes of a document in the index; default Bytes/Docs, or 500
	Search     float64           // busy seconds per second, all copies of all shards together
	QueryCost  float64           // busy seconds one query costs one shard; default 5 ms
	Write      float64           // busy seconds per second of indexing, merging and refreshing on all primaries together
	DocsPerSec float64           // documents per second; default Write / 100 µs
	Profile    Profile           // search by age; nil: the same for ever
	Settings   map[string]string // further index settings, full names
	DataStream string            // name of the stream it is a backing index of
	Alias      string            // an alias that points to it
	Hidden     bool
	Closed     bool
}

// Tally counts what happened since the cluster began. Moves are relocations asked for by command, not the balancer's.
type Tally struct {
	Moves      int   // move commands that were carried out
	Landed     int   // of these, arrived
	Failed     int   // of these, ended otherwise: cancelled, a node lost
	Refused    int   // move commands a decider said no to, or whose copy was not there
	BytesMoved int64 // bytes of the copies that arrived by command
	Rebalanced int   // relocations the built-in balancer started
	Evacuated  int   // relocations the cluster started because a copy could not stay
	Reroutes   int   // reroute requests with commands
	Returned   int   // of all relocations, those of a shard to a node that a copy of it had left by command before
}

// Cluster is one virtual cluster. All exported methods are safe for concurrent use.
type Cluster struct {
	mu      sync.RWMutex
	cfg     Config
	product version
	rng     *rand.Rand

	start   time.Time     // virtual birth
	now     time.Duration // virtual time since then
	events  eventHeap
	eventNo uint64
	served  atomic.Pointer[Server] // nil: nobody's clock drives it, waiting requests pass the time themselves

	uuid, stateUUID string
	version         int64
	changed         chan struct{} // closed and renewed at every change of state

	nodes       []*node // alive, in order of joining
	nodeByID    map[string]*node
	outside     []*node          // running, but not in the cluster
	gone        map[string]*node // killed, by name: a restart brings back id and data
	ordinal     int              // of the next node
	master      *node            // nil: none elected
	vacantUntil time.Duration    // no master is elected before
	term        int64            // grows with every election
	voters      []string         // ids of those who elect the master
	exclusions  []exclusion

	indices []*index // by name
	series  []*series

	weighted     *routingWeights // nil: never set
	decommission *decommission   // nil: none

	settings   settingsStore
	rules      rules
	deciders   []decider
	topology   topology
	lookEvery  time.Duration // between the master's looks at the disks
	unassigned []*shardCopy
	recoveries []*recovery
	nextEnd    time.Duration // of the first recovery to end; -1: none
	delayOver  time.Duration // when the delay of the copies lost last is over
	chances    int           // grows when a copy that no node would take may be taken by one
	unfit      bool          // some copy may be unable to remain where it is
	instant    bool          // recoveries end at once; while a cluster is being built
	quiet      bool          // a rehearsal: the state's version stands still, snapshots notice nothing
	scale      [2]float64    // search and write traffic of the whole cluster, ratio

	hints      []hint // Elasticsearch 8.6+: moves not yet seen by the desired balance
	desire     desireStats
	tally      Tally
	faults     []*Fault
	whenMoving []later
	tasks      []pendingTask
	snaps      []*snapshot
	done       snapshotTally
}

// Open is what clients have open at a node, as its statistics tell; see Cluster.SetOpen.
type Open struct {
	HTTP     int // connections
	Contexts int // searches between their phases, scrolls and points in time among them
	Scrolls  int
	Points   int // points in time
}

// node is one process. Its id and disk survive a restart, all else does not.
type node struct {
	spec      NodeSpec
	id        string
	ephemeral string
	ip        string
	port      int
	version   version
	ordinal   int
	slot      int               // position among the data nodes
	zone      map[string]string // attributes

	copies    []*shardCopy // on it: started, leaving, arriving
	count     int          // copies it will hold once everything in flight has landed
	incoming  int          // peer recoveries towards it
	outgoing  int          // peer recoveries from it
	initial   int          // primaries coming up from nothing or from disk
	transfers int          // recoveries that share its bandwidth

	since    time.Duration // process start
	frozen   bool          // halted: answers nothing
	mute     bool          // answers no statistics
	last     *lastSeen     // what it knew when it was put out; nil: it is in the cluster
	asks     uint64        // grows whenever it is decided anew when to ask to be let in, or to put it out
	open     Open          // connections and contexts
	broken   bool          // every recovery towards it fails
	shutdown string        // Elasticsearch shutdown marker: REMOVE, RESTART, REPLACE, SIGTERM
	departed totals        // what copies that left it had counted
	rejected [2]float64    // search, write
	failOpen int           // times its searches began to use copies that are weighed away
	extra    int64         // bytes something else filled since the start
	seenFree float64       // bytes free as the master last saw it
	simCount int           // copies in a desired balance under computation
	simBytes float64       // bytes added by it
}

// index is one index and its settings.
type index struct {
	spec     IndexSpec
	name     string
	uuid     string
	created  time.Duration // since the cluster's birth; negative for older ones
	settings map[string]string
	rules    indexRules
	groups   []*group
	closed   bool
	blocked  bool // flood stage
	heat     [2]float64
	series   *series
	version  int64
}

// group is one shard: the primary and its replicas.
type group struct {
	idx    *index
	num    int
	copies []*shardCopy

	// Rates as of since; everything counted before that is in the copies' and the group's totals.
	since       time.Duration
	search      float64 // busy seconds per second, all copies together
	queryCost   float64
	write       float64 // busy seconds per second on the primary
	docsRate    float64
	docs        float64
	bytes       float64
	serving     int
	open        bool // only copies that are weighed away serve
	phase       float64
	desired     []*node // Elasticsearch 8.6+; nil: not computed yet
	snapshot    *snapshot
	primaryTerm int
	left        []*node // nodes its copies left by command
}

// State of a copy, as the routing table words it.
type copyState uint8

const (
	unassigned copyState = iota
	initializing
	started
	relocating
)

func (s copyState) String() string {
	return [...]string{"UNASSIGNED", "INITIALIZING", "STARTED", "RELOCATING"}[s]
}

// shardCopy is one primary or replica. A relocation is two of them: the source in its group, the target as source.target.
type shardCopy struct {
	group   *group
	primary bool
	state   copyState
	node    *node
	aid     string
	target  *shardCopy // of a relocating copy
	source  *shardCopy // of a relocation's target
	rec     *recovery  // while initializing
	command bool       // the relocation was asked for by command

	totals totals  // counted up to group.since
	share  float64 // of the group's searches; 0 while it serves none
	turn   float64 // the higher, the sooner it is its turn
	slot   int     // among the serving copies

	why      unassignedInfo
	refused  int   // value of Cluster.chances when no node would take it
	failures int   // failed relocations, Elasticsearch
	lastNode *node // where an unassigned copy was, to come back to
	simNode  *node // in a desired balance under computation
	lastEnd  *endedRecovery
}

type unassignedInfo struct {
	reason  string
	at      time.Duration
	until   time.Duration // delayed allocation; 0: none
	details string
	status  string
	failed  int
}

// totals are the counters of one copy. Everything the REST answers show derives from these four.
type totals struct{ queries, search, docs, write float64 }

func (t *totals) add(u totals) {
	t.queries += u.queries
	t.search += u.search
	t.docs += u.docs
	t.write += u.write
}

// version is a product version.
type version struct{ major, minor, patch int }

func parseVersion(text string) (version, error) {
	number, _, _ := strings.Cut(text, "-")
	var v version
	parts := strings.Split(number, ".")
	for i, p := range []*int{&v.major, &v.minor, &v.patch} {
		if i >= len(parts) {
			continue
		}
		n, err := strconv.Atoi(parts[i])
		if err != nil || n < 0 {
			return version{}, fmt.Errorf("version %q is not of the form major.minor.patch", text)
		}
		*p = n
	}
	return v, nil
}

func (v version) String() string { return fmt.Sprintf("%d.%d.%d", v.major, v.minor, v.patch) }

func (v version) atLeast(major, minor int) bool {
	return v.major > major || v.major == major && v.minor >= minor
}

func (v version) older(w version) bool {
	return slices.Compare([]int{v.major, v.minor, v.patch}, []int{w.major, w.minor, w.patch}) < 0
}

// New is a cluster without nodes. It panics on a version that is none: the caller wrote it.
func New(cfg Config) *Cluster {
	if cfg.Name == "" {
		cfg.Name = "sim"
	}
	if cfg.Distribution == "" {
		cfg.Distribution = OpenSearch
	}
	if cfg.Version == "" {
		cfg.Version = map[string]string{OpenSearch: "2.19.6", Elasticsearch: "8.19.0"}[cfg.Distribution]
	}
	if cfg.Start.IsZero() {
		cfg.Start = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	}
	switch {
	case cfg.Noise == 0:
		cfg.Noise = 0.03
	case cfg.Noise < 0:
		cfg.Noise = 0
	}
	product, err := parseVersion(cfg.Version)
	if err != nil {
		panic("sim: " + err.Error())
	}
	c := &Cluster{
		cfg: cfg, product: product, start: cfg.Start, rng: rand.New(rand.NewPCG(cfg.Seed, 0x5ba4d0)), changed: make(chan struct{}),
		nodeByID: map[string]*node{}, gone: map[string]*node{}, nextEnd: -1, scale: [2]float64{1, 1},
	}
	c.uuid = c.newID()
	c.deciders = c.productDeciders()
	c.settings = newSettings(c.known(), cfg.Settings)
	c.settings.unknown = "illegal_argument_exception"
	if !c.elastic() && c.at(3, 0) {
		c.settings.unknown = "settings_exception"
	}
	c.applySettings()
	c.bump()
	c.scheduleLook()
	return c
}

// newID is a 22-character id as both products make them, from the cluster's own random numbers.
func (c *Cluster) newID() string {
	var b [16]byte
	for i := 0; i < 16; i += 8 {
		x := c.rng.Uint64()
		for j := range 8 {
			b[i+j] = byte(x >> (8 * j))
		}
	}
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// bump publishes a new cluster state.
func (c *Cluster) bump() {
	if c.quiet {
		return
	}
	c.version++
	c.stateUUID = c.newID()
	c.wake()
}

// wake lets those who wait for a change look again.
func (c *Cluster) wake() {
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *Cluster) elastic() bool { return c.cfg.Distribution == Elasticsearch }

// at is the product version every feature is decided by: the cluster's nominal one.
func (c *Cluster) at(major, minor int) bool {
	return c.product.atLeast(major, minor)
}

// Now is the virtual time.
func (c *Cluster) Now() time.Time {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.clock()
}

func (c *Cluster) clock() time.Time { return c.start.Add(c.now) }

// Tally is what happened so far.
func (c *Cluster) Tally() Tally {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.tally
}

// Version is the cluster state's version: it grows by one with every change.
func (c *Cluster) Version() int64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.version
}

// Counts are the copies by state; relocation targets are not counted beside their sources.
type Counts struct{ Started, Relocating, Initializing, Unassigned, UnassignedPrimaries int }

// Counts tells how the copies are.
func (c *Cluster) Counts() Counts {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.counts()
}

func (c *Cluster) counts() Counts {
	var n Counts
	for s := range c.allCopies {
		n.add(s)
	}
	return n
}

// add counts one copy.
func (n *Counts) add(s *shardCopy) {
	switch s.state {
	case started:
		n.Started++
	case relocating:
		n.Relocating++
	case initializing:
		n.Initializing++
	case unassigned:
		n.Unassigned++
		if s.primary {
			n.UnassignedPrimaries++
		}
	}
}

// allCopies goes over every copy, in order of index name, shard number, and place in the group; without targets.
func (c *Cluster) allCopies(yield func(*shardCopy) bool) {
	for _, idx := range c.indices {
		for _, g := range idx.groups {
			for _, s := range g.copies {
				if !yield(s) {
					return
				}
			}
		}
	}
}

func (c *Cluster) find(name string) *index {
	i, ok := slices.BinarySearchFunc(c.indices, name, func(idx *index, name string) int { return strings.Compare(idx.name, name) })
	if !ok {
		return nil
	}
	return c.indices[i]
}

// node finds a live node by id or by name; nil if there is none or more than one.
func (c *Cluster) node(idOrName string) *node {
	if n := c.nodeByID[idOrName]; n != nil {
		return n
	}
	var found *node
	for _, n := range c.nodes {
		if n.spec.Name == idOrName {
			if found != nil {
				return nil
			}
			found = n
		}
	}
	return found
}

func (n *node) has(role string) bool { return slices.Contains(n.spec.Roles, role) }

// isData tells whether the node holds shards at all.
func (n *node) isData() bool {
	return slices.ContainsFunc(n.spec.Roles, func(r string) bool { return strings.HasPrefix(r, "data") })
}

func (n *node) eligible() bool { return n.has("master") || n.has("cluster_manager") }

func (g *group) primary() *shardCopy {
	for _, s := range g.copies {
		if s.primary {
			return s
		}
	}
	return nil
}

// active tells whether the copy holds the data and serves.
func (s *shardCopy) active() bool { return s.state == started || s.state == relocating }

// home is where the copy is going to be: its target's node while it relocates, else its own; nil for an unassigned one.
func (s *shardCopy) home() *node {
	if s.target != nil {
		return s.target.node
	}
	return s.node
}
