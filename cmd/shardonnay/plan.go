package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/collector"
	"github.com/shardonnay/shardonnay/internal/config"
	"github.com/shardonnay/shardonnay/internal/mover"
	"github.com/shardonnay/shardonnay/internal/plan"
	"github.com/shardonnay/shardonnay/internal/rebalance"
	"github.com/shardonnay/shardonnay/internal/rightsize"
	"github.com/shardonnay/shardonnay/internal/whatif"
)

// planFlags are the flags of plan that are not configuration.
type planFlags struct {
	capture, save, dump string
	detailed            bool
	oneSample           bool
	whatIf              []string
	rightSize           bool
	limits              map[string]string
}

func newPlan() *cobra.Command {
	var f planFlags
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Measure, solve, and print what should move and why; nothing is changed",
		Long: "Runs one cycle without moving anything and prints the plan. Rates need two samples of the server's counters, so that it takes\n" +
			"sampling.window (a minute) against a live cluster; --one-sample uses averages since the counters began instead.",
		Example: "  shardonnay plan --address http://localhost:9200\n  shardonnay plan --capture diagnostics/ -o json\n" +
			"  shardonnay plan --what-if lose-zone:b --what-if 'scale-load:logs-*,search=2'\n  shardonnay plan --right-size --limit search=0.6,disk=0.8",
	}
	addConfig(cmd)
	output := addFormat(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.capture, "capture", "", "plan for a captured cluster or a diagnostics bundle in `DIR`")
	flags.StringVar(&f.save, "save", "", "also write the plan to `FILE`, for apply")
	flags.StringVar(&f.dump, "dump-problem", "", "also write the placement problem to `FILE`")
	flags.BoolVar(&f.detailed, "detailed-exit-code", false, "exit with 10 when there are moves")
	flags.BoolVar(&f.oneSample, "one-sample", false, "do not wait for a second sample")
	flags.StringArrayVar(&f.whatIf, "what-if", nil, "plan for the cluster as it might be; repeatable, made in their order: `CHANGE` is one of\n"+whatif.Forms())
	flags.BoolVar(&f.rightSize, "right-size", false, "answer instead how few nodes would carry this load, also without any one zone")
	flags.StringToStringVar(&f.limits, "limit", nil, fmt.Sprintf("with --right-size: `SHARES` of a node's capacity it may use, like search=0.6,disk=0.8; %g where none is given", rightsize.DefaultLimit))
	flags.Int("max-moves", 0, "at most so many `moves`")
	flags.String("max-bytes", "", "move at most so many bytes, like `500gb`")
	flags.Duration("time-limit", 0, "`time` for solving")
	config.BindFlag(flags, "max-moves", "limits.max_moves_per_cycle")
	config.BindFlag(flags, "max-bytes", "limits.max_bytes_per_cycle")
	config.BindFlag(flags, "time-limit", "solver.time_limit")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return runPlan(cmd, f, *output) }
	return cmd
}

// fit refuses flags that would be without effect: there is either a plan or an answer of --right-size.
func (f *planFlags) fit() error {
	var given string
	switch {
	case !f.rightSize && len(f.limits) > 0:
		return &cluster.Error{Class: cluster.Invalid, Op: "use", What: "--limit", Err: errors.New("a plan knows no such limits"), Hint: "Give --right-size as well"}
	case !f.rightSize:
		return nil
	case f.save != "":
		given = "--save"
	case f.dump != "":
		given = "--dump-problem"
	case f.detailed:
		given = "--detailed-exit-code"
	default:
		return nil
	}
	return &cluster.Error{Class: cluster.Invalid, Op: "use", What: given, Err: errors.New("--right-size makes no plan"), Hint: "Leave out one of the two"}
}

func runPlan(cmd *cobra.Command, f planFlags, output format) error {
	if err := f.fit(); err != nil {
		return err
	}
	c, err := loadConfig(cmd)
	if err != nil {
		return err
	}
	changes, err := parseChanges(f.whatIf)
	if err != nil {
		return err
	}
	limits, err := parseLimits(f.limits)
	if err != nil {
		return err
	}
	ctx, progress := cmd.Context(), newProgress(os.Stderr)
	defer progress.done()
	snapshot, err := takeSnapshot(ctx, &c, f, progress)
	if err != nil {
		return err
	}
	supposed, err := whatif.Apply(snapshot, changes)
	if err != nil {
		return err
	}
	settings := loopSettings(&c)
	if err := openPass(snapshot, &settings); err != nil {
		return err
	}
	if f.rightSize {
		progress.say("sizing for %d copies", len(supposed.Copies))
		progress.done()
		return rightSize(cmd.OutOrStdout(), supposed, &settings.Policy, changes, limits, output)
	}
	settings.Mode = plan.DryRun
	summary, err := decide(ctx, snapshot, settings, progress)
	if err != nil {
		return err
	}
	if len(changes) > 0 {
		today := summary.Plan
		if summary, err = decide(ctx, supposed, settings, progress); err != nil {
			return err
		}
		summary.Plan.Suppose(changeTexts(changes), today)
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

// openPass lets copies cross between regions as in a pass of the daemon that does, with all the bytes there can be: what a
// person asks for is a look ahead.
func openPass(snapshot *cluster.Snapshot, settings *rebalance.Settings) error {
	if settings.Policy.Regions == nil {
		return nil
	}
	account, _, err := mover.OpenCrossings("")
	if err != nil {
		return err
	}
	limits := settings.Crossing
	limits.Every = 1
	wan, err := account.Pass(snapshot, limits)
	settings.Policy.Regions.WAN.Left = wan.Left
	return err
}

func parseChanges(texts []string) ([]whatif.Change, error) {
	changes := make([]whatif.Change, len(texts))
	for i, text := range texts {
		var err error
		if changes[i], err = whatif.Parse(text); err != nil {
			return nil, err
		}
	}
	return changes, nil
}

func decide(ctx context.Context, snapshot *cluster.Snapshot, settings rebalance.Settings, progress *progress) (*rebalance.Summary, error) {
	progress.say("solving for %d copies on %d nodes", len(snapshot.Copies), len(snapshot.Nodes))
	return rebalance.Decide(ctx, snapshot, settings, solveInWorker)
}

func changeTexts(changes []whatif.Change) []string {
	texts := make([]string, len(changes))
	for i, c := range changes {
		texts[i] = c.String()
	}
	return texts
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
