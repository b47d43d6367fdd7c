package collector

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/es"
	"github.com/shardonnay/shardonnay/internal/sim"
)

// sharedData is the folder of public captures beside the repository; the tests over it say so where it is not there.
func sharedData(t *testing.T) string {
	t.Helper()
	dir := filepath.Join("..", "..", "..", "shared", "data")
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("SKIPPED: the folder with public captures, %s, is not there", dir)
	}
	return dir
}

// fixtures are the captures of real clusters that came with the source.
func fixtures(t *testing.T) []string {
	t.Helper()
	dirs, err := filepath.Glob("testdata/captures/*")
	if err != nil || len(dirs) < 5 {
		t.Fatalf("fixtures %v, %v", dirs, err)
	}
	return dirs
}

// TestCaptureIsTheSame: what is collected live and what a capture of the same moment holds are the same snapshot, with
// one sample and with two.
func TestCaptureIsTheSame(t *testing.T) {
	for _, product := range products {
		t.Run(product.Distribution+" "+product.Version, func(t *testing.T) {
			product.Seed = 31
			all := []cluster.Dimension{cluster.SearchTime, cluster.IndexTime, cluster.DiskBytes, cluster.HeapBytes, cluster.ShardCount}
			l := newLab(t, product, 5, Options{Batch: 2, Dimensions: all},
				sim.IndexSpec{Name: "a", Shards: 3, Replicas: 1, Bytes: 3 << 30, Search: 1, Write: 0.3},
				sim.IndexSpec{Name: "s;r%a\u00fcn\U0001F37Age", Shards: 2, Replicas: 1, Bytes: 1 << 30, Search: 0.1})
			if err := l.AddSeries(sim.SeriesSpec{Name: "logs", Keep: 3, DataStream: true, Index: sim.IndexSpec{Shards: 1, Replicas: 1, Bytes: 1 << 30}}); err != nil {
				t.Fatal(err)
			}
			l.Settle()
			l.Advance(time.Hour)
			for _, samples := range []int{1, 2} {
				dir := filepath.Join(t.TempDir(), "capture")
				l.restart()
				want := l.collect()
				if samples == 2 {
					// The second sample is captured a virtual minute after the first.
					l.Inject(sim.Fault{Kind: sim.FaultAct, Path: statsPath, Skip: 3, Count: 1, Then: func(c *sim.Cluster) { c.Advance(time.Minute) }})
				}
				if err := l.Capture(context.Background(), dir, samples, time.Millisecond); err != nil {
					t.Fatal(err)
				}
				if samples == 2 {
					want = l.collect()
				}
				got, err := FromCapture(dir, l.o)
				if err != nil {
					t.Fatal(err)
				}
				got.TakenAt = want.TakenAt
				got.StateVersion = want.StateVersion
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%d samples: live (-) and captured (+):\n%s", samples, diff)
				}
				if want.Fingerprint() != got.Fingerprint() {
					t.Errorf("%d samples: the fingerprints differ", samples)
				}
				checkCaptureInfo(t, dir, samples)
			}
		})
	}
}

func checkCaptureInfo(t *testing.T, dir string, samples int) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, captureFile))
	if err != nil {
		t.Fatal(err)
	}
	var info captureInfo
	if err := json.Unmarshal(text, &info); err != nil {
		t.Fatal(err)
	}
	if info.Version != 1 || info.Product == "" || info.Samples != samples || info.TakenAt.IsZero() || len(info.Requests) < 10 {
		t.Errorf("capture.json is %+v", info)
	}
}

// TestCaptureKeepsNoSecret looks for what the client knows in all that was written.
func TestCaptureKeepsNoSecret(t *testing.T) {
	c := sim.New(sim.Config{Seed: 1, Auth: &sim.Auth{User: "joe", Password: "hunter2hunter2"}})
	for _, name := range []string{"n0", "n1"} {
		if _, err := c.AddNode(sim.NodeSpec{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.AddIndex(sim.IndexSpec{Name: "a", Replicas: 1}); err != nil {
		t.Fatal(err)
	}
	c.Settle()
	anonymous := serve(t, c)
	if _, err := anonymous.Connect(t.Context()); cluster.ClassOf(err) != cluster.Refused {
		t.Fatalf("without a password: %v", err)
	}
	server := serveAs(t, c, es.Config{Username: "joe", Password: "hunter2hunter2"})
	collect, err := New(server, Options{})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := collect.Capture(t.Context(), dir, 1, 0); err != nil {
		t.Fatal(err)
	}
	files := 0
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		files++
		text, err := os.ReadFile(path)
		for _, secret := range []string{"hunter2hunter2", "am9lOmh1bnRlcjJodW50ZXIy"} {
			if bytes.Contains(text, []byte(secret)) {
				t.Errorf("%s is in %s", secret, path)
			}
		}
		return err
	})
	if err != nil || files < 10 {
		t.Errorf("%d files, %v", files, err)
	}
}

// TestCaptureFolder: an existing folder is filled, a folder that cannot be is an error that names it.
func TestCaptureFolder(t *testing.T) {
	l := small(t, Options{})
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "below")} {
		if err := l.Capture(t.Context(), dir, 1, 0); cluster.ClassOf(err) != cluster.Invalid || !strings.Contains(err.Error(), file) {
			t.Errorf("%v", err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	l.Inject(sim.Fault{Kind: sim.FaultAct, Path: versionPath, Count: 1, Then: func(*sim.Cluster) { cancel() }})
	if err := l.Capture(ctx, t.TempDir(), 2, time.Hour); cluster.ClassOf(err) != cluster.Interrupted {
		t.Errorf("stopped from outside: %v", err)
	}
}

// TestFixtures reads what real clusters answered.
func TestFixtures(t *testing.T) {
	for _, dir := range fixtures(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			s, err := FromCapture(dir, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if len(s.Nodes) != 3 || s.Health.Status != "green" || s.Samples != 1 || len(s.Warnings) != 1 {
				t.Errorf("%d nodes, %s, %d samples, warnings %q", len(s.Nodes), s.Health.Status, s.Samples, s.Warnings)
			}
			again, err := FromCapture(dir, Options{})
			if err != nil || again.Fingerprint() != s.Fingerprint() {
				t.Errorf("read again it is another snapshot: %v", err)
			}
			if i := s.IndexAt("busy"); i == cluster.None || s.Indices[i].Shards != 2 || total(s, "busy", "search") <= 0 || total(s, "busy", "index") <= 0 {
				t.Errorf("index busy at %d", i)
			}
		})
	}
}

// TestBundles reads diagnostics bundles of single-node clusters, from Elasticsearch 6.8 to 9.3, replicas unassigned and all.
func TestBundles(t *testing.T) {
	dir := filepath.Join(sharedData(t), "esdiag")
	for _, bundle := range []struct {
		version            string
		indices, copies    int
		unassigned, stream int
	}{{"6.8.23", 0, 0, 0, 0}, {"7.17.29", 10, 10, 0, 2}, {"8.19.3", 41, 43, 2, 4}, {"9.3.3", 36, 36, 0, 4}} {
		t.Run(bundle.version, func(t *testing.T) {
			s, err := FromCapture(filepath.Join(dir, bundle.version), Options{})
			if err != nil {
				t.Fatal(err)
			}
			unassigned, streams := 0, 0
			for i := range s.Copies {
				c := &s.Copies[i]
				if c.State == cluster.Unassigned {
					unassigned++
				} else if c.Provenance != cluster.SinceStart || c.Bytes <= 0 {
					t.Errorf("copy %+v", c)
				}
			}
			for i := range s.Indices {
				if s.Indices[i].Newest {
					streams++
				}
				if s.Indices[i].UUID == "" || s.Indices[i].Created.IsZero() || len(s.Indices[i].TierPreference) == 0 && !strings.HasPrefix(s.Indices[i].Name, ".") {
					t.Errorf("index %+v", s.Indices[i])
				}
			}
			n := s.Nodes[0]
			if len(s.Nodes) != 1 || n.Processors < 4 || n.Disk.Total == 0 || n.Heap == 0 || !n.IsData() {
				t.Errorf("node %+v", n)
			}
			if len(s.Indices) != bundle.indices || len(s.Copies) != bundle.copies || unassigned != bundle.unassigned || streams != bundle.stream ||
				s.Cluster.Product.Version.String() != bundle.version {
				t.Errorf("%v: %d indices, %d copies, %d unassigned, %d streams", s.Cluster.Product, len(s.Indices), len(s.Copies), unassigned, streams)
			}
			if bundle.copies > 0 && (len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], "There is one sample")) {
				t.Errorf("warnings %q", s.Warnings)
			}
		})
	}
}

// unpack copies a capture with its files uncompressed.
func unpack(t *testing.T, from string) string {
	t.Helper()
	to := t.TempDir()
	entries, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if entry.IsDir() {
			continue
		}
		text := unzipped(t, filepath.Join(from, entry.Name()))
		if err := os.WriteFile(filepath.Join(to, strings.TrimSuffix(entry.Name(), ".gz")), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

func unzipped(t testing.TB, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil && strings.HasSuffix(path, ".gz") {
		var z *gzip.Reader
		if z, err = gzip.NewReader(bytes.NewReader(text)); err == nil {
			var out bytes.Buffer
			_, err = out.ReadFrom(z)
			text = out.Bytes()
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestBrokenCaptures takes each file of a capture away, empties, cuts and replaces it. What is needed is missed, by
// name; the rest is not.
func TestBrokenCaptures(t *testing.T) {
	needed := map[string]bool{
		"version.json": true, "nodes.json": true, "nodes_stats.json": true, "cluster_state.json": true, "cluster_settings.json": true, "settings.json": true,
	}
	for _, fixture := range fixtures(t) {
		whole := unpack(t, fixture)
		entries, err := os.ReadDir(whole)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			name := entry.Name()
			path := filepath.Join(whole, name)
			text := unzipped(t, path)
			for how, content := range map[string][]byte{
				"missing": nil, "empty": {}, "cut": text[:len(text)/2], "text": []byte("hello"), "array": []byte("[]"), "compressed badly": []byte("\x1f\x8b"),
			} {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
				changed := path
				if how == "compressed badly" {
					changed += ".gz"
				}
				if content != nil {
					if err := os.WriteFile(changed, content, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				s, err := FromCapture(whole, Options{})
				switch {
				case name == captureFile, how == "missing" && !needed[name]:
					if err != nil {
						t.Errorf("%s %s: %v", name, how, err)
					}
				case err == nil:
					t.Errorf("%s %s: a snapshot of %d copies", name, how, len(s.Copies))
				case cluster.ClassOf(err) != cluster.Incomplete || !strings.Contains(err.Error(), strings.TrimSuffix(name, ".json")) || cluster.ExitCode(err) != 4:
					t.Errorf("%s %s: class %s: %v", name, how, cluster.ClassOf(err), err)
				case how == "cut" && !strings.Contains(err.Error(), "at byte "):
					t.Errorf("%s %s: the place is not named: %v", name, how, err)
				}
				_ = os.Remove(changed)
				if err := os.WriteFile(path, text, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// TestNestedSettings: the same settings, written nested as bundles have them, are the same snapshot.
func TestNestedSettings(t *testing.T) {
	for _, fixture := range fixtures(t) {
		flat, err := FromCapture(fixture, Options{})
		if err != nil {
			t.Fatal(err)
		}
		dir := unpack(t, fixture)
		for _, name := range []string{"settings.json", "cluster_settings.json"} {
			path := filepath.Join(dir, name)
			var document map[string]map[string]any
			if err := json.Unmarshal(unzipped(t, path), &document); err != nil {
				t.Fatal(err)
			}
			for key, part := range document {
				if settings, ok := part["settings"].(map[string]any); ok {
					document[key]["settings"] = nested(settings)
				} else {
					document[key] = nested(part)
				}
			}
			text, err := json.Marshal(document)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, err := FromCapture(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(flat, got); diff != "" {
			t.Errorf("%s: flat (-) and nested (+):\n%s", fixture, diff)
		}
	}
}

// nested takes the dots of flat keys for levels; where a key is also the beginning of others, its own value stays flat.
func nested(flat map[string]any) map[string]any {
	out := map[string]any{}
	for key, value := range flat {
		steps := strings.Split(key, ".")
		at := out
		for i, step := range steps[:len(steps)-1] {
			next, ok := at[step].(map[string]any)
			if !ok {
				if _, taken := at[step]; taken || prefixed(flat, strings.Join(steps[:i+1], ".")) {
					at[strings.Join(steps[i:], ".")] = value
					at = nil
					break
				}
				next = map[string]any{}
				at[step] = next
			}
			at = next
		}
		if at != nil {
			at[steps[len(steps)-1]] = value
		}
	}
	return out
}

func prefixed(flat map[string]any, key string) bool { _, ok := flat[key]; return ok }

// TestBatchesDoNotMatter: however the statistics are split over requests, and in whatever order answers list things, the
// snapshot is the same.
func TestBatchesDoNotMatter(t *testing.T) {
	l := small(t, Options{})
	o, err := l.o.complete()
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	read := func() *answers {
		a, err := gather(ctx, live{l.client, &o}, &o)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	l.Advance(time.Hour)
	first := read()
	l.Advance(time.Minute)
	second := read()
	snapshot := func(t interface{ Fatal(...any) }, of ...*answers) string {
		rates := newRates(&o)
		var taken *assembly
		for _, a := range of {
			if taken, err = assemble(a, &o); err != nil {
				t.Fatal(err)
			}
			rates.learn(taken)
		}
		return rates.estimate(taken).Fingerprint()
	}
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		shuffled := func(a *answers) *answers {
			b := *a
			b.stats = &es.NodesStats{}
			for _, i := range rng.Perm(len(a.stats.Nodes)) {
				n := a.stats.Nodes[i]
				n.Shards = slices.Clone(n.Shards)
				rng.Shuffle(len(n.Shards), func(i, j int) { n.Shards[i], n.Shards[j] = n.Shards[j], n.Shards[i] })
				b.stats.Add(&es.NodesStats{Nodes: []es.NodeStats{n}, Sharded: true}) // a batch of its own, empty ones between
				b.stats.Add(&es.NodesStats{})
			}
			routing := *a.routing
			routing.Copies, routing.Nodes = slices.Clone(routing.Copies), slices.Clone(routing.Nodes)
			rng.Shuffle(len(routing.Copies), func(i, j int) {
				routing.Copies[i], routing.Copies[j] = routing.Copies[j], routing.Copies[i]
			})
			rng.Shuffle(len(routing.Nodes), func(i, j int) { routing.Nodes[i], routing.Nodes[j] = routing.Nodes[j], routing.Nodes[i] })
			b.routing = &routing
			b.indices = slices.Clone(a.indices)
			rng.Shuffle(len(b.indices), func(i, j int) { b.indices[i], b.indices[j] = b.indices[j], b.indices[i] })
			return &b
		}
		if snapshot(rt, first, second) != snapshot(rt, shuffled(first), shuffled(second)) {
			rt.Error("the order of the answers shows in the snapshot")
		}
	})
	want := snapshot(t, read())
	for batch := 1; batch <= 5; batch++ {
		o.Batch = batch
		if snapshot(t, read()) != want {
			t.Errorf("in batches of %d it is another snapshot", batch)
		}
	}
}
