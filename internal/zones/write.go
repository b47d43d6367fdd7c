package zones

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/es"
)

// write is the side of the machine that takes a zone out of the cluster and lets it back, one at a time.
func (d *deciding) write(order *Order) {
	switch d.state.Write {
	case Idle:
		if d.giveVotesBack(); !d.done() {
			d.leave(order)
		}
	case Draining:
		d.drain(order)
	case Fencing:
		d.refuse(order, "zone "+d.state.Leaving.Zone+" is being taken out of the cluster; wait until it is out")
		d.fence()
	case Gone:
		d.comeBack(order)
	case Rejoining, Recovering:
		d.refuse(order, "zone "+d.state.Leaving.Zone+" is coming back; wait until it stands by")
		if d.state.Write == Rejoining {
			d.rejoin()
		} else {
			d.recovered()
		}
	}
}

// leave begins: searches leave the zone, and from the standby too they do not stay away any longer.
func (d *deciding) leave(order *Order) {
	s := d.state
	zone, by, cause := "", "", ""
	soft := order != nil && order.Verb == OrderFence
	byHand := soft || order != nil && order.Verb == OrderOut
	held := d.holdsUp()
	switch {
	case byHand && d.config.Writes == Never:
		d.refuse(order, "zones.write_failover is off")
		return
	case byHand:
		zone, by, cause = order.Zone, order.By, "asked for by "+order.By
	case held == "", d.config.Writes == Never:
	case d.config.Writes == Approve:
		d.block(check(GuardApproval, false, "", "zone %s holds up writes (%s); to take it out of the cluster: shardonnay zones failover %s --out --yes",
			held, signalNames(d.health.Zones[held]), held))
	default:
		zone, by, cause, order = held, "shardonnay", fmt.Sprintf("zone %s holds up writes (%s)", held, signalNames(d.health.Zones[held])), nil
	}
	if zone == "" || s.Phase == Starting && !d.weightless() || !d.routed() {
		return
	}
	checks, end := d.forWrites(zone), "is then taken out of the cluster"
	if soft {
		checks, end = d.forFence(zone), "then gives its copies up"
	}
	if d.block(checks...) {
		d.refuse(order, texts(blocking(checks)))
		return
	}
	if byHand {
		d.answer(order, "zone "+zone+" drains for "+d.config.Drain.String()+" and "+end)
	} else {
		d.flapped(zone, true)
	}
	now := d.view.At
	h := d.health.Zones[zone]
	s.Leaving = &Leaving{Zone: zone, By: by, Cause: cause, Soft: soft, Ill: !h.Healthy(), Began: now, Deadline: now.Add(d.config.Drain)}
	s.Write = Draining
	d.note("drain", zone, "%s: zone %s drains until %s", cause, zone, s.Leaving.Deadline.Format(time.RFC3339))
	weights := weightsFor(d.zones(), zone)
	if w := d.view.weights(); !d.weightless() && !maps.Equal(w.Values, weights) {
		d.change(TakeOut, zone, cause, weights, now, checks)
	}
}

// holdsUp is the zone that holds up writes; empty where none does, or nothing is to be steered.
func (d *deciding) holdsUp() string {
	for _, zone := range d.zones() {
		if d.health.Zones[zone].WriteImpaired && !d.weightless() {
			return zone
		}
	}
	return ""
}

// drain waits until what runs in the zone has ended, and lets a leader there hand over meanwhile.
func (d *deciding) drain(order *Order) {
	l, now := d.state.Leaving, d.view.At
	h := d.health.Zones[l.Zone]
	switch {
	case order != nil && order.Verb == OrderAbort:
		d.abort("asked for by " + order.By)
		d.answer(order, "zone "+l.Zone+" stays, as a standby")
		return
	case now.Sub(l.Deadline) > staleAfter:
		d.abort(fmt.Sprintf("the drain ended %s ago and nobody went on with it", round(now.Sub(l.Deadline))))
		return
	case order != nil:
		d.refuse(order, "zone "+l.Zone+" is leaving; zones abort keeps it")
	}
	if !l.Soft && d.handOver() {
		return
	}
	d.idle(l)
	early := d.config.EarlyDrain && !l.Idle.IsZero() && now.Sub(l.Idle) >= idleFor
	if now.Before(l.Deadline) && !early && (l.Soft || !d.config.ServerTime) {
		return
	}
	if l.Ill && h.Healthy() && h.Fraction == 0 {
		if now.Sub(h.Well) >= writeHeld { // one that answers now and then is not: it would be ill again, and drain once more
			d.abort("zone " + l.Zone + " is well again")
		}
		return
	}
	if l.Soft {
		d.state.Write = Fencing
		d.letGo()
		return
	}
	d.decommission()
}

// abort leaves the zone where it is: a standby.
func (d *deciding) abort(why string) {
	s := d.state
	d.note("abort", s.Leaving.Zone, "zone %s is not taken out: %s", s.Leaving.Zone, why)
	s.Write, s.Leaving = Idle, nil
	d.giveVotesBack()
}

// handOver takes the votes of the zone while the cluster is led from there, and gives them back once another leads. It
// tells whether that is under way.
func (d *deciding) handOver() bool {
	s, l, now := d.state, d.state.Leaving, d.view.At
	inside := d.view.leaderZone(d.roster) == l.Zone
	switch {
	case inside && l.HandedOver.IsZero():
		if c := d.noForeignVotes(); !c.OK {
			d.block(c)
			return true
		}
		nodes := d.roster.voters(l.Zone)
		l.HandedOver, s.Votes = now, true
		d.decision.Mutation = &Mutation{Exclude: nodes}
		d.note("hand_over", l.Zone, "the cluster is led from zone %s: its %d nodes that may lead lose their vote until another leads", l.Zone, len(nodes))
	case s.Votes && (inside || d.view.State.Leader == "") && now.Sub(l.HandedOver) < verifyWithin:
	case s.Votes && len(d.view.State.Exclusions) == 0:
		s.Votes = false
		return false
	case s.Votes:
		if inside {
			d.note("hand_over_failed", l.Zone, "no other node leads after %s: the server itself has to see to it", verifyWithin)
		} else {
			d.note("handed_over", l.Zone, "the cluster is led from zone %s", d.view.leaderZone(d.roster))
		}
		d.giveVotesBack()
	default:
		return false
	}
	return true
}

// giveVotesBack ends the exclusions that are ours. While they are there they are ended anew: what is sent may be lost.
func (d *deciding) giveVotesBack() {
	if !d.state.Votes {
		return
	}
	if d.state.Votes = len(d.view.State.Exclusions) > 0; d.state.Votes {
		d.decision.Mutation = &Mutation{Clear: true}
	}
}

// latest is the later of two times.
func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// idle notes since when nothing has run in the zone.
func (d *deciding) idle(l *Leaving) {
	if d.view.Loads == nil {
		return
	}
	open := int64(0)
	for _, m := range d.roster.of(l.Zone) {
		open += d.view.Loads[m.ID].Open
	}
	switch {
	case open > int64(len(d.roster.of(l.Zone))): // our own probe holds one connection to each
		l.Idle = time.Time{}
	case l.Idle.IsZero():
		l.Idle = d.view.At
	}
}

// decommission asks the server to take the zone out, with every guard looked at again.
func (d *deciding) decommission() {
	s, l := d.state, d.state.Leaving
	if !d.routed() {
		return
	}
	if d.block(d.forWrites(l.Zone)...) {
		return
	}
	s.Write = Fencing
	l.Asked, l.Undone = d.view.At, false
	l.Tries++
	m := &Mutation{Attribute: d.config.Attribute, Out: l.Zone}
	if d.config.ServerTime {
		m.Drain = d.config.Drain
		s.Timer = d.view.At.Add(m.Drain)
	}
	d.decision.Mutation = m
	d.note("decommission", l.Zone, "zone %s is taken out of the cluster", l.Zone)
}

// fence watches the server take the zone out.
func (d *deciding) fence() {
	s, l, now, out := d.state, d.state.Leaving, d.view.At, d.view.State.Decommission
	if l.Soft {
		d.letGo()
		return
	}
	since := now.Sub(l.Asked)
	switch {
	case (out.Value == "" || out.Status == es.DecommissionFailed) && now.Sub(latest(l.Asked, l.Again)) > staleAfter:
		d.abort(fmt.Sprintf("that was asked for %s ago, has not begun, and nobody went on with it", round(since)))
	case out.Value != "" && out.Value != l.Zone:
		return // foreign has held already
	case out.Status == es.DecommissionSuccessful:
		present := d.view.present()
		for _, m := range d.roster.of(l.Zone) {
			if present[m.Name] {
				return
			}
		}
		s.Write, l.Out = Gone, now
		d.note("out", l.Zone, "zone %s is out after %s", l.Zone, round(now.Sub(l.Began)))
	case out.Status == es.DecommissionFailed, out.Value == "" && !l.Undone && since > verifyWithin: // a leader that waits for a zone is slow
		d.tryAgain(now)
	case out.Value == "" && l.Undone:
		// The server forgets who belongs to the zone while its nodes are not back: asked at once it would find nobody.
		if now.Before(l.Again) || !d.allBack(l.Zone) {
			return
		}
		d.decommission()
	case out.Status == es.DecommissionDraining:
		if since > d.config.Drain+2*d.config.slack() {
			d.undo("drains")
		}
	case out.Value != "" && since > fenceWithin:
		d.undo(string(out.Status))
	}
}

// letGo keeps allocation off the zone, and then makes its nodes give their copies up: replicas first, and each primary once
// another copy is in step outside. It is looked at every time, so that what was lost on the way is done again.
func (d *deciding) letGo() {
	s, l, now := d.state, d.state.Leaving, d.view.At
	fenced := d.shut()
	switch {
	case fenced:
		l.Fenced = true
	case l.Fenced:
		d.letBack()
		return
	case now.Sub(latest(l.Asked, l.Deadline)) > staleAfter:
		d.abort(fmt.Sprintf("the drain ended %s ago, copies were never kept off, and nobody went on with it", round(now.Sub(l.Deadline))))
		return
	}
	if !d.routed() {
		return
	}
	if c := d.inSync(l.Zone); d.block(c, d.awareness(), d.fenceFree(l.Zone)) {
		return
	}
	l.Asked = now
	if !fenced {
		d.decision.Mutation = &Mutation{Attribute: d.config.Attribute, Fence: l.Zone}
		d.note("fence", l.Zone, "copies are kept off zone %s", l.Zone)
		return
	}
	replicas, primaries := d.copiesToLeave(l.Zone)
	next := replicas
	if len(next) == 0 {
		next = primaries
	}
	if len(next) == 0 {
		s.Write, l.Out = Gone, now
		d.note("out", l.Zone, "no copy is left in zone %s after %s", l.Zone, round(now.Sub(l.Began)))
		return
	}
	d.decision.Mutation = &Mutation{LetGo: next}
	d.note("let_go", l.Zone, "%d copies of zone %s are given up", len(next), l.Zone)
}

// copiesToLeave are the copies in a zone that can be done without: another one of the same shard is started and in step
// outside.
func (d *deciding) copiesToLeave(zone string) (replicas, primaries []es.CopyAt) {
	where := d.zonesOfNodes()
	type group struct {
		index string
		shard int
	}
	safe := map[group]bool{}
	for _, c := range d.view.Routing.Copies {
		inStep := slices.Contains(d.view.Routing.InSync[c.Index][c.Shard], c.AllocationID)
		if inStep && where[c.Node] != zone && (c.State == cluster.Started || c.State == cluster.Relocating) {
			safe[group{c.Index, c.Shard}] = true
		}
	}
	for _, c := range d.view.Routing.Copies {
		if c.Node == "" || where[c.Node] != zone || !safe[group{c.Index, c.Shard}] {
			continue
		}
		at := es.CopyAt{Index: c.Index, Shard: c.Shard, Node: c.Node, Primary: c.Primary}
		if c.Primary {
			primaries = append(primaries, at)
		} else {
			replicas = append(replicas, at)
		}
	}
	return replicas, primaries
}

// unanswered is how long a recommission that was asked for may not be seen in the state.
func (d *deciding) unanswered() time.Duration { return max(10*time.Second, 2*d.config.Round) }

// tryAgain asks once more after a pause, and then holds.
func (d *deciding) tryAgain(now time.Time) {
	l := d.state.Leaving
	switch {
	case l.Tries >= fenceTries:
		d.state.Write, d.state.Leaving = Idle, nil
		d.hold("fence_failed", "zone %s could not be taken out in %d tries; look at the log of the elected leader", l.Zone, l.Tries)
	case l.Again.IsZero() || l.Again.Before(l.Asked):
		l.Again = now.Add(d.config.slack())
		d.note("fence_failed", l.Zone, "the decommission of zone %s failed; it is tried again in %s", l.Zone, d.config.slack())
	case !now.Before(l.Again):
		d.decommission()
	}
}

// undo drops a decommission that is stuck. Its timer cannot be cancelled and would act on the next one: that waits it out.
func (d *deciding) undo(at string) {
	s, l := d.state, d.state.Leaving
	l.Undone = true
	l.Again = d.view.At.Add(d.config.slack())
	if t := s.Timer.Add(d.config.slack()); t.After(l.Again) && !s.Timer.IsZero() {
		l.Again = t
	}
	if l.Tries >= fenceTries {
		s.Write, s.Leaving = Idle, nil
		d.hold("fence_stuck", "the decommission of zone %s is stuck (%s) for the %dth time", l.Zone, at, l.Tries)
	}
	d.decision.Mutation = &Mutation{Back: true}
	d.note("fence_stuck", l.Zone, "the decommission of zone %s is stuck (%s): it is dropped, and asked for again after %s", l.Zone, at, l.Again.Format(time.RFC3339))
}

// allBack tells whether every node of the zone's roster is in the cluster.
func (d *deciding) allBack(zone string) bool {
	present := d.view.present()
	return !slices.ContainsFunc(d.roster.of(zone), func(m Member) bool { return !present[m.Name] })
}

// comeBack lets a zone that is out back in, when a person says so or it has been reachable for long enough.
func (d *deciding) comeBack(order *Order) {
	s, l, now := d.state, d.state.Leaving, d.view.At
	if !d.shut() {
		d.letBack()
		return
	}
	reachable := true
	for _, m := range d.roster.of(l.Zone) {
		answered, probed := d.view.Probes[m.Name]
		reachable = reachable && probed && answered
	}
	switch {
	case !reachable:
		l.Reachable = time.Time{}
	case l.Reachable.IsZero():
		l.Reachable = now
	}
	byHand := order != nil && order.Verb == OrderRecommission
	stable := !l.Reachable.IsZero() && now.Sub(l.Reachable) >= d.config.Stable && !slices.Contains(s.Kept, l.Zone)
	if !byHand && !(d.config.Writes == Auto && stable) {
		d.refuse(order, "zone "+l.Zone+" is out of the cluster; recommission it first")
		return
	}
	if byHand {
		d.answer(order, "zone "+l.Zone+" may come back")
	}
	s.Write, l.Returning = Rejoining, now
	d.decision.Mutation = d.open()
	d.note("recommission", l.Zone, "zone %s may come back", l.Zone)
}

// letBack goes on with a zone that somebody else has let back in. Settings are what one node has applied, and that may be
// one which is behind with ours.
func (d *deciding) letBack() {
	l := d.state.Leaving
	if l.Soft && d.view.At.Sub(l.Asked) <= d.unanswered() {
		return
	}
	d.state.Write, l.Returning = Rejoining, d.view.At
	d.note("recommissioned", l.Zone, "somebody has recommissioned zone %s", l.Zone)
}

// shut tells whether the zone that left is still kept out.
func (d *deciding) shut() bool {
	if l := d.state.Leaving; l.Soft {
		return slices.Contains(d.view.Settings.Excluded, l.Zone)
	}
	return d.view.State.Decommission.Value != ""
}

// open lets it back. What else somebody keeps copies off by the same filter stays in it.
func (d *deciding) open() *Mutation {
	if l := d.state.Leaving; l.Soft {
		others := slices.DeleteFunc(slices.Clone(d.view.Settings.Excluded), func(value string) bool { return value == l.Zone })
		return &Mutation{Attribute: d.config.Attribute, Unfence: true, Others: others}
	}
	return &Mutation{Back: true}
}

// rejoin waits for the zone's nodes.
func (d *deciding) rejoin() {
	s, l, now := d.state, d.state.Leaving, d.view.At
	if d.shut() { // what lets them join has not arrived
		if now.Sub(l.Returning) > d.unanswered() {
			l.Returning = now
			d.decision.Mutation = d.open()
			d.note("sent_again", l.Zone, "zone %s is still kept out: it is let back again", l.Zone)
		}
		return
	}
	if d.allBack(l.Zone) {
		s.Write, l.Joined = Recovering, now
		d.note("rejoined", l.Zone, "every node of zone %s is back after %s", l.Zone, round(now.Sub(l.Returning)))
		return
	}
	if now.Sub(l.Returning) > rejoinAlert && !l.Late {
		l.Late = true
		d.note("rejoin_late", l.Zone, "not all nodes of zone %s are back after %s: look at their logs, and restart them", l.Zone, rejoinAlert)
	}
}

// recovered waits for the zone's copies: it stands by then.
func (d *deciding) recovered() {
	s, l, now := d.state, d.state.Leaving, d.view.At
	if !d.copiesBack() {
		return
	}
	d.note("recovered", l.Zone, "zone %s has all its copies again %s after it was let back", l.Zone, round(now.Sub(l.Returning)))
	s.Write, s.Leaving, s.Changed = Idle, nil, now // it serves at the next rotation at the earliest
}

// askEvery is how often the whole routing table is read to see whether copies are back.
const askEvery = 30 * time.Second

// copiesBack tells whether the zone that comes back has its copies: as many as the others, since there is one in every
// zone. Where the product does not count them by zone, whether all copies of the cluster are started.
func (d *deciding) copiesBack() bool {
	l := d.state.Leaving
	if d.view.Copies == nil {
		if d.view.Routing == nil && d.view.At.Sub(l.Asked) < askEvery || !d.routed() {
			return false
		}
		l.Asked = d.view.At
		started := true
		d.groups(func(_ string, _ int, copies []es.RoutingCopy) {
			for _, c := range copies {
				started = started && (c.State == cluster.Started || c.State == cluster.Relocating)
			}
		})
		return started
	}
	n, counted := d.view.Copies[l.Zone]
	if !counted || n.Initializing > 0 {
		return false
	}
	for _, zone := range d.zones() {
		if other, there := d.view.Copies[zone]; zone != l.Zone && there && float64(n.Active) < wellFraction*float64(other.Active) {
			return false
		}
	}
	return true
}
