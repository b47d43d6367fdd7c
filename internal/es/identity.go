package es

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// Root is the answer to GET /: what the node that answered says of itself and its cluster.
type Root struct {
	Cluster, UUID string
	Number        string // version.number, as it stands
	Distribution  string // "opensearch" where it is said
	Flavor        string // build_flavor: "default", "oss", "serverless", ...
	Tagline       string
}

// RootRequest asks for it.
func RootRequest() Request { return Request{File: "version.json", Path: "/"} }

// DecodeRoot reads it.
func DecodeRoot(from io.Reader) (Root, error) {
	var root Root
	r := newReader(from)
	r.object(func(name string) {
		switch name {
		case "cluster_name":
			root.Cluster = r.text()
		case "cluster_uuid":
			root.UUID = r.text()
		case "tagline":
			root.Tagline = r.text()
		case "version":
			if r.kind() != '{' {
				r.skip()
				return
			}
			r.object(func(name string) {
				switch name {
				case "number":
					root.Number = r.text()
				case "distribution":
					root.Distribution = r.text()
				case "build_flavor":
					root.Flavor = r.text()
				}
			})
		}
	})
	return root, r.finish()
}

// Identify says what cluster it is, from what the root says and the versions its nodes have. In a rolling upgrade the
// oldest node decides. An OpenSearch of the 1.x or 2.x line may be set to call itself 7.10.2 for the sake of old
// clients, and then leaves its name out as well: its nodes' versions and its tagline give it away.
func Identify(root Root, versions []cluster.Version) (cluster.Identity, error) {
	identity := cluster.Identity{Name: root.Cluster, UUID: root.UUID}
	refused := func(why, cure string) (cluster.Identity, error) {
		return cluster.Identity{}, &cluster.Error{
			Class: cluster.Refused, Op: "recognise", What: root.Cluster, Err: errors.New(why), Hint: cure,
		}
	}
	switch {
	case root.Flavor == "serverless":
		return refused("Elasticsearch serverless places shards itself and offers no interface for it", "There is nothing to do for Shardonnay there.")
	case root.Number == "":
		return refused("the answer to GET / names no version", "This is not an Elasticsearch or OpenSearch cluster: check the address.")
	}
	version, err := cluster.ParseVersion(root.Number)
	if err != nil {
		return refused(clip(err.Error()), "This is not an Elasticsearch or OpenSearch cluster: check the address.")
	}
	disguised := version.Major == 7 && version.Minor == 10
	for i, v := range versions {
		if i == 0 || v.Compare(version) < 0 {
			version = v
		}
	}
	identity.Product = cluster.Product{Distribution: cluster.Elasticsearch, Version: version}
	if root.Distribution == "opensearch" || strings.HasPrefix(root.Tagline, "The OpenSearch Project") ||
		disguised && version.Major < 4 {
		identity.Product.Distribution = cluster.OpenSearch
	} else if root.Distribution != "" {
		return refused(fmt.Sprintf("it is a %q", clip(root.Distribution)), "Only Elasticsearch and OpenSearch are understood.")
	}
	return identity, nil
}

// Connect finds out what cluster this is and refuses those the daemon cannot work with.
func (c *Client) Connect(ctx context.Context) (cluster.Identity, error) {
	var root Root
	if err := c.Ask(ctx, RootRequest(), func(body io.Reader) (err error) {
		root, err = DecodeRoot(body)
		var syntax *SyntaxError
		if errors.As(err, &syntax) && syntax.Offset == 0 {
			return notACluster(c.seeds[c.current.Load()], request{method: "GET", path: "/"}, "the answer to GET / is not JSON")
		}
		return err
	}); err != nil {
		return cluster.Identity{}, err
	}
	if _, err := Identify(root, nil); err != nil { // before the next read, which may not be offered there
		return cluster.Identity{}, err
	}
	var versions []cluster.Version
	query := url.Values{"filter_path": {"nodes.*.version"}}
	if err := c.Read(ctx, "/_nodes/os", query, func(body io.Reader) error {
		nodes, err := DecodeNodes(body)
		for _, n := range nodes {
			versions = append(versions, n.Version)
		}
		return err
	}); err != nil {
		return cluster.Identity{}, err
	}
	identity, err := Identify(root, versions)
	if err != nil {
		return cluster.Identity{}, err
	}
	if !identity.Product.Supported() {
		return cluster.Identity{}, &cluster.Error{
			Class: cluster.Refused, Op: "work with", What: root.Cluster, Err: fmt.Errorf("it runs %v", identity.Product),
			Hint: "Supported are Elasticsearch 7 to 9 and OpenSearch 1 to 3.",
		}
	}
	if identity.UUID == "" || identity.UUID == "_na_" {
		return cluster.Identity{}, &cluster.Error{
			Class: cluster.Unavailable, Op: "recognise", What: root.Cluster, Err: errors.New("the cluster has not formed yet"),
			Hint: "Wait until it has an elected master.",
		}
	}
	c.product.Store(&identity.Product)
	return identity, nil
}
