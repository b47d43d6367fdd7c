package main

import (
	"context"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/collector"
	"github.com/shardonnay/shardonnay/internal/config"
	"github.com/shardonnay/shardonnay/internal/httpapi"
	"github.com/shardonnay/shardonnay/internal/metrics"
	"github.com/shardonnay/shardonnay/internal/model"
	"github.com/shardonnay/shardonnay/internal/mover"
	"github.com/shardonnay/shardonnay/internal/plan"
	"github.com/shardonnay/shardonnay/internal/rebalance"
	"github.com/shardonnay/shardonnay/internal/solver"
	"github.com/shardonnay/shardonnay/internal/solver/clp"
	"github.com/shardonnay/shardonnay/internal/solver/worker"
	"github.com/shardonnay/shardonnay/internal/version"
)

// daemon is the loop with everything around it.
type daemon struct {
	loop     *rebalance.Loop
	mover    *mover.Mover
	metrics  *metrics.Metrics
	registry *prometheus.Registry
	session  *session
	log      *zap.Logger
	inFlight map[string]int64 // bytes of our moves under way by allocation id; touched by the loop's goroutine only
}

// solveInWorker solves in a process of this same program, so that a crash or a hang inside the native library costs one
// cycle and not the daemon with moves under way.
func solveInWorker(ctx context.Context, p *model.Problem, o solver.Options) (*solver.Result, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, &cluster.Error{Class: cluster.Internal, Op: "find this program's own file", Err: err}
	}
	return worker.Solve(ctx, program, p, o)
}

// newDaemon assembles the daemon for a session. current is asked at the start of every cycle; clock is nil for the wall's.
func newDaemon(s *session, current func() *config.Config, log *zap.Logger, clock mover.Clock) (*daemon, error) {
	c := current()
	d := &daemon{registry: prometheus.NewRegistry(), session: s, log: log, inFlight: make(map[string]int64)}
	d.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	d.metrics = metrics.New(d.registry)
	d.metrics.ObserveBuild(version.Number(), version.Commit(), version.Go(), clp.Version())
	options := collectorOptions(c)
	if clock != nil {
		options.Now = clock.Now
	}
	collect, err := collector.New(s.client, options)
	if err != nil {
		return nil, err
	}
	ledger, warning, err := mover.OpenLedger(c.State.Dir)
	if err != nil {
		return nil, err
	}
	if warning != "" {
		log.Warn(warning)
	}
	held, limits := lease(&c.Ownership), moverConfig(c)
	held.Clock, limits.Clock = clock, clock
	own := mover.NewOwnership(s.client, s.identity.Product, held)
	d.mover = mover.New(s.client, s.identity, limits, ledger, own, d.observeMove)
	d.loop = &rebalance.Loop{
		Collector: collect, Solve: solveInWorker, Owner: own, Memory: ledger,
		Carrier:  d.mover,
		Settings: func() rebalance.Settings { return loopSettings(current()) },
		Observe:  d.observeCycle,
		Log:      log,
	}
	return d, nil
}

// loopSettings is what a cycle reads of the configuration. The limits of a cycle cut the plan and not the problem: many
// cycles with one far target end better than many with near ones.
func loopSettings(c *config.Config) rebalance.Settings {
	policy := c.Policy()
	policy.MaxMoves, policy.MaxBytes = 0, 0
	return rebalance.Settings{
		Mode: c.Mode, Interval: c.Cycle.Interval, Jitter: c.Cycle.Jitter, TimeLimit: c.Cycle.TimeLimit,
		Deadline: c.Cycle.Deadline, CoolDown: c.Limits.CoolDown, Policy: policy, Solver: solverOptions(&c.Solver),
		MaxMoves: c.Limits.MaxMovesPerCycle, MaxBytes: int64(c.Limits.MaxBytesPerCycle),
	}
}

func solverOptions(c *config.Solver) solver.Options {
	return solver.Options{
		TimeLimit: c.TimeLimit, WorkLimit: int64(c.WorkLimit), Seed: uint64(c.Seed), TargetGap: c.TargetGap, Workers: c.Workers,
	}
}

// observeMove logs and shows the start and the end of a move.
func (d *daemon) observeMove(e mover.Event) {
	fields := []zap.Field{
		zap.String("index", e.Move.Index), zap.Int("shard", e.Move.Shard), zap.Bool("primary", e.Move.Primary),
		zap.String("from", e.Move.From.Name), zap.String("to", e.Move.To.Name), zap.Int64("bytes", e.Move.Bytes),
		zap.String("state", string(e.State)), zap.Bool("adopted", e.Adopted),
	}
	if e.State.Ended() {
		delete(d.inFlight, e.Move.AllocationID)
		if e.Reason != "" {
			fields = append(fields, zap.String("reason", e.Reason))
		}
		d.log.Info("move ended", append(fields, zap.Duration("took", e.Elapsed.Round(time.Millisecond)))...)
	} else {
		if _, known := d.inFlight[e.Move.AllocationID]; !known {
			d.log.Info("move started", fields...)
		}
		d.inFlight[e.Move.AllocationID] = e.Move.Bytes
	}
	bytes := int64(0)
	for _, b := range d.inFlight {
		bytes += b
	}
	d.metrics.ObserveInFlight(len(d.inFlight), bytes)
}

// observeCycle shows what a cycle did.
func (d *daemon) observeCycle(s *rebalance.Summary) {
	took := make(map[string]time.Duration, len(s.Took))
	for stage, duration := range s.Took {
		took[string(stage)] = duration
	}
	d.metrics.ObserveCycle(string(s.Outcome), string(s.Mode), took, time.Now(), s.Err)
	d.metrics.ObserveOwnership(ownerOf(s))
	d.metrics.ObserveStop(s.Stop())
	traffic := d.session.client.Requests()
	d.metrics.ObserveTraffic(metrics.Traffic(traffic))
	if s.Snapshot != nil {
		d.metrics.ObserveSnapshot(s.Snapshot)
	}
	if s.Plan != nil {
		d.metrics.ObserveProblem(s.Problem, func(n int) string {
			return s.Snapshot.Nodes[s.Snapshot.NodeAt(cluster.NodeID(s.Problem.Nodes[n].ID))].Name
		})
		d.metrics.ObservePlan(s.Plan)
	}
	if r := s.Report; r != nil {
		ended := make(map[string]int, len(r.Count))
		for state, n := range r.Count {
			ended[string(state)] = n
		}
		left := int64(0)
		for _, move := range r.InFlight {
			left += move.Bytes
		}
		d.metrics.ObserveMoves(metrics.Moves{
			Considered: r.Considered, Adopted: r.Adopted, Ended: ended, InFlight: len(r.InFlight), InFlightBytes: left, Bytes: r.BytesMoved,
		})
	}
}

// ownerOf is who moves copies of the cluster after a cycle.
func ownerOf(s *rebalance.Summary) metrics.Owner {
	switch {
	case s.Mode != plan.Act:
		return metrics.OwnedByServer
	case s.Hold == nil:
		return metrics.OwnedByUs
	case s.Hold.Kind == mover.OtherHolder:
		return metrics.OwnedByOther
	}
	return metrics.OwnedByPerson
}

// serve starts the HTTP interface; nil where none is configured.
func (d *daemon) serve(current func() *config.Config) (*httpapi.Server, error) {
	c := current()
	if c.HTTP.Listen == "" {
		return nil, nil
	}
	handler := promhttp.HandlerFor(d.registry, promhttp.HandlerOpts{EnableOpenMetrics: true})
	return httpapi.Listen(c.HTTP.Listen, httpapi.Handler(d.loop, func() httpapi.Options {
		now := current()
		return httpapi.Options{Metrics: handler, Debug: now.HTTP.Debug, Token: string(now.HTTP.Token)}
	}))
}
