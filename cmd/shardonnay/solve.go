package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/instance"
	"github.com/shardonnay/shardonnay/internal/model"
	"github.com/shardonnay/shardonnay/internal/solver"
	"github.com/shardonnay/shardonnay/internal/solver/worker"
)

// searching is how a command searches.
type searching struct {
	solver.Options
	greedy bool
	moves  int
	bytes  float64

	optimum float64 // where it is known; 0 elsewhere
}

// plantedVariant is the instance whose best placement is known by construction.
const plantedVariant = "planted"

// addSearch gives a command the flags of the search.
func addSearch(cmd *cobra.Command) *searching {
	var o searching
	flags := cmd.Flags()
	flags.DurationVar(&o.TimeLimit, "time-limit", 30*time.Second, "`time` for the search")
	flags.Int64Var(&o.WorkLimit, "work-limit", 0, "`units` of work for the search, for answers that repeat exactly; 0 is no limit")
	flags.IntVar(&o.Workers, "workers", 0, "`threads`; 0 is one per core")
	flags.BoolVar(&o.greedy, "greedy", false, "search as a plain greedy does, for comparison: best moves and swaps until none pays")
	flags.IntVar(&o.moves, "max-moves", 0, "`number` of moves at most; 0 leaves the problem's own limit")
	flags.Float64Var(&o.bytes, "max-bytes", 0, "`bytes` moved at most; 0 leaves the problem's own limit")
	flags.Float64Var(&o.TargetGap, "target-gap", 0, "stop at this `gap`, a ratio")
	return &o
}

func newSolve() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "solve PROBLEM",
		Short:   "Solve a placement problem from a file",
		Long:    "Solves a problem file (plain or gzip, see docs/formulation.md) and reports the objective, the proven bound and the work done.",
		Example: "  shardonnay solve problem.json\n  shardonnay solve problem.json.gz --assignment answer.json -o json",
		Args:    cobra.ExactArgs(1),
	}
	output := addFormat(cmd)
	options := addSearch(cmd)
	cmd.Flags().Uint64Var(&options.Seed, "seed", 1, "`number` that the search's random choices grow from")
	assignment := cmd.Flags().String("assignment", "", "write the assignment to `FILE`")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		file, err := os.Open(args[0])
		if err != nil {
			return &cluster.Error{Class: cluster.Invalid, Op: "open problem", What: args[0], Err: errors.Unwrap(err), Hint: "Name a problem file"}
		}
		defer file.Close()
		p, err := model.Read(file)
		if err != nil {
			return &cluster.Error{Class: cluster.Invalid, Op: "read problem", What: args[0], Err: err, Hint: "docs/formulation.md describes the format"}
		}
		return solveAndReport(cmd, p, *options, 0, *assignment, *output)
	}
	return cmd
}

func newBench() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "bench",
		Short:   "Measure the solver on generated instances",
		Example: "  shardonnay bench solver --nodes 100 --copies 6000\n  shardonnay bench solver --nodes 10 --copies 500 --dump-problem p.json",
	}
	cmd.AddCommand(newBenchSolver())
	return cmd
}

func newBenchSolver() *cobra.Command {
	o := instance.Defaults(100, 6000, 1)
	cmd := &cobra.Command{
		Use:     "solver",
		Short:   "Generate an instance, solve it, report",
		Long:    "Generates what a log cluster of that size looks like (zones, hardware generations, time-based indices of many tenants), solves it and reports.",
		Example: "  shardonnay bench solver --nodes 100 --copies 6000 --seed 1 --time-limit 10s -o json\n  shardonnay bench solver --nodes 50 --copies 3000 --lambda 0.2",
	}
	output := addFormat(cmd)
	options := addSearch(cmd)
	flags := cmd.Flags()
	flags.IntVar(&o.Nodes, "nodes", o.Nodes, "`number` of nodes")
	flags.IntVar(&o.Copies, "copies", o.Copies, "`number` of shard copies, about")
	flags.IntVar(&o.Dimensions, "dimensions", o.Dimensions, "`number` of dimensions, 1 to 5")
	flags.Uint64Var(&o.Seed, "seed", o.Seed, "`number` that the instance and the search grow from")
	flags.Float64Var(&o.Skew, "skew", o.Skew, "`sigma` of the noise of search load")
	flags.Float64Var(&o.DiskFill, "disk-fill", o.DiskFill, "`ratio` of the disks in use")
	flags.Float64Var(&o.DiskLimit, "disk-limit", o.DiskLimit, "`ratio` of a disk that may be in use")
	flags.Float64Var(&o.Lambda, "lambda", o.Lambda, "`price` of moving every byte once")
	variant := flags.String("variant", "plain", "`kind` of cluster: "+strings.Join(instance.Variants(), ", ")+"; or "+plantedVariant+", whose optimum is known")
	drift := flags.Float64("drift", 0, "solve, then change this `share` of the copies, and report the solve that goes on from the first")
	warm := flags.Duration("warm-limit", 3*time.Second, "`time` for the solve that goes on")
	dump := flags.String("dump-problem", "", "also write the problem to `FILE`")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		given := make(map[*pflag.Flag]string)
		flags.Visit(func(f *pflag.Flag) { given[f] = f.Value.String() })
		o = instance.Defaults(o.Nodes, o.Copies, o.Seed) // giants and the like by the number of nodes
		planted := *variant == plantedVariant
		if !planted {
			if err := o.Vary(*variant); err != nil {
				return err
			}
		}
		for f, value := range given { // what is given stands, whatever the variant says
			if err := f.Value.Set(value); err != nil {
				return err
			}
		}
		progress := newProgress(os.Stderr)
		progress.say("generating %d nodes and %d copies", o.Nodes, o.Copies)
		var p *model.Problem
		var optimum float64
		var err error
		if planted {
			p, optimum, err = instance.Planted(o)
		} else {
			p, err = instance.Generate(o)
		}
		progress.done()
		if err != nil {
			return &cluster.Error{Class: cluster.Invalid, Op: "generate an instance", Err: err, Hint: "See shardonnay bench solver --help"}
		}
		options.Seed = o.Seed
		if *drift < 0 || *drift > 1 {
			return &cluster.Error{Class: cluster.Invalid, Op: "read --drift", Err: errors.New("not a share from 0 to 1"), Hint: "2 % is 0.02"}
		}
		if *drift > 0 {
			first, err := solver.Solve(cmd.Context(), p, options.Options)
			if err != nil {
				return err
			}
			p, optimum = instance.Drift(p, *drift, o.Seed), 0
			options.Warm, options.TimeLimit = first.Warm, *warm
		}
		if *dump != "" {
			if err := writeFile(*dump, p.Write); err != nil {
				return err
			}
		}
		options.optimum = optimum
		return solveAndReport(cmd, p, *options, o.Seed, "", *output)
	}
	return cmd
}

// solveAndReport solves in this very process: the memory and time it reports are those of the search.
func solveAndReport(cmd *cobra.Command, p *model.Problem, o searching, seed uint64, assignment string, output format) error {
	progress := newProgress(os.Stderr)
	defer progress.done()
	o.Progress = func(point solver.TracePoint) {
		progress.say("%s: objective %.6g, at least %.6g", point.Phase, point.Objective, point.LowerBound)
	}
	if o.moves < 0 || o.bytes < 0 {
		return &cluster.Error{Class: cluster.Invalid, Op: "read the limits", Err: errors.New("a number of moves or bytes is negative"), Hint: "Give 0 for no limit"}
	}
	if o.moves > 0 {
		p.Limits.MaxMoves = o.moves
	}
	if o.bytes > 0 {
		p.Limits.MaxBytes = o.bytes
	}
	var result *solver.Result
	if o.greedy {
		result = solver.Descent(cmd.Context(), p, o.Options)
	} else {
		var err error
		if result, err = solver.Solve(cmd.Context(), p, o.Options); err != nil {
			return err
		}
	}
	progress.done()
	if assignment != "" {
		write := func(w io.Writer) error {
			return json.NewEncoder(w).Encode(model.AssignmentFile{Version: model.ProblemVersion, Problem: p.Name, Node: result.Assignment})
		}
		if err := writeFile(assignment, write); err != nil {
			return err
		}
	}
	report := solver.NewReport(p, seed, result)
	report.Optimum = o.optimum
	var err error
	if output == asJSON {
		err = printJSON(cmd.OutOrStdout(), report)
	} else {
		err = printReport(cmd.OutOrStdout(), report)
	}
	if err == nil && !report.Checked {
		return &cluster.Error{Class: cluster.Rejected, Op: "check the answer", Err: errors.New("the independent check does not agree with the search"), Hint: "Please report this with the problem file"}
	}
	return err
}

func printReport(w io.Writer, r solver.Report) error {
	_, err := fmt.Fprintf(w, `instance    %d nodes, %d copies, %d groups, %d indices, %d dimensions
objective   %.6g -> %.6g, proven to be at least %.6g (%s)
captured    %.4f of what is possible; gap %.4f
moves       %d, %s
search      %s in %.2f s (cpu %.2f s, memory %s): %d pairs priced, %d columns, %d linear programs, %d rounds
checked     %t
`, r.Instance.Nodes, r.Instance.Copies, r.Instance.Groups, r.Instance.Indices, r.Instance.Dimensions,
		r.ObjectiveBefore, r.Objective, r.LowerBound, r.LowerBoundKind, r.Captured, r.Gap, r.Moves, bytesText(r.BytesMoved),
		r.Status, r.WallS, r.CPUS, bytesText(float64(r.PeakRSSBytes)), r.PairsPriced, r.ColumnsBuilt, r.LPSolves, r.Rounds, r.Checked)
	return err
}

// newWorker is the hidden command that solves for another process of this program.
func newWorker() *cobra.Command {
	return &cobra.Command{
		Use: worker.Command, Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return worker.Main(context.WithoutCancel(cmd.Context()), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}
