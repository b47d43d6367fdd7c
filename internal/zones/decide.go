package zones

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/es"
)

// Mutation is the one request that a decision may ask for.
type Mutation struct {
	Attribute string
	Weights   map[string]float64 // new weights
	Version   int64              // that the weights have to have for it
	Exclude   []cluster.NodeID   // nodes that lose their vote
	Clear     bool               // every node gets its vote back
	Out       string             // the zone that is decommissioned
	Drain     time.Duration      // that the server waits before; 0: none
	Back      bool               // the decommissioned zone may come back
	Fence     string             // the zone that allocation keeps out of
	Unfence   bool               // and no longer does
	Others    []string           // of Unfence: what else stays kept out of
	LetGo     []es.CopyAt        // copies that their nodes give up
}

// String is the request as it goes over the wire.
func (m *Mutation) String() string {
	switch {
	case m.Weights != nil:
		texts := make(map[string]string, len(m.Weights))
		for zone, weight := range m.Weights {
			texts[zone] = fmt.Sprintf("%g", weight)
		}
		body, err := json.Marshal(map[string]any{"weights": texts, "_version": m.Version})
		if err != nil {
			panic("zones: weights are texts: " + err.Error())
		}
		return fmt.Sprintf("PUT /_cluster/routing/awareness/%s/weights %s", m.Attribute, body)
	case len(m.Exclude) > 0:
		ids := make([]string, 0, len(m.Exclude))
		for _, id := range m.Exclude {
			ids = append(ids, string(id))
		}
		return "POST /_cluster/voting_config_exclusions?node_ids=" + strings.Join(ids, ",")
	case m.Clear:
		return "DELETE /_cluster/voting_config_exclusions?wait_for_removal=false"
	case m.Out != "" && m.Drain > 0:
		return fmt.Sprintf("PUT /_cluster/decommission/awareness/%s/%s?delay_timeout=%s", m.Attribute, m.Out, m.Drain)
	case m.Out != "":
		return fmt.Sprintf("PUT /_cluster/decommission/awareness/%s/%s?no_delay=true", m.Attribute, m.Out)
	}
	switch {
	case m.Fence != "" || m.Unfence:
		if value := m.excluded(); value != nil {
			return fmt.Sprintf(`PUT /_cluster/settings {"persistent":{%q:%q}}`, excludeKey(m.Attribute), value)
		}
		return fmt.Sprintf(`PUT /_cluster/settings {"persistent":{%q:null}}`, excludeKey(m.Attribute))
	case len(m.LetGo) > 0:
		return fmt.Sprintf("POST /_cluster/reroute, %d cancel commands", len(m.LetGo))
	}
	return "DELETE /_cluster/decommission/awareness"
}

// excluded is what the filter becomes by fencing or lifting the fence; nil where nothing is left of it.
func (m *Mutation) excluded() any {
	switch {
	case m.Fence != "":
		return m.Fence
	case len(m.Others) > 0:
		return strings.Join(m.Others, ",")
	}
	return nil
}

// excludeKey is the filter that keeps copies off nodes with some value of an attribute.
func excludeKey(attribute string) string { return "cluster.routing.allocation.exclude." + attribute }

// Note is one thing that was decided, refused or seen: a line of the journal and of the log.
type Note struct {
	Event  string  `json:"event"` // what kind: see docs/zones.md
	Zone   string  `json:"zone,omitempty"`
	Text   string  `json:"text"`
	Checks []Check `json:"checks,omitempty"`
}

// Decision is what follows from one look.
type Decision struct {
	Next         *State
	Mutation     *Mutation
	Notes        []Note
	Blocked      []Check // what holds a rotation, failover or departure up that is due
	NeedsRouting bool    // the guards have to see every copy: decide again with View.Routing
	Result       string  // of the order that was dealt with
}

// decide is the whole machine: from what is remembered and what was seen to what is to be done, at most one thing.
func decide(config Config, v *View, before *State, a Assessment) Decision {
	d := deciding{situation: situation{config: config, view: v, state: before.clone(), roster: before.Roster, health: a}}
	d.run()
	d.decision.Next = d.state
	return d.decision
}

type deciding struct {
	situation
	decision Decision
}

func (d *deciding) note(event, zone, format string, values ...any) {
	d.decision.Notes = append(d.decision.Notes, Note{Event: event, Zone: zone, Text: fmt.Sprintf(format, values...)})
}

// done tells whether this round has its one change, or has to look at more before it goes on.
func (d *deciding) done() bool { return d.decision.Mutation != nil || d.decision.NeedsRouting }

// routed asks for the routing where it is not there yet.
func (d *deciding) routed() bool {
	d.decision.NeedsRouting = d.view.Routing == nil
	return !d.decision.NeedsRouting
}

func (d *deciding) run() {
	s := d.state
	if s.Phase == "" {
		s.Phase, s.Write = Starting, Idle
	}
	if !conclusive(d.view, d.health) {
		return // nothing is concluded from what we do not see
	}
	d.keepBooks()
	order := d.order()
	if d.weightless() {
		d.fenceOnly(order)
		return
	}
	d.foreign()
	if s.Phase == Holding && !d.released(order) {
		d.refuse(order, "on hold: "+s.Hold.Reason)
		return
	}
	if order = d.waiting(order); order != nil && order.Verb == OrderResume {
		d.nothing(order)
	}
	if s.Phase == Verifying {
		d.verify()
		return
	}
	d.write(d.waiting(order))
	if d.done() || s.Phase == Verifying {
		return
	}
	d.read(d.waiting(order))
}

// conclusive tells whether a look has shown enough to decide by.
func conclusive(v *View, a Assessment) bool {
	return a.Isolated == "" && v.State != nil && v.Settings != nil
}

// waiting is the order as long as it has not been dealt with: it is answered once.
func (d *deciding) waiting(order *Order) *Order {
	if order != nil && order.ID == d.state.Handled {
		return nil
	}
	return order
}

// weightless tells whether the product has no weights to steer searches with, or none that can be relied on.
func (d *deciding) weightless() bool { return supported(d.view) != "" }

// fenceOnly is what can be done without weights: a zone gives its copies up when a person asks for it, and takes them back.
func (d *deciding) fenceOnly(order *Order) {
	if h := d.view.Settings.Orders.Hold; h != nil {
		d.refuse(order, "on hold: "+h.Reason)
		return
	}
	if order != nil && order.Verb != OrderFence && order.Verb != OrderAbort && order.Verb != OrderRecommission {
		d.refuse(order, supported(d.view))
		return
	}
	d.write(order)
	if !d.done() {
		d.nothing(d.waiting(order))
	}
}

// keepBooks notes who leads, since when, and forgets what is long past.
func (d *deciding) keepBooks() {
	s, now := d.state, d.view.At
	if leader := string(d.view.State.Leader); leader != s.Leader {
		s.Leader, s.LeaderSince = leader, now
	}
	for zone, flaps := range s.Failed {
		s.Failed[zone] = slices.DeleteFunc(slices.Clone(flaps), func(f Flap) bool { return now.Sub(f.At) > flapWindow })
	}
	s.Pin = d.view.Settings.Orders.Pin
}

// same tells whether two sets of weights are the same ones.
func same(a, b es.ZoneWeights) bool {
	return a.Version == b.Version && a.Attribute == b.Attribute && maps.Equal(a.Values, b.Values)
}

// foreign looks for what somebody else has changed: it is adopted, and we hold.
func (d *deciding) foreign() {
	s, w, out := d.state, d.view.weights(), d.view.State.Decommission
	switch {
	case s.Phase == Starting, s.Phase == Holding:
	case s.Change != nil && (same(w, s.Known) || applied(d.config, s.Change, w)):
	case s.Change == nil && same(w, s.Known):
	default:
		d.hold("foreign_weights", "somebody has changed the weights from %s at version %d to %s at version %d",
			weightsText(s.Known.Values), s.Known.Version, weightsText(w.Values), w.Version)
	}
	if s.Phase == Holding {
		if !same(w, s.Known) {
			s.Changed = d.view.At
		}
		s.Known, s.Change = w, nil // whatever they are now, they are adopted
	}
	if d.view.Settings.IgnoreWeights && s.Phase != Holding {
		d.hold("weights_ignored", "cluster.routing.ignore_weighted_routing is true: somebody has switched the weights off")
	}
	if h := d.view.Settings.Orders.Hold; h != nil && s.Phase != Holding {
		d.hold("hold", "%s", h.Reason)
		s.Hold.By = h.By
	}
	if s.Phase == Holding || out.Value == "" || out.Status == es.DecommissionFailed {
		return
	}
	if s.Leaving == nil || s.Leaving.Zone != out.Value || s.Write == Draining || s.Write == Idle {
		d.hold("foreign_decommission", "somebody has decommissioned %s %s (%s)", out.Attribute, out.Value, out.Status)
	}
}

func weightsText(w map[string]float64) string {
	if len(w) == 0 {
		return "none"
	}
	var parts []string
	for _, zone := range slices.Sorted(maps.Keys(w)) {
		parts = append(parts, fmt.Sprintf("%s=%g", zone, w[zone]))
	}
	return strings.Join(parts, " ")
}

func (d *deciding) hold(event, format string, values ...any) {
	s := d.state
	s.Phase, s.Change = Holding, nil
	s.Hold = &Hold{Kind: event, Reason: fmt.Sprintf(format, values...), By: "shardonnay", Since: d.view.At}
	d.note(event, "", "holding: "+format, values...)
}

// released ends a hold that a person ends, or that nobody has renewed for long. What stands in the way by itself has to
// go first.
func (d *deciding) released(order *Order) bool {
	s, v := d.state, d.view
	out := v.State.Decommission
	switch {
	case v.Settings.Orders.Hold != nil, v.Settings.IgnoreWeights:
		return false
	case out.Value != "" && out.Status != es.DecommissionFailed && (s.Leaving == nil || s.Leaving.Zone != out.Value):
		return false
	case order != nil && order.Verb == OrderResume:
		d.answer(order, "resumed")
	case s.Hold.By != "shardonnay": // a person's hold, and it is no longer there
	case v.At.Sub(s.Hold.Since) >= d.config.Hold:
	default:
		return false
	}
	d.note("resume", "", "no longer holding: %s", s.Hold.Reason)
	s.Hold, s.Phase = nil, Starting
	return true
}

// order is the one that waits, if it is still worth carrying out.
func (d *deciding) order() *Order {
	order := d.view.Settings.Orders.Order
	if d.waiting(order) == nil {
		return nil
	}
	if age := d.view.At.Sub(order.At); age > orderValid {
		d.answer(order, fmt.Sprintf("it was given %s ago, in another situation; give it again", round(age)))
		return nil
	}
	if order.Verb != OrderRotate && order.Verb != OrderAbort && order.Verb != OrderResume && order.Verb != OrderRecommission && !slices.Contains(d.zones(), order.Zone) {
		d.refuse(order, fmt.Sprintf("there is no zone %q; there are %s", order.Zone, listed(d.zones())))
		return nil
	}
	if order.Verb == OrderRelease {
		d.state.Kept = slices.DeleteFunc(d.state.Kept, func(zone string) bool { return zone == order.Zone })
		d.answer(order, "zone "+order.Zone+" may serve again")
		return nil
	}
	return order
}

// answer notes that an order has been dealt with.
func (d *deciding) answer(order *Order, result string) {
	if order == nil {
		return
	}
	d.state.Handled, d.decision.Result = order.ID, result
	d.note("order", order.Zone, "%s asked to %s: %s", order.By, strings.TrimSpace(string(order.Verb)+" "+order.Zone), result)
}

// refuse is answer for what is not done.
func (d *deciding) refuse(order *Order, why string) {
	if order != nil {
		d.answer(order, "refused: "+why)
	}
}

// nothing refuses an order for which there is no occasion.
func (d *deciding) nothing(order *Order) {
	if order != nil {
		d.refuse(order, fmt.Sprintf("there is nothing to %s now", order.Verb))
	}
}

// change asks for new weights and begins to verify them.
func (d *deciding) change(kind ChangeKind, zone, cause string, weights map[string]float64, began time.Time, checks []Check) {
	s, w := d.state, d.view.weights()
	s.Change = &Change{
		ID: ulid.Make().String(), Kind: kind, Zone: zone, Cause: cause, Weights: weights, Former: maps.Clone(w.Values), Version: w.Version,
		Began: began, Written: d.view.At, Sent: d.view.At, Checks: checks,
	}
	s.Phase = Verifying
	d.decision.Mutation = &Mutation{Attribute: d.config.Attribute, Weights: weights, Version: w.Version}
	d.note(string(kind), zone, "%s: weights %s instead of %s", cause, weightsText(weights), weightsText(w.Values))
}

// applied tells whether weights are those of a change.
func applied(config Config, c *Change, w es.ZoneWeights) bool {
	return c != nil && w.Version == c.Version+1 && w.Attribute == config.Attribute && maps.Equal(w.Values, c.Weights)
}

// resendAfter is how long a change whose answer was lost has to be seen before it is sent again. That is safe: it is
// bound to the version before it, which has moved on if the first did arrive.
const resendAfter = 2 * time.Second

// await waits for weights that were sent to arrive, and sends them again while they have not.
func (d *deciding) await(c *Change) {
	now := d.view.At
	switch {
	case now.Sub(c.Sent) < resendAfter:
	case now.Sub(c.Sent) > verifyWithin:
		d.replan(c)
	case c.Kind != FailOver && now.Sub(c.Written) > verifyWithin:
		d.hold("not_applied", "the new weights have not arrived within %s, and may still do so", verifyWithin)
	default:
		c.Sent = now
		d.decision.Mutation = &Mutation{Attribute: d.config.Attribute, Weights: c.Weights, Version: c.Version}
		d.note("sent_again", c.Zone, "the new weights have not arrived: they are sent again")
	}
}

// replan drops a change that nobody has seen to for long and that did not arrive: it was decided in another situation,
// and cannot arrive any more.
func (d *deciding) replan(c *Change) {
	s := d.state
	s.Phase, s.Change = Starting, nil
	d.note("replan", c.Zone, "%s: the new weights were sent %s ago and are not there; it is decided anew", c.Kind, round(d.view.At.Sub(c.Sent)))
	if c.Kind == TakeOut {
		d.abort("its weights never arrived, and nobody went on with it")
	}
}

// verify looks whether the new weights are in force on every node that answers.
func (d *deciding) verify() {
	c, now := d.state.Change, d.view.At
	if !applied(d.config, c, d.view.weights()) {
		d.await(c)
		return
	}
	if c.Seen.IsZero() {
		if behind := d.view.Behind; len(behind) > 0 {
			if now.Sub(c.Written) <= verifyWithin {
				return
			}
			if c.Kind != FailOver { // away from a zone that fails they have to go, whoever is late
				d.giveUp(fmt.Sprintf("%s have not applied the new weights within %s", firstFew(behind), verifyWithin))
				return
			}
			d.note("behind", c.Zone, "%s have not applied the new weights within %s", firstFew(behind), verifyWithin)
		}
		c.Seen, c.Baseline = now, d.queries()
		d.note("read_back", c.Zone, "weights %s in force %s after the first sign", weightsText(c.Weights), round(now.Sub(c.Began)))
	}
	if c.Kind == Rotate && d.leaks(c) {
		if now.Sub(c.Seen) > verifyWithin {
			d.giveUp(fmt.Sprintf("zone %s stands by and still gets searches", c.Zone))
		}
		return
	}
	d.finish(c)
}

// queries counts the searches of each zone since its nodes started.
func (d *deciding) queries() map[string]int64 {
	if d.view.Loads == nil {
		return nil
	}
	sums := map[string]int64{}
	where := d.zonesOfNodes()
	for id, load := range d.view.Loads {
		sums[where[id]] += load.Queries
	}
	return sums
}

// leaks tells whether the new standby still gets searches: more than a hundredth of what its share would be. Without
// searches there is nothing to tell it by.
func (d *deciding) leaks(c *Change) bool {
	now := d.queries()
	if now == nil {
		return true // not known yet
	}
	if c.Baseline == nil {
		if c.Baseline = now; d.view.At.Sub(c.Seen) > verifyWithin {
			c.Seen = d.view.At // nobody was there meanwhile who could have told
		}
		return true
	}
	total := int64(0)
	for zone := range now {
		total += max(0, now[zone]-c.Baseline[zone])
	}
	leaked := max(0, now[c.Zone]-c.Baseline[c.Zone])
	if d.view.At.Sub(c.Seen) < d.config.Round {
		return true // searches from before are still counted
	}
	if float64(leaked) > leakShare*float64(total)/float64(len(c.Weights)) {
		c.Baseline = now // what was under way has ended by the next look
		return true
	}
	return false
}

// giveUp puts the former weights back after a rotation, once, and holds.
func (d *deciding) giveUp(why string) {
	s, c := d.state, d.state.Change
	d.hold("verify_failed", "%s", why)
	if c.Kind != Rotate || len(c.Former) == 0 {
		return
	}
	w := d.view.weights()
	d.decision.Mutation = &Mutation{Attribute: d.config.Attribute, Weights: c.Former, Version: w.Version}
	d.note(string(Restore), c.Zone, "weights %s again", weightsText(c.Former))
	s.Known, s.Changed = es.ZoneWeights{Attribute: w.Attribute, Values: c.Former, Version: w.Version + 1}, d.view.At
}

// finish makes the new roles ours.
func (d *deciding) finish(c *Change) {
	s, now := d.state, d.view.At
	s.Known, s.Changed, s.Change = d.view.weights(), now, nil
	s.Serving = d.servingSince(s.Serving, s.Known.Values)
	s.Phase = Steady
	if c.Kind == FailOver {
		s.Phase = NoStandby
		d.flapped(c.Zone, false)
	}
	d.note("done", c.Zone, "%s: %s", c.Kind, weightsText(c.Weights))
}

// flapped counts a failover of a zone, of searches or of writes. One that fails over time and again is kept from serving, and
// where it is out from coming back by itself.
func (d *deciding) flapped(zone string, out bool) {
	s := d.state
	if s.Failed == nil {
		s.Failed = map[string][]Flap{}
	}
	s.Failed[zone] = append(slices.Clone(s.Failed[zone]), Flap{d.view.At, out})
	n, what := 0, "has failed over %d times within %s: it stands by until somebody releases it"
	if out {
		what = "was taken out %d times within %s: it does not come back by itself until somebody releases it"
	}
	for _, f := range s.Failed[zone] {
		if f.Out == out {
			n++
		}
	}
	if n >= flapsAllowed && !slices.Contains(s.Kept, zone) {
		s.Kept = append(s.Kept, zone)
		d.note("flapping", zone, "zone "+zone+" "+what, n, flapWindow)
	}
}

// servingSince keeps the times of the zones that go on serving and begins those of the new ones.
func (d *deciding) servingSince(before map[string]time.Time, weights map[string]float64) map[string]time.Time {
	after := map[string]time.Time{}
	for _, zone := range serving(weights) {
		after[zone] = d.view.At
		if since, was := before[zone]; was {
			after[zone] = since
		}
	}
	return after
}
