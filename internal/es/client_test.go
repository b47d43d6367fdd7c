package es

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// quick is a client of the servers at those addresses that does not make a test wait.
func quick(t *testing.T, config Config, addresses ...string) *Client {
	t.Helper()
	config.Addresses = append(config.Addresses, addresses...)
	c, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	c.backoff = time.Millisecond
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func server(t *testing.T, answer http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return s
}

// says answers every request with that status, content type and body.
func says(status int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

const (
	asJSON = "application/json; charset=UTF-8"
	asHTML = "text/html"
)

// TestBadAnswers is what a person reads on a bad day: the class, which fixes the exit code, and the words.
func TestBadAnswers(t *testing.T) {
	reroute := func(c *Client) error {
		_, err := c.Reroute(t.Context(), cluster.Product{}, []Move{{"logs", 0, "a", "b"}})
		return err
	}
	health := func(c *Client) error { _, err := c.Health(t.Context()); return err }
	connect := func(c *Client) error { _, err := c.Connect(t.Context()); return err }
	for _, test := range []struct {
		name   string
		answer http.HandlerFunc
		do     func(*Client) error
		class  cluster.Class
		words  []string
	}{
		{
			"wrong password",
			says(401, asJSON, `{"error":{"root_cause":[],"type":"security_exception","reason":"unable to authenticate user [joe]"},"status":401}`),
			connect, cluster.Refused,
			[]string{"read", "HTTP 401", "unable to authenticate", "Check user name and password"},
		},
		{
			"privilege missing, Elasticsearch names it",
			says(403, asJSON, `{"error":{"type":"security_exception","reason":"action [cluster:admin/reroute] is unauthorized for user [joe]"},"status":403}`),
			reroute, cluster.Refused,
			[]string{"send POST ", "/_cluster/reroute", "Give the user the privilege cluster:admin/reroute", "cluster privilege manage"},
		},
		{
			"privilege missing, OpenSearch names it",
			says(403, asJSON, `{"error":{"type":"security_exception","reason":"no permissions for [cluster:monitor/health] and User [name=joe]"},"status":403}`),
			health, cluster.Refused,
			[]string{"privilege cluster:monitor/health"},
		},
		{
			"privilege missing, unnamed",
			says(403, asJSON, `{"message":"Forbidden"}`),
			reroute, cluster.Refused,
			[]string{"Forbidden", "privilege cluster:admin/reroute"},
		},
		{
			"managed service",
			says(403, asJSON, `{"Message":"Your request: '/_cluster/reroute' is not allowed."}`),
			reroute, cluster.Refused,
			[]string{"is not allowed", "managed service", "dry-run"},
		},
		{
			"no master",
			says(503, asJSON, `{"error":{"type":"cluster_manager_not_discovered_exception","reason":null},"status":503}`),
			func(c *Client) error { _, err := c.Routing(t.Context()); return err },
			cluster.Unavailable,
			[]string{"HTTP 503 cluster_manager_not_discovered_exception", "no elected master"},
		},
		{
			"overloaded",
			says(429, asJSON, `{"error":{"type":"circuit_breaking_exception","reason":"[parent] Data too large"},"status":429}`),
			health, cluster.Unavailable,
			[]string{"HTTP 429", "Data too large", "more to do than it can"},
		},
		{
			"error as a plain text",
			says(400, asJSON, `{"error":"no handler found for uri [/_cluster/health] and method [GET]","status":400}`),
			health, cluster.Refused,
			[]string{"no handler found", "Check that the address"},
		},
		{
			"proxy cannot reach the cluster",
			says(502, asHTML, "<html><body>Bad Gateway</body></html>"),
			health, cluster.Unavailable,
			[]string{"HTTP 502", "web page", "cannot reach it"},
		},
		{
			"login page of a proxy",
			says(200, asHTML, "<!DOCTYPE html><html>Please log in</html>"),
			connect, cluster.Refused,
			[]string{"web page", "check the address"},
		},
		{
			"web page without a content type",
			says(200, "", "<html>hello</html>"),
			connect, cluster.Refused,
			[]string{"not an Elasticsearch or OpenSearch cluster"},
		},
		{
			"sent elsewhere",
			func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "https://sso.example.org/login?token=s3cret", http.StatusFound)
			},
			connect, cluster.Refused,
			[]string{"HTTP 302", "sends us on to https://sso.example.org:"},
		},
		{
			"some other JSON",
			says(200, asJSON, `{"service":"billing","version":"2.1"}`),
			connect, cluster.Refused,
			[]string{"names no version", "check the address"},
		},
		{
			"too old",
			says(200, asJSON, `{"cluster_name":"attic","cluster_uuid":"u","version":{"number":"6.8.23","build_flavor":"default"},"tagline":"You Know, for Search"}`),
			connect, cluster.Refused,
			[]string{"attic", "it runs Elasticsearch 6.8.23", "Supported are Elasticsearch 7 to 9"},
		},
		{
			"serverless",
			says(200, asJSON, `{"cluster_name":"s","version":{"number":"8.11.0","build_flavor":"serverless"},"tagline":"You Know, for Search"}`),
			connect, cluster.Refused,
			[]string{"serverless"},
		},
		{
			"a third product",
			says(200, asJSON, `{"cluster_name":"s","version":{"number":"8.11.0","distribution":"elsewhere"}}`),
			connect, cluster.Refused,
			[]string{`it is a "elsewhere"`},
		},
		{
			"cut off",
			func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "500")
				_, _ = io.WriteString(w, `{"status":"green","number_of_nodes":`)
			},
			health, cluster.Incomplete,
			[]string{"/_cluster/health", "at byte 35, /number_of_nodes: it ends in the middle"},
		},
		{
			"not JSON",
			says(200, asJSON, `{"status":green}`),
			health, cluster.Incomplete,
			[]string{"/_cluster/health", "at byte 10, /status"},
		},
		{
			"cut while compressed",
			func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Encoding", "gzip")
				z := gzip.NewWriter(w)
				_, _ = io.WriteString(z, `{"status":"green"`)
				_ = z.Flush()
			},
			health, cluster.Incomplete,
			[]string{"/_cluster/health", "it ends in the middle"},
		},
		{
			"refused move",
			says(400, asJSON, `{"error":{"type":"illegal_argument_exception","reason":"failed to resolve [b], no matching nodes"},"status":400}`),
			reroute, cluster.Rejected,
			[]string{"failed to resolve [b]", "The cluster did nothing"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := quick(t, Config{}, server(t, test.answer).URL)
			err := test.do(c)
			checkError(t, err, test.class, test.words...)
			if OutcomeUnknown(err) {
				t.Errorf("the outcome is said to be unknown: %v", err)
			}
		})
	}
}

func checkError(t *testing.T, err error, class cluster.Class, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	if got := cluster.ClassOf(err); got != class {
		t.Errorf("class %s, want %s: %v", got, class, err)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q is not in: %v", word, err)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("more than one line: %v", err)
	}
	t.Log(err)
}

func TestUnreachable(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := "http://" + closed.Addr().String()
	_ = closed.Close()

	t.Run("connection refused", func(t *testing.T) {
		_, err := quick(t, Config{}, gone).Connect(t.Context())
		checkError(t, err, cluster.Unavailable, gone, "connection refused", "Check host and port")
	})
	t.Run("unknown host", func(t *testing.T) {
		c := quick(t, Config{}, "http://no-such-host.invalid:9200") // not asked for real: tests stay on this machine
		dns := &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "no-such-host.invalid", IsNotFound: true}}
		err := c.failed(t.Context(), c.seeds[0], request{method: "GET", path: "/"}, dns)
		checkError(t, err, cluster.Unavailable, "no-such-host.invalid", "Check the host name")
	})
	t.Run("hangs", func(t *testing.T) {
		release := make(chan struct{})
		s := server(t, func(http.ResponseWriter, *http.Request) { <-release })
		t.Cleanup(func() { close(release) })
		_, err := quick(t, Config{Timeout: 30 * time.Millisecond}, s.URL).Connect(t.Context())
		checkError(t, err, cluster.Unavailable, "no answer within 30ms", "raise the timeout")
	})
	t.Run("hangs in the middle", func(t *testing.T) {
		release := make(chan struct{})
		s := server(t, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"status":`)
			w.(http.Flusher).Flush()
			<-release
		})
		t.Cleanup(func() { close(release) })
		_, err := quick(t, Config{Timeout: 50 * time.Millisecond}, s.URL).Health(t.Context())
		checkError(t, err, cluster.Unavailable, "no answer within 50ms")
	})
	t.Run("stopped from outside", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := server(t, func(_ http.ResponseWriter, r *http.Request) {
			cancel()
			<-r.Context().Done()
		})
		_, err := quick(t, Config{}, s.URL).Connect(ctx)
		checkError(t, err, cluster.Interrupted)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v is not a cancellation", err)
		}
	})
	t.Run("speaks TLS, asked without", func(t *testing.T) {
		s := httptest.NewUnstartedServer(http.NotFoundHandler())
		s.Config.ErrorLog = quiet
		s.StartTLS()
		t.Cleanup(s.Close)
		_, err := quick(t, Config{}, strings.Replace(s.URL, "https", "http", 1)).Connect(t.Context())
		checkError(t, err, cluster.Refused, "https://")
	})
	t.Run("asked with TLS, does not speak it", func(t *testing.T) {
		s := httptest.NewUnstartedServer(http.NotFoundHandler())
		s.Config.ErrorLog = quiet
		s.Start()
		t.Cleanup(s.Close)
		_, err := quick(t, Config{}, strings.Replace(s.URL, "http", "https", 1)).Connect(t.Context())
		checkError(t, err, cluster.Refused, "http://")
	})
	t.Run("speaks something else", func(t *testing.T) {
		other, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = other.Close() })
		go func() {
			for {
				c, err := other.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(c, "SSH-2.0-OpenSSH_9.2\r\n")
				_ = c.Close()
			}
		}()
		_, err = quick(t, Config{}, "http://"+other.Addr().String()).Connect(t.Context())
		if cluster.ClassOf(err) != cluster.Refused && cluster.ClassOf(err) != cluster.Unavailable {
			t.Errorf("class %s: %v", cluster.ClassOf(err), err)
		}
	})
}

// TestReadsAreRepeated shows which failures a read outlives, and how often the server was asked.
func TestReadsAreRepeated(t *testing.T) {
	const ok = `{"status":"green"}`
	for _, test := range []struct {
		name   string
		bad    http.HandlerFunc
		bads   int64 // how many bad answers come before good ones
		fails  bool
		asked  int64
		config Config
	}{
		{"429 once", says(429, asJSON, `{}`), 1, false, 2, Config{}},
		{"503 twice", says(503, asJSON, `{}`), 2, false, 3, Config{}},
		{"502 from a proxy", says(502, asHTML, `<html>`), 1, false, 2, Config{}},
		{"504", says(504, asHTML, `<html>`), 1, false, 2, Config{}},
		{"503 for good", says(503, asJSON, `{}`), 99, true, 3, Config{}},
		{"retries switched off", says(503, asJSON, `{}`), 99, true, 1, Config{ReadRetries: -1}},
		{"500 is not a matter of time", says(500, asJSON, `{}`), 1, true, 1, Config{}},
		{"nor is 401", says(401, asJSON, `{}`), 1, true, 1, Config{}},
		{"nor a broken answer", says(200, asJSON, `{"sta`), 1, true, 1, Config{}},
		{"connection closed", hangUp, 1, false, 2, Config{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var asked atomic.Int64
			s := server(t, func(w http.ResponseWriter, r *http.Request) {
				if asked.Add(1) <= test.bads {
					test.bad(w, r)
					return
				}
				says(200, asJSON, ok)(w, r)
			})
			c := quick(t, test.config, s.URL)
			_, err := c.Health(t.Context())
			if (err != nil) != test.fails {
				t.Errorf("error: %v", err)
			}
			if asked.Load() != test.asked {
				t.Errorf("asked %d times, want %d", asked.Load(), test.asked)
			}
			if got := c.Requests(); got.Reads != 1 || got.Retries != test.asked-1 && !test.fails {
				t.Errorf("counted %+v", got)
			}
		})
	}
}

func hangUp(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}

func TestRetryAfterIsHonoured(t *testing.T) {
	var asked atomic.Int64
	s := server(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		w.Header().Set("Retry-After", "3600")
		says(429, asJSON, `{}`)(w, r)
	})
	c := quick(t, Config{}, s.URL)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	// The pause would outlast the time given: the error comes at once, and the server is left alone.
	_, err := c.Health(ctx)
	checkError(t, err, cluster.Unavailable, "HTTP 429")
	if asked.Load() != 1 {
		t.Errorf("asked %d times", asked.Load())
	}
	if ctx.Err() != nil {
		t.Error("it waited")
	}
	for _, test := range []struct {
		header string
		want   time.Duration
	}{{"7", 7 * time.Second}, {"", 0}, {"-3", 0}, {"soon", 0}, {"Thu, 01 Jan 1970 00:00:00 GMT", 0}} {
		if got := retryAfter(http.Header{"Retry-After": {test.header}}); got != test.want {
			t.Errorf("Retry-After %q: %v, want %v", test.header, got, test.want)
		}
	}
	status := &StatusError{Status: 503, retryAfter: time.Hour}
	if pause, again := c.pause(status, 0); pause != longestPause || !again {
		t.Errorf("pause %v, %t", pause, again)
	}
}

// TestWritesAreSentOnce counts them at the server, whatever happens to the answer.
func TestWritesAreSentOnce(t *testing.T) {
	for _, test := range []struct {
		name    string
		answer  http.HandlerFunc
		unknown bool
	}{
		{"429", says(429, asJSON, `{}`), false},
		{"503", says(503, asJSON, `{}`), true},
		{"502", says(502, asHTML, `<html>`), true},
		{"500", says(500, asJSON, `{}`), true},
		{"400", says(400, asJSON, `{}`), false},
		{"answer lost", hangUp, true},
		{"answer cut", says(200, asJSON, `{"acknowledged":`), true},
		{"not confirmed and not explained", says(200, asJSON, `{"acknowledged":false,"explanations":[]}`), true},
		{"answer of something else", says(200, asHTML, `<html>`), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			var asked atomic.Int64
			answer := func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/_cluster/health" {
					says(200, asJSON, `{"status":"green"}`)(w, r)
					return
				}
				asked.Add(1)
				_, _ = io.Copy(io.Discard, r.Body)
				test.answer(w, r)
			}
			c := quick(t, Config{}, server(t, answer).URL, server(t, answer).URL)
			// A connection that was used before is what an HTTP library may repeat a request on.
			if _, err := c.Health(t.Context()); err != nil {
				t.Fatal(err)
			}
			_, err := c.Reroute(t.Context(), cluster.Product{}, []Move{{"logs", 0, "a", "b"}})
			if err == nil {
				t.Fatal("no error")
			}
			if asked.Load() != 1 {
				t.Errorf("sent %d times", asked.Load())
			}
			if OutcomeUnknown(err) != test.unknown {
				t.Errorf("outcome unknown: %t, want %t: %v", OutcomeUnknown(err), test.unknown, err)
			}
			if c.Requests().Writes != 1 {
				t.Errorf("counted %+v", c.Requests())
			}
		})
	}
	t.Run("time is up", func(t *testing.T) {
		var asked atomic.Int64
		release := make(chan struct{})
		s := server(t, func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			asked.Add(1)
			<-release
		})
		t.Cleanup(func() { close(release) })
		c := quick(t, Config{Timeout: 50 * time.Millisecond}, s.URL)
		err := c.PutSettings(t.Context(), map[string]any{"a": nil})
		checkError(t, err, cluster.Unavailable, "PUT ", "/_cluster/settings", "may have been applied")
		if !OutcomeUnknown(err) || asked.Load() != 1 {
			t.Errorf("unknown %t, sent %d times", OutcomeUnknown(err), asked.Load())
		}
	})
	t.Run("never left", func(t *testing.T) {
		s := httptest.NewServer(http.NotFoundHandler())
		s.Close()
		err := quick(t, Config{}, s.URL).PutSettings(t.Context(), map[string]any{"a": 1})
		checkError(t, err, cluster.Unavailable, "connection refused")
		if OutcomeUnknown(err) {
			t.Error("nothing was sent, and the outcome is unknown")
		}
	})
}

// TestSeeds shows that reads find a node that answers, that they stay with it, and that writes follow them.
func TestSeeds(t *testing.T) {
	dead := httptest.NewServer(http.NotFoundHandler())
	dead.Close()
	var asked, written atomic.Int64
	live := server(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			written.Add(1)
		}
		asked.Add(1)
		says(200, asJSON, `{"status":"green","acknowledged":true}`)(w, r)
	})
	c := quick(t, Config{}, dead.URL, live.URL)
	err := c.PutSettings(t.Context(), map[string]any{"a": 1})
	if err == nil || OutcomeUnknown(err) {
		t.Errorf("the first seed is dead, and a write goes to one address: %v", err)
	}
	for range 3 {
		if _, err := c.Health(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.PutSettings(t.Context(), map[string]any{"a": 1}); err != nil {
		t.Error(err)
	}
	if asked.Load() != 4 || written.Load() != 1 {
		t.Errorf("asked %d times, %d of them writes", asked.Load(), written.Load())
	}
	if got := c.Requests(); got.Failures != 1 {
		t.Errorf("counted %+v: the dead seed is left alone once another answered", got)
	}
}

// TestEnvironment sets every variable with which opensearch-go lets itself be steered, and expects nothing of it.
func TestEnvironment(t *testing.T) {
	for name, value := range map[string]string{
		"OPENSEARCH_URL": "http://127.0.0.1:1", "OPENSEARCH_GO_ROUTER": "true", "OPENSEARCH_GO_REQUEST_TIMEOUT": "1ns",
		"OPENSEARCH_GO_NODE_STATS_INTERVAL": "10ms", "OPENSEARCH_GO_FALLBACK": "true",
		"OPENSEARCH_GO_DISCOVERY_CONFIG": "all", "OPENSEARCH_GO_ROUTING_CONFIG": "all", "OPENSEARCH_GO_ACTIVE_LIST_CAP": "1",
		"OPENSEARCH_GO_SHARD_COST": "nonsense",
	} {
		t.Setenv(name, value)
	}
	var asked atomic.Int64
	s := server(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if got := r.Header.Get("X-Opaque-Id"); got != "shardonnay" {
			t.Errorf("X-Opaque-Id is %q", got)
		}
		says(200, asJSON, `{"status":"green"}`)(w, r)
	})
	c := quick(t, Config{}, s.URL)
	if _, err := c.Health(t.Context()); err != nil {
		t.Fatal(err)
	}
	if asked.Load() != 1 {
		t.Errorf("asked %d times", asked.Load())
	}
	if os.Getenv("OPENSEARCH_GO_ROUTER") != "true" {
		t.Error("the environment was not put back")
	}
}

func TestGzip(t *testing.T) {
	s := server(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "gzip" {
			t.Errorf("asked for %q", r.Header.Get("Accept-Encoding"))
		}
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		fmt.Fprintf(z, `{"status":"green","filler":%q}`, strings.Repeat("x", 100_000))
		_ = z.Close()
	})
	c := quick(t, Config{}, s.URL)
	if _, err := c.Health(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := c.Requests().BytesReceived; got <= 0 || got > 5_000 {
		t.Errorf("%d bytes came over the wire", got)
	}
}

func TestHealthWaitUnmetIsNoError(t *testing.T) {
	s := server(t, says(408, asJSON, `{"status":"yellow","timed_out":true}`))
	c := quick(t, Config{}, s.URL)
	var answer struct {
		TimedOut bool `json:"timed_out"`
	}
	query := map[string][]string{"wait_for_status": {"green"}}
	if err := c.ReadJSON(t.Context(), "/_cluster/health", query, &answer); err != nil || !answer.TimedOut {
		t.Errorf("%v, timed out %t", err, answer.TimedOut)
	}
	if err := c.ReadJSON(t.Context(), "/_cluster/state", nil, &answer); err == nil {
		t.Error("elsewhere a 408 is an error")
	}
}

func TestHealthWithoutMaster(t *testing.T) {
	s := server(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("local") == "true" {
			says(200, asJSON, `{"status":"red","number_of_nodes":3,"discovered_master":false}`)(w, r)
			return
		}
		says(503, asJSON, `{"error":{"type":"master_not_discovered_exception","reason":null},"status":503}`)(w, r)
	})
	health, err := quick(t, Config{}, s.URL).Health(t.Context())
	if err != nil || health.HasMaster || health.Status != "red" {
		t.Errorf("%+v, %v", health, err)
	}
}

// TestCloseLeavesNothing makes and closes many clients: no goroutine of theirs outlives them.
func TestCloseLeavesNothing(t *testing.T) {
	s := server(t, says(200, asJSON, green))
	before := runtime.NumGoroutine()
	for range 20 {
		c, err := New(Config{Addresses: []string{s.URL, s.URL, s.URL}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Health(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s.CloseClientConnections()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	tooLate := time.After(10 * time.Second)
	for runtime.NumGoroutine() > before+2 {
		select {
		case <-again.C:
		case <-tooLate:
			t.Fatalf("%d goroutines before, %d after", before, runtime.NumGoroutine())
		}
	}
}
