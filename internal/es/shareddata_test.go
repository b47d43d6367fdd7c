package es

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

// TestSharedData reads answers that other projects have published, from Elasticsearch 1.4 to 9.3: whatever they hold
// beside what is read must not matter.
func TestSharedData(t *testing.T) {
	dir := filepath.Join("..", "..", "..", "shared", "data")
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("SKIPPED: the folder with public captures, %s, is not there", dir)
	}
	stats := func(r io.Reader) (int, error) {
		s, err := DecodeNodeStats(r)
		if err != nil {
			return 0, err
		}
		for _, n := range s.Nodes {
			if n.At.IsZero() || n.Disk.Total == 0 || n.Uptime == 0 {
				t.Errorf("node %+v", n)
			}
		}
		return len(s.Nodes), nil
	}
	shards := func(r io.Reader) (int, error) { s, _, err := DecodeIndicesStats(r); return len(s), err }
	nodes := func(r io.Reader) (int, error) { n, err := DecodeNodes(r); return len(n), err }
	routing := func(r io.Reader) (int, error) {
		x, err := DecodeRouting(r)
		if err != nil {
			return 0, err
		}
		return len(x.Copies), nil
	}
	settings := func(r io.Reader) (int, error) {
		s, err := DecodeSettings(r)
		if err == nil {
			_, err = s.Cluster()
		}
		return len(s.persistent) + len(s.transient) + len(s.defaults), err
	}
	streams := func(r io.Reader) (int, error) { s, err := DecodeStreams(r); return len(s), err }
	health := func(r io.Reader) (int, error) { h, err := DecodeHealth(r); return h.Nodes, err }
	for _, test := range []struct {
		pattern string
		decode  func(io.Reader) (int, error)
		files   int
		atLeast int // things in each
	}{
		{"elasticsearch_exporter/nodestats_*.json", stats, 3, 1},
		{"cerebro/ClusterRelocatingShards.nodesStats.json", stats, 1, 3},
		{"netdata/v8.4.2_nodes_stats.json", stats, 1, 3},
		{"telegraf/nodeStatsResponse.json", stats, 1, 1},
		{"elasticsearch_exporter/indices_shards_7.17.3.json", shards, 1, 1},
		{"elasticsearch_exporter/indices_?.*.json", shards, 4, 0},
		{"collectd-elasticsearch/*.json", shards, 7, 0},
		{"cerebro/*.indicesStats.json", shards, 4, 0},
		{"telegraf/clusterIndicesShardsResponse.json", shards, 1, 1},
		{"cerebro/*.clusterState.json", routing, 4, 0},
		{"cerebro/ClusterRelocatingShards.clusterState.json", routing, 1, 10},
		{"cerebro/*.nodes.json", nodes, 4, 1},
		{"cloud-on-k8s/NodesSample.json", nodes, 1, 3},
		{"opensearch-go/nodes.info.json", nodes, 1, 1},
		{"elasticsearch_exporter/settings-*.json", settings, 2, 1},
		{"cerebro/*.clusterSettings.json", settings, 4, 0},
		{"elasticsearch_exporter/datastream_7.15.0.json", streams, 1, 1},
		{"netdata/v8.4.2_cluster_health.json", health, 1, 3},
		{"cerebro/*.clusterHealth.json", health, 4, 1},
	} {
		paths, err := filepath.Glob(filepath.Join(dir, test.pattern))
		if err != nil || len(paths) < test.files {
			t.Errorf("%s: %d files, %v", test.pattern, len(paths), err)
		}
		for _, path := range paths {
			file, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			n, err := test.decode(file)
			file.Close()
			if err != nil || n < test.atLeast {
				t.Errorf("%s: %d, want at least %d: %v", filepath.Base(path), n, test.atLeast, err)
			}
		}
	}
}
