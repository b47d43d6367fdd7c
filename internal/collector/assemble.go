package collector

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/es"
)

// assembly is a snapshot without loads, and the statistics they are to be made of.
type assembly struct {
	snapshot  *cluster.Snapshot
	stats     []*es.ShardStats // by position in snapshot.Copies; nil where a copy has none
	nodeStats []*es.NodeStats  // by position in snapshot.Nodes; nil for nodes that hold nothing
	first     []int32          // by position in snapshot.Indices: position of its first copy; one more at the end
	unseen    []bool           // by index: statistics are kept from us
	searchers bool             // searches go to search replicas alone, where there are any
}

// The words that pin an index's copies for the time being.
const (
	busyChanging   = "changing"            // it changed while it was read
	busyRestore    = "restore"             // copies come from a snapshot
	busyShrink     = "shrink"              // shrink, split or clone, of or from it
	busyUnreadable = "unreadable settings" // we cannot know what binds it
)

// assemble puts the answers together and checks them against each other.
func assemble(a *answers, o *Options) (*assembly, error) {
	settings, err := a.settings.Cluster()
	if err != nil {
		return nil, err
	}
	s := &cluster.Snapshot{
		Cluster: a.identity, TakenAt: a.takenAt, StateVersion: a.routing.StateVersion, Samples: 1,
		Dimensions: o.Dimensions, Settings: settings, Health: a.health, Warnings: slices.Clone(a.warnings),
	}
	s.Health.ShutdownMarked = len(a.shutdowns)
	if uuid := a.routing.ClusterUUID; uuid != "" && a.identity.UUID != "" && uuid != a.identity.UUID {
		return nil, incomplete(TwoClusters, a.identity.Name, "Let all addresses lead to nodes of one cluster.",
			"the answers are of two clusters, %s and %s", a.identity.UUID, uuid)
	}
	p := &assembly{snapshot: s}
	strict, ok := a.settings.Effective("cluster.routing.search_replica.strict")
	p.searchers = !ok || strict != "false"
	for _, step := range []func(*answers, *Options) error{p.nodes, p.indices, p.copies, p.join, p.addUp, p.health} {
		if err := step(a, o); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *assembly) warn(format string, args ...any) {
	p.snapshot.Warnings = append(p.snapshot.Warnings, fmt.Sprintf(format, args...))
}

// nodes are those of the cluster state the routing table came with.
func (p *assembly) nodes(a *answers, o *Options) error {
	infos := make(map[cluster.NodeID]*es.NodeInfo, len(a.nodes))
	for i := range a.nodes {
		infos[a.nodes[i].ID] = &a.nodes[i]
	}
	stats := make(map[cluster.NodeID]*es.NodeStats, len(a.stats.Nodes))
	for i := range a.stats.Nodes {
		stats[a.stats.Nodes[i].ID] = &a.stats.Nodes[i]
	}
	for _, r := range a.routing.Nodes {
		info := infos[r.ID]
		if info == nil {
			return incomplete(NodeChanged, "node "+r.Name, "Ask again: it has probably just joined or left.",
				"the cluster state has it and the list of nodes has not")
		}
		n := cluster.Node{
			ID: r.ID, EphemeralID: r.EphemeralID, Name: info.Name, Host: info.Host, IP: info.IP, Version: info.Version,
			Roles: info.Roles, Attributes: info.Attributes, Processors: max(info.Processors, 1), Heap: info.Heap, CPU: -1,
		}
		if n.Version == (cluster.Version{}) {
			n.Version = a.identity.Product.Version
		}
		if measured := stats[r.ID]; measured != nil {
			n.Disk, n.CPU, n.Uptime, n.Queue = measured.Disk, measured.CPU, measured.Uptime, measured.Queue
			if n.Heap == 0 {
				n.Heap = measured.Heap
			}
			if measured.Paths > 1 {
				p.warn("Node %s keeps its data on %d paths: the servers judge each alone, and Shardonnay their sum.", n.Name, measured.Paths)
			}
		}
		n.Leaving = leaving(&n, a.shutdowns, p.snapshot.Settings.Filter)
		p.snapshot.Nodes = append(p.snapshot.Nodes, n)
	}
	p.nodeStats = make([]*es.NodeStats, len(p.snapshot.Nodes))
	for i := range p.snapshot.Nodes {
		n := &p.snapshot.Nodes[i]
		n.Capacity = o.capacity(n)
	}
	return p.missingNodes(a, stats)
}

// leaving says why a node is on its way out; empty where it is not.
func leaving(n *cluster.Node, shutdowns []es.Shutdown, filter cluster.Filter) string {
	for _, s := range shutdowns {
		if s.Node == n.ID && s.Leaves() {
			return "shutdown " + s.Type
		}
	}
	if exclude := (cluster.Filter{Exclude: filter.Exclude}); !exclude.Empty() && !exclude.Matches(n) {
		return "cluster.routing.allocation.exclude"
	}
	return ""
}

// missingNodes refuses a snapshot in which some data node's copies would look idle because it gave no statistics.
func (p *assembly) missingNodes(a *answers, stats map[cluster.NodeID]*es.NodeStats) error {
	for _, f := range a.stats.Failed {
		return incomplete(NodeFailed, "node "+cmp.Or(p.name(f.Node), string(f.Node), "(unnamed)"),
			"Look at the node: it may be stuck or very busy.", "it did not give its statistics: %s", cmp.Or(f.Reason, "no reason is given"))
	}
	if a.stats.Missing > 0 {
		return incomplete(NodeFailed, a.identity.Name, "Look for a node that is stuck or very busy.",
			"%d nodes did not give their statistics", a.stats.Missing)
	}
	holds := map[cluster.NodeID]bool{}
	for i := range a.routing.Copies {
		holds[a.routing.Copies[i].Node] = true
	}
	for i := range p.snapshot.Nodes {
		n := &p.snapshot.Nodes[i]
		if stats[n.ID] != nil || !n.IsData() && !holds[n.ID] {
			continue
		}
		if a.moved > 0 {
			return incomplete(NodeChanged, "node "+n.Name, "Ask again: it has probably just left.", "it gave no statistics, and the cluster changed meanwhile")
		}
		return incomplete(NodeFailed, "node "+n.Name, "Look at the node: it may be stuck or very busy.", "it gave no statistics")
	}
	return nil
}

func (p *assembly) name(id cluster.NodeID) string {
	for i := range p.snapshot.Nodes {
		if p.snapshot.Nodes[i].ID == id {
			return p.snapshot.Nodes[i].Name
		}
	}
	return ""
}

// indices are those of the routing table, with their settings.
func (p *assembly) indices(a *answers, _ *Options) error {
	settings := make(map[string]*es.IndexSettings, len(a.indices))
	for i := range a.routing.Metadata {
		settings[a.routing.Metadata[i].Index] = &a.routing.Metadata[i]
	}
	for i := range a.indices {
		settings[a.indices[i].Index] = &a.indices[i]
	}
	measured := map[string]bool{}
	for i := range a.stats.Nodes {
		for j := range a.stats.Nodes[i].Shards {
			measured[a.stats.Nodes[i].Shards[j].Index] = true
		}
	}
	resizing := map[string]bool{} // sources of a resize whose target is not there yet
	seen := map[string]bool{}
	for i := range a.routing.Copies {
		c := &a.routing.Copies[i]
		if c.RecoverySource == "LOCAL_SHARDS" {
			resizing[c.Index] = true
			if target := settings[c.Index]; target != nil {
				resizing[target.ResizeSource] = true
			}
		}
		if seen[c.Index] {
			continue
		}
		seen[c.Index] = true
		if set := settings[c.Index]; set != nil {
			p.snapshot.Indices = append(p.snapshot.Indices, index(set, a.routing.Closed[c.Index]))
			continue
		}
		switch {
		case measured[c.Index] || strings.HasPrefix(c.Index, "."):
			// There, but closed to us: system indices are, on clusters with security. What binds them is not known.
			p.snapshot.Indices = append(p.snapshot.Indices, cluster.Index{
				Name: c.Index, Hidden: true, Closed: a.routing.Closed[c.Index], Busy: busyUnreadable,
			})
			p.warn("The settings of index %s cannot be read: its copies stay where they are.", c.Index)
		case a.changed():
			seen[c.Index] = true // deleted meanwhile: its copies are left out below
		default:
			return incomplete(CopiesOdd, "index "+c.Index, "Ask again, and report it if it stays.",
				"it has copies, and neither settings nor statistics, although nothing changed")
		}
	}
	for i := range p.snapshot.Indices {
		x := &p.snapshot.Indices[i]
		set := settings[x.Name]
		if resizing[x.Name] || set != nil && x.Filter.Require["_id"] != nil {
			// By hand and by life-cycle policies alike, shrinking begins with all copies called to one node.
			x.Busy = busyShrink
		}
	}
	nameSeries(p.snapshot.Indices, a.streams, a.writes, latest(a.stats))
	return nil
}

func index(set *es.IndexSettings, closed bool) cluster.Index {
	return cluster.Index{
		Name: set.Index, UUID: set.UUID, Shards: set.Shards, Replicas: set.Replicas, Closed: closed, Hidden: set.Hidden, Created: set.Created,
		Filter: set.Filter, TierPreference: set.TierPreference, TotalShardsPerNode: set.TotalShardsPerNode,
		AllocationEnable: set.AllocationEnable, RebalanceEnable: set.RebalanceEnable, AutoExpand: set.AutoExpand,
		StoreType: set.StoreType, Replication: set.Replication, MaxRetries: set.MaxRetries,
	}
}

// copies are those of the routing table.
func (p *assembly) copies(a *answers, _ *Options) error {
	s := p.snapshot
	nodeAt := make(map[cluster.NodeID]int32, len(s.Nodes))
	for i := range s.Nodes {
		nodeAt[s.Nodes[i].ID] = int32(i)
	}
	indexAt := make(map[string]int32, len(s.Indices))
	for i := range s.Indices {
		indexAt[s.Indices[i].Name] = int32(i)
	}
	position := func(id cluster.NodeID, c *es.RoutingCopy) (int32, error) {
		if id == "" {
			return cluster.None, nil
		}
		at, ok := nodeAt[id]
		if !ok {
			return 0, incomplete(UnknownNode, fmt.Sprintf("shard %s/%d", c.Index, c.Shard), "Ask again, and report it if it stays.",
				"a copy of it is %s on node %s, which is not in the cluster", c.State, id)
		}
		return at, nil
	}
	s.Copies = make([]cluster.Copy, 0, len(a.routing.Copies))
	gone := map[string]bool{}
	for i := range a.routing.Copies {
		r := &a.routing.Copies[i]
		at, ok := indexAt[r.Index]
		if !ok {
			gone[r.Index] = true
			continue
		}
		c := cluster.Copy{
			Index: at, Shard: int32(r.Shard), Primary: r.Primary, SearchOnly: r.SearchOnly, State: r.State, Delayed: r.Delayed,
			FailedMoves: r.FailedMoves, AllocationID: r.AllocationID, RelocationID: r.RelocationID, Bytes: r.ExpectedBytes, MaxSeqNo: -1,
		}
		var err error
		if c.Node, err = position(r.Node, r); err != nil {
			return err
		}
		if c.Target, err = position(r.Target, r); err != nil {
			return err
		}
		if c.State != cluster.Unassigned && c.Node == cluster.None {
			return incomplete(UnknownNode, fmt.Sprintf("shard %s/%d", r.Index, r.Shard), "Ask again, and report it if it stays.",
				"a copy of it is %s on no node", r.State)
		}
		if c.Primary {
			_, c.Snapshotting = a.snapshots[es.SnapshotShard{Index: r.Index, Shard: r.Shard}]
		}
		if r.RecoverySource == "SNAPSHOT" {
			s.Indices[at].Busy = busyRestore
		}
		s.Copies = append(s.Copies, c)
	}
	for name := range gone {
		p.warn("Index %s was deleted while the cluster was read.", name)
	}
	s.Sort()
	p.first = make([]int32, 0, len(s.Indices)+1)
	for i := range s.Copies {
		for int(s.Copies[i].Index) >= len(p.first) {
			p.first = append(p.first, int32(i))
		}
	}
	for len(p.first) <= len(s.Indices) {
		p.first = append(p.first, int32(len(s.Copies)))
	}
	return nil
}

// of is the positions of an index's copies.
func (p *assembly) of(index int) (from, to int32) { return p.first[index], p.first[index+1] }

// groups are the positions of the copies of each shard of an index.
func (p *assembly) groups(index int) iter.Seq2[int32, int32] {
	return func(yield func(from, to int32) bool) {
		copies := p.snapshot.Copies
		for from, end := p.of(index); from < end; {
			to := from
			for to < end && copies[to].Shard == copies[from].Shard {
				to++
			}
			if !yield(from, to) {
				return
			}
			from = to
		}
	}
}

// join finds each copy's statistics: the copy of that shard on the node that lists it.
func (p *assembly) join(a *answers, _ *Options) error {
	s := p.snapshot
	indexAt := make(map[string]int32, len(s.Indices))
	for i := range s.Indices {
		indexAt[s.Indices[i].Name] = int32(i)
	}
	p.stats = make([]*es.ShardStats, len(s.Copies))
	for i := range a.stats.Nodes {
		measured := &a.stats.Nodes[i]
		node := s.NodeAt(measured.ID)
		if node == cluster.None {
			continue // it joined meanwhile, or holds no copies
		}
		p.nodeStats[node] = measured
		for j := range measured.Shards {
			x := &measured.Shards[j]
			at, ok := indexAt[x.Index]
			if !ok {
				continue // made meanwhile
			}
			for c, to := p.of(int(at)); c < to; c++ {
				if int(s.Copies[c].Shard) == x.Shard && int(s.Copies[c].Node) == node {
					p.stats[c] = x
					if x.Bytes > 0 {
						s.Copies[c].Bytes = x.Bytes
					}
					s.Copies[c].Docs, s.Copies[c].MaxSeqNo = x.Docs, x.MaxSeqNo
				}
			}
		}
	}
	return p.unseenCopies(a)
}

// unseenCopies finds the copies that should have statistics and have none: because an index is closed to us, or because
// it changed between the reads, in which case its copies stay put until the next snapshot.
func (p *assembly) unseenCopies(a *answers) error {
	s := p.snapshot
	p.unseen = make([]bool, len(s.Indices))
	active, lost := 0, 0
	for i := range s.Indices {
		x := &s.Indices[i]
		from, to := p.of(i)
		var missing []int32
		serving := 0
		for c := from; c < to; c++ {
			if s.Copies[c].Active() {
				serving++
				if p.stats[c] == nil {
					missing = append(missing, c)
				}
			}
		}
		active += serving
		switch {
		case len(missing) == 0:
		case len(missing) == serving && (x.Closed || strings.HasPrefix(x.Name, ".")):
			p.unseen[i] = true
			p.warn("The statistics of index %s cannot be read: its copies count as without load.", x.Name)
		case a.changed():
			lost += len(missing)
			if x.Busy == "" {
				x.Busy = busyChanging
			}
			p.warn("Index %s changed while the cluster was read: its copies stay where they are.", x.Name)
		default:
			c := &s.Copies[missing[0]]
			return incomplete(CopyUnseen, fmt.Sprintf("shard %s/%d", x.Name, c.Shard), "Ask again, and report it if it stays.",
				"its copy on node %s has no statistics, although nothing changed", s.Nodes[c.Node].Name)
		}
	}
	// A few copies that moved on are life. Many are a cluster in which nothing said here would hold by the time it is used.
	if few := max(10, active/20); lost > few {
		return incomplete(CopyUnseen, a.identity.Name, "Ask again when fewer copies are on the move.",
			"%d of %d copies changed while it was read", lost, active)
	}
	return nil
}

// addUp checks that every shard has its primary and as many copies as its index wants.
func (p *assembly) addUp(a *answers, _ *Options) error {
	s := p.snapshot
	search := map[string]int{}
	for i := range a.indices {
		search[a.indices[i].Index] = a.indices[i].SearchReplicas
	}
	for i := range s.Indices {
		x := &s.Indices[i]
		from, to := p.of(i)
		if x.Shards == 0 { // no settings: what stands is all there is to go by
			for c := from; c < to; c++ {
				x.Shards = max(x.Shards, int(s.Copies[c].Shard)+1)
			}
			x.Replicas = max(0, int(to-from)/max(1, x.Shards)-1)
			continue
		}
		if why := oddCopies(s.Copies[from:to], x, search[x.Name]); why != "" {
			if !a.changed() {
				return incomplete(CopiesOdd, "index "+x.Name, "Ask again, and report it if it stays.", "%s", why)
			}
			if x.Busy == "" {
				x.Busy = busyChanging
			}
			p.warn("Index %s changed while the cluster was read (%s): its copies stay where they are.", x.Name, why)
		}
	}
	return nil
}

// health fills in what follows from the copies where the cluster's own account is not to be had.
func (p *assembly) health(*answers, *Options) error {
	s := p.snapshot
	if s.Health.Status != "" {
		return nil
	}
	h := &s.Health
	h.Status, h.Nodes = "green", len(s.Nodes)
	for i := range s.Nodes {
		if s.Nodes[i].IsData() {
			h.DataNodes++
		}
	}
	for i := range s.Copies {
		c := &s.Copies[i]
		switch c.State {
		case cluster.Unassigned:
			h.Unassigned++
			if c.Delayed {
				h.Delayed++
			}
		case cluster.Initializing:
			h.Initializing++
		case cluster.Relocating:
			h.Relocating++
		}
		if !c.Active() {
			if c.Primary {
				h.Status = "red"
			} else if h.Status == "green" {
				h.Status = "yellow"
			}
		}
	}
	return nil
}

// oddCopies says how an index's copies, in their order, fail to add up; empty where they do.
func oddCopies(copies []cluster.Copy, x *cluster.Index, searchReplicas int) string {
	shards := 0
	for len(copies) > 0 {
		shard, n, primaries, searchers := copies[0].Shard, 0, 0, 0
		for n < len(copies) && copies[n].Shard == shard {
			if copies[n].Primary {
				primaries++
			}
			if copies[n].SearchOnly {
				searchers++
			}
			n++
		}
		switch {
		case int(shard) != shards:
			return fmt.Sprintf("shard %d is missing", shards)
		case primaries != 1:
			return fmt.Sprintf("shard %d has %d primaries", shard, primaries)
		case n-1-searchers != x.Replicas:
			return fmt.Sprintf("shard %d has %d replicas, its index wants %d", shard, n-1-searchers, x.Replicas)
		case searchers != 0 && searchReplicas != 0 && searchers != searchReplicas:
			return fmt.Sprintf("shard %d has %d search replicas, its index wants %d", shard, searchers, searchReplicas)
		}
		shards++
		copies = copies[n:]
	}
	if shards != x.Shards {
		return fmt.Sprintf("%d shards have copies, the index has %d", shards, x.Shards)
	}
	return ""
}
