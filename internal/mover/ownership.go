package mover

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/es"
)

const (
	rebalanceKey = "cluster.routing.rebalance.enable"
	ownerName    = "owner"
	ownerKey     = "cluster.metadata.shardonnay." + ownerName
	// unset stands for a setting that had no persistent value.
	unset = "unset"
)

// Record is what the cluster stores of who has taken rebalancing over, as text under cluster.metadata.shardonnay.owner.
type Record struct {
	Holder   string    `json:"holder"`
	Session  string    `json:"session"` // of the holder's process
	Renewed  time.Time `json:"renewed"`
	Expires  time.Time `json:"expires"`
	Previous string    `json:"previous"`           // persistent value of cluster.routing.rebalance.enable before, "unset" for none
	Election string    `json:"election,omitempty"` // that made the holder it; empty where it stood alone
}

// ParseRecord finds the record among the settings below cluster.metadata.shardonnay (cluster.Settings.Ownership); nil
// where there is none.
func ParseRecord(ownership map[string]string) (*Record, error) {
	text, present := ownership[ownerName]
	if !present {
		return nil, nil
	}
	var r Record
	if err := json.Unmarshal([]byte(text), &r); err != nil || r.Holder == "" || r.Expires.IsZero() || r.Previous == "" {
		return nil, &cluster.Error{
			Class: cluster.Rejected, Op: "read the ownership record", What: ownerKey, Err: fmt.Errorf("%q is none", text),
			Hint: "Set cluster.routing.rebalance.enable to what it should be and run shardonnay release, which removes the record",
		}
	}
	return &r, nil
}

// skewShare is the part of a lease by which a record outlives its expiry, since two machines' clocks differ.
const skewShare = 10

// Expired tells whether the holder has let the record lapse.
func (r *Record) Expired(now time.Time) bool {
	return now.After(r.Expires.Add(r.Expires.Sub(r.Renewed) / skewShare))
}

func (r *Record) text() string {
	text, err := json.Marshal(r)
	if err != nil {
		panic("mover: a record is text and times: " + err.Error())
	}
	return string(text)
}

// Lease is how long a record holds and how claims are made.
type Lease struct {
	Holder string        // who we are: no other live process may use it; a restart with the same one goes on at once
	Length time.Duration // a record not renewed for so long is expired
	Renew  time.Duration // how often it is renewed; 0 is a third of Length
	Settle time.Duration // from a claim to reading it back: longer than a write can take
	Clock  Clock         // nil for the wall's

	// Election is the one that we have won; empty where we stand alone. It has ended the time of whoever won it before, so
	// that we take over a record of the same election without waiting until it expires. Ownership is asked for then only
	// while we lead.
	Election string
}

// Hold is the error of an ownership that is not ours to act on: errors.As.
type Hold struct {
	Kind StopKind
	Text string // what is so
	Cure string // what ends it
}

// Error is one line.
func (h *Hold) Error() string { return h.Text }

// Ownership is our hold on a cluster's rebalancing. It is for one goroutine at a time.
type Ownership struct {
	api     API
	product cluster.Product
	lease   Lease
	session string
	clock   Clock

	held      *Record   // as we last wrote it; nil while we hold nothing
	claimed   *Record   // may stand in the cluster: it was sent and not read back yet
	confirmed time.Time // when the read began that last showed our record
	tidy      bool      // what moved before us has landed and left no wishes
	evicted   *Hold     // somebody took it from us in a way that is not ours to undo
}

// NewOwnership makes one; it sends nothing.
func NewOwnership(api API, product cluster.Product, lease Lease) *Ownership {
	if lease.Renew <= 0 {
		lease.Renew = lease.Length / 3
	}
	session := make([]byte, 6)
	rand.Read(session) // never fails
	return &Ownership{api: api, product: product, lease: lease, session: hex.EncodeToString(session), clock: orWall(lease.Clock)}
}

// Acquire takes rebalancing over: it sets cluster.routing.rebalance.enable to none and writes our record in one request,
// waits, and reads back. It returns nil when we are the holder, a *Hold when we may not be (another holder, a person's
// setting) or not yet (relocations from before), another error when the cluster cannot be read or written. Asking again
// while we hold it is cheap.
func (o *Ownership) Acquire(ctx context.Context) error {
	if o.held == nil {
		if o.evicted != nil {
			return o.evicted
		}
		if err := o.claim(ctx); err != nil {
			return err
		}
	} else if _, err := o.Confirm(ctx); err != nil {
		return err
	}
	return o.tidyUp(ctx)
}

// claim writes our record where nobody else's holds.
func (o *Ownership) claim(ctx context.Context) error {
	raw, record, hold, err := readOwnership(ctx, o.api)
	switch {
	case err != nil:
		return err
	case hold != nil:
		return hold
	case record != nil && record.Holder != o.lease.Holder && !record.Expired(o.clock.Now()):
		if o.lease.Election == "" || record.Election != o.lease.Election {
			return heldBy(record)
		}
		// The one elected before us. Its ownership goes on with us, and so does a hold that a person put on it.
		if err := o.changed(raw); err != nil {
			return err
		}
	}
	value := persistentRebalance(raw)
	previous := value
	if record != nil && value == "none" {
		previous = record.Previous // the value is its holder's, not what was there before
	}
	if record != nil && record.Holder == o.lease.Holder {
		o.tidy = true // our own process before a restart: what relocates is ours and will be adopted
	}
	if err := o.write(ctx, previous, true); err != nil && !es.OutcomeUnknown(err) {
		return err
	}
	if err := o.clock.Sleep(ctx, o.lease.Settle); err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return &cluster.Error{
				Class: cluster.Unavailable, Op: "take rebalancing over", Err: errors.New("the time limit of the cycle came first"),
				Hint: "The cluster answers slowly: look why, or raise cycle.time_limit",
			}
		}
		return &cluster.Error{Class: cluster.Interrupted, Op: "take rebalancing over", Err: err}
	}
	if raw, record, hold, err = readOwnership(ctx, o.api); err != nil {
		return err
	}
	o.claimed = nil
	switch {
	case hold != nil:
		o.held = nil
		return hold
	case record == nil || record.Session != o.session:
		o.held = nil
		return heldBy(record)
	}
	o.held = record
	return o.changed(raw)
}

// write stores our record, renewed now, and with it the setting that makes rebalancing ours where take is set.
func (o *Ownership) write(ctx context.Context, previous string, take bool) error {
	now := o.clock.Now().UTC().Truncate(time.Millisecond)
	record := &Record{
		Holder: o.lease.Holder, Session: o.session, Renewed: now, Expires: now.Add(o.lease.Length), Previous: previous, Election: o.lease.Election,
	}
	settings := map[string]any{ownerKey: record.text()}
	if take {
		settings[rebalanceKey] = "none"
	}
	if take {
		o.claimed = record
	}
	if err := o.api.PutSettings(ctx, settings); err != nil {
		return err
	}
	o.held = record
	return nil
}

// Confirm reads the record again, renews it when it is due, and returns the settings it read. A *Hold says that we may not
// act any more, or not now.
func (o *Ownership) Confirm(ctx context.Context) (es.RawSettings, error) {
	if o.held == nil {
		return es.RawSettings{}, &Hold{Kind: NotHeld, Text: "rebalancing is not ours", Cure: "It is taken over at the start of the next cycle"}
	}
	began := o.clock.Now()
	raw, record, hold, err := readOwnership(ctx, o.api)
	switch now := o.clock.Now(); {
	case err != nil:
		return raw, err
	case hold != nil:
		return raw, hold
	case record == nil:
		o.held = nil
		o.evicted = &Hold{
			Kind: GivenBack, Text: "somebody has removed our ownership record: rebalancing was given back in our stead",
			Cure: "Restart the daemon to take it over again",
		}
		return raw, o.evicted
	case record.Session != o.session:
		o.held = nil
		if record.Holder == o.lease.Holder {
			o.evicted = &Hold{
				Kind: OtherHolder, Text: fmt.Sprintf("another process with our holder name %s has taken rebalancing over", record.Holder),
				Cure: "Give every instance a holder name of its own, then restart this one",
			}
			return raw, o.evicted
		}
		return raw, heldBy(record)
	case now.After(record.Expires):
		// What a person has set while it was ours stays theirs, also when we have not renewed for so long because of that.
		if err := o.changed(raw); err != nil {
			return raw, err
		}
		// We slept past our lease. Nobody has claimed it up to this read, but somebody may just be writing: claim it anew.
		o.held = nil
		return raw, &Hold{Kind: NotHeld, Text: "our ownership record has expired", Cure: "It is renewed at the start of the next cycle"}
	}
	if err := o.changed(raw); err != nil {
		return raw, err
	}
	o.confirmed = began
	if o.renewalDue(o.clock.Now()) && o.fresh() { // a late one would replace the record of a successor that acts by now
		if err := o.write(ctx, record.Previous, false); err != nil && o.clock.Now().After(record.Expires.Add(-o.lease.Renew)) {
			return raw, err // until then the next try may do
		}
	}
	return raw, nil
}

// fresh tells whether what Confirm has seen still stands by itself. A record that is not replaced before it expires has
// another Renew to go after a Confirm, longer than a look at the cluster takes. One that an election may replace at any
// time stands for Settle at least, since so long its successor waits before it acts; half of that is ours, the other half
// for a request to arrive.
func (o *Ownership) fresh() bool {
	return o.lease.Election == "" || o.clock.Now().Sub(o.confirmed) <= o.lease.Settle/2
}

func (o *Ownership) renewalDue(now time.Time) bool {
	return o.held != nil && now.Sub(o.held.Renewed) >= o.lease.Renew
}

// changed is a hold where a person has given the setting another value in the meantime: then it is theirs.
func (o *Ownership) changed(raw es.RawSettings) error {
	if value := persistentRebalance(raw); value != "none" {
		return &Hold{
			Kind: RebalanceChanged, Text: fmt.Sprintf("somebody has set %s to %s while rebalancing was ours", rebalanceKey, value),
			Cure: "Set it to none to let us go on, or run shardonnay release",
		}
	}
	return nil
}

// tidyUp makes sure that what was under way before us has landed, and that the server does not remember where it wanted
// copies to go: it would send them there when rebalancing is given back.
func (o *Ownership) tidyUp(ctx context.Context) error {
	if o.tidy {
		return nil
	}
	if o.product.HasDesiredBalance() {
		health, err := o.api.Health(ctx)
		if err != nil {
			return err
		}
		if health.Relocating > 0 {
			return &Hold{
				Kind: Settling, Text: fmt.Sprintf("%d relocations from before rebalancing became ours are under way", health.Relocating),
				Cure: "It goes on once they have landed",
			}
		}
		// That the wishes cannot be read or cleared is said when giving back, where it matters.
		if _, err := clearWishes(ctx, o.api, o.product); err != nil && cluster.ClassOf(err) != cluster.Refused {
			return err
		}
	}
	o.tidy = true
	return nil
}

// readOwnership reads the settings and the record in them. A hold is about what stands in anybody's way.
func readOwnership(ctx context.Context, api SettingsStore) (raw es.RawSettings, record *Record, hold *Hold, err error) {
	if raw, err = api.Settings(ctx); err != nil {
		return raw, nil, nil, err
	}
	if value, present := raw.Transient(rebalanceKey); present {
		return raw, nil, &Hold{
			Kind: TransientSetting, Text: fmt.Sprintf("the transient setting %s is %s and wins over ours", rebalanceKey, value),
			Cure: "Remove the transient setting",
		}, nil
	}
	if _, present := raw.Transient(ownerKey); present {
		return raw, nil, &Hold{
			Kind: BrokenRecord, Text: ownerKey + " is set transiently, which we never do", Cure: "Remove the transient setting",
		}, nil
	}
	settings := map[string]string{}
	if text, present := raw.Persistent(ownerKey); present {
		settings[ownerName] = text
	}
	record, broken := ParseRecord(settings)
	if broken != nil {
		return raw, nil, &Hold{
			Kind: BrokenRecord, Text: broken.Error(), Cure: "Run shardonnay release, which removes the record",
		}, nil
	}
	return raw, record, nil, nil
}

// persistentRebalance is the persistent value of the setting, unset where there is none.
func persistentRebalance(raw es.RawSettings) string {
	if value, present := raw.Persistent(rebalanceKey); present {
		return value
	}
	return unset
}

func heldBy(record *Record) *Hold {
	if record == nil {
		return &Hold{Kind: NotHeld, Text: "our claim to rebalancing was removed at once", Cure: "Look who else writes the cluster's settings"}
	}
	return &Hold{
		Kind: OtherHolder, Text: fmt.Sprintf("%s owns rebalancing until %s", record.Holder, record.Expires.Format(time.RFC3339)),
		Cure: "Stop that instance, or wait until its record expires",
	}
}
