package mover

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/plan"
)

// watch brings every flight up to date with a look.
func (c *carrying) watch(ctx context.Context, l *look) {
	now := c.m.clock.Now()
	c.m.roster.note(l, c.s, c.m.config.Stops.Settle, now)
	c.adopt(l, now)
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

// adopt takes over what a predecessor left in flight without a ledger to know it by. Once rebalancing is ours, a relocation
// that is under way at our first look was most likely asked for by the one who had it before us; it is watched like our
// own, and never cancelled, for it might be the server's.
func (c *carrying) adopt(l *look, now time.Time) {
	if c.m.looked || c.m.own == nil {
		return
	}
	c.m.looked = true
	var found []*flight
	for i := range l.routing.Copies {
		k := &l.routing.Copies[i]
		if k.Target == "" || c.ours(k.AllocationID) {
			continue
		}
		place := func(id cluster.NodeID) plan.Place {
			return plan.Place{ID: id, Name: c.nodeName(l, id), Zone: c.zone(id)}
		}
		found = append(found, &flight{
			move: plan.Move{
				Index: k.Index, Shard: k.Shard, Primary: k.Primary, AllocationID: k.AllocationID, From: place(k.Node), To: place(k.Target),
				Bytes: c.sizeOf(k), BytesSource: plan.Source{ID: l.sender(k)},
			},
			state: Relocating, requested: now, progressed: now, newID: k.RelocationID, adopted: true, found: true,
		})
	}
	c.report.Adopted += len(found)
	c.flights = append(c.flights, found...)
	if err := c.m.ledger.requested(found, "", now); err != nil {
		c.warn(err.Error())
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
	if !c.m.config.CancelStuck || f.found {
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
// is given back. While rebalancing is the server's, its wishes are its own.
func (c *carrying) clearWishes(ctx context.Context) {
	if c.m.own == nil {
		return
	}
	if _, err := clearWishes(ctx, c.m.api, c.m.identity.Product); err != nil {
		c.warn(err.Error())
	}
}
