package main

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/collector"
	"github.com/shardonnay/shardonnay/internal/config"
	"github.com/shardonnay/shardonnay/internal/plan"
	"github.com/shardonnay/shardonnay/internal/rebalance"
)

// planFlags are the flags of plan that are not configuration.
type planFlags struct {
	capture, save, dump string
	detailed            bool
	oneSample           bool
}

func newPlan() *cobra.Command {
	var f planFlags
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Measure, solve, and print what should move and why; nothing is changed",
		Long: "Runs one cycle without moving anything and prints the plan. Rates need two samples of the server's counters, so that it takes\n" +
			"sampling.window (a minute) against a live cluster; --one-sample uses averages since the counters began instead.",
		Example: "  shardonnay plan --address http://localhost:9200\n  shardonnay plan --capture diagnostics/ -o json",
	}
	addConfig(cmd)
	output := addFormat(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.capture, "capture", "", "plan for a captured cluster or a diagnostics bundle in `DIR`")
	flags.StringVar(&f.save, "save", "", "also write the plan to `FILE`, for apply")
	flags.StringVar(&f.dump, "dump-problem", "", "also write the placement problem to `FILE`")
	flags.BoolVar(&f.detailed, "detailed-exit-code", false, "exit with 10 when there are moves")
	flags.BoolVar(&f.oneSample, "one-sample", false, "do not wait for a second sample")
	flags.Int("max-moves", 0, "at most so many `moves`")
	flags.String("max-bytes", "", "move at most so many bytes, like `500gb`")
	flags.Duration("time-limit", 0, "`time` for solving")
	config.BindFlag(flags, "max-moves", "limits.max_moves_per_cycle")
	config.BindFlag(flags, "max-bytes", "limits.max_bytes_per_cycle")
	config.BindFlag(flags, "time-limit", "solver.time_limit")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return runPlan(cmd, f, *output) }
	return cmd
}

func runPlan(cmd *cobra.Command, f planFlags, output format) error {
	c, err := loadConfig(cmd)
	if err != nil {
		return err
	}
	ctx, progress := cmd.Context(), newProgress(os.Stderr)
	defer progress.done()
	snapshot, err := takeSnapshot(ctx, &c, f, progress)
	if err != nil {
		return err
	}
	progress.say("solving for %d copies on %d nodes", len(snapshot.Copies), len(snapshot.Nodes))
	settings := loopSettings(&c)
	settings.Mode = plan.DryRun
	summary, err := rebalance.Decide(ctx, snapshot, settings, solveInWorker)
	if err != nil {
		return err
	}
	progress.done()
	if f.dump != "" {
		if err := writeFile(f.dump, summary.Problem.Write); err != nil {
			return err
		}
	}
	if f.save != "" {
		if err := writeFile(f.save, summary.Plan.Write); err != nil {
			return err
		}
	}
	if err := printPlan(cmd.OutOrStdout(), summary.Plan, output); err != nil {
		return err
	}
	if f.detailed && len(summary.Plan.Moves) > 0 {
		return exitStatus(10)
	}
	return nil
}

// takeSnapshot reads the capture, or the cluster: twice, sampling.window apart, for rates.
func takeSnapshot(ctx context.Context, c *config.Config, f planFlags, progress *progress) (*cluster.Snapshot, error) {
	if f.capture != "" {
		progress.say("reading %s", f.capture)
		return collector.FromCapture(f.capture, collectorOptions(c))
	}
	progress.say("connecting")
	s, collect, err := connectToCollect(ctx, c)
	if err != nil {
		return nil, err
	}
	defer s.close()
	progress.say("reading %s (%s)", s.identity.Name, s.identity.Product)
	snapshot, err := collect.Collect(ctx)
	if err != nil || f.oneSample || snapshot.Samples >= 2 {
		return snapshot, err
	}
	if err := progress.wait(ctx, c.Sampling.Window, "waiting for the second sample"); err != nil {
		return nil, err
	}
	return collect.Collect(ctx)
}

func printPlan(w io.Writer, p *plan.Plan, output format) error {
	if output == asJSON {
		return p.Write(w)
	}
	return p.Table(w)
}
