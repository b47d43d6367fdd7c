package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/shardonnay/shardonnay/internal/solver/clp"
	"github.com/shardonnay/shardonnay/internal/version"
)

func newVersion() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Say which build this is",
		Example: "  shardonnay version\n  shardonnay version -o json",
	}
	output := addFormat(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		out := cmd.OutOrStdout()
		if *output == asJSON {
			return printJSON(out, map[string]string{
				"version": version.Number(), "commit": version.Commit(), "go": version.Go(), "clp": clp.Version(),
			})
		}
		_, err := fmt.Fprintf(out, "shardonnay %s (commit %s, %s, CLP %s)\n", version.Number(), version.Commit(), version.Go(), clp.Version())
		return err
	}
	return cmd
}
