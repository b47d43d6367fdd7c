package rebalance

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/mover"
	"github.com/shardonnay/shardonnay/internal/plan"
)

// TestOwned: what a cycle found out about who moves copies, and what it cannot know.
func TestOwned(t *testing.T) {
	now := time.Date(2026, 3, 12, 10, 0, 0, 0, time.UTC)
	record := func(expires time.Time) map[string]string {
		text, err := json.Marshal(mover.Record{Holder: "them", Renewed: expires.Add(-time.Minute), Expires: expires, Previous: "all"})
		if err != nil {
			t.Fatal(err)
		}
		return map[string]string{"owner": string(text)}
	}
	seen := func(ownership map[string]string) *cluster.Snapshot {
		return &cluster.Snapshot{TakenAt: now, Settings: cluster.Settings{Ownership: ownership}}
	}
	for name, c := range map[string]struct {
		summary Summary
		want    Owned // empty: nobody can tell
	}{
		"taken over":                   {Summary{Mode: plan.Act, Snapshot: seen(nil)}, OwnedByUs},
		"another instance":             {Summary{Mode: plan.Act, Hold: &mover.Hold{Kind: mover.OtherHolder}}, OwnedByOther},
		"a person's setting":           {Summary{Mode: plan.Act, Hold: &mover.Hold{Kind: mover.RebalanceChanged}}, OwnedByPerson},
		"changed while we moved":       {Summary{Mode: plan.Act, Snapshot: seen(nil), Report: &mover.Report{Stop: &mover.Stop{Kind: mover.RebalanceChanged}}}, OwnedByPerson},
		"relocations from before":      {Summary{Mode: plan.Act, Snapshot: seen(nil), Hold: &mover.Hold{Kind: mover.Settling}}, OwnedByUs},
		"a claim that did not hold":    {Summary{Mode: plan.Act, Hold: &mover.Hold{Kind: mover.NotHeld}}, OwnedByServer},
		"a cluster that is away":       {Summary{Mode: plan.Act, Err: errors.New("away")}, ""},
		"a stop of another kind":       {Summary{Mode: plan.Act, Snapshot: seen(nil), Report: &mover.Report{Stop: &mover.Stop{Kind: mover.Storm}}}, OwnedByUs},
		"dry-run":                      {Summary{Mode: plan.DryRun, Snapshot: seen(nil)}, OwnedByServer},
		"dry-run beside one that acts": {Summary{Mode: plan.DryRun, Snapshot: seen(record(now.Add(time.Minute)))}, OwnedByOther},
		"dry-run after one that died":  {Summary{Mode: plan.DryRun, Snapshot: seen(record(now.Add(-time.Hour)))}, OwnedByServer},
	} {
		if got := c.summary.Owned(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
