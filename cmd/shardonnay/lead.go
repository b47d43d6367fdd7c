package main

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/config"
	"github.com/shardonnay/shardonnay/internal/election"
	"github.com/shardonnay/shardonnay/internal/rebalance"
)

// lead stands for election and works for as long as this instance leads. Until it does it is ready and does nothing:
// cycles of an instance that waits would cost the cluster as much as those of the one that leads.
//
// A lost election ends the term and not the process: all that could act belongs to the term, and the record in the
// cluster keeps watch besides. A new process would be no cleaner and would have to be started first.
func (s *service) lead(ctx context.Context, end context.CancelCauseFunc, c *config.Config) error {
	// Who cannot reach the cluster does not stand for election.
	link, err := s.connectPatiently(ctx, c)
	if err != nil {
		return err
	}
	link.close()
	reign, err := s.campaign(ctx, c)
	if reign == nil {
		return err
	}
	reign.OnLoss(func() { end(errDeposed) })
	defer func() {
		if err := reign.Resign(ctx); err != nil {
			s.log.Warn("the Lease could not be released; the others wait until it lapses", zap.Error(err))
		}
	}()
	// What the cluster is may have changed while we waited.
	link, err = connect(ctx, c)
	switch cause := context.Cause(ctx); {
	case err == nil:
		return s.work(ctx, end, link, reign.Election())
	case startsOver(cause):
		return cause
	case cluster.ClassOf(err) == cluster.Unavailable:
		return fmt.Errorf("%w: %w", errCutOff, err)
	}
	return err
}

// campaign waits until this instance leads. Nil without an error: it was told to end.
func (s *service) campaign(ctx context.Context, c *config.Config) (*election.Reign, error) {
	var candidate *election.Candidate
	changed := func() {
		if status := candidate.Status(); status.Trouble != nil {
			s.log.Warn("the election is in trouble", zap.Error(status.Trouble))
		} else {
			s.log.Info("election", zap.String("lease", candidate.Lease()), zap.String("leader", status.Leader), zap.Bool("us", status.Leader == c.Ownership.Holder))
		}
	}
	candidate, err := election.New(candidacy(c), changed)
	if err != nil {
		return nil, err
	}
	waiting := &stage{series: newSeries(), waits: func() (string, error) { return waits(candidate.Status()) }}
	waiting.metrics.ObserveLeader(false)
	s.at.Store(waiting)
	reign, err := candidate.Campaign(ctx)
	switch cause := context.Cause(ctx); {
	case reign != nil:
		return reign, nil
	case startsOver(cause):
		return nil, cause
	case ctx.Err() != nil:
		return nil, nil //nolint:nilerr // told to end while it waits, as a loop is between two cycles: no failure
	}
	return nil, err
}

// waits is what an instance that does not lead says of itself.
func waits(status election.Status) (string, error) {
	switch {
	case status.Trouble != nil:
		return "", status.Trouble
	case status.Leader == "":
		return "waiting: nobody leads", nil
	}
	return fmt.Sprintf("waiting: %s leads", status.Leader), nil
}

// cutOff ends a term whose cycles have not reached the cluster for so long that the ownership record has lapsed: another
// instance may reach it.
func cutOff(observe func(*rebalance.Summary), after time.Duration, end context.CancelCauseFunc) func(*rebalance.Summary) {
	reached := time.Now()
	return func(s *rebalance.Summary) {
		observe(s)
		if cluster.ClassOf(s.Err) != cluster.Unavailable {
			reached = time.Now()
		} else if time.Since(reached) > after {
			end(errCutOff)
		}
	}
}
