package collector

import (
	"context"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/es"
)

// Collector takes snapshots of one cluster and remembers enough of the last ones to tell rates.
type Collector struct{}

// New makes a collector; it reads what an earlier one left in Options.StateDir.
func New(client *es.Client, options Options) (*Collector, error) { panic("being built") }

// Collect takes a snapshot. The first ever has averages since the counters began; every later one has rates.
func (c *Collector) Collect(ctx context.Context) (*cluster.Snapshot, error) { panic("being built") }

// Capture saves the raw answers of a collection, with a second sample of the statistics after interval if samples is 2.
func (c *Collector) Capture(ctx context.Context, dir string, samples int, interval time.Duration) error {
	panic("being built")
}

// FromCapture makes a snapshot of a capture folder or a diagnostics bundle.
func FromCapture(dir string, options Options) (*cluster.Snapshot, error) { panic("being built") }
