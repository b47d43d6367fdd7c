package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/config"
	"github.com/shardonnay/shardonnay/internal/history"
	"github.com/shardonnay/shardonnay/internal/plan"
	"github.com/shardonnay/shardonnay/internal/rebalance"
	"github.com/shardonnay/shardonnay/internal/sim"
)

// The demo runs a virtual minute a second, so that relocations of gigabytes take a glance.
const (
	demoSpeed    = 60
	demoInterval = time.Second // on the wall: a virtual minute
)

func newDemo() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch the heat of a simulated 30-node cluster even out",
		Long: "Serves a simulated cluster of 30 nodes with time-based indices on a port of this machine, lets the daemon loose on it over HTTP, and\n" +
			"shows the nodes' heat until it is even. A minute there takes a second here.",
		Example: "  shardonnay demo\n  shardonnay demo --seed 7 --stay",
	}
	seed := cmd.Flags().Uint64("seed", 1, "`number` that the simulated cluster grows from")
	limit := cmd.Flags().Duration("time-limit", 50*time.Second, "sum up after this `time` at the latest")
	stay := cmd.Flags().Bool("stay", false, "let the daemon go on, and serve its page and metrics, until interrupted")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return runDemo(cmd.Context(), cmd.OutOrStdout(), *seed, *limit, *stay)
	}
	return cmd
}

// demoConfig is a configuration as a person in a hurry would write it: act, every virtual minute, eagerly.
func demoConfig(address string) config.Config {
	c := config.Default()
	c.Connection.Addresses = []string{address}
	c.Mode = plan.Act
	c.Cycle.Interval, c.Cycle.Jitter, c.Cycle.TimeLimit, c.Cycle.Deadline = demoInterval, 0, 20*time.Second, 15*time.Second
	c.Solver.TimeLimit = 2 * time.Second
	c.Balance.MoveCost = 0.05
	c.Pin.Newest, c.Pin.WriteShare = false, 0 // the heat is on today's indices
	c.Limits.MaxMovesPerCycle, c.Limits.InFlight, c.Limits.InFlightBytes = 30, 30, 0
	c.Limits.PerIndex, c.Limits.CoolDown = 0, 10*time.Second
	c.Stop.NodeSettle, c.Stop.CPU = 0, 0
	c.HTTP.Listen = "127.0.0.1:0"
	return c
}

// demonstration is one run of the demo.
type demonstration struct {
	cluster *sim.Cluster
	loop    *rebalance.Loop
	out     io.Writer
	live    bool
	started time.Time
	lines   int // drawn last time, to be drawn over
}

func runDemo(ctx context.Context, out io.Writer, seed uint64, limit time.Duration, stay bool) (err error) {
	virtual := sim.Demo(seed)
	// The cluster outlives an interruption by as long as giving rebalancing back takes.
	server, err := sim.Serve(context.WithoutCancel(ctx), virtual, sim.Options{Speed: demoSpeed})
	if err != nil {
		return &cluster.Error{Class: cluster.Internal, Op: "start the simulated cluster", Err: err}
	}
	defer func() { _ = server.Close() }() // a simulated cluster has nothing to lose
	c := demoConfig(server.URL())
	s, err := connect(ctx, &c)
	if err != nil {
		return err
	}
	defer s.close()
	current := func() *config.Config { return &c }
	d, err := newDaemon(s, current, history.New(), "", zap.NewNop(), nil)
	if err != nil {
		return err
	}
	api, err := d.serve(current)
	if err != nil {
		return err
	}
	defer func() { _ = api.Close(context.WithoutCancel(ctx)) }()

	show := &demonstration{cluster: virtual, loop: d.loop, out: out, live: isTerminal(os.Stdout), started: time.Now()}
	before := virtual.Balance("search")
	fmt.Fprintf(out, "A simulated %s at %s: %d nodes, %d copies, placed level in counts as the server does it.\nPage at %s\nMetrics at %s/metrics\n\n",
		s.identity.Product, server.URL(), len(virtual.Loads()), virtual.Counts().Started, api.URL(), api.URL())
	run, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- d.run(run) }()
	show.watch(ctx, limit)
	if stay && ctx.Err() == nil {
		err := show.summary(before, api.URL(), true)
		fmt.Fprintf(out, "The daemon goes on. Serving the page at %s until interrupted.\n", api.URL())
		return errors.Join(err, <-ended)
	}
	stop()
	if err := <-ended; err != nil {
		return err
	}
	if ctx.Err() != nil {
		return &cluster.Error{Class: cluster.Interrupted, Op: "demo", Err: context.Cause(ctx)}
	}
	return show.summary(before, api.URL(), false)
}

// watch shows the heat until the daemon has found nothing worth moving, the limit is reached, or ctx ends.
func (d *demonstration) watch(ctx context.Context, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ticker := time.NewTicker(250 * time.Millisecond)
	defer ticker.Stop()
	var last string
	for {
		latest := d.loop.Latest()
		d.draw(latest, latest != nil && latest.ID != last)
		if latest != nil {
			last = latest.ID
			if latest.Outcome == rebalance.Balanced && latest.Snapshot.Samples > 1 {
				return
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// draw shows the heat of all nodes: redrawn in place for a person, one line a cycle otherwise.
func (d *demonstration) draw(latest *rebalance.Summary, fresh bool) {
	balance, counts, tally := d.cluster.Balance("search"), d.cluster.Counts(), d.cluster.Tally()
	line := fmt.Sprintf("%4.0f s  search peak/mean %.2f  hottest %-4s %s  moved %d copies, %s; %d under way", time.Since(d.started).Seconds(), balance.PeakToMean,
		balance.Hottest, bar(balance.PeakToMean, 24), tally.Landed, bytesText(float64(tally.BytesMoved)), counts.Relocating)
	state := "starting"
	if latest != nil && latest.Outcome != "" {
		state = string(latest.Outcome)
		if latest.Reason != "" {
			state += ": " + latest.Reason
		}
	}
	if !d.live {
		if fresh {
			fmt.Fprintf(d.out, "%s; %s\n", line, state)
		}
		return
	}
	var text strings.Builder
	if d.lines > 0 {
		fmt.Fprintf(&text, "\x1b[%dA", d.lines)
	}
	loads := d.cluster.Loads()
	columns := 2
	rows := (len(loads) + columns - 1) / columns
	for row := range rows {
		text.WriteString("\x1b[K")
		for column := range columns {
			if at := column*rows + row; at < len(loads) {
				n := loads[at]
				r := n.Search / float64(n.Processors) / balance.Mean
				fmt.Fprintf(&text, "%-6s %s %s %4.2f   ", n.Name, n.Zone, heat(r, 24), r)
			}
		}
		text.WriteString("\n")
	}
	text.WriteString("\x1b[K" + line + "\n")
	text.WriteString("\x1b[Klast cycle " + firstRunes(state, 100) + "\n")
	fmt.Fprint(d.out, text.String())
	d.lines = rows + 2
}

// bar draws r on a scale where half of width is the mean.
func bar(r float64, width int) string {
	full := min(width, max(0, int(r*float64(width)/3+0.5)))
	return strings.Repeat("█", full) + strings.Repeat("·", width-full)
}

// heat is a bar in the colour of its heat: red for a node far above its fair share, green for a fair one.
func heat(r float64, width int) string {
	colour := 32
	switch {
	case r > 1.5:
		colour = 31
	case r > 1.15:
		colour = 33
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", colour, bar(r, width))
}

func firstRunes(text string, n int) string {
	if runes := []rune(text); len(runes) > n {
		return string(runes[:n-1]) + "…"
	}
	return text
}

func bytesText(bytes float64) string {
	for _, unit := range []string{"B", "KiB", "MiB", "GiB"} {
		if bytes < 1024 {
			return fmt.Sprintf("%.1f %s", bytes, unit)
		}
		bytes /= 1024
	}
	return fmt.Sprintf("%.2f TiB", bytes)
}

// demoGoal is the peak to mean of search load at which the demo counts as even.
const demoGoal = 1.10

// summary prints the figures before and after, at the end or while the daemon goes on; the error says which of them is not
// as it should be.
func (d *demonstration) summary(before sim.Balance, url string, goesOn bool) error {
	after, counts, tally := d.cluster.Balance("search"), d.cluster.Counts(), d.cluster.Tally()
	setting := d.cluster.Setting("cluster.routing.rebalance.enable")
	record := d.cluster.Setting("cluster.metadata.shardonnay.owner")
	fmt.Fprintf(d.out, "\nsearch peak/mean   %.2f -> %.2f (hottest node %s -> %s)\n", before.PeakToMean, after.PeakToMean, before.Hottest, after.Hottest)
	if latest := d.loop.Latest(); latest != nil && latest.Plan != nil {
		o := latest.Plan.Objective
		fmt.Fprintf(d.out, "objective          %.4f left of which no placement avoids %.4f (gap %.1f %%)\n", o.After, o.LowerBound, 100*o.Gap)
	}
	fmt.Fprintf(d.out, "moved              %d copies, %s, in %.0f s; refused %d, failed %d\n", tally.Landed, bytesText(float64(tally.BytesMoved)),
		time.Since(d.started).Seconds(), tally.Refused, tally.Failed)
	fmt.Fprintf(d.out, "copies             %d started, %d relocating, %d unassigned\n", counts.Started, counts.Relocating, counts.Unassigned)
	givenBack := record == "" && setting == "all"
	ownership := "given back: cluster.routing.rebalance.enable is " + setting
	if goesOn {
		ownership = "given back when the daemon ends"
	} else if !givenBack {
		ownership = "NOT given back: " + setting + " " + record
	}
	fmt.Fprintf(d.out, "ownership          %s\nmetrics            %s/metrics\n", ownership, url)
	var wrong []string
	expect := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	expect(after.PeakToMean <= demoGoal, "search peak/mean is %.2f, not at most %.2f", after.PeakToMean, demoGoal)
	expect(tally.Refused == 0, "%d moves were refused", tally.Refused)
	expect(counts.Unassigned == 0, "%d copies are unassigned", counts.Unassigned)
	expect(goesOn || givenBack, "rebalancing was not given back")
	if len(wrong) > 0 {
		return &cluster.Error{Class: cluster.Rejected, Op: "demo", Err: fmt.Errorf("%s", strings.Join(wrong, "; "))}
	}
	return nil
}
