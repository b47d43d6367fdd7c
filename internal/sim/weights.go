package sim

import (
	"maps"
	"slices"
)

// routingWeights are the searches' weights by the values of one awareness attribute (OpenSearch 2.4 and newer).
type routingWeights struct {
	attribute string
	values    map[string]float64
	version   int64
}

// clone is a copy of its own; nil of nil.
func (w *routingWeights) clone() *routingWeights {
	if w == nil {
		return nil
	}
	return &routingWeights{w.attribute, maps.Clone(w.values), w.version}
}

// hasWeights tells whether the product knows weights.
func (c *Cluster) hasWeights() bool { return !c.elastic() && c.at(2, 4) }

// countsFailOpen tells whether node statistics say how often searches fell back on standby copies.
func (c *Cluster) countsFailOpen() bool { return c.hasWeights() && c.at(2, 6) }

// weighing is the weights that searches follow now; nil where there are none or they are switched off.
func (c *Cluster) weighing() *routingWeights {
	if c.weighted == nil || len(c.weighted.values) == 0 || c.rules.ignoreWeights {
		return nil
	}
	return c.weighted
}

// weightOf is what a node's copies get of the searches; a node whose value has no weight gets the default one.
func (c *Cluster) weightOf(n *node) float64 {
	w := c.weighing()
	if w == nil {
		return 1
	}
	if x, ok := w.values[n.zone[w.attribute]]; ok {
		return max(x, 0)
	}
	return c.rules.defaultWeight
}

// weighedAway tells whether the node counts as standby. The server cuts the fraction off here, so that 0.5 is one, though
// the turns of its searches go by the whole number.
func (c *Cluster) weighedAway(n *node) bool { return c.weighing() != nil && int(c.weightOf(n)) == 0 }

// awarenessValues are the values of the attribute that a weight must be given for: those of data nodes and the forced ones.
func (c *Cluster) awarenessValues(attribute string) []string { return c.topology.values[attribute] }

func (c *Cluster) isAware(attribute string) bool {
	return slices.Contains(c.rules.awareness, attribute)
}

// setWeights replaces the weights, or says why not. What the request says by itself has been looked at before.
func (c *Cluster) setWeights(attribute string, values map[string]float64, version int64) *apiError {
	zeros := 0
	known := c.awarenessValues(attribute)
	for _, v := range known {
		x, ok := values[v]
		if !ok {
			return unsupportedWeights("weight for [%s] is not set and it is part of forced awareness value or a routing node has this attribute.", v)
		}
		if x == 0 {
			zeros++
		}
	}
	if most := len(known) / 2; zeros > most {
		return notValid("There are too many discovered attribute values [%s] given zero weight [%d]. Maximum expected number of routing weights having zero weight is [%d]",
			javaMap(values), zeros, most)
	}
	if d := c.decommission; d.active() {
		x, ok := values[d.value]
		switch {
		case d.attribute != attribute:
			return unsupportedWeights("decommission action ongoing for attribute [%s], cannot update weight for [%s]", d.attribute, attribute)
		case !ok:
			return unsupportedWeights("weight for [%s] is not specified. Please specify its weight to [0.0] as it is under decommission action", d.value)
		case x != 0:
			return unsupportedWeights("weight for [%s] must be set to [0.0] as it is under decommission action", d.value)
		}
	}
	if err := c.weightsAt(version); err != nil {
		return err
	}
	if w := c.weighted; w != nil && w.attribute == attribute && maps.Equal(w.values, values) {
		return nil
	}
	c.changeWeights(func() { c.weighted = &routingWeights{attribute, values, version + 1} })
	return nil
}

// dropWeights leaves weights without a value behind, as the server does: the version goes on.
func (c *Cluster) dropWeights(version int64) *apiError {
	if err := c.weightsAt(version); err != nil || c.weighted == nil {
		return err
	}
	c.changeWeights(func() { c.weighted = &routingWeights{"", map[string]float64{}, version + 1} })
	return nil
}

// weightsAt refuses a request that was made for another version than the present one.
func (c *Cluster) weightsAt(version int64) *apiError {
	if have := c.weightsVersion(); have != version {
		return unsupportedWeights("requested version is %d but cluster weighted routing metadata is at a different version %d ", version, have)
	}
	return nil
}

// weightsVersion is -1 as long as nobody has set weights.
func (c *Cluster) weightsVersion() int64 {
	if c.weighted == nil {
		return -1
	}
	return c.weighted.version
}

func (c *Cluster) changeWeights(do func()) {
	for _, g := range c.allGroups() {
		c.settle(g) // with the old ones
	}
	do()
	for _, g := range c.allGroups() {
		c.rerate(g)
	}
	c.bump()
}

func unsupportedWeights(format string, args ...any) *apiError {
	e := illegal(format, args...)
	e.status, e.kind = 409, "unsupported_weighted_routing_state_exception"
	return e
}

// SetWeights changes the searches' weights as a person would, whatever their version is, and gives the new one.
func (c *Cluster) SetWeights(attribute string, values map[string]float64) (version int64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.hasWeights() || !c.isAware(attribute) {
		return 0, illegal("invalid awareness attribute %s requested for weighted routing", attribute)
	}
	if err := c.setWeights(attribute, maps.Clone(values), c.weightsVersion()); err != nil {
		return 0, err
	}
	return c.weighted.version, nil
}

// Weights are the searches' weights by value of the attribute they are for, and their version, -1 if never set.
func (c *Cluster) Weights() (attribute string, values map[string]float64, version int64) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.weighted == nil {
		return "", nil, -1
	}
	return c.weighted.attribute, maps.Clone(c.weighted.values), c.weighted.version
}

// shareByWeight divides a group's searches among its active copies. With weights their turns go by weight, and copies of
// weight zero have none unless no other is there; without, each has the same, or, with adaptive selection, favourites.
func (c *Cluster) shareByWeight(g *group) {
	weights := c.weighing()
	g.serving = 0
	sum, away := 0.0, 0
	for _, s := range g.copies {
		s.share, s.slot = 0, g.serving
		if !s.active() || g.idx.closed {
			continue
		}
		s.share = 1
		switch {
		case weights != nil:
			s.share = c.weightOf(s.node)
		case c.rules.adaptive:
			s.share = 0.5 + fraction(s.aid) // adaptive selection has favourites
		}
		if s.share == 0 {
			away++
			continue
		}
		g.serving++
		sum += s.share
	}
	open := weights != nil && g.serving == 0 && away > 0 && c.rules.failOpen
	if open {
		for _, s := range g.copies {
			if s.active() && !g.idx.closed {
				s.share, s.slot = 1, g.serving
				g.serving++
				sum++
			}
		}
		if !g.open { // the server counts when it begins, not how often it is used
			for _, n := range c.nodes {
				n.failOpen++
			}
		}
	}
	g.open = open
	for _, s := range g.copies {
		if s.share > 0 {
			s.share /= sum
		}
	}
}
