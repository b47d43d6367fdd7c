package sim

import (
	"slices"
	"strings"
	"time"
)

// The states of a decommission, as the metadata words them.
const (
	decommissionInit       = "init"
	decommissionDraining   = "draining"
	decommissionInProgress = "in_progress"
	decommissionSuccessful = "successful"
	decommissionFailed     = "failed"
)

// What the steps of a decommission take, as real clusters were seen to need: 0.2 to 0.4 s for each change of the metadata; and
// the time after which the cluster gives up waiting for votes to be gone.
const (
	decommissionStep  = 300 * time.Millisecond
	decommissionLimit = 2 * time.Minute
	defaultDrain      = 2 * time.Minute
)

// decommission takes the nodes of one value of an awareness attribute out of the cluster (OpenSearch 2.4 and newer).
type decommission struct {
	attribute, value string
	status           string
	request          string // its id
	drain            time.Duration
	leader           *node // the master whose business it is
}

// active tells whether it stands in the way of other changes: in every state but failed.
func (d *decommission) active() bool { return d != nil && d.status != decommissionFailed }

// refuses tells whether the cluster does not let the node in.
func (c *Cluster) refuses(n *node) bool {
	d := c.decommission
	return d != nil && d.status != decommissionInit && d.status != decommissionFailed && n.zone[d.attribute] == d.value
}

// in tells whether the node is one of those to go.
func (d *decommission) in(n *node) bool { return n.zone[d.attribute] == d.value }

// decommissioning begins to take a zone out, or says why not, in the order the server looks.
func (c *Cluster) decommissioning(attribute, value string, drain time.Duration) *apiError {
	bad := func(format string, args ...any) *apiError {
		e := illegal("["+labelOf(attribute, value)+"] "+format, args...)
		if e.kind = "decommissioning_failed_exception"; !c.at(2, 5) {
			e.status = 500
		}
		return e
	}
	_, forced := c.rules.forced[attribute]
	switch {
	case !c.isAware(attribute):
		return bad("invalid awareness attribute requested for decommissioning")
	case !forced:
		return bad("forced awareness attribute [{%s}] doesn't have the decommissioning attribute", strings.Join(sortedKeys(c.rules.forced), ", "))
	}
	if d := c.decommission; d.active() {
		switch same := d.attribute == attribute && d.value == value; {
		case same:
			return bad("same request is already in status [%s]", strings.ToUpper(d.status))
		case d.status == decommissionSuccessful:
			return bad("one awareness attribute [%s] already successfully decommissioned, recommission before triggering another decommission",
				labelOf(d.attribute, d.value))
		}
		return bad("there's an inflight decommission request for attribute [%s] is in progress, cannot process this request", labelOf(d.attribute, d.value))
	}
	switch w := c.weighted; {
	case w == nil || len(w.values) == 0:
		return bad("no weights are set to the attribute. Please set appropriate weights before triggering decommission action")
	case w.attribute != attribute:
		return bad("no weights are specified to attribute [%s]", attribute)
	case w.values[value] != 0:
		return bad("weight for decommissioned attribute is expected to be [0.0] but found [%s]", javaDouble(w.values[value]))
	}
	d := &decommission{attribute: attribute, value: value, status: decommissionInit, drain: drain, leader: c.master}
	var eligible []exclusion
	for _, n := range c.nodes {
		if n.eligible() && d.in(n) {
			eligible = append(eligible, exclusion{n.id, n.spec.Name})
		}
	}
	if len(eligible) == 0 {
		return illegal("Please set node identifiers correctly. One and only one of [node_name], [node_names] and [node_ids] has to be set")
	}
	if most := c.rules.exclusions; len(c.exclusions)+len(eligible) > most {
		return illegal("add voting config exclusions request for %v would add [%d] exclusions to the existing [%d] which would exceed the maximum of [%d] set by [cluster.max_voting_config_exclusions]",
			eligible, len(eligible), len(c.exclusions), most)
	}
	d.request = c.newID()
	c.decommission = d
	c.unvote(eligible)
	c.bump()
	c.awaitLeaderOutside(d, c.now+decommissionLimit)
	return nil
}

func labelOf(attribute, value string) string {
	return "DecommissionAttribute{attributeName='" + attribute + "', attributeValue='" + value + "'}"
}

func names(nodes []*node) []string {
	var list []string
	for _, n := range nodes {
		list = append(list, n.spec.Name)
	}
	return list
}

// awaitLeaderOutside waits until nobody of the zone leads or votes, and gives up after a while. A master of the zone hands
// the request over to its successor; with any other it is forgotten, and the status stays at INIT.
func (c *Cluster) awaitLeaderOutside(d *decommission, until time.Duration) {
	c.after(decommissionStep, func() {
		switch {
		case c.decommission != d || c.master != nil && c.master != d.leader && !d.in(d.leader):
		case c.votesGone():
			d.leader = c.master
			c.after(decommissionStep, func() { c.beginDrain(d) })
		case c.now >= until:
			c.endDecommission(d, decommissionFailed)
		default:
			c.awaitLeaderOutside(d, until)
		}
	})
}

// beginDrain notes which nodes go; the elected master's own clock then decides when. That clock is all there is: a
// master that dies takes it along, a recommission does not stop it, and it acts on whatever decommission it then finds.
func (c *Cluster) beginDrain(d *decommission) {
	if c.decommission != d || c.master != d.leader {
		return
	}
	going := slices.DeleteFunc(slices.Clone(c.nodes), func(n *node) bool { return !d.in(n) })
	if d.drain <= 0 {
		c.fence(d.leader, going)
		return
	}
	d.status = decommissionDraining
	c.bump()
	c.after(d.drain, func() { c.fence(d.leader, going) })
}

// fence puts the nodes out.
func (c *Cluster) fence(leader *node, going []*node) {
	d := c.decommission
	if d == nil || c.master != leader || d.status != decommissionInit && d.status != decommissionDraining {
		return
	}
	d.status = decommissionInProgress
	c.bump()
	still := func() bool { return c.decommission == d && c.master == leader }
	c.after(decommissionStep, func() {
		if still() {
			c.expel(slices.DeleteFunc(going, func(n *node) bool { return c.nodeByID[n.id] != n })...)
		}
		c.after(decommissionStep, func() {
			if still() {
				c.endDecommission(d, decommissionSuccessful)
			}
		})
	})
}

func (c *Cluster) endDecommission(d *decommission, status string) {
	d.status = status
	c.revote()
}

// recommission forgets the decommission in whatever state it is, and gives every vote back, whoever took it.
func (c *Cluster) recommission() {
	c.decommission = nil
	c.revote()
}

// Decommission takes the nodes of a zone out of the cluster as a person would: after so long a drain, at once where it is 0.
func (c *Cluster) Decommission(attribute, value string, drain time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.hasWeights() {
		return illegal("this product knows no decommission")
	}
	if err := c.decommissioning(attribute, value, drain); err != nil {
		return err
	}
	return nil
}

// Recommission lets a zone that was decommissioned come back.
func (c *Cluster) Recommission() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recommission()
}

// Decommissioned is the zone being or having been taken out, and how far that is: "init", "draining", "in_progress",
// "successful", "failed"; all empty where there is none.
func (c *Cluster) Decommissioned() (attribute, value, status string) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if d := c.decommission; d != nil {
		return d.attribute, d.value, d.status
	}
	return "", "", ""
}
