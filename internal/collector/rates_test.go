package collector

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/es"
	"github.com/shardonnay/shardonnay/internal/sim"
)

// TestNodesAddUp compares what the copies of each node are expected to cost with what the simulator knows they do.
func TestNodesAddUp(t *testing.T) {
	l := newLab(t, sim.Config{Seed: 11}, 6, Options{},
		sim.IndexSpec{Name: "hot", Shards: 3, Replicas: 1, Bytes: 30 << 30, Search: 2, Write: 0.4},
		sim.IndexSpec{Name: "warm", Shards: 5, Replicas: 2, Bytes: 50 << 30, Search: 1},
		sim.IndexSpec{Name: "bulk", Shards: 4, Replicas: 0, Bytes: 9 << 30, Write: 1.2},
	)
	s := l.cycles(20)
	for _, truth := range l.Loads() {
		n := s.NodeAt(cluster.NodeID(truth.ID))
		var sum cluster.Load
		for i := range s.Copies {
			if int(s.Copies[i].Node) == n {
				sum = sum.Plus(s.Copies[i].Load)
			}
		}
		near(t, "search of "+truth.Name, sum[0], truth.Search, 0.03)
		near(t, "index of "+truth.Name, sum[1], truth.Index, 0.03)
		near(t, "disk of "+truth.Name, sum[2], truth.Disk, 0.03)
		if base := s.Nodes[n].Base; base[0] > 0.01 || base[1] > 0.01 {
			t.Errorf("%s does %v beside its copies", truth.Name, base)
		}
	}
}

// TestSharesAreEqual: replica selection sends most searches to one copy; all copies are expected to carry the same.
func TestSharesAreEqual(t *testing.T) {
	l := newLab(t, sim.Config{Seed: 5}, 3, Options{}, sim.IndexSpec{Name: "a", Shards: 2, Replicas: 2, Bytes: 1 << 30, Search: 0.9})
	s := l.cycles(5)
	for shard := range int32(2) {
		var expected, observed []float64
		for i := range s.Copies {
			if s.Copies[i].Shard == shard {
				expected = append(expected, s.Copies[i].Load[0])
				observed = append(observed, s.Copies[i].Observed[0])
			}
		}
		if expected[0] != expected[1] || expected[1] != expected[2] {
			t.Errorf("expected %v", expected)
		}
		near(t, "sum observed", observed[0]+observed[1]+observed[2], 3*expected[0], 0.05)
	}
}

// moveAndLand moves a copy of index a and lets it land.
func (l *lab) moveAndLand(s *cluster.Snapshot, index string) (shard int32, to cluster.NodeID) {
	l.t.Helper()
	from, to, at := freeMove(l.t, s, index)
	outcomes, err := l.client.Reroute(context.Background(), s.Cluster.Product, []es.Move{{Index: index, Shard: int(s.Copies[at].Shard), From: from, To: to}})
	if err != nil || outcomes[0].Refused {
		l.t.Fatalf("%+v, %v", outcomes, err)
	}
	return s.Copies[at].Shard, to
}

// TestMoves: a copy that moved counts from zero; it keeps its estimates until it has settled, and what its group costs
// never dips.
func TestMoves(t *testing.T) {
	for _, replicas := range []int{0, 1} {
		l := newLab(t, sim.Config{Seed: 9, Noise: -1}, 4, Options{Settle: 3 * time.Minute},
			sim.IndexSpec{Name: "a", Shards: 2, Replicas: replicas, Bytes: 20 << 30, Search: 1, Write: 0.2})
		if err := l.SetPersistent(map[string]string{"cluster.routing.rebalance.enable": "none"}); err != nil {
			t.Fatal(err) // or else the server may take the copy back
		}
		s := l.cycles(5)
		wantIndex := 0.2 * float64(1+replicas)
		shard, to := l.moveAndLand(s, "a")
		for minute := range 15 {
			s = l.cycles(1)
			near(t, "search", total(s, "a", "search"), 1, 0.02)
			near(t, "index", total(s, "a", "index"), wantIndex, 0.02)
			for i := range s.Copies {
				if c := &s.Copies[i]; c.Provenance != cluster.Measured {
					t.Errorf("minute %d: copy %+v", minute, c)
				}
			}
			for _, n := range s.Nodes {
				if n.Base[0] > 0.02 || n.Base[1] > 0.02 {
					t.Errorf("minute %d: %s does %v beside its copies", minute, n.Name, n.Base)
				}
			}
		}
		landed := false
		for i := range s.Copies {
			landed = landed || s.Copies[i].Shard == shard && s.Nodes[s.Copies[i].Node].ID == to && s.Copies[i].State == cluster.Started
		}
		if !landed {
			t.Error("the copy has not landed")
		}
	}
}

// TestQuietAfterMove: when the writes stop while a moved copy settles, its sequence numbers say so, and the zeros are
// believed at once.
func TestQuietAfterMove(t *testing.T) {
	l := newLab(t, sim.Config{Seed: 9, Noise: -1}, 4, Options{Settle: time.Hour, HalfLife: time.Minute},
		sim.IndexSpec{Name: "a", Shards: 1, Replicas: 0, Bytes: 1 << 30, Write: 0.2})
	l.moveAndLand(l.cycles(5), "a")
	s := l.cycles(2)
	near(t, "index while it settles", total(s, "a", "index"), 0.2, 0.02)
	l.SetHeat("a", 1, 0)
	if s = l.cycles(8); total(s, "a", "index") > 0.01 {
		t.Errorf("index is %g", total(s, "a", "index"))
	}
}

// TestRestarts: counters begin again with a node's process and on demand; rates never go negative and never dip.
func TestRestarts(t *testing.T) {
	l := newLab(t, sim.Config{Seed: 21, Noise: -1}, 3, Options{},
		sim.IndexSpec{Name: "a", Shards: 3, Replicas: 1, Bytes: 1 << 30, Search: 1, Write: 0.3})
	l.cycles(5)
	l.ResetCounters("a")
	for range 5 {
		s := l.cycles(1)
		near(t, "search", total(s, "a", "search"), 1, 0.02)
		near(t, "index", total(s, "a", "index"), 0.6, 0.02)
		for i := range s.Copies {
			if c := &s.Copies[i]; c.Load[0] < 0 || c.Load[1] < 0 || c.Observed[0] < 0 || c.Provenance != cluster.Measured {
				t.Errorf("copy %+v", c)
			}
		}
	}
	l.Kill("n1")
	l.cycles(1)
	l.Restart("n1")
	for range 10 {
		l.cycles(1)
	}
	s := l.collect()
	near(t, "search after a restart", total(s, "a", "search"), 1, 0.05)
	near(t, "index after a restart", total(s, "a", "index"), 0.6, 0.05)
}

// TestFallbacks: what cannot be measured yet is guessed from what is nearest.
func TestFallbacks(t *testing.T) {
	provenance := func(s *cluster.Snapshot, index string, replica bool) cluster.Provenance {
		worst := cluster.Measured
		for i := range s.Copies {
			if c := &s.Copies[i]; s.Indices[c.Index].Name == index && c.Primary != replica {
				worst = max(worst, c.Provenance)
			}
		}
		return worst
	}
	l := newLab(t, sim.Config{Seed: 4, Noise: -1}, 4, Options{},
		sim.IndexSpec{Name: "a", Shards: 2, Replicas: 0, Bytes: 1 << 30, Search: 0.5, Write: 0.2})
	if s := l.collect(); provenance(s, "a", false) != cluster.SinceStart {
		t.Errorf("the first time: %v", provenance(s, "a", false))
	}
	s := l.cycles(5)
	if provenance(s, "a", false) != cluster.Measured {
		t.Errorf("after two: %v", provenance(s, "a", false))
	}
	if err := l.SetIndex("a", map[string]string{"index.number_of_replicas": "1"}); err != nil {
		t.Fatal(err)
	}
	s = l.cycles(1)
	if got := provenance(s, "a", true); got != cluster.FromGroup {
		t.Errorf("a new replica: %v", got)
	}
	near(t, "index with a new replica", total(s, "a", "index"), 0.4, 0.03)
	near(t, "search with a new replica", total(s, "a", "search"), 0.5, 0.03)

	series := newLab(t, sim.Config{Seed: 4, Noise: -1}, 4, Options{HalfLife: 20 * time.Minute})
	if err := series.AddSeries(sim.SeriesSpec{Name: "logs", Keep: 4, Index: sim.IndexSpec{
		Shards: 2, Replicas: 1, Bytes: 10 << 30, Search: 0.4, Write: 0.3, Profile: sim.SearchByAge,
	}}); err != nil {
		t.Fatal(err)
	}
	series.Settle()
	s = series.cycles(30)
	var newest string
	for i := range s.Indices {
		if s.Indices[i].Newest {
			newest = s.Indices[i].Name
		}
	}
	wantSearch, wantIndex := total(s, newest, "search"), total(s, newest, "index")
	if wantSearch == 0 || wantIndex == 0 {
		t.Fatalf("%s costs %g and %g", newest, wantSearch, wantIndex)
	}
	for tries := 0; s.Indices[s.IndexAt(newest)].Newest; tries++ {
		if tries > 30 {
			t.Fatal("the series does not roll over")
		}
		series.Advance(time.Hour)
		s = series.collect()
	}
	for i := range s.Indices {
		if x := &s.Indices[i]; x.Newest {
			if got := provenance(s, x.Name, false); got != cluster.FromSeries {
				t.Errorf("the day's first look at %s: %v", x.Name, got)
			}
			near(t, "search of the new index", total(s, x.Name, "search"), wantSearch, 0.3)
			near(t, "index of the new index", total(s, x.Name, "index"), wantIndex, 0.3)
		}
	}
}

// TestStateSurvives: a new process goes on where the last one was, at once.
func TestStateSurvives(t *testing.T) {
	dir := t.TempDir()
	l := newLab(t, sim.Config{Seed: 2, Noise: -1}, 4, Options{StateDir: dir},
		sim.IndexSpec{Name: "a", Shards: 3, Replicas: 1, Bytes: 1 << 30, Search: 1, Write: 0.3})
	before := l.cycles(10)
	l.Advance(time.Minute)
	l.restart()
	s := l.collect()
	if s.Samples != 2 || s.Window != time.Minute || len(s.Warnings) != 0 {
		t.Errorf("%d samples over %v, warnings %q", s.Samples, s.Window, s.Warnings)
	}
	near(t, "search", total(s, "a", "search"), total(before, "a", "search"), 0.01)
	for i := range s.Copies {
		if s.Copies[i].Provenance != cluster.Measured {
			t.Errorf("copy %+v", s.Copies[i])
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != stateFile {
		t.Errorf("the folder holds %v, %v", entries, err)
	}

	// Days later the counters of back then say nothing about now, the smoothed rates still something.
	l.SetTraffic(0, 0)
	l.Advance(72 * time.Hour)
	l.restart()
	if s = l.collect(); total(s, "a", "search") < 0.5 {
		t.Errorf("search is %g", total(s, "a", "search"))
	}
	if s = l.cycles(60); total(s, "a", "search") > 0.05 {
		t.Errorf("an hour later search is %g", total(s, "a", "search"))
	}

	whole, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"empty": {}, "text": []byte("hello"), "cut": whole[:len(whole)/2], "checksum": append(append([]byte{}, whole[:len(whole)-5]...), 1, 2, 3, 4, 5),
	} {
		if err := os.WriteFile(filepath.Join(dir, stateFile), content, 0o600); err != nil {
			t.Fatal(err)
		}
		l.Advance(time.Minute)
		l.restart()
		s := l.collect()
		if s.Samples != 1 || len(s.Warnings) != 2 || !strings.Contains(strings.Join(s.Warnings, " "), "measuring begins anew") {
			t.Errorf("%s: %d samples, warnings %q", name, s.Samples, s.Warnings)
		}
		if s = l.cycles(1); s.Samples != 2 || len(s.Warnings) != 0 {
			t.Errorf("%s, a minute later: %d samples, warnings %q", name, s.Samples, s.Warnings)
		}
	}

	// Another cluster behind the same address and folder has nothing of it.
	other := newLab(t, sim.Config{Seed: 77}, 3, Options{StateDir: dir}, sim.IndexSpec{Name: "a", Search: 1})
	if s := other.collect(); s.Samples != 1 || !strings.Contains(strings.Join(s.Warnings, " "), "of another cluster") {
		t.Errorf("another cluster has %d samples, warnings %q", s.Samples, s.Warnings)
	}

	if os.Getuid() != 0 {
		if err := os.Chmod(dir, 0o500); err != nil {
			t.Fatal(err)
		}
		defer os.Chmod(dir, 0o700)
		if s := other.cycles(1); !strings.Contains(strings.Join(s.Warnings, " "), "could not be saved") {
			t.Errorf("warnings %q", s.Warnings)
		}
	}
}

// TestNoHurry: two looks within a second are one.
func TestNoHurry(t *testing.T) {
	l := newLab(t, sim.Config{Seed: 2, Noise: -1}, 3, Options{}, sim.IndexSpec{Name: "a", Shards: 2, Replicas: 1, Search: 1})
	l.collect()
	l.Advance(400 * time.Millisecond)
	if s := l.collect(); s.Samples != 1 {
		t.Errorf("%d samples after 0.4 s", s.Samples)
	}
	l.Advance(800 * time.Millisecond)
	if s := l.collect(); s.Samples != 2 || s.Window != 1200*time.Millisecond {
		t.Errorf("%d samples over %v", s.Samples, s.Window)
	} else {
		near(t, "search", total(s, "a", "search"), 1, 0.05)
	}
}

func TestRejectionsAndQueue(t *testing.T) {
	l := newLab(t, sim.Config{Seed: 2}, 3, Options{}, sim.IndexSpec{Name: "a", Search: 1})
	l.collect()
	l.Reject("n1", 60, 30)
	for _, n := range l.cycles(1).Nodes {
		if want := map[string]float64{"n1": 1.5}[n.Name]; math.Abs(n.Rejections-want) > 0.01 {
			t.Errorf("%s rejects %g a second, want %g", n.Name, n.Rejections, want)
		}
	}
}

func TestBytesMoving(t *testing.T) {
	l := newLab(t, sim.Config{Seed: 2, Noise: -1}, 3, Options{},
		sim.IndexSpec{Name: "written", Bytes: 40 << 30, DocBytes: 1000, Write: 0.5, DocsPerSec: 5000}, sim.IndexSpec{Name: "read", Bytes: 40 << 30, Search: 1})
	s := l.cycles(5)
	for i := range s.Copies {
		c := &s.Copies[i]
		if s.Indices[c.Index].Name == "read" {
			if c.BytesMoving > c.Bytes/1000 {
				t.Errorf("reading alone keeps %d bytes", c.BytesMoving)
			}
			continue
		}
		// 40 GiB at the default 40 MiB/s take 1,024 s, in which 5,000 documents of 1,000 bytes arrive each second.
		near(t, "bytes kept while it moves", float64(c.BytesMoving), 1024*5000*1000, 0.1)
	}
}

func TestCapacity(t *testing.T) {
	c := sim.New(sim.Config{Seed: 1})
	for _, spec := range []sim.NodeSpec{
		{Name: "big1", Processors: 32, Attributes: map[string]string{"zone": "a"}},
		{Name: "small1", Processors: 4, Attributes: map[string]string{"zone": "b"}},
		{Name: "odd", Attributes: map[string]string{"zone": "a", "shardonnay_capacity_search": "3.5"}},
	} {
		if _, err := c.AddNode(spec); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.AddIndex(sim.IndexSpec{Name: "a"}); err != nil {
		t.Fatal(err)
	}
	c.Settle()
	l := &lab{Cluster: c, t: t, client: serve(t, c), o: Options{Capacity: []CapacityRule{
		{Node: "zone=a", Dimension: "search", Capacity: 20}, {Node: "small*", Dimension: "disk", Capacity: 1e9},
	}}}
	l.restart()
	want := map[string][3]float64{"big1": {20, 32, 1e12}, "small1": {4, 4, 1e9}, "odd": {3.5, 8, 1e12}}
	for _, n := range l.collect().Nodes {
		for d := range 3 {
			if math.Abs(n.Capacity[d]-want[n.Name][d]) > 0.2*want[n.Name][d] {
				t.Errorf("%s can carry %v, want %v", n.Name, n.Capacity[:3], want[n.Name])
			}
		}
	}
	for _, o := range []Options{
		{Dimensions: []cluster.Dimension{{Name: "heat"}}},
		{Capacity: []CapacityRule{{Node: "*", Dimension: "heap", Capacity: 1}}},
		{Capacity: []CapacityRule{{Node: "*", Dimension: "disk"}}},
		{StateDir: filepath.Join(os.Args[0], "below-a-file")},
	} {
		if _, err := New(nil, o); cluster.ClassOf(err) != cluster.Invalid {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestAverage holds the smoothing against its definition, computed in full.
func TestAverage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type sample struct{ x, dt float64 }
		samples := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) sample {
			return sample{rapid.Float64Range(0, 100).Draw(t, "x"), rapid.Float64Range(1, 600).Draw(t, "dt")}
		}), 1, 30).Draw(t, "samples")
		const halfLife = 5 * time.Minute
		var a average
		for _, s := range samples {
			a.add(s.x, time.Duration(s.dt*1e9), halfLife)
		}
		var weights, squares, sum, age float64
		w := make([]float64, len(samples))
		for i := len(samples) - 1; i >= 0; i-- {
			w[i] = math.Exp2(-age/300) - math.Exp2(-(age+samples[i].dt)/300)
			age += samples[i].dt
			weights, squares, sum = weights+w[i], squares+w[i]*w[i], sum+w[i]*samples[i].x
		}
		mean, spread := sum/weights, 0.0
		for i, s := range samples {
			spread += w[i] * (s.x - mean) * (s.x - mean)
		}
		close := func(what string, got, want float64) {
			if math.Abs(got-want) > 1e-6*(1+math.Abs(want)) {
				t.Errorf("%s is %g, want %g", what, got, want)
			}
		}
		close("mean", a.Mean, mean)
		close("weight", a.Weight, weights)
		close("error", a.error(), math.Sqrt(spread/weights*squares)/weights)
		close("memory", a.memory(halfLife), weights*300/math.Ln2)
	})
}

// TestEqualSamplesHaveNoError: what is always the same is known, to the last bit: the error is the root of a difference
// that rounding makes a million times as large.
func TestEqualSamplesHaveNoError(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Float64Range(0, 1e6).Draw(t, "x")
		var a average
		for _, dt := range rapid.SliceOfN(rapid.Float64Range(1, 600), 1, 30).Draw(t, "dt") {
			a.add(x, time.Duration(dt*1e9), 5*time.Minute)
		}
		if a.Mean != x || a.error() != 0 {
			t.Errorf("the mean of samples of %g is %g, with an error of %g", x, a.Mean, a.error())
		}
	})
}

// TestClocks: clocks that are set back, and nodes that do not agree about the hour.
func TestClocks(t *testing.T) {
	w := bigCluster(4, 100)
	o, err := Options{}.complete()
	if err != nil {
		t.Fatal(err)
	}
	r := newRates(&o)
	var s *cluster.Snapshot
	for _, minute := range []int64{0, 1, 2, -30, -29, -28, -28} {
		w.tick = minute * 60_000
		s = take(t, w, r)
		for i := range s.Copies {
			if c := &s.Copies[i]; c.Load[0] < 0 || c.Load[1] < 0 || c.Deviation[0] < 0 || c.Observed[0] < 0 {
				t.Fatalf("minute %d: copy %+v", minute, c)
			}
		}
	}
	if c := &s.Copies[0]; c.Provenance != cluster.Measured || s.Window != time.Minute {
		t.Errorf("copy %+v, window %v", c, s.Window)
	}

	skewed := func(tick int64) *cluster.Snapshot {
		w.tick = tick
		a, err := gather(t.Context(), w, &o)
		if err != nil {
			t.Fatal(err)
		}
		for i := range a.stats.Nodes { // each three hours behind the one before
			a.stats.Nodes[i].At = a.stats.Nodes[i].At.Add(-3 * time.Hour * time.Duration(a.stats.Nodes[i].ID[len(a.stats.Nodes[i].ID)-1]-'0'))
		}
		p, err := assemble(a, &o)
		if err != nil {
			t.Fatal(err)
		}
		r.learn(p)
		return r.estimate(p)
	}
	r = newRates(&o)
	for minute := range int64(4) {
		s = skewed(minute * 60_000)
	}
	for i := range s.Copies {
		if c := &s.Copies[i]; c.Provenance != cluster.Measured || math.Abs(c.Observed[0]-1) > 0.01 { // a busy second a second
			t.Fatalf("copy %+v", c)
		}
	}
}
