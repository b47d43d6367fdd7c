package mover

import (
	"fmt"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// Limits bound what is under way at a time, everybody's relocations and recoveries counted. 0 is no limit of ours; the
// server's own limits hold in any case, for it does not apply them to moves that are asked for.
type Limits struct {
	PerNodeIn      int      // relocations and recoveries arriving at a node
	PerNodeOut     int      // leaving a node; a replica's data leaves from its primary's node
	Cluster        int      // in the whole cluster
	BytesInFlight  int64    // in the whole cluster; a single move larger than that passes when nothing else is under way
	PerIndex       int      // of one index
	PerZonePair    int      // from one zone to another one, each direction on its own; within a zone does not count
	BetweenRegions int      // from one region to another one, all pairs together
	Region         string   // node attribute that names the region
	PerRequest     int      // commands in one request; 0 is ten
	Pause          []Window // times in which no move is asked for
}

// Window is a span of time that comes back, such as working hours.
type Window interface {
	Contains(time.Time) bool
	String() string
}

// transfer is one recovery of a copy over the network, whoever asked for it.
type transfer struct {
	index    string
	from, to cluster.NodeID // the node that sends the data, the one that receives it
	bytes    int64
}

// gate is the one place that says whether one more transfer may begin. It is made anew from each look at the cluster.
type gate struct {
	limits  Limits
	servers *cluster.Settings
	zone    func(cluster.NodeID) string
	region  func(cluster.NodeID) string // empty where there are none
	half    bool                        // after a storm: half of every limit

	in, out  map[cluster.NodeID]int
	index    map[string]int
	zones    map[[2]string]int
	crossing int
	all      int
	bytes    int64
}

func newGate(limits Limits, servers *cluster.Settings, zone, region func(cluster.NodeID) string, half bool) *gate {
	return &gate{
		limits: limits, servers: servers, zone: zone, region: region, half: half,
		in: make(map[cluster.NodeID]int), out: make(map[cluster.NodeID]int), index: make(map[string]int), zones: make(map[[2]string]int),
	}
}

// add counts a transfer that is under way.
func (g *gate) add(t transfer) {
	g.in[t.to]++
	g.out[t.from]++
	g.index[t.index]++
	g.zones[[2]string{g.zone(t.from), g.zone(t.to)}]++
	if g.crosses(t) {
		g.crossing++
	}
	g.all++
	g.bytes += t.bytes
}

// admits is why one more transfer has to wait; empty where it may begin.
func (g *gate) admits(t transfer, now time.Time) string {
	for _, window := range g.limits.Pause {
		if window.Contains(now) {
			return fmt.Sprintf("the pause window %s is open", window)
		}
	}
	// A negative value of the server's is none; 0 is one that a person has set to let nothing in.
	for _, bound := range []struct {
		ours, servers, count int
		of                   string
	}{
		{g.limits.PerNodeIn, g.servers.IncomingRecoveries, g.in[t.to], "relocations to a node"},
		{g.limits.PerNodeOut, g.servers.OutgoingRecoveries, g.out[t.from], "relocations from a node"},
		{g.limits.Cluster, g.servers.ConcurrentRecoveries, g.all, "relocations in the cluster"},
		{g.limits.PerIndex, -1, g.index[t.index], "relocations of an index"},
		{g.limits.PerZonePair, -1, g.betweenZones(t), "relocations from one zone to another"},
		{g.limits.BetweenRegions, -1, g.betweenRegions(t), "relocations between regions"},
	} {
		if limit := g.limit(bound.ours, bound.servers); limit >= 0 && bound.count >= limit {
			return fmt.Sprintf("the limit of %d %s is reached", limit, bound.of)
		}
	}
	if most := g.limits.BytesInFlight; most > 0 {
		if g.half {
			most /= 2
		}
		if g.all > 0 && g.bytes+t.bytes > most {
			return fmt.Sprintf("%d bytes are in flight and %d more would pass the limit of %d", g.bytes, t.bytes, most)
		}
	}
	return ""
}

func (g *gate) betweenZones(t transfer) int {
	from, to := g.zone(t.from), g.zone(t.to)
	if from == to {
		return 0
	}
	return g.zones[[2]string{from, to}]
}

func (g *gate) crosses(t transfer) bool { return g.region(t.from) != g.region(t.to) }

func (g *gate) betweenRegions(t transfer) int {
	if !g.crosses(t) {
		return 0
	}
	return g.crossing
}

// limit is the tighter of ours (0 is none) and the server's (negative is none); negative is none.
func (g *gate) limit(ours, servers int) int {
	limit := -1
	if ours > 0 {
		limit = ours
	}
	if servers >= 0 && (limit < 0 || servers < limit) {
		limit = servers
	}
	if g.half && limit > 1 {
		limit /= 2
	}
	return limit
}
