package main

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"github.com/shardonnay/shardonnay/internal/config"
	"github.com/shardonnay/shardonnay/internal/history"
	"github.com/shardonnay/shardonnay/internal/sim"
	"github.com/shardonnay/shardonnay/internal/zones"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files of what commands print")

// golden compares what a command printed with a file, times and what runs this test aside.
func golden(t *testing.T, name string, r result) {
	t.Helper()
	got := r.stdout
	if r.stderr != "" {
		got += "stderr: " + r.stderr + "\n"
	}
	got = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+(Z|[+-]\d\d:\d\d)`).ReplaceAllString(got, "TIME")
	got = strings.ReplaceAll(got, person(&config.Config{}), "PERSON")
	path := filepath.Join("testdata", "zones", name+".txt")
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s; go test ./cmd/shardonnay -rewrite writes it:\n%s", path, diff)
	}
}

// zoned is a simulated cluster of three zones with two nodes each and a copy of everything in every zone, but for what
// extra adds.
func zoned(t *testing.T, c sim.Config, extra ...sim.IndexSpec) *sim.Cluster {
	t.Helper()
	c.Seed = 7
	c.Settings = map[string]string{
		"cluster.routing.allocation.awareness.attributes":        "zone",
		"cluster.routing.allocation.awareness.force.zone.values": "a,b,c",
		"discovery.find_peers_interval_during_decommission":      "1s",
	}
	virtual := sim.New(c)
	for _, name := range []string{"a1", "a2", "b1", "b2", "c1", "c2"} {
		if _, err := virtual.AddNode(sim.NodeSpec{Name: name, Processors: 4, Attributes: map[string]string{"zone": name[:1]}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, index := range append([]sim.IndexSpec{{Name: "logs", Shards: 3, Replicas: 2, Bytes: 3 << 30, Search: 1, Age: 48 * time.Hour}}, extra...) {
		if err := virtual.AddIndex(index); err != nil {
			t.Fatal(err)
		}
	}
	if left := virtual.Settle(); left > 0 {
		t.Fatalf("%d copies have no place", left)
	}
	virtual.Advance(time.Hour)
	return virtual
}

// serveZoned answers for it, each node at an address of its own.
func serveZoned(t *testing.T, virtual *sim.Cluster) string {
	t.Helper()
	return serve(t, virtual, sim.Options{Speed: 1, PerNode: true})
}

// weigh gives the zones of a cluster their roles.
func weigh(t *testing.T, url string, weights map[string]float64) {
	t.Helper()
	c := config.Default()
	c.Connection.Addresses = []string{url}
	s, err := connect(t.Context(), &c)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if err := s.client.PutZoneWeights(t.Context(), "zone", weights, -1); err != nil {
		t.Fatal(err)
	}
}

// weightsOf are the weights of a cluster, with their version.
func weightsOf(t *testing.T, url string) (map[string]float64, int64) {
	t.Helper()
	c := config.Default()
	c.Connection.Addresses = []string{url}
	s, err := connect(t.Context(), &c)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	state, err := s.client.ZoneState(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	return state.Weights.Values, state.Weights.Version
}

// nothingLeft looks that no order and no record is left in the cluster's settings.
func nothingLeft(t *testing.T, virtual *sim.Cluster, keys ...string) {
	t.Helper()
	for _, key := range keys {
		if value := virtual.Setting(key); value != "" {
			t.Errorf("%s is left behind: %s", key, value)
		}
	}
}

// quick is a configuration in which a round is a second.
const quick = "zones:\n  round: 1s\n"

// TestZonesReports: what a person sees of a cluster before any daemon has run its zones, of one with its roles, and of one
// that could not lose each of its zones.
func TestZonesReports(t *testing.T) {
	whole := serveZoned(t, zoned(t, sim.Config{}))
	ready := serveZoned(t, zoned(t, sim.Config{}))
	weigh(t, ready, map[string]float64{"a": 1, "b": 1, "c": 0})
	lame := serveZoned(t, zoned(t, sim.Config{}, sim.IndexSpec{Name: "once", Shards: 2, Bytes: 1 << 20, Age: time.Hour, Settings: map[string]string{"index.routing.allocation.include._name": "a1"}},
		sim.IndexSpec{Name: "twice", Shards: 2, Replicas: 1, Bytes: 1 << 20, Age: time.Hour}))
	weigh(t, lame, map[string]float64{"a": 1, "b": 1, "c": 0})
	for _, story := range []struct {
		name, url string
		code      int
		args      []string
	}{
		{"status-without-weights", whole, 0, []string{"status"}},
		{"audit", whole, 0, []string{"audit", "--window", "0"}},
		{"rehearse-without-weights", whole, 0, []string{"rehearse", "a", "--window", "0"}},
		{"status", ready, 0, []string{"status"}},
		{"rehearse", ready, 0, []string{"rehearse", "--window", "0"}},
		{"audit-lame", lame, 1, []string{"audit", "--window", "0"}},
		{"rehearse-lame", lame, 0, []string{"rehearse", "a", "--window", "0"}},
		{"rotate-preview", ready, 2, []string{"rotate"}},
		{"rotate-refused", lame, 1, []string{"rotate", "--yes"}},
		{"failover-preview", ready, 2, []string{"failover", "a"}},
		{"failover-of-the-standby", ready, 1, []string{"failover", "c", "--yes"}},
		{"out-preview", ready, 2, []string{"failover", "b", "--out"}},
		{"out-refused", lame, 1, []string{"failover", "a", "--out", "--yes"}},
		{"no-such-zone", ready, 1, []string{"failover", "x", "--yes"}},
		{"hold-preview", ready, 2, []string{"hold", "--reason", "work"}},
		{"pin-preview", ready, 2, []string{"pin", "b"}},
		{"pin-nothing", ready, 2, []string{"pin"}},
		{"pin-stranger", ready, 1, []string{"pin", "x", "--yes"}},
		{"resume-nothing", ready, 1, []string{"resume", "--yes"}},
		{"abort-nothing", ready, 1, []string{"abort", "--yes"}},
		{"recommission-nothing", ready, 1, []string{"recommission", "--yes"}},
		{"release-without-journal", ready, 1, []string{"release", "a", "--yes"}},
	} {
		t.Run(story.name, func(t *testing.T) {
			r := execute(t, append([]string{"zones"}, append(story.args, "--address", story.url)...)...)
			if r.code != story.code {
				t.Errorf("exit code %d, want %d", r.code, story.code)
			}
			golden(t, story.name, r)
		})
	}
	if weights, version := weightsOf(t, ready); version != 0 || weights["c"] != 0 {
		t.Errorf("what was only shown has changed something: %v at version %d", weights, version)
	}
}

// TestZonesOnOtherProducts: status says why nothing can be steered and is no failure, orders are refused, and an audit and a
// rehearsal are made as far as they can be, with what a person could do by hand.
func TestZonesOnOtherProducts(t *testing.T) {
	for _, product := range []sim.Config{
		{Distribution: "elasticsearch", Version: "8.17.1"}, {Distribution: "opensearch", Version: "2.5.0"},
	} {
		url := serveZoned(t, zoned(t, product))
		for _, story := range []struct {
			name string
			code int
			args []string
		}{
			{"status", 0, []string{"status"}},
			{"audit", 0, []string{"audit", "--window", "0"}},
			{"rehearse", 0, []string{"rehearse", "b", "--window", "0"}},
			{"rotate", 1, []string{"rotate", "--yes"}},
			{"hold", 1, []string{"hold", "--yes"}},
			{"out", 1, []string{"failover", "b", "--out", "--yes"}},
		} {
			t.Run(product.Distribution+"-"+story.name, func(t *testing.T) {
				r := execute(t, append([]string{"zones"}, append(story.args, "--address", url)...)...)
				if r.code != story.code {
					t.Errorf("exit code %d, want %d", r.code, story.code)
				}
				golden(t, product.Distribution+"-"+story.name, r)
			})
		}
	}
}

// TestZonesJSON: machines get the same.
func TestZonesJSON(t *testing.T) {
	url := serveZoned(t, zoned(t, sim.Config{}))
	weigh(t, url, map[string]float64{"a": 1, "b": 1, "c": 0})
	ask := func(code int, args ...string) map[string]any {
		t.Helper()
		r := execute(t, append([]string{"zones"}, append(args, "--address", url, "-o", "json")...)...)
		if r.code != code {
			t.Fatalf("%v: exit code %d: %s", args, r.code, r.stderr)
		}
		var answer map[string]any
		if err := json.Unmarshal([]byte(r.stdout), &answer); err != nil || answer["version"] != 1.0 {
			t.Fatalf("%v: %v\n%s", args, err, r.stdout)
		}
		return answer
	}
	status := ask(0, "status")["status"].(map[string]any)
	if len(status["zones"].([]any)) != 3 || status["weights_version"] != 0.0 {
		t.Errorf("status: %v", status)
	}
	if audit := ask(0, "audit", "--window", "0"); audit["ok"] != true {
		t.Errorf("audit: %v", audit)
	}
	if zones := ask(0, "rehearse", "b", "--window", "0")["rehearsal"].(map[string]any)["zones"].([]any); len(zones) != 1 {
		t.Errorf("rehearse: %v", zones)
	}
	preview := ask(2, "failover", "a")
	if p := preview["preview"].(map[string]any); preview["done"] != false || p["possible"] != true || len(p["requests"].([]any)) != 1 {
		t.Errorf("failover: %v", preview)
	}
}

// TestZonesByThemselves: without a daemon a command carries its order out itself, and leaves nothing behind.
func TestZonesByThemselves(t *testing.T) {
	virtual := zoned(t, sim.Config{})
	url := serveZoned(t, virtual)
	weigh(t, url, map[string]float64{"a": 1, "b": 1, "c": 0})
	settings := file(t, "c.yaml", quick)
	run := func(code int, args ...string) result {
		t.Helper()
		r := execute(t, append([]string{"zones"}, append(args, "--address", url, "--config", settings)...)...)
		if r.code != code {
			t.Fatalf("%v: exit code %d, want %d: %s%s", args, r.code, code, r.stdout, r.stderr)
		}
		nothingLeft(t, virtual, zones.OrderKey, zones.OwnerKey)
		return r
	}
	if r := run(0, "rotate", "--yes"); !strings.Contains(r.stdout, "zone c serves and zone a stands by") {
		t.Errorf("rotate: %s", r.stdout)
	}
	if weights, version := weightsOf(t, url); version != 1 || !cmp.Equal(weights, map[string]float64{"a": 0, "b": 1, "c": 1}) {
		t.Errorf("%v at version %d", weights, version)
	}
	if r := run(0, "failover", "b", "--yes", "--reason", "a drill"); !strings.Contains(r.stdout, "searches leave zone b") {
		t.Errorf("failover: %s", r.stdout)
	}
	if weights, version := weightsOf(t, url); version != 2 || !cmp.Equal(weights, map[string]float64{"a": 1, "b": 0, "c": 1}) {
		t.Errorf("%v at version %d", weights, version)
	}
	run(0, "hold", "--yes", "--reason", "work")
	if r := run(0, "status"); !strings.Contains(r.stdout, "held by "+person(&config.Config{})) || !strings.Contains(r.stdout, ": work") {
		t.Errorf("status: %s", r.stdout)
	}
	run(1, "rotate", "--yes")
	run(1, "hold", "--yes")
	run(0, "resume", "--yes")
	nothingLeft(t, virtual, zones.HoldKey)
	run(0, "pin", "c", "--yes")
	if pin := virtual.Setting(zones.PinKey); pin != "c" {
		t.Errorf("the pin is %q", pin)
	}
	run(0, "pin", "--off", "--yes")
	nothingLeft(t, virtual, zones.PinKey)
}

// byThemselves runs commands about zones where no daemon does, and looks that each ends as it should and leaves nothing.
func byThemselves(t *testing.T, virtual *sim.Cluster, url string) func(code int, args ...string) string {
	settings := file(t, "c.yaml", quick+"  drain: 1s\n")
	return func(code int, args ...string) string {
		t.Helper()
		r := execute(t, append([]string{"zones"}, append(args, "--address", url, "--config", settings)...)...)
		if r.code != code {
			t.Fatalf("%v: exit code %d, want %d: %s%s", args, r.code, code, r.stdout, r.stderr)
		}
		nothingLeft(t, virtual, zones.OrderKey, zones.OwnerKey)
		return r.stdout + r.stderr
	}
}

// TestAZoneOutAndBack: without a daemon, a zone with the leader in it is taken out by one command and let back by another
// that knows nothing of the first.
func TestAZoneOutAndBack(t *testing.T) {
	virtual := zoned(t, sim.Config{})
	url := serveZoned(t, virtual)
	weigh(t, url, map[string]float64{"a": 1, "b": 1, "c": 0})
	run := byThemselves(t, virtual, url)
	if text := run(0, "status"); !strings.Contains(text, "well, leads") {
		t.Fatalf("nobody leads from a zone: %s", text)
	}
	run(0, "failover", "a", "--out", "--yes")
	text := run(0, "status")
	for _, word := range []string{"a zone is decommissioned: SUCCESSFUL", "version 1", "│ a    │ out    │ 0      │ missing     │ none   │"} {
		if !strings.Contains(text, word) {
			t.Errorf("out, and the status does not say %q:\n%s", word, text)
		}
	}
	if text := run(1, "audit", "--window", "0"); !strings.Contains(text, "no data node is in zone a") {
		t.Errorf("audit: %s", text)
	}
	if text := run(1, "rotate", "--yes"); !strings.Contains(text, "zone") {
		t.Errorf("rotate: %s", text)
	}
	run(0, "recommission", "--yes")
	if text := run(0, "status"); strings.Contains(text, "decommissioned") || !strings.Contains(text, "2 of 2 │       3 │          0") {
		t.Errorf("back: %s", text)
	}
	if weights, _ := weightsOf(t, url); !cmp.Equal(weights, map[string]float64{"a": 0, "b": 1, "c": 1}) {
		t.Errorf("back with the weights %v", weights)
	}
}

// TestAZoneFencedAndBack: the same for a zone whose nodes stay in the cluster and give their copies up.
func TestAZoneFencedAndBack(t *testing.T) {
	virtual := zoned(t, sim.Config{})
	url := serveZoned(t, virtual)
	weigh(t, url, map[string]float64{"a": 1, "b": 1, "c": 0})
	run := byThemselves(t, virtual, url)
	run(2, "failover", "a", "--soft", "--yes")
	if text := run(2, "failover", "a", "--out", "--soft"); !strings.Contains(text, "cluster.routing.allocation.exclude.zone") || !strings.Contains(text, "cancel") {
		t.Errorf("the preview does not show the requests:\n%s", text)
	}
	run(0, "failover", "a", "--out", "--soft", "--yes")
	if status, filter := virtual.Status(), virtual.Setting("cluster.routing.allocation.exclude.zone"); status != "yellow" || filter != "a" {
		t.Errorf("fenced, the cluster is %s and excludes %q", status, filter)
	}
	run(0, "recommission", "--yes")
	if status, filter := virtual.Status(), virtual.Setting("cluster.routing.allocation.exclude.zone"); status != "green" || filter != "" {
		t.Errorf("back, the cluster is %s and excludes %q", status, filter)
	}
}

// TestZonesByTheDaemon: orders are carried out by the daemon that runs the zones, whatever command line gives them.
func TestZonesByTheDaemon(t *testing.T) {
	virtual := zoned(t, sim.Config{})
	url := serveZoned(t, virtual)
	c := config.Default()
	c.Connection.Addresses, c.Ownership.Holder = []string{url}, "the-daemon"
	c.Zones.Mode, c.Zones.Round, c.Zones.Rotation, c.Zones.ClearAfter = "act", time.Second, 0, time.Second
	s, err := connect(t.Context(), &c)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	begin := func(mode string) (stop func()) {
		c.Zones.Mode = mode
		d, err := newDaemon(s, func() *config.Config { return &c }, history.New(), "", zap.NewNop(), nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			d.zones.run(ctx)
		}()
		return func() { cancel(); <-ended }
	}
	settings := file(t, "c.yaml", quick)
	run := func(code int, args ...string) string {
		t.Helper()
		r := execute(t, append([]string{"zones"}, append(args, "--address", url, "--config", settings)...)...)
		if r.code != code {
			t.Fatalf("%v: exit code %d, want %d: %s%s", args, r.code, code, r.stdout, r.stderr)
		}
		nothingLeft(t, virtual, zones.OrderKey)
		return r.stdout + r.stderr
	}
	// until repeats a look at the status until it says something.
	until := func(words ...string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		again := time.NewTicker(100 * time.Millisecond)
		defer again.Stop()
		var text string
		for ctx.Err() == nil {
			text = run(0, "status")
			if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, word) }) {
				return
			}
			select {
			case <-again.C:
			case <-ctx.Done():
			}
		}
		t.Fatalf("the status does not come to say %q:\n%s", words, text)
	}
	stop := begin("act")
	until("run by the-daemon, mode act, phase steady", "version 0")
	if text := run(0, "rotate", "--yes"); !strings.Contains(text, "zone c serves") {
		t.Errorf("rotate: %s", text)
	}
	until("version 1", "phase steady")
	if text := run(1, "recommission", "--yes"); !strings.Contains(text, "no zone is out") {
		t.Errorf("recommission: %s", text)
	}
	run(0, "hold", "--yes", "--reason", "work")
	until("phase holding", ": work")
	if text := run(1, "rotate", "--yes"); !strings.Contains(text, "on hold: work") {
		t.Errorf("rotate while held: %s", text)
	}
	if text := run(0, "resume", "--yes"); !strings.Contains(text, "resumed") {
		t.Errorf("resume: %s", text)
	}
	until("phase steady")
	run(0, "pin", "c", "--yes")
	until("version 2", "phase steady", "zone c is pinned")
	run(0, "pin", "--off", "--yes")
	stop()
	nothingLeft(t, virtual, zones.HoldKey, zones.PinKey)

	stop = begin("dry-run")
	until("mode dry-run", "phase steady")
	if text := run(1, "rotate", "--yes"); !strings.Contains(text, "dry run: would send PUT /_cluster/routing/awareness/zone/weights") {
		t.Errorf("rotate in dry-run: %s", text)
	}
	if _, version := weightsOf(t, url); version != 2 {
		t.Errorf("a dry run has changed the weights: version %d", version)
	}
	stop()
}

// The page's cluster loses a zone: a node that was level enough is above the limit then, and not where there is one.
func TestLossOfAZoneInTheSimulator(t *testing.T) {
	story := file(t, "loss.txt", blockOf(t, "zones.md", "cluster opensearch 2.19.6 seed=5")+
		"assert relocating == 0\nassert unassigned == 22\nassert cycle_errors == 0\n")
	const even = "balance: {tolerance: 0.3}\nsolver: {work_limit: 100000}\n"
	without := execute(t, "simulate", story, "--config", file(t, "even.yaml", even))
	if without.expect(t, 1, "1 of 4 assertions"); !strings.Contains(without.stdout, "FAIL peak search <= 0.7 (0.758") {
		t.Error(without.stdout)
	}
	execute(t, "simulate", story, "--config", file(t, "limit.yaml", even+"zones: {max_load_after_loss: 0.7}\n")).expect(t, 0)
}
