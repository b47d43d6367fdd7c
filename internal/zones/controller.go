package zones

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/es"
)

// Deadlines of single requests. A node that hangs must not hold up what the others say.
const (
	readWithin  = 2 * time.Second
	guardWithin = 10 * time.Second // for the routing table, which is megabytes on a large cluster
	writeWithin = 5 * time.Second
	// lookAgain is the time between two looks while new weights are awaited.
	lookAgain = 300 * time.Millisecond
	// ownerLasts is how long another instance keeps away from the zones after this one has last renewed its record.
	ownerLasts = 2 * time.Minute
	// rosterEvery is how often the nodes' addresses, roles and sizes are read again.
	rosterEvery = 10 * time.Minute
	// refusedPause is how long a request that the cluster has refused is not sent again.
	refusedPause = time.Minute
	// loadsEvery is in how many looks the nodes are asked what they do, while all is well.
	loadsEvery = 2
	// tryJournal is how long nothing is written to the journal until it is tried whether something could be.
	tryJournal = time.Minute
	// sideBySide is how many nodes are asked at a time.
	sideBySide = 64
)

// Options make a controller.
type Options struct {
	Client    *es.Client // of the whole cluster
	Identity  cluster.Identity
	Addresses []string      // configured ones: they reach nodes whose published address does not
	Config    func() Config // asked at every round
	Journal   *Journal
	Holder    string           // name of this instance
	Observe   func(*Status)    // called after every look that came to something; may be nil
	Now       func() time.Time // nil for the wall's
}

// Controller runs the zones of one cluster. It is for one goroutine, except Status.
type Controller struct {
	Options
	session   string
	clients   map[string]*es.Client // by node name
	at        map[string]string     // address of each client
	roster    time.Time             // when it was last read
	detector  *Detector
	health    Assessment
	state     *State
	settings  *Settings
	looks     int
	said      map[string]string // what was last said of an event that may go on, so that it is said once
	handled   string            // what became of the last order
	blocked   []Check           // what holds up what is due
	refused   string            // the last request that the cluster has refused
	refusedAt time.Time
	refusal   []Check    // what it said
	owner     *Owner     // as it stands in the cluster
	writing   sync.Mutex // held while the owner's record is written
	wrote     time.Time
	probes    map[string]bool // of the last whole look
	peakFrom  load
	judged    time.Time // when a look last showed enough to decide by
	journaled time.Time // when the journal was last written, or could have been
	unwritten time.Time // since when it cannot be; zero while it can
	extra     []Note    // for the next status

	mu     sync.Mutex
	status *Status
}

// New makes a controller; it sends nothing.
func New(o Options) *Controller {
	if o.Now == nil {
		o.Now = time.Now
	}
	session := make([]byte, 6)
	rand.Read(session) // never fails
	c := &Controller{
		Options: o, session: hex.EncodeToString(session), clients: map[string]*es.Client{}, at: map[string]string{},
		detector: NewDetector(), state: &State{Cluster: o.Identity.UUID, Roster: Roster{}}, said: map[string]string{},
	}
	changed := c.Now() // whoever remembers nothing does not know when roles did
	if last := o.Journal.Last(); last != nil {
		c.state = last.State.clone()
		changed = c.state.weighed()
	}
	c.detector.Freeze(changed.Add(coldFor))
	return c
}

// Close takes our record out of the cluster's settings, so that the next instance need not wait until it lapses, and gives
// the connections back.
func (c *Controller) Close() error {
	c.writing.Lock()
	defer c.writing.Unlock()
	var errs []error
	if s := c.settings; s != nil && s.Orders.Owner != nil && s.Orders.Owner.Session == c.session {
		ctx, cancel := context.WithTimeout(context.Background(), readWithin)
		defer cancel()
		_ = c.Client.PutSettings(ctx, map[string]any{OwnerKey: nil}) // it lapses by itself where this does not arrive
	}
	for _, client := range c.clients {
		errs = append(errs, client.Close())
	}
	return errors.Join(errs...)
}

// Run looks and acts until ctx ends. What is under way then is gone on with after a restart.
func (c *Controller) Run(ctx context.Context) error {
	for {
		began := c.Now()
		wait := c.Round(ctx)
		timer := time.NewTimer(max(0, wait-c.Now().Sub(began)))
		select {
		case <-ctx.Done():
			timer.Stop()
			return c.Close()
		case <-timer.C:
		}
	}
}

// Round looks once, acts at most once, and says how long after its start to look again.
func (c *Controller) Round(ctx context.Context) time.Duration {
	config := c.Config()
	quick := c.probes != nil && c.state.Phase == Verifying && c.state.Change.Seen.IsZero()
	v := c.look(ctx, config, quick)
	if !quick {
		c.health = c.detector.Observe(v, c.state.Roster, c.state.roles(v))
		c.learnPeak(v)
	}
	if conclusive(v, c.health) {
		c.judged = v.At
	}
	s := c.report(config, v)
	if config.Mode != Observe && c.mayAct(config, s) {
		c.act(ctx, config, v, s)
	} else {
		c.unwritten = time.Time{} // whoever only looks has nothing to write
	}
	c.show(s)
	if c.state.Phase == Verifying && c.state.Change.Seen.IsZero() || s.again {
		return lookAgain
	}
	return config.Round
}

func decommissionOf(v *View) es.Decommission {
	if v.State == nil {
		return es.Decommission{}
	}
	return v.State.Decommission
}

// act decides and does what was decided.
func (c *Controller) act(ctx context.Context, config Config, v *View, s *Status) {
	before := c.state
	d := decide(config, v, before, c.health)
	if d.NeedsRouting {
		if v.Routing = c.routing(ctx, v); v.Routing == nil {
			s.Blocked = []Check{{Guard: GuardServed, Text: "the routing table could not be read"}}
			return
		}
		d = decide(config, v, before, c.health)
	}
	if d.Result != "" {
		c.handled = d.Result
	}
	s.Blocked = d.Blocked
	c.sayBlocked(d.Blocked)
	if m := d.Mutation; m != nil && config.Mode == DryRun {
		c.rehearsed(d, s)
		return
	} else if m != nil {
		c.carryOut(ctx, v, before, d, s)
		return
	}
	c.state = d.Next
	if len(d.Notes) > 0 || !c.unwritten.IsZero() { // what could not be written is made up for as soon as it can
		c.keep(s, Entry{Notes: d.Notes})
	} else if c.Now().Sub(c.journaled) >= tryJournal {
		c.written(s, c.Journal.Try())
	}
	s.again = slices.ContainsFunc(d.Notes, func(n Note) bool { return n.Event == "resume" })
}

// sayBlocked writes down what holds something up, when that has changed.
func (c *Controller) sayBlocked(checks []Check) {
	c.blocked = checks
	if text := texts(checks); text != c.said["blocked"] {
		c.said["blocked"] = text
		if text != "" {
			c.pending(Note{Event: "blocked", Text: text, Checks: checks})
		}
	}
}

// rehearsed is what a dry run does instead of a change: it is said once, and nothing is remembered of it but that an
// order was dealt with.
func (c *Controller) rehearsed(d Decision, s *Status) {
	request := d.Mutation.String()
	s.Would = request
	c.state.Handled = d.Next.Handled
	if d.Result != "" {
		c.handled = "dry run: would send " + request
	}
	if c.said["dry-run"] != request {
		c.said["dry-run"] = request
		c.keep(s, Entry{Notes: append(d.Notes, Note{Event: "dry_run", Text: "would send " + request})})
	}
}

// carryOut writes down what is about to be sent, sends it once, and writes down what came of it. A change that was
// refused has not happened; one whose answer was lost is looked for.
func (c *Controller) carryOut(ctx context.Context, v *View, before *State, d Decision, s *Status) {
	request := d.Mutation.String()
	if request == c.refused && c.Now().Sub(c.refusedAt) < refusedPause {
		c.blocked = c.refusal // nothing is different: what was refused would be again
		s.Blocked = c.blocked
		return
	}
	c.state = d.Next
	if !c.keep(s, Entry{Notes: d.Notes, Request: request}) {
		c.state = before // what cannot be written down is not done
		return
	}
	err := c.send(ctx, v, d.Mutation)
	outcome := "accepted"
	switch {
	case err == nil:
	case es.OutcomeUnknown(err):
		outcome = "unknown: " + err.Error()
	default:
		outcome = "refused: " + err.Error()
		c.state = before.clone()
		c.state.Handled = d.Next.Handled
		if l := c.state.Leaving; l != nil && d.Next.Leaving != nil {
			l.Fenced = d.Next.Leaving.Fenced // that was seen and stays so
		}
		if d.Result != "" {
			c.handled = outcome
		}
		c.refused, c.refusedAt = request, c.Now()
		c.refusal = []Check{{Guard: GuardAccepted, Text: err.Error()}}
		c.blocked, s.Blocked = c.refusal, c.refusal
	}
	c.keep(s, Entry{Outcome: outcome, Notes: []Note{{Event: "sent", Text: request + ": " + outcome}}})
	s.again = err == nil || es.OutcomeUnknown(err)
}

// keep appends to the journal and shows the notes. It reports whether the entry is safe.
func (c *Controller) keep(s *Status, e Entry) bool {
	e.At, e.State = c.Now(), c.state
	s.Notes = append(s.Notes, e.Notes...)
	return c.written(s, c.Journal.Append(e))
}

// written notes how it went with the journal, once as long as it goes on, and reports whether it went well.
func (c *Controller) written(s *Status, err error) bool {
	if err == nil {
		c.unwritten, c.journaled = time.Time{}, c.Now()
		delete(c.said, "journal")
		return true
	}
	if c.unwritten.IsZero() {
		c.unwritten = s.At
	}
	if text := "the journal cannot be written: " + err.Error(); text != c.said["journal"] {
		c.said["journal"] = text
		s.Notes = append(s.Notes, Note{Event: "journal_failed", Text: text})
	}
	return false
}

// pending is a note for the next status.
func (c *Controller) pending(n Note) { c.extra = append(c.extra, n) }

// send sends m to nodes of zones that are well, one after the other while none can be reached.
func (c *Controller) send(ctx context.Context, v *View, m *Mutation) error {
	ctx, cancel := context.WithTimeout(ctx, 3*writeWithin)
	defer cancel()
	var err error
	for _, client := range c.reachable(v) {
		limited, cancel := context.WithTimeout(ctx, writeWithin)
		err = c.sendTo(limited, client, m)
		cancel()
		if err == nil || es.OutcomeUnknown(err) || cluster.ClassOf(err) != cluster.Unavailable {
			return err
		}
	}
	if err == nil {
		err = &cluster.Error{Class: cluster.Unavailable, Op: "change", What: "the zones", Err: errors.New("no node of a zone that is well can be reached")}
	}
	return err
}

func (c *Controller) sendTo(ctx context.Context, client *es.Client, m *Mutation) error {
	switch {
	case m.Weights != nil:
		return client.PutZoneWeights(ctx, m.Attribute, m.Weights, m.Version)
	case len(m.Exclude) > 0:
		return client.ExcludeVoters(ctx, m.Exclude)
	case m.Clear:
		return client.ClearVotingExclusions(ctx)
	case m.Out != "":
		return client.Decommission(ctx, m.Attribute, m.Out, m.Drain)
	case m.Fence != "" || m.Unfence:
		return client.PutSettings(ctx, map[string]any{excludeKey(m.Attribute): m.excluded()})
	case len(m.LetGo) > 0:
		return client.LetGo(ctx, m.LetGo)
	}
	return client.Recommission(ctx)
}

// reachable are clients of nodes that answered, those of zones that are well and serve first; at last the cluster's own.
func (c *Controller) reachable(v *View) []*es.Client {
	var first, last []*es.Client
	present := v.present()
	for _, name := range sortedNames(c.state.Roster) {
		m := c.state.Roster[name]
		if client := c.clients[name]; client != nil && v.Probes[name] && present[name] {
			if c.health.Zones[m.Zone].Healthy() && v.State.Leader == m.ID {
				first = append([]*es.Client{client}, first...)
			} else if c.health.Zones[m.Zone].Healthy() {
				first = append(first, client)
			} else {
				last = append(last, client)
			}
		}
	}
	return append(append(first, last...), c.Client)
}

// mayAct tells whether this instance runs the zones: nobody else does, as far as the cluster's settings say. Whoever was
// the last to hold them goes on while they cannot be read or written: that may be just when a zone is ill.
func (c *Controller) mayAct(config Config, s *Status) bool {
	now := c.Now()
	if c.settings == nil {
		return false
	}
	if o := c.settings.Orders.Owner; o != nil && o.Session != c.session && now.Before(o.Expires) && o.Holder != c.Holder {
		s.Owner = o
		return false
	}
	c.renew(config, now)
	return true
}

// renew writes the owner's record where it is due, beside everything else.
func (c *Controller) renew(config Config, now time.Time) {
	news := c.owner == nil || c.owner.Handled != c.state.Handled || c.owner.Mode != config.Mode || c.owner.Phase != c.state.Phase || c.owner.Write != c.state.Write
	if !news && now.Sub(c.wrote) < ownerLasts/4 || !c.writing.TryLock() {
		return
	}
	o := &Owner{
		Holder: c.Holder, Session: c.session, Mode: config.Mode, Renewed: now, Expires: now.Add(ownerLasts), Handled: c.state.Handled, Result: c.handled,
		Phase: c.state.Phase, Write: c.state.Write, Hold: c.state.Hold, Blocked: c.blocked, Serving: c.state.Serving, Changed: c.state.Changed, Due: due(config, c.state),
		Peak: c.state.Peak.p99(),
	}
	c.owner, c.wrote = o, now
	go func() {
		defer c.writing.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), writeWithin)
		defer cancel()
		// One that is lost is written again at the next renewal; meanwhile whoever held the zones goes on holding them.
		_ = c.Client.PutSettings(ctx, map[string]any{OwnerKey: settingText(o)})
	}()
}

// learnPeak takes the load of the cluster into the day's peak.
func (c *Controller) learnPeak(v *View) {
	if v.Loads == nil {
		return
	}
	before := c.peakFrom
	c.peakFrom = load{v.At, map[cluster.NodeID]time.Duration{}}
	busy := time.Duration(0)
	for id, l := range v.Loads {
		c.peakFrom.took[id] = l.QueryTime
		if was, known := before.took[id]; known && l.QueryTime >= was {
			busy += l.QueryTime - was
		}
	}
	if span := v.At.Sub(before.at); !before.at.IsZero() && span > 0 {
		c.state.Peak.add(v.At, float64(busy)/float64(span))
	}
}

// load is the search time of each node since it started, at one moment.
type load struct {
	at   time.Time
	took map[cluster.NodeID]time.Duration
}
