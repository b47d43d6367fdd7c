package collector

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

const (
	// searchPrior is how many queries of its own a shard must have seen for its own cost per query to count as much as
	// the mean of its index. Shards of an index hold like data and differ in cost by about a tenth, while single
	// queries differ by about twice their mean: the ratio squared, 400, is where both say equally much; 500 is that,
	// rounded up for clocks that count in milliseconds. At ten queries a second it is outweighed within two minutes.
	searchPrior = 500
	// writePrior is the same for operations and a copy's own cost per operation: merges come in lumps, so that one of a
	// copy's operations differs by more from the next than its cost from that of the other copies of its index and role.
	writePrior = 500
	// countNoise is the variance of a sum of n costs relative to that of n equal ones: 1 for their number, which is as
	// good as random, and 1 for costs that vary by as much as their mean.
	countNoise = 2
	// guessed is the standard error of a load that was not measured, relative to it. A guess itself.
	guessed = 0.5
)

// work is a rate of busy time, by how much it may be off (a standard error), and where it comes from.
type work struct {
	rate, off float64
	from      cluster.Provenance
}

func guess(rate float64, from cluster.Provenance) work { return work{rate, guessed * rate, from} }

// counted is a rate that rests on n counted operations.
func counted(rate, spread, n float64, from cluster.Provenance) work {
	return work{rate, max(spread, rate*math.Sqrt(countNoise/max(1, n))), from}
}

// profile is what an index's shards and copies cost, on average.
type profile struct {
	search           float64 // of one shard, its copies together
	primary, replica float64 // of one copy's writing
}

func (f profile) index(primary bool) float64 {
	if primary {
		return f.primary
	}
	return f.replica
}

// knowledge is what is known of an index beside its single copies.
type knowledge struct {
	index, series       profile
	hasIndex, hasSeries bool
	perQuery            float64 // busy seconds, the index's mean; 0 where nothing was asked
	factor              float64 // keeps the sum over the index's shards what was measured
	perWrite            profile // busy seconds an operation costs a copy, the index's mean; 0 where nothing was written
}

// knowledgeOf gathers it.
func (r *rates) knowledgeOf(p *assembly, i int, curve curve) knowledge {
	x := &p.snapshot.Indices[i]
	k := knowledge{factor: 1}
	k.index, k.hasIndex = r.profile(p, i)
	if m := r.series[x.Series]; x.Newest && m != nil {
		k.series, k.hasSeries = profile{m.Search.Mean, m.Primary.Mean, m.Replica.Mean}, true
	} else if len(curve) > 0 {
		k.series, k.hasSeries = curve.at(r.at.Sub(x.Created).Seconds()), true
	}
	var busy, queries, expected float64
	r.eachShard(p, i, func(g *groupRates) { busy, queries = busy+g.Search.Mean, queries+g.Queries.Mean })
	if queries > 0 && busy > 0 {
		k.perQuery = busy / queries
		r.eachShard(p, i, func(g *groupRates) { expected += k.expected(g, r.o.HalfLife) })
		k.factor = busy / expected
	}
	k.perWrite = r.perWrite(p, i)
	return k
}

// perWrite is what an operation costs a copy of an index, by role, on average.
func (r *rates) perWrite(p *assembly, i int) profile {
	var busy, writes profile
	from, to := p.of(i)
	for c := from; c < to; c++ {
		at := &p.snapshot.Copies[c]
		switch m := r.copies[copyID(p.snapshot, at)]; {
		case m == nil || !m.Index.known() || at.SearchOnly:
		case at.Primary:
			busy.primary, writes.primary = busy.primary+m.Index.Mean, writes.primary+m.Writes.Mean
		default:
			busy.replica, writes.replica = busy.replica+m.Index.Mean, writes.replica+m.Writes.Mean
		}
	}
	var cost profile
	if writes.primary > 0 {
		cost.primary = busy.primary / writes.primary
	}
	if writes.replica > 0 {
		cost.replica = busy.replica / writes.replica
	}
	return cost
}

// writing is the busy time a copy's operations should cost: at its own cost as far as there is evidence for that, at the
// mean of its index and role for the rest.
func (k *knowledge) writing(m *copyRates, primary bool, halfLife time.Duration) float64 {
	mean := k.perWrite.index(primary)
	memory := m.Writes.memory(halfLife)
	seen := m.Writes.Mean * memory
	if seen <= 0 || mean <= 0 {
		return m.Index.Mean
	}
	return m.Writes.Mean * (m.Index.Mean*memory + writePrior*mean) / (seen + writePrior)
}

// eachShard calls f with every shard of the index whose searches were measured.
func (r *rates) eachShard(p *assembly, i int, f func(*groupRates)) {
	for from := range p.groups(i) {
		if g := r.known[group(p.snapshot, &p.snapshot.Copies[from])]; g != nil && g.Search.known() {
			f(g)
		}
	}
}

// expected is the busy time a shard's queries should cost: at its own cost per query as far as there is evidence for
// that, at its index's mean for the rest. Busy time is noisy where it is little, and a shard on a slow or crowded node
// looks dearer than it will be elsewhere; how often it is asked is exact. The index's sum stays what was measured.
func (k *knowledge) expected(g *groupRates, halfLife time.Duration) float64 {
	memory := g.Queries.memory(halfLife)
	seen := g.Queries.Mean * memory
	if seen <= 0 || k.perQuery <= 0 {
		return g.Search.Mean
	}
	cost := (g.Search.Mean*memory + searchPrior*k.perQuery) / (seen + searchPrior)
	return g.Queries.Mean * cost * k.factor
}

// profile is the mean over an index's shards and copies, as far as they are measured.
func (r *rates) profile(p *assembly, i int) (profile, bool) {
	s := p.snapshot
	var f profile
	var shards, primaries, replicas float64
	r.eachShard(p, i, func(g *groupRates) { f.search, shards = f.search+g.Search.Mean, shards+1 })
	from, to := p.of(i)
	for c := from; c < to; c++ {
		at := &s.Copies[c]
		m := r.copies[copyID(s, at)]
		switch {
		case m == nil || !m.Index.known() || at.SearchOnly:
		case at.Primary:
			f.primary, primaries = f.primary+m.Index.Mean, primaries+1
		default:
			f.replica, replicas = f.replica+m.Index.Mean, replicas+1
		}
	}
	f.search /= max(1, shards)
	f.primary /= max(1, primaries)
	f.replica /= max(1, replicas)
	if replicas == 0 {
		f.replica = f.primary
	}
	return f, shards > 0 && primaries > 0
}

// curve is what an index of a series costs by its age, youngest first.
type curve []point

type point struct {
	age float64 // seconds
	profile
}

// curves are those of all series. The index that takes the writes is not on them: it is no part of how load fades.
func (r *rates) curves(p *assembly) map[string]curve {
	curves := map[string]curve{}
	for i := range p.snapshot.Indices {
		x := &p.snapshot.Indices[i]
		if x.Series == "" || x.Newest || x.Created.IsZero() {
			continue
		}
		if f, ok := r.profile(p, i); ok {
			curves[x.Series] = append(curves[x.Series], point{r.at.Sub(x.Created).Seconds(), f})
		}
	}
	for _, c := range curves {
		slices.SortStableFunc(c, func(a, b point) int { return cmp.Compare(a.age, b.age) })
	}
	return curves
}

// at is the curve's value at an age: between two points by proportion, beyond its ends as there.
func (c curve) at(age float64) profile {
	next, _ := slices.BinarySearchFunc(c, age, func(p point, age float64) int { return cmp.Compare(p.age, age) })
	switch {
	case next == 0:
		return c[0].profile
	case next == len(c):
		return c[next-1].profile
	}
	a, b := c[next-1], c[next]
	t := (age - a.age) / (b.age - a.age)
	mix := func(x, y float64) float64 { return x + t*(y-x) }
	return profile{mix(a.search, b.search), mix(a.primary, b.primary), mix(a.replica, b.replica)}
}

// search is what searching the shard at those positions costs, all its copies together: measured, else by the copies that
// were, by its index, by its series, or by what was counted since the beginning.
func (r *rates) search(p *assembly, from, to int32, k knowledge) work {
	s := p.snapshot
	if g := r.known[group(s, &s.Copies[from])]; g != nil && g.Search.known() {
		seen := g.Queries.Mean * g.Queries.memory(r.o.HalfLife)
		return counted(k.expected(g, r.o.HalfLife), g.Search.error(), seen, cluster.Measured)
	}
	var sum, measured, active float64
	var since, queries float64
	whence := cluster.Unknown
	for i := from; i < to; i++ {
		c := &s.Copies[i]
		if !c.Active() {
			continue
		}
		active++
		if m := r.copies[copyID(s, c)]; m != nil && m.Search.known() {
			sum, measured = sum+m.Search.Mean, measured+1
		}
		if age := p.age(i); age > 0 && p.stats[i] != nil {
			since += perSecond(p.stats[i].Counters.SearchTime.Seconds(), age)
			queries += float64(p.stats[i].Counters.Queries)
			whence = cluster.SinceStart
		}
	}
	switch {
	case measured > 0:
		return guess(sum/measured*active, cluster.FromGroup)
	case k.hasIndex:
		return guess(k.index.search, cluster.FromIndex)
	case k.hasSeries:
		return guess(k.series.search, cluster.FromSeries)
	}
	return counted(since, 0, queries, whence)
}

// index is what writing costs the copy at position i, of the shard at from to to, by the same ladder.
func (r *rates) index(p *assembly, i, from, to int32, k knowledge) work {
	s := p.snapshot
	c := &s.Copies[i]
	if m := r.copies[copyID(s, c)]; m != nil && m.Index.known() {
		return counted(k.writing(m, c.Primary, r.o.HalfLife), m.Index.error(), m.Writes.Mean*m.Writes.memory(r.o.HalfLife), cluster.Measured)
	}
	// Under segment replication a replica only copies what the primary wrote: then the roles do not stand for each other.
	alike := func(d *cluster.Copy) bool {
		return d.SearchOnly == c.SearchOnly && (d.Primary == c.Primary || s.Indices[c.Index].Replication != "SEGMENT")
	}
	var sum, measured float64
	for j := from; j < to; j++ {
		if d := &s.Copies[j]; d.Active() && alike(d) {
			if m := r.copies[copyID(s, d)]; m != nil && m.Index.known() {
				sum, measured = sum+m.Index.Mean, measured+1
			}
		}
	}
	switch {
	case measured > 0:
		return guess(sum/measured, cluster.FromGroup)
	case k.hasIndex && !c.SearchOnly:
		return guess(k.index.index(c.Primary), cluster.FromIndex)
	case k.hasSeries && !c.SearchOnly:
		return guess(k.series.index(c.Primary), cluster.FromSeries)
	}
	if age := p.age(i); age > 0 && c.Active() && p.stats[i] != nil {
		done := p.stats[i].Counters
		return counted(perSecond(writeTime(done), age), 0, float64(done.Writes), cluster.SinceStart)
	}
	return work{from: cluster.Unknown}
}
