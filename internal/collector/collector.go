package collector

import (
	"context"
	"slices"
	"sync"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/es"
)

// Collector takes snapshots of one cluster and remembers enough of the last ones to tell rates. It may be used from
// several goroutines; collections do not overlap.
type Collector struct {
	client *es.Client
	o      Options
	mu     sync.Mutex
	rates  *rates
}

// New makes a collector; it reads what an earlier one left in Options.StateDir. Options that cannot be met are an error
// of class Invalid; a state that cannot be read is not: it costs a warning in the next snapshot, and the time it takes
// to measure anew.
func New(client *es.Client, options Options) (*Collector, error) {
	o, err := options.complete()
	if err != nil {
		return nil, err
	}
	c := &Collector{client: client, o: o}
	c.rates = loadRates(&c.o)
	return c, nil
}

// Collect takes a snapshot. The first ever has averages since the counters began (Samples is 1); every later one, also
// after a restart with Options.StateDir, has rates. It waits for nothing: the time between two calls is the window.
//
// A collection that contradicts itself is an error of class Incomplete with a Reason; nothing is learned from it.
func (c *Collector) Collect(ctx context.Context) (*cluster.Snapshot, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	takenAt := c.o.Now().UTC()
	a, err := gather(ctx, live{c.client, &c.o}, &c.o)
	if err != nil {
		return nil, err
	}
	a.takenAt = takenAt
	taken, err := assemble(a, &c.o)
	if err != nil {
		return nil, err
	}
	c.rates.learn(taken)
	snapshot := c.rates.estimate(taken)
	if err := c.rates.save(); err != nil {
		snapshot.Warnings = append(snapshot.Warnings, "The smoothed rates could not be saved: "+err.Error()+".")
		slices.Sort(snapshot.Warnings)
	}
	c.rates.warning = ""
	return snapshot, nil
}
