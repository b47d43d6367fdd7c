package sim

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// setting is what the cluster knows of one setting: its default and what it accepts.
type setting struct {
	fallback string
	check    func(string) error
}

// settingsStore holds cluster settings in the order of precedence: transient, persistent, the nodes' yml, default. A
// value is a string or a list of strings.
type settingsStore struct {
	known                 map[string]setting
	prefixes              []string // families of free names
	unknown               string   // type of the error about a name that is none
	transient, persistent map[string]any
	yml                   map[string]string
}

func newSettings(known map[string]setting, yml map[string]string) settingsStore {
	return settingsStore{
		known: known, yml: yml, transient: map[string]any{}, persistent: map[string]any{},
		prefixes: []string{
			"cluster.metadata.", "cluster.routing.allocation.include.", "cluster.routing.allocation.require.",
			"cluster.routing.allocation.exclude.", "cluster.routing.allocation.awareness.force.", "logger.",
		},
	}
}

func asText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []string:
		return strings.Join(v, ",")
	}
	return ""
}

func asList(v any) []string {
	if l, ok := v.([]string); ok {
		return l
	}
	return splitList(asText(v))
}

func splitList(text string) []string {
	var list []string
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list
}

// get is the value in force.
func (s *settingsStore) get(key string) any {
	for _, m := range []map[string]any{s.transient, s.persistent} {
		if v, ok := m[key]; ok {
			return v
		}
	}
	if v, ok := s.yml[key]; ok {
		return v
	}
	return s.known[key].fallback
}

func (s *settingsStore) text(key string) string { return asText(s.get(key)) }

// explicit tells whether anybody set the key.
func (s *settingsStore) explicit(key string) bool {
	_, t := s.transient[key]
	_, p := s.persistent[key]
	_, y := s.yml[key]
	return t || p || y
}

// family are all keys set anywhere that begin with the prefix, sorted.
func (s *settingsStore) family(prefix string) []string {
	set := map[string]bool{}
	for _, m := range []map[string]any{s.transient, s.persistent} {
		for k := range m {
			if strings.HasPrefix(k, prefix) {
				set[k] = true
			}
		}
	}
	for k := range s.yml {
		if strings.HasPrefix(k, prefix) {
			set[k] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// validate tells what the server would say to this value; nil is a reset and always fine for a known name.
func (s *settingsStore) validate(kind, key string, value any) *apiError {
	k, ok := s.known[key]
	if !ok {
		if value == nil && strings.HasSuffix(key, "*") {
			return nil
		}
		if slices.ContainsFunc(s.prefixes, func(p string) bool { return strings.HasPrefix(key, p) && len(key) > len(p) }) {
			return nil
		}
		e := illegal("%s setting [%s], not recognized", kind, key)
		e.kind = s.unknown
		return e
	}
	if value == nil || k.check == nil {
		return nil
	}
	if err := k.check(asText(value)); err != nil {
		return illegal("failed to parse value [%s] for setting [%s]: %v", asText(value), key, err)
	}
	return nil
}

func oneOf(values ...string) func(string) error {
	return func(text string) error {
		if !slices.Contains(values, strings.ToLower(text)) {
			return fmt.Errorf("illegal value, expected one of %v", values)
		}
		return nil
	}
}

func wholeNumber(least int) func(string) error {
	return func(text string) error {
		n, err := strconv.Atoi(text)
		if err != nil || n < least {
			return fmt.Errorf("must be a whole number >= %d", least)
		}
		return nil
	}
}

func number(least float64) func(string) error {
	return func(text string) error {
		x, err := strconv.ParseFloat(text, 64)
		if err != nil || x < least {
			return fmt.Errorf("must be a number >= %v", least)
		}
		return nil
	}
}

func byteSize(text string) error {
	_, err := parseBytes(text)
	return err
}

func timeValue(least time.Duration) func(string) error {
	return func(text string) error {
		d, err := parseTime(text)
		if err == nil && d < least {
			err = fmt.Errorf("must be >= [%s]", least)
		}
		return err
	}
}

func watermark(text string) error {
	_, err := parseThreshold(text)
	return err
}

// known lists the cluster settings the simulator understands or at least accepts, for this product and version.
func (c *Cluster) known() map[string]setting {
	boolean := oneOf("true", "false")
	rebalance := oneOf("all", "primaries", "replicas", "none")
	allow := "indices_all_active"
	if c.elastic() && c.at(8, 6) {
		allow = "always"
	}
	const routing = "cluster.routing.allocation."
	known := map[string]setting{
		"cluster.routing.rebalance.enable":               {"all", rebalance},
		"cluster.routing.use_adaptive_replica_selection": {"true", boolean},
		routing + "enable":                               {"all", oneOf("all", "primaries", "new_primaries", "none")},
		routing + "allow_rebalance":                      {allow, oneOf("always", "indices_primaries_active", "indices_all_active")},
		routing + "cluster_concurrent_rebalance":         {"2", wholeNumber(-1)},
		routing + "node_concurrent_recoveries":           {"2", wholeNumber(0)},
		routing + "node_concurrent_incoming_recoveries":  {"2", wholeNumber(0)},
		routing + "node_concurrent_outgoing_recoveries":  {"2", wholeNumber(0)},
		routing + "node_initial_primaries_recoveries":    {"4", wholeNumber(0)},
		routing + "same_shard.host":                      {"false", boolean},
		routing + "total_shards_per_node":                {"-1", wholeNumber(-1)},
		routing + "awareness.attributes":                 {"", nil},
		routing + "balance.shard":                        {"0.45", number(0)},
		routing + "balance.index":                        {"0.55", number(0)},
		routing + "balance.threshold":                    {"1.0", number(0)},
		routing + "disk.threshold_enabled":               {"true", boolean},
		routing + "disk.watermark.low":                   {"85%", watermark},
		routing + "disk.watermark.high":                  {"90%", watermark},
		routing + "disk.watermark.flood_stage":           {"95%", watermark},
		"cluster.info.update.interval":                   {"30s", timeValue(10 * time.Second)},
		"cluster.max_shards_per_node":                    {"1000", wholeNumber(1)},
		"cluster.max_voting_config_exclusions":           {"10", wholeNumber(1)},
		"cluster.blocks.read_only":                       {"false", boolean},
		"indices.recovery.max_bytes_per_sec":             {"40mb", byteSize},
		"indices.recovery.max_concurrent_file_chunks":    {"2", wholeNumber(1)},
		"action.auto_create_index":                       {"true", nil},
		"action.destructive_requires_name":               {strconv.FormatBool(c.elastic() && c.at(8, 0)), boolean},
		"search.default_search_timeout":                  {"-1", nil},
	}
	if !c.elastic() || !c.at(9, 0) {
		known[routing+"disk.watermark.enable_for_single_data_node"] = setting{"false", boolean}
	}
	if c.elastic() {
		if c.at(7, 16) {
			for level, room := range map[string]string{"low": "200GB", "high": "150GB", "flood_stage": "100GB"} {
				if c.at(8, 5) {
					known[routing+"disk.watermark."+level+".max_headroom"] = setting{room, byteSize}
				}
			}
		}
		if c.at(8, 6) {
			known[routing+"balance.disk_usage"] = setting{"2.0E-11", number(0)}
			known[routing+"balance.write_load"] = setting{"10.0", number(0)}
			kind := "desired_balance"
			if c.cfg.Legacy {
				kind = "balanced"
			}
			known[routing+"type"] = setting{kind, oneOf(kind)}
		}
		if c.at(9, 1) {
			known[routing+"write_load_decider.enabled"] = setting{"disabled", nil}
		}
		return known
	}
	known[routing+"cluster_concurrent_recoveries"] = setting{"-1", wholeNumber(-1)}
	known[routing+"load_awareness.provisioned_capacity"] = setting{"-1", wholeNumber(-1)}
	known[routing+"load_awareness.skew_factor"] = setting{"50", number(-1)}
	known[routing+"load_awareness.flat_skew"] = setting{"2", wholeNumber(2)}
	known[routing+"balance.prefer_primary"] = setting{"false", boolean}
	known[routing+"shard_movement_strategy"] = setting{"NO_PREFERENCE", nil}
	if c.at(2, 2) {
		known[routing+"awareness.balance"] = setting{"false", boolean}
	}
	if c.hasWeights() {
		known["cluster.routing.weighted.default_weight"] = setting{"1.0", number(1)}
		known["cluster.search.ignore_awareness_attributes"] = setting{"true", boolean}
	}
	if c.hasWeights() && c.at(2, 5) {
		known["cluster.routing.weighted.fail_open"] = setting{"true", boolean}
	}
	if c.hasWeights() && c.at(2, 6) {
		known["cluster.routing.weighted.strict"] = setting{"true", boolean}
	}
	if c.hasWeights() && c.at(2, 7) {
		known["cluster.routing.ignore_weighted_routing"] = setting{"false", boolean}
	}
	return known
}

// threshold is a disk watermark: a ratio of the disk in use, or bytes that must stay free.
type threshold struct {
	ratio, bytes float64
	headroom     float64 // Elasticsearch: at most so many bytes need stay free; 0: no such cap
}

// free is the bytes that must stay free on a disk of this size.
func (t threshold) free(total float64) float64 {
	if t.bytes > 0 {
		return t.bytes
	}
	free := math.Round((1 - t.ratio) * total)
	if t.headroom > 0 {
		free = min(free, t.headroom)
	}
	return free
}

func parseThreshold(text string) (threshold, error) {
	if percent, ok := strings.CutSuffix(text, "%"); ok {
		x, err := strconv.ParseFloat(percent, 64)
		if err != nil || x < 0 || x > 100 {
			return threshold{}, fmt.Errorf("%q is no percentage", text)
		}
		return threshold{ratio: x / 100}, nil
	}
	if x, err := strconv.ParseFloat(text, 64); err == nil && x >= 0 && x <= 1 {
		return threshold{ratio: x}, nil
	}
	b, err := parseBytes(text)
	return threshold{bytes: b}, err
}

// parseBytes reads "40mb", "1.5gb", "500kb", "512b" or a bare number of bytes; -1 is no limit.
func parseBytes(text string) (float64, error) {
	lower := strings.ToLower(strings.TrimSpace(text))
	for _, unit := range []struct {
		suffix string
		factor float64
	}{{"pb", 1 << 50}, {"tb", 1 << 40}, {"gb", 1 << 30}, {"mb", 1 << 20}, {"kb", 1 << 10}, {"b", 1}} {
		if num, ok := strings.CutSuffix(lower, unit.suffix); ok {
			x, err := strconv.ParseFloat(num, 64)
			if err != nil || x < 0 {
				break
			}
			return x * unit.factor, nil
		}
	}
	if x, err := strconv.ParseFloat(lower, 64); err == nil && (x >= 0 || x == -1) {
		return x, nil
	}
	return 0, fmt.Errorf("%q is no size", text)
}

// parseTime reads "30s", "1m", "500ms", "-1".
func parseTime(text string) (time.Duration, error) {
	if text == "-1" || text == "0" {
		return 0, nil
	}
	for _, unit := range []struct {
		suffix string
		unit   time.Duration
	}{
		{"nanos", time.Nanosecond},
		{"micros", time.Microsecond},
		{"ms", time.Millisecond},
		{"s", time.Second},
		{"m", time.Minute},
		{"h", time.Hour},
		{"d", day},
	} {
		if num, ok := strings.CutSuffix(text, unit.suffix); ok {
			if x, err := strconv.ParseFloat(num, 64); err == nil {
				return time.Duration(x * float64(unit.unit)), nil
			}
		}
	}
	return 0, fmt.Errorf("%q is no time", text)
}

// filterTerm is one allocation filter: an attribute and the patterns it is held against.
type filterTerm struct {
	attribute string
	patterns  []string
}

type filters struct{ include, require, exclude []filterTerm }

// rules are the cluster settings, read once after every change.
type rules struct {
	rebalance, allocation, allowRebalance string
	concurrentRebalance                   int
	concurrentRecoveries                  int // OpenSearch; -1: no limit
	incoming, outgoing, initialPrimaries  int
	sameHost                              bool
	shardsPerNode                         int
	awareness                             []string
	forced                                map[string][]string
	filters                               filters
	diskEnabled, diskSingle               bool
	low, high, flood                      threshold
	infoInterval                          time.Duration
	maxBytesPerSec                        float64
	adaptive                              bool
	balanceShard, balanceIndex, threshold float64
	ignoreWeights, failOpen               bool
	exclusions                            int           // at most so many nodes without a vote
	defaultWeight                         float64       // of a value without one
	askAgain                              time.Duration // between two tries of a decommissioned node to be let in
	capacity, flatSkew                    int           // load_awareness
	skew                                  float64
}

// applySettings reads the settings in force into rules; the caller rerates and reroutes.
func (c *Cluster) applySettings() {
	s := &c.settings
	const routing = "cluster.routing.allocation."
	whole := func(key string) int {
		n, _ := strconv.Atoi(s.text(key))
		return n
	}
	num := func(key string) float64 {
		x, _ := strconv.ParseFloat(s.text(key), 64)
		return x
	}
	r := rules{
		rebalance:            strings.ToLower(s.text("cluster.routing.rebalance.enable")),
		allocation:           strings.ToLower(s.text(routing + "enable")),
		allowRebalance:       strings.ToLower(s.text(routing + "allow_rebalance")),
		concurrentRebalance:  whole(routing + "cluster_concurrent_rebalance"),
		concurrentRecoveries: -1,
		incoming:             whole(routing + "node_concurrent_incoming_recoveries"),
		outgoing:             whole(routing + "node_concurrent_outgoing_recoveries"),
		initialPrimaries:     whole(routing + "node_initial_primaries_recoveries"),
		sameHost:             s.text(routing+"same_shard.host") == "true",
		shardsPerNode:        whole(routing + "total_shards_per_node"),
		awareness:            asList(s.get(routing + "awareness.attributes")),
		forced:               map[string][]string{},
		diskEnabled:          s.text(routing+"disk.threshold_enabled") == "true",
		diskSingle:           c.elastic() && c.at(8, 0) || s.text(routing+"disk.watermark.enable_for_single_data_node") == "true",
		adaptive:             s.text("cluster.routing.use_adaptive_replica_selection") == "true",
		balanceShard:         num(routing + "balance.shard"),
		balanceIndex:         num(routing + "balance.index"),
		threshold:            num(routing + "balance.threshold"),
	}
	both := routing + "node_concurrent_recoveries"
	for key, limit := range map[string]*int{"incoming": &r.incoming, "outgoing": &r.outgoing} {
		if s.explicit(both) && !s.explicit(routing+"node_concurrent_"+key+"_recoveries") {
			*limit = whole(both)
		}
	}
	if !c.elastic() {
		r.concurrentRecoveries = whole(routing + "cluster_concurrent_recoveries")
		r.capacity = whole(routing + "load_awareness.provisioned_capacity")
		r.flatSkew = whole(routing + "load_awareness.flat_skew")
		r.skew = num(routing + "load_awareness.skew_factor")
		r.defaultWeight = num("cluster.routing.weighted.default_weight")
		r.failOpen = s.text("cluster.routing.weighted.fail_open") == "true"
		r.ignoreWeights = s.text("cluster.routing.ignore_weighted_routing") == "true"
	}
	for level, t := range map[string]*threshold{"low": &r.low, "high": &r.high, "flood_stage": &r.flood} {
		key := routing + "disk.watermark." + level
		*t, _ = parseThreshold(s.text(key))
		room := key + ".max_headroom"
		if _, ok := s.known[room]; ok && t.bytes == 0 && (!s.explicit(key) || s.explicit(room)) {
			t.headroom, _ = parseBytes(s.text(room))
		}
	}
	r.exclusions = whole("cluster.max_voting_config_exclusions")
	r.askAgain = 2 * time.Minute
	if text, ok := s.yml["discovery.find_peers_interval_during_decommission"]; ok {
		r.askAgain, _ = parseTime(text)
	}
	r.infoInterval, _ = parseTime(s.text("cluster.info.update.interval"))
	r.maxBytesPerSec, _ = parseBytes(s.text("indices.recovery.max_bytes_per_sec"))
	for _, key := range s.family(routing + "awareness.force.") {
		name := strings.TrimSuffix(strings.TrimPrefix(key, routing+"awareness.force."), ".values")
		r.forced[name] = asList(s.get(key))
	}
	for kind, terms := range map[string]*[]filterTerm{
		"include": &r.filters.include, "require": &r.filters.require, "exclude": &r.filters.exclude,
	} {
		prefix := routing + kind + "."
		for _, key := range s.family(prefix) {
			*terms = addTerm(*terms, strings.TrimPrefix(key, prefix), asText(s.get(key)))
		}
	}
	c.rules = r
	c.unfit = true
}

func addTerm(terms []filterTerm, attribute, text string) []filterTerm {
	if patterns := splitList(text); len(patterns) > 0 {
		return append(terms, filterTerm{attribute, patterns})
	}
	return terms
}

// Setting is the value of a cluster setting in force, whoever set it; lists are joined by commas.
func (c *Cluster) Setting(key string) string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.settings.text(key)
}

// SetPersistent changes cluster settings as a person would: all of them or, with an error, none. An empty value resets.
func (c *Cluster) SetPersistent(values map[string]string) error {
	changes := map[string]any{}
	for k, v := range values {
		if changes[k] = v; v == "" {
			changes[k] = nil
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.changeSettings(changes, nil); err != nil {
		return err
	}
	return nil
}

// changeSettings applies both kinds of change or nothing.
func (c *Cluster) changeSettings(persistent, transient map[string]any) *apiError {
	for kind, changes := range map[string]map[string]any{"persistent": persistent, "transient": transient} {
		for _, key := range slices.Sorted(maps.Keys(changes)) {
			if err := c.settings.validate(kind, key, changes[key]); err != nil {
				return err
			}
		}
	}
	before := [2]map[string]any{maps.Clone(c.settings.persistent), maps.Clone(c.settings.transient)}
	for i, m := range []map[string]any{c.settings.persistent, c.settings.transient} {
		for key, value := range [2]map[string]any{persistent, transient}[i] {
			if value != nil {
				m[key] = value
				continue
			}
			for k := range m {
				if k == key || matchWildcard(key, k) {
					delete(m, k)
				}
			}
		}
	}
	if err := c.checkWatermarks(); err != nil {
		c.settings.persistent, c.settings.transient = before[0], before[1]
		return err
	}
	old := c.rules
	for _, g := range c.allGroups() {
		c.settle(g) // with the old selection
	}
	c.applySettings()
	if old.adaptive != c.rules.adaptive || old.ignoreWeights != c.rules.ignoreWeights || old.failOpen != c.rules.failOpen {
		c.reloadAll()
	}
	c.scheduleLook()
	c.survey()
	c.repace()
	c.bump()
	c.reroute()
	return nil
}

// checkWatermarks refuses bytes beside percentages and levels in the wrong order.
func (c *Cluster) checkWatermarks() *apiError {
	const key = "cluster.routing.allocation.disk.watermark."
	var t [3]threshold
	for i, level := range []string{"low", "high", "flood_stage"} {
		t[i], _ = parseThreshold(c.settings.text(key + level))
	}
	bytes := t[0].bytes > 0
	for _, x := range t {
		if (x.bytes > 0) != bytes {
			return illegal("unable to consistently parse [%slow=%s], [%shigh=%s], and [%sflood_stage=%s] as percentage or bytes",
				key, c.settings.text(key+"low"), key, c.settings.text(key+"high"), key, c.settings.text(key+"flood_stage"))
		}
	}
	if bytes && (t[0].bytes < t[1].bytes || t[1].bytes < t[2].bytes) || !bytes && (t[0].ratio > t[1].ratio || t[1].ratio > t[2].ratio) {
		return illegal("low disk watermark [%s] more than high disk watermark [%s]", c.settings.text(key+"low"), c.settings.text(key+"high"))
	}
	return nil
}

func (c *Cluster) allGroups() []*group {
	var all []*group
	for _, idx := range c.indices {
		all = append(all, idx.groups...)
	}
	return all
}

// indexRules are an index's settings, read once after every change.
type indexRules struct {
	rebalance, allocation string // "": as the cluster
	shardsPerNode         int
	filters               filters
	tiers                 []string
	delayed               time.Duration
	maxRetries            int
	writeBlock            bool
	everywhere            bool // index.auto_expand_replicas to all nodes
}

// applyIndexSettings reads the index's settings into its rules.
func (idx *index) applyIndexSettings() {
	s := idx.settings
	r := indexRules{
		rebalance:     strings.ToLower(s["index.routing.rebalance.enable"]),
		allocation:    strings.ToLower(s["index.routing.allocation.enable"]),
		shardsPerNode: -1, delayed: time.Minute, maxRetries: 5,
		everywhere: strings.HasSuffix(s["index.auto_expand_replicas"], "-all"),
		writeBlock: s["index.blocks.write"] == "true" || s["index.blocks.read_only"] == "true",
	}
	if n, err := strconv.Atoi(s["index.routing.allocation.total_shards_per_node"]); err == nil {
		r.shardsPerNode = n
	}
	if n, err := strconv.Atoi(s["index.allocation.max_retries"]); err == nil {
		r.maxRetries = n
	}
	if text, ok := s["index.unassigned.node_left.delayed_timeout"]; ok {
		r.delayed, _ = parseTime(text)
	}
	const routing = "index.routing.allocation."
	r.tiers = splitList(s[routing+"include._tier_preference"])
	for kind, terms := range map[string]*[]filterTerm{
		"include": &r.filters.include, "require": &r.filters.require, "exclude": &r.filters.exclude,
	} {
		prefix := routing + kind + "."
		for _, key := range slices.Sorted(maps.Keys(s)) {
			if strings.HasPrefix(key, prefix) && key != routing+"include._tier_preference" {
				*terms = addTerm(*terms, strings.TrimPrefix(key, prefix), s[key])
			}
		}
	}
	idx.rules = r
}

// matchWildcard matches text against a pattern in which * stands for anything.
func matchWildcard(pattern, text string) bool {
	head, rest, ok := strings.Cut(pattern, "*")
	if !ok {
		return pattern == text
	}
	if !strings.HasPrefix(text, head) {
		return false
	}
	text = text[len(head):]
	for {
		part, tail, more := strings.Cut(rest, "*")
		if !more {
			return strings.HasSuffix(text, part)
		}
		i := strings.Index(text, part)
		if i < 0 {
			return false
		}
		text, rest = text[i+len(part):], tail
	}
}
