package metrics

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// TestZones: two zones serve and the third stands by; then one fails and the standby takes over. What is shown is about
// zones only, and what is counted is a rise from a series that was there before.
func TestZones(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	m := New(registry)
	at := time.UnixMilli(1_700_000_000_000)
	one, none := 1.0, 0.0
	look := &Zones{
		At: at, Judged: at, Mode: "act", Phase: "steady", WritePhase: "idle", Version: 4, Voters: 3, Changed: at.Add(-10 * time.Minute), Due: at.Add(20 * time.Minute),
		Blocked: []string{"quiet"}, CarriesPeak: true,
		Zones: []Zone{
			{Name: "a", Role: 2, Weight: &one, Well: true, Queries: 1000, Counted: true},
			{Name: "b", Role: 2, Weight: &one, Well: true, Queries: 1000, Counted: true},
			{Name: "c", Role: 1, Weight: &none, Well: true, Queries: 500, FailedOpen: 7, Counted: true},
		},
	}
	m.ObserveZones(look)
	golden(t, "testdata/zones-steady.txt", zonesOnly(exposition(t, registry)))
	look.At, look.Judged = at.Add(35*time.Second), at.Add(30*time.Second)
	look.Phase, look.Version, look.Due, look.Blocked = "no_standby", 5, time.Time{}, nil
	look.Zones = []Zone{
		{Name: "a", Role: 1, Weight: &none, ReadImpaired: true, Bad: []string{"probe", "missing"}, Queries: 1000, Counted: true},
		{Name: "b", Role: 2, Weight: &one, Well: true, Queries: 1060, Counted: true},
		{Name: "c", Role: 2, Weight: &one, Well: true, Queries: 530, FailedOpen: 9, Counted: true},
	}
	m.ObserveFailover("a", "read", "done", 14*time.Second)
	m.ObserveZones(look)
	m.ObserveZoneCopies(&cluster.Snapshot{
		Nodes: []cluster.Node{
			{Name: "b1", Roles: []string{"data"}, Processors: 4, Attributes: map[string]string{"zone": "b"}, Disk: cluster.DiskUse{Total: 100, Available: 50}},
			{Name: "c1", Roles: []string{"data"}, Processors: 8, Attributes: map[string]string{"zone": "c"}, Disk: cluster.DiskUse{Total: 100, Available: 50}},
		},
		Indices: []cluster.Index{{Name: "logs"}},
		Copies: []cluster.Copy{
			{Primary: true, Node: 0, State: cluster.Started},
			{Node: 1, State: cluster.Started},
			{Node: cluster.None},
			{Shard: 1, Primary: true, Node: 1, State: cluster.Started},
			{Shard: 1, Node: 0, State: cluster.Initializing},
		},
	}, "zone", nil)
	look.Isolated = true
	m.ObserveZones(look)
	golden(t, "testdata/zones-failed-over.txt", zonesOnly(exposition(t, registry)))
}

// zonesOnly are the samples about zones that are not 0.
func zonesOnly(text string) string {
	var lines strings.Builder
	for _, line := range regexp.MustCompile(`(?m)^shardonnay_zone_.*$`).FindAllString(text, -1) {
		if !strings.HasSuffix(line, " 0") {
			lines.WriteString(line + "\n")
		}
	}
	return lines.String()
}
