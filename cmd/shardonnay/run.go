package main

import (
	"context"
	"errors"
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

// errRebuild ends a term: the configuration of what is made once has changed.
var errRebuild = errors.New("the configuration of the connection, the measuring or the ownership has changed")

// service is the daemon process: its configuration as it stands, and its log.
type service struct {
	cmd     *cobra.Command
	path    string // of the configuration file; empty without one
	current atomic.Pointer[config.Config]
	history *history.History // outlives the daemons of this process
	level   zap.AtomicLevel
	log     *zap.Logger
}

func runDaemon(cmd *cobra.Command) error {
	first, err := loadConfig(cmd)
	if err != nil {
		return err
	}
	s := &service{cmd: cmd, path: cmd.Flag("config").Value.String(), history: history.New()}
	s.log, s.level = newLog(first.Log)
	defer func() { _ = s.log.Sync() }() // a terminal cannot be synced, and says so
	s.current.Store(&first)
	if s.path == "" {
		// Everything came from flags and the environment, which do not change: there is nothing to read again, and the signal
		// must not end us as it would by default.
		signal.Ignore(syscall.SIGHUP)
	}
	for {
		if err := s.term(cmd.Context()); !errors.Is(err, errRebuild) {
			return err
		}
		s.log.Info("starting over", zap.String("reason", errRebuild.Error()))
	}
}

// term connects, runs the loop until ctx ends or what is made once has to be made anew, and tidies up. The error is
// errRebuild in the second case.
func (s *service) term(ctx context.Context) (err error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	c := s.current.Load()
	link, err := s.connectPatiently(ctx, c)
	if err != nil {
		return err
	}
	defer link.close()
	s.log.Info("connected", zap.String("cluster", link.identity.Name), zap.String("product", link.identity.Product.String()), zap.String("mode", string(c.Mode)))
	d, err := newDaemon(link, s.current.Load, s.history, s.log, nil)
	if err != nil {
		return err
	}
	server, err := d.serve(s.current.Load)
	if err != nil {
		return err
	}
	if server != nil {
		s.log.Info("listening", zap.String("url", server.URL()))
	}
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		s.watch(ctx, d, end)
	}()
	err = d.loop.Run(ctx)
	end(nil)
	<-watched
	if server != nil {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err = errors.Join(err, server.Close(closing))
	}
	if cause := context.Cause(ctx); err == nil && errors.Is(cause, errRebuild) {
		return cause
	}
	return err
}

// connectPatiently waits for a cluster that cannot be reached; what refuses us will not change by waiting.
func (s *service) connectPatiently(ctx context.Context, c *config.Config) (*session, error) {
	for {
		link, err := connect(ctx, c)
		if err == nil {
			return link, nil
		}
		if cluster.ClassOf(err) != cluster.Unavailable || ctx.Err() != nil {
			return nil, err
		}
		s.log.Warn("the cluster cannot be reached; trying again", zap.Error(err), zap.Duration("in", reconnectAfter))
		timer := time.NewTimer(reconnectAfter)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, err
		case <-timer.C:
		}
	}
}

// watch takes a changed configuration over while the daemon runs, and keeps the old one where the new is invalid.
func (s *service) watch(ctx context.Context, d *daemon, end context.CancelCauseFunc) {
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
		d.mover.Configure(moverConfig(&next))
		d.metrics.ObserveReload(time.Now(), nil)
		s.log.Info("configuration taken over", zap.String("mode", string(next.Mode)))
		if !reflect.DeepEqual(madeOnce(before), madeOnce(&next)) {
			end(errRebuild)
		}
	}, func(err error) {
		d.metrics.ObserveReload(time.Now(), err)
		s.log.Error("the changed configuration is invalid; the old one stays", zap.Error(err))
	})
}

// madeOnce is the part of a configuration from which the client, the collector and the ownership are made.
func madeOnce(c *config.Config) []any {
	return []any{c.Connection, c.Sampling, c.Ownership, c.Balance.Measured(), c.Balance.Capacity}
}
