package plan

import (
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/model"
)

// Solved is the solver's answer: the node position of every copy of the problem, and the bound on the objective.
type Solved struct {
	Assignment []int32
	LowerBound float64
	Solver     Solver
}

// Options say how a plan is made from an answer.
type Options struct {
	Mode      Mode
	CreatedAt time.Time
	Expiry    time.Duration // the plan's life; 0 means an hour

	MaxMoves int   // 0 is no limit; the problem's own limits hold too
	MaxBytes int64 // 0 is no limit; the problem's own limits hold too

	// Taken is the snapshot as it was taken, relocations under way included, when the problem was built from its
	// projection: the order then never relies on one of them having landed. Nil where nothing is under way.
	Taken *cluster.Snapshot

	// Returns are recent moves by the allocation id their copy has now: going back there must gain at least so much.
	Returns map[string]Return

	PerNode int // relocations at a time into and out of a node, for the estimate; 0 is the server's limits
	AtOnce  int // relocations at a time in the cluster, for the estimate; 0 is no limit
}

// Return is where a copy came from not long ago, and what going back has to gain.
type Return struct {
	Node    cluster.NodeID
	MinGain float64
}

// Diff orders the moves from the present state to the solved one and explains what it leaves. b is only read.
func Diff(b *model.Built, solved Solved, o Options) (*Plan, error) {
	panic("being built")
}
