package history

import (
	"cmp"
	"slices"
	"time"

	"github.com/shardonnay/shardonnay/internal/mover"
	"github.com/shardonnay/shardonnay/internal/plan"
)

// maxMoves bounds the moves that have ended: three a minute for a day, and some 3 MB.
const maxMoves = 4096

// Move is one move that was asked for, as the page shows it.
type Move struct {
	ID           uint64      `json:"id"` // of this history, ascending
	Index        string      `json:"index"`
	Shard        int         `json:"shard"`
	Primary      bool        `json:"primary"`
	From         plan.Place  `json:"from"`
	To           plan.Place  `json:"to"`
	Bytes        int64       `json:"bytes"`
	BytesArrived int64       `json:"bytes_arrived"`
	Reason       plan.Reason `json:"reason"` // empty where it was found under way
	Gain         float64     `json:"gain"`
	Text         string      `json:"text"`
	Adopted      bool        `json:"adopted"`
	State        mover.State `json:"state"`
	Why          string      `json:"why"`     // it did not land; empty where it did or is under way
	Started      int64       `json:"started"` // milliseconds since 1970
	Ended        int64       `json:"ended"`   // 0 while under way

	allocationID string
	revision     uint64
}

// moves are those under way and those that ended, the oldest first.
type moves struct {
	flying, ended []*Move
	asked         uint64 // ever
	revision      uint64 // of the last change
}

// ObserveMove remembers the start, the progress and the end of a move. One that was never asked for leaves no trace.
func (h *History) ObserveMove(e mover.Event, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := slices.IndexFunc(h.moves.flying, func(m *Move) bool { return m.allocationID == e.Move.AllocationID })
	if at < 0 {
		if e.State.Ended() && e.Elapsed == 0 {
			return
		}
		h.moves.asked++
		at = len(h.moves.flying)
		h.moves.flying = append(h.moves.flying, &Move{
			ID: h.moves.asked, Index: e.Move.Index, Shard: e.Move.Shard, Primary: e.Move.Primary, From: e.Move.From, To: e.Move.To,
			Bytes: e.Move.Bytes, Reason: e.Move.Reason, Gain: e.Move.Gain, Text: e.Move.Text, Adopted: e.Adopted,
			Started: now.Add(-e.Elapsed).UnixMilli(), allocationID: e.Move.AllocationID,
		})
	}
	m := h.moves.flying[at]
	if m.State == e.State && m.BytesArrived == e.BytesArrived {
		return
	}
	h.moves.revision++
	m.State, m.BytesArrived, m.revision = e.State, e.BytesArrived, h.moves.revision
	if !e.State.Ended() {
		return
	}
	m.Why, m.Ended = e.Reason, now.UnixMilli()
	h.moves.flying = slices.Delete(h.moves.flying, at, at+1)
	h.moves.ended = append(h.moves.ended, m)
	old := now.Add(-window).UnixMilli()
	keep := slices.IndexFunc(h.moves.ended, func(m *Move) bool { return m.Ended >= old })
	h.moves.ended = slices.Delete(h.moves.ended, 0, max(keep, len(h.moves.ended)-maxMoves))
}

// InFlight counts the moves under way and their bytes.
func (h *History) InFlight() (moves int, bytes int64) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for _, m := range h.moves.flying {
		bytes += m.Bytes
	}
	return len(h.moves.flying), bytes
}

// Moves is the answer about moves.
type Moves struct {
	Version  int    `json:"version"`
	Revision uint64 `json:"revision"` // to be told since when to answer next time
	Moves    []Move `json:"moves"`    // by id
}

// Moves are the moves that began, progressed or ended after the revision.
func (h *History) Moves(after uint64) Moves {
	h.mu.RLock()
	defer h.mu.RUnlock()
	answer := Moves{Version: Version, Revision: h.moves.revision, Moves: []Move{}}
	for _, list := range [][]*Move{h.moves.ended, h.moves.flying} {
		for _, m := range list {
			if m.revision > after {
				answer.Moves = append(answer.Moves, *m)
			}
		}
	}
	slices.SortFunc(answer.Moves, func(a, b Move) int { return cmp.Compare(a.ID, b.ID) })
	return answer
}
