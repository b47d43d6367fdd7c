package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/config"
	"github.com/shardonnay/shardonnay/internal/election"
	"github.com/shardonnay/shardonnay/internal/rebalance"
)

func TestWhatAWaitingInstanceSays(t *testing.T) {
	for _, test := range []struct {
		status election.Status
		says   string
		err    error
	}{
		{election.Status{}, "waiting: nobody leads", nil},
		{election.Status{Leader: "pod-1"}, "waiting: pod-1 leads", nil},
		{election.Status{Leader: "pod-1", Trouble: io.EOF}, "", io.EOF},
	} {
		if says, err := waits(test.status); says != test.says || !errors.Is(err, test.err) {
			t.Errorf("%+v: %q, %v", test.status, says, err)
		}
	}
}

// A term ends when the cluster could not be reached for as long as a record lasts, not for a hiccup, nor for other faults.
func TestCutOffLeadersMakeWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancelCause(t.Context())
		observed := 0
		observe := cutOff(func(*rebalance.Summary) { observed++ }, 3*time.Minute, end)
		unavailable := &cluster.Error{Class: cluster.Unavailable, Op: "read settings"}
		for _, c := range []struct {
			err  error
			ends bool
		}{
			{unavailable, false},
			{unavailable, false},
			{unavailable, false},
			{nil, false},
			{&cluster.Error{Class: cluster.Incomplete, Op: "collect"}, false},
			{unavailable, false},
			{unavailable, false},
			{unavailable, false},
			{unavailable, true},
		} {
			<-time.After(time.Minute)
			observe(&rebalance.Summary{Err: c.err})
			if ended := ctx.Err() != nil; ended != c.ends {
				t.Errorf("after %d cycles: ended %t", observed, ended)
			}
		}
		if cause := context.Cause(ctx); !startsOver(cause) || !errors.Is(cause, rebalance.ErrDeposed) {
			t.Errorf("it ended for %v", cause)
		}
	})
}

// Zones that an instance is to look at by itself are unwatched while it has no connection, and that shows. Of several that
// stand for election another one may lead: what waits has nothing to show.
func TestZonesAreAwaitedWithoutAConnection(t *testing.T) {
	for _, test := range []struct {
		mode, lease string
		awaited     bool
	}{{"act", "", true}, {"observe", "", true}, {"off", "", false}, {"act", "shardonnay", false}} {
		c := config.Default()
		c.Zones.Mode, c.Election.Lease = test.mode, test.lease
		var s service
		s.current.Store(&c)
		s.connecting()
		answer := httptest.NewRecorder()
		s.about().handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		if awaited := strings.Contains(answer.Body.String(), "\nshardonnay_zone_last_look_timestamp_seconds "); awaited != test.awaited {
			t.Errorf("zones.mode %s, election.lease %q: awaited is %t", test.mode, test.lease, awaited)
		}
	}
}

// TestHealthOfADaemonWithoutACluster: it is alive and not ready from its start on, so that nobody restarts it for what is
// not its fault; and the command for health checks says what /healthz does.
func TestHealthOfADaemonWithoutACluster(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	t.Setenv("SHARDONNAY_HTTP_LISTEN", address)
	execute(t, "health").expect(t, 1, address, "refused")
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		root := newRoot()
		root.SetArgs([]string{"run", "--address", "http://127.0.0.1:1"})
		ended <- root.ExecuteContext(ctx)
	}()
	get := func(path string) (int, string) {
		answer, err := http.Get("http://" + address + path)
		if err != nil {
			return 0, err.Error()
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Error(err)
		}
		return answer.StatusCode, string(body)
	}
	for deadline := time.Now().Add(30 * time.Second); ; {
		if code, _ := get("/healthz"); code == http.StatusOK {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it does not listen")
		}
		<-time.After(20 * time.Millisecond)
	}
	if code, text := get("/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(text, "not connected") {
		t.Errorf("/readyz: %d %s", code, text)
	}
	if code, text := get("/metrics"); code != http.StatusOK || !strings.Contains(text, "shardonnay_build_info") {
		t.Errorf("/metrics: %d %s", code, text)
	}
	healthy := execute(t, "health")
	healthy.expect(t, 0)
	if !strings.Contains(healthy.stdout, "ok") {
		t.Errorf("it says %q", healthy.stdout)
	}
	end()
	if class := cluster.ClassOf(<-ended); class != cluster.Interrupted && class != cluster.Unavailable { // by what it was at just then
		t.Errorf("it ended with an error of class %s", class)
	}
	t.Setenv("SHARDONNAY_HTTP_LISTEN", "127.0.0.1:0")
	execute(t, "health").expect(t, 2, "names no port")
}
