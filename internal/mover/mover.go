package mover

import (
	"context"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/plan"
)

// Config is how carefully moves are made.
type Config struct {
	Limits Limits
	Stops  Stops

	// Poll is the time between two looks at the cluster while moves are under way. It stretches by itself where reading
	// the routing table takes long.
	Poll time.Duration
	// Patience is how long a stop condition or a full gate may keep everything waiting, nothing being in flight, before
	// Carry gives the rest of the plan up.
	Patience time.Duration
	// UnknownWait is how long a request whose answer was lost may still take effect.
	UnknownWait time.Duration
	// StuckAfter is how long a relocation may go without receiving a byte before it is no longer waited for.
	StuckAfter time.Duration
	// CancelStuck also cancels it, at its target.
	CancelStuck bool
}

// Mover carries plans out on one cluster, one at a time.
type Mover struct{}

// New makes a mover. ledger must not be nil (OpenLedger with an empty folder keeps it in memory); own is nil where
// rebalancing is not taken over. onEvent is nil or gets every move's start and end, called from Carry's goroutine.
func New(api API, identity cluster.Identity, config Config, ledger *Ledger, own *Ownership, onEvent func(Event)) *Mover {
	panic("being built")
}

// Carry asks for p's moves as limits and the cluster's state permit and watches them, and those of earlier plans that are
// still under way, until all have ended. s is the snapshot p was made from, for what is not read again: zones, CPU,
// rejections, shutdown marks, the copies' bytes. p may be nil: then it only watches.
//
// It returns when everything has ended, when the rest cannot go on (Report.Stop), or as soon as ctx is done: then no new
// move is asked for, and what is in flight is left to the cluster, reported in Report.InFlight, and picked up by the next
// Carry. An error means the cluster could not be read or refused us (errors.Is ErrNotAllowed); the report is valid beside
// it.
func (m *Mover) Carry(ctx context.Context, p *plan.Plan, s *cluster.Snapshot) (Report, error) {
	panic("being built")
}

// Event is the start or the end of one move.
type Event struct {
	Move    plan.Move
	State   State // Relocating, or how it ended
	Reason  string
	Elapsed time.Duration // since it was requested; 0 at its start
	Adopted bool          // it was found under way
	// BytesArrived of Move.Bytes, for progress; equal to Move.Bytes once landed.
	BytesArrived int64
}

// Report says what became of every move of a plan. Considered is the sum of Count and of InFlight less Adopted.
type Report struct {
	PlanID     string
	Considered int           // moves of the plan
	Adopted    int           // moves of earlier plans found under way, beside them
	Count      map[State]int // by end state, adopted ones included
	Outcomes   []Outcome     // by seq, adopted ones first
	InFlight   []plan.Move   // left to the cluster
	BytesMoved int64         // of landed moves
	Stop       *Stop         // why the rest was given up; nil where nothing was
}

// Outcome is how one move ended.
type Outcome struct {
	Move    plan.Move
	State   State
	Reason  string // why it did not land; empty where it did
	Elapsed time.Duration
}
