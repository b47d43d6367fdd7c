package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/config"
	"github.com/shardonnay/shardonnay/internal/mover"
	"github.com/shardonnay/shardonnay/internal/plan"
)

func newApply() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "apply PLAN",
		Short: "Carry a saved plan out, exactly as shown",
		Long: "Executes the moves of a plan that plan --save wrote: on the same cluster, before it expires, each move checked again first. A move\n" +
			"that no longer holds is dropped and named. Without --yes it only shows what it would do.",
		Example: "  shardonnay plan --save plan.json && shardonnay apply plan.json --yes\n  shardonnay apply plan.json --config shardonnay.yaml --yes -o json",
		Args:    cobra.ExactArgs(1),
	}
	addConfig(cmd)
	output := addFormat(cmd)
	yes := cmd.Flags().Bool("yes", false, "do it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := loadConfig(cmd)
		if err != nil {
			return err
		}
		p, err := readPlan(args[0])
		if err != nil {
			return err
		}
		return applyPlan(cmd, &c, p, *yes, *output)
	}
	return cmd
}

func readPlan(path string) (*plan.Plan, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, &cluster.Error{Class: cluster.Invalid, Op: "open plan", What: path, Err: errors.Unwrap(err), Hint: "Name a file that plan --save wrote"}
	}
	defer file.Close()
	p, err := plan.Read(file)
	if err != nil {
		return nil, &cluster.Error{Class: cluster.Invalid, Op: "read plan", What: path, Err: err, Hint: "Name a file that plan --save wrote"}
	}
	return p, nil
}

func applyPlan(cmd *cobra.Command, c *config.Config, p *plan.Plan, yes bool, output format) (err error) {
	ctx := cmd.Context()
	s, err := connect(ctx, c)
	if err != nil {
		return err
	}
	defer s.close()
	if err := p.Usable(s.identity.UUID, time.Now()); err != nil {
		return err
	}
	if !yes {
		if err := printPlan(cmd.OutOrStdout(), p, output); err != nil {
			return err
		}
		return &cluster.Error{
			Class: cluster.Invalid, Op: "apply the plan", Err: fmt.Errorf("%d moves would be made on %s", len(p.Moves), s.identity.Name), Hint: "Add --yes to make them",
		}
	}
	collect, err := s.collector(c)
	if err != nil {
		return err
	}
	snapshot, err := collect.Collect(ctx)
	if err != nil {
		return err
	}
	ledger, _, err := mover.OpenLedger(c.State.Dir)
	if err != nil {
		return err
	}
	own := mover.NewOwnership(s.client, s.identity.Product, lease(&c.Ownership, ""))
	if err := own.Acquire(ctx); err != nil {
		return held(err)
	}
	defer func() {
		// Given back whatever happened, also when we were interrupted: nobody else will.
		released, releaseErr := own.Release(context.WithoutCancel(ctx), snapshot)
		if releaseErr == nil {
			fmt.Fprintln(os.Stderr, released.Text)
		}
		err = errors.Join(err, releaseErr)
	}()
	bar := newMoveBar(os.Stderr, p)
	report, err := mover.New(s.client, s.identity, moverConfig(c), ledger, own, bar.show).Carry(ctx, p, snapshot)
	bar.end()
	if printErr := printApplied(cmd.OutOrStdout(), p, &report, output); err == nil {
		err = printErr
	}
	landed, _ := report.OfPlan(mover.Landed)
	stale, _ := report.OfPlan(mover.Stale)
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return &cluster.Error{
			Class: cluster.Interrupted, Op: "apply the plan", Err: fmt.Errorf("%d moves under way were left to the cluster", len(report.InFlight)),
			Hint: "Make a new plan for the rest",
		}
	case landed == len(p.Moves):
		return nil
	case stale > 0:
		return &cluster.Error{
			Class: cluster.Stale, Op: "apply the plan", Err: fmt.Errorf("%d of %d moves no longer hold", stale, len(p.Moves)), Hint: "Make a new plan",
		}
	}
	reason := "the other moves did not land"
	if report.Stop != nil {
		reason = report.Stop.Text
	}
	return &cluster.Error{
		Class: cluster.Rejected, Op: "apply the plan", Err: fmt.Errorf("%d of %d moves landed: %s", landed, len(p.Moves), reason), Hint: "Make a new plan once that is over",
	}
}

// held gives a hold of the ownership an exit code: the cluster, as it is, does not want us.
func held(err error) error {
	if hold, ok := errors.AsType[*mover.Hold](err); ok {
		return &cluster.Error{Class: cluster.Refused, Op: "take rebalancing over", Err: errors.New(hold.Text), Hint: hold.Cure}
	}
	return err
}

func printApplied(w io.Writer, p *plan.Plan, report *mover.Report, output format) error {
	if output == asJSON {
		type outcome struct {
			Seq    int         `json:"seq"`
			State  mover.State `json:"state"`
			Reason string      `json:"reason,omitempty"`
			TookS  float64     `json:"took_s"`
			// Adopted moves are none of the plan's: they were under way, and were watched to their end.
			Adopted bool `json:"adopted,omitempty"`
		}
		outcomes := make([]outcome, 0, len(report.Outcomes))
		for _, o := range report.Outcomes {
			outcomes = append(outcomes, outcome{o.Move.Seq, o.State, o.Reason, o.Elapsed.Seconds(), o.Adopted})
		}
		return printJSON(w, map[string]any{
			"version": 1, "plan": p.ID, "considered": report.Considered, "count": report.Count, "bytes_moved": report.BytesMoved, "moves": outcomes,
		})
	}
	for _, o := range report.Outcomes {
		if o.Adopted {
			fmt.Fprintf(w, "beside the plan: %s/%d from %s to %s was under way: %s\n", o.Move.Index, o.Move.Shard, o.Move.From.Name, o.Move.To.Name, o.State)
		} else if o.Reason != "" { // all but those that landed as planned
			fmt.Fprintf(w, "move %d of %s/%d from %s to %s: %s: %s\n", o.Move.Seq, o.Move.Index, o.Move.Shard, o.Move.From.Name, o.Move.To.Name, o.State, o.Reason)
		}
	}
	for _, warning := range report.Warnings {
		fmt.Fprintln(w, warning)
	}
	landed, bytes := report.OfPlan(mover.Landed)
	_, err := fmt.Fprintf(w, "%d of %d moves landed, %s\n", landed, report.Considered, bytesText(float64(bytes)))
	return err
}

// moveBar shows how far the moves are: a bar redrawn in place for a person, a line per end otherwise.
type moveBar struct {
	out     *os.File
	live    bool
	total   int64
	moves   int
	ended   int
	arrived map[int]int64 // by seq
}

func newMoveBar(out *os.File, p *plan.Plan) *moveBar {
	return &moveBar{out: out, live: isTerminal(out), total: p.Totals.Bytes, moves: len(p.Moves), arrived: make(map[int]int64)}
}

func (b *moveBar) show(e mover.Event) {
	if e.Adopted {
		return // not the plan's
	}
	b.arrived[e.Move.Seq] = e.BytesArrived
	if e.State.Ended() {
		b.ended++
		if !b.live {
			fmt.Fprintf(b.out, "%d/%d %s/%d %s -> %s: %s\n", b.ended, b.moves, e.Move.Index, e.Move.Shard, e.Move.From.Name, e.Move.To.Name, e.State)
		}
	}
	if b.live {
		arrived := int64(0)
		for _, bytes := range b.arrived {
			arrived += bytes
		}
		share := 1.0
		if b.total > 0 {
			share = float64(arrived) / float64(b.total)
		}
		fmt.Fprintf(b.out, "\r\x1b[K%s %3.0f %%  %d of %d moves, %s of %s", bar(3*share, 30), 100*share, b.ended, b.moves, bytesText(float64(arrived)), bytesText(float64(b.total)))
	}
}

func (b *moveBar) end() {
	if b.live {
		fmt.Fprintln(b.out)
	}
}
