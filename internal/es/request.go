package es

import (
	"context"
	"io"
	"net/url"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// Request is one read as a value: what to ask, and what its answer is called in a capture folder. Live collection,
// captures and tests name their reads by the same values.
type Request struct {
	File  string // "nodes_stats.json"
	Path  string
	Query url.Values
}

// Ask sends the request as Read does.
func (c *Client) Ask(ctx context.Context, what Request, decode func(io.Reader) error) error {
	return c.Read(ctx, what.Path, what.Query, decode)
}

// masterTimeout is how long the server may look for a master before it says that there is none: shorter than we wait
// for any answer, or else we would report a timeout in its place.
const masterTimeout = "10s"

// withMaster adds the parameter that bounds the wait for a master, by the name the product gives it: OpenSearch renamed
// it in 2.0 and logs a warning for the old one.
func withMaster(product cluster.Product, query url.Values) url.Values {
	name := "master_timeout"
	if product.Distribution == cluster.OpenSearch && product.Version.Major >= 2 {
		name = "cluster_manager_timeout"
	}
	query.Set(name, masterTimeout)
	return query
}
