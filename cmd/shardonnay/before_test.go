package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestA21PlansFromBefore: where neither regions nor zones are configured, the problems of captured clusters are byte for byte
// those that the last version without regions made of them, which testdata/before-regions keeps. Where regions are, but all
// nodes are in one, problem and plan are the same again.
func TestA21PlansFromBefore(t *testing.T) {
	captures, err := filepath.Glob(filepath.Join("..", "..", "internal", "collector", "testdata", "captures", "*"))
	if err != nil || len(captures) < 5 {
		t.Fatalf("%d captures, %v", len(captures), err)
	}
	const limit = "solver: {work_limit: 100000}\n"
	wall := regexp.MustCompile(`"wall_s": [0-9.e-]+`)
	for _, capture := range captures {
		name := filepath.Base(capture)
		t.Run(name, func(t *testing.T) {
			plan := func(settings string) (problem, plan string) {
				t.Helper()
				to := filepath.Join(t.TempDir(), "problem.json")
				r := execute(t, "plan", "--capture", capture, "-o", "json", "--dump-problem", to, "--config", file(t, "c.yaml", settings))
				r.expect(t, 0)
				text, err := os.ReadFile(to)
				if err != nil {
					t.Fatal(err)
				}
				if !wall.MatchString(r.stdout) {
					t.Fatalf("the plan does not say how long it took: %s", r.stdout)
				}
				return string(text), wall.ReplaceAllString(r.stdout, "")
			}
			before, err := os.ReadFile(filepath.Join("testdata", "before-regions", name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			problem, without := plan(limit)
			if diff := cmp.Diff(string(before), problem); diff != "" {
				t.Errorf("the problem is not that from before regions:\n%s", diff)
			}
			if !strings.HasPrefix(name, "opensearch") {
				return // no attribute has the same value on all nodes of the others
			}
			problem, with := plan(limit + "regions: {attribute: shard_indexing_pressure_enabled}\n")
			if problem != string(before) {
				t.Errorf("in one region the problem is another:\n%s", cmp.Diff(string(before), problem))
			}
			if diff := cmp.Diff(without, with); diff != "" {
				t.Errorf("in one region the plan is another:\n%s", diff)
			}
		})
	}
}
