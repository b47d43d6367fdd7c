package rebalance

import (
	"errors"
	"fmt"
	"time"
)

// Latest is the summary of the last cycle that ended; snapshot, problem, result and plan are those of the one under way
// once it carries them out. Before the first plan it is nil, before the first end its outcome is empty. It is shared: read
// only.
func (l *Loop) Latest() *Summary { return l.latest.Load() }

// Pause keeps further cycles from moving; what is in flight goes on.
func (l *Loop) Pause() { l.paused.Store(true) }

// Resume ends a pause.
func (l *Loop) Resume() { l.paused.Store(false) }

// Paused tells whether moving is paused.
func (l *Loop) Paused() bool { return l.paused.Load() }

// Alive is nil while the loop ticks: its last sign of life is not overdue.
func (l *Loop) Alive(now time.Time) error {
	beat := l.beat.Load()
	if beat == 0 {
		return nil // not started yet: still connecting
	}
	settings := l.Settings()
	silence, allowed := now.Sub(time.Unix(0, beat)), settings.Overdue()
	if silence > allowed {
		return fmt.Errorf("the loop has not ticked for %s, at most %s is normal", silence.Round(time.Second), allowed)
	}
	return nil
}

// Working is what a loop says of itself that is ready; an instance that waits says for whom.
const Working = "ok"

// Ready says Working when the last snapshot was complete and ownership is as configured. That no legal placement exists is of the
// cluster and not of the daemon, which has seen all of it and goes on.
func (l *Loop) Ready() (string, error) {
	s := l.latest.Load()
	switch {
	case s == nil, s.Outcome == "":
		return "", errors.New("no cycle has ended yet")
	case s.Outcome == SnapshotIncomplete, s.Outcome == Failed, s.Outcome == NotOwner:
		return "", fmt.Errorf("the last cycle ended as %s: %s", s.Outcome, s.Reason)
	case s.Owned() == OwnedByPerson:
		return "", fmt.Errorf("rebalancing is not ours as mode act has it: %s", s.stopText())
	}
	return Working, nil
}
