package sim

import (
	"fmt"
	"time"
)

// demoSeries are the time-based indices of the demonstration cluster: what a mid-sized company searches. Shares are of
// the whole search and write traffic; shards follow the traffic, as people size them.
var demoSeries = []struct {
	name   string
	shards int
	search float64 // share of all searches, when new
	write  float64 // share of all writes
	gb     float64 // of primaries, a full day
}{
	{"logs-web", 5, 14, 13, 15},
	{"logs-checkout", 4, 11, 8, 10},
	{"logs-gateway", 4, 10, 11, 13},
	{"traces-shop", 4, 9, 12, 14},
	{"logs-auth", 3, 7, 5, 7},
	{"metrics-hosts", 3, 6, 9, 8},
	{"logs-search", 3, 6, 4, 6},
	{"events-clicks", 3, 5, 7, 8},
	{"metrics-k8s", 2, 4.5, 5, 6},
	{"logs-payments", 2, 4, 3, 4},
	{"traces-api", 2, 4, 4, 5},
	{"logs-mobile", 2, 3.5, 3, 4},
	{"audit-admin", 2, 3, 2, 3},
	{"logs-mail", 2, 2.5, 2, 3},
	{"logs-dns", 2, 2, 3, 4},
	{"events-ads", 2, 2, 2, 3},
	{"logs-batch", 1, 1.5, 1.5, 2},
	{"logs-vpn", 1, 1.2, 1, 1.5},
	{"metrics-db", 1, 1.2, 1.5, 2},
	{"logs-ci", 1, 1, 1, 1.5},
	{"logs-firewall", 1, 1, 1.5, 2},
	{"logs-proxy", 1, 0.8, 1, 1.5},
	{"audit-data", 1, 0.6, 0.5, 1},
	{"logs-iot", 1, 0.5, 0.8, 1},
}

// The demonstration cluster's size. Disks and traffic leave room: what it lacks is evenness.
const (
	demoNodes   = 30
	demoDays    = 14   // of indices kept
	demoSearch  = 60.0 // busy seconds per second over the cluster while all indices were new: 240 processors
	demoWrite   = 24.0
	demoNewcome = 3 // days ago three nodes were replaced by empty ones
)

// Demo is the cluster of the demonstration: thirty equal nodes in three zones and two dozen series of daily indices,
// placed day by day by the built-in allocator. Yesterday three nodes, one in each zone, were replaced by new ones. They
// were empty, so the allocator, which counts copies, gave them most of what was created since: the indices people search
// most. By count the cluster is level, by load its newest nodes carry three times the mean. No copy alone is more than
// half of what a node should carry, so all of it can be evened out.
//
// Shards are small and recoveries quick, so that at a Speed of 60 a move lands in about a second.
func Demo(seed uint64) *Cluster {
	c := New(Config{
		Name: "demo", Distribution: OpenSearch, Version: "2.19.6", Seed: seed, Start: time.Date(2026, 3, 12, 10, 0, 0, 0, time.UTC),
		Settings: map[string]string{
			"cluster.routing.allocation.awareness.attributes": "zone",
			"indices.recovery.max_bytes_per_sec":              "200mb",
		},
	})
	add := func(i int) {
		zone := string("abc"[i%3])
		c.mustNode(NodeSpec{
			Name: fmt.Sprintf("data-%s%02d", zone, i/3+1), Attributes: map[string]string{"zone": zone}, Processors: 8, Disk: 1e12, OtherDisk: 20e9,
		})
	}
	for i := range demoNodes - 3 {
		add(i)
	}
	var all []*series
	for _, d := range demoSeries {
		s, err := c.newSeries(SeriesSpec{
			Name: d.name, Keep: demoDays,
			Index: IndexSpec{
				Shards: d.shards, Replicas: 1, Bytes: int64(d.gb * 1e9), Search: demoSearch * d.search / 100, Write: demoWrite * d.write / 100,
				QueryCost: 0.004, Profile: demoProfile,
			},
		})
		if err != nil {
			panic("sim: " + err.Error()) // the specification above is wrong
		}
		all = append(all, s)
	}
	for ago := demoDays - 1; ago >= 0; ago-- {
		if ago == demoNewcome {
			for i := demoNodes - 3; i < demoNodes; i++ {
				add(i)
			}
		}
		// The order of creation within a day is anybody's guess.
		c.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		if err := c.rollAll(all, ago); err != nil {
			panic("sim: " + err.Error())
		}
	}
	c.Settle()
	return c
}

var demoProfile = Profile{{day, 0.5}, {4 * day, 1}, {8 * day, 0.12}, {31 * day, 0.02}}

func (c *Cluster) mustNode(spec NodeSpec) {
	if _, err := c.AddNode(spec); err != nil {
		panic(err) // names are made here
	}
}
