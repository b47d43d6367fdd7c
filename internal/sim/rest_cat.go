package sim

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// table is a _cat answer: the columns it has, those shown by default, and its rows.
type table struct {
	columns  []string
	defaults []string
	rows     [][]string // "\x00" stands for null
}

const null = "\x00"

func (c *Cluster) catRoutes(params string) []route {
	get := http.MethodGet
	cat := func(path, extra string, master bool, build func(*call) (*table, *apiError)) route {
		return route{method: get, path: path, params: params + " master_timeout " + extra, master: master, do: func(cl *call) *apiError {
			t, err := build(cl)
			if err != nil {
				return err
			}
			return cl.table(t)
		}}
	}
	list := []route{
		cat("/_cat/shards", "expand_wildcards", true, (*call).catShards),
		cat("/_cat/shards/{index}", "expand_wildcards", true, (*call).catShards),
		cat("/_cat/allocation", "", true, (*call).catAllocation),
		cat("/_cat/allocation/{nodes}", "", true, (*call).catAllocation),
		cat("/_cat/recovery", "active_only detailed expand_wildcards", false, (*call).catRecovery),
		cat("/_cat/recovery/{index}", "active_only detailed expand_wildcards", false, (*call).catRecovery),
		cat("/_cat/indices", "expand_wildcards health pri include_unloaded_segments", true, (*call).catIndices),
		cat("/_cat/indices/{index}", "expand_wildcards health pri include_unloaded_segments", true, (*call).catIndices),
		cat("/_cat/nodes", "full_id include_unloaded_segments", true, (*call).catNodes),
		cat("/_cat/nodeattrs", "", true, (*call).catAttributes),
		cat("/_cat/health", "ts", true, (*call).catHealth),
		cat("/_cat/master", "", true, (*call).catMaster),
		cat("/_cat/pending_tasks", "", true, (*call).catTasks),
	}
	if !c.elastic() && c.at(2, 0) {
		for i := range list {
			list[i].params += " cluster_manager_timeout"
		}
		list = append(list, cat("/_cat/cluster_manager", "cluster_manager_timeout", true, (*call).catMaster))
	}
	return list
}

// table writes the columns asked for, as JSON or as aligned text.
func (cl *call) table(t *table) *apiError {
	columns := t.defaults
	if h := cl.query.Get("h"); h != "" {
		columns = nil
		for _, want := range splitList(h) {
			for _, have := range t.columns {
				if matchWildcard(want, have) {
					columns = append(columns, have)
				}
			}
		}
	}
	at := make([]int, len(columns))
	for i, name := range columns {
		at[i] = slices.Index(t.columns, name)
	}
	if s := cl.query.Get("s"); s != "" {
		name, direction, _ := strings.Cut(splitList(s)[0], ":")
		if by := slices.Index(t.columns, name); by >= 0 {
			slices.SortStableFunc(t.rows, func(a, b []string) int {
				if direction == "desc" {
					a, b = b, a
				}
				return strings.Compare(a[by], b[by])
			})
		}
	}
	asJSON := cl.query.Get("format") == "json" || strings.Contains(cl.r.Header.Get("Accept"), "json") && cl.query.Get("format") == ""
	if !asJSON {
		cl.plainTable(t, columns, at)
		return nil
	}
	w := cl.w
	if !w.arr("") {
		return nil
	}
	for _, row := range t.rows {
		if !w.obj("") {
			continue
		}
		for i, name := range columns {
			if row[at[i]] == null {
				w.null(name)
			} else {
				w.str(name, row[at[i]])
			}
		}
		w.end()
	}
	w.end()
	return nil
}

func (cl *call) plainTable(t *table, columns []string, at []int) {
	var lines [][]string
	if cl.flag("v") {
		lines = append(lines, columns)
	}
	for _, row := range t.rows {
		line := make([]string, len(columns))
		for i := range columns {
			line[i] = strings.ReplaceAll(row[at[i]], null, "")
		}
		lines = append(lines, line)
	}
	width := make([]int, len(columns))
	for _, line := range lines {
		for i, cell := range line {
			width[i] = max(width[i], len(cell))
		}
	}
	var b strings.Builder
	for _, line := range lines {
		for i, cell := range line {
			if i > 0 {
				b.WriteByte(' ')
			}
			if i < len(line)-1 {
				fmt.Fprintf(&b, "%-*s", width[i], cell)
			} else {
				b.WriteString(cell)
			}
		}
		b.WriteByte('\n')
	}
	cl.w, cl.text = nil, b.String()
}

func (s *shardCopy) prirep() string {
	if s.primary {
		return "p"
	}
	return "r"
}

func whole(x float64) string { return fmt.Sprint(int64(x)) }

// bytesText is a size as the request wants it: bytes where bytes=b is given, else for people.
func (cl *call) bytesText(x float64) string {
	if cl.query.Get("bytes") == "b" {
		return whole(x)
	}
	for _, unit := range []struct {
		name string
		size float64
	}{{"tb", 1 << 40}, {"gb", 1 << 30}, {"mb", 1 << 20}, {"kb", 1 << 10}} {
		if x >= unit.size {
			return fmt.Sprintf("%.1f%s", x/unit.size, unit.name)
		}
	}
	return whole(x) + "b"
}

// timeText is a duration in seconds as the request wants it.
func (cl *call) timeText(seconds float64) string {
	if cl.query.Get("time") == "ms" {
		return whole(1000 * seconds)
	}
	if seconds < 1 {
		return whole(1000*seconds) + "ms"
	}
	if seconds < 60 {
		return fmt.Sprintf("%.1fs", seconds)
	}
	return fmt.Sprintf("%.1fm", seconds/60)
}

func (cl *call) catShards() (*table, *apiError) {
	c := cl.c
	indices, err := c.selectIndices(cl.vars["index"], cl.query.Get("expand_wildcards"), "all")
	if err != nil {
		return nil, err
	}
	t := &table{
		columns: []string{
			"index", "shard", "prirep", "state", "docs", "store", "ip", "id", "node", "unassigned.reason", "unassigned.at", "unassigned.details",
			"search.query_total", "search.query_time", "search.fetch_total", "search.fetch_time", "indexing.index_total", "indexing.index_time",
			"indexing.delete_total", "get.total", "get.time", "merges.total_size", "segments.count", "seq_no.max", "recoverysource.type",
		},
		defaults: []string{"index", "shard", "prirep", "state", "docs", "store", "ip", "node"},
	}
	for _, idx := range indices {
		for _, g := range idx.groups {
			for _, s := range g.copies {
				row := slices.Repeat([]string{null}, len(t.columns))
				row[0], row[1], row[2], row[3] = idx.name, itoa(g.num), s.prirep(), s.state.String()
				if s.node != nil {
					row[6], row[7], row[8] = s.node.ip, s.node.id, s.node.spec.Name
				}
				if s.target != nil {
					n := s.target.node
					row[8] = fmt.Sprintf("%s -> %s %s %s", s.node.spec.Name, n.ip, n.id, n.spec.Name)
				}
				if s.state == unassigned || s.state == initializing && s.source == nil {
					row[9], row[10] = s.why.reason, stamp(c.start.Add(s.why.at))
					if s.why.details != "" {
						row[11] = s.why.details
					}
					row[24] = strings.ToLower(string(s.recoverySource()))
				}
				if s.active() && !idx.closed && !s.node.frozen {
					f := c.totalsOf(s)
					row[4], row[5] = whole(c.docsNow(g)), cl.bytesText(c.bytesNow(g))
					copy(row[12:24], []string{
						whole(f.queries), cl.timeText(f.search * (1 - fetchShare)), whole(f.queries * fetchesQuery), cl.timeText(f.search * fetchShare),
						whole(f.docs), cl.timeText(f.write * indexShare), "0", "0", cl.timeText(0), cl.bytesText(f.docs * docBytes), "20",
						whole(c.docsNow(g) - 1),
					})
				}
				t.rows = append(t.rows, row)
			}
		}
	}
	return t, nil
}

func (cl *call) catAllocation() (*table, *apiError) {
	c := cl.c
	t := &table{columns: []string{"shards", "disk.indices", "disk.used", "disk.avail", "disk.total", "disk.percent", "host", "ip", "node"}}
	extras := c.elastic() && c.at(8, 6)
	if extras {
		t.columns = []string{
			"shards", "shards.undesired", "write_load.forecast", "disk.indices.forecast", "disk.indices", "disk.used", "disk.avail",
			"disk.total", "disk.percent", "host", "ip", "node", "node.role",
		}
	}
	t.defaults = t.columns
	for _, n := range cl.selectNodes(cl.vars["nodes"]) {
		if !n.isData() {
			continue
		}
		count, undesired := 0, 0
		for _, s := range n.copies {
			if s.source == nil { // a relocation counts at its source
				count++
				if !slices.Contains(s.group.desired, s.home()) {
					undesired++
				}
			}
		}
		used, total := c.used(n), float64(n.spec.Disk)
		own := used - float64(n.spec.OtherDisk+n.extra)
		disk := []string{
			cl.bytesText(own), cl.bytesText(used), cl.bytesText(max(0, total-used)), cl.bytesText(total), whole(100 * used / total),
			n.spec.Host, n.ip, n.spec.Name,
		}
		row := append([]string{itoa(count)}, disk...)
		if extras {
			if c.cfg.Legacy {
				undesired = -1
			}
			row = slices.Concat([]string{itoa(count), itoa(undesired), "0.0", cl.bytesText(own)}, disk, []string{n.roleLetters()})
		}
		t.rows = append(t.rows, row)
	}
	if len(c.unassigned) > 0 && cl.vars["nodes"] == "" {
		row := slices.Repeat([]string{null}, len(t.columns))
		row[0] = itoa(len(c.unassigned))
		row[slices.Index(t.columns, "node")] = "UNASSIGNED"
		t.rows = append(t.rows, row)
	}
	return t, nil
}

// roleLetters abbreviates the roles as _cat does.
func (n *node) roleLetters() string {
	letters := map[string]string{
		"cluster_manager": "m", "master": "m", "data": "d", "ingest": "i", "remote_cluster_client": "r", "data_hot": "h", "data_warm": "w",
		"data_cold": "c", "data_content": "s", "data_frozen": "f", "ml": "l", "transform": "t", "search": "s", "warm": "w",
	}
	var list []string
	for _, r := range n.spec.Roles {
		list = append(list, letters[r])
	}
	slices.Sort(list)
	if len(list) == 0 {
		return "-"
	}
	return strings.Join(list, "")
}

func (cl *call) catRecovery() (*table, *apiError) {
	c := cl.c
	t := &table{
		columns: []string{
			"index", "shard", "start_time_millis", "time", "type", "stage", "source_host", "source_node", "target_host", "target_node",
			"bytes", "bytes_recovered", "bytes_percent", "bytes_total", "files_percent", "translog_ops_percent",
		},
	}
	t.defaults = t.columns
	indices, err := c.selectIndices(cl.vars["index"], cl.query.Get("expand_wildcards"), "all")
	if err != nil {
		return nil, err
	}
	for _, v := range c.recoveryViews(indices, cl.flag("active_only")) {
		from, fromHost := "n/a", "n/a"
		if v.from != nil {
			from, fromHost = v.from.spec.Name, v.from.spec.Host
		}
		t.rows = append(t.rows, []string{
			v.copy.group.idx.name, itoa(v.copy.group.num), fmt.Sprint(c.start.Add(v.begun).UnixMilli()), cl.timeText((v.until - v.begun).Seconds()),
			strings.ToLower(string(v.kind)), strings.ToLower(v.stage), fromHost, from, v.to.spec.Host, v.to.spec.Name,
			cl.bytesText(v.total), cl.bytesText(v.got), percentText(v.got, v.total), cl.bytesText(v.total), percentText(v.got, v.total), "100.0%",
		})
	}
	return t, nil
}

func (cl *call) catIndices() (*table, *apiError) {
	c := cl.c
	fallback := "open,closed"
	indices, err := c.selectIndices(cl.vars["index"], cl.query.Get("expand_wildcards"), fallback)
	if err != nil {
		return nil, err
	}
	if !c.elastic() && cl.vars["index"] == "" && cl.query.Get("expand_wildcards") == "" {
		// Backing indices are hidden, but OpenSearch lists them since their stream is not.
		indices = slices.DeleteFunc(slices.Clone(c.indices), func(idx *index) bool {
			return idx.settings["index.hidden"] == "true" && idx.spec.DataStream == ""
		})
	}
	t := &table{columns: []string{
		"health", "status", "index", "uuid", "pri", "rep", "docs.count", "docs.deleted", "store.size", "pri.store.size", "creation.date",
		"creation.date.string",
	}}
	t.defaults = t.columns[:10]
	for _, idx := range indices {
		health, docs, primaries, all := "green", 0.0, 0.0, 0.0
		for _, g := range idx.groups {
			for _, s := range g.copies {
				switch {
				case s.primary && !s.active():
					health = "red"
				case !s.active() && health == "green":
					health = "yellow"
				}
				if s.active() {
					all += c.bytesNow(g)
				}
			}
			docs += c.docsNow(g)
			primaries += c.bytesNow(g)
		}
		row := []string{
			health, "open", idx.name, idx.uuid, itoa(len(idx.groups)), itoa(idx.spec.Replicas), whole(docs), "0", cl.bytesText(all),
			cl.bytesText(primaries), fmt.Sprint(c.start.Add(idx.created).UnixMilli()), stamp(c.start.Add(idx.created)),
		}
		if idx.closed {
			row[1], row[6], row[7], row[8], row[9] = "close", null, null, null, null
		}
		t.rows = append(t.rows, row)
	}
	return t, nil
}

func (cl *call) catNodes() (*table, *apiError) {
	c := cl.c
	star := "master"
	if !c.elastic() && c.at(2, 0) {
		star = "cluster_manager"
	}
	t := &table{columns: []string{
		"id", "ip", "heap.percent", "ram.percent", "cpu", "load_1m", "node.role", star, "name", "version", "disk.total", "disk.used", "disk.avail",
		"disk.used_percent", "uptime",
	}}
	if star != "master" {
		t.columns = append(t.columns, "master", "node.roles")
	}
	t.defaults = []string{"ip", "heap.percent", "ram.percent", "cpu", "load_1m", "node.role", star, "name"}
	for _, n := range c.nodes {
		busy := 0.0
		for _, s := range n.copies {
			if s.active() {
				busy += s.group.search*s.share + s.group.write*s.writeCost()
			}
		}
		id := n.id[:4]
		if cl.flag("full_id") {
			id = n.id
		}
		mark := "-"
		if n == c.master {
			mark = "*"
		}
		used, total := c.used(n), float64(n.spec.Disk)
		row := []string{
			id, n.ip, "45", "75", whole(min(100, 100*busy/float64(n.spec.Processors))), fmt.Sprintf("%.2f", busy), n.roleLetters(), mark, n.spec.Name,
			n.version.String(), cl.bytesText(total), cl.bytesText(used), cl.bytesText(max(0, total-used)), fmt.Sprintf("%.2f", 100*used/total),
			cl.timeText((c.now - n.since).Seconds()),
		}
		if star != "master" {
			row = append(row, mark, strings.Join(n.spec.Roles, ","))
		}
		t.rows = append(t.rows, row)
	}
	return t, nil
}

func (cl *call) catAttributes() (*table, *apiError) {
	t := &table{columns: []string{"node", "id", "host", "ip", "attr", "value"}}
	t.defaults = []string{"node", "host", "ip", "attr", "value"}
	for _, n := range cl.c.nodes {
		for _, k := range sortedKeys(n.zone) {
			t.rows = append(t.rows, []string{n.spec.Name, n.id[:4], n.spec.Host, n.ip, k, n.zone[k]})
		}
	}
	return t, nil
}

func (cl *call) catHealth() (*table, *apiError) {
	c, n := cl.c, cl.c.counts()
	t := &table{columns: []string{"epoch", "timestamp", "cluster", "status", "node.total", "node.data", "shards", "pri", "relo", "init", "unassign", "pending_tasks"}}
	t.defaults = t.columns
	primaries := 0
	for s := range c.allCopies {
		if s.primary && s.active() {
			primaries++
		}
	}
	t.rows = [][]string{{
		fmt.Sprint(c.clock().Unix()), c.clock().UTC().Format("15:04:05"), c.cfg.Name, c.statusOf(n), itoa(len(c.nodes)), itoa(len(c.topology.data)),
		itoa(n.Started + n.Relocating), itoa(primaries), itoa(n.Relocating), itoa(n.Initializing), itoa(n.Unassigned), itoa(len(c.tasks)),
	}}
	return t, nil
}

func (cl *call) catMaster() (*table, *apiError) {
	m := cl.c.master
	t := &table{columns: []string{"id", "host", "ip", "node"}}
	t.defaults = t.columns
	t.rows = [][]string{{m.id, m.spec.Host, m.ip, m.spec.Name}}
	return t, nil
}

func (cl *call) catTasks() (*table, *apiError) {
	t := &table{columns: []string{"insertOrder", "timeInQueue", "priority", "source"}}
	t.defaults = t.columns
	for i, task := range cl.c.tasks {
		t.rows = append(t.rows, []string{itoa(i + 1), cl.timeText((cl.c.now - task.since).Seconds()), task.priority, task.source})
	}
	return t, nil
}
