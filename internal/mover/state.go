package mover

// State is where a move stands.
type State string

// The states. Planned, Checked, Requested and Relocating are on the way; the others are ends.
const (
	Planned    State = "planned"    // not looked at yet, or waiting for its turn
	Checked    State = "checked"    // it still holds and the gate let it pass
	Requested  State = "requested"  // sent, not seen to run yet
	Relocating State = "relocating" // seen under way

	Landed    State = "landed"    // the copy is started on its target
	Refused   State = "refused"   // the cluster said no
	Stale     State = "stale"     // it no longer held when its turn came
	Cancelled State = "cancelled" // it ended where it began: cancelled or failed
	Expired   State = "expired"   // its time was over before it ended
	Lost      State = "lost"      // the copy is gone, or what became of the request cannot be said
	Skipped   State = "skipped"   // never asked for: the carrying ended before its turn
)
