package sim

import (
	"math"
)

// figures are what the statistics of a copy, an index or a node derive from.
type figures struct {
	totals
	docs, bytes, reserved float64
	shards                int
	asSource, asTarget    int
	open                  Open
	uptime                float64 // seconds since the counters began
	rate                  totals  // per second, for the load figures newer Elasticsearch has
}

func (f *figures) plus(g figures) {
	f.add(g.totals)
	f.rate.add(g.rate)
	f.docs, f.bytes, f.reserved, f.shards = f.docs+g.docs, f.bytes+g.bytes, f.reserved+g.reserved, f.shards+g.shards
	f.asSource, f.asTarget, f.uptime = f.asSource+g.asSource, f.asTarget+g.asTarget, max(f.uptime, g.uptime)
}

func (cl *call) figuresOf(s *shardCopy) figures {
	c := cl.c
	f := figures{totals: c.totalsOf(s), docs: c.docsNow(s.group), bytes: c.bytesNow(s.group), shards: 1}
	if s.state == initializing {
		f.bytes = s.rec.done(c.now)
		f.reserved = s.rec.total - f.bytes
		f.docs = 0
	}
	begin := max(s.node.since, s.group.idx.created)
	if s.lastEnd != nil {
		begin = max(begin, s.lastEnd.ended)
	}
	f.uptime = max(1, (c.now - begin).Seconds())
	if s.active() {
		f.rate.search = s.group.search * s.share
		f.rate.write = s.group.write * s.writeCost()
	}
	return f
}

const (
	docsMerge = 20_000 // documents between two merges
	queryHits = 10     // documents a fetch returns
)

// figures writes the groups of figures asked for.
func (cl *call) figures(f figures, sub metricSet) {
	c, w := cl.c, cl.w
	millis := func(seconds float64) float64 { return 1000 * seconds }
	if sub.has("docs") && w.obj("docs") {
		w.count("count", f.docs)
		w.count("deleted", 0)
		if c.elastic() && c.at(8, 8) {
			w.count("total_size_in_bytes", f.bytes)
		}
		w.end()
	}
	if sub.has("store") && w.obj("store") {
		w.count("size_in_bytes", f.bytes)
		if c.elastic() && c.at(7, 13) {
			w.count("total_data_set_size_in_bytes", f.bytes)
		}
		w.count("reserved_in_bytes", f.reserved)
		w.end()
	}
	if sub.has("indexing") && w.obj("indexing") {
		w.count("index_total", f.totals.docs)
		w.count("index_time_in_millis", millis(f.write*indexShare))
		w.int("index_current", 0)
		w.int("index_failed", 0)
		w.int("delete_total", 0)
		w.int("delete_time_in_millis", 0)
		w.int("delete_current", 0)
		w.int("noop_update_total", 0)
		w.bool("is_throttled", false)
		w.int("throttle_time_in_millis", 0)
		if c.elastic() && c.at(8, 3) {
			w.num("write_load", f.write*indexShare/max(f.uptime, 1))
			if c.at(9, 1) {
				w.num("recent_write_load", f.rate.write*indexShare)
				w.num("peak_write_load", f.rate.write*indexShare)
			}
		}
		w.end()
	}
	if sub.has("get") && w.obj("get") {
		w.int("total", 0)
		if !c.elastic() {
			w.str("getTime", "0s")
		}
		w.int("time_in_millis", 0)
		w.int("exists_total", 0)
		w.int("exists_time_in_millis", 0)
		w.int("missing_total", 0)
		w.int("missing_time_in_millis", 0)
		w.int("current", 0)
		w.end()
	}
	if sub.has("search") && w.obj("search") {
		w.int("open_contexts", int64(f.open.Contexts))
		w.count("query_total", f.queries)
		w.count("query_time_in_millis", millis(f.search*(1-fetchShare)))
		w.int("query_current", 0)
		w.count("fetch_total", f.queries*fetchesQuery)
		w.count("fetch_time_in_millis", millis(f.search*fetchShare))
		w.int("fetch_current", 0)
		w.int("scroll_total", 0)
		w.int("scroll_time_in_millis", 0)
		w.int("scroll_current", int64(f.open.Scrolls))
		if !c.elastic() && c.at(2, 4) {
			w.int("point_in_time_total", int64(f.open.Points))
			w.int("point_in_time_time_in_millis", 0)
			w.int("point_in_time_current", int64(f.open.Points))
		}
		w.int("suggest_total", 0)
		w.int("suggest_time_in_millis", 0)
		w.int("suggest_current", 0)
		if c.elastic() && c.at(9, 1) {
			w.num("recent_search_load", f.rate.search)
		}
		w.end()
	}
	if sub.has("merge") && w.obj("merges") {
		w.int("current", 0)
		w.int("current_docs", 0)
		w.int("current_size_in_bytes", 0)
		w.count("total", math.Floor(f.totals.docs/docsMerge))
		w.count("total_time_in_millis", millis(f.write*mergeShare))
		w.count("total_docs", f.totals.docs)
		w.count("total_size_in_bytes", f.totals.docs*docBytes)
		w.end()
	}
	if sub.has("refresh") && w.obj("refresh") {
		w.count("total", f.totals.docs/1000)
		w.count("total_time_in_millis", millis(f.write*refreshShare))
		w.count("external_total", f.totals.docs/1000)
		w.count("external_total_time_in_millis", millis(f.write*refreshShare))
		w.int("listeners", 0)
		w.end()
	}
	if sub.has("flush") && w.obj("flush") {
		w.count("total", f.totals.docs/1e6)
		w.count("periodic", f.totals.docs/1e6)
		w.int("total_time_in_millis", 0)
		w.end()
	}
	if sub.has("warmer") && w.obj("warmer") {
		w.int("current", 0)
		w.count("total", f.totals.docs/1000)
		w.int("total_time_in_millis", 0)
		w.end()
	}
	if sub.has("query_cache") && w.obj("query_cache") {
		w.int("memory_size_in_bytes", 0)
		w.end()
	}
	if sub.has("fielddata") && w.obj("fielddata") {
		w.int("memory_size_in_bytes", 0)
		w.int("evictions", 0)
		w.end()
	}
	if sub.has("completion") && w.obj("completion") {
		w.int("size_in_bytes", 0)
		w.end()
	}
	if sub.has("segments") && w.obj("segments") {
		w.int("count", int64(20*f.shards))
		w.int("memory_in_bytes", 0)
		w.end()
	}
	if sub.has("translog") && w.obj("translog") {
		w.count("operations", 0)
		w.int("size_in_bytes", int64(55*f.shards))
		w.count("uncommitted_operations", 0)
		w.int("uncommitted_size_in_bytes", int64(55*f.shards))
		w.int("earliest_last_modified_age", 0)
		w.end()
	}
	if sub.has("request_cache") && w.obj("request_cache") {
		w.int("memory_size_in_bytes", 0)
		w.int("evictions", 0)
		w.int("hit_count", 0)
		w.int("miss_count", 0)
		w.end()
	}
	if sub.has("recovery") && w.obj("recovery") {
		w.int("current_as_source", int64(f.asSource))
		w.int("current_as_target", int64(f.asTarget))
		w.int("throttle_time_in_millis", 0)
		w.end()
	}
	if c.elastic() && c.at(7, 14) && sub.has("bulk") && w.obj("bulk") {
		w.count("total_operations", f.totals.docs/500)
		w.count("total_time_in_millis", millis(f.write*indexShare))
		w.count("total_size_in_bytes", f.totals.docs*docBytes)
		w.end()
	}
	if c.elastic() && c.at(7, 13) && sub.has("shard_stats") && w.obj("shard_stats") {
		w.int("total_count", int64(f.shards))
		w.end()
	}
}

// copyFigures writes one copy: where it is, the figures asked for, and what always comes with a copy.
func (cl *call) copyFigures(s *shardCopy, sub metricSet) {
	c, w := cl.c, cl.w
	if w.obj("routing") {
		w.str("state", s.state.String())
		w.bool("primary", s.primary)
		w.str("node", s.node.id)
		switch {
		case s.target != nil:
			w.str("relocating_node", s.target.node.id)
		case s.source != nil:
			w.str("relocating_node", s.source.node.id)
		default:
			w.null("relocating_node")
		}
		w.end()
	}
	f := cl.figuresOf(s)
	if s.group.idx.closed {
		f.totals = totals{}
	}
	cl.figures(f, sub)
	seqNo := int64(c.docsNow(s.group)) - 1
	if w.obj("commit") {
		w.str("id", "commit")
		w.int("generation", 3)
		if w.obj("user_data") {
			w.end()
		}
		w.count("num_docs", f.docs)
		w.end()
	}
	if w.obj("seq_no") {
		w.int("max_seq_no", seqNo)
		w.int("local_checkpoint", seqNo)
		w.int("global_checkpoint", seqNo)
		w.end()
	}
	if w.obj("retention_leases") {
		w.int("primary_term", int64(s.group.primaryTerm))
		w.int("version", 1)
		if w.arr("leases") {
			w.end()
		}
		w.end()
	}
	if w.obj("shard_path") {
		w.str("state_path", "/var/lib/"+c.cfg.Distribution+"/nodes/0")
		w.str("data_path", "/var/lib/"+c.cfg.Distribution+"/nodes/0")
		w.bool("is_custom_data_path", false)
		w.end()
	}
}

// indexStats answers GET /{index}/_stats.
func (cl *call) indexStats() *apiError {
	c, w := cl.c, cl.w
	sub, err := cl.parseMetrics(cl.vars["metrics"], shardMetrics)
	if err != nil {
		return err
	}
	indices, err := c.selectIndices(cl.vars["index"], cl.query.Get("expand_wildcards"), "open")
	if err != nil {
		return err
	}
	kept := indices[:0:0]
	for _, idx := range indices {
		if idx.closed && cl.query.Get("forbid_closed_indices") != "false" {
			return &apiError{status: 400, kind: "index_closed_exception", reason: "closed", index: idx.name}
		}
		kept = append(kept, idx)
	}
	var copies []*shardCopy
	total, failed := 0, 0
	for _, idx := range kept {
		for _, g := range idx.groups {
			for _, s := range g.copies {
				total++
				switch {
				case !s.active():
				case s.node.frozen:
					failed++
				default:
					copies = append(copies, s)
				}
			}
		}
	}
	if !w.obj("") {
		return nil
	}
	if w.obj("_shards") {
		w.int("total", int64(total))
		w.int("successful", int64(len(copies)))
		w.int("failed", int64(failed))
		w.end()
	}
	if w.obj("_all") {
		cl.bothSums(copies, sub)
		w.end()
	}
	if level := cl.query.Get("level"); level != "cluster" && w.obj("indices") {
		for i := 0; i < len(copies); {
			idx, first := copies[i].group.idx, i
			for i < len(copies) && copies[i].group.idx == idx {
				i++
			}
			if !w.obj(idx.name) {
				continue
			}
			w.str("uuid", idx.uuid)
			if c.elastic() && c.at(8, 0) {
				w.str("health", "green")
				w.str("status", map[bool]string{true: "close", false: "open"}[idx.closed])
			}
			cl.bothSums(copies[first:i], sub)
			if level == "shards" && w.obj("shards") {
				for at := first; at < i; {
					num := copies[at].group.num
					open := w.arr(itoa(num))
					for ; at < i && copies[at].group.num == num; at++ {
						if open && w.obj("") {
							cl.copyFigures(copies[at], sub)
							w.end()
						}
					}
					if open {
						w.end()
					}
				}
				w.end()
			}
			w.end()
		}
		w.end()
	}
	w.end()
	return nil
}

func (cl *call) bothSums(copies []*shardCopy, sub metricSet) {
	var primaries, all figures
	for _, s := range copies {
		f := cl.figuresOf(s)
		all.plus(f)
		if s.primary {
			primaries.plus(f)
		}
	}
	for _, part := range []struct {
		name string
		f    figures
	}{{"primaries", primaries}, {"total", all}} {
		if cl.w.obj(part.name) {
			cl.figures(part.f, sub)
			cl.w.end()
		}
	}
}
