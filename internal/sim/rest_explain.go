package sim

import (
	"cmp"
	"encoding/json"
	"slices"
)

// explain answers /_cluster/allocation/explain: why one copy is where it is, and what every node says to it.
func (cl *call) explain() *apiError {
	c, w := cl.c, cl.w
	s, err := cl.explained()
	if err != nil {
		return err
	}
	if !w.obj("") {
		return nil
	}
	defer w.end()
	w.str("index", s.group.idx.name)
	w.int("shard", int64(s.group.num))
	w.bool("primary", s.primary)
	w.str("current_state", map[copyState]string{unassigned: "unassigned", initializing: "initializing", started: "started", relocating: "relocating"}[s.state])
	if s.state == unassigned {
		if w.obj("unassigned_info") {
			w.str("reason", s.why.reason)
			w.str("at", stamp(c.start.Add(s.why.at)))
			w.str("last_allocation_status", s.why.status)
			w.end()
		}
	} else if w.obj("current_node") {
		w.str("id", s.node.id)
		w.str("name", s.node.spec.Name)
		w.str("transport_address", s.node.address())
		cl.attributes("attributes", s.node)
		w.end()
	}
	if cl.flag("include_disk_info") {
		cl.diskInfo()
	}
	switch s.state {
	case initializing, relocating:
		// Nothing is said about copies on their way.
		w.str("explanation", "the shard is in the process of "+map[copyState]string{initializing: "initializing", relocating: "relocating"}[s.state])
		return nil
	case unassigned:
		cl.explainUnassigned(s)
	default:
		remain, by := c.canRemain(s)
		w.str("can_remain_on_current_node", yesNo(remain))
		if remain {
			free := c.mayRebalance(s)
			w.str("can_rebalance_cluster", yesNo(free && c.readyToRebalance()))
			w.str("can_rebalance_to_other_node", "no")
			w.str("rebalance_explanation", "cannot rebalance as no target node exists that can both allocate this shard and improve the cluster balance")
		} else {
			w.str("can_remain_explanation", "refused by "+by)
		}
	}
	cl.nodeDecisions(s)
	return nil
}

func yesNo(v bool) string {
	if v {
		return "yes"
	}
	return "no"
}

// explained finds the copy the request means.
func (cl *call) explained() (*shardCopy, *apiError) {
	c := cl.c
	if len(cl.body) == 0 {
		if len(c.unassigned) == 0 {
			return nil, illegal("unable to find any unassigned shards to explain")
		}
		return c.unassigned[0], nil
	}
	body, err := cl.decode()
	if err != nil {
		return nil, err
	}
	for _, key := range sortedKeys(body) {
		if !slices.Contains([]string{"index", "shard", "primary", "current_node"}, key) {
			return nil, badJSON("[cluster/allocation/explain] unknown field [%s]", key)
		}
	}
	name, _ := body["index"].(string)
	number, isNumber := body["shard"].(json.Number)
	primary, isBool := body["primary"].(bool)
	if name == "" || !isNumber || !isBool {
		return nil, &apiError{status: 400, kind: "action_request_validation_exception", reason: "Validation Failed: 1: index, shard and primary must be specified;"}
	}
	idx := c.find(name)
	if idx == nil {
		return nil, noIndex(name)
	}
	num, bad := number.Int64()
	if bad != nil || num < 0 || int(num) >= len(idx.groups) {
		return nil, &apiError{status: 404, kind: "shard_not_found_exception", reason: "no such shard", index: name}
	}
	at, _ := body["current_node"].(string)
	for _, s := range idx.groups[num].copies {
		if at != "" && (s.node == nil || s.node != c.node(at)) {
			continue
		}
		if s.primary == primary {
			return s, nil
		}
	}
	return nil, illegal("unable to find a shard assigned to node [%s]", at)
}

func (cl *call) explainUnassigned(s *shardCopy) {
	c, w := cl.c, cl.w
	if s.why.until > c.now {
		w.str("can_allocate", "allocation_delayed")
		w.int("remaining_delay_in_millis", (s.why.until - c.now).Milliseconds())
		return
	}
	best := no
	for _, n := range c.dataNodes() {
		best = min(best, c.canAllocate(s, n))
	}
	w.str("can_allocate", map[verdict]string{yes: "yes", throttle: "throttled", no: "no"}[best])
}

// nodeDecisions lists every other node with what its deciders say, best first. worse_balance is a node all deciders
// accept and the built-in balancer does not care for.
func (cl *call) nodeDecisions(s *shardCopy) {
	c, w := cl.c, cl.w
	nodes := slices.DeleteFunc(c.dataNodes(), func(n *node) bool { return n == s.node })
	weights := c.weights(s.group.idx, nodes)
	type row struct {
		n         *node
		worst     verdict
		decisions []decision
		weight    float64
	}
	rows := make([]row, 0, len(nodes))
	for i, n := range nodes {
		worst, decisions := c.decide(s, n, false)
		rows = append(rows, row{n, worst, decisions, weights[i]})
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Or(cmp.Compare(a.worst, b.worst), cmp.Compare(a.weight, b.weight)) })
	if !w.arr("node_allocation_decisions") {
		return
	}
	for i, r := range rows {
		if !w.obj("") {
			continue
		}
		w.str("node_id", r.n.id)
		w.str("node_name", r.n.spec.Name)
		w.str("transport_address", r.n.address())
		cl.attributes("node_attributes", r.n)
		answer := map[verdict]string{yes: "yes", throttle: "throttled", no: "no"}[r.worst]
		if s.state == started && r.worst != no {
			answer = "worse_balance"
		}
		w.str("node_decision", answer)
		w.int("weight_ranking", int64(i+1))
		all := cl.flag("include_yes_decisions")
		if w.arr("deciders") {
			for _, d := range r.decisions {
				if all || d.verdict != yes {
					d.write(w)
				}
			}
			w.end()
		}
		w.end()
	}
	w.end()
}

// diskInfo is the master's own view of the disks, as old as its last look.
func (cl *call) diskInfo() {
	c, w := cl.c, cl.w
	if !w.obj("cluster_info") {
		return
	}
	if w.obj("nodes") {
		for _, n := range c.dataNodes() {
			if !w.obj(n.id) {
				continue
			}
			w.str("node_name", n.spec.Name)
			for _, which := range []string{"least_available", "most_available"} {
				if w.obj(which) {
					w.str("path", "/var/lib/"+c.cfg.Distribution+"/nodes/0")
					w.int("total_bytes", n.spec.Disk)
					w.count("used_bytes", float64(n.spec.Disk)-n.seenFree)
					w.count("free_bytes", n.seenFree)
					w.num("free_disk_percent", 100*n.seenFree/float64(n.spec.Disk))
					w.num("used_disk_percent", 100-100*n.seenFree/float64(n.spec.Disk))
					w.end()
				}
			}
			w.end()
		}
		w.end()
	}
	if w.arr("reserved_sizes") {
		w.end()
	}
	w.end()
}
