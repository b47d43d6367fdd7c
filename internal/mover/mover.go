package mover

import (
	"context"
	"errors"
	"sync/atomic"
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
	// Carry gives the rest of the plan up; also how long a cluster that cannot be read is asked again.
	Patience time.Duration
	// UnknownWait is how long a request whose answer was lost may still take effect.
	UnknownWait time.Duration
	// StuckAfter is how long a relocation may go without receiving a byte before it is no longer waited for.
	StuckAfter time.Duration
	// Clock is nil for the wall's.
	Clock Clock
	// CancelStuck also cancels it, at its target.
	CancelStuck bool
}

// ErrNotAllowed is in the chain of the error of a cluster that will not have us move copies: a managed service, or a user
// without the privilege. The class is Refused. What is left is to go on in dry-run mode.
var ErrNotAllowed = errors.New("this cluster does not let us move copies")

// Mover carries plans out on one cluster, one at a time.
type Mover struct {
	api      API
	identity cluster.Identity
	settings atomic.Pointer[Config]
	ledger   *Ledger
	own      *Ownership
	onEvent  func(Event)
	clock    Clock
	hold     func() string // why copies are to stay where they are for now; nil for never

	config    Config // of the Carry under way
	looked    bool   // at the cluster, once, for what was left in flight
	roster    roster
	calmUntil time.Time // until then half the limits hold
	readTook  time.Duration
}

// New makes a mover. ledger must not be nil (OpenLedger with an empty folder keeps it in memory); own is nil where
// rebalancing is not taken over. onEvent is nil or gets every move's start, progress and end, called from Carry's
// goroutine.
func New(api API, identity cluster.Identity, config Config, ledger *Ledger, own *Ownership, onEvent func(Event)) *Mover {
	if onEvent == nil {
		onEvent = func(Event) {}
	}
	m := &Mover{api: api, identity: identity, ledger: ledger, own: own, onEvent: onEvent, clock: orWall(config.Clock)}
	m.Configure(config)
	return m
}

// Configure takes effect at the next Carry, the clock aside. It may be called at any time, from any goroutine.
func (m *Mover) Configure(config Config) { m.settings.Store(&config) }

// HoldWhile makes the mover ask before every request whether something else at work on the cluster wants copies to stay:
// why is a sentence then, and empty otherwise. Call it before the first Carry.
func (m *Mover) HoldWhile(why func() string) { m.hold = why }

// Event is the start, the progress or the end of one move.
type Event struct {
	Move    plan.Move
	State   State         // Requested, Relocating, or how it ended
	Reason  string        // why it did not land; empty where it did
	Decider string        // the decider that refused it, the first where there are several; empty where none did
	Elapsed time.Duration // since it was asked for; 0 where it never was
	Adopted bool          // it was found under way
	// BytesArrived of Move.Bytes, for progress; equal to Move.Bytes once landed.
	BytesArrived int64
}

// Report says what became of every move of a plan: Considered + Adopted is the sum of Count and of InFlight.
type Report struct {
	PlanID     string
	Considered int           // moves of the plan
	Adopted    int           // moves of earlier plans found under way, beside them
	Count      map[State]int // by end state, adopted ones included
	Outcomes   []Outcome     // in the order in which they ended
	InFlight   []plan.Move   // left to the cluster
	BytesMoved int64         // of landed moves; those that were so already do not count
	Stop       *Stop         // why the rest was given up; nil where nothing was
	Warnings   []string      // what a person should know beside that
}

// Outcome is how one move ended.
type Outcome struct {
	Move    plan.Move
	State   State
	Reason  string // why it did not land; empty where it did
	Elapsed time.Duration
	Adopted bool // it is none of the plan's: it was found under way
}

// OfPlan counts the plan's own moves that ended in a state, and what those that were carried out moved.
func (r *Report) OfPlan(state State) (moves int, bytes int64) {
	for i := range r.Outcomes {
		if o := &r.Outcomes[i]; o.State == state && !o.Adopted {
			moves++
			if o.Reason == "" { // those that were so already have one
				bytes += o.Move.Bytes
			}
		}
	}
	return moves, bytes
}

// Carry asks for p's moves as limits and the cluster's state permit and watches them, and those of earlier plans that are
// still under way, until all have ended. s is the snapshot p was made from, for what is not read again: zones, CPU,
// rejections, shutdown marks, the copies' bytes. p may be nil: then it only watches.
//
// It returns when everything has ended, when the rest cannot go on (Report.Stop), or as soon as ctx is done: then no new
// move is asked for, and what is in flight is left to the cluster, reported in Report.InFlight, and picked up by the next
// Carry. An error means the cluster could not be read, the plan is not for it (class Stale), or it refused us (errors.Is
// ErrNotAllowed); the report is valid beside it.
func (m *Mover) Carry(ctx context.Context, p *plan.Plan, s *cluster.Snapshot) (Report, error) {
	m.config = *m.settings.Load()
	c := &carrying{m: m, s: s, bytes: make(map[string]int64), failed: make(map[int]State), report: Report{Count: make(map[State]int)}}
	for i := range s.Copies {
		c.bytes[s.Copies[i].AllocationID] = s.Copies[i].Bytes
	}
	if p != nil {
		c.planID, c.expires = p.ID, p.ExpiresAt
		c.report.PlanID, c.report.Considered = p.ID, len(p.Moves)
		for i := range p.Moves {
			c.bytes[p.Moves[i].AllocationID] = p.Moves[i].Bytes
			c.pending = append(c.pending, &flight{move: p.Moves[i], state: Planned})
		}
		if err := p.Usable(m.identity.UUID, m.clock.Now()); err != nil {
			c.giveUp("the plan is not for this cluster, or no longer", Stale)
			return c.report, err
		}
	}
	for _, e := range m.ledger.open() {
		c.report.Adopted++
		c.flights = append(c.flights, &flight{
			move: e.Move, state: e.State, requested: e.Requested, progressed: m.clock.Now(), newID: e.NewID, adopted: true,
			found: e.PlanID == "", unknown: e.State == Requested,
		})
		c.bytes[e.Move.AllocationID] = e.Move.Bytes
	}
	err := c.run(ctx)
	for _, f := range c.flights {
		c.report.InFlight = append(c.report.InFlight, f.move)
	}
	return c.report, err
}
