package traffic

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/shardonnay/shardonnay/test/realcluster"
)

func TestMain(m *testing.M) { os.Exit(realcluster.Main(m)) }

// On every product the server's own placement under this workload has a hot node, seen in the server's own counters;
// nothing fails, and every document counted as acknowledged is there.
func TestSkew(t *testing.T) {
	realcluster.ForEach(t, func(t *testing.T, p realcluster.Product) {
		c := realcluster.Shared(t, p)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // seconds, but the machine may be busy
		defer cancel()

		began := time.Now()
		w, err := Build(ctx, c, 1)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("built in %.1f s; %d hot indices", time.Since(began).Seconds(), len(w.Hot))
		copies, err := c.Copies(ctx)
		if err != nil {
			t.Fatal(err)
		}
		indices := map[string]bool{}
		for _, one := range copies {
			indices[one.Index] = true
		}
		if len(indices) < 40 || len(copies) < 200 {
			t.Errorf("%d indices with %d copies, want at least 40 with 200", len(indices), len(copies))
		}

		expected := PeakToMean(w.ExpectedSearch(copies))
		moves, reached := level(t, w, c.Nodes(), copies)
		t.Logf("search load is expected to peak at %.2f of the mean; %d moves would level it to %.2f", expected, moves, reached)
		if reached > levelGoal || moves > 20 {
			t.Errorf("%d moves bring the expected peak only to %.3f of the mean: this workload cannot be balanced well", moves, reached)
		}

		stop := w.Start()
		load, err := w.Measure(ctx, 10*time.Second)
		totals := stop()
		if err != nil {
			t.Fatal(err)
		}
		t.Log(load)
		t.Logf("%.3f busy s/s of search per node, %.4f of indexing, %.1f MB; %d searches", load.Search, load.Index, load.Disk[0]/1e6, totals.Searches)
		if skew := PeakToMean(load.Search); skew < 1.8 {
			t.Errorf("search load peaks at %.2f of the mean, want at least 1.8: %v", skew, load.Search)
		}
		if len(load.Changed) > 0 {
			t.Errorf("copies changed place while nobody moved them: %v", load.Changed)
		}
		if totals.FirstError != nil || totals.FailedSearches > 0 || totals.Searches == 0 {
			t.Errorf("%d of %d searches failed; first error %v", totals.FailedSearches, totals.Searches, totals.FirstError)
		}
		for _, name := range append(w.Written, w.Hot...) {
			count, err := c.DocCount(ctx, name)
			if err != nil {
				t.Fatal(err)
			}
			if count != totals.Docs[name] {
				t.Errorf("%s holds %d documents, %d were acknowledged", name, count, totals.Docs[name])
			}
		}
	})
}

// Two samples give rates of the copies that are in both, weighted by their index's mean cost; a copy that moved, came
// back, or began to count anew is named instead.
func TestCompare(t *testing.T) {
	nodes := []realcluster.Node{{Name: "n0"}, {Name: "n1"}}
	on := func(node, index, allocation string) identity {
		return identity{index: index, allocation: allocation, node: node}
	}
	before := map[identity]counters{
		on("n0", "a", "1"):     {queries: 100, searchMillis: 1000, writes: 10, indexMillis: 10, bytes: 5},
		on("n1", "a", "2"):     {queries: 100, searchMillis: 5000, bytes: 5},
		on("n0", "moved", "3"): {queries: 9},
		on("n0", "back", "5"):  {queries: 9},
		on("n1", "reset", "7"): {queries: 9},
	}
	after := map[identity]counters{
		on("n0", "a", "1"):     {queries: 400, searchMillis: 1500, writes: 30, indexMillis: 50, bytes: 7}, // 300 queries, 20 writes
		on("n1", "a", "2"):     {queries: 200, searchMillis: 6500, bytes: 6},                              // 100 queries, but slow ones
		on("n1", "moved", "4"): {queries: 90},
		on("n0", "back", "6"):  {queries: 90},
		on("n1", "reset", "7"): {queries: 3},
	}
	want := Load{
		Window:     10 * time.Second,
		Search:     []float64{0.15, 0.05}, // 2 s for 400 queries: 5 ms each
		SearchBusy: []float64{0.05, 0.15},
		Index:      []float64{0.004, 0},
		IndexBusy:  []float64{0.004, 0},
		Disk:       []float64{7, 6},
		Queries:    400,
		Changed: []string{
			"back/0 on n0", "back/0 was on n0", "moved/0 on n1", "moved/0 was on n0", "reset/0 on n1",
		},
	}
	equal := cmp.Options{cmpopts.EquateApprox(1e-12, 0), cmpopts.IgnoreUnexported(Load{})}
	costs := map[string]counters{}
	load := compare(nodes, before, after, 10*time.Second)
	load.learn(costs)
	load.weigh(nodes, costs)
	if diff := cmp.Diff(want, load, equal); diff != "" {
		t.Errorf("load (-want +got):\n%s", diff)
	}
	// A later window has queries cost twice as much on average; the same window then weighs twice as much.
	costs["a"] = counters{queries: 4000, searchMillis: 40000, writes: 20, indexMillis: 40}
	load.weigh(nodes, costs)
	want.Search = []float64{0.3, 0.1}
	if diff := cmp.Diff(want, load, equal); diff != "" {
		t.Errorf("load weighed again (-want +got):\n%s", diff)
	}
	if ratio := PeakToMean([]float64{3, 1, 0, 0}); ratio != 3 {
		t.Errorf("peak to mean of 3 1 0 0 is %g, want 3", ratio)
	}
}

// levelGoal is the peak over mean that a few moves have to bring the workload to, for it to be a fair test of a balancer.
const levelGoal = 1.10

// level moves copies of the workload, best one first, as long as that lowers the sum of squares of the expected loads
// and their peak is above the goal. The hot copies alone do not always add up to even nodes: the others fill the gaps. It
// keeps to one copy of a shard in a zone. It returns the number of moves and the peak reached.
func level(t *testing.T, w *Workload, nodes []realcluster.Node, copies []realcluster.Copy) (moves int, peak float64) {
	t.Helper()
	zones := map[string]string{}
	for _, n := range nodes {
		zones[n.Name] = n.Zone
	}
	legal := func(at int, node realcluster.Node) bool {
		for other, c := range copies {
			if other != at && c.Index == copies[at].Index && c.Shard == copies[at].Shard && zones[c.Node] == node.Zone {
				return false
			}
		}
		return true
	}
	squares := func() (sum float64) {
		for _, v := range w.ExpectedSearch(copies) {
			sum += v * v
		}
		return sum
	}
	for now := squares(); ; moves++ {
		if peak = PeakToMean(w.ExpectedSearch(copies)); peak <= levelGoal {
			return moves, peak
		}
		best, bestAt, bestNode := now-1e-9, -1, ""
		for at := range copies {
			home := copies[at].Node
			for _, node := range nodes {
				if node.Name == home || !legal(at, node) {
					continue
				}
				copies[at].Node = node.Name
				if sum := squares(); sum < best {
					best, bestAt, bestNode = sum, at, node.Name
				}
			}
			copies[at].Node = home
		}
		if bestAt < 0 {
			return moves, peak
		}
		now, copies[bestAt].Node = best, bestNode
	}
}
