package mover

import (
	"context"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/es"
)

// API is what the mover asks of a cluster; *es.Client is one.
type API interface {
	Reader
	Commander
	SettingsStore
	Wishes
}

// Reader reads what is looked at before each request and while moves are watched.
type Reader interface {
	Health(ctx context.Context) (cluster.Health, error)
	Routing(ctx context.Context) (*es.Routing, error)
	Recoveries(ctx context.Context) ([]es.Recovery, error)
	FileSystems(ctx context.Context) (map[cluster.NodeID]cluster.DiskUse, error)
	RunningSnapshots(ctx context.Context) (map[es.SnapshotShard]struct{}, error)
}

// Commander sends the only two commands there are, each exactly once.
type Commander interface {
	Reroute(ctx context.Context, product cluster.Product, moves []es.Move) ([]es.Outcome, error)
	Cancel(ctx context.Context, product cluster.Product, index string, shard int, target cluster.NodeID) error
}

// SettingsStore reads and writes the cluster's settings.
type SettingsStore interface {
	Settings(ctx context.Context) (es.RawSettings, error)
	PutSettings(ctx context.Context, persistent map[string]any) error
}

// Wishes is the desired balance of Elasticsearch 8.6 and newer.
type Wishes interface {
	DesiredBalance(ctx context.Context) (*es.DesiredBalance, error)
	DeleteDesiredBalance(ctx context.Context) error
}
