package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	// electionTime is how long a cluster that lost its master has none.
	electionTime = 1500 * time.Millisecond
	// abdicationTime passes until a master whose vote was taken away steps down: 0.5 s were seen on real clusters.
	abdicationTime = 500 * time.Millisecond
	// handOverTime is how long there is none where the old one hands over.
	handOverTime = 500 * time.Millisecond
	// failureTime passes until a process that does not answer is put out of the cluster, or loses it as its master: three
	// checks, each waited for ten seconds, and a second between them.
	failureTime = 33 * time.Second
	// publishTime is how long a change waits for every node to take note of it before the request is answered.
	publishTime = 30 * time.Second
	// rejoinTime passes until a process that lost its cluster asks to be let in again.
	rejoinTime = time.Second
	// noticeTime passes until a process that was put out knows it: until then it still hands requests on to the master.
	// 3.6 to 4.3 s were seen on real clusters.
	noticeTime = 4 * time.Second
)

func (c *Cluster) defaultRoles() []string {
	if !c.elastic() {
		roles := []string{"cluster_manager", "data", "ingest", "remote_cluster_client"}
		if !c.at(2, 0) {
			roles[0] = "master"
		}
		slices.Sort(roles)
		return roles
	}
	return []string{
		"data", "data_cold", "data_content", "data_frozen", "data_hot", "data_warm", "ingest", "master", "ml",
		"remote_cluster_client", "transform",
	}
}

// AddNode lets a node join now. It gives the node's id, and an error where the name is taken.
func (c *Cluster) AddNode(spec NodeSpec) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if spec.Name == "" {
		spec.Name = fmt.Sprintf("n%d", c.ordinal+1)
	}
	if c.gone[spec.Name] != nil || c.process(spec.Name) != nil {
		return "", fmt.Errorf("sim: there is a node %q already", spec.Name)
	}
	if spec.Roles == nil {
		spec.Roles = c.defaultRoles()
	}
	if spec.Processors == 0 {
		spec.Processors = 8
	}
	if spec.Disk == 0 {
		spec.Disk = 1e12
	}
	if spec.Version == "" {
		spec.Version = c.cfg.Version
	}
	v, err := parseVersion(spec.Version)
	if err != nil {
		return "", fmt.Errorf("sim: node %q: %w", spec.Name, err)
	}
	c.ordinal++
	n := &node{
		spec: spec, id: c.newID(), version: v, ordinal: c.ordinal, zone: maps.Clone(spec.Attributes), port: 9300,
		ip: fmt.Sprintf("10.%d.%d.%d", c.ordinal>>16&255, c.ordinal>>8&255, c.ordinal&255),
	}
	if n.zone == nil {
		n.zone = map[string]string{}
	}
	if n.spec.Host == "" {
		n.spec.Host = n.ip
	} else if first := slices.IndexFunc(c.nodes, func(m *node) bool { return m.spec.Host == spec.Host }); first >= 0 {
		n.ip, n.port = c.nodes[first].ip, 9300+c.ordinal
	}
	c.join(n)
	if s := c.served.Load(); s != nil {
		return n.id, s.listen(n.spec.Name)
	}
	return n.id, nil
}

// join starts a node's process, new or once more, and takes it into the cluster.
func (c *Cluster) join(n *node) {
	n.ephemeral = c.newID()
	n.since = c.now
	c.admit(n)
}

// admit takes a process into the cluster, or leaves it outside where the cluster refuses it.
func (c *Cluster) admit(n *node) {
	if c.refuses(n) {
		c.putOut(n)
		return
	}
	c.outside = slices.DeleteFunc(c.outside, func(m *node) bool { return m == n })
	n.last = nil
	c.nodes = append(c.nodes, n)
	c.nodeByID[n.id] = n
	if len(c.voters) == 0 && n.eligible() {
		c.voters = []string{n.id} // the first of a new cluster
	}
	c.ensureInfo(n)
	c.survey()
	c.reconfigure()
	c.voteAgain()
	c.bump()
	if len(c.indices) > 0 {
		c.reroute()
	}
}

// voteAgain elects a master where there is none and it is time.
func (c *Cluster) voteAgain() {
	if c.master == nil && c.now >= c.vacantUntil {
		c.elect()
	}
}

// loseMaster leaves the cluster without a master until another is elected, at the soonest after the time it takes.
func (c *Cluster) loseMaster(without time.Duration) {
	c.vacate(max(without, electionTime))
}

// vacate leaves the cluster without a master for so long.
func (c *Cluster) vacate(d time.Duration) {
	c.master, c.vacantUntil = nil, c.now+d
	c.bump()
	c.after(c.vacantUntil-c.now, func() {
		if c.master == nil && c.now >= c.vacantUntil {
			c.elect()
		}
	})
}

// ChangeMaster makes the master step down; another node is elected a moment later. With one eligible node it is the
// same again.
func (c *Cluster) ChangeMaster() { c.LoseMaster(electionTime) }

// LoseMaster makes the master step down and keeps any other from being elected for so long.
func (c *Cluster) LoseMaster(without time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.master == nil {
		return
	}
	old := c.master
	i := slices.Index(c.nodes, old)
	c.nodes = append(slices.Delete(c.nodes, i, i+1), old) // the last to be elected again
	c.loseMaster(without)
}

// Kill ends a node's process as kill -9 does. Its disk stays for a Restart. It reports whether there was such a node.
func (c *Cluster) Kill(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.process(name)
	if n == nil {
		return false
	}
	c.gone[n.spec.Name] = n
	n.frozen = false
	n.asks++ // whatever was to become of it
	if n.last != nil {
		c.outside = slices.DeleteFunc(c.outside, func(m *node) bool { return m == n })
		c.wake()
	} else {
		c.depart(n)
	}
	n.departed = totals{}
	return true
}

// expel puts nodes out of the cluster, all at once. Their processes run on, and ask to be let in again.
func (c *Cluster) expel(nodes ...*node) {
	for _, n := range nodes {
		c.putOut(n)
	}
	for _, n := range nodes {
		c.depart(n)
	}
}

// putOut makes the process one outside the cluster, with what it knew last.
func (c *Cluster) putOut(n *node) {
	if n.last == nil {
		n.last = &lastSeen{c.now, c.seen().keep()}
		c.outside = append(c.outside, n)
	}
	wait := rejoinTime
	if c.refuses(n) && n.last.at != c.now { // it has been told, and asks less often from then on
		wait = c.rules.askAgain
	}
	c.comeBack(n, wait)
}

// comeBack lets a process outside the cluster ask to be let in after a while, and again until it is.
func (c *Cluster) comeBack(n *node, wait time.Duration) {
	n.asks++
	ask := n.asks
	c.after(wait, func() {
		if n.last == nil || n.asks != ask || n.frozen {
			return
		}
		if c.master == nil && len(c.nodes) > 0 && !n.eligible() { // nobody to let it in; one that may lead helps to elect
			c.comeBack(n, rejoinTime)
			return
		}
		c.admit(n)
	})
}

// lastSeen is what a process outside the cluster knew of it last, and when that was.
type lastSeen struct {
	at time.Duration
	view
}

// view is what a node knows of the cluster beside the indices.
type view struct {
	nodes        []*node
	data         int // of these, data nodes
	master       *node
	voters       []string
	exclusions   []exclusion
	weighted     *routingWeights
	decommission *decommission
}

// seen is the cluster as its nodes know it now.
func (c *Cluster) seen() view {
	return view{c.nodes, len(c.topology.data), c.master, c.voters, c.exclusions, c.weighted, c.decommission}
}

// keep makes the view one that later changes do not touch.
func (v view) keep() view {
	v.nodes, v.voters, v.exclusions = slices.Clone(v.nodes), slices.Clone(v.voters), slices.Clone(v.exclusions)
	v.weighted = v.weighted.clone()
	if v.decommission != nil {
		d := *v.decommission
		v.decommission = &d
	}
	v.master = nil
	return v
}

// process is the running process of that name, in the cluster or outside; nil if there is none.
func (c *Cluster) process(name string) *node {
	if n := c.node(name); n != nil {
		return n
	}
	for _, n := range c.outside {
		if n.spec.Name == name || n.id == name {
			return n
		}
	}
	return nil
}

// depart takes a node out of the cluster with all that is on it.
func (c *Cluster) depart(n *node) {
	c.nodes = slices.DeleteFunc(c.nodes, func(m *node) bool { return m == n })
	delete(c.nodeByID, n.id)
	left := fmt.Sprintf("node_left [%s]", n.id)

	// What was arriving there is over: a relocation's source is a started copy again.
	for _, s := range slices.Clone(n.copies) {
		if s.source != nil {
			c.cancelRelocation(s.source, true)
		}
	}
	for _, s := range slices.Clone(n.copies) {
		switch {
		case s.state == unassigned || s.node != n:
			continue // went with another one
		case s.primary:
			c.losePrimary(s, "NODE_LEFT", left, s.group.idx.rules.delayed)
		case s.target != nil:
			// A replica's bytes come from the primary, not from the lost node: the target goes on by itself.
			t := s.target
			if s.command {
				c.tally.Failed++
			}
			c.settle(s.group)
			s.target, t.source = nil, nil
			c.leave(s)
			s.group.copies[slices.Index(s.group.copies, s)] = t
			c.rerate(s.group)
		default:
			c.unassign(s, "NODE_LEFT", left, s.group.idx.rules.delayed)
		}
	}
	n.copies, n.count = nil, 0
	c.survey()
	c.bump()
	if c.master == n || c.master != nil && !c.hasQuorum(c.voters) {
		c.loseMaster(0)
		return
	}
	c.reconfigure()
	c.reroute()
}

// losePrimary takes an active primary off its node: everything recovering from it fails, an active replica takes over.
func (c *Cluster) losePrimary(s *shardCopy, reason, details string, delayed time.Duration) {
	g := s.group
	c.settle(g)
	var heir *shardCopy
	for _, r := range g.copies {
		if r == s {
			continue
		}
		if r.target != nil {
			c.cancelRelocation(r, true)
		}
		if r.state == initializing {
			c.unassign(r, "PRIMARY_FAILED", "primary failed while replica initializing", 0)
			r.lastNode = nil
		}
		if r.active() && heir == nil && r.node != s.node {
			heir = r
		}
	}
	if heir == nil {
		c.unassign(s, reason, details, 0)
		return
	}
	s.primary, heir.primary = false, true
	g.primaryTerm++
	// The group lists its primary first.
	i, j := slices.Index(g.copies, s), slices.Index(g.copies, heir)
	g.copies[i], g.copies[j] = g.copies[j], g.copies[i]
	c.unassign(s, reason, details, delayed)
}

// Restart brings a killed node back, with its id and disk and a new process. It reports whether there was one.
func (c *Cluster) Restart(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.gone[name]
	if old == nil {
		return false
	}
	delete(c.gone, name)
	n := &node{
		spec: old.spec, id: old.id, version: old.version, ordinal: old.ordinal, zone: old.zone, ip: old.ip, port: old.port,
		extra: old.extra, shutdown: old.shutdown, open: Open{HTTP: old.open.HTTP},
	}
	c.join(n)
	return true
}

// Freeze halts a node's process as SIGSTOP does, or lets it run on: it keeps its connections and answers nothing, its
// searches and all writes it has a copy of hang. After half a minute the cluster goes on without it; it comes back once it
// runs on. It reports whether there is such a process.
func (c *Cluster) Freeze(name string, frozen bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.process(name)
	if n == nil || n.frozen == frozen {
		return n != nil
	}
	var held []*group
	for _, s := range n.copies {
		c.settle(s.group)
		held = append(held, s.group)
	}
	n.frozen = frozen
	for _, g := range held {
		c.rerate(g)
	}
	c.repace()
	c.wake()
	if !frozen {
		if n.last != nil {
			c.comeBack(n, rejoinTime)
		}
		c.voteAgain()
		return true
	}
	n.asks++
	since := n.asks
	c.after(failureTime, func() {
		if n.frozen && n.asks == since && c.nodeByID[n.id] == n {
			c.expel(n)
		}
	})
	return true
}

// Mute makes a node answer no statistics, or answer again, as one that is overloaded; in all else it is as before.
func (c *Cluster) Mute(name string, mute bool) bool {
	return c.withNode(name, func(n *node) { n.mute = mute })
}

// Break makes every recovery towards a node fail in the end (or succeed again); what it holds it keeps.
func (c *Cluster) Break(name string, broken bool) bool {
	return c.withNode(name, func(n *node) { n.broken = broken })
}

// FillDisk lets something other than shards take bytes of a node's disk; negative gives them back.
func (c *Cluster) FillDisk(name string, bytes int64) bool {
	return c.withNode(name, func(n *node) { n.extra += bytes })
}

// Reject adds to the rejections of a node's search and write pools.
func (c *Cluster) Reject(name string, search, write int) bool {
	return c.withNode(name, func(n *node) {
		n.rejected[0] += float64(search)
		n.rejected[1] += float64(write)
	})
}

// Upgrade gives a killed node another version, for its restart.
func (c *Cluster) Upgrade(name, text string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, err := parseVersion(text)
	if err != nil {
		return err
	}
	if n := c.gone[name]; n != nil {
		n.version, n.spec.Version = v, text
		return nil
	}
	return fmt.Errorf("sim: node %q is not down", name)
}

// Shutdown marks a node as leaving (Elasticsearch): REMOVE, RESTART, REPLACE or SIGTERM; "" takes the mark off.
func (c *Cluster) Shutdown(name, kind string) bool {
	return c.withNode(name, func(n *node) {
		n.shutdown = strings.ToUpper(kind)
		c.unfit = true
		c.chances++
		c.bump()
		c.reroute()
	})
}

func (c *Cluster) withNode(name string, do func(*node)) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.node(name)
	if n == nil {
		return false
	}
	do(n)
	return true
}

// NodesIn are the names of the nodes whose attribute has the value, sorted: in the cluster, put out of it, or not running.
func (c *Cluster) NodesIn(attribute, value string) []string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var list []string
	for _, n := range slices.Concat(c.nodes, c.outside, slices.Collect(maps.Values(c.gone))) {
		if n.zone[attribute] == value {
			list = append(list, n.spec.Name)
		}
	}
	slices.Sort(list)
	return list
}

// NodeID is the id of a live node; "" if there is none of that name.
func (c *Cluster) NodeID(name string) string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if n := c.node(name); n != nil {
		return n.id
	}
	return ""
}
