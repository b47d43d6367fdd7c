package httpapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/history"
	"github.com/shardonnay/shardonnay/internal/model"
	"github.com/shardonnay/shardonnay/internal/mover"
	"github.com/shardonnay/shardonnay/internal/plan"
	"github.com/shardonnay/shardonnay/internal/rebalance"
)

// TestStatus tells a daemon's first hour: just started, carrying its first plan out, held by a stop, then by a person.
func TestStatus(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	daemon, past := &fakeDaemon{ready: errors.New("no cycle has ended yet")}, history.New()
	o := &Options{
		Cluster: cluster.Identity{
			Name: "c1", UUID: "u1", Product: cluster.Product{Distribution: cluster.OpenSearch, Version: cluster.Version{Major: 2, Minor: 19, Patch: 6}},
		},
		Mode: plan.Act, Interval: time.Minute, Started: at,
	}
	s := statusOf(daemon, past, o, at.Add(time.Second))
	if s.Cycle != nil || s.Objective != nil || s.Plan != "" || s.Owner != "" || s.MayPause || s.Ready != "no cycle has ended yet" || s.Alive != "" {
		t.Errorf("just started: %+v", s)
	}
	if s.Cluster != (plan.Cluster{Name: "c1", UUID: "u1", Distribution: "opensearch", Version: "2.19.6"}) || s.IntervalS != 60 || s.Mode != "act" {
		t.Errorf("just started: %+v", s)
	}

	if waits := statusOf(&fakeDaemon{waits: "waiting: b leads"}, past, o, at); waits.Waiting != "waiting: b leads" || waits.Ready != "" {
		t.Errorf("waiting: %+v", waits)
	}

	made := &plan.Plan{ID: "p1", Objective: plan.Objective{Before: 3, After: 2, LowerBound: 1, Captured: 0.5, Gap: 0.5}}
	past.ObserveMove(mover.Event{Move: plan.Move{AllocationID: "x", Bytes: 7}, State: mover.Relocating, Elapsed: time.Second}, at)
	daemon.latest = &rebalance.Summary{Mode: plan.Act, Plan: made}
	s = statusOf(daemon, past, o, at)
	if s.Cycle != nil || s.Owner != "" || s.Plan != "p1" || s.InFlight != (InFlight{1, 7}) || s.Changes.Moves != 1 {
		t.Errorf("carrying its first plan out: %+v", s)
	}
	if diff := cmp.Diff(&Objective{3, 2, 1, 0.5, 0.5}, s.Objective); diff != "" {
		t.Error(diff)
	}

	daemon.ready, daemon.paused, o.Token = nil, true, "secret"
	daemon.latest = &rebalance.Summary{
		ID: "c1", Mode: plan.Act, Started: at, Outcome: rebalance.ClusterNotReady, Reason: "20 relocations of others", Snapshot: &cluster.Snapshot{}, Plan: made,
		Took:   map[rebalance.Stage]time.Duration{rebalance.Collect: time.Second, rebalance.Solve: 2 * time.Second},
		Report: &mover.Report{Stop: &mover.Stop{Kind: mover.Storm, Text: "20 relocations of others", Cure: "It goes on"}},
	}
	s = statusOf(daemon, past, o, at)
	if diff := cmp.Diff(&Cycle{ID: "c1", Started: at, TookS: 3, Outcome: "cluster_not_ready", Reason: "20 relocations of others"}, s.Cycle); diff != "" {
		t.Error(diff)
	}
	if s.Stop == nil || *s.Stop != (Stop{"storm", "20 relocations of others", "It goes on"}) || s.Owner != "us" || !s.Paused || !s.MayPause || s.Ready != "" {
		t.Errorf("stopped: %+v", s)
	}
	text, err := json.Marshal(s)
	if err != nil || strings.Contains(string(text), "secret") {
		t.Errorf("%v, the token is in %s", err, text)
	}

	daemon.latest = &rebalance.Summary{
		Mode: plan.Act, Outcome: rebalance.Held, Hold: &mover.Hold{Kind: mover.RebalanceChanged, Text: "somebody set it to all", Cure: "Set it to none"},
	}
	s = statusOf(daemon, past, o, at)
	if s.Stop == nil || s.Stop.Reason != "rebalance_changed" || s.Owner != "person" {
		t.Errorf("a person's setting: %+v", s)
	}
}

// TestHeaders: every answer forbids what the page does not need, and long ones are compressed for those who can read that.
func TestHeaders(t *testing.T) {
	handler := Handler(&fakeDaemon{}, history.New(), func() Options { return Options{Metrics: http.NotFoundHandler()} })
	for _, path := range []string{"/", "/page.js", "/style.css", "/icon.svg", "/api/v1/status", "/nothing"} {
		request := httptest.NewRequest(http.MethodGet, path, nil)
		request.Header.Set("Accept-Encoding", "gzip")
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
				"frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
			"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "Set-Cookie": "",
		} {
			if got := answer.Header().Get(name); got != want {
				t.Errorf("%s: %s is %q", path, name, got)
			}
		}
		if long := path == "/page.js" || path == "/"; (answer.Header().Get("Content-Encoding") == "gzip") != long && path != "/style.css" {
			t.Errorf("%s: encoded as %q, %d bytes", path, answer.Header().Get("Content-Encoding"), answer.Body.Len())
		}
	}
}

// TestHistoryByDimension: what is measured can be asked for, what is not is refused with what there is.
func TestHistoryByDimension(t *testing.T) {
	past := history.New()
	handler := Handler(&fakeDaemon{}, past, func() Options { return Options{Metrics: http.NotFoundHandler()} })
	ask := func(query string) (int, string) {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/api/v1/history"+query, nil))
		return answer.Code, answer.Body.String()
	}
	if code, body := ask("?dimension=search"); code != http.StatusOK || !strings.Contains(body, `"time":[]`) {
		t.Errorf("before the first cycle: %d %s", code, body)
	}
	observe(past)
	if code, body := ask(""); code != http.StatusOK || !strings.Contains(body, `"dimension":"search"`) || !strings.Contains(body, `"load":"6AM="`) {
		t.Errorf("%d %s", code, body)
	}
	if code, body := ask("?dimension=love"); code != http.StatusBadRequest || !strings.Contains(body, "there are search") {
		t.Errorf("%d %s", code, body)
	}
}

// observe feeds one sample of one node, which is exactly fair: 1000 thousandths.
func observe(past *history.History) {
	s := &cluster.Snapshot{Dimensions: []cluster.Dimension{cluster.SearchTime}, Nodes: []cluster.Node{{ID: "1", Name: "n1"}}}
	p := &model.Problem{
		Dimensions: []model.Dimension{{Name: "search", Weight: 1}}, Nodes: []model.Node{{ID: "1", Capacity: []float64{4}}},
		Classes: []model.Class{{Nodes: []int32{0}}}, Groups: make([]model.Group, 1), Copies: []model.Copy{{Load: []float64{2}}},
	}
	past.ObservePlan("c1", time.Now(), s, p, &plan.Plan{})
}

// TestThePageIsDocumented: docs/page.md explains every field of what the page asks for.
func TestThePageIsDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "page.md"))
	if err != nil {
		t.Fatal(err)
	}
	var check func(of reflect.Type)
	check = func(of reflect.Type) {
		for of.Kind() == reflect.Slice || of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		if of.Kind() != reflect.Struct || of == reflect.TypeFor[time.Time]() || of == reflect.TypeFor[plan.Place]() {
			return
		}
		for field := range of.Fields() {
			if !field.IsExported() {
				continue
			}
			if name := field.Tag.Get("json"); !strings.Contains(string(text), "`"+name+"`") {
				t.Errorf("docs/page.md does not explain %s of %s", name, of)
			}
			check(field.Type)
		}
	}
	for _, of := range []reflect.Type{reflect.TypeFor[Status](), reflect.TypeFor[history.Heat](), reflect.TypeFor[history.Moves]()} {
		check(of)
	}
}
