package sim

import (
	"cmp"
	"slices"
)

// level is what two weights must differ by, beyond the threshold, to count as different: without it the last bit of a
// sum would send copies to and fro.
const level = 1e-6

// weights are the built-in balancer's opinion of each node for one more copy of an index: how far it is above the
// average in copies, and in copies of this index. It knows nothing of load, which is why this project exists.
func (c *Cluster) weights(idx *index, nodes []*node) []float64 {
	total, of := 0, make([]float64, len(nodes))
	for _, n := range nodes {
		total += n.count
	}
	// Counting over the copies of the index is cheaper than over the copies of every node.
	copies := 0
	for _, g := range idx.groups {
		for _, s := range g.copies {
			if i := s.home().among(nodes); i >= 0 {
				of[i]++
			}
			copies++
		}
	}
	theta := c.rules.balanceShard + c.rules.balanceIndex
	if theta == 0 {
		theta = 1
	}
	mean, meanOf := float64(total)/float64(len(nodes)), float64(copies)/float64(len(nodes))
	for i, n := range nodes {
		of[i] = (c.rules.balanceShard*(float64(n.count)-mean) + c.rules.balanceIndex*(of[i]-meanOf)) / theta
	}
	return of
}

// mayRebalance tells whether the balancer may move this copy: the index's setting, if there is one, wins over the
// cluster's, in both directions.
func (c *Cluster) mayRebalance(s *shardCopy) bool {
	setting := s.group.idx.rules.rebalance
	if setting == "" {
		setting = c.rules.rebalance
	}
	switch setting {
	case "none":
		return false
	case "primaries":
		return s.primary
	case "replicas":
		return !s.primary
	}
	return true
}

// rebalances tells whether the balancer has anything to do at all.
func (c *Cluster) rebalances() bool {
	if c.rules.rebalance != "none" {
		return true
	}
	return slices.ContainsFunc(c.indices, func(idx *index) bool { return idx.rules.rebalance != "" && idx.rules.rebalance != "none" })
}

// readyToRebalance is the rule of cluster.routing.allocation.allow_rebalance.
func (c *Cluster) readyToRebalance() bool {
	switch c.rules.allowRebalance {
	case "always":
		return true
	case "indices_primaries_active":
		for s := range c.allCopies {
			if s.primary && !s.active() {
				return false
			}
		}
		return true
	}
	// indices_all_active: a relocation's target counts as not active, so that the balancer moves one copy after the other.
	return len(c.unassigned) == 0 && len(c.recoveries) == 0
}

func (c *Cluster) roomToRebalance() bool {
	return c.instant || c.rules.concurrentRebalance < 0 || c.relocatingNow() < c.rules.concurrentRebalance
}

// balance is the built-in balancer: index by index it moves a copy from the heaviest node to the lightest that may take
// it, as long as the two differ by more than the threshold.
func (c *Cluster) balance() {
	if !c.rebalances() || !c.readyToRebalance() || len(c.nodes) < 2 {
		return
	}
	nodes := c.dataNodes()
	for moved := true; moved; {
		moved = false
		for _, idx := range c.indices {
			for c.roomToRebalance() && c.balanceIndex(idx, nodes) {
				moved = true
				if !c.readyToRebalance() {
					return
				}
			}
			if !c.roomToRebalance() {
				return
			}
		}
	}
}

// balanceIndex moves one copy of the index if that levels it.
func (c *Cluster) balanceIndex(idx *index, nodes []*node) bool {
	w := c.weights(idx, nodes)
	low := slices.Min(w)
	if slices.Max(w)-low <= c.rules.threshold+level {
		return false
	}
	order := byWeight(w)
	for i := len(order) - 1; i > 0; i-- {
		from := nodes[order[i]]
		if w[order[i]]-low <= c.rules.threshold+level {
			return false
		}
		for _, j := range order[:i] {
			if w[order[i]]-w[j] <= c.rules.threshold+level {
				break
			}
			for _, s := range slices.Backward(from.copies) { // what came last goes first
				if s.group.idx != idx || s.state != started || !c.mayRebalance(s) || s.group.snapshot != nil && s.primary {
					continue
				}
				if c.canAllocate(s, nodes[j]) == yes {
					c.relocate(s, nodes[j], false)
					c.tally.Rebalanced++
					return true
				}
			}
		}
	}
	return false
}

// byWeight are the positions from the lightest to the heaviest.
func byWeight(w []float64) []int {
	order := make([]int, len(w))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(w[a], w[b]) })
	return order
}
