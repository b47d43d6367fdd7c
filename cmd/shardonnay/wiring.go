package main

import (
	"time"

	"github.com/shardonnay/shardonnay/internal/collector"
	"github.com/shardonnay/shardonnay/internal/config"
	"github.com/shardonnay/shardonnay/internal/election"
	"github.com/shardonnay/shardonnay/internal/mover"
	"github.com/shardonnay/shardonnay/internal/zones"
)

// collectorOptions is what the collector takes of the configuration.
func collectorOptions(c *config.Config) collector.Options {
	o := collector.Options{
		Dimensions: c.Balance.Measured(), HalfLife: c.Sampling.HalfLife, Settle: c.Sampling.Settle, Batch: c.Sampling.StatsBatch,
		MaxStateMoves: int64(c.Sampling.MaxStateMoves), StateDir: c.State.Dir,
	}
	for _, rule := range c.Balance.Capacity {
		o.Capacity = append(o.Capacity, collector.CapacityRule(rule))
	}
	return o
}

// lease is how long the ownership record holds, and the election that we have won; empty where we stand alone.
func lease(c *config.Ownership, election string) mover.Lease {
	return mover.Lease{Holder: c.Holder, Length: c.Lease, Renew: c.Renew, Settle: claimSettle, Election: election}
}

// candidacy is which election to stand for, and as whom.
func candidacy(c *config.Config) election.Config {
	return election.Config{
		Lease: c.Election.Lease, Namespace: c.Election.Namespace, Kubeconfig: c.Election.Kubeconfig, Identity: c.Ownership.Holder,
	}
}

const (
	// claimSettle is how long a claim to ownership waits before it is read back: longer than a settings update takes on a
	// master with a full queue of ordinary work. With two claims a lease apart it only delays the first start; after an
	// election it is also the time in which whoever was elected before finds out (docs/decisions/0018).
	claimSettle = 2 * time.Second
	// pollMoves is the time between two looks at moves under way. A relocation of an empty shard takes half a second.
	pollMoves = time.Second
	// unknownWait is how long a reroute whose answer was lost may still take effect: the request's own timeout of 30 s on
	// the master.
	unknownWait = 30 * time.Second
	// stuckAfter is how long a relocation may go without a byte before a cycle no longer waits for it. A throttled
	// recovery waits in line for the one before it: half an hour is 70 GB at the default 40 MB/s.
	stuckAfter = 30 * time.Minute
	// patience is how long a cycle at most waits for a stop condition to pass with nothing in flight; never so long that
	// its deadline comes first and the reason is not told. The next cycle looks again.
	patience = 20 * time.Second
)

// moverConfig is what the mover takes of the configuration.
func moverConfig(c *config.Config) mover.Config {
	pause := make([]mover.Window, len(c.Stop.Pause))
	for i, window := range c.Stop.Pause {
		pause[i] = window
	}
	return mover.Config{
		Limits: mover.Limits{
			PerNodeIn: c.Limits.NodeIncoming, PerNodeOut: c.Limits.NodeOutgoing, Cluster: c.Limits.InFlight,
			BytesInFlight: int64(c.Limits.InFlightBytes), PerIndex: c.Limits.PerIndex, PerZonePair: c.Limits.PerZonePair, Pause: pause,
			BetweenRegions: c.Regions.WANInFlight, Region: c.Regions.Attribute,
		},
		Stops: mover.Stops{
			AllowYellow: c.Stop.Status == "yellow", Settle: c.Stop.NodeSettle, PendingTasks: c.Stop.PendingTasks, TaskWait: c.Stop.TaskWait,
			CPU: c.Stop.CPU, Rejections: c.Stop.Rejections, Storm: c.Stop.Storm, DiskMargin: int64(c.Stop.DiskMargin), Calm: c.Stop.Calm,
			UndoneAllowed: c.Stop.UndoneMoves,
		},
		Poll: pollMoves, Patience: min(patience, c.Cycle.Deadline/3), UnknownWait: unknownWait, StuckAfter: stuckAfter,
	}
}

// zonesConfig is what the zone controller takes of the configuration.
func zonesConfig(c *config.Zones) zones.Config {
	return zones.Config{
		Mode: zones.Mode(c.Mode), Attribute: c.Attribute, Round: c.Round, Rotation: c.Rotation, Clear: c.ClearAfter, Hold: c.HoldFor,
		Writes: zones.WriteMode(c.WriteFailover), Drain: c.Drain, ServerTime: c.DrainBy == "server", EarlyDrain: c.EarlyDrain, Stable: c.StableFor,
		Exempt: c.ExemptIndices, Canary: c.CanaryIndex,
	}
}
