package zones

import (
	"fmt"
	"slices"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// read is the side of the machine that steers searches: first weights, rotation, failover.
func (d *deciding) read(order *Order) {
	switch s := d.state; s.Phase {
	case Starting:
		d.start()
	case Steady:
		if !d.failOver(order) {
			d.rotate(order)
		}
	case NoStandby:
		d.recover()
		if s.Phase == NoStandby && order != nil && (order.Verb == OrderRotate || order.Verb == OrderFailover) {
			d.refuse(order, "no zone could take over")
		} else if s.Phase == NoStandby {
			d.nothing(order)
		}
	}
}

// start adopts weights that say who stands by, and writes the first ones where there are none.
func (d *deciding) start() {
	s, w := d.state, d.view.weights()
	zones := d.zones()
	if len(zones) < 2 {
		d.block(check(GuardAwareness, false, "", "there are %d zones by the attribute %s; a standby takes at least two", len(zones), d.config.Attribute))
		return
	}
	if c := d.ours(); !c.OK {
		d.hold("foreign_weights", "%s", c.Text)
		return
	}
	if len(w.Values) > 0 && len(serving(w.Values)) < len(w.Values) {
		s.Known, s.Phase = w, Steady
		s.Serving = d.servingSince(s.Serving, w.Values)
		s.Changed = d.view.At
		d.note("adopted", "", "weights %s at version %d adopted", weightsText(w.Values), w.Version)
		return
	}
	s.Known = w
	if !d.routed() {
		return
	}
	standby := zones[len(zones)-1]
	if slices.Contains(zones, s.Pin) {
		standby = s.Pin
	}
	weights := weightsFor(zones, standby)
	checks := []Check{d.awareness(), d.noDecommission(), d.served(serving(weights)), d.healthy(), d.zeros(weights)}
	checks = append(checks, d.stability()...)
	if d.block(checks...) {
		return
	}
	d.change(Initialise, standby, "first weights", weights, d.view.At, checks)
}

// block keeps what forbids, and tells whether anything does.
func (d *deciding) block(checks ...Check) bool {
	found := blocking(checks)
	d.decision.Blocked = append(d.decision.Blocked, found...)
	return len(found) > 0
}

// standby is the zone that stands by and may take over; empty where there is none.
func (d *deciding) standby() string {
	for _, zone := range d.state.resting() {
		leaving := d.state.Leaving != nil && d.state.Leaving.Zone == zone
		if !leaving && !slices.Contains(d.state.Kept, zone) {
			return zone
		}
	}
	return ""
}

// failOver lets the standby take over from a zone that is impaired, or that a person calls so. It tells whether there is
// such a zone, whether or not something could be done.
func (d *deciding) failOver(order *Order) bool {
	s := d.state
	bad, cause, began := "", "", d.view.At
	if order != nil && order.Verb == OrderFailover {
		bad, cause, began = order.Zone, "asked for by "+order.By, order.At
	}
	for _, zone := range serving(s.Known.Values) {
		if h := d.health.Zones[zone]; h.ReadImpaired {
			bad, cause, began = zone, fmt.Sprintf("zone %s is impaired (%s)", zone, signalNames(h)), h.Since
			order = nil
		}
	}
	if bad == "" {
		return false
	}
	if slices.Contains(s.resting(), bad) {
		d.refuse(order, "zone "+bad+" serves no searches as it is")
		return true
	}
	next := d.standby()
	if next == "" {
		d.block(check(GuardStandby, false, "", "zone %s fails and no zone stands by", bad))
		d.refuse(order, "no zone stands by")
		return true
	}
	if !d.routed() {
		return true
	}
	resting := []string{bad}
	if s.Leaving != nil {
		resting = append(resting, s.Leaving.Zone)
	}
	weights := weightsFor(d.zones(), resting...)
	checks := d.forFailover(bad, next, weights)
	if d.block(checks...) {
		d.refuse(order, texts(blocking(checks)))
		return true
	}
	d.answer(order, "searches leave zone "+bad)
	d.change(FailOver, bad, cause, weights, began, checks)
	return true
}

// rotate lets the standby serve and the zone that has served longest stand by, when its time has come.
func (d *deciding) rotate(order *Order) {
	s := d.state
	byHand := order != nil && order.Verb == OrderRotate
	if order != nil && !byHand {
		d.nothing(order)
		return
	}
	next := d.standby()
	if next == "" || s.Write != Idle {
		d.refuse(order, "no zone stands by that could serve")
		return
	}
	pinned := slices.Contains(d.zones(), s.Pin)
	due := d.config.Rotation > 0 && len(d.zones()) > 2 && d.view.At.Sub(s.Changed) >= d.config.Rotation
	switch {
	case pinned && s.Pin == next:
		d.refuse(order, "zone "+next+" is pinned as the standby")
		return
	case pinned, byHand:
	case !due:
		return
	}
	rest := s.Pin
	if !pinned {
		rest = d.longest()
	}
	if rest == "" || !d.routed() {
		return
	}
	weights := weightsFor(d.zones(), rest)
	checks := d.forRotation(next, weights, byHand || pinned)
	if d.block(checks...) {
		d.refuse(order, texts(blocking(checks)))
		return
	}
	d.answer(order, fmt.Sprintf("zone %s serves and zone %s stands by", next, rest))
	cause := "its time has come"
	if byHand {
		cause = "asked for by " + order.By
	} else if pinned {
		cause = "zone " + rest + " is pinned as the standby"
	}
	d.change(Rotate, rest, cause, weights, d.view.At, checks)
}

// longest is the zone that has served for the longest time.
func (d *deciding) longest() string {
	var longest string
	var since time.Time
	for _, zone := range serving(d.state.Known.Values) {
		if at := d.state.Serving[zone]; longest == "" || at.Before(since) {
			longest, since = zone, at
		}
	}
	return longest
}

// recover makes the zone that failed a standby again once it has been well for long enough. One that is taken out is not
// missed meanwhile, and looks well.
func (d *deciding) recover() {
	for _, zone := range d.state.resting() {
		leaving := d.state.Leaving != nil && d.state.Leaving.Zone == zone
		if !leaving && d.clear(zone) {
			d.state.Phase = Steady
			d.note("standby_again", zone, "zone %s has been well for %s and stands by", zone, d.config.Clear)
			return
		}
	}
}

// clear tells whether a zone that was ill counts as healthy again.
func (d *deciding) clear(zone string) bool {
	h := d.health.Zones[zone]
	n, counted := d.view.Copies[zone]
	return counted && !h.Well.IsZero() && d.view.At.Sub(h.Well) >= d.config.Clear && h.Started >= wellFraction && n.Initializing == 0
}

// supported says why a product cannot be steered; empty where it can.
func supported(v *View) string {
	p := v.Product
	switch {
	case p.Distribution != cluster.OpenSearch:
		return p.String() + " has no weights of zones: only what can be observed is shown"
	case !p.Version.AtLeast(2, 7):
		return p.String() + " is older than 2.7, before which searches hang when zones rest: only what can be observed is shown"
	}
	return ""
}
