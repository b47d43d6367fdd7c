package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// healthTimeout is how long a daemon that is well may take to say so.
const healthTimeout = 5 * time.Second

func newHealth() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Ask the daemon on this machine whether it is alive",
		Long: "Asks /healthz of the daemon that listens where http.listen says, on this machine, and prints what is wrong with it. For health checks\n" +
			"of containers, where there is no shell and no other program.",
		Example: "  shardonnay health\n  shardonnay health --config shardonnay.yaml",
	}
	addConfig(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := loadConfig(cmd)
		if err != nil {
			return err
		}
		return askHealth(cmd.Context(), cmd.OutOrStdout(), c.HTTP.Listen)
	}
	return cmd
}

func askHealth(ctx context.Context, out io.Writer, listen string) error {
	host, port, err := net.SplitHostPort(listen)
	if err != nil || port == "0" {
		return &cluster.Error{
			Class: cluster.Invalid, Op: "ask for health", Err: fmt.Errorf("http.listen is %q, which names no port", listen),
			Hint: "Give http.listen a fixed port",
		}
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() { // every interface, the loopback among them
		host = "localhost"
	}
	url := "http://" + net.JoinHostPort(host, port) + "/healthz"
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	unwell := func(err error) error {
		return &cluster.Error{Class: cluster.Rejected, Op: "ask for health", What: url, Err: err, Hint: "Look at the daemon's log"}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return unwell(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return unwell(errors.Unwrap(err)) // without the address, which is named already
	}
	defer answer.Body.Close()
	const most = 4 << 10 // the answer is a line
	body, err := io.ReadAll(io.LimitReader(answer.Body, most))
	if err != nil {
		return unwell(err)
	}
	if answer.StatusCode != http.StatusOK {
		return unwell(fmt.Errorf("%s: %s", answer.Status, body))
	}
	_, err = out.Write(body)
	return err
}
