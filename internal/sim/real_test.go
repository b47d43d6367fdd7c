package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/test/realcluster"
)

// side is one of the two clusters that are asked the same.
type side struct {
	ask   func(method, path, body string) (status int, answer any)
	names map[string]string // what <P> and <n3> stand for
	keys  map[string]bool   // names and ids that are keys of objects in answers
}

func (s *side) fill(text string) string {
	for name, value := range s.names {
		text = strings.ReplaceAll(text, "<"+name+">", value)
	}
	return text
}

// TestRealClustersAgree asks a real cluster and its simulated double the same, one after the other. Verdicts and errors must
// be the same; of everything else the simulator answers, every field must be one that the real cluster has too, of the same
// type.
func TestRealClustersAgree(t *testing.T) {
	realcluster.ForEach(t, func(t *testing.T, p realcluster.Product) {
		ctx, cancel := context.WithTimeout(t.Context(), 110*time.Second)
		defer cancel()
		real, double := twins(ctx, t, p)
		for _, q := range questions(p) {
			switch q.kind {
			case "wait":
				await(ctx, t, real, double)
				continue
			case "only":
				if !strings.Contains(q.want, string(p.Distribution)) {
					continue
				}
			}
			status, answer := real.ask(q.method, q.path, real.fill(q.body))
			simStatus, simAnswer := double.ask(q.method, q.path, double.fill(q.body))
			name := q.method + " " + q.path + " " + q.body
			if status != simStatus {
				t.Errorf("%s\nanswers with %d, simulated with %d\n%v\n%v", name, status, simStatus, answer, simAnswer)
				continue
			}
			if diff := cmp.Diff(verdicts(answer), verdicts(simAnswer)); diff != "" {
				t.Errorf("%s\n(-real +simulated)\n%s", name, diff)
			}
			has := fields(real, answer)
			for path, kind := range fields(double, simAnswer) {
				if is, ok := has[path]; (!ok || is != kind && is != "null" && kind != "null") && status < 300 {
					t.Errorf("%s\nhas no %s (%s), the simulator does; it is %q", name, path, kind, is)
				}
			}
			if strings.Contains(q.path, "settings?") && strings.Contains(q.path, "filter_path=") && !strings.Contains(q.path, "defaults") {
				if diff := cmp.Diff(has, fields(double, simAnswer)); diff != "" {
					t.Errorf("%s\n(-real +simulated)\n%s", name, diff)
				}
			}
			if q.want != "" && q.kind != "only" {
				if got := strings.Join(verdicts(answer), " "); got != q.want {
					t.Errorf("%s\ngot %s, expected %s: the question does not ask what it should", name, got, q.want)
				}
			}
		}
	})
}

type inquiry struct {
	method, path, body string
	want               string // what the real cluster is known to say; "" leaves it to the comparison
	kind               string
}

// questions are put in this order; some change things.
func questions(p realcluster.Product) []inquiry {
	metric := "metric=none&"
	if p.Distribution == cluster.Elasticsearch && strings.HasPrefix(p.Version, "9") {
		metric = ""
	}
	reroute := func(want string, commands ...string) inquiry {
		return inquiry{method: "POST", path: "/_cluster/reroute?" + metric + "explain=true", body: `{"commands":[` + strings.Join(commands, ",") + `]}`, want: want}
	}
	silent := func(commands ...string) inquiry {
		return inquiry{method: "POST", path: "/_cluster/reroute?" + strings.TrimSuffix(metric, "&"), body: `{"commands":[` + strings.Join(commands, ",") + `]}`}
	}
	move := func(index, from, to string) string {
		return fmt.Sprintf(`{"move":{"index":%q,"shard":0,"from_node":%q,"to_node":%q}}`, index, from, to)
	}
	set := func(body string) inquiry {
		return inquiry{method: "PUT", path: "/_cluster/settings", body: `{"persistent":{` + body + `}}`}
	}
	get := func(path string) inquiry { return inquiry{method: "GET", path: path} }
	return []inquiry{
		get("/"),
		get("/_cluster/health"),
		get("/_cluster/state/version?filter_path=version,state_uuid,cluster_uuid"),
		get("/_cluster/state/version,nodes,master_node,routing_table"),
		get("/_cluster/state/routing_nodes"),
		get("/_cluster/state/blocks"),
		get("/_cluster/state/metadata?filter_path=metadata.cluster_coordination"),
		get("/_cluster/settings?flat_settings=true"),
		get("/_cluster/settings?include_defaults=true&filter_path=defaults.cluster.routing.allocation.disk,defaults.indices.recovery.max_bytes_per_sec"),
		get("/_cluster/pending_tasks"),
		get("/_nodes/os,jvm,settings"),
		get("/_nodes/http"),
		get("/_nodes/stats/indices,os,process,jvm,thread_pool,fs,breaker,http/docs,store,indexing,get,search,merge,refresh,translog,segments?level=shards"),
		get("/_nodes/stats/indices/store,search,indexing?level=shards"),
		get("/_nodes/stats/indices/docs?level=nonsense"),
		get("/_nodes/stats/nonsense"),
		get("/_stats/docs,store,search?level=shards"),
		get("/_all/_settings/index.number_of_*,index.uuid,index.creation_date?flat_settings=true&expand_wildcards=all"),
		get("/_all/_settings?expand_wildcards=all"),
		get("/_recovery"),
		get("/_alias"),
		get("/_snapshot/_status"),
		get("/_cat/shards?format=json&bytes=b&h=index,shard,prirep,state,docs,store,ip,id,node,unassigned.reason"),
		get("/_cat/allocation?format=json&bytes=b"),
		get("/_cat/recovery?format=json&bytes=b&time=ms&h=index,shard,time,type,stage,source_node,target_node,bytes_total,bytes_recovered,bytes_percent"),
		get("/_cat/indices?format=json&h=index,health,status,pri,rep,uuid,docs.count,store.size"),
		get("/_cat/nodes?format=json&h=id,ip,name,node.role,version"),

		get("/pair/_search?size=0"),

		// What is not so.
		get("/nope/_search"),
		get("/pair/_search?preference=_colour"),
		{method: "POST", path: "/_cluster/voting_config_exclusions"},
		get("/_cluster/health?colour=red"),
		get("/_cat/shards?format=json&colour=red"),
		get("/nope/_stats"),
		get("/nope/_settings"),
		get("/_license"),
		get("/no/such/path"),
		get("/_cluster/allocation/explain"),
		{method: "POST", path: "/_cluster/allocation/explain", body: `{"index":"nope","shard":0,"primary":true}`},
		{method: "POST", path: "/_cluster/allocation/explain", body: `{"index":"a","shard":0,"colour":true}`},
		get("/_cluster/health?wait_for_nodes=7&timeout=100ms&filter_path=timed_out,number_of_nodes"),

		// Settings.
		set(`"cluster.metadata.shardonnay.owner":"{\"holder\":\"x\"}","cluster":{"routing":{"rebalance.enable":"none"}}`),
		set(`"cluster.metadata.shardonnay.owner":"y","cluster.routing.rebalance.enable":"sometimes"`),
		set(`"shardonnay.owner":"y"`),
		set(`"cluster.routing.allocation.node_concurrent_recoveries":"many"`),
		set(`"cluster.routing.allocation.disk.watermark.low":"10gb"`),
		set(`"cluster.info.update.interval":"1s"`),
		{method: "PUT", path: "/_cluster/settings", body: `{"persistent":`},
		{method: "PUT", path: "/_cluster/settings", body: `{}`},
		get("/_cluster/settings?flat_settings=true&filter_path=persistent.cluster*"),
		get("/_cluster/settings?flat_settings=true&filter_path=persistent.*routing*"),
		get("/_cluster/settings?flat_settings=true&filter_path=persistent.cluster%5C.routing*"),
		get("/_cluster/settings?flat_settings=true&filter_path=persistent.cluster.routing*"),
		get("/_cluster/settings?filter_path=persistent.cluster.routing,-**.rebalance"),
		get("/_cluster/settings?filter_path=*.cluster.metadata,nothing"),

		// Deciders.
		reroute("same_shard:NO", move("pair", "<R>", "<P>")),
		reroute("same_shard:NO", move("pair", "<P>", "<P>")),
		reroute("move_allocation_command:NO", move("pair", "<n5>", "<n4>")),
		reroute("move_allocation_command:NO", move("nope", "<n5>", "<n4>")),
		reroute("", move("pair", "<P>", "nowhere")),
		reroute("", `{"move":{"index":"pair","shard":0,"from_node":"<P>"}}`),
		reroute("", `{"move":{"index":"pair","shard":0,"from_node":"<P>","to_node":"<n5>","colour":1}}`),
		reroute("", `{"shove":{"index":"pair","shard":0,"from_node":"<P>","to_node":"<n5>"}}`),
		reroute("cancel_allocation_command:NO", `{"cancel":{"index":"a","shard":0,"node":"<n0>"}}`),
		silent(move("pair", "<R>", "<P>")),
		silent(move("nope", "<n5>", "<n4>")),
		set(`"cluster.routing.allocation.exclude._name":"x*,n5"`),
		reroute("filter:NO", move("a", "<n0>", "<n5>")),
		set(`"cluster.routing.allocation.exclude._name":null`),
		{method: "PUT", path: "/a/_settings", body: `{"index.routing.allocation.require.zone":"a"}`},
		reroute("filter:NO", move("a", "<n0>", "<n4>")),
		{method: "PUT", path: "/a/_settings", body: `{"index.routing.allocation.require.zone":null}`},
		set(`"cluster.routing.allocation.awareness.attributes":"zone"`),
		reroute("awareness:NO", move("pair", "<R>", "<Z>")),
		set(`"cluster.routing.allocation.awareness.force.zone.values":"a,b,c,d,e"`),
		reroute("awareness:NO", move("pair", "<R>", "<Z>")),
		set(`"cluster.routing.allocation.awareness.attributes":null,"cluster.routing.allocation.awareness.force.*":null`),
		set(`"cluster.routing.allocation.total_shards_per_node":4`),
		reroute("shards_limit:NO", move("d", "<n2>", "<n0>")),
		set(`"cluster.routing.allocation.total_shards_per_node":null`),
		{method: "PUT", path: "/d/_settings", body: `{"index.routing.allocation.total_shards_per_node":1}`},
		set(`"cluster.routing.allocation.enable":"none"`),
		reroute("", move("d", "<n2>", "<n4>")),
		{kind: "wait"},
		set(`"cluster.routing.allocation.enable":null,"cluster.routing.allocation.node_concurrent_recoveries":1`),

		// Throttled moves are carried out, and a refused one beside them does not matter.
		reroute("throttling:THROTTLE same_shard:NO throttling:THROTTLE", move("a", "<n0>", "<n3>"), move("b", "<n0>", "<n3>"), move("pair", "<R>", "<P>"), move("c", "<n0>", "<n3>")),
		{kind: "wait"},
		get("/_cat/shards/a,b,c?format=json&h=index,state,node&s=index"),
		{method: "POST", path: "/_cluster/allocation/explain?include_yes_decisions=true", body: `{"index":"a","shard":0,"primary":true}`},
		{method: "DELETE", path: "/_internal/desired_balance", kind: "only", want: "elasticsearch"},
		{method: "GET", path: "/_internal/desired_balance", kind: "only", want: "elasticsearch"},
	}
}

// twins are a real cluster and a simulated one alike: six nodes in three zones; the indices a, b, c on n0, d on n2, and one
// pair of copies on n0 and n1.
func twins(ctx context.Context, t *testing.T, p realcluster.Product) (real, double *side) {
	t.Helper()
	rc := realcluster.Start(t, realcluster.Options{Product: p})
	check := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	check(rc.PutSettings(ctx, map[string]any{"cluster.routing.rebalance.enable": "none"}))
	for name, node := range map[string]string{"a": "n0", "b": "n0", "c": "n0", "d": "n2"} {
		check(rc.CreateIndex(ctx, realcluster.Index{Name: name, Node: node}))
	}
	check(rc.CreateIndex(ctx, realcluster.Index{Name: "pair", Replicas: 1, Settings: map[string]any{"routing.allocation.include._name": "n0,n1"}}))
	check(rc.WaitGreen(ctx))
	check(rc.Put(ctx, "/pair/_settings", map[string]any{"index.routing.allocation.include._name": nil}, nil))
	check(rc.WaitGreen(ctx))

	oss := ""
	if p.Distribution == cluster.Elasticsearch {
		oss = " oss"
	}
	c := build(t, fmt.Sprintf("cluster %s %s%s\nnodes 6 prefix=x zones=a,b,c\n", p.Distribution, p.Version, oss))
	for i, n := range c.nodes {
		n.spec.Name = fmt.Sprintf("n%d", i)
	}
	check(c.SetPersistent(map[string]string{"cluster.routing.rebalance.enable": "none"}))
	const include = "index.routing.allocation.include._name"
	for _, i := range []struct {
		name, on string
		replicas int
	}{{"a", "n0", 0}, {"b", "n0", 0}, {"c", "n0", 0}, {"d", "n2", 0}, {"pair", "n0,n1", 1}} {
		check(c.AddIndex(IndexSpec{Name: i.name, Replicas: i.replicas, Settings: map[string]string{include: i.on}}))
		if left := c.Settle(); left > 0 {
			t.Fatalf("%d copies of %s found no place", left, i.name)
		}
		check(c.SetIndex(i.name, map[string]string{include: ""}))
	}
	handler := c.Handler()
	double = newSide(func(method, path, body string) (int, any) {
		rec := httptest.NewRecorder()
		handler.ServeHTTP(rec, httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body)))
		return rec.Code, decoded(rec.Body.String())
	})
	real = newSide(func(method, path, body string) (int, any) {
		var answer any
		var in any
		if body != "" {
			in = body
		}
		err := rc.Call(ctx, method, path, in, &answer)
		var refused *realcluster.StatusError
		switch {
		case errors.As(err, &refused):
			return refused.Status, decoded(refused.Body)
		case err != nil && strings.Contains(err.Error(), "unexpected end of JSON input"): // an empty body
			return 200, nil
		}
		check(err)
		return 200, answer
	})
	return real, double
}

func decoded(text string) any {
	var v any
	if json.Unmarshal([]byte(text), &v) != nil {
		return text
	}
	return v
}

// newSide looks who is where.
func newSide(ask func(method, path, body string) (int, any)) *side {
	s := &side{ask: ask, names: map[string]string{}, keys: map[string]bool{"a": true, "b": true, "c": true, "d": true, "pair": true}}
	_, state := ask("GET", "/_cluster/state/nodes,routing_table", "")
	nodes := state.(map[string]any)["nodes"].(map[string]any)
	byID := map[string]string{}
	for id, n := range nodes {
		name := n.(map[string]any)["name"].(string)
		s.names[name], byID[id], s.keys[id], s.keys[name] = id, name, true, true
	}
	shards := state.(map[string]any)["routing_table"].(map[string]any)["indices"].(map[string]any)["pair"].(map[string]any)["shards"].(map[string]any)["0"].([]any)
	for _, copied := range shards {
		routing := copied.(map[string]any)
		role := map[bool]string{true: "P", false: "R"}[routing["primary"].(bool)]
		s.names[role] = routing["node"].(string)
	}
	s.names["Z"] = s.names[map[string]string{"n0": "n3", "n1": "n4"}[byID[s.names["P"]]]] // the other node of the primary's zone
	return s
}

// await lets both sides come to rest.
func await(ctx context.Context, t *testing.T, sides ...*side) {
	t.Helper()
	for _, s := range sides {
		for {
			if status, _ := s.ask("GET", "/_cluster/health?wait_for_no_relocating_shards=true&wait_for_status=green&timeout=20s", ""); status == 200 {
				break
			}
			if ctx.Err() != nil {
				t.Fatal("no rest")
			}
		}
	}
}

// verdicts are what an answer says no to: the deciders that refuse or throttle, in order, or the error's type.
func verdicts(answer any) []string {
	top, ok := answer.(map[string]any)
	if !ok {
		return nil
	}
	var list []string
	switch e := top["error"].(type) {
	case string:
		list = append(list, "a string")
	case map[string]any:
		list = append(list, fmt.Sprint(e["type"]))
	}
	explanations, _ := top["explanations"].([]any)
	for _, x := range explanations {
		decisions, _ := x.(map[string]any)["decisions"].([]any)
		for _, d := range decisions {
			if d := d.(map[string]any); d["decision"] != "YES" {
				list = append(list, fmt.Sprintf("%v:%v", d["decider"], d["decision"]))
			}
		}
	}
	return list
}

// fields are the paths of an answer with the types of what is there; names and ids are *.
func fields(s *side, answer any) map[string]string {
	found := map[string]string{}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(v)) {
				name := key
				if s.keys[key] || strings.Trim(key, "0123456789") == "" {
					name = "*"
				}
				walk(path+"."+name, v[key])
			}
		case []any:
			for _, e := range v {
				walk(path, e)
			}
		case nil:
			if found[path] == "" {
				found[path] = "null"
			}
		default:
			found[path] = fmt.Sprintf("%T", v)
		}
	}
	walk("", answer)
	return found
}
