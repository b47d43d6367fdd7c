// Package clustertest reads snapshots from a few lines of text, so that a test's cluster can be seen whole.
//
//	cluster opensearch 2.19.6
//	set awareness=zone forced=a,b,c low=85% high=90%
//	node n1 zone=a disk=100gb free=60gb processors=4
//	index logs-1 replicas=1 newest series=logs
//	copy logs-1/0 p n1 bytes=10gb search=0.5 index=0.1
//	copy logs-1/0 r n2 -> n3 bytes=10gb search=0.5
//
// Node names are their ids. Every copy has the allocation id index/shard/role/node.
package clustertest

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// TakenAt is when every parsed snapshot was taken.
var TakenAt = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// Parse reads a snapshot with the dimensions search, index and disk.
func Parse(text string) (*cluster.Snapshot, error) {
	p := parser{
		s: &cluster.Snapshot{
			Cluster: cluster.Identity{
				Name: "test", UUID: "test-uuid", Product: cluster.Product{Distribution: cluster.OpenSearch, Version: cluster.Version{Major: 2, Minor: 19, Patch: 6}},
			},
			TakenAt: TakenAt, StateVersion: 1, Samples: 2, Window: time.Minute,
			Dimensions: []cluster.Dimension{cluster.SearchTime, cluster.IndexTime, cluster.DiskBytes},
			Settings: cluster.Settings{
				AllocationEnable: "all", RebalanceEnable: "all", DiskThreshold: true,
				Low: cluster.Watermark{Ratio: 0.85}, High: cluster.Watermark{Ratio: 0.9}, FloodStage: cluster.Watermark{Ratio: 0.95},
				IncomingRecoveries: 2, OutgoingRecoveries: 2, ConcurrentRebalance: 2, ConcurrentRecoveries: -1, RecoveryBytesPerSec: 40 << 20,
			},
			Health: cluster.Health{Status: "green", HasMaster: true},
		},
		node: map[string]int32{}, index: map[string]int32{},
	}
	for number, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if err := p.line(fields); err != nil {
			return nil, fmt.Errorf("line %d %q: %w", number+1, line, err)
		}
	}
	p.finish()
	return p.s, nil
}

type parser struct {
	s           *cluster.Snapshot
	node, index map[string]int32
}

func (p *parser) line(fields []string) error {
	verb, fields := fields[0], fields[1:]
	switch verb {
	case "cluster":
		version, err := cluster.ParseVersion(fields[1])
		p.s.Cluster.Product = cluster.Product{Distribution: cluster.Distribution(fields[0]), Version: version}
		return err
	case "set":
		return p.options(fields, p.setting)
	case "node":
		n := cluster.Node{
			ID: cluster.NodeID(fields[0]), EphemeralID: fields[0] + "-e", Name: fields[0], Host: fields[0], IP: "10.0.0." + strconv.Itoa(len(p.node)+1),
			Version: p.s.Cluster.Product.Version, Roles: []string{"data"}, Attributes: map[string]string{}, Processors: 1, CPU: -1,
			Disk: cluster.DiskUse{Total: 100 << 30, Available: 100 << 30}, Uptime: time.Hour,
		}
		p.node[fields[0]] = int32(len(p.s.Nodes))
		p.s.Nodes = append(p.s.Nodes, n)
		at := &p.s.Nodes[len(p.s.Nodes)-1]
		return p.options(fields[1:], func(key, value string) error { return nodeOption(at, key, value) })
	case "index":
		p.index[fields[0]] = int32(len(p.s.Indices))
		p.s.Indices = append(p.s.Indices, cluster.Index{Name: fields[0], UUID: fields[0] + "-uuid"})
		at := &p.s.Indices[len(p.s.Indices)-1]
		return p.options(fields[1:], func(key, value string) error { return indexOption(at, key, value) })
	case "copy":
		return p.copy(fields)
	}
	return fmt.Errorf("unknown verb %q", verb)
}

func (p *parser) options(fields []string, set func(key, value string) error) error {
	for _, field := range fields {
		key, value, _ := strings.Cut(field, "=")
		if err := set(key, value); err != nil {
			return fmt.Errorf("%s: %w", field, err)
		}
	}
	return nil
}

func (p *parser) setting(key, value string) (err error) {
	s := &p.s.Settings
	switch key {
	case "awareness":
		s.AwarenessAttributes = strings.Split(value, ",")
	case "forced":
		s.ForcedAwareness = map[string][]string{s.AwarenessAttributes[0]: strings.Split(value, ",")}
	case "low":
		s.Low, err = cluster.ParseWatermark(value)
	case "high":
		s.High, err = cluster.ParseWatermark(value)
	case "rebalance":
		s.RebalanceEnable = value
	case "exclude":
		s.Filter.Exclude = map[string][]string{"_name": strings.Split(value, ",")}
	case "same_host":
		s.SameShardHost = true
	case "total_per_node":
		s.TotalShardsPerNode, err = strconv.Atoi(value)
	case "status":
		p.s.Health.Status = value
	default:
		return fmt.Errorf("unknown setting")
	}
	return err
}

func nodeOption(n *cluster.Node, key, value string) (err error) {
	switch key {
	case "zone", "rack", "region", "host":
		n.Attributes[key] = value
	case "disk":
		n.Disk.Total, err = cluster.ParseBytes(value)
		n.Disk.Available = n.Disk.Total
	case "free":
		n.Disk.Available, err = cluster.ParseBytes(value)
	case "processors":
		n.Processors, err = strconv.ParseFloat(value, 64)
	case "roles":
		n.Roles = strings.Split(value, ",")
	case "version":
		n.Version, err = cluster.ParseVersion(value)
	case "ip":
		n.IP = value
	case "leaving":
		n.Leaving = value
	default:
		return fmt.Errorf("unknown node option")
	}
	return err
}

func indexOption(i *cluster.Index, key, value string) (err error) {
	switch key {
	case "replicas":
		i.Replicas, err = strconv.Atoi(value)
	case "newest":
		i.Newest = true
	case "series":
		i.Series = value
	case "exclude":
		i.Filter.Exclude = map[string][]string{"_name": strings.Split(value, ",")}
	case "require_zone":
		i.Filter.Require = map[string][]string{"zone": {value}}
	case "tier":
		i.TierPreference = strings.Split(value, ",")
	case "per_node":
		i.TotalShardsPerNode, err = strconv.Atoi(value)
	case "busy":
		i.Busy = value
	case "replication":
		i.Replication = value
	case "rebalance":
		i.RebalanceEnable = value
	default:
		return fmt.Errorf("unknown index option")
	}
	return err
}

// copy reads "logs-1/0 p n1 [-> n2] key=value ...".
func (p *parser) copy(fields []string) error {
	name, shard, _ := strings.Cut(fields[0], "/")
	number, err := strconv.Atoi(shard)
	if err != nil {
		return fmt.Errorf("shard %q: %w", shard, err)
	}
	index, known := p.index[name]
	if !known {
		return fmt.Errorf("index %q is not declared", name)
	}
	i := &p.s.Indices[index]
	i.Shards = max(i.Shards, number+1)
	c := cluster.Copy{
		Index: index, Shard: int32(number), Primary: fields[1] == "p", State: cluster.Started, Target: cluster.None,
		AllocationID: strings.Join(append(strings.Split(fields[0], "/"), fields[1], fields[2]), "/"),
	}
	if fields[2] == "-" {
		c.Node, c.State = cluster.None, cluster.Unassigned
	} else if c.Node, known = p.node[fields[2]]; !known {
		return fmt.Errorf("node %q is not declared", fields[2])
	}
	rest := fields[3:]
	if len(rest) > 1 && rest[0] == "->" {
		if c.Target, known = p.node[rest[1]]; !known {
			return fmt.Errorf("node %q is not declared", rest[1])
		}
		c.State, c.RelocationID = cluster.Relocating, c.AllocationID+"+"
		rest = rest[2:]
	}
	err = p.options(rest, func(key, value string) error {
		if key == "bytes" {
			c.Bytes, err = cluster.ParseBytes(value)
			c.Load[p.s.DimensionAt(cluster.DiskBytes.Name)] = float64(c.Bytes)
			return err
		}
		if key == "snapshotting" {
			c.Snapshotting = true
			return nil
		}
		name, isDeviation := strings.CutPrefix(key, "sd_")
		d := p.s.DimensionAt(name)
		if d == cluster.None {
			return fmt.Errorf("unknown copy option")
		}
		load, err := strconv.ParseFloat(value, 64)
		if isDeviation {
			c.Deviation[d] = load
		} else {
			c.Load[d], c.Observed[d] = load, load
		}
		return err
	})
	p.s.Copies = append(p.s.Copies, c)
	return err
}

// finish fills what follows from the lines: capacities, stores, health counts.
func (p *parser) finish() {
	for n := range p.s.Nodes {
		node := &p.s.Nodes[n]
		node.Capacity = cluster.Load{node.Processors, node.Processors, float64(node.Disk.Total)}
	}
	for c := range p.s.Copies {
		k := &p.s.Copies[c]
		switch k.State {
		case cluster.Unassigned:
			p.s.Health.Unassigned++
		case cluster.Relocating:
			p.s.Health.Relocating++
			p.s.Nodes[k.Target].Disk.Reserved += k.Bytes
			fallthrough
		default:
			p.s.Nodes[k.Node].Disk.Store += k.Bytes
			if k.State == cluster.Started || k.State == cluster.Relocating {
				continue
			}
			p.s.Health.Initializing++
		}
	}
	p.s.Health.Nodes, p.s.Health.DataNodes = len(p.s.Nodes), len(p.s.Nodes)
	p.s.Sort()
}
