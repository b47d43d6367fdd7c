package main

import (
	"context"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/collector"
	"github.com/shardonnay/shardonnay/internal/config"
	"github.com/shardonnay/shardonnay/internal/history"
	"github.com/shardonnay/shardonnay/internal/httpapi"
	"github.com/shardonnay/shardonnay/internal/metrics"
	"github.com/shardonnay/shardonnay/internal/model"
	"github.com/shardonnay/shardonnay/internal/mover"
	"github.com/shardonnay/shardonnay/internal/rebalance"
	"github.com/shardonnay/shardonnay/internal/solver"
	"github.com/shardonnay/shardonnay/internal/solver/clp"
	"github.com/shardonnay/shardonnay/internal/solver/worker"
	"github.com/shardonnay/shardonnay/internal/version"
	"github.com/shardonnay/shardonnay/internal/zones"
)

// daemon is the loop with everything around it.
type daemon struct {
	series
	loop      *rebalance.Loop
	mover     *mover.Mover
	crossings *mover.Crossings
	history   *history.History
	session   *session
	log       *zap.Logger
	started   time.Time
	zones     *zoneKeeper // nil where zones.mode is off
}

// series are the metrics of a daemon, and the registry that they are scraped from.
type series struct {
	metrics  *metrics.Metrics
	registry *prometheus.Registry
}

func newSeries() series {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	s := series{metrics.New(registry), registry}
	s.metrics.ObserveBuild(version.Number(), version.Commit(), version.Go(), clp.Version())
	s.metrics.ObserveReload(time.Now(), nil)
	return s
}

func (s series) handler() http.Handler {
	return promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{EnableOpenMetrics: true})
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

// newDaemon assembles the daemon for a session. current is asked at the start of every cycle; past is what it remembers for
// the page; election is the one that made this instance the leader, empty where it stands alone; clock is nil for the wall's.
func newDaemon(s *session, current func() *config.Config, past *history.History, election string, log *zap.Logger, clock mover.Clock) (*daemon, error) {
	c := current()
	past.Of(s.identity.UUID)
	d := &daemon{series: newSeries(), history: past, session: s, log: log, started: time.Now()}
	d.metrics.ObserveCluster(s.identity)
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
	if d.crossings, warning, err = mover.OpenCrossings(c.State.Dir); err != nil {
		return nil, err
	}
	if warning != "" {
		log.Warn(warning)
	}
	held, limits := lease(&c.Ownership, election), moverConfig(c)
	held.Clock, limits.Clock = clock, clock
	own := mover.NewOwnership(s.client, s.identity.Product, held)
	d.mover = mover.New(s.client, s.identity, limits, ledger, own, d.observeMove)
	d.loop = &rebalance.Loop{
		Collector: collect, Solve: solveInWorker, Owner: own, Memory: ledger,
		Carrier: d.mover, Crossings: d.crossings,
		Settings: func() rebalance.Settings { return loopSettings(current()) },
		Planned:  d.observePlan,
		Observe:  d.observeCycle,
		Log:      log,
	}
	d.observeLoop()
	if c.Zones.Mode != string(zones.Off) {
		if d.zones, err = newZoneKeeper(s, current, d.metrics, log, clock); err != nil {
			return nil, err
		}
		d.loop.Hold = d.zones.busy
		d.mover.HoldWhile(d.zones.busy)
	}
	return d, nil
}

// run runs the loop, and beside it the zone controller where there is one, until ctx ends.
func (d *daemon) run(ctx context.Context) error {
	if d.zones == nil {
		return d.loop.Run(ctx)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.zones.run(ctx)
	}()
	defer func() { <-ended }()
	return d.loop.Run(ctx)
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
		ShardCoolDown: c.Regions.CoolDown, Crossing: crossingLimits(&c.Regions),
	}
}

func crossingLimits(c *config.Regions) mover.CrossingLimits {
	return mover.CrossingLimits{Region: c.Attribute, Every: c.WANEvery, BytesPerHour: float64(c.WANBytesPerHour)}
}

func solverOptions(c *config.Solver) solver.Options {
	return solver.Options{
		TimeLimit: c.TimeLimit, WorkLimit: int64(c.WorkLimit), Seed: uint64(c.Seed), TargetGap: c.TargetGap, Workers: c.Workers,
	}
}

// observeMove logs and shows the start and the end of a move.
func (d *daemon) observeMove(e mover.Event) {
	d.history.ObserveMove(e, time.Now())
	fields := []zap.Field{
		zap.String("index", e.Move.Index), zap.Int("shard", e.Move.Shard), zap.Bool("primary", e.Move.Primary),
		zap.String("from", e.Move.From.Name), zap.String("to", e.Move.To.Name), zap.Int64("bytes", e.Move.Bytes),
		zap.String("state", string(e.State)), zap.Bool("adopted", e.Adopted),
	}
	move := metrics.Move{ID: e.Move.AllocationID, Bytes: e.Move.Bytes, Decider: e.Decider, Took: e.Elapsed}
	if !e.State.Ended() {
		if d.metrics.ObserveMove(move) {
			d.log.Info("move started", fields...)
		}
		return
	}
	move.Result = string(e.State)
	d.metrics.ObserveMove(move)
	if e.Reason != "" {
		fields = append(fields, zap.String("reason", e.Reason))
	}
	d.log.Info("move ended", append(fields, zap.Duration("took", e.Elapsed.Round(time.Millisecond)))...)
}

// observeLoop shows how the loop is set.
func (d *daemon) observeLoop() {
	settings := d.loop.Settings()
	d.metrics.ObserveLoop(string(settings.Mode), d.loop.Paused(), settings.Overdue())
}

// observePlan remembers what a plan was made from.
func (d *daemon) observePlan(s *rebalance.Summary) {
	d.history.ObservePlan(s.ID, s.Started, s.Snapshot, s.Problem, s.Plan)
}

// observeCycle shows what a cycle did.
func (d *daemon) observeCycle(s *rebalance.Summary) {
	took := make(map[string]time.Duration, len(s.Took))
	for stage, duration := range s.Took {
		took[string(stage)] = duration
	}
	d.observeLoop()
	d.metrics.ObserveCycle(string(s.Outcome), took, time.Now(), s.Err)
	d.metrics.ObserveStop(string(s.Stop()))
	if owned := s.Owned(); owned != "" {
		d.metrics.ObserveOwnership(string(owned))
	}
	traffic := d.session.client.Requests()
	d.metrics.ObserveTraffic(metrics.Traffic(traffic))
	if s.Snapshot != nil {
		d.metrics.ObserveSnapshot(s.Snapshot)
		if d.zones != nil {
			settings := &d.zones.current().Zones
			d.metrics.ObserveZoneCopies(s.Snapshot, settings.Attribute, settings.ExemptIndices)
		}
	}
	if s.Problem != nil {
		d.metrics.ObserveProblem(s.Problem, s.Snapshot)
	}
	if r := s.Result; r != nil {
		d.metrics.ObserveSolve(metrics.Solve{
			Status: string(r.Status), Objective: r.Objective, Gap: r.Gap(), Captured: r.Captured(), CPU: r.CPU, PeakMemory: r.PeakRSS,
			Pairs: r.Counters.PairsPriced, Columns: r.Counters.ColumnsBuilt, Programs: r.Counters.LPSolves,
			SimplexIterations: r.Counters.CLPIterations, Rounds: r.Counters.Rounds,
		})
	}
	if s.Spread != nil {
		d.metrics.ObserveRegions(regionMetrics(s, d.crossings))
	}
	if s.Plan != nil {
		d.metrics.ObservePlan(s.Plan)
		d.observePlan(s)
	}
	d.history.ObserveCycle(s.ID, s.Started, string(s.Outcome))
}

// regionMetrics is how far apart copies are, and what crosses between regions.
func regionMetrics(s *rebalance.Summary, crossings *mover.Crossings) metrics.Regions {
	r := metrics.Regions{
		Dispersion: s.Spread.Dispersion.Now, RequiredOverload: s.Spread.RequiredOverload, CoolingShards: s.Spread.CoolingDown,
		Excess: make(map[string]int), Missing: make(map[string]int), Crossed: make(map[[2]string]float64), Left: make(map[[2]string]float64),
	}
	for i := range s.Spread.Tiers {
		r.Excess[s.Spread.Tiers[i].Tier] = s.Spread.Tiers[i].Excess.Now
	}
	for region, count := range s.Spread.Missing {
		r.Missing[region] = count.Now
	}
	for link, bytes := range crossings.Crossed() {
		r.Crossed[[2]string{link.From, link.To}] = bytes
	}
	for link, bytes := range crossings.Left() {
		r.Left[[2]string{link.From, link.To}] = bytes
	}
	return r
}

// about is what the HTTP interface says beside what the loop knows.
type about struct {
	series
	cluster cluster.Identity // empty while there is no connection
	started time.Time
	zones   *zones.Status // nil where none are looked at, or before the first look
}

func (d *daemon) about() about {
	a := about{series: d.series, cluster: d.session.identity, started: d.started}
	if d.zones != nil {
		a.zones = d.zones.Status()
	}
	return a
}

// serve starts the HTTP interface; nil where none is configured.
func (d *daemon) serve(current func() *config.Config) (*httpapi.Server, error) {
	return serveHTTP(current, d.loop, d.history, d.about)
}

// serveHTTP starts an HTTP interface that shows what it is given; nil where none is configured.
func serveHTTP(current func() *config.Config, shown httpapi.Daemon, past *history.History, now func() about) (*httpapi.Server, error) {
	c := current()
	if c.HTTP.Listen == "" {
		return nil, nil
	}
	return httpapi.Listen(c.HTTP.Listen, httpapi.Handler(shown, past, func() httpapi.Options {
		c, is := current(), now()
		return httpapi.Options{
			Metrics: is.handler(), Debug: c.HTTP.Debug, Token: string(c.HTTP.Token),
			Cluster: is.cluster, Mode: c.Mode, Interval: c.Cycle.Interval, Started: is.started, Zones: is.zones,
		}
	}))
}
