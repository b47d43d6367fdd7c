package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/version"
)

func newMan() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "man DIR",
		Short:   "Write the manual pages",
		Long:    "Writes a manual page for each command into DIR, to be put where man looks, such as /usr/local/share/man/man1.",
		Example: "  shardonnay man /usr/local/share/man/man1\n  shardonnay man . && man ./shardonnay-plan.1",
		Args:    cobra.ExactArgs(1),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		day := time.Now()
		header := doc.GenManHeader{Title: "SHARDONNAY", Section: "1", Source: "Shardonnay " + version.Number(), Manual: "Shardonnay", Date: &day}
		root := cmd.Root()
		root.DisableAutoGenTag = true
		if err := doc.GenManTree(root, &header, args[0]); err != nil {
			return &cluster.Error{Class: cluster.Invalid, Op: "write manual pages into", What: args[0], Err: err, Hint: "Name a folder that exists and can be written"}
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "manual pages written to %s\n", args[0])
		return err
	}
	return cmd
}
