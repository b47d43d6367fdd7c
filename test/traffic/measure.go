package traffic

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/shardonnay/shardonnay/test/realcluster"
)

// Load is what each node of the cluster did during a window, from the server's own counters per copy. Every slice has
// one entry per node, in the order of the cluster's nodes.
type Load struct {
	Window time.Duration

	// Search is the queries of each copy times the mean cost of a query of its index, in busy seconds per second. The mean is
	// over all that was measured of this workload so far: what a query costs does not change with where it runs, and the
	// hundred queries that an index gets in a window tell it to no better than a tenth. Raw busy time of nodes that share two
	// cores says more about who had to wait for whom than about load: with equal traffic it peaks at 1.26 of the mean.
	// SearchBusy is that raw time.
	Search, SearchBusy []float64

	// Index is the same for indexed documents.
	Index, IndexBusy []float64

	Disk []float64 // bytes of all copies at the end of the window

	Queries int64 // shard queries in the window

	did map[identity]counters // what each copy that can be compared did in the window

	// Changed names copies that could not be compared, because they were not there at both ends of the window: moved,
	// new, rebuilt, gone. Counters start at zero in a new place, so what such a copy did in the window is not known and not
	// in the figures above; a measurement to rely on has none.
	Changed []string
}

// String is one line with the peak/mean of each figure.
func (l Load) String() string {
	return fmt.Sprintf("peak/mean over %.0f s: search %.2f (busy time %.2f), index %.2f (busy time %.2f), disk %.2f; %d shard queries, %d copies changed",
		l.Window.Seconds(), PeakToMean(l.Search), PeakToMean(l.SearchBusy), PeakToMean(l.Index), PeakToMean(l.IndexBusy), PeakToMean(l.Disk),
		l.Queries, len(l.Changed))
}

// identity is one copy in one place: a copy that moves gets another allocation id, one that restarts another node start.
type identity struct {
	index, allocation string
	shard             int
	node              string
}

// counters are the totals of one copy since it began in its place; times in milliseconds.
type counters struct {
	queries, searchMillis int64
	writes, indexMillis   int64
	bytes                 int64
}

// Mark is what the counters of all copies were at a moment.
type Mark struct {
	taken  time.Time
	copies map[identity]counters
}

// Mark reads the counters of all copies, for a window to begin here.
func (w *Workload) Mark(ctx context.Context) (Mark, error) {
	copies, err := w.sample(ctx)
	return Mark{time.Now(), copies}, err
}

// SameCopies tells whether every copy can be compared between the marks: none has moved, come or gone.
func (w *Workload) SameCopies(from, to Mark) bool {
	return len(compare(w.cluster.Nodes(), from.copies, to.copies, to.taken.Sub(from.taken)).Changed) == 0
}

// Between says what each node did from one mark to another.
func (w *Workload) Between(from, to Mark) Load {
	load := compare(w.cluster.Nodes(), from.copies, to.copies, to.taken.Sub(from.taken))
	w.measuring.Lock()
	defer w.measuring.Unlock()
	load.learn(w.costs)
	load.weigh(w.cluster.Nodes(), w.costs)
	return load
}

// Measure says what each node does in a window from now on.
func (w *Workload) Measure(ctx context.Context, window time.Duration) (Load, error) {
	mark, err := w.Mark(ctx)
	if err != nil {
		return Load{}, err
	}
	timer := time.NewTimer(window)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return Load{}, context.Cause(ctx)
	case <-timer.C:
	}
	now, err := w.Mark(ctx)
	if err != nil {
		return Load{}, err
	}
	return w.Between(mark, now), nil
}

// Reweigh gives the same window with every operation weighed by what its cost is known to be by now. Two windows that were
// weighed when each ended differ in what was known of the costs, and so seem to differ in load where nothing has changed.
func (w *Workload) Reweigh(load Load) Load {
	w.measuring.Lock()
	defer w.measuring.Unlock()
	load.weigh(w.cluster.Nodes(), w.costs)
	return load
}

// sample reads the counters of every started copy.
func (w *Workload) sample(ctx context.Context) (map[identity]counters, error) {
	copies, err := w.cluster.Copies(ctx)
	if err != nil {
		return nil, err
	}
	type place struct {
		index, node string
		shard       int
	}
	known := map[place]identity{}
	for _, c := range copies {
		known[place{c.Index, c.NodeID, c.Shard}] = identity{index: c.Index, allocation: c.AllocationID, shard: c.Shard, node: c.Node}
	}
	var stats struct {
		Indices map[string]struct {
			Shards map[string][]struct {
				Routing struct{ Node string }
				Store   struct {
					Bytes int64 `json:"size_in_bytes"`
				}
				Search struct {
					Queries     int64 `json:"query_total"`
					QueryMillis int64 `json:"query_time_in_millis"`
					FetchMillis int64 `json:"fetch_time_in_millis"`
				}
				Indexing struct {
					Writes int64 `json:"index_total"`
					Millis int64 `json:"index_time_in_millis"`
				}
			}
		}
	}
	if err := w.cluster.Get(ctx, "/_stats/store,search,indexing?level=shards", &stats); err != nil {
		return nil, err
	}
	sample := map[identity]counters{}
	for name, table := range stats.Indices {
		for shard, group := range table.Shards {
			number, err := strconv.Atoi(shard)
			if err != nil {
				return nil, fmt.Errorf("stats of %s: shard number %q", name, shard)
			}
			for _, one := range group {
				id, found := known[place{name, one.Routing.Node, number}]
				if !found {
					continue // it moved between the two reads; the other sample will miss it
				}
				sample[id] = counters{
					queries: one.Search.Queries, searchMillis: one.Search.QueryMillis + one.Search.FetchMillis,
					writes: one.Indexing.Writes, indexMillis: one.Indexing.Millis,
					bytes: one.Store.Bytes,
				}
			}
		}
	}
	return sample, nil
}

// compare turns two samples into what each copy did in between, and into the loads per node that need no weighing.
func compare(inOrder []realcluster.Node, before, after map[identity]counters, window time.Duration) Load {
	nodes := positions(inOrder)
	perNode := func() []float64 { return make([]float64, len(nodes)) }
	load := Load{Window: window, SearchBusy: perNode(), IndexBusy: perNode(), Disk: perNode(), did: map[identity]counters{}}
	for id, now := range after {
		node := nodes[id.node]
		load.Disk[node] += float64(now.bytes)
		then, found := before[id]
		did := counters{
			queries: now.queries - then.queries, searchMillis: now.searchMillis - then.searchMillis,
			writes: now.writes - then.writes, indexMillis: now.indexMillis - then.indexMillis,
		}
		if !found || did.queries < 0 || did.writes < 0 {
			load.Changed = append(load.Changed, fmt.Sprintf("%s/%d on %s", id.index, id.shard, id.node))
			continue
		}
		load.did[id] = did
		load.Queries += did.queries
		load.SearchBusy[node] += perSecond(did.searchMillis, window)
		load.IndexBusy[node] += perSecond(did.indexMillis, window)
	}
	for id := range before {
		if _, found := after[id]; !found {
			load.Changed = append(load.Changed, fmt.Sprintf("%s/%d was on %s", id.index, id.shard, id.node))
		}
	}
	slices.Sort(load.Changed)
	return load
}

// learn adds what the operations of the window took to costs, which has the sums of each index.
func (l *Load) learn(costs map[string]counters) {
	for id, did := range l.did {
		sum := costs[id.index]
		sum.queries += did.queries
		sum.searchMillis += did.searchMillis
		sum.writes += did.writes
		sum.indexMillis += did.indexMillis
		costs[id.index] = sum
	}
}

// weigh sets Search and Index anew: what each copy did times what that costs in its index.
func (l *Load) weigh(inOrder []realcluster.Node, costs map[string]counters) {
	nodes := positions(inOrder)
	l.Search, l.Index = make([]float64, len(nodes)), make([]float64, len(nodes))
	for id, did := range l.did {
		node, all := nodes[id.node], costs[id.index]
		if all.queries > 0 {
			l.Search[node] += perSecond(all.searchMillis, l.Window) * float64(did.queries) / float64(all.queries)
		}
		if all.writes > 0 {
			l.Index[node] += perSecond(all.indexMillis, l.Window) * float64(did.writes) / float64(all.writes)
		}
	}
}

// positions is each node's place in the order of the cluster's nodes, by name.
func positions(inOrder []realcluster.Node) map[string]int {
	nodes := map[string]int{}
	for i, n := range inOrder {
		nodes[n.Name] = i
	}
	return nodes
}

// perSecond turns milliseconds of work within window into seconds per second.
func perSecond(millis int64, window time.Duration) float64 {
	return float64(millis) / 1000 / window.Seconds()
}
