package mover

import (
	"fmt"
	"time"
)

// Stops are the limits past which the cluster is left alone.
type Stops struct {
	AllowYellow   bool          // move although copies are unassigned, as long as they are no more than when the plan was made
	Settle        time.Duration // after a node joined, restarted or left
	PendingTasks  int           // of the master; 0 is no limit
	TaskWait      time.Duration // of the oldest; 0 is no limit
	CPU           float64       // ratio, of either node of a move; 0 is no limit
	Rejections    float64       // per second, of either node of a move; 0 is no limit
	Storm         int           // relocations of others at a time; 0 is no limit
	DiskMargin    int64         // bytes kept free at a target beyond the low watermark
	Calm          time.Duration // after a storm, in which half the limits hold
	UndoneAllowed int           // moves undone by others within an hour that are put up with
}

// Stop is why nothing more is asked for.
type Stop struct {
	Kind   StopKind
	Text   string // what is so
	Cure   string // what ends it
	Freeze bool   // the cluster has to settle: half the limits hold for a while after it
}

// StopKind sorts stops and holds.
type StopKind string

// Stops of the cluster as a whole.
const (
	StatusStop         StopKind = "status"              // red, or yellow where that is not allowed
	NoMaster           StopKind = "no_master"           //
	MasterBusy         StopKind = "master_busy"         // pending tasks
	UnassignedStop     StopKind = "unassigned"          // copies that stand nowhere
	Recovering         StopKind = "recovering"          // copies that are being built, ours aside
	NodeMissing        StopKind = "node_missing"        //
	NodeJoined         StopKind = "node_joined"         // or restarted
	ShutdownMarked     StopKind = "shutdown"            // a node is marked for shutdown
	AllocationDisabled StopKind = "allocation_disabled" // cluster.routing.allocation.enable
	RebalanceZero      StopKind = "rebalance_zero"      // cluster.routing.allocation.cluster_concurrent_rebalance is 0
	Storm              StopKind = "storm"               // many relocations that are not ours
	WatermarkMoves     StopKind = "watermark"           // the server evacuates a full disk
	PingPong           StopKind = "ping_pong"           // somebody undoes our moves
	ZonesAtWork        StopKind = "zones"               // the zone controller changes roles, or a zone is not in its role
)

// Stops of the moves that are left, when they are all that is left.
const (
	GateFull StopKind = "gate_full" // limits, used up by others
	NodeBusy StopKind = "node_busy" // CPU or rejections of the nodes concerned
	NoRoom   StopKind = "no_room"   // the targets' disks have no room yet
	Snapshot StopKind = "snapshot"  // the primaries concerned are being written to a snapshot
)

// Holds of the ownership.
const (
	OtherHolder      StopKind = "other_holder"      // another instance owns rebalancing
	RebalanceChanged StopKind = "rebalance_changed" // a person has set cluster.routing.rebalance.enable
	TransientSetting StopKind = "transient_setting" // a transient setting wins over ours
	GivenBack        StopKind = "given_back"        // somebody has given rebalancing back in our stead
	BrokenRecord     StopKind = "broken_record"     // an ownership record that cannot be read
	Settling         StopKind = "settling"          // relocations from before have to land first
	NotHeld          StopKind = "not_held"          // our record expired or was never written
)

// stop looks for what forbids any move, the gravest first; nil where nothing does.
func (c *carrying) stop(l *look) *Stop {
	stops, health := &c.m.config.Stops, &l.health
	if c.m.hold != nil {
		if why := c.m.hold(); why != "" {
			return &Stop{Kind: ZonesAtWork, Text: why, Cure: "It goes on once every zone is in its role; shardonnay zones status says what is missing"}
		}
	}
	if health.Status == "red" || !health.HasMaster {
		if !health.HasMaster {
			return &Stop{Kind: NoMaster, Text: "the cluster has no elected master", Cure: "Bring the master-eligible nodes back"}
		}
		return &Stop{Kind: StatusStop, Text: "the cluster is red: primaries are missing", Cure: "Bring the lost nodes back, or restore what is lost"}
	}
	if s := c.nodesChanged(l); s != nil {
		return s
	}
	if s := c.notWell(l); s != nil {
		return s
	}
	if marked := max(health.ShutdownMarked, c.s.Health.ShutdownMarked); marked > 0 {
		return &Stop{
			Kind: ShutdownMarked, Text: fmt.Sprintf("%d nodes are marked for shutdown", marked),
			Cure: "It goes on once the shutdown is done or its mark taken back",
		}
	}
	if enable := l.settings.AllocationEnable; enable != "all" {
		return &Stop{
			Kind: AllocationDisabled, Text: "cluster.routing.allocation.enable is " + enable + ": somebody wants copies to stay",
			Cure: "Set it to all, or remove it, once the maintenance is over",
		}
	}
	if l.settings.ConcurrentRebalance == 0 {
		return &Stop{
			Kind: RebalanceZero, Text: "cluster.routing.allocation.cluster_concurrent_rebalance is 0: somebody wants no rebalancing",
			Cure: "Remove the setting",
		}
	}
	if stops.PendingTasks > 0 && health.PendingTasks > stops.PendingTasks || stops.TaskWait > 0 && health.MaxTaskWait > stops.TaskWait {
		return &Stop{
			Kind: MasterBusy, Text: fmt.Sprintf("the master has %d pending tasks, the oldest for %s", health.PendingTasks, health.MaxTaskWait),
			Cure: "It goes on once the master has caught up",
		}
	}
	return c.others(l)
}

// notWell is about copies that are missing or being built.
func (c *carrying) notWell(l *look) *Stop {
	health := &l.health
	if health.Status == "green" {
		return nil
	}
	switch {
	case health.Delayed > 0:
		return &Stop{
			Kind: UnassignedStop, Text: fmt.Sprintf("%d copies wait for their node to come back", health.Delayed),
			Cure: "It goes on once the node is back or the server has built the copies elsewhere",
		}
	case !c.m.config.Stops.AllowYellow && health.Unassigned > 0:
		return &Stop{
			Kind: UnassignedStop, Text: fmt.Sprintf("%d copies are unassigned", health.Unassigned),
			Cure: "Ask GET /_cluster/allocation/explain why; where they are meant to be, allow status yellow",
		}
	case health.Unassigned > c.s.Health.Unassigned:
		return &Stop{
			Kind: UnassignedStop, Text: fmt.Sprintf("%d copies are unassigned, %d when the plan was made", health.Unassigned, c.s.Health.Unassigned),
			Cure: "Ask GET /_cluster/allocation/explain why",
		}
	case health.Initializing > 0:
		return &Stop{
			Kind: Recovering, Text: fmt.Sprintf("%d copies are being built", health.Initializing),
			Cure: "It goes on once they are started",
		}
	case !c.m.config.Stops.AllowYellow:
		return &Stop{Kind: StatusStop, Text: "the cluster is " + health.Status, Cure: "It goes on once it is green; or allow status yellow"}
	}
	return nil
}

// others is about relocations that are not ours.
func (c *carrying) others(l *look) *Stop {
	foreign := 0
	for i := range l.routing.Copies {
		k := &l.routing.Copies[i]
		if k.Target == "" || c.ours(k.AllocationID) {
			continue
		}
		foreign++
		if disk, known := l.disks[k.Node]; known && l.settings.DiskThreshold && disk.Total > 0 && disk.Available < l.settings.High.Required(disk.Total) {
			return &Stop{
				Kind: WatermarkMoves, Freeze: true, Text: fmt.Sprintf("%s is above the high watermark and the server moves copies off it", c.nodeName(l, k.Node)),
				Cure: "Make room on the disk; it goes on once the server is done",
			}
		}
	}
	if most := c.m.config.Stops.Storm; most > 0 && foreign > most {
		return &Stop{
			Kind: Storm, Freeze: true, Text: fmt.Sprintf("%d relocations are under way that are not ours, more than %d", foreign, most),
			Cure: "It goes on, with half its limits at first, once they have landed",
		}
	}
	if undone := c.m.ledger.undoneSince(c.m.clock.Now().Add(-undoneMemory)); undone > c.m.config.Stops.UndoneAllowed {
		return &Stop{
			Kind: PingPong, Text: fmt.Sprintf("%d of our moves were undone within the hour, by %s", undone, c.suspect(l)),
			Cure: "Find out who moves copies besides us and let only one of both",
		}
	}
	return nil
}

// undoneMemory is how long a move that was undone counts against going on.
const undoneMemory = time.Hour

// suspect is who may have moved copies back.
func (c *carrying) suspect(l *look) string {
	if enable := l.settings.RebalanceEnable; enable != "none" {
		return fmt.Sprintf("the server's own balancer (cluster.routing.rebalance.enable is %s)", enable)
	}
	for i := range c.s.Indices {
		if index := &c.s.Indices[i]; index.RebalanceEnable != "" && index.RebalanceEnable != "none" {
			return fmt.Sprintf("the server's own balancer (index.routing.rebalance.enable is %s on %s)", index.RebalanceEnable, index.Name)
		}
	}
	return "a person, another tool or an allocation filter"
}

// nodesChanged is about nodes that left, joined or restarted not long ago.
func (c *carrying) nodesChanged(l *look) *Stop {
	settle := c.m.config.Stops.Settle
	now := c.m.clock.Now()
	for _, node := range c.m.roster.left {
		if since := now.Sub(node.at); since < settle || !c.m.roster.settled(l) {
			return &Stop{
				Kind: NodeMissing, Freeze: true, Text: fmt.Sprintf("node %s left %s ago", node.name, since.Round(time.Second)),
				Cure: "It goes on once the cluster has settled without it, or with it",
			}
		}
	}
	for _, node := range c.m.roster.joined {
		if since := now.Sub(node.at); since < settle {
			return &Stop{
				Kind: NodeJoined, Text: fmt.Sprintf("node %s joined or restarted %s ago", node.name, since.Round(time.Second)),
				Cure: fmt.Sprintf("It goes on %s after that", settle),
			}
		}
	}
	return nil
}
