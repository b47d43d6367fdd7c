package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/test/realcluster"
)

// zoned is one of two clusters of six nodes in three zones, asked node by node.
type zoned struct {
	ask   func(node int, method, path, body string) (status int, answer string)
	names *strings.Replacer // ids to names
	pause func()            // between two questions of a poll
}

// zoneQuestion is put to both clusters. Their answers must be the same to the letter, but for ids, which are shown as names.
type zoneQuestion struct {
	node               int
	method, path, body string
	until              string // asked again until the answer contains all of this, separated by &
	status             int    // what the real cluster is known to answer with; 0: 200
}

// TestRealClustersZonesAgree asks a real cluster and its simulated double the same about zones, one after the other: every
// refusal, weights and their versions, who votes, and a zone that is taken out and comes back, with and without the leader
// in it.
func TestRealClustersZonesAgree(t *testing.T) {
	for _, p := range []realcluster.Product{realcluster.OpenSearch2, realcluster.OpenSearch3} {
		t.Run(p.Name(), func(t *testing.T) {
			p.SkipUnlessAvailable(t)
			ctx, cancel := context.WithTimeout(t.Context(), 110*time.Second)
			defer cancel()
			real, double := zonedTwins(ctx, t, p)
			for _, q := range zoneQuestions() {
				name := fmt.Sprintf("n%d: %s %s %s", q.node, q.method, q.path, q.body)
				status, answer := real.until(ctx, t, q)
				simStatus, simAnswer := double.until(ctx, t, q)
				if want := max(q.status, 0); want != 0 && status != want || want == 0 && status != 200 {
					t.Errorf("%s\nanswers with %d: the question does not ask what it should\n%s", name, status, answer)
				}
				if diff := cmp.Diff(alike(answer), alike(simAnswer)); status != simStatus || diff != "" {
					t.Errorf("%s\nanswers with %d, simulated with %d (-real +simulated)\n%s", name, status, simStatus, diff)
				}
				if ctx.Err() != nil {
					t.Fatal(ctx.Err())
				}
			}
			// The weights are a=0 b=1 c=1 by now, and there are three shards.
			want := map[string]int64{"a": 0, "b": 450, "c": 450}
			if diff := cmp.Diff(want, real.searched(t, 300)); diff != "" {
				t.Errorf("300 searches by zone (-expected +real)\n%s", diff)
			}
			if diff := cmp.Diff(want, double.searched(t, 300)); diff != "" {
				t.Errorf("300 searches by zone (-expected +simulated)\n%s", diff)
			}
		})
	}
}

// searched is how many queries of shards each zone has had by so many searches.
func (z *zoned) searched(t *testing.T, count int) map[string]int64 {
	t.Helper()
	queries := func() map[string]int64 {
		var stats struct {
			Nodes map[string]struct {
				Attributes struct{ Zone string }
				Indices    struct {
					Search struct {
						Queries int64 `json:"query_total"`
					}
				}
			}
		}
		_, answer := z.ask(0, "GET", "/_nodes/stats/indices/search", "")
		if err := json.Unmarshal([]byte(answer), &stats); err != nil {
			t.Fatal(err)
		}
		zones := map[string]int64{}
		for _, n := range stats.Nodes {
			zones[n.Attributes.Zone] += n.Indices.Search.Queries
		}
		return zones
	}
	before := queries()
	for i := range count {
		if status, answer := z.ask(i%6, "GET", "/web/_search?size=0&request_cache=false", ""); status != 200 {
			t.Fatal(answer)
		}
	}
	after := queries()
	for zone := range after {
		after[zone] -= before[zone]
	}
	return after
}

func (z *zoned) until(ctx context.Context, t *testing.T, q zoneQuestion) (status int, answer string) {
	t.Helper()
	for {
		status, answer = z.ask(q.node, q.method, q.path, q.body)
		answer = z.names.Replace(answer)
		met := true
		for part := range strings.SplitSeq(q.until, "&") {
			met = met && strings.Contains(answer, part)
		}
		if met {
			return status, answer
		}
		if ctx.Err() != nil {
			t.Fatalf("%s never answers with %s, but %s", q.path, q.until, answer)
		}
		z.pause()
	}
}

// alike is an answer without what need not be the same: the order of members, times, the names of request and cluster.
func alike(answer string) any {
	var v any
	if json.Unmarshal([]byte(answer), &v) != nil {
		return answer
	}
	var walk func(any) any
	walk = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			for key, inner := range v {
				switch key {
				case "requestID", "cluster_name":
					v[key] = "*"
				case "last_committed_config", "last_accepted_config": // the server picks some of those who may vote
					v[key] = len(inner.([]any))
				case "voting_config_exclusions":
					slices.SortFunc(inner.([]any), func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
				default:
					v[key] = walk(inner)
				}
			}
		case []any:
			for i := range v {
				v[i] = walk(v[i])
			}
		}
		return v
	}
	return walk(v)
}

// zoneQuestions are put in this order; many change things. n0 leads at first; n0, n1, n2 may lead, in zones a, b, c.
func zoneQuestions() []zoneQuestion {
	get := func(path string) zoneQuestion { return zoneQuestion{method: "GET", path: path} }
	refused := func(status int, method, path, body string) zoneQuestion {
		return zoneQuestion{method: method, path: path, body: body, status: status}
	}
	do := func(method, path, body string) zoneQuestion {
		return zoneQuestion{method: method, path: path, body: body}
	}
	at := func(node int, q zoneQuestion) zoneQuestion {
		q.node = node
		return q
	}
	until := func(path, want string) zoneQuestion { return zoneQuestion{method: "GET", path: path, until: want} }
	const (
		weights  = "/_cluster/routing/awareness/zone/weights"
		zoneC    = "/_cluster/decommission/awareness/zone/c"
		status   = "/_cluster/decommission/awareness/zone/_status"
		recall   = "/_cluster/decommission/awareness"
		votes    = "/_cluster/voting_config_exclusions"
		metadata = "/_cluster/state/metadata?filter_path=metadata.weighted_shard_routing,metadata.decommissionedAttribute," +
			"metadata.cluster_coordination.last_committed_config,metadata.cluster_coordination.voting_config_exclusions"
		fit = "/_cluster/health?local=true&ensure_node_weighed_in=true&filter_path=status,error"
	)
	set := func(values string, version int) string {
		return fmt.Sprintf(`{"weights":{%s},"_version":%d}`, values, version)
	}
	return []zoneQuestion{
		// Before zones are set up.
		refused(400, "GET", weights, ""),
		refused(400, "PUT", weights, set(`"a":"1","b":"1","c":"0"`, -1)),
		refused(400, "PUT", zoneC, ""),
		get(status),
		do("PUT", "/_cluster/settings?filter_path=acknowledged", `{"persistent":{"cluster.routing.allocation.awareness.attributes":"zone"}}`),
		refused(400, "PUT", zoneC, ""),
		do("PUT", "/_cluster/settings?filter_path=acknowledged", `{"persistent":{"cluster.routing.allocation.awareness.force.zone.values":"a,b,c"}}`),
		refused(400, "PUT", zoneC, ""),

		// Weights: what is refused, in which order, and how versions go.
		get(weights),
		get(metadata),
		refused(400, "GET", weights+"?cluster_manager_timeout=1s", ""),
		refused(400, "PUT", weights+"?cluster_manager_timeout=1s", set(`"a":"1","b":"1","c":"0"`, -1)),
		refused(400, "GET", "/_cluster/routing/awareness/rack/weights", ""),
		refused(404, "DELETE", weights, `{"_version":-1}`),
		refused(500, "PUT", weights, ""),
		refused(400, "PUT", weights, `{}`),
		refused(400, "PUT", weights, set("", -1)),
		refused(400, "PUT", weights, `{"weights":{"a":"1","b":"1","c":"0"}}`),
		refused(400, "PUT", weights, `{"weights":{"a":"1","b":"1","c":"0"},"_version":"-1"}`),
		refused(400, "PUT", weights, `{"weights":{"a":"1","b":"1","c":"0"},"_version":-1,"colour":1}`),
		refused(400, "PUT", weights, set(`"a":1,"b":"1","c":"0"`, -1)),
		refused(400, "PUT", weights, set(`"a":"x","b":"1","c":"0"`, -1)),
		refused(400, "PUT", weights, set(`"a":"1","b":"0","c":"0"`, -1)),
		refused(400, "PUT", weights, set(`"a":"1","b":"0","c":"0","d":"1"`, -1)),
		refused(400, "PUT", "/_cluster/routing/awareness/rack/weights", set(`"a":"1","b":"1","c":"0"`, -1)),
		refused(409, "PUT", weights, set(`"a":"1","b":"1"`, 7)),
		refused(409, "PUT", weights, set(`"a":"1","b":"1","c":"0"`, 7)),
		do("PUT", weights, set(`"a":"1","b":"1","c":"0"`, -1)),
		do("PUT", weights, set(`"a":"1","b":"1","c":"0"`, 0)),
		refused(409, "PUT", weights, set(`"a":"1","b":"1","c":"0"`, -1)),
		get(weights),
		at(5, get(weights+"?local=true")),
		do("PUT", weights, set(`"a":"1","b":"-1","c":"0.5","d":"1"`, 0)),
		get(metadata),
		do("PUT", weights, set(`"a":"1","b":"1","c":"0"`, 1)),
		refused(409, "DELETE", weights, ""),
		do("DELETE", weights, `{"_version":2}`),
		get(weights),
		get(metadata),
		refused(409, "PUT", weights, set(`"a":"1","b":"1","c":"1"`, -1)),
		do("PUT", weights, set(`"a":"1","b":"1","c":"1"`, 3)),
		refused(400, "PUT", zoneC, ""),
		refused(400, "PUT", "/_cluster/decommission/awareness/zone/nowhere", ""),
		refused(400, "PUT", "/_cluster/decommission/awareness/rack/c", ""),
		refused(400, "PUT", zoneC+"?no_delay=true&delay_timeout=3s", ""),
		refused(400, "PUT", zoneC+"?delay_timeout=soon", ""),
		refused(400, "PUT", zoneC+"?cluster_manager_timeout=1s", ""),
		refused(400, "GET", status+"?local=true", ""),

		// Health.
		do("PUT", weights, set(`"a":"1","b":"1","c":"0"`, 4)),
		get("/_cluster/health?level=awareness_attributes&awareness_attribute=zone&wait_for_status=green&wait_for_no_relocating_shards=true&filter_path=status,awareness_attributes"),
		get("/_cluster/health?level=awareness_attributes&awareness_attribute=rack&filter_path=awareness_attributes"),
		refused(400, "GET", "/_cluster/health?awareness_attribute=zone", ""),
		refused(400, "GET", "/_cluster/health?ensure_node_weighed_in=true", ""),
		at(3, get(fit)),
		at(5, refused(421, "GET", fit, "")),
		at(2, refused(421, "GET", fit, "")),

		// Searches.
		get("/web/_search?size=0&filter_path=_shards,timed_out,hits.total.relation,hits.hits"),
		at(5, get("/web/_search?size=0&preference=_local&filter_path=_shards")),
		at(5, get("/web/_search?size=0&preference=somebody&filter_path=_shards")),
		refused(403, "GET", "/web/_search?size=0&preference=_only_nodes:x", ""),
		refused(403, "GET", "/web/_search?size=0&preference=_prefer_nodes:x", ""),
		refused(400, "GET", "/web/_search?size=0&preference=_colour", ""),

		// Votes.
		refused(400, "POST", votes, ""),
		refused(400, "POST", votes+"?node_names=n1&node_ids=x", ""),
		do("POST", votes+"?node_names=n1,nobody", ""),
		get(metadata),
		do("DELETE", votes+"?wait_for_removal=false", ""),
		until(metadata, `"n1"&"n2"`),

		// A zone goes, at once, with the leader elsewhere, and comes back.
		do("PUT", zoneC+"?no_delay=true", ""),
		refused(409, "PUT", weights, set(`"a":"1","b":"1","c":"1"`, 5)),
		until(status, "SUCCESSFUL"),
		get("/_cluster/state/nodes?filter_path=nodes.*.name"),
		until(metadata, `"voting_config_exclusions":[]`),
		get("/_cluster/health?level=awareness_attributes&filter_path=number_of_nodes,status,awareness_attributes"),
		refused(400, "PUT", zoneC, ""),
		refused(400, "PUT", "/_cluster/decommission/awareness/zone/b", ""),
		at(5, zoneQuestion{method: "GET", path: fit, until: "node_decommissioned_exception", status: 424}),
		at(5, get("/_cluster/health?local=true&filter_path=status,number_of_nodes,discovered_cluster_manager")),
		at(5, get(weights+"?local=true")),
		at(5, refused(503, "GET", "/_cluster/health?cluster_manager_timeout=100ms&filter_path=error,status", "")),
		at(5, get("/_cluster/state/nodes,cluster_manager_node,metadata?local=true&filter_path=nodes.*.name,cluster_manager_node,metadata.decommissionedAttribute")),
		do("DELETE", recall, ""),
		get(status),
		get("/_cluster/health?wait_for_nodes=6&timeout=30s&filter_path=number_of_nodes,timed_out"),
		get("/_cluster/health?wait_for_status=green&timeout=30s&filter_path=status"),
		until(metadata, `"voting_config_exclusions":[]`),
		at(5, refused(421, "GET", fit, "")),

		// The leader's own zone goes, after a while.
		do("PUT", weights, set(`"a":"0","b":"1","c":"1"`, 5)),
		do("PUT", "/_cluster/decommission/awareness/zone/a?delay_timeout=3s", ""),
		until(status, "DRAINING"),
		refused(400, "PUT", "/_cluster/decommission/awareness/zone/a", ""),
		refused(400, "PUT", "/_cluster/decommission/awareness/zone/b", ""),
		get(metadata),
		at(1, until(status, "SUCCESSFUL")),
		at(1, until(metadata, `"voting_config_exclusions":[]`)),
		at(1, do("DELETE", recall, "")),
		at(1, get("/_cluster/health?wait_for_nodes=6&timeout=30s&filter_path=number_of_nodes,timed_out")),
		at(1, get("/_cluster/health?wait_for_status=green&timeout=30s&filter_path=status")),
	}
}

// zonedTwins are a real cluster and a simulated one alike.
func zonedTwins(ctx context.Context, t *testing.T, p realcluster.Product) (real, double *zoned) {
	t.Helper()
	const interval = "discovery.find_peers_interval_during_decommission"
	rc := realcluster.Start(t, realcluster.Options{Product: p, Eligible: 3, Settings: map[string]string{interval: "1s"}})
	c := New(Config{Distribution: string(cluster.OpenSearch), Version: p.Version, Settings: map[string]string{interval: "1s"}, Noise: -1})
	var handlers []http.Handler
	for i, n := range rc.Nodes() {
		spec := NodeSpec{Name: n.Name, Attributes: map[string]string{"zone": n.Zone}, Roles: []string{"cluster_manager", "data"}}
		if i >= 3 {
			spec.Roles = []string{"data"}
		}
		if _, err := c.AddNode(spec); err != nil {
			t.Fatal(err)
		}
		handlers = append(handlers, c.NodeHandler(n.Name))
	}
	if err := rc.CreateIndex(ctx, realcluster.Index{Name: "web", Shards: 3, Replicas: 2, Settings: map[string]any{"allocation.max_retries": 5}}); err != nil {
		t.Fatal(err)
	}
	if err := c.AddIndex(IndexSpec{Name: "web", Shards: 3, Replicas: 2}); err != nil {
		t.Fatal(err)
	}
	c.Settle()
	tick := time.NewTicker(50 * time.Millisecond)
	t.Cleanup(tick.Stop)
	real = &zoned{pause: func() { <-tick.C }}
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	real.ask = func(node int, method, path, body string) (int, string) {
		req, err := http.NewRequestWithContext(ctx, method, rc.Addresses()[node]+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		answer, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(answer)
	}
	double = &zoned{pause: func() { c.Advance(50 * time.Millisecond) }}
	double.ask = func(node int, method, path, body string) (int, string) {
		rec := httptest.NewRecorder()
		handlers[node].ServeHTTP(rec, httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body)))
		return rec.Code, rec.Body.String()
	}
	for _, z := range []*zoned{real, double} {
		z.names = strings.NewReplacer()
		var state struct {
			Nodes map[string]struct{ Name string }
		}
		if _, answer := z.ask(0, "GET", "/_cluster/state/nodes", ""); json.Unmarshal([]byte(answer), &state) != nil {
			t.Fatal(answer)
		}
		var pairs []string
		for id, n := range state.Nodes {
			pairs = append(pairs, id, n.Name)
		}
		z.names = strings.NewReplacer(pairs...)
	}
	return real, double
}
