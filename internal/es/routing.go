package es

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strconv"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// Routing is the routing table: one entry per copy, a relocation at its source only.
type Routing struct {
	StateVersion int64
	ClusterUUID  string
	Nodes        []RoutingNode
	Copies       []RoutingCopy
	Closed       map[string]bool // indices that are closed

	// Metadata is what the state says of the indices' settings. The daemon never asks for it (it holds the mappings
	// too); captures made by others have it, and may lack the settings of hidden indices elsewhere.
	Metadata []IndexSettings
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
	SearchOnly       bool // OpenSearch search replica
	State            cluster.CopyState
	Node, Target     cluster.NodeID // empty where there is none
	AllocationID     string
	RelocationID     string
	UnassignedReason string // why it became unassigned, where it is
	Delayed          bool
	FailedMoves      int    // failed relocations and failed allocations the server counts
	RecoverySource   string // "PEER", "SNAPSHOT", "LOCAL_SHARDS", ... of a copy that is not active
	ExpectedBytes    int64
}

// RoutingRequest asks for the one read of the routing table a cycle makes: the state's version, the nodes, what is
// closed, and every copy. Without an index part it covers hidden and closed indices.
func RoutingRequest(product cluster.Product) Request {
	return Request{
		File: "cluster_state.json", Path: "/_cluster/state/version,nodes,routing_table,blocks",
		Query: withMaster(product, url.Values{"filter_path": {
			"version,cluster_uuid,nodes.*.name,nodes.*.ephemeral_id,blocks.indices.*.4.description," +
				"routing_table.indices.*.shards",
		}}),
	}
}

// Routing reads the routing table.
func (c *Client) Routing(ctx context.Context) (*Routing, error) {
	var routing *Routing
	err := c.Ask(ctx, RoutingRequest(c.known()), func(body io.Reader) (err error) {
		routing, err = DecodeRouting(body)
		return err
	})
	return routing, err
}

// known is the product Connect found; the zero value before.
func (c *Client) known() cluster.Product {
	if product := c.product.Load(); product != nil {
		return *product
	}
	return cluster.Product{}
}

// closedBlock is the number both products give the block of a closed index.
const closedBlock = "4"

// DecodeRouting reads the answer, or a whole cluster state, in its order.
func DecodeRouting(from io.Reader) (*Routing, error) {
	routing := &Routing{Closed: map[string]bool{}}
	r := newReader(from)
	tables := 0
	r.object(func(name string) {
		switch name {
		case "version":
			routing.StateVersion = r.integer()
		case "cluster_uuid":
			routing.ClusterUUID = r.text()
		case "nodes":
			r.object(func(id string) {
				n := RoutingNode{ID: cluster.NodeID(id)}
				r.object(func(name string) {
					switch name {
					case "name":
						n.Name = r.text()
					case "ephemeral_id":
						n.EphemeralID = r.text()
					}
				})
				routing.Nodes = append(routing.Nodes, n)
			})
		case "blocks":
			readBlocks(r, routing)
		case "routing_table":
			tables++
			r.object(func(name string) {
				if name == "indices" {
					r.object(func(index string) { readIndexRouting(r, routing, index) })
				}
			})
		case "metadata":
			readMetadata(r, routing)
		}
	})
	if err := r.finish(); err != nil {
		return nil, err
	}
	// A filtered answer leaves an empty routing table out. With neither the table nor a version it is not what was
	// asked for.
	if tables == 0 && routing.StateVersion == 0 {
		return nil, &SyntaxError{Path: "/routing_table", Err: fmt.Errorf("it is missing")}
	}
	return routing, nil
}

func readBlocks(r *reader, routing *Routing) {
	r.object(func(name string) {
		if name != "indices" {
			return
		}
		r.object(func(index string) {
			r.object(func(block string) {
				if block == closedBlock {
					routing.Closed[index] = true
				}
			})
		})
	})
}

func readIndexRouting(r *reader, routing *Routing, index string) {
	r.object(func(name string) {
		if name != "shards" {
			return
		}
		r.object(func(number string) {
			shard, err := strconv.Atoi(number)
			if err != nil || shard < 0 {
				r.fail(fmt.Errorf("%q where a shard number should be", clip(number)))
				return
			}
			r.array(func() {
				c := readCopy(r)
				c.Index, c.Shard = index, shard
				routing.Copies = append(routing.Copies, c)
			})
		})
	})
}

func readCopy(r *reader) RoutingCopy {
	var c RoutingCopy
	r.object(func(name string) {
		switch name {
		case "state":
			c.State = readCopyState(r)
		case "primary":
			c.Primary = r.boolean()
		case "searchOnly", "search_only":
			c.SearchOnly = r.boolean()
		case "node":
			c.Node = cluster.NodeID(r.text())
		case "relocating_node":
			c.Target = cluster.NodeID(r.text())
		case "expected_shard_size_in_bytes":
			c.ExpectedBytes = r.integer()
		case "allocation_id":
			r.object(func(name string) {
				switch name {
				case "id":
					c.AllocationID = r.unique()
				case "relocation_id":
					c.RelocationID = r.unique()
				}
			})
		case "recovery_source":
			r.object(func(name string) {
				if name == "type" {
					c.RecoverySource = r.text()
				}
			})
		case "unassigned_info":
			r.object(func(name string) {
				switch name {
				case "reason":
					c.UnassignedReason = r.text()
				case "delayed":
					c.Delayed = r.boolean()
				case "failed_attempts", "failed_allocation_attempts":
					c.FailedMoves += int(r.integer())
				}
			})
		case "relocation_failure_info":
			r.object(func(name string) {
				if name == "failed_attempts" {
					c.FailedMoves += int(r.integer())
				}
			})
		}
	})
	if c.State != cluster.Relocating {
		c.Target = "" // the entry of a relocation's target names its source there
	}
	return c
}

func readCopyState(r *reader) cluster.CopyState {
	text := r.text()
	for _, state := range []cluster.CopyState{cluster.Unassigned, cluster.Initializing, cluster.Started, cluster.Relocating} {
		if state.String() == text {
			return state
		}
	}
	r.fail(fmt.Errorf("%q where the state of a shard copy should be", clip(text)))
	return cluster.Unassigned
}

// readMetadata takes the index settings and states out of metadata and leaves the mappings.
func readMetadata(r *reader, routing *Routing) {
	r.object(func(name string) {
		if name != "indices" {
			return
		}
		r.object(func(index string) {
			settings := IndexSettings{Index: index}
			r.object(func(name string) {
				switch name {
				case "settings":
					settings.read(r)
				case "state":
					if r.text() == "close" {
						routing.Closed[index] = true
					}
				}
			})
			routing.Metadata = append(routing.Metadata, settings)
		})
	})
}

// StateVersionRequest is the cheapest probe for change.
func StateVersionRequest(product cluster.Product) Request {
	return Request{Path: "/_cluster/state/version", Query: withMaster(product, url.Values{"filter_path": {"version,cluster_uuid"}})}
}

// StateVersion is the version of the cluster state and the UUID of the cluster.
func (c *Client) StateVersion(ctx context.Context) (version int64, uuid string, err error) {
	err = c.Ask(ctx, StateVersionRequest(c.known()), func(body io.Reader) error {
		routing, err := DecodeRouting(body)
		if err == nil {
			version, uuid = routing.StateVersion, routing.ClusterUUID
		}
		return err
	})
	return version, uuid, err
}
