package history

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"io"
	"math"
	"slices"
	"time"
)

// Version is that of the answers' format: fields may be added to it.
const Version = 1

// Heat is the answer about one dimension's loads over time. Lists by sample all have one length.
type Heat struct {
	Version    int      `json:"version"`
	Dimension  string   `json:"dimension"`
	Dimensions []string `json:"dimensions"` // all there are now
	Nodes      []Node   `json:"nodes"`      // all that appear in these samples
	Time       []int64  `json:"time"`       // by sample: when its cycle began, milliseconds since 1970, ascending
	Outcome    []string `json:"outcome"`    // by sample: empty while the cycle is under way

	// By sample, -1 for a cycle that came to no plan.
	Objective  []float64            `json:"objective"`
	LowerBound []float64            `json:"lower_bound"`
	PeakToMean map[string][]float64 `json:"peak_to_mean"` // by dimension

	// Load has two bytes for each sample and node, sample by sample, little endian: thousandths of the node's fair share, 65535
	// where it takes no part. In JSON it is base64.
	Load []byte `json:"load"`
}

// WriteHeat writes the answer, a Heat as JSON, for the samples of a dimension from a time on, the one of that very time
// included, for its cycle may have been under way. The dimension must be one of Dimensions; with "" it is the first. A day is
// megabytes: the loads, which are nearly all of that, are written row by row and never held as a whole.
func (h *History) WriteHeat(w io.Writer, dimension string, since time.Time) error {
	h.mu.RLock()
	samples := slices.Clone(h.samples)
	h.mu.RUnlock()

	dimensions := dimensionsOf(samples)
	if dimension == "" && len(dimensions) > 0 {
		dimension = dimensions[0]
	}
	from, _ := slices.BinarySearchFunc(samples, since.UnixMilli(), func(s *sample, at int64) int { return int(s.at - at) })
	samples = samples[from:]
	n := len(samples)
	answer := Heat{
		Version: Version, Dimension: dimension, Dimensions: dimensions, Nodes: []Node{}, Time: make([]int64, 0, n), Outcome: make([]string, 0, n),
		Objective: make([]float64, 0, n), LowerBound: make([]float64, 0, n), PeakToMean: make(map[string][]float64), Load: []byte{},
	}
	for _, d := range dimensions {
		answer.PeakToMean[d] = make([]float64, 0, n)
	}

	// Where the nodes of a roster stand in the answer, found once for all of its samples.
	column, columns := make(map[*known]int), make(map[*roster][]int)
	for _, s := range samples {
		answer.Time = append(answer.Time, s.at)
		answer.Outcome = append(answer.Outcome, s.outcome)
		answer.Objective = append(answer.Objective, rounded(s.objective))
		answer.LowerBound = append(answer.LowerBound, rounded(s.bound))
		for _, d := range answer.Dimensions {
			answer.PeakToMean[d] = append(answer.PeakToMean[d], s.peak(d))
		}
		if s.roster == nil || columns[s.roster] != nil {
			continue
		}
		places := make([]int, 0, len(s.roster.nodes))
		for _, k := range s.roster.nodes {
			at, met := column[k]
			if !met {
				at = len(answer.Nodes)
				column[k] = at
				answer.Nodes = append(answer.Nodes, k.Node)
			}
			places = append(places, at)
		}
		columns[s.roster] = places
	}

	text, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	const end = `"}` // of the loads, which come last and are empty yet
	if _, err := w.Write(bytes.TrimSuffix(text, []byte(end))); err != nil {
		return err
	}
	encoder := base64.NewEncoder(base64.StdEncoding, w)
	row := make([]byte, 2*len(answer.Nodes))
	for _, s := range samples {
		for at := range answer.Nodes {
			binary.LittleEndian.PutUint16(row[2*at:], noLoad)
		}
		for n, load := range s.loads(answer.Dimension) {
			binary.LittleEndian.PutUint16(row[2*columns[s.roster][n]:], load)
		}
		if _, err := encoder.Write(row); err != nil {
			return err
		}
	}
	if err := encoder.Close(); err != nil {
		return err
	}
	_, err = io.WriteString(w, end)
	return err
}

// Dimensions are those of the newest sample that has any.
func (h *History) Dimensions() []string {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return dimensionsOf(h.samples)
}

func dimensionsOf(samples []*sample) []string {
	for _, s := range slices.Backward(samples) {
		if s.roster != nil {
			return s.roster.dimensions
		}
	}
	return []string{}
}

// Changes counts what happened to the samples, and to the moves: a reader who has seen these numbers has seen everything.
func (h *History) Changes() (samples, moves uint64) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.changes, h.moves.revision
}

// loads are the sample's in a dimension, in the order of its roster; empty where it has none.
func (s *sample) loads(dimension string) []uint16 {
	if s.roster == nil {
		return nil
	}
	d := slices.Index(s.roster.dimensions, dimension)
	if d < 0 {
		return nil
	}
	n := len(s.roster.nodes)
	return s.load[d*n : (d+1)*n]
}

// peak is the highest load in a dimension, as a multiple of the fair share.
func (s *sample) peak(dimension string) float64 {
	most := absent
	for _, load := range s.loads(dimension) {
		if load != noLoad {
			most = max(most, float64(load)/perShare)
		}
	}
	return most
}

// rounded leaves a figure six digits behind the point: a day of them travels in a fraction of the bytes.
func rounded(x float64) float64 { return math.Round(x*1e6) / 1e6 }
