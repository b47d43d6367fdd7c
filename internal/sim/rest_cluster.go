package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// routes are the endpoints this product has.
func (c *Cluster) routes() []route {
	masterTimeout := " master_timeout"
	if !c.elastic() && c.at(2, 0) {
		masterTimeout = " master_timeout cluster_manager_timeout"
	}
	const expand = " expand_wildcards allow_no_indices ignore_unavailable"
	const cat = " h s v help bytes time" + " local"
	state := "local flat_settings wait_for_metadata_version wait_for_timeout" + masterTimeout + expand
	get, put, post, del := http.MethodGet, http.MethodPut, http.MethodPost, http.MethodDelete
	list := []route{
		{method: get, path: "/", do: (*call).root},
		{
			method: get, path: "/_cluster/health", master: true, wait: (*call).awaitHealth, do: (*call).health,
			params: "wait_for_status wait_for_no_relocating_shards wait_for_no_initializing_shards wait_for_nodes wait_for_events " +
				"wait_for_active_shards timeout level local" + masterTimeout + " expand_wildcards" + c.healthParams(),
		},
		{method: get, path: "/_cluster/state", master: true, params: state, do: (*call).state},
		{method: get, path: "/_cluster/state/{metrics}", master: true, params: state, do: (*call).state},
		{method: get, path: "/_cluster/state/{metrics}/{indices}", master: true, params: state, do: (*call).state},
		{method: get, path: "/_cluster/settings", master: true, params: "include_defaults flat_settings local timeout" + masterTimeout, do: (*call).settings},
		{method: put, path: "/_cluster/settings", master: true, write: true, params: "flat_settings timeout" + masterTimeout, do: (*call).putSettings},
		{method: get, path: "/_cluster/pending_tasks", master: true, params: "local" + masterTimeout, do: (*call).pendingTasks},
		{
			method: post, path: "/_cluster/reroute", master: true, write: true,
			params: "dry_run explain metric retry_failed timeout" + masterTimeout, do: (*call).reroute,
		},
		{method: get, path: "/_cluster/allocation/explain", master: true, params: "include_yes_decisions include_disk_info" + masterTimeout, do: (*call).explain},
		{method: post, path: "/_cluster/allocation/explain", master: true, params: "include_yes_decisions include_disk_info" + masterTimeout, do: (*call).explain},
		{method: get, path: "/_nodes", params: "flat_settings timeout", wait: (*call).awaitInfo, do: (*call).nodesInfo},
		{method: get, path: "/_nodes/stats", params: nodeStatsParams, wait: (*call).awaitStats, do: (*call).nodesStats},
		{method: get, path: "/_nodes/stats/{metrics}", params: nodeStatsParams, wait: (*call).awaitStats, do: (*call).nodesStats},
		{method: get, path: "/_nodes/stats/{metrics}/{sub}", params: nodeStatsParams, wait: (*call).awaitStats, do: (*call).nodesStats},
	}
	if c.elastic() && !c.cfg.OSS && c.at(7, 13) {
		list = append(list,
			route{method: get, path: "/_nodes/shutdown", master: true, do: (*call).shutdowns},
			route{method: get, path: "/_nodes/{nodes}/shutdown", master: true, do: (*call).shutdowns},
			route{method: put, path: "/_nodes/{nodes}/shutdown", master: true, write: true, do: (*call).putShutdown},
			route{method: del, path: "/_nodes/{nodes}/shutdown", master: true, write: true, do: (*call).deleteShutdown})
	}
	list = append(list,
		route{method: get, path: "/_nodes/{nodes}", params: "flat_settings timeout", wait: (*call).awaitInfo, do: (*call).nodesInfo},
		route{method: get, path: "/_nodes/{nodes}/stats", params: nodeStatsParams, wait: (*call).awaitStats, do: (*call).nodesStats},
		route{method: get, path: "/_nodes/{nodes}/stats/{metrics}", params: nodeStatsParams, wait: (*call).awaitStats, do: (*call).nodesStats},
		route{method: get, path: "/_nodes/{nodes}/stats/{metrics}/{sub}", params: nodeStatsParams, wait: (*call).awaitStats, do: (*call).nodesStats},
		route{method: get, path: "/_nodes/{nodes}/{metrics}", params: "flat_settings timeout", wait: (*call).awaitInfo, do: (*call).nodesInfo},
	)
	if c.keepsDesiredBalance() {
		list = append(list,
			route{method: get, path: "/_internal/desired_balance", master: true, do: (*call).desiredBalance},
			route{method: del, path: "/_internal/desired_balance", master: true, write: true, do: (*call).deleteDesiredBalance})
	}
	list = append(list, c.weightRoutes()...)
	list = append(list, c.decommissionRoutes()...)
	list = append(list, c.votingRoutes(masterTimeout)...)
	list = append(list, c.catRoutes(cat)...)
	return append(list, c.indexRoutes(expand, masterTimeout)...)
}

func (cl *call) root() *apiError {
	c, w := cl.c, cl.w
	if !w.obj("") {
		return nil
	}
	name := ""
	if cl.node != nil {
		name = cl.node.spec.Name
	}
	w.str("name", name)
	w.str("cluster_name", c.cfg.Name)
	w.str("cluster_uuid", c.uuid)
	major, _, _ := strings.Cut(c.cfg.Version, ".")
	lucene := map[string]string{
		"opensearch1": "8.10.1", "opensearch2": "9.12.3", "opensearch3": "10.3.2",
		"elasticsearch7": "8.11.3", "elasticsearch8": "9.12.2", "elasticsearch9": "10.3.2",
	}[c.cfg.Distribution+major]
	if w.obj("version") {
		if c.elastic() {
			w.str("number", c.cfg.Version)
			flavor := "default"
			if c.cfg.OSS {
				flavor = "unknown"
			}
			w.str("build_flavor", flavor)
		} else {
			w.str("distribution", "opensearch")
			w.str("number", c.cfg.Version)
		}
		w.str("build_type", "tar")
		w.str("build_hash", "0000000000000000000000000000000000000000")
		w.str("build_date", "2025-06-01T00:00:00.000000000Z")
		w.bool("build_snapshot", false)
		w.str("lucene_version", lucene)
		wire := map[string]string{
			"opensearch1": "6.8.0", "opensearch2": "7.10.0", "opensearch3": "2.19.0",
			"elasticsearch7": "6.8.0", "elasticsearch8": "7.17.0", "elasticsearch9": "8.19.0",
		}[c.cfg.Distribution+major]
		w.str("minimum_wire_compatibility_version", wire)
		w.str("minimum_index_compatibility_version", map[string]string{
			"opensearch1": "6.0.0-beta1", "opensearch2": "7.0.0", "opensearch3": "2.0.0",
			"elasticsearch7": "6.0.0-beta1", "elasticsearch8": "7.0.0", "elasticsearch9": "8.0.0",
		}[c.cfg.Distribution+major])
		w.end()
	}
	if c.elastic() {
		w.str("tagline", "You Know, for Search")
	} else {
		w.str("tagline", "The OpenSearch Project: https://opensearch.org/")
	}
	w.end()
	return nil
}

// statusOf is green, yellow or red. A primary that never was anywhere does not make it red as long as it is coming up.
func (c *Cluster) statusOf(n Counts) string {
	for s := range c.allCopies {
		if s.primary && !s.active() && (s.lastNode != nil || s.why.failed > 0 || s.why.status == "deciders_no") {
			return "red"
		}
	}
	if n.Unassigned > 0 || n.Initializing > 0 {
		return "yellow"
	}
	return "green"
}

func (c *Cluster) delayed() int {
	count := 0
	for _, s := range c.unassigned {
		if s.why.until > c.now {
			count++
		}
	}
	return count
}

// healthMet tells whether the waits a health request asks for hold.
func (cl *call) healthMet() (bool, *apiError) {
	c := cl.c
	n := c.counts()
	ok := true
	if cl.flag("wait_for_no_relocating_shards") {
		ok = ok && n.Relocating == 0
	}
	if cl.flag("wait_for_no_initializing_shards") {
		ok = ok && n.Initializing == 0
	}
	rank := map[string]int{"green": 2, "yellow": 1, "red": 0}
	if want := cl.query.Get("wait_for_status"); want != "" {
		level, known := rank[strings.ToLower(want)]
		if !known {
			return false, illegal("unknown cluster health status [%s]", want)
		}
		ok = ok && rank[c.statusOf(n)] >= level
	}
	if want := cl.query.Get("wait_for_nodes"); want != "" {
		met, err := compareNodes(want, len(c.nodes))
		if err != nil {
			return false, err
		}
		ok = ok && met
	}
	if cl.query.Get("wait_for_active_shards") == "all" {
		ok = ok && n.Unassigned == 0 && n.Initializing == 0
	}
	return ok, nil
}

// compareNodes reads ">=3", "<5", "ge(3)", "3".
func compareNodes(text string, have int) (bool, *apiError) {
	op, rest := "", text
	for _, p := range []string{">=", "<=", ">", "<"} {
		if after, ok := strings.CutPrefix(text, p); ok {
			op, rest = p, after
			break
		}
	}
	if i := strings.IndexByte(text, '('); op == "" && i > 0 && strings.HasSuffix(text, ")") {
		op = map[string]string{"ge": ">=", "le": "<=", "gt": ">", "lt": "<"}[text[:i]]
		rest = text[i+1 : len(text)-1]
	}
	want, err := strconv.Atoi(rest)
	if err != nil {
		return false, illegal("failed to parse [wait_for_nodes] with value [%s]", text)
	}
	switch op {
	case ">=":
		return have >= want, nil
	case "<=":
		return have <= want, nil
	case ">":
		return have > want, nil
	case "<":
		return have < want, nil
	}
	return have == want, nil
}

// awaitHealth lets virtual time pass until the request's conditions hold.
func (cl *call) awaitHealth() *apiError {
	limit, bad := cl.timeout(30 * time.Second)
	if bad != nil {
		return bad
	}
	var failed *apiError
	err := cl.c.waitFor(cl.r.Context(), limit, func() bool {
		met, e := cl.healthMet()
		failed = e
		return met || e != nil
	})
	if err != nil {
		return &apiError{status: 503, kind: "timeout_exception", reason: err.Error()}
	}
	return failed
}

func (cl *call) health() *apiError {
	c, w := cl.c, cl.w
	if err := cl.zonedHealth(); err != nil {
		return err
	}
	n := c.counts()
	met, err := cl.healthMet()
	if err != nil {
		return err
	}
	if !met {
		cl.status = http.StatusRequestTimeout
	}
	if !w.obj("") {
		return nil
	}
	w.str("cluster_name", c.cfg.Name)
	status, seen := c.statusOf(n), cl.view()
	if cl.stale() != nil {
		status = "red"
	}
	w.str("status", status)
	w.bool("timed_out", !met)
	w.int("number_of_nodes", int64(len(seen.nodes)))
	w.int("number_of_data_nodes", int64(seen.data))
	if !c.elastic() {
		w.bool("discovered_master", cl.hasMaster())
		if c.at(2, 0) {
			w.bool("discovered_cluster_manager", cl.hasMaster())
		}
	}
	active, primaries, total := 0, 0, 0
	for s := range c.allCopies {
		total++
		if s.active() {
			active++
			if s.primary {
				primaries++
			}
		}
	}
	w.int("active_primary_shards", int64(primaries))
	w.int("active_shards", int64(active))
	w.int("relocating_shards", int64(n.Relocating))
	w.int("initializing_shards", int64(n.Initializing))
	w.int("unassigned_shards", int64(n.Unassigned))
	if c.elastic() && c.at(8, 15) {
		w.int("unassigned_primary_shards", int64(n.UnassignedPrimaries))
	}
	w.int("delayed_unassigned_shards", int64(c.delayed()))
	w.int("number_of_pending_tasks", int64(len(c.tasks)))
	w.int("number_of_in_flight_fetch", 0)
	w.int("task_max_waiting_in_queue_millis", c.longestTask())
	percent := 100.0
	if total > 0 {
		percent = 100 * float64(active) / float64(total)
	}
	w.num("active_shards_percent_as_number", percent)
	switch level := cl.query.Get("level"); {
	case level == "indices" || level == "shards":
		cl.healthIndices()
	case level == "awareness_attributes" && c.hasWeights() && c.at(2, 5):
		cl.zoneHealth()
	}
	w.end()
	return nil
}

func (cl *call) healthIndices() {
	c, w := cl.c, cl.w
	if !w.obj("indices") {
		return
	}
	for _, idx := range c.indices {
		if !w.obj(idx.name) {
			continue
		}
		var n Counts
		for _, g := range idx.groups {
			for _, s := range g.copies {
				n.add(s)
			}
		}
		w.str("status", map[bool]string{true: "red", false: map[bool]string{true: "yellow", false: "green"}[n.Unassigned+n.Initializing > 0]}[n.UnassignedPrimaries > 0])
		w.int("number_of_shards", int64(len(idx.groups)))
		w.int("number_of_replicas", int64(idx.spec.Replicas))
		w.int("active_shards", int64(n.Started+n.Relocating))
		w.int("relocating_shards", int64(n.Relocating))
		w.int("initializing_shards", int64(n.Initializing))
		w.int("unassigned_shards", int64(n.Unassigned))
		w.end()
	}
	w.end()
}

// pendingTask is a task in the master's queue, put there by a scenario.
type pendingTask struct {
	source   string
	priority string
	since    time.Duration
	until    time.Duration
}

// Busy fills the master's queue with so many tasks for d of virtual time.
func (c *Cluster) Busy(count int, d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for range count {
		c.tasks = append(c.tasks, pendingTask{"create-index-template [busy]", "NORMAL", c.now, c.now + d})
	}
	c.after(d, func() {
		c.tasks = slices.DeleteFunc(c.tasks, func(t pendingTask) bool { return t.until <= c.now })
	})
}

func (c *Cluster) longestTask() int64 {
	var longest time.Duration
	for _, t := range c.tasks {
		longest = max(longest, c.now-t.since)
	}
	return longest.Milliseconds()
}

func (cl *call) pendingTasks() *apiError {
	w := cl.w
	if !w.obj("") {
		return nil
	}
	if w.arr("tasks") {
		for i, t := range cl.c.tasks {
			if w.obj("") {
				w.int("insert_order", int64(i+1))
				w.str("priority", t.priority)
				w.str("source", t.source)
				w.bool("executing", i == 0)
				w.int("time_in_queue_millis", (cl.c.now - t.since).Milliseconds())
				w.str("time_in_queue", (cl.c.now - t.since).String())
				w.end()
			}
		}
		w.end()
	}
	w.end()
	return nil
}

// readSettings reads {"a":{"b":1},"a.c":null} as flat keys; numbers and booleans become text.
func readSettings(prefix string, v any, into map[string]any) *apiError {
	switch v := v.(type) {
	case nil:
		into[prefix] = nil
	case string:
		into[prefix] = v
	case bool:
		into[prefix] = strconv.FormatBool(v)
	case json.Number:
		into[prefix] = v.String()
	case []any:
		var list []string
		for _, e := range v {
			inner := map[string]any{}
			if err := readSettings("", e, inner); err != nil {
				return err
			}
			text, ok := inner[""].(string)
			if !ok {
				return badJSON("lists in settings hold plain values: [%s]", prefix)
			}
			list = append(list, text)
		}
		into[prefix] = list
	case map[string]any:
		for key, inner := range v {
			name := key
			if prefix != "" {
				name = prefix + "." + key
			}
			if err := readSettings(name, inner, into); err != nil {
				return err
			}
		}
	}
	return nil
}

// cutShort is what a version calls JSON that ends too soon.
func (c *Cluster) cutShort() string {
	switch {
	case c.elastic() && c.at(9, 0):
		return "x_content_e_o_f_exception"
	case c.elastic() && c.at(8, 0):
		return "x_content_parse_exception"
	case !c.elastic() && c.at(3, 0):
		return "unexpected_end_of_input_exception"
	}
	return "json_e_o_f_exception"
}

// decode reads the body as one JSON object.
func (cl *call) decode() (map[string]any, *apiError) {
	d := json.NewDecoder(strings.NewReader(string(cl.body)))
	d.UseNumber()
	var v map[string]any
	if err := d.Decode(&v); errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return nil, &apiError{status: 400, kind: cl.c.cutShort(), reason: "Unexpected end-of-input: expected close marker for Object"}
	} else if err != nil {
		return nil, badJSON("request body is no JSON object: %v", err)
	}
	return v, nil
}

func (cl *call) putSettings() *apiError {
	body, err := cl.decode()
	if err != nil {
		return err
	}
	changes := map[string]map[string]any{"persistent": {}, "transient": {}}
	for key, value := range body {
		into, ok := changes[key]
		if !ok {
			return illegal("unknown field [%s], expected persistent or transient", key)
		}
		inner, ok := value.(map[string]any)
		if !ok {
			return badJSON("[%s] is no object", key)
		}
		if err := readSettings("", inner, into); err != nil {
			return err
		}
	}
	if len(changes["persistent"])+len(changes["transient"]) == 0 {
		return &apiError{status: 400, kind: "action_request_validation_exception", reason: "Validation Failed: 1: no settings to update;"}
	}
	if err := cl.c.changeSettings(changes["persistent"], changes["transient"]); err != nil {
		return err
	}
	if len(changes["transient"]) > 0 && cl.c.elastic() && cl.c.at(7, 16) {
		cl.warn = append(cl.warn, "[transient settings removal] Updating cluster settings through transientSettings is deprecated. Use persistent settings instead.")
	}
	if !cl.w.obj("") {
		return nil
	}
	cl.w.bool("acknowledged", true)
	for _, kind := range []string{"persistent", "transient"} {
		values := maps.Clone(changes[kind])
		maps.DeleteFunc(values, func(_ string, v any) bool { return v == nil })
		cl.writeSettings(kind, values)
	}
	cl.w.end()
	return nil
}

func (cl *call) settings() *apiError {
	c := cl.c
	if !cl.w.obj("") {
		return nil
	}
	cl.writeSettings("persistent", c.settings.persistent)
	cl.writeSettings("transient", c.settings.transient)
	if cl.flag("include_defaults") {
		defaults := map[string]any{"cluster.name": c.cfg.Name}
		for key, s := range c.settings.known {
			if _, ok := c.settings.persistent[key]; ok {
				continue
			}
			if _, ok := c.settings.transient[key]; ok {
				continue
			}
			defaults[key] = s.fallback
			if strings.HasSuffix(key, "awareness.attributes") {
				defaults[key] = splitList(s.fallback)
			}
		}
		for key, v := range c.settings.yml {
			defaults[key] = v
			if strings.HasSuffix(key, "awareness.attributes") || strings.HasSuffix(key, ".values") {
				defaults[key] = splitList(v)
			}
		}
		cl.writeSettings("defaults", defaults)
	}
	cl.w.end()
	return nil
}

// writeSettings writes settings flat or nested, as asked.
func (cl *call) writeSettings(name string, values map[string]any) {
	if !cl.w.obj(name) {
		return
	}
	if cl.flag("flat_settings") {
		for _, key := range sortedKeys(values) {
			cl.w.value(key, values[key])
		}
	} else {
		cl.w.tree(nest(values))
	}
	cl.w.end()
}

// nest turns dotted keys into nested maps. Where one key is the beginning of another, the longer one stays dotted, as
// the servers print it.
func nest(values map[string]any) map[string]any {
	root := map[string]any{}
	for _, key := range sortedKeys(values) {
		at, rest := root, key
		for {
			head, tail, more := strings.Cut(rest, ".")
			if !more {
				at[rest] = values[key]
				break
			}
			next, ok := at[head].(map[string]any)
			if _, taken := at[head]; taken && !ok {
				at[rest] = values[key]
				break
			}
			if next == nil {
				next = map[string]any{}
				at[head] = next
			}
			at, rest = next, tail
		}
	}
	return root
}

// tree writes the members of nested maps of settings.
func (w *jsonWriter) tree(values map[string]any) {
	for _, key := range sortedKeys(values) {
		if inner, ok := values[key].(map[string]any); ok {
			if w.obj(key) {
				w.tree(inner)
				w.end()
			}
		} else {
			w.value(key, values[key])
		}
	}
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

func percentText(part, whole float64) string {
	if whole <= 0 {
		return "100.0%"
	}
	return fmt.Sprintf("%.1f%%", 100*part/whole)
}
