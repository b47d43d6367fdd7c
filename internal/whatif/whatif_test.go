package whatif

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/cluster/clustertest"
	"github.com/shardonnay/shardonnay/internal/model"
)

// TestWhatIf plays testdata/whatif: "cluster" sets the scene, "what-if" makes the changes of its lines and draws what comes
// of it.
func TestWhatIf(t *testing.T) {
	var s *cluster.Snapshot
	datadriven.RunTest(t, "testdata/whatif", func(t *testing.T, d *datadriven.TestData) string {
		if d.Cmd == "cluster" {
			var err error
			if s, err = clustertest.Parse(d.Input); err != nil {
				return err.Error() + "\n"
			}
			return "ok\n"
		}
		var changes []Change
		for line := range strings.Lines(d.Input) {
			c, err := Parse(strings.TrimSpace(line))
			if err != nil {
				return fmt.Sprintf("error: %v\n", err)
			}
			changes = append(changes, c)
		}
		next, err := Apply(s, changes)
		if err != nil {
			return fmt.Sprintf("error: %v\n", err)
		}
		return draw(next, d.HasArg("index"))
	})
}

func draw(s *cluster.Snapshot, index bool) string {
	gib := func(bytes int64) float64 { return float64(bytes) / (1 << 30) }
	var out strings.Builder
	for n := range s.Nodes {
		node := &s.Nodes[n]
		fmt.Fprintf(&out, "%s zone=%s %.1f of %.0f GiB free", node.Name, s.Zone(n), gib(node.Disk.Available), gib(node.Disk.Total))
		if node.Leaving != "" {
			fmt.Fprintf(&out, ", leaving (%s)", node.Leaving)
		}
		separator := ": "
		for c := range s.Copies {
			k := &s.Copies[c]
			if int(k.Node) != n {
				continue
			}
			role := map[bool]string{true: "p", false: "r"}[k.Primary]
			fmt.Fprintf(&out, "%s%s/%d%s search=%.3g", separator, s.Indices[k.Index].Name, k.Shard, role, k.Load[0])
			if index {
				fmt.Fprintf(&out, " index=%.3g", k.Load[1])
			}
			fmt.Fprintf(&out, " %.1f GiB", gib(k.Bytes))
			separator = ", "
		}
		out.WriteString("\n")
	}
	for _, warning := range s.Warnings {
		fmt.Fprintf(&out, "warning: %s\n", warning)
	}
	return out.String()
}

// TestWritten: a change reads what it writes.
func TestWritten(t *testing.T) {
	for _, f := range forms {
		c, err := Parse(f.text)
		if err != nil {
			t.Fatal(err)
		}
		if c.String() != f.text {
			t.Errorf("%s is written %s", f.text, c)
		}
	}
}

// TestAnyCluster: on clusters and changes of every kind, the snapshot that is given stays, no search is lost while a copy of
// its shard is left, every shard that is left has one primary, the disks' sums hold, and there is a problem to solve.
func TestAnyCluster(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawCluster(t)
		before := s.Fingerprint()
		var changes []Change
		growth, load := 1.0, 1.0
		for range rapid.IntRange(1, 4).Draw(t, "changes") {
			text := rapid.SampledFrom([]string{
				"add-node:new,like=n1", "remove-node:n1", "lose-zone:a", "scale-load:*,search=2", "grow:*,disk=1.5",
			}).Draw(t, "change")
			c, err := Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			changes = append(changes, c)
		}
		next, err := Apply(s, changes)
		if s.Fingerprint() != before {
			t.Fatal("the snapshot has changed")
		}
		if err != nil {
			return // the same node twice, a zone that is gone
		}
		for _, c := range changes {
			switch c.Kind {
			case ScaleLoad:
				load *= 2
			case Grow:
				growth *= 1.5
			}
		}
		type sum struct {
			search    float64
			bytes     int64
			primaries int
			copies    int
		}
		count := func(s *cluster.Snapshot) map[string]sum {
			sums := make(map[string]sum)
			for c := range s.Copies {
				k := &s.Copies[c]
				key := fmt.Sprintf("%s/%d", s.Indices[k.Index].Name, k.Shard)
				x := sums[key]
				x.search, x.bytes, x.copies = x.search+k.Load[0], x.bytes+k.Bytes, x.copies+1
				if k.Primary {
					x.primaries++
				}
				sums[key] = x
			}
			return sums
		}
		was := count(s)
		for key, now := range count(next) {
			if math.Abs(now.search-load*was[key].search) > 1e-9 {
				t.Fatalf("the searches of %s cost %v, not %v", key, now.search, load*was[key].search)
			}
			if now.primaries != 1 {
				t.Fatalf("%s has %d primaries", key, now.primaries)
			}
			if want := growth * float64(was[key].bytes) * float64(now.copies) / float64(was[key].copies); math.Abs(float64(now.bytes)-want) > 100 {
				t.Fatalf("%s has %d bytes, not %v", key, now.bytes, want)
			}
		}
		for n := range next.Nodes {
			if at := s.NodeAt(next.Nodes[n].ID); at != cluster.None && math.Abs(float64(next.Nodes[n].Disk.Other()-s.Nodes[at].Disk.Other())) > 100 {
				t.Fatalf("what is beside the copies on %s went from %d to %d", next.Nodes[n].Name, s.Nodes[at].Disk.Other(), next.Nodes[n].Disk.Other())
			}
		}
		policy := model.DefaultPolicy()
		if _, err := model.Build(next, &policy); err != nil && cluster.ClassOf(err) != cluster.Infeasible {
			t.Fatal(err)
		}
	})
}

// drawCluster is a cluster of two or three zones with shards of one to three copies, each in a zone of its own.
func drawCluster(t *rapid.T) *cluster.Snapshot {
	zones := rapid.IntRange(2, 3).Draw(t, "zones")
	var text strings.Builder
	text.WriteString("set awareness=zone\n")
	nodes := rapid.IntRange(zones, 7).Draw(t, "nodes")
	for n := range nodes {
		fmt.Fprintf(&text, "node n%d zone=%c disk=1000gb free=%dgb\n", n, 'a'+n%zones, rapid.IntRange(300, 400).Draw(t, "free"))
	}
	for i := range rapid.IntRange(1, 6).Draw(t, "indices") {
		copies := rapid.IntRange(1, zones).Draw(t, "copies")
		fmt.Fprintf(&text, "index i%d replicas=%d\n", i, copies-1)
		from := rapid.IntRange(0, nodes-1).Draw(t, "from")
		search, bytes := rapid.Float64Range(0, 1).Draw(t, "search"), rapid.IntRange(1, 20).Draw(t, "bytes")
		for c := range copies {
			// Neighbours are in different zones, and the last wraps only where there are nodes enough to make that so.
			at := (from + c) % (nodes - nodes%zones)
			fmt.Fprintf(&text, "copy i%d/0 %s n%d bytes=%dgb search=%g\n", i, map[bool]string{true: "p", false: "r"}[c == 0], at, bytes, search)
		}
	}
	s, err := clustertest.Parse(text.String())
	if err != nil {
		t.Fatal(err)
	}
	return s
}
