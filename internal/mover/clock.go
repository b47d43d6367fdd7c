package mover

import (
	"context"
	"time"
)

// Clock is the time that carrying and owning live by: the wall's, or that of a simulated cluster.
type Clock interface {
	Now() time.Time
	// Sleep returns when d has passed, or with an error as soon as ctx is done.
	Sleep(ctx context.Context, d time.Duration) error
}

// wall is the clock of real clusters.
type wall struct{}

func (wall) Now() time.Time { return time.Now() }

func (wall) Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// orWall is the clock, or the wall's where there is none.
func orWall(clock Clock) Clock {
	if clock == nil {
		return wall{}
	}
	return clock
}
