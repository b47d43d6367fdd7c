package mover

import (
	"context"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/es"
)

// Record is what the cluster stores of who has taken rebalancing over.
type Record struct {
	Holder   string    `json:"holder"`
	Renewed  time.Time `json:"renewed"`
	Expires  time.Time `json:"expires"`
	Previous string    `json:"previous"` // persistent value of cluster.routing.rebalance.enable before, "unset" for none
}

// Lease is how long a record holds and how claims are made.
type Lease struct {
	Holder string        // who we are: no other live process may use it; a restart with the same one goes on at once
	Length time.Duration // a record not renewed for so long is expired
	Settle time.Duration // from a claim to reading it back: longer than a write can take
}

// Hold is the error of an ownership that is not ours to act on: errors.As.
type Hold struct {
	Kind StopKind
	Text string
	Cure string
}

// Error is one line.
func (h *Hold) Error() string { return h.Text }

// Ownership is our hold on a cluster's rebalancing.
type Ownership struct{}

// NewOwnership makes one; it sends nothing.
func NewOwnership(api API, product cluster.Product, lease Lease) *Ownership { panic("being built") }

// Acquire takes rebalancing over: it sets cluster.routing.rebalance.enable to none and writes our record in one request,
// waits, and reads back. It returns nil when we are the holder, a *Hold when we may not be (another holder, a person's
// setting), another error when the cluster cannot be read or written. Asking again while we hold it is cheap. On products
// with a desired balance it then waits until nothing relocates and clears old wishes.
func (o *Ownership) Acquire(ctx context.Context) error { panic("being built") }

// Confirm reads the record again, renews it when it is due, and returns the settings it read. A *Hold says that we may not
// act any more, or not now.
func (o *Ownership) Confirm(ctx context.Context) (es.RawSettings, error) { panic("being built") }

// Release gives rebalancing back: the previous value and the removal of the record in one request. s is the latest
// snapshot, to foretell what the server's own balancer will do then; nil for no forecast.
func (o *Ownership) Release(ctx context.Context, s *cluster.Snapshot) (Released, error) {
	panic("being built")
}

// Released is what giving back did.
type Released struct {
	Record   *Record // the record found; nil where there was none
	Restored bool    // the previous value was put back
	Value    string  // persistent value now, "unset" for none
	Returns  []Return
	Text     string // for people: what was done and what the server will do now
}

// Return is a copy that the server's balancer is expected to move once it may.
type Return struct {
	Index    string
	Shard    int
	From, To cluster.NodeID // To is a guess, empty where there is none
	Why      string
}

// Release gives rebalancing back whoever holds it: for the command of that name and for expired records at start
// (onlyExpired).
func Release(ctx context.Context, api API, product cluster.Product, s *cluster.Snapshot, onlyExpired bool) (Released, error) {
	panic("being built")
}
