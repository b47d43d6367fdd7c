package main

import (
	"context"

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
	said    map[string]string // what was last logged of something that goes on; of the controller's goroutine
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

// observe logs what a look has come to.
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
}
