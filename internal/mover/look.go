package mover

import (
	"context"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/es"
)

// look is the cluster as it was read just now: enough to watch moves, and when full also enough to ask for more.
type look struct {
	health    cluster.Health
	routing   *es.Routing
	recovered map[shardKey]int64 // bytes that have arrived, of recoveries under way
	groups    map[shardKey][]*es.RoutingCopy
	nodes     map[cluster.NodeID]*es.RoutingNode

	full      bool
	settings  cluster.Settings
	disks     map[cluster.NodeID]cluster.DiskUse
	snapshots map[es.SnapshotShard]struct{}
	hidden    error // why running snapshots cannot be read
}

type shardKey struct {
	index string
	shard int
}

// look reads the cluster. The routing table comes last: what a request is based on should be the youngest.
func (c *carrying) look(ctx context.Context, full bool) (*look, error) {
	l := &look{full: full, recovered: make(map[shardKey]int64)}
	var err error
	if full {
		raw, err := c.confirm(ctx)
		if err != nil {
			return nil, err
		}
		if l.settings, err = raw.Cluster(); err != nil {
			return nil, err
		}
		if l.disks, err = c.m.api.FileSystems(ctx); err != nil {
			return nil, err
		}
		switch l.snapshots, err = c.m.api.RunningSnapshots(ctx); {
		case err != nil && cluster.ClassOf(err) == cluster.Refused:
			l.hidden = err
		case err != nil:
			return nil, err
		}
	}
	if l.health, err = c.m.api.Health(ctx); err != nil {
		return nil, err
	}
	if len(c.flights) > 0 {
		recoveries, err := c.m.api.Recoveries(ctx)
		if err != nil {
			return nil, err
		}
		for _, r := range recoveries {
			l.recovered[shardKey{r.Index, r.Shard}] = r.BytesRecovered // one of a shard is under way at a time, as far as it is ours
		}
	}
	if l.routing, err = c.m.api.Routing(ctx); err != nil {
		return nil, err
	}
	if full && !c.fresh() { // the reading took its time
		if _, err := c.confirm(ctx); err != nil {
			return nil, err
		}
	}
	l.groups = make(map[shardKey][]*es.RoutingCopy, len(l.routing.Copies))
	for i := range l.routing.Copies {
		k := &l.routing.Copies[i]
		key := shardKey{k.Index, k.Shard}
		l.groups[key] = append(l.groups[key], k)
	}
	l.nodes = make(map[cluster.NodeID]*es.RoutingNode, len(l.routing.Nodes))
	for i := range l.routing.Nodes {
		l.nodes[l.routing.Nodes[i].ID] = &l.routing.Nodes[i]
	}
	return l, nil
}

// find is the copy of a shard with that allocation id, nil where there is none.
func (l *look) find(key shardKey, allocationID string) *es.RoutingCopy {
	for _, k := range l.groups[key] {
		if k.AllocationID == allocationID {
			return k
		}
	}
	return nil
}

// on is the copy of a shard on a node, nil where there is none.
func (l *look) on(key shardKey, node cluster.NodeID) *es.RoutingCopy {
	for _, k := range l.groups[key] {
		if k.Node == node {
			return k
		}
	}
	return nil
}

// sender is the node a copy's data comes from: the primary's, the copy's own for a primary.
func (l *look) sender(k *es.RoutingCopy) cluster.NodeID {
	if !k.Primary {
		for _, other := range l.groups[shardKey{k.Index, k.Shard}] {
			if other.Primary && other.Node != "" {
				return other.Node
			}
		}
	}
	return k.Node
}

// arriving sums up, by node, the whole sizes of the copies on their way there: the server charges them in full until they
// have landed, on top of what has arrived already.
func (l *look) arriving(size func(*es.RoutingCopy) int64) map[cluster.NodeID]int64 {
	bytes := make(map[cluster.NodeID]int64)
	for i := range l.routing.Copies {
		switch k := &l.routing.Copies[i]; {
		case k.Target != "":
			bytes[k.Target] += size(k)
		case k.State == cluster.Initializing:
			bytes[k.Node] += size(k)
		}
	}
	return bytes
}

// roster remembers which nodes were there, to notice those that come and go.
type roster struct {
	known        map[cluster.NodeID]es.RoutingNode
	joined, left []change
}

type change struct {
	id   cluster.NodeID
	name string
	at   time.Time
}

// note compares a look with the roster. The snapshot tells, at the first look, who is younger than the cluster.
func (r *roster) note(l *look, s *cluster.Snapshot, settle time.Duration, now time.Time) {
	first := r.known == nil
	if first {
		r.known = make(map[cluster.NodeID]es.RoutingNode)
		r.young(s, settle)
		for i := range s.Nodes { // one that the snapshot has seen and that is gone by now has just left
			n := &s.Nodes[i]
			r.known[n.ID] = es.RoutingNode{ID: n.ID, Name: n.Name, EphemeralID: n.EphemeralID}
		}
	}
	for i := range l.routing.Nodes {
		node := l.routing.Nodes[i]
		before, known := r.known[node.ID]
		if !first && !known || known && before.EphemeralID != node.EphemeralID && before.EphemeralID != "" {
			r.joined = append(r.joined, change{node.ID, node.Name, now})
		}
		r.known[node.ID] = node
	}
	for id, node := range r.known {
		if l.nodes[id] == nil {
			r.left = append(r.left, change{id, node.Name, now})
			delete(r.known, id)
		}
	}
	r.joined = forget(r.joined, func(c change) bool { return now.Sub(c.at) >= settle })
	r.left = forget(r.left, func(c change) bool { return l.nodes[c.id] != nil || now.Sub(c.at) >= settle && r.settled(l) })
}

// settled tells whether the cluster has got over the loss of a node: nothing waits for it.
func (r *roster) settled(l *look) bool { return l.health.Delayed == 0 && l.health.Initializing == 0 }

// young finds the nodes that started less than settle ago although the cluster as a whole is older.
func (r *roster) young(s *cluster.Snapshot, settle time.Duration) {
	oldest := time.Duration(0)
	for i := range s.Nodes {
		oldest = max(oldest, s.Nodes[i].Uptime)
	}
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.Uptime > 0 && n.Uptime < settle && oldest-n.Uptime > settle {
			r.joined = append(r.joined, change{n.ID, n.Name, s.TakenAt.Add(-n.Uptime)})
		}
	}
}

func forget(changes []change, old func(change) bool) []change {
	kept := changes[:0]
	for _, c := range changes {
		if !old(c) {
			kept = append(kept, c)
		}
	}
	return kept
}
