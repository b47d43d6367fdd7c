package mover

import "slices"

// State is where a move stands.
type State string

// The states. Planned to Relocating are on the way, the others are ends.
const (
	Planned    State = "planned"    // waits for its turn
	Checked    State = "checked"    // it still holds and the gate let it pass
	Requested  State = "requested"  // asked for, not seen to run yet
	Relocating State = "relocating" // seen under way

	Landed    State = "landed"    // the copy is started on its target
	Refused   State = "refused"   // the cluster said no
	Stale     State = "stale"     // it no longer held when its turn came
	Cancelled State = "cancelled" // it ended where it began: cancelled by somebody, or failed
	Expired   State = "expired"   // its time was over: the plan's, that of an answer that was lost, or that of a copy that gets no bytes
	Lost      State = "lost"      // the copy is neither where it was nor where it was going
	Skipped   State = "skipped"   // never asked for: the carrying ended before its turn
)

// transitions is every step a move may take. What is not listed is a bug.
//
// A relocation that fails leaves no mark in the cluster: the copy is simply started where it was, as if nothing had been
// asked for. Hence Requested and Relocating end as Cancelled by what is seen, not by what is said.
var transitions = map[State][]State{
	Planned:    {Checked, Landed, Stale, Expired, Skipped}, // Landed: it was so already
	Checked:    {Requested},
	Requested:  {Relocating, Landed, Refused, Cancelled, Expired, Lost, Planned}, // back to Planned: the whole request certainly did nothing
	Relocating: {Landed, Cancelled, Expired, Lost},
}

// States lists all states in the order of a move's life.
var States = []State{Planned, Checked, Requested, Relocating, Landed, Refused, Stale, Cancelled, Expired, Lost, Skipped}

// Ended tells whether nothing follows after s.
func (s State) Ended() bool { return len(transitions[s]) == 0 }

// Becomes tells whether a move may go from s to next.
func (s State) Becomes(next State) bool { return slices.Contains(transitions[s], next) }
