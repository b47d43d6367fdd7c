package metrics

import (
	"slices"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/model"
	"github.com/shardonnay/shardonnay/internal/plan"
)

// The fixed words of the labels. They are those of the packages that make them; words_test.go holds them together.
var (
	outcomes = []string{
		"moved", "balanced", "snapshot_incomplete", "cluster_not_ready", "moves_in_flight", "held", "not_owner", "infeasible", "failed",
	}
	stages  = []string{"collect", "model", "solve", "plan", "move"}
	modes   = []string{string(plan.Observe), string(plan.DryRun), string(plan.Act)}
	owners  = []string{"us", "other", "person", "server"}
	classes = []string{
		string(cluster.Unavailable), string(cluster.Refused), string(cluster.Incomplete), string(cluster.Infeasible),
		string(cluster.Stale), string(cluster.Rejected), string(cluster.Invalid), string(cluster.Interrupted), string(cluster.Internal),
	}

	provenances = []string{
		cluster.Measured.String(), cluster.FromGroup.String(), cluster.FromIndex.String(), cluster.FromSeries.String(),
		cluster.SinceStart.String(), cluster.Unknown.String(),
	}
	kinds      = []string{"read", "write", "retry", "failure"}
	directions = []string{"received", "sent"}

	movabilities = []string{"movable", "pinned"}
	statuses     = []string{"optimal", "feasible", "limit", "infeasible"}

	whens    = []string{"before", "after"}
	reaches  = []string{"after", "target"}
	verdicts = []string{
		string(plan.SingleShardHotspot), string(plan.NoLegalTarget), string(plan.NotWorth), string(plan.Budget), string(plan.Pinned),
		string(plan.Noise), string(plan.Balanced), string(plan.MustMoveBlocked), string(plan.Cycle), string(plan.InFlight),
		string(plan.Oscillation), string(plan.ForeignBalancer), string(plan.UnassignedCopies), string(plan.MixedVersions),
		string(plan.SingleSample), string(plan.SolverLimit), string(plan.Zones), string(plan.ZoneLoss),
	}

	tiers = model.TierNames[:]

	results = []string{"landed", "refused", "stale", "cancelled", "expired", "lost", "skipped"}
	reasons = []string{
		"status", "no_master", "master_busy", "unassigned", "recovering", "node_missing", "node_joined", "shutdown", "allocation_disabled",
		"rebalance_zero", "storm", "watermark", "ping_pong", "zones", "gate_full", "node_busy", "no_room", "snapshot", "other_holder",
		"rebalance_changed", "transient_setting", "given_back", "broken_record", "settling", "not_held",
	}
	// deciders are those of the servers that answer to a command, under their own names. A server of tomorrow may have
	// others: they count as other. A request that was turned down as a whole names none.
	deciders = slices.Concat(serverDeciders, []string{
		"cluster_concurrent_recoveries", "enable", "index_balance", "index_version", "move_allocation_command", "node_replacement",
		"remote_store_migration", "replica_after_primary_active", "restore_in_progress", "search_replica_allocation", "throttling",
		"write_load", wholeRequest, otherDecider,
	})
)

// The words of the zone controller.
var (
	zoneModes       = []string{"off", "observe", "dry-run", "act"}
	zonePhases      = []string{"starting", "steady", "verifying", "no_standby", "holding"}
	zoneWritePhases = []string{"idle", "draining", "fencing", "out", "rejoining", "recovering"}
	zonePaths       = []string{"read", "write"}
	zoneSignals     = []string{
		"probe", "missing", "silent", "copies", "search_test", "latency", "rejections", "fail_open", "write_test", "manager",
	}
	zoneGuards = []string{
		"awareness", "no_decommission", "weights_ours", "served", "not_less_served", "healthy", "static_stability", "quiet", "settled",
		"standby_well", "zeros", "in_sync", "voters", "no_exclusions", "capacity", "no_snapshot", "one_zone", "fence_free", "accepted", "approval",
	}
	zoneResults       = []string{"done", "failed", "refused"}
	zoneDecommissions = []string{"init", "draining", "in_progress", "successful", "failed"}
	zoneCopyStates    = []string{"started", "relocating", "initializing"}
	zoneChecks        = []string{"copies", "nodes", "processors", "disks", "capacity"}
	// zoneHolds are the events that begin a hold.
	zoneHolds = []string{
		"hold", "foreign_weights", "foreign_decommission", "weights_ignored", "verify_failed", "not_applied", "fence_failed", "fence_stuck",
	}
)

const (
	wholeRequest = "request"
	otherDecider = "other"
)

// serverDeciders are those that the model knows too, before those that are its own.
var serverDeciders = (model.RebalanceOnlyWhenActive - 1).Names()

// The buckets of histograms: each from what is too small to matter to what is too large to be right.
var (
	// stageSeconds reach from the model of a small cluster to a plan's moves.
	stageSeconds = []float64{0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 60, 120, 300, 900, 1800}
	// moveSeconds reach from an empty shard to half a terabyte at the servers' default of 40 MB/s.
	moveSeconds = []float64{1, 3, 10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400}
	// failoverSeconds reach from an order that is followed at once to the minute in which a failover has to be through, and beyond.
	failoverSeconds = []float64{0.5, 1, 2, 5, 10, 15, 20, 30, 45, 60, 120, 300}
	// moveBytes reach from 1 MiB to 512 GiB; the usual advice for a shard is 10 to 50 GB.
	moveBytes = []float64{1 << 20, 16 << 20, 128 << 20, 1 << 30, 4 << 30, 8 << 30, 16 << 30, 32 << 30, 64 << 30, 128 << 30, 512 << 30}
)
