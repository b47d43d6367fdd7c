package es

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// DesiredBalance is what Elasticsearch 8.6 and newer would like, beside what is: for each shard the nodes its copies
// should be on, and where they are.
type DesiredBalance struct {
	shards []desiredShard
}

type desiredShard struct {
	index   string
	shard   int
	current []desiredCopy
	desired []cluster.NodeID
}

type desiredCopy struct {
	node    cluster.NodeID
	primary bool
	state   string
}

// Wish is a copy that stands on a node the desired balance does not want it on: a move the server will make as soon as
// it may rebalance again.
type Wish struct {
	Index   string
	Shard   int
	Primary bool
	Node    cluster.NodeID   // where it stands
	Desired []cluster.NodeID // where copies of this shard should be
}

// Wishes lists them by index, shard and node. What the server counts as undesired is stale on some versions while
// rebalancing is off; this compares.
func (b *DesiredBalance) Wishes() []Wish {
	var wishes []Wish
	for _, s := range b.shards {
		for _, c := range s.current {
			// One on its way is not judged: where it lands is.
			if c.state == cluster.Started.String() && !slices.Contains(s.desired, c.node) {
				wishes = append(wishes, Wish{s.index, s.shard, c.primary, c.node, s.desired})
			}
		}
	}
	slices.SortFunc(wishes, func(a, b Wish) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Node, b.Node))
	})
	return wishes
}

const desiredBalancePath = "/_internal/desired_balance"

// DesiredBalance reads it; nil without an error where the cluster keeps none: another product, an older version, or the
// allocator of type balanced.
func (c *Client) DesiredBalance(ctx context.Context) (*DesiredBalance, error) {
	var balance *DesiredBalance
	query := url.Values{"filter_path": {
		"routing_table.*.*.current.state,routing_table.*.*.current.primary,routing_table.*.*.current.node,routing_table.*.*.desired.node_ids",
	}}
	err := c.Read(ctx, desiredBalancePath, query, func(body io.Reader) (err error) {
		balance, err = decodeDesiredBalance(body)
		return err
	})
	if Absent(err) {
		return nil, nil
	}
	return balance, err
}

// Absent tells whether err is how servers say that they do not have an interface: 404, 405, or a 400 that takes the path
// for an index name or finds no handler.
func Absent(err error) bool {
	var status *StatusError
	if !errors.As(err, &status) {
		return false
	}
	switch status.Status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed:
		return true
	}
	return false
}

func decodeDesiredBalance(from io.Reader) (*DesiredBalance, error) {
	balance := &DesiredBalance{}
	r := newReader(from)
	r.object(func(name string) {
		if name != "routing_table" {
			return
		}
		r.object(func(index string) {
			r.object(func(number string) {
				s := desiredShard{index: index, shard: shardNumber(r, number)}
				r.object(func(name string) {
					switch name {
					case "current":
						r.array(func() { s.current = append(s.current, readDesiredCopy(r)) })
					case "desired":
						r.object(func(name string) {
							if name == "node_ids" {
								r.array(func() { s.desired = append(s.desired, cluster.NodeID(r.text())) })
							}
						})
					}
				})
				balance.shards = append(balance.shards, s)
			})
		})
	})
	return balance, r.finish()
}

func readDesiredCopy(r *reader) desiredCopy {
	var c desiredCopy
	r.object(func(name string) {
		switch name {
		case "node":
			c.node = cluster.NodeID(r.text())
		case "primary":
			c.primary = r.boolean()
		case "state":
			c.state = r.text()
		}
	})
	return c
}

// DeleteDesiredBalance makes the server compute it anew from where the copies stand: wishes left over from moves that
// were cancelled, failed or only tried are forgotten.
func (c *Client) DeleteDesiredBalance(ctx context.Context) error {
	return c.Send(ctx, http.MethodDelete, desiredBalancePath, nil, nil, nil)
}
