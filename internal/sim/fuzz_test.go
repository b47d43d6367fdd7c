package sim

import (
	"encoding/json"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// FuzzRequests throws anything at the endpoints that read: they answer, with JSON where it is JSON, and the cluster's
// books agree afterwards.
func FuzzRequests(f *testing.F) {
	for _, seed := range []struct{ method, path, query, body string }{
		{"POST", "/_cluster/reroute", "explain=true&metric=none", `{"commands":[{"move":{"index":"web","shard":0,"from_node":"n1","to_node":"n3"}}]}`},
		{"POST", "/_cluster/reroute", "", `{"commands":[{"cancel":{"index":"web","shard":"0","node":"n2","allow_primary":true}}],"dry_run":true}`},
		{"PUT", "/_cluster/settings", "flat_settings", `{"persistent":{"cluster":{"routing.rebalance.enable":"none"},"a":[1,true,null]},"transient":{"x":{}}}`},
		{"PUT", "/web/_settings", "", `{"index":{"number_of_replicas":2},"routing.rebalance.enable":null}`},
		{"PUT", "/new", "", `{"settings":{"index":{"number_of_shards":"3"}}}`},
		{"POST", "/_cluster/allocation/explain", "include_yes_decisions", `{"index":"web","shard":0,"primary":true,"current_node":"n1"}`},
		{"GET", "/_nodes/n*,zone:a,data:true/stats/indices/docs", "level=shards&filter_path=nodes.*.**.shards,-**.routing", ""},
		{"GET", "/_cluster/state/_all/w*,-x", "expand_wildcards=all&filter_path=a%5C.b,**", ""},
		{"GET", "/_cluster/health", "wait_for_nodes=ge(3)&timeout=1ms&wait_for_status=green", ""},
		{"GET", "/_cat/shards", "format=json&h=*&s=store:desc&bytes=b", ""},
	} {
		f.Add(seed.method, seed.path, seed.query, seed.body)
	}
	f.Fuzz(func(t *testing.T, method, path, query, body string) {
		u := url.URL{Path: path, RawQuery: query}
		if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.Contains(method, " ") {
			return // no request line
		}
		switch method {
		case "GET", "PUT", "POST", "DELETE":
		default:
			return
		}
		if _, err := url.ParseRequestURI(u.String()); err != nil {
			return
		}
		for _, product := range []string{"opensearch 2.19.6", "elasticsearch 8.19.0"} {
			c := build(t, "cluster "+product+"\nnodes 3 zones=a,b\nindex web size=1GB search=1\nsettle")
			c.Freeze("n2", strings.Contains(query, "timeout"))
			rec := httptest.NewRecorder()
			c.Handler().ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), method, u.String(), strings.NewReader(body)))
			answer := rec.Body.Bytes()
			if strings.Contains(rec.Header().Get("Content-Type"), "json") && len(answer) > 0 && !json.Valid(answer) {
				t.Errorf("%s %s: no JSON: %s", method, u.String(), answer)
			}
			if why := inconsistency(c); why != "" {
				t.Error(why)
			}
		}
	})
}

// FuzzScenario: whatever the text, a scenario parses or says where it does not.
func FuzzScenario(f *testing.F) {
	f.Add("cluster opensearch 2.19.6 seed=1\nnodes 3 zones=a,b disk=1TB\nat 10m kill n1\nassert peak_to_mean search <= 1.1\n")
	f.Add("series a b stream shards=2 by_age=1d:1,0.5 index.x=y\nfault cut path=/a* count=2\nset a=b # comment")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseScenario("fuzz", strings.NewReader(text))
		if err == nil && len(s.steps) == 0 {
			t.Error("no commands and no error")
		}
	})
}

// FuzzFilterPath: a filter never breaks the JSON, and what one keeps the other drops: a document under a pattern and under
// its exclusion has no leaf in common.
func FuzzFilterPath(f *testing.F) {
	for _, p := range []string{"a", "a.b", "*.c", "**.c", "a.**", "a*.b,x", `a\.b`, "-a.b", "*", "**", "", ".", "a..b"} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, pattern string) {
		write := func(filter string) map[string]bool {
			w := newJSON(filter)
			if w.obj("") {
				w.int("x", 1)
				if w.obj("a") {
					w.int("b", 2)
					if w.arr("list") {
						for range 2 {
							if w.obj("") {
								w.int("c", 3)
								w.null("d")
								w.end()
							}
						}
						w.end()
					}
					w.end()
				}
				w.str("a.b", `q"uo\te`)
				w.end()
			}
			if !json.Valid(w.buf) {
				t.Fatalf("%q: %s", filter, w.buf)
			}
			leaves := map[string]bool{}
			for _, leaf := range []string{`"x":1`, `"b":2`, `"c":3`, `"d":null`, `"a.b":`} {
				if strings.Contains(string(w.buf), leaf) {
					leaves[leaf] = true
				}
			}
			return leaves
		}
		kept := write(pattern)
		if strings.Contains(pattern, ",") || strings.HasPrefix(strings.TrimSpace(pattern), "-") || strings.TrimSpace(pattern) == "" {
			return
		}
		dropped := write("-" + strings.TrimSpace(pattern))
		for leaf := range dropped {
			if kept[leaf] {
				t.Errorf("%q keeps %s and so does its exclusion", pattern, leaf)
			}
		}
	})
}
