package es

import (
	"context"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// RawSettings are the cluster settings as stored, flattened: each value a text or a list of texts.
type RawSettings struct {
	persistent, transient, defaults map[string]any
}

// SettingsRequest asks for those that matter to placement, defaults included: about 10 kB. The rest, whatever people keep
// there, stays out of captures. A flat key is one step of a filter's path, so that the filter can go by its beginning
// only.
func SettingsRequest(product cluster.Product) Request {
	return Request{File: "cluster_settings.json", Path: "/_cluster/settings", Query: withMaster(product, url.Values{
		"include_defaults": {"true"}, "flat_settings": {"true"},
		"filter_path": {"persistent.cluster*,transient.cluster*,defaults.cluster*,persistent.indices*,transient.indices*,defaults.indices*"},
	})}
}

// DecodeSettings reads the answer, flat or nested.
func DecodeSettings(from io.Reader) (RawSettings, error) {
	s := RawSettings{map[string]any{}, map[string]any{}, map[string]any{}}
	r := newReader(from)
	r.object(func(name string) {
		var into map[string]any
		switch name {
		case "persistent":
			into = s.persistent
		case "transient":
			into = s.transient
		case "defaults":
			into = s.defaults
		default:
			return
		}
		r.flatten("", func(key string, value any) { into[key] = value })
	})
	return s, r.finish()
}

// Settings reads persistent, transient and default settings.
func (c *Client) Settings(ctx context.Context) (RawSettings, error) {
	var settings RawSettings
	err := c.Ask(ctx, SettingsRequest(c.known()), func(body io.Reader) (err error) {
		settings, err = DecodeSettings(body)
		return err
	})
	return settings, err
}

// PutSettings stores persistent settings in one request, in flat form; a nil value resets its key.
func (c *Client) PutSettings(ctx context.Context, persistent map[string]any) error {
	query := withMaster(c.known(), url.Values{"flat_settings": {"true"}})
	return c.Send(ctx, http.MethodPut, "/_cluster/settings", query, map[string]any{"persistent": persistent}, nil)
}

// Persistent is the persistent value of key and whether there is one. Lists come as one text with commas.
func (r RawSettings) Persistent(key string) (string, bool) { return settingText(r.persistent, key) }

// Transient is the transient value of key and whether there is one.
func (r RawSettings) Transient(key string) (string, bool) { return settingText(r.transient, key) }

// Effective is the value in force: transient over persistent over default, which includes what the node that answered
// has in its own file.
func (r RawSettings) Effective(key string) (string, bool) {
	for _, level := range []map[string]any{r.transient, r.persistent, r.defaults} {
		if text, ok := settingText(level, key); ok {
			return text, true
		}
	}
	return "", false
}

// isSet tells whether somebody set the key, or it has its default.
func (r RawSettings) isSet(key string) bool {
	_, transient := r.transient[key]
	_, persistent := r.persistent[key]
	return transient || persistent
}

func settingText(level map[string]any, key string) (string, bool) {
	switch value := level[key].(type) {
	case string:
		return value, true
	case []string:
		return strings.Join(value, ","), true
	}
	return "", false
}

const (
	routingKeys = "cluster.routing."
	allocation  = routingKeys + "allocation."
	awareness   = allocation + "awareness."
	// ownership is the prefix of what Shardonnay itself records; the servers take any key below cluster.metadata.
	ownership = "cluster.metadata.shardonnay."
)

// Cluster merges and parses the settings that decide where copies may live. A value that cannot be parsed is an error
// naming it: guessing a watermark would be guessing where a disk is full.
func (r RawSettings) Cluster() (cluster.Settings, error) {
	p := settingsParser{raw: r}
	s := cluster.Settings{
		AllocationEnable: p.text(allocation+"enable", "all"),
		RebalanceEnable:  p.text(routingKeys+"rebalance.enable", "all"),
		AllocationType:   p.text(allocation+"type", ""),

		AwarenessAttributes: splitList(p.text(awareness+"attributes", "")),
		SameShardHost:       p.boolean(allocation+"same_shard.host", false),
		TotalShardsPerNode:  max(0, p.whole(allocation+"total_shards_per_node", 0)),
		LoadAwareness: cluster.LoadAwareness{
			ProvisionedCapacity: p.whole(allocation+"load_awareness.provisioned_capacity", -1),
			SkewFactor:          p.float(allocation+"load_awareness.skew_factor", 50),
			FlatSkew:            p.whole(allocation+"load_awareness.flat_skew", 2),
		},

		DiskThreshold: p.boolean(allocation+"disk.threshold_enabled", true),
		Low:           p.watermark("low", "85%"),
		High:          p.watermark("high", "90%"),
		FloodStage:    p.watermark("flood_stage", "95%"),

		ConcurrentRebalance:  p.whole(allocation+"cluster_concurrent_rebalance", 2),
		ConcurrentRecoveries: p.whole(allocation+"cluster_concurrent_recoveries", -1),
		RecoveryBytesPerSec:  p.bytes("indices.recovery.max_bytes_per_sec", 40<<20),
		AdaptiveSelection:    p.boolean(routingKeys+"use_adaptive_replica_selection", true),
		Ownership:            map[string]string{},
	}
	s.IncomingRecoveries = p.recoveries("node_concurrent_incoming_recoveries")
	s.OutgoingRecoveries = p.recoveries("node_concurrent_outgoing_recoveries")
	r.eachEffective(func(key, value string) {
		if attribute, ok := strings.CutPrefix(key, awareness+"force."); ok {
			attribute, isValues := strings.CutSuffix(attribute, ".values")
			if values := splitList(value); isValues && len(values) > 0 {
				if s.ForcedAwareness == nil {
					s.ForcedAwareness = map[string][]string{}
				}
				s.ForcedAwareness[attribute] = values
			}
		} else if filter, ok := strings.CutPrefix(key, allocation); ok {
			addFilter(&s.Filter, filter, value)
		} else if name, ok := strings.CutPrefix(key, ownership); ok {
			s.Ownership[name] = value
		}
	})
	for _, key := range slices.Sorted(maps.Keys(r.transient)) {
		if strings.HasPrefix(key, routingKeys) || strings.HasPrefix(key, ownership) || key == "indices.recovery.max_bytes_per_sec" {
			s.Transient = append(s.Transient, key)
		}
	}
	return s, p.err
}

// eachEffective calls f with every key and its value in force, in order.
func (r RawSettings) eachEffective(f func(key, value string)) {
	keys := map[string]bool{}
	for _, level := range []map[string]any{r.defaults, r.persistent, r.transient} {
		for key := range level {
			keys[key] = true
		}
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		value, _ := r.Effective(key)
		f(key, value)
	}
}

// settingsParser keeps the first value that makes no sense.
type settingsParser struct {
	raw RawSettings
	err error
}

func (p *settingsParser) text(key, missing string) string {
	if value, ok := p.raw.Effective(key); ok && value != "" {
		return value
	}
	return missing
}

func parse[T any](p *settingsParser, key string, missing T, parse func(string) (T, error)) T {
	text := p.text(key, "")
	if text == "" {
		return missing
	}
	value, err := parse(text)
	if err != nil && p.err == nil {
		p.err = &cluster.Error{
			Class: cluster.Incomplete, Op: "understand the cluster setting", What: key, Err: err,
			Hint: "Correct the setting, or report the value if the cluster accepts it.",
		}
	}
	return value
}

func (p *settingsParser) whole(key string, missing int) int {
	return parse(p, key, missing, strconv.Atoi)
}

func (p *settingsParser) boolean(key string, missing bool) bool {
	return parse(p, key, missing, strconv.ParseBool)
}

func (p *settingsParser) float(key string, missing float64) float64 {
	return parse(p, key, missing, func(text string) (float64, error) { return strconv.ParseFloat(text, 64) })
}

func (p *settingsParser) bytes(key string, missing int64) int64 {
	return parse(p, key, missing, cluster.ParseBytes)
}

// recoveries reads the limit of one direction, which follows the limit of both unless it is set itself. Some versions
// show its default as if nothing else were set.
func (p *settingsParser) recoveries(name string) int {
	const both = allocation + "node_concurrent_recoveries"
	if !p.raw.isSet(allocation+name) && p.raw.isSet(both) {
		return p.whole(both, 2)
	}
	return p.whole(allocation+name, p.whole(both, 2))
}

// watermark reads one watermark and Elasticsearch's bound on what it may ask to stay free. The bound's default holds only
// while the watermark itself is at its default; the server then shows it as -1.
func (p *settingsParser) watermark(level, missing string) cluster.Watermark {
	key := allocation + "disk.watermark." + level
	parsed, _ := cluster.ParseWatermark(missing)
	parsed = parse(p, key, parsed, cluster.ParseWatermark)
	if headroom := p.bytes(key+".max_headroom", -1); headroom > 0 && parsed.Ratio > 0 {
		parsed.Headroom = headroom
	}
	return parsed
}
