package main

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/config"
	"github.com/shardonnay/shardonnay/internal/mover"
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
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return runDaemon(cmd) }
	return cmd
}

// reconnectAfter is how long the daemon waits before it tries an unreachable cluster again: long enough to be no burden,
// short enough that a restart of both in any order needs nobody.
const reconnectAfter = 10 * time.Second

func runDaemon(cmd *cobra.Command) error {
	ctx := cmd.Context()
	first, err := loadConfig(cmd)
	if err != nil {
		return err
	}
	log, level := newLog(first.Log)
	defer func() { _ = log.Sync() }() // a terminal cannot be synced, and says so
	var current atomic.Pointer[config.Config]
	current.Store(&first)

	s, err := connectPatiently(ctx, &first, log)
	if err != nil {
		return err
	}
	defer s.client.Close()
	log.Info("connected", zap.String("cluster", s.identity.Name), zap.String("product", s.identity.Product.String()), zap.String("mode", string(first.Mode)))
	d, err := newDaemon(s, current.Load, log)
	if err != nil {
		return err
	}
	server, err := d.serve(current.Load)
	if err != nil {
		return err
	}
	if server != nil {
		log.Info("listening", zap.String("url", server.URL()))
	}
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		watchConfig(ctx, cmd, &current, level, d, log)
	}()
	if first.Mode == plan.Act {
		// Somebody may have died while rebalancing was theirs; where that is long ago, what they changed is put back first.
		if released, err := mover.Release(ctx, s.client, s.identity.Product, nil, true); err != nil {
			log.Warn("an expired ownership record could not be cleared", zap.Error(err))
		} else if released.Restored {
			log.Info("an expired ownership record was cleared", zap.String("result", released.Text))
		}
	}
	err = d.loop.Run(ctx)
	if server != nil {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err = errors.Join(err, server.Close(end))
	}
	<-watched
	return err
}

// connectPatiently waits for a cluster that cannot be reached; what refuses us will not change by waiting.
func connectPatiently(ctx context.Context, c *config.Config, log *zap.Logger) (*session, error) {
	for {
		s, err := connect(ctx, c)
		if err == nil {
			return s, nil
		}
		if cluster.ClassOf(err) != cluster.Unavailable || ctx.Err() != nil {
			return nil, err
		}
		log.Warn("the cluster cannot be reached; trying again", zap.Error(err), zap.Duration("in", reconnectAfter))
		timer := time.NewTimer(reconnectAfter)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, err
		case <-timer.C:
		}
	}
}

// watchConfig takes a changed configuration over while the daemon runs, and keeps the old one where the new is invalid.
func watchConfig(ctx context.Context, cmd *cobra.Command, current *atomic.Pointer[config.Config], level zap.AtomicLevel, d *daemon, log *zap.Logger) {
	path, err := cmd.Flags().GetString("config")
	if err != nil || path == "" {
		return // everything came from flags and the environment, which do not change
	}
	config.Watch(ctx, path, cmd.Flags(), *current.Load(), func(next config.Config) {
		if keys := current.Load().RestartNeeded(&next); len(keys) > 0 {
			log.Warn("these keys take effect at the next start", zap.Strings("keys", keys))
		}
		current.Store(&next)
		setLevel(level, next.Log)
		d.metrics.ObserveReload(time.Now(), nil)
		log.Info("configuration taken over", zap.String("mode", string(next.Mode)))
	}, func(err error) {
		d.metrics.ObserveReload(time.Now(), err)
		log.Error("the changed configuration is invalid; the old one stays", zap.Error(err))
	})
}
