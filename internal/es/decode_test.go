package es

import (
	"errors"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// same fails where a decoder made something else of a document, or an error.
func same[T any](t *testing.T, decode func(io.Reader) (T, error), document string, want T) {
	t.Helper()
	got, err := decode(strings.NewReader(document))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(rerouteAnswer{})); diff != "" {
		t.Errorf("want (-) and got (+):\n%s", diff)
	}
}

func TestDecodeRouting(t *testing.T) {
	same(t, DecodeRouting, `{"cluster_name":"c","cluster_uuid":"u","version":912,"unknown":{"a":[1,{"b":null}]},
	 "nodes":{"A":{"name":"n 1","ephemeral_id":"e1","transport_address":"10.0.0.1:9300","attributes":{}},"B":{"name":"n\u00fc","ephemeral_id":"e2","roles":["data"]}},
	 "blocks":{"global":{},"indices":{"shut":{"4":{"description":"index closed","retryable":false}},"full":{"12":{}}}},
	 "routing_table":{"indices":{"logs":{"shards":{"0":[
	  {"state":"STARTED","primary":true,"node":"A","relocating_node":null,"shard":0,"index":"logs","allocation_id":{"id":"aidP"},"relocation_failure_info":{"failed_attempts":2}},
	  {"state":"RELOCATING","primary":false,"searchOnly":true,"node":"B","relocating_node":"C","expected_shard_size_in_bytes":"53687091200","allocation_id":{"id":"aidR","relocation_id":"aidR2"}},
	  {"state":"UNASSIGNED","primary":false,"node":null,"relocating_node":null,"recovery_source":{"type":"PEER"},
	   "unassigned_info":{"reason":"NODE_LEFT","at":"2026-01-02T03:04:05.678Z","failed_attempts":3,"delayed":true,"details":"node_left [x]","allocation_status":"no_attempt"}},
	  {"state":"INITIALIZING","primary":false,"node":"D","relocating_node":"E","recovery_source":{"type":"SNAPSHOT"},"allocation_id":{"id":"i"}}]}}}}}`,
		&Routing{
			StateVersion: 912, ClusterUUID: "u",
			Nodes:  []RoutingNode{{"A", "n 1", "e1"}, {"B", "nü", "e2"}},
			Closed: map[string]bool{"shut": true},
			Copies: []RoutingCopy{
				{Index: "logs", Primary: true, State: cluster.Started, Node: "A", AllocationID: "aidP", FailedMoves: 2},
				{
					Index: "logs", SearchOnly: true, State: cluster.Relocating, Node: "B", Target: "C", AllocationID: "aidR", RelocationID: "aidR2",
					ExpectedBytes: 53687091200,
				},
				{Index: "logs", State: cluster.Unassigned, UnassignedReason: "NODE_LEFT", Delayed: true, FailedMoves: 3, RecoverySource: "PEER"},
				{Index: "logs", State: cluster.Initializing, Node: "D", AllocationID: "i", RecoverySource: "SNAPSHOT"},
			},
		})
	same(t, DecodeRouting, `{"version":1,"cluster_uuid":"u"}`, &Routing{StateVersion: 1, ClusterUUID: "u", Closed: map[string]bool{}})
	for document, place := range map[string]string{
		`{}`: "/routing_table",
		`{"version":1,"routing_table":{"indices":{"a":{"shards":{"0":[{"state":"SLEEPING"}]}}}}}`: `/routing_table/indices/a/shards/0/0/state: "SLEEPING"`,
		`{"version":1,"routing_table":{"indices":{"a":{"shards":{"x":[]}}}}}`:                     `"x" where a shard number`,
		`{"version":"latest"}`: "/version: \"latest\" where a whole number should be",
		`{"version":1,"routing_table":{"indices":{"a":{"shards":{"0":[{"state":"STARTED","node":{}}]}}}}}`: "/node: an object where a plain value should be",
	} {
		_, err := DecodeRouting(strings.NewReader(document))
		var syntax *SyntaxError
		if !errors.As(err, &syntax) || !strings.Contains(err.Error(), place) {
			t.Errorf("%s: %v, want %q", document, err, place)
		}
	}
}

func TestDecodeNodeStats(t *testing.T) {
	same(t, DecodeNodeStats, `{"_nodes":{"total":3,"successful":1,"failed":2,"failures":[{"type":"failed_node_exception","reason":"Failed node [B]","node_id":"B",
	  "caused_by":{"type":"receive_timeout_transport_exception","reason":"[n2] request_id [7] timed out"}}]},
	 "nodes":{"A":{"timestamp":1760000000000,"name":"n1","roles":["data"],
	  "os":{"cpu":{"percent":35}},"jvm":{"uptime_in_millis":86400000,"mem":{"heap_used_in_bytes":5,"heap_max_in_bytes":9}},
	  "thread_pool":{"write":{"threads":8,"queue":1,"active":1,"rejected":3,"completed":9},"search":{"queue":2,"rejected":4},"get":{"queue":100,"rejected":100}},
	  "fs":{"total":{"total_in_bytes":100,"free_in_bytes":40,"available_in_bytes":38},"data":[{"path":"/d/0"},{"path":"/d/1"}],"io_stats":{}},
	  "indices":{"store":{"size_in_bytes":50,"reserved_in_bytes":7},"search":{"query_total":5,"query_time_in_millis":1000,"fetch_time_in_millis":200,"suggest_time_in_millis":30,"scroll_time_in_millis":999999},
	   "shards":{"a.b":[{"0":{"routing":{"state":"STARTED","primary":true,"node":"A","relocating_node":null},
	     "docs":{"count":10,"deleted":1},"store":{"size_in_bytes":40,"reserved_in_bytes":-1},
	     "indexing":{"index_total":8,"index_time_in_millis":900,"delete_total":2,"delete_time_in_millis":100,"is_throttled":false,"write_load":0.5},
	     "get":{"total":7,"getTime":"0s"},"search":{"query_total":"4","query_time_in_millis":800},"merges":{"total_time_in_millis":70,"total_throttled_time_in_millis":20},
	     "refresh":{"total_time_in_millis":60},"translog":{"size_in_bytes":55},"seq_no":{"max_seq_no":9},"segments":{"count":3,"memory_in_bytes":100,"version_map_memory_in_bytes":1}}},
	    {"11":{"routing":{"state":"RELOCATING","primary":false},"seq_no":{"max_seq_no":-1}}}]}}}}}`,
		&NodesStats{
			Failed: []NodeFailure{{"B", "[n2] request_id [7] timed out"}}, Missing: 1, Sharded: true,
			Nodes: []NodeStats{{
				ID: "A", Name: "n1", At: time.UnixMilli(1760000000000).UTC(), CPU: 0.35, Uptime: 24 * time.Hour, HeapUsed: 5, Heap: 9, Rejected: 7, Queue: 3,
				Paths: 2, Disk: cluster.DiskUse{Total: 100, Available: 38, Store: 50, Reserved: 7},
				Sum: Counters{Queries: 5, SearchTime: 1230 * time.Millisecond},
				Shards: []ShardStats{
					{
						Index: "a.b", Primary: true, State: cluster.Started, Node: "A", Docs: 10, Bytes: 40, Translog: 55, MaxSeqNo: 9, Segments: 3, Memory: 101,
						Counters: Counters{4, 800 * time.Millisecond, 10, time.Second, 50 * time.Millisecond, 60 * time.Millisecond},
					},
					{Index: "a.b", Shard: 11, State: cluster.Relocating, Node: "A", MaxSeqNo: -1},
				},
			}},
		})
	same(t, DecodeNodeStats, `{"_nodes":{"total":0,"successful":0,"failed":0},"nodes":{}}`, &NodesStats{})
	if _, err := DecodeNodeStats(strings.NewReader(`{"error":"x"}`)); err == nil || !strings.Contains(err.Error(), "/nodes") {
		t.Errorf("%v", err)
	}
}

func TestDecodeIndicesStats(t *testing.T) {
	shards, failed, err := DecodeIndicesStats(strings.NewReader(`{"_shards":{"total":4,"successful":1,"failed":3},"_all":{},"indices":{"a":{"uuid":"u","total":{},
	 "shards":{"0":[{"routing":{"state":"STARTED","primary":true,"node":"A"},"docs":{"count":1}},{"routing":{"state":"STARTED","primary":false,"node":"B"}}],"1":[]}}}}`))
	want := []ShardStats{
		{Index: "a", Primary: true, State: cluster.Started, Node: "A", Docs: 1, MaxSeqNo: -1}, {Index: "a", State: cluster.Started, Node: "B", MaxSeqNo: -1},
	}
	if diff := cmp.Diff(want, shards); diff != "" || failed != 3 || err != nil {
		t.Errorf("%d failed, %v, want (-) and got (+):\n%s", failed, err, diff)
	}
}

func TestDecodeNodes(t *testing.T) {
	same(t, DecodeNodes, `{"_nodes":{},"cluster_name":"c","nodes":{
	 "A":{"name":"n1","ip":"10.0.0.1","host":"h1","version":"2.19.6","roles":["ingest","data"],"attributes":{"zone":"a","ml":{"max":"5"}},
	  "os":{"available_processors":8,"allocated_processors":2},"jvm":{"mem":{"heap_max_in_bytes":1024}},"settings":{"node":{"processors":"1.5"}}},
	 "B":{"name":"n2","version":"custom","os":{"available_processors":8}}}}`,
		[]NodeInfo{
			{
				ID: "A", Name: "n1", IP: "10.0.0.1", Host: "h1", Version: cluster.Version{Major: 2, Minor: 19, Patch: 6}, Roles: []string{"data", "ingest"},
				Attributes: map[string]string{"zone": "a", "ml.max": "5"}, Processors: 1.5, Heap: 1024,
			},
			{ID: "B", Name: "n2", Processors: 8},
		})
}

func TestDecodeIndexSettings(t *testing.T) {
	want := []IndexSettings{{
		Index: "logs.1", UUID: "u", Shards: 3, Replicas: 2, SearchReplicas: 1, Created: time.UnixMilli(1758154155586).UTC(), Hidden: true,
		Filter: cluster.Filter{
			Include: map[string][]string{"zone": {"a", "b"}}, Require: map[string][]string{"_name": {"n1"}}, Exclude: map[string][]string{"box.type": {"old"}},
		},
		TierPreference: []string{"data_hot", "data_content"}, TotalShardsPerNode: 4, AllocationEnable: "primaries", RebalanceEnable: "none",
		AutoExpand: "0-1", StoreType: "fs", Replication: "SEGMENT", MaxRetries: 7, ResizeSource: "big",
	}}
	same(t, DecodeIndexSettings, `{"logs.1":{"settings":{"index.uuid":"u","index.number_of_shards":"3","index.number_of_replicas":"2","index.number_of_search_replicas":"1",
	 "index.creation_date":"1758154155586","index.hidden":"true","index.routing.allocation.include.zone":"a, b,","index.routing.allocation.require._name":"n1",
	 "index.routing.allocation.exclude.box.type":["old"],"index.routing.allocation.exclude._ip":"","index.routing.allocation.include._tier_preference":"data_hot,data_content",
	 "index.routing.allocation.total_shards_per_node":"4","index.routing.allocation.enable":"primaries","index.routing.rebalance.enable":"none",
	 "index.routing.allocation.disk.watermark.ignore":"true","index.auto_expand_replicas":"0-1","index.store.type":"fs","index.replication.type":"SEGMENT",
	 "index.allocation.max_retries":"7","index.resize.source.name":"big","index.number_of_routing_shards":"1024"}}}`, want)
	same(t, DecodeIndexSettings, `{"logs.1":{"settings":{"index":{"uuid":"u","number_of_shards":3,"number_of_replicas":"2","number_of_search_replicas":1,"creation_date":1758154155586,
	 "hidden":true,"routing":{"allocation":{"include":{"zone":"a,b","_tier_preference":"data_hot,data_content"},"require":{"_name":"n1"},"exclude":{"box":{"type":"old"}},
	  "total_shards_per_node":4,"enable":"primaries"},"rebalance":{"enable":"none"}},"auto_expand_replicas":"0-1","store":{"type":"fs"},"replication":{"type":"SEGMENT"},
	 "allocation":{"max_retries":"7"},"resize":{"source":{"name":"big"}},"lifecycle":{"name":"x"}}}}}`, want)
	same(t, DecodeIndexSettings, `{"a":{"settings":{"index.routing.allocation.total_shards_per_node":"-1"}}}`, []IndexSettings{{Index: "a"}})
	if _, err := DecodeIndexSettings(strings.NewReader(`{"a":{"settings":{"index.number_of_shards":"many"}}}`)); err == nil {
		t.Error("many shards are a number")
	}
}

func TestDecodeOthers(t *testing.T) {
	same(t, DecodeRoot, `{"name":"n","cluster_name":"c","cluster_uuid":"u","version":{"distribution":"opensearch","number":"2.19.6","build_flavor":"x"},"tagline":"t"}`,
		Root{"c", "u", "2.19.6", "opensearch", "x", "t"})
	same(t, DecodeRoot, `{"version":"7"}`, Root{})
	same(t, DecodeHealth, `{"status":"yellow","number_of_nodes":9,"number_of_data_nodes":6,"discovered_master":true,"relocating_shards":2,"initializing_shards":1,
	 "unassigned_shards":3,"delayed_unassigned_shards":1,"number_of_pending_tasks":4,"task_max_waiting_in_queue_millis":1500,"active_shards_percent_as_number":98.5}`,
		cluster.Health{
			Status: "yellow", Unassigned: 3, Delayed: 1, Initializing: 1, Relocating: 2, PendingTasks: 4, MaxTaskWait: 1500 * time.Millisecond,
			Nodes: 9, DataNodes: 6, HasMaster: true,
		})
	same(t, DecodeStreams, `{"data_streams":[{"name":"logs","generation":7,"indices":[{"index_name":"i6","index_uuid":"x"},{"index_name":"i7"}],
	 "failure_store":{"enabled":true,"indices":[{"index_name":"f1"}]}},{"name":"empty","indices":[]}]}`,
		[]Stream{{"logs", []string{"i6", "i7"}, []string{"f1"}}, {Name: "empty"}})
	same(t, DecodeWriteIndices, `{"a":{"aliases":{"x":{},"y":{"is_write_index":false}}},"b":{"aliases":{"x":{"is_write_index":true}}},"c":{}}`, map[string]bool{"b": true})
	same(t, DecodeSnapshots, `{"snapshots":[{"snapshot":"s","indices":{"a":{"shards":{"0":{"stage":"STARTED","node":"N"},"1":{"stage":"DONE"},"2":{"stage":"FAILURE"},"3":{"stage":"INIT"}}}}}]}`,
		map[SnapshotShard]struct{}{{"a", 0}: {}, {"a", 3}: {}})
	same(t, DecodeShutdowns, `{"nodes":[{"node_id":"A","type":"remove","reason":"old","status":"COMPLETE"},{"node_id":"B","type":"RESTART"}]}`,
		[]Shutdown{{"A", "REMOVE", "old"}, {"B", "RESTART", ""}})
	same(t, DecodeShutdowns, `{"_nodes":{"total":0,"successful":0,"failed":0},"cluster_name":"c","nodes":{}}`, nil)
	same(t, DecodeRecoveries, `{"a":{"shards":[{"id":3,"type":"PEER","stage":"INDEX","primary":true,"source":{"id":"A"},"target":{"id":"B"},
	 "index":{"size":{"total_in_bytes":10,"recovered_in_bytes":4,"reused_in_bytes":0,"percent":"40.0%"}},"translog":{}},{"id":4,"stage":"DONE"}]}}`,
		[]Recovery{{"a", 3, true, "PEER", "INDEX", "A", "B", 10, 4}})
	same(t, decodeReroute, `{"acknowledged":true,"state":{"cluster_uuid":"u"},"explanations":[{"command":"move","parameters":{"index":"a"},
	 "decisions":[{"decider":"disk_threshold","decision":"NO","explanation":"full"}]},{"command":"move"}]}`,
		rerouteAnswer{true, [][]Decision{{{"disk_threshold", "NO", "full"}}, {}}})
	same(t, decodeExplain, `{"index":"a","node_allocation_decisions":[{"node_id":"A","node_name":"n","node_decision":"worse_balance","weight_ranking":1,
	 "deciders":[{"decider":"awareness","decision":"NO","explanation":"too many"}]}]}`,
		[]NodeDecision{{"A", "n", "worse_balance", []Decision{{"awareness", "NO", "too many"}}}})

	balance, err := decodeDesiredBalance(strings.NewReader(`{"stats":{},"routing_table":{"a":{"0":{"current":[{"state":"STARTED","primary":true,"node":"A","node_is_desired":false},
	 {"state":"RELOCATING","primary":false,"node":"C","relocating_node":"B"},{"state":"UNASSIGNED","primary":false,"node":null}],"desired":{"node_ids":["B","D"],"total":2}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Wish{{"a", 0, true, "A", []cluster.NodeID{"B", "D"}}}, balance.Wishes()); diff != "" {
		t.Errorf("wishes, want (-) and got (+):\n%s", diff)
	}
}

func TestSettings(t *testing.T) {
	raw, err := DecodeSettings(strings.NewReader(`{
	 "persistent":{"cluster.routing.rebalance.enable":"none","cluster.routing.allocation.disk.watermark.low":"20gb","cluster.metadata.shardonnay.owner":"{\"holder\":\"x\"}",
	  "cluster.routing.allocation.exclude._ip":"10.0.0.1,10.0.0.2","cluster.routing.allocation.node_concurrent_recoveries":"5"},
	 "transient":{"cluster.routing.rebalance.enable":"primaries"},
	 "defaults":{"cluster.routing.rebalance.enable":"all","cluster.routing.allocation.enable":"all","cluster.routing.allocation.awareness.attributes":["zone","rack"],
	  "cluster.routing.allocation.awareness.force.zone.values":["a","b"],"cluster.routing.allocation.disk.watermark.low":"85%","cluster.routing.allocation.disk.watermark.low.max_headroom":"-1",
	  "cluster.routing.allocation.disk.watermark.high":"90%","cluster.routing.allocation.disk.watermark.high.max_headroom":"150GB","cluster.routing.allocation.disk.watermark.flood_stage":"0.95",
	  "cluster.routing.allocation.node_concurrent_incoming_recoveries":"2","cluster.routing.allocation.cluster_concurrent_rebalance":"-1","cluster.routing.allocation.total_shards_per_node":"-1",
	  "indices.recovery.max_bytes_per_sec":"100mb","cluster.routing.allocation.same_shard.host":"true"}}`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := raw.Cluster()
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, got, want any) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s, want (-) and got (+):\n%s", what, diff)
		}
	}
	check("rebalance", got.RebalanceEnable, "primaries")
	check("transient", got.Transient, []string{"cluster.routing.rebalance.enable"})
	check("ownership", got.Ownership, map[string]string{"owner": `{"holder":"x"}`})
	check("low", got.Low, cluster.Watermark{Free: 20 << 30})
	check("high", got.High, cluster.Watermark{Ratio: 0.9, Headroom: 150 << 30})
	check("flood", got.FloodStage, cluster.Watermark{Ratio: 0.95})
	check("awareness", got.AwarenessAttributes, []string{"zone", "rack"})
	check("forced", got.ForcedAwareness, map[string][]string{"zone": {"a", "b"}})
	check("filter", got.Filter, cluster.Filter{Exclude: map[string][]string{"_ip": {"10.0.0.1", "10.0.0.2"}}})
	check("incoming", got.IncomingRecoveries, 5) // whatever default some versions show for it
	check("outgoing", got.OutgoingRecoveries, 5)
	check("concurrent rebalance", got.ConcurrentRebalance, -1)
	check("limit", got.TotalShardsPerNode, 0)
	check("speed", got.RecoveryBytesPerSec, int64(100<<20))
	check("host", got.SameShardHost, true)
	for _, key := range []string{"cluster.routing.rebalance.enable", "nothing"} {
		persistent, has := raw.Persistent(key)
		check("persistent "+key, has, key != "nothing")
		check("persistent "+key, persistent, map[bool]string{true: "none"}[has])
	}

	empty, err := RawSettings{}.Cluster()
	if err != nil || empty.AllocationEnable != "all" || empty.High.Ratio != 0.9 || !empty.DiskThreshold || empty.IncomingRecoveries != 2 {
		t.Errorf("%+v, %v", empty, err)
	}
	for _, bad := range []string{
		`"cluster.routing.allocation.disk.watermark.low":"plenty"`, `"cluster.routing.allocation.node_concurrent_recoveries":"few"`,
		`"cluster.routing.allocation.same_shard.host":"perhaps"`, `"indices.recovery.max_bytes_per_sec":"fast"`,
	} {
		raw, err := DecodeSettings(strings.NewReader(`{"persistent":{` + bad + `}}`))
		if err != nil {
			t.Fatal(err)
		}
		_, err = raw.Cluster()
		key, _, _ := strings.Cut(strings.TrimPrefix(bad, `"`), `"`)
		checkError(t, err, cluster.Incomplete, key)
	}
}

func TestIdentify(t *testing.T) {
	v := func(texts ...string) (versions []cluster.Version) {
		for _, text := range texts {
			version, err := cluster.ParseVersion(text)
			if err != nil {
				t.Fatal(err)
			}
			versions = append(versions, version)
		}
		return versions
	}
	for _, test := range []struct {
		name  string
		root  Root
		nodes []cluster.Version
		want  string
	}{
		{"OpenSearch", Root{Number: "2.19.6", Distribution: "opensearch"}, v("2.19.6"), "OpenSearch 2.19.6"},
		{"OpenSearch in a rolling upgrade", Root{Number: "3.1.0", Distribution: "opensearch"}, v("3.1.0", "2.19.6", "3.1.0"), "OpenSearch 2.19.6"},
		{
			"OpenSearch that calls itself 7.10.2",
			Root{Number: "7.10.2", Tagline: "The OpenSearch Project: https://opensearch.org/"},
			v("2.11.0"),
			"OpenSearch 2.11.0",
		},
		{"the same on a service that hides the tagline", Root{Number: "7.10.2", Flavor: "oss"}, v("1.3.2", "1.3.2"), "OpenSearch 1.3.2"},
		{"Elasticsearch 7.10.2 indeed", Root{Number: "7.10.2", Flavor: "oss"}, v("7.10.2"), "Elasticsearch 7.10.2"},
		{"Elasticsearch from artifacts", Root{Number: "9.5.3", Flavor: "unknown"}, v("9.5.3"), "Elasticsearch 9.5.3"},
		{"Elasticsearch snapshot", Root{Number: "8.19.0-SNAPSHOT", Flavor: "default"}, nil, "Elasticsearch 8.19.0"},
	} {
		identity, err := Identify(test.root, test.nodes)
		if err != nil || identity.Product.String() != test.want {
			t.Errorf("%s: %v, %v", test.name, identity.Product, err)
		}
	}
	for _, root := range []Root{{}, {Number: "one"}, {Number: "8.0.0", Flavor: "serverless"}, {Number: "8.0.0", Distribution: "other"}} {
		if _, err := Identify(root, nil); cluster.ClassOf(err) != cluster.Refused {
			t.Errorf("%+v: %v", root, err)
		}
	}
}

// TestRequestsFit keeps every request line below the 4 kB that servers take, at the greatest batch advised.
func TestRequestsFit(t *testing.T) {
	ids := make([]cluster.NodeID, 50)
	for i := range ids {
		ids[i] = cluster.NodeID(strings.Repeat("x", 22))
	}
	for _, product := range []cluster.Product{{}, {Distribution: cluster.OpenSearch, Version: cluster.Version{Major: 2}}} {
		for _, r := range []Request{
			NodeStatsRequest(ids, true), NodeStatsRequest(nil, false), RoutingRequest(product), SettingsRequest(product), IndexSettingsRequest(),
			NodesRequest(), HealthRequest(product), StreamsRequest(product), AliasesRequest(), RecoveriesRequest(), SnapshotsRequest(product), ShutdownsRequest(),
		} {
			target := url.URL{Path: r.Path, RawQuery: r.Query.Encode()}
			if n := len("GET  HTTP/1.1") + len(target.String()); n > 4000 {
				t.Errorf("%s takes %d bytes", r.File, n)
			}
		}
	}
}
