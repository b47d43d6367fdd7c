package collector

import (
	"errors"
	"fmt"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// Reason says in one word what was wrong with a collection; it labels the metric.
type Reason string

// The reasons why there is no snapshot.
const (
	Unreadable   Reason = "unreadable"    // an answer was cut off or is not what it should be
	TwoClusters  Reason = "two_clusters"  // the answers are not of one cluster
	StateMoved   Reason = "state_moved"   // the cluster state moved on too far in the meantime
	NodeFailed   Reason = "node_failed"   // a node did not give its statistics
	NodeChanged  Reason = "node_changed"  // a node joined or left in the meantime
	UnknownNode  Reason = "unknown_node"  // a copy is on a node that is not there
	CopiesOdd    Reason = "copies_odd"    // an index's copies do not add up
	CopyUnseen   Reason = "copy_unseen"   // a copy has no statistics although nothing changed
	ShardsFailed Reason = "shards_failed" // some copies did not give their statistics (bundles)
)

// Reasons are all there are.
var Reasons = []Reason{
	Unreadable, TwoClusters, StateMoved, NodeFailed, NodeChanged, UnknownNode, CopiesOdd, CopyUnseen, ShardsFailed,
}

// contradiction is why with its reason.
type contradiction struct {
	reason Reason
	why    string
}

func (c *contradiction) Error() string { return c.why }

// incomplete is an error of class Incomplete with a reason.
func incomplete(reason Reason, what, cure, why string, args ...any) error {
	return &cluster.Error{
		Class: cluster.Incomplete, Op: "make a snapshot of", What: what,
		Err: &contradiction{reason, fmt.Sprintf(why, args...)}, Hint: cure,
	}
}

// ReasonOf is why a collection that failed with err made no snapshot; empty where err is not of class Incomplete.
func ReasonOf(err error) Reason {
	var c *contradiction
	switch {
	case errors.As(err, &c):
		return c.reason
	case err != nil && cluster.ClassOf(err) == cluster.Incomplete:
		return Unreadable
	}
	return ""
}
