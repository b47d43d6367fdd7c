package httpapi

import (
	"time"

	"github.com/shardonnay/shardonnay/internal/history"
	"github.com/shardonnay/shardonnay/internal/plan"
	"github.com/shardonnay/shardonnay/internal/rebalance"
	"github.com/shardonnay/shardonnay/internal/version"
)

// Status is what the daemon is about at one moment, small enough to be asked for every other second. docs/page.md describes
// its fields.
type Status struct {
	Version   int             `json:"version"`
	Program   Program         `json:"program"`
	Now       time.Time       `json:"now"`
	Cluster   plan.Cluster    `json:"cluster"`
	Mode      rebalance.Mode  `json:"mode"`
	IntervalS float64         `json:"interval_s"`
	Paused    bool            `json:"paused"`
	MayPause  bool            `json:"may_pause"` // a token is configured
	Alive     string          `json:"alive"`     // what is wrong with the loop; empty where nothing is
	Ready     string          `json:"ready"`     // what is missing; empty where nothing is
	Waiting   string          `json:"waiting"`   // "waiting: NAME leads" of an instance that is ready and does nothing; else empty
	Owner     rebalance.Owned `json:"owner"`     // empty while nobody can tell, as before the first cycle has ended
	Stop      *Stop           `json:"stop"`      // what keeps moves from being asked for; null where nothing does
	Cycle     *Cycle          `json:"cycle"`     // the last that ended; null before that
	Plan      string          `json:"plan"`      // id of the latest; empty before the first
	Objective *Objective      `json:"objective"` // of that plan
	InFlight  InFlight        `json:"in_flight"`
	Changes   Changes         `json:"changes"`
	Zones     int64           `json:"zones"` // milliseconds, when they were last looked at; 0 where there are none to be
}

// Program is what runs, and since when.
type Program struct {
	Version string    `json:"version"`
	Commit  string    `json:"commit"`
	Started time.Time `json:"started"`
}

// Cycle is how a cycle went.
type Cycle struct {
	ID      string            `json:"id"`
	Started time.Time         `json:"started"`
	TookS   float64           `json:"took_s"`
	Outcome rebalance.Outcome `json:"outcome"`
	Reason  string            `json:"reason"` // why not more was done; empty where everything planned was done
}

// Stop is what forbids moves: a stop condition of the cluster, or an ownership that is not ours to act on.
type Stop struct {
	Reason string `json:"reason"` // one of the words of docs/operations.md
	Text   string `json:"text"`
	Cure   string `json:"cure"`
}

// Objective is the plan's, without its terms.
type Objective struct {
	Before     float64 `json:"before"`
	After      float64 `json:"after"`
	LowerBound float64 `json:"lower_bound"`
	Captured   float64 `json:"captured"`
	Gap        float64 `json:"gap"`
}

// InFlight sums up our moves under way.
type InFlight struct {
	Moves int   `json:"moves"`
	Bytes int64 `json:"bytes"`
}

// Changes differ from those seen last where the history, or its moves, have something new.
type Changes struct {
	Samples uint64 `json:"samples"`
	Moves   uint64 `json:"moves"`
}

// statusOf is the status at one moment.
func statusOf(daemon Daemon, past *history.History, o *Options, now time.Time) Status {
	s := Status{
		Version: 1, Program: Program{version.Number(), version.Commit(), o.Started}, Now: now,
		Cluster: plan.Cluster{
			Name: o.Cluster.Name, UUID: o.Cluster.UUID,
			Distribution: o.Cluster.Product.Distribution, Version: o.Cluster.Product.Version.String(),
		},
		Mode: o.Mode, IntervalS: o.Interval.Seconds(), Paused: daemon.Paused(), MayPause: o.Token != "",
		Alive: textOf(daemon.Alive(now)),
	}
	if o.Zones != nil {
		s.Zones = o.Zones.At.UnixMilli()
	}
	says, missing := daemon.Ready()
	if s.Ready = textOf(missing); says != "" && says != rebalance.Working {
		s.Waiting = says
	}
	s.InFlight.Moves, s.InFlight.Bytes = past.InFlight()
	s.Changes.Samples, s.Changes.Moves = past.Changes()
	latest := daemon.Latest()
	if latest == nil {
		return s
	}
	if latest.Outcome != "" {
		s.Cycle = &Cycle{ID: latest.ID, Started: latest.Started, Outcome: latest.Outcome, Reason: latest.Reason}
		for _, took := range latest.Took {
			s.Cycle.TookS += took.Seconds()
		}
		s.Owner = latest.Owned()
	}
	switch {
	case latest.Hold != nil:
		s.Stop = &Stop{string(latest.Hold.Kind), latest.Hold.Text, latest.Hold.Cure}
	case latest.Report != nil && latest.Report.Stop != nil:
		s.Stop = &Stop{string(latest.Report.Stop.Kind), latest.Report.Stop.Text, latest.Report.Stop.Cure}
	}
	if latest.Plan != nil {
		p := &latest.Plan.Objective
		s.Plan, s.Objective = latest.Plan.ID, &Objective{p.Before, p.After, p.LowerBound, p.Captured, p.Gap}
	}
	return s
}

func textOf(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}
