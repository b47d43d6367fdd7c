package cluster

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Settings are the cluster-wide settings that decide where copies may live and who moves them, merged in the server's
// order: transient over persistent over defaults.
type Settings struct {
	AllocationEnable string // cluster.routing.allocation.enable: all, primaries, new_primaries, none
	RebalanceEnable  string // cluster.routing.rebalance.enable: all, primaries, replicas, none
	AllocationType   string // cluster.routing.allocation.type (Elasticsearch): desired_balance, balanced

	AwarenessAttributes []string
	ForcedAwareness     map[string][]string // attribute -> values that count even without nodes
	Filter              Filter              // cluster.routing.allocation.{include,require,exclude}
	SameShardHost       bool
	TotalShardsPerNode  int // cluster.routing.allocation.total_shards_per_node; 0 is no limit
	LoadAwareness       LoadAwareness

	DiskThreshold bool // cluster.routing.allocation.disk.threshold_enabled
	Low           Watermark
	High          Watermark
	FloodStage    Watermark

	IncomingRecoveries   int // cluster.routing.allocation.node_concurrent_incoming_recoveries
	OutgoingRecoveries   int // cluster.routing.allocation.node_concurrent_outgoing_recoveries
	ConcurrentRebalance  int // cluster.routing.allocation.cluster_concurrent_rebalance; negative is no limit
	ConcurrentRecoveries int // cluster.routing.allocation.cluster_concurrent_recoveries (OpenSearch); negative is no limit
	RecoveryBytesPerSec  int64
	AdaptiveSelection    bool // cluster.routing.use_adaptive_replica_selection

	// Ownership holds the settings below cluster.metadata.shardonnay., keys without that prefix, values as stored.
	Ownership map[string]string
	// Transient lists the keys among the above that are set transiently: they win over what we set persistently.
	Transient []string
}

// LoadAwareness is OpenSearch's load_awareness decider: a limit on copies per node that scales with the nodes expected.
type LoadAwareness struct {
	ProvisionedCapacity int     // nodes; not positive is off
	SkewFactor          float64 // per cent
	FlatSkew            int     // copies
}

// Limit is the number of copies a node may hold when the cluster has total configured copies; 0 is no limit.
func (l LoadAwareness) Limit(total int) int {
	if l.ProvisionedCapacity <= 0 {
		return 0
	}
	return l.FlatSkew + int(math.Ceil(float64(total)/float64(l.ProvisionedCapacity)*(1+l.SkewFactor/100)))
}

// Filter is a set of allocation filters: attribute (or _name, _ip, _host, _id, ...) to value patterns with *.
type Filter struct {
	Include map[string][]string // any pair matches
	Require map[string][]string // all pairs match
	Exclude map[string][]string // no pair matches
}

// Empty tells whether the filter lets every node pass.
func (f Filter) Empty() bool { return len(f.Include)+len(f.Require)+len(f.Exclude) == 0 }

// Matches tells whether a node passes, as the server's filter decider sees it.
func (f Filter) Matches(n *Node) bool {
	if len(f.Include) > 0 {
		any := false
		for key, patterns := range f.Include {
			any = any || n.matchesAny(key, patterns)
		}
		if !any {
			return false
		}
	}
	for key, patterns := range f.Require {
		if !n.matchesAny(key, patterns) {
			return false
		}
	}
	for key, patterns := range f.Exclude {
		if n.matchesAny(key, patterns) {
			return false
		}
	}
	return true
}

func (n *Node) matchesAny(key string, patterns []string) bool {
	var values []string
	switch key {
	case "_name":
		values = []string{n.Name}
	case "_id":
		values = []string{string(n.ID)}
	case "_host":
		values = []string{n.Host, n.IP}
	case "_ip", "_host_ip", "_publish_ip":
		values = []string{n.IP}
	case "_tier":
		values = n.Roles
	default:
		if value, ok := n.Attributes[key]; ok {
			values = []string{value}
		}
	}
	for _, pattern := range patterns {
		for _, value := range values {
			if MatchPattern(pattern, value) {
				return true
			}
		}
	}
	return false
}

// MatchPattern tells whether text matches a pattern in which * stands for any run of characters and nothing else is
// special.
func MatchPattern(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	if !strings.HasPrefix(text, parts[0]) {
		return false
	}
	text = text[len(parts[0]):]
	last := parts[len(parts)-1]
	for _, part := range parts[1 : len(parts)-1] {
		at := strings.Index(text, part)
		if at < 0 {
			return false
		}
		text = text[at+len(part):]
	}
	return strings.HasSuffix(text, last)
}

// Watermark is a disk watermark: a ratio of disk used, or bytes that must stay free.
type Watermark struct {
	Ratio    float64 // of the disk in use, 0 to 1; 0 where Free is given
	Free     int64   // bytes that must stay free
	Headroom int64   // Elasticsearch's max_headroom: the most that Ratio may ask to stay free; 0 is no bound
}

// Required is how many bytes must stay free on a disk of total bytes.
func (w Watermark) Required(total int64) int64 {
	if w.Ratio <= 0 {
		return w.Free
	}
	required := int64(math.Ceil((1 - w.Ratio) * float64(total)))
	if w.Headroom > 0 {
		required = min(required, w.Headroom)
	}
	return required
}

// ParseWatermark reads "85%", "0.85" or "20gb".
func ParseWatermark(text string) (Watermark, error) {
	text = strings.TrimSpace(text)
	if percent, ok := strings.CutSuffix(text, "%"); ok {
		value, err := strconv.ParseFloat(strings.TrimSpace(percent), 64)
		if err != nil || !(value >= 0 && value <= 100) {
			return Watermark{}, fmt.Errorf("watermark %q is not a percentage between 0%% and 100%%", text)
		}
		return Watermark{Ratio: value / 100}, nil
	}
	if value, err := strconv.ParseFloat(text, 64); err == nil && value >= 0 && value <= 1 && text != "0" {
		return Watermark{Ratio: value}, nil
	}
	bytes, err := ParseBytes(text)
	if err != nil {
		return Watermark{}, fmt.Errorf("watermark %q is neither a percentage, a ratio nor a number of bytes", text)
	}
	return Watermark{Free: bytes}, nil
}

var byteUnits = []struct {
	suffix string
	factor float64
}{
	{"pb", 1 << 50},
	{"tb", 1 << 40},
	{"gb", 1 << 30},
	{"mb", 1 << 20},
	{"kb", 1 << 10},
	{"p", 1 << 50},
	{"t", 1 << 40},
	{"g", 1 << 30},
	{"m", 1 << 20},
	{"k", 1 << 10},
	{"b", 1},
}

// ParseBytes reads a size as the servers write it: "20gb", "500kb", "1024b", "-1"; units are powers of 1024.
func ParseBytes(text string) (int64, error) {
	lower := strings.ToLower(strings.TrimSpace(text))
	factor := 1.0
	for _, unit := range byteUnits {
		if number, ok := strings.CutSuffix(lower, unit.suffix); ok {
			lower, factor = strings.TrimSpace(number), unit.factor
			break
		}
	}
	value, err := strconv.ParseFloat(lower, 64)
	if err != nil || math.IsNaN(value) || math.Abs(value*factor) > math.MaxInt64/2 {
		return 0, fmt.Errorf("%q is not a number of bytes like 20gb", text)
	}
	return int64(value * factor), nil
}

// ParseDuration reads a time as the servers write it: "30s", "1m", "500ms", "2h", "7d".
func ParseDuration(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseFloat(days, 64)
		if err != nil {
			return 0, fmt.Errorf("%q is not a time like 30s", text)
		}
		return time.Duration(n * 24 * float64(time.Hour)), nil
	}
	d, err := time.ParseDuration(strings.Replace(text, "micros", "us", 1))
	if err != nil {
		return 0, fmt.Errorf("%q is not a time like 30s", text)
	}
	return d, nil
}

// MatchIndex tells whether an index name matches any of the patterns ("logs-*", "-logs-old*" to exclude again); later
// patterns win.
func MatchIndex(patterns []string, name string) bool {
	matched := false
	for _, pattern := range patterns {
		if excluded, ok := strings.CutPrefix(pattern, "-"); ok {
			matched = matched && !MatchPattern(excluded, name)
		} else {
			matched = matched || MatchPattern(pattern, name)
		}
	}
	return matched
}
