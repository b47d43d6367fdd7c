package sim

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
