package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shardonnay/shardonnay/internal/plan"
	"github.com/shardonnay/shardonnay/internal/sim"
)

// TestBadDays: everything that can be wrong with a cluster or with us gives the exit code of the contract and one sentence
// that names the thing and the cure, and nothing is changed.
func TestBadDays(t *testing.T) {
	quick := file(t, "quick.yaml", "connection:\n  read_retries: 1\n  timeout: 5s\nsampling:\n  window: 1s\n")
	for _, c := range []struct {
		name   string
		config sim.Config
		serve  sim.Options
		before func(*sim.Cluster)
		args   []string
		env    string // the password
		code   int
		words  []string
	}{
		{name: "a good day", code: 0},
		{
			name: "wrong password", config: sim.Config{Auth: &sim.Auth{User: "u", Password: "right"}}, args: []string{"--username", "u"},
			env: "wrong", code: 3, words: []string{"401", "password"},
		},
		{name: "unsupported version", config: sim.Config{Distribution: sim.Elasticsearch, Version: "6.8.23"}, code: 3, words: []string{"6.8.23", "7"}},
		{
			name: "an answer that is cut", before: func(c *sim.Cluster) { c.Inject(sim.Fault{Kind: sim.FaultCut, Path: "/_nodes*stats*"}) },
			code: 4, words: []string{"_nodes"},
		},
		{
			name: "an answer that is not JSON", before: func(c *sim.Cluster) { c.Inject(sim.Fault{Kind: sim.FaultGarbage, Path: "/_cluster/state*"}) },
			code: 4, words: []string{"_cluster/state"},
		},
		{
			name: "HTML from a proxy", before: func(c *sim.Cluster) { c.Inject(sim.Fault{Kind: sim.FaultHTML}) },
			code: 3, words: []string{"web page"},
		},
		{name: "a node that does not answer", before: func(c *sim.Cluster) { c.Mute("n2", true) }, code: 4, words: []string{"n2"}},
		{
			name: "too many requests for good", before: func(c *sim.Cluster) { c.Inject(sim.Fault{Kind: sim.FaultStatus, Status: 429}) },
			code: 3, words: []string{"429"},
		},
		{
			name: "too many requests once", before: func(c *sim.Cluster) {
				c.Inject(sim.Fault{Kind: sim.FaultStatus, Status: 429, Path: "/_cluster/state*", Count: 1})
			},
			code: 0,
		},
		{
			name: "unavailable", before: func(c *sim.Cluster) { c.Inject(sim.Fault{Kind: sim.FaultStatus, Status: 503, Path: "/_cluster/*"}) },
			code: 3, words: []string{"503"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.env != "" {
				t.Setenv("SHARDONNAY_CONNECTION_PASSWORD", c.env)
			}
			virtual := lopsided(t, c.config)
			url := serve(t, virtual, c.serve)
			if c.before != nil {
				c.before(virtual)
			}
			version := virtual.Version()
			got := execute(t, append([]string{"plan", "--config", quick, "--address", url, "--one-sample"}, c.args...)...)
			got.expect(t, c.code, c.words...)
			if c.env != "" && strings.Contains(got.stderr, c.env) {
				t.Error("the message shows the password")
			}
			if virtual.Version() != version {
				t.Error("the cluster has changed")
			}
			if c.code == 0 && !strings.Contains(got.stdout, "n1") {
				t.Errorf("the plan does not name the hot node:\n%s", got.stdout)
			}
		})
	}
}

func TestUnreachable(t *testing.T) {
	execute(t, "plan", "--address", "http://127.0.0.1:1", "--one-sample").expect(t, 3, "127.0.0.1:1", "refused")
	execute(t, "plan", "--address", "http://name.invalid:9200", "--one-sample").expect(t, 3, "name.invalid")
}

func TestNotASearchCluster(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]string{"hello": "world"})
	}))
	defer other.Close()
	execute(t, "plan", "--address", other.URL, "--one-sample").expect(t, 3, "not")
}

func TestWrongCertificate(t *testing.T) {
	secure := httptest.NewTLSServer(lopsided(t, sim.Config{}).Handler())
	defer secure.Close()
	execute(t, "plan", "--address", secure.URL, "--one-sample").expect(t, 3, "certificate")
}

func TestBadConfiguration(t *testing.T) {
	unknown := file(t, "c.yaml", "mode: dry-run\nbalanz:\n  tolerance: 0.05\n")
	execute(t, "plan", "--config", unknown).expect(t, 2, "balanz")
	impossible := file(t, "c.yaml", "mode: sideways\nbalance:\n  tolerance: 3\n")
	execute(t, "plan", "--config", impossible).expect(t, 2, "sideways", "balance.tolerance", "2 faults")
	secret := file(t, "c.yaml", "connection:\n  username: u\n  password_file: /does/not/exist\n")
	execute(t, "plan", "--config", secret).expect(t, 2, "/does/not/exist")
	execute(t, "plan", "--config", "/does/not/exist.yaml").expect(t, 2, "/does/not/exist.yaml")
	execute(t, "plan", "--nonsense").expect(t, 2, "nonsense", "--help")
	execute(t, "nonsense").expect(t, 2, "nonsense")
	execute(t, "apply").expect(t, 2, "arg")
	execute(t, "solve", "/does/not/exist.json").expect(t, 2, "/does/not/exist.json")
	execute(t, "solve", file(t, "p.json", `{"version":7}`)).expect(t, 2, "version is 7")
	execute(t, "bench", "solver", "--variant", "windy").expect(t, 2, "windy", "tight-disks")
	execute(t, "simulate", file(t, "s.txt", "nonsense\n")).expect(t, 2, "nonsense")
	execute(t, "plan", "--capture", t.TempDir()).expect(t, 4, "version.json")
}

// TestPlansThatNoLongerFit: for another cluster, expired, or with a copy that has moved: exit code 6, nothing changed.
func TestPlansThatNoLongerFit(t *testing.T) {
	virtual := lopsided(t, sim.Config{})
	url := serve(t, virtual, sim.Options{Speed: 100})
	config := file(t, "c.yaml", "pin:\n  newest: false\n  write_share: 0\nstop:\n  node_settle: 0s\n")
	saved := filepath.Join(t.TempDir(), "plan.json")
	made := execute(t, "plan", "--config", config, "--address", url, "--one-sample", "--save", saved, "--detailed-exit-code")
	made.expect(t, 10)
	change := func(change func(*plan.Plan)) string {
		t.Helper()
		content, err := os.ReadFile(saved)
		if err != nil {
			t.Fatal(err)
		}
		p, err := plan.Read(strings.NewReader(string(content)))
		if err != nil {
			t.Fatal(err)
		}
		change(p)
		var out strings.Builder
		if err := p.Write(&out); err != nil {
			t.Fatal(err)
		}
		return file(t, "changed.json", out.String())
	}
	version := virtual.Version()
	other := change(func(p *plan.Plan) { p.Cluster.UUID = "another" })
	execute(t, "apply", other, "--address", url, "--yes").expect(t, 6, "another")
	expired := change(func(p *plan.Plan) { p.ExpiresAt = time.Now().Add(-time.Minute) })
	execute(t, "apply", expired, "--address", url, "--yes").expect(t, 6, "expired")
	if virtual.Version() != version {
		t.Error("the cluster has changed")
	}
	gone := change(func(p *plan.Plan) {
		for i := range p.Moves {
			p.Moves[i].AllocationID = fmt.Sprintf("no-longer-there-%d", i)
		}
	})
	tally := virtual.Tally()
	execute(t, "apply", gone, "--config", config, "--address", url, "--yes").expect(t, 6, "no longer")
	if now := virtual.Tally(); now.Moves != tally.Moves || now.Refused != tally.Refused {
		t.Errorf("moves were asked for: %+v", now)
	}
	if got := virtual.Setting("cluster.routing.rebalance.enable"); got != "none" {
		t.Errorf("cluster.routing.rebalance.enable is %q", got)
	}
	execute(t, "apply", file(t, "p.json", "{"), "--address", url, "--yes").expect(t, 2, "p.json")

	execute(t, "apply", saved, "--config", config, "--address", url, "--yes").expect(t, 0)
	if tally := virtual.Tally(); tally.Landed == 0 || tally.Refused > 0 {
		t.Errorf("apply: %+v", tally)
	}
}

// TestApplyBesideAnothersMove: a move that was under way when a plan is applied is watched, and is none of the plan's.
func TestApplyBesideAnothersMove(t *testing.T) {
	virtual := lopsided(t, sim.Config{})
	url := serve(t, virtual, sim.Options{Speed: 10})
	config := file(t, "c.yaml", "pin:\n  newest: false\n  write_share: 0\nstop:\n  node_settle: 0s\n")
	saved := filepath.Join(t.TempDir(), "plan.json")
	execute(t, "plan", "--config", config, "--address", url, "--one-sample", "--max-moves", "1", "--save", saved, "--detailed-exit-code").expect(t, 10)
	content, err := os.ReadFile(saved)
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Read(strings.NewReader(string(content)))
	if err != nil || len(p.Moves) != 1 {
		t.Fatalf("a plan of one move was asked for: %v", err)
	}
	other := "a"
	if p.Moves[0].Index == other {
		other = "b"
	}
	if err := virtual.Move(other, 0, "n1", "n2"); err != nil {
		t.Fatal(err)
	}
	applied := execute(t, "apply", saved, "--config", config, "--address", url, "--yes")
	applied.expect(t, 0)
	if !strings.Contains(applied.stdout, "1 of 1 moves landed") || !strings.Contains(applied.stdout, "beside the plan: "+other+"/0 from n1 to n2") {
		t.Errorf("apply says %q", applied.stdout)
	}
}

// TestManagedService: a service that refuses reroute is told apart by doctor, and apply says what is left.
func TestManagedService(t *testing.T) {
	virtual := lopsided(t, sim.Config{Managed: true})
	url := serve(t, virtual, sim.Options{Speed: 100})
	got := execute(t, "doctor", "--address", url)
	if got.code != 1 || !strings.Contains(got.stdout, "reroute-refused") {
		t.Errorf("doctor: %d\n%s", got.code, got.stdout)
	}
}
