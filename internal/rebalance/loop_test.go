package rebalance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/cluster/clustertest"
	"github.com/shardonnay/shardonnay/internal/model"
	"github.com/shardonnay/shardonnay/internal/mover"
	"github.com/shardonnay/shardonnay/internal/plan"
	"github.com/shardonnay/shardonnay/internal/solver"
)

// hot is a cluster with everything on one of two nodes.
const hot = `
node n1 disk=100gb free=60gb
node n2 disk=100gb free=100gb
index a
index b
copy a/0 p n1 bytes=10gb search=1
copy b/0 p n1 bytes=10gb search=1
`

// even is the same cluster when nothing is left to do.
const even = `
node n1 disk=100gb free=90gb
node n2 disk=100gb free=90gb
index a
index b
copy a/0 p n1 bytes=10gb search=1
copy b/0 p n2 bytes=10gb search=1
`

// stage is everything around a loop, faked.
type stageSet struct {
	text     string // the cluster, in clustertest's language
	samples  int
	settings Settings

	collectErr, solveErr, carryErr, acquireErr, releaseErr error
	report                                                 mover.Report

	carrying  func()                      // called while a plan is carried out; may be nil
	onCollect func()                      // may be nil
	onAcquire func(context.Context) error // instead of acquireErr; may be nil

	calls    []string
	warm     []*solver.Warm // what each solve was started with
	observed []*Summary
}

func newStage(text string) *stageSet {
	policy := model.DefaultPolicy()
	return &stageSet{
		text: text, samples: 2,
		settings: Settings{Mode: plan.Act, Interval: time.Minute, TimeLimit: time.Minute, Deadline: time.Minute, Policy: policy},
		report:   mover.Report{Considered: 1, Count: map[mover.State]int{mover.Landed: 1}},
	}
}

func (s *stageSet) loop() *Loop {
	return &Loop{
		Collector: s, Solve: s.solve, Carrier: s, Owner: s, Memory: s, Settings: func() Settings { return s.settings },
		Observe: func(summary *Summary) { s.observed = append(s.observed, summary) }, Log: zap.NewNop(),
	}
}

func (s *stageSet) Collect(context.Context) (*cluster.Snapshot, error) {
	s.calls = append(s.calls, "collect")
	if s.onCollect != nil {
		s.onCollect()
	}
	if s.collectErr != nil {
		return nil, s.collectErr
	}
	snapshot, err := clustertest.Parse(s.text)
	if err == nil {
		snapshot.Samples = s.samples
	}
	return snapshot, err
}

// solve moves one copy where everything is on one node.
func (s *stageSet) solve(_ context.Context, p *model.Problem, o solver.Options) (*solver.Result, error) {
	s.calls, s.warm = append(s.calls, "solve"), append(s.warm, o.Warm)
	if s.solveErr != nil {
		return nil, s.solveErr
	}
	assignment := p.Current()
	if len(assignment) > 1 && assignment[0] == assignment[1] {
		assignment[1] = 1 - assignment[0]
	}
	return &solver.Result{Status: solver.Feasible, Assignment: assignment, Warm: &solver.Warm{}}, nil
}

func (s *stageSet) Carry(_ context.Context, p *plan.Plan, _ *cluster.Snapshot) (mover.Report, error) {
	s.calls = append(s.calls, "carry")
	if s.carrying != nil {
		s.carrying()
	}
	return s.report, s.carryErr
}

func (s *stageSet) Acquire(ctx context.Context) error {
	s.calls = append(s.calls, "acquire")
	if s.onAcquire != nil {
		return s.onAcquire(ctx)
	}
	return s.acquireErr
}

func (s *stageSet) Release(context.Context, *cluster.Snapshot) (mover.Released, error) {
	s.calls = append(s.calls, "release")
	return mover.Released{Text: "given back"}, s.releaseErr
}

func (s *stageSet) CoolingDown(time.Time, time.Duration) map[string]struct{} { return nil }
func (s *stageSet) Returns(time.Time) map[string]plan.Return                 { return nil }

func (s *stageSet) ShardsCoolingDown(time.Time, time.Duration) map[model.ShardID]struct{} { return nil }

func TestCycleOutcomes(t *testing.T) {
	incomplete := &cluster.Error{Class: cluster.Incomplete, Op: "collect", Err: errors.New("node n2 did not answer")}
	for _, c := range []struct {
		name    string
		text    string
		change  func(*stageSet)
		outcome Outcome
		reason  string // contained
		calls   string
	}{
		{"moves what pays", hot, nil, Moved, "", "acquire collect solve carry"},
		{"nothing to do", even, nil, Balanced, "", "acquire collect solve"},
		{"dry run", hot, func(s *stageSet) { s.settings.Mode = plan.DryRun }, Held, "the mode is dry-run", "collect solve"},
		{"observe", hot, func(s *stageSet) { s.settings.Mode = plan.Observe }, Held, "the mode is observe", "collect solve"},
		{"one sample", hot, func(s *stageSet) { s.samples = 1 }, Held, "warming up", "acquire collect solve"},
		{"gaps in the snapshot", hot, func(s *stageSet) { s.collectErr = incomplete }, SnapshotIncomplete, "node n2 did not answer", "acquire collect"},
		{"unreachable", hot, func(s *stageSet) {
			s.acquireErr = &cluster.Error{Class: cluster.Unavailable, Op: "read settings", Err: errors.New("refused")}
		}, Failed, "read settings: refused", "acquire"},
		{"no data node", "node m roles=master", nil, Infeasible, "no data node", "acquire collect"},
		{"solver crashes", hot, func(s *stageSet) { s.solveErr = errors.New("the worker died") }, Failed, "the worker died", "acquire collect solve"},
		{"ended in the middle", hot, func(s *stageSet) {
			s.solveErr = &cluster.Error{Class: cluster.Interrupted, Op: "solve", Err: context.Canceled}
		}, Held, "canceled", "acquire collect solve"},
		{"another holder", hot, func(s *stageSet) {
			s.acquireErr = &mover.Hold{Kind: mover.OtherHolder, Text: "other owns rebalancing"}
		}, NotOwner, "other owns", "acquire collect solve"},
		{"a person's setting", hot, func(s *stageSet) {
			s.acquireErr = &mover.Hold{Kind: mover.RebalanceChanged, Text: "somebody set it to all"}
		}, Held, "somebody set it", "acquire collect solve"},
		{"gate full", hot, func(s *stageSet) {
			s.report = mover.Report{Considered: 1, Count: map[mover.State]int{mover.Skipped: 1}, Stop: &mover.Stop{Kind: mover.GateFull, Text: "limits are used up"}}
		}, MovesInFlight, "used up", "acquire collect solve carry"},
		{"storm", hot, func(s *stageSet) {
			s.report = mover.Report{Considered: 1, Count: map[mover.State]int{mover.Skipped: 1}, Stop: &mover.Stop{Kind: mover.Storm, Text: "20 relocations of others"}}
		}, ClusterNotReady, "20 relocations", "acquire collect solve carry"},
		{"all stale", hot, func(s *stageSet) {
			s.report = mover.Report{Considered: 1, Count: map[mover.State]int{mover.Stale: 1}}
		}, Held, "still held", "acquire collect solve carry"},
		{"refused by the service", hot, func(s *stageSet) {
			s.carryErr = &cluster.Error{Class: cluster.Refused, Op: "move", Err: mover.ErrNotAllowed}
		}, Failed, "does not let us", "acquire collect solve carry"},
		{"something under way, nothing planned", even + "index c\ncopy c/0 p n1 -> n2 bytes=1kb\n", func(s *stageSet) {
			s.report = mover.Report{Adopted: 1, Count: map[mover.State]int{mover.Landed: 1}}
		}, MovesInFlight, "under way", "acquire collect solve carry"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(c.text)
			if c.change != nil {
				c.change(s)
			}
			summary := s.loop().Cycle(t.Context())
			if summary.Outcome != c.outcome || !strings.Contains(summary.Reason, c.reason) {
				t.Errorf("%s (%q), want %s (%q)", summary.Outcome, summary.Reason, c.outcome, c.reason)
			}
			if got := strings.Join(s.calls, " "); got != c.calls {
				t.Errorf("calls %q, want %q", got, c.calls)
			}
			if !slices.Contains(Outcomes, summary.Outcome) {
				t.Errorf("%q is not an outcome", summary.Outcome)
			}
			if len(s.observed) != 1 || s.observed[0] != summary {
				t.Error("the cycle was not observed exactly once")
			}
		})
	}
}

// TestPause: a paused loop plans and does not move, and goes on when resumed.
func TestPause(t *testing.T) {
	s := newStage(hot)
	l := s.loop()
	l.Pause()
	if got := l.Cycle(t.Context()); got.Outcome != Held || !strings.Contains(got.Reason, "paused") {
		t.Errorf("paused: %s (%s)", got.Outcome, got.Reason)
	}
	l.Resume()
	if got := l.Cycle(t.Context()); got.Outcome != Moved {
		t.Errorf("resumed: %s (%s)", got.Outcome, got.Reason)
	}
}

// TestHold: while copies are to stay for somebody else's sake, a loop plans and does not move.
func TestHold(t *testing.T) {
	s := newStage(hot)
	l := s.loop()
	why := "the roles of the zones are changing"
	l.Hold = func() string { return why }
	if got := l.Cycle(t.Context()); got.Outcome != Held || got.Reason != why || got.Plan == nil || slices.Contains(s.calls, "carry") {
		t.Errorf("held: %s (%s) after %v", got.Outcome, got.Reason, s.calls)
	}
	why = ""
	if got := l.Cycle(t.Context()); got.Outcome != Moved {
		t.Errorf("no longer held: %s (%s)", got.Outcome, got.Reason)
	}
}

// TestWarmStart: each solve starts from what the one before left, a failed one aside.
func TestWarmStart(t *testing.T) {
	s := newStage(hot)
	l := s.loop()
	l.Cycle(t.Context())
	s.solveErr = errors.New("crash")
	l.Cycle(t.Context())
	s.solveErr = nil
	l.Cycle(t.Context())
	if s.warm[0] != nil || s.warm[1] == nil || s.warm[2] != s.warm[1] {
		t.Errorf("warm starts: %v", s.warm)
	}
}

// TestModeChange: leaving mode act gives rebalancing back, once.
func TestModeChange(t *testing.T) {
	s := newStage(even)
	l := s.loop()
	l.Cycle(t.Context())
	s.settings.Mode = plan.DryRun
	l.Cycle(t.Context())
	l.Cycle(t.Context())
	if got := strings.Join(s.calls, " "); got != "acquire collect solve release collect solve collect solve" {
		t.Errorf("calls %q", got)
	}
}

// TestLatestSurvivesAHiccup: readers keep the last plan while a cycle fails.
func TestLatestSurvivesAHiccup(t *testing.T) {
	s := newStage(hot)
	l := s.loop()
	ready := func() bool {
		_, err := l.Ready()
		return err == nil
	}
	if l.Latest() != nil || ready() {
		t.Error("there is something before the first cycle")
	}
	l.Cycle(t.Context())
	made := l.Latest().Plan
	if made == nil || !ready() {
		t.Fatalf("plan %v, ready %t", made, ready())
	}
	s.collectErr = &cluster.Error{Class: cluster.Incomplete, Op: "collect", Err: errors.New("gap")}
	l.Cycle(t.Context())
	if l.Latest().Outcome != SnapshotIncomplete || l.Latest().Plan != made {
		t.Error("the last plan is gone")
	}
	if ready() {
		t.Error("ready although the last snapshot was incomplete")
	}
}

// TestReadyIsOwnershipAsConfigured: a daemon that is to act and may not is not ready, with the reason; one that finds no legal
// placement has seen all there is to see.
func TestReadyIsOwnershipAsConfigured(t *testing.T) {
	s := newStage(hot)
	l := s.loop()
	for _, c := range []struct {
		acquire, solve error
		ready          string // what is missing; empty where nothing is
	}{
		{nil, nil, ""},
		{&mover.Hold{Kind: mover.RebalanceChanged, Text: "somebody has set it to all"}, nil, "somebody has set it to all"},
		{&mover.Hold{Kind: mover.GivenBack, Text: "somebody has removed our record"}, nil, "somebody has removed our record"},
		{&mover.Hold{Kind: mover.OtherHolder, Text: "other owns rebalancing"}, nil, "other owns rebalancing"},
		{&mover.Hold{Kind: mover.Settling, Text: "2 relocations from before"}, nil, ""},
		{nil, &cluster.Error{Class: cluster.Infeasible, Op: "solve", Err: errors.New("no node may take a/0")}, ""},
		{nil, nil, ""},
	} {
		s.acquireErr, s.solveErr = c.acquire, c.solve
		l.Cycle(t.Context())
		says, err := l.Ready()
		switch {
		case c.ready == "" && (err != nil || says != Working):
			t.Errorf("acquire %v, solve %v: %q, %v", c.acquire, c.solve, says, err)
		case c.ready != "" && (err == nil || !strings.Contains(err.Error(), c.ready)):
			t.Errorf("acquire %v: %v, want %q", c.acquire, err, c.ready)
		}
	}
}

// TestTheTimeLimitHoldsForTakingOver: a cluster that does not answer then must not keep the cycle longer than one that does
// not answer later. Giving back has a time of its own.
func TestTheTimeLimitHoldsForTakingOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(hot)
		s.onAcquire = func(ctx context.Context) error {
			<-ctx.Done()
			return &cluster.Error{Class: cluster.Unavailable, Op: "read settings", Err: ctx.Err()}
		}
		began := time.Now()
		if got := s.loop().Cycle(t.Context()); got.Outcome != Failed || time.Since(began) != s.settings.TimeLimit {
			t.Errorf("%s after %s", got.Outcome, time.Since(began))
		}
		if got := strings.Join(s.calls, " "); got != "acquire" {
			t.Errorf("calls %q", got)
		}
	})
}

// TestAPlanIsSeenWhileItIsCarriedOut: that may take a quarter of an hour, and readers want to know what is being done.
func TestAPlanIsSeenWhileItIsCarriedOut(t *testing.T) {
	s := newStage(hot)
	l := s.loop()
	var planned []*Summary
	l.Planned = func(summary *Summary) { planned = append(planned, summary) }
	seen := 0
	s.carrying = func() {
		latest := l.Latest()
		if latest == nil || latest.Plan == nil || len(latest.Plan.Moves) != 1 || latest.Problem == nil || latest.Snapshot == nil {
			t.Fatalf("while the plan is carried out readers see %+v", latest)
		}
		if len(planned) != seen+1 || planned[seen].Plan != latest.Plan {
			t.Errorf("told of %d plans, not of this one", len(planned))
		}
		_, missing := l.Ready()
		if ended := seen > 0; (missing == nil) != ended || (latest.Outcome == Moved) != ended {
			t.Errorf("cycle %d: ready %v, outcome %q", seen+1, missing, latest.Outcome)
		}
		seen++
	}
	first := l.Cycle(t.Context())
	if got := l.Latest(); got.ID != first.ID || got.Outcome != Moved {
		t.Errorf("after the cycle readers see %s of %s", got.Outcome, got.ID)
	}
	l.Cycle(t.Context())
	s.text = even // a cycle without moves carries nothing out, and tells of it at its end
	l.Cycle(t.Context())
	if seen != 2 || len(planned) != 2 || len(s.observed) != 3 {
		t.Errorf("%d plans carried out, %d told of, %d cycles", seen, len(planned), len(s.observed))
	}
}

// TestRun: cycles come at the interval, never two at once, and rebalancing is given back at the end.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(even)
		l := s.loop()
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute+time.Second)
		defer cancel()
		if err := l.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if len(s.observed) != 11 {
			t.Errorf("%d cycles in ten minutes at one a minute, want 11", len(s.observed))
		}
		for i, summary := range s.observed {
			if at := summary.Started.Sub(began); at != time.Duration(i)*time.Minute {
				t.Errorf("cycle %d began after %s", i, at)
			}
		}
		if s.calls[len(s.calls)-1] != "release" {
			t.Error("rebalancing was not given back")
		}
		if err := l.Alive(time.Now().Add(time.Minute)); err != nil {
			t.Errorf("a minute after its last sign of life: %v", err)
		}
		if err := l.Alive(time.Now().Add(time.Hour)); err == nil {
			t.Error("alive after an hour of silence")
		}
	})
}

// TestRunJitter: with jitter the intervals differ, by no more than it.
func TestRunJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(even)
		s.settings.Jitter = 0.2
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := s.loop().Run(ctx); err != nil {
			t.Fatal(err)
		}
		distinct := make(map[time.Duration]bool)
		for i, summary := range s.observed[1:] {
			gap := summary.Started.Sub(s.observed[i].Started)
			distinct[gap] = true
			if gap < 48*time.Second || gap > 72*time.Second {
				t.Errorf("%s between two cycles", gap)
			}
		}
		if len(distinct) < 10 {
			t.Errorf("only %d different intervals in an hour", len(distinct))
		}
	})
}

// TestDeposed: a loop that ends because another instance is to lead writes nothing more to the cluster.
func TestDeposed(t *testing.T) {
	for _, during := range []Stage{Collect, Move} {
		s := newStage(hot)
		ctx, end := context.WithCancelCause(t.Context())
		l := s.loop()
		if during == Move {
			l.Observe = func(*Summary) { end(fmt.Errorf("the Lease is lost: %w", ErrDeposed)) }
		} else {
			s.onCollect = func() { end(ErrDeposed) }
		}
		if err := l.Run(ctx); err != nil {
			t.Errorf("%s: %v", during, err)
		}
		if slices.Contains(s.calls, "release") {
			t.Errorf("%s: it gave back what the next leader may hold by now: %v", during, s.calls)
		}
		if err := l.GiveBack(t.Context()); err != nil || slices.Contains(s.calls, "release") {
			t.Errorf("%s: it still believes to be the owner: %v %v", during, s.calls, err)
		}
	}
}

// TestEndedWhileClaiming: who is told to end while its claim settles has written it, and gives it back.
func TestEndedWhileClaiming(t *testing.T) {
	s := newStage(even)
	ctx, end := context.WithCancel(t.Context())
	s.acquireErr = &cluster.Error{Class: cluster.Interrupted, Op: "take rebalancing over", Err: context.Canceled}
	l := s.loop()
	l.Observe = func(*Summary) { end() }
	if err := l.Run(ctx); err != nil || s.calls[len(s.calls)-1] != "release" {
		t.Errorf("%v, %v", s.calls, err)
	}
}

// TestRunReportsWhatIsLeftBehind: an error of giving back is the error of the run, for its exit code.
func TestRunReportsWhatIsLeftBehind(t *testing.T) {
	s := newStage(even)
	s.releaseErr = &cluster.Error{Class: cluster.Unavailable, Op: "give rebalancing back", Err: errors.New("timeout")}
	ctx, cancel := context.WithCancel(t.Context())
	l := s.loop()
	l.Observe = func(*Summary) { cancel() }
	if err := l.Run(ctx); !errors.Is(err, s.releaseErr) {
		t.Errorf("got %v", err)
	}
}
