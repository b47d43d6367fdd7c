package sim

import (
	"fmt"
	"slices"
	"strings"
)

// stateMetrics are the parts of the cluster state that can be asked for.
var stateMetrics = []string{"version", "master_node", "cluster_manager_node", "blocks", "nodes", "metadata", "routing_table", "routing_nodes", "customs"}

func (cl *call) state() *apiError {
	c, w := cl.c, cl.w
	metrics := splitList(cl.vars["metrics"])
	all := len(metrics) == 0 || slices.Contains(metrics, "_all")
	for _, m := range metrics {
		if m != "_all" && !slices.Contains(stateMetrics, m) && c.elastic() && c.at(9, 0) {
			return illegal("request [%s] contains unrecognized metric: [%s]", cl.r.URL.Path, m)
		}
	}
	want := func(m string) bool { return all || slices.Contains(metrics, m) }
	indices, err := c.selectIndices(cl.vars["indices"], cl.query.Get("expand_wildcards"), "all")
	if err != nil {
		return err
	}
	if !w.obj("") {
		return nil
	}
	w.str("cluster_name", c.cfg.Name)
	w.str("cluster_uuid", c.uuid)
	cl.writeState(want, indices)
	w.end()
	return nil
}

// writeState writes the wanted parts of the state into the object that is open.
func (cl *call) writeState(want func(string) bool, indices []*index) {
	c, w := cl.c, cl.w
	if want("version") {
		w.int("version", c.version)
		w.str("state_uuid", c.stateUUID)
	}
	master := func(key string) {
		if m := cl.view().master; m != nil {
			w.str(key, m.id)
		} else {
			w.null(key)
		}
	}
	if want("master_node") {
		master("master_node")
	}
	if want("cluster_manager_node") && !c.elastic() && c.at(2, 0) {
		master("cluster_manager_node")
	}
	if want("blocks") {
		cl.stateBlocks()
	}
	if want("nodes") {
		cl.stateNodes()
	}
	if want("metadata") {
		cl.stateMetadata(indices)
	}
	if want("routing_table") {
		cl.routingTable(indices)
	}
	if want("routing_nodes") {
		cl.routingNodes()
	}
	if want("customs") {
		cl.stateCustoms()
	}
}

// stateBlocks writes the indices' blocks under the numbers both products give them.
func (cl *call) stateBlocks() {
	w := cl.w
	if !w.obj("blocks") {
		return
	}
	isBlocked := func(idx *index) bool { return idx.closed || idx.blocked || idx.rules.writeBlock }
	if slices.ContainsFunc(cl.c.indices, isBlocked) && w.obj("indices") {
		for _, idx := range cl.c.indices {
			if !isBlocked(idx) || !w.obj(idx.name) {
				continue
			}
			block := func(id, text string, levels ...string) {
				if w.obj(id) {
					w.str("description", text)
					w.bool("retryable", false)
					w.strs("levels", levels)
					w.end()
				}
			}
			if idx.closed {
				block("4", "index closed", "read", "write")
			}
			if idx.rules.writeBlock {
				block("8", "index write (api)", "write")
			}
			if idx.blocked {
				block("12", "disk usage exceeded flood-stage watermark, index has read-only-allow-delete block", "write", "metadata_write")
			}
			w.end()
		}
		w.end()
	}
	w.end()
}

func (cl *call) stateNodes() {
	c, w := cl.c, cl.w
	if !w.obj("nodes") {
		return
	}
	for _, n := range cl.view().nodes {
		if !w.obj(n.id) {
			continue
		}
		w.str("name", n.spec.Name)
		w.str("ephemeral_id", n.ephemeral)
		w.str("transport_address", n.address())
		if c.elastic() && c.at(8, 0) {
			w.str("external_id", n.spec.Name)
		}
		cl.attributes("attributes", n)
		if c.elastic() {
			w.strs("roles", n.spec.Roles)
			if c.at(8, 7) {
				w.str("version", n.version.String())
				w.int("min_index_version", int64(n.version.major-1)*1000000+99)
				w.int("max_index_version", int64(n.version.major)*1000000+int64(n.version.minor)*1000)
			}
		}
		w.end()
	}
	w.end()
}

func (n *node) address() string { return fmt.Sprintf("%s:%d", n.ip, n.port) }

// attributes writes a node's attributes. Both products add some of their own; a client must not take them for topology.
func (cl *call) attributes(key string, n *node) {
	w := cl.w
	if !w.obj(key) {
		return
	}
	for _, k := range sortedKeys(n.zone) {
		w.str(k, n.zone[k])
	}
	if !cl.c.elastic() {
		w.str("shard_indexing_pressure_enabled", "true")
	} else if !cl.c.cfg.OSS {
		w.str("ml.machine_memory", "34359738368")
		w.str("xpack.installed", "true")
	}
	w.end()
}

func (cl *call) stateMetadata(indices []*index) {
	c, w := cl.c, cl.w
	if !w.obj("metadata") {
		return
	}
	w.str("cluster_uuid", c.uuid)
	w.bool("cluster_uuid_committed", true)
	cl.stateCoordination()
	cl.stateWeights()
	cl.stateDecommission()
	if w.obj("indices") {
		for _, idx := range indices {
			if !w.obj(idx.name) {
				continue
			}
			w.int("version", idx.version)
			w.str("state", map[bool]string{true: "close", false: "open"}[idx.closed])
			values := map[string]any{}
			for k, v := range idx.settings {
				values[k] = v
			}
			cl.writeSettings("settings", values)
			if w.obj("mappings") {
				w.end()
			}
			if w.arr("aliases") {
				if idx.spec.Alias != "" {
					w.str("", idx.spec.Alias)
				}
				w.end()
			}
			if w.obj("primary_terms") {
				for _, g := range idx.groups {
					w.int(fmt.Sprint(g.num), int64(g.primaryTerm))
				}
				w.end()
			}
			if w.obj("in_sync_allocations") {
				for _, g := range idx.groups {
					var ids []string
					for _, s := range g.copies {
						if s.active() {
							ids = append(ids, s.aid)
						}
					}
					w.strs(fmt.Sprint(g.num), ids)
				}
				w.end()
			}
			w.bool("system", false)
			w.end()
		}
		w.end()
	}
	w.end()
}

func (cl *call) routingTable(indices []*index) {
	w := cl.w
	if !w.obj("routing_table") {
		return
	}
	if w.obj("indices") {
		for _, idx := range indices {
			if !w.obj(idx.name) {
				continue
			}
			if w.obj("shards") {
				for _, g := range idx.groups {
					if !w.arr(fmt.Sprint(g.num)) {
						continue
					}
					for _, s := range g.copies {
						cl.routing(s)
					}
					w.end()
				}
				w.end()
			}
			w.end()
		}
		w.end()
	}
	w.end()
}

// routing writes one copy as the routing table shows it.
func (cl *call) routing(s *shardCopy) {
	c, w := cl.c, cl.w
	if !w.obj("") {
		return
	}
	defer w.end()
	w.str("state", s.state.String())
	w.bool("primary", s.primary)
	if !c.elastic() && c.at(3, 0) {
		w.bool("searchOnly", false)
	}
	if s.node == nil {
		w.null("node")
	} else {
		w.str("node", s.node.id)
	}
	switch {
	case s.target != nil:
		w.str("relocating_node", s.target.node.id)
	case s.source != nil:
		w.str("relocating_node", s.source.node.id)
	default:
		w.null("relocating_node")
	}
	w.int("shard", int64(s.group.num))
	w.str("index", s.group.idx.name)
	if s.state == relocating || s.state == initializing {
		w.count("expected_shard_size_in_bytes", c.bytesNow(s.group))
	}
	if s.state == unassigned || s.state == initializing {
		if w.obj("recovery_source") {
			w.str("type", string(s.recoverySource()))
			w.end()
		}
	}
	if s.aid != "" && w.obj("allocation_id") {
		w.str("id", s.aid)
		if s.target != nil {
			w.str("relocation_id", s.target.aid)
		} else if s.source != nil {
			w.str("relocation_id", s.source.aid)
		}
		w.end()
	}
	if s.state == unassigned || s.state == initializing && s.source == nil {
		cl.unassignedInfo(s)
	}
	if c.elastic() && c.at(8, 9) && w.obj("relocation_failure_info") {
		w.int("failed_attempts", int64(s.failures))
		w.end()
	}
}

func (s *shardCopy) recoverySource() recoveryKind {
	switch {
	case s.rec != nil:
		return s.rec.kind
	case !s.primary:
		return peer
	case s.lastNode != nil:
		return existingStore
	}
	return emptyStore
}

func (cl *call) unassignedInfo(s *shardCopy) {
	c, w := cl.c, cl.w
	if s.why.reason == "" || !w.obj("unassigned_info") {
		return
	}
	w.str("reason", s.why.reason)
	w.str("at", stamp(c.start.Add(s.why.at)))
	if s.why.failed > 0 {
		w.int("failed_attempts", int64(s.why.failed))
	}
	w.bool("delayed", s.why.until > c.now)
	if s.why.details != "" {
		w.str("details", s.why.details)
	}
	w.str("allocation_status", s.why.status)
	w.end()
}

func (cl *call) routingNodes() {
	c, w := cl.c, cl.w
	if !w.obj("routing_nodes") {
		return
	}
	if w.arr("unassigned") {
		for _, s := range c.unassigned {
			cl.routing(s)
		}
		w.end()
	}
	if w.obj("nodes") {
		for _, n := range c.dataNodes() {
			if w.arr(n.id) {
				for _, s := range n.sorted() {
					cl.routing(s)
				}
				w.end()
			}
		}
		w.end()
	}
	w.end()
}

// sorted are the node's copies by index and shard number, so that answers do not show the order of their arrival.
func (n *node) sorted() []*shardCopy {
	list := slices.Clone(n.copies)
	slices.SortFunc(list, func(a, b *shardCopy) int {
		if r := strings.Compare(a.group.idx.name, b.group.idx.name); r != 0 {
			return r
		}
		return a.group.num - b.group.num
	})
	return list
}

// stateCustoms writes running snapshots; where there is nothing the products leave the key out.
func (cl *call) stateCustoms() {
	c, w := cl.c, cl.w
	if len(c.snaps) == 0 || !w.obj("snapshots") {
		return
	}
	if w.arr("snapshots") {
		for _, sn := range c.snaps {
			if !w.obj("") {
				continue
			}
			w.str("repository", "sim")
			w.str("snapshot", sn.name)
			w.str("uuid", sn.uuid)
			w.bool("include_global_state", false)
			w.bool("partial", true)
			w.str("state", "STARTED")
			if w.arr("indices") {
				for _, name := range sn.indexNames() {
					if w.obj("") {
						w.str("name", name)
						w.str("id", sn.uuid)
						w.end()
					}
				}
				w.end()
			}
			if w.arr("shards") {
				for _, part := range sn.parts {
					if !w.obj("") {
						continue
					}
					if w.obj("index") {
						w.str("index_name", part.group.idx.name)
						w.str("index_uuid", part.group.idx.uuid)
						w.end()
					}
					w.int("shard", int64(part.group.num))
					w.str("state", part.state)
					w.str("node", part.node)
					w.end()
				}
				w.end()
			}
			w.end()
		}
		w.end()
	}
	w.end()
}
