package metrics

import (
	"errors"
	"flag"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/model"
	"github.com/shardonnay/shardonnay/internal/plan"
)

var update = flag.Bool("update", false, "rewrite generated files: docs/metrics.md and the golden exposition")

// exposition is what a scrape of the registry gives.
func exposition(t *testing.T, registry *prometheus.Registry) string {
	t.Helper()
	recorder := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}).
		ServeHTTP(recorder, httptest.NewRequest("GET", "/metrics", nil))
	if recorder.Code != 200 {
		t.Fatalf("scrape answers %d: %s", recorder.Code, recorder.Body)
	}
	return recorder.Body.String()
}

// golden compares with a file, or writes it with -update.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s is not current; run go generate ./internal/metrics and read the diff:\n%s", file, diff)
	}
}

// threeNodes is a snapshot of a small cluster: a hot, a cold and a coordinating node, one copy on its way.
func threeNodes() *cluster.Snapshot {
	load := func(search, disk float64) (l cluster.Load) {
		l[0], l[1] = search, disk
		return l
	}
	data := []string{"data"}
	return &cluster.Snapshot{
		TakenAt: time.UnixMilli(1_700_000_000_500), Samples: 2, Window: time.Minute,
		Dimensions: []cluster.Dimension{cluster.SearchTime, cluster.DiskBytes},
		Nodes: []cluster.Node{
			{ID: "a", Name: "hot", Roles: data, Capacity: load(4, 1000), Base: load(0.2, 0)},
			{ID: "b", Name: "cold", Roles: data, Capacity: load(4, 1000)},
			{ID: "c", Name: "coordinator", Capacity: load(4, 1000)},
		},
		Indices: []cluster.Index{{Name: "logs", Shards: 3}},
		Copies: []cluster.Copy{
			{Shard: 0, Node: 0, Target: cluster.None, State: cluster.Started, Load: load(2, 100), Bytes: 100},
			{Shard: 1, Node: 0, Target: 1, State: cluster.Relocating, Load: load(1, 300), Bytes: 300, Provenance: cluster.FromIndex},
			{Shard: 2, Node: cluster.None, Target: cluster.None, State: cluster.Unassigned, Provenance: cluster.Unknown},
		},
	}
}

func problemOf(s *cluster.Snapshot) *model.Problem {
	p := &model.Problem{
		Dimensions: []model.Dimension{{Name: "search", Weight: 1}, {Name: "disk", Weight: 1}},
		Classes:    []model.Class{{Nodes: []int32{0, 1}}}, Groups: []model.Group{{Name: "logs/0"}, {Name: "logs/1"}},
		Copies: []model.Copy{{Group: 0, Node: 0, Load: []float64{2, 100}}, {Group: 1, Node: 0, Load: []float64{1, 300}}},
	}
	for n := range 2 {
		p.Nodes = append(p.Nodes, model.Node{ID: string(s.Nodes[n].ID), Capacity: s.Nodes[n].Capacity[:2], Base: s.Nodes[n].Base[:2]})
	}
	return p
}

func planOf() *plan.Plan {
	return &plan.Plan{
		Objective: plan.Objective{
			Before: 0.9, After: 0.2, LowerBound: 0.15, Captured: 0.9333, Gap: 0.25,
			Terms: []plan.Term{{Name: "balance.search", Before: 0.9, After: 0.1}, {Name: "move", After: 0.1}},
		},
		Balance: []plan.Balance{{Dimension: "search", Domain: "data", Before: plan.Evenness{PeakToMean: 2}}},
		Moves:   make([]plan.Move, 1), Totals: plan.Totals{Moves: 1, Bytes: 100},
		Verdicts: []plan.Verdict{{Kind: plan.Pinned}, {Kind: plan.Pinned}, {Kind: plan.Noise}},
	}
}

// afterOneCycle is the metrics of a daemon that has moved one copy.
func afterOneCycle(t *testing.T) (*Metrics, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	m := New(registry)
	s := threeNodes()
	m.ObserveBuild("1.2.3", "0123456", "go1.26", "1.17")
	m.ObserveReload(time.UnixMilli(1_700_000_000_000), nil)
	m.ObserveSnapshot(s)
	m.ObserveProblem(problemOf(s), func(n int) string { return s.Nodes[n].Name })
	m.ObservePlan(planOf())
	m.ObserveOwnership(OwnedByUs)
	m.ObserveStop("cpu")
	m.ObserveMoves(Moves{Considered: 3, Ended: map[string]int{"landed": 1, "stale": 1}, Bytes: 100, InFlight: 1, InFlightBytes: 300})
	m.ObserveTraffic(Traffic{Reads: 12, Writes: 2, Retries: 1, BytesReceived: 4096, BytesSent: 256})
	m.ObserveCycle("moved", "act", map[string]time.Duration{
		"collect": 40 * time.Millisecond, "model": time.Millisecond, "solve": 2 * time.Second, "plan": time.Millisecond, "move": time.Minute,
	}, time.UnixMilli(1_700_000_061_000), nil)
	return m, registry
}

func TestExposition(t *testing.T) {
	_, registry := afterOneCycle(t)
	golden(t, "testdata/exposition.txt", exposition(t, registry))
}

func TestDocumentIsCurrent(t *testing.T) {
	golden(t, "../../docs/metrics.md", document(New(nil).made.definitions))
}

// What a daemon shows before its first cycle: every counter at zero, no figure about a cluster it has not seen.
func TestBeforeTheFirstCycle(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	New(registry)
	text := exposition(t, registry)
	for _, want := range []string{
		`shardonnay_cycles_total{outcome="infeasible"} 0`, `shardonnay_moves_total{result="lost"} 0`,
		`shardonnay_errors_total{class="internal"} 0`, "shardonnay_moved_bytes_total 0", "shardonnay_moves_in_flight 0",
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("%s is missing", want)
		}
	}
	if strings.Contains(text, "shardonnay_snapshot") || strings.Contains(text, "_ratio") {
		t.Errorf("figures of a cluster that was not seen:\n%s", text)
	}
}

func TestPromtoolFindsNothing(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Fatal("promtool is needed to check the metrics; make deps installs it (Debian: prometheus)")
	}
	_, registry := afterOneCycle(t)
	check := exec.Command(promtool, "check", "metrics")
	check.Stdin = strings.NewReader(exposition(t, registry))
	if output, err := check.CombinedOutput(); err != nil || len(output) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, output)
	}
}

func TestSeriesOfANodeThatLeftGo(t *testing.T) {
	m, registry := afterOneCycle(t)
	if text := exposition(t, registry); !strings.Contains(text, `node="cold"`) {
		t.Fatal("the node is not shown to begin with")
	}
	s := threeNodes()
	p := problemOf(s)
	s.Nodes = append(s.Nodes[:1], s.Nodes[2])
	s.Copies[1].State, s.Copies[1].Target = cluster.Started, cluster.None
	p.Nodes = p.Nodes[:1]
	p.Classes[0].Nodes = []int32{0}
	m.ObserveSnapshot(s)
	m.ObserveProblem(p, func(n int) string { return s.Nodes[n].Name })
	text := exposition(t, registry)
	if strings.Contains(text, `node="cold"`) {
		t.Error("the series of the node that left are still there")
	}
	if !strings.Contains(text, `shardonnay_node_load_ratio{dimension="search",node="hot"} 1`+"\n") {
		t.Error("the series of the node that stayed are gone or wrong")
	}
}

func TestAStopConditionEnds(t *testing.T) {
	m, registry := afterOneCycle(t)
	m.ObserveStop("rejections")
	if text := exposition(t, registry); strings.Contains(text, `reason="cpu"`) || !strings.Contains(text, `reason="rejections"} 1`) {
		t.Error("the condition did not change")
	}
	m.ObserveStop("")
	if text := exposition(t, registry); strings.Contains(text, "stop_condition") {
		t.Error("the condition did not end")
	}
}

func TestIdentities(t *testing.T) {
	m, registry := afterOneCycle(t)
	// The move left in flight lands in the next cycle; one more, of an earlier process, is found and refused to end.
	m.ObserveMoves(Moves{Considered: 2, Adopted: 2, Ended: map[string]int{"landed": 1, "refused": 1, "skipped": 1}, InFlight: 1})
	m.ObserveCycle("moved", "act", nil, time.Now(), nil)
	m.ObserveCycle("failed", "act", nil, time.Now(), &cluster.Error{Class: cluster.Unavailable, Err: errors.New("gone")})
	series := parse(t, exposition(t, registry))
	for _, identity := range []struct {
		name        string
		left, right float64
	}{
		{"considered = ended + in flight", series["moves_considered_total"], series["moves_total"] + series["moves_in_flight"]},
		{"cycles", 3, series["cycles_total"]},
		{"copies by provenance", series["copies"], series["snapshot_copies"]},
		{"errors", 1, series["errors_total"]},
		{"one mode", 1, series["mode"]},
		{"one owner", 1, series["ownership"]},
	} {
		if identity.left != identity.right {
			t.Errorf("%s: %g is not %g", identity.name, identity.left, identity.right)
		}
	}
}

var line = regexp.MustCompile(`(?m)^shardonnay_(\w+?)(?:\{[^}]*\})? (\S+)$`)

// parse sums the series of each family.
func parse(t *testing.T, text string) map[string]float64 {
	t.Helper()
	sums := make(map[string]float64)
	for _, match := range line.FindAllStringSubmatch(text, -1) {
		v, err := strconv.ParseFloat(match[2], 64)
		if err != nil {
			t.Fatal(err)
		}
		sums[match[1]] += v
	}
	return sums
}

func TestTrafficOfANewClientStartsAnew(t *testing.T) {
	m, registry := afterOneCycle(t)
	m.ObserveTraffic(Traffic{Reads: 20, Writes: 2})
	m.ObserveTraffic(Traffic{Reads: 5}) // the configuration changed, and with it the client
	if text := exposition(t, registry); !strings.Contains(text, `requests_total{kind="read"} 25`) {
		t.Errorf("20 reads and 5 of a new client are not 25:\n%s", text)
	}
}

func TestSilentMetricsWork(t *testing.T) {
	m := New(nil)
	m.ObserveSnapshot(threeNodes())
	m.ObservePlan(planOf())
	m.ObserveReload(time.Now(), errors.New("faulty"))
	m.ObserveCycle("failed", "observe", nil, time.Now(), nil)
}

// Nothing of the cluster's size but its nodes may become a label.
func TestLabelsAreBounded(t *testing.T) {
	bounded := strings.Fields("node dimension domain term reason kind version commit go clp")
	for _, d := range New(nil).made.definitions {
		for _, name := range d.labels {
			if d.values[name] == nil && !slices.Contains(bounded, name) {
				t.Errorf("%s has the label %s, which nobody has bounded", d.name, name)
			}
		}
	}
}

// Every metric that a page names exists.
func TestMetricsInThePagesExist(t *testing.T) {
	name := regexp.MustCompile(`\b` + namespace + `[a-z_]+\b`)
	known := make(map[string]bool)
	for _, d := range New(nil).made.definitions {
		known[d.name] = true
		if d.kind == "histogram" {
			known[d.name+"_bucket"], known[d.name+"_sum"], known[d.name+"_count"] = true, true, true
		}
	}
	for _, pattern := range []string{"../../*.md", "../../docs/*.md", "../../docs/decisions/*.md", "../../configs/*.yaml"} {
		pages, err := filepath.Glob(pattern)
		if err != nil || len(pages) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, page := range pages {
			content, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			for _, found := range name.FindAllString(string(content), -1) {
				if !known[found] && !strings.HasPrefix(found, namespace+"capacity_") { // that is a node attribute
					t.Errorf("%s names %s, which is no metric", page, found)
				}
			}
		}
	}
}
