package solver

import (
	"context"
	"testing"
	"time"
)

// A step that would not end in time, at the pace of those before it, is not begun; work without a deadline is never too long.
func TestAllowanceKnowsWhatStillFits(t *testing.T) {
	now := time.Now()
	a := allowance{ctx: context.Background(), since: now.Add(-10 * time.Minute), used: 100} // six seconds a unit
	if !a.hasFor(1 << 40) {
		t.Error("no deadline, and yet too long")
	}
	a.until = now.Add(10 * time.Minute)
	if !a.hasFor(90) || a.hasFor(110) {
		t.Errorf("100 units fit: 90 fit %t, 110 fit %t", a.hasFor(90), a.hasFor(110))
	}
	if a.used = 0; !a.hasFor(1 << 40) {
		t.Error("nobody knows the pace, and yet too long")
	}
}
