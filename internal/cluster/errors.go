package cluster

import "errors"

// Class sorts every error a user can see. It fixes the exit code and the metric label, in one table.
type Class string

// The error classes.
const (
	Unavailable Class = "unavailable" // the cluster cannot be reached, times out, has no master
	Refused     Class = "refused"     // it answers but will not have us: 401, 403, TLS, not a search cluster, not a supported version
	Incomplete  Class = "incomplete"  // a snapshot is incomplete or contradicts itself
	Infeasible  Class = "infeasible"  // no legal placement; the error names what binds
	Stale       Class = "stale"       // a plan is expired, for another cluster, or no longer fits
	Rejected    Class = "rejected"    // an assertion or check failed, or the cluster refused a move
	Invalid     Class = "invalid"     // wrong usage or configuration
	Interrupted Class = "interrupted" // stopped from outside, the cluster left tidy
	Internal    Class = "internal"    // a bug
)

var exitCodes = map[Class]int{
	Internal: 1, Rejected: 1, Invalid: 2, Unavailable: 3, Refused: 3, Incomplete: 4, Infeasible: 5, Stale: 6, Interrupted: 7,
}

// Error is one failure as a person should read it: what was being done to what, why it failed, what to do next.
type Error struct {
	Class Class
	Op    string // what was being done: "read node stats"
	What  string // to what: a node, file, setting, address; may be empty
	Err   error  // why
	Hint  string // the cure, a full sentence; may be empty
}

// Error is one line, as in "read plan p.json: it is empty. Make a new one".
func (e *Error) Error() string {
	text := e.Op
	if e.What != "" {
		text += " " + e.What
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	if e.Hint != "" {
		text += ". " + e.Hint
	}
	return text
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// ClassOf is the class of the outermost Error in err's chain; Internal where there is none.
func ClassOf(err error) Class {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Class
	}
	return Internal
}

// ExitCode is the process exit code for err, 0 for nil.
func ExitCode(err error) int {
	if err == nil {
		return 0
	}
	return exitCodes[ClassOf(err)]
}
