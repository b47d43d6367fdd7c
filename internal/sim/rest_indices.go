package sim

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"
)

func (c *Cluster) indexRoutes(expand, masterTimeout string) []route {
	get, put, post, del := http.MethodGet, http.MethodPut, http.MethodPost, http.MethodDelete
	settings := "flat_settings include_defaults local" + masterTimeout + expand
	stats := "level fields forbid_closed_indices include_segment_file_sizes include_unloaded_segments" + expand
	recovery := "active_only detailed" + expand
	list := []route{
		{method: get, path: "/_stats", params: stats, do: (*call).indexStats},
		{method: get, path: "/_stats/{metrics}", params: stats, do: (*call).indexStats},
		{method: get, path: "/{index}/_stats", params: stats, do: (*call).indexStats},
		{method: get, path: "/{index}/_stats/{metrics}", params: stats, do: (*call).indexStats},
		{method: get, path: "/_settings", master: true, params: settings, do: (*call).indexSettings},
		{method: get, path: "/_settings/{names}", master: true, params: settings, do: (*call).indexSettings},
		{method: get, path: "/{index}/_settings", master: true, params: settings, do: (*call).indexSettings},
		{method: get, path: "/{index}/_settings/{names}", master: true, params: settings, do: (*call).indexSettings},
		{
			method: put, path: "/{index}/_settings", master: true, write: true, params: "preserve_existing timeout flat_settings" + masterTimeout + expand,
			do: (*call).putIndexSettings,
		},
		{
			method: put, path: "/_settings", master: true, write: true, params: "preserve_existing timeout flat_settings" + masterTimeout + expand,
			do: (*call).putIndexSettings,
		},
		{method: get, path: "/_recovery", params: recovery, do: (*call).recovery},
		{method: get, path: "/{index}/_recovery", params: recovery, do: (*call).recovery},
		{method: get, path: "/_alias", params: "local" + expand, do: (*call).aliases},
		{method: get, path: "/_aliases", params: "local" + expand, do: (*call).aliases},
		{method: get, path: "/{index}/_alias", params: "local" + expand, do: (*call).aliases},
		{method: get, path: "/_snapshot/_status", params: "ignore_unavailable" + masterTimeout, do: (*call).snapshotStatus},
		{method: put, path: "/{index}", master: true, write: true, params: "timeout wait_for_active_shards" + masterTimeout, do: (*call).createIndex},
		{method: del, path: "/{index}", master: true, write: true, params: "timeout" + masterTimeout + expand, do: (*call).dropIndex},
		{
			method: post, path: "/{index}/_close", master: true, write: true, params: "timeout wait_for_active_shards" + masterTimeout + expand,
			do: func(cl *call) *apiError { return cl.openOrClose(true) },
		},
		{
			method: post, path: "/{index}/_open", master: true, write: true, params: "timeout wait_for_active_shards" + masterTimeout + expand,
			do: func(cl *call) *apiError { return cl.openOrClose(false) },
		},
		{method: get, path: "/{index}/_count", params: expand + " q", do: (*call).countDocs},
		{method: post, path: "/{index}/_count", params: expand + " q", do: (*call).countDocs},
	}
	list = append(list, c.searchRoutes(expand)...)
	if !c.elastic() || !c.cfg.OSS {
		streams := ""
		if c.elastic() {
			streams = "expand_wildcards include_defaults"
		}
		list = append(list,
			route{method: get, path: "/_data_stream", master: true, params: streams, do: (*call).dataStreams},
			route{method: get, path: "/_data_stream/{name}", master: true, params: streams, do: (*call).dataStreams})
	}
	return list
}

// indexSettings answers GET /{index}/_settings/{names}; names are wildcard lists of settings.
func (cl *call) indexSettings() *apiError {
	names := splitList(cl.vars["names"])
	indices, err := cl.c.selectIndices(cl.vars["index"], cl.query.Get("expand_wildcards"), "open")
	if err != nil {
		return err
	}
	if cl.vars["index"] == "" && cl.query.Get("expand_wildcards") == "" {
		indices, _ = cl.c.selectIndices("", "open,closed", "")
	}
	if !cl.w.obj("") {
		return nil
	}
	for _, idx := range indices {
		values := map[string]any{}
		for k, v := range idx.settings {
			if len(names) == 0 || names[0] == "_all" || slices.ContainsFunc(names, func(p string) bool { return matchWildcard(p, k) }) {
				values[k] = v
			}
		}
		if len(values) > 0 && cl.w.obj(idx.name) {
			cl.writeSettings("settings", values)
			cl.w.end()
		}
	}
	cl.w.end()
	return nil
}

func (cl *call) putIndexSettings() *apiError {
	changes, err := cl.indexChanges()
	if err != nil {
		return err
	}
	indices, err := cl.c.selectIndices(cl.vars["index"], cl.query.Get("expand_wildcards"), "open")
	if err != nil {
		return err
	}
	for _, idx := range indices {
		if err := cl.c.changeIndex(idx, changes); err != nil {
			return err
		}
	}
	return cl.acknowledge()
}

// indexChanges reads index settings from the body, flat or nested, with or without "index.".
func (cl *call) indexChanges() (map[string]any, *apiError) {
	body, err := cl.decode()
	if err != nil {
		return nil, err
	}
	if inner, ok := body["settings"].(map[string]any); ok {
		body = inner
	}
	flat, changes := map[string]any{}, map[string]any{}
	if err := readSettings("", body, flat); err != nil {
		return nil, err
	}
	for k, v := range flat {
		if !strings.HasPrefix(k, "index.") {
			k = "index." + k
		}
		changes[k] = v
	}
	return changes, nil
}

// createIndex makes an empty index; of its body only the settings count.
func (cl *call) createIndex() *apiError {
	spec := IndexSpec{Name: cl.vars["index"], Shards: 1, Replicas: 1, Settings: map[string]string{}}
	if len(cl.body) > 0 {
		body, err := cl.decode()
		if err != nil {
			return err
		}
		settings, _ := body["settings"].(map[string]any)
		flat := map[string]any{}
		if err := readSettings("", settings, flat); err != nil {
			return err
		}
		for k, v := range flat {
			k = strings.TrimPrefix(k, "index.")
			switch k {
			case "number_of_shards", "number_of_replicas":
				n, err := json.Number(asText(v)).Int64()
				least := int64(1)
				if k == "number_of_replicas" {
					least = 0
				}
				if err != nil || n < least || n > 1024 {
					return illegal("failed to parse value [%s] for setting [index.%s]", asText(v), k)
				}
				if k == "number_of_shards" {
					spec.Shards = int(n)
				} else {
					spec.Replicas = int(n)
				}
			default:
				spec.Settings["index."+k] = asText(v)
			}
		}
	}
	if cl.c.find(spec.Name) != nil {
		return &apiError{status: 400, kind: "resource_already_exists_exception", reason: "index [" + spec.Name + "] already exists", index: spec.Name}
	}
	if _, err := cl.c.addIndex(spec, nil); err != nil {
		return &apiError{status: 400, kind: "invalid_index_name_exception", reason: err.Error(), index: spec.Name}
	}
	if cl.w.obj("") {
		cl.w.bool("acknowledged", true)
		cl.w.bool("shards_acknowledged", true)
		cl.w.str("index", spec.Name)
		cl.w.end()
	}
	return nil
}

func (cl *call) dropIndex() *apiError {
	indices, err := cl.c.selectIndices(cl.vars["index"], cl.query.Get("expand_wildcards"), "open,closed")
	if err != nil {
		return err
	}
	for _, idx := range indices {
		cl.c.deleteIndex(idx.name)
	}
	return cl.acknowledge()
}

func (cl *call) openOrClose(closed bool) *apiError {
	indices, err := cl.c.selectIndices(cl.vars["index"], cl.query.Get("expand_wildcards"), "all")
	if err != nil {
		return err
	}
	for _, idx := range indices {
		if idx.closed == closed {
			continue
		}
		for _, g := range idx.groups {
			cl.c.settle(g)
			for _, s := range g.copies {
				s.totals = totals{} // the copies are opened anew
			}
		}
		idx.closed = closed
		cl.c.reload(idx)
	}
	cl.c.bump()
	return cl.acknowledge()
}

func (cl *call) countDocs() *apiError {
	indices, err := cl.c.selectIndices(cl.vars["index"], cl.query.Get("expand_wildcards"), "open")
	if err != nil {
		return err
	}
	docs, shards, failed := 0.0, 0, 0
	for _, idx := range indices {
		for _, g := range idx.groups {
			shards++
			if g.serving == 0 {
				failed++
				continue
			}
			docs += cl.c.docsNow(g)
		}
	}
	if cl.w.obj("") {
		cl.w.count("count", docs)
		if cl.w.obj("_shards") {
			cl.w.int("total", int64(shards))
			cl.w.int("successful", int64(shards-failed))
			cl.w.int("skipped", 0)
			cl.w.int("failed", int64(failed))
			cl.w.end()
		}
		cl.w.end()
	}
	return nil
}

func (cl *call) aliases() *apiError {
	indices, err := cl.c.selectIndices(cl.vars["index"], cl.query.Get("expand_wildcards"), "all")
	if err != nil {
		return err
	}
	w := cl.w
	if !w.obj("") {
		return nil
	}
	for _, idx := range indices {
		if !w.obj(idx.name) {
			continue
		}
		if w.obj("aliases") {
			if idx.spec.Alias != "" && w.obj(idx.spec.Alias) {
				if s := idx.series; s != nil {
					w.bool("is_write_index", idx.written())
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

// dataStreams answers GET /_data_stream/{name}. The last backing index is the one written to.
func (cl *call) dataStreams() *apiError {
	c, w := cl.c, cl.w
	want := cl.vars["name"]
	streams := map[string][]*index{}
	for _, idx := range c.indices {
		if name := idx.spec.DataStream; name != "" && (want == "" || want == "_all" || slices.ContainsFunc(splitList(want), func(p string) bool { return matchWildcard(p, name) })) {
			streams[name] = append(streams[name], idx)
		}
	}
	if len(streams) == 0 && want != "" && !strings.Contains(want, "*") {
		return noIndex(want)
	}
	if !w.obj("") {
		return nil
	}
	if w.arr("data_streams") {
		for _, name := range sortedKeys(streams) {
			if !w.obj("") {
				continue
			}
			backing := streams[name]
			slices.SortFunc(backing, func(a, b *index) int {
				return cmp.Or(cmp.Compare(a.created, b.created), strings.Compare(a.name, b.name))
			})
			w.str("name", name)
			if w.obj("timestamp_field") {
				w.str("name", "@timestamp")
				w.end()
			}
			if w.arr("indices") {
				for _, idx := range backing {
					if w.obj("") {
						w.str("index_name", idx.name)
						w.str("index_uuid", idx.uuid)
						w.end()
					}
				}
				w.end()
			}
			generation := len(backing)
			if s := backing[0].series; s != nil {
				generation = s.generation
			}
			w.int("generation", int64(generation))
			w.str("status", "GREEN")
			w.str("template", name)
			if c.elastic() {
				w.str("ilm_policy", name)
				w.bool("hidden", false)
				w.bool("system", false)
				w.bool("replicated", false)
			}
			w.end()
		}
		w.end()
	}
	w.end()
	return nil
}

// recoveryView is one recovery, running or ended, as both recovery APIs show it.
type recoveryView struct {
	copy         *shardCopy
	kind         recoveryKind
	from, to     *node
	total, got   float64
	begun, until time.Duration
	stage        string
}

// recoveryViews are the recoveries of these indices: the running ones and, unless only those are wanted, the last of
// every copy.
func (c *Cluster) recoveryViews(indices []*index, activeOnly bool) []recoveryView {
	var list []recoveryView
	add := func(s *shardCopy) {
		switch {
		case s == nil:
		case s.rec != nil:
			r := s.rec
			stage := "INDEX"
			if c.now < r.copies {
				stage = "INIT"
			}
			list = append(list, recoveryView{s, r.kind, r.from, r.to, r.total, r.done(c.now), r.begun, c.now, stage})
		case s.lastEnd != nil && !activeOnly && s.active():
			r := s.lastEnd
			list = append(list, recoveryView{s, r.kind, r.from, r.to, r.total, r.total, r.begun, r.ended, "DONE"})
		}
	}
	for _, idx := range indices {
		for _, g := range idx.groups {
			for _, s := range g.copies {
				add(s)
				add(s.target)
			}
		}
	}
	return list
}

// recovery answers GET /_recovery.
func (cl *call) recovery() *apiError {
	c, w := cl.c, cl.w
	indices, err := c.selectIndices(cl.vars["index"], cl.query.Get("expand_wildcards"), "open,closed")
	if err != nil {
		return err
	}
	views := c.recoveryViews(indices, cl.flag("active_only"))
	if !w.obj("") {
		return nil
	}
	for i := 0; i < len(views); {
		idx := views[i].copy.group.idx
		open := w.obj(idx.name)
		list := open && w.arr("shards")
		for ; i < len(views) && views[i].copy.group.idx == idx; i++ {
			if list {
				cl.writeRecovery(views[i])
			}
		}
		if list {
			w.end()
		}
		if open {
			w.end()
		}
	}
	w.end()
	return nil
}

func (cl *call) writeRecovery(v recoveryView) {
	c, w := cl.c, cl.w
	if !w.obj("") {
		return
	}
	defer w.end()
	w.int("id", int64(v.copy.group.num))
	w.str("type", string(v.kind))
	w.str("stage", v.stage)
	w.bool("primary", v.copy.primary)
	w.int("start_time_in_millis", c.start.Add(v.begun).UnixMilli())
	if v.stage == "DONE" {
		w.int("stop_time_in_millis", c.start.Add(v.until).UnixMilli())
	}
	w.int("total_time_in_millis", (v.until - v.begun).Milliseconds())
	end := func(key string, n *node) {
		if !w.obj(key) {
			return
		}
		if n != nil {
			w.str("id", n.id)
			w.str("host", n.spec.Host)
			w.str("transport_address", n.address())
			w.str("ip", n.ip)
			w.str("name", n.spec.Name)
		}
		w.end()
	}
	end("source", v.from)
	end("target", v.to)
	if w.obj("index") {
		if w.obj("size") {
			w.count("total_in_bytes", v.total)
			w.int("reused_in_bytes", 0)
			w.count("recovered_in_bytes", v.got)
			w.str("percent", percentText(v.got, v.total))
			w.end()
		}
		w.int("source_throttle_time_in_millis", 0)
		w.int("target_throttle_time_in_millis", 0)
		w.end()
	}
	if w.obj("translog") {
		w.int("recovered", 0)
		w.int("total", 0)
		w.str("percent", "100.0%")
		w.end()
	}
}
