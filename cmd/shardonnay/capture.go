package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

func newCapture() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "capture DIR",
		Short: "Save the raw answers of one collection, for plan --capture",
		Long: "Saves what a collection reads, one file per request, under the names that Elastic's support diagnostics use. No secret is among\n" +
			"it, but names of nodes and indices are. With --samples 2 the statistics are read twice, for rates.",
		Example: "  shardonnay capture before/ --address http://localhost:9200\n  shardonnay capture before/ --samples 2 --interval 60s",
		Args:    cobra.ExactArgs(1),
	}
	addConfig(cmd)
	samples := cmd.Flags().Int("samples", 1, "how many times to read the statistics: 1 or 2")
	interval := cmd.Flags().Duration("interval", time.Minute, "`time` between the samples")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *samples < 1 || *samples > 2 || *interval <= 0 {
			return &cluster.Error{
				Class: cluster.Invalid, Op: "read the command line", Err: fmt.Errorf("--samples %d --interval %s", *samples, *interval),
				Hint: "Use 1 or 2 samples and a positive interval",
			}
		}
		c, err := loadConfig(cmd)
		if err != nil {
			return err
		}
		progress := newProgress(os.Stderr)
		defer progress.done()
		progress.say("connecting")
		s, collect, err := connectToCollect(cmd.Context(), &c)
		if err != nil {
			return err
		}
		defer s.close()
		progress.say("capturing %s (%s) into %s", s.identity.Name, s.identity.Product, args[0])
		if err := collect.Capture(cmd.Context(), args[0], *samples, *interval); err != nil {
			return err
		}
		progress.done()
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "captured %s (%s) in %s; look at it with: shardonnay plan --capture %s\n",
			s.identity.Name, s.identity.Product, args[0], args[0])
		return err
	}
	return cmd
}
