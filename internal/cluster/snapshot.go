package cluster

import (
	"cmp"
	"slices"
	"time"
)

// NodeID is the server's own id of a node; it stays over a restart.
type NodeID string

// Identity says which cluster a snapshot is of.
type Identity struct {
	Name    string
	UUID    string
	Product Product
}

// Snapshot is one cluster at one moment, complete and free of contradictions: what is missing would have been an
// error. Stages share it and never change it; one that wants a variation makes a copy (Projected).
//
// Nodes are sorted by ID, Indices by name, Copies by index, shard, role (the primary first) and allocation id, so that
// nothing downstream gets its order from a map. Positions in these slices are how the snapshot refers to itself.
type Snapshot struct {
	Cluster      Identity
	TakenAt      time.Time
	StateVersion int64         // of the cluster state the routing was read from
	Samples      int           // how many samples the rates rest on: 1 or 2
	Window       time.Duration // between the samples; 0 with one
	Dimensions   []Dimension
	Settings     Settings
	Health       Health
	Nodes        []Node
	Indices      []Index
	Copies       []Copy
	Warnings     []string // what a reader of the plan should know, sorted, each a sentence
}

// Health is the cluster's own account of itself.
type Health struct {
	Status         string // "green", "yellow", "red"
	Unassigned     int    // copies
	Delayed        int    // unassigned copies the server still waits for
	Initializing   int    // copies, targets of relocations aside
	Relocating     int    // relocations under way
	PendingTasks   int
	MaxTaskWait    time.Duration // of the oldest pending task
	Nodes          int
	DataNodes      int
	HasMaster      bool
	ShutdownMarked int // nodes with a shutdown record (Elasticsearch)
}

// Node is one member of the cluster, data-bearing or not.
type Node struct {
	ID          NodeID
	EphemeralID string // changes with every process start: counters restart with it
	Name        string
	Host        string
	IP          string
	Version     Version
	Roles       []string // sorted; empty for a coordinating node
	Attributes  map[string]string
	Processors  float64 // allocated to the server
	Heap        int64   // bytes, maximum

	Capacity Load // per dimension: processors, processors, disk bytes, ...
	Base     Load // load no movable copy accounts for

	Disk       DiskUse
	CPU        float64 // ratio of the machine in use; negative where unknown
	Uptime     time.Duration
	Rejections float64 // rejected search and write requests per second; 0 where unknown
	Queue      int     // requests waiting in the search and write pools

	// Leaving says why the node is on its way out ("shutdown REMOVE", "cluster.routing.allocation.exclude"); empty for a node that
	// stays. Nothing moves there, and its copies are the server's to evacuate.
	Leaving string
}

// DiskUse is what the file system under a node's data path says, in bytes. Total 0 means unknown.
type DiskUse struct {
	Total     int64
	Available int64
	Store     int64 // of all copies there, arrived parts of arriving copies included
	Reserved  int64 // still to arrive of copies being received
}

// Other is what is used beside shard copies: translog, logs, anything else on the file system.
func (d DiskUse) Other() int64 { return max(0, d.Total-d.Available-d.Store) }

// IsData tells whether the node may hold shard copies.
func (n *Node) IsData() bool {
	return slices.ContainsFunc(n.Roles, func(role string) bool {
		return role == "data" || len(role) > 5 && role[:5] == "data_" || role == "search" || role == "warm"
	})
}

// HostAddress is what the servers' same_shard.host rule compares: the address, or the host name where there is none.
func (n *Node) HostAddress() string {
	if n.IP != "" {
		return n.IP
	}
	return n.Host
}

// HasRole tells whether role is among the node's.
func (n *Node) HasRole(role string) bool { return slices.Contains(n.Roles, role) }

// Zone is where a node stands: the value of the first awareness attribute that it has, else of its attribute "zone"; empty
// where it has none.
func (s *Snapshot) Zone(node int) string {
	attributes := s.Nodes[node].Attributes
	for _, name := range s.Settings.AwarenessAttributes {
		if value := attributes[name]; value != "" {
			return value
		}
	}
	return attributes["zone"]
}

// Index is one index; what its copies share.
type Index struct {
	Name               string
	UUID               string
	Shards             int // primaries
	Replicas           int // configured, per primary
	Closed             bool
	Hidden             bool
	Created            time.Time
	Series             string // data stream or name pattern this index is one of ("logs-*"); empty for a lone index
	Newest             bool   // the one of its series that takes writes now
	Filter             Filter // index.routing.allocation.{include,require,exclude}
	TierPreference     []string
	TotalShardsPerNode int // index.routing.allocation.total_shards_per_node; 0 is no limit
	AllocationEnable   string
	RebalanceEnable    string // set on the index itself; empty where it follows the cluster
	AutoExpand         string // index.auto_expand_replicas; empty or "false" where off
	StoreType          string
	Replication        string // "SEGMENT" or empty
	MaxRetries         int    // index.allocation.max_retries
	Busy               string // an operation that pins its copies ("shrink", "restore"); empty mostly
}

// CopyState is the server's state of a copy.
type CopyState uint8

// The states.
const (
	Unassigned CopyState = iota
	Initializing
	Started
	Relocating
)

// String is the server's word.
func (s CopyState) String() string {
	return [...]string{"UNASSIGNED", "INITIALIZING", "STARTED", "RELOCATING"}[s]
}

// None is the position of nothing: the node of an unassigned copy, the target of one that stays.
const None = -1

// Copy is one primary or replica of a shard.
type Copy struct {
	Index        int32 // position in Snapshot.Indices
	Shard        int32 // number within the index
	Node         int32 // position in Snapshot.Nodes, None while unassigned; the source while relocating
	Target       int32 // position of the node it relocates to, else None
	Primary      bool
	SearchOnly   bool // OpenSearch search replica
	State        CopyState
	Snapshotting bool // its data is being written to a snapshot
	Delayed      bool // unassigned, and the server still waits for its node
	Provenance   Provenance
	FailedMoves  int // relocations of this copy that failed, as far as the server counts them

	AllocationID string // identity of this copy on this node
	RelocationID string // the allocation id it will have at its target

	Load      Load // expected: what the placement is solved with
	Observed  Load // what this copy itself was seen to cost
	Deviation Load // standard deviation of Load over recent samples, same units

	Bytes       int64 // on disk
	BytesMoving int64 // additionally, for a while, on the node the data is read from, during a move
	Docs        int64
	MaxSeqNo    int64
}

// ShardKey names a shard group: all copies of one shard.
type ShardKey struct {
	Index int32 // position in Snapshot.Indices
	Shard int32
}

// Key is the shard this copy is of.
func (c *Copy) Key() ShardKey { return ShardKey{c.Index, c.Shard} }

// Active tells whether the copy serves.
func (c *Copy) Active() bool { return c.State == Started || c.State == Relocating }

// Sort brings all slices into their documented order and remaps the positions. The collector calls it once.
func (s *Snapshot) Sort() {
	nodePosition := sortWithPositions(s.Nodes, func(a, b Node) int { return cmp.Compare(a.ID, b.ID) })
	indexPosition := sortWithPositions(s.Indices, func(a, b Index) int { return cmp.Compare(a.Name, b.Name) })
	for i := range s.Copies {
		c := &s.Copies[i]
		c.Index = indexPosition[c.Index]
		if c.Node != None {
			c.Node = nodePosition[c.Node]
		}
		if c.Target != None {
			c.Target = nodePosition[c.Target]
		}
	}
	slices.SortFunc(s.Copies, compareCopies)
	slices.Sort(s.Warnings)
}

func compareCopies(a, b Copy) int {
	role := 0
	if a.Primary != b.Primary {
		role = 1
		if a.Primary {
			role = -1
		}
	}
	return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.Shard, b.Shard), role,
		cmp.Compare(a.AllocationID, b.AllocationID), cmp.Compare(a.Node, b.Node))
}

// sortWithPositions sorts items and returns, for each old position, the new one.
func sortWithPositions[T any](items []T, compare func(a, b T) int) []int32 {
	order := make([]int32, len(items))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return compare(items[a], items[b]) })
	sorted := make([]T, len(items))
	position := make([]int32, len(items))
	for to, from := range order {
		sorted[to] = items[from]
		position[from] = int32(to)
	}
	copy(items, sorted)
	return position
}

// Projected is the snapshot as it will be once every relocation under way, whoever asked for it, has landed: the copy
// and its bytes at the target. Copies keep the state Relocating, so that they are known to be busy.
func (s *Snapshot) Projected() *Snapshot {
	p := *s
	p.Nodes = slices.Clone(s.Nodes)
	p.Copies = slices.Clone(s.Copies)
	for i := range p.Nodes {
		// What still has to arrive will be used; the arriving copies' full size is part of Store from now on.
		p.Nodes[i].Disk.Available -= p.Nodes[i].Disk.Reserved
		p.Nodes[i].Disk.Store += p.Nodes[i].Disk.Reserved
		p.Nodes[i].Disk.Reserved = 0
	}
	for i := range p.Copies {
		c := &p.Copies[i]
		if c.State != Relocating || c.Target == None {
			continue
		}
		source := &p.Nodes[c.Node]
		source.Disk.Available += c.Bytes
		source.Disk.Store = max(0, source.Disk.Store-c.Bytes)
		c.Node, c.Target = c.Target, None
	}
	return &p
}

// DimensionAt is the position of the dimension of that name, None where the snapshot does not have it.
func (s *Snapshot) DimensionAt(name string) int {
	return slices.IndexFunc(s.Dimensions, func(d Dimension) bool { return d.Name == name })
}

// NodeAt is the position of the node with that id, None where there is none.
func (s *Snapshot) NodeAt(id NodeID) int {
	at, found := slices.BinarySearchFunc(s.Nodes, id, func(n Node, id NodeID) int { return cmp.Compare(n.ID, id) })
	if !found {
		return None
	}
	return at
}

// IndexAt is the position of the index of that name, None where there is none.
func (s *Snapshot) IndexAt(name string) int {
	at, found := slices.BinarySearchFunc(s.Indices, name, func(i Index, name string) int { return cmp.Compare(i.Name, name) })
	if !found {
		return None
	}
	return at
}
