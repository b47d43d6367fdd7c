package zones

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// What people ask of the controller stands in the cluster's settings, so that it can be asked from anywhere and is seen
// by whichever instance runs the zones.
const (
	settingsPrefix = "cluster.metadata.shardonnay.zones_"
	OrderKey       = settingsPrefix + "order" // an Order, to be carried out once
	HoldKey        = settingsPrefix + "hold"  // a Hold; present means hold
	PinKey         = settingsPrefix + "pin"   // name of the zone that is to stand by
	OwnerKey       = settingsPrefix + "owner" // an Owner
)

// Verb is what an order asks for.
type Verb string

// The verbs.
const (
	OrderRotate       Verb = "rotate"       // the standby serves now, as if its time had come
	OrderFailover     Verb = "failover"     // searches leave a zone
	OrderOut          Verb = "out"          // writes leave it too: it is taken out of the cluster
	OrderFence        Verb = "fence"        // the same for a zone that cannot be: it stays in the cluster and gives its copies up
	OrderAbort        Verb = "abort"        // a zone that drains is not taken out
	OrderRecommission Verb = "recommission" // a zone that is out comes back
	OrderResume       Verb = "resume"       // a hold of the controller's own ends
	OrderRelease      Verb = "release"      // a zone that failed over too often may serve again
)

// Order is one thing to be done.
type Order struct {
	ID     string    `json:"id"`
	Verb   Verb      `json:"verb"`
	Zone   string    `json:"zone,omitempty"`
	By     string    `json:"by"`
	Reason string    `json:"reason,omitempty"`
	At     time.Time `json:"at"`
}

// orderValid is how long an order waits for somebody who carries it out. One that is older was given in another
// situation.
const orderValid = 10 * time.Minute

// Orders are what stands in the settings.
type Orders struct {
	Order *Order
	Hold  *Hold
	Pin   string
	Owner *Owner
}

// Owner is the instance that runs the zones.
type Owner struct {
	Holder  string    `json:"holder"`
	Session string    `json:"session"`
	Mode    Mode      `json:"mode"`
	Renewed time.Time `json:"renewed"`
	Expires time.Time `json:"expires"`
	Handled string    `json:"handled,omitempty"` // id of the last order it dealt with
	Result  string    `json:"result,omitempty"`  // what came of it

	// How far it is, for people anywhere, and for whoever runs the zones next without its journal.
	Phase   Phase                `json:"phase,omitempty"`
	Write   WritePhase           `json:"write,omitempty"`
	Hold    *Hold                `json:"hold,omitempty"`
	Blocked []Check              `json:"blocked,omitempty"` // what holds up what is due
	Serving map[string]time.Time `json:"serving,omitempty"`
	Changed time.Time            `json:"changed,omitzero"`
	Due     time.Time            `json:"due,omitzero"`  // the next rotation
	Peak    float64              `json:"peak,omitzero"` // busy threads, stayed under for 99 % of a day
}

// ReadOrders reads what stands in the settings; lookup gives a persistent value.
func ReadOrders(lookup func(key string) (string, bool)) (Orders, error) {
	var o Orders
	for key, into := range map[string]any{OrderKey: &o.Order, HoldKey: &o.Hold, OwnerKey: &o.Owner} {
		text, present := lookup(key)
		if !present || text == "" {
			continue
		}
		if err := json.Unmarshal([]byte(text), into); err != nil {
			return Orders{}, &cluster.Error{
				Class: cluster.Rejected, Op: "read the setting", What: key, Err: fmt.Errorf("%q is not what shardonnay writes there", text),
				Hint: "Remove the setting",
			}
		}
	}
	o.Pin, _ = lookup(PinKey)
	return o, nil
}

func settingText(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic("zones: an order is text, times and numbers: " + err.Error())
	}
	return string(text)
}
