package sim

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

const nodeStatsParams = "level timeout types groups completion_fields fielddata_fields fields include_segment_file_sizes include_unloaded_segments"

func itoa(n int) string { return strconv.Itoa(n) }

// infoAsked are the nodes and metrics a request for information asks for. What comes with the last path segment may be
// either; the products guess too.
func (cl *call) infoAsked() (nodes []*node, metrics []string) {
	metrics, which := splitList(cl.vars["metrics"]), cl.vars["nodes"]
	known := []string{"os", "jvm", "settings", "process", "thread_pool", "transport", "http", "plugins", "ingest", "_all", "_none", "aggregations", "indices"}
	if len(metrics) == 0 && which != "" && !slices.ContainsFunc(splitList(which), func(m string) bool { return !slices.Contains(known, m) }) {
		metrics, which = splitList(which), ""
	}
	return cl.selectNodes(which), metrics
}

// nodesInfo answers GET /_nodes.
func (cl *call) nodesInfo() *apiError {
	c, w := cl.c, cl.w
	list, metrics := cl.infoAsked()
	want := func(m string) bool {
		return len(metrics) == 0 || slices.Contains(metrics, m) || slices.Contains(metrics, "_all")
	}
	if !w.obj("") {
		return nil
	}
	var failed []*node
	for _, n := range list {
		if n.frozen {
			failed = append(failed, n)
		}
	}
	cl.nodesHeader(len(list), failed)
	if w.obj("nodes") {
		for _, n := range list {
			if n.frozen || !w.obj(n.id) {
				continue
			}
			w.str("name", n.spec.Name)
			w.str("transport_address", n.address())
			w.str("host", n.spec.Host)
			w.str("ip", n.ip)
			w.str("version", n.version.String())
			if c.elastic() {
				w.str("build_flavor", map[bool]string{true: "unknown", false: "default"}[c.cfg.OSS])
			}
			w.str("build_type", "tar")
			w.str("build_hash", "0000000000000000000000000000000000000000")
			w.strs("roles", n.spec.Roles)
			cl.attributes("attributes", n)
			if want("settings") {
				yml := map[string]any{"cluster.name": c.cfg.Name, "node.name": n.spec.Name}
				for k, v := range n.spec.Attributes {
					yml["node.attr."+k] = v
				}
				for k, v := range c.cfg.Settings {
					yml[k] = v
				}
				cl.writeSettings("settings", yml)
			}
			if want("os") && w.obj("os") {
				w.int("refresh_interval_in_millis", 1000)
				w.str("name", "Linux")
				w.str("arch", "amd64")
				w.int("available_processors", int64(n.spec.Processors))
				w.int("allocated_processors", int64(n.spec.Processors))
				w.end()
			}
			if want("process") && w.obj("process") {
				w.int("refresh_interval_in_millis", 1000)
				w.int("id", int64(1000+n.ordinal))
				w.bool("mlockall", false)
				w.end()
			}
			if want("jvm") && w.obj("jvm") {
				w.str("version", "21.0.4")
				w.int("start_time_in_millis", c.start.Add(n.since).UnixMilli())
				if w.obj("mem") {
					w.int("heap_init_in_bytes", heapBytes)
					w.int("heap_max_in_bytes", heapBytes)
					w.end()
				}
				w.end()
			}
			if want("thread_pool") && w.obj("thread_pool") {
				for _, p := range []struct {
					name        string
					size, queue int
				}{{"search", n.spec.Processors*3/2 + 1, 1000}, {"write", n.spec.Processors, 10000}} {
					if w.obj(p.name) {
						w.str("type", "fixed")
						w.int("size", int64(p.size))
						w.int("queue_size", int64(p.queue))
						w.end()
					}
				}
				w.end()
			}
			if want("transport") && w.obj("transport") {
				w.strs("bound_address", []string{n.address()})
				w.str("publish_address", n.address())
				w.end()
			}
			if want("http") && w.obj("http") {
				w.strs("bound_address", []string{c.httpAddress(n)})
				w.str("publish_address", c.httpAddress(n))
				w.int("max_content_length_in_bytes", 100<<20)
				w.end()
			}
			w.end()
		}
		w.end()
	}
	w.end()
	return nil
}

// httpAddress is where the node answers: its own port where it has one.
func (c *Cluster) httpAddress(n *node) string {
	if s := c.served.Load(); s != nil {
		if addr := s.NodeAddr(n.spec.Name); addr != "" {
			return addr
		}
	}
	return n.ip + ":9200"
}

const heapBytes = 16 << 30

// nodesHeader writes how many nodes answered and which failed.
func (cl *call) nodesHeader(total int, failed []*node) {
	w := cl.w
	if w.obj("_nodes") {
		w.int("total", int64(total))
		w.int("successful", int64(total-len(failed)))
		w.int("failed", int64(len(failed)))
		if len(failed) > 0 && w.arr("failures") {
			for _, n := range failed {
				if !w.obj("") {
					continue
				}
				w.str("type", "failed_node_exception")
				w.str("reason", "Failed node ["+n.id+"]")
				w.str("node_id", n.id)
				if w.obj("caused_by") {
					w.str("type", "receive_timeout_transport_exception")
					w.str("reason", "["+n.spec.Name+"]["+n.address()+"][cluster:monitor/nodes/stats[n]] request_id ["+itoa(n.ordinal)+"] timed out")
					w.end()
				}
				w.end()
			}
			w.end()
		}
		w.end()
	}
	w.str("cluster_name", cl.c.cfg.Name)
}

// awaitInfo and awaitStats pass the request's timeout where a node it needs does not answer. Without a timeout that ends when
// the cluster puts the node out; a minute of virtual time stands for ever.
func (cl *call) awaitInfo() *apiError {
	return cl.awaitNodes(func() bool {
		nodes, _ := cl.infoAsked()
		return !slices.ContainsFunc(nodes, func(n *node) bool { return n.frozen })
	})
}

func (cl *call) awaitStats() *apiError {
	return cl.awaitNodes(func() bool { return !slices.ContainsFunc(cl.selectNodes(cl.vars["nodes"]), (*node).silent) })
}

func (cl *call) awaitNodes(answer func() bool) *apiError {
	limit, bad := cl.timeout(time.Minute)
	if bad != nil {
		return bad
	}
	return cl.await(limit, answer)
}

// silent tells whether the node gives no statistics.
func (n *node) silent() bool { return n.frozen || n.mute }

var nodeMetrics = []string{
	"indices", "os", "process", "jvm", "thread_pool", "fs", "transport", "http", "breaker", "script",
	"discovery", "ingest", "adaptive_selection", "indexing_pressure", "allocations", "weighted_routing", "_all",
}

var shardMetrics = []string{
	"docs", "store", "indexing", "get", "search", "merge", "refresh", "flush", "segments", "translog", "recovery",
	"warmer", "query_cache", "fielddata", "completion", "request_cache", "bulk", "shard_stats", "mappings", "dense_vector", "_all",
}

// metricSet is which groups of figures are wanted; nil means all.
type metricSet []string

func (m metricSet) has(name string) bool { return m == nil || slices.Contains(m, name) }

// parseMetrics checks a list of metrics against those the endpoint knows.
func (cl *call) parseMetrics(text string, known []string) (metricSet, *apiError) {
	list := splitList(text)
	for _, m := range list {
		if !slices.Contains(known, m) {
			return nil, illegal("request [%s] contains unrecognized metric: [%s]", cl.r.URL.Path, m)
		}
	}
	if len(list) == 0 || slices.Contains(list, "_all") {
		return nil, nil
	}
	return list, nil
}

func (cl *call) nodesStats() *apiError {
	c, w := cl.c, cl.w
	known := nodeMetrics
	if !c.countsFailOpen() {
		known = slices.DeleteFunc(slices.Clone(known), func(m string) bool { return m == "weighted_routing" })
	}
	metrics, err := cl.parseMetrics(cl.vars["metrics"], known)
	if err != nil {
		return err
	}
	sub, err := cl.parseMetrics(cl.vars["sub"], shardMetrics)
	if err != nil {
		return err
	}
	level := cl.query.Get("level")
	badLevel := !slices.Contains([]string{"", "node", "indices", "shards"}, level)
	if badLevel && c.elastic() {
		return illegal("level parameter must be one of [node] or [indices] or [shards] but was [%s]", level)
	}
	list := cl.selectNodes(cl.vars["nodes"])
	var failed []*node
	for _, n := range list {
		if n.silent() || badLevel { // OpenSearch leaves it to the nodes to object
			failed = append(failed, n)
		}
	}
	if !w.obj("") {
		return nil
	}
	cl.nodesHeader(len(list), failed)
	if w.obj("nodes") {
		for _, n := range list {
			if !slices.Contains(failed, n) && w.obj(n.id) {
				cl.nodeStats(n, metrics, sub, level)
				w.end()
			}
		}
		w.end()
	}
	w.end()
	return nil
}

func (cl *call) nodeStats(n *node, metrics, sub metricSet, level string) {
	c, w := cl.c, cl.w
	now := c.clock().UnixMilli()
	w.int("timestamp", now)
	w.str("name", n.spec.Name)
	w.str("transport_address", n.address())
	w.str("host", n.spec.Host)
	w.str("ip", n.address())
	w.strs("roles", n.spec.Roles)
	cl.attributes("attributes", n)
	busy, sum := 0.0, n.departed
	for _, s := range n.copies {
		sum.add(c.totalsOf(s))
		if s.active() {
			busy += s.group.search*s.share + s.group.write*s.writeCost()
		}
	}
	percent := int64(min(100, 100*busy/float64(n.spec.Processors)))
	if metrics.has("indices") && w.obj("indices") {
		cl.nodeIndices(n, sum, sub, level)
		w.end()
	}
	if metrics.has("os") && w.obj("os") {
		w.int("timestamp", now)
		if w.obj("cpu") {
			w.int("percent", percent)
			if w.obj("load_average") {
				w.num("1m", busy)
				w.num("5m", busy)
				w.num("15m", busy)
				w.end()
			}
			w.end()
		}
		if w.obj("mem") {
			w.int("total_in_bytes", 2*heapBytes)
			w.int("free_in_bytes", heapBytes/2)
			w.int("used_in_bytes", heapBytes*3/2)
			w.int("free_percent", 25)
			w.int("used_percent", 75)
			w.end()
		}
		w.end()
	}
	if metrics.has("process") && w.obj("process") {
		w.int("timestamp", now)
		w.int("open_file_descriptors", int64(400+20*len(n.copies)))
		w.int("max_file_descriptors", 65535)
		if w.obj("cpu") {
			w.int("percent", percent)
			w.count("total_in_millis", 1000*(sum.search+sum.write))
			w.end()
		}
		w.end()
	}
	if metrics.has("jvm") && w.obj("jvm") {
		w.int("timestamp", now)
		w.int("uptime_in_millis", (c.now - n.since).Milliseconds())
		if w.obj("mem") {
			used := int64(30 + len(n.copies)/20 + int(percent)/4)
			w.int("heap_used_in_bytes", heapBytes/100*used)
			w.int("heap_used_percent", used)
			w.int("heap_committed_in_bytes", heapBytes)
			w.int("heap_max_in_bytes", heapBytes)
			w.end()
		}
		w.end()
	}
	if metrics.has("thread_pool") && w.obj("thread_pool") {
		for i, pool := range []string{"search", "write"} {
			if !w.obj(pool) {
				continue
			}
			w.int("threads", int64(n.spec.Processors))
			w.int("queue", 0)
			w.int("active", int64(busy))
			w.count("rejected", n.rejected[i])
			w.int("largest", int64(n.spec.Processors))
			w.count("completed", []float64{sum.queries, sum.docs}[i])
			w.end()
		}
		w.end()
	}
	if metrics.has("http") && w.obj("http") {
		w.int("current_open", int64(n.open.HTTP))
		w.int("total_opened", int64(n.open.HTTP))
		w.end()
	}
	if metrics.has("weighted_routing") && c.countsFailOpen() && w.obj("weighted_routing") {
		if w.obj("stats") {
			w.int("fail_open_count", int64(n.failOpen))
			w.end()
		}
		w.end()
	}
	if metrics.has("fs") && w.obj("fs") {
		cl.nodeFS(n, now)
		w.end()
	}
	if metrics.has("breaker") && w.obj("breakers") {
		inFlight := "in_flight_requests"
		if c.elastic() && c.at(8, 0) {
			inFlight = "inflight_requests"
		}
		for _, b := range []string{"request", "fielddata", inFlight, "parent"} {
			if w.obj(b) {
				w.int("limit_size_in_bytes", heapBytes*95/100)
				w.int("estimated_size_in_bytes", heapBytes*3/10)
				w.num("overhead", 1)
				w.int("tripped", 0)
				w.end()
			}
		}
		w.end()
	}
	if c.elastic() && c.at(8, 6) && metrics.has("allocations") && w.obj("allocations") {
		undesired := 0
		for _, s := range n.copies {
			if s.source == nil && s.group.desired != nil && !slices.Contains(s.group.desired, s.home()) {
				undesired++
			}
		}
		w.int("shards", int64(len(n.copies)))
		w.int("undesired_shards", int64(undesired))
		w.num("forecasted_ingest_load", 0)
		w.count("current_disk_usage_in_bytes", c.used(n)-float64(n.spec.OtherDisk+n.extra))
		w.end()
	}
}

func (cl *call) nodeFS(n *node, now int64) {
	c, w := cl.c, cl.w
	total := float64(n.spec.Disk)
	free := max(0, total-c.used(n))
	space := func() {
		w.int("total_in_bytes", n.spec.Disk)
		w.count("free_in_bytes", free)
		w.count("available_in_bytes", free)
	}
	w.int("timestamp", now)
	if w.obj("total") {
		space()
		w.end()
	}
	if w.arr("data") {
		if w.obj("") {
			w.str("path", "/var/lib/"+c.cfg.Distribution+"/nodes/0")
			w.str("mount", "/var/lib/"+c.cfg.Distribution+" (/dev/sdb)")
			w.str("type", "xfs")
			space()
			if c.elastic() && c.at(8, 0) {
				w.count("low_watermark_free_space_in_bytes", c.rules.low.free(total))
				w.count("high_watermark_free_space_in_bytes", c.rules.high.free(total))
				w.count("flood_stage_free_space_in_bytes", c.rules.flood.free(total))
			}
			w.end()
		}
		w.end()
	}
	if w.obj("io_stats") {
		w.end()
	}
}

// nodeIndices writes the sums over the node, which keep what departed copies had counted, and each copy's figures.
func (cl *call) nodeIndices(n *node, sum totals, sub metricSet, level string) {
	c, w := cl.c, cl.w
	var docs, stored, arriving float64
	asSource, asTarget := n.outgoing, n.incoming
	for _, s := range n.copies {
		if s.state == initializing {
			got := s.rec.done(c.now)
			stored += got
			arriving += s.rec.total - got
			continue
		}
		docs += c.docsNow(s.group)
		stored += c.bytesNow(s.group)
	}
	f := figures{
		open: n.open, totals: sum, docs: docs, bytes: stored, reserved: arriving, shards: len(n.copies), asSource: asSource, asTarget: asTarget,
		uptime: (c.now - n.since).Seconds(),
	}
	cl.figures(f, sub)
	if level == "" || level == "node" {
		return
	}
	// With docs among the figures a copy that is still arriving is left out, without them it is there with the bytes it
	// still expects: so the products do, for no visible reason.
	showArriving := sub != nil && !sub.has("docs")
	copies := slices.DeleteFunc(n.sorted(), func(s *shardCopy) bool { return s.state == initializing && !showArriving })
	if level == "indices" {
		cl.perIndex(copies, sub)
		return
	}
	if !w.obj("shards") {
		return
	}
	for i := 0; i < len(copies); {
		idx := copies[i].group.idx
		open := w.arr(idx.name)
		for ; i < len(copies) && copies[i].group.idx == idx; i++ {
			if !open || !w.obj("") {
				continue
			}
			if w.obj(itoa(copies[i].group.num)) {
				cl.copyFigures(copies[i], sub)
				w.end()
			}
			w.end()
		}
		if open {
			w.end()
		}
	}
	w.end()
}

func (cl *call) perIndex(copies []*shardCopy, sub metricSet) {
	w := cl.w
	if !w.obj("indices") {
		return
	}
	for i := 0; i < len(copies); {
		idx := copies[i].group.idx
		f := figures{}
		for ; i < len(copies) && copies[i].group.idx == idx; i++ {
			f.plus(cl.figuresOf(copies[i]))
		}
		if w.obj(idx.name) {
			cl.figures(f, sub)
			w.end()
		}
	}
	w.end()
}

// shutdowns answers GET /_nodes/shutdown (Elasticsearch with x-pack).
func (cl *call) shutdowns() *apiError {
	w := cl.w
	if !w.obj("") {
		return nil
	}
	if w.arr("nodes") {
		for _, n := range cl.selectNodes(cl.vars["nodes"]) {
			if n.shutdown == "" || !w.obj("") {
				continue
			}
			left := 0
			for _, s := range n.copies {
				if s.source == nil {
					left++
				}
			}
			status := "IN_PROGRESS"
			if left == 0 || n.shutdown == "RESTART" {
				status = "COMPLETE"
			}
			w.str("node_id", n.id)
			w.str("type", n.shutdown)
			w.str("reason", "asked for")
			w.int("shutdown_startedmillis", cl.c.clock().UnixMilli())
			w.str("status", status)
			if w.obj("shard_migration") {
				w.str("status", status)
				w.int("shard_migrations_remaining", int64(left))
				w.end()
			}
			w.end()
		}
		w.end()
	}
	w.end()
	return nil
}

func (cl *call) putShutdown() *apiError {
	body, err := cl.decode()
	if err != nil {
		return err
	}
	kind, _ := body["type"].(string)
	kind = strings.ToUpper(kind)
	if !slices.Contains([]string{"REMOVE", "RESTART", "REPLACE", "SIGTERM"}, kind) {
		return illegal("invalid shutdown type [%s]", kind)
	}
	return cl.setShutdown(kind)
}

func (cl *call) deleteShutdown() *apiError { return cl.setShutdown("") }

func (cl *call) setShutdown(kind string) *apiError {
	n := cl.c.node(cl.vars["nodes"])
	if n == nil {
		return &apiError{status: 404, kind: "resource_not_found_exception", reason: "node [" + cl.vars["nodes"] + "] is not currently shutting down"}
	}
	n.shutdown = kind
	cl.c.unfit = true
	cl.c.chances++
	cl.c.bump()
	cl.c.reroute()
	return cl.acknowledge()
}

func (cl *call) acknowledge() *apiError {
	if cl.w.obj("") {
		cl.w.bool("acknowledged", true)
		cl.w.end()
	}
	return nil
}
