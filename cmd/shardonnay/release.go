package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/mover"
)

func newRelease() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "release",
		Short: "Give rebalancing back to the server, wherever its owner died",
		Long: "Restores the setting that the ownership record in the cluster remembers and removes the record. A value that a person has set in\n" +
			"the meantime stays. Run it when no instance is running: one that is will see that it is no longer the owner and stop moving.",
		Example: "  shardonnay release --address http://localhost:9200\n  shardonnay release --config shardonnay.yaml -o json",
	}
	addConfig(cmd)
	output := addFormat(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := loadConfig(cmd)
		if err != nil {
			return err
		}
		s, collect, err := connectToCollect(cmd.Context(), &c)
		if err != nil {
			return err
		}
		defer s.close()
		// The snapshot is only for foretelling what the server will do; a cluster that cannot be read whole is released all the same.
		snapshot, err := collect.Collect(cmd.Context())
		if err != nil && cluster.ClassOf(err) == cluster.Incomplete {
			fmt.Fprintln(os.Stderr, "shardonnay: no forecast of what the server will move:", err)
		} else if err != nil {
			return err
		}
		released, err := mover.Release(cmd.Context(), s.client, s.identity.Product, snapshot, false)
		if err != nil {
			return err
		}
		if *output == asJSON {
			return printJSON(cmd.OutOrStdout(), released)
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), released.Text)
		return err
	}
	return cmd
}
