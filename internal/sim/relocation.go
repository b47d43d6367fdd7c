package sim

import (
	"fmt"
	"slices"
	"time"
)

// recoveryKind is where the bytes of a new copy come from.
type recoveryKind string

const (
	peer          recoveryKind = "PEER"           // from the primary's node, over the wire
	emptyStore    recoveryKind = "EMPTY_STORE"    // a new, empty primary
	existingStore recoveryKind = "EXISTING_STORE" // the node still has the files
)

// openTime is what a recovery takes besides copying: the talk between the nodes and opening the shard.
const openTime = 200 * time.Millisecond

// recovery brings one initializing copy up.
type recovery struct {
	copy   *shardCopy
	kind   recoveryKind
	from   *node // whence the bytes come; for peer recoveries the primary's node, even when a replica relocates
	to     *node
	total  float64 // bytes
	reused float64 // bytes already on the target

	begun  time.Duration // request
	copies time.Duration // bytes move from here on
	seen   time.Duration // up to which got counts
	got    float64       // bytes
	rate   float64       // bytes per second since seen
}

// endedRecovery is kept with a copy: the last recovery that made it, as the recovery API shows it.
type endedRecovery struct {
	kind          recoveryKind
	from, to      *node
	total, reused float64
	begun, ended  time.Duration
}

// done is the bytes that have arrived.
func (r *recovery) done(now time.Duration) float64 {
	since := max(r.seen, r.copies)
	if now <= since {
		return r.got
	}
	return min(r.total, r.got+r.rate*(now-since).Seconds())
}

// end is when the copy will be started at the present rate.
func (r *recovery) end() time.Duration {
	left := r.total - r.got
	from := max(r.seen, r.copies)
	if left <= 0 {
		return from
	}
	if r.rate <= 0 {
		return 1<<62 - 1
	}
	// Rounded up: an end that comes a nanosecond early would find a byte missing and be asked for again.
	return from + time.Duration(left/r.rate*float64(time.Second)) + 1
}

// recover starts bringing up s on its node.
func (c *Cluster) recover(s *shardCopy, kind recoveryKind, from *node) {
	g := s.group
	r := &recovery{copy: s, kind: kind, from: from, to: s.node, total: c.bytesNow(g), begun: c.now, copies: c.now + openTime, seen: c.now}
	if kind == emptyStore {
		r.total = 0
	}
	if kind == existingStore || kind == peer && s.lastNode == s.node {
		r.reused = r.total // what changed meanwhile is replayed, which is little
		r.got = r.total
	}
	s.rec = r
	c.recoveries = append(c.recoveries, r)
	r.to.transfers++
	if kind == peer {
		from.transfers++
		from.outgoing++
		r.to.incoming++
	} else {
		r.to.initial++
	}
	c.repace()
	if c.instant {
		c.finish(r)
	}
}

// drop takes a recovery off the books, finished or not.
func (c *Cluster) drop(r *recovery) {
	c.recoveries = slices.DeleteFunc(c.recoveries, func(x *recovery) bool { return x == r })
	r.to.transfers--
	if r.kind == peer {
		r.from.transfers--
		r.from.outgoing--
		r.to.incoming--
	} else {
		r.to.initial--
	}
	r.copy.rec = nil
	c.repace()
}

// repace shares the bandwidth out anew. Each node gives and takes at most its limit over all its recoveries; a recovery
// goes as fast as the slower of its two ends lets it.
func (c *Cluster) repace() {
	c.nextEnd = -1
	for _, r := range c.recoveries {
		r.got = r.done(c.now)
		r.seen = max(r.seen, c.now)
		r.rate = c.bandwidth(r.to) / float64(max(r.to.transfers, 1))
		if r.kind == peer {
			r.rate = min(r.rate, c.bandwidth(r.from)/float64(max(r.from.transfers, 1)))
		}
		if end := r.end(); c.nextEnd < 0 || end < c.nextEnd {
			c.nextEnd = end
		}
	}
}

func (c *Cluster) bandwidth(n *node) float64 {
	if n.frozen {
		return 0
	}
	limit := c.rules.maxBytesPerSec
	if n.spec.Bandwidth > 0 && (limit <= 0 || n.spec.Bandwidth < limit) {
		return n.spec.Bandwidth
	}
	if limit <= 0 {
		return 1 << 40 // unlimited: a terabyte a second is as good
	}
	return limit
}

// endRecoveries starts every copy whose recovery is over by now.
func (c *Cluster) endRecoveries() {
	var ended []*recovery
	for _, r := range c.recoveries {
		if r.end() <= c.now {
			ended = append(ended, r)
		}
	}
	for _, r := range ended {
		if r.copy.rec == r { // an earlier one may have cancelled it
			c.finish(r)
		}
	}
	if len(ended) == 0 {
		c.repace()
	}
	c.reroute()
}

// finish makes the recovered copy a started one. A relocation's target takes its source's place in the group.
func (c *Cluster) finish(r *recovery) {
	s, g := r.copy, r.copy.group
	if r.to.broken {
		c.fail(r)
		return
	}
	c.drop(r)
	s.lastEnd = &endedRecovery{kind: r.kind, from: r.from, to: r.to, total: r.total, reused: r.reused, begun: r.begun, ended: c.now}
	c.settle(g)
	if src := s.source; src != nil {
		if src.command {
			c.tally.Landed++
			c.tally.BytesMoved += int64(c.bytesNow(g))
			g.left = append(g.left, src.node)
		}
		c.leave(src)
		g.copies[slices.Index(g.copies, src)] = s
		src.target, s.source = nil, nil
	}
	s.state, s.why, s.lastNode, s.failures = started, unassignedInfo{}, nil, 0
	for _, other := range g.copies {
		other.refused = 0 // its primary is there now, or a node it was barred from is free
	}
	c.rerate(g)
	c.bump()
}

// fail ends a recovery without a copy. A relocation leaves no mark but a count (Elasticsearch); a copy that was to be
// made new is unassigned again, and tried again until it has failed too often.
func (c *Cluster) fail(r *recovery) {
	s := r.copy
	if s.source != nil {
		c.cancelRelocation(s.source, true)
		return
	}
	failed, last := s.why.failed+1, s.lastNode
	c.unassign(s, "ALLOCATION_FAILED", fmt.Sprintf("failed shard on node [%s]: failed recovery", r.to.id), 0)
	s.why.failed, s.lastNode = failed, last
}

// enter puts a copy on a node; leave takes it off again, and the node keeps what the copy has counted.
func (c *Cluster) enter(s *shardCopy, n *node) {
	s.node = n
	n.copies = append(n.copies, s)
	if s.target == nil {
		n.count++
	}
}

func (c *Cluster) leave(s *shardCopy) {
	n := s.node
	n.departed.add(c.totalsOf(s))
	n.copies = slices.DeleteFunc(n.copies, func(x *shardCopy) bool { return x == s })
	if s.target == nil {
		n.count--
	}
	s.node = nil
}

// relocate starts moving a started copy to a node.
func (c *Cluster) relocate(s *shardCopy, to *node, command bool) {
	g := s.group
	c.settle(g)
	t := &shardCopy{group: g, primary: s.primary, state: initializing, aid: c.newID(), source: s}
	s.state, s.target, s.command = relocating, t, command
	s.node.count--
	c.enter(t, to)
	from := s.node
	if p := g.primary(); p != nil && p.node != nil {
		from = p.node
	}
	c.recover(t, peer, from)
	if slices.Contains(g.left, to) {
		c.tally.Returned++
	}
	if s.primary && g.snapshot != nil && !c.quiet {
		c.abortSnapshot(g)
	}
	if !c.quiet {
		for _, w := range c.whenMoving {
			c.schedule(w.d, w.do)
		}
		c.whenMoving = nil
	}
	c.bump()
}

// cancelRelocation ends a relocation without a move; the source is a started copy again, as if nothing had been.
func (c *Cluster) cancelRelocation(s *shardCopy, failed bool) {
	t := s.target
	if s.command {
		c.tally.Failed++
	}
	if t.rec != nil {
		c.drop(t.rec)
	}
	c.settle(s.group)
	c.leave(t)
	s.target = nil
	if s.node != nil {
		s.node.count++
	}
	s.state, s.command = started, false
	if failed && c.elastic() && c.at(8, 9) {
		s.failures++
	}
	c.rerate(s.group)
	c.bump()
}

// unassign takes a copy off its node; the group waits for a new one in its place.
func (c *Cluster) unassign(s *shardCopy, reason, details string, delayed time.Duration) {
	c.settle(s.group)
	if s.target != nil {
		c.cancelRelocation(s, true)
	}
	if s.rec != nil {
		c.drop(s.rec)
	}
	if s.node != nil {
		s.lastNode = s.node
		c.leave(s)
	}
	s.state, s.totals, s.aid, s.refused = unassigned, totals{}, "", 0
	s.why = unassignedInfo{reason: reason, at: c.now, details: details, status: "no_attempt"}
	if delayed > 0 {
		s.why.until = c.now + delayed
		if c.delayOver != s.why.until { // one look for all that went together
			c.delayOver = s.why.until
			c.after(delayed, c.reroute)
		}
	}
	if !slices.Contains(c.unassigned, s) {
		c.unassigned = append(c.unassigned, s)
	}
	c.rerate(s.group)
	c.bump()
}

// assign gives an unassigned copy a node.
func (c *Cluster) assign(s *shardCopy, n *node) {
	g := s.group
	c.settle(g)
	c.unassigned = slices.DeleteFunc(c.unassigned, func(x *shardCopy) bool { return x == s })
	s.state, s.aid = initializing, c.newID()
	c.enter(s, n)
	p := g.primary()
	switch {
	case !s.primary:
		c.recover(s, peer, p.node)
	case s.lastNode != nil:
		c.recover(s, existingStore, nil)
	default:
		c.recover(s, emptyStore, nil)
	}
	c.bump()
}
