package collector

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/es"
)

// written is a source of answers made up for a size: a cluster of nodes x copies, two copies a shard, five shards an
// index.
type written struct {
	files map[string][]byte
	nodes int
	batch int
	tick  int64 // milliseconds since the first sample
	stats func(node int) string
	at    map[cluster.NodeID]int
}

func bigCluster(nodes, copies int) *written {
	w := &written{files: map[string][]byte{}, nodes: nodes, batch: 40, at: map[cluster.NodeID]int{}}
	id := func(n int) string { return fmt.Sprintf("node-id-%014d", n) }
	w.files["version.json"] = []byte(`{"cluster_name":"big","cluster_uuid":"u","version":{"number":"2.19.6","distribution":"opensearch"}}`)
	var infos, state, settings strings.Builder
	infos.WriteString(`{"nodes":{`)
	state.WriteString(`{"version":1,"cluster_uuid":"u","nodes":{`)
	for n := range nodes {
		w.at[cluster.NodeID(id(n))] = n
		comma := strings.Repeat(",", min(n, 1))
		fmt.Fprintf(&infos, `%s"%s":{"name":"n%d","host":"h%d","ip":"10.0.0.1","version":"2.19.6","roles":["data"],"attributes":{"zone":"z%d"},"os":{"allocated_processors":8},"jvm":{"mem":{"heap_max_in_bytes":1000}}}`,
			comma, id(n), n, n, n%3)
		fmt.Fprintf(&state, `%s"%s":{"name":"n%d","ephemeral_id":"e%d"}`, comma, id(n), n, n)
	}
	infos.WriteString(`}}`)
	state.WriteString(`},"routing_table":{"indices":{`)
	settings.WriteString(`{`)
	held := make([][]string, nodes) // format strings of statistics, with one verb for what is counted
	for x := range copies / 10 {
		name := fmt.Sprintf("logs-application-%06d", x)
		comma := strings.Repeat(",", min(x, 1))
		fmt.Fprintf(&settings, `%s"%s":{"settings":{"index.uuid":"uuid-%d","index.number_of_shards":"5","index.number_of_replicas":"1","index.creation_date":"1758154155586"}}`, comma, name, x)
		fmt.Fprintf(&state, `%s"%s":{"shards":{`, comma, name)
		for s := range 5 {
			fmt.Fprintf(&state, `%s"%d":[`, strings.Repeat(",", min(s, 1)), s)
			for c := range 2 {
				n := (x*7 + s*3 + c) % nodes
				fmt.Fprintf(&state, `%s{"state":"STARTED","primary":%t,"node":"%s","relocating_node":null,"shard":%d,"index":"%s","allocation_id":{"id":"%022d"}}`,
					strings.Repeat(",", c), c == 0, id(n), s, name, 10*x+2*s+c)
				held[n] = append(held[n], fmt.Sprintf(`"%s":[{"%d":{"routing":{"state":"STARTED","primary":%t},"docs":{"count":1000000},"store":{"size_in_bytes":53687091200,"reserved_in_bytes":0},`+
					`"indexing":{"index_total":%%[1]d,"index_time_in_millis":%%[1]d,"delete_total":0,"delete_time_in_millis":0},"search":{"query_total":%%[1]d,"query_time_in_millis":%%[1]d,"fetch_time_in_millis":12345,"suggest_time_in_millis":0},`+
					`"merges":{"total_time_in_millis":123456,"total_throttled_time_in_millis":0},"refresh":{"total_time_in_millis":123456},"translog":{"size_in_bytes":55},"seq_no":{"max_seq_no":%%[1]d}}}]`,
					name, s, c == 0))
			}
			state.WriteString(`]`)
		}
		state.WriteString(`}}`)
	}
	state.WriteString(`}}}`)
	settings.WriteString(`}`)
	w.files["nodes.json"], w.files["cluster_state.json"], w.files["settings.json"] = []byte(infos.String()), []byte(state.String()), []byte(settings.String())
	w.files["cluster_settings.json"] = []byte(`{"persistent":{},"transient":{}}`)
	// Two copies of one index on one node would be one member twice: the shards are merged by hand into one list.
	w.stats = func(n int) string {
		count := 100_000 + w.tick
		return fmt.Sprintf(`"%s":{"timestamp":%d,"name":"n%d","os":{"cpu":{"percent":10}},"jvm":{"uptime_in_millis":86400000},"fs":{"total":{"total_in_bytes":1000000000000,"available_in_bytes":500000000000}},"indices":{"store":{"size_in_bytes":5},"shards":{`,
			id(n), 1760000000000+w.tick, n) + fmt.Sprintf(strings.Join(held[n], ","), count) + `}}}`
	}
	return w
}

func (w *written) read(_ context.Context, what es.Request, decode func(io.Reader) error) error {
	file, ok := w.files[what.File]
	if !ok {
		return errAbsent
	}
	return decode(bytes.NewReader(file))
}

func (w *written) statistics(_ context.Context, ids []cluster.NodeID) (*es.NodesStats, error) {
	all := &es.NodesStats{}
	for len(ids) > 0 {
		n := min(w.batch, len(ids))
		var text strings.Builder
		text.WriteString(`{"_nodes":{"failed":0},"nodes":{`)
		for i, id := range ids[:n] {
			text.WriteString(strings.Repeat(",", min(i, 1)) + w.stats(w.at[id]))
		}
		text.WriteString(`}}`)
		part, err := es.DecodeNodeStats(strings.NewReader(text.String()))
		if err != nil {
			return nil, err
		}
		all.Add(part)
		ids = ids[n:]
	}
	return all, nil
}

func (w *written) stateVersion(context.Context) (int64, bool, error) { return 1, true, nil }

// take is what Collect does, from any source.
func take(tb testing.TB, from source, r *rates) *cluster.Snapshot {
	tb.Helper()
	a, err := gather(context.Background(), from, r.o)
	if err != nil {
		tb.Fatal(err)
	}
	p, err := assemble(a, r.o)
	if err != nil {
		tb.Fatal(err)
	}
	r.learn(p)
	return r.estimate(p)
}

func memory() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestMemory bounds what a collection of 50,000 copies on 750 nodes holds at its peak, the memory of the last one
// included: 150 MB, of which the snapshot itself is a fifth.
func TestMemory(t *testing.T) {
	w := bigCluster(750, 50_000)
	o, err := Options{}.complete()
	if err != nil {
		t.Fatal(err)
	}
	before := memory()
	r := newRates(&o)
	take(t, w, r)
	w.tick = 60_000
	var s *cluster.Snapshot
	all := func() uint64 {
		a, err := gather(t.Context(), w, &o)
		if err != nil {
			t.Fatal(err)
		}
		p, err := assemble(a, &o)
		if err != nil {
			t.Fatal(err)
		}
		r.learn(p)
		s = r.estimate(p)
		held := memory() - before
		runtime.KeepAlive(a)
		runtime.KeepAlive(p)
		return held
	}()
	kept := memory() - before
	runtime.KeepAlive(r)
	runtime.KeepAlive(w)
	t.Logf("%d copies: %d MB at the peak, %d MB kept with the snapshot", len(s.Copies), all>>20, kept>>20)
	if all > 150<<20 {
		t.Errorf("%d MB at the peak", all>>20)
	}
	if s.Samples != 2 || s.Copies[0].Provenance != cluster.Measured {
		t.Errorf("%d samples, copy %+v", s.Samples, s.Copies[0])
	}
}

// BenchmarkCollect climbs from a small cluster to 50,000 copies: all of a cycle's reading, decoding and smoothing, less
// the network.
func BenchmarkCollect(b *testing.B) {
	for _, size := range []struct{ nodes, copies int }{{10, 500}, {100, 6_000}, {750, 50_000}} {
		b.Run(fmt.Sprintf("%dx%d", size.nodes, size.copies), func(b *testing.B) {
			w := bigCluster(size.nodes, size.copies)
			o, err := Options{StateDir: b.TempDir()}.complete()
			if err != nil {
				b.Fatal(err)
			}
			r := newRates(&o)
			take(b, w, r)
			var saving time.Duration
			b.ReportAllocs()
			for b.Loop() {
				w.tick += 60_000
				if s := take(b, w, r); s.Samples != 2 || len(s.Copies) != size.copies {
					b.Fatalf("%d samples, %d copies", s.Samples, len(s.Copies))
				}
				start := time.Now()
				if err := r.save(); err != nil {
					b.Fatal(err)
				}
				saving += time.Since(start)
			}
			b.ReportMetric(float64(saving.Milliseconds())/float64(b.N), "ms-saving/op")
		})
	}
}
