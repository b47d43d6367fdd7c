package dispersion_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/shardonnay/shardonnay/internal/cluster/clustertest"
	"github.com/shardonnay/shardonnay/internal/dispersion"
	"github.com/shardonnay/shardonnay/internal/model"
	"github.com/shardonnay/shardonnay/internal/plan"
)

// Two shards of three copies in two regions: one as far apart as can be, one all in A, two of it in one zone.
func TestReportCounts(t *testing.T) {
	l := newLand(t, clustertest.TwoByThree()...)
	l.Add("good", 1, 3, func(_, c int) int { return []int{0, 2, 6}[c] })
	l.Add("mound", 1, 3, func(_, c int) int { return []int{0, 1, 4}[c] })
	l.Sort()
	policy := regionPolicy()
	b, err := model.Build(l.Snapshot, &policy)
	if err != nil {
		t.Fatal(err)
	}
	target := b.Problem.Current()
	r := dispersion.Of(b, &plan.Plan{Moves: []plan.Move{{AllocationID: "mound/0/1", To: plan.Place{ID: "n0008"}}}}, target)
	if want := (dispersion.Reach{Now: 1.0 / 6, After: 0, Target: 1.0 / 6}); r.Dispersion != want || r.WorstTier != "region" {
		t.Errorf("dispersion %+v, worst %s", r.Dispersion, r.WorstTier)
	}
	var tiers []dispersion.Counts
	for _, tier := range r.Tiers {
		tiers = append(tiers, tier.Excess)
	}
	if diff := cmp.Diff([]dispersion.Counts{{Now: 1, After: 0, Target: 1}, {Now: 1, After: 0, Target: 1}, {}}, tiers); diff != "" {
		t.Error(diff)
	}
	if r.Missing["A"] != (dispersion.Counts{}) || r.Missing["B"] != (dispersion.Counts{Now: 1, Target: 1}) {
		t.Errorf("missing %+v", r.Missing)
	}
	at := slices.IndexFunc(r.Tiers[0].Values, func(v dispersion.Value) bool { return v.Value == "A" })
	if a := r.Tiers[0].Values[at]; !slices.Equal(a.Copies, []int{0, 0, 1, 1}) || a.Over != 1 || a.Ratio != 0.5 {
		t.Errorf("A: %+v", a)
	}
	var outside []string
	for _, s := range r.Outside {
		outside = append(outside, s.Shard+" "+s.Tier+" "+s.Value)
	}
	if !slices.Equal(outside, []string{"mound/0 region A", "mound/0 region B", "mound/0 zone A/A0"}) {
		t.Errorf("outside: %v", outside)
	}
}
