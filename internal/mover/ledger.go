package mover

import (
	"time"

	"github.com/shardonnay/shardonnay/internal/plan"
)

// Ledger remembers recent moves over restarts.
type Ledger struct{}

// OpenLedger reads the ledger in a folder; an empty name keeps it in memory. A broken file is put aside and said so in
// the warning.
func OpenLedger(dir string) (l *Ledger, warning string, err error) { panic("being built") }

// CoolingDown is the allocation ids of copies that moved, or failed to, within the time d before now: for model.Policy.
func (l *Ledger) CoolingDown(now time.Time, d time.Duration) map[string]struct{} {
	panic("being built")
}

// Returns is what going back to where a copy came from has to gain, by allocation id: for plan.Options.
func (l *Ledger) Returns(now time.Time) map[string]plan.Return { panic("being built") }
