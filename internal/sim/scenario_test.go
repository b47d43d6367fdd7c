package sim

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// play runs a scenario text and gives what it printed.
func play(t *testing.T, name, text string, o RunOptions) (string, Report) {
	t.Helper()
	s, err := ParseScenario(name, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	o.Out = &out
	report, err := s.Run(t.Context(), o)
	if err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	return out.String(), report
}

// TestScenarios plays the stories under testdata/scenarios, twice each: they hold, and the same story is the same bytes.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/scenarios/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			start := func(_ context.Context, c *Cluster, addr string) (Daemon, error) { return newToy(c, addr), nil }
			out, report := play(t, file, string(text), RunOptions{Start: start})
			if !report.OK() || report.Assertions == 0 {
				t.Errorf("%d assertions, failed: %s\n%s", report.Assertions, strings.Join(report.Failed, "\n"), out)
			}
			again, _ := play(t, file, string(text), RunOptions{Start: start})
			if diff := cmp.Diff(out, again); diff != "" {
				t.Errorf("the same scenario twice differs (-first +second):\n%s", diff)
			}
		})
	}
}

// TestScenarioDocs: the page names every command and everything that can be asserted.
func TestScenarioDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/scenarios.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(sortedKeys(commands), sortedKeys(measures)...) {
		if !strings.Contains(string(page), "`"+name) {
			t.Errorf("docs/scenarios.md does not tell of %s", name)
		}
	}
	_, rest, _ := strings.Cut(string(page), "```\n")
	example, _, _ := strings.Cut(rest, "```\n")
	if _, err := ParseScenario("docs/scenarios.md", strings.NewReader(example)); err != nil {
		t.Error(err)
	}
}

// TestScenarioMistakes: each is reported with its line and what is wrong, all at once.
func TestScenarioMistakes(t *testing.T) {
	_, err := ParseScenario("s.txt", strings.NewReader(`cluster solr 9
nodes many
node n1 cpu=-1 colour=red
index i shards=0
frobnicate
at 10m run 5m
assert happiness == 1
assert peak_to_mean search ==
assert unassigned < few
run soon
fault rust
series s by_age=7d:1,1d:2`))
	if err == nil {
		t.Fatal("no error")
	}
	want := []string{
		`s.txt:1: no distribution "solr"`,
		`s.txt:2: the number of nodes is between 1 and 10000`,
		`s.txt:3: cpu=-1: not a whole number >= 0; there is no colour= here`,
		`s.txt:4: an index has 1 to 1024 shards and up to 100 replicas`,
		`s.txt:5: no command "frobnicate"; there are ` + strings.Join(sortedKeys(commands), ", "),
		`s.txt:6: "run" is no event`,
		`s.txt:7: nothing called "happiness" can be asserted; there are ` + strings.Join(sortedKeys(measures), ", "),
		`s.txt:8: assert wants a name, an operator of [== != <= >= < >], and a value: assert unassigned == 0`,
		`s.txt:9: "few" is no number`,
		`s.txt:10: "soon" is no time`,
		`s.txt:11: no fault "rust"`,
		`s.txt:12: by_age=7d:1,1d:2: ages must grow`,
	}
	if diff := cmp.Diff(strings.Join(want, "\n"), err.Error()); diff != "" {
		t.Error(diff)
	}
}

// TestScenarioFailures: an assertion that does not hold is told and does not end the story; what cannot be done does.
func TestScenarioFailures(t *testing.T) {
	out, report := play(t, "s.txt", "cluster opensearch 2.19.6\nnodes 2\nassert started == 7\nat 1m kill nobody\nrun 2m\nassert status == green\n", RunOptions{})
	want := "FAIL started == 7 (0)\nFAIL line 4: kill nobody: no node \"nobody\"\nok   status == green (green)\n"
	if diff := cmp.Diff(want, out); diff != "" || report.OK() || len(report.Failed) != 2 {
		t.Error(diff, report.Failed)
	}
	s, err := ParseScenario("s.txt", strings.NewReader("nodes 2"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Run(t.Context(), RunOptions{}); err == nil || !strings.Contains(err.Error(), "s.txt:1: nodes 2: there is no cluster yet") {
		t.Errorf("got %v", err)
	}
	s, _ = ParseScenario("s.txt", strings.NewReader("cluster opensearch 2.19.6\ndaemon interval=1m"))
	if _, err := s.Run(t.Context(), RunOptions{}); err == nil || !strings.Contains(err.Error(), "nobody gave this run a daemon") {
		t.Errorf("got %v", err)
	}
}

// TestDaemonWithAddresses: with the word addresses the nodes publish where each can be asked alone, and there it is.
func TestDaemonWithAddresses(t *testing.T) {
	asked := ""
	start := func(ctx context.Context, c *Cluster, _ string) (Daemon, error) {
		s := c.served.Load()
		req, err := http.NewRequestWithContext(ctx, "GET", "http://"+s.NodeAddr("n2")+"/?filter_path=name", nil)
		if err != nil {
			return nil, err
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return nil, err
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		asked = string(body)
		return idle{}, err
	}
	_, report := play(t, "addresses.txt", "cluster opensearch 2.19.6\nnodes 2\ndaemon addresses\nrun 1m\ndaemon stop\n", RunOptions{Start: start})
	if asked != `{"name":"n2"}` || report.Cycles == 0 {
		t.Errorf("n2 says %s, %d cycles", asked, report.Cycles)
	}
}

// idle is a daemon that does nothing.
type idle struct{}

func (idle) Cycle(context.Context, time.Time) error { return nil }
func (idle) Stop(context.Context) error             { return nil }
