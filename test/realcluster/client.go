package realcluster

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// StatusError is an answer of status 300 or above.
type StatusError struct {
	Request string // "GET /path"
	Status  int
	Body    string
}

// Error tells request, status and the whole body.
func (e *StatusError) Error() string {
	return fmt.Sprintf("%s: status %d: %s", e.Request, e.Status, e.Body)
}

// Get reads path from some living node and decodes the answer into out.
func (c *Cluster) Get(ctx context.Context, path string, out any) error {
	return c.Call(ctx, http.MethodGet, path, nil, out)
}

// Put sends body to path and decodes the answer into out; both may be nil.
func (c *Cluster) Put(ctx context.Context, path string, body, out any) error {
	return c.Call(ctx, http.MethodPut, path, body, out)
}

// Post sends body to path and decodes the answer into out; both may be nil.
func (c *Cluster) Post(ctx context.Context, path string, body, out any) error {
	return c.Call(ctx, http.MethodPost, path, body, out)
}

// Delete sends a DELETE and decodes the answer into out, which may be nil.
func (c *Cluster) Delete(ctx context.Context, path string, out any) error {
	return c.Call(ctx, http.MethodDelete, path, nil, out)
}

// Call sends one request to a living node chosen at random and decodes the JSON answer into out. A body that is a
// string or []byte goes out as it is (for _bulk), anything else as JSON. An answer of 300 or above is a *StatusError.
func (c *Cluster) Call(ctx context.Context, method, path string, body, out any) error {
	living := c.living()
	if len(living) == 0 {
		return fmt.Errorf("%s %s: no node of %s is running", method, path, c.Product)
	}
	return c.send(ctx, living[rand.IntN(len(living))], method, path, body, out)
}

func (c *Cluster) send(ctx context.Context, n *node, method, path string, body, out any) error {
	var payload []byte
	switch body := body.(type) {
	case nil:
	case string:
		payload = []byte(body)
	case []byte:
		payload = body
	default:
		var err error
		if payload, err = json.Marshal(body); err != nil {
			return err
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, n.Address+path, bytes.NewReader(payload))
	if err != nil {
		return err
	}
	if len(payload) > 0 {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.Product.secured {
		request.SetBasicAuth(Administrator, AdministratorPassword)
	}
	answer, err := c.client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if answer.StatusCode >= 300 {
		return &StatusError{Request: method + " " + path, Status: answer.StatusCode, Body: string(text)}
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

// Index says how to create an index.
type Index struct {
	Name     string
	Shards   int // default 1
	Replicas int // zero means none

	// Node places all copies on one node: the index is created with a filter that is removed afterwards. Only for
	// indices without replicas.
	Node string

	Settings map[string]any // further index settings, without the "index." prefix
	Mappings any            // optional
}

// CreateIndex creates the index and waits until its primaries are started.
func (c *Cluster) CreateIndex(ctx context.Context, index Index) error {
	settings := map[string]any{"number_of_shards": max(index.Shards, 1), "number_of_replicas": index.Replicas}
	maps.Copy(settings, index.Settings)
	const filter = "routing.allocation.require._name"
	if index.Node != "" {
		settings[filter] = index.Node
	}
	body := map[string]any{"settings": map[string]any{"index": settings}}
	if index.Mappings != nil {
		body["mappings"] = index.Mappings
	}
	var answer struct {
		Started bool `json:"shards_acknowledged"`
	}
	path := "/" + url.PathEscape(index.Name)
	if err := c.Put(ctx, path, body, &answer); err != nil {
		return err
	}
	if !answer.Started {
		return fmt.Errorf("create index %s: its primaries have not started", index.Name)
	}
	if index.Node == "" {
		return nil
	}
	return c.Put(ctx, path+"/_settings", map[string]any{"index." + filter: nil}, nil)
}

// WaitGreen waits until all running nodes are in the cluster, every copy is started and none relocates.
func (c *Cluster) WaitGreen(ctx context.Context) error {
	return poll(ctx, func() error { return c.healthy(ctx) })
}

// WaitRelocating waits until copies are on their way between nodes.
func (c *Cluster) WaitRelocating(ctx context.Context) error {
	return poll(ctx, func() error {
		var health struct {
			Relocating int `json:"relocating_shards"`
		}
		if err := c.Get(ctx, "/_cluster/health?wait_for_events=languid", &health); err != nil {
			return err
		}
		if health.Relocating == 0 {
			return errors.New("no copy relocates")
		}
		return nil
	})
}

// healthy is nil where WaitGreen has nothing to wait for. It answers after the changes of cluster state under way.
func (c *Cluster) healthy(ctx context.Context) error {
	var health struct {
		Status       string `json:"status"`
		Nodes        int    `json:"number_of_nodes"`
		Relocating   int    `json:"relocating_shards"`
		Initializing int    `json:"initializing_shards"`
		Unassigned   int    `json:"unassigned_shards"`
	}
	if err := c.Get(ctx, "/_cluster/health?wait_for_events=languid", &health); err != nil {
		return err
	}
	if health.Status != "green" || health.Relocating > 0 || health.Initializing > 0 || health.Nodes != len(c.living()) {
		return fmt.Errorf("cluster is %s with %d of %d nodes, %d copies relocating, %d initializing, %d unassigned",
			health.Status, health.Nodes, len(c.living()), health.Relocating, health.Initializing, health.Unassigned)
	}
	return nil
}

// WaitSettled waits until the cluster is green and the server's own balancer wants nothing more: it moves a few copies
// at a time, and between two of them nothing relocates either.
func (c *Cluster) WaitSettled(ctx context.Context) error {
	return poll(ctx, func() error {
		for range 2 {
			if err := c.Post(ctx, c.reroutePath(), nil, nil); err != nil {
				return err
			}
			if err := c.healthy(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

// reroutePath is the reroute API without the cluster state in its answer. Elasticsearch 9 never sends that, and frowns
// on being told.
func (c *Cluster) reroutePath() string {
	if c.Product == Elasticsearch9 {
		return "/_cluster/reroute?explain=true"
	}
	return "/_cluster/reroute?explain=true&metric=none"
}

// DocCount refreshes the index (or pattern) and counts its documents.
func (c *Cluster) DocCount(ctx context.Context, index string) (int64, error) {
	path := "/" + url.PathEscape(index)
	if err := c.Post(ctx, path+"/_refresh", nil, nil); err != nil {
		return 0, err
	}
	var answer struct {
		Count int64 `json:"count"`
	}
	err := c.Get(ctx, path+"/_count", &answer)
	return answer.Count, err
}

// StateVersion is the version of the cluster state: it grows with every change.
func (c *Cluster) StateVersion(ctx context.Context) (int64, error) {
	var state struct {
		Version int64 `json:"version"`
	}
	err := c.Get(ctx, "/_cluster/state/version", &state)
	return state.Version, err
}

// Settings are the persistent and transient cluster settings, flat; the key starts with "persistent." or "transient.".
func (c *Cluster) Settings(ctx context.Context) (map[string]string, error) {
	var answer map[string]map[string]any
	if err := c.Get(ctx, "/_cluster/settings?flat_settings=true", &answer); err != nil {
		return nil, err
	}
	settings := map[string]string{}
	for _, kind := range []string{"persistent", "transient"} {
		for key, value := range answer[kind] {
			settings[kind+"."+key] = fmt.Sprint(value)
		}
	}
	return settings, nil
}

// PutSettings changes persistent cluster settings; nil removes one.
func (c *Cluster) PutSettings(ctx context.Context, settings map[string]any) error {
	return c.Put(ctx, "/_cluster/settings", map[string]any{"persistent": settings}, nil)
}

// Copy is one shard copy as the routing table has it.
type Copy struct {
	Index        string
	Shard        int
	Primary      bool
	State        string // STARTED, RELOCATING, INITIALIZING, UNASSIGNED
	Node         string // node name; empty where unassigned
	NodeID       string
	RelocatingTo string // node name; empty where it does not relocate
	AllocationID string
}

// Copies reads the routing table, sorted by index, shard, primary first, node.
func (c *Cluster) Copies(ctx context.Context) ([]Copy, error) {
	var state struct {
		Nodes map[string]struct {
			Name string `json:"name"`
		} `json:"nodes"`
		Routing struct {
			Indices map[string]struct {
				Shards map[string][]struct {
					State        string `json:"state"`
					Primary      bool   `json:"primary"`
					Node         string `json:"node"`
					Relocating   string `json:"relocating_node"`
					AllocationID struct {
						ID string `json:"id"`
					} `json:"allocation_id"`
				} `json:"shards"`
			} `json:"indices"`
		} `json:"routing_table"`
	}
	if err := c.Get(ctx, "/_cluster/state/nodes,routing_table", &state); err != nil {
		return nil, err
	}
	var copies []Copy
	for index, table := range state.Routing.Indices {
		for shard, group := range table.Shards {
			number, err := strconv.Atoi(shard)
			if err != nil {
				return nil, fmt.Errorf("routing table of %s: shard number %q", index, shard)
			}
			for _, one := range group {
				copies = append(copies, Copy{
					Index: index, Shard: number, Primary: one.Primary, State: one.State,
					Node: state.Nodes[one.Node].Name, NodeID: one.Node, RelocatingTo: state.Nodes[one.Relocating].Name,
					AllocationID: one.AllocationID.ID,
				})
			}
		}
	}
	slices.SortFunc(copies, func(a, b Copy) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.Shard, b.Shard),
			-cmp.Compare(strconv.FormatBool(a.Primary), strconv.FormatBool(b.Primary)), cmp.Compare(a.Node, b.Node))
	})
	return copies, nil
}

// Move asks for one move by reroute and fails, with the server's reasons, where it is refused. It does not wait for the
// copy to land: see WaitGreen.
func (c *Cluster) Move(ctx context.Context, index string, shard int, from, to string) error {
	var answer struct {
		Explanations []struct {
			Decisions []struct {
				Decider, Decision, Explanation string
			}
		}
	}
	body := map[string]any{"commands": []any{map[string]any{"move": map[string]any{
		"index": index, "shard": shard, "from_node": from, "to_node": to,
	}}}}
	if err := c.Post(ctx, c.reroutePath(), body, &answer); err != nil {
		return err
	}
	var reasons []string
	for _, explained := range answer.Explanations {
		for _, d := range explained.Decisions {
			if d.Decision == "NO" {
				reasons = append(reasons, d.Decider+": "+d.Explanation)
			}
		}
	}
	if len(reasons) > 0 {
		return fmt.Errorf("move %s/%d from %s to %s was refused: %s", index, shard, from, to, strings.Join(reasons, "; "))
	}
	return nil
}

// Reset brings the cluster back to how it was when it had just formed: no index, no cluster setting, no wish left in
// the desired balance, every node running.
func (c *Cluster) Reset(ctx context.Context) error {
	for i, n := range c.nodes {
		if n.frozen {
			if err := c.Thaw(i); err != nil {
				return err
			}
		}
		if !n.process.running() {
			if err := c.Restart(ctx, i); err != nil {
				return err
			}
		}
	}
	var indices []struct{ Index string }
	if err := c.Get(ctx, "/_cat/indices?format=json&h=index&expand_wildcards=all", &indices); err != nil {
		return err
	}
	for batch := range slices.Chunk(indices, 50) { // the request line is bounded to 4 kB
		var names []string
		for _, i := range batch {
			names = append(names, url.PathEscape(i.Index))
		}
		if err := c.Delete(ctx, "/"+strings.Join(names, ","), nil); err != nil {
			return err
		}
	}
	settings, err := c.Settings(ctx)
	if err != nil {
		return err
	}
	if len(settings) > 0 {
		removal := map[string]map[string]any{"persistent": {}, "transient": {}}
		for key := range settings {
			kind, name, _ := strings.Cut(key, ".")
			removal[kind][name] = nil
		}
		if err := c.Put(ctx, "/_cluster/settings", removal, nil); err != nil {
			return err
		}
	}
	if c.Product.HasDesiredBalance() {
		if err := c.Delete(ctx, "/_internal/desired_balance", nil); err != nil {
			return err
		}
	}
	return c.WaitGreen(ctx)
}

// permanent marks an error after which there is no point in trying again.
type permanent struct{ error }

// poll calls try until it succeeds, and returns its last error when ctx ends first.
func poll(ctx context.Context, try func() error) error {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	var last error
	for {
		err := try()
		if err == nil {
			return nil
		}
		if stop := (*permanent)(nil); errors.As(err, &stop) {
			return stop.error
		}
		if ctx.Err() == nil || last == nil {
			last = err // once ctx has ended, errors only say so
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), last)
		case <-ticker.C:
		}
	}
}
