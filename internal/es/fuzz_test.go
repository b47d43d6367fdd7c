package es

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// seeds are what the real clusters answered, where that is small enough for a fuzzer to change in a useful way, and
// examples written for it.
func seeds(f *testing.F, file string, examples ...string) {
	f.Helper()
	for _, example := range examples {
		f.Add([]byte(example))
	}
	paths, err := filepath.Glob("../collector/testdata/captures/*/" + file + ".gz")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range paths {
		packed, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		z, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			f.Fatal(err)
		}
		text, err := io.ReadAll(z)
		if err != nil {
			f.Fatal(err)
		}
		if len(text) < 2000 {
			f.Add(text)
		}
	}
	for _, odd := range []string{`{}`, `null`, `[]`, ``, `{"nodes":null}`, `{"a":{"b":[{"c":1e999}]}}`, "{\"\xff\":1}"} {
		f.Add([]byte(odd))
	}
}

// decodes is what holds of every decoder: it ends, without a panic, and either it read the document to its end or it says
// where it could not; a document that is cut off is never taken for whole.
func decodes[T any](f *testing.F, decode func(io.Reader) (T, error)) {
	f.Fuzz(func(t *testing.T, document []byte) {
		_, err := decode(bytes.NewReader(document))
		var syntax *SyntaxError
		if err != nil && !errors.As(err, &syntax) {
			t.Fatalf("%T: %v", err, err)
		}
		if err != nil {
			if syntax.Offset < 0 || syntax.Offset > int64(len(document)) {
				t.Fatalf("at byte %d of %d", syntax.Offset, len(document))
			}
			return
		}
		whole := bytes.TrimSpace(document)
		if len(whole) < 2 || whole[len(whole)-1] != '}' {
			return // null
		}
		for _, cut := range []int{len(whole) - 1, len(whole) / 2} {
			if _, err := decode(bytes.NewReader(whole[:cut])); err == nil {
				t.Fatalf("%q was taken for whole", whole[:cut])
			}
		}
	})
}

func FuzzRoot(f *testing.F) { seeds(f, "version.json"); decodes(f, DecodeRoot) }

func FuzzNodes(f *testing.F) {
	seeds(f, "nodes.json", `{"nodes":{"A":{"name":"n1","version":"2.19.6","roles":["data"],"attributes":{"zone":"a"},"os":{"allocated_processors":2},`+
		`"jvm":{"mem":{"heap_max_in_bytes":1024}},"settings":{"node":{"processors":"1.5"}}}}}`)
	decodes(f, DecodeNodes)
}

func FuzzRouting(f *testing.F) {
	seeds(f, "cluster_state.json", `{"cluster_uuid":"u","version":912,"nodes":{"A":{"name":"n 1","ephemeral_id":"e1"}},"blocks":{"indices":{"s":{"4":{}}}},`+
		`"routing_table":{"indices":{"a":{"shards":{"0":[{"state":"RELOCATING","primary":true,"node":"A","relocating_node":"B","allocation_id":{"id":"i","relocation_id":"j"}},`+
		`{"state":"UNASSIGNED","primary":false,"node":null,"unassigned_info":{"reason":"NODE_LEFT","delayed":true}}]}}}},`+
		`"metadata":{"indices":{"a":{"state":"close","settings":{"index":{"uuid":"u","number_of_shards":"1"}}}}}}`)
	decodes(f, DecodeRouting)
}

func FuzzSettings(f *testing.F) {
	f.Add([]byte(`{"persistent":{"cluster":{"routing":{"allocation":{"disk.watermark.low":"85%","exclude":{"_ip":"a,b"}}}}},"transient":{"a":["b",{}]}}`))
	seeds(f, "cluster_settings.json")
	decodes(f, func(r io.Reader) (any, error) {
		raw, err := DecodeSettings(r)
		if err == nil {
			_, _ = raw.Cluster() // whatever the values: an error, no panic
		}
		return raw, err
	})
}

func FuzzIndexSettings(f *testing.F) {
	seeds(f, "settings.json", `{"a":{"settings":{"index.uuid":"u","index.number_of_shards":"3","index.routing.allocation.include.zone":"a,b","index":{"creation_date":"1"}}}}`)
	decodes(f, DecodeIndexSettings)
}

func FuzzNodeStats(f *testing.F) {
	seeds(f, "nodes_stats.json", `{"_nodes":{"failed":1,"failures":[{"node_id":"B","caused_by":{"reason":"r"}}]},"nodes":{"A":{"timestamp":1760000000000,`+
		`"os":{"cpu":{"percent":35}},"fs":{"total":{"total_in_bytes":100},"data":[{}]},"thread_pool":{"write":{"queue":1,"rejected":3}},`+
		`"indices":{"store":{"size_in_bytes":5},"shards":{"a":[{"0":{"routing":{"state":"STARTED","primary":true},"docs":{"count":1},"seq_no":{"max_seq_no":-1}}}]}}}}}`)
	decodes(f, DecodeNodeStats)
}

func FuzzIndicesStats(f *testing.F) {
	f.Add([]byte(`{"_shards":{"failed":0},"indices":{"a":{"shards":{"0":[{"routing":{"state":"STARTED","node":"A"},"docs":{"count":1}}]}}}}`))
	seeds(f, "indices_stats.json")
	decodes(f, func(r io.Reader) (any, error) { shards, _, err := DecodeIndicesStats(r); return shards, err })
}

func FuzzStreams(f *testing.F) { seeds(f, "data_stream.json"); decodes(f, DecodeStreams) }

func FuzzWriteIndices(f *testing.F) {
	f.Add([]byte(`{"b":{"aliases":{"x":{"is_write_index":true}}}}`))
	seeds(f, "alias.json")
	decodes(f, DecodeWriteIndices)
}

func FuzzHealth(f *testing.F) { seeds(f, "cluster_health.json"); decodes(f, DecodeHealth) }

func FuzzSnapshots(f *testing.F) {
	f.Add([]byte(`{"snapshots":[{"indices":{"a":{"shards":{"0":{"stage":"STARTED"}}}}}]}`))
	seeds(f, "snapshot_status.json")
	decodes(f, DecodeSnapshots)
}

func FuzzShutdowns(f *testing.F) {
	f.Add([]byte(`{"nodes":[{"node_id":"A","type":"remove","reason":"old"}]}`))
	seeds(f, "nodes_shutdown_status.json")
	decodes(f, DecodeShutdowns)
}

func FuzzRecoveries(f *testing.F) {
	f.Add([]byte(`{"a":{"shards":[{"id":3,"type":"PEER","stage":"INDEX","source":{"id":"A"},"target":{"id":"B"},"index":{"size":{"total_in_bytes":10}}}]}}`))
	decodes(f, DecodeRecoveries)
}

func FuzzReroute(f *testing.F) {
	f.Add([]byte(`{"acknowledged":true,"explanations":[{"command":"move","decisions":[{"decider":"d","decision":"NO","explanation":"e"}]}]}`))
	decodes(f, decodeReroute)
}

func FuzzExplain(f *testing.F) {
	f.Add([]byte(`{"node_allocation_decisions":[{"node_id":"A","node_decision":"no","deciders":[{"decider":"d","decision":"NO"}]}]}`))
	decodes(f, decodeExplain)
}

func FuzzDesiredBalance(f *testing.F) {
	f.Add([]byte(`{"routing_table":{"a":{"0":{"current":[{"state":"STARTED","node":"A"}],"desired":{"node_ids":["B"]}}}}}`))
	decodes(f, func(r io.Reader) (*DesiredBalance, error) {
		balance, err := decodeDesiredBalance(r)
		if err == nil {
			balance.Wishes()
		}
		return balance, err
	})
}

func FuzzErrorBody(f *testing.F) {
	for _, body := range []string{
		`{"error":{"root_cause":[],"type":"t","reason":null},"status":400}`, `{"error":"text","status":400}`, `{"Message":"no"}`, `<html>`, ``, `{"error":`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		kind, reason, _ := parseError(body)
		clip(kind)
		if text := clip(reason); len(text) > 310 {
			t.Fatalf("%d bytes of reason", len(text))
		}
	})
}
