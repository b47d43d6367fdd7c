package zones

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/es"
)

// Look looks once, changes nothing, and says what was seen, with what people have asked for. Whoever else runs the zones
// has said in the cluster's settings how far it is: that is in the status where this instance remembers nothing itself.
func (c *Controller) Look(ctx context.Context) (*Status, Orders, error) {
	p, err := c.paper(ctx, false)
	if err != nil {
		return nil, Orders{}, err
	}
	s := c.report(p.config, p.view)
	s.addUnseen(p.view)
	var orders Orders
	if p.view.Settings != nil {
		orders = p.view.Settings.Orders
	}
	c.show(s)
	if o := orders.Owner; o != nil {
		s.Mode, s.Phase, s.Write, s.Hold, s.Changed, s.Due = o.Mode, o.Phase, o.Write, o.Hold, o.Changed, o.Due
		if p.view.At.Before(o.Expires) {
			s.Owner = o
		}
	}
	if s.Pin = orders.Pin; orders.Hold != nil {
		s.Hold = orders.Hold
	}
	return s, orders, nil
}

// addUnseen adds the zones that the weights name and none of whose nodes is in the cluster: whoever looks for the first time
// knows no node of a zone that is out, or that has failed.
func (s *Status) addUnseen(v *View) {
	for zone, weight := range v.weights().Values {
		if _, seen := s.Zone(zone); seen {
			continue
		}
		z := ZoneStatus{Zone: zone, Role: Active, Weight: &weight, Health: Health{Seen: []Signal{Missing}, Fraction: 1}}
		switch out := decommissionOf(v); {
		case out.Value == zone && out.Status != es.DecommissionFailed:
			z.Role = Out
		case weight < 1:
			z.Role = Standby
		}
		s.Zones = append(s.Zones, z)
	}
	slices.SortFunc(s.Zones, func(a, b ZoneStatus) int { return strings.Compare(a.Zone, b.Zone) })
}

// Preview is what an order would come to now.
type Preview struct {
	Verb     Verb     `json:"verb"`
	Zone     string   `json:"zone,omitempty"`
	Possible bool     `json:"possible"`
	Text     string   `json:"text"`               // what would be done, or why it cannot
	Checks   []Check  `json:"checks,omitempty"`   // every guard's answer
	Requests []string `json:"requests,omitempty"` // in their order, as they would be sent
}

// Preview looks at an order as the controller would, and sends nothing.
func (c *Controller) Preview(ctx context.Context, verb Verb, zone string) (*Preview, error) {
	d, err := c.paper(ctx, true)
	if err != nil {
		return nil, err
	}
	p := &Preview{Verb: verb, Zone: zone}
	if why := supported(d.view); why != "" && verb != OrderFence && verb != OrderAbort && verb != OrderRecommission {
		p.Text = why
		return p, nil
	}
	if zone != "" && !slices.Contains(d.zones(), zone) {
		p.Text = fmt.Sprintf("there is no zone %q; there are %s", zone, listed(d.zones()))
		return p, nil
	}
	switch verb {
	case OrderRotate:
		d.previewRotation(p)
	case OrderFailover:
		d.previewFailover(p)
	case OrderOut:
		p.Checks, p.Requests = d.forWrites(zone), d.takingOut(zone)
		p.Text = fmt.Sprintf("zone %s would drain for %s and leave the cluster", zone, d.config.Drain)
		if d.config.Writes == Never {
			p.Checks = append(p.Checks, check(GuardOurs, false, "", "zones.write_failover is off"))
		}
	case OrderFence:
		p.Checks, p.Requests = d.forFence(zone), d.fencing(zone)
		p.Text = fmt.Sprintf("zone %s would drain for %s and then give its copies up", zone, d.config.Drain)
	case OrderRecommission:
		l := d.state.Leaving
		if p.Checks = []Check{check(GuardNoOut, l != nil, "a zone is out", "no zone is out")}; l != nil {
			p.Text, p.Requests = "zone "+l.Zone+" may come back", []string{d.open().String()}
		}
	case OrderAbort:
		p.Checks = []Check{check(GuardNoOut, d.leaving() == Draining, "a zone drains", "no zone drains now")}
		p.Text = "the zone that drains stays, as a standby"
	case OrderResume:
		p.Text = "holding ends"
	case OrderRelease:
		p.Text = "zone " + zone + " may serve again"
	}
	if p.Possible = len(blocking(p.Checks)) == 0; !p.Possible {
		p.Text = texts(blocking(p.Checks))
	}
	return p, nil
}

// leaving is how far the writing side of whoever runs the zones is.
func (d *deciding) leaving() WritePhase {
	if d.view.Settings != nil && d.view.Settings.Orders.Owner != nil {
		return d.view.Settings.Orders.Owner.Write
	}
	return d.state.Write
}

func (d *deciding) previewRotation(p *Preview) {
	next, rest := d.standby(), d.longest()
	if pin := d.state.Pin; slices.Contains(d.zones(), pin) {
		rest = pin
	}
	if next == "" || rest == "" || rest == next {
		p.Checks = []Check{check(GuardStandby, false, "", "no zone stands by that could serve; the weights are %s", weightsText(d.view.weights().Values))}
		return
	}
	weights := weightsFor(d.zones(), rest)
	p.Checks = d.forRotation(next, weights, true)
	p.Text, p.Requests = fmt.Sprintf("zone %s would serve and zone %s stand by", next, rest), []string{d.put(weights)}
}

func (d *deciding) previewFailover(p *Preview) {
	next := d.standby()
	switch {
	case slices.Contains(d.state.resting(), p.Zone):
		p.Checks = []Check{check(GuardStandby, false, "", "zone %s serves no searches as it is", p.Zone)}
	case next == "":
		p.Checks = []Check{check(GuardStandby, false, "", "no zone stands by that could take over; the weights are %s", weightsText(d.view.weights().Values))}
	default:
		weights := weightsFor(d.zones(), p.Zone)
		p.Checks = d.forFailover(p.Zone, next, weights)
		p.Text, p.Requests = fmt.Sprintf("searches would leave zone %s, and zone %s serve in its stead", p.Zone, next), []string{d.put(weights)}
	}
}

// fencing are the requests by which a zone gives its copies up, in their order.
func (d *deciding) fencing(zone string) []string {
	requests := append(d.withdrawing(zone), (&Mutation{Attribute: d.config.Attribute, Fence: zone}).String())
	replicas, primaries := d.copiesToLeave(zone)
	for _, copies := range [][]es.CopyAt{replicas, primaries} {
		if len(copies) > 0 {
			requests = append(requests, (&Mutation{LetGo: copies}).String())
		}
	}
	return requests
}

// withdrawing is the request by which searches leave a zone for good; none where they have, or cannot be told to.
func (d *deciding) withdrawing(zone string) []string {
	if weights := weightsFor(d.zones(), zone); !d.weightless() && !maps.Equal(d.view.weights().Values, weights) {
		return []string{d.put(weights)}
	}
	return nil
}

// put is the request that sets weights from where they are now.
func (d *deciding) put(weights map[string]float64) string {
	return (&Mutation{Attribute: d.config.Attribute, Weights: weights, Version: d.view.weights().Version}).String()
}

// takingOut are the requests by which a zone leaves the cluster, in their order.
func (d *deciding) takingOut(zone string) []string {
	requests := d.withdrawing(zone)
	if d.view.leaderZone(d.roster) == zone {
		requests = append(requests, (&Mutation{Exclude: d.roster.voters(zone)}).String(), (&Mutation{Clear: true}).String())
	}
	m := Mutation{Attribute: d.config.Attribute, Out: zone}
	if d.config.ServerTime {
		m.Drain = d.config.Drain
	}
	return append(requests, m.String())
}

// Inherit goes on from what the last instance that ran the zones has left in the cluster's settings, where this one
// remembers nothing: which zone has served since when, and a zone that is out. Call it before the first round.
func (c *Controller) Inherit(ctx context.Context) error {
	_, err := c.paper(ctx, false)
	if c.state.Phase != "" {
		c.state.Phase = Starting // what is so is looked at again, and adopted
	}
	return err
}

// paper is a look at the cluster to decide on, in which nothing is decided; routed with every copy.
func (c *Controller) paper(ctx context.Context, routed bool) (*deciding, error) {
	config := c.Config()
	v := c.look(ctx, config, false)
	if v.State == nil {
		return nil, &cluster.Error{Class: cluster.Unavailable, Op: "look at the zones", Err: errors.New("no node answers"), Hint: "Check connection.addresses"}
	}
	c.health = c.detector.Observe(v, c.state.Roster, c.state.roles(v))
	if routed {
		if v.Routing = c.routing(ctx, v); v.Routing == nil {
			return nil, &cluster.Error{Class: cluster.Unavailable, Op: "read the routing table", Err: errors.New("no node gave it in time")}
		}
	}
	c.inherit(v)
	return &deciding{situation: situation{config: config, view: v, state: c.state.clone(), roster: c.state.Roster, health: c.health}}, nil
}

// inherit fills in what is not remembered.
func (c *Controller) inherit(v *View) {
	s := c.state
	if s.Phase != "" {
		return
	}
	s.Phase, s.Write, s.Known = Steady, Idle, v.weights()
	if v.Settings != nil {
		s.Pin = v.Settings.Orders.Pin
		if o := v.Settings.Orders.Owner; o != nil {
			s.Serving, s.Changed, s.Handled = maps.Clone(o.Serving), o.Changed, o.Handled
			if o.Peak > 0 {
				s.Peak = Peak{Begun: o.Renewed, Buckets: []float64{o.Peak}}
			}
		}
	}
	if out := v.State.Decommission; out.Value != "" && out.Status != es.DecommissionFailed {
		s.Write, s.Leaving = Fencing, &Leaving{Zone: out.Value, By: "unknown", Cause: "found decommissioned", Began: v.At, Deadline: v.At, Asked: v.At, Tries: 1}
		if out.Status == es.DecommissionSuccessful {
			s.Write, s.Leaving.Out = Gone, v.At
		}
	} else if v.Settings != nil {
		for _, zone := range s.Roster.zones() {
			if slices.Contains(v.Settings.Excluded, zone) {
				s.Write, s.Leaving = Gone, &Leaving{Zone: zone, By: "unknown", Cause: "found fenced", Soft: true, Began: v.At, Deadline: v.At, Out: v.At}
			}
		}
	}
}

// Measure learns the search load of some time, where nobody has seen a day of it.
func (c *Controller) Measure(ctx context.Context, window time.Duration) error {
	c.peakFrom = load{}
	for i := range 2 {
		if i > 0 {
			timer := time.NewTimer(window)
			select {
			case <-ctx.Done():
				timer.Stop()
				return &cluster.Error{Class: cluster.Interrupted, Op: "measure the load", Err: context.Cause(ctx), Hint: "Nothing was changed"}
			case <-timer.C:
			}
		}
		loads, _, err := c.Client.ZoneLoads(ctx)
		if err != nil {
			return err
		}
		v := &View{At: c.Now(), Loads: map[cluster.NodeID]es.ZoneLoad{}}
		for _, l := range loads {
			v.Loads[l.Node] = l
		}
		c.learnPeak(v)
	}
	return nil
}

// KnowsPeak tells whether the load that a zone's loss has to be survived under is known.
func (c *Controller) KnowsPeak() bool { return len(c.state.Peak.Buckets) > 0 }

// Rehearsal is the failover of each zone on paper.
type Rehearsal struct {
	At          time.Time       `json:"at"`
	Attribute   string          `json:"attribute"`
	Unsupported string          `json:"unsupported,omitempty"` // why nothing can be steered
	Version     int64           `json:"weights_version"`
	Peak        float64         `json:"peak_busy_threads"` // of searches; 0 where it is not known
	Zones       []ZoneRehearsal `json:"zones"`
}

// Only leaves one zone in it.
func (r *Rehearsal) Only(zone string) error {
	var names []string
	for _, z := range r.Zones {
		if names = append(names, z.Zone); z.Zone == zone {
			r.Zones = []ZoneRehearsal{z}
			return nil
		}
	}
	return &cluster.Error{Class: cluster.Invalid, Op: "rehearse", What: zone, Err: fmt.Errorf("there is no such zone; there are %s", listed(names))}
}

// Session tells this controller apart from others in the record of who runs the zones.
func (c *Controller) Session() string { return c.session }

// ZoneRehearsal is what would become of a cluster without one zone.
type ZoneRehearsal struct {
	Zone       string   `json:"zone"`
	Role       Role     `json:"role"`
	Health     Health   `json:"health"`
	Serve      []string `json:"serve"`                // zones that would serve
	Shards     int      `json:"shards"`               // of open indices that are not exempt
	Served     int      `json:"served"`               // of them, by a started copy in a zone that serves
	Unserved   []string `json:"unserved,omitempty"`   // with started copies elsewhere only: searches fail open to them
	Lost       []string `json:"lost,omitempty"`       // without any started copy outside the zone
	Processors float64  `json:"processors"`           // of the zones that would serve
	Read       Failover `json:"read"`                 // searches leave the zone
	Write      Failover `json:"write"`                // the zone leaves the cluster
	Fence      []string `json:"soft_fence,omitempty"` // requests by which a person can keep copies away, where the server takes no zone out
}

// Failover is one of the two ways to do without a zone.
type Failover struct {
	Possible bool     `json:"possible"`
	Text     string   `json:"text,omitempty"`     // why not, or why nothing has to be done
	Checks   []Check  `json:"checks,omitempty"`   // every guard's answer
	Requests []string `json:"requests,omitempty"` // in their order, as they would be sent
	Seconds  float64  `json:"seconds_at_most"`    // from the first sign of trouble, or from the order; 0 where nothing is to be done
}

// Rehearse fails over each zone on paper, with the guards that would be asked, and the requests that would be sent.
func (c *Controller) Rehearse(ctx context.Context) (*Rehearsal, error) {
	d, err := c.paper(ctx, true)
	if err != nil {
		return nil, err
	}
	r := &Rehearsal{
		At: d.view.At, Attribute: d.config.Attribute, Unsupported: supported(d.view), Version: d.view.weights().Version, Peak: d.state.Peak.p99(),
	}
	roles := d.state.roles(d.view)
	for _, zone := range d.zones() {
		z := ZoneRehearsal{Zone: zone, Role: roles[zone], Health: d.health.Zones[zone]}
		left := slices.DeleteFunc(d.zones(), func(other string) bool { return other == zone || roles[other] == Out })
		z.Serve = left
		if next := d.standby(); r.Unsupported == "" && roles[zone] == Active && next != "" {
			z.Serve = slices.DeleteFunc(serving(weightsFor(d.zones(), zone)), func(other string) bool { return roles[other] == Out })
		} else if r.Unsupported == "" && roles[zone] != Active {
			z.Serve = serving(d.view.weights().Values)
		}
		d.count(&z)
		d.rehearseRead(&z, r.Unsupported)
		d.rehearseWrite(&z, r.Unsupported)
		r.Zones = append(r.Zones, z)
	}
	return r, nil
}

// count finds the shards that would be served, those that would not, and those that would be gone.
func (d *deciding) count(z *ZoneRehearsal) {
	where := d.zonesOfNodes()
	d.groups(func(index string, shard int, copies []es.RoutingCopy) {
		z.Shards++
		served, elsewhere := false, false
		for _, k := range copies {
			if k.State == cluster.Started || k.State == cluster.Relocating {
				served = served || slices.Contains(z.Serve, where[k.Node])
				elsewhere = elsewhere || where[k.Node] != z.Zone
			}
		}
		switch name := fmt.Sprintf("%s/%d", index, shard); {
		case served:
			z.Served++
		case elsewhere:
			z.Unserved = append(z.Unserved, name)
		default:
			z.Lost = append(z.Lost, name)
		}
	})
	for _, m := range d.roster {
		if m.Data && slices.Contains(z.Serve, m.Zone) {
			z.Processors += m.Processors
		}
	}
}

// The parts of the time that a failover takes at most: docs/zones.md says where they come from.
const (
	readBack   = 3 * time.Second  // new weights, in every zone that is well
	election   = 35 * time.Second // after the leader hangs: three checks of ten seconds, and the vote
	newWeights = 3*writeWithin + readBack
)

// rehearseRead is the failover of searches.
func (d *deciding) rehearseRead(z *ZoneRehearsal, unsupported string) {
	f := &z.Read
	switch {
	case unsupported != "":
		f.Text = unsupported
		return
	case z.Role != Active:
		f.Possible, f.Text = true, fmt.Sprintf("zone %s is %s and serves no searches: nothing has to be done", z.Zone, z.Role)
		return
	}
	p := Preview{Verb: OrderFailover, Zone: z.Zone}
	d.previewFailover(&p)
	f.Checks, f.Requests = p.Checks, p.Requests
	if f.Possible = len(blocking(f.Checks)) == 0; !f.Possible {
		f.Text = texts(blocking(f.Checks))
	}
	detect := (probeRounds-1)*d.config.Round + readWithin
	if d.view.leaderZone(d.roster) == z.Zone {
		detect = max(detect, election)
	}
	f.Seconds = (detect + 2*readWithin + newWeights).Seconds()
}

// rehearseWrite is the zone's leaving.
func (d *deciding) rehearseWrite(z *ZoneRehearsal, unsupported string) {
	f := &z.Write
	eligible := slices.ContainsFunc(d.roster.of(z.Zone), func(m Member) bool { return m.Eligible })
	switch {
	case z.Role == Out:
		f.Possible, f.Text = true, "zone "+z.Zone+" is out"
		return
	case unsupported != "":
		f.Text = unsupported
		z.Fence = d.softFence(z.Zone)
		return
	case !eligible:
		z.Fence = d.softFence(z.Zone)
	}
	f.Checks, f.Requests = d.forWrites(z.Zone), d.takingOut(z.Zone)
	if f.Possible = len(blocking(f.Checks)) == 0; !f.Possible {
		f.Text = texts(blocking(f.Checks))
	}
	f.Seconds = (newWeights + d.config.Drain + fenceWithin).Seconds()
	if d.view.leaderZone(d.roster) == z.Zone {
		f.Seconds += verifyWithin.Seconds()
	}
}

// softFence are the requests that keep copies out of a zone which the server cannot take out: a filter, and the copies
// there cancelled, replicas first, primaries only where another copy in step survives. With forced awareness nothing is
// built anew elsewhere; writes no longer wait for the zone.
func (d *deciding) softFence(zone string) []string {
	type cancel struct {
		Index        string `json:"index"`
		Shard        int    `json:"shard"`
		Node         string `json:"node"`
		AllowPrimary bool   `json:"allow_primary"`
	}
	names := map[cluster.NodeID]string{}
	for _, m := range d.roster {
		names[m.ID] = m.Name
	}
	var commands []map[string]cancel
	replicas, primaries := d.copiesToLeave(zone)
	for _, at := range slices.Concat(replicas, primaries) {
		commands = append(commands, map[string]cancel{"cancel": {at.Index, at.Shard, names[at.Node], at.Primary}})
	}
	requests := []string{(&Mutation{Attribute: d.config.Attribute, Fence: zone}).String()}
	if len(commands) > 0 {
		body, err := json.Marshal(map[string]any{"commands": commands})
		if err != nil {
			panic("zones: commands are texts and numbers: " + err.Error())
		}
		requests = append(requests, "POST /_cluster/reroute "+string(body))
	}
	return requests
}

// Audit says whether a cluster could lose each of its zones now.
type Audit struct {
	At          time.Time   `json:"at"`
	Attribute   string      `json:"attribute"`
	Unsupported string      `json:"unsupported,omitempty"` // why nothing can be steered; what is found here holds all the same
	Peak        float64     `json:"peak_busy_threads"`     // of searches; 0 where it is not known
	Checks      []Check     `json:"checks"`                // of the cluster as a whole
	Zones       []ZoneAudit `json:"zones"`
}

// ZoneAudit is one zone's part.
type ZoneAudit struct {
	Zone     string   `json:"zone"`
	CanLose  bool     `json:"can_be_lost"`
	Checks   []Check  `json:"checks"`
	OnlyHere []string `json:"only_here,omitempty"` // shards whose every copy in step is in the zone
}

// OK tells whether every zone can be lost.
func (a *Audit) OK() bool {
	return len(blocking(a.Checks)) == 0 && len(a.Zones) > 1 && !slices.ContainsFunc(a.Zones, func(z ZoneAudit) bool { return !z.CanLose })
}

// Audit looks at what the loss of each zone would find: where copies are, who votes, what the others carry, and whether
// the cluster would stay as it is. What only holds a rotation up is a warning.
func (c *Controller) Audit(ctx context.Context) (*Audit, error) {
	d, err := c.paper(ctx, true)
	if err != nil {
		return nil, err
	}
	a := &Audit{At: d.view.At, Attribute: d.config.Attribute, Unsupported: supported(d.view), Peak: d.state.Peak.p99()}
	a.Checks = []Check{d.whoIsThere(), d.disks()}
	if a.Unsupported == "" {
		a.Checks = append(a.Checks, d.ours(), warning(d.noForeignVotes()))
	}
	a.Checks = append(append(a.Checks, d.alike()...), warning(d.spread()))
	for _, zone := range d.roster.zones() { // one that is out cannot be lost
		z := ZoneAudit{Zone: zone, OnlyHere: d.onlyIn(zone)}
		left := slices.DeleteFunc(d.roster.zones(), func(other string) bool { return other == zone })
		z.Checks = []Check{
			check(GuardInSync, len(z.OnlyHere) == 0, "every shard has a copy in step elsewhere",
				"%d shards would be gone: %s; give them a replica in another zone", len(z.OnlyHere), firstFew(z.OnlyHere)),
			d.quorumWithout(zone), d.carries(left),
		}
		z.CanLose = len(blocking(z.Checks)) == 0
		a.Zones = append(a.Zones, z)
	}
	return a, nil
}

// whoIsThere is awareness, with a zone that has no node called by its name.
func (d *deciding) whoIsThere() Check {
	if d.view.Settings != nil && len(d.roster) > 0 {
		gone := slices.DeleteFunc(slices.Sorted(slices.Values(d.view.Settings.Forced)), func(zone string) bool { return slices.Contains(d.roster.zones(), zone) })
		if len(gone) > 0 && len(gone) < len(d.view.Settings.Forced) {
			return check(GuardAwareness, false, "", "no data node is in zone %s, which is one of the forced: it is lost or out; bring it back before another is lost", listed(gone))
		}
	}
	return d.awareness()
}

// alike are the two checks of how large the zones are: what is uneven holds a rotation up, and loses nothing.
func (d *deciding) alike() []Check {
	checks := d.stability()[:2]
	for i := range checks {
		checks[i] = warning(checks[i])
	}
	return checks
}

// onlyIn lists the shards whose every copy in step is in the zone, or that have none at all.
func (d *deciding) onlyIn(zone string) []string {
	where := d.zonesOfNodes()
	var only []string
	d.groups(func(index string, shard int, copies []es.RoutingCopy) {
		here, elsewhere := false, false
		for _, k := range copies {
			if (k.State == cluster.Started || k.State == cluster.Relocating) && slices.Contains(d.view.Routing.InSync[index][shard], k.AllocationID) {
				here, elsewhere = here || where[k.Node] == zone, elsewhere || where[k.Node] != zone
			}
		}
		if here && !elsewhere {
			only = append(only, fmt.Sprintf("%s/%d", index, shard))
		}
	})
	return only
}

// quorumWithout tells whether the others could elect a leader if the zone were gone from one moment to the next.
func (d *deciding) quorumWithout(zone string) Check {
	voters, outside := d.view.State.Voters, 0
	for _, id := range voters {
		if d.roster.zoneOf(id) != zone {
			outside++
		}
	}
	if len(voters) == 0 {
		return warning(check(GuardVoters, false, "", "the cluster does not say who votes"))
	}
	return check(GuardVoters, 2*outside > len(voters), fmt.Sprintf("%d of %d voters are elsewhere", outside, len(voters)),
		"only %d of %d voters are elsewhere: without the zone nobody could be elected; put nodes that may lead into at least three zones", outside, len(voters))
}

// Refused tells whether what came of an order says that it was not carried out.
func Refused(result string) bool {
	return slices.ContainsFunc([]string{"refused: ", "dry run: ", "it was given ", "not carried out "}, func(no string) bool { return strings.HasPrefix(result, no) })
}
