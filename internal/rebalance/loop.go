package rebalance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"
	"go.uber.org/zap"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/dispersion"
	"github.com/shardonnay/shardonnay/internal/model"
	"github.com/shardonnay/shardonnay/internal/mover"
	"github.com/shardonnay/shardonnay/internal/plan"
	"github.com/shardonnay/shardonnay/internal/solver"
)

// Mode is how far a cycle goes.
type Mode = plan.Mode

// Collector takes a snapshot of the cluster.
type Collector interface {
	Collect(ctx context.Context) (*cluster.Snapshot, error)
}

// SolveFunc solves a problem; a crash inside costs an error, not the daemon.
type SolveFunc func(ctx context.Context, p *model.Problem, o solver.Options) (*solver.Result, error)

// Carrier carries a plan out; *mover.Mover is one.
type Carrier interface {
	Carry(ctx context.Context, p *plan.Plan, s *cluster.Snapshot) (mover.Report, error)
}

// Owner takes rebalancing over from the server and gives it back; *mover.Ownership is one.
type Owner interface {
	Acquire(ctx context.Context) error
	Release(ctx context.Context, s *cluster.Snapshot) (mover.Released, error)
}

// Memory remembers what moved lately; *mover.Ledger is one.
type Memory interface {
	CoolingDown(now time.Time, d time.Duration) map[string]struct{}
	Returns(now time.Time) map[string]plan.Return
	ShardsCoolingDown(now time.Time, d time.Duration) map[model.ShardID]struct{}
}

// Crossings keeps account of what crosses between regions; *mover.Crossings is one.
type Crossings interface {
	Pass(s *cluster.Snapshot, l mover.CrossingLimits) (model.WAN, error)
	Spend(moves []plan.Move) error
}

// Settings are what a cycle reads of the configuration. They may differ from one cycle to the next.
type Settings struct {
	Mode      Mode
	Interval  time.Duration // from the start of one cycle to the start of the next
	Jitter    float64       // ratio of Interval by which a start moves at random, both ways
	TimeLimit time.Duration // for collecting, solving and planning
	Deadline  time.Duration // for carrying the plan out
	CoolDown  time.Duration // of a copy that moved
	Policy    model.Policy
	Solver    solver.Options
	MaxMoves  int   // of one plan; 0 is no limit
	MaxBytes  int64 // of one plan; 0 is no limit

	ShardCoolDown time.Duration // of a shard of which a copy moved; of account where Policy has regions, as is
	Crossing      mover.CrossingLimits
}

// Overdue is how long after its last sign of life a loop counts as hanging: three intervals and the time its steps may
// take.
func (s *Settings) Overdue() time.Duration { return 3*s.Interval + s.TimeLimit + s.Deadline }

// Loop is the daemon's heart. Its fields are set before the first cycle and not changed after.
type Loop struct {
	Collector Collector
	Solve     SolveFunc
	Carrier   Carrier
	Owner     Owner
	Memory    Memory
	Crossings Crossings       // asked where the policy has regions
	Settings  func() Settings // asked at the start of every cycle
	Hold      func() string   // asked before a plan is carried out: why copies are to stay for now, empty where they need not; may be nil
	Planned   func(*Summary)  // called when a plan is about to be carried out, which may take long; may be nil
	Observe   func(*Summary)  // called at the end of every cycle; may be nil
	Log       *zap.Logger

	paused atomic.Bool
	latest atomic.Pointer[Summary]
	beat   atomic.Int64 // when the loop last showed life, Unix nanoseconds

	// Touched by the cycle only, and there is one at a time.
	warm  *solver.Warm
	asked bool // rebalancing was asked for: a claim may stand in the cluster, even one that was broken off
	owned bool // it is ours, as far as the last cycle has seen
}

// releaseTimeout bounds handing rebalancing back at the end: two short requests. Kubernetes gives a pod 30 s to end.
const releaseTimeout = 10 * time.Second

// ErrDeposed is the cause of a context that ends because another instance is to lead: what is ours, the record in the
// cluster and what is in flight, is for that one to take over, and nothing is written to the cluster any more.
var ErrDeposed = errors.New("another instance is to lead")

// Run runs cycles until ctx is done, then gives rebalancing back, unless the cause is ErrDeposed. What is in flight then
// is left to the cluster. The error is that of giving back: the cluster is not tidy then.
func (l *Loop) Run(ctx context.Context) error {
	for {
		l.beat.Store(time.Now().UnixNano())
		started := time.Now()
		l.Cycle(ctx)
		settings := l.Settings()
		wait := time.Duration(float64(settings.Interval)*(1+settings.Jitter*(2*rand.Float64()-1))) - time.Since(started)
		timer := time.NewTimer(max(0, wait))
		select {
		case <-ctx.Done():
			timer.Stop()
			if errors.Is(context.Cause(ctx), ErrDeposed) {
				l.asked, l.owned = false, false
				return nil
			}
			return l.GiveBack(context.WithoutCancel(ctx))
		case <-timer.C:
		}
	}
}

// GiveBack releases rebalancing where it is ours: also where the mode has become another one than act. Run does so when it ends; call it only when no cycle runs.
func (l *Loop) GiveBack(ctx context.Context) error {
	if !l.asked {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	var snapshot *cluster.Snapshot
	if latest := l.latest.Load(); latest != nil {
		snapshot = latest.Snapshot
	}
	released, err := l.Owner.Release(ctx, snapshot)
	if err != nil {
		l.Log.Error("rebalancing could not be given back; run shardonnay release", zap.Error(err))
		return err
	}
	was := l.owned || released.Restored
	if l.asked, l.owned = false, false; !was {
		return nil
	}
	returns := make([]string, 0, len(released.Returns))
	for _, r := range released.Returns {
		returns = append(returns, fmt.Sprintf("%s/%d", r.Index, r.Shard))
	}
	l.Log.Info("rebalancing given back", zap.String("result", released.Text), zap.Strings("returns", returns))
	return nil
}

// Cycle runs every step once and says how it ended. It never panics on what a cluster answers, and it changes the cluster
// in mode act only.
func (l *Loop) Cycle(ctx context.Context) *Summary {
	s := &Summary{ID: ulid.Make().String(), Started: time.Now(), Took: make(map[Stage]time.Duration)}
	settings := l.Settings()
	s.Mode = settings.Mode
	err := l.steps(ctx, s, settings)
	if err != nil {
		s.Err, s.Reason, s.Outcome = err, err.Error(), outcomeOf(err)
	}
	l.beat.Store(time.Now().UnixNano())
	l.keep(s)
	l.logSummary(s)
	if l.Observe != nil {
		l.Observe(s)
	}
	return s
}

// keep makes s the latest summary. A cycle that did not come to a snapshot, problem or plan leaves those of the one
// before for readers, so that a hiccup does not blank the page.
func (l *Loop) keep(s *Summary) {
	shown := *s
	if before := l.latest.Load(); before != nil {
		if shown.Snapshot == nil {
			shown.Snapshot = before.Snapshot
		}
		if shown.Problem == nil {
			shown.Problem = before.Problem
		}
		if shown.Plan == nil {
			shown.Plan = before.Plan
		}
	}
	l.latest.Store(&shown)
}

// show lets readers see a plan while it is carried out, which may take as long as the deadline. The rest of what they see
// is of the last cycle that ended.
func (l *Loop) show(s *Summary) {
	var shown Summary
	if before := l.latest.Load(); before != nil {
		shown = *before
	}
	shown.Mode, shown.Hold = s.Mode, s.Hold
	shown.Snapshot, shown.Problem, shown.Result, shown.Plan = s.Snapshot, s.Problem, s.Result, s.Plan
	l.latest.Store(&shown)
	if l.Planned != nil {
		l.Planned(s)
	}
}

// steps is the cycle: it fills s and sets its outcome, or returns what ended it.
func (l *Loop) steps(ctx context.Context, s *Summary, settings Settings) error {
	if err := l.prepare(ctx, s, settings); err != nil {
		return err
	}
	inFlight := s.Snapshot.Health.Relocating > 0
	switch {
	case s.Hold != nil:
		s.Outcome, s.Reason = Held, s.Hold.Text
		if s.Hold.Kind == mover.OtherHolder {
			s.Outcome = NotOwner
		}
	case len(s.Plan.Moves) == 0 && !(settings.Mode == plan.Act && inFlight):
		s.Outcome, s.Reason = Balanced, firstText(s.Plan)
	case settings.Mode != plan.Act:
		s.Outcome, s.Reason = Held, fmt.Sprintf("%d moves planned; the mode is %s", len(s.Plan.Moves), settings.Mode)
	case l.paused.Load():
		s.Outcome, s.Reason = Held, "paused by request; resume with POST /api/v1/resume"
	case s.Snapshot.Samples < 2:
		s.Outcome, s.Reason = Held, "warming up: rates need two samples of the counters"
	default:
		if l.Hold != nil {
			if s.Reason = l.Hold(); s.Reason != "" {
				s.Outcome = Held
				return nil
			}
		}
		return l.carry(ctx, s, settings)
	}
	return nil
}

// takeOver makes rebalancing ours. A hold says why it may not be; the cycle goes on without moving.
func (l *Loop) takeOver(ctx context.Context) (*mover.Hold, error) {
	l.asked = true
	err := l.Owner.Acquire(ctx)
	if hold, ok := errors.AsType[*mover.Hold](err); ok {
		return hold, nil
	}
	if err != nil {
		return nil, err
	}
	if !l.owned {
		l.owned = true
		l.Log.Info("rebalancing taken over")
	}
	return nil, nil
}

// prepare does all that comes before moving, within the cycle's time limit. Giving back is not cut short by it.
func (l *Loop) prepare(ctx context.Context, s *Summary, settings Settings) (err error) {
	if settings.Mode != plan.Act {
		if err := l.GiveBack(ctx); err != nil {
			return err
		}
	}
	if settings.TimeLimit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, settings.TimeLimit)
		defer cancel()
	}
	if settings.Mode == plan.Act {
		if s.Hold, err = l.takeOver(ctx); err != nil {
			return err
		}
	}
	return l.think(ctx, s, settings)
}

// think collects, models, solves and plans.
func (l *Loop) think(ctx context.Context, s *Summary, settings Settings) error {
	err := s.stage(Collect, func() (err error) {
		s.Snapshot, err = l.Collector.Collect(ctx)
		return err
	})
	if err != nil {
		return err
	}
	now := s.Snapshot.TakenAt
	settings.Policy.CoolingDown = l.Memory.CoolingDown(now, settings.CoolDown)
	if settings.Policy.Regions != nil {
		regions := *settings.Policy.Regions
		regions.CoolingDown = l.Memory.ShardsCoolingDown(now, settings.ShardCoolDown)
		wan, err := l.Crossings.Pass(s.Snapshot, settings.Crossing)
		if err != nil {
			return err
		}
		regions.WAN.Closed, regions.WAN.Left = wan.Closed, wan.Left
		settings.Policy.Regions = &regions
	}
	settings.Solver.Warm = l.warm
	err = s.decide(ctx, settings, l.Solve, l.Memory.Returns(now))
	if err == nil {
		l.warm = s.Result.Warm
	}
	return err
}

// Decide models, solves and plans for one snapshot, outside of any loop. The summary holds what each step made.
func Decide(ctx context.Context, snapshot *cluster.Snapshot, settings Settings, solve SolveFunc) (*Summary, error) {
	s := &Summary{Mode: settings.Mode, Started: time.Now(), Took: make(map[Stage]time.Duration), Snapshot: snapshot}
	return s, s.decide(ctx, settings, solve, nil)
}

// decide is the pure middle of a cycle, from s.Snapshot to s.Plan.
func (s *Summary) decide(ctx context.Context, settings Settings, solve SolveFunc, returns map[string]plan.Return) error {
	var built *model.Built
	err := s.stage(Model, func() (err error) {
		if built, err = model.Build(s.Snapshot.Projected(), &settings.Policy); err == nil {
			s.Problem = built.Problem
		}
		return err
	})
	if err != nil {
		return err
	}
	err = s.stage(Solve, func() (err error) {
		s.Result, err = solve(ctx, s.Problem, settings.Solver)
		return err
	})
	if err != nil {
		return err
	}
	return s.stage(Plan, func() (err error) {
		s.Plan, err = plan.Diff(built, solved(s.Result), plan.Options{
			Mode: s.Mode, CreatedAt: s.Snapshot.TakenAt, MaxMoves: settings.MaxMoves, MaxBytes: settings.MaxBytes,
			Taken: s.Snapshot, Returns: returns,
		})
		if err == nil && settings.Policy.Regions != nil {
			s.Spread = dispersion.Of(built, s.Plan, s.Result.Assignment)
		}
		return err
	})
}

// stage runs one step and notes how long it took.
func (s *Summary) stage(stage Stage, do func() error) error {
	started := time.Now()
	defer func() { s.Took[stage] = time.Since(started) }()
	return do()
}

// solved is the solver's answer as the plan takes it.
func solved(r *solver.Result) plan.Solved {
	return plan.Solved{
		Assignment: r.Assignment, LowerBound: r.LowerBound,
		Solver: plan.Solver{
			Status: string(r.Status), WallS: r.Wall.Seconds(), ColumnsConsidered: r.Counters.PairsPriced, ColumnsBuilt: r.Counters.ColumnsBuilt,
			LPSolves: int(r.Counters.LPSolves), Rounds: int(r.Counters.Rounds), Limit: string(r.Limit),
		},
	}
}

// carry hands the plan to the mover and reads the outcome off its report.
func (l *Loop) carry(ctx context.Context, s *Summary, settings Settings) error {
	if settings.Deadline > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, settings.Deadline)
		defer cancel()
	}
	l.show(s)
	started := time.Now()
	report, err := l.Carrier.Carry(ctx, s.Plan, s.Snapshot)
	s.Took[Move], s.Report = time.Since(started), &report
	if settings.Policy.Regions != nil {
		err = errors.Join(err, l.Crossings.Spend(report.Asked()))
	}
	if err != nil {
		return err
	}
	if report.Stop != nil {
		s.Reason = report.Stop.Text
	}
	switch requested := report.Considered - report.Count[mover.Skipped] - report.Count[mover.Stale]; {
	case requested > 0:
		s.Outcome = Moved
	case report.Stop != nil && report.Stop.Kind == mover.GateFull, len(report.InFlight) > 0:
		s.Outcome = MovesInFlight
	case report.Stop != nil:
		s.Outcome = ClusterNotReady
	case report.Adopted > 0:
		s.Outcome, s.Reason = MovesInFlight, "watched moves that were under way"
	default:
		s.Outcome, s.Reason = Held, "no move of the plan still held when its turn came"
	}
	return nil
}

// firstText is the reason a plan without moves gives.
func firstText(p *plan.Plan) string {
	for _, verdict := range p.Verdicts {
		if verdict.Kind == plan.Balanced {
			return verdict.Text
		}
	}
	texts := make([]string, 0, 1)
	for _, verdict := range p.Verdicts[:min(1, len(p.Verdicts))] {
		texts = append(texts, verdict.Text)
	}
	return strings.Join(texts, " ")
}

// logSummary tells the cycle's story in one line.
func (l *Loop) logSummary(s *Summary) {
	fields := []zap.Field{
		zap.String("cycle_id", s.ID), zap.String("outcome", string(s.Outcome)), zap.String("mode", string(s.Mode)),
		zap.Duration("took", time.Since(s.Started).Round(time.Millisecond)),
	}
	if s.Reason != "" {
		fields = append(fields, zap.String("reason", s.Reason))
	}
	if s.Plan != nil {
		fields = append(fields, zap.Int("planned", len(s.Plan.Moves)), zap.Float64("objective", s.Plan.Objective.Before),
			zap.Float64("objective_after", s.Plan.Objective.After), zap.Float64("lower_bound", s.Plan.Objective.LowerBound))
		for _, balance := range s.Plan.Balance {
			fields = append(fields, zap.Float64("peak_to_mean."+balance.Dimension, balance.Before.PeakToMean))
		}
	}
	if s.Report != nil {
		fields = append(fields, zap.Int("landed", s.Report.Count[mover.Landed]), zap.Int("in_flight", len(s.Report.InFlight)),
			zap.Int64("bytes_moved", s.Report.BytesMoved))
	}
	switch s.Outcome {
	case Failed, Infeasible:
		l.Log.Error("cycle", fields...)
	case SnapshotIncomplete, ClusterNotReady:
		l.Log.Warn("cycle", fields...)
	default:
		l.Log.Info("cycle", fields...)
	}
}
