package es

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// Move asks for one copy of a shard to go from one node to another. Nodes are named by id: a name may be ambiguous, and
// an unresolvable one fails the whole request.
type Move struct {
	Index    string
	Shard    int
	From, To cluster.NodeID
}

// Decision is one decider's answer.
type Decision struct {
	Decider     string // "disk_threshold", "same_shard", ...
	Decision    string // "YES", "NO", "THROTTLE", "NOT_PREFERRED"
	Explanation string
}

// Outcome is what became of one move of a request.
type Outcome struct {
	Move      Move
	Refused   bool // some decider said NO; THROTTLE and NOT_PREFERRED do not hold a move back
	Decisions []Decision
}

// These commands and no others can be written: each is a type of its own, and there is none for what could lose data.
type (
	moveCommand struct {
		Index string         `json:"index"`
		Shard int            `json:"shard"`
		From  cluster.NodeID `json:"from_node"`
		To    cluster.NodeID `json:"to_node"`
	}
	cancelCommand struct {
		Index string         `json:"index"`
		Shard int            `json:"shard"`
		Node  cluster.NodeID `json:"node"`
		// No allow_primary: without it the server refuses to cancel a primary that serves, should we ever be mistaken
		// about where a relocation ends. A relocation's target needs none.
	}
	command struct {
		Move   *moveCommand   `json:"move,omitempty"`
		Cancel *cancelCommand `json:"cancel,omitempty"`
	}
	commands struct {
		Commands []command `json:"commands"`
	}
)

// Reroute sends the moves in one request and gives one outcome for each, in order. With explanations asked for, a move
// that is refused does not hold up the others. It is never a dry run: Elasticsearch 8.6 and newer remember those and
// carry them out later.
//
// An answer that does not confirm the request, or that does not explain each move, leaves the outcome unknown; so does a
// lost one (OutcomeUnknown). The routing table then tells the truth. OpenSearch may answer acknowledged:false with no
// explanation at all when nodes were slow to confirm a change that was made.
func (c *Client) Reroute(ctx context.Context, product cluster.Product, moves []Move) ([]Outcome, error) {
	if len(moves) == 0 {
		return nil, nil
	}
	body := commands{}
	for _, m := range moves {
		body.Commands = append(body.Commands, command{Move: &moveCommand{m.Index, m.Shard, m.From, m.To}})
	}
	return c.reroute(ctx, product, body, moves)
}

// MayReroute asks whether the cluster would let this user move copies, by a reroute without commands on paper, which
// changes nothing on any product. The error of one that would not is of class Refused.
func (c *Client) MayReroute(ctx context.Context) error {
	query := url.Values{"dry_run": {"true"}}
	if product := c.known(); product.Distribution == cluster.OpenSearch || product.Version.Major < 9 {
		query.Set("metric", "none")
	}
	return c.Send(ctx, http.MethodPost, "/_cluster/reroute", query, map[string]any{"commands": []any{}}, nil)
}

// Cancel stops a relocation at its target: the copy stays, started, where it was. target must be the node the copy is
// going to; at the source a cancel would throw a good copy away, and is refused for a primary.
func (c *Client) Cancel(ctx context.Context, product cluster.Product, index string, shard int, target cluster.NodeID) error {
	body := commands{[]command{{Cancel: &cancelCommand{index, shard, target}}}}
	outcomes, err := c.reroute(ctx, product, body, []Move{{Index: index, Shard: shard, To: target}})
	if err != nil {
		return err
	}
	for _, d := range outcomes[0].Decisions {
		if d.Decision == "NO" {
			return &cluster.Error{
				Class: cluster.Rejected, Op: "cancel the relocation of", What: fmt.Sprintf("%s/%d", index, shard),
				Err: errors.New(d.Explanation), Hint: "It has probably ended already: read the routing table again.",
			}
		}
	}
	return nil
}

func (c *Client) reroute(ctx context.Context, product cluster.Product, body commands, moves []Move) ([]Outcome, error) {
	query := withMaster(product, url.Values{"explain": {"true"}})
	if product.Distribution != cluster.Elasticsearch || product.Version.Major < 9 {
		// Without it the answer carries the routing table, 20 MB of it at 50,000 copies. Elasticsearch 9 never sends it
		// and warns about the parameter.
		query.Set("metric", "none")
	}
	var answer rerouteAnswer
	err := c.send(ctx, http.MethodPost, "/_cluster/reroute", query, body, func(body io.Reader) (err error) {
		answer, err = decodeReroute(body)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(answer.explained) != len(moves) {
		return nil, &lostOutcome{&cluster.Error{
			Class: cluster.Unavailable, Op: "send", What: "POST /_cluster/reroute",
			Err:  fmt.Errorf("acknowledged is %t, and %d of %d commands are explained", answer.acknowledged, len(answer.explained), len(moves)),
			Hint: "Read the routing table to see what was done.",
		}}
	}
	outcomes := make([]Outcome, len(moves))
	for i, decisions := range answer.explained {
		outcomes[i] = Outcome{Move: moves[i], Decisions: decisions}
		for _, d := range decisions {
			outcomes[i].Refused = outcomes[i].Refused || d.Decision == "NO"
		}
	}
	return outcomes, nil
}

type rerouteAnswer struct {
	acknowledged bool
	explained    [][]Decision // one list for each command, in the order of the request
}

func decodeReroute(from io.Reader) (rerouteAnswer, error) {
	var answer rerouteAnswer
	r := newReader(from)
	r.object(func(name string) {
		switch name {
		case "acknowledged":
			answer.acknowledged = r.boolean()
		case "explanations":
			r.array(func() {
				decisions := []Decision{}
				r.object(func(name string) {
					if name == "decisions" {
						decisions = readDecisions(r)
					}
				})
				answer.explained = append(answer.explained, decisions)
			})
		}
	})
	return answer, r.finish()
}

func readDecisions(r *reader) []Decision {
	decisions := []Decision{}
	r.array(func() {
		var d Decision
		r.object(func(name string) {
			switch name {
			case "decider":
				d.Decider = r.text()
			case "decision":
				d.Decision = r.text()
			case "explanation":
				d.Explanation = r.text()
			}
		})
		decisions = append(decisions, d)
	})
	return decisions
}

// NodeDecision is what allocation explain says of one node.
type NodeDecision struct {
	Node     cluster.NodeID
	Name     string
	Decision string // "yes", "no", "worse_balance", "throttled", ...
	Deciders []Decision
}

// Explain asks the server where a copy may go, every decider's answer included. currentNode picks the copy among
// replicas and is empty for an unassigned one. It changes nothing, on any product, and is costly: for single copies.
func (c *Client) Explain(ctx context.Context, index string, shard int, primary bool, currentNode cluster.NodeID) ([]NodeDecision, error) {
	body := map[string]any{"index": index, "shard": shard, "primary": primary}
	if currentNode != "" {
		body["current_node"] = currentNode
	}
	var decisions []NodeDecision
	query := url.Values{"include_yes_decisions": {"true"}} // and no limit for finding a master: it takes none
	err := c.send(ctx, http.MethodPost, "/_cluster/allocation/explain", query, body, func(answer io.Reader) (err error) {
		decisions, err = decodeExplain(answer)
		return err
	})
	return decisions, err
}

func decodeExplain(from io.Reader) ([]NodeDecision, error) {
	var all []NodeDecision
	r := newReader(from)
	r.object(func(name string) {
		if name != "node_allocation_decisions" {
			return
		}
		r.array(func() {
			var n NodeDecision
			r.object(func(name string) {
				switch name {
				case "node_id":
					n.Node = cluster.NodeID(r.text())
				case "node_name":
					n.Name = r.text()
				case "node_decision":
					n.Decision = r.text()
				case "deciders":
					n.Deciders = readDecisions(r)
				}
			})
			all = append(all, n)
		})
	})
	return all, r.finish()
}
