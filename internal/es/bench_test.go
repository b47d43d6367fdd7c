package es

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"testing"
)

// bigStats is an answer of 50 nodes' statistics, copies of them in all, about 400 bytes each, as our filter leaves them.
func bigStats(copies int) []byte {
	const nodes = 50
	var out bytes.Buffer
	out.WriteString(`{"_nodes":{"total":50,"successful":50,"failed":0},"nodes":{`)
	for n := range nodes {
		if n > 0 {
			out.WriteByte(',')
		}
		fmt.Fprintf(&out, `"node-id-%014d":{"timestamp":1760000000000,"name":"n%d","indices":{"store":{"size_in_bytes":50000000000,"reserved_in_bytes":0},"shards":{`, n, n)
		for c := range copies / nodes {
			if c > 0 {
				out.WriteByte(',')
			}
			fmt.Fprintf(&out, `"logs-application-2026.11.%02d-%06d":[{"%d":{"routing":{"state":"STARTED","primary":%t},"docs":{"count":%d},`+
				`"store":{"size_in_bytes":%d,"reserved_in_bytes":0},"indexing":{"index_total":%d,"index_time_in_millis":%d,"delete_total":0,"delete_time_in_millis":0},`+
				`"search":{"query_total":%d,"query_time_in_millis":%d,"fetch_time_in_millis":%d,"suggest_time_in_millis":0},`+
				`"merges":{"total_time_in_millis":%d,"total_throttled_time_in_millis":0},"refresh":{"total_time_in_millis":%d},"translog":{"size_in_bytes":55},"seq_no":{"max_seq_no":%d}}}]`,
				c%30, c, c%5, c%2 == 0, 1000*c, 53687091200+c, 100*c, 250*c, 420*c, 7*c, 3*c, 11*c, 13*c, 100*c)
		}
		out.WriteString(`}}}`)
	}
	out.WriteString(`}}`)
	return out.Bytes()
}

// BenchmarkDecodeNodeStats decodes the statistics of 50,000 copies. "generic" is what encoding/json's maps would take for
// the same, and why they are not used.
func BenchmarkDecodeNodeStats(b *testing.B) {
	document := bigStats(50_000)
	b.Run("stream", func(b *testing.B) {
		b.SetBytes(int64(len(document)))
		b.ReportAllocs()
		for b.Loop() {
			stats, err := DecodeNodeStats(bytes.NewReader(document))
			if err != nil || len(stats.Nodes) != 50 || len(stats.Nodes[7].Shards) != 1000 {
				b.Fatalf("%v", err)
			}
		}
	})
	b.Run("generic", func(b *testing.B) {
		b.SetBytes(int64(len(document)))
		b.ReportAllocs()
		for b.Loop() {
			var all map[string]any
			if err := json.NewDecoder(bytes.NewReader(document)).Decode(&all); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkDecodeRouting decodes the routing table of 50,000 copies.
func BenchmarkDecodeRouting(b *testing.B) {
	var out bytes.Buffer
	out.WriteString(`{"version":912,"cluster_uuid":"u","nodes":{},"routing_table":{"indices":{`)
	for x := range 10_000 {
		if x > 0 {
			out.WriteByte(',')
		}
		fmt.Fprintf(&out, `"logs-application-%06d":{"shards":{"0":[`, x)
		for c := range 5 {
			if c > 0 {
				out.WriteByte(',')
			}
			fmt.Fprintf(&out, `{"state":"STARTED","primary":%t,"node":"node-id-%014d","relocating_node":null,"shard":0,"index":"logs-application-%06d","allocation_id":{"id":"%022d"}}`,
				c == 0, (x+c)%750, x, 5*x+c)
		}
		out.WriteString(`]}}`)
	}
	out.WriteString(`}}}`)
	document := out.Bytes()
	b.SetBytes(int64(len(document)))
	b.ReportAllocs()
	for b.Loop() {
		routing, err := DecodeRouting(io.Reader(bytes.NewReader(document)))
		if err != nil || len(routing.Copies) != 50_000 {
			b.Fatalf("%v", err)
		}
	}
}
