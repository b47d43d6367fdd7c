package mover

import (
	"maps"
	"slices"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/model"
	"github.com/shardonnay/shardonnay/internal/plan"
)

// Crossings keeps account of what crosses between regions, over restarts: a pass counter, and for every pair of regions and
// direction a token bucket of bytes. What the server recovers by itself is counted too, though it cannot be held up. Losing
// the account fills the buckets and starts the count anew, nothing else. It is for one goroutine at a time.
type Crossings struct {
	file    stateFile
	content crossingsContent
	crossed map[model.Link]float64 // bytes since the process started
}

// CrossingLimits are what may cross.
type CrossingLimits struct {
	Region       string  // node attribute that names the region
	Every        int     // one of so many passes lets copies cross; 0 and 1 are every one
	BytesPerHour float64 // per pair and direction; 0 is no limit
}

const (
	crossingsFile    = "crossings.json"
	crossingsVersion = 1
)

type crossingsContent struct {
	Version  int       `json:"version"`
	Pass     int64     `json:"pass"`
	Refilled time.Time `json:"refilled,omitzero"`
	Left     []left    `json:"left,omitempty"`
	// Known are the recoveries that were counted and may still be under way, by copy and target.
	Known []string `json:"known,omitempty"`
}

// left is what a bucket holds; below 0 after recoveries that nobody could hold up.
type left struct {
	model.Link
	Bytes float64 `json:"bytes"`
}

// OpenCrossings reads the account in a folder as OpenLedger does.
func OpenCrossings(dir string) (x *Crossings, warning string, err error) {
	x = &Crossings{
		file:    stateFile{name: crossingsFile, what: "the account of what crosses between regions", lost: "the buckets are full and the count of passes starts anew"},
		crossed: make(map[model.Link]float64),
	}
	warning, err = x.file.open(dir, &x.content, func() bool { return x.content.Version == crossingsVersion })
	if err != nil {
		return nil, "", err
	}
	if warning != "" {
		x.content = crossingsContent{}
	}
	x.content.Version = crossingsVersion
	return x, warning, nil
}

// Pass begins a pass over the cluster of the snapshot and says what may cross in it. What is seen to be crossing and was not
// counted yet is counted.
func (x *Crossings) Pass(s *cluster.Snapshot, l CrossingLimits) (wan model.WAN, err error) {
	c := &x.content
	c.Pass++
	wan.Closed = l.Every > 1 && c.Pass%int64(l.Every) != 0
	x.refill(s, l)
	var underWay []string
	eachRecovery(s, func(id string, from, to int32, bytes int64) {
		underWay = append(underWay, id)
		if !slices.Contains(c.Known, id) {
			x.count(model.Link{From: s.Nodes[from].Attributes[l.Region], To: s.Nodes[to].Attributes[l.Region]}, bytes)
		}
	})
	c.Known = underWay
	if l.BytesPerHour > 0 {
		wan.Left = x.Left()
	}
	return wan, x.file.save(c)
}

// refill lets every bucket run on to the time of the snapshot. A bucket holds the largest copy, so that each can cross some
// time; a new one is full.
func (x *Crossings) refill(s *cluster.Snapshot, l CrossingLimits) {
	c := &x.content
	if l.BytesPerHour <= 0 {
		c.Left, c.Refilled = nil, s.TakenAt
		return
	}
	most := int64(0)
	for i := range s.Copies {
		most = max(most, s.Copies[i].Bytes)
	}
	regions := make(map[string]struct{})
	for n := range s.Nodes {
		if node := &s.Nodes[n]; node.IsData() {
			regions[node.Attributes[l.Region]] = struct{}{}
		}
	}
	had := x.Left()
	hours := max(0, s.TakenAt.Sub(c.Refilled).Hours())
	c.Left, c.Refilled = nil, s.TakenAt
	sorted := slices.Sorted(maps.Keys(regions))
	for _, from := range sorted {
		for _, to := range sorted {
			if from == to {
				continue
			}
			link, bytes := model.Link{From: from, To: to}, float64(most)
			if before, known := had[link]; known {
				bytes = min(bytes, before+hours*l.BytesPerHour)
			}
			c.Left = append(c.Left, left{link, bytes})
		}
	}
}

// eachRecovery reports every copy that is being received, from the node that sends it: the primary's for a replica.
func eachRecovery(s *cluster.Snapshot, report func(id string, from, to int32, bytes int64)) {
	primary := int32(cluster.None)
	for i := range s.Copies {
		k := &s.Copies[i]
		if i == 0 || k.Key() != s.Copies[i-1].Key() {
			primary = cluster.None
			if k.Primary { // the first of its shard
				primary = k.Node
			}
		}
		to := k.Target
		if k.State == cluster.Initializing && !k.Primary {
			to = k.Node
		}
		if to != cluster.None && primary != cluster.None {
			report(recoveryID(k.AllocationID, s.Nodes[to].ID), primary, to, k.Bytes)
		}
	}
}

func recoveryID(copyID string, to cluster.NodeID) string { return copyID + ">" + string(to) }

// count takes bytes from a bucket; within a region nothing crosses.
func (x *Crossings) count(link model.Link, bytes int64) {
	if link.From == link.To {
		return
	}
	x.crossed[link] += float64(bytes)
	for i := range x.content.Left {
		if x.content.Left[i].Link == link {
			x.content.Left[i].Bytes -= float64(bytes)
		}
	}
}

// Spend counts the moves of a plan that were asked for, as far as they cross.
func (x *Crossings) Spend(moves []plan.Move) error {
	spent := false
	for i := range moves {
		if m := &moves[i]; m.WAN != nil {
			if id := recoveryID(m.AllocationID, m.To.ID); !slices.Contains(x.content.Known, id) {
				x.content.Known = append(x.content.Known, id)
				x.count(*m.WAN, m.Bytes)
				spent = true
			}
		}
	}
	if !spent {
		return nil
	}
	return x.file.save(&x.content)
}

// Left is what each bucket holds, in bytes; nothing without a limit.
func (x *Crossings) Left() map[model.Link]float64 {
	bytes := make(map[model.Link]float64, len(x.content.Left))
	for _, l := range x.content.Left {
		bytes[l.Link] = l.Bytes
	}
	return bytes
}

// Crossed is how many bytes have crossed since the account was opened.
func (x *Crossings) Crossed() map[model.Link]float64 { return maps.Clone(x.crossed) }

// Asked are the plan's own moves that were sent to the cluster, whatever became of them.
func (r *Report) Asked() []plan.Move {
	moves := slices.Clone(r.InFlight)
	for i := range r.Outcomes {
		switch o := &r.Outcomes[i]; o.State {
		case Landed, Cancelled, Expired, Lost:
			if o.Elapsed > 0 { // it was asked for
				moves = append(moves, o.Move)
			}
		}
	}
	return moves
}
