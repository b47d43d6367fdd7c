package solver

import (
	"context"
	"encoding/json"
	"flag"
	"math"
	"os"
	"testing"

	"github.com/shardonnay/shardonnay/internal/instance"
	"github.com/shardonnay/shardonnay/internal/model"
)

var record = flag.Bool("record", false, "write testdata/work.json anew: what solves take is meant to have changed")

const workFile = "testdata/work.json"

// work is what a solve took and brought.
type work struct {
	Counters Counters `json:"counters"`
	Captured float64  `json:"captured"`
}

// A solve takes no more work than it did, and brings no less: seconds would tell more of the machine than of the program, so
// work is counted. The runs end by themselves or at a limit of work that is far off. Where a change is meant,
// `go test ./internal/solver -run TestWork -record` writes the new figures, for the commit to show.
func TestWorkIsNotMoreThanItWas(t *testing.T) {
	planted, _, err := instance.Planted(instance.Defaults(60, 3600, 1))
	if err != nil {
		t.Fatal(err)
	}
	budget := generate(t, 60, 3600, 2)
	budget.Limits.MaxMoves = 20
	problems := []struct {
		name string
		p    *model.Problem
	}{
		{"plain", generate(t, 60, 3600, 1)},
		{"several parts", generate(t, 140, 8000, 1)},
		{"tight disks", generate(t, 45, 2700, 3, func(o *instance.Options) { o.DiskFill = 0.78 })},
		{"planted", planted},
		{"20 moves", budget},
	}
	now := make(map[string]work)
	for _, problem := range problems {
		r, err := Solve(context.Background(), problem.p, Options{WorkLimit: 4_000_000, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		now[problem.name] = work{r.Counters, math.Round(r.Captured()*1e4) / 1e4}
	}
	if *record {
		content, err := json.MarshalIndent(now, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(workFile, append(content, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	content, err := os.ReadFile(workFile)
	if err != nil {
		t.Fatal(err)
	}
	var was map[string]work
	if err := json.Unmarshal(content, &was); err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		is, before := now[problem.name], was[problem.name]
		if before.Captured == 0 {
			t.Fatalf("%s has no record: run with -record", problem.name)
		}
		if is.Captured < before.Captured-0.002 {
			t.Errorf("%s: captured %.4f, it was %.4f", problem.name, is.Captured, before.Captured)
		}
		for _, count := range []struct {
			what    string
			is, was int64
		}{
			{"pairs priced", is.Counters.PairsPriced, before.Counters.PairsPriced},
			{"columns built", is.Counters.ColumnsBuilt, before.Counters.ColumnsBuilt},
			{"linear programs", is.Counters.LPSolves, before.Counters.LPSolves},
			{"simplex iterations", is.Counters.CLPIterations, before.Counters.CLPIterations},
			{"rounds", is.Counters.Rounds, before.Counters.Rounds},
			{"moves tried", is.Counters.MovesTried, before.Counters.MovesTried},
		} {
			// A tenth, and some for what is few: an order of additions in another version of a library moves this much.
			if float64(count.is) > 1.1*float64(count.was)+5 {
				t.Errorf("%s: %d %s, it was %d", problem.name, count.is, count.what, count.was)
			}
		}
	}
}
