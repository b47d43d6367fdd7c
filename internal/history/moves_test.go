package history

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shardonnay/shardonnay/internal/mover"
	"github.com/shardonnay/shardonnay/internal/plan"
)

func move(copy string, bytes int64) plan.Move {
	return plan.Move{
		Index: "logs-1", AllocationID: copy, Bytes: bytes, Reason: plan.ForBalance, Text: "n1 search 4.7x -> 3.1x of mean",
		From: plan.Place{ID: "1", Name: "n1", Zone: "a"}, To: plan.Place{ID: "2", Name: "n2"},
	}
}

// told is what the answer says, one move a line.
func told(moves Moves) string {
	var lines []string
	for _, m := range moves.Moves {
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%d %s %d/%d %s", m.ID, m.State, m.BytesArrived, m.Bytes, m.Why)))
	}
	return strings.Join(lines, "\n")
}

// TestMovesAreFollowed from their start over their progress to their end; a reader is told what is new since it last asked.
func TestMovesAreFollowed(t *testing.T) {
	h := New()
	h.ObserveMove(mover.Event{Move: move("never asked for", 7), State: mover.Skipped, Reason: "red"}, noon)
	h.ObserveMove(mover.Event{Move: move("x", 100), State: mover.Relocating, Elapsed: time.Second}, noon)
	h.ObserveMove(mover.Event{Move: move("y", 50), State: mover.Relocating, Elapsed: time.Second}, noon)
	first := h.Moves(0)
	if got := told(first); got != "1 relocating 0/100\n2 relocating 0/50" {
		t.Errorf("got\n%s", got)
	}
	if moves, bytes := h.InFlight(); moves != 2 || bytes != 150 {
		t.Errorf("%d moves of %d bytes in flight", moves, bytes)
	}
	h.ObserveMove(mover.Event{Move: move("y", 50), State: mover.Relocating, Elapsed: 2 * time.Second}, noon) // no news
	h.ObserveMove(mover.Event{Move: move("x", 100), State: mover.Relocating, Elapsed: time.Minute, BytesArrived: 60}, noon)
	second := h.Moves(first.Revision)
	if got := told(second); got != "1 relocating 60/100" {
		t.Errorf("got\n%s", got)
	}
	h.ObserveMove(mover.Event{Move: move("x", 100), State: mover.Landed, Elapsed: 2 * time.Minute, BytesArrived: 100}, noon.Add(2*time.Minute))
	h.ObserveMove(mover.Event{Move: move("y", 50), State: mover.Cancelled, Reason: "it ended where it began", Elapsed: time.Minute}, noon.Add(time.Minute))
	// Refused at once: it was asked for, and never seen under way.
	h.ObserveMove(mover.Event{Move: move("z", 5), State: mover.Refused, Reason: "awareness", Elapsed: time.Millisecond}, noon)
	third := h.Moves(second.Revision)
	if got := told(third); got != "1 landed 100/100\n2 cancelled 0/50 it ended where it began\n3 refused 0/5 awareness" {
		t.Errorf("got\n%s", got)
	}
	if m := third.Moves[0]; m.Started != noon.Add(-time.Second).UnixMilli() || m.Ended != noon.Add(2*time.Minute).UnixMilli() {
		t.Errorf("from %d to %d", m.Started, m.Ended)
	}
	if moves, _ := h.InFlight(); moves != 0 || len(h.Moves(third.Revision).Moves) != 0 {
		t.Errorf("%d moves in flight", moves)
	}
}

// TestMovesAreBounded in number and in age.
func TestMovesAreBounded(t *testing.T) {
	h := New()
	for i := range 3 * maxMoves {
		h.ObserveMove(mover.Event{Move: move("x", 1), State: mover.Landed, Elapsed: time.Second}, noon.Add(time.Duration(i)*time.Second))
	}
	if got := h.Moves(0).Moves; len(got) != maxMoves || got[len(got)-1].ID != 3*maxMoves {
		t.Errorf("%d moves", len(got))
	}
	h.ObserveMove(mover.Event{Move: move("x", 1), State: mover.Landed, Elapsed: time.Second}, noon.Add(48*time.Hour))
	if got := h.Moves(0).Moves; len(got) != 1 {
		t.Errorf("%d moves two days later", len(got))
	}
}
