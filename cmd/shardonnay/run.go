package main

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"reflect"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/config"
	"github.com/shardonnay/shardonnay/internal/history"
	"github.com/shardonnay/shardonnay/internal/plan"
	"github.com/shardonnay/shardonnay/internal/rebalance"
	"github.com/shardonnay/shardonnay/internal/zones"
)

func newRun() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the daemon: cycle after cycle",
		Long: "Runs one cycle after another: measure, solve, plan, and in mode act move. Modes: observe exports figures only, dry-run (the default)\n" +
			"also publishes plans, act carries them out. SIGTERM ends it: no new moves, rebalancing given back. SIGHUP reads the configuration again.",
		Example: "  shardonnay run --config shardonnay.yaml\n  shardonnay run --address http://localhost:9200 --mode act",
	}
	addConfig(cmd)
	cmd.Flags().String("mode", "", "observe, dry-run or act")
	config.BindFlag(cmd.Flags(), "mode", "mode")
	complete(cmd, "mode", string(plan.Observe), string(plan.DryRun), string(plan.Act))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return runDaemon(cmd) }
	return cmd
}

// reconnectAfter is how long the daemon waits before it tries an unreachable cluster again: long enough to be no burden,
// short enough that a restart of both in any order needs nobody.
const reconnectAfter = 10 * time.Second

// What ends a term before the process is told to end. The next term starts over.
var (
	errRebuild = errors.New("the configuration of the connection, the measuring, the ownership, the election or the zones has changed")
	errDeposed = fmt.Errorf("the Lease is lost: %w", rebalance.ErrDeposed)
	errCutOff  = fmt.Errorf("the cluster cannot be reached from here: %w", rebalance.ErrDeposed)
)

// startsOver tells whether a term has ended for one of these reasons.
func startsOver(err error) bool {
	return errors.Is(err, errRebuild) || errors.Is(err, rebalance.ErrDeposed)
}

// service is the daemon process: its configuration as it stands, its log, and how far it has come.
type service struct {
	cmd     *cobra.Command
	path    string // of the configuration file; empty without one
	current atomic.Pointer[config.Config]
	history *history.History // outlives the daemons of this process
	level   zap.AtomicLevel
	log     *zap.Logger
	started time.Time
	at      atomic.Pointer[stage]
	paused  atomic.Bool
}

// stage is how far a term has come. Its series are its own: what a stage before has left in them would say of this one
// what no longer holds.
type stage struct {
	series
	daemon *daemon                // at work; nil while something is waited for
	waits  func() (string, error) // for what; an error where that is not as it should be
}

func runDaemon(cmd *cobra.Command) (err error) {
	first, err := loadConfig(cmd)
	if err != nil {
		return err
	}
	s := &service{cmd: cmd, path: cmd.Flag("config").Value.String(), history: history.New(), started: time.Now()}
	s.log, s.level = newLog(first.Log)
	defer func() { _ = s.log.Sync() }() // a terminal cannot be synced, and says so
	s.current.Store(&first)
	if s.path == "" {
		// Everything came from flags and the environment, which do not change: there is nothing to read again, and the signal
		// must not end us as it would by default.
		signal.Ignore(syscall.SIGHUP)
	}
	s.connecting()
	server, err := serveHTTP(s.current.Load, s, s.history, s.about)
	if err != nil {
		return err
	}
	if server != nil {
		s.log.Info("listening", zap.String("url", server.URL()))
		defer func() {
			closing, cancel := context.WithTimeout(context.WithoutCancel(cmd.Context()), 5*time.Second)
			defer cancel()
			err = errors.Join(err, server.Close(closing))
		}()
	}
	for {
		err := s.term(cmd.Context())
		if !startsOver(err) {
			return err
		}
		s.log.Info("starting over", zap.String("reason", err.Error()))
	}
}

// connecting is the first stage of a term.
func (s *service) connecting() {
	at := &stage{series: newSeries(), waits: func() (string, error) { return "", errors.New("not connected to the cluster yet") }}
	// Zones that only this instance would look at are looked at by nobody meanwhile. Of several, another one may lead.
	if c := s.current.Load(); c.Zones.Mode != string(zones.Off) && c.Election.Lease == "" {
		at.metrics.ObserveZonesAwaited(time.Now())
	}
	s.at.Store(at)
}

// term connects, waits until this instance leads where several stand for election, and runs the loop until ctx ends or
// there is a reason to start over, which is the error then.
func (s *service) term(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	s.connecting()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		s.watch(ctx, end)
	}()
	defer func() {
		end(nil)
		<-watched
	}()
	c := s.current.Load()
	if c.Election.Lease == "" {
		link, err := s.connectPatiently(ctx, c)
		if err != nil {
			return err
		}
		return s.work(ctx, end, link, "")
	}
	return s.lead(ctx, end, c)
}

// work runs the loop over a connection, which it gives back. election is the one that made this instance the leader, empty
// where it stands alone.
func (s *service) work(ctx context.Context, end context.CancelCauseFunc, link *session, election string) error {
	defer link.close()
	s.log.Info("connected", zap.String("cluster", link.identity.Name), zap.String("product", link.identity.Product.String()), zap.String("mode", string(s.current.Load().Mode)))
	d, err := newDaemon(link, s.current.Load, s.history, election, s.log, nil)
	if err != nil {
		return err
	}
	if election != "" {
		d.metrics.ObserveLeader(true)
		d.loop.Observe = cutOff(d.loop.Observe, s.current.Load().Ownership.Lease, end)
	}
	s.at.Store(&stage{series: d.series, daemon: d})
	d.mover.Configure(moverConfig(s.current.Load())) // it may have changed while the daemon was made
	if s.paused.Load() {
		d.loop.Pause()
		d.observeLoop()
	}
	if err := d.run(ctx); err != nil {
		return err
	}
	if cause := context.Cause(ctx); startsOver(cause) {
		return cause
	}
	return nil
}

// connectPatiently waits for a cluster that cannot be reached; what refuses us will not change by waiting. Where ctx ends
// with a reason to start over, that is the error.
func (s *service) connectPatiently(ctx context.Context, c *config.Config) (*session, error) {
	for {
		link, err := connect(ctx, c)
		if err == nil {
			return link, nil
		}
		if cause := context.Cause(ctx); startsOver(cause) {
			return nil, cause
		}
		if cluster.ClassOf(err) != cluster.Unavailable || ctx.Err() != nil {
			return nil, err
		}
		s.log.Warn("the cluster cannot be reached; trying again", zap.Error(err), zap.Duration("in", reconnectAfter))
		timer := time.NewTimer(reconnectAfter)
		select {
		case <-ctx.Done():
			timer.Stop()
		case <-timer.C:
		}
	}
}

// watch takes a changed configuration over, and keeps the old one where the new is invalid.
func (s *service) watch(ctx context.Context, end context.CancelCauseFunc) {
	if s.path == "" {
		return
	}
	config.Watch(ctx, s.path, s.cmd.Flags(), *s.current.Load(), func(next config.Config) {
		before := s.current.Load()
		if keys := before.RestartNeeded(&next); len(keys) > 0 {
			s.log.Warn("these keys take effect at the next start", zap.Strings("keys", keys))
		}
		s.current.Store(&next)
		setLevel(s.level, next.Log)
		at := s.at.Load()
		if at.daemon != nil {
			at.daemon.mover.Configure(moverConfig(&next))
		}
		at.metrics.ObserveReload(time.Now(), nil)
		s.log.Info("configuration taken over", zap.String("mode", string(next.Mode)))
		if !reflect.DeepEqual(madeOnce(before), madeOnce(&next)) {
			end(errRebuild)
		}
	}, func(err error) {
		s.at.Load().metrics.ObserveReload(time.Now(), err)
		s.log.Error("the changed configuration is invalid; the old one stays", zap.Error(err))
	})
}

// madeOnce is the part of a configuration from which the client, the collector, the ownership, the election and the zone
// controller are made.
func madeOnce(c *config.Config) []any {
	return []any{c.Connection, c.Sampling, c.Ownership, c.Election, c.Balance.Measured(), c.Balance.Capacity, c.Zones.Mode == string(zones.Off), c.Zones.Attribute}
}

// about is what the HTTP interface says of this process, whatever it is at.
func (s *service) about() about {
	at := s.at.Load()
	if at.daemon != nil {
		return at.daemon.about()
	}
	return about{series: at.series, started: s.started}
}

// Alive is nil while nothing hangs: a loop that runs has to tick.
func (s *service) Alive(now time.Time) error {
	if d := s.at.Load().daemon; d != nil {
		return d.loop.Alive(now)
	}
	return nil
}

// Ready says what this instance does, or what is missing.
func (s *service) Ready() (string, error) {
	at := s.at.Load()
	if at.daemon != nil {
		return at.daemon.loop.Ready()
	}
	return at.waits()
}

// Latest is the summary of the last cycle of this term.
func (s *service) Latest() *rebalance.Summary {
	if d := s.at.Load().daemon; d != nil {
		return d.loop.Latest()
	}
	return nil
}

// Pause stops moving, now and in the terms to come.
func (s *service) Pause() {
	s.paused.Store(true)
	if d := s.at.Load().daemon; d != nil {
		d.loop.Pause()
	}
}

// Resume ends a pause.
func (s *service) Resume() {
	s.paused.Store(false)
	if d := s.at.Load().daemon; d != nil {
		d.loop.Resume()
	}
}

// Paused tells whether moving is paused.
func (s *service) Paused() bool { return s.paused.Load() }
