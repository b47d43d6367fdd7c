package es

import (
	"context"
	"io"
	"net/url"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// Client speaks to one cluster. It is safe for concurrent use.
type Client struct{}

// New makes a client; it reads the certificate files and sends nothing.
func New(Config) (*Client, error) { panic("being built") }

// Close releases connections.
func (c *Client) Close() error { panic("being built") }

// Read sends a GET, with retries, and hands the decompressed body to decode. A 408 of a health wait is not an error.
func (c *Client) Read(ctx context.Context, path string, query url.Values, decode func(io.Reader) error) error {
	panic("being built")
}

// ReadJSON is Read into a Go value through encoding/json.
func (c *Client) ReadJSON(ctx context.Context, path string, query url.Values, into any) error {
	panic("being built")
}

// Send sends a write exactly once. OutcomeUnknown tells whether a failed one may have been applied.
func (c *Client) Send(ctx context.Context, method, path string, query url.Values, body, into any) error {
	panic("being built")
}

// OutcomeUnknown tells whether the write that failed with err may nevertheless have been applied: the answer was lost,
// came too late, was a 5xx or could not be read.
func OutcomeUnknown(err error) bool { panic("being built") }

// StatusError is an answer other than 2xx, wrapped inside a *cluster.Error.
type StatusError struct {
	Status int    // HTTP status
	Type   string // the server's exception type, may be empty
	Reason string // may be empty
}

// Error is one line.
func (e *StatusError) Error() string { panic("being built") }

// Traffic counts what the client did since it was made.
type Traffic struct {
	Reads, Writes, Retries, Failures int64
	BytesReceived, BytesSent         int64 // bodies as they travelled
}

// Requests is the traffic so far.
func (c *Client) Requests() Traffic { panic("being built") }

// Connect finds out what cluster this is.
func (c *Client) Connect(ctx context.Context) (cluster.Identity, error) { panic("being built") }

// Health is the cluster's own account of itself, pending tasks included.
func (c *Client) Health(ctx context.Context) (cluster.Health, error) { panic("being built") }

// StateVersion is the version of the cluster state and the UUID of the cluster, the cheapest probe for change.
func (c *Client) StateVersion(ctx context.Context) (version int64, uuid string, err error) {
	panic("being built")
}

// Routing reads the routing table.
func (c *Client) Routing(ctx context.Context) (*Routing, error) { panic("being built") }

// Routing is the routing table: one entry per copy, a relocation at its source only.
type Routing struct {
	StateVersion int64
	ClusterUUID  string
	Nodes        []RoutingNode
	Copies       []RoutingCopy
}

// RoutingNode is a node as the cluster state names it.
type RoutingNode struct {
	ID          cluster.NodeID
	Name        string
	EphemeralID string
}

// RoutingCopy is one copy in the routing table.
type RoutingCopy struct {
	Index            string
	Shard            int
	Primary          bool
	SearchOnly       bool
	State            cluster.CopyState
	Node, Target     cluster.NodeID // empty where there is none
	AllocationID     string
	RelocationID     string
	UnassignedReason string
	Delayed          bool
	FailedMoves      int
	ExpectedBytes    int64
}

// RawSettings are the cluster settings as stored, flattened.
type RawSettings struct{}

// Settings reads persistent, transient and default settings.
func (c *Client) Settings(ctx context.Context) (RawSettings, error) { panic("being built") }

// Cluster merges and parses the settings.
func (r RawSettings) Cluster() (cluster.Settings, error) { panic("being built") }

// Persistent is the persistent value of key and whether there is one.
func (r RawSettings) Persistent(key string) (string, bool) { panic("being built") }

// Transient is the transient value of key and whether there is one.
func (r RawSettings) Transient(key string) (string, bool) { panic("being built") }

// Effective is the value in force: transient over persistent over default.
func (r RawSettings) Effective(key string) (string, bool) { panic("being built") }

// PutSettings stores persistent settings in one request, in flat form; a nil value resets its key.
func (c *Client) PutSettings(ctx context.Context, persistent map[string]any) error {
	panic("being built")
}

// Move asks for one copy of a shard to go from one node to another.
type Move struct {
	Index    string
	Shard    int
	From, To cluster.NodeID
}

// Decision is one decider's answer.
type Decision struct {
	Decider, Decision, Explanation string
}

// Outcome is what became of one move of a request.
type Outcome struct {
	Move      Move
	Refused   bool // some decider said NO; THROTTLE and NOT_PREFERRED do not hold a move back
	Decisions []Decision
}

// Reroute sends the moves in one request and gives one outcome for each, in order.
func (c *Client) Reroute(ctx context.Context, product cluster.Product, moves []Move) ([]Outcome, error) {
	panic("being built")
}

// Cancel stops a relocation at its target.
func (c *Client) Cancel(ctx context.Context, product cluster.Product, index string, shard int, target cluster.NodeID) error {
	panic("being built")
}

// DesiredBalance is what Elasticsearch 8.6 and newer would like, beside what is.
type DesiredBalance struct{}

// Wish is a copy that stands on a node the desired balance does not want it on.
type Wish struct {
	Index   string
	Shard   int
	Primary bool
	Node    cluster.NodeID   // where it stands
	Desired []cluster.NodeID // where copies of this shard should be
}

// Wishes lists copies standing outside the desired nodes, by index, shard and node.
func (b *DesiredBalance) Wishes() []Wish { panic("being built") }

// DesiredBalance reads it; nil without an error where the cluster does not keep one.
func (c *Client) DesiredBalance(ctx context.Context) (*DesiredBalance, error) { panic("being built") }

// DeleteDesiredBalance makes the server compute it anew from where the copies stand.
func (c *Client) DeleteDesiredBalance(ctx context.Context) error { panic("being built") }

// Recovery is one recovery under way.
type Recovery struct {
	Index          string
	Shard          int
	Primary        bool
	Type, Stage    string // "PEER", "INDEX", ...
	Source, Target cluster.NodeID
	BytesTotal     int64
	BytesRecovered int64
}

// Recoveries lists the recoveries under way.
func (c *Client) Recoveries(ctx context.Context) ([]Recovery, error) { panic("being built") }

// SnapshotShard is a shard whose primary is being written to a snapshot.
type SnapshotShard struct {
	Index string
	Shard int
}

// RunningSnapshots is the set of shards being written to snapshots.
func (c *Client) RunningSnapshots(ctx context.Context) (map[SnapshotShard]struct{}, error) {
	panic("being built")
}

// FileSystems reads every data node's disk use anew, cheaply.
func (c *Client) FileSystems(ctx context.Context) (map[cluster.NodeID]cluster.DiskUse, error) {
	panic("being built")
}

// NodeDecision is what allocation explain says of one node.
type NodeDecision struct {
	Node     cluster.NodeID
	Name     string
	Decision string // "yes", "no", "worse_balance", "throttled", ...
	Deciders []Decision
}

// Explain asks the server where a copy may go.
func (c *Client) Explain(ctx context.Context, index string, shard int, primary bool, currentNode cluster.NodeID) ([]NodeDecision, error) {
	panic("being built")
}
