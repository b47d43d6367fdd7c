package sim

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// served starts a small cluster behind a port.
func served(t *testing.T, text string, o Options) (*Cluster, *Server, *http.Client) {
	t.Helper()
	c := build(t, text)
	s, err := Serve(t.Context(), c, o)
	if err != nil {
		t.Fatal(err)
	}
	// Without keep-alive, for on a connection used before the client quietly asks once more when it breaks.
	client := &http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return c, s, client
}

// get gives the status and the body; the error is that of the connection.
func get(t *testing.T, client *http.Client, url string) (int, string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return res.StatusCode, string(body), err
}

const three = "cluster opensearch 2.19.6\nset cluster.routing.rebalance.enable=none\nnodes 3\nindex web size=1GB search=1\nsettle"

// TestFaults injects each kind of fault for one request and sees the next one answered well.
func TestFaults(t *testing.T) {
	c, s, client := served(t, three, Options{})
	url := s.URL() + "/_cluster/health"
	tests := []struct {
		fault  Fault
		status int
		body   string // part of it
		broken bool   // the connection
	}{
		{Fault{Kind: FaultStatus, Status: 429}, 429, "circuit_breaking_exception", false},
		{Fault{Kind: FaultStatus, Status: 503}, 503, "cluster_block_exception", false},
		{Fault{Kind: FaultStatus, Status: 403}, 403, "security_exception", false},
		{Fault{Kind: FaultHTML}, 502, "<html>", false},
		{Fault{Kind: FaultGarbage}, 200, "\x00\x01{{", false},
		{Fault{Kind: FaultCut}, 200, `{"cluster_name"`, true},
		{Fault{Kind: FaultRefuse}, 0, "", true},
		{Fault{Kind: FaultLost}, 0, "", true},
		{Fault{Kind: FaultSlow, Delay: time.Millisecond}, 200, `"status":"green"`, false},
	}
	for _, test := range tests {
		t.Run(string(test.fault.Kind), func(t *testing.T) {
			f := test.fault
			f.Path, f.Count, f.Skip = "/_cluster/h*", 1, 1
			c.Inject(f)
			if status, body, err := get(t, client, url); err != nil || status != 200 || !json.Valid([]byte(body)) {
				t.Errorf("before its turn: %d %s %v", status, body, err)
			}
			status, body, err := get(t, client, url)
			if status != test.status || !strings.Contains(body, test.body) || (err != nil) != test.broken {
				t.Errorf("got %d %q, error %v", status, body, err)
			}
			if test.fault.Kind != FaultSlow && json.Valid([]byte(body)) != (test.fault.Kind == FaultStatus) {
				t.Errorf("JSON or not: %q", body)
			}
			if status, body, err := get(t, client, url); err != nil || status != 200 || !json.Valid([]byte(body)) {
				t.Errorf("afterwards: %d %s %v", status, body, err)
			}
		})
	}
	c.Inject(Fault{Kind: FaultStatus, Status: 503, Method: "POST"})
	if status, _, _ := get(t, client, url); status != 200 {
		t.Errorf("a fault of POST spoilt a GET: %d", status)
	}
	c.ClearFaults()
}

// TestLostAnswer: the move was made, though the client saw the connection close.
func TestLostAnswer(t *testing.T) {
	c, s, client := served(t, three, Options{})
	c.Inject(Fault{Kind: FaultLost, Path: "/_cluster/reroute", Count: 1})
	body := fmt.Sprintf(`{"commands":[{"move":{"index":"web","shard":0,"from_node":%q,"to_node":%q}}]}`, c.NodeID("n1"), c.NodeID("n3"))
	req, err := http.NewRequestWithContext(t.Context(), "POST", s.URL()+"/_cluster/reroute?metric=none", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if res, err := client.Do(req); err == nil {
		res.Body.Close()
		t.Fatalf("answered with %d", res.StatusCode)
	}
	if n := c.Counts(); n.Relocating != 1 {
		t.Errorf("%+v", n)
	}
}

// TestChangeBetweenReads: an index goes between two reads of one client.
func TestChangeBetweenReads(t *testing.T) {
	c, s, client := served(t, three, Options{})
	c.Inject(Fault{Kind: FaultAct, Path: "/_nodes/stats", Count: 1, Then: func(c *Cluster) { c.DeleteIndex("web") }})
	_, before, _ := get(t, client, s.URL()+"/_cluster/state/routing_table")
	_, stats, _ := get(t, client, s.URL()+"/_nodes/stats?level=shards")
	if !strings.Contains(before, `"web"`) || strings.Contains(stats, `"web"`) {
		t.Errorf("%s\n%s", before, stats)
	}
}

// TestAuth: either way in, and each product's own words at the door.
func TestAuth(t *testing.T) {
	for _, product := range []string{OpenSearch, Elasticsearch} {
		c := New(Config{Distribution: product, Auth: &Auth{User: "u", Password: "p", APIKey: "a2V5"}})
		s, err := Serve(t.Context(), c, Options{})
		if err != nil {
			t.Fatal(err)
		}
		try := func(set func(*http.Request)) (int, string) {
			req, _ := http.NewRequestWithContext(t.Context(), "GET", s.URL()+"/", nil)
			set(req)
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			body, _ := io.ReadAll(res.Body)
			return res.StatusCode, string(body)
		}
		if code, _ := try(func(r *http.Request) { r.SetBasicAuth("u", "p") }); code != 200 {
			t.Errorf("%s: right password: %d", product, code)
		}
		if code, _ := try(func(r *http.Request) { r.Header.Set("Authorization", "ApiKey a2V5") }); code != 200 {
			t.Errorf("%s: right key: %d", product, code)
		}
		code, body := try(func(r *http.Request) { r.SetBasicAuth("u", "wrong") })
		if code != 401 || json.Valid([]byte(body)) != (product == Elasticsearch) {
			t.Errorf("%s: wrong password: %d %s", product, code, body)
		}
		if code, _ := try(func(*http.Request) {}); code != 401 {
			t.Errorf("%s: no credentials: %d", product, code)
		}
		http.DefaultClient.CloseIdleConnections()
		s.Close()
	}
}

// TestManagedServiceRefusesReroute answers as AWS does.
func TestManagedServiceRefusesReroute(t *testing.T) {
	c := New(Config{Managed: true})
	c.AddNode(NodeSpec{})
	got := request(t, c, c.Handler(), "POST /_cluster/reroute?metric=none\n{\"commands\":[]}")
	if want := "403\n{\"Message\": \"Your request: '/_cluster/reroute' is not allowed.\"}\n"; got != want {
		t.Errorf("got %s", got)
	}
}

// TestGzip: compressed when asked for, the same text.
func TestGzip(t *testing.T) {
	_, s, client := served(t, three, Options{})
	_, plain, _ := get(t, client, s.URL()+"/_nodes/stats?level=shards")
	req, _ := http.NewRequestWithContext(t.Context(), "GET", s.URL()+"/_nodes/stats?level=shards", nil)
	req.Header.Set("Accept-Encoding", "gzip")
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	z, err := gzip.NewReader(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(z)
	if err != nil || string(body) != plain {
		t.Errorf("%v; %d bytes against %d", err, len(body), len(plain))
	}
}

// TestSpeed: virtual time runs with the wall, so many times as fast, and a waiting request wakes up when it is due.
func TestSpeed(t *testing.T) {
	c, s, client := served(t, three, Options{Speed: 600})
	if err := c.SetPersistent(map[string]string{"indices.recovery.max_bytes_per_sec": "20mb"}); err != nil {
		t.Fatal(err)
	}
	begun := c.Now()
	if err := c.Move("web", 0, "n1", "n3"); err != nil {
		t.Fatal(err)
	}
	status, body, err := get(t, client, s.URL()+"/_cluster/health?wait_for_no_relocating_shards=true&timeout=1h&filter_path=timed_out,relocating_shards")
	if err != nil || status != 200 || body != `{"timed_out":false,"relocating_shards":0}` {
		t.Errorf("%d %s %v", status, body, err)
	}
	if took := c.Now().Sub(begun); took < 47*time.Second || took > time.Hour {
		t.Errorf("1 GB at 20 MB/s took %s of virtual time", took)
	}
}

// TestWaitPassesVirtualTime: where nobody drives the clock a waiting request lets time go by at once.
func TestWaitPassesVirtualTime(t *testing.T) {
	c, s, client := served(t, three, Options{})
	c.Freeze("n2", true)
	begun := c.Now()
	status, body, err := get(t, client, s.URL()+"/_nodes/stats/indices/docs?timeout=3s&filter_path=_nodes.failed,_nodes.failures.node_id")
	if err != nil || status != 200 || body != fmt.Sprintf(`{"_nodes":{"failed":1,"failures":[{"node_id":%q}]}}`, c.NodeID("n2")) {
		t.Errorf("%d %s %v", status, body, err)
	}
	if took := c.Now().Sub(begun); took != 3*time.Second {
		t.Errorf("it took %s", took)
	}
	c.Freeze("n2", false)
	if err := c.Sleep(t.Context(), time.Hour); err != nil || c.Now().Sub(begun) != time.Hour+3*time.Second {
		t.Errorf("%v, %s", err, c.Now().Sub(begun))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Sleep(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled sleep gave %v", err)
	}
}

// TestNoMaster: while there is none, what needs one says so, each version in its words; then another is elected.
func TestNoMaster(t *testing.T) {
	for version, kind := range map[string]string{
		"opensearch 1.3.20": "master_not_discovered_exception", "opensearch 2.19.6": "cluster_manager_not_discovered_exception",
		"elasticsearch 8.19.0": "master_not_discovered_exception",
	} {
		c := build(t, "cluster "+version+"\nnodes 3\nsettle")
		c.Kill("n1")
		got := request(t, c, c.Handler(), "GET /_cluster/health?filter_path=number_of_nodes")
		if !strings.Contains(got, "503") || !strings.Contains(got, kind) || !strings.Contains(got, `"reason": null`) {
			t.Errorf("%s: %s", version, got)
		}
		if got := request(t, c, c.Handler(), "GET /_nodes/stats?filter_path=_nodes.total"); !strings.Contains(got, "200") {
			t.Errorf("%s: statistics need no master: %s", version, got)
		}
		c.Advance(2 * time.Second)
		if got := request(t, c, c.Handler(), "GET /_cluster/health?filter_path=number_of_nodes"); !strings.Contains(got, `{"number_of_nodes": 2}`) {
			t.Errorf("%s: %s", version, got)
		}
	}
}

// TestManyAtOnce lets readers, movers, mishaps and the clock at the cluster together: for the race detector, and for the
// books afterwards.
func TestManyAtOnce(t *testing.T) {
	c, s, _ := served(t, "cluster elasticsearch 8.19.0 seed=2\nset indices.recovery.max_bytes_per_sec=50mb\nnodes 6 zones=a,b,c\n"+
		"index web shards=4 replicas=1 size=4GB search=1\nseries logs keep=3 size=1GB\nsettle", Options{Speed: 3600})
	var wg sync.WaitGroup
	client := &http.Client{Transport: &http.Transport{}}
	for _, path := range []string{
		"/_nodes/stats?level=shards", "/_cluster/state", "/_cat/shards?format=json", "/_internal/desired_balance", "/_recovery",
		"/_cluster/health?wait_for_no_relocating_shards=true&timeout=5m",
	} {
		wg.Go(func() {
			for range 20 {
				status, body, err := get(t, client, s.URL()+path)
				if err != nil || !slices.Contains([]int{200, 408, 503}, status) || !json.Valid([]byte(body)) {
					t.Errorf("%s: %d %v", path, status, err)
					return
				}
			}
		})
	}
	wg.Go(func() {
		for i := range 30 {
			c.Move("web", i%4, fmt.Sprintf("n%d", 1+i%6), fmt.Sprintf("n%d", 1+(i+3)%6))
			c.Loads()
			c.Tally()
		}
	})
	wg.Go(func() {
		for range 3 {
			c.Kill("n4")
			c.Rollover("logs")
			c.SetPersistent(map[string]string{"cluster.routing.rebalance.enable": "none"})
			c.Restart("n4")
			c.SetTraffic(2, 2)
		}
	})
	wg.Wait()
	client.CloseIdleConnections()
	if why := inconsistency(c); why != "" {
		t.Error(why)
	}
}

// TestTLS serves with a certificate, for a client that knows it.
func TestTLS(t *testing.T) {
	known := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate, and a client that trusts it
	defer known.Close()
	s, err := Serve(t.Context(), build(t, three), Options{TLS: known.TLS.Clone()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if status, _, err := get(t, known.Client(), s.URL()+"/"); err != nil || status != 200 || !strings.HasPrefix(s.URL(), "https://127.0.0.1:") {
		t.Errorf("%s: %d %v", s.URL(), status, err)
	}
	if _, _, err := get(t, http.DefaultClient, s.URL()+"/"); err == nil {
		t.Error("a client that does not know the certificate is content")
	}
}

// TestEveryNodeAtItsOwnAddress: what is asked of one node is answered by that one, hangs while its process is halted, and
// breaks while it is gone; the common address goes on answering.
func TestEveryNodeAtItsOwnAddress(t *testing.T) {
	c, s, client := served(t, three, Options{PerNode: true})
	name := func(addr string) (string, error) {
		_, body, err := get(t, client, "http://"+addr+"/?filter_path=name")
		return body, err
	}
	for _, n := range []string{"n1", "n2", "n3"} {
		if got, err := name(s.NodeAddr(n)); err != nil || got != fmt.Sprintf(`{"name":%q}`, n) {
			t.Errorf("%s answers %s %v", n, got, err)
		}
	}
	_, published, _ := get(t, client, s.URL()+"/_nodes/http?filter_path=nodes.*.http.publish_address")
	if !strings.Contains(published, s.NodeAddr("n2")) {
		t.Errorf("n2 at %s publishes other addresses: %s", s.NodeAddr("n2"), published)
	}

	c.Kill("n1")
	if got, err := name(s.NodeAddr("n1")); err == nil {
		t.Errorf("a node that is gone answers %s", got)
	}
	if got, err := name(s.Addr()); err != nil || got != `{"name":"n2"}` {
		t.Errorf("the common address answers %s %v", got, err)
	}
	c.Restart("n1")
	if _, err := name(s.NodeAddr("n1")); err != nil {
		t.Errorf("a restarted node does not answer at its old address: %v", err)
	}

	c.Freeze("n2", true)
	answered := make(chan string)
	go func() {
		got, _ := name(s.NodeAddr("n2"))
		answered <- got
	}()
	if got, err := name(s.Addr()); err != nil || got != `{"name":"n3"}` {
		t.Errorf("the common address answers %s %v", got, err)
	}
	select {
	case got := <-answered:
		t.Errorf("a halted node answers %s", got)
	default:
	}
	c.Freeze("n2", false)
	if got := <-answered; got != `{"name":"n2"}` {
		t.Errorf("once it runs on it answers %s", got)
	}

	if _, err := c.AddNode(NodeSpec{Name: "late"}); err != nil {
		t.Fatal(err)
	}
	if got, err := name(s.NodeAddr("late")); err != nil || got != `{"name":"late"}` {
		t.Errorf("a node that came later answers %s %v", got, err)
	}
}

// TestHaltedNodes: a halted process is put out after half a minute and comes back; with the master halted nothing can be
// changed until another is elected, and a change is answered late while any node is.
func TestHaltedNodes(t *testing.T) {
	c, s, client := served(t, three, Options{PerNode: true})
	begun := c.Now()
	c.Freeze("n3", true)
	if err := put(t, client, s.URL()+"/_cluster/settings", `{"persistent":{"cluster.info.update.interval":"20s"}}`); err != nil {
		t.Fatal(err)
	}
	if took := c.Now().Sub(begun); took != publishTime {
		t.Errorf("a change was answered after %s", took)
	}
	c.Advance(5 * time.Second)
	nodes := func() int {
		c.mu.RLock()
		defer c.mu.RUnlock()
		return len(c.nodes)
	}
	if n := nodes(); n != 2 {
		t.Errorf("%d nodes are in the cluster", n)
	}
	c.Freeze("n3", false)
	c.Advance(2 * time.Second)
	if n := nodes(); n != 3 {
		t.Errorf("%d nodes are in the cluster after it runs on", n)
	}

	begun = c.Now()
	c.Freeze(c.Master(), true)
	if status, _, err := get(t, client, "http://"+s.NodeAddr("n2")+"/_cluster/health"); err != nil || status != 200 {
		t.Errorf("%d %v", status, err)
	}
	if took := c.Now().Sub(begun); took != failureTime+electionTime || c.Master() != "n2" {
		t.Errorf("%s was elected after %s", c.Master(), took)
	}
	if why := inconsistency(c); why != "" {
		t.Error(why)
	}
}

func put(t *testing.T, client *http.Client, url, body string) error {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "PUT", url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	res.Body.Close()
	if res.StatusCode != 200 {
		return fmt.Errorf("PUT %s: %s", url, res.Status)
	}
	return nil
}
