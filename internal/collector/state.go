package collector

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// stateFile holds the rates between runs. Losing it costs the time to measure anew, nothing else.
const stateFile = "rates.json.gz"

// stateVersion changes when what is saved changes its meaning; a file of another version is not read.
const stateVersion = 1

// savedRates is the content of stateFile.
type savedRates struct {
	Version int
	Cluster string
	At      time.Time
	Window  time.Duration
	Copies  map[string]*copyRates
	Groups  []savedGroup
	Nodes   map[cluster.NodeID]*nodeRates
	Series  map[string]*seriesRates
}

type savedGroup struct {
	Key   groupKey
	Rates *groupRates
}

// save writes the rates where options say: to a file beside, which then takes the old one's place in one step, so that a
// crash leaves one or the other.
func (r *rates) save() error {
	if r.o.StateDir == "" {
		return nil
	}
	saved := savedRates{
		Version: stateVersion, Cluster: r.cluster, At: r.at, Window: r.window, Copies: r.copies, Nodes: r.nodes, Series: r.series,
		Groups: make([]savedGroup, 0, len(r.known)),
	}
	for key, g := range r.known {
		saved.Groups = append(saved.Groups, savedGroup{key, g})
	}
	file, err := os.CreateTemp(r.o.StateDir, stateFile+".*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }() // fails once it has its real name
	packed, err := gzip.NewWriterLevel(file, gzip.BestSpeed)
	if err == nil {
		err = json.NewEncoder(packed).Encode(saved)
	}
	if err := errors.Join(err, packed.Close(), file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(file.Name(), filepath.Join(r.o.StateDir, stateFile)); err != nil {
		return err
	}
	return syncDir(r.o.StateDir)
}

// syncDir makes a renaming outlast a crash of the machine.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// loadRates reads what was saved; where there is nothing to read, or nothing that makes sense, it begins anew, and says
// so in the latter case.
func loadRates(o *Options) *rates {
	r := newRates(o)
	if o.StateDir == "" {
		return r
	}
	path := filepath.Join(o.StateDir, stateFile)
	saved, err := readState(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return r
	case err != nil:
		r.warning = fmt.Sprintf("The saved rates in %s cannot be read (%v): measuring begins anew.", path, err)
		return r
	}
	r.cluster, r.at, r.window, r.copies, r.nodes, r.series = saved.Cluster, saved.At, saved.Window, saved.Copies, saved.Nodes, saved.Series
	for _, g := range saved.Groups {
		r.known[g.Key] = g.Rates
	}
	return r
}

func readState(path string) (*savedRates, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		return nil, err
	}
	var saved savedRates
	if err := json.NewDecoder(unpacked).Decode(&saved); err != nil {
		return nil, err
	}
	if _, err := io.Copy(io.Discard, unpacked); err != nil { // to the end, where the checksum is
		return nil, err
	}
	return &saved, saved.check()
}

// check refuses what save cannot have written.
func (s *savedRates) check() error {
	if s.Version != stateVersion {
		return fmt.Errorf("it is of version %d, this is %d", s.Version, stateVersion)
	}
	if s.Copies == nil || s.Nodes == nil || s.Series == nil {
		return errors.New("parts of it are missing")
	}
	for _, c := range s.Copies {
		if c == nil {
			return errors.New("a copy in it is empty")
		}
	}
	for _, g := range s.Groups {
		if g.Rates == nil {
			return errors.New("a shard in it is empty")
		}
	}
	for _, n := range s.Nodes {
		if n == nil {
			return errors.New("a node in it is empty")
		}
	}
	for _, m := range s.Series {
		if m == nil {
			return errors.New("a series in it is empty")
		}
	}
	return nil
}
