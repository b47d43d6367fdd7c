package es

import (
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// NodeStats is what one node counted since its process started, with what each of its copies counted since it began
// there.
type NodeStats struct {
	ID       cluster.NodeID
	Name     string
	At       time.Time // when the node took its figures
	Disk     cluster.DiskUse
	Paths    int     // data paths the disk figures are the sum of
	CPU      float64 // ratio of the machine in use; negative where unknown
	Uptime   time.Duration
	HeapUsed int64
	Heap     int64 // bytes, maximum

	Rejected int64 // search and write requests refused for full queues, since the start
	Queue    int   // requests waiting in those queues

	Sum    Counters // over all copies, those that have left included
	Shards []ShardStats
}

// Counters only grow while a copy (or node) runs, and start again with it. Times are busy time.
type Counters struct {
	Queries    int64         // query phases
	SearchTime time.Duration // query, fetch and suggest phases; scrolls are open time and not busy time
	Writes     int64         // index and delete operations
	IndexTime  time.Duration // index and delete operations
	MergeTime  time.Duration // merges, without what they were throttled
	Refresh    time.Duration
}

// Behind tells whether any counter is smaller than in an earlier sample: then they started again in between. Merge time
// is a difference of two counters and no judge of that.
func (c Counters) Behind(earlier Counters) bool {
	return c.Queries < earlier.Queries || c.SearchTime < earlier.SearchTime || c.Writes < earlier.Writes ||
		c.IndexTime < earlier.IndexTime || c.Refresh < earlier.Refresh
}

// Minus is what was counted since an earlier sample.
func (c Counters) Minus(earlier Counters) Counters {
	return Counters{
		c.Queries - earlier.Queries, c.SearchTime - earlier.SearchTime, c.Writes - earlier.Writes,
		c.IndexTime - earlier.IndexTime, c.MergeTime - earlier.MergeTime, c.Refresh - earlier.Refresh,
	}
}

// Plus is the sum.
func (c Counters) Plus(d Counters) Counters {
	return Counters{
		c.Queries + d.Queries, c.SearchTime + d.SearchTime, c.Writes + d.Writes,
		c.IndexTime + d.IndexTime, c.MergeTime + d.MergeTime, c.Refresh + d.Refresh,
	}
}

// ShardStats is what one copy counted since it began on its node, and what it holds.
type ShardStats struct {
	Index    string
	Shard    int
	Primary  bool
	State    cluster.CopyState
	Node     cluster.NodeID // filled in from where it was listed, or from its routing
	Counters Counters
	Docs     int64
	Bytes    int64 // on disk
	Reserved int64 // bytes a recovery is still expected to add
	Translog int64 // bytes
	MaxSeqNo int64 // -1 where nothing was ever written
	Segments int64
	Memory   int64 // bytes of heap the copy reports: segment structures, index writer, version map
}

// NodesStats is the answer of any number of nodes.
type NodesStats struct {
	Failed  []NodeFailure // nodes that were asked and did not answer
	Missing int           // of those, how many are not named
	Nodes   []NodeStats
	Sharded bool // there are per-copy figures
}

// NodeFailure is a node that could not answer and why.
type NodeFailure struct {
	Node   cluster.NodeID
	Reason string
}

// Add takes in another batch.
func (s *NodesStats) Add(t *NodesStats) {
	s.Failed = append(s.Failed, t.Failed...)
	s.Missing += t.Missing
	s.Nodes = append(s.Nodes, t.Nodes...)
	s.Sharded = s.Sharded || t.Sharded
}

// shardFields are the members of each copy's statistics that are read: about 400 of some 4,000 bytes a copy.
var shardFields = []string{
	"routing.state", "routing.primary", "docs.count", "store.size_in_bytes", "store.reserved_in_bytes",
	"search.query_total", "search.query_time_in_millis", "search.fetch_time_in_millis", "search.suggest_time_in_millis",
	"indexing.index_total", "indexing.index_time_in_millis", "indexing.delete_total", "indexing.delete_time_in_millis",
	"merges.total_time_in_millis", "merges.total_throttled_time_in_millis", "refresh.total_time_in_millis",
	"translog.size_in_bytes", "seq_no.max_seq_no",
}

// heapFields are read in addition where the heap of a copy is wanted.
var heapFields = []string{
	"segments.count", "segments.memory_in_bytes", "segments.index_writer_memory_in_bytes",
	"segments.version_map_memory_in_bytes", "segments.fixed_bit_set_memory_in_bytes",
}

// NodeStatsRequest asks some nodes, or all where none is named, for their statistics down to the copies. The server
// rejects request lines above 4 kB: 50 nodes are below that with room to spare.
//
// The index metrics are named so that the answer is small; "docs" among them makes the servers leave out copies that
// are still arriving, which is as well: they serve nothing yet, and what they will hold is in the node's reserved bytes.
func NodeStatsRequest(nodes []cluster.NodeID, heap bool) Request {
	metrics, fields := "docs,store,indexing,search,merge,refresh,translog", shardFields
	if heap {
		metrics += ",segments"
		fields = append(append([]string(nil), fields...), heapFields...)
	}
	var filter strings.Builder
	filter.WriteString("_nodes,nodes.*.name,nodes.*.timestamp,nodes.*.fs.total,nodes.*.fs.data.total_in_bytes,nodes.*.os.cpu.percent," +
		"nodes.*.jvm.uptime_in_millis,nodes.*.jvm.mem.heap_used_in_bytes,nodes.*.jvm.mem.heap_max_in_bytes," +
		"nodes.*.thread_pool.search,nodes.*.thread_pool.write," +
		"nodes.*.indices.store,nodes.*.indices.search,nodes.*.indices.indexing,nodes.*.indices.merges,nodes.*.indices.refresh")
	for _, field := range fields {
		filter.WriteString(",nodes.*.indices.shards.*.*." + field)
	}
	return Request{
		File:  "nodes_stats.json",
		Path:  nodesPath(nodes) + "/stats/indices,fs,os,jvm,thread_pool/" + metrics,
		Query: url.Values{"level": {"shards"}, "filter_path": {filter.String()}},
	}
}

func nodesPath(nodes []cluster.NodeID) string {
	if len(nodes) == 0 {
		return "/_nodes"
	}
	ids := make([]string, len(nodes))
	for i, id := range nodes {
		ids[i] = string(id)
	}
	return "/_nodes/" + strings.Join(ids, ",")
}

// DecodeNodeStats reads the answer, or one that was not filtered, in its order.
func DecodeNodeStats(from io.Reader) (*NodesStats, error) {
	stats := &NodesStats{}
	r := newReader(from)
	there := false
	r.object(func(name string) {
		switch name {
		case "_nodes":
			failed := 0
			r.object(func(name string) {
				switch name {
				case "failed":
					failed = int(r.integer())
				case "failures":
					r.array(func() { stats.Failed = append(stats.Failed, readNodeFailure(r)) })
				}
			})
			stats.Missing += max(0, failed-len(stats.Failed))
		case "nodes":
			there = true
			r.object(func(id string) {
				stats.Nodes = append(stats.Nodes, readNodeStats(r, cluster.NodeID(id), &stats.Sharded))
			})
		}
	})
	if err := r.finish(); err != nil {
		return nil, err
	}
	if !there && len(stats.Failed)+stats.Missing == 0 {
		return nil, &SyntaxError{Path: "/nodes", Err: fmt.Errorf("it is missing")}
	}
	return stats, nil
}

func readNodeFailure(r *reader) NodeFailure {
	var f NodeFailure
	r.object(func(name string) {
		switch name {
		case "node_id":
			f.Node = cluster.NodeID(r.text())
		case "caused_by":
			r.object(func(name string) {
				if name == "reason" {
					f.Reason = clip(r.text())
				}
			})
		case "reason":
			if text := clip(r.text()); f.Reason == "" {
				f.Reason = text
			}
		}
	})
	return f
}

func readNodeStats(r *reader, id cluster.NodeID, sharded *bool) NodeStats {
	n := NodeStats{ID: id, CPU: -1}
	r.object(func(name string) {
		switch name {
		case "name":
			n.Name = r.text()
		case "timestamp":
			n.At = time.UnixMilli(r.integer()).UTC()
		case "fs":
			readFileSystem(r, &n)
		case "os":
			r.object(func(name string) {
				switch name {
				case "cpu":
					r.object(func(name string) {
						if name == "percent" {
							n.CPU = ratio(r.float())
						}
					})
				case "cpu_percent": // Elasticsearch 2
					n.CPU = ratio(r.float())
				}
			})
		case "jvm":
			r.object(func(name string) {
				switch name {
				case "uptime_in_millis":
					n.Uptime = millis(r.integer())
				case "mem":
					r.object(func(name string) {
						switch name {
						case "heap_used_in_bytes":
							n.HeapUsed = r.integer()
						case "heap_max_in_bytes":
							n.Heap = r.integer()
						}
					})
				}
			})
		case "thread_pool":
			r.object(func(pool string) {
				switch pool {
				case "search", "write", "bulk", "index": // the last two up to Elasticsearch 6
					r.object(func(name string) {
						switch name {
						case "queue":
							n.Queue += int(r.integer())
						case "rejected":
							n.Rejected += r.integer()
						}
					})
				}
			})
		case "indices":
			readNodeIndices(r, &n, sharded)
		}
	})
	return n
}

func ratio(percent float64) float64 {
	if percent < 0 {
		return -1
	}
	return percent / 100
}

func millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func readFileSystem(r *reader, n *NodeStats) {
	r.object(func(name string) {
		switch name {
		case "total":
			r.object(func(name string) {
				switch name {
				case "total_in_bytes":
					n.Disk.Total = r.integer()
				case "available_in_bytes":
					n.Disk.Available = r.integer()
				}
			})
		case "data":
			r.array(func() {
				n.Paths++
				r.skip()
			})
		}
	})
}

func readNodeIndices(r *reader, n *NodeStats, sharded *bool) {
	var sum ShardStats // the sums over the node have the members that a copy has
	r.object(func(name string) {
		if name != "shards" {
			readShardMember(r, name, &sum)
			return
		}
		*sharded = true
		r.object(func(index string) {
			r.array(func() {
				r.object(func(number string) {
					n.Shards = append(n.Shards, readShardStats(r, index, shardNumber(r, number)))
					n.Shards[len(n.Shards)-1].Node = n.ID
				})
			})
		})
	})
	n.Sum = sum.Counters
	n.Disk.Store, n.Disk.Reserved = sum.Bytes, sum.Reserved
}

func shardNumber(r *reader, text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		r.fail(fmt.Errorf("%q where a shard number should be", clip(text)))
	}
	return n
}

func readShardStats(r *reader, index string, shard int) ShardStats {
	s := ShardStats{Index: index, Shard: shard, State: cluster.Started, MaxSeqNo: -1}
	r.object(func(name string) { readShardMember(r, name, &s) })
	return s
}

// readShardMember reads one group of figures, which has the same shape for a copy and summed over a node.
func readShardMember(r *reader, name string, s *ShardStats) {
	c := &s.Counters
	switch name {
	case "routing":
		r.object(func(name string) {
			switch name {
			case "state":
				s.State = readCopyState(r)
			case "primary":
				s.Primary = r.boolean()
			case "node":
				s.Node = cluster.NodeID(r.text())
			}
		})
	case "docs":
		r.object(func(name string) {
			if name == "count" {
				s.Docs = r.integer()
			}
		})
	case "store":
		r.object(func(name string) {
			switch name {
			case "size_in_bytes":
				s.Bytes = r.integer()
			case "reserved_in_bytes":
				s.Reserved = max(0, r.integer()) // -1 is unknown
			}
		})
	case "search":
		r.object(func(name string) {
			switch name {
			case "query_total":
				c.Queries = r.integer()
			case "query_time_in_millis", "fetch_time_in_millis", "suggest_time_in_millis":
				c.SearchTime += millis(r.integer())
			}
		})
	case "indexing":
		r.object(func(name string) {
			switch name {
			case "index_total", "delete_total":
				c.Writes += r.integer()
			case "index_time_in_millis", "delete_time_in_millis":
				c.IndexTime += millis(r.integer())
			}
		})
	case "merges":
		r.object(func(name string) {
			switch name {
			case "total_time_in_millis":
				c.MergeTime += millis(r.integer())
			case "total_throttled_time_in_millis":
				c.MergeTime -= millis(r.integer())
			}
		})
	case "refresh":
		r.object(func(name string) {
			if name == "total_time_in_millis" {
				c.Refresh = millis(r.integer())
			}
		})
	case "translog":
		r.object(func(name string) {
			if name == "size_in_bytes" {
				s.Translog = r.integer()
			}
		})
	case "seq_no":
		r.object(func(name string) {
			if name == "max_seq_no" {
				s.MaxSeqNo = r.integer()
			}
		})
	case "segments":
		r.object(func(name string) {
			switch name {
			case "count":
				s.Segments = r.integer()
			case "memory_in_bytes", "index_writer_memory_in_bytes", "version_map_memory_in_bytes", "fixed_bit_set_memory_in_bytes":
				s.Memory += r.integer()
			}
		})
	}
}

// DecodeIndicesStats reads GET /_stats?level=shards, which bundles of Elastic's support diagnostics have in place of
// per-copy node statistics: the copies, in its order, and how many of them could not be asked.
func DecodeIndicesStats(from io.Reader) (shards []ShardStats, failed int, err error) {
	r := newReader(from)
	r.object(func(name string) {
		switch name {
		case "_shards":
			r.object(func(name string) {
				if name == "failed" {
					failed = int(r.integer())
				}
			})
		case "indices":
			r.object(func(index string) {
				r.object(func(name string) {
					if name != "shards" {
						return
					}
					r.object(func(number string) {
						shard := shardNumber(r, number)
						r.array(func() { shards = append(shards, readShardStats(r, index, shard)) })
					})
				})
			})
		}
	})
	return shards, failed, r.finish()
}
