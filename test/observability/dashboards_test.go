package observability

import (
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/common/model"

	"github.com/shardonnay/shardonnay/internal/sim"
)

// board is what of a dashboard's JSON this test reads.
type board struct {
	Title  string
	Panels []struct {
		Type, Title, Repeat string
		Targets             []struct {
			Expr    string
			Instant bool
		}
	}
	Templating struct {
		List []struct {
			Name, Type, AllValue string
			Query                json.RawMessage
			IncludeAll           bool
		}
	}
}

func boards(t *testing.T) (all []board) {
	t.Helper()
	files, err := filepath.Glob("../../deploy/grafana/*.json")
	if err != nil || len(files) != 4 {
		t.Fatalf("%d dashboards: %v", len(files), err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var b board
		if err := json.Unmarshal(content, &b); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, b)
	}
	return all
}

// scrapes is how many scrapes of the demo the expressions are run on: enough for every rate, and for moves to have landed.
const scrapes = 45

// Every expression of every panel and every variable returns data from a Prometheus that has scraped the demo at work.
// Where there is nothing to report an expression says so (0, or a series named none); then what it is about is asked for
// as well, so that a metric or label that does not exist is found out all the same.
func TestDashboardsShowTheDemo(t *testing.T) {
	t.Parallel()
	s := startPrometheus(t, "")
	demo := start(t, nil, program, "demo", "--stay")
	s.scrape(t, "demo", strings.TrimSuffix(demo.says(t, `^Metrics at (\S+)`), "/metrics"))
	s.await(t, fmt.Sprintf("count_over_time(shardonnay_build_info[10m]) >= %d", scrapes))
	s.await(t, `sum(increase(shardonnay_moves_total{result="landed"}[2m])) > 10`)
	run := 0
	for _, b := range boards(t) {
		if b.Title != zonesBoard {
			run += s.shows(t, b)
		}
	}
	t.Logf("%d expressions", run)
	if run < 60 {
		t.Errorf("only %d expressions were found", run)
	}
}

// zonesBoard is the dashboard about zones, which the demo has no use for: its daemon runs none.
const zonesBoard = "Shardonnay / Zones"

// Every expression about zones returns data from a Prometheus that has scraped a daemon which runs the zones of a simulated
// cluster, through rotations and a failover.
func TestZonesDashboardShowsZones(t *testing.T) {
	t.Parallel()
	s := startPrometheus(t, "")
	cluster := threeZones(t, 2)
	served, err := sim.Serve(t.Context(), cluster, sim.Options{Speed: 60, PerNode: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = served.Close() }) // a simulated cluster has nothing to lose
	config := filepath.Join(t.TempDir(), "shardonnay.yaml")
	hasty(served.URL()).with(settings{"mode": "observe", "zones": watched(settings{"rotation": "8s"})}).write(t, config)
	daemon := start(t, nil, program, "run", "--config", config)
	s.scrape(t, "zones", daemon.says(t, `"url":"([^"]+)"`))
	s.await(t, `sum(increase(shardonnay_zone_rotation_total{result="done"}[2m])) > 0`)
	kill(t, cluster, "a1", "a2")
	s.await(t, `sum(increase(shardonnay_zone_failover_total{result="done"}[2m])) > 0 or shardonnay_zone_health{zone="a"} == 0`)
	s.await(t, fmt.Sprintf("count_over_time(shardonnay_build_info[10m]) >= %d", scrapes))
	run := 0
	for _, b := range boards(t) {
		if b.Title == zonesBoard {
			run += s.shows(t, b)
		}
	}
	if run < 20 {
		t.Errorf("only %d expressions were found", run)
	}
}

// shows runs every expression of a dashboard and counts them.
func (s *server) shows(t *testing.T, b board) (run int) {
	t.Helper()
	values := s.variables(t, b)
	for _, panel := range b.Panels {
		repeats := []string{""}
		if panel.Repeat != "" {
			repeats = values.lists[panel.Repeat]
		}
		for _, target := range panel.Targets {
			for _, repeat := range repeats {
				expr := values.fill(target.Expr, panel.Repeat, repeat)
				result := s.data(t, expr, target.Instant)
				t.Logf("%s | %s | %s\n\t%s", b.Title, panel.Title, expr, result)
				if result.samples == 0 {
					t.Errorf("%s: %s: no data from %s", b.Title, panel.Title, expr)
				}
				if about := bare(expr); about != expr && s.data(t, about, target.Instant).samples == 0 {
					t.Errorf("%s: %s: %s has nothing to report, and there is nothing it could report about: %s", b.Title, panel.Title, expr, about)
				}
				run++
			}
		}
	}
	return run
}

// bare is the part of an expression before what stands in for it where it is empty, without its threshold. Alerts are
// Prometheus' own: they have no series while none is pending.
func bare(expr string) string {
	about, _, found := strings.Cut(expr, " or ")
	if !found || strings.Contains(about, "ALERTS") {
		return expr
	}
	return regexp.MustCompile(` (==|>) \d+$`).ReplaceAllString(about, "")
}

// values are those of a dashboard's variables, as Grafana would fill them in with everything chosen.
type values struct {
	text  map[string]string
	lists map[string][]string
}

// variables asks for the values of each variable; every one must have some.
func (s *server) variables(t *testing.T, b board) values {
	t.Helper()
	v := values{text: map[string]string{"__rate_interval": "15s", "__range": "2m"}, lists: map[string][]string{}}
	labels := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)
	for _, variable := range b.Templating.List {
		if variable.Type == "datasource" {
			continue
		}
		var query string
		if err := json.Unmarshal(variable.Query, &query); err != nil {
			t.Fatalf("%s: $%s: %v", b.Title, variable.Name, err)
		}
		of := labels.FindStringSubmatch(query)
		if of == nil {
			t.Fatalf("%s: $%s asks %q, which this test cannot read", b.Title, variable.Name, query)
		}
		var names, quoted []string
		s.ask(t, "label/"+of[2]+"/values", url.Values{"match[]": {v.fill(of[1], "", "")}}, &names)
		if len(names) == 0 {
			t.Fatalf("%s: $%s has no values", b.Title, variable.Name)
		}
		for _, name := range names {
			quoted = append(quoted, strings.ReplaceAll(regexp.QuoteMeta(name), `\`, `\\`))
		}
		v.lists[variable.Name] = names
		switch {
		case variable.AllValue != "":
			v.text[variable.Name] = variable.AllValue
		case variable.IncludeAll:
			v.text[variable.Name] = "(" + strings.Join(quoted, "|") + ")"
		default:
			v.text[variable.Name] = names[0]
		}
		t.Logf("%s | $%s | %s", b.Title, variable.Name, strings.Join(names, " "))
	}
	return v
}

// fill puts the values into an expression, one of them other than chosen where a panel is repeated for each.
func (v values) fill(expr, repeat, value string) string {
	return regexp.MustCompile(`\$(\w+)`).ReplaceAllStringFunc(expr, func(name string) string {
		name = name[1:]
		if name == repeat {
			return value
		}
		if text, known := v.text[name]; known {
			return text
		}
		return "UNKNOWN_VARIABLE_" + name // which no metric is called
	})
}

// returned is what an expression returned.
type returned struct {
	series, samples int // samples that are numbers
	last            float64
}

func (r returned) String() string {
	return fmt.Sprintf("%d series, %d samples, last %.4g", r.series, r.samples, r.last)
}

// data runs an expression as a panel would: at this moment, or over the last minutes.
func (s *server) data(t *testing.T, expr string, instant bool) (r returned) {
	t.Helper()
	sample := func(v model.SampleValue) {
		if !math.IsNaN(float64(v)) {
			r.samples++
			r.last = float64(v)
		}
	}
	if instant {
		for _, element := range s.now(t, expr) {
			r.series++
			sample(element.Value)
		}
		return r
	}
	for _, stream := range s.over(t, expr) {
		r.series++
		for _, pair := range stream.Values {
			sample(pair.Value)
		}
	}
	return r
}
