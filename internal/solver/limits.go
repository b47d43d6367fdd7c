package solver

import (
	"context"
	"time"
)

// allowance is what one step may take: work, which repeats exactly, and time, which does not. A step asks it now and
// then; steps side by side have one each, so that what one does never depends on how fast another is.
type allowance struct {
	ctx   context.Context
	since time.Time
	until time.Time // zero is no deadline
	most  int64     // units of work; 0 is no limit
	used  int64
}

// spent adds work and tells whether the step has to end.
func (a *allowance) spent(work int64) bool {
	a.used += work
	return a.workOver() || a.timeOver()
}

func (a *allowance) workOver() bool { return a.most > 0 && a.used >= a.most }

func (a *allowance) timeOver() bool {
	return a.ctx.Err() != nil || !a.until.IsZero() && !time.Now().Before(a.until)
}

// atMost lowers the work allowed.
func (a *allowance) atMost(work int64) {
	if a.most == 0 || a.most > work {
		a.most = max(1, work)
	}
}

// seconds is the time left for a call that cannot be interrupted: at least a little, for 0 would be no limit.
func (a *allowance) seconds() float64 {
	if a.until.IsZero() {
		return 0
	}
	return max(0.01, time.Until(a.until).Seconds())
}

// gone is the share of the allowance that is used up, of work or of time, whichever is more.
func (a *allowance) gone() float64 {
	share := 0.0
	if a.most > 0 {
		share = float64(a.used) / float64(a.most)
	}
	if !a.until.IsZero() {
		share = max(share, float64(time.Since(a.since))/float64(a.until.Sub(a.since)))
	}
	return min(share, 1)
}

// hasFor tells whether so much more work fits into the time that is left, at the pace so far: who could not use a part of it leaves
// the time to others.
func (a *allowance) hasFor(work int64) bool {
	if a.until.IsZero() || a.used == 0 {
		return true
	}
	pace := float64(time.Since(a.since)) / float64(a.used)
	return time.Now().Add(time.Duration(pace * float64(work))).Before(a.until)
}

// part splits a share of what is left between steps that so many workers do. Who only counts work gets the same part
// whoever works; time is shared if the steps have to wait for each other.
func (a *allowance) part(share float64, steps, workers int) []allowance {
	parts := make([]allowance, steps)
	for i := range parts {
		parts[i] = allowance{ctx: a.ctx, since: time.Now()}
		if a.most > 0 {
			parts[i].most = max(1, int64(share*float64(a.most-a.used))/int64(steps))
		}
		if !a.until.IsZero() {
			left := time.Duration(share * float64(time.Until(a.until)))
			if turns := (steps + workers - 1) / max(1, workers); turns > 1 {
				parts[i].since = parts[i].since.Add(left * time.Duration(i/max(1, workers)) / time.Duration(turns))
				parts[i].until = parts[i].since.Add(left / time.Duration(turns))
			} else {
				parts[i].until = parts[i].since.Add(left)
			}
		}
	}
	return parts
}
