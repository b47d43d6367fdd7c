package mover

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/es"
)

// ask sends the next moves, where nothing stands against it. stop is what did.
func (c *carrying) ask(ctx context.Context, l *look) (asked bool, stop *Stop, err error) {
	c.dropDependents()
	if !c.expires.IsZero() && c.m.clock.Now().After(c.expires) {
		c.giveUp("the plan has expired", Expired)
	}
	if len(c.pending) == 0 || !l.full {
		return false, nil, nil
	}
	if stop := c.stop(l); stop != nil {
		for _, f := range c.pending {
			f.waits = ""
		}
		if stop.Freeze {
			c.m.calmUntil = c.m.clock.Now().Add(c.m.config.Stops.Calm)
		}
		return false, stop, nil
	}
	batch, stop := c.pick(l)
	if len(batch) == 0 {
		return false, stop, nil
	}
	return c.request(ctx, batch)
}

// dropDependents ends the moves that wait for one that did not land.
func (c *carrying) dropDependents() {
	for again := true; again; {
		again = false
		for i, f := range c.pending {
			at := slices.IndexFunc(f.move.After, func(seq int) bool { _, failed := c.failed[seq]; return failed })
			if at < 0 {
				continue
			}
			seq := f.move.After[at]
			f.set(Stale)
			c.ended(f, fmt.Sprintf("it waits for move %d, which is %s", seq, c.failed[seq]))
			c.pending = slices.Delete(c.pending, i, i+1)
			again = true
			break
		}
	}
}

// pick checks the moves whose turn it is and takes those that hold and that the gate lets pass. Moves that no longer hold
// end here. stop is why some that are left have to wait.
func (c *carrying) pick(l *look) (batch []*flight, stop *Stop) {
	half := c.m.clock.Now().Before(c.m.calmUntil)
	g := newGate(c.m.config.Limits, &l.settings, c.zone, c.region, half)
	c.countUnderWay(g, l)
	most := c.m.config.Limits.PerRequest
	if most <= 0 {
		most = defaultPerRequest
	}
	arriving := l.arriving(c.sizeOf)
	var waiting, left []*flight
	for _, f := range c.pending {
		f.waits = ""
		if len(batch) == most || !c.isTurnOf(f, waiting) {
			waiting, left = append(waiting, f), append(left, f)
			continue
		}
		if alreadySo(f, l) {
			f.set(Landed)
			c.ended(f, "it was there already")
			continue
		}
		if reason := c.staleReason(f, l); reason != "" {
			f.set(Stale)
			c.ended(f, reason)
			continue
		}
		k := l.find(f.key(), f.move.AllocationID)
		t := transfer{index: f.move.Index, from: l.sender(k), to: f.move.To.ID, bytes: f.move.Bytes}
		block := c.mustWait(f, t, l, arriving[f.move.To.ID], g.out[t.from])
		if block == nil {
			if reason := g.admits(t, c.m.clock.Now()); reason != "" {
				block = &Stop{Kind: GateFull, Text: reason, Cure: "It goes on once what is under way has landed"}
			}
		}
		if block != nil {
			stop, f.waits = block, block.Text
			waiting, left = append(waiting, f), append(left, f)
			continue
		}
		g.add(t)
		arriving[f.move.To.ID] += f.move.Bytes
		f.set(Checked)
		batch = append(batch, f)
	}
	c.pending = left
	return batch, stop
}

// defaultPerRequest keeps requests small: each is one update of the cluster state, and a refusal of the whole costs little.
const defaultPerRequest = 10

// isTurnOf tells whether a move may be asked for although earlier ones wait: those it waits for have landed, none of its
// shard is ahead of it, and it does not need the place that an earlier one leaves on its target where copies are counted.
func (c *carrying) isTurnOf(f *flight, waiting []*flight) bool {
	for _, seq := range f.move.After {
		if !slices.Contains(c.landed, seq) {
			return false
		}
	}
	counted := c.copiesCounted(f.move.Index)
	ahead := func(other *flight) bool {
		return other.key() == f.key() || counted && other.move.From.ID == f.move.To.ID
	}
	return !slices.ContainsFunc(waiting, ahead) &&
		!slices.ContainsFunc(c.flights, func(other *flight) bool { return other.key() == f.key() })
}

// copiesCounted tells whether some limit on copies per node holds for an index.
func (c *carrying) copiesCounted(index string) bool {
	settings := &c.s.Settings
	at := c.s.IndexAt(index)
	return settings.TotalShardsPerNode > 0 || settings.LoadAwareness.ProvisionedCapacity > 0 ||
		at != cluster.None && c.s.Indices[at].TotalShardsPerNode > 0
}

// alreadySo tells whether the copy stands on its target by now, as when a plan is applied again after an interruption.
func alreadySo(f *flight, l *look) bool {
	there := l.on(f.key(), f.move.To.ID)
	return l.find(f.key(), f.move.AllocationID) == nil && l.on(f.key(), f.move.From.ID) == nil &&
		there != nil && there.State == cluster.Started && there.Primary == f.move.Primary
}

// staleReason is why a move no longer holds; empty where it does.
func (c *carrying) staleReason(f *flight, l *look) string {
	group := l.groups[f.key()]
	k := l.find(f.key(), f.move.AllocationID)
	switch {
	case len(group) == 0:
		return "the index is gone"
	case l.nodes[f.move.To.ID] == nil:
		return fmt.Sprintf("node %s has left", f.move.To.Name)
	case k == nil || k.Node != f.move.From.ID:
		return fmt.Sprintf("the copy is no longer on %s", f.move.From.Name)
	case k.State != cluster.Started:
		return fmt.Sprintf("the copy is %s", strings.ToLower(k.State.String()))
	case l.on(f.key(), f.move.To.ID) != nil:
		return fmt.Sprintf("node %s holds a copy of the same shard by now", f.move.To.Name)
	}
	for _, other := range group {
		switch {
		case other.State == cluster.Unassigned || other.State == cluster.Initializing:
			return "another copy of the shard is not active"
		case other.Target != "" && !c.ours(other.AllocationID):
			return "another copy of the shard is being moved by somebody else"
		}
	}
	if n := c.s.NodeAt(f.move.To.ID); n != cluster.None && c.s.Nodes[n].Leaving != "" {
		return fmt.Sprintf("node %s is on its way out (%s)", f.move.To.Name, c.s.Nodes[n].Leaving)
	}
	return ""
}

// mustWait is why a move that holds has to wait all the same: busy nodes, a snapshot, a disk without room yet. arriving is
// the bytes on their way to the target, sending the number of transfers under way from the node the data is read on.
func (c *carrying) mustWait(f *flight, t transfer, l *look, arriving int64, sending int) *Stop {
	if s := snapshotting(l, l.find(f.key(), f.move.AllocationID)); s != nil {
		return s
	}
	if s := c.busy(t.to); s != nil {
		return s
	}
	// A busy node must be able to get rid of what keeps it busy: its own copies leave it, one at a time. Reading for a copy
	// that leaves another node would only add to its work.
	if s := c.busy(t.from); s != nil && (t.from != f.move.From.ID || sending > 0) {
		return s
	}
	disk, known := l.disks[f.move.To.ID]
	switch {
	case !l.settings.DiskThreshold || known && disk.Total <= 0:
		return nil
	case !known:
		return &Stop{Kind: NoRoom, Text: fmt.Sprintf("the disk of %s could not be read", f.move.To.Name), Cure: "It goes on once the node answers again"}
	}
	free := disk.Available - arriving
	low, high := l.settings.Low.Required(disk.Total), l.settings.High.Required(disk.Total)
	if free < low || free-f.move.Bytes < max(high, low+c.m.config.Stops.DiskMargin) {
		return &Stop{
			Kind: NoRoom, Text: fmt.Sprintf("%s has %d bytes free and %s/%d needs %d above the watermarks", f.move.To.Name, max(0, free), f.move.Index, f.move.Shard, f.move.Bytes),
			Cure: "It goes on once there is room, or is planned anew",
		}
	}
	return nil
}

// snapshotting is about primaries that are being written to a snapshot: a move would run all the same and cost the
// snapshot that shard.
func snapshotting(l *look, k *es.RoutingCopy) *Stop {
	if !k.Primary {
		return nil
	}
	if l.hidden != nil {
		return &Stop{
			Kind: Snapshot, Text: "whether a snapshot is running cannot be read: " + l.hidden.Error(),
			Cure: "Give our user the privilege to see running snapshots; until then only replicas move",
		}
	}
	if _, running := l.snapshots[es.SnapshotShard{Index: k.Index, Shard: k.Shard}]; running {
		return &Stop{
			Kind: Snapshot, Text: fmt.Sprintf("the primary of %s/%d is being written to a snapshot, which moving it would break", k.Index, k.Shard),
			Cure: "It goes on once the snapshot is done",
		}
	}
	return nil
}

// busy tells whether a node had too much to do when the snapshot was taken.
func (c *carrying) busy(id cluster.NodeID) *Stop {
	at := c.s.NodeAt(id)
	if at == cluster.None {
		return nil
	}
	node, stops := &c.s.Nodes[at], &c.m.config.Stops
	switch {
	case stops.CPU > 0 && node.CPU > stops.CPU:
		return &Stop{Kind: NodeBusy, Text: fmt.Sprintf("%s is at %.0f%% CPU", node.Name, 100*node.CPU), Cure: "The next plan tries again"}
	case stops.Rejections > 0 && node.Rejections > stops.Rejections:
		return &Stop{Kind: NodeBusy, Text: fmt.Sprintf("%s rejects %.1f requests per second", node.Name, node.Rejections), Cure: "The next plan tries again"}
	}
	return nil
}

// countUnderWay counts everybody's relocations and recoveries, and those of ours that are asked for and not to be seen yet.
func (c *carrying) countUnderWay(g *gate, l *look) {
	for i := range l.routing.Copies {
		k := &l.routing.Copies[i]
		switch {
		case k.Target != "":
			g.add(transfer{k.Index, l.sender(k), k.Target, c.sizeOf(k)})
		case k.State == cluster.Initializing && (k.RecoverySource == "" || k.RecoverySource == "PEER"):
			g.add(transfer{k.Index, l.sender(k), k.Node, c.sizeOf(k)})
		}
	}
	for _, f := range c.flights {
		if f.state == Requested {
			g.add(transfer{f.move.Index, f.move.BytesSource.ID, f.move.To.ID, f.move.Bytes})
		}
	}
}

// maxRejections is how many whole requests with a move in them may be turned down before the move is taken to be the
// reason.
const maxRejections = 3

// request asks for a batch, once. What the answer does not settle, the next look at the routing table does. A stop says
// that the cluster had no time for it.
func (c *carrying) request(ctx context.Context, batch []*flight) (asked bool, stop *Stop, err error) {
	now := c.m.clock.Now()
	moves := make([]es.Move, len(batch))
	for i, f := range batch {
		f.set(Requested)
		f.requested, f.progressed = now, now
		moves[i] = es.Move{Index: f.move.Index, Shard: f.move.Shard, From: f.move.From.ID, To: f.move.To.ID}
	}
	if err := c.m.ledger.requested(batch, c.planID, now); err != nil {
		// A move that is not written down could not be adopted: better none than that.
		c.turnedDown(batch)
		c.giveUp("the ledger cannot be written", Skipped)
		return false, nil, err
	}
	if !c.fresh() {
		// We were held up, stopped perhaps: another may act by now.
		c.turnedDown(batch)
		return false, &Stop{
			Kind: MasterBusy, Text: "between looking at who owns rebalancing and asking for moves went more time than is safe",
			Cure: "It goes on once the cluster and this machine answer faster",
		}, nil
	}
	outcomes, err := c.m.api.Reroute(ctx, c.m.identity.Product, moves)
	switch {
	case err == nil:
		for i, f := range batch {
			if !outcomes[i].Refused {
				c.flies(f)
				continue
			}
			f.set(Refused)
			var reason string
			f.decider, reason = refusal(outcomes[i].Decisions)
			c.ended(f, reason)
		}
		c.saveLedger(now)
		return true, nil, nil
	case es.OutcomeUnknown(err) || ctx.Err() != nil:
		for _, f := range batch {
			f.unknown = true
		}
		c.flies(batch...)
		c.warn("a request's outcome is unknown, the routing table decides: " + err.Error())
		return true, nil, nil
	}
	switch cluster.ClassOf(err) {
	case cluster.Refused:
		c.turnedDown(batch)
		c.giveUp("the cluster does not let us move copies", Skipped)
		return false, nil, &cluster.Error{
			Class: cluster.Refused, Op: "move copies", Err: &notAllowed{err},
			Hint: "Give our user the privilege to reroute, or run in dry-run mode and make the planned moves another way",
		}
	case cluster.Unavailable:
		c.turnedDown(batch)
		return false, &Stop{Kind: MasterBusy, Text: err.Error(), Cure: "It goes on once the cluster takes requests again"}, nil
	}
	// Turned down as a whole: some move in it makes no sense to the server, such as one to a node that has just left.
	for _, f := range batch {
		f.rejections++
	}
	c.turnedDown(batch)
	c.warn(err.Error())
	return true, nil, nil
}

// notAllowed is a refusal to let us move copies at all.
type notAllowed struct{ err error }

func (e *notAllowed) Error() string   { return ErrNotAllowed.Error() + ": " + e.err.Error() }
func (e *notAllowed) Unwrap() []error { return []error{ErrNotAllowed, e.err} }

// turnedDown takes back a batch that certainly was not applied. A move that makes requests fail again and again is refused.
func (c *carrying) turnedDown(batch []*flight) {
	now := c.m.clock.Now()
	for _, f := range batch {
		if f.rejections >= maxRejections {
			f.set(Refused)
			c.ended(f, "the cluster turned the request down as a whole")
			continue
		}
		f.set(Planned)
		c.m.ledger.update(f, now)
		f.requested = time.Time{}
		c.pending = append(c.pending, f)
	}
	slices.SortFunc(c.pending, func(a, b *flight) int { return a.move.Seq - b.move.Seq })
	c.saveLedger(now)
}

// refusal names the first decider that said no, and what all of them said.
func refusal(decisions []es.Decision) (decider, reason string) {
	var texts []string
	for _, d := range decisions {
		if d.Decision == "NO" {
			decider = cmp.Or(decider, d.Decider)
			texts = append(texts, d.Decider+": "+d.Explanation)
		}
	}
	return decider, strings.Join(texts, "; ")
}
