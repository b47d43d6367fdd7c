package mover

import (
	"slices"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/model"
	"github.com/shardonnay/shardonnay/internal/plan"
)

// Ledger remembers recent moves over restarts: those asked for and not yet seen to end, which the next start adopts, and
// those that ended within a day, against going back and forth. Losing it costs that memory and nothing else: what is under
// way stands in the cluster's routing table. It is for one goroutine at a time.
type Ledger struct {
	file    stateFile
	memory  time.Duration // how long an ended move is remembered
	entries []entry
}

// entry is one move that was asked for.
type entry struct {
	Move      plan.Move `json:"move"`
	PlanID    string    `json:"plan"` // empty for one found under way that no ledger knew
	Requested time.Time `json:"requested"`
	Ended     time.Time `json:"ended,omitzero"`
	State     State     `json:"state"`                   // Requested, Relocating or how it ended
	NewID     string    `json:"new_allocation,omitzero"` // of the copy at its target
	Undone    time.Time `json:"undone,omitzero"`         // when somebody else was seen to move it back
}

const (
	ledgerFile    = "moves.json"
	ledgerVersion = 1
	// ledgerMemory is how long an ended move is remembered at least: through a day's cycle of load, which is what could make moving
	// back and forth look worth it.
	ledgerMemory = 24 * time.Hour
	// returnFactor is how many times what a move gained going back has to gain. A guess: load that really turned around
	// passes it, load that only swings does not.
	returnFactor = 3
)

type ledgerContent struct {
	Version int     `json:"version"`
	Moves   []entry `json:"moves"`
}

// OpenLedger reads the ledger in a folder, which is made where it is missing; an empty name keeps it in memory. A file
// that cannot be understood is put aside, and the warning says so.
func OpenLedger(dir string) (l *Ledger, warning string, err error) {
	l = &Ledger{memory: ledgerMemory, file: stateFile{name: ledgerFile, what: "the ledger of moves", lost: "recent moves are forgotten"}}
	var content ledgerContent
	warning, err = l.file.open(dir, &content, func() bool { return content.Version == ledgerVersion })
	if err != nil {
		return nil, "", err
	}
	l.entries = content.Moves
	return l, warning, nil
}

// save writes the ledger as a whole, so that a crash leaves the old one or the new one.
func (l *Ledger) save(now time.Time) error {
	l.entries = slices.DeleteFunc(l.entries, func(e entry) bool { return !e.Ended.IsZero() && now.Sub(e.Ended) > l.memory })
	return l.file.save(ledgerContent{ledgerVersion, l.entries})
}

// requested writes moves down before they are asked for, so that none can be under way without being known.
func (l *Ledger) requested(flights []*flight, planID string, now time.Time) error {
	for _, f := range flights {
		l.entries = append(l.entries, entry{Move: f.move, PlanID: planID, Requested: now, State: f.state})
	}
	return l.save(now)
}

// open lists the moves that were not seen to end.
func (l *Ledger) open() []entry {
	var open []entry
	for _, e := range l.entries {
		if e.Ended.IsZero() {
			open = append(open, e)
		}
	}
	return open
}

// update notes where a move stands. A move turned down as a whole request never was.
func (l *Ledger) update(f *flight, now time.Time) {
	for i := range l.entries {
		e := &l.entries[i]
		if !e.Ended.IsZero() || e.Move.AllocationID != f.move.AllocationID {
			continue
		}
		if f.state == Planned {
			l.entries = slices.Delete(l.entries, i, i+1)
			return
		}
		e.State = f.state
		if f.newID != "" {
			e.NewID = f.newID
		}
		if f.state.Ended() {
			e.Ended = now
		}
		return
	}
}

// CoolingDown is the allocation ids of copies that moved, or tried to, within d before now: for model.Policy.
func (l *Ledger) CoolingDown(now time.Time, d time.Duration) map[string]struct{} {
	cooling := make(map[string]struct{})
	for i := range l.entries {
		e := &l.entries[i]
		if e.Ended.IsZero() || now.Sub(e.Ended) >= d {
			continue
		}
		if e.State == Landed {
			cooling[e.NewID] = struct{}{}
		} else {
			cooling[e.Move.AllocationID] = struct{}{} // where it was; the next try comes after a pause too
		}
	}
	return cooling
}

// ShardsCoolingDown is the shards of which a copy landed elsewhere within d before now: for model.Regions.
func (l *Ledger) ShardsCoolingDown(now time.Time, d time.Duration) map[model.ShardID]struct{} {
	l.memory = max(ledgerMemory, d)
	cooling := make(map[model.ShardID]struct{})
	for i := range l.entries {
		if e := &l.entries[i]; e.State == Landed && now.Sub(e.Ended) < d {
			cooling[model.ShardID{IndexUUID: e.Move.IndexUUID, Shard: int32(e.Move.Shard)}] = struct{}{}
		}
	}
	return cooling
}

// Returns is what going back to where a copy came from has to gain, by the allocation id it has now: for plan.Options.
func (l *Ledger) Returns(now time.Time) map[string]plan.Return {
	returns := make(map[string]plan.Return)
	for i := range l.entries {
		if e := &l.entries[i]; e.State == Landed && now.Sub(e.Ended) < ledgerMemory {
			returns[e.NewID] = plan.Return{Node: e.Move.From.ID, MinGain: returnFactor * max(0, e.Move.Gain)}
		}
	}
	return returns
}

// undoneSince counts the moves that others were seen to move back.
func (l *Ledger) undoneSince(since time.Time) int {
	n := 0
	for i := range l.entries {
		if l.entries[i].Undone.After(since) {
			n++
		}
	}
	return n
}

// noteUndone looks for moves that somebody else takes or took back, and tells whether any is new. One that came and went
// back between two looks was never seen where it landed: it counts as lost, and as undone.
func (l *Ledger) noteUndone(seen *look, now time.Time) bool {
	found := false
	for i := range l.entries {
		e := &l.entries[i]
		if e.State != Landed && e.State != Lost || !e.Undone.IsZero() || now.Sub(e.Ended) > undoneMemory || l.movedOn(e) {
			continue
		}
		key := shardKey{e.Move.Index, e.Move.Shard}
		var back bool
		if k := seen.find(key, e.NewID); k != nil {
			back = k.Target == e.Move.From.ID
		} else {
			// Gone from where it landed, and where it came from there is a copy again.
			k := seen.on(key, e.Move.From.ID)
			back = k != nil && k.State == cluster.Started && seen.on(key, e.Move.To.ID) == nil && seen.nodes[e.Move.To.ID] != nil
		}
		if back {
			e.Undone, found = now, true
		}
	}
	return found
}

// movedOn tells whether a later move of ours took the copy on from where e brought it.
func (l *Ledger) movedOn(e *entry) bool {
	return slices.ContainsFunc(l.entries, func(other entry) bool { return other.Move.AllocationID == e.NewID })
}
