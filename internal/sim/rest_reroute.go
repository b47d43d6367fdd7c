package sim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// rerouteCommand is one reroute command that parsed well.
type rerouteCommand struct {
	name         string
	index        string
	shard        int
	from, to     string // as sent: ids or names
	allowPrimary bool
}

// outcome is what became of a command: the deciders' words, and what was wrong with it as a whole.
type outcome struct {
	command   rerouteCommand
	decisions []decision
	refused   string // the reason as one text, "" where it was carried out
}

// parseCommands reads the body strictly: an unknown or missing field is an error, as on the servers.
func parseCommands(body map[string]any) ([]rerouteCommand, *apiError) {
	for _, key := range sortedKeys(body) {
		if key != "commands" && key != "dry_run" {
			return nil, badJSON("[cluster_reroute] unknown field [%s]", key)
		}
	}
	raw, ok := body["commands"]
	if !ok {
		return nil, nil
	}
	list, ok := raw.([]any)
	if !ok {
		return nil, badJSON("[cluster_reroute] commands must be an array")
	}
	var commands []rerouteCommand
	for _, item := range list {
		one, ok := item.(map[string]any)
		if !ok || len(one) != 1 {
			return nil, badJSON("[cluster_reroute] each command is an object with one key")
		}
		for name, value := range one {
			fields, ok := value.(map[string]any)
			if !ok {
				return nil, badJSON("[%s] command holds no object", name)
			}
			cmd, err := parseCommand(name, fields)
			if err != nil {
				return nil, err
			}
			commands = append(commands, cmd)
		}
	}
	return commands, nil
}

func parseCommand(name string, fields map[string]any) (rerouteCommand, *apiError) {
	cmd := rerouteCommand{name: name}
	required := map[string][]string{
		"move": {"index", "shard", "from_node", "to_node"}, "cancel": {"index", "shard", "node"},
	}[name]
	if required == nil {
		return cmd, badJSON("[cluster_reroute] unknown command [%s]", name)
	}
	for _, key := range sortedKeys(fields) {
		if !slices.Contains(required, key) && !(key == "allow_primary" && name == "cancel") {
			return cmd, badJSON("[%s] unknown field [%s]", name, key)
		}
	}
	for _, key := range required {
		if fields[key] == nil {
			return cmd, badJSON("[%s] missing the [%s] parameter", name, key)
		}
	}
	text := func(key string) string { s, _ := fields[key].(string); return s }
	cmd.index, cmd.from, cmd.to = text("index"), text("from_node"), text("to_node")
	if name != "move" {
		cmd.from = text("node")
	}
	switch n := fields["shard"].(type) {
	case json.Number:
		i, err := n.Int64()
		if err != nil || i < 0 || i > 1<<20 {
			return cmd, badJSON("[%s] failed to parse field [shard]", name)
		}
		cmd.shard = int(i)
	case string:
		if _, err := fmt.Sscanf(n, "%d", &cmd.shard); err != nil || cmd.shard < 0 {
			return cmd, badJSON("[%s] failed to parse field [shard]", name)
		}
	default:
		return cmd, badJSON("[%s] failed to parse field [shard]", name)
	}
	cmd.allowPrimary = fields["allow_primary"] == true
	if cmd.index == "" || cmd.from == "" || name == "move" && cmd.to == "" {
		return cmd, badJSON("[%s] fields must be texts and not empty", name)
	}
	return cmd, nil
}

func (cl *call) reroute() *apiError {
	c := cl.c
	if c.cfg.Managed {
		return &apiError{status: http.StatusForbidden, message: true, reason: "Your request: '/_cluster/reroute' is not allowed."}
	}
	body := map[string]any{}
	if len(cl.body) > 0 {
		var err *apiError
		if body, err = cl.decode(); err != nil {
			return err
		}
	}
	commands, err := parseCommands(body)
	if err != nil {
		return err
	}
	dry := cl.flag("dry_run") || body["dry_run"] == true
	explain := cl.flag("explain")
	if len(commands) > 0 {
		c.tally.Reroutes++
	}
	if cl.flag("retry_failed") {
		c.forgetFailures()
	}
	outcomes, err := c.execute(commands, dry, explain)
	if err != nil {
		return err
	}
	if !dry {
		c.reroute()
	}
	cl.rerouteWarning()
	w := cl.w
	if !w.obj("") {
		return nil
	}
	w.bool("acknowledged", true)
	cl.rerouteState()
	if explain && w.arr("explanations") {
		for _, o := range outcomes {
			o.write(w)
		}
		w.end()
	}
	w.end()
	return nil
}

// resolve finds a command's nodes. A name that fits none, or none that holds data, fails the whole request.
func (c *Cluster) resolve(cmd rerouteCommand) *apiError {
	for _, name := range []string{cmd.from, cmd.to} {
		if name != "" && c.node(name) == nil {
			return illegal("failed to resolve [%s], no matching nodes", name)
		}
	}
	if n := c.node(cmd.to); n != nil && !n.isData() {
		return illegal("[move_allocation] can't move [%s][%d], from %s, to %s, since its not allowed, reason: %s is not a data node.",
			cmd.index, cmd.shard, cmd.from, cmd.to, cmd.to)
	}
	return nil
}

// execute carries commands out in order, each seeing what the ones before it did. Without explain the first refusal
// fails the request, and nothing of it has happened. A dry run leaves no trace either, except in a desired balance,
// which takes note of every move.
func (c *Cluster) execute(commands []rerouteCommand, dry, explain bool) ([]outcome, *apiError) {
	for _, cmd := range commands {
		if err := c.resolve(cmd); err != nil {
			return nil, err
		}
	}
	outcomes := make([]outcome, len(commands))
	if dry || !explain {
		if err := c.rehearse(commands, outcomes, explain); err != nil {
			return nil, err
		}
	}
	for i, cmd := range commands {
		var s *shardCopy
		if dry {
			s = c.on(cmd)
		} else {
			outcomes[i], s = c.judge(cmd)
		}
		if cmd.name == "move" {
			c.queueHint(hint{cmd.index, cmd.shard, c.node(cmd.from).id, c.node(cmd.to).id}, s != nil && s.state == started)
		}
		switch {
		case dry:
		case outcomes[i].refused == "":
			c.carryOut(cmd, s)
		case cmd.name == "move":
			c.tally.Refused++
		}
	}
	return outcomes, nil
}

// rehearse tries the commands and takes all back: moves are made and unmade, cancellations only judged.
func (c *Cluster) rehearse(commands []rerouteCommand, outcomes []outcome, explain bool) *apiError {
	tally, made := c.tally, []*shardCopy(nil)
	c.quiet = true
	defer func() {
		for _, s := range slices.Backward(made) {
			c.cancelRelocation(s, false)
		}
		c.quiet, c.tally = false, tally
	}()
	for i, cmd := range commands {
		o, s := c.judge(cmd)
		outcomes[i] = o
		if o.refused != "" && !explain {
			if cmd.name == "move" {
				tally.Refused++
			}
			return illegal("%s", o.refused)
		}
		if o.refused == "" && cmd.name == "move" {
			c.relocate(s, c.node(cmd.to), true)
			made = append(made, s)
		}
	}
	return nil
}

// on is the copy a command means: the one of that shard on the node it names.
func (c *Cluster) on(cmd rerouteCommand) *shardCopy {
	n := c.node(cmd.from)
	for _, s := range n.copies {
		if s.group.idx.name == cmd.index && s.group.num == cmd.shard {
			return s
		}
	}
	return nil
}

// judge decides about one command.
func (c *Cluster) judge(cmd rerouteCommand) (outcome, *shardCopy) {
	o := outcome{command: cmd}
	s := c.on(cmd)
	if cmd.name == "cancel" {
		reject := func(text string) (outcome, *shardCopy) {
			o.decisions = []decision{{"cancel_allocation_command", no, text}}
			o.refused = fmt.Sprintf("[cancel_allocation] can't cancel [%s][%d] on node %s, %s", cmd.index, cmd.shard, cmd.from, text)
			return o, s
		}
		switch {
		case s == nil:
			return reject(c.notFound(cmd))
		case s.primary && s.source == nil && !cmd.allowPrimary:
			return reject("shard is primary and " + map[bool]string{true: "initializing its state", false: "started"}[s.state == initializing])
		}
		o.decisions = []decision{{"cancel_allocation_command", yes, fmt.Sprintf("shard [%s][%d] on node %s can be cancelled", cmd.index, cmd.shard, cmd.from)}}
		return o, s
	}
	reject := func(text string) (outcome, *shardCopy) {
		o.decisions = []decision{{"move_allocation_command", no, text}}
		o.refused = "[move_allocation] can't move " + fmt.Sprint(cmd.shard) + ", " + text
		return o, s
	}
	switch {
	case s == nil:
		return reject(c.notFound(cmd))
	case s.state != started:
		return reject(fmt.Sprintf("shard %d has not been started", cmd.shard))
	}
	to := c.node(cmd.to)
	worst, decisions := c.decide(s, to, true)
	o.decisions = decisions
	if worst == no {
		var all strings.Builder
		for _, d := range decisions {
			fmt.Fprintf(&all, "[%s(%s)]", d.verdict, d.text)
		}
		o.refused = fmt.Sprintf("[move_allocation] can't move %d, from %s, to %s, since its not allowed, reason: %s", cmd.shard, s.node.describe(), to.describe(), &all)
	}
	return o, s
}

func (c *Cluster) notFound(cmd rerouteCommand) string {
	if c.elastic() && c.at(9, 0) {
		return fmt.Sprintf("shard [%s][%d] not found", cmd.index, cmd.shard)
	}
	return fmt.Sprintf("shard %d not found", cmd.shard)
}

func (n *node) describe() string {
	return fmt.Sprintf("{%s}{%s}{%s}{%s}{%s}", n.spec.Name, n.id, n.ephemeral, n.ip, n.address())
}

// carryOut does what a command asks, THROTTLE or not.
func (c *Cluster) carryOut(cmd rerouteCommand, s *shardCopy) {
	switch {
	case cmd.name == "move":
		c.relocate(s, c.node(cmd.to), true)
		c.tally.Moves++
	case s.source != nil:
		c.cancelRelocation(s.source, false)
	case s.primary && s.active():
		c.losePrimary(s, "REROUTE_CANCELLED", "", 0)
	default:
		c.unassign(s, "REROUTE_CANCELLED", "", 0)
		s.lastNode = nil
	}
}

// write puts the outcome into an answer's explanations.
func (o outcome) write(w *jsonWriter) {
	if !w.obj("") {
		return
	}
	w.str("command", o.command.name)
	if w.obj("parameters") {
		w.str("index", o.command.index)
		w.int("shard", int64(o.command.shard))
		if o.command.name == "move" {
			w.str("from_node", o.command.from)
			w.str("to_node", o.command.to)
		} else {
			w.str("node", o.command.from)
			w.bool("allow_primary", o.command.allowPrimary)
		}
		w.end()
	}
	if w.arr("decisions") {
		for _, d := range o.decisions {
			d.write(w)
		}
		w.end()
	}
	w.end()
}

func (d decision) write(w *jsonWriter) {
	if w.obj("") {
		w.str("decider", d.decider)
		w.str("decision", d.verdict.String())
		w.str("explanation", d.text)
		w.end()
	}
}

// rerouteState writes the state into the answer, as far as this version does that and metric asks for it.
func (cl *call) rerouteState() {
	c, w := cl.c, cl.w
	if c.elastic() && c.at(9, 0) {
		return
	}
	metrics := splitList(cl.query.Get("metric"))
	if c.elastic() && c.at(8, 6) && slices.Equal(metrics, []string{"none"}) {
		return
	}
	all := len(metrics) == 0 || slices.Contains(metrics, "_all")
	if !w.obj("state") {
		return
	}
	w.str("cluster_uuid", c.uuid)
	cl.writeState(func(m string) bool { return m != "metadata" && all || slices.Contains(metrics, m) }, c.indices)
	w.end()
}

func (cl *call) rerouteWarning() {
	c := cl.c
	metric := cl.query.Get("metric")
	switch {
	case !c.elastic():
	case c.at(9, 0) && cl.query.Has("metric"):
		cl.warn = append(cl.warn, "the [?metric] query parameter to the [POST /_cluster/reroute] API has no effect; its use will be forbidden in a future version")
	case c.at(8, 6) && !c.at(9, 0) && metric != "none":
		cl.warn = append(cl.warn, "The [state] field in the response to the reroute API is deprecated and will be removed in a future version. Specify ?metric=none to adopt the future behaviour.")
	}
}

// desiredBalance answers GET /_internal/desired_balance.
func (cl *call) desiredBalance() *apiError {
	c, w := cl.c, cl.w
	if !w.obj("") {
		return nil
	}
	if w.obj("stats") {
		copies, undesired := 0, 0
		for s := range c.allCopies {
			copies++
			if s.node != nil && !slices.Contains(s.group.desired, s.node) {
				undesired++
			}
		}
		if !c.at(9, 0) && c.rules.rebalance == "none" {
			undesired = 0 // 8.x does not keep it up to date then
		}
		w.bool("computation_active", false)
		w.int("computation_submitted", int64(c.desire.computed))
		w.int("computation_executed", int64(c.desire.computed))
		w.int("computation_converged", int64(c.desire.computed))
		w.int("computation_iterations", int64(c.desire.iterations))
		w.int("computed_shard_movements", int64(c.desire.moves))
		w.int("unassigned_shards", int64(len(c.unassigned)))
		w.int("total_allocations", int64(copies))
		w.int("undesired_allocations", int64(undesired))
		w.num("undesired_allocations_ratio", float64(undesired)/float64(max(copies, 1)))
		w.end()
	}
	if w.obj("cluster_balance_stats") {
		if w.obj("nodes") {
			for _, n := range c.dataNodes() {
				if w.obj(n.spec.Name) {
					w.str("node_id", n.id)
					w.strs("roles", n.spec.Roles)
					w.int("shard_count", int64(n.count))
					w.num("forecast_write_load", 0)
					w.count("actual_disk_usage_bytes", c.used(n))
					if c.at(9, 1) {
						w.num("node_weight", float64(n.count)*c.rules.balanceShard)
					}
					w.end()
				}
			}
			w.end()
		}
		w.end()
	}
	if w.obj("routing_table") {
		for _, idx := range c.indices {
			if !w.obj(idx.name) {
				continue
			}
			for _, g := range idx.groups {
				if w.obj(itoa(g.num)) {
					cl.desiredGroup(g)
					w.end()
				}
			}
			w.end()
		}
		w.end()
	}
	if w.obj("cluster_info") {
		w.end()
	}
	w.end()
	return nil
}

func (cl *call) desiredGroup(g *group) {
	w := cl.w
	if w.arr("current") {
		for _, s := range g.copies {
			if !w.obj("") {
				continue
			}
			w.str("state", s.state.String())
			w.bool("primary", s.primary)
			if s.node != nil {
				w.str("node", s.node.id)
			} else {
				w.null("node")
			}
			w.bool("node_is_desired", s.node != nil && slices.Contains(g.desired, s.node))
			if s.target != nil {
				w.str("relocating_node", s.target.node.id)
				w.bool("relocating_node_is_desired", slices.Contains(g.desired, s.target.node))
			} else {
				w.null("relocating_node")
				w.null("relocating_node_is_desired")
			}
			w.int("shard_id", int64(g.num))
			w.str("index", g.idx.name)
			w.num("forecast_write_load", 0)
			w.count("forecast_shard_size_in_bytes", cl.c.bytesNow(g))
			w.strs("tier_preference", g.idx.rules.tiers)
			w.end()
		}
		w.end()
	}
	if w.obj("desired") {
		var ids []string
		for _, n := range g.desired {
			ids = append(ids, n.id)
		}
		w.strs("node_ids", ids)
		w.int("total", int64(len(g.copies)))
		w.int("unassigned", int64(len(g.copies)-len(g.desired)))
		w.int("ignored", 0)
		w.end()
	}
}

func (cl *call) deleteDesiredBalance() *apiError {
	cl.c.resetDesired()
	cl.empty = true
	return nil
}

// send carries one command out as a person's request without explain would.
func (c *Cluster) send(cmd rerouteCommand, dry bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tally.Reroutes++
	if _, err := c.execute([]rerouteCommand{cmd}, dry, false); err != nil {
		return err
	}
	if !dry {
		c.reroute()
	}
	return nil
}

// Move asks for a relocation by command; nodes by id or name. The error says which deciders refused it.
func (c *Cluster) Move(index string, shard int, from, to string) error {
	return c.send(rerouteCommand{name: "move", index: index, shard: shard, from: from, to: to}, false)
}

// Cancel ends a relocation at its target, or throws a copy that is not a started primary away.
func (c *Cluster) Cancel(index string, shard int, node string) error {
	return c.send(rerouteCommand{name: "cancel", index: index, shard: shard, from: node}, false)
}

// forgetFailures is what retry_failed asks for.
func (c *Cluster) forgetFailures() {
	c.chances++
	for s := range c.allCopies {
		s.why.failed, s.failures = 0, 0
	}
}

// Reroute lets the master look at everything again, as a request without commands does; with retryFailed copies that
// failed too often are tried anew.
func (c *Cluster) Reroute(retryFailed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if retryFailed {
		c.forgetFailures()
	}
	c.reroute()
}
