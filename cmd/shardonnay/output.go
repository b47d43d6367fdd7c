package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// format is what -o takes: how a result is printed.
type format string

const (
	asTable format = "table"
	asJSON  format = "json"
	formats        = "table|json"
)

// String, Set and Type make format a flag value.
func (f *format) String() string { return string(*f) }

// Set accepts table and json.
func (f *format) Set(text string) error {
	switch format(text) {
	case asTable, asJSON:
		*f = format(text)
		return nil
	}
	return fmt.Errorf("%q is not one of %s", text, formats)
}

// Type names the values in help texts.
func (f *format) Type() string { return formats }

// addFormat gives a command its -o flag.
func addFormat(cmd *cobra.Command) *format {
	f := asTable
	cmd.Flags().VarP(&f, "output", "o", "how to print the result")
	complete(cmd, "output", string(asTable), string(asJSON))
	return &f
}

// complete lets shells offer the words that a flag takes.
func complete(cmd *cobra.Command, flag string, words ...cobra.Completion) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic("a flag is completed that is not there: " + err.Error())
	}
}

// printJSON writes one indented document.
func printJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return &cluster.Error{Class: cluster.Internal, Op: "print the result", Err: err}
	}
	return nil
}

// isTerminal tells whether a person watches f: only then lines may be redrawn and coloured.
func isTerminal(f *os.File) bool {
	_, plain := os.LookupEnv("NO_COLOR")
	return !plain && term.IsTerminal(int(f.Fd()))
}

// writeFile writes a new file whole or not at all: what was there stays until the new content is safe.
func writeFile(path string, write func(io.Writer) error) (err error) {
	fail := func(err error) error {
		return &cluster.Error{Class: cluster.Invalid, Op: "write", What: path, Err: err, Hint: "Choose a file in a folder that exists and can be written"}
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".shardonnay-*")
	if err != nil {
		return fail(err)
	}
	defer func() { _ = os.Remove(file.Name()) }() // nothing is left to remove once it has been renamed
	if err := write(file); err != nil {
		file.Close()
		return fail(err)
	}
	if err := file.Close(); err != nil {
		return fail(err)
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return fail(err)
	}
	return nil
}
