package collector

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/es"
)

// rates is what is remembered from one collection to the next: the last counters of every copy and the smoothed rates
// they gave. It is the only state of the collector, and what is saved in Options.StateDir.
//
// Time is the nodes' own: the difference between the moments at which a node took its figures, which neither our clock
// nor the time an answer takes to arrive has part in.
type rates struct {
	o       *Options
	cluster string        // UUID of the cluster it is about
	at      time.Time     // of the last sample, by the latest of the nodes' clocks
	window  time.Duration // between the last two; 0 before there are two

	copies map[string]*copyRates // by allocation id
	known  map[groupKey]*groupRates
	nodes  map[cluster.NodeID]*nodeRates
	series map[string]*seriesRates // what the index that takes the writes costs, by series

	warning string // why what was saved could not be used
}

// groupKey names a shard: an index's UUID (its name where that is not known) and the shard's number.
type groupKey struct {
	Index string
	Shard int32
}

// copyRates is one copy on one node.
type copyRates struct {
	Group   groupKey
	Primary bool
	Node    cluster.NodeID
	Process string    // ephemeral id of the node: counters start with it
	At      time.Time // of the counters, by the node's clock
	Last    es.Counters
	Since   time.Time // when it was first seen on this node
	Next    string    // allocation id it will have where it is going
	Held    bool      // the rates are those of the copy it came from, until it has settled

	Search  average // busy seconds per second, as this copy happened to be asked
	Queries average // per second, likewise
	Index   average // busy seconds per second of indexing, merges and refreshes
	Writes  average // operations per second
}

// groupRates is a shard: the work its copies share.
type groupRates struct {
	Search   average // busy seconds per second, all copies together
	Queries  average // per second, all copies together
	Writes   average // operations per second by sequence numbers, which go on counting when copies move
	MaxSeqNo int64
	At       time.Time // of MaxSeqNo
	Active   int       // copies at the last sample
}

// nodeRates is a node: what it does beside the copies we know.
type nodeRates struct {
	Process  string
	At       time.Time
	Sum      es.Counters
	Rejected int64

	Search, Index average // busy seconds per second that no copy accounts for
	rejections    float64 // per second, between the last two samples
}

// seriesRates is the mean cost of a shard of a series while its index is the one that takes the writes.
type seriesRates struct {
	Search           average
	Primary, Replica average // of indexing, per copy
}

const (
	// shortestWindow is the least time between two samples that gives a rate: below it the milliseconds in which the
	// servers count are too coarse. The earlier sample stays, and the next one is measured from it.
	shortestWindow = time.Second
	// longestWindow is the most: a rate over half a day says little about now. Only the smoothed rates live on.
	longestWindow = 6 * time.Hour
	// rememberGone is how long a copy that is not there is remembered: a node that restarts brings its copies back with
	// the allocation ids they had.
	rememberGone = time.Hour
)

func newRates(o *Options) *rates {
	return &rates{
		o: o, copies: map[string]*copyRates{}, known: map[groupKey]*groupRates{},
		nodes: map[cluster.NodeID]*nodeRates{}, series: map[string]*seriesRates{},
	}
}

// learn takes in the counters of a complete collection.
func (r *rates) learn(p *assembly) {
	s := p.snapshot
	if uuid := s.Cluster.UUID; r.cluster != uuid {
		warning := r.warning
		if r.cluster != "" {
			warning = "The rates remembered are of another cluster: measuring begins anew."
		}
		*r = *newRates(r.o)
		r.cluster, r.warning = uuid, warning
	}
	at := r.clock(p)
	passed := at.Sub(r.at)
	if passed < 0 { // somebody has set a clock back
		r.at, passed = time.Time{}, 0
	}
	second := !r.at.IsZero() && passed >= shortestWindow
	if second {
		r.window = passed
	}
	done := make(map[cluster.NodeID]es.Counters, len(s.Nodes)) // what copies account for, by node
	present := make(map[string]bool, len(s.Copies))
	for i := range s.Copies {
		present[copyID(s, &s.Copies[i])] = true
	}
	gone := r.inherit(p, present)
	for i := range s.Indices {
		for from, to := range p.groups(i) {
			r.learnGroup(p, from, to, done)
		}
	}
	r.learnNodes(p, done, gone)
	if second {
		r.learnSeries(p)
	}
	r.forget(present, at)
	if second || r.at.IsZero() {
		r.at = at
	}
}

// clock is the time of a sample.
func (r *rates) clock(p *assembly) time.Time {
	var at time.Time
	for _, n := range p.nodeStats {
		if n != nil && n.At.After(at) {
			at = n.At
		}
	}
	if at.IsZero() {
		at = p.snapshot.TakenAt
	}
	return at
}

// group is the key of the shard a copy is of.
func group(s *cluster.Snapshot, c *cluster.Copy) groupKey {
	x := &s.Indices[c.Index]
	return groupKey{cmp.Or(x.UUID, x.Name), c.Shard}
}

// copyID is the allocation id of a copy; where none is said, as in very old captures, where the copy is.
func copyID(s *cluster.Snapshot, c *cluster.Copy) string {
	if c.AllocationID == "" && c.Node != cluster.None {
		return fmt.Sprintf("%s/%d@%s", s.Indices[c.Index].Name, c.Shard, s.Nodes[c.Node].ID)
	}
	return c.AllocationID
}

// inherit gives each copy that is new where it stands the rates of the copy it came from: the one that was on its way
// there, else one of its shard that is not there any more, of its role if there is one. It returns the copies that went,
// by the node they left.
func (r *rates) inherit(p *assembly, present map[string]bool) map[cluster.NodeID][]*copyRates {
	s := p.snapshot
	arriving := map[string]*copyRates{} // by the allocation id they were to have
	gone := map[cluster.NodeID][]*copyRates{}
	left := map[groupKey][]*copyRates{}
	for id, c := range r.copies {
		if present[id] {
			continue
		}
		if c.At.Equal(r.nodeAt(c.Node)) { // it was there last time
			gone[c.Node] = append(gone[c.Node], c)
		}
		left[c.Group] = append(left[c.Group], c)
		if c.Next != "" {
			arriving[c.Next] = c
		}
	}
	for _, copies := range gone { // sums of floats depend on their order
		slices.SortFunc(copies, func(a, b *copyRates) int {
			return cmp.Or(cmp.Compare(a.Group.Index, b.Group.Index), cmp.Compare(a.Group.Shard, b.Group.Shard))
		})
	}
	for i := range s.Copies {
		c := &s.Copies[i]
		id := copyID(s, c)
		if !c.Active() || p.stats[i] == nil || r.copies[id] != nil {
			continue
		}
		fresh := &copyRates{Group: group(s, c), Primary: c.Primary, Since: p.nodeStats[c.Node].At}
		from := arriving[id]
		if from == nil && len(left[fresh.Group]) > 0 {
			from = slices.MinFunc(left[fresh.Group], func(a, b *copyRates) int { return likelier(a, b, c.Primary) })
		}
		if from != nil && from.Index.known() {
			fresh.Held = true
			fresh.Index, fresh.Writes = from.Index, from.Writes
		}
		r.copies[id] = fresh
	}
	return gone
}

// likelier orders the possible ancestors of a copy of that role, likeliest first; node ids last, so that the order of a
// map does not decide.
func likelier(a, b *copyRates, primary bool) int {
	role := func(c *copyRates) int {
		if c.Primary == primary {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(role(a), role(b)), b.At.Compare(a.At), cmp.Compare(a.Node, b.Node))
}

// nodeAt is when the last sample of a node was taken.
func (r *rates) nodeAt(id cluster.NodeID) time.Time {
	if n := r.nodes[id]; n != nil {
		return n.At
	}
	return time.Time{}
}

// learnGroup takes in the copies of one shard, at those positions.
func (r *rates) learnGroup(p *assembly, from, to int32, done map[cluster.NodeID]es.Counters) {
	s := p.snapshot
	key := group(s, &s.Copies[from])
	g := r.known[key]
	if g == nil {
		g = &groupRates{MaxSeqNo: -1}
		r.known[key] = g
	}
	quiet := r.learnSeqNo(p, from, to, g)
	var (
		search, queries float64 // per second, all copies together
		window          time.Duration
		whole, settled  = true, true
		active          int
	)
	for i := from; i < to; i++ {
		c := &s.Copies[i]
		if !c.Active() {
			continue
		}
		active++
		if p.stats[i] == nil {
			whole = false
			continue
		}
		did, dt := r.learnCopy(p, i, quiet, done)
		if dt == 0 {
			whole = false
			continue
		}
		search += did.SearchTime.Seconds() / dt.Seconds()
		queries += float64(did.Queries) / dt.Seconds()
		window = max(window, dt)
		settled = settled && !r.copies[copyID(s, c)].Held
	}
	// A copy that came in the window was not seen from its start, and the last work of one that went was not seen: what
	// the others did is not the group's. What it cost before is the better estimate, also while caches warm up.
	if whole && settled && window > 0 && active == g.Active {
		g.Search.add(search, window, r.o.HalfLife)
		g.Queries.add(queries, window, r.o.HalfLife)
	}
	g.Active = active
}

// learnSeqNo takes in the highest sequence number of a shard, which grows by one with every operation and goes on when
// copies move. It tells whether nothing was written since the last sample, whoever counted.
func (r *rates) learnSeqNo(p *assembly, from, to int32, g *groupRates) (quiet bool) {
	highest, at := int64(-1), time.Time{}
	for i := from; i < to; i++ {
		if c := &p.snapshot.Copies[i]; c.Active() && p.stats[i] != nil && (at.IsZero() || p.stats[i].MaxSeqNo > highest) {
			highest, at = p.stats[i].MaxSeqNo, p.nodeStats[c.Node].At
		}
	}
	dt := at.Sub(g.At)
	if at.IsZero() || dt >= 0 && dt < shortestWindow {
		return false
	}
	if !g.At.IsZero() && dt > 0 && dt <= longestWindow && highest >= g.MaxSeqNo {
		g.Writes.add(float64(highest-g.MaxSeqNo)/dt.Seconds(), dt, r.o.HalfLife)
		quiet = highest == g.MaxSeqNo
	}
	g.MaxSeqNo, g.At = highest, at
	return quiet
}

// learnCopy takes in one copy. It gives what the copy did since the last sample and how long that is; 0 where there is
// no telling.
func (r *rates) learnCopy(p *assembly, i int32, quiet bool, done map[cluster.NodeID]es.Counters) (es.Counters, time.Duration) {
	c, x := &p.snapshot.Copies[i], p.stats[i]
	node := &p.snapshot.Nodes[c.Node]
	at := p.nodeStats[c.Node].At
	m := r.copies[copyID(p.snapshot, c)]
	m.Primary, m.Next = c.Primary, c.RelocationID
	same := m.Node == node.ID && m.Process == node.EphemeralID && !m.At.IsZero() && !x.Counters.Behind(m.Last)
	dt := at.Sub(m.At)
	switch {
	case same && dt < shortestWindow && dt >= 0:
		return es.Counters{}, 0 // too soon: measure from the earlier sample next time
	case !same:
		// It began here since the last sample: all it counted falls in between.
		done[node.ID] = done[node.ID].Plus(x.Counters)
		if m.Node != "" {
			m.Since = at // restarted, or moved without another allocation id
			m.Held = m.Index.known()
		}
	}
	did := x.Counters.Minus(m.Last)
	if !same || dt < 0 || dt > longestWindow {
		did, dt = es.Counters{}, 0
	}
	m.Node, m.Process, m.At, m.Last = node.ID, node.EphemeralID, at, x.Counters
	if dt == 0 {
		return did, 0
	}
	done[node.ID] = done[node.ID].Plus(did)
	if m.Held && (at.Sub(m.Since) >= r.o.Settle || quiet) {
		// Settled; or the sequence numbers, which a move does not reset, say that the zeros are true.
		m.Held = false
	}
	m.Search.add(did.SearchTime.Seconds()/dt.Seconds(), dt, r.o.HalfLife)
	m.Queries.add(float64(did.Queries)/dt.Seconds(), dt, r.o.HalfLife)
	if !m.Held {
		m.Index.add(writeTime(did)/dt.Seconds(), dt, r.o.HalfLife)
		m.Writes.add(float64(did.Writes)/dt.Seconds(), dt, r.o.HalfLife)
	}
	return did, dt
}

// writeTime is the busy seconds that writing cost a copy: indexing itself, and the merges and refreshes that follow from
// it. A second of each keeps a core busy for a second, so each counts as what it is.
func writeTime(c es.Counters) float64 {
	return (c.IndexTime + max(0, c.MergeTime) + c.Refresh).Seconds()
}

// learnNodes takes in the nodes: rejections, and what they did beside the copies that are known, which is the work of
// copies whose statistics are kept from us. A node's own sums go on counting what copies did that have left since.
func (r *rates) learnNodes(p *assembly, done map[cluster.NodeID]es.Counters, gone map[cluster.NodeID][]*copyRates) {
	for i := range p.snapshot.Nodes {
		node, x := &p.snapshot.Nodes[i], p.nodeStats[i]
		if x == nil {
			continue
		}
		m := r.nodes[node.ID]
		if m == nil || m.Process != node.EphemeralID || x.Sum.Behind(m.Sum) || x.Rejected < m.Rejected {
			r.nodes[node.ID] = &nodeRates{Process: node.EphemeralID, At: x.At, Sum: x.Sum, Rejected: x.Rejected}
			continue
		}
		dt := x.At.Sub(m.At)
		if dt >= 0 && dt < shortestWindow {
			continue
		}
		if dt > 0 && dt <= longestWindow {
			m.rejections = float64(x.Rejected-m.Rejected) / dt.Seconds()
			rest := x.Sum.Minus(m.Sum).Minus(done[node.ID])
			search, index := rest.SearchTime.Seconds()/dt.Seconds(), writeTime(rest)/dt.Seconds()
			for _, c := range gone[node.ID] { // they worked here for a part of the window
				search, index = search-c.Search.Mean, index-c.Index.Mean
			}
			m.Search.add(max(0, search), dt, r.o.HalfLife)
			m.Index.add(max(0, index), dt, r.o.HalfLife)
		}
		m.At, m.Sum, m.Rejected = x.At, x.Sum, x.Rejected
	}
	for id := range r.nodes {
		if p.snapshot.NodeAt(id) == cluster.None {
			delete(r.nodes, id)
		}
	}
}

// learnSeries remembers what the index of each series that takes the writes costs, so that its successor is known before
// it was ever measured.
func (r *rates) learnSeries(p *assembly) {
	s := p.snapshot
	for i := range s.Indices {
		x := &s.Indices[i]
		if !x.Newest || x.Series == "" {
			continue
		}
		f, ok := r.profile(p, i)
		if !ok {
			continue
		}
		m := r.series[x.Series]
		if m == nil {
			m = &seriesRates{}
			r.series[x.Series] = m
		}
		m.Search.add(f.search, r.window, r.o.HalfLife)
		m.Primary.add(f.primary, r.window, r.o.HalfLife)
		m.Replica.add(f.replica, r.window, r.o.HalfLife)
	}
}

// forget drops what has been gone for long.
func (r *rates) forget(present map[string]bool, at time.Time) {
	alive := make(map[groupKey]bool, len(r.known))
	for id, c := range r.copies {
		if !present[id] && at.Sub(c.At) > rememberGone {
			delete(r.copies, id)
			continue
		}
		alive[c.Group] = true
	}
	for key := range r.known {
		if !alive[key] {
			delete(r.known, key)
		}
	}
}
