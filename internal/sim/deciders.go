package sim

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// verdict is a decider's answer, the worse the higher.
type verdict uint8

const (
	yes verdict = iota
	throttle
	no
)

func (v verdict) String() string { return [...]string{"YES", "THROTTLE", "NO"}[v] }

// question is what a decider is asked, and room for its reason. Reasons are only written where somebody reads them.
type question struct {
	command bool // by a reroute command, which the enable settings do not bind
	explain bool
	sim     bool // about a desired balance under computation, not about the cluster as it is
	text    string
}

func (q *question) say(v verdict, format string, args ...any) verdict {
	if q.explain {
		q.text = fmt.Sprintf(format, args...)
	}
	return v
}

// decider answers whether a copy may be put on a node.
type decider struct {
	name string
	may  func(c *Cluster, s *shardCopy, n *node, q *question) verdict
}

var (
	dMaxRetry        = decider{"max_retry", (*Cluster).maxRetry}
	dReplicaAfter    = decider{"replica_after_primary_active", (*Cluster).replicaAfterPrimary}
	dConcurrent      = decider{"cluster_concurrent_recoveries", (*Cluster).concurrentRecoveries}
	dEnable          = decider{"enable", (*Cluster).enabled}
	dIndexVersion    = decider{"index_version", (*Cluster).indexVersion}
	dNodeVersion     = decider{"node_version", (*Cluster).nodeVersion}
	dSnapshot        = decider{"snapshot_in_progress", (*Cluster).snapshotInProgress}
	dRestore         = decider{"restore_in_progress", always("ignored as shard is not being recovered from a snapshot")}
	dShutdown        = decider{"node_shutdown", (*Cluster).nodeShutdown}
	dReplacement     = decider{"node_replacement", always("there are no ongoing node replacements")}
	dFilter          = decider{"filter", (*Cluster).filter}
	dSearchReplica   = decider{"search_replica_allocation", always("neither the shard nor the node is for search only")}
	dSameShard       = decider{"same_shard", (*Cluster).sameShard}
	dDisk            = decider{"disk_threshold", (*Cluster).diskThreshold}
	dThrottling      = decider{"throttling", (*Cluster).throttling}
	dShardsLimit     = decider{"shards_limit", (*Cluster).shardsLimit}
	dAwareness       = decider{"awareness", (*Cluster).awareness}
	dLoadAwareness   = decider{"load_awareness", (*Cluster).loadAwareness}
	dTargetPool      = decider{"target_pool", always("local shards may live on this node")}
	dRemoteMigration = decider{"remote_store_migration", always("no migration to a remote store is under way")}
	dWriteLoad       = decider{"write_load", always("the write load decider is disabled")}
	dIndexBalance    = decider{"index_balance", always("the index balance decider is disabled")}
	dDataTier        = decider{"data_tier", (*Cluster).dataTier}
)

// productDeciders are those the product prints for a command, in its order.
func (c *Cluster) productDeciders() []decider {
	if !c.elastic() {
		list := []decider{dMaxRetry, dReplicaAfter, dConcurrent, dEnable, dNodeVersion, dSnapshot, dRestore, dFilter}
		if c.at(3, 0) {
			list = append(list, dSearchReplica)
		}
		return append(list, dSameShard, dDisk, dThrottling, dShardsLimit, dAwareness, dLoadAwareness, dTargetPool, dRemoteMigration)
	}
	list := []decider{dMaxRetry, dReplicaAfter, dEnable}
	if c.at(8, 0) {
		list = append(list, dIndexVersion)
	}
	list = append(list, dNodeVersion, dSnapshot, dRestore, dShutdown, dReplacement, dFilter, dSameShard, dDisk, dThrottling,
		dShardsLimit, dAwareness)
	if c.at(9, 1) {
		list = append(list, dWriteLoad, dIndexBalance)
	}
	if !c.cfg.OSS {
		list = append(list, dDataTier)
	}
	return list
}

// canAllocate is the worst verdict of all deciders on putting s on n.
func (c *Cluster) canAllocate(s *shardCopy, n *node) verdict {
	var q question
	worst := yes
	for _, d := range c.deciders {
		if v := d.may(c, s, n, &q); v > worst {
			if v == no {
				return no
			}
			worst = v
		}
	}
	return worst
}

// decision is one decider's answer for a person.
type decision struct {
	decider string
	verdict verdict
	text    string
}

// decide asks every decider about one move for a person.
func (c *Cluster) decide(s *shardCopy, n *node, command bool) (verdict, []decision) {
	worst := yes
	var list []decision
	for _, d := range c.deciders {
		q := question{command: command, explain: true}
		v := d.may(c, s, n, &q)
		worst = max(worst, v)
		list = append(list, decision{d.name, v, q.text})
	}
	return worst, list
}

func always(text string) func(*Cluster, *shardCopy, *node, *question) verdict {
	return func(_ *Cluster, _ *shardCopy, _ *node, q *question) verdict { return q.say(yes, "%s", text) }
}

func (c *Cluster) maxRetry(s *shardCopy, _ *node, q *question) verdict {
	limit := s.group.idx.rules.maxRetries
	switch {
	case s.why.failed >= limit:
		return q.say(no, "shard has exceeded the maximum number of retries [%d] on failed allocation attempts", limit)
	case s.failures >= limit:
		return q.say(no, "shard has exceeded the maximum number of retries [%d] on failed relocation attempts", limit)
	}
	return q.say(yes, "shard has no previous failures")
}

func (c *Cluster) replicaAfterPrimary(s *shardCopy, _ *node, q *question) verdict {
	if s.primary {
		return q.say(yes, "shard is primary and can be allocated")
	}
	if p := s.group.primary(); p == nil || !p.active() {
		return q.say(no, "primary shard for this replica is not yet active")
	}
	return q.say(yes, "primary shard for this replica is already active")
}

func (c *Cluster) relocatingNow() int {
	count := 0
	for _, r := range c.recoveries {
		if r.copy.source != nil {
			count++
		}
	}
	return count
}

func (c *Cluster) concurrentRecoveries(_ *shardCopy, _ *node, q *question) verdict {
	limit := c.rules.concurrentRecoveries
	if limit < 0 {
		return q.say(yes, "undefined cluster concurrent recoveries")
	}
	if now := c.relocatingNow(); now >= limit {
		return q.say(throttle, "too many concurrent recoveries [%d], limit: [%d] cluster setting "+
			"[cluster.routing.allocation.cluster_concurrent_recoveries=%d]", now, limit, limit)
	}
	return q.say(yes, "below threshold [%d] for concurrent recoveries", limit)
}

func (c *Cluster) enabled(s *shardCopy, _ *node, q *question) verdict {
	if q.command {
		return q.say(yes, "explicitly ignoring any disabling of allocation due to manual allocation commands")
	}
	setting, where := s.group.idx.rules.allocation, "index setting [index.routing.allocation.enable]"
	if setting == "" {
		setting, where = c.rules.allocation, "cluster setting [cluster.routing.allocation.enable]"
	}
	fresh := s.primary && s.state == unassigned && s.lastNode == nil
	if setting == "all" || setting == "primaries" && s.primary || setting == "new_primaries" && fresh {
		return q.say(yes, "all allocations are allowed")
	}
	return q.say(no, "this kind of allocation is forbidden by %s: [%s]", where, setting)
}

// nodeVersion keeps data from going back to an older version: a primary only to the same or newer, a replica only to
// where at least its primary's version runs.
func (c *Cluster) nodeVersion(s *shardCopy, n *node, q *question) verdict {
	p := s.group.primary()
	if s.primary {
		if s.node == nil {
			return q.say(yes, "no active primary shard yet")
		}
		p = s
	}
	if p == nil || p.node == nil {
		return q.say(yes, "no active primary shard yet")
	}
	if n.version.older(p.node.version) {
		return q.say(no, "target node version [%s] is older than the source node version [%s]", n.version, p.node.version)
	}
	if s.primary && s.group.idx.settings["index.replication.type"] == "SEGMENT" {
		for _, r := range s.group.copies {
			if !r.primary && r.node != nil && r.node.version.older(n.version) {
				return q.say(no, "target node version [%s] is newer than a replica's [%s] under segment replication", n.version, r.node.version)
			}
		}
	}
	return q.say(yes, "target node version [%s] is equal to or newer than the source node version [%s]", n.version, p.node.version)
}

func (c *Cluster) indexVersion(s *shardCopy, n *node, q *question) verdict {
	p := s.group.primary()
	if s.primary {
		p = s
	}
	if p == nil || p.node == nil {
		return q.say(yes, "no active primary shard yet")
	}
	if n.version.major < p.node.version.major || n.version.older(p.node.version) {
		return q.say(no, "node supports an older index version than node [%s] where the primary is", p.node.spec.Name)
	}
	return q.say(yes, "can allocate to a node with the same or a newer index version")
}

func (c *Cluster) snapshotInProgress(s *shardCopy, _ *node, q *question) verdict {
	if s.primary && s.group.snapshot != nil {
		return q.say(throttle, "waiting for snapshotting of shard [%s] on this node [%s]", s.label(), s.node.id)
	}
	return q.say(yes, "no snapshots are currently running")
}

func (c *Cluster) nodeShutdown(_ *shardCopy, n *node, q *question) verdict {
	switch n.shutdown {
	case "", "RESTART":
		return q.say(yes, "this node is not preparing to leave the cluster")
	}
	return q.say(no, "node [%s] is preparing to be removed from the cluster [%s]", n.id, n.shutdown)
}

// values are what a node offers to a filter on an attribute.
func (n *node) values(attribute string) []string {
	switch attribute {
	case "_name":
		return []string{n.spec.Name}
	case "_id":
		return []string{n.id}
	case "_host":
		return []string{n.spec.Host}
	case "_ip", "_host_ip", "_publish_ip":
		return []string{n.ip}
	case "_tier":
		return n.spec.Roles
	}
	if v, ok := n.zone[attribute]; ok {
		return []string{v}
	}
	return nil
}

func (t filterTerm) matches(n *node) bool {
	for _, v := range n.values(t.attribute) {
		if slices.ContainsFunc(t.patterns, func(p string) bool { return matchWildcard(p, v) }) {
			return true
		}
	}
	return false
}

// admits: any include, all require, no exclude.
func (f filters) admits(n *node) (ok bool, why string) {
	hit := func(t filterTerm) bool { return t.matches(n) }
	if len(f.include) > 0 && !slices.ContainsFunc(f.include, hit) {
		return false, "include"
	}
	for _, t := range f.require {
		if !hit(t) {
			return false, "require"
		}
	}
	if slices.ContainsFunc(f.exclude, hit) {
		return false, "exclude"
	}
	return true, ""
}

func (c *Cluster) filter(s *shardCopy, n *node, q *question) verdict {
	if ok, kind := s.group.idx.rules.filters.admits(n); !ok {
		return q.say(no, "node does not match index setting [index.routing.allocation.%s] filters", kind)
	}
	if ok, kind := c.rules.filters.admits(n); !ok {
		return q.say(no, "node does not match cluster setting [cluster.routing.allocation.%s] filters", kind)
	}
	return q.say(yes, "node passes include/exclude/require filters")
}

// sameShard: no two copies of a shard on one node, leaving and arriving ones included; by host, no second copy on the
// same address, and there a copy stands in its own way.
func (c *Cluster) sameShard(s *shardCopy, n *node, q *question) verdict {
	for _, other := range s.group.copies {
		if q.sim {
			if other != s && other.simNode == n {
				return q.say(no, "a copy of this shard is already planned for this node")
			}
			continue
		}
		for _, x := range []*shardCopy{other, other.target} {
			if x == nil || x.node == nil {
				continue
			}
			if x.node == n {
				return q.say(no, "a copy of this shard is already allocated to this node [%s]", x.describe())
			}
			if c.rules.sameHost && !(c.elastic() && s.group.idx.rules.everywhere) && x.node.spec.Host == n.spec.Host {
				return q.say(no, "a copy of this shard is already allocated to host [%s], on node [%s], and "+
					"[cluster.routing.allocation.same_shard.host] is [true]", n.spec.Host, x.node.id)
			}
		}
	}
	return q.say(yes, "this node does not hold a copy of this shard")
}

// freeAsSeen is the disk's free space as the master believes it, less the whole of every copy on its way, though part of
// it has landed already and the free space has shrunk by that: so the servers count.
func (c *Cluster) freeAsSeen(n *node) float64 {
	free := n.seenFree
	if n.incoming == 0 {
		return free
	}
	for _, s := range n.copies {
		if s.state == initializing && s.rec.kind == peer && s.rec.reused == 0 {
			free -= c.bytesNow(s.group)
		}
	}
	return free
}

func (c *Cluster) diskThreshold(s *shardCopy, n *node, q *question) verdict {
	if !c.rules.diskEnabled {
		return q.say(yes, "the disk threshold decider is disabled")
	}
	if len(c.topology.data) <= 1 && !c.rules.diskSingle {
		return q.say(yes, "there is only a single data node present")
	}
	total, size := float64(n.spec.Disk), c.bytesNow(s.group)
	fresh := s.primary && s.state == unassigned && s.lastNode == nil
	if fresh {
		size = 0
	}
	free := c.freeAsSeen(n)
	if q.sim {
		free = n.seenFree - n.simBytes
	}
	percent := func(x float64) percentage { return percentage(100 * x / total) }
	low, high := c.rules.low.free(total), c.rules.high.free(total)
	if free < 0 {
		return q.say(no, "the node has fewer free bytes remaining than the total size of all incoming shards")
	}
	if free < low && (!fresh || free < high) {
		return q.say(no, "the node is above the low watermark cluster setting [cluster.routing.allocation.disk.watermark.low=%s], "+
			"having less than the minimum required free space [%.0f bytes], actual free: [%s]",
			c.settings.text("cluster.routing.allocation.disk.watermark.low"), low, percent(free))
	}
	if free-size < high {
		return q.say(no, "allocating the shard to this node will bring the node above the high watermark cluster setting "+
			"[cluster.routing.allocation.disk.watermark.high=%s] and cause it to have less than the minimum required [%.0f bytes] "+
			"(free space after shard added: [%s])", c.settings.text("cluster.routing.allocation.disk.watermark.high"), high, percent(free-size))
	}
	return q.say(yes, "enough disk for shard on node, free: [%s], shard size: [%.0f bytes], free after allocating shard: [%s]",
		percent(free), size, percent(free-size))
}

// percentage is written only where a reason is.
type percentage float64

func (p percentage) String() string { return fmt.Sprintf("%.1f%%", float64(p)) }

func (c *Cluster) throttling(s *shardCopy, n *node, q *question) verdict {
	if q.sim {
		return yes
	}
	if s.primary && s.state == unassigned {
		if n.initial >= c.rules.initialPrimaries {
			return q.say(throttle, "reached the limit of ongoing initial primary recoveries [%d]", c.rules.initialPrimaries)
		}
		return q.say(yes, "below primary recovery limit of [%d]", c.rules.initialPrimaries)
	}
	p := s.group.primary()
	if p == nil || p.node == nil {
		return q.say(no, "primary shard for this replica is not yet active")
	}
	if n.incoming >= c.rules.incoming {
		return q.say(throttle, "reached the limit of incoming shard recoveries [%d], cluster setting "+
			"[cluster.routing.allocation.node_concurrent_incoming_recoveries=%d]", n.incoming, c.rules.incoming)
	}
	if p.node.outgoing >= c.rules.outgoing {
		return q.say(throttle, "reached the limit of outgoing shard recoveries [%d] on the node [%s] which holds the primary, cluster setting "+
			"[cluster.routing.allocation.node_concurrent_outgoing_recoveries=%d]", p.node.outgoing, p.node.id, c.rules.outgoing)
	}
	return q.say(yes, "below shard recovery limit of outgoing: [%d < %d] incoming: [%d < %d]",
		p.node.outgoing, c.rules.outgoing, n.incoming, c.rules.incoming)
}

// held counts the copies on a node that stay there: started and arriving ones, not those leaving.
func (n *node) held(idx *index) (of, all int) {
	for _, s := range n.copies {
		if s.state == relocating {
			continue
		}
		all++
		if s.group.idx == idx {
			of++
		}
	}
	return of, all
}

func (c *Cluster) shardsLimit(s *shardCopy, n *node, q *question) verdict {
	limit := s.group.idx.rules.shardsPerNode
	if limit <= 0 && c.rules.shardsPerNode <= 0 {
		return q.say(yes, "total shard limits are disabled: [index: %d, cluster: %d] <= 0", limit, c.rules.shardsPerNode)
	}
	of, all := n.held(s.group.idx)
	if q.sim {
		of, all = c.simHeld(n, s)
	}
	if c.rules.shardsPerNode > 0 && all >= c.rules.shardsPerNode {
		return q.say(no, "too many shards [%d] allocated to this node, cluster setting "+
			"[cluster.routing.allocation.total_shards_per_node=%d]", all, c.rules.shardsPerNode)
	}
	if limit > 0 && of >= limit {
		return q.say(no, "too many shards [%d] allocated to this node for index [%s], index setting "+
			"[index.routing.allocation.total_shards_per_node=%d]", of, s.group.idx.name, limit)
	}
	return q.say(yes, "the shard count [%d] for this node is under the index limit [%d] and cluster level node limit [%d]",
		of, limit, c.rules.shardsPerNode)
}

// awareness: with m values of an attribute, forced ones included, no value may hold more than ceil(copies/m) copies.
func (c *Cluster) awareness(s *shardCopy, n *node, q *question) verdict {
	if len(c.rules.awareness) == 0 {
		return q.say(yes, "allocation awareness is not enabled, set cluster setting "+
			"[cluster.routing.allocation.awareness.attributes] to enable it")
	}
	if c.elastic() && s.group.idx.rules.everywhere {
		return q.say(yes, "allocation awareness is ignored, this index is set to auto-expand to all nodes")
	}
	for _, attribute := range c.rules.awareness {
		mine, ok := n.zone[attribute]
		if !ok {
			return q.say(no, "node does not contain the awareness attribute [%s]; required attributes cluster setting "+
				"[cluster.routing.allocation.awareness.attributes=%s]", attribute, strings.Join(c.rules.awareness, ","))
		}
		count := 1
		for _, other := range s.group.copies {
			at := other.home()
			if q.sim {
				at = other.simNode
			}
			if other != s && at != nil && at.zone[attribute] == mine {
				count++
			}
		}
		copies := len(s.group.copies)
		values := c.topology.values[attribute]
		limit := (copies + len(values) - 1) / len(values)
		if count > limit {
			return q.say(no, "there are [%d] copies of this shard and [%d] values for attribute [%s] ([%s]) so there may be at most [%d] "+
				"copies of this shard allocated to nodes with each value, but (including this copy) there would be [%d] copies allocated "+
				"to nodes with [node.attr.%s: %s]", copies, len(values), attribute, strings.Join(values, ", "), limit, count, attribute, mine)
		}
	}
	return q.say(yes, "node meets all awareness attribute requirements")
}

// loadAwareness (OpenSearch): a cap on copies per node from the capacity the cluster is meant to have. It counts the
// configured copies, not the assigned ones.
func (c *Cluster) loadAwareness(_ *shardCopy, n *node, q *question) verdict {
	if c.rules.capacity <= 0 {
		return q.say(yes, "overload awareness allocation is not enabled")
	}
	limit := c.loadLimit()
	if _, all := n.held(nil); all >= limit {
		return q.say(no, "too many shards [%d] allocated to this node, limit per node [%d] considering overload factor [%.1f] based on capacity [%d]",
			all, limit, c.rules.skew, c.rules.capacity)
	}
	return q.say(yes, "node meets all skew awareness attribute requirements")
}

func (c *Cluster) loadLimit() int {
	total := 0
	for range c.allCopies {
		total++
	}
	return c.rules.flatSkew + int(math.Ceil(float64(total)/float64(c.rules.capacity)*(1+c.rules.skew/100)))
}

// dataTier (Elasticsearch): the first preferred tier that has nodes is where the index lives.
func (c *Cluster) dataTier(s *shardCopy, n *node, q *question) verdict {
	tiers := s.group.idx.rules.tiers
	if len(tiers) == 0 {
		return q.say(yes, "index has no tier preference")
	}
	for _, tier := range tiers {
		if !c.topology.tiers[tier] {
			continue
		}
		if n.has(tier) || n.has("data") {
			return q.say(yes, "index has a preference for tiers [%s] and node has tier [%s]", strings.Join(tiers, ","), tier)
		}
		return q.say(no, "index has a preference for tiers [%s] and node does not meet the required [%s] tier", strings.Join(tiers, ","), tier)
	}
	return q.say(no, "index has a preference for tiers [%s], but no nodes for any of those tiers are available in the cluster", strings.Join(tiers, ","))
}

// canRemain tells whether a started copy may stay where it is, and who says no.
func (c *Cluster) canRemain(s *shardCopy) (bool, string) {
	n, q := s.node, question{}
	if c.filter(s, n, &q) == no {
		return false, "filter"
	}
	if c.elastic() {
		if c.nodeShutdown(s, n, &q) == no {
			return false, "node_shutdown"
		}
		if !c.cfg.OSS && c.dataTier(s, n, &q) == no {
			return false, "data_tier"
		}
	}
	if c.awareness(s, n, &q) == no {
		return false, "awareness"
	}
	if l := s.group.idx.rules.shardsPerNode; l > 0 || c.rules.shardsPerNode > 0 {
		of, all := n.held(s.group.idx)
		if l > 0 && of > l || c.rules.shardsPerNode > 0 && all > c.rules.shardsPerNode {
			return false, "shards_limit"
		}
	}
	if c.rules.capacity > 0 && !c.elastic() {
		if _, all := n.held(nil); all > c.loadLimit() {
			return false, "load_awareness"
		}
	}
	if c.overHigh(n) {
		return false, "disk_threshold"
	}
	return true, ""
}

// overHigh tells whether the node's copies may not remain because of its disk. Copies leaving count as gone.
func (c *Cluster) overHigh(n *node) bool {
	if !c.rules.diskEnabled || len(c.topology.data) <= 1 && !c.rules.diskSingle {
		return false
	}
	free, high := c.freeAsSeen(n), c.rules.high.free(float64(n.spec.Disk))
	if free >= high {
		return false
	}
	for _, s := range n.copies {
		if s.state == relocating {
			free += c.bytesNow(s.group)
		}
	}
	return free < high
}

func (s *shardCopy) label() string { return fmt.Sprintf("[%s][%d]", s.group.idx.name, s.group.num) }

// describe is a copy in the words of an explanation.
func (s *shardCopy) describe() string {
	role := "[R]"
	if s.primary {
		role = "[P]"
	}
	return fmt.Sprintf("%s, node[%s], %s, s[%s], a[id=%s]", s.label(), s.node.id, role, s.state, s.aid)
}
