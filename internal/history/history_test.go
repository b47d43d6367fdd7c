package history

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/cluster/clustertest"
	"github.com/shardonnay/shardonnay/internal/model"
	"github.com/shardonnay/shardonnay/internal/mover"
	"github.com/shardonnay/shardonnay/internal/plan"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// observe feeds a cycle of a cluster in clustertest's language.
func observe(t *testing.T, h *History, cycle string, at time.Time, text string) {
	t.Helper()
	s, err := clustertest.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	policy := model.DefaultPolicy()
	built, err := model.Build(s, &policy)
	if err != nil {
		t.Fatal(err)
	}
	h.ObservePlan(cycle, at, s, built.Problem, &plan.Plan{Objective: plan.Objective{Before: 0.5, LowerBound: 0.125}})
}

// heatOf is the answer, as a reader takes it apart.
func heatOf(t *testing.T, h *History, dimension string, since time.Time) (answer Heat) {
	t.Helper()
	var text bytes.Buffer
	if err := h.WriteHeat(&text, dimension, since); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text.Bytes(), &answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

// row is a sample's loads in an answer, by the node's name.
func row(heat Heat, sample int) string {
	var text []string
	for n, node := range heat.Nodes {
		load := binary.LittleEndian.Uint16(heat.Load[2*(sample*len(heat.Nodes)+n):])
		if load != noLoad {
			text = append(text, fmt.Sprintf("%s=%.2f", node.Name, float64(load)/perShare))
		}
	}
	return strings.Join(text, " ")
}

const twoNodes = `
node n1 zone=a disk=100gb free=60gb
node n2 zone=b disk=100gb free=100gb
index a
copy a/0 p n1 bytes=10gb search=3
index b
copy b/0 p n2 bytes=10gb search=1
`

// TestADayInTheLife: what each cycle found is told as it was, also where nodes come and go, a cycle fails, and one is still
// under way.
func TestADayInTheLife(t *testing.T) {
	h := New()
	h.Of("one")
	if heat := heatOf(t, h, "", time.Time{}); heat.Dimension != "" || len(heat.Time) != 0 || heat.Nodes == nil || heat.Load == nil {
		t.Errorf("an empty history answers %+v", heat)
	}
	observe(t, h, "c1", noon, twoNodes)
	if heat := heatOf(t, h, "", time.Time{}); heat.Dimension != "search" || heat.Outcome[0] != "" || row(heat, 0) != "n1=1.50 n2=0.50" {
		t.Errorf("%+v: %s", heat, row(heat, 0))
	}
	observe(t, h, "c1", noon, twoNodes) // the same cycle, told again at its end
	h.ObserveCycle("c1", noon, "moved")
	h.ObserveCycle("c2", noon.Add(time.Minute), "snapshot_incomplete")
	without := strings.Replace(twoNodes, "copy b/0 p n2", "copy b/0 p n3", 1)
	without = strings.Replace(without, "node n2 zone=b", "node n3 zone=b", 1)
	observe(t, h, "c3", noon.Add(2*time.Minute), without)
	h.ObserveCycle("c3", noon.Add(2*time.Minute), "balanced")

	heat := heatOf(t, h, "search", time.Time{})
	if got := strings.Join(heat.Outcome, " "); got != "moved snapshot_incomplete balanced" {
		t.Errorf("outcomes %s", got)
	}
	for sample, want := range []string{"n1=1.50 n2=0.50", "", "n1=1.50 n3=0.50"} {
		if got := row(heat, sample); got != want {
			t.Errorf("sample %d: %q, want %q", sample, got, want)
		}
	}
	if !slices.Equal(heat.Objective, []float64{0.5, -1, 0.5}) || !slices.Equal(heat.LowerBound, []float64{0.125, -1, 0.125}) {
		t.Errorf("objective %v, bound %v", heat.Objective, heat.LowerBound)
	}
	if got := heat.PeakToMean["search"]; !slices.Equal(got, []float64{1.5, -1, 1.5}) {
		t.Errorf("peaks %v", got)
	}
	if got := heat.Nodes[1]; got != (Node{"n2", "n2", "b"}) {
		t.Errorf("node %+v", got)
	}
	// From the last sample on: it alone, and only the nodes it has.
	heat = heatOf(t, h, "disk", time.UnixMilli(heat.Time[2]))
	if len(heat.Time) != 1 || len(heat.Nodes) != 2 || row(heat, 0) != "n1=1.00 n3=1.00" {
		t.Errorf("%+v: %s", heat, row(heat, 0))
	}
	// A day later nothing of this is left.
	h.ObserveCycle("c4", noon.Add(25*time.Hour), "failed")
	if heat := heatOf(t, h, "", time.Time{}); len(heat.Time) != 1 || len(heat.Nodes) != 0 || len(h.nodes) != 0 {
		t.Errorf("%+v, %d nodes", heat, len(h.nodes))
	}
}

// TestOf: the same cluster goes on, another one begins anew, and a reader sees that something changed.
func TestOf(t *testing.T) {
	h := New()
	h.Of("one")
	observe(t, h, "c1", noon, twoNodes)
	before, _ := h.Changes()
	h.Of("one")
	if now, _ := h.Changes(); now != before || len(heatOf(t, h, "", time.Time{}).Time) != 1 {
		t.Error("the history of the same cluster is gone")
	}
	h.Of("two")
	if now, _ := h.Changes(); now == before || len(heatOf(t, h, "", time.Time{}).Time) != 0 || h.bytes != 0 {
		t.Error("the history of another cluster stays")
	}
}

// problem is a cluster of nodes with one copy each, which carries load.
func problem(nodes []string, load func(node, dimension int) float64) (*cluster.Snapshot, *model.Problem) {
	s := &cluster.Snapshot{}
	p := &model.Problem{Classes: []model.Class{{}}, Groups: []model.Group{{}}}
	for _, name := range []string{"search", "index", "disk"} {
		s.Dimensions = append(s.Dimensions, cluster.Dimension{Name: name})
		p.Dimensions = append(p.Dimensions, model.Dimension{Name: name, Weight: 1})
	}
	for n, name := range nodes {
		s.Nodes = append(s.Nodes, cluster.Node{ID: cluster.NodeID(name), Name: "node-" + name, Attributes: map[string]string{"zone": "abc"[n%3 : n%3+1]}})
		p.Nodes = append(p.Nodes, model.Node{ID: name, Capacity: []float64{1, 1, 1}})
		p.Classes[0].Nodes = append(p.Classes[0].Nodes, int32(n))
		p.Copies = append(p.Copies, model.Copy{Node: int32(n), Load: []float64{load(n, 0), load(n, 1), load(n, 2)}})
	}
	return s, p
}

// TestIsBounded: whatever comes, the memory is bounded, its sum is right, the newest sample is there, times ascend, and no
// node is remembered that no sample has.
func TestIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := New()
		h.mostSamples, h.mostBytes = rapid.IntRange(1, 20).Draw(t, "most samples"), rapid.IntRange(1000, 20_000).Draw(t, "most bytes")
		at, number := noon, 0
		cycles := rapid.IntRange(1, 60).Draw(t, "cycles")
		var names []string
		for i := range rapid.IntRange(1, 12).Draw(t, "nodes") {
			names = append(names, fmt.Sprintf("n%02d", i))
		}
		for range cycles {
			at = at.Add(time.Duration(rapid.SampledFrom([]int{-5, 0, 1, 60, 600, 7200}).Draw(t, "seconds")) * time.Second)
			number++
			cycle := fmt.Sprint("c", number)
			if rapid.IntRange(0, 4).Draw(t, "replaced") == 0 {
				names[rapid.IntRange(0, len(names)-1).Draw(t, "which")] = fmt.Sprintf("m%05d", number)
			}
			slices.Sort(names)
			if rapid.IntRange(0, 5).Draw(t, "fails") > 0 {
				s, p := problem(names, func(n, d int) float64 { return float64((n+d)%4) + 0.1 })
				h.ObservePlan(cycle, at, s, p, &plan.Plan{})
			}
			h.ObserveCycle(cycle, at, "moved")

			newest := h.samples[len(h.samples)-1]
			if newest.cycle != cycle || newest.outcome != "moved" {
				t.Fatalf("the newest sample is of %s, not %s", newest.cycle, cycle)
			}
			bytes, nodes := 0, make(map[*known]bool)
			rosters := make(map[*roster]bool)
			for i, s := range h.samples {
				if i > 0 && s.at <= h.samples[i-1].at {
					t.Fatal("times do not ascend")
				}
				bytes += s.size()
				if s.roster != nil && !rosters[s.roster] {
					rosters[s.roster] = true
					bytes += s.roster.size()
					for _, k := range s.roster.nodes {
						if !nodes[k] {
							nodes[k] = true
							bytes += k.size()
						}
					}
				}
			}
			if bytes != h.bytes || len(nodes) != len(h.nodes) {
				t.Fatalf("%d bytes of %d nodes are there, %d of %d counted", bytes, len(nodes), h.bytes, len(h.nodes))
			}
			if newest.at-h.samples[0].at > window.Milliseconds() || len(h.samples) > h.mostSamples || h.bytes > h.mostBytes && len(h.samples) > 1 {
				t.Fatalf("%d samples, %d bytes, %s", len(h.samples), h.bytes, time.Duration(newest.at-h.samples[0].at)*time.Millisecond)
			}
		}
	})
}

// TestThinning: a cycle every second for four hours, where there is room for one a minute, leaves as many samples as may be,
// spaced evenly within a factor of about two.
func TestThinning(t *testing.T) {
	h := New()
	h.mostSamples = 240
	for second := range 4 * 3600 {
		h.ObserveCycle(fmt.Sprint(second), noon.Add(time.Duration(second)*time.Second), "balanced")
	}
	heat := heatOf(t, h, "", time.Time{})
	if len(heat.Time) != h.mostSamples {
		t.Errorf("%d samples", len(heat.Time))
	}
	// The last few have not been thinned to the end.
	for i := 1; i < len(heat.Time)-10; i++ {
		if gap := heat.Time[i] - heat.Time[i-1]; gap < 30_000 || gap > 130_000 {
			t.Errorf("%d ms between samples %d and %d", gap, i-1, i)
		}
	}
}

// large is a problem of many nodes with names as long as in life.
func large(nodes int) (*cluster.Snapshot, *model.Problem) {
	names := make([]string, nodes)
	for i := range names {
		names[i] = fmt.Sprintf("data-%05d.search.example.org", i)
	}
	return problem(names, func(n, d int) float64 { return float64((n*7+d)%11) + 0.5 })
}

// long is a history with a cycle a minute, as if observed, without computing the same loads over and over.
func long(s *cluster.Snapshot, p *model.Problem, cycles int) *History {
	h := New()
	h.ObservePlan("cycle 0", noon, s, p, &plan.Plan{})
	first := h.samples[0]
	for i := 1; i < cycles; i++ {
		h.add(&sample{
			at: noon.Add(time.Duration(i) * time.Minute).UnixMilli(), cycle: fmt.Sprint("cycle ", i), outcome: "moved", roster: first.roster,
			load: slices.Clone(first.load),
		})
	}
	return h
}

// TestServing: an answer of megabytes passes through hundreds of kilobytes of memory.
func TestServing(t *testing.T) {
	s, p := large(750)
	h := long(s, p, 24*60)
	var before, after runtime.MemStats
	var written counter
	runtime.ReadMemStats(&before)
	if err := h.WriteHeat(&written, "search", time.Time{}); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	allocated := after.TotalAlloc - before.TotalAlloc
	t.Logf("an answer of %d KiB allocates %d KiB", written>>10, allocated>>10)
	if written < 2<<20 || allocated > uint64(written)/2 {
		t.Errorf("an answer of %d KiB, of which %d KiB were held", written>>10, allocated>>10)
	}
}

// counter counts the bytes that are written to it.
type counter int

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}

// TestMemory: 750 nodes for a day, and a cluster of ten times that size, stay within what the page may cost.
func TestMemory(t *testing.T) {
	measure := func(nodes, cycles int) (mebibytes float64, samples int) {
		s, p := large(nodes)
		heap := func() uint64 {
			runtime.GC()
			var stats runtime.MemStats
			runtime.ReadMemStats(&stats)
			return stats.HeapAlloc
		}
		before := heap()
		h := long(s, p, cycles)
		mebibytes = float64(int64(heap())-int64(before)) / (1 << 20)
		runtime.KeepAlive(h)
		runtime.KeepAlive(s)
		return mebibytes, len(h.samples)
	}
	if mebibytes, samples := measure(750, 24*60); mebibytes > 10 || samples != maxSamples {
		t.Errorf("750 nodes: %d samples, %.1f MiB", samples, mebibytes)
	} else {
		t.Logf("750 nodes: %d samples, %.1f MiB", samples, mebibytes)
	}
	if mebibytes, samples := measure(7500, 24*60); mebibytes > 40 || samples < maxSamples/3 {
		t.Errorf("7500 nodes: %d samples, %.1f MiB", samples, mebibytes)
	} else {
		t.Logf("7500 nodes: %d samples, %.1f MiB", samples, mebibytes)
	}
}

// TestReadersAndTheDaemon: whoever reads while the daemon goes on sees whole samples, in order, each as it was observed.
func TestReadersAndTheDaemon(t *testing.T) {
	h := New()
	h.mostSamples = 20
	var daemon, readers sync.WaitGroup
	done := make(chan struct{})
	daemon.Go(func() {
		for i := range 300 {
			names := []string{"n1", "n2", fmt.Sprint("n3-", i/10)} // nodes come and go
			s, p := problem(names, func(n, _ int) float64 { return float64(n + 1) })
			cycle, at := fmt.Sprint("c", i), noon.Add(time.Duration(i)*time.Second)
			h.ObservePlan(cycle, at, s, p, &plan.Plan{})
			h.ObserveMove(mover.Event{Move: move("x", 1), State: mover.Landed, Elapsed: time.Second}, at)
			h.ObserveCycle(cycle, at, "moved")
		}
		close(done)
	})
	for range 2 {
		readers.Go(func() {
			for ended := false; !ended; {
				select {
				case <-done:
					ended = true // and look once more
				default:
				}
				heat := heatOf(t, h, "", time.Time{})
				if !slices.IsSorted(heat.Time) || len(heat.Load) != 2*len(heat.Time)*len(heat.Nodes) {
					t.Errorf("%d samples, %d nodes, %d bytes", len(heat.Time), len(heat.Nodes), len(heat.Load))
				}
				for sample := range heat.Time {
					if got := row(heat, sample); !strings.HasPrefix(got, "node-n1=0.50 node-n2=1.00 node-n3-") || !strings.HasSuffix(got, "=1.50") {
						t.Errorf("sample %d: %s", sample, got)
					}
				}
				h.Moves(0)
				h.InFlight()
				h.Changes()
			}
		})
	}
	daemon.Wait()
	readers.Wait()
}
