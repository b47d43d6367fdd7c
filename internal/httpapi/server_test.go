package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/history"
	"github.com/shardonnay/shardonnay/internal/plan"
	"github.com/shardonnay/shardonnay/internal/rebalance"
)

// fakeDaemon stands for the loop.
type fakeDaemon struct {
	alive, ready error
	waits        string
	latest       *rebalance.Summary
	paused       bool
}

func (f *fakeDaemon) Paused() bool { return f.paused }

func (f *fakeDaemon) Alive(time.Time) error      { return f.alive }
func (f *fakeDaemon) Ready() (string, error)     { return f.waits, f.ready }
func (f *fakeDaemon) Latest() *rebalance.Summary { return f.latest }
func (f *fakeDaemon) Pause()                     { f.paused = true }
func (f *fakeDaemon) Resume()                    { f.paused = false }

func TestHandler(t *testing.T) {
	daemon := &fakeDaemon{}
	options := Options{Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "metrics") })}
	server, err := Listen("127.0.0.1:0", Handler(daemon, history.New(), func() Options { return options }))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	ask := func(method, path, token string) (int, string) {
		request, err := http.NewRequest(method, server.URL()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(body)
	}
	expect := func(method, path, token string, code int, contains string) {
		t.Helper()
		if got, body := ask(method, path, token); got != code || !strings.Contains(body, contains) {
			t.Errorf("%s %s: %d %s, want %d and %q", method, path, got, body, code, contains)
		}
	}
	expect("GET", "/metrics", "", 200, "metrics")
	expect("GET", "/healthz", "", 200, "ok")
	daemon.waits = "waiting: another leads"
	expect("GET", "/readyz", "", 200, "waiting: another leads")
	daemon.alive, daemon.ready = errors.New("no cycle for 5m"), errors.New("the last snapshot was incomplete")
	expect("GET", "/healthz", "", 503, "no cycle for 5m")
	expect("GET", "/readyz", "", 503, "incomplete")
	expect("GET", "/api/v1/plan", "", 503, "no cycle")
	daemon.latest = &rebalance.Summary{}
	expect("GET", "/api/v1/plan", "", 503, "no cycle")
	daemon.latest = &rebalance.Summary{Plan: &plan.Plan{ID: "01J"}, Snapshot: &cluster.Snapshot{StateVersion: 912}}
	expect("GET", "/api/v1/plan", "", 200, `"id":"01J"`)
	expect("GET", "/api/v1/snapshot", "", 404, "http.debug")
	expect("POST", "/api/v1/pause", "anything", 404, "http.token_file")
	expect("GET", "/api/v1/pause", "", 405, "")
	expect("GET", "/nothing", "", 404, "")
	expect("GET", "/", "", 200, "<title>Shardonnay</title>")
	expect("GET", "/page.js", "", 200, "uPlot")
	expect("GET", "/api/v1/history", "", 200, `"time":[]`)
	expect("GET", "/api/v1/history?since=yesterday", "", 400, "since is")
	expect("GET", "/api/v1/moves", "", 200, `"moves":[]`)
	expect("GET", "/api/v1/moves?after=-1", "", 400, "after is")
	options.Debug, options.Token = true, "secret"
	expect("GET", "/api/v1/snapshot", "", 200, "912")
	expect("GET", "/api/v1/problem", "", 503, "no cycle")
	expect("POST", "/api/v1/pause", "", 401, "Bearer")
	expect("POST", "/api/v1/pause", "wrong", 401, "Bearer")
	if daemon.paused {
		t.Error("paused without the token")
	}
	expect("POST", "/api/v1/pause", "secret", 200, "paused")
	if !daemon.paused {
		t.Error("not paused")
	}
	expect("POST", "/api/v1/resume", "secret", 200, "resumed")
	if daemon.paused {
		t.Error("not resumed")
	}
}

func TestListenOnTakenAddress(t *testing.T) {
	first, err := Listen("127.0.0.1:0", http.NotFoundHandler())
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close(context.Background())
	if _, err := Listen(first.addr.String(), http.NotFoundHandler()); cluster.ClassOf(err) != cluster.Invalid || !strings.Contains(err.Error(), "http.listen") {
		t.Errorf("got %v", err)
	}
}
