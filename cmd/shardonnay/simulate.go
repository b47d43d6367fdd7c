package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/config"
	"github.com/shardonnay/shardonnay/internal/history"
	"github.com/shardonnay/shardonnay/internal/plan"
	"github.com/shardonnay/shardonnay/internal/sim"
)

func newSimulate() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "simulate SCENARIO",
		Short: "Run a scenario file in the simulator, in virtual time, and check its assertions",
		Long: "Plays a scenario (docs/scenarios.md): a virtual cluster, what happens to it, the daemon at work on it, and what must be true then.\n" +
			"Exits with 1 when an assertion does not hold. The policy, limits and stop conditions are those of the configuration.",
		Example: "  shardonnay simulate hot-index.txt\n  shardonnay simulate hot-index.txt --config shardonnay.yaml\n" +
			"  shardonnay simulate cluster.txt --serve 127.0.0.1:9200    # then point plan, doctor or run at it",
		Args: cobra.ExactArgs(1),
	}
	addConfig(cmd)
	serve := cmd.Flags().String("serve", "", "once the story is over, answer for its cluster at `ADDRESS`, until interrupted")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := loadConfig(cmd)
		if err != nil {
			return err
		}
		file, err := os.Open(args[0])
		if err != nil {
			return &cluster.Error{Class: cluster.Invalid, Op: "open scenario", What: args[0], Err: errors.Unwrap(err), Hint: "Name a scenario file"}
		}
		defer file.Close()
		scenario, err := sim.ParseScenario(args[0], file)
		if err != nil {
			return &cluster.Error{Class: cluster.Invalid, Op: "read scenario", Err: err, Hint: "docs/scenarios.md describes the language"}
		}
		log := zap.NewNop() // the scenario's own lines are the story; a level asked for shows the daemon's as well
		if cmd.Flags().Changed("log-level") {
			log, _ = newLog(c.Log)
		}
		report, err := scenario.Run(cmd.Context(), sim.RunOptions{
			Out: cmd.OutOrStdout(), Serve: *serve,
			Start: func(ctx context.Context, virtual *sim.Cluster, address string) (sim.Daemon, error) {
				return startSimulated(ctx, c, virtual, address, log)
			},
		})
		if err != nil {
			return &cluster.Error{Class: cluster.Rejected, Op: "run scenario", What: args[0], Err: err}
		}
		if !report.OK() {
			return &cluster.Error{Class: cluster.Rejected, Op: "scenario " + args[0], Err: fmt.Errorf("%d of %d assertions do not hold", len(report.Failed), report.Assertions)}
		}
		return nil
	}
	return cmd
}

// scenarioWork is the solver's allowance per cycle where the configuration sets none, in its units of work: a fraction of
// a second, enough for the clusters that fit into a scenario file, and the same answer on every machine.
const scenarioWork = 300_000

// simulated is the daemon under a scenario: the same loop, one cycle at a time, on the scenario's clock.
type simulated struct {
	session *session
	daemon  *daemon
}

func startSimulated(ctx context.Context, c config.Config, virtual *sim.Cluster, address string, log *zap.Logger) (sim.Daemon, error) {
	c.Connection.Addresses = []string{"http://" + address}
	c.State.Dir, c.HTTP.Listen = "", ""
	c.Mode = plan.Act // nothing real is at stake
	if c.Solver.WorkLimit == 0 {
		c.Solver.WorkLimit = scenarioWork
	}
	c.Solver.TimeLimit = 0 // the wall's time must not decide what happens in a scenario
	s, err := connect(ctx, &c)
	if err != nil {
		return nil, err
	}
	d, err := newDaemon(s, func() *config.Config { return &c }, history.New(), "", log, virtual)
	if err != nil {
		s.close()
		return nil, err
	}
	return &simulated{s, d}, nil
}

// Cycle runs one cycle.
func (s *simulated) Cycle(ctx context.Context, _ time.Time) error {
	return s.daemon.loop.Cycle(ctx).Err
}

// Stop gives back what was taken over.
func (s *simulated) Stop(ctx context.Context) error {
	err := s.daemon.loop.GiveBack(ctx)
	return errors.Join(err, s.session.client.Close())
}
