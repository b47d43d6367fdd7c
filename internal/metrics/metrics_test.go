package metrics

import (
	"errors"
	"flag"
	"fmt"
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
		Cluster: cluster.Identity{
			Name: "logs", UUID: "u1", Product: cluster.Product{Distribution: cluster.OpenSearch, Version: cluster.Version{Major: 2, Minor: 19, Patch: 6}},
		},
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
		Copies: []model.Copy{{Group: 0, Node: 0, Load: []float64{2, 100}, Pinned: true}, {Group: 1, Node: 0, Load: []float64{1, 300}}},
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
		Balance: []plan.Balance{{
			Dimension: "search", Domain: "data", Before: plan.Evenness{PeakToMean: 2}, After: plan.Evenness{PeakToMean: 1.5}, Target: plan.Evenness{PeakToMean: 1.04},
		}},
		Moves: make([]plan.Move, 1), Totals: plan.Totals{Moves: 1, Bytes: 100},
		Verdicts: []plan.Verdict{
			{Kind: plan.Pinned, Binding: []string{"pinned"}},
			{Kind: plan.Pinned, Binding: []string{"pinned", "cool_down"}},
			{Kind: plan.Noise},
			{Kind: plan.Budget, Binding: []string{"max_moves"}},
		},
	}
}

// afterOneCycle is the metrics of a daemon that has moved one copy.
func afterOneCycle(t *testing.T) (*Metrics, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	m := New(registry)
	s := threeNodes()
	m.ObserveBuild("1.2.3", "0123456", "go1.26", "1.17")
	m.ObserveLoop("act", false, 20*time.Minute)
	m.ObserveReload(time.UnixMilli(1_700_000_000_000), nil)
	m.ObserveSnapshot(s)
	m.ObserveProblem(problemOf(s), s)
	m.ObserveSolve(Solve{
		Status: "feasible", Objective: 0.16, Gap: 0.0625, Captured: 0.9867, Pairs: 4000, Columns: 120, Programs: 3, SimplexIterations: 900, Rounds: 2,
		CPU: 1500 * time.Millisecond, PeakMemory: 64 << 20,
	})
	m.ObservePlan(planOf())
	m.ObserveRegions(Regions{
		Dispersion: 0.019, RequiredOverload: 0.0606, Excess: map[string]int{"host": 3}, Missing: map[string]int{"eu": 0, "us": 2}, CoolingShards: 4,
		Crossed: map[[2]string]float64{{"eu", "us"}: 500}, Left: map[[2]string]float64{{"eu", "us"}: 100, {"us", "eu"}: 600},
	})
	m.ObserveOwnership("us")
	m.ObserveStop("node_busy")
	m.ObserveMove(Move{ID: "c0", Bytes: 100})
	m.ObserveMove(Move{ID: "c0", Bytes: 100, Result: "landed", Took: 40 * time.Second})
	m.ObserveMove(Move{ID: "c1", Bytes: 300})
	m.ObserveMove(Move{ID: "c2", Result: "stale"})
	m.ObserveTraffic(Traffic{Reads: 12, Writes: 2, Retries: 1, BytesReceived: 4096, BytesSent: 256})
	m.ObserveCycle("moved", map[string]time.Duration{
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
		`shardonnay_moves_refused_total{decider="awareness"} 0`, `shardonnay_solves_total{status="limit"} 0`, "shardonnay_move_duration_seconds_count 0",
		`shardonnay_stop_condition{reason="ping_pong"} 0`, `shardonnay_ownership{state="us"} 0`, `shardonnay_last_outcome{outcome="failed"} 0`,
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
	m.ObserveProblem(p, s)
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
	m.ObserveStop("storm")
	if text := exposition(t, registry); !strings.Contains(text, `reason="node_busy"} 0`) || !strings.Contains(text, `reason="storm"} 1`) {
		t.Error("the condition did not change")
	}
	m.ObserveStop("")
	if sum := parse(t, exposition(t, registry))["stop_condition"]; sum != 0 {
		t.Error("the condition did not end")
	}
}

// Whatever becomes of moves, and at every moment between, the books balance.
func TestIdentities(t *testing.T) {
	m, registry := afterOneCycle(t)
	balanced := func(after string) {
		t.Helper()
		series := parse(t, exposition(t, registry))
		for _, identity := range []struct {
			name        string
			left, right float64
		}{
			{"considered = ended + in flight", series["moves_considered_total"], series["moves_total"] + series["moves_in_flight"]},
			{"refused by decider", series["moves_refused_total"], series[`moves_total{result="refused"}`]},
			{"bytes that landed", series["moved_bytes_total"], series["move_size_bytes_sum"]},
			{"landed moves have a size and a duration", series["move_size_bytes_count"], series["move_duration_seconds_count"]},
			{"copies by provenance", series["copies"], series["snapshot_copies"]},
			{"copies that may move and that may not", series["problem_copies"], 2},
			{"one mode", 1, series["mode"]},
			{"one owner", 1, series["ownership"]},
			{"one last outcome", 1, series["last_outcome"]},
		} {
			if identity.left != identity.right {
				t.Errorf("after %s: %s: %g is not %g", after, identity.name, identity.left, identity.right)
			}
		}
	}
	balanced("the first cycle")
	// c1 was left in flight and lands in the next cycle; c3, of an earlier process, is found under way.
	for _, move := range []Move{
		{ID: "c3", Bytes: 50},
		{ID: "c1", Bytes: 300},
		{ID: "c1", Bytes: 300, Result: "landed", Took: 8 * time.Minute},
		{ID: "c4", Bytes: 20, Result: "refused", Decider: "awareness"},
		{ID: "c5", Bytes: 20, Result: "refused", Decider: "a_decider_of_tomorrow"},
		{ID: "c6", Bytes: 20},
		{ID: "c6", Bytes: 20, Result: "refused", Took: time.Second}, // the request as a whole, for the third time
		{ID: "c7", Bytes: 20, Result: "landed"},                     // it was there already
		{ID: "c8", Result: "skipped"},
		{ID: "c3", Bytes: 50, Result: "lost", Took: time.Minute},
	} {
		m.ObserveMove(move)
		balanced(move.ID + " " + move.Result)
	}
	m.ObserveCycle("moved", nil, time.Now(), nil)
	m.ObserveCycle("failed", nil, time.Now(), &cluster.Error{Class: cluster.Unavailable, Err: errors.New("gone")})
	balanced("all")
	series := parse(t, exposition(t, registry))
	for name, want := range map[string]float64{
		"moves_considered_total": 9, "moves_in_flight": 0, "moved_bytes_total": 400, "cycles_total": 3, "errors_total": 1,
		`moves_refused_total{decider="awareness"}`: 1, `moves_refused_total{decider="other"}`: 1, `moves_refused_total{decider="request"}`: 1,
	} {
		if series[name] != want {
			t.Errorf("%s is %g, want %g", name, series[name], want)
		}
	}
}

var line = regexp.MustCompile(`(?m)^shardonnay_(\w+?)(\{[^}]*\})? (\S+)$`)

// parse gives each series by its name and labels, and the sum of each family by its name.
func parse(t *testing.T, text string) map[string]float64 {
	t.Helper()
	sums := make(map[string]float64)
	for _, match := range line.FindAllStringSubmatch(text, -1) {
		v, err := strconv.ParseFloat(match[3], 64)
		if err != nil {
			t.Fatal(err)
		}
		sums[match[1]] += v
		if match[2] != "" {
			sums[match[1]+match[2]] = v
		}
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
	m.ObserveCycle("failed", nil, time.Now(), nil)
}

// At 750 nodes a scrape stays as small as the page says: two figures a node and dimension, and what does not grow.
func TestSeriesOfALargeCluster(t *testing.T) {
	const nodes, dimensions, fixed = 750, 3, 360
	registry := prometheus.NewPedanticRegistry()
	m := New(registry)
	s := &cluster.Snapshot{Dimensions: []cluster.Dimension{cluster.SearchTime, cluster.IndexTime, cluster.DiskBytes}}
	p := &model.Problem{Classes: []model.Class{{}, {}}}
	full := cluster.Load{8, 8, 1e12}
	for n := range nodes {
		id := fmt.Sprintf("node-%03d", n)
		s.Nodes = append(s.Nodes, cluster.Node{ID: cluster.NodeID(id), Name: id, Roles: []string{"data"}, Capacity: full})
		p.Nodes = append(p.Nodes, model.Node{ID: id, Capacity: full[:dimensions]})
		tier := n % 2
		p.Classes[tier].Nodes = append(p.Classes[tier].Nodes, int32(n))
		p.Groups = append(p.Groups, model.Group{Class: int32(tier)})
		p.Copies = append(p.Copies, model.Copy{Group: int32(n), Node: int32(n), Load: []float64{1, 1, 1e9}})
	}
	about := planOf()
	about.Balance, about.Objective.Terms = nil, nil
	for _, d := range s.Dimensions {
		p.Dimensions = append(p.Dimensions, model.Dimension{Name: d.Name, Weight: 1})
		for _, tier := range []string{"data_hot", "data_warm"} {
			about.Balance = append(about.Balance, plan.Balance{Dimension: d.Name, Domain: tier})
		}
	}
	for _, term := range model.Evaluate(p, p.Current()) {
		about.Objective.Terms = append(about.Objective.Terms, plan.Term{Name: term.Name})
	}
	m.ObserveBuild("1.2.3", "0123456", "go1.26", "1.17")
	m.ObserveLoop("act", false, time.Minute)
	m.ObserveReload(time.Now(), nil)
	m.ObserveSnapshot(s)
	m.ObserveProblem(p, s)
	m.ObserveSolve(Solve{Status: "feasible"})
	m.ObservePlan(about)
	m.ObserveCycle("balanced", nil, time.Now(), nil)
	text := exposition(t, registry)
	series := len(regexp.MustCompile(`(?m)^shardonnay_`).FindAllString(text, -1))
	perNode := strings.Count(text, `node="node-`)
	if perNode != 2*nodes*dimensions || series-perNode > fixed {
		t.Errorf("%d series, %d of them of nodes; want %d of nodes and at most %d more", series, perNode, 2*nodes*dimensions, fixed)
	}
	t.Logf("%d series, %d bytes", series, len(text))
}

// Two nodes may have one name, or none: each is shown all the same.
func TestNodesWithoutANameOfTheirOwn(t *testing.T) {
	s := threeNodes()
	s.Nodes[0].Name, s.Nodes[1].Name, s.Nodes[2].Name = "twin", "twin", ""
	if diff := cmp.Diff([]string{"a", "b", "c"}, nodeNames(s)); diff != "" {
		t.Error(diff)
	}
}

// Nothing of the cluster's size but its nodes, and the regions they are in, may become a label.
func TestLabelsAreBounded(t *testing.T) {
	bounded := strings.Fields("node zone region from to dimension domain term binding version commit go clp cluster_name cluster_uuid distribution")
	for _, d := range New(nil).made.definitions {
		for _, name := range d.labels {
			if d.values[name] == nil && !slices.Contains(bounded, name) {
				t.Errorf("%s has the label %s, which nobody has bounded", d.name, name)
			}
		}
	}
}

// Every metric that a page, a rule or a dashboard names exists.
func TestMetricsInThePagesExist(t *testing.T) {
	name := regexp.MustCompile(`\b` + namespace + `[a-z_]+\b`)
	known := make(map[string]bool)
	for _, d := range New(nil).made.definitions {
		known[d.name] = true
		if d.kind == "histogram" {
			known[d.name+"_bucket"], known[d.name+"_sum"], known[d.name+"_count"] = true, true, true
		}
	}
	for _, pattern := range []string{
		"../../*.md", "../../docs/*.md", "../../docs/decisions/*.md", "../../docs/runbooks/*.md", "../../configs/*.yaml",
		"../../deploy/prometheus/*.yaml", "../../deploy/grafana/*.json",
	} {
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
