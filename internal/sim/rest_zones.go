package sim

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// weightRoutes are the endpoints about the weights of zones (OpenSearch 2.4 and newer).
func (c *Cluster) weightRoutes() []route {
	if !c.hasWeights() {
		return nil
	}
	get, put, del := http.MethodGet, http.MethodPut, http.MethodDelete
	const weights = "/_cluster/routing/awareness/{attribute}/weights"
	return []route{ // none of them takes a timeout
		{method: get, path: weights, master: true, params: "local", do: (*call).getWeights},
		{method: put, path: weights, master: true, write: true, do: (*call).putWeights},
		{method: del, path: weights, master: true, write: true, do: (*call).deleteWeights},
		{method: del, path: "/_cluster/routing/awareness/weights", master: true, write: true, do: (*call).deleteWeights},
	}
}

func (c *Cluster) decommissionRoutes() []route {
	if !c.hasWeights() {
		return nil
	}
	get, put, del := http.MethodGet, http.MethodPut, http.MethodDelete
	const decommission = "/_cluster/decommission/awareness"
	return []route{
		{
			method: put, path: decommission + "/{attribute}/{value}", master: true, write: true, params: "no_delay delay_timeout",
			do: (*call).putDecommission,
		},
		{method: get, path: decommission + "/{attribute}/_status", master: true, do: (*call).getDecommission},
		{method: del, path: decommission, master: true, write: true, do: (*call).deleteDecommission},
	}
}

func (c *Cluster) votingRoutes(masterTimeout string) []route {
	if !c.elastic() {
		masterTimeout = ""
	}
	const path = "/_cluster/voting_config_exclusions"
	return []route{
		{method: http.MethodPost, path: path, master: true, write: true, params: "node_names node_ids timeout" + masterTimeout, do: (*call).addExclusions},
		{method: http.MethodDelete, path: path, master: true, write: true, params: "wait_for_removal" + masterTimeout, do: (*call).clearExclusions},
	}
}

func notValid(format string, args ...any) *apiError {
	e := illegal("Validation Failed: 1: "+format+";", args...)
	e.kind = "action_request_validation_exception"
	return e
}

func unparsed(format string, args ...any) *apiError {
	e := illegal(format, args...)
	e.kind = "parse_exception"
	return e
}

// noVersion stands for a version the request did not give.
const noVersion = -2

// weightsRequest is what a body says about weights. The values of numbers not in quotes are refused: so does the server.
func (cl *call) weightsRequest() (values map[string]float64, version int64, bad *apiError) {
	d := json.NewDecoder(bytes.NewReader(cl.body))
	d.UseNumber()
	version = noVersion
	next := func() json.Token {
		token, err := d.Token()
		if err != nil && bad == nil {
			bad = badJSON("request body is no JSON object: %v", err)
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				bad = &apiError{status: 400, kind: cl.c.cutShort(), reason: "Unexpected end-of-input: expected close marker for Object"}
			}
		}
		return token
	}
	attribute := cl.vars["attribute"]
	if next() != json.Delim('{') {
		return nil, 0, unparsed("expected object")
	}
	members := 0
	for bad == nil {
		key := next()
		if key == json.Delim('}') || bad != nil {
			break
		}
		members++
		switch key {
		case "_version":
			number, ok := next().(json.Number)
			if v, err := number.Int64(); ok && err == nil {
				version = v
			} else if bad == nil {
				bad = unparsed("failed to parse weighted routing request [%s], unknown type", attribute)
			}
		case "weights":
			values = map[string]float64{}
			if next() != json.Delim('{') && bad == nil {
				bad = unparsed("failed to parse weighted routing request object [%s]", attribute)
			}
			for bad == nil {
				name := next()
				if name == json.Delim('}') || bad != nil {
					break
				}
				text, ok := next().(string)
				if !ok && bad == nil {
					bad = unparsed("failed to parse weighted routing request attribute [null], unknown type")
				}
				x, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
				if err != nil && bad == nil {
					bad = illegal("For input string: %q", text)
					bad.kind = "number_format_exception"
				}
				values[name.(string)] = x
			}
		default:
			bad = unparsed("failed to parse weighted routing request object [%s]", key)
		}
	}
	if bad == nil && members == 0 {
		bad = unparsed("Empty request body")
	}
	return values, version, bad
}

func (cl *call) putWeights() *apiError {
	c, attribute := cl.c, cl.vars["attribute"]
	if len(cl.body) == 0 { // the server's own mistake
		return &apiError{
			status: 500, kind: "null_pointer_exception",
			reason: `Cannot invoke "org.opensearch.cluster.routing.WeightedRouting.attributeName()" because "this.weightedRouting" is null`,
		}
	}
	values, version, err := cl.weightsRequest()
	if err != nil {
		return err
	}
	zeros := 0
	for _, x := range values {
		if x == 0 {
			zeros++
		}
	}
	switch most := len(values) / 2; {
	case len(values) == 0:
		return notValid("Weights are missing")
	case version == noVersion:
		return notValid("Version is missing")
	case zeros > most:
		return notValid("There are too many attribute values [%v] given zero weight [%d]. Maximum expected number of routing weights having zero weight is [%d]",
			javaMap(values), zeros, most)
	case !c.isAware(attribute):
		return notValid("invalid awareness attribute %s requested for weighted routing", attribute)
	}
	if err := c.setWeights(attribute, values, version); err != nil {
		return err
	}
	return cl.acknowledge()
}

func (cl *call) deleteWeights() *apiError {
	c, attribute := cl.c, cl.vars["attribute"]
	version := int64(noVersion)
	if len(cl.body) > 0 {
		body, err := cl.decode()
		if err != nil {
			return err
		}
		if number, ok := body["_version"].(json.Number); ok {
			if v, err := number.Int64(); err == nil {
				version = v
			}
		}
	}
	switch {
	case attribute != "" && !c.isAware(attribute):
		return notValid("invalid awareness attribute %s requested for weighted routing", attribute)
	case attribute != "" && (c.weighted == nil || c.weighted.attribute != attribute):
		return &apiError{
			status: 404, kind: "resource_not_found_exception",
			reason: "weighted routing metadata does not have weights set for awareness attribute " + attribute,
		}
	}
	if err := c.dropWeights(version); err != nil {
		return err
	}
	return cl.acknowledge()
}

// getWeights answers with the weights there are, whatever attribute the path names: so does the server.
func (cl *call) getWeights() *apiError {
	c, w := cl.c, cl.w
	if attribute := cl.vars["attribute"]; !c.isAware(attribute) {
		return notValid("invalid awareness attribute %s requested for weighted routing", attribute)
	}
	if !w.obj("") {
		return nil
	}
	if weights := cl.view().weighted; weights != nil {
		if w.obj("weights") {
			for _, v := range sortedKeys(weights.values) {
				w.str(v, javaDouble(weights.values[v]))
			}
			w.end()
		}
		w.int("_version", weights.version)
		w.bool("discovered_cluster_manager", cl.hasMaster())
	}
	w.end()
	return nil
}

// javaMap are values as the servers' messages print them: {a=1.0, b=0.0}.
func javaMap(values map[string]float64) string {
	var parts []string
	for _, v := range sortedKeys(values) {
		parts = append(parts, v+"="+javaDouble(values[v]))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// javaDouble is a number as the servers print it: 1.0, 0.5.
func javaDouble(x float64) string {
	text := strconv.FormatFloat(x, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

// stateWeights writes the weights as the metadata holds them.
func (cl *call) stateWeights() {
	w, weights := cl.w, cl.view().weighted
	if weights == nil || !w.obj("weighted_shard_routing") {
		return
	}
	if w.obj("awareness") {
		if weights.attribute != "" && w.obj(weights.attribute) {
			for _, v := range sortedKeys(weights.values) {
				w.num(v, weights.values[v])
			}
			w.end()
		}
		w.end()
	}
	w.int("_version", weights.version)
	w.end()
}

// zoneHealth writes how the copies of each value of an awareness attribute are.
func (cl *call) zoneHealth() {
	c, w := cl.c, cl.w
	attributes := c.rules.awareness
	if asked := cl.query.Get("awareness_attribute"); asked != "" {
		attributes = []string{asked}
	}
	if !w.obj("awareness_attributes") {
		return
	}
	for _, attribute := range attributes {
		if !w.obj(attribute) {
			continue
		}
		for _, value := range c.awarenessValues(attribute) {
			cl.valueHealth(attribute, value)
		}
		w.end()
	}
	w.end()
}

// valueHealth writes nothing for a value without a data node: it is missing, not zero.
func (cl *call) valueHealth(attribute, value string) {
	c, w := cl.c, cl.w
	var n Counts
	nodes := 0
	for _, node := range c.topology.data {
		if node.zone[attribute] != value {
			continue
		}
		nodes++
		for _, s := range node.copies {
			n.add(s)
		}
	}
	if nodes == 0 || !w.obj(value) {
		return
	}
	weight := 1.0
	if x := c.weighted; x != nil && x.attribute == attribute {
		if set, ok := x.values[value]; ok {
			weight = set
		}
	}
	missing := -1 // it is not known how many there should be
	if c.settings.text("cluster.routing.allocation.awareness.balance") == "true" {
		missing = c.configuredCopies()/max(len(c.awarenessValues(attribute)), 1) - n.Started - n.Relocating - n.Initializing
	}
	w.int("active_shards", int64(n.Started+n.Relocating))
	w.int("initializing_shards", int64(n.Initializing))
	w.int("relocating_shards", int64(n.Relocating))
	w.int("unassigned_shards", int64(missing))
	w.int("data_nodes", int64(nodes))
	w.num("weight", weight)
	w.end()
}

func (c *Cluster) configuredCopies() int {
	count := 0
	for range c.allCopies {
		count++
	}
	return count
}

// zonedHealth refuses what a health request must not ask about zones, and what the node that answers is not fit for.
func (cl *call) zonedHealth() *apiError {
	c := cl.c
	zones := cl.query.Get("level") == "awareness_attributes"
	if cl.query.Has("awareness_attribute") && !zones {
		return notValid("level=awareness_attributes is required with awareness_attribute parameter")
	}
	if !cl.flag("ensure_node_weighed_in") {
		return nil
	}
	switch n := cl.node; {
	case !cl.flag("local"):
		return notValid("not a local request to ensure local node commissioned or weighed in")
	case n == nil:
		return c.noMaster()
	case cl.stale() != nil && c.refuses(n):
		return &apiError{status: http.StatusFailedDependency, kind: "node_decommissioned_exception", reason: "local node is decommissioned"}
	case !cl.hasMaster():
		return c.noMaster()
	case n.isData() && c.weighedAway(n):
		return &apiError{status: http.StatusMisdirectedRequest, kind: "node_weighed_away_exception", reason: "local node is weighed away"}
	}
	return nil
}

// healthParams are what health takes about zones.
func (c *Cluster) healthParams() string {
	switch {
	case c.elastic() || !c.at(2, 5):
		return ""
	case !c.at(2, 6):
		return " awareness_attribute"
	}
	return " awareness_attribute ensure_node_weighed_in"
}

// stateCoordination writes who votes.
func (cl *call) stateCoordination() {
	v, w := cl.view(), cl.w
	if !w.obj("cluster_coordination") {
		return
	}
	w.int("term", cl.c.term)
	w.strs("last_committed_config", v.voters)
	w.strs("last_accepted_config", v.voters)
	if w.arr("voting_config_exclusions") {
		for _, e := range v.exclusions {
			if w.obj("") {
				w.str("node_id", e.id)
				w.str("node_name", e.name)
				w.end()
			}
		}
		w.end()
	}
	w.end()
}

func (cl *call) stateDecommission() {
	w, d := cl.w, cl.view().decommission
	if d == nil || !w.obj("decommissionedAttribute") {
		return
	}
	if w.obj("awareness") {
		w.str(d.attribute, d.value)
		w.end()
	}
	w.str("status", d.status)
	w.str("requestID", d.request)
	w.end()
}

// putDecommission answers once nobody of the zone leads or votes any more; the status is still INIT then.
func (cl *call) putDecommission() *apiError {
	c := cl.c
	drain := defaultDrain
	if text := cl.query.Get("delay_timeout"); text != "" {
		d, err := parseTime(text)
		if err != nil {
			return illegal("failed to parse setting [delay_timeout] with value [%s] as a time value: unit is missing or unrecognized", text)
		}
		if drain = d; cl.flag("no_delay") {
			return notValid("Invalid decommission request. no_delay is true and delay_timeout is set to %d] Seconds", int(d.Seconds()))
		}
	}
	if cl.flag("no_delay") {
		drain = 0
	}
	if err := c.decommissioning(cl.vars["attribute"], cl.vars["value"], drain); err != nil {
		return err
	}
	d := c.decommission
	cl.then = func() *apiError {
		err := cl.await(decommissionLimit+time.Minute, func() bool {
			return c.decommission != d || d.status != decommissionInit || c.votesGone()
		})
		c.mu.RLock()
		defer c.mu.RUnlock()
		if err == nil && d.status == decommissionFailed {
			return timedOut("timed out waiting for voting config exclusions [%v] to be removed from the voting configuration", d.value)
		}
		if err != nil {
			return err
		}
		return cl.acknowledge()
	}
	return nil
}

func timedOut(format string, args ...any) *apiError {
	e := illegal(format, args...)
	e.status, e.kind = http.StatusInternalServerError, "timeout_exception"
	return e
}

func (cl *call) getDecommission() *apiError {
	d, w := cl.view().decommission, cl.w
	if !w.obj("") {
		return nil
	}
	if d != nil && d.attribute == cl.vars["attribute"] {
		w.str(d.value, strings.ToUpper(d.status))
	}
	w.end()
	return nil
}

func (cl *call) deleteDecommission() *apiError {
	cl.c.recommission()
	return cl.acknowledge()
}

// absent stands for the half of an exclusion that nobody knows.
const absent = "_absent_"

// addExclusions takes votes away and answers, with nothing, when nobody of those votes or leads any more.
func (cl *call) addExclusions() *apiError {
	c := cl.c
	byName, byID := splitList(cl.query.Get("node_names")), splitList(cl.query.Get("node_ids"))
	if (len(byName) == 0) == (len(byID) == 0) {
		return illegal("Please set node identifiers correctly. One and only one of [node_name], [node_names] and [node_ids] has to be set")
	}
	limit, err := cl.timeout(30 * time.Second)
	if err != nil {
		return err
	}
	var add []exclusion
	for _, name := range append(byName, byID...) {
		e := exclusion{absent, name}
		if len(byID) > 0 {
			e = exclusion{name, absent}
		}
		if n := c.node(name); n != nil && n.eligible() {
			e = exclusion{n.id, n.spec.Name}
		}
		if !slices.Contains(c.exclusions, e) {
			add = append(add, e)
		}
	}
	if most := c.rules.exclusions; len(c.exclusions)+len(add) > most {
		return illegal("add voting config exclusions request for %v would add [%d] exclusions to the existing [%d] which would exceed the maximum of [%d] set by [cluster.max_voting_config_exclusions]",
			append(byName, byID...), len(add), len(c.exclusions), most)
	}
	c.unvote(add)
	cl.empty = true
	cl.then = func() *apiError {
		if err := cl.await(limit, c.votesGone); err != nil {
			return err
		}
		c.mu.RLock()
		defer c.mu.RUnlock()
		if !c.votesGone() {
			return timedOut("timed out waiting for voting config exclusions %v to take effect", append(byName, byID...))
		}
		return nil
	}
	return nil
}

// clearExclusions gives votes back; unless told otherwise it waits until the nodes are gone, as for a planned removal.
func (cl *call) clearExclusions() *apiError {
	c := cl.c
	cl.empty = true
	if wait := cl.query.Get("wait_for_removal"); wait == "false" {
		c.revote()
		return nil
	}
	gone := func() bool {
		return !slices.ContainsFunc(c.exclusions, func(e exclusion) bool { return c.nodeByID[e.id] != nil })
	}
	cl.then = func() *apiError {
		if err := cl.await(30*time.Second, gone); err != nil {
			return err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if !gone() {
			return timedOut("timed out waiting for removal of nodes; if nodes should not be removed, set waitForRemoval to false. %v", c.exclusions)
		}
		c.revote()
		return nil
	}
	return nil
}
