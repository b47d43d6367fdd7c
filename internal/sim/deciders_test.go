package sim

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// decided is every decider that does not say YES to moving the copy, with its answer, in the product's order.
func decided(c *Cluster, index string, shard int, from, to string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.node(from)
	for _, s := range n.copies {
		if s.group.idx.name == index && s.group.num == shard {
			_, list := c.decide(s, c.node(to), true)
			var words []string
			for _, d := range list {
				if d.verdict != yes {
					words = append(words, d.decider+":"+d.verdict.String())
				}
			}
			return strings.Join(words, " ")
		}
	}
	return "no such copy"
}

// TestDeciders gives each decider a cluster in which it alone, or with those it must come with, has something to say.
func TestDeciders(t *testing.T) {
	const (
		os = "cluster opensearch 2.19.6\n"
		es = "cluster elasticsearch 8.19.0\n"
	)
	tests := []struct {
		name, scenario string
		index          string
		shard          int
		from, to       string
		want           string
	}{
		{"all agree", os + "nodes 3\nindex i replicas=0\nsettle", "i", 0, "n1", "n2", ""},
		{"a replica is there", os + "nodes 3\nindex i\nsettle", "i", 0, "n1", "n2", "same_shard:NO"},
		{"the copy itself is there", os + "nodes 3\nindex i\nsettle", "i", 0, "n1", "n1", "same_shard:NO"},
		{
			"a leaving copy still counts", os + "nodes 4\nset cluster.routing.rebalance.enable=none\nindex i size=1GB\nsettle\nmove i 0 n2 n3",
			"i", 0, "n1", "n2", "same_shard:NO",
		},
		{
			"an arriving copy counts", os + "nodes 4\nset cluster.routing.rebalance.enable=none\nindex i size=1GB\nsettle\nmove i 0 n2 n3",
			"i", 0, "n1", "n3", "same_shard:NO",
		},
		{
			"same host, another copy", os + "node a host=h1\nnode b host=h2\nnode c host=h2\nset cluster.routing.allocation.same_shard.host=true\n" +
				"index i\nsettle", "i", 0, "a", "c", "same_shard:NO",
		},
		{
			"same host, in its own way", os + "node a host=h1\nnode b host=h1\nset cluster.routing.allocation.same_shard.host=true\nindex i replicas=0\nsettle",
			"i", 0, "a", "b", "same_shard:NO",
		},
		{
			"cluster exclude", os + "nodes 3\nindex i replicas=0\nsettle\nset cluster.routing.allocation.exclude._name=x*,n3", "i", 0, "n1", "n3", "filter:NO",
		},
		{
			"cluster include wildcards", os + "nodes 3 zones=east1,west1\nindex i replicas=0\nsettle\nset cluster.routing.allocation.include.zone=east*",
			"i", 0, "n1", "n2", "filter:NO",
		},
		{
			"index require, all of them", os + "node a attr.box=hot attr.rack=1\nnode b attr.box=hot attr.rack=2\n" +
				"index i replicas=0 index.routing.allocation.require.box=hot index.routing.allocation.require.rack=1\nsettle", "i", 0, "a", "b", "filter:NO",
		},
		{
			"index include, any of them", os + "node a attr.box=hot attr.rack=1\nnode b attr.box=cold attr.rack=2\n" +
				"index i replicas=0 index.routing.allocation.include.box=hot index.routing.allocation.include.rack=2\nsettle", "i", 0, "a", "b", "",
		},
		{
			"awareness, three copies in two zones", os + "nodes 5 zones=a,b\nset cluster.routing.allocation.awareness.attributes=zone\nindex i replicas=2\nsettle",
			"i", 0, "n2", "n5", "awareness:NO",
		},
		{
			"awareness, within the zone", os + "nodes 5 zones=a,b\nset cluster.routing.allocation.awareness.attributes=zone\nindex i replicas=1\nsettle",
			"i", 0, "n1", "n3", "",
		},
		{
			"awareness, a forced zone without nodes lowers the cap", os + "nodes 4 zones=a,b\n" +
				"set cluster.routing.allocation.awareness.attributes=zone cluster.routing.allocation.awareness.force.zone.values=a,b,c\nindex i replicas=1\nsettle",
			"i", 0, "n1", "n4", "awareness:NO",
		},
		{
			"awareness, a node without the attribute", os + "nodes 2 zones=a,b\nnode bare\nset cluster.routing.allocation.awareness.attributes=zone\nindex i replicas=0\nsettle",
			"i", 0, "n1", "bare", "awareness:NO",
		},
		{
			"above the low watermark", os + "nodes 3 disk=100GB\nindex i replicas=0 size=1GB\nsettle\nfill n2 86GB\nrun 30s", "i", 0, "n1", "n2", "disk_threshold:NO",
		},
		{
			"above the high watermark after it", os + "nodes 3 disk=100GB\nindex i replicas=0 size=8GB\nsettle\nfill n2 84GB\nrun 30s", "i", 0, "n1", "n2", "disk_threshold:NO",
		},
		{
			"the master looks only now and then", os + "nodes 3 disk=100GB\nindex i replicas=0 size=1GB\nsettle\nfill n2 86GB\nrun 29s", "i", 0, "n1", "n2", "",
		},
		{
			"an arriving copy counts in full until it has landed", os + "nodes 3 disk=100GB\nset cluster.routing.rebalance.enable=none\n" +
				"index i replicas=0 size=30GB\nindex j replicas=0 size=30GB\nsettle\nfill n3 40GB\nrun 30s\nmove i 0 n1 n3", "j", 0, "n2", "n3", "disk_threshold:NO",
		},
		{
			"bytes that must stay free", os + "nodes 3 disk=100GB\nset cluster.routing.allocation.disk.watermark.low=30gb " +
				"cluster.routing.allocation.disk.watermark.high=20gb cluster.routing.allocation.disk.watermark.flood_stage=10gb\n" +
				"index i replicas=0 size=1GB\nsettle\nfill n2 70GB\nrun 30s", "i", 0, "n1", "n2", "disk_threshold:NO",
		},
		{
			"headroom caps what a percentage keeps free (Elasticsearch)", es + "nodes 3 disk=10TB\nindex i replicas=0 size=1GB\nsettle\nfill n2 9.7TB\nrun 30s",
			"i", 0, "n1", "n2", "",
		},
		{
			"no headroom once the watermark is set", es + "nodes 3 disk=10TB\nset cluster.routing.allocation.disk.watermark.low=85%\nindex i replicas=0 size=1GB\nsettle\n" +
				"fill n2 9.7TB\nrun 30s", "i", 0, "n1", "n2", "disk_threshold:NO",
		},
		{
			"disk rule off", os + "nodes 3 disk=100GB\nset cluster.routing.allocation.disk.threshold_enabled=false\nindex i replicas=0 size=1GB\nsettle\nfill n2 99GB\nrun 30s",
			"i", 0, "n1", "n2", "",
		},
		{
			"copies of one index", os + "nodes 3\nindex i shards=3 replicas=0 index.routing.allocation.total_shards_per_node=1\nsettle", "i", 0, "n1", "n2", "shards_limit:NO",
		},
		{
			"copies of all indices", os + "nodes 3\nindex i shards=3 replicas=0\nsettle\nset cluster.routing.allocation.total_shards_per_node=1", "i", 0, "n1", "n2", "shards_limit:NO",
		},
		{
			"a leaving copy frees its place", os + "nodes 4\nset cluster.routing.rebalance.enable=none\n" +
				"index i shards=3 replicas=0 size=1GB index.routing.allocation.total_shards_per_node=1\nsettle\nmove i 1 n2 n4", "i", 0, "n1", "n2", "",
		},
		{
			"incoming recoveries", os + "nodes 4\nset cluster.routing.rebalance.enable=none cluster.routing.allocation.node_concurrent_recoveries=1\n" +
				"index i shards=3 replicas=0 size=1GB\nsettle\nmove i 1 n2 n4", "i", 0, "n1", "n4", "throttling:THROTTLE",
		},
		{
			"outgoing recoveries of the primary's node", os + "nodes 4\nset cluster.routing.rebalance.enable=none cluster.routing.allocation.node_concurrent_outgoing_recoveries=0\n" +
				"index i size=1GB\nsettle", "i", 0, "n2", "n4", "throttling:THROTTLE",
		},
		{
			"recoveries of the cluster (OpenSearch)", os + "nodes 4\nset cluster.routing.rebalance.enable=none cluster.routing.allocation.cluster_concurrent_recoveries=1\n" +
				"index i shards=3 replicas=0 size=1GB\nsettle\nmove i 1 n2 n4", "i", 0, "n1", "n3", "cluster_concurrent_recoveries:THROTTLE",
		},
		{
			"load awareness counts configured copies (OpenSearch)", os + "nodes 3\nset cluster.routing.rebalance.enable=none cluster.routing.allocation.load_awareness.provisioned_capacity=12 " +
				"cluster.routing.allocation.load_awareness.skew_factor=0\nindex i shards=9 replicas=0\nsettle", "i", 0, "n1", "n2", "load_awareness:NO",
		},
		{
			"a primary to an older node", es + "node new version=8.19.0\nindex i replicas=0\nsettle\nnode old version=8.17.0", "i", 0, "new", "old",
			"index_version:NO node_version:NO",
		},
		{
			"a replica to a node newer than its primary's", es + "node a version=8.17.0\nnode b version=8.17.0\nindex i\nsettle\nnode c version=8.19.0", "i", 0, "b", "c", "",
		},
		{
			"a replica to a node older than its primary's", os + "node a version=2.19.0\nindex i replicas=1\nnode b version=2.19.0\nsettle\nnode c version=2.17.0", "i", 0, "b", "c",
			"node_version:NO",
		},
		{
			"segment replication: primary ahead of a replica", os + "node a version=2.17.0\nnode b version=2.17.0\nindex i index.replication.type=SEGMENT\nsettle\nnode c version=2.19.0",
			"i", 0, "a", "c", "node_version:NO",
		},
		{"a primary under snapshot", es + "nodes 3\nindex i replicas=0\nsettle\nsnapshot i", "i", 0, "n1", "n2", "snapshot_in_progress:THROTTLE"},
		{"a node that is to be removed", es + "nodes 3\nindex i replicas=0\nsettle\nshutdown n2 REMOVE", "i", 0, "n1", "n2", "node_shutdown:NO"},
		{"a node that restarts", es + "nodes 3\nindex i replicas=0\nsettle\nshutdown n2 RESTART", "i", 0, "n1", "n2", ""},
		{
			"the first tier that has nodes", es + "node hot roles=data_hot,master\nnode warm roles=data_warm\n" +
				"index i replicas=0 index.routing.allocation.include._tier_preference=data_cold,data_warm,data_hot\nsettle", "i", 0, "warm", "hot", "data_tier:NO",
		},
		{"a generic data node is of every tier", es + "node hot roles=data_hot,master\nnode any\nindex i replicas=0 index.routing.allocation.include._tier_preference=data_hot\nsettle", "i", 0, "hot", "any", ""},
		{"allocation off does not bind commands", os + "nodes 3\nindex i replicas=0\nsettle\nset cluster.routing.allocation.enable=none", "i", 0, "n1", "n2", ""},
		{
			"everything at once is said at once", os + "nodes 3 zones=a,b disk=100GB\nset cluster.routing.allocation.awareness.attributes=zone\nindex i size=1GB\nsettle\n" +
				"set cluster.routing.allocation.exclude._name=n2\nfill n2 95GB\nset cluster.routing.allocation.enable=none\nrun 30s", "i", 0, "n1", "n2", "filter:NO same_shard:NO disk_threshold:NO awareness:NO",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := build(t, test.scenario)
			if diff := cmp.Diff(test.want, decided(c, test.index, test.shard, test.from, test.to)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestDecidersPrinted holds the lists against what real clusters printed for one command.
func TestDecidersPrinted(t *testing.T) {
	tests := []struct {
		cfg  Config
		want string
	}{
		{
			Config{Distribution: OpenSearch, Version: "2.19.6"},
			"max_retry replica_after_primary_active cluster_concurrent_recoveries enable node_version snapshot_in_progress restore_in_progress filter same_shard " +
				"disk_threshold throttling shards_limit awareness load_awareness target_pool remote_store_migration",
		},
		{
			Config{Distribution: OpenSearch, Version: "3.9.0"},
			"max_retry replica_after_primary_active cluster_concurrent_recoveries enable node_version snapshot_in_progress restore_in_progress filter " +
				"search_replica_allocation same_shard disk_threshold throttling shards_limit awareness load_awareness target_pool remote_store_migration",
		},
		{
			Config{Distribution: Elasticsearch, Version: "7.17.28", OSS: true},
			"max_retry replica_after_primary_active enable node_version snapshot_in_progress restore_in_progress node_shutdown node_replacement filter same_shard " +
				"disk_threshold throttling shards_limit awareness",
		},
		{
			Config{Distribution: Elasticsearch, Version: "8.19.0", OSS: true},
			"max_retry replica_after_primary_active enable index_version node_version snapshot_in_progress restore_in_progress node_shutdown node_replacement filter " +
				"same_shard disk_threshold throttling shards_limit awareness",
		},
	}
	for _, test := range tests {
		var names []string
		for _, d := range New(test.cfg).deciders {
			names = append(names, d.name)
		}
		if diff := cmp.Diff(test.want, strings.Join(names, " ")); diff != "" {
			t.Errorf("%s %s: %s", test.cfg.Distribution, test.cfg.Version, diff)
		}
	}
	if n := len(New(Config{Distribution: Elasticsearch, Version: "9.5.3", OSS: true}).deciders); n != 17 {
		t.Errorf("Elasticsearch 9.5 printed 17 deciders, here are %d", n)
	}
}

// build makes a cluster from a scenario's lines.
func build(t testing.TB, text string) *Cluster {
	t.Helper()
	s, err := ParseScenario(t.Name(), strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	r := &run{ctx: t.Context(), o: RunOptions{Out: &strings.Builder{}}}
	for _, st := range s.steps {
		r.line = st.line
		if err := st.do(r); err != nil {
			t.Fatalf("line %d: %s: %v", st.line, st.text, err)
		}
	}
	return r.c
}
