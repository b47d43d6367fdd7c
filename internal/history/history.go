package history

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/model"
	"github.com/shardonnay/shardonnay/internal/plan"
)

const (
	// window is how far back the page looks: a day shows the daily rhythm that most load has.
	window = 24 * time.Hour
	// maxSamples is one a minute for that long: more columns than most screens have.
	maxSamples = 1440
	// maxBytes bounds the samples of any cluster. 750 nodes in three dimensions take 7 MB a day; of one ten times that size
	// there is a sample every third minute.
	maxBytes = 32 << 20
)

// Node is a node as the page shows it.
type Node struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Zone string `json:"zone"` // may be empty
}

// History is the memory of one daemon. Its methods may be called from several goroutines.
type History struct {
	mu      sync.RWMutex
	cluster string // uuid
	samples []*sample
	nodes   map[Node]*known
	bytes   int // of samples and nodes
	changes uint64
	moves   moves

	mostSamples, mostBytes int
}

// sample is what one cycle found. It is never changed: readers hold it without the lock.
type sample struct {
	at               int64 // milliseconds since 1970
	cycle, outcome   string
	objective, bound float64 // before the plan's moves; absent where there is no plan
	roster           *roster // nil where there is no plan
	load             []uint16
}

// roster is who stands in a sample's load: dimension by dimension, all nodes. Samples of the same nodes share one.
type roster struct {
	dimensions []string
	nodes      []*known
	samples    int
}

// known is a node of at least one roster.
type known struct {
	Node
	rosters int
}

// Loads are kept in thousandths of a fair share, in two bytes: finer than any screen shows.
const (
	perShare   = 1000
	noLoad     = math.MaxUint16
	hottest    = noLoad - 1
	absent     = -1.0 // where a number stands for a cycle that has none
	sampleSize = 128  // bytes of a sample beside its loads, about
	nodeSize   = 160  // of a node beside its names, about
)

// New makes an empty history.
func New() *History {
	return &History{nodes: make(map[Node]*known), mostSamples: maxSamples, mostBytes: maxBytes}
}

// Of says which cluster is watched from now on. The history of another one is forgotten.
func (h *History) Of(uuid string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cluster == uuid {
		return
	}
	h.cluster, h.samples, h.nodes, h.bytes = uuid, nil, make(map[Node]*known), 0
	h.changes++
	h.moves = moves{asked: h.moves.asked, revision: h.moves.revision + 1}
}

// ObservePlan remembers how hot every node was when a cycle made its plan. Called again for the same cycle it does nothing.
func (h *History) ObservePlan(cycle string, started time.Time, s *cluster.Snapshot, p *model.Problem, made *plan.Plan) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.samples) > 0 && h.samples[len(h.samples)-1].cycle == cycle {
		return
	}
	seen := &sample{
		at: started.UnixMilli(), cycle: cycle, objective: made.Objective.Before, bound: made.Objective.LowerBound,
		roster: h.rosterOf(s, p), load: make([]uint16, 0, len(s.Dimensions)*len(p.Nodes)),
	}
	domains, _ := p.Domains()
	current := p.Current()
	for d := range s.Dimensions {
		for _, r := range model.Utilization(p, domains, current, d) {
			coded := uint16(noLoad)
			if r >= 0 {
				coded = uint16(min(math.Round(r*perShare), hottest))
			}
			seen.load = append(seen.load, coded)
		}
	}
	h.add(seen)
}

// ObserveCycle remembers how a cycle ended, also one that came to no plan.
func (h *History) ObserveCycle(cycle string, started time.Time, outcome string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if last := len(h.samples) - 1; last >= 0 && h.samples[last].cycle == cycle {
		ended := *h.samples[last]
		ended.outcome = outcome
		h.samples[last] = &ended
		h.changes++
		return
	}
	h.add(&sample{at: started.UnixMilli(), cycle: cycle, outcome: outcome, objective: absent, bound: absent})
}

// rosterOf is the newest sample's roster where it still fits, else a new one.
func (h *History) rosterOf(s *cluster.Snapshot, p *model.Problem) *roster {
	fresh := &roster{}
	for _, d := range s.Dimensions {
		fresh.dimensions = append(fresh.dimensions, d.Name)
	}
	nodes := make([]Node, len(p.Nodes))
	for n := range p.Nodes {
		at := s.NodeAt(cluster.NodeID(p.Nodes[n].ID))
		nodes[n] = Node{ID: p.Nodes[n].ID, Name: s.Nodes[at].Name, Zone: s.Zone(at)}
	}
	for _, s := range slices.Backward(h.samples) {
		if last := s.roster; last != nil {
			same := func(k *known, n Node) bool { return k.Node == n }
			if slices.Equal(last.dimensions, fresh.dimensions) && slices.EqualFunc(last.nodes, nodes, same) {
				return last
			}
			break
		}
	}
	for _, n := range nodes {
		k := h.nodes[n]
		if k == nil {
			k = &known{Node: n}
			h.nodes[n] = k
			h.bytes += k.size()
		}
		k.rosters++
		fresh.nodes = append(fresh.nodes, k)
	}
	h.bytes += fresh.size()
	return fresh
}

func (s *sample) size() int { return sampleSize + 2*len(s.load) }
func (r *roster) size() int { return 8 * len(r.nodes) }
func (k *known) size() int  { return nodeSize + len(k.ID) + len(k.Name) + len(k.Zone) }

// add appends a sample and makes room for it.
func (h *History) add(s *sample) {
	if last := len(h.samples) - 1; last >= 0 {
		s.at = max(s.at, h.samples[last].at+1) // a clock that was set back must not upset the order
	}
	h.samples = append(h.samples, s)
	h.bytes += s.size()
	if s.roster != nil {
		s.roster.samples++
	}
	h.changes++
	for s.at-h.samples[0].at > window.Milliseconds() {
		h.drop(0)
	}
	for len(h.samples) > 1 && (len(h.samples) > h.mostSamples || h.bytes > h.mostBytes) {
		h.drop(h.leastMissed())
	}
}

// leastMissed is the sample whose neighbours are closest, the oldest of several: dropping it leaves the smallest gap, so
// that what is left is spaced as evenly as can be. The first and the last are spared while there are others.
func (h *History) leastMissed() int {
	best, smallest := 0, int64(math.MaxInt64)
	for i := 1; i+1 < len(h.samples); i++ {
		if gap := h.samples[i+1].at - h.samples[i-1].at; gap < smallest {
			best, smallest = i, gap
		}
	}
	return best
}

// drop forgets a sample, and the roster and nodes that no other has.
func (h *History) drop(i int) {
	s := h.samples[i]
	h.samples = slices.Delete(h.samples, i, i+1)
	h.bytes -= s.size()
	if s.roster == nil {
		return
	}
	if s.roster.samples--; s.roster.samples > 0 {
		return
	}
	h.bytes -= s.roster.size()
	for _, k := range s.roster.nodes {
		if k.rosters--; k.rosters == 0 {
			h.bytes -= k.size()
			delete(h.nodes, k.Node)
		}
	}
}
