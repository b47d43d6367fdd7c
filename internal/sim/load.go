package sim

import (
	"hash/fnv"
	"math"
	"slices"
	"time"
)

// Plateau is one step of a load profile: up to this age, this factor.
type Plateau struct {
	UpTo   time.Duration // age of the index below which the factor holds
	Factor float64       // of the index's own rate
}

// Profile is load by age. Past the last plateau the last factor holds.
type Profile []Plateau

const day = 24 * time.Hour

// SearchByAge is how people look at time-based data: today, this week, this month, this year, and a long tail that
// never quite ends. The steps are where dashboards' usual time ranges end.
var SearchByAge = Profile{{day, 1}, {7 * day, 0.3}, {31 * day, 0.08}, {366 * day, 0.02}, {1<<63 - 1, 0.005}}

// at is the factor for an age.
func (p Profile) at(age time.Duration) float64 {
	if len(p) == 0 {
		return 1
	}
	for _, step := range p {
		if age < step.UpTo {
			return step.Factor
		}
	}
	return p[len(p)-1].Factor
}

// next is how long until the factor changes; 0 means never.
func (p Profile) next(age time.Duration) time.Duration {
	for i, step := range p {
		if age < step.UpTo && i < len(p)-1 {
			return step.UpTo - age
		}
	}
	return 0
}

const (
	fetchShare   = 0.15 // of the search time is the fetch phase; both products report it apart
	fetchesQuery = 0.6  // fetches per query: not every shard holds one of the hits

	indexShare   = 0.75 // of the write time; the rest is merges and refreshes
	mergeShare   = 0.2
	refreshShare = 0.05

	segmentReplica = 0.25 // cost of a replica under segment replication against its primary: it only receives files

	docBytes     = 500  // bytes a document takes where the index does not say
	docSeconds   = 1e-4 // busy seconds to index one where the index does not say
	querySeconds = 5e-3

	wobble = 75 * time.Second // period of the noise of traffic; each shard has its own phase
)

// settle brings the group's counters up to now. It must run before anything that changes a rate or who serves.
func (c *Cluster) settle(g *group) {
	if g.since == c.now {
		return
	}
	for _, s := range g.copies {
		s.totals = c.totalsOf(s)
		if s.target != nil {
			s.target.totals = c.totalsOf(s.target)
		}
	}
	dt := (c.now - g.since).Seconds()
	g.docs += g.docsRate * dt
	g.bytes += g.docsRate * dt * g.idx.spec.DocBytes
	g.since = c.now
}

// totalsOf are the counters of a copy now. They are the integral of its rates in closed form, so that reading them costs
// the same however much time has passed.
func (c *Cluster) totalsOf(s *shardCopy) totals {
	g, t := s.group, s.totals
	from, to := g.since.Seconds(), c.now.Seconds()
	if to <= from {
		return t
	}
	if s.share > 0 && g.search > 0 && !s.node.frozen {
		busy := g.search * s.share * c.wobbled(s, from, to)
		t.search += busy
		t.queries += busy / g.queryCost
	}
	if s.active() && g.write > 0 {
		t.docs += g.docsRate * (to - from)
		t.write += g.write * s.writeCost() * (to - from)
	}
	return t
}

// wobbled is the time from..to stretched by the copy's noise: the integral of 1 + a sin(wt + phase). The copies of a
// group are spread evenly over the phase, so that what one gets more another gets less.
func (c *Cluster) wobbled(s *shardCopy, from, to float64) float64 {
	a := c.cfg.Noise
	if c.rules.adaptive && c.weighing() == nil && s.group.serving > 1 {
		a = 0.5
	}
	if a == 0 {
		return to - from
	}
	w := 2 * math.Pi / wobble.Seconds()
	phase := s.group.phase + 2*math.Pi*float64(s.slot)/float64(max(s.group.serving, 1))
	return to - from - a/w*(math.Cos(w*to+phase)-math.Cos(w*from+phase))
}

func (s *shardCopy) writeCost() float64 {
	if !s.primary && s.group.idx.settings["index.replication.type"] == "SEGMENT" {
		return segmentReplica
	}
	return 1
}

// written tells whether new documents go into the index: of a series only the newest takes them.
func (idx *index) written() bool {
	if s := idx.series; s != nil {
		return len(s.indices) > 0 && s.indices[len(s.indices)-1] == idx
	}
	return true
}

// rerate sets the group's rates and who shares them, from now on. The group must be settled.
func (c *Cluster) rerate(g *group) {
	idx := g.idx
	age := c.now - idx.created
	per := 1 / float64(len(idx.groups))
	g.queryCost = idx.spec.QueryCost
	g.search = idx.spec.Search * per * idx.spec.Profile.at(age) * idx.heat[0] * c.scale[0]
	written := per * idx.heat[1] * c.scale[1]
	g.write, g.docsRate = idx.spec.Write*written, idx.spec.DocsPerSec*written
	if idx.closed {
		g.search = 0
	}
	if p := g.primary(); idx.closed || !idx.written() || idx.blocked || idx.rules.writeBlock || p == nil || !p.active() || g.hangs() {
		g.write, g.docsRate = 0, 0
	}
	c.shareByWeight(g)
}

// hangs tells whether writes do: they wait for every copy that is in sync.
func (g *group) hangs() bool {
	return slices.ContainsFunc(g.copies, func(s *shardCopy) bool { return s.active() && s.node != nil && s.node.frozen })
}

// fraction turns a text into a number in [0,1) that is always the same.
func fraction(text string) float64 {
	h := fnv.New64a()
	h.Write([]byte(text))
	return float64(h.Sum64()>>11) / (1 << 53)
}

// ages schedules the index's next change of load by age.
func (c *Cluster) ages(idx *index) {
	next := idx.spec.Profile.next(c.now - idx.created)
	if next == 0 {
		return
	}
	c.after(next, func() {
		if c.find(idx.name) == idx {
			c.reload(idx)
			c.ages(idx)
		}
	})
}

// reload settles and rerates all groups of an index.
func (c *Cluster) reload(idx *index) {
	for _, g := range idx.groups {
		c.settle(g)
		c.rerate(g)
	}
}

func (c *Cluster) reloadAll() {
	for _, idx := range c.indices {
		c.reload(idx)
	}
}

// bytesNow is the size of each copy of the group.
func (c *Cluster) bytesNow(g *group) float64 {
	return g.bytes + g.docsRate*(c.now-g.since).Seconds()*g.idx.spec.DocBytes
}

func (c *Cluster) docsNow(g *group) float64 {
	return g.docs + g.docsRate*(c.now-g.since).Seconds()
}

// used is the bytes in use on the node's disk: other files, copies, and what has arrived of those on their way.
func (c *Cluster) used(n *node) float64 {
	sum := float64(n.spec.OtherDisk + n.extra)
	for _, s := range n.copies {
		if s.state == initializing {
			sum += s.rec.done(c.now)
		} else {
			sum += c.bytesNow(s.group)
		}
	}
	return sum
}

// SetHeat multiplies an index's search and write load from now on; 1 is as specified. It reports whether the index exists.
func (c *Cluster) SetHeat(index string, search, write float64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	idx := c.find(index)
	if idx == nil {
		return false
	}
	idx.heat = [2]float64{search, write}
	c.reload(idx)
	return true
}

// SetTraffic multiplies the whole cluster's search and write load from now on.
func (c *Cluster) SetTraffic(search, write float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.scale = [2]float64{search, write}
	c.reloadAll()
}

// ResetCounters lets the counters of an index's copies start again at zero, as closing and opening it does. It reports
// whether there is such an index.
func (c *Cluster) ResetCounters(index string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	idx := c.find(index)
	if idx == nil {
		return false
	}
	for _, g := range idx.groups {
		c.settle(g)
		for _, s := range g.copies {
			s.totals = totals{}
		}
	}
	return true
}

// NodeLoad is what a data node truly carries: expected rates without noise, no counter involved.
type NodeLoad struct {
	ID, Name, Zone string
	Processors     int
	Copies         int
	Search         float64 // busy seconds per second
	Index          float64 // busy seconds per second of indexing, merging, refreshing
	Disk           float64 // bytes of shard copies, arriving ones with what has arrived
	DiskUsed       float64 // bytes in use altogether
	DiskTotal      float64 // bytes
}

// Loads tells the true load of every data node, in order of joining. A copy's search load is its shard's total divided
// by the copies that serve: which of them a request happens to reach is noise, whatever the selection.
func (c *Cluster) Loads() []NodeLoad {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var loads []NodeLoad
	for _, n := range c.nodes {
		if !n.isData() {
			continue
		}
		l := NodeLoad{
			ID: n.id, Name: n.spec.Name, Zone: n.zone["zone"], Processors: n.spec.Processors,
			DiskUsed: c.used(n), DiskTotal: float64(n.spec.Disk),
		}
		l.Disk = l.DiskUsed - float64(n.spec.OtherDisk+n.extra)
		for _, s := range n.copies {
			if !s.active() {
				continue
			}
			l.Copies++
			if s.share > 0 {
				l.Search += s.group.search / float64(s.group.serving)
			}
			l.Index += s.group.write * s.writeCost()
		}
		loads = append(loads, l)
	}
	return loads
}

// Dimensions are the loads Balance knows.
var Dimensions = []string{"search", "index", "disk"}

// Balance is how evenly one kind of load lies on the data nodes, each weighed by what it can take.
type Balance struct {
	Mean       float64 // load over capacity, of the whole cluster
	Max        float64 // of the hottest node
	PeakToMean float64 // Max/Mean; 1 where there is no load
	CV         float64 // standard deviation over mean, each node alike
	Hottest    string  // its name
}

// Balance compares the nodes' utilisation in "search", "index" (busy seconds per processor) or "disk" (bytes of copies
// per byte of disk). An unknown name gives the zero value.
func (c *Cluster) Balance(dimension string) Balance {
	return balanceOf(c.Loads(), dimension)
}

func balanceOf(loads []NodeLoad, dimension string) Balance {
	var b Balance
	var load, capacity, squares float64
	use := make([]float64, len(loads))
	for i, l := range loads {
		var x float64
		full := float64(l.Processors)
		switch dimension {
		case "search":
			x = l.Search
		case "index":
			x = l.Index
		case "disk":
			x, full = l.Disk, l.DiskTotal
		default:
			return b
		}
		load, capacity = load+x, capacity+full
		use[i] = x / full
		if b.Hottest == "" || use[i] > b.Max {
			b.Max, b.Hottest = use[i], l.Name
		}
	}
	b.PeakToMean = 1
	if load == 0 {
		return b
	}
	b.Mean = load / capacity
	b.PeakToMean = b.Max / b.Mean
	for _, u := range use {
		squares += (u - b.Mean) * (u - b.Mean)
	}
	b.CV = math.Sqrt(squares/float64(len(use))) / b.Mean
	return b
}
