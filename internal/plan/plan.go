package plan

import (
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/model"
)

// Version is the version of the plan format.
const Version = 1

// Mode is what the program that made a plan was allowed to do.
type Mode string

// The modes.
const (
	Observe Mode = "observe"
	DryRun  Mode = "dry-run"
	Act     Mode = "act"
)

// Plan is what should move and why, and why the rest should not. docs/plan.md describes every field for readers of the
// JSON.
type Plan struct {
	Version   int       `json:"version"`
	ID        string    `json:"id"` // ULID; its time is CreatedAt
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at"`
	Mode      Mode      `json:"mode"`
	Cluster   Cluster   `json:"cluster"`
	Snapshot  Snapshot  `json:"snapshot"`
	Objective Objective `json:"objective"`
	Balance   []Balance `json:"balance"`
	Moves     []Move    `json:"moves"` // in execution order
	Verdicts  []Verdict `json:"verdicts"`
	Totals    Totals    `json:"totals"`
	Solver    Solver    `json:"solver"`
	WhatIf    *WhatIf   `json:"what_if,omitempty"` // of a plan that is not for the cluster as it is
}

// WhatIf says how the cluster of a plan differs from the one there is, with what there is beside it. Such a plan is never
// carried out.
type WhatIf struct {
	Changes []string `json:"changes"` // as they were asked for, in their order
	Today   Today    `json:"today"`
}

// Today is what the same search makes of the cluster as it is.
type Today struct {
	Nodes     int       `json:"nodes"` // data nodes
	Objective Objective `json:"objective"`
	Balance   []Balance `json:"balance"`
	Totals    Totals    `json:"totals"`
}

// Suppose makes p the plan of a what-if whose changes are given, beside the plan of the cluster as it is.
func (p *Plan) Suppose(changes []string, today *Plan) {
	p.WhatIf = &WhatIf{
		Changes: changes,
		Today:   Today{Nodes: today.Snapshot.Nodes, Objective: today.Objective, Balance: today.Balance, Totals: today.Totals},
	}
}

// Cluster is the cluster a plan is for.
type Cluster struct {
	Name         string               `json:"name"`
	UUID         string               `json:"uuid"`
	Distribution cluster.Distribution `json:"distribution"`
	Version      string               `json:"version"`
}

// Snapshot is what a plan was made from.
type Snapshot struct {
	Fingerprint  string    `json:"fingerprint"`
	TakenAt      time.Time `json:"taken_at"`
	StateVersion int64     `json:"state_version"`
	Samples      int       `json:"samples"`
	WindowS      float64   `json:"window_s"` // seconds between the samples; 0 with one
	Nodes        int       `json:"nodes"`    // data nodes
	Indices      int       `json:"indices"`
	Copies       int       `json:"copies"`
	Warnings     []string  `json:"warnings"`
}

// Objective is what the placement costs now, after the plan's moves (their cost included) and at best.
type Objective struct {
	Before     float64 `json:"before"`
	After      float64 `json:"after"`
	LowerBound float64 `json:"lower_bound"` // no legal placement costs less
	Captured   float64 `json:"captured"`    // (before - after)/(before - lower_bound); 1 where both are 0
	Gap        float64 `json:"gap"`         // (after - lower_bound)/max(|after|, 1e-9)
	Terms      []Term  `json:"terms"`       // they add up to the totals
}

// Term is one named part of the objective, weight included.
type Term struct {
	Name   string  `json:"name"`
	Weight float64 `json:"weight"`
	Before float64 `json:"before"`
	After  float64 `json:"after"`
}

// Balance is how evenly one dimension is spread over the nodes of one domain: nodes that compete for the same copies.
type Balance struct {
	Dimension string   `json:"dimension"`
	Unit      string   `json:"unit"`
	Domain    string   `json:"domain"` // the roles its nodes share; "all" where there is one domain
	Mean      float64  `json:"mean"`   // load of a node of average capacity when all is even, in Unit
	Before    Evenness `json:"before"`
	After     Evenness `json:"after"`  // what this plan's moves reach
	Target    Evenness `json:"target"` // what the solver's whole assignment would reach
}

// Evenness sums up the nodes' loads in one dimension.
type Evenness struct {
	Max        float64 `json:"max"`          // load of the most loaded node, scaled to a node of average capacity
	PeakToMean float64 `json:"peak_to_mean"` // Max over the mean
	CV         float64 `json:"cv"`           // standard deviation over the mean, nodes weighted by capacity
}

// Move takes one copy of a shard from one node to another.
type Move struct {
	Seq          int         `json:"seq"` // from 1, in execution order
	Index        string      `json:"index"`
	IndexUUID    string      `json:"index_uuid"`
	Shard        int         `json:"shard"`
	Primary      bool        `json:"primary"`
	AllocationID string      `json:"allocation_id"`
	From         Place       `json:"from"`
	To           Place       `json:"to"`
	Bytes        int64       `json:"bytes"`
	BytesSource  Source      `json:"bytes_source"`
	WAN          *model.Link `json:"wan,omitempty"` // the way its bytes take between regions; absent within one
	After        []int       `json:"after"`         // seqs that must have landed before this one is asked for
	Reason       Reason      `json:"reason"`
	// Gain is what this move takes off the objective when the moves before it have been made, its own cost not counted.
	Gain       float64 `json:"gain"`
	GainPerGiB float64 `json:"gain_per_gib"`
	Text       string  `json:"text"`
}

// Place is a node as a reader wants to see it.
type Place struct {
	ID   cluster.NodeID `json:"id"`
	Name string         `json:"name"`
	Zone string         `json:"zone"` // value of the first awareness attribute, or of the attribute "zone"; may be empty
}

// Source is the node that sends the data: the primary's, also for a replica.
type Source struct {
	ID cluster.NodeID `json:"id"`
}

// Reason says what a move is for.
type Reason string

// The reasons.
const (
	ForBalance Reason = "balance"  // the nodes' loads even out
	Evacuate   Reason = "evacuate" // the server does not want the copy on its node any more
	ForSpread  Reason = "spread"   // too many copies of one index on a node
	ForDisk    Reason = "disk"     // the node is above the high watermark
	ForTier    Reason = "tier"     // too many copies of a shard in one zone, host or region
	ForFloor   Reason = "floor"    // too few of them there
)

// Verdict explains something that stays as it is, or something about the cluster that limits what a plan can do.
type Verdict struct {
	Kind    Kind     `json:"kind"`
	Subject string   `json:"subject"` // node/NAME, index/NAME, shard/NAME/NUMBER or cluster
	Binding []string `json:"binding"` // deciders or limits that bind
	Text    string   `json:"text"`    // what is so, one or two sentences
	Advice  string   `json:"advice"`  // what a person can do about it; may be empty
}

// Kind sorts verdicts.
type Kind string

// The kinds of verdicts.
const (
	SingleShardHotspot Kind = "single_shard_hotspot" // one copy alone is more than its node's fair share
	NoLegalTarget      Kind = "no_legal_target"      // no node may take what should leave
	NotWorth           Kind = "not_worth"            // what could move would cost more than it gains
	Budget             Kind = "budget"               // the plan was cut at a limit of moves or bytes
	Pinned             Kind = "pinned"               // what should leave is kept by configuration, cool-down or an operation
	Noise              Kind = "noise"                // the gain is within what measurement noise explains
	Balanced           Kind = "balanced"             // nothing to do
	MustMoveBlocked    Kind = "must_move_blocked"    // a copy has to leave its node and cannot
	Cycle              Kind = "cycle"                // moves that wait for each other's disk space
	InFlight           Kind = "in_flight"            // a relocation of the same shard has to land first
	Oscillation        Kind = "oscillation"          // it would undo a recent move for too little
	ForeignBalancer    Kind = "foreign_balancer"     // somebody else moves copies too
	UnassignedCopies   Kind = "unassigned"           // copies that stand nowhere
	MixedVersions      Kind = "mixed_versions"       // nodes of several versions
	SingleSample       Kind = "single_sample"        // rates are averages since the start, not of now
	Zones              Kind = "zones"                // fewer zones than copies
	ZoneLoss           Kind = "zone_loss"            // a node, or the disks, would not bear the loss of a zone
	SolverLimit        Kind = "solver_limit"         // a better placement is known to exist, the solver's time was over
)

// Totals sums up the moves.
type Totals struct {
	Moves        int     `json:"moves"`
	Bytes        int64   `json:"bytes"`
	EstSeconds   float64 `json:"est_seconds"`
	NodesTouched int     `json:"nodes_touched"`
}

// Solver says how the answer behind the plan was found.
type Solver struct {
	Status            string  `json:"status"` // optimal, feasible, limit, infeasible
	WallS             float64 `json:"wall_s"` // seconds
	ColumnsConsidered int64   `json:"columns_considered"`
	ColumnsBuilt      int64   `json:"columns_built"`
	LPSolves          int     `json:"lp_solves"`
	Rounds            int     `json:"rounds"`
	Limit             string  `json:"limit"` // none, time, work
}
