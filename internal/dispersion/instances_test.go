package dispersion_test

import (
	"context"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/shardonnay/shardonnay/internal/model"
	"github.com/shardonnay/shardonnay/internal/plan"
	"github.com/shardonnay/shardonnay/internal/rebalance"
	"github.com/shardonnay/shardonnay/internal/solver"
)

var large = flag.Bool("large", false, "instances of 200 nodes and 10,000 shards instead of 36 and 200, with 30 s for each solve")

// Clusters of two to four regions and three to twelve zones, copies anywhere: the solver brings every shard to the floors and
// caps of regions, zones and hosts, and no plan lets more bytes cross between two regions than may, in an open pass or in
// a closed one, where nothing crosses but to a region below its floor.
func TestRegionInstances(t *testing.T) {
	nodes, shards := 36, 200
	limits := solver.Options{WorkLimit: 150_000, Seed: 1, Workers: 2}
	if *large {
		nodes, shards = 200, 10_000
		limits.WorkLimit, limits.TimeLimit = 0, 30*time.Second
	}
	for _, test := range []struct{ regions, zones, copies int }{{2, 3, 2}, {2, 6, 3}, {3, 6, 3}, {3, 9, 4}, {4, 12, 5}} {
		for _, remainder := range []model.Remainder{model.RemainderMain, model.RemainderSpread} {
			t.Run(fmt.Sprintf("%d regions, %d zones, %d copies, %s", test.regions, test.zones, test.copies, remainder), func(t *testing.T) {
				var places []string
				for n := range nodes {
					zone := n % test.zones
					places = append(places, fmt.Sprintf("r%d z%d h%d", zone%test.regions, zone, n/2))
				}
				l := newLand(t, places...)
				l.Add("a", shards, test.copies, l.Anywhere(test.copies, 1))
				l.Sort()
				policy := regionPolicy()
				policy.Regions.Host = ""
				policy.Regions.Remainder = remainder
				const left = 20 << 30
				for _, closed := range []bool{false, true} {
					policy.Regions.WAN.Closed = closed
					policy.Regions.WAN.Left = make(map[model.Link]float64)
					for from := range test.regions {
						for to := range test.regions {
							policy.Regions.WAN.Left[model.Link{From: fmt.Sprint("r", from), To: fmt.Sprint("r", to)}] = left
						}
					}
					s, err := rebalance.Decide(context.Background(), l.Snapshot, rebalance.Settings{
						Policy: policy, MaxMoves: 200, Solver: limits,
					}, solver.Solve)
					if err != nil {
						t.Fatal(err)
					}
					crossed := make(map[model.Link]float64)
					for _, m := range s.Plan.Moves {
						if m.WAN != nil {
							crossed[*m.WAN] += float64(m.Bytes)
							if closed && m.Reason != plan.ForFloor {
								t.Errorf("the pass is closed, and %s/%d crosses for %s", m.Index, m.Shard, m.Reason)
							}
						}
					}
					for link, bytes := range crossed {
						if bytes > left {
							t.Errorf("%g bytes cross from %s to %s", bytes, link.From, link.To)
						}
					}
					if len(s.Plan.Moves) == 0 {
						t.Error("nothing moves")
					}
					if closed {
						continue // the solver was not to bring everything where it should be
					}
					t.Logf("dispersion %.4f -> %.4f in %v; the plan has %d moves and bytes cross %v", s.Spread.Dispersion.Now, s.Spread.Dispersion.Target, s.Result.Wall, len(s.Plan.Moves), crossed)
					if s.Spread.Dispersion.Target != 0 {
						t.Errorf("dispersion %v: %+v", s.Spread.Dispersion.Target, s.Spread.Tiers)
					}
					for region, missing := range s.Spread.Missing {
						if missing.Target != 0 {
							t.Errorf("%d copies are missing in %s", missing.Target, region)
						}
					}
				}
			})
		}
	}
}
