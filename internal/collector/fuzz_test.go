package collector

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// FuzzCapture changes one file of a capture: there is a snapshot, or an error that names the file; never a panic.
func FuzzCapture(f *testing.F) {
	names := []string{"version.json", "nodes.json", "nodes_stats.json", "cluster_state.json", "cluster_settings.json", "settings.json", "indices_stats.json", "data_stream.json"}
	whole := map[string][]byte{}
	for _, name := range names {
		if path := filepath.Join("testdata", "captures", "opensearch-2.19.6", name+".gz"); name != "indices_stats.json" {
			whole[name] = unzipped(f, path)
		}
	}
	for i, name := range names {
		f.Add(byte(i), whole[name])
	}
	f.Add(byte(3), []byte(`{"version":1,"nodes":{"A":{"name":"n"}},"routing_table":{"indices":{"a":{"shards":{"5":[{"state":"STARTED","primary":true,"node":"A"}]}}}}}`))
	f.Add(byte(5), []byte(`{"busy":{"settings":{"index.number_of_shards":"-3","index.number_of_replicas":"99999999"}}}`))
	f.Fuzz(func(t *testing.T, which byte, text []byte) {
		dir := t.TempDir()
		changed := names[int(which)%len(names)]
		for name, original := range whole {
			if name == changed {
				original = text
			}
			if err := os.WriteFile(filepath.Join(dir, name), original, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, ok := whole[changed]; !ok {
			if err := os.WriteFile(filepath.Join(dir, changed), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s, err := FromCapture(dir, Options{})
		if err != nil {
			var known *cluster.Error
			if !errors.As(err, &known) || known.Class != cluster.Incomplete && known.Class != cluster.Refused {
				t.Fatalf("%T %v", err, err)
			}
			return
		}
		s.Fingerprint() // no load is NaN or infinite
	})
}

// FuzzState reads whatever stands where the saved rates should.
func FuzzState(f *testing.F) {
	o, err := Options{StateDir: f.TempDir()}.complete()
	if err != nil {
		f.Fatal(err)
	}
	r := newRates(&o)
	r.copies["id"] = &copyRates{}
	r.known[groupKey{"u", 1}] = &groupRates{}
	if err := r.save(); err != nil {
		f.Fatal(err)
	}
	saved, err := os.ReadFile(filepath.Join(o.StateDir, stateFile))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(saved)
	f.Add(bytes.Repeat([]byte{0x1f, 0x8b}, 10))
	f.Fuzz(func(t *testing.T, content []byte) {
		path := filepath.Join(t.TempDir(), stateFile)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		o.StateDir = filepath.Dir(path)
		if r := loadRates(&o); r.warning == "" && r.copies == nil {
			t.Fatal("neither rates nor a warning")
		}
	})
}
