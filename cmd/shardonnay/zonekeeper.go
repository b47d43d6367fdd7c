package main

import (
	"context"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/shardonnay/shardonnay/internal/config"
	"github.com/shardonnay/shardonnay/internal/metrics"
	"github.com/shardonnay/shardonnay/internal/mover"
	"github.com/shardonnay/shardonnay/internal/zones"
)

// zoneKeeper is the zone controller in the daemon, with its journal, its log and its metrics.
type zoneKeeper struct {
	*zones.Controller
	current func() *config.Config
	journal *zones.Journal
	metrics *metrics.Metrics
	log     *zap.Logger

	// Touched by the controller's goroutine only.
	said   map[string]string // what was last logged of something that goes on
	before *zones.Status     // of the look before
}

// newZoneKeeper makes one; clock is nil for the wall's. It sends nothing before it runs.
func newZoneKeeper(s *session, current func() *config.Config, m *metrics.Metrics, log *zap.Logger, clock mover.Clock) (*zoneKeeper, error) {
	c := current()
	journal, warning, err := zones.OpenJournal(c.State.Dir, s.identity.UUID)
	if err != nil {
		return nil, err
	}
	if warning != "" {
		log.Warn(warning)
	}
	k := &zoneKeeper{current: current, journal: journal, metrics: m, log: log, said: map[string]string{}}
	options := zones.Options{
		Client: s.client, Identity: s.identity, Addresses: c.Connection.Addresses, Journal: journal, Holder: c.Ownership.Holder,
		Config: func() zones.Config { return zonesConfig(&current().Zones) }, Observe: k.observe,
	}
	if clock != nil {
		options.Now = clock.Now
	}
	k.Controller = zones.New(options)
	m.ObserveZonesAwaited(k.Now())
	return k, nil
}

// run looks and acts until ctx ends.
func (k *zoneKeeper) run(ctx context.Context) {
	if err := k.Run(ctx); err != nil {
		k.log.Warn("connections to the zones could not be given back", zap.Error(err))
	}
	if err := k.journal.Close(); err != nil {
		k.log.Warn("the journal of the zones could not be closed", zap.Error(err))
	}
}

// busy is why copies are to stay for now; empty where they need not.
func (k *zoneKeeper) busy() string {
	s := k.Status()
	if s == nil && k.current().Zones.Mode == string(zones.Act) {
		return "the zones have not been looked at yet"
	} else if s == nil {
		return ""
	}
	return s.Busy()
}

// troubles are the events of the zone controller that a person should look at.
var troubles = map[string]bool{
	"blocked": true, "broken_order": true, "fence_failed": true, "fence_stuck": true, "flapping": true, "foreign_decommission": true,
	"foreign_weights": true, "hand_over_failed": true, "journal_failed": true, "not_applied": true, "rejoin_late": true,
	"verify_failed": true, "weights_ignored": true, string(zones.FailOver): true,
}

// observe logs and counts what a look has come to.
func (k *zoneKeeper) observe(s *zones.Status) {
	for _, n := range s.Notes {
		fields := []zap.Field{zap.String("event", n.Event), zap.String("text", n.Text)}
		if n.Zone != "" {
			fields = append(fields, zap.String("zone", n.Zone))
		}
		if troubles[n.Event] {
			k.log.Warn("zones", fields...)
		} else {
			k.log.Info("zones", fields...)
		}
	}
	other := ""
	if s.Owner != nil {
		other = s.Owner.Holder + " runs the zones; this instance only looks"
	}
	for event, text := range map[string]string{"unsupported": s.Unsupported, "isolated": s.Isolated, "other_holder": other} {
		if text != k.said[event] {
			k.said[event] = text
			if text == "" {
				text = "no longer"
			}
			k.log.Warn("zones", zap.String("event", event), zap.String("text", text))
		}
	}
	k.count(s)
	k.metrics.ObserveZones(k.figures(s))
	k.before = s
}

// count counts what has ended since the look before.
func (k *zoneKeeper) count(s *zones.Status) {
	var change *zones.Change
	var leaving *zones.Leaving
	if k.before != nil {
		change, leaving = k.before.Change, k.before.Leaving
	}
	ended := func(c *zones.Change, result string) {
		switch {
		case c.Kind == zones.Rotate:
			k.metrics.ObserveRotation(result)
		case c.Kind == zones.FailOver && result == "done":
			k.metrics.ObserveFailover(c.Zone, "read", result, s.At.Sub(c.Began))
		case c.Kind == zones.FailOver:
			k.metrics.ObserveFailover(c.Zone, "read", result, 0)
		}
	}
	switch {
	case change == nil || s.Change != nil && s.Change.ID == change.ID:
	case s.Phase == zones.Holding:
		ended(change, "failed")
	default:
		ended(change, "done")
	}
	for _, n := range s.Notes {
		switch n.Event {
		case string(zones.Rotate), string(zones.FailOver):
			if s.Change == nil { // it was turned down at once
				ended(&zones.Change{Kind: zones.ChangeKind(n.Event), Zone: n.Zone}, "refused")
			}
		case "out":
			k.metrics.ObserveFailover(n.Zone, "write", "done", 0)
		case "abort":
			k.metrics.ObserveFailover(n.Zone, "write", "refused", 0)
		case "foreign_weights", "foreign_decommission", "weights_ignored":
			k.metrics.ObserveForeignChange()
		case "rejoined":
			k.metrics.ObserveReturn(s.At.Sub(s.Leaving.Returning), 0)
		case "recovered":
			k.metrics.ObserveReturn(leaving.Joined.Sub(leaving.Returning), s.At.Sub(leaving.Joined))
		}
	}
	if leaving != nil && s.Leaving == nil && s.Phase == zones.Holding {
		k.metrics.ObserveFailover(leaving.Zone, "write", "failed", 0)
	}
}

// figures are those of a look.
func (k *zoneKeeper) figures(s *zones.Status) *metrics.Zones {
	f := &metrics.Zones{
		At: s.At, Judged: s.Judged, Mode: string(s.Mode), Phase: string(s.Phase), WritePhase: string(s.Write), Version: s.Version, Voters: s.Voters,
		Changed: s.Changed, Due: s.Due, CarriesPeak: s.CarriesPeak(),
		Isolated: s.Isolated != "",
	}
	for _, c := range s.Blocked {
		f.Blocked = append(f.Blocked, string(c.Guard))
	}
	if s.Hold != nil {
		f.Hold = s.Hold.Kind
	}
	if s.Leaving != nil && s.Write == zones.Draining {
		f.Drain = s.Leaving.Deadline
	}
	if !s.Unwritten.IsZero() {
		f.JournalBroken = max(s.At.Sub(s.Unwritten), time.Millisecond) // it is broken from the first moment on
	}
	for _, z := range s.Zones {
		zone := metrics.Zone{
			Name: z.Zone, Role: map[zones.Role]int{zones.Active: 2, zones.Standby: 1}[z.Role], Weight: z.Weight,
			Well: z.Health.Healthy(), ReadImpaired: z.Health.ReadImpaired, WriteImpaired: z.Health.WriteImpaired,
		}
		for _, signal := range z.Health.Bad {
			zone.Bad = append(zone.Bad, string(signal))
		}
		if z.Role == zones.Out || s.Leaving != nil && s.Leaving.Zone == z.Zone {
			zone.Decommission = strings.ToLower(string(s.Decommission))
		}
		if work, counted := s.Loads[z.Zone]; counted {
			zone.Queries, zone.FailedOpen, zone.Counted = work.Queries, work.FailedOpen, true
		}
		f.Zones = append(f.Zones, zone)
	}
	return f
}
