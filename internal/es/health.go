package es

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

const healthPath = "/_cluster/health"

// HealthRequest asks for the cluster's account of itself.
func HealthRequest(product cluster.Product) Request {
	return Request{File: "cluster_health.json", Path: healthPath, Query: withMaster(product, url.Values{})}
}

// DecodeHealth reads it. A master is taken to be there where the answer does not say: the node that answered had to ask
// it.
func DecodeHealth(from io.Reader) (cluster.Health, error) {
	h := cluster.Health{HasMaster: true}
	r := newReader(from)
	r.object(func(name string) {
		switch name {
		case "status":
			h.Status = r.text()
		case "number_of_nodes":
			h.Nodes = int(r.integer())
		case "number_of_data_nodes":
			h.DataNodes = int(r.integer())
		case "relocating_shards":
			h.Relocating = int(r.integer())
		case "initializing_shards":
			h.Initializing = int(r.integer())
		case "unassigned_shards":
			h.Unassigned = int(r.integer())
		case "delayed_unassigned_shards":
			h.Delayed = int(r.integer())
		case "number_of_pending_tasks":
			h.PendingTasks = int(r.integer())
		case "task_max_waiting_in_queue_millis":
			h.MaxTaskWait = millis(r.integer())
		case "discovered_master", "discovered_cluster_manager":
			h.HasMaster = r.boolean()
		}
	})
	if err := r.finish(); err != nil {
		return cluster.Health{}, err
	}
	if h.Status == "" {
		return cluster.Health{}, &SyntaxError{Path: "/status", Err: errors.New("it is missing")}
	}
	return h, nil
}

// Health is the cluster's own account of itself, pending tasks included. A cluster without an elected master is not an
// error here: it has HasMaster false and what the node that answered last knew.
func (c *Client) Health(ctx context.Context) (cluster.Health, error) {
	var h cluster.Health
	decode := func(body io.Reader) (err error) {
		h, err = DecodeHealth(body)
		return err
	}
	request := HealthRequest(c.known())
	err := c.Ask(ctx, request, decode)
	var status *StatusError
	if errors.As(err, &status) && status.Status == http.StatusServiceUnavailable && noMaster(status.Type+status.Reason) {
		request.Query.Set("local", "true")
		if c.Ask(ctx, request, decode) == nil {
			h.HasMaster = false
			return h, nil
		}
	}
	return h, err
}
