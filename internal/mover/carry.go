package mover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
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
	adopted    bool // asked for by an earlier Carry
	found      bool // adopted without knowing who asked for it
	cancelling bool
	newID      string // allocation id at the target
	rejections int    // whole requests with it that were turned down
	decider    string // that refused it
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
		started := c.m.clock.Now()
		l, err := c.look(ctx, len(c.pending) > 0)
		var hold *Hold
		switch {
		case ctx.Err() != nil:
			c.giveUp("the carrying was interrupted", Skipped)
			return nil //nolint:nilerr // a read that fails because we were told to stop is no failure
		case errors.As(err, &hold):
			c.report.Stop = &Stop{Kind: hold.Kind, Text: hold.Text, Cure: hold.Cure}
			c.giveUp(hold.Text, Skipped)
			continue // to watch what is in flight
		case err != nil:
			if unreadable.IsZero() {
				unreadable = started
			}
			if class := cluster.ClassOf(err); class == cluster.Refused || c.m.clock.Now().Sub(unreadable) >= c.m.config.Patience {
				c.giveUp("the cluster could not be read", Skipped)
				return err
			}
		default:
			unreadable = time.Time{}
			c.m.readTook = c.m.clock.Now().Sub(started)
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
				idle = c.m.clock.Now()
			}
			if !idle.IsZero() && c.m.clock.Now().Sub(idle) >= c.m.config.Patience {
				if stop == nil {
					stop = &Stop{Kind: GateFull, Text: "none of the moves that are left has its turn", Cure: "The next plan goes on"}
				}
				c.stopped(stop)
				return nil
			}
		}
		c.keepOwnership(ctx)
		_ = c.m.clock.Sleep(ctx, c.pause()) // that ctx is done the next round sees
	}
}

// pause is how long to wait before the next look: never past the time at which our record wants to be renewed.
func (c *carrying) pause() time.Duration {
	pause := maxShare * c.m.readTook
	if c.m.own != nil && c.m.own.held != nil {
		pause = min(pause, c.m.own.held.Renewed.Add(c.m.own.lease.Renew).Sub(c.m.clock.Now()))
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
		elapsed = c.m.clock.Now().Sub(f.requested)
		c.m.ledger.update(f, c.m.clock.Now())
	}
	c.report.Count[f.state]++
	c.report.Outcomes = append(c.report.Outcomes, Outcome{Move: f.move, State: f.state, Reason: reason, Elapsed: elapsed, Adopted: f.adopted})
	if f.state == Landed {
		if !f.requested.IsZero() {
			c.report.BytesMoved += f.move.Bytes
		}
		f.arrived = f.move.Bytes
	}
	if !f.adopted {
		if f.state == Landed {
			c.landed = append(c.landed, f.move.Seq)
		} else {
			c.failed[f.move.Seq] = f.state
		}
	}
	c.m.onEvent(Event{
		Move: f.move, State: f.state, Reason: reason, Decider: f.decider, Elapsed: elapsed, Adopted: f.adopted, BytesArrived: f.arrived,
	})
}

// flies takes moves that were asked for among those in flight.
func (c *carrying) flies(asked ...*flight) {
	c.flights = append(c.flights, asked...)
	for _, f := range asked {
		c.m.onEvent(Event{Move: f.move, State: f.state, Elapsed: c.m.clock.Now().Sub(f.requested)})
	}
}

// sizeOf is how many bytes a copy has, as far as known.
func (c *carrying) sizeOf(k *es.RoutingCopy) int64 {
	return max(k.ExpectedBytes, c.bytes[k.AllocationID])
}

// ours tells whether the relocation of a copy is one we asked for.
func (c *carrying) ours(allocationID string) bool {
	return slices.ContainsFunc(c.flights, func(f *flight) bool { return f.move.AllocationID == allocationID && !f.found })
}

func (c *carrying) zone(id cluster.NodeID) string {
	at := c.s.NodeAt(id)
	if at == cluster.None {
		return ""
	}
	return c.s.Zone(at)
}

// region is where a node stands by the attribute of the limits; empty without one.
func (c *carrying) region(id cluster.NodeID) string {
	at := c.s.NodeAt(id)
	if at == cluster.None {
		return ""
	}
	return c.s.Nodes[at].Attributes[c.m.config.Limits.Region]
}

func (c *carrying) nodeName(l *look, id cluster.NodeID) string {
	if node := l.nodes[id]; node != nil && node.Name != "" {
		return node.Name
	}
	return string(id)
}

// confirm makes sure we may still act, and returns the settings read for that.
func (c *carrying) confirm(ctx context.Context) (es.RawSettings, error) {
	if c.m.own == nil {
		return c.m.api.Settings(ctx)
	}
	return c.m.own.Confirm(ctx)
}

// fresh tells whether confirm needs no repeating before a request.
func (c *carrying) fresh() bool { return c.m.own == nil || c.m.own.fresh() }

// keepOwnership renews our record while moves are only watched. That it fails is found out before the next request.
func (c *carrying) keepOwnership(ctx context.Context) {
	if c.m.own != nil && c.m.own.renewalDue(c.m.clock.Now()) {
		if _, err := c.m.own.Confirm(ctx); err != nil {
			c.warn(err.Error())
		}
	}
}
