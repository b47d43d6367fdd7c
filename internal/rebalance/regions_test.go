package rebalance

import (
	"context"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/cluster/clustertest"
	"github.com/shardonnay/shardonnay/internal/model"
	"github.com/shardonnay/shardonnay/internal/mover"
	"github.com/shardonnay/shardonnay/internal/plan"
	"github.com/shardonnay/shardonnay/internal/solver"
)

// rounds is everything around a loop over a land: what is planned lands at once.
type rounds struct {
	*clustertest.Land
	stageSet
	policy model.Policy
	hour   float64 // between two cycles
}

func (r *rounds) Collect(context.Context) (*cluster.Snapshot, error) {
	r.TakenAt = r.TakenAt.Add(time.Duration(r.hour * float64(time.Hour)))
	s := *r.Snapshot
	s.Nodes, s.Copies = slices.Clone(s.Nodes), slices.Clone(s.Copies)
	s.Sort()
	return &s, nil
}

func (r *rounds) Carry(_ context.Context, p *plan.Plan, _ *cluster.Snapshot) (mover.Report, error) {
	report := mover.Report{Considered: len(p.Moves), Count: map[mover.State]int{mover.Landed: len(p.Moves)}}
	for _, m := range p.Moves {
		r.Move(m.AllocationID, m.To.ID)
		report.Outcomes = append(report.Outcomes, mover.Outcome{Move: m, State: mover.Landed, Elapsed: time.Second})
	}
	return report, nil
}

func (r *rounds) loop(crossings Crossings, limits mover.CrossingLimits) *Loop {
	return &Loop{
		Collector: r, Solve: solver.Solve, Carrier: r, Owner: &r.stageSet, Memory: &r.stageSet, Crossings: crossings, Log: zap.NewNop(),
		Settings: func() Settings {
			return Settings{Mode: plan.Act, Policy: r.policy, Crossing: limits, Solver: solver.Options{WorkLimit: 300_000, Seed: 1, Workers: 1}}
		},
	}
}

// One of four passes lets copies cross between regions, and never more bytes than a bucket has. A move of a replica within
// B crosses if its primary is in A. A region below its floor gets its copies at once, within the same bytes.
func TestA25WANBudget(t *testing.T) {
	l := clustertest.NewLand(clustertest.TwoByThree()...)
	// Primaries in A, replicas heaped on one node of B: evening B out reads from A.
	l.Add("a", 24, 2, func(shard, c int) int { return []int{shard % 6, 6}[c] })
	l.Sort()
	x, _, err := mover.OpenCrossings(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	const perHour = 3 << 30
	r := &rounds{Land: l, stageSet: stageSet{samples: 2}, policy: regionPolicy(), hour: 1}
	loop := r.loop(x, mover.CrossingLimits{Region: "region", Every: 4, BytesPerHour: perHour})
	crossed := make(map[int]float64)
	for pass := 1; pass <= 8; pass++ {
		had := x.Left()
		s := loop.Cycle(context.Background())
		if s.Err != nil {
			t.Fatal(s.Err)
		}
		for _, m := range s.Plan.Moves {
			from, to := l.Nodes[l.NodeAt(m.BytesSource.ID)].Attributes["region"], l.Nodes[l.NodeAt(m.To.ID)].Attributes["region"]
			if (m.WAN != nil) != (from != to) {
				t.Errorf("pass %d: %s/%d from %s to %s: said to cross %v", pass, m.Index, m.Shard, m.BytesSource.ID, m.To.Name, m.WAN)
			}
			if m.WAN != nil {
				crossed[pass] += float64(m.Bytes)
			}
		}
		if pass > 1 && crossed[pass] > had[model.Link{From: "A", To: "B"}]+perHour {
			t.Errorf("pass %d: %g bytes cross, %g were there", pass, crossed[pass], had[model.Link{From: "A", To: "B"}])
		}
	}
	if len(crossed) != 2 || crossed[4] == 0 || crossed[8] == 0 {
		t.Errorf("bytes that crossed, by pass: %v", crossed)
	}

	// B is empty: below its floor. The first pass, which is closed, sends what the bucket has: one copy.
	l = clustertest.NewLand(clustertest.TwoByThree()...)
	l.Add("a", 24, 2, func(shard, c int) int { return (shard + 2*c) % 6 })
	l.Sort()
	if x, _, err = mover.OpenCrossings(""); err != nil {
		t.Fatal(err)
	}
	r = &rounds{Land: l, stageSet: stageSet{samples: 2}, policy: regionPolicy(), hour: 1}
	s := r.loop(x, mover.CrossingLimits{Region: "region", Every: 4, BytesPerHour: perHour}).Cycle(context.Background())
	if s.Err != nil || len(s.Plan.Moves) != 1 || s.Plan.Moves[0].WAN == nil {
		t.Errorf("a floor is restored with the bytes there are: %v, %+v", s.Err, s.Plan.Moves)
	}
	if x.Left()[model.Link{From: "A", To: "B"}] != 0 || x.Crossed()[model.Link{From: "A", To: "B"}] != 1<<30 {
		t.Errorf("left %v, crossed %v", x.Left(), x.Crossed())
	}
}

// regionPolicy balances disks and knows regions.
func regionPolicy() model.Policy {
	p := model.DefaultPolicy()
	p.Weights = map[string]float64{"search": 0, "index": 0}
	p.Regions = &model.Regions{Region: "region", Zone: "zone", Host: "host", Remainder: model.RemainderMain, Overload: 0.1, WAN: model.WAN{Factor: 4}}
	return p
}
