package mover

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/es"
)

// Released is what giving back did.
type Released struct {
	Record   *Record  `json:"record"`   // the record found; nil where there was none
	Restored bool     `json:"restored"` // the previous value was put back
	Value    string   `json:"value"`    // persistent value of cluster.routing.rebalance.enable now, "unset" for none
	Expected int      `json:"expected"` // about how many moves the server will make, now that it may
	Returns  []Return `json:"returns"`  // the copies that come into question for them
	Text     string   `json:"text"`     // for people: what was done and what the server will do
}

// Return is a copy that the server's balancer may move once it may.
type Return struct {
	Index   string         `json:"index"`
	Shard   int            `json:"shard"`
	Primary bool           `json:"primary"`
	From    cluster.NodeID `json:"from"`
	To      cluster.NodeID `json:"to"`     // empty where it may be any of several
	Likely  bool           `json:"likely"` // rather than only possible: the server takes copies in an order of its own
	Why     string         `json:"why"`
}

// Release gives rebalancing back: the previous value and the removal of our record in one request. s is the latest
// snapshot, to foretell what the server's own balancer will do then; nil for no forecast. Where rebalancing is not ours it
// does nothing.
func (o *Ownership) Release(ctx context.Context, s *cluster.Snapshot) (Released, error) {
	held := cmp.Or(o.held, o.claimed)
	o.held, o.claimed, o.tidy = nil, nil, false
	if held == nil {
		return Released{Returns: []Return{}, Text: "rebalancing was not ours"}, nil
	}
	raw, record, hold, err := readOwnership(ctx, o.api)
	switch {
	case err != nil:
		o.held = held
		return Released{}, err
	case hold == nil && (record == nil || record.Session != o.session):
		return Released{Record: record, Value: persistentRebalance(raw), Returns: []Return{}, Text: "rebalancing was no longer ours"}, nil
	case hold != nil:
		record = held // a transient value above ours changes nothing about what is ours to put back
	}
	return giveBack(ctx, o.api, o.product, raw, record, s)
}

// Release gives rebalancing back whoever holds it: for the command of that name, and, with onlyExpired, for what a start
// finds of an instance that died.
func Release(ctx context.Context, api API, product cluster.Product, s *cluster.Snapshot, onlyExpired bool) (Released, error) {
	raw, err := api.Settings(ctx)
	if err != nil {
		return Released{}, err
	}
	settings := map[string]string{}
	text, present := raw.Persistent(ownerKey)
	if present {
		settings[ownerName] = text
	}
	record, broken := ParseRecord(settings)
	value := persistentRebalance(raw)
	switch {
	case !present:
		return Released{Value: value, Returns: []Return{}, Text: fmt.Sprintf("there is no ownership record; %s is %s", rebalanceKey, value)}, nil
	case onlyExpired && (record == nil || !record.Expired(time.Now())):
		return Released{Record: record, Value: value, Returns: []Return{}, Text: "the ownership record has not expired"}, nil
	case broken != nil:
		if err := put(ctx, api, map[string]any{ownerKey: nil}); err != nil {
			return Released{}, err
		}
		return Released{Value: value, Returns: []Return{}, Text: fmt.Sprintf("the ownership record could not be read and is removed; %s is %s, "+
			"and what it was before is not known: set it to what it should be", rebalanceKey, value)}, nil
	}
	return giveBack(ctx, api, product, raw, record, s)
}

// giveBack restores what a record remembers.
func giveBack(ctx context.Context, api API, product cluster.Product, raw es.RawSettings, record *Record, s *cluster.Snapshot) (Released, error) {
	r := Released{Record: record, Value: persistentRebalance(raw), Returns: []Return{}}
	var said []string
	settings := map[string]any{ownerKey: nil}
	if r.Value == "none" {
		r.Restored, r.Value = true, record.Previous
		settings[rebalanceKey] = record.Previous
		if record.Previous == unset {
			settings[rebalanceKey] = nil
		}
		said = append(said, fmt.Sprintf("%s is %s again, as before %s took it over", rebalanceKey, record.Previous, record.Holder))
	} else {
		said = append(said, fmt.Sprintf("%s was set to %s by somebody else in the meantime and stays so", rebalanceKey, r.Value))
	}
	if transient, present := raw.Transient(rebalanceKey); present {
		said = append(said, fmt.Sprintf("a transient value, %s, wins over it", transient))
	}
	wishes, err := clearWishes(ctx, api, product)
	if err != nil {
		// Giving back comes first; that the server still wants copies elsewhere is said.
		said = append(said, "what the server wanted from before could not be cleared: "+err.Error())
	}
	for _, w := range wishes {
		back := Return{Index: w.Index, Shard: w.Shard, Primary: w.Primary, From: w.Node, Likely: true, Why: "the server wants it elsewhere since before, and would not forget"}
		if len(w.Desired) == 1 {
			back.To = w.Desired[0]
		}
		r.Returns = append(r.Returns, back)
	}
	expected, returns := 0, []Return(nil)
	if s != nil {
		if routing, err := api.Routing(ctx); err != nil {
			said, s = append(said, "where the copies are could not be read: "+err.Error()), nil
		} else {
			expected, returns = forecast(refreshed(s, routing), raw, record.Previous, r.Restored)
		}
	}
	r.Expected, r.Returns = expected+len(wishes), append(r.Returns, returns...)
	if err := put(ctx, api, settings); err != nil {
		return r, err
	}
	said = append(said, foretold(&r, s != nil))
	r.Text = strings.Join(said, "; ")
	return r, nil
}

// put writes settings, and where the answer is lost looks whether they were written.
func put(ctx context.Context, api SettingsStore, settings map[string]any) error {
	err := api.PutSettings(ctx, settings)
	if err == nil || !es.OutcomeUnknown(err) {
		return err
	}
	raw, again := api.Settings(ctx)
	if again != nil {
		return err
	}
	for key, want := range settings {
		got, present := raw.Persistent(key)
		if want == nil && present || want != nil && got != want {
			return err
		}
	}
	return nil
}

// foretold puts the forecast into words.
func foretold(r *Released, looked bool) string {
	if r.Expected == 0 {
		if !looked {
			return "what the server's balancer will move is not foretold"
		}
		return "the server's balancer is not expected to move anything"
	}
	var likely []string
	for _, back := range r.Returns {
		if back.Likely {
			likely = append(likely, fmt.Sprintf("%s/%d", back.Index, back.Shard))
		}
	}
	const named = 5
	more := ""
	if len(likely) > named {
		more = fmt.Sprintf(" and %d more", len(likely)-named)
		likely = likely[:named]
	}
	many := fmt.Sprintf("about %d moves", r.Expected)
	if r.Expected >= maxForecast {
		many = fmt.Sprintf("more than %d moves", maxForecast)
	}
	return fmt.Sprintf("the server's balancer, which counts copies, is expected to make %s, most likely of %s%s; %d copies come into question",
		many, strings.Join(likely, ", "), more, len(r.Returns))
}

// clearWishes makes a server with a desired balance forget where it wants copies to go, and returns what it would not
// forget.
func clearWishes(ctx context.Context, api Wishes, product cluster.Product) ([]es.Wish, error) {
	if !product.HasDesiredBalance() {
		return nil, nil
	}
	balance, err := api.DesiredBalance(ctx)
	if err != nil || balance == nil || len(balance.Wishes()) == 0 {
		return nil, err
	}
	if err := api.DeleteDesiredBalance(ctx); err != nil {
		return balance.Wishes(), err
	}
	// Under rebalance none the new balance is where the copies stand.
	if balance, err = api.DesiredBalance(ctx); err != nil || balance == nil {
		return nil, err
	}
	return balance.Wishes(), nil
}
