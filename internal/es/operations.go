package es

import (
	"context"
	"io"
	"net/url"
	"strings"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// SnapshotShard is a shard whose primary is being written to a snapshot.
type SnapshotShard struct {
	Index string
	Shard int
}

// SnapshotsRequest asks for the snapshots under way, shard by shard.
func SnapshotsRequest(product cluster.Product) Request {
	return Request{
		File: "snapshot_status.json", Path: "/_snapshot/_status",
		Query: withMaster(product, url.Values{"filter_path": {"snapshots.indices.*.shards.*.stage"}}),
	}
}

// DecodeSnapshots reads the answer: the shards that are neither done nor failed.
func DecodeSnapshots(from io.Reader) (map[SnapshotShard]struct{}, error) {
	running := map[SnapshotShard]struct{}{}
	r := newReader(from)
	r.object(func(name string) {
		if name != "snapshots" {
			return
		}
		r.array(func() {
			r.object(func(name string) {
				if name != "indices" {
					return
				}
				r.object(func(index string) {
					r.object(func(name string) {
						if name != "shards" {
							return
						}
						r.object(func(number string) {
							shard := shardNumber(r, number)
							r.object(func(name string) {
								if name != "stage" {
									return
								}
								switch r.text() {
								case "DONE", "FAILURE":
								default:
									running[SnapshotShard{index, shard}] = struct{}{}
								}
							})
						})
					})
				})
			})
		})
	})
	return running, r.finish()
}

// RunningSnapshots is the set of shards being written to snapshots. A move of their primary would run all the same and
// cost the snapshot that shard.
func (c *Client) RunningSnapshots(ctx context.Context) (map[SnapshotShard]struct{}, error) {
	var running map[SnapshotShard]struct{}
	err := c.Ask(ctx, SnapshotsRequest(c.known()), func(body io.Reader) (err error) {
		running, err = DecodeSnapshots(body)
		return err
	})
	return running, err
}

// Shutdown is a node marked to leave or to restart (Elasticsearch).
type Shutdown struct {
	Node   cluster.NodeID
	Type   string // "RESTART", "REMOVE", "REPLACE", "SIGTERM"
	Reason string
}

// Leaves tells whether the node will not be back with its copies.
func (s Shutdown) Leaves() bool { return s.Type != "RESTART" }

// ShutdownsRequest asks for the marks. Where the interface does not exist, servers take the path for a filter on nodes
// and answer 200 with an object of no nodes; where it does, nodes is an array.
func ShutdownsRequest() Request {
	return Request{File: "nodes_shutdown_status.json", Path: "/_nodes/shutdown"}
}

// DecodeShutdowns reads the answer.
func DecodeShutdowns(from io.Reader) ([]Shutdown, error) {
	var marks []Shutdown
	r := newReader(from)
	r.object(func(name string) {
		if name != "nodes" || r.kind() != '[' {
			return
		}
		r.array(func() {
			var s Shutdown
			r.object(func(name string) {
				switch name {
				case "node_id":
					s.Node = cluster.NodeID(r.text())
				case "type":
					s.Type = strings.ToUpper(r.text())
				case "reason":
					s.Reason = clip(r.text())
				}
			})
			marks = append(marks, s)
		})
	})
	return marks, r.finish()
}

// Recovery is one recovery under way.
type Recovery struct {
	Index          string
	Shard          int
	Primary        bool
	Type, Stage    string         // "PEER", "INDEX", ...
	Source, Target cluster.NodeID // where the bytes come from (of a replica: the primary's node) and go to
	BytesTotal     int64
	BytesRecovered int64
}

// RecoveriesRequest asks for the recoveries under way, hidden and closed indices included.
func RecoveriesRequest() Request {
	return Request{File: "recovery.json", Path: "/_recovery", Query: url.Values{
		"active_only": {"true"}, "expand_wildcards": {"all"},
		"filter_path": {"*.shards.id,*.shards.type,*.shards.stage,*.shards.primary,*.shards.source.id,*.shards.target.id," +
			"*.shards.index.size.total_in_bytes,*.shards.index.size.recovered_in_bytes"},
	}}
}

// DecodeRecoveries reads the answer, in its order; records of finished ones are left out.
func DecodeRecoveries(from io.Reader) ([]Recovery, error) {
	var all []Recovery
	r := newReader(from)
	node := func(to *cluster.NodeID) {
		r.object(func(name string) {
			if name == "id" {
				*to = cluster.NodeID(r.text())
			}
		})
	}
	r.object(func(index string) {
		r.object(func(name string) {
			if name != "shards" {
				return
			}
			r.array(func() {
				one := Recovery{Index: index}
				r.object(func(name string) {
					switch name {
					case "id":
						one.Shard = int(r.integer())
					case "primary":
						one.Primary = r.boolean()
					case "type":
						one.Type = strings.ToUpper(r.text())
					case "stage":
						one.Stage = strings.ToUpper(r.text())
					case "source":
						node(&one.Source)
					case "target":
						node(&one.Target)
					case "index":
						r.object(func(name string) {
							if name != "size" {
								return
							}
							r.object(func(name string) {
								switch name {
								case "total_in_bytes":
									one.BytesTotal = r.integer()
								case "recovered_in_bytes":
									one.BytesRecovered = r.integer()
								}
							})
						})
					}
				})
				if one.Stage != "DONE" {
					all = append(all, one)
				}
			})
		})
	})
	return all, r.finish()
}

// Recoveries lists the recoveries under way.
func (c *Client) Recoveries(ctx context.Context) ([]Recovery, error) {
	var all []Recovery
	err := c.Ask(ctx, RecoveriesRequest(), func(body io.Reader) (err error) {
		all, err = DecodeRecoveries(body)
		return err
	})
	return all, err
}

// FileSystems reads every node's disk use anew: a few hundred bytes a node, for a last look before a move.
func (c *Client) FileSystems(ctx context.Context) (map[cluster.NodeID]cluster.DiskUse, error) {
	disks := map[cluster.NodeID]cluster.DiskUse{}
	query := url.Values{"filter_path": {"_nodes,nodes.*.fs.total,nodes.*.indices.store"}}
	err := c.Read(ctx, "/_nodes/stats/indices,fs/store", query, func(body io.Reader) error {
		stats, err := DecodeNodeStats(body)
		if err != nil {
			return err
		}
		for _, n := range stats.Nodes {
			disks[n.ID] = n.Disk
		}
		return nil
	})
	return disks, err
}
