package sim

import (
	"net/http/httptest"
	"testing"
	"time"
)

// large is a cluster of the size the project was made for: 750 nodes, 50 000 copies of 20 000 shards in 3 000 indices.
func large(t testing.TB, version string) *Cluster {
	return build(t, "cluster "+version+` seed=1
		set cluster.routing.rebalance.enable=none cluster.routing.allocation.awareness.attributes=zone
		nodes 750 zones=a,b,c disk=20TB
		series logs-a logs-b logs-c logs-d logs-e logs-f shards=8 replicas=2 keep=300 size=400GB search=4 write=2
		series idx-a idx-b shards=2 replicas=1 keep=600 size=50GB search=1
		settle`)
}

// BenchmarkLarge tells what one read costs at full size, and the answer's bytes per copy.
func BenchmarkLarge(b *testing.B) {
	for _, version := range []string{"opensearch 2.19.6", "elasticsearch 8.19.0"} {
		begun := time.Now()
		c := large(b, version)
		n := c.Counts()
		b.Logf("%s: %d copies built in %s", version, n.Started, time.Since(begun).Round(time.Millisecond))
		handler := c.Handler()
		for name, path := range map[string]string{
			"routing": "/_cluster/state/version,routing_table",
			"stats": "/_nodes/stats/indices/docs,store,indexing,get,search,merge?level=shards&filter_path=_nodes,nodes.*.name,nodes.*.timestamp," +
				"nodes.*.indices.store,nodes.*.indices.shards.*.*.routing.state,nodes.*.indices.shards.*.*.routing.primary," +
				"nodes.*.indices.shards.*.*.docs.count,nodes.*.indices.shards.*.*.store.size_in_bytes,nodes.*.indices.shards.*.*.indexing.index_t*," +
				"nodes.*.indices.shards.*.*.search.query_t*,nodes.*.indices.shards.*.*.search.fetch_t*,nodes.*.indices.shards.*.*.seq_no.max_seq_no",
			"settings": "/_all/_settings?flat_settings=true&expand_wildcards=all",
			"health":   "/_cluster/health",
		} {
			b.Run(version+"/"+name, func(b *testing.B) {
				for b.Loop() {
					rec := httptest.NewRecorder()
					handler.ServeHTTP(rec, httptest.NewRequestWithContext(b.Context(), "GET", path, nil))
					b.ReportMetric(float64(rec.Body.Len())/float64(n.Started), "B/copy")
				}
			})
		}
		b.Run(version+"/move", func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				idx := c.indices[i%len(c.indices)]
				s := idx.groups[0].copies[0]
				for j := range 20 {
					if c.Move(idx.name, 0, s.node.id, c.nodes[(i*7+j)%len(c.nodes)].id) == nil {
						break
					}
				}
				c.Advance(time.Minute)
			}
		})
		b.Logf("%+v", c.Tally())
	}
}
