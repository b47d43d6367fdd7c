package dispersion_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/cluster/clustertest"
	"github.com/shardonnay/shardonnay/internal/model"
	"github.com/shardonnay/shardonnay/internal/plan"
	"github.com/shardonnay/shardonnay/internal/rebalance"
	"github.com/shardonnay/shardonnay/internal/solver"
)

// land is a cluster over regions under test.
type land struct {
	*clustertest.Land
	t *testing.T
}

func newLand(t *testing.T, places ...string) *land { return &land{clustertest.NewLand(places...), t} }

// regionPolicy balances disks and knows regions.
func regionPolicy() model.Policy {
	p := model.DefaultPolicy()
	p.Weights = map[string]float64{"search": 0, "index": 0}
	p.Regions = &model.Regions{Region: "region", Zone: "zone", Host: "host", Remainder: model.RemainderMain, Overload: 0.1, WAN: model.WAN{Factor: 4}}
	return p
}

// decide solves with a limit of work, so that every run is the same.
func (l *land) decide(policy model.Policy, seed uint64) (*rebalance.Summary, error) {
	l.Sort()
	settings := rebalance.Settings{Policy: policy, Mode: plan.DryRun, Solver: solver.Options{WorkLimit: int64(100_000 + 500*len(l.Copies)), Seed: seed, Workers: 2}}
	return rebalance.Decide(context.Background(), l.Snapshot, settings, solver.Solve)
}

func (l *land) mustDecide(policy model.Policy, seed uint64) *rebalance.Summary {
	l.t.Helper()
	s, err := l.decide(policy, seed)
	if err != nil {
		l.t.Fatal(err)
	}
	return s
}

// spread counts the copies of every group per value of an attribute, at an assignment.
func (l *land) spread(s *rebalance.Summary, node []int32, attribute string) map[string]map[string]int {
	count := make(map[string]map[string]int)
	for c := range s.Problem.Copies {
		name := s.Problem.Groups[s.Problem.Copies[c].Group].Name
		if count[name] == nil {
			count[name] = make(map[string]int)
		}
		at := l.NodeAt(cluster.NodeID(s.Problem.Nodes[node[c]].ID))
		count[name][l.Nodes[at].Attributes[attribute]]++
	}
	return count
}

// Two regions of three zones, three copies: every shard has two copies in one region and one in the other, none share a
// zone, and which region has two is even.
func TestA20EveryGroupTwoPlusOne(t *testing.T) {
	l := newLand(t, clustertest.TwoByThree()...)
	l.Add("a", 1000, 3, l.Anywhere(3, 1))
	s := l.mustDecide(regionPolicy(), 1)
	inA := 0
	for name, count := range l.spread(s, s.Result.Assignment, "region") {
		if count["A"]*count["B"] != 2 {
			t.Fatalf("%s: %v", name, count)
		}
		inA += count["A"] - 1
	}
	for name, count := range l.spread(s, s.Result.Assignment, "zone") {
		if len(count) != 3 {
			t.Fatalf("%s: %v", name, count)
		}
	}
	if s.Spread.Dispersion.Target != 0 {
		t.Errorf("dispersion %v", s.Spread.Dispersion)
	}
	t.Logf("%d of 1000 shards have two copies in A; %v -> %v, at least %v", inA, s.Result.ObjectiveBefore, s.Result.Objective, s.Result.LowerBound)
	if inA < 450 || inA > 550 {
		t.Errorf("%d of 1000 shards have two copies in A", inA)
	}
}

// In one region the region code changes nothing, whatever is configured: not the problem, not the plan.
func TestA21OneRegionChangesNothing(t *testing.T) {
	for _, region := range []string{"A", ""} {
		l := newLand(t, slices.Concat(clustertest.Spots(4, "A A1 A1"), clustertest.Spots(4, "A A2 A2"), clustertest.Spots(3, "A A3 A3"))...)
		for n := range l.Nodes {
			l.Nodes[n].Attributes["region"] = region
		}
		l.Settings.AwarenessAttributes = []string{"zone"}
		l.Add("a", 60, 2, l.Anywhere(2, 1))
		without := regionPolicy()
		without.Regions = nil
		before := l.mustDecide(without, 1)
		if region == "" {
			continue // a region that no node has is refused, below
		}
		with := regionPolicy()
		with.Regions.Homes = []model.Home{{Pattern: "*", Region: "A"}}
		with.Regions.Overload = 0
		with.Regions.CoolingDown = map[model.ShardID]struct{}{{IndexUUID: "a-uuid", Shard: 0}: {}}
		with.Regions.WAN = model.WAN{Closed: true, Factor: 10}
		after := l.mustDecide(with, 1)
		if len(before.Plan.Moves) == 0 {
			t.Fatal("there is nothing to compare")
		}
		if a, b := problemText(t, before), problemText(t, after); a != b {
			t.Errorf("the problems differ:\n%s\n%s", a, b)
		}
		if a, b := planText(t, before), planText(t, after); a != b {
			t.Errorf("the plans differ:\n%s\n%s", a, b)
		}
	}
}

func problemText(t *testing.T, s *rebalance.Summary) string {
	t.Helper()
	var text strings.Builder
	if err := s.Problem.Write(&text); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// planText is the plan as JSON, the solver's time aside.
func planText(t *testing.T, s *rebalance.Summary) string {
	t.Helper()
	p := *s.Plan
	p.Solver.WallS = 0
	var text strings.Builder
	if err := p.Write(&text); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// A region never holds more copies of a shard than it has zones, where the others have zones for the rest.
func TestA22RegionWithOneZoneHoldsOneCopy(t *testing.T) {
	for _, remainder := range []model.Remainder{model.RemainderMain, model.RemainderSpread} {
		l := newLand(t, slices.Concat(clustertest.Spots(3, "A A1 A1"), clustertest.Spots(3, "A A2 A2"), clustertest.Spots(6, "B B1 B1"))...)
		l.Add("a", 200, 3, l.Anywhere(3, 2))
		policy := regionPolicy()
		policy.Regions.Remainder = remainder
		s := l.mustDecide(policy, 1)
		for name, count := range l.spread(s, s.Result.Assignment, "region") {
			if count["B"] != 1 {
				t.Fatalf("%s %s: %v", remainder, name, count)
			}
		}
	}
}

// Where there are fewer zones than copies, each zone may hold one more, evenly, and the plan says so.
func TestFewerZonesThanCopies(t *testing.T) {
	l := newLand(t, "A A1 a", "A A1 b", "A A1 c", "B B1 d", "B B1 e", "B B1 f")
	l.Add("a", 20, 3, l.Anywhere(3, 2))
	s := l.mustDecide(regionPolicy(), 1)
	for name, count := range l.spread(s, s.Result.Assignment, "region") {
		if count["A"]*count["B"] != 2 {
			t.Fatalf("%s: %v", name, count)
		}
	}
	if !slices.ContainsFunc(s.Plan.Verdicts, func(v plan.Verdict) bool { return v.Kind == plan.Zones && strings.Contains(v.Text, "copies for a:") }) {
		t.Errorf("no verdict says so: %+v", s.Plan.Verdicts)
	}
}

// Five copies in three regions: all of the remainder in one is more than the server's awareness of regions lets be, which is
// refused with the index and the cap; spread is legal, and without that awareness both are.
func TestA23TheServersAwarenessIsKept(t *testing.T) {
	var places []string
	for _, region := range []string{"A", "B", "C"} {
		for zone := range 3 {
			places = append(places, clustertest.Spots(2, fmt.Sprintf("%s %s%d %s%d", region, region, zone, region, zone))...)
		}
	}
	start := func() *land {
		l := newLand(t, places...)
		l.Add("five", 50, 5, func(shard, c int) int { return (shard + c*4) % len(places) })
		return l
	}
	policy := regionPolicy()

	l := start()
	l.Settings.AwarenessAttributes = []string{"region"}
	_, err := l.decide(policy, 1)
	if cluster.ClassOf(err) != cluster.Invalid || !strings.Contains(err.Error(), "index five: its 5 copies are to be 3+1+1") ||
		!strings.Contains(err.Error(), "the server's awareness of region lets each value have 2 at most") {
		t.Errorf("the server's cap of 2: %v", err)
	}
	policy.Regions.Layouts = []model.Layout{{Pattern: "f*", Copies: map[string]int{"A": 1, "B": 3, "C": 1}}}
	if _, err := l.decide(policy, 1); err == nil || !strings.Contains(err.Error(), "3 of them in region B") {
		t.Errorf("an explicit layout above the server's cap: %v", err)
	}
	policy.Regions.Layouts = nil

	policy.Regions.Remainder = model.RemainderSpread
	s := l.mustDecide(policy, 1)
	for name, count := range l.spread(s, s.Result.Assignment, "region") {
		if len(count) != 3 || max(count["A"], count["B"], count["C"]) != 2 {
			t.Fatalf("spread %s: %v", name, count)
		}
	}

	l = start()
	policy.Regions.Remainder = model.RemainderMain
	s = l.mustDecide(policy, 1)
	for name, count := range l.spread(s, s.Result.Assignment, "region") {
		if len(count) != 3 || max(count["A"], count["B"], count["C"]) != 3 {
			t.Fatalf("main %s: %v", name, count)
		}
	}
}

// A node of region A is emptied: all of it goes to A, to zones that have no copy of the shard yet, and another seed finds
// the same places. Where A is full, B is used.
func TestA24HandoffsStayInTheRegion(t *testing.T) {
	start := func() *land {
		l := newLand(t, clustertest.TwoByThree()...) // n0 and n1 are the hosts of zone A0, and so on; B begins with n6
		l.Add("a", 12, 3, func(shard, c int) int { return []int{0, 2, 6 + shard%6}[c] })
		l.Nodes[0].Leaving = "shutdown REMOVE"
		return l
	}
	targets := func(s *rebalance.Summary) (list []string) {
		for _, m := range s.Plan.Moves {
			if m.From.ID == "n0000" {
				list = append(list, fmt.Sprintf("%d>%s", m.Shard, m.To.Name))
			}
		}
		slices.Sort(list)
		return list
	}
	l := start()
	first := l.mustDecide(regionPolicy(), 1)
	if len(targets(first)) != 12 {
		t.Fatalf("%d of 12 copies leave: %v", len(targets(first)), first.Plan.Verdicts)
	}
	for _, m := range first.Plan.Moves {
		at := l.Nodes[l.NodeAt(m.To.ID)].Attributes
		if m.From.ID == "n0000" && (at["region"] != "A" || at["zone"] == "A1") {
			t.Errorf("shard %d goes to %s in %s", m.Shard, m.To.Name, at["zone"])
		}
	}
	if second := start().mustDecide(regionPolicy(), 1); !slices.Equal(targets(first), targets(second)) {
		t.Errorf("the same seed: %v, then %v", targets(first), targets(second))
	}

	l = start()
	for n := 1; n < 6; n++ {
		l.Nodes[n].Disk.Available = 1 << 38 // of 10 TiB: beyond the low watermark
	}
	s := l.mustDecide(regionPolicy(), 1)
	if len(targets(s)) != 12 {
		t.Fatalf("%d of 12 copies leave for B: %v", len(targets(s)), s.Plan.Verdicts)
	}
	for _, m := range s.Plan.Moves {
		if at := l.Nodes[l.NodeAt(m.To.ID)].Attributes; m.From.ID == "n0000" && at["region"] != "B" {
			t.Errorf("A is full and shard %d goes to %s", m.Shard, m.To.Name)
		}
	}
}

// A shard of which a copy moved an hour ago stays; one that has to leave its node leaves.
func TestA26CoolDownOfShards(t *testing.T) {
	l := newLand(t, clustertest.TwoByThree()...)
	l.Add("a", 12, 2, func(shard, c int) int { return []int{0, 6}[c] })
	policy := regionPolicy()
	policy.Regions.CoolingDown = map[model.ShardID]struct{}{{IndexUUID: "a-uuid", Shard: 3}: {}}
	moves := func() (of3, all int) {
		for _, m := range l.mustDecide(policy, 1).Plan.Moves {
			all++
			if m.Shard == 3 {
				of3++
			}
		}
		return of3, all
	}
	if of3, all := moves(); of3 != 0 || all == 0 {
		t.Errorf("%d of %d moves are of the shard that is cooling down", of3, all)
	}
	l.Nodes[0].Leaving = "shutdown REMOVE"
	if of3, _ := moves(); of3 != 1 {
		t.Errorf("its node is on its way out, and %d of its copies move", of3)
	}
}

// No plan moves two copies of a shard where regions matter.
func TestOneCopyOfAShardPerPlan(t *testing.T) {
	l := newLand(t, clustertest.TwoByThree()...)
	l.Add("a", 30, 3, func(_, c int) int { return c })
	seen := make(map[int]bool)
	for _, m := range l.mustDecide(regionPolicy(), 1).Plan.Moves {
		if seen[m.Shard] {
			t.Errorf("shard %d moves twice", m.Shard)
		}
		seen[m.Shard] = true
	}
	if len(seen) < 20 {
		t.Errorf("only %d of 30 shards move", len(seen))
	}
}

// emptiest is the position of the least of count[from:to], the first of several.
func emptiest(count []int, from, to int) int {
	least := from
	for n := from; n < to; n++ {
		if count[n] < count[least] {
			least = n
		}
	}
	return least
}

// Hosts of 12, 12 and 11 equal disks, three copies: with weights kept to the letter some shards share a host, with enough
// overload none do. A node of another region, which wants none of them, makes the wishes be heard.
func TestA27Overload(t *testing.T) {
	disks := slices.Concat(clustertest.Spots(12, "A A1 h1"), clustertest.Spots(12, "A A1 h2"), clustertest.Spots(11, "A A1 h3"), clustertest.Spots(1, "B B1 h4"))
	for _, test := range []struct{ overload, least, most float64 }{{0, 0.0172, 0.0191}, {0.05, 0.0031, 0.0035}, {0.1, 0, 0}} {
		l := newLand(t, disks...)
		const shards = 2100 // 180 copies a disk
		l.Add("a", shards, 3, l.Anywhere(3, 1))
		// All disks are even to begin with, and shards are apart as far as that lets them be, a twentieth of them aside,
		// which have all their copies on one host.
		first := [3]int{0, 12, 24}
		full := make([]int, 36)
		for c := range l.Copies {
			host := c % 3
			if shard := c / 3; shard%20 == 0 {
				host = shard / 20 % 3
			}
			for off := range 3 { // the next disk of the host, or of the one after, that has room
				n := emptiest(full, first[(host+off)%3], [3]int{12, 24, 35}[(host+off)%3])
				if full[n] < 3*shards/35 {
					l.Copies[c].Node = int32(n)
					full[n]++
					break
				}
			}
		}
		l.Sort()
		policy := regionPolicy()
		policy.Regions.Overload = test.overload
		policy.Regions.Layouts = []model.Layout{{Pattern: "*", Copies: map[string]int{"A": 3}}}
		// The plain descent: programs for a better bound would take most of the time and change nothing here.
		s, err := rebalance.Decide(context.Background(), l.Snapshot, rebalance.Settings{Policy: policy, MaxMoves: 20}, func(ctx context.Context, p *model.Problem, o solver.Options) (*solver.Result, error) {
			return solver.Descent(ctx, p, o), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("overload %g: dispersion %.4f -> %.4f, worst %s; required overload %.4f, balance %.4f; %v", test.overload,
			s.Spread.Dispersion.Now, s.Spread.Dispersion.Target, s.Spread.WorstTier, s.Spread.RequiredOverload, s.Spread.Balance.Target, s.Result.Wall)
		if got := s.Spread.Dispersion.Target; got < test.least || got > test.most {
			t.Errorf("overload %g: dispersion %.4f, want %.4f to %.4f", test.overload, got, test.least, test.most)
		}
		if math.Abs(s.Spread.RequiredOverload-2.0/33) > 1e-9 {
			t.Errorf("required overload %v, want 0.0606", s.Spread.RequiredOverload)
		}
	}
}
