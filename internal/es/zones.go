package es

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// At is a client for one address alone, with the same login, certificates and timeout as c and no retries: what one node
// says, and nobody in its stead. The caller closes it.
func (c *Client) At(address string) (*Client, error) {
	config := c.config
	config.Addresses, config.ReadRetries = []string{address}, -1
	at, err := New(config)
	if err != nil {
		return nil, err
	}
	at.product.Store(c.product.Load())
	return at, nil
}

// ZoneState is what the cluster state says of zones: who is there, who leads and votes, and what has been decreed for the
// values of an awareness attribute (OpenSearch).
type ZoneState struct {
	ClusterUUID  string
	Version      int64
	Leader       cluster.NodeID // empty where the node that answered knows of none
	Nodes        []ZoneNode
	Weights      ZoneWeights
	Decommission Decommission
	Voters       []cluster.NodeID // of the last committed configuration
	Exclusions   []VotingExclusion
}

// ZoneNode is a node with its attributes, as the cluster state names it.
type ZoneNode struct {
	ID         cluster.NodeID
	Name       string
	Attributes map[string]string
}

// ZoneWeights are the weights of searches by the value of one awareness attribute. There is one set in a cluster,
// whatever the path it was written to.
type ZoneWeights struct {
	Attribute string             // empty where none were ever set
	Values    map[string]float64 // value of the attribute to weight
	Version   int64              // -1 where none were ever set
}

// Decommission is the one value that is taken out of the cluster, or has been.
type Decommission struct {
	Attribute, Value string // empty where there is none
	Status           DecommissionStatus
	RequestID        string
}

// DecommissionStatus is how far a decommission has come, in upper case.
type DecommissionStatus string

// The statuses, in their order.
const (
	DecommissionInit       DecommissionStatus = "INIT"
	DecommissionDraining   DecommissionStatus = "DRAINING"
	DecommissionInProgress DecommissionStatus = "IN_PROGRESS"
	DecommissionSuccessful DecommissionStatus = "SUCCESSFUL"
	DecommissionFailed     DecommissionStatus = "FAILED"
)

// VotingExclusion is a node that has no vote, whoever took it.
type VotingExclusion struct {
	Node cluster.NodeID
	Name string
}

// ZoneState reads it. With local the node that is asked answers from what it has applied, without asking the elected
// master: it answers where that one is gone or hangs.
func (c *Client) ZoneState(ctx context.Context, local bool) (*ZoneState, error) {
	query := withMaster(c.known(), url.Values{"filter_path": {
		"cluster_uuid,version,master_node,cluster_manager_node,nodes.*.name,nodes.*.attributes,metadata.weighted_shard_routing," +
			"metadata.decommissionedAttribute,metadata.cluster_coordination.last_committed_config,metadata.cluster_coordination.voting_config_exclusions",
	}})
	if local {
		query.Set("local", "true")
	}
	var state *ZoneState
	err := c.Read(ctx, "/_cluster/state/version,master_node,nodes,metadata", query, func(body io.Reader) (err error) {
		state, err = DecodeZoneState(body)
		return err
	})
	return state, err
}

// DecodeZoneState reads the answer.
func DecodeZoneState(from io.Reader) (*ZoneState, error) {
	state := &ZoneState{Weights: ZoneWeights{Version: -1}}
	r := newReader(from)
	r.object(func(name string) {
		switch name {
		case "cluster_uuid":
			state.ClusterUUID = r.text()
		case "version":
			state.Version = r.integer()
		case "master_node", "cluster_manager_node":
			state.Leader = cluster.NodeID(r.text())
		case "nodes":
			r.object(func(id string) {
				node := ZoneNode{ID: cluster.NodeID(id)}
				r.object(func(name string) {
					switch name {
					case "name":
						node.Name = r.text()
					case "attributes":
						node.Attributes = readTextMap(r)
					}
				})
				state.Nodes = append(state.Nodes, node)
			})
		case "metadata":
			r.object(func(name string) {
				switch name {
				case "weighted_shard_routing":
					readZoneWeights(r, &state.Weights)
				case "decommissionedAttribute":
					readDecommission(r, &state.Decommission)
				case "cluster_coordination":
					readCoordination(r, state)
				}
			})
		}
	})
	return state, r.finish()
}

// readZoneWeights reads {"awareness":{"zone":{"a":1.0}},"_version":7}.
func readZoneWeights(r *reader, w *ZoneWeights) {
	r.object(func(name string) {
		switch name {
		case "_version":
			w.Version = r.integer()
		case "awareness":
			r.object(func(attribute string) {
				w.Attribute, w.Values = attribute, map[string]float64{}
				r.object(func(value string) { w.Values[value] = r.float() })
			})
		}
	})
}

// readDecommission reads {"awareness":{"zone":"c"},"status":"successful","requestID":".."}.
func readDecommission(r *reader, d *Decommission) {
	r.object(func(name string) {
		switch name {
		case "awareness":
			r.object(func(attribute string) { d.Attribute, d.Value = attribute, r.text() })
		case "status":
			d.Status = DecommissionStatus(strings.ToUpper(r.text())) // lower case in the state, upper in the status of its own
		case "requestID":
			d.RequestID = r.text()
		}
	})
}

func readCoordination(r *reader, state *ZoneState) {
	r.object(func(name string) {
		switch name {
		case "last_committed_config":
			for _, id := range r.texts() {
				state.Voters = append(state.Voters, cluster.NodeID(id))
			}
		case "voting_config_exclusions":
			r.array(func() {
				var e VotingExclusion
				r.object(func(name string) {
					switch name {
					case "node_id":
						e.Node = cluster.NodeID(r.text())
					case "node_name":
						e.Name = r.text()
					}
				})
				state.Exclusions = append(state.Exclusions, e)
			})
		}
	})
}

// PutZoneWeights replaces the weights as a whole where their version still is the given one. It is sent once; where the
// outcome is unknown, look before sending again: the version has moved on if it was applied.
func (c *Client) PutZoneWeights(ctx context.Context, attribute string, weights map[string]float64, version int64) error {
	texts := make(map[string]string, len(weights)) // the server reads texts only
	for value, weight := range weights {
		texts[value] = strconv.FormatFloat(weight, 'f', -1, 64)
	}
	body := map[string]any{"weights": texts, "_version": version}
	return c.Send(ctx, http.MethodPut, "/_cluster/routing/awareness/"+url.PathEscape(attribute)+"/weights", nil, body, nil)
}

// AppliedWeights are the weights that the node which is asked has applied, with their version; -1 for none. Whose
// attribute they are is not said.
func (c *Client) AppliedWeights(ctx context.Context, attribute string) (weights map[string]float64, version int64, err error) {
	answer := struct {
		Weights map[string]string `json:"weights"`
		Version int64             `json:"_version"`
	}{Version: -1}
	path := "/_cluster/routing/awareness/" + url.PathEscape(attribute) + "/weights"
	if err := c.ReadJSON(ctx, path, url.Values{"local": {"true"}}, &answer); err != nil {
		return nil, 0, err
	}
	weights = make(map[string]float64, len(answer.Weights))
	for value, text := range answer.Weights {
		weight, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, 0, &cluster.Error{Class: cluster.Incomplete, Op: "read", What: path, Err: err}
		}
		weights[value] = weight
	}
	return weights, answer.Version, nil
}

// Decommission begins to take a zone's nodes out of the cluster. drain is how long the server lets what runs there end;
// 0 is not at all. The zone's weight has to be 0.
func (c *Client) Decommission(ctx context.Context, attribute, value string, drain time.Duration) error {
	query := url.Values{}
	if drain > 0 {
		query.Set("delay_timeout", strconv.FormatInt(drain.Milliseconds(), 10)+"ms")
	} else {
		query.Set("no_delay", "true")
	}
	path := "/_cluster/decommission/awareness/" + url.PathEscape(attribute) + "/" + url.PathEscape(value)
	return c.Send(ctx, http.MethodPut, path, query, nil, nil)
}

// Recommission lets the nodes of a decommissioned zone join again. The server drops every voting exclusion with it.
func (c *Client) Recommission(ctx context.Context) error {
	return c.Send(ctx, http.MethodDelete, "/_cluster/decommission/awareness", nil, nil, nil)
}

// ExcludeVoters takes the vote of nodes; one that leads hands over to another.
func (c *Client) ExcludeVoters(ctx context.Context, nodes []cluster.NodeID) error {
	ids := make([]string, 0, len(nodes))
	for _, id := range nodes {
		ids = append(ids, string(id))
	}
	query := url.Values{"timeout": {"5s"}, "node_ids": {strings.Join(ids, ",")}}
	return c.send(ctx, http.MethodPost, "/_cluster/voting_config_exclusions", query, nil, discard)
}

// ClearVotingExclusions gives every excluded node its vote back, at once.
func (c *Client) ClearVotingExclusions(ctx context.Context) error {
	return c.send(ctx, http.MethodDelete, "/_cluster/voting_config_exclusions", url.Values{"wait_for_removal": {"false"}}, nil, discard)
}

// Holders are the nodes with a started copy of the index, as the node that is asked has applied it.
func (c *Client) Holders(ctx context.Context, index string) (map[cluster.NodeID]bool, error) {
	query := url.Values{"local": {"true"}, "filter_path": {"version,routing_table.indices.*.shards"}}
	holders := map[cluster.NodeID]bool{}
	err := c.Read(ctx, "/_cluster/state/version,routing_table/"+url.PathEscape(index), query, func(body io.Reader) error {
		routing, err := DecodeRouting(body)
		if err == nil {
			for _, at := range routing.Copies {
				if at.State == cluster.Started || at.State == cluster.Relocating {
					holders[at.Node] = true
				}
			}
		}
		return err
	})
	return holders, err
}

// SearchLocally counts the documents in the copies on the node that is asked, and in no others. That it has none of some
// shard is no error.
func (c *Client) SearchLocally(ctx context.Context, index string) error {
	var answer struct {
		Shards struct{ Successful, Failed int } `json:"_shards"`
	}
	path := "/" + url.PathEscape(index) + "/_search"
	query := url.Values{"size": {"0"}, "preference": {"_only_local"}, "filter_path": {"_shards"}}
	if err := c.ReadJSON(ctx, path, query, &answer); err != nil {
		return err
	}
	if answer.Shards.Failed > 0 || answer.Shards.Successful == 0 {
		return &cluster.Error{
			Class: cluster.Unavailable, Op: "search", What: index,
			Err: errors.New("its copy on this node does not answer"),
		}
	}
	return nil
}

// WriteEverywhere writes one small document, always the same, and waits for every copy of its shard.
func (c *Client) WriteEverywhere(ctx context.Context, index, id string, content any) error {
	query := url.Values{"wait_for_active_shards": {"all"}, "timeout": {"1s"}}
	return c.Send(ctx, http.MethodPut, "/"+url.PathEscape(index)+"/_doc/"+url.PathEscape(id), query, content, nil)
}

// CopyAt is one copy where it stands.
type CopyAt struct {
	Index   string
	Shard   int
	Node    cluster.NodeID
	Primary bool
}

// LetGo makes nodes give copies up, in one request: each is unassigned, its files stay on the node's disk, and writes no
// longer wait for it. A primary hands over to a copy that is in step; the caller has made sure that there is one outside,
// and that filters keep the copies from coming back at once. What was not done is seen in the routing table.
func (c *Client) LetGo(ctx context.Context, copies []CopyAt) error {
	type cancel struct {
		Index        string         `json:"index"`
		Shard        int            `json:"shard"`
		Node         cluster.NodeID `json:"node"`
		AllowPrimary bool           `json:"allow_primary,omitempty"`
	}
	var body struct {
		Commands []map[string]cancel `json:"commands"`
	}
	for _, at := range copies {
		body.Commands = append(body.Commands, map[string]cancel{"cancel": {at.Index, at.Shard, at.Node, at.Primary}})
	}
	query := url.Values{"explain": {"true"}} // so that one that has gone already does not hold up the others
	if product := c.known(); product.Distribution == cluster.OpenSearch || product.Version.Major < 9 {
		query.Set("metric", "none")
	}
	return c.Send(ctx, http.MethodPost, "/_cluster/reroute", query, body, nil)
}

// discard is for answers without a body.
func discard(body io.Reader) error {
	_, err := io.Copy(io.Discard, body)
	return err
}

// RosterNode is a node as a client reaches it.
type RosterNode struct {
	ID         cluster.NodeID
	Name       string
	Roles      []string
	Attributes map[string]string
	Address    string // host:port of its REST interface as it publishes it; empty where it has none
	Processors float64
	Heap       int64 // bytes, maximum
}

// Roster lists the nodes with where each can be reached.
func (c *Client) Roster(ctx context.Context) ([]RosterNode, error) {
	query := url.Values{"timeout": {"2s"}, "filter_path": {
		"nodes.*.name,nodes.*.roles,nodes.*.attributes,nodes.*.http.publish_address,nodes.*.os.allocated_processors,nodes.*.jvm.mem.heap_max_in_bytes",
	}}
	var answer struct {
		Nodes map[cluster.NodeID]struct {
			Name       string            `json:"name"`
			Roles      []string          `json:"roles"`
			Attributes map[string]string `json:"attributes"`
			HTTP       struct {
				Address string `json:"publish_address"`
			} `json:"http"`
			OS struct {
				Processors float64 `json:"allocated_processors"`
			} `json:"os"`
			JVM struct {
				Mem struct {
					Heap int64 `json:"heap_max_in_bytes"`
				} `json:"mem"`
			} `json:"jvm"`
		} `json:"nodes"`
	}
	if err := c.ReadJSON(ctx, "/_nodes/http,os,jvm", query, &answer); err != nil {
		return nil, err
	}
	nodes := make([]RosterNode, 0, len(answer.Nodes))
	for id, n := range answer.Nodes {
		nodes = append(nodes, RosterNode{id, n.Name, n.Roles, n.Attributes, reachable(n.HTTP.Address), n.OS.Processors, n.JVM.Mem.Heap})
	}
	return nodes, nil
}

// reachable is the address of "name/1.2.3.4:9200", as a node publishes one whose name it knows.
func reachable(published string) string {
	return published[strings.LastIndexByte(published, '/')+1:]
}

// ZoneCopies counts the copies in one zone by what they are at.
type ZoneCopies struct {
	Active       int `json:"active"`
	Initializing int `json:"initializing"`
	Relocating   int `json:"relocating"`
	DataNodes    int `json:"data_nodes"`
}

// ZoneHealth counts the copies of each zone (OpenSearch). A zone without data nodes is not among them.
func (c *Client) ZoneHealth(ctx context.Context, attribute string) (zones map[string]ZoneCopies, pending int, oldest time.Duration, err error) {
	query := url.Values{"level": {"awareness_attributes"}, "awareness_attribute": {attribute}, "local": {"true"}}
	var answer struct {
		Pending    int   `json:"number_of_pending_tasks"`
		Oldest     int64 `json:"task_max_waiting_in_queue_millis"`
		Attributes map[string]map[string]struct {
			Active       int `json:"active_shards"`
			Initializing int `json:"initializing_shards"`
			Relocating   int `json:"relocating_shards"`
			DataNodes    int `json:"data_nodes"`
		} `json:"awareness_attributes"`
	}
	if err := c.ReadJSON(ctx, healthPath, query, &answer); err != nil {
		return nil, 0, 0, err
	}
	zones = map[string]ZoneCopies{}
	for zone, n := range answer.Attributes[attribute] {
		zones[zone] = ZoneCopies{n.Active, n.Initializing, n.Relocating, n.DataNodes}
	}
	return zones, answer.Pending, millis(answer.Oldest), nil
}

// ZoneLoad is what one node has done since it started, as far as the health of its zone can be told from it.
type ZoneLoad struct {
	Node       cluster.NodeID
	Queries    int64         // searches of shards
	QueryTime  time.Duration // spent in them
	Searches   int64         // tasks of the search threads, done
	Writes     int64         // tasks of the write threads, done
	Rejected   int64         // tasks of both that were refused
	FailedOpen int64         // searches that went to a zone of weight 0 for want of another
	Open       int64         // connections, search contexts, scrolls and points in time that are open
	DiskTotal  int64         // bytes
	DiskFree   int64         // bytes
}

// ZoneLoads reads them. silent are the nodes that gave the others no answer in time.
func (c *Client) ZoneLoads(ctx context.Context) (loads []ZoneLoad, silent []cluster.NodeID, err error) {
	query := url.Values{"timeout": {"1s"}, "filter_path": { // for each node; whoever asks wants the answer within two
		"_nodes.failures,nodes.*.indices.search,nodes.*.http.current_open,nodes.*.thread_pool.search,nodes.*.thread_pool.write," +
			"nodes.*.weighted_routing,nodes.*.fs.total",
	}}
	path := "/_nodes/stats/indices,http,thread_pool,fs/search"
	if product := c.known(); product.Distribution == cluster.OpenSearch && product.Version.AtLeast(2, 6) {
		path = "/_nodes/stats/indices,http,thread_pool,fs,weighted_routing/search"
	}
	type pool struct {
		Completed int64 `json:"completed"`
		Rejected  int64 `json:"rejected"`
	}
	var answer struct {
		Nodes map[cluster.NodeID]struct {
			Indices struct {
				Search struct {
					Queries  int64 `json:"query_total"`
					Millis   int64 `json:"query_time_in_millis"`
					Contexts int64 `json:"open_contexts"`
					Scrolls  int64 `json:"scroll_current"`
					Points   int64 `json:"point_in_time_current"`
				} `json:"search"`
			} `json:"indices"`
			HTTP struct {
				Open int64 `json:"current_open"`
			} `json:"http"`
			Pools struct {
				Search pool `json:"search"`
				Write  pool `json:"write"`
			} `json:"thread_pool"`
			FS struct {
				Total struct {
					Bytes     int64 `json:"total_in_bytes"`
					Available int64 `json:"available_in_bytes"`
				} `json:"total"`
			} `json:"fs"`
			Weighted struct {
				Stats struct {
					FailedOpen int64 `json:"fail_open_count"`
				} `json:"stats"`
			} `json:"weighted_routing"`
		} `json:"nodes"`
		Counts struct {
			Failures []json.RawMessage `json:"failures"`
		} `json:"_nodes"`
	}
	if err := c.ReadJSON(ctx, path, query, &answer); err != nil {
		return nil, nil, err
	}
	for id, n := range answer.Nodes {
		s := n.Indices.Search
		loads = append(loads, ZoneLoad{
			Node: id, Queries: s.Queries, QueryTime: time.Duration(s.Millis) * time.Millisecond,
			Searches: n.Pools.Search.Completed, Writes: n.Pools.Write.Completed, Rejected: n.Pools.Search.Rejected + n.Pools.Write.Rejected,
			FailedOpen: n.Weighted.Stats.FailedOpen, Open: n.HTTP.Open + s.Contexts + s.Scrolls + s.Points,
			DiskTotal: n.FS.Total.Bytes, DiskFree: n.FS.Total.Available,
		})
	}
	for _, failure := range answer.Counts.Failures {
		var of struct {
			Node cluster.NodeID `json:"node_id"`
		}
		if json.Unmarshal(failure, &of) == nil && of.Node != "" { // a failure of another shape names nobody
			silent = append(silent, of.Node)
		}
	}
	return loads, silent, nil
}

// InSync reads which copies of each shard the primary waits for, as the node that is asked has applied it: allocation ids
// by index and shard number. One that is not among them may lack writes.
func (c *Client) InSync(ctx context.Context) (map[string]map[int][]string, error) {
	query := url.Values{"local": {"true"}, "filter_path": {"metadata.indices.*.in_sync_allocations"}}
	var answer struct {
		Metadata struct {
			Indices map[string]struct {
				InSync map[int][]string `json:"in_sync_allocations"`
			} `json:"indices"`
		} `json:"metadata"`
	}
	if err := c.ReadJSON(ctx, "/_cluster/state/metadata", query, &answer); err != nil {
		return nil, err
	}
	all := make(map[string]map[int][]string, len(answer.Metadata.Indices))
	for index, of := range answer.Metadata.Indices {
		all[index] = of.InSync
	}
	return all, nil
}

// Self is the id of the node that answers.
func (c *Client) Self(ctx context.Context) (cluster.NodeID, error) {
	var answer struct {
		Nodes map[cluster.NodeID]json.RawMessage `json:"nodes"`
	}
	if err := c.ReadJSON(ctx, "/_nodes/_local/http", url.Values{"filter_path": {"nodes.*.name"}}, &answer); err != nil {
		return "", err
	}
	for id := range answer.Nodes {
		return id, nil
	}
	return "", &cluster.Error{Class: cluster.Incomplete, Op: "find out which node answers", Err: errors.New("it does not say")}
}

// Answered tells whether somebody answered, whatever the answer was.
func Answered(err error) bool {
	var status *StatusError
	return err == nil || errors.As(err, &status)
}
