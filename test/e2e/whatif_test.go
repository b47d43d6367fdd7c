package e2e

import (
	"context"
	"encoding/json"
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/shardonnay/shardonnay/internal/plan"
	"github.com/shardonnay/shardonnay/internal/rightsize"
	"github.com/shardonnay/shardonnay/test/realcluster"
)

// TestWhatIf asks a real cluster and its capture what would be, and how few nodes would do: the answers are the same, and
// nothing has changed in the cluster.
func TestWhatIf(t *testing.T) {
	realcluster.ForEach(t, func(t *testing.T, p realcluster.Product) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		c := realcluster.Shared(t, p)
		// There is nothing in it yet, which is no reason to fail.
		empty := filepath.Join(t.TempDir(), "empty")
		for _, args := range [][]string{
			{"plan", "--one-sample", "--address", c.Addresses()[0]}, {"capture", empty, "--address", c.Addresses()[0]}, {"plan", "--capture", empty},
		} {
			if out, code := run(t, args...); code != 0 {
				t.Errorf("%v of an empty cluster ended with %d: %s", args, code, out)
			}
		}
		lopsided(ctx, t, c, 300)
		version, settingsBefore := state(ctx, t, c)
		captured := filepath.Join(t.TempDir(), "capture")
		// Bytes alone stand still between two looks; rates since the start fall with every second.
		config := onlyDisk(c, "dry-run", "").file(t)
		if _, code := run(t, "capture", captured, "--config", config); code != 0 {
			t.Fatalf("capture ended with %d", code)
		}
		ask := func(answer any, args ...string) {
			t.Helper()
			out, code := run(t, append([]string{"plan", "--config", config, "-o", "json", "--max-moves", "0"}, args...)...)
			if code != 0 {
				t.Fatalf("plan ended with %d", code)
			}
			if err := json.Unmarshal([]byte(out), answer); err != nil {
				t.Fatal(err)
			}
		}
		both := [][]string{{"--one-sample"}, {"--capture", captured}}
		for _, change := range [][]string{
			{"lose-zone:a"},
			{"add-node:new,like=n5"},
			{"remove-node:n5"},
			{"grow:stack-n5-*,disk=3"},
			{"add-node:new,like=n5", "remove-node:n4", "grow:*,disk=1.5", "lose-zone:c"},
		} {
			var plans [2]plan.Plan
			var sizes [2]rightsize.Answer
			for i, from := range both {
				args := from
				for _, text := range change {
					args = append(args, "--what-if", text)
				}
				ask(&plans[i], args...)
				ask(&sizes[i], append(args, "--right-size")...)
			}
			live, cold := &plans[0], &plans[1]
			nearly := cmpopts.EquateApprox(0.01, 1e-6)
			// All nodes report the machine's one disk, which other programs fill and empty meanwhile: how full the fullest node
			// would be is theirs.
			sizesOnly := cmpopts.IgnoreFields(rightsize.Generation{}, "Peaks", "Capacity")
			if diff := cmp.Diff(cold.WhatIf, live.WhatIf, nearly); diff != "" {
				t.Errorf("%v: captured and live differ in what is asked and what is today:\n%s", change, diff)
			}
			if diff := cmp.Diff(cold.Balance, live.Balance, nearly); diff != "" {
				t.Errorf("%v: captured and live differ in the balance:\n%s", change, diff)
			}
			if len(live.Moves) != len(cold.Moves) || math.Abs(live.Objective.After-cold.Objective.After) > 1e-6 || live.Snapshot.Nodes != cold.Snapshot.Nodes {
				t.Errorf("%v: live %d moves to %v on %d nodes, captured %d to %v on %d", change, len(live.Moves), live.Objective.After, live.Snapshot.Nodes,
					len(cold.Moves), cold.Objective.After, cold.Snapshot.Nodes)
			}
			if diff := cmp.Diff(sizes[1], sizes[0], nearly, sizesOnly); diff != "" {
				t.Errorf("%v: captured and live differ in how few nodes would do:\n%s", change, diff)
			}
			t.Logf("%v: %d data nodes, objective %.4f today, %.4f then; %d moves; %+v", change, live.Snapshot.Nodes, live.WhatIf.Today.Objective.Before,
				live.Objective.Before, len(live.Moves), sizes[0].Domains)
		}
		if now, settingsNow := state(ctx, t, c); now != version || settingsNow != settingsBefore {
			t.Errorf("the cluster has changed: version %d, it was %d", now, version)
		}
	})
}
