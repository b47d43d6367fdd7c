package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/collector"
	"github.com/shardonnay/shardonnay/internal/config"
	"github.com/shardonnay/shardonnay/internal/es"
)

// addConfig gives a command the flags that all commands with a configuration share.
func addConfig(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.String("config", "", "configuration `file`")
	flags.StringSlice("address", nil, "cluster `URL`s, the first that answers is used")
	flags.String("username", "", "`name` for basic authentication; the password comes from the configuration or SHARDONNAY_CONNECTION_PASSWORD")
	flags.String("log-level", "", "debug, info, warn or error")
	config.BindFlag(flags, "address", "connection.addresses")
	config.BindFlag(flags, "username", "connection.username")
	config.BindFlag(flags, "log-level", "log.level")
}

// loadConfig reads the configuration a command was given.
func loadConfig(cmd *cobra.Command) (config.Config, error) {
	path, err := cmd.Flags().GetString("config")
	if err != nil {
		return config.Config{}, &cluster.Error{Class: cluster.Internal, Op: "read the flag --config", Err: err}
	}
	return config.Load(path, cmd.Flags())
}

// newLog writes to standard error at a level that can be changed while running.
func newLog(c config.Log) (*zap.Logger, zap.AtomicLevel) {
	level := zap.NewAtomicLevel()
	setLevel(level, c)
	settings := zap.NewProductionConfig()
	settings.Level, settings.Encoding, settings.DisableCaller, settings.DisableStacktrace = level, c.Format, true, true
	settings.EncoderConfig.EncodeTime = zapcore.RFC3339TimeEncoder
	settings.EncoderConfig.EncodeDuration = zapcore.StringDurationEncoder
	settings.Sampling = nil // a cycle is one line: none may be dropped
	log, err := settings.Build()
	if err != nil {
		panic("the log settings are ours and known to be good: " + err.Error())
	}
	return log, level
}

func setLevel(level zap.AtomicLevel, c config.Log) {
	if parsed, err := zapcore.ParseLevel(c.Level); err == nil { // config has checked it
		level.SetLevel(parsed)
	}
}

// session is a connection to a cluster that has said what it is.
type session struct {
	client   *es.Client
	identity cluster.Identity
}

// connect opens a session. The caller closes the client.
func connect(ctx context.Context, c *config.Config) (*session, error) {
	client, err := es.New(c.Connection.Client())
	if err != nil {
		return nil, err
	}
	identity, err := client.Connect(ctx)
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return &session{client, identity}, nil
}

// close gives the connections back. Nothing is under way then, so that an error would mean nothing to anybody.
func (s *session) close() { _ = s.client.Close() }

// collector makes the collector for a session.
func (s *session) collector(c *config.Config) (*collector.Collector, error) {
	return collector.New(s.client, collectorOptions(c))
}

// connectToCollect opens a session for a command that reads snapshots. The caller closes it.
func connectToCollect(ctx context.Context, c *config.Config) (*session, *collector.Collector, error) {
	s, err := connect(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	collect, err := s.collector(c)
	if err != nil {
		s.close()
		return nil, nil, err
	}
	return s, collect, nil
}
