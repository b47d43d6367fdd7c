package mover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/es"
	"github.com/shardonnay/shardonnay/internal/plan"
)

// carrying is one Carry: the moves that wait and those in flight.
type carrying struct {
	m       *Mover
	s       *cluster.Snapshot
	planID  string
	expires time.Time
	bytes   map[string]int64 // by allocation id

	pending []*flight     // by seq
	flights []*flight     // asked for, not ended
	landed  []int         // seqs of this plan
	failed  map[int]State // seqs of this plan that ended otherwise
	report  Report
}

// flight is one move on its way through the states.
type flight struct {
	move       plan.Move
	state      State
	requested  time.Time
	unknown    bool // the answer was lost
	adopted    bool
	cancelling bool
	newID      string // allocation id at the target
	rejections int    // whole requests with it that were turned down
	waits      string // why it could not be asked for when it was last looked at
	arrived    int64
	progressed time.Time // when bytes last arrived
}

func (f *flight) key() shardKey { return shardKey{f.move.Index, f.move.Shard} }

// set takes a flight to its next state. A step that the table does not have is a bug.
func (f *flight) set(next State) {
	if !f.state.Becomes(next) {
		panic(fmt.Sprintf("mover: a move that is %s becomes %s", f.state, next))
	}
	f.state = next
}

// maxShare is the share of time that reading the cluster may take while moves are watched, as its inverse: a routing table
// that takes a second to read is read every twenty.
const maxShare = 20

// run looks, watches and asks, until nothing is left or nothing can go on.
func (c *carrying) run(ctx context.Context) error {
	var idle, unreadable time.Time // since when nothing could be done, or read
	for {
		started := time.Now()
		l, err := c.look(ctx, len(c.pending) > 0)
		var hold *Hold
		switch {
		case ctx.Err() != nil:
			c.giveUp("the carrying was interrupted", Skipped)
			return nil
		case errors.As(err, &hold):
			c.report.Stop = &Stop{Kind: hold.Kind, Text: hold.Text, Cure: hold.Cure}
			c.giveUp(hold.Text, Skipped)
			continue // to watch what is in flight
		case err != nil:
			if unreadable.IsZero() {
				unreadable = started
			}
			if class := cluster.ClassOf(err); class == cluster.Refused || time.Since(unreadable) >= c.m.config.Patience {
				c.giveUp("the cluster could not be read", Skipped)
				return err
			}
		default:
			unreadable = time.Time{}
			c.m.readTook = time.Since(started)
			c.watch(ctx, l)
			asked, stop, err := c.ask(ctx, l)
			if err != nil {
				return err
			}
			if len(c.pending)+len(c.flights) == 0 {
				return nil
			}
			switch {
			case asked || len(c.flights) > 0:
				idle = time.Time{}
			case idle.IsZero():
				idle = time.Now()
			}
			if !idle.IsZero() && time.Since(idle) >= c.m.config.Patience {
				if stop == nil {
					stop = &Stop{Kind: GateFull, Text: "none of the moves that are left has its turn", Cure: "The next plan goes on"}
				}
				c.stopped(stop)
				return nil
			}
		}
		c.keepOwnership(ctx)
		timer := time.NewTimer(c.pause())
		select {
		case <-ctx.Done():
			timer.Stop()
		case <-timer.C:
		}
	}
}

// pause is how long to wait before the next look: never past the time at which our record wants to be renewed.
func (c *carrying) pause() time.Duration {
	pause := maxShare * c.m.readTook
	if c.m.own != nil && c.m.own.held != nil {
		pause = min(pause, time.Until(c.m.own.held.Renewed.Add(c.m.own.lease.Renew)))
	}
	return max(c.m.config.Poll, pause)
}

// giveUp ends every move that was not asked for.
func (c *carrying) giveUp(reason string, state State) {
	for _, f := range c.pending {
		f.set(state)
		c.ended(f, reason)
	}
	c.pending = nil
}

// stopped ends them because of a stop; a move that had a reason of its own to wait is given that one.
func (c *carrying) stopped(stop *Stop) {
	c.report.Stop = stop
	for _, f := range c.pending {
		f.set(Skipped)
		c.ended(f, cmp.Or(f.waits, stop.Text))
	}
	c.pending = nil
}

// ended reports the end of a move.
func (c *carrying) ended(f *flight, reason string) {
	elapsed := time.Duration(0)
	if !f.requested.IsZero() {
		elapsed = time.Since(f.requested)
		c.m.ledger.update(f, time.Now())
	}
	c.report.Count[f.state]++
	c.report.Outcomes = append(c.report.Outcomes, Outcome{Move: f.move, State: f.state, Reason: reason, Elapsed: elapsed})
	if f.state == Landed {
		c.report.BytesMoved += f.move.Bytes
		f.arrived = f.move.Bytes
	}
	if !f.adopted {
		if f.state == Landed {
			c.landed = append(c.landed, f.move.Seq)
		} else {
			c.failed[f.move.Seq] = f.state
		}
	}
	c.m.onEvent(Event{Move: f.move, State: f.state, Reason: reason, Elapsed: elapsed, Adopted: f.adopted, BytesArrived: f.arrived})
}

// watch brings every flight up to date with a look.
func (c *carrying) watch(ctx context.Context, l *look) {
	now := time.Now()
	c.m.roster.note(l, c.s, c.m.config.Stops.Settle, now)
	changed, failed := c.m.ledger.noteUndone(l, now), false
	var flying []*flight
	for _, f := range c.flights {
		before := f.state
		reason := c.progress(ctx, f, l, now)
		if f.state != before {
			changed = true
			c.m.ledger.update(f, now)
		}
		if f.state.Ended() {
			failed = failed || f.state == Cancelled
			c.ended(f, reason)
			continue
		}
		flying = append(flying, f)
	}
	c.flights = flying
	if failed {
		c.clearWishes(ctx)
	}
	if changed {
		c.saveLedger(now)
	}
}

// saveLedger writes the ledger; that it cannot be written is worth a warning once, not the moves under way.
func (c *carrying) saveLedger(now time.Time) {
	if err := c.m.ledger.save(now); err != nil {
		c.warn(err.Error())
	}
}

func (c *carrying) warn(text string) {
	if !slices.Contains(c.report.Warnings, text) {
		c.report.Warnings = append(c.report.Warnings, text)
	}
}

// progress reads off the routing table what became of a flight, and says why it ended where it did not land.
func (c *carrying) progress(ctx context.Context, f *flight, l *look, now time.Time) string {
	key := f.key()
	if k := l.find(key, f.move.AllocationID); k != nil {
		switch {
		case k.Target == f.move.To.ID:
			if f.state == Requested {
				f.set(Relocating)
			}
			f.newID, f.unknown = k.RelocationID, false
			c.arrive(f, l, now)
			if now.Sub(f.progressed) >= c.m.config.StuckAfter {
				return c.stuck(ctx, f)
			}
			return ""
		case k.Target != "":
			f.set(Cancelled)
			return fmt.Sprintf("somebody else moves it to %s", c.nodeName(l, k.Target))
		case f.state == Requested && f.unknown:
			if now.Sub(f.requested) < c.m.config.UnknownWait {
				return ""
			}
			f.set(Expired)
			return fmt.Sprintf("the answer was lost, and the request has had no effect for %s", c.m.config.UnknownWait)
		}
		f.set(Cancelled)
		return "it ended where it began: cancelled, or failed at the server; its log says why"
	}
	switch k := l.on(key, f.move.To.ID); {
	case k != nil && k.State == cluster.Initializing && (f.newID == "" || k.AllocationID == f.newID):
		// The node it came from is gone and the server builds on where the move was going to.
		if f.state == Requested {
			f.set(Relocating)
		}
		f.newID = k.AllocationID
		c.arrive(f, l, now)
		return ""
	case k != nil && (k.State == cluster.Started || k.State == cluster.Relocating) && (f.newID == "" || k.AllocationID == f.newID):
		f.newID = k.AllocationID
		f.set(Landed)
		return ""
	case len(l.groups[key]) == 0:
		f.set(Lost)
		return "the index is gone"
	}
	f.set(Lost)
	return "the copy is neither where it was nor where it was going: a node was lost, or somebody else moved it"
}

// arrive notes the bytes that have come and tells of them.
func (c *carrying) arrive(f *flight, l *look, now time.Time) {
	if bytes := l.recovered[f.key()]; bytes > f.arrived || f.progressed.IsZero() {
		f.arrived, f.progressed = bytes, now
	}
	c.m.onEvent(Event{Move: f.move, State: f.state, Elapsed: now.Sub(f.requested), Adopted: f.adopted, BytesArrived: min(f.arrived, f.move.Bytes)})
}

// stuck gives up waiting for a move that gets no bytes, and cancels it where that is wanted.
func (c *carrying) stuck(ctx context.Context, f *flight) string {
	reason := fmt.Sprintf("no byte has arrived for %s", c.m.config.StuckAfter)
	if !c.m.config.CancelStuck {
		f.set(Expired)
		return reason + "; it is left to the cluster"
	}
	if f.cancelling {
		return ""
	}
	f.cancelling = true
	if err := c.m.api.Cancel(ctx, c.m.identity.Product, f.move.Index, f.move.Shard, f.move.To.ID); err != nil {
		c.warn(err.Error()) // whether it was cancelled the next look shows
	}
	return ""
}

// clearWishes makes the server forget the target of a move that came to nothing: it would go there as soon as rebalancing
// is given back.
func (c *carrying) clearWishes(ctx context.Context) {
	if _, err := clearWishes(ctx, c.m.api, c.m.identity.Product); err != nil {
		c.warn(err.Error())
	}
}

// ask sends the next moves, where nothing stands against it. stop is what did.
func (c *carrying) ask(ctx context.Context, l *look) (asked bool, stop *Stop, err error) {
	c.dropDependents()
	if !c.expires.IsZero() && time.Now().After(c.expires) {
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
			c.m.calmUntil = time.Now().Add(c.m.config.Stops.Calm)
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
	half := time.Now().Before(c.m.calmUntil)
	g := newGate(c.m.config.Limits, &l.settings, c.zone, half)
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
		if reason := c.staleReason(f, l); reason != "" {
			f.set(Stale)
			c.ended(f, reason)
			continue
		}
		k := l.find(f.key(), f.move.AllocationID)
		t := transfer{index: f.move.Index, from: l.sender(k), to: f.move.To.ID, bytes: f.move.Bytes}
		block := c.mustWait(f, t, l, arriving[f.move.To.ID])
		if block == nil {
			if reason := g.admits(t, time.Now()); reason != "" {
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

// mustWait is why a move that holds has to wait all the same: busy nodes, a snapshot, a disk without room yet.
func (c *carrying) mustWait(f *flight, t transfer, l *look, arriving int64) *Stop {
	if _, running := l.snapshots[es.SnapshotShard{Index: f.move.Index, Shard: f.move.Shard}]; running {
		if k := l.find(f.key(), f.move.AllocationID); k.Primary {
			return &Stop{
				Kind: Snapshot, Text: fmt.Sprintf("the primary of %s/%d is being written to a snapshot, which moving it would break", f.move.Index, f.move.Shard),
				Cure: "It goes on once the snapshot is done",
			}
		}
	}
	for _, id := range []cluster.NodeID{t.from, t.to} {
		if s := c.busy(id); s != nil {
			return s
		}
	}
	disk, known := l.disks[f.move.To.ID]
	if !l.settings.DiskThreshold || !known || disk.Total <= 0 {
		return nil
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

// sizeOf is how many bytes a copy has, as far as known.
func (c *carrying) sizeOf(k *es.RoutingCopy) int64 {
	return max(k.ExpectedBytes, c.bytes[k.AllocationID])
}

// ours tells whether the relocation of a copy is one we asked for.
func (c *carrying) ours(allocationID string) bool {
	return slices.ContainsFunc(c.flights, func(f *flight) bool { return f.move.AllocationID == allocationID })
}

func (c *carrying) zone(id cluster.NodeID) string {
	at := c.s.NodeAt(id)
	if at == cluster.None {
		return ""
	}
	for _, attribute := range c.s.Settings.AwarenessAttributes {
		if value := c.s.Nodes[at].Attributes[attribute]; value != "" {
			return value
		}
	}
	return c.s.Nodes[at].Attributes["zone"]
}

func (c *carrying) nodeName(l *look, id cluster.NodeID) string {
	if node := l.nodes[id]; node != nil && node.Name != "" {
		return node.Name
	}
	return string(id)
}

// maxRejections is how many whole requests with a move in them may be turned down before the move is taken to be the
// reason.
const maxRejections = 3

// request asks for a batch, once. What the answer does not settle, the next look at the routing table does. A stop says
// that the cluster had no time for it.
func (c *carrying) request(ctx context.Context, batch []*flight) (asked bool, stop *Stop, err error) {
	now := time.Now()
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
	outcomes, err := c.m.api.Reroute(ctx, c.m.identity.Product, moves)
	switch {
	case err == nil:
		for i, f := range batch {
			if !outcomes[i].Refused {
				c.flights = append(c.flights, f)
				continue
			}
			f.set(Refused)
			c.ended(f, refusal(outcomes[i].Decisions))
		}
		c.saveLedger(now)
		return true, nil, nil
	case es.OutcomeUnknown(err) || ctx.Err() != nil:
		for _, f := range batch {
			f.unknown = true
		}
		c.flights = append(c.flights, batch...)
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
	now := time.Now()
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

// refusal names the deciders that said no.
func refusal(decisions []es.Decision) string {
	var texts []string
	for _, d := range decisions {
		if d.Decision == "NO" {
			texts = append(texts, d.Decider+": "+d.Explanation)
		}
	}
	return strings.Join(texts, "; ")
}

// confirm makes sure we may still act, and returns the settings read for that.
func (c *carrying) confirm(ctx context.Context) (es.RawSettings, error) {
	if c.m.own == nil {
		return c.m.api.Settings(ctx)
	}
	return c.m.own.Confirm(ctx)
}

// keepOwnership renews our record while moves are only watched. That it fails is found out before the next request.
func (c *carrying) keepOwnership(ctx context.Context) {
	if c.m.own != nil && c.m.own.renewalDue(time.Now()) {
		if _, err := c.m.own.Confirm(ctx); err != nil {
			c.warn(err.Error())
		}
	}
}
