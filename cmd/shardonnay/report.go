package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/dispersion"
	"github.com/shardonnay/shardonnay/internal/plan"
)

func newReport() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "report",
		Short:   "Say how the cluster stands in one respect",
		Example: "  shardonnay report dispersion --config shardonnay.yaml\n  shardonnay report dispersion --capture diagnostics/ -o json",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newReportDispersion())
	return cmd
}

func newReportDispersion() *cobra.Command {
	var f planFlags
	cmd := &cobra.Command{
		Use:   "dispersion",
		Short: "Say how far apart the copies of each shard are over regions, zones and hosts",
		Long: "Prints how many copies are closer to others of their shard than they must be: now, after the moves of a plan, and with the placement\n" +
			"the solver would like; how even disks are, and how uneven they would have to be. Needs regions.attribute. Reads only, one sample.",
		Example: "  shardonnay report dispersion --config shardonnay.yaml\n  shardonnay report dispersion --capture diagnostics/ -v -o json",
	}
	addConfig(cmd)
	output := addFormat(cmd)
	cmd.Flags().StringVar(&f.capture, "capture", "", "report on a captured cluster or a diagnostics bundle in `DIR`")
	verbose := cmd.Flags().BoolP("verbose", "v", false, "every region, zone and host, and every shard that is not as it should be")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := loadConfig(cmd)
		if err != nil {
			return err
		}
		if c.Regions.Attribute == "" {
			return &cluster.Error{
				Class: cluster.Invalid, Op: "report dispersion", Err: errors.New("regions.attribute is not set, so that there are no regions to report on"),
				Hint: "Name the node attribute that holds the region; docs/regions.md tells how to begin",
			}
		}
		progress := newProgress(os.Stderr)
		defer progress.done()
		f.oneSample = true
		snapshot, err := takeSnapshot(cmd.Context(), &c, f, progress)
		if err != nil {
			return err
		}
		settings := loopSettings(&c)
		if err := openPass(snapshot, &settings); err != nil {
			return err
		}
		settings.Mode = plan.DryRun
		summary, err := decide(cmd.Context(), snapshot, settings, progress)
		if err != nil {
			return err
		}
		progress.done()
		if *output == asJSON {
			return printJSON(cmd.OutOrStdout(), summary.Spread)
		}
		printDispersion(cmd.OutOrStdout(), summary.Spread, *verbose)
		return nil
	}
	return cmd
}

// printDispersion shows the report for a person.
func printDispersion(w io.Writer, r *dispersion.Report, verbose bool) {
	fmt.Fprintf(w, "Dispersion of %s: %d shards, %d copies, %s\n\n", r.Cluster, r.Shards, r.Copies, strings.Join(r.Regions, ", "))
	t := plan.NewTable("", "now", "after the plan", "at best")
	plan.RightAligned(t, 2, 3, 4)
	reach := func(name string, of dispersion.Reach) {
		t.AppendRow(table.Row{name, percent(of.Now), percent(of.After), percent(of.Target)})
	}
	counts := func(name string, of dispersion.Counts) {
		t.AppendRow(table.Row{name, of.Now, of.After, of.Target})
	}
	reach("dispersion", r.Dispersion)
	for i := range r.Tiers {
		counts("copies too many in a "+r.Tiers[i].Tier, r.Tiers[i].Excess)
	}
	for _, region := range r.Regions {
		counts("copies missing in "+region, r.Missing[region])
	}
	reach("node furthest from its share of bytes", r.Balance)
	fmt.Fprintf(w, "%s\n\n", t.Render())
	if r.WorstTier != "" {
		fmt.Fprintf(w, "Worst tier: %s.\n", r.WorstTier)
	}
	fmt.Fprintf(w, "Required overload: %s; regions.overload allows %s.\n", percent(r.RequiredOverload), percent(r.Overload))
	for _, name := range r.Relaxed {
		fmt.Fprintf(w, "%s has more copies than there are zones for them: some zone holds several of a shard.\n", name)
	}
	switch {
	case len(r.Outside) == 0:
		fmt.Fprintln(w, "Every shard is as far apart as it can be.")
	case !verbose:
		fmt.Fprintf(w, "%d times a shard is above a cap or below a floor; -v names them.\n", len(r.Outside))
	}
	if !verbose {
		return
	}
	for i := range r.Tiers {
		rows := plan.NewTable(r.Tiers[i].Tier, "shards above the cap", "share", "cap", "shards by copies there")
		plan.RightAligned(rows, 2, 3, 4)
		for _, v := range r.Tiers[i].Values {
			rows.AppendRow(table.Row{v.Value, v.Over, percent(v.Ratio), v.Cap, histogram(v.Copies)})
		}
		fmt.Fprintf(w, "\n%s\n", rows.Render())
	}
	if len(r.Outside) > 0 {
		rows := plan.NewTable("shard", "tier", "where", "copies", "at least", "at most")
		plan.RightAligned(rows, 4, 5, 6)
		for _, s := range r.Outside {
			rows.AppendRow(table.Row{s.Shard, s.Tier, s.Value, s.Copies, s.AtLeast, s.AtMost})
		}
		fmt.Fprintf(w, "\n%s\n", rows.Render())
	}
}

// histogram is "0: 12, 1: 40".
func histogram(shards []int) string {
	var texts []string
	for copies, count := range shards {
		if count > 0 {
			texts = append(texts, strconv.Itoa(copies)+": "+strconv.Itoa(count))
		}
	}
	return strings.Join(texts, ", ")
}

func percent(ratio float64) string { return strconv.FormatFloat(100*ratio, 'f', 2, 64) + " %" }
