package observability

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/model"
)

// server is a real Prometheus that scrapes and evaluates every second.
type server struct {
	url     string
	targets string // folder: a file there is a job
}

// startPrometheus starts one with the rules of a file; none where it is empty.
func startPrometheus(t *testing.T, rules string) *server {
	t.Helper()
	dir := t.TempDir()
	targets := filepath.Join(dir, "targets")
	if err := os.Mkdir(targets, 0o755); err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf("global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\n"+
		"scrape_configs: [{job_name: none, file_sd_configs: [{files: ['%s/*.json'], refresh_interval: 5s}]}]\n", targets)
	if rules != "" {
		config += fmt.Sprintf("rule_files: ['%s']\n", rules)
	}
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, nil, "prometheus", "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address=127.0.0.1:0")
	t.Cleanup(func() { p.end(syscall.SIGTERM) })
	address := p.says(t, `msg="Listening on" address=(\S+)`)
	p.says(t, `msg="(Server is ready to receive web requests)`)
	return &server{url: "http://" + address, targets: targets}
}

// ask asks its API for the data of an answer.
func (s *server) ask(t *testing.T, path string, query url.Values, into any) {
	t.Helper()
	answer, err := http.Get(s.url + "/api/v1/" + path + "?" + query.Encode())
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var body struct {
		Status, Error string
		Warnings      []string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(answer.Body).Decode(&body); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if body.Status != "success" || len(body.Warnings) > 0 {
		t.Fatalf("%s %v: %s %v", path, query, body.Error, body.Warnings)
	}
	if err := json.Unmarshal(body.Data, into); err != nil {
		t.Fatalf("%s %v: %v", path, query, err)
	}
}

// scrape adds a job with its targets.
func (s *server) scrape(t *testing.T, job string, urls ...string) {
	t.Helper()
	var targets []string
	for _, url := range urls {
		targets = append(targets, strings.TrimPrefix(url, "http://"))
	}
	group := []map[string]any{{"targets": targets, "labels": map[string]string{"job": job}}}
	content, err := json.Marshal(group)
	if err != nil {
		t.Fatal(err)
	}
	whole := filepath.Join(s.targets, job+".json")
	part := strings.TrimSuffix(whole, "json") + "part"
	if err := os.WriteFile(part, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(part, whole); err != nil { // so that it is never read half written
		t.Fatal(err)
	}
}

// now evaluates an expression.
func (s *server) now(t *testing.T, expr string) model.Vector {
	t.Helper()
	var data struct{ Result model.Vector }
	s.ask(t, "query", url.Values{"query": {expr}}, &data)
	return data.Result
}

// span is the time a panel shows here: all of the demo.
const span = 2 * time.Minute

// over evaluates it for each second of the last span.
func (s *server) over(t *testing.T, expr string) model.Matrix {
	t.Helper()
	var data struct{ Result model.Matrix }
	at := time.Now()
	s.ask(t, "query_range", url.Values{"query": {expr}, "start": {stamp(at.Add(-span))}, "end": {stamp(at)}, "step": {"1"}}, &data)
	return data.Result
}

func stamp(t time.Time) string { return fmt.Sprintf("%d.%03d", t.Unix(), t.Nanosecond()/1e6) }

// await waits until an expression returns something.
func (s *server) await(t *testing.T, expr string) {
	t.Helper()
	until(t, expr, func() bool { return len(s.now(t, expr)) > 0 })
}

// until asks again and again whether something is so.
func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	const patience = 3 * time.Minute
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(patience); !so(); {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", patience, what)
		}
		select {
		case <-again.C:
		case <-t.Context().Done():
			t.Fatal(what)
		}
	}
}
