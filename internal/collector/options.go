package collector

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// Options say what is measured and how.
type Options struct {
	// Dimensions of load, in the order of every Load of the snapshot; none means search, index and disk.
	Dimensions []cluster.Dimension
	// Capacity overrides what nodes are taken to be able to carry; the last rule that fits wins, and a node's own
	// attribute wins over all (see CapacityAttribute).
	Capacity []CapacityRule

	HalfLife time.Duration // of a past sample's weight in the smoothed rates; 0 means 10 minutes
	// Settle is how long a copy that has moved keeps its old estimates: its counters start at zero and its caches cold,
	// and believing them would send it back. 0 means 2 minutes.
	Settle time.Duration
	Batch  int // nodes per request for statistics; 0 means 40
	// MaxStateMoves is how many versions the cluster state may move on during a collection. What matters of them is seen
	// one by one (copies that changed, nodes that left); this bounds the rest. 0 means 1000: mappings that grow with the
	// data alone make several a second.
	MaxStateMoves int64

	StateDir string           // where the smoothed rates survive restarts; empty keeps them in memory
	Now      func() time.Time // the local clock, for Snapshot.TakenAt; nil means time.Now
}

// CapacityRule sets what nodes can carry in one dimension.
type CapacityRule struct {
	Node      string  // pattern with * of the node's name, or "attribute=pattern"
	Dimension string  // "search", "index", "disk", ...
	Capacity  float64 // in the dimension's capacity unit: processors, bytes
}

// CapacityAttribute is what node attributes that set a capacity begin with: node.attr.shardonnay_capacity_search: 12.
const CapacityAttribute = "shardonnay_capacity_"

const (
	defaultHalfLife      = 10 * time.Minute
	defaultSettle        = 2 * time.Minute
	defaultBatch         = 40
	defaultMaxStateMoves = 1000
)

// complete fills in the defaults and checks the rest.
func (o Options) complete() (Options, error) {
	invalid := func(what string, err error, cure string) (Options, error) {
		return o, &cluster.Error{Class: cluster.Invalid, Op: "set up measuring", What: what, Err: err, Hint: cure}
	}
	if len(o.Dimensions) == 0 {
		o.Dimensions = []cluster.Dimension{cluster.SearchTime, cluster.IndexTime, cluster.DiskBytes}
	}
	known := []cluster.Dimension{cluster.SearchTime, cluster.IndexTime, cluster.DiskBytes, cluster.HeapBytes, cluster.ShardCount}
	for _, d := range o.Dimensions {
		if !slices.Contains(known, d) {
			return invalid("dimension "+d.Name, errors.New("it cannot be measured"), "Use search, index, disk, heap or shards.")
		}
	}
	if len(o.Dimensions) > cluster.MaxDimensions {
		return invalid("dimensions", fmt.Errorf("there are %d", len(o.Dimensions)), fmt.Sprintf("At most %d are possible.", cluster.MaxDimensions))
	}
	for _, rule := range o.Capacity {
		if !slices.ContainsFunc(o.Dimensions, func(d cluster.Dimension) bool { return d.Name == rule.Dimension }) || rule.Capacity <= 0 {
			return invalid("capacity of "+rule.Node, fmt.Errorf("%s is %v", rule.Dimension, rule.Capacity),
				"Name a dimension that is balanced, and a capacity above zero.")
		}
	}
	if o.HalfLife <= 0 {
		o.HalfLife = defaultHalfLife
	}
	if o.Settle <= 0 {
		o.Settle = defaultSettle
	}
	if o.Batch <= 0 {
		o.Batch = defaultBatch
	}
	if o.MaxStateMoves <= 0 {
		o.MaxStateMoves = defaultMaxStateMoves
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.StateDir != "" {
		if err := os.MkdirAll(o.StateDir, 0o700); err != nil {
			return invalid(o.StateDir, err, "state.dir must be a folder that can be written to.")
		}
	}
	return o, nil
}

// capacity is what n can carry in each dimension.
func (o *Options) capacity(n *cluster.Node) cluster.Load {
	var capacity cluster.Load
	for d, dimension := range o.Dimensions {
		switch dimension {
		case cluster.SearchTime, cluster.IndexTime:
			capacity[d] = n.Processors
		case cluster.DiskBytes:
			capacity[d] = float64(n.Disk.Total)
		case cluster.HeapBytes:
			capacity[d] = float64(n.Heap)
		case cluster.ShardCount:
			capacity[d] = 1 // every node the same share
		}
		for _, rule := range o.Capacity {
			if rule.Dimension == dimension.Name && rule.fits(n) {
				capacity[d] = rule.Capacity
			}
		}
		if own, err := strconv.ParseFloat(n.Attributes[CapacityAttribute+dimension.Name], 64); err == nil && own > 0 {
			capacity[d] = own
		}
	}
	return capacity
}

func (r CapacityRule) fits(n *cluster.Node) bool {
	if attribute, pattern, ok := strings.Cut(r.Node, "="); ok {
		value, has := n.Attributes[attribute]
		return has && cluster.MatchPattern(pattern, value)
	}
	return cluster.MatchPattern(r.Node, n.Name)
}
