package sim

import (
	"cmp"
	"maps"
	"slices"
)

// topology is what the deciders need to know of the nodes together, computed when nodes or settings change.
type topology struct {
	data   []*node             // live nodes that may hold shards
	values map[string][]string // awareness attribute -> values on live data nodes and forced ones, sorted
	tiers  map[string]bool     // tiers that have a node
}

// survey recomputes the topology.
func (c *Cluster) survey() {
	t := topology{values: map[string][]string{}, tiers: map[string]bool{}}
	for _, n := range c.nodes {
		if !n.isData() {
			continue
		}
		n.slot = len(t.data)
		t.data = append(t.data, n)
		for _, role := range n.spec.Roles {
			t.tiers[role] = true
		}
		if n.has("data") {
			for _, tier := range []string{"data_hot", "data_warm", "data_cold", "data_content", "data_frozen"} {
				t.tiers[tier] = true
			}
		}
	}
	for _, attribute := range c.rules.awareness {
		set := map[string]bool{}
		for _, v := range c.rules.forced[attribute] {
			set[v] = true
		}
		for _, n := range c.nodes {
			if v, ok := n.zone[attribute]; ok && n.isData() {
				set[v] = true
			}
		}
		t.values[attribute] = slices.Sorted(maps.Keys(set))
	}
	c.topology = t
	c.unfit = true
	c.chances++
}

// reroute is what the master does after every change: place what is unassigned, move away what may not remain, and, if
// it is allowed to, balance. With a desired balance that is computed first and the three steps follow it.
func (c *Cluster) reroute() {
	if c.master == nil && !c.instant {
		return
	}
	if c.keepsDesiredBalance() && !c.instant {
		c.computeDesired()
	}
	c.allocateUnassigned()
	if c.unfit {
		c.evacuate()
	}
	switch {
	case c.instant: // Settle balances once, at the end
	case c.keepsDesiredBalance():
		c.reconcile()
	default:
		c.balance()
	}
}

// dataNodes are the live nodes that may hold shards.
func (c *Cluster) dataNodes() []*node { return slices.Clone(c.topology.data) }

// among is the node's position in a list of all data nodes or most of them; -1 where it is not in it.
func (n *node) among(list []*node) int {
	if n == nil {
		return -1
	}
	if n.slot < len(list) && list[n.slot] == n {
		return n.slot
	}
	return slices.Index(list, n)
}

// allocateUnassigned gives every unassigned copy a node, primaries first.
func (c *Cluster) allocateUnassigned() {
	if len(c.unassigned) == 0 {
		return
	}
	var waiting []*shardCopy
	for _, s := range c.unassigned {
		back := s.lastNode != nil && c.nodeByID[s.lastNode.id] != nil
		switch {
		case back:
		case s.primary && s.lastNode != nil:
			s.why.status = "no_valid_shard_copy" // its data is on a node that is away; an empty one would lose it
			continue
		case s.why.until > c.now: // delayed
			continue
		case s.refused == c.chances: // no node takes it, and nothing has changed that could change that
			continue
		}
		waiting = append(waiting, s)
	}
	slices.SortStableFunc(waiting, func(a, b *shardCopy) int {
		rank := func(s *shardCopy) int {
			if s.primary {
				return 0
			}
			return 1
		}
		return cmp.Or(rank(a)-rank(b), cmp.Compare(b.group.idx.created, a.group.idx.created), // newest index first
			cmp.Compare(a.group.idx.name, b.group.idx.name), a.group.num-b.group.num)
	})
	nodes := c.dataNodes()
	for _, s := range waiting {
		if s.state != unassigned || c.comesBack(s) || s.primary && s.lastNode != nil || s.why.until > c.now {
			continue
		}
		if n, v := c.bestNode(s, nodes); n != nil {
			c.assign(s, n)
		} else if v == no {
			s.why.status, s.refused = "deciders_no", c.chances
		} else {
			s.why.status = "deciders_throttled"
		}
	}
}

// comesBack puts a copy on the node it was lost with, where the files are, and reports whether that settled it.
func (c *Cluster) comesBack(s *shardCopy) bool {
	n := s.lastNode
	if n == nil || c.nodeByID[n.id] == nil {
		return false
	}
	n = c.nodeByID[n.id]
	s.lastNode = n
	q := question{}
	if c.enabled(s, n, &q) == no || c.sameShard(s, n, &q) == no || c.filter(s, n, &q) == no {
		if !s.primary {
			s.lastNode = nil
		}
		return false
	}
	if !s.primary && c.replicaAfterPrimary(s, n, &q) == no || c.throttling(s, n, &q) != yes {
		return true
	}
	c.assign(s, n)
	return true
}

// bestNode is the lightest node that takes the copy at once; without one, how the best of them refused.
func (c *Cluster) bestNode(s *shardCopy, nodes []*node) (*node, verdict) {
	best := no
	if c.keepsDesiredBalance() && !c.instant {
		for _, n := range s.group.desired {
			if v := c.canAllocate(s, n); v == yes {
				return n, yes
			} else if v == throttle {
				return nil, throttle // the desired node is worth waiting for
			}
		}
	}
	isReplica := !s.primary || s.state != unassigned
	if p := s.group.primary(); isReplica && !c.instant && p.node != nil && p.node.outgoing >= c.rules.outgoing {
		return nil, throttle // whatever the node, the bytes come from there
	}
	w := c.weights(s.group.idx, nodes)
	lightest := 0
	for i := range w {
		if w[i] < w[lightest] {
			lightest = i
		}
	}
	order := []int{lightest} // mostly the first one will do; only then are all put in order
	for i := 0; i < len(order) && len(nodes) > 0; i++ {
		v := throttle
		if n := nodes[order[i]]; !isReplica || n.incoming < c.rules.incoming || c.instant {
			v = c.canAllocate(s, n)
		}
		if v == yes || v == throttle && c.instant {
			return nodes[order[i]], yes
		}
		best = min(best, v)
		if i == 0 {
			order = byWeight(w)
		}
	}
	return nil, best
}

// evacuate moves copies that may not remain: filters, disks above the high watermark, tiers, awareness, limits. The
// server does this whatever the rebalance setting says, as long as allocation itself is enabled.
func (c *Cluster) evacuate() {
	c.unfit = false
	nodes := c.dataNodes()
	over := map[*node]bool{}
	for _, n := range nodes {
		over[n] = c.overHigh(n)
	}
	for s := range c.allCopies {
		if s.state != started {
			continue
		}
		if ok, _ := c.canRemain(s); ok {
			continue
		}
		if n, v := c.bestNode(s, nodes); n != nil {
			c.relocate(s, n, false)
			c.tally.Evacuated++
		} else if v == throttle {
			c.unfit = true // again when a recovery ends
		}
	}
}

// scheduleLook lets the master look at the disks every so often, which drives everything watermarks do. It begins anew
// when the interval changes.
func (c *Cluster) scheduleLook() {
	every := c.rules.infoInterval
	if c.lookEvery == every {
		return
	}
	c.lookEvery = every
	var again func()
	again = func() {
		if c.lookEvery != every {
			return
		}
		c.look()
		if c.unfit || len(c.unassigned) > 0 {
			c.reroute()
		}
		c.after(every, again)
	}
	c.after(every, again)
}

// look refreshes the master's view of free space and the flood-stage blocks.
func (c *Cluster) look() {
	c.chances++ // disks are part of the rules
	flooded := map[*index]bool{}
	anyHigh := map[*index]bool{}
	for _, n := range c.nodes {
		n.seenFree = float64(n.spec.Disk) - c.used(n)
		if !c.rules.diskEnabled || !n.isData() {
			continue
		}
		total := float64(n.spec.Disk)
		if n.seenFree < c.rules.high.free(total) {
			c.unfit = true
			for _, s := range n.copies {
				anyHigh[s.group.idx] = true
				if n.seenFree < c.rules.flood.free(total) {
					flooded[s.group.idx] = true
				}
			}
		}
	}
	const block = "index.blocks.read_only_allow_delete"
	for _, idx := range c.indices {
		switch {
		case flooded[idx] && !idx.blocked:
			idx.blocked = true
			idx.settings[block] = "true"
		case idx.blocked && !anyHigh[idx]:
			idx.blocked = false
			delete(idx.settings, block)
		default:
			continue
		}
		c.reload(idx)
		c.bump()
	}
}

// ensureInfo makes sure a node that just joined or changed is seen as it is.
func (c *Cluster) ensureInfo(n *node) { n.seenFree = float64(n.spec.Disk) - c.used(n) }

// Settle starts every unassigned copy at once, without recoveries, delays or throttling, as if the cluster had been
// there for long, and lets the master look at the disks. It reports how many copies found no place.
func (c *Cluster) Settle() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.instantly(func() {
		for range 3 { // primaries, then replicas, then what the evacuation of the first two made room for
			c.reroute()
		}
		c.balance()
	})
	c.look()
	if c.keepsDesiredBalance() {
		c.forgetDesired()
		c.computeDesired()
	}
	if c.now == 0 {
		c.remember()
		c.tally = Tally{}
	}
	return len(c.unassigned)
}

// uptime is how long the nodes of a cluster that was just made have been running, as their counters tell it.
const uptime = 10 * day

// remember gives a cluster that was just made a past: processes that have run for long, and counters to match.
func (c *Cluster) remember() {
	for _, n := range c.nodes {
		n.since = -uptime
	}
	for s := range c.allCopies {
		if !s.active() {
			continue
		}
		g := s.group
		seconds := min(uptime, c.now-g.idx.created).Seconds()
		s.totals = totals{
			search: g.search * s.share * seconds, queries: g.search * s.share * seconds / g.queryCost,
			write: g.write * s.writeCost() * seconds, docs: g.docsRate * seconds,
		}
		if s.lastEnd != nil {
			s.lastEnd.begun, s.lastEnd.ended = g.idx.created, g.idx.created
		}
	}
}

// instantly runs do with recoveries that end at once.
func (c *Cluster) instantly(do func()) {
	c.instant = true
	for _, s := range c.unassigned {
		s.why.until = 0
	}
	for len(c.recoveries) > 0 {
		c.finish(c.recoveries[0])
	}
	do()
	c.instant = false
}
