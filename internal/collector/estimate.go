package collector

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

const (
	// What a copy pins on the heap beside what it reports: a guess from what the servers' own sizing advice adds up to.
	heapPerCopy    = 75 << 10 // bytes
	heapPerSegment = 55 << 10 // bytes
	// fallbackRecovery is the speed of a recovery where the cluster sets none: the servers' default.
	fallbackRecovery = 40 << 20 // bytes per second
)

// estimate gives every copy and node its loads and returns the finished snapshot.
func (r *rates) estimate(p *assembly) *cluster.Snapshot {
	s := p.snapshot
	if r.window > 0 {
		s.Samples, s.Window = 2, r.window
	}
	curves := r.curves(p)
	for i := range s.Indices {
		known := r.knowledgeOf(p, i, curves[s.Indices[i].Series])
		for from, to := range p.groups(i) {
			r.estimateGroup(p, from, to, known)
		}
	}
	for i := range s.Nodes {
		r.estimateNode(s, &s.Nodes[i])
	}
	r.explain(s)
	return s
}

// estimateGroup gives the copies of one shard, at those positions, their loads.
func (r *rates) estimateGroup(p *assembly, from, to int32, known knowledge) {
	s := p.snapshot
	serving := servers(s.Copies[from:to], p.searchers)
	search := r.search(p, from, to, known)
	var largest int64
	for i := from; i < to; i++ {
		largest = max(largest, s.Copies[i].Bytes)
	}
	for i := from; i < to; i++ {
		c := &s.Copies[i]
		if c.Bytes == 0 {
			// Not there yet; or there and not measured yet: servers look at a copy's size every 10 s only, and at first it
			// is 0, which not even an empty copy is.
			c.Bytes = largest
		}
		index := r.index(p, i, from, to, known)
		c.Provenance = max(search.from, index.from)
		for d, dimension := range s.Dimensions {
			switch dimension {
			case cluster.SearchTime:
				c.Observed[d] = r.observedSearch(p, i)
				if serving.may(c) {
					// Every copy that may serve gets the same share: what one got so far is the doing of replica selection.
					share := 1 / float64(max(1, serving.count))
					c.Load[d], c.Deviation[d] = search.rate*share, search.off*share
				}
			case cluster.IndexTime:
				c.Load[d], c.Deviation[d], c.Observed[d] = index.rate, index.off, index.rate
			case cluster.DiskBytes:
				c.Load[d], c.Observed[d] = float64(c.Bytes), float64(c.Bytes)
			case cluster.HeapBytes:
				c.Load[d] = heapPerCopy
				if stats := p.stats[i]; stats != nil {
					c.Load[d] += float64(heapPerSegment*stats.Segments + stats.Memory)
				}
				c.Observed[d] = c.Load[d]
			case cluster.ShardCount:
				c.Load[d], c.Observed[d] = 1, 1
			}
		}
		c.BytesMoving = r.bytesMoving(p, i)
	}
}

// observedSearch is what searching that copy was seen to cost, whatever it should have been.
func (r *rates) observedSearch(p *assembly, i int32) float64 {
	if m := r.copies[copyID(p.snapshot, &p.snapshot.Copies[i])]; m != nil && m.Search.known() {
		return m.Search.Mean
	}
	if p.stats[i] == nil {
		return 0
	}
	return perSecond(p.stats[i].Counters.SearchTime.Seconds(), p.age(i))
}

// bytesMoving is what a move may need for a while where the data is read from: the operations that arrive meanwhile are
// kept twice, in the translog and in segments that must not be merged away before they are copied.
func (r *rates) bytesMoving(p *assembly, i int32) int64 {
	s := p.snapshot
	c, stats := &s.Copies[i], p.stats[i]
	if stats == nil {
		return 0
	}
	speed := s.Settings.RecoveryBytesPerSec
	if speed <= 0 {
		speed = fallbackRecovery
	}
	duration := float64(c.Bytes) / float64(speed)
	growth := r.writes(p, i) * float64(c.Bytes) / float64(max(1, c.Docs)) // bytes per second
	return max(2*stats.Translog, min(c.Bytes, int64(growth*duration)))
}

// writes is the operations per second on the copy at that position.
func (r *rates) writes(p *assembly, i int32) float64 {
	s := p.snapshot
	c := &s.Copies[i]
	if g := r.known[group(s, c)]; g != nil && g.Writes.known() {
		return g.Writes.Mean
	}
	return perSecond(float64(p.stats[i].Counters.Writes), p.age(i))
}

// estimateNode fills in what a node does beside its copies. Disk used by anything else is in Node.Disk, and no load.
func (r *rates) estimateNode(s *cluster.Snapshot, n *cluster.Node) {
	m := r.nodes[n.ID]
	if m == nil {
		return
	}
	n.Rejections = m.rejections
	for d, dimension := range s.Dimensions {
		switch dimension {
		case cluster.SearchTime:
			n.Base[d] = m.Search.Mean
		case cluster.IndexTime:
			n.Base[d] = m.Index.Mean
		}
	}
}

// serving says which copies of a shard serve searches, and how many of those are active.
type serving struct {
	count      int
	searchOnly bool
}

// servers tells it. Where there are search replicas, OpenSearch asks no others, unless it is told to.
func servers(copies []cluster.Copy, strict bool) serving {
	var all, search int
	for i := range copies {
		if copies[i].Active() {
			all++
			if copies[i].SearchOnly {
				search++
			}
		}
	}
	if strict && search > 0 {
		return serving{search, true}
	}
	return serving{all, false}
}

func (v serving) may(c *cluster.Copy) bool { return !v.searchOnly || c.SearchOnly }

// explain warns where rates are not what they should be.
func (r *rates) explain(s *cluster.Snapshot) {
	var counts [cluster.Unknown + 1]int
	active := 0
	for i := range s.Copies {
		if c := &s.Copies[i]; c.Active() {
			active++
			counts[c.Provenance]++
		}
	}
	switch since := counts[cluster.SinceStart]; since {
	case 0:
	case active:
		s.Warnings = append(s.Warnings, "There is one sample: rates are averages since each copy or its node started, not of now.")
	default:
		s.Warnings = append(s.Warnings, fmt.Sprintf("The rates of %d copies are averages since they or their nodes started: they were seen once.", since))
	}
	if r.warning != "" {
		s.Warnings = append(s.Warnings, r.warning)
	}
	noDisk := 0
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.IsData() && n.Disk.Total == 0 {
			noDisk++
		}
	}
	if noDisk > 0 {
		s.Warnings = append(s.Warnings, fmt.Sprintf("%d data nodes do not say how large their disks are.", noDisk))
	}
	slices.Sort(s.Warnings)
}

func perSecond(total float64, over time.Duration) float64 {
	if over <= 0 {
		return 0
	}
	return total / over.Seconds()
}

// age is the longest time over which the counters of the copy at that position can have run: since its index was made,
// and since its node started. A copy that moved since began later, which nothing tells.
func (p *assembly) age(i int32) time.Duration {
	c := &p.snapshot.Copies[i]
	if c.Node == cluster.None || p.nodeStats[c.Node] == nil {
		return 0
	}
	node := p.nodeStats[c.Node]
	age := node.Uptime
	if made := p.snapshot.Indices[c.Index].Created; !made.IsZero() && node.At.After(made) {
		age = min(cmp.Or(age, math.MaxInt64), node.At.Sub(made))
	}
	return age
}
