package sim

import (
	"slices"
)

// hint is a move command the desired balance has not seen yet. It is remembered for dry runs and refused moves too: the
// real servers queue it before they look at either.
type hint struct {
	index    string
	shard    int
	from, to string // node ids
}

// desireStats are the counters of GET /_internal/desired_balance.
type desireStats struct {
	computed, iterations, moves int
	version                     int64 // of the state it was computed for
}

// keepsDesiredBalance: Elasticsearch 8.6 and newer, unless it was started with the legacy allocator.
func (c *Cluster) keepsDesiredBalance() bool { return c.elastic() && c.at(8, 6) && !c.cfg.Legacy }

// queueHint remembers a command for the next computation. 8.x only does so for a copy that is where the command says;
// 9.x remembers in any case.
func (c *Cluster) queueHint(h hint, found bool) {
	if c.keepsDesiredBalance() && (found || c.at(9, 0)) {
		c.hints = append(c.hints, h)
	}
}

// forgetDesired drops wishes and hints: a new master starts from where the copies are.
func (c *Cluster) forgetDesired() {
	c.hints = nil
	c.dropDesired()
}

func (c *Cluster) dropDesired() {
	c.desire.version = 0
	for _, g := range c.allGroups() {
		g.desired = nil
	}
}

// computeDesired recomputes where every copy should be. It begins with the copies where they are, running relocations
// taken as done; sends them back to where they were wanted before, if that is legal; applies the queued moves; and, where
// rebalancing is on, balances. Without rebalancing the old wishes and the queued moves decide alone.
func (c *Cluster) computeDesired() {
	if len(c.nodes) == 0 || c.desire.version == c.version && len(c.hints) == 0 && !c.unfit {
		return
	}
	for _, n := range c.nodes {
		n.simCount, n.simBytes = 0, 0
	}
	var free []*shardCopy
	for s := range c.allCopies {
		s.simNode = s.home()
		if s.simNode == nil {
			free = append(free, s)
		} else {
			s.simNode.simCount++
		}
	}
	nodes := c.dataNodes()
	for _, g := range c.allGroups() {
		c.sendBack(g)
	}
	for _, h := range c.hints {
		c.applyHint(h)
	}
	c.hints = nil
	for _, s := range free {
		if s.primary && s.lastNode != nil || s.why.until > c.now || s.refused == c.chances {
			continue
		}
		if n := c.simPlace(s, nodes); n != nil {
			c.simMove(s, n)
		} else {
			s.refused = c.chances
		}
	}
	if c.unfit {
		for s := range c.allCopies {
			if s.state == started && s.simNode == s.node {
				if ok, _ := c.canRemain(s); !ok {
					if n := c.simBest(s, nodes); n != nil {
						c.simMove(s, n)
					}
				}
			}
		}
	}
	if c.rebalances() && c.rules.concurrentRebalance != 0 {
		c.simBalance(nodes)
	}
	c.desire.computed++
	c.desire.version = c.version
	for _, g := range c.allGroups() {
		want := g.desired[:0:0]
		for _, s := range g.copies {
			if s.simNode != nil {
				want = append(want, s.simNode)
			}
		}
		g.desired = want
	}
}

// sendBack undoes, in the simulation, what moved copies away from where they were wanted.
func (c *Cluster) sendBack(g *group) {
	if g.desired == nil || !slices.ContainsFunc(g.copies, func(s *shardCopy) bool {
		return s.simNode != nil && !slices.Contains(g.desired, s.simNode)
	}) {
		return
	}
	var strangers []*shardCopy
	vacant := slices.Clone(g.desired)
	for _, s := range g.copies {
		if s.simNode == nil {
			continue
		}
		if i := slices.Index(vacant, s.simNode); i >= 0 {
			vacant = slices.Delete(vacant, i, i+1)
		} else {
			strangers = append(strangers, s)
		}
	}
	for _, s := range strangers {
		for i, n := range vacant {
			if c.nodeByID[n.id] == n && c.simMay(s, n) {
				c.simMove(s, n)
				vacant = slices.Delete(vacant, i, i+1)
				break
			}
		}
	}
}

// applyHint carries a queued move out in the simulation; without effect where the copy is not on its source there.
func (c *Cluster) applyHint(h hint) {
	idx, to := c.find(h.index), c.nodeByID[h.to]
	if idx == nil || to == nil || h.shard >= len(idx.groups) {
		return
	}
	for _, s := range idx.groups[h.shard].copies {
		if s.simNode != nil && s.simNode.id == h.from && c.simMay(s, to) {
			c.simMove(s, to)
			return
		}
	}
}

func (c *Cluster) simMove(s *shardCopy, n *node) {
	size := c.bytesNow(s.group)
	if s.simNode != nil {
		s.simNode.simCount--
		s.simNode.simBytes -= size
	}
	n.simCount++
	n.simBytes += size
	s.simNode = n
}

// simHeld is held of the simulation: copies on n besides s, of its index and of all.
func (c *Cluster) simHeld(n *node, s *shardCopy) (of, all int) {
	for _, g := range s.group.idx.groups {
		for _, x := range g.copies {
			if x.simNode == n && x != s {
				of++
			}
		}
	}
	return of, n.simCount
}

// simMay tells whether the deciders let s go to n in the simulation. The enable settings and throttling do not count.
func (c *Cluster) simMay(s *shardCopy, n *node) bool {
	q := question{sim: true, command: true}
	for _, d := range c.deciders {
		if d.may(c, s, n, &q) == no {
			return false
		}
	}
	return true
}

// simPlace is where an unassigned copy should go: where its group was wanted before, else the lightest node.
func (c *Cluster) simPlace(s *shardCopy, nodes []*node) *node {
	for _, n := range s.group.desired {
		taken := slices.ContainsFunc(s.group.copies, func(x *shardCopy) bool { return x.simNode == n })
		if !taken && c.nodeByID[n.id] == n && c.simMay(s, n) {
			return n
		}
	}
	return c.simBest(s, nodes)
}

// simBest is the lightest node in the simulation that may take s.
func (c *Cluster) simBest(s *shardCopy, nodes []*node) *node {
	w := c.simWeights(s.group.idx, nodes)
	for _, i := range byWeight(w) {
		if nodes[i] != s.simNode && c.simMay(s, nodes[i]) {
			return nodes[i]
		}
	}
	return nil
}

func (c *Cluster) simWeights(idx *index, nodes []*node) []float64 {
	w := make([]float64, len(nodes))
	for _, g := range idx.groups {
		for _, s := range g.copies {
			if i := s.simNode.among(nodes); i >= 0 {
				w[i]++
			}
		}
	}
	theta := c.rules.balanceShard + c.rules.balanceIndex
	if theta == 0 {
		theta = 1
	}
	for i, n := range nodes {
		w[i] = (c.rules.balanceShard*float64(n.simCount) + c.rules.balanceIndex*w[i]) / theta
	}
	return w
}

// simBalance balances in the simulation until nothing differs by more than the threshold.
func (c *Cluster) simBalance(nodes []*node) {
	for moved := true; moved; {
		moved = false
		for _, idx := range c.indices {
			for c.simBalanceIndex(idx, nodes) {
				moved = true
				c.desire.moves++
			}
		}
		c.desire.iterations++
	}
}

func (c *Cluster) simBalanceIndex(idx *index, nodes []*node) bool {
	w := c.simWeights(idx, nodes)
	order := byWeight(w)
	for i := len(order) - 1; i > 0; i-- {
		from := nodes[order[i]]
		for _, j := range order[:i] {
			if w[order[i]]-w[j] <= c.rules.threshold+level {
				break
			}
			if s := c.simPick(idx, from, nodes[j]); s != nil {
				c.simMove(s, nodes[j])
				return true
			}
		}
	}
	return false
}

// simPick is a copy of the index that may go from one node to the other, rather one that stands than one on its way.
func (c *Cluster) simPick(idx *index, from, to *node) *shardCopy {
	for _, state := range []copyState{started, relocating} {
		for _, g := range idx.groups {
			for _, s := range g.copies {
				if s.simNode == from && s.state == state && c.mayRebalance(s) && c.simMay(s, to) {
					return s
				}
			}
		}
	}
	return nil
}

// reconcile starts moves towards the desired balance, within the limits for rebalancing.
func (c *Cluster) reconcile() {
	if !c.rebalances() || !c.readyToRebalance() {
		return
	}
	for _, idx := range c.indices {
		for _, g := range idx.groups {
			for _, s := range g.copies {
				if s.state != started || slices.Contains(g.desired, s.node) || !c.mayRebalance(s) || g.snapshot != nil && s.primary {
					continue
				}
				if !c.roomToRebalance() {
					return
				}
				for _, n := range g.desired {
					if c.nodeByID[n.id] == n && c.canAllocate(s, n) == yes {
						c.relocate(s, n, false)
						c.tally.Rebalanced++
						break
					}
				}
			}
		}
	}
}

// Wishes are the copies that stand, or are going to stand, elsewhere than the desired balance wants them.
func (c *Cluster) wishes() int {
	count := 0
	for s := range c.allCopies {
		if h := s.home(); h != nil && !slices.Contains(s.group.desired, h) {
			count++
		}
	}
	return count
}

// resetDesired recomputes from where the copies are. Queued hints stay queued, and so take effect.
func (c *Cluster) resetDesired() {
	c.dropDesired()
	c.reroute()
}
