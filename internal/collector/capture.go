package collector

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/es"
	"github.com/shardonnay/shardonnay/internal/version"
)

const (
	// secondSample is the folder within a capture that has the statistics again, some time later.
	secondSample = "sample-2"
	captureFile  = "capture.json"
	statsFile    = "nodes_stats.json"
	// bundleStats is what bundles have for statistics down to the copies.
	bundleStats = "indices_stats.json"
)

// alsoNamed are the names bundles have for a file, best first.
var alsoNamed = map[string][]string{"cluster_settings.json": {"cluster_settings_defaults.json", "cluster_settings.json"}}

// captureInfo is capture.json: when and by what a capture was made.
type captureInfo struct {
	Version    int              `json:"version"`
	Shardonnay string           `json:"shardonnay"`
	Product    string           `json:"product"`
	TakenAt    time.Time        `json:"taken_at"`
	Samples    int              `json:"samples"`
	IntervalS  float64          `json:"interval_s,omitempty"`
	Requests   []captureRequest `json:"requests"`
}

type captureRequest struct {
	File   string    `json:"file"`
	Path   string    `json:"path"`
	Sample int       `json:"sample"`
	At     time.Time `json:"at"`
}

// folder is a capture or a bundle on disk.
type folder struct {
	dir    string
	sample string // subfolder the statistics are taken from, empty for the first sample
	ours   bool   // this program made it: it asks for the figures of every copy, so that where there are none there is no copy
}

// openFolder is the capture or bundle in dir.
func openFolder(dir string) folder {
	_, err := os.Stat(filepath.Join(dir, captureFile))
	return folder{dir: dir, ours: err == nil}
}

// open opens a file of the folder, plain or compressed.
func (f folder) open(name string) (io.ReadCloser, string, error) {
	names := alsoNamed[name]
	if names == nil {
		names = []string{name}
	}
	for _, name := range names {
		for _, suffix := range []string{"", ".gz"} {
			path := filepath.Join(f.dir, name) + suffix
			file, err := os.Open(path)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil || suffix == "" {
				return file, path, err
			}
			unpacked, err := gzip.NewReader(file)
			if err != nil {
				file.Close()
				return nil, path, err
			}
			return struct {
				io.Reader
				io.Closer
			}{unpacked, file}, path, nil
		}
	}
	return nil, filepath.Join(f.dir, names[0]), errAbsent
}

func (f folder) read(_ context.Context, what es.Request, decode func(io.Reader) error) error {
	file, path, err := f.open(what.File)
	if err == nil {
		defer file.Close()
		err = decode(file)
	}
	var known *cluster.Error
	switch {
	case err == nil, errors.As(err, &known):
		return err
	case errors.Is(err, errAbsent):
		return broken(path, err, "A capture needs it: make a new one with shardonnay capture, or take it from the diagnostics.")
	}
	return broken(path, err, "The file is damaged or not what its name says: copy it again, or make a new capture.")
}

func broken(path string, err error, cure string) error {
	return &cluster.Error{Class: cluster.Incomplete, Op: "read", What: path, Err: err, Hint: cure}
}

func (f folder) statistics(ctx context.Context, _ []cluster.NodeID) (*es.NodesStats, error) {
	from := folder{dir: filepath.Join(f.dir, f.sample)}
	var stats *es.NodesStats
	if err := from.read(ctx, es.Request{File: statsFile}, func(r io.Reader) (err error) {
		stats, err = es.DecodeNodeStats(r)
		return err
	}); err != nil || stats.Sharded || f.ours {
		return stats, err
	}
	at := make(map[cluster.NodeID]*es.NodeStats, len(stats.Nodes))
	for i := range stats.Nodes {
		at[stats.Nodes[i].ID] = &stats.Nodes[i]
	}
	var shards []es.ShardStats
	failed := 0
	if err := from.read(ctx, es.Request{File: bundleStats}, func(r io.Reader) (err error) {
		shards, failed, err = es.DecodeIndicesStats(r)
		return err
	}); err != nil {
		return nil, err
	}
	if failed > 0 {
		return nil, incomplete(ShardsFailed, filepath.Join(from.dir, bundleStats), "Make the diagnostics again when every node answers.",
			"%d copies did not give their statistics", failed)
	}
	for _, s := range shards {
		if n := at[s.Node]; n != nil {
			n.Shards = append(n.Shards, s)
		}
	}
	return stats, nil
}

func (f folder) stateVersion(context.Context) (int64, bool, error) { return 0, false, nil }

// FromCapture makes a snapshot of a capture folder or of a bundle of Elastic's support diagnostics. With one sample of
// the statistics, the rates are averages since the counters began, and a warning says so. A file that is missing or
// broken is an error of class Incomplete that names it and the place in it.
func FromCapture(dir string, options Options) (*cluster.Snapshot, error) {
	options.StateDir = "" // a capture is somebody's past, not ours
	o, err := options.complete()
	if err != nil {
		return nil, err
	}
	ctx := context.Background() // files do not hang
	from := openFolder(dir)
	a, err := gather(ctx, from, &o)
	if err != nil {
		return nil, err
	}
	a.takenAt = capturedAt(dir, a)
	rates := newRates(&o)
	taken, err := assemble(a, &o)
	if err != nil {
		return nil, err
	}
	rates.learn(taken)
	if _, err := os.Stat(filepath.Join(dir, secondSample)); err == nil {
		from.sample = secondSample
		if a.stats, err = from.statistics(ctx, nil); err != nil {
			return nil, err
		}
		if taken, err = assemble(a, &o); err != nil {
			return nil, err
		}
		rates.learn(taken)
	}
	return rates.estimate(taken), nil
}

// capturedAt is when a capture was taken: by capture.json, or by the latest of the nodes' own clocks.
func capturedAt(dir string, a *answers) time.Time {
	var info captureInfo
	if text, err := os.ReadFile(filepath.Join(dir, captureFile)); err == nil && json.Unmarshal(text, &info) == nil && !info.TakenAt.IsZero() {
		return info.TakenAt
	}
	return latest(a.stats)
}

// latest is the latest of the nodes' own clocks.
func latest(stats *es.NodesStats) time.Time {
	var at time.Time
	for i := range stats.Nodes {
		if stats.Nodes[i].At.After(at) {
			at = stats.Nodes[i].At
		}
	}
	return at
}

// Capture saves the raw answers of one collection to dir, one file per request, and with samples 2 the statistics again
// after interval. Nothing that was sent is saved, and so no secret of ours; settings that do not matter to placement are
// not asked for. dir is made; files of an earlier capture in it are overwritten.
func (c *Collector) Capture(ctx context.Context, dir string, samples int, interval time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := makeDir(dir); err != nil {
		return err
	}
	for _, old := range []string{secondSample, captureFile} {
		if err := os.RemoveAll(filepath.Join(dir, old)); err != nil {
			return cannotWrite(dir, err)
		}
	}
	r := &recorder{live: live{c.client, &c.o}, folder: folder{dir: dir, ours: true}, now: c.o.Now}
	info := captureInfo{Version: 1, Shardonnay: version.Number(), TakenAt: c.o.Now().UTC(), Samples: samples}
	a, err := gather(ctx, r, &c.o)
	if err != nil {
		return err
	}
	info.Product = a.identity.Product.String()
	if samples == 2 {
		info.IntervalS = interval.Seconds()
		timer := time.NewTimer(interval)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return &cluster.Error{Class: cluster.Interrupted, Op: "wait for the second sample", Err: ctx.Err()}
		case <-timer.C:
		}
		if err := makeDir(filepath.Join(dir, secondSample)); err != nil {
			return err
		}
		r.folder.sample = secondSample
		if _, err := r.statistics(ctx, a.dataNodes()); err != nil {
			return err
		}
	}
	info.Requests = r.requests
	text, err := json.MarshalIndent(info, "", "  ")
	if err != nil {
		return cannotWrite(filepath.Join(dir, captureFile), err)
	}
	if err := os.WriteFile(filepath.Join(dir, captureFile), append(text, '\n'), 0o600); err != nil {
		return cannotWrite(filepath.Join(dir, captureFile), err)
	}
	return nil
}

func makeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return cannotWrite(dir, err)
	}
	return nil
}

func cannotWrite(path string, err error) error {
	return &cluster.Error{Class: cluster.Invalid, Op: "write", What: path, Err: err, Hint: "Name a folder that can be written to."}
}

// recorder asks the cluster, saves what it answers, and reads that: what a capture holds is known to be readable.
type recorder struct {
	live     live
	folder   folder
	now      func() time.Time
	requests []captureRequest
}

func (r *recorder) note(what es.Request) {
	sample := 1
	if r.folder.sample != "" {
		sample = 2
	}
	r.requests = append(r.requests, captureRequest{what.File, what.Path, sample, r.now().UTC()})
}

func (r *recorder) read(ctx context.Context, what es.Request, decode func(io.Reader) error) error {
	r.note(what)
	path := filepath.Join(r.folder.dir, what.File)
	if err := r.live.read(ctx, what, func(body io.Reader) error {
		file, err := os.Create(path)
		if err != nil {
			return cannotWrite(path, err)
		}
		_, err = io.Copy(file, body)
		return errors.Join(err, file.Close())
	}); err != nil {
		_ = os.Remove(path) // half an answer is none
		return err
	}
	return r.folder.read(ctx, what, decode)
}

func (r *recorder) stateVersion(ctx context.Context) (int64, bool, error) {
	return r.live.stateVersion(ctx)
}

// statistics saves all batches as one answer.
func (r *recorder) statistics(ctx context.Context, nodes []cluster.NodeID) (*es.NodesStats, error) {
	path := filepath.Join(r.folder.dir, r.folder.sample, statsFile)
	file, err := os.Create(path)
	if err != nil {
		return nil, cannotWrite(path, err)
	}
	defer file.Close()
	merged := newMerger(file)
	for batch := range slices.Chunk(nodes, r.live.o.Batch) {
		what := es.NodeStatsRequest(batch, r.live.o.heap())
		r.note(what)
		if err := r.live.read(ctx, what, merged.add); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(merged.close(), file.Close()); err != nil {
		return nil, cannotWrite(path, err)
	}
	return r.folder.statistics(ctx, nodes)
}

// merger writes several answers of node statistics as one: the nodes side by side as they came, the counts of _nodes
// added up.
type merger struct {
	to                        *jsontext.Encoder
	err                       error
	total, successful, failed int64
	failures                  []json.RawMessage
}

func newMerger(to io.Writer) *merger {
	m := &merger{to: jsontext.NewEncoder(to, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))}
	m.write(jsontext.BeginObject, jsontext.String("nodes"), jsontext.BeginObject)
	return m
}

func (m *merger) write(tokens ...jsontext.Token) {
	for _, token := range tokens {
		if m.err == nil {
			m.err = m.to.WriteToken(token)
		}
	}
}

// add takes in one answer.
func (m *merger) add(answer io.Reader) error {
	from := jsontext.NewDecoder(answer, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	return members(from, func(name string) error {
		switch name {
		case "nodes":
			return members(from, func(id string) error {
				node, err := from.ReadValue()
				if err != nil {
					return err
				}
				m.write(jsontext.String(id))
				if m.err == nil {
					m.err = m.to.WriteValue(node)
				}
				return m.err
			})
		case "_nodes":
			value, err := from.ReadValue()
			if err != nil {
				return err
			}
			var counts struct {
				Total, Successful, Failed int64
				Failures                  []json.RawMessage
			}
			if err := json.Unmarshal(value, &counts); err != nil {
				return err
			}
			m.total += counts.Total
			m.successful += counts.Successful
			m.failed += counts.Failed
			m.failures = append(m.failures, counts.Failures...)
			return nil
		}
		return from.SkipValue()
	})
}

// members calls member, which reads or skips the value, for each member of the object that comes next.
func members(from *jsontext.Decoder, member func(name string) error) error {
	if token, err := from.ReadToken(); err != nil {
		return err
	} else if token.Kind() != '{' {
		return fmt.Errorf("%v where an object should be", token)
	}
	for from.PeekKind() != '}' {
		name, err := from.ReadToken()
		if err != nil {
			return err
		}
		if err := member(name.String()); err != nil {
			return err
		}
	}
	_, err := from.ReadToken()
	return err
}

func (m *merger) close() error {
	counts, err := json.Marshal(map[string]any{
		"total": m.total, "successful": m.successful, "failed": m.failed, "failures": append([]json.RawMessage{}, m.failures...),
	})
	if err != nil {
		return err
	}
	m.write(jsontext.EndObject, jsontext.String("_nodes"))
	if m.err == nil {
		m.err = m.to.WriteValue(counts)
	}
	m.write(jsontext.EndObject)
	return m.err
}
