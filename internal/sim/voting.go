package sim

import (
	"slices"
)

// exclusion takes a node's vote away: it is not elected, and no election waits for it.
type exclusion struct{ id, name string }

// excluded tells whether the node's vote has been taken away.
func (c *Cluster) excluded(id string) bool {
	return slices.ContainsFunc(c.exclusions, func(e exclusion) bool { return e.id == id })
}

// hasQuorum tells whether more than half of the voters can vote.
func (c *Cluster) hasQuorum(voters []string) bool {
	votes := 0
	for _, id := range voters {
		if n := c.nodeByID[id]; n != nil && !n.frozen {
			votes++
		}
	}
	return votes > len(voters)/2
}

// elect makes the first node that may be it the master, rather one that votes, if those who can vote are enough.
func (c *Cluster) elect() {
	if !c.hasQuorum(c.voters) {
		return
	}
	may := func(n *node) bool { return n.eligible() && !n.frozen && !c.refuses(n) }
	i := slices.IndexFunc(c.nodes, func(n *node) bool { return may(n) && !c.excluded(n.id) && slices.Contains(c.voters, n.id) })
	if i < 0 {
		i = slices.IndexFunc(c.nodes, func(n *node) bool { return may(n) && !c.excluded(n.id) })
	}
	if i < 0 {
		i = slices.IndexFunc(c.nodes, may)
	}
	if i < 0 {
		return
	}
	c.master = c.nodes[i]
	c.term++
	c.forgetDesired() // a new master knows of no wishes and hints
	c.bump()
	c.expel(slices.DeleteFunc(slices.Clone(c.nodes), func(n *node) bool { return !c.refuses(n) })...) // all join the new master, or are not let in
	c.reconfigure()
	c.reroute()
}

// reconfigure decides who votes, as the servers do: an odd number of those who are there and keep their vote, but not
// fewer than three where three could vote before.
func (c *Cluster) reconfigure() {
	if c.master == nil {
		return
	}
	var in, out, away []string
	for _, n := range c.nodes {
		switch {
		case !n.eligible() || c.excluded(n.id):
		case n == c.master || slices.Contains(c.voters, n.id):
			in = append(in, n.id)
		default:
			out = append(out, n.id)
		}
	}
	for _, id := range c.voters {
		if c.nodeByID[id] == nil && !c.excluded(id) {
			away = append(away, id)
		}
	}
	if i := slices.Index(in, c.master.id); i > 0 {
		in = slices.Insert(slices.Delete(in, i, i+1), 0, c.master.id)
	}
	odd := func(n int) int { return n - 1 + n%2 }
	kept := len(in) + len(away)
	if !slices.Contains(c.voters, c.master.id) {
		kept--
	}
	size := max(odd(len(in)+len(out)), 1)
	if odd(kept) >= 3 {
		size = max(size, 3)
	}
	order := slices.Concat(in, out, away)
	voters := order[:min(size, len(order))]
	if len(voters) > 0 && c.hasQuorum(voters) && !slices.Equal(voters, c.voters) {
		c.voters = slices.Clone(voters)
	}
}

// unvote takes votes away. A master among those steps down.
func (c *Cluster) unvote(list []exclusion) {
	for _, e := range list {
		if !slices.Contains(c.exclusions, e) {
			c.exclusions = append(c.exclusions, e)
		}
	}
	c.reconfigure()
	c.bump()
	if c.master != nil && c.excluded(c.master.id) {
		c.after(abdicationTime, func() {
			if c.master != nil && c.excluded(c.master.id) && slices.ContainsFunc(c.nodes, func(n *node) bool {
				return n.eligible() && !c.excluded(n.id) && !n.frozen
			}) {
				c.vacate(handOverTime)
			}
		})
	}
}

// revote gives all votes back.
func (c *Cluster) revote() {
	c.exclusions = nil
	c.reconfigure()
	c.bump()
}

// votesGone tells whether no excluded node votes or leads any more.
func (c *Cluster) votesGone() bool {
	return c.master != nil && !c.excluded(c.master.id) &&
		!slices.ContainsFunc(c.voters, func(id string) bool { return c.excluded(id) })
}

// Voters are the names of the nodes that vote for a master, the present one first.
func (c *Cluster) Voters() []string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var names []string
	for _, id := range c.voters {
		names = append(names, c.nameOf(id))
	}
	return names
}

func (c *Cluster) nameOf(id string) string {
	if n := c.nodeByID[id]; n != nil {
		return n.spec.Name
	}
	for _, n := range c.outside {
		if n.id == id {
			return n.spec.Name
		}
	}
	for name, n := range c.gone {
		if n.id == id {
			return name
		}
	}
	return id
}

// Master is the name of the elected master; "" while there is none.
func (c *Cluster) Master() string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.master == nil {
		return ""
	}
	return c.master.spec.Name
}

// SetOpen says what clients have open at a node. It reports whether there is such a node.
func (c *Cluster) SetOpen(name string, open Open) bool {
	return c.withNode(name, func(n *node) { n.open = open })
}
