package rebalance

import (
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/dispersion"
	"github.com/shardonnay/shardonnay/internal/model"
	"github.com/shardonnay/shardonnay/internal/mover"
	"github.com/shardonnay/shardonnay/internal/plan"
	"github.com/shardonnay/shardonnay/internal/solver"
)

// Outcome is how a cycle ended; every cycle has exactly one.
type Outcome string

// The outcomes.
const (
	Moved              Outcome = "moved"               // at least one copy was sent on its way
	Balanced           Outcome = "balanced"            // nothing is worth moving
	SnapshotIncomplete Outcome = "snapshot_incomplete" // the cluster could not be read without gaps or contradictions
	ClusterNotReady    Outcome = "cluster_not_ready"   // a stop condition holds
	MovesInFlight      Outcome = "moves_in_flight"     // what is under way leaves no room for more
	Held               Outcome = "held"                // moves are planned but not wanted now: mode, pause, a person's setting, warming up
	NotOwner           Outcome = "not_owner"           // another instance owns rebalancing
	Infeasible         Outcome = "infeasible"          // there is no legal placement
	Failed             Outcome = "failed"              // an error
)

// Outcomes lists all of them.
var Outcomes = []Outcome{Moved, Balanced, SnapshotIncomplete, ClusterNotReady, MovesInFlight, Held, NotOwner, Infeasible, Failed}

// outcomeOf maps an error to the outcome of the cycle it ended.
func outcomeOf(err error) Outcome {
	switch cluster.ClassOf(err) {
	case cluster.Incomplete:
		return SnapshotIncomplete
	case cluster.Infeasible:
		return Infeasible
	case cluster.Interrupted:
		return Held // the daemon is about to end: nothing has gone wrong
	}
	return Failed
}

// Stage names a step of the cycle, for its share of the time.
type Stage string

// The stages, in order.
const (
	Collect Stage = "collect"
	Model   Stage = "model"
	Solve   Stage = "solve"
	Plan    Stage = "plan"
	Move    Stage = "move"
)

// Stages lists all of them, in order.
var Stages = []Stage{Collect, Model, Solve, Plan, Move}

// Summary is what one cycle did. Parts a cycle did not come to are nil or zero.
type Summary struct {
	ID       string
	Mode     Mode
	Started  time.Time
	Took     map[Stage]time.Duration
	Outcome  Outcome
	Reason   string // why not more was done, for people; empty where everything planned was done
	Err      error
	Snapshot *cluster.Snapshot
	Problem  *model.Problem
	Result   *solver.Result
	Plan     *plan.Plan
	Spread   *dispersion.Report // of copies over regions, zones and hosts; nil where the policy has no regions
	Report   *mover.Report
	Hold     *mover.Hold // why moving is not ours to do; nil where it is, or was not asked for
}

// Owned says who moves copies of the cluster.
type Owned string

// Whose rebalancing can be.
const (
	OwnedByUs     Owned = "us"
	OwnedByOther  Owned = "other"  // another instance
	OwnedByPerson Owned = "person" // somebody set the rebalancing setting to something else meanwhile, or gave it back in our stead
	OwnedByServer Owned = "server" // nobody took it over
)

// Owned is who moves copies after the cycle; empty for one that ended before anybody could tell.
func (s *Summary) Owned() Owned {
	switch s.Stop() {
	case mover.OtherHolder:
		return OwnedByOther
	case mover.RebalanceChanged, mover.TransientSetting, mover.GivenBack, mover.BrokenRecord:
		return OwnedByPerson
	case mover.NotHeld:
		return OwnedByServer
	}
	switch {
	case s.Snapshot == nil:
		return ""
	case s.Mode == plan.Act:
		return OwnedByUs
	}
	record, err := mover.ParseRecord(s.Snapshot.Settings.Ownership)
	if err == nil && record != nil && !record.Expired(s.Snapshot.TakenAt) {
		return OwnedByOther
	}
	return OwnedByServer
}

// stopText tells what Stop names.
func (s *Summary) stopText() string {
	switch {
	case s.Hold != nil:
		return s.Hold.Text
	case s.Report != nil && s.Report.Stop != nil:
		return s.Report.Stop.Text
	}
	return ""
}

// Stop names the condition that kept moves from being asked for, or why they are not ours to ask for; empty where nothing
// of the kind was found.
func (s *Summary) Stop() mover.StopKind {
	switch {
	case s.Hold != nil:
		return s.Hold.Kind
	case s.Report != nil && s.Report.Stop != nil:
		return s.Report.Stop.Kind
	}
	return ""
}
