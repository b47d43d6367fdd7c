package plan

import (
	"fmt"

	"github.com/shardonnay/shardonnay/internal/model"
)

// remedies says what a person can do about a decider, in the order in which they help.
var remedies = []struct {
	decider model.Deciders
	because string
	cure    string
}{
	{model.DiskThreshold, "the disks have no room below the watermarks", "Add disk or nodes, delete data, or raise the watermarks"},
	{model.Awareness, "zones may hold no more copies of it", "Add nodes in the zone that is short of them"},
	{model.ShardsLimit, "total_shards_per_node is reached", "Raise total_shards_per_node"},
	{model.LoadAwareness, "the load awareness limit is reached", "Raise provisioned_capacity or the skew"},
	{model.Filter, "allocation filters leave out the other nodes", "Widen index.routing.allocation or cluster.routing.allocation filters"},
	{model.DataTier, "its tier has no other node for it", "Add nodes to the tier"},
	{model.SameShard, "every other node holds a copy of the same shard", "Add a node, or lower number_of_replicas"},
	{model.NodeVersion, "nodes run different versions", "Finish the upgrade"},
	{model.NodeShutdown, "nodes are on their way out", "Let the shutdown finish, or take its mark back"},
	{model.MaxRetry, "its moves failed too often", "Find out why in the server's log, then POST /_cluster/reroute?retry_failed=true"},
	{model.SnapshotInProgress, "a snapshot of it is running", "It goes on by itself once the snapshot is done"},
	{model.RebalanceOnlyWhenActive, "not all copies of the shard are active", "Cure the unassigned copies first"},
	{model.NotStarted, "a relocation of the shard is under way", "It goes on by itself once that has landed"},
	{model.IndexBusy, "an operation or its own settings hold it", "It goes on by itself once the operation is done"},
	{model.Pinned, "the configuration pins it", "See the pin rules of the configuration"},
	{model.CoolDown, "it moved not long ago", "It goes on by itself once the cool-down is over"},
	{model.Overload, "the other nodes carry as much as regions.overload allows", "Add nodes, or raise regions.overload"},
	{model.ZoneLoss, "the other nodes would carry more than zones.max_load_after_loss allows if a zone were lost", "Add nodes, or raise zones.max_load_after_loss"},
	{model.CrossRegion, "it would cross between regions, and not every pass lets copies cross", "It goes on by itself in a pass that does; see regions.wan_every"},
	{model.TargetPool, "nodes of that kind take no such copy", ""},
}

// because puts a set of deciders into words, the most helpful first.
func because(why model.Deciders) string {
	for _, remedy := range remedies {
		if why&remedy.decider != 0 {
			return fmt.Sprintf("%s (%s)", remedy.because, why)
		}
	}
	return "a node could take it, the solver left it where it is"
}

// cure is the advice for a set of deciders.
func cure(why model.Deciders) string {
	for _, remedy := range remedies {
		if why&remedy.decider != 0 {
			return remedy.cure
		}
	}
	return ""
}

func pinnedBecause(pins model.Deciders) string {
	if pins == 0 {
		return "it is not caused by copies"
	}
	return pins.String()
}

// hotShardAdvice is what helps when one copy alone is too much.
func hotShardAdvice(dimension string) string {
	switch dimension {
	case "search":
		return "Give the index more replicas, so that each copy serves less, or more primary shards; or give this copy a node of its own"
	case "index":
		return "Give the index more primary shards, so that writes spread over more nodes; or give this copy a node of its own"
	case "disk":
		return "Give the index more primary shards, or roll it over earlier"
	}
	return "Give the index more primary shards; or give this copy a node of its own"
}

// count writes a number with its noun.
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// bytesText writes a number of bytes for people, in units of 1024.
func bytesText(bytes float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	at := 0
	for bytes >= 1024 && at < len(units)-1 {
		bytes /= 1024
		at++
	}
	if at == 0 || bytes >= 100 {
		return fmt.Sprintf("%.0f %s", bytes, units[at])
	}
	return fmt.Sprintf("%.1f %s", bytes, units[at])
}
