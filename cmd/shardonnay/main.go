// Command shardonnay keeps the load of Elasticsearch and OpenSearch nodes even.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/version"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newRoot().ExecuteContext(ctx)
	stop()
	os.Exit(report(err))
}

// exitStatus is an error that only carries an exit code: what there is to say has been said.
type exitStatus int

func (e exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// report prints an error for a person and gives the exit code.
func report(err error) int {
	var status exitStatus
	if err != nil && !errors.As(err, &status) {
		fmt.Fprintln(os.Stderr, "shardonnay:", err)
	}
	return exitCode(err)
}

// exitCode is the process's exit code for what a command returned.
func exitCode(err error) int {
	if status, ok := errors.AsType[exitStatus](err); ok {
		return int(status)
	}
	return cluster.ExitCode(err)
}

// newRoot assembles the commands. Each command's flags live beside its code.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "shardonnay",
		Short:         "Keep every node's search, indexing and disk load even",
		Long:          "Shardonnay measures what each shard copy of an Elasticsearch or OpenSearch cluster costs, solves the placement as a linear\nprogram with a proven bound, and moves a few copies at a time. Without a configuration it changes nothing: the mode is dry-run.",
		Version:       version.Number(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.ArbitraryArgs, // a word that is no command comes here
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return &cluster.Error{Class: cluster.Invalid, Op: "read the command line", Err: fmt.Errorf("%q is no command", args[0]), Hint: "See shardonnay --help"}
		},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &cluster.Error{Class: cluster.Invalid, Op: "read the command line", Err: err, Hint: "See " + cmd.CommandPath() + " --help"}
	})
	root.AddCommand(
		newRun(), newPlan(), newApply(), newCapture(), newSolve(), newSimulate(), newDemo(), newBench(), newDoctor(), newRelease(), newZones(), newReport(),
		newHealth(), newVersion(), newMan(), newWorker(),
	)
	for _, command := range root.Commands() {
		wrapUsage(command)
	}
	return root
}

// wrapUsage makes wrong arguments and unknown subcommands usage errors (exit code 2).
func wrapUsage(command *cobra.Command) {
	check := command.Args
	if check == nil {
		check = cobra.NoArgs
	}
	command.Args = func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return &cluster.Error{Class: cluster.Invalid, Op: "read the command line", Err: err, Hint: "See " + cmd.CommandPath() + " --help"}
		}
		return nil
	}
	for _, child := range command.Commands() {
		wrapUsage(child)
	}
}
