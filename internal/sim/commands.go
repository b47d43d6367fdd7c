package sim

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// arguments are the words after a command: plain ones first, then key=value pairs in any order. Reading them notes what
// is wrong; whatever nobody read is wrong too.
type arguments struct {
	plain  []string
	pairs  map[string]string
	used   map[string]bool
	faults []string
}

func newArguments(words []string) *arguments {
	a := &arguments{pairs: map[string]string{}, used: map[string]bool{}}
	for _, w := range words {
		key, value, ok := strings.Cut(w, "=")
		switch {
		case !ok && len(a.pairs) > 0:
			a.fault("%q stands after a key=value pair", w)
		case !ok:
			a.plain = append(a.plain, w)
		case a.pairs[key] != "":
			a.fault("%s is given twice", key)
		default:
			a.pairs[key] = value
		}
	}
	return a
}

func (a *arguments) fault(format string, args ...any) {
	a.faults = append(a.faults, fmt.Sprintf(format, args...))
}

// word takes the next plain word.
func (a *arguments) word(what string) string {
	if len(a.plain) == 0 {
		a.fault("%s is missing", what)
		return ""
	}
	w := a.plain[0]
	a.plain = a.plain[1:]
	return w
}

// flag takes a plain word where it stands next.
func (a *arguments) flag(name string) bool {
	if i := slices.Index(a.plain, name); i >= 0 {
		a.plain = slices.Delete(a.plain, i, i+1)
		return true
	}
	return false
}

func (a *arguments) text(key, fallback string) string {
	a.used[key] = true
	if v, ok := a.pairs[key]; ok {
		return v
	}
	return fallback
}

func (a *arguments) list(key string) []string { return splitList(a.text(key, "")) }

// read parses the value of a key with f.
func read[T any](a *arguments, key string, fallback T, f func(string) (T, error)) T {
	text := a.text(key, "")
	if text == "" {
		return fallback
	}
	v, err := f(text)
	if err != nil {
		a.fault("%s=%s: %v", key, text, err)
		return fallback
	}
	return v
}

func (a *arguments) number(key string, fallback float64) float64 {
	return read(a, key, fallback, func(s string) (float64, error) {
		x, err := strconv.ParseFloat(strings.TrimSuffix(s, "x"), 64)
		if err != nil || x < 0 {
			return 0, fmt.Errorf("not a number >= 0")
		}
		return x, nil
	})
}

func (a *arguments) whole(key string, fallback int) int {
	return read(a, key, fallback, func(s string) (int, error) {
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 || n > 1<<20 {
			return 0, fmt.Errorf("not a whole number >= 0")
		}
		return n, nil
	})
}

// maxSpan bounds durations: more than anybody simulates, less than overflows.
const maxSpan = 20 * 366 * day

func span(text string) (time.Duration, error) {
	d, err := parseTime(text)
	if err == nil && (d < 0 || d > maxSpan) {
		err = fmt.Errorf("%q is out of bounds", text)
	}
	return d, err
}

func (a *arguments) time(key string, fallback time.Duration) time.Duration {
	return read(a, key, fallback, span)
}

// size reads bytes with decimal units as disks are sold ("1TB" is 10^12), lower-case ones as the servers read them.
func size(text string) (float64, error) {
	for unit, factor := range map[string]float64{"TB": 1e12, "GB": 1e9, "MB": 1e6, "KB": 1e3} {
		if num, ok := strings.CutSuffix(text, unit); ok {
			x, err := strconv.ParseFloat(num, 64)
			if err != nil || x < 0 || x > 1e9 {
				return 0, fmt.Errorf("%q is no size", text)
			}
			return x * factor, nil
		}
	}
	x, err := parseBytes(text)
	if err == nil && (x < 0 || x > 1e18) {
		err = fmt.Errorf("%q is no size", text)
	}
	return x, err
}

func (a *arguments) size(key string, fallback float64) float64 { return read(a, key, fallback, size) }

// rest takes all pairs nobody read, for commands whose keys are free.
func (a *arguments) rest() map[string]string {
	m := map[string]string{}
	for k, v := range a.pairs {
		if !a.used[k] {
			m[k], a.used[k] = v, true
		}
	}
	return m
}

// done is what was wrong with the arguments, including those nobody wanted.
func (a *arguments) done() error {
	for _, w := range a.plain {
		a.fault("%q is not understood", w)
	}
	for _, k := range sortedKeys(a.pairs) {
		if !a.used[k] {
			a.fault("there is no %s= here", k)
		}
	}
	if len(a.faults) > 0 {
		return fmt.Errorf("%s", strings.Join(a.faults, "; "))
	}
	return nil
}

// commands are the words a line can begin with. Each reads its arguments and gives what to do.
var commands map[string]func(*arguments) action

func init() { // filled here since "at" refers to the table itself
	commands = map[string]func(*arguments) action{
		"cluster": parseCluster, "demo": parseDemo, "set": parseSet, "node": parseNode, "nodes": parseNodes, "index": parseIndex,
		"series": parseSeries, "settle": parseSettle, "daemon": parseDaemon, "run": parseRun, "at": nil, "try": nil, "assert": nil, "print": parsePrint,

		"kill":     nodeEvent((*Cluster).Kill),
		"start":    nodeEvent((*Cluster).Restart),
		"freeze":   nodeEvent(func(c *Cluster, n string) bool { return c.Freeze(n, true) }),
		"thaw":     nodeEvent(func(c *Cluster, n string) bool { return c.Freeze(n, false) }),
		"mute":     nodeEvent(func(c *Cluster, n string) bool { return c.Mute(n, true) }),
		"unmute":   nodeEvent(func(c *Cluster, n string) bool { return c.Mute(n, false) }),
		"break":    nodeEvent(func(c *Cluster, n string) bool { return c.Break(n, true) }),
		"mend":     nodeEvent(func(c *Cluster, n string) bool { return c.Break(n, false) }),
		"restart":  parseRestart,
		"fill":     parseFill,
		"reject":   parseReject,
		"shutdown": parseShutdown,
		"upgrade":  parseUpgrade,
		"master":   parseMaster,
		"heat":     parseHeat,
		"weights":  parseWeights,
		"open":     parseOpen,

		"decommission": parseDecommission,
		"recommission": plainEvent((*Cluster).Recommission),
		"traffic":      parseTraffic,
		"rollover":     namedEvent("series", (*Cluster).Rollover),
		"delete":       namedEvent("index", (*Cluster).DeleteIndex),
		"reset":        namedEvent("index", (*Cluster).ResetCounters),
		"configure":    parseConfigure,
		"move":         parseMove,
		"dry_run":      parseDryRun,
		"reroute":      parseReroute,
		"cancel":       parseCancel,
		"snapshot":     parseSnapshot,
		"busy":         parseBusy,
		"fault":        parseFault,
		"repair":       plainEvent((*Cluster).ClearFaults),
	}
}

// notEvents may not stand after "at" and "try".
var notEvents = []string{"cluster", "demo", "settle", "daemon", "run", "at", "try", "assert", "print"}

func parseLine(words []string) (action, error) {
	switch words[0] {
	case "at":
		return parseAt(words[1:])
	case "try":
		return parseTry(words[1:])
	case "assert":
		return parseAssert(words[1:])
	}
	parse := commands[words[0]]
	if parse == nil {
		return nil, fmt.Errorf("no command %q; there are %s", words[0], strings.Join(sortedKeys(commands), ", "))
	}
	a := newArguments(words[1:])
	do := parse(a)
	return do, a.done()
}

// parseAt schedules an event from the present moment on.
func parseAt(words []string) (action, error) {
	if len(words) < 2 {
		return nil, fmt.Errorf("at wants a time and an event: at 10m kill n3")
	}
	d, err := span(words[0])
	if err != nil {
		return nil, err
	}
	if slices.Contains(notEvents, words[1]) {
		return nil, fmt.Errorf("%q is no event", words[1])
	}
	event, err := parseLine(words[1:])
	if err != nil {
		return nil, err
	}
	return withCluster(func(r *run, c *Cluster) error {
		line := r.line
		c.At(d, func(*Cluster) {
			if err := event(r); err != nil {
				what := strings.Join(words[1:], " ")
				r.report.Failed = append(r.report.Failed, fmt.Sprintf("line %d: %s: %v", line, what, err))
				r.printf("FAIL line %d: %s: %v", line, what, err)
			}
		})
		return nil
	}), nil
}

// parseTry does something that may be refused.
func parseTry(words []string) (action, error) {
	if len(words) == 0 || slices.Contains(notEvents, words[0]) {
		return nil, fmt.Errorf("try wants an event: try move web 0 n1 n2")
	}
	event, err := parseLine(words)
	if err != nil {
		return nil, err
	}
	return withCluster(func(r *run, _ *Cluster) error {
		if err := event(r); err != nil {
			r.printf("refused: %s", strings.Join(words, " "))
		}
		return nil
	}), nil
}

func parseReroute(a *arguments) action {
	retry := a.flag("retry_failed")
	return withCluster(func(_ *run, c *Cluster) error {
		c.Reroute(retry)
		return nil
	})
}

func parseCluster(a *arguments) action {
	cfg := Config{
		Distribution: a.word("distribution (opensearch or elasticsearch)"), Version: a.word("version"), Name: a.text("name", ""),
		Seed: uint64(a.whole("seed", 1)), OSS: a.flag("oss"), Legacy: a.flag("legacy"), Noise: a.number("noise", 0),
	}
	if _, quiet := a.pairs["noise"]; quiet && cfg.Noise == 0 {
		cfg.Noise = -1
	}
	cfg.Start = read(a, "start", time.Time{}, func(s string) (time.Time, error) { return time.Parse(time.RFC3339, s) })
	if cfg.Distribution != OpenSearch && cfg.Distribution != Elasticsearch {
		a.fault("no distribution %q", cfg.Distribution)
	}
	if _, err := parseVersion(cfg.Version); err != nil {
		a.fault("%v", err)
	}
	cfg.Settings = a.rest()
	return func(r *run) error { return r.begin(New(cfg)) }
}

func parseDemo(a *arguments) action {
	seed := uint64(a.whole("seed", 1))
	return func(r *run) error { return r.begin(Demo(seed)) }
}

func parseSet(a *arguments) action {
	values := a.rest()
	if len(values) == 0 {
		a.fault("set wants settings: set cluster.routing.rebalance.enable=none")
	}
	return withCluster(func(_ *run, c *Cluster) error { return c.SetPersistent(values) })
}

func parseConfigure(a *arguments) action {
	index, values := a.word("index"), a.rest()
	return withCluster(func(_ *run, c *Cluster) error { return c.SetIndex(index, values) })
}

// nodeSpec reads what node and nodes have in common.
func nodeSpec(a *arguments) NodeSpec {
	spec := NodeSpec{
		Host: a.text("host", ""), Roles: a.list("roles"), Processors: a.whole("cpu", 8), Disk: int64(a.size("disk", 1e12)),
		OtherDisk: int64(a.size("other", 0)), Bandwidth: a.size("bandwidth", 0), Version: a.text("version", ""),
		Attributes: map[string]string{},
	}
	for k, v := range a.pairs {
		if name, ok := strings.CutPrefix(k, "attr."); ok {
			spec.Attributes[name], a.used[k] = v, true
		}
	}
	if z := a.text("zone", ""); z != "" {
		spec.Attributes["zone"] = z
	}
	if spec.Version != "" {
		if _, err := parseVersion(spec.Version); err != nil {
			a.fault("%v", err)
		}
	}
	return spec
}

func parseNode(a *arguments) action {
	name := a.word("name of the node")
	spec := nodeSpec(a)
	spec.Name = name
	return withCluster(func(_ *run, c *Cluster) error {
		_, err := c.AddNode(spec)
		return err
	})
}

func parseNodes(a *arguments) action {
	count, err := strconv.Atoi(a.word("number of nodes"))
	if err != nil || count < 1 || count > 10_000 {
		a.fault("the number of nodes is between 1 and 10000")
	}
	zones, prefix := a.list("zones"), a.text("prefix", "n")
	spec := nodeSpec(a)
	return withCluster(func(_ *run, c *Cluster) error {
		for i := range count {
			one := spec
			one.Name = fmt.Sprintf("%s%d", prefix, i+1)
			one.Attributes = maps.Clone(spec.Attributes)
			if len(zones) > 0 {
				one.Attributes["zone"] = zones[i%len(zones)]
			}
			if _, err := c.AddNode(one); err != nil {
				return err
			}
		}
		return nil
	})
}

// indexSpec reads what index and series have in common.
func indexSpec(a *arguments) IndexSpec {
	spec := IndexSpec{
		Shards: a.whole("shards", 1), Replicas: a.whole("replicas", 1), Bytes: int64(a.size("size", 0)), Docs: int64(a.number("docs", 0)),
		Search: a.number("search", 0), Write: a.number("write", 0), DocsPerSec: a.number("docs_per_s", 0), QueryCost: a.time("query", 0).Seconds(),
		Settings: map[string]string{},
	}
	spec.Profile = read(a, "by_age", Profile(nil), parseProfile)
	for k, v := range a.pairs {
		if strings.HasPrefix(k, "index.") {
			spec.Settings[k], a.used[k] = v, true
		}
	}
	if spec.Shards == 0 || spec.Shards > 1024 || spec.Replicas > 100 {
		a.fault("an index has 1 to 1024 shards and up to 100 replicas")
	}
	return spec
}

// parseProfile reads "1d:1,7d:0.3,31d:0.1,0.01": factors by age, the last without an age.
func parseProfile(text string) (Profile, error) {
	var p Profile
	for _, part := range splitList(text) {
		age, factor, ok := strings.Cut(part, ":")
		upTo := time.Duration(1<<63 - 1)
		if !ok {
			factor = age
		} else {
			var err error
			if upTo, err = span(age); err != nil {
				return nil, err
			}
		}
		x, err := strconv.ParseFloat(factor, 64)
		if err != nil || x < 0 {
			return nil, fmt.Errorf("%q is no factor", factor)
		}
		if len(p) > 0 && upTo <= p[len(p)-1].UpTo {
			return nil, fmt.Errorf("ages must grow")
		}
		p = append(p, Plateau{upTo, x})
	}
	return p, nil
}

func parseIndex(a *arguments) action {
	name := a.word("name of the index")
	spec := indexSpec(a)
	spec.Name, spec.Age, spec.Hidden, spec.Closed = name, a.time("age", 0), a.flag("hidden"), a.flag("closed")
	spec.Alias, spec.DataStream = a.text("alias", ""), a.text("stream", "")
	return withCluster(func(_ *run, c *Cluster) error { return c.AddIndex(spec) })
}

// parseSeries reads "series NAME ...". Several names make several equal series, created day by day side by side.
func parseSeries(a *arguments) action {
	stream := a.flag("stream")
	names := a.plain
	a.plain = nil
	if len(names) == 0 {
		a.fault("name of the series is missing")
	}
	spec := SeriesSpec{DataStream: stream, Period: a.time("period", day), Keep: a.whole("keep", 7), Index: indexSpec(a)}
	if spec.Period < time.Minute || spec.Keep < 1 || spec.Keep > 4000 {
		a.fault("a series has periods of a minute or more and keeps 1 to 4000 indices")
	}
	return withCluster(func(_ *run, c *Cluster) error {
		var specs []SeriesSpec
		for _, name := range names {
			one := spec
			one.Name = name
			specs = append(specs, one)
		}
		return c.AddSeries(specs...)
	})
}

func parseSettle(*arguments) action {
	return withCluster(func(_ *run, c *Cluster) error {
		if left := c.Settle(); left > 0 {
			return fmt.Errorf("%d copies found no place", left)
		}
		return nil
	})
}

func parseDaemon(a *arguments) action {
	if a.flag("stop") {
		return withCluster(func(r *run, _ *Cluster) error { return r.stop() })
	}
	every, o := a.time("interval", time.Minute), Options{PerRequest: a.time("request", 100*time.Millisecond), PerNode: a.flag("addresses")}
	if every <= 0 {
		a.fault("interval must be positive")
	}
	return withCluster(func(r *run, _ *Cluster) error { return r.start(every, o) })
}

func parseRun(a *arguments) action {
	d, err := span(a.word("how long"))
	if err != nil {
		a.fault("%v", err)
	}
	return withCluster(func(r *run, _ *Cluster) error { return r.pass(d) })
}

func plainEvent(do func(*Cluster)) func(*arguments) action {
	return func(*arguments) action {
		return withCluster(func(_ *run, c *Cluster) error {
			do(c)
			return nil
		})
	}
}

func namedEvent(what string, do func(*Cluster, string) bool) func(*arguments) action {
	return func(a *arguments) action {
		name := a.word("name of the " + what)
		return withCluster(func(_ *run, c *Cluster) error {
			if !do(c, name) {
				return fmt.Errorf("no %s %q", what, name)
			}
			return nil
		})
	}
}

// nodeEvent happens to a node, or, for "zone:c", to each that has the attribute, whether it runs or not.
func nodeEvent(do func(*Cluster, string) bool) func(*arguments) action {
	return namedEvent("node", func(c *Cluster, name string) bool {
		attribute, value, all := strings.Cut(name, ":")
		if !all {
			return do(c, name)
		}
		names := c.NodesIn(attribute, value)
		for _, n := range names {
			do(c, n)
		}
		return len(names) > 0
	})
}

// parseRestart kills a node and brings it back.
func parseRestart(a *arguments) action {
	name, away := a.word("name of the node"), a.time("for", 30*time.Second)
	return withCluster(func(_ *run, c *Cluster) error {
		if !c.Kill(name) {
			return fmt.Errorf("no node %q", name)
		}
		c.At(away, func(c *Cluster) { c.Restart(name) })
		return nil
	})
}

func parseFill(a *arguments) action {
	name, text := a.word("name of the node"), a.word("bytes")
	sign := int64(1)
	if rest, ok := strings.CutPrefix(text, "-"); ok {
		sign, text = -1, rest
	}
	bytes, err := size(text)
	if err != nil {
		a.fault("%v", err)
	}
	return onNode(name, func(c *Cluster) bool { return c.FillDisk(name, sign*int64(bytes)) })
}

func onNode(name string, do func(*Cluster) bool) action {
	return withCluster(func(_ *run, c *Cluster) error {
		if !do(c) {
			return fmt.Errorf("no node %q", name)
		}
		return nil
	})
}

func parseReject(a *arguments) action {
	name, search, write := a.word("name of the node"), a.whole("search", 0), a.whole("write", 0)
	return onNode(name, func(c *Cluster) bool { return c.Reject(name, search, write) })
}

func parseShutdown(a *arguments) action {
	name, kind := a.word("name of the node"), a.word("REMOVE, RESTART, REPLACE, SIGTERM or none")
	if kind == "none" {
		kind = ""
	}
	return onNode(name, func(c *Cluster) bool { return c.Shutdown(name, kind) })
}

func parseUpgrade(a *arguments) action {
	name, version := a.word("name of the node"), a.word("version")
	return withCluster(func(_ *run, c *Cluster) error { return c.Upgrade(name, version) })
}

func parseMaster(a *arguments) action {
	without := a.time("after", electionTime)
	return withCluster(func(_ *run, c *Cluster) error {
		c.LoseMaster(without)
		return nil
	})
}

func parseHeat(a *arguments) action {
	name, search, write := a.word("name of the index"), a.number("search", 1), a.number("write", 1)
	return withCluster(func(_ *run, c *Cluster) error {
		if !c.SetHeat(name, search, write) {
			return fmt.Errorf("no index %q", name)
		}
		return nil
	})
}

func parseTraffic(a *arguments) action {
	search, write := a.number("search", 1), a.number("write", 1)
	return withCluster(func(_ *run, c *Cluster) error {
		c.SetTraffic(search, write)
		return nil
	})
}

// parseWeights reads "weights zone a=1 b=1 c=0".
func parseWeights(a *arguments) action {
	attribute, values := a.word("attribute"), map[string]float64{}
	for value, text := range a.rest() {
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			a.fault("%s=%s: no weight", value, text)
		}
		values[value] = x
	}
	return withCluster(func(_ *run, c *Cluster) error {
		_, err := c.SetWeights(attribute, values)
		return err
	})
}

func parseDecommission(a *arguments) action {
	attribute, value, drain := a.word("attribute"), a.word("value"), a.time("drain", defaultDrain)
	return withCluster(func(_ *run, c *Cluster) error { return c.Decommission(attribute, value, drain) })
}

func parseOpen(a *arguments) action {
	name := a.word("name of the node")
	open := Open{HTTP: a.whole("http", 0), Contexts: a.whole("contexts", 0), Scrolls: a.whole("scrolls", 0), Points: a.whole("points", 0)}
	return onNode(name, func(c *Cluster) bool { return c.SetOpen(name, open) })
}

func parseMove(a *arguments) action {
	index, shard, from, to := a.word("index"), a.word("shard"), a.word("node it is on"), a.word("node to go to")
	return command(a, "move", index, shard, from, to)
}

func parseDryRun(a *arguments) action {
	index, shard, from, to := a.word("index"), a.word("shard"), a.word("node it is on"), a.word("node to go to")
	return command(a, "dry_run", index, shard, from, to)
}

func parseCancel(a *arguments) action {
	index, shard, node := a.word("index"), a.word("shard"), a.word("node")
	return command(a, "cancel", index, shard, node, "")
}

// command sends one reroute command as a person would, without explain: a refusal is an error.
func command(a *arguments, name, index, shard, from, to string) action {
	number, err := strconv.Atoi(shard)
	if err != nil || number < 0 {
		a.fault("%q is no shard number", shard)
	}
	dry := name == "dry_run"
	if dry {
		name = "move"
	}
	cmd := rerouteCommand{name: name, index: index, shard: number, from: from, to: to}
	return withCluster(func(_ *run, c *Cluster) error { return c.send(cmd, dry) })
}

func parseSnapshot(a *arguments) action {
	index, d := a.word("index"), a.time("for", 10*time.Minute)
	return withCluster(func(_ *run, c *Cluster) error {
		c.Snapshot("snap", d, index)
		return nil
	})
}

func parseBusy(a *arguments) action {
	tasks, d := a.whole("tasks", 100), a.time("for", time.Minute)
	return withCluster(func(_ *run, c *Cluster) error {
		c.Busy(tasks, d)
		return nil
	})
}

func parseFault(a *arguments) action {
	f := Fault{
		Kind: FaultKind(a.word("kind of fault")), Node: a.text("node", ""), Path: a.text("path", ""), Method: strings.ToUpper(a.text("method", "")),
		Status: a.whole("status", 503), Skip: a.whole("skip", 0), Count: a.whole("count", 1), Delay: a.time("delay", time.Second),
	}
	if !slices.Contains([]FaultKind{FaultStatus, FaultSlow, FaultCut, FaultHTML, FaultGarbage, FaultLost, FaultRefuse}, f.Kind) {
		a.fault("no fault %q", f.Kind)
	}
	return withCluster(func(_ *run, c *Cluster) error {
		c.Inject(f)
		return nil
	})
}
