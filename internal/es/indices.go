package es

import (
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// IndexSettings is what one index's settings say about placement.
type IndexSettings struct {
	Index              string
	UUID               string
	Shards, Replicas   int
	SearchReplicas     int // OpenSearch: copies that only serve searches, beside the replicas
	Created            time.Time
	Hidden             bool
	Filter             cluster.Filter // include, require, exclude; without the tier preference
	TierPreference     []string
	TotalShardsPerNode int
	AllocationEnable   string
	RebalanceEnable    string
	AutoExpand         string
	StoreType          string
	Replication        string // "SEGMENT", "DOCUMENT" or empty
	MaxRetries         int    // 0 where it is not set
	ResizeSource       string // index it is being, or was, made from by shrink, split or clone
}

// IndexSettingsRequest asks for what IndexSettings holds, of every index there is.
func IndexSettingsRequest() Request {
	return Request{
		File: "settings.json",
		Path: "/_all/_settings/index.uuid,index.creation_date,index.number_of_*,index.routing.*,index.auto_expand_replicas,index.hidden," +
			"index.store.type,index.replication.type,index.allocation.max_retries,index.resize.*",
		Query: url.Values{"flat_settings": {"true"}, "expand_wildcards": {"all"}},
	}
}

// DecodeIndexSettings reads the answer, flat or nested, in its order.
func DecodeIndexSettings(from io.Reader) ([]IndexSettings, error) {
	var all []IndexSettings
	r := newReader(from)
	r.object(func(index string) {
		settings := IndexSettings{Index: index}
		r.object(func(name string) {
			if name == "settings" {
				settings.read(r)
			}
		})
		all = append(all, settings)
	})
	return all, r.finish()
}

func (s *IndexSettings) read(r *reader) {
	r.flatten("", func(key string, value any) {
		text, _ := value.(string)
		list, isList := value.([]string)
		if isList {
			text = strings.Join(list, ",")
		}
		switch key {
		case "index.uuid":
			s.UUID = text
		case "index.creation_date":
			if millis, err := strconv.ParseInt(text, 10, 64); err == nil {
				s.Created = time.UnixMilli(millis).UTC()
			}
		case "index.number_of_shards":
			s.Shards = number(r, text)
		case "index.number_of_replicas":
			s.Replicas = number(r, text)
		case "index.number_of_search_replicas", "index.number_of_search_only_replicas":
			s.SearchReplicas = number(r, text)
		case "index.hidden":
			s.Hidden = text == "true"
		case "index.auto_expand_replicas":
			s.AutoExpand = text
		case "index.store.type":
			s.StoreType = text
		case "index.replication.type":
			s.Replication = text
		case "index.allocation.max_retries":
			s.MaxRetries = number(r, text)
		case "index.routing.allocation.total_shards_per_node":
			s.TotalShardsPerNode = max(0, number(r, text)) // -1 is no limit
		case "index.routing.allocation.enable":
			s.AllocationEnable = text
		case "index.routing.rebalance.enable":
			s.RebalanceEnable = text
		case "index.routing.allocation.include._tier_preference":
			s.TierPreference = splitList(text)
		case "index.resize.source.name", "index.shrink.source.name":
			s.ResizeSource = text
		default:
			addFilter(&s.Filter, strings.TrimPrefix(key, "index.routing.allocation."), text)
		}
	})
}

// number parses a setting that must be a whole number.
func number(r *reader, text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		r.fail(err)
	}
	return n
}

// addFilter takes "include.zone", "require._name", "exclude.box_type" and their value; other keys are not filters.
// Values are lists with commas; an empty one is a filter taken back.
func addFilter(filter *cluster.Filter, key, value string) {
	kind, attribute, ok := strings.Cut(key, ".")
	values := splitList(value)
	if !ok || attribute == "" || len(values) == 0 {
		return
	}
	var to *map[string][]string
	switch kind {
	case "include":
		to = &filter.Include
	case "require":
		to = &filter.Require
	case "exclude":
		to = &filter.Exclude
	default:
		return
	}
	if *to == nil {
		*to = map[string][]string{}
	}
	(*to)[attribute] = values
}

// splitList takes a comma-separated list apart; what is empty is not in it.
func splitList(text string) []string {
	var items []string
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}
