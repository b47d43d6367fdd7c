package collector

import (
	"bytes"
	"compress/gzip"
	"context"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/es"
	"github.com/shardonnay/shardonnay/test/realcluster"
)

// record makes TestRealClusters save what the clusters answered as testdata/captures/PRODUCT, the fixtures of all other
// tests that read captures.
var record = flag.Bool("record", false, "save the real clusters' answers as fixtures")

// TestRealClusters asks each real product everything the client and the collector ask, with and without a move under
// way, and takes the server's word on what must come out.
func TestRealClusters(t *testing.T) {
	realcluster.ForEach(t, func(t *testing.T, p realcluster.Product) {
		real := realcluster.Start(t, realcluster.Options{Product: p, Nodes: 3})
		ctx, cancel := context.WithTimeout(t.Context(), 110*time.Second)
		defer cancel()
		check := func(err error) {
			if err != nil {
				t.Helper()
				t.Fatal(err)
			}
		}
		check(real.PutSettings(ctx, map[string]any{
			"cluster.routing.rebalance.enable": "none", "cluster.routing.allocation.awareness.attributes": "zone",
			"cluster.metadata.shardonnay.owner": "nobody",
		}))
		check(real.CreateIndex(ctx, realcluster.Index{Name: "busy", Shards: 2, Replicas: 1}))
		check(real.CreateIndex(ctx, realcluster.Index{Name: "lone", Node: "n0"}))
		check(real.CreateIndex(ctx, realcluster.Index{Name: "shut", Replicas: 1}))
		check(real.CreateIndex(ctx, realcluster.Index{Name: "veiled", Settings: map[string]any{"hidden": true}}))
		for day := 1; day <= 2; day++ {
			check(real.CreateIndex(ctx, realcluster.Index{Name: fmt.Sprintf("logs-2026.03.%02d", day)}))
		}
		streams := p.Distribution == cluster.OpenSearch
		if streams {
			check(real.Put(ctx, "/_index_template/s", map[string]any{
				"index_patterns": []string{"stream"}, "data_stream": map[string]any{},
				"template": map[string]any{"settings": map[string]any{"number_of_replicas": 0}},
			}, nil))
			check(real.Put(ctx, "/_data_stream/stream", nil, nil))
		}
		write := func(index string, documents int) {
			var body strings.Builder
			for i := range documents {
				fmt.Fprintf(&body, "{\"index\":{}}\n{\"text\":\"document %d of many\",\"n\":%d}\n", i, i)
			}
			check(real.Post(ctx, "/"+index+"/_bulk?refresh=true", body.String(), nil))
		}
		write("busy", 500)
		write("shut", 20)
		write("lone", 5000)
		check(real.Post(ctx, "/lone/_flush", nil, nil)) // or else a move replays operations, which nothing slows down
		check(real.Post(ctx, "/shut/_close", nil, nil))
		check(real.WaitGreen(ctx))

		client, err := es.New(es.Config{Addresses: real.Addresses()})
		check(err)
		defer client.Close()
		identity, err := client.Connect(ctx)
		check(err)
		if want := (cluster.Product{Distribution: p.Distribution, Version: identity.Product.Version}); identity.Product != want || identity.Product.Version.String() != p.Version {
			t.Errorf("it is %v", identity.Product)
		}
		c, err := New(client, Options{Dimensions: []cluster.Dimension{
			cluster.SearchTime, cluster.IndexTime, cluster.DiskBytes, cluster.HeapBytes, cluster.ShardCount,
		}})
		check(err)
		s, err := c.Collect(ctx)
		check(err)
		searches := 0
		// A second between every node's samples, filled with work, for one that is busy answers its first request late; and until
		// the servers have looked at the size of every shard.
		unknown := func(c cluster.Copy) bool { return c.Bytes == 0 || c.Provenance != cluster.Measured }
		for s.Samples < 2 || slices.ContainsFunc(s.Copies, unknown) {
			for range 20 {
				check(real.Get(ctx, "/busy/_search?q=document", nil))
				searches++
			}
			write("busy", 100)
			s, err = c.Collect(ctx)
			check(err)
		}
		t.Logf("%d searches in %v", searches, s.Window)
		checkReal(t, s, streams)
		checkClient(ctx, t, client, identity.Product, s)

		dir := t.TempDir()
		check(c.Capture(ctx, dir, 1, 0))
		captured, err := FromCapture(dir, c.o)
		check(err)
		if len(captured.Copies) != len(s.Copies) || len(captured.Warnings) != 1 {
			t.Errorf("the capture has %d copies, the cluster %d; warnings %q", len(captured.Copies), len(s.Copies), captured.Warnings)
		}
		if *record {
			saveFixture(t, dir, filepath.Join("testdata", "captures", p.Name()))
		}
	})
}

func checkReal(t *testing.T, s *cluster.Snapshot, streams bool) {
	t.Helper()
	counts := map[string]int{}
	for i := range s.Copies {
		c := &s.Copies[i]
		x := &s.Indices[c.Index]
		counts[x.Name]++
		if c.State != cluster.Started || c.AllocationID == "" || c.Bytes <= 0 || c.Provenance != cluster.Measured || c.Load[2] != float64(c.Bytes) || c.Load[3] <= 0 {
			t.Errorf("copy of %s: %+v", x.Name, c)
		}
		if x.Name == "busy" && (c.Load[0] <= 0 || c.Load[1] <= 0 || c.Docs == 0 || c.MaxSeqNo <= 0) {
			t.Errorf("copy of busy: %+v", c)
		}
		if x.Name == "shut" && (c.Load[0] != 0 || c.Docs != 20) {
			t.Errorf("copy of shut: %+v", c)
		}
	}
	want := map[string]int{"busy": 4, "lone": 1, "shut": 2, "veiled": 1, "logs-2026.03.01": 1, "logs-2026.03.02": 1}
	for name, n := range want {
		if counts[name] != n {
			t.Errorf("%d copies of %s, want %d", counts[name], name, n)
		}
	}
	for i := range s.Indices {
		x := &s.Indices[i]
		if x.UUID == "" || x.Created.IsZero() || x.Busy != "" || x.Closed != (x.Name == "shut") || x.Name == "veiled" && !x.Hidden {
			t.Errorf("index %+v", x)
		}
		if x.Newest != (x.Name == "logs-2026.03.02" || strings.HasPrefix(x.Name, ".ds-stream-")) {
			t.Errorf("index %+v", x)
		}
		if strings.HasPrefix(x.Name, ".ds-stream-") {
			streams = false
			if x.Series != "stream" {
				t.Errorf("index %+v", x)
			}
		}
	}
	if streams {
		t.Error("the data stream was not seen")
	}
	for _, n := range s.Nodes {
		if n.Base[0] > 0.01 || n.Base[1] > 0.01 {
			t.Errorf("%s does %v beside its copies", n.Name, n.Base)
		}
		if n.Processors < 1 || n.Heap <= 0 || n.Disk.Total <= 0 || n.Disk.Available <= 0 || n.Disk.Store <= 0 || n.Uptime <= 0 ||
			n.EphemeralID == "" || n.Attributes["zone"] == "" || !n.IsData() || n.Leaving != "" {
			t.Errorf("node %+v", n)
		}
	}
	if s.Health.Status != "green" || !s.Health.HasMaster || s.Health.DataNodes != 3 {
		t.Errorf("health %+v", s.Health)
	}
	if got := s.Settings; got.RebalanceEnable != "none" || len(got.AwarenessAttributes) != 1 || got.Ownership["owner"] != "nobody" ||
		got.IncomingRecoveries == 0 || got.RecoveryBytesPerSec == 0 || got.Low == (cluster.Watermark{}) {
		t.Errorf("settings %+v", got)
	}
	if len(s.Warnings) > 0 {
		t.Errorf("warnings %q", s.Warnings)
	}
}

// checkClient sends the orders: a good move beside an impossible one, a cancel, a setting; and reads what they change.
func checkClient(ctx context.Context, t *testing.T, client *es.Client, product cluster.Product, s *cluster.Snapshot) {
	t.Helper()
	check := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	check(client.PutSettings(ctx, map[string]any{"indices.recovery.max_bytes_per_sec": "40kb"}))
	disks, err := client.FileSystems(ctx)
	check(err)
	if len(disks) != len(s.Nodes) || disks[s.Nodes[0].ID].Total != s.Nodes[0].Disk.Total || disks[s.Nodes[0].ID].Store == 0 {
		t.Errorf("disks %+v", disks)
	}
	running, err := client.RunningSnapshots(ctx)
	check(err)
	if len(running) != 0 {
		t.Errorf("snapshots %v", running)
	}
	lone := s.Copies[0]
	for _, c := range s.Copies {
		if s.Indices[c.Index].Name == "lone" {
			lone = c
		}
	}
	from := s.Nodes[lone.Node].ID
	to := s.Nodes[(int(lone.Node)+1)%len(s.Nodes)].ID
	decisions, err := client.Explain(ctx, "lone", 0, true, from)
	check(err)
	if len(decisions) != len(s.Nodes)-1 || decisions[0].Name == "" || decisions[0].Decision == "" || len(decisions[0].Deciders) < 5 {
		t.Errorf("explained %+v", decisions)
	}
	outcomes, err := client.Reroute(ctx, product, []es.Move{
		{Index: "lone", Shard: 0, From: from, To: to}, {Index: "nowhere", Shard: 0, From: from, To: to}, {Index: "lone", Shard: 0, From: from, To: to},
	})
	check(err)
	if outcomes[0].Refused || len(outcomes[0].Decisions) < 5 || !outcomes[1].Refused || !outcomes[2].Refused {
		t.Errorf("outcomes %+v", outcomes)
	}
	routing, err := client.Routing(ctx)
	check(err)
	for _, c := range routing.Copies {
		if c.Index == "lone" && (c.State != cluster.Relocating || c.Node != from || c.Target != to || c.RelocationID == "" || c.AllocationID != lone.AllocationID) {
			t.Errorf("moving copy %+v", c)
		}
	}
	// The file transfer begins a moment after the state says so.
	for {
		recoveries, err := client.Recoveries(ctx)
		check(err)
		if len(recoveries) == 1 && recoveries[0].BytesTotal > 0 {
			if r := recoveries[0]; r.Index != "lone" || r.Source != from || r.Target != to || r.BytesRecovered >= r.BytesTotal {
				t.Errorf("recovery %+v", r)
			}
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("recoveries %+v", recoveries)
		}
	}
	check(client.Cancel(ctx, product, "lone", 0, to))
	if err := client.Cancel(ctx, product, "lone", 0, to); cluster.ClassOf(err) != cluster.Rejected {
		t.Errorf("a cancel of what is not on its way: %v", err)
	}
	routing, err = client.Routing(ctx)
	check(err)
	for _, c := range routing.Copies {
		if c.Index == "lone" && (c.State != cluster.Started || c.Node != from || c.AllocationID != lone.AllocationID) {
			t.Errorf("copy after the cancel %+v", c)
		}
	}
	balance, err := client.DesiredBalance(ctx)
	check(err)
	if (balance != nil) != product.HasDesiredBalance() {
		t.Errorf("desired balance %+v", balance)
	}
	if balance != nil {
		// A cancelled move leaves its wish behind, once the server has computed it; a computation anew forgets it.
		for len(balance.Wishes()) == 0 {
			if balance, err = client.DesiredBalance(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if w := balance.Wishes(); len(w) != 1 || w[0].Index != "lone" || w[0].Node != from || len(w[0].Desired) != 1 || w[0].Desired[0] != to {
			t.Errorf("wishes %+v", w)
		}
		check(client.DeleteDesiredBalance(ctx))
		for len(balance.Wishes()) != 0 {
			if balance, err = client.DesiredBalance(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	check(client.PutSettings(ctx, map[string]any{"indices.recovery.max_bytes_per_sec": nil}))
	if _, err := client.Reroute(ctx, product, []es.Move{{Index: "lone", Shard: 0, From: "nobody", To: to}}); cluster.ClassOf(err) != cluster.Rejected || es.OutcomeUnknown(err) {
		t.Errorf("a move from an unknown node: %v", err)
	}
}

// saveFixture copies a capture, compressed.
func saveFixture(t *testing.T, from, to string) {
	t.Helper()
	if err := os.MkdirAll(to, 0o755); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		if _, err := z.Write(text); err != nil {
			return err
		}
		if err := z.Close(); err != nil {
			return err
		}
		if entry.Name() == captureFile {
			return os.WriteFile(filepath.Join(to, entry.Name()), text, 0o644)
		}
		return os.WriteFile(filepath.Join(to, entry.Name()+".gz"), packed.Bytes(), 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
}
