package mover

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/plan"
)

// TestStops checks each condition under which nothing is asked for, and that it goes on when it has passed.
func TestStops(t *testing.T) {
	for _, test := range []struct {
		kind   StopKind
		config func(*Config)
		break_ func(f *fake, s *cluster.Snapshot)
		heal   func(f *fake)
		text   string
	}{
		{StatusStop, nil, func(f *fake, _ *cluster.Snapshot) { f.health.Status = "red" }, func(f *fake) { f.health.Status = "" }, "the cluster is red: primaries are missing"},
		{NoMaster, nil, func(f *fake, _ *cluster.Snapshot) { f.health.HasMaster = false }, func(f *fake) { f.health.HasMaster = true }, "the cluster has no elected master"},
		{
			UnassignedStop, nil, func(f *fake, _ *cluster.Snapshot) { f.copies[4].State = cluster.Unassigned },
			func(f *fake) { f.copies[4].State = cluster.Started }, "1 copies are unassigned",
		},
		{
			UnassignedStop, func(c *Config) { c.Stops.AllowYellow = true }, func(f *fake, _ *cluster.Snapshot) { f.copies[4].State = cluster.Unassigned },
			func(f *fake) { f.copies[4].State = cluster.Started }, "1 copies are unassigned, 0 when the plan was made",
		},
		{
			UnassignedStop, func(c *Config) { c.Stops.AllowYellow = true },
			func(f *fake, s *cluster.Snapshot) {
				f.copies[4].State, f.copies[4].Delayed = cluster.Unassigned, true
				s.Health.Unassigned = 1
			},
			func(f *fake) { f.copies[4].Delayed = false }, "1 copies wait for their node to come back",
		},
		{
			Recovering, nil, func(f *fake, _ *cluster.Snapshot) { f.copies[4].State = cluster.Initializing },
			func(f *fake) { f.copies[4].State = cluster.Started }, "1 copies are being built",
		},
		{
			AllocationDisabled, nil, func(f *fake, _ *cluster.Snapshot) { f.transient["cluster.routing.allocation.enable"] = "primaries" },
			func(f *fake) { clear(f.transient) }, "cluster.routing.allocation.enable is primaries: somebody wants copies to stay",
		},
		{
			RebalanceZero, nil, func(f *fake, _ *cluster.Snapshot) {
				f.persistent["cluster.routing.allocation.cluster_concurrent_rebalance"] = "0"
			},
			func(f *fake) { clear(f.persistent) }, "cluster.routing.allocation.cluster_concurrent_rebalance is 0: somebody wants no rebalancing",
		},
		{
			MasterBusy, func(c *Config) { c.Stops.PendingTasks = 50 }, func(f *fake, _ *cluster.Snapshot) { f.health.PendingTasks = 51 },
			func(f *fake) { f.health.PendingTasks = 50 }, "the master has 51 pending tasks, the oldest for 0s",
		},
		{
			MasterBusy, func(c *Config) { c.Stops.TaskWait = time.Second }, func(f *fake, _ *cluster.Snapshot) { f.health.MaxTaskWait = 2 * time.Second },
			func(f *fake) { f.health.MaxTaskWait = 0 }, "the master has 0 pending tasks, the oldest for 2s",
		},
		{
			ShutdownMarked, nil, func(f *fake, _ *cluster.Snapshot) { f.health.ShutdownMarked = 1 },
			func(f *fake) { f.health.ShutdownMarked = 0 }, "1 nodes are marked for shutdown",
		},
		{
			NodeMissing, func(c *Config) { c.Stops.Settle = 5 * time.Second }, func(f *fake, _ *cluster.Snapshot) { delete(f.nodes, "n4") },
			func(f *fake) {}, "node n4 left 0s ago",
		},
		{
			NodeJoined, func(c *Config) { c.Stops.Settle = 5 * time.Minute; c.Patience = time.Hour },
			func(_ *fake, s *cluster.Snapshot) {
				for n := range s.Nodes {
					s.Nodes[n].Uptime = time.Hour
				}
				s.Nodes[2].Uptime = time.Minute
			},
			func(f *fake) {}, "node n3 joined or restarted 1m0s ago",
		},
		{
			Storm, func(c *Config) { c.Stops.Storm = 1 },
			func(f *fake, _ *cluster.Snapshot) { f.begin(f.copies[1], "n4"); f.begin(f.copies[2], "n3") },
			func(f *fake) {}, "2 relocations are under way that are not ours, more than 1",
		},
		{
			WatermarkMoves, nil,
			func(f *fake, _ *cluster.Snapshot) {
				f.disks["n1"] = cluster.DiskUse{Total: 100 << 30, Available: 5 << 30}
				f.begin(f.copies[1], "n4")
			},
			func(f *fake) {}, "n1 is above the high watermark and the server moves copies off it",
		},
	} {
		t.Run(string(test.kind)+" "+test.text, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, s := newFake(t, fourNodes)
				p := f.plan("a/0/p/n1 -> n2")
				test.break_(f, s)
				m := f.mover(func(c *Config) {
					if test.config != nil {
						test.config(c)
					}
				})
				patience := m.settings.Load().Patience
				var seen []string
				hasty := *m.settings.Load()
				hasty.Patience = 2 * time.Second
				m.Configure(hasty)
				r, err := m.Carry(t.Context(), p, s)
				if err != nil {
					t.Fatal(err)
				}
				addsUp(t, r)
				if r.Stop == nil || r.Stop.Kind != test.kind || !strings.HasPrefix(firstSeconds(r.Stop.Text), firstSeconds(test.text)) || r.Stop.Cure == "" {
					t.Fatalf("stopped by %+v (%v)", r.Stop, seen)
				}
				if len(f.requests) != 0 {
					t.Errorf("%d requests", len(f.requests))
				}
				if freeze := test.kind == Storm || test.kind == WatermarkMoves || test.kind == NodeMissing; r.Stop.Freeze != freeze {
					t.Errorf("freeze is %v", r.Stop.Freeze)
				}
				test.heal(f)
				patient := hasty
				patient.Patience = max(patience, time.Minute)
				m.Configure(patient)
				if r, err = m.Carry(t.Context(), p, s); err != nil || r.Count[Landed] != 1 {
					t.Errorf("after it has passed: %s, %v", told(r), err)
				}
			})
		})
	}
}

// firstSeconds cuts a text before the first "Ns ago": how long ago depends on the poll.
func firstSeconds(text string) string {
	if at := strings.LastIndex(text, " "); strings.HasSuffix(text, " ago") {
		text = text[:at]
		return text[:strings.LastIndex(text, " ")]
	}
	return text
}

// After a storm half of every limit holds until it has been calm for long enough.
func TestHalfTheLimitsAfterAStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s := newFake(t, fourNodes)
		m := f.mover(func(c *Config) {
			c.Limits.Cluster, c.Stops.Storm, c.Stops.Calm, c.Patience = 2, 1, time.Hour, time.Minute
		})
		f.begin(f.copy("a/1/p/n1"), "n4")
		f.begin(f.copy("a/2/p/n1"), "n4")
		most := 0
		f.onMove = func(*fakeCopy) { most = max(most, underWay(f)) }
		r, err := m.Carry(t.Context(), f.plan("a/0/p/n1 -> n2", "b/0/r/n3 -> n4"), s)
		if err != nil || r.Count[Landed] != 2 || most != 1 {
			t.Fatalf("%s, %v; %d at a time", told(r), err, most)
		}
		pass(time.Hour)
		most = 0
		r, err = m.Carry(t.Context(), f.plan("new-3 -> n1", "new-4 -> n3"), s)
		if err != nil || r.Count[Landed] != 2 || most != 2 {
			t.Errorf("%s, %v; %d at a time", told(r), err, most)
		}
	})
}

// While something else at work wants copies to stay, the moves that wait are not asked for; what is on its way lands.
func TestHeldInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s := newFake(t, fourNodes)
		m := f.mover(func(c *Config) { c.Limits.Cluster, c.Patience = 1, 5*time.Second })
		why := ""
		m.HoldWhile(func() string { return why })
		f.onMove = func(*fakeCopy) { why = "the roles of the zones are changing" }
		r, err := m.Carry(t.Context(), f.plan("a/0/p/n1 -> n2", "b/0/r/n3 -> n4"), s)
		if err != nil || r.Count[Landed] != 1 || r.Count[Skipped] != 1 || len(f.requests) != 1 {
			t.Fatalf("%s, %v; %d requests", told(r), err, len(f.requests))
		}
		if r.Stop == nil || r.Stop.Kind != ZonesAtWork || r.Stop.Text != why || r.Stop.Cure == "" {
			t.Errorf("stopped by %+v", r.Stop)
		}
		f.onMove, why = nil, ""
		if r, err = m.Carry(t.Context(), f.plan("b/0/r/n3 -> n4"), s); err != nil || r.Count[Landed] != 1 {
			t.Errorf("after it has passed: %s, %v", told(r), err)
		}
	})
}

func underWay(f *fake) int {
	n := 0
	for _, k := range f.copies {
		if k.Target != "" {
			n++
		}
	}
	return n
}

// However many moves wait, what is under way stays within every limit at every moment, others' relocations counted.
func TestGateHoldsAtEveryMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text strings.Builder
		for n := range 6 {
			fmt.Fprintf(&text, "node n%d zone=%c\n", n, 'a'+n%3)
		}
		for i := range 20 {
			fmt.Fprintf(&text, "index i%d\ncopy i%d/0 p n%d bytes=%dgb\ncopy i%d/1 p n%d bytes=3gb\n", i, i, i%3, 1+i%5, i, i%3)
		}
		f, s := newFake(t, text.String())
		var lines []string
		for i := range 20 {
			lines = append(lines, fmt.Sprintf("i%d/0/p/n%d -> n%d", i, i%3, 3+(i+1)%3), fmt.Sprintf("i%d/1/p/n%d -> n%d", i, i%3, 3+i%3))
		}
		limits := Limits{PerNodeIn: 2, PerNodeOut: 2, Cluster: 5, BytesInFlight: 12 << 30, PerIndex: 1, PerZonePair: 1, PerRequest: 3}
		f.begin(f.copy("i3/1/p/n0"), "n5") // somebody else's
		most := 0
		f.onMove = func(*fakeCopy) {
			in, out, index, zones := map[cluster.NodeID]int{}, map[cluster.NodeID]int{}, map[string]int{}, map[string]int{}
			all, bytes := 0, int64(0)
			for _, k := range f.copies {
				if k.Target == "" {
					continue
				}
				in[k.Target]++
				out[k.Node]++
				index[k.Index]++
				if from, to := s.Nodes[s.NodeAt(k.Node)].Attributes["zone"], s.Nodes[s.NodeAt(k.Target)].Attributes["zone"]; from != to {
					zones[from+to]++
				}
				all++
				bytes += k.bytes
			}
			most = max(most, all)
			for what, over := range map[string]bool{
				"in": exceeds(in, 2), "out": exceeds(out, 2), "index": exceeds(index, 1), "zones": exceeds(zones, 1), "all": all > 5, "bytes": bytes > 12<<30,
			} {
				if over {
					t.Errorf("%s: in %v, out %v, index %v, zones %v, %d in all, %d bytes", what, in, out, index, zones, all, bytes)
				}
			}
		}
		p := f.plan(lines...)
		p.Moves = slices.DeleteFunc(p.Moves, func(m plan.Move) bool { return m.AllocationID == "i3/1/p/n0" }) // the one that somebody else moves
		r, err := f.mover(func(c *Config) { c.Limits = limits; c.Patience = time.Minute }).Carry(t.Context(), p, s)
		if err != nil || r.Count[Landed] != len(p.Moves) || most < 4 {
			t.Errorf("%s, %v; at most %d at a time", told(r), err, most)
		}
		for _, request := range f.requests {
			if len(request) > 3 {
				t.Errorf("a request of %d commands", len(request))
			}
		}
	})
}

func exceeds[K comparable](counts map[K]int, limit int) bool {
	for _, n := range counts {
		if n > limit {
			return true
		}
	}
	return false
}

// TestGate checks limit by limit what is admitted.
func TestGate(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	open := &cluster.Settings{IncomingRecoveries: -1, OutgoingRecoveries: -1, ConcurrentRecoveries: -1}
	zone := func(id cluster.NodeID) string { return string(id[:1]) }
	region := zone // no two zones share one here
	under := []transfer{{"i", "a1", "b1", 10}, {"j", "a1", "a2", 10}}
	for _, test := range []struct {
		name    string
		limits  Limits
		servers cluster.Settings
		half    bool
		ask     transfer
		want    string
	}{
		{"no limit", Limits{}, *open, false, transfer{"i", "a1", "b1", 1 << 40}, ""},
		{"in", Limits{PerNodeIn: 1}, *open, false, transfer{"k", "c1", "b1", 1}, "the limit of 1 relocations to a node is reached"},
		{"in elsewhere", Limits{PerNodeIn: 1}, *open, false, transfer{"k", "c1", "b2", 1}, ""},
		{"out", Limits{PerNodeOut: 2}, *open, false, transfer{"k", "a1", "c1", 1}, "the limit of 2 relocations from a node is reached"},
		{"out, the server's is tighter", Limits{PerNodeOut: 9}, cluster.Settings{IncomingRecoveries: -1, OutgoingRecoveries: 2, ConcurrentRecoveries: -1}, false, transfer{"k", "a1", "c1", 1}, "the limit of 2 relocations from a node is reached"},
		{"the server's 0 lets nothing in", Limits{}, cluster.Settings{OutgoingRecoveries: -1, ConcurrentRecoveries: -1}, false, transfer{"k", "c1", "c2", 1}, "the limit of 0 relocations to a node is reached"},
		{"cluster", Limits{Cluster: 2}, *open, false, transfer{"k", "c1", "c2", 1}, "the limit of 2 relocations in the cluster is reached"},
		{"the server's cluster limit", Limits{}, cluster.Settings{IncomingRecoveries: -1, OutgoingRecoveries: -1, ConcurrentRecoveries: 2}, false, transfer{"k", "c1", "c2", 1}, "the limit of 2 relocations in the cluster is reached"},
		{"index", Limits{PerIndex: 1}, *open, false, transfer{"i", "c1", "c2", 1}, "the limit of 1 relocations of an index is reached"},
		{"zone pair", Limits{PerZonePair: 1}, *open, false, transfer{"k", "a2", "b2", 1}, "the limit of 1 relocations from one zone to another is reached"},
		{"the other direction", Limits{PerZonePair: 1}, *open, false, transfer{"k", "b2", "a2", 1}, ""},
		{"between regions", Limits{BetweenRegions: 1}, *open, false, transfer{"k", "d2", "e2", 1}, "the limit of 1 relocations between regions is reached"},
		{"fewer between regions", Limits{BetweenRegions: 2}, *open, false, transfer{"k", "d2", "e2", 1}, ""},
		{"within a region", Limits{BetweenRegions: 1}, *open, false, transfer{"k", "a2", "a3", 1}, ""},
		{"within a zone", Limits{PerZonePair: 1}, *open, false, transfer{"k", "a2", "a3", 1}, ""},
		{"bytes", Limits{BytesInFlight: 25}, *open, false, transfer{"k", "c1", "c2", 6}, "20 bytes are in flight and 6 more would pass the limit of 25"},
		{"bytes just fit", Limits{BytesInFlight: 25}, *open, false, transfer{"k", "c1", "c2", 5}, ""},
		{"half", Limits{Cluster: 5}, *open, true, transfer{"k", "c1", "c2", 1}, "the limit of 2 relocations in the cluster is reached"},
		{"half of one is one", Limits{PerNodeIn: 1}, *open, true, transfer{"k", "c1", "c2", 1}, ""},
		{"pause", Limits{Pause: []Window{noon{}}}, *open, false, transfer{"k", "c1", "c2", 1}, "the pause window noon is open"},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := newGate(test.limits, &test.servers, zone, region, test.half)
			for _, transfer := range under {
				g.add(transfer)
			}
			if got := g.admits(test.ask, now); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
	alone := newGate(Limits{BytesInFlight: 5}, open, zone, region, false)
	if got := alone.admits(transfer{"k", "c1", "c2", 6}, now); got != "" {
		t.Errorf("a move larger than the limit, alone: %s", got)
	}
}

type noon struct{}

func (noon) Contains(t time.Time) bool { return t.Hour() == 12 }
func (noon) String() string            { return "noon" }
