package mover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/es"
	"github.com/shardonnay/shardonnay/internal/plan"
)

// Every pair of states: what the table allows passes, everything else panics.
func TestTransitions(t *testing.T) {
	on := map[State]bool{Planned: true, Checked: true, Requested: true, Relocating: true}
	allowed := 0
	for _, from := range States {
		if from.Ended() == on[from] {
			t.Errorf("%s: ended is %v", from, from.Ended())
		}
		for _, to := range States {
			panicked := func() (panicked bool) {
				defer func() { panicked = recover() != nil }()
				(&flight{state: from}).set(to)
				return false
			}()
			if panicked == from.Becomes(to) {
				t.Errorf("%s to %s: the table says %v", from, to, from.Becomes(to))
			}
			if from.Becomes(to) {
				allowed++
			}
		}
	}
	if allowed != 17 {
		t.Errorf("%d transitions, look at each", allowed)
	}
	reachable := map[State]bool{Planned: true}
	for range States {
		for from := range reachable {
			for _, to := range transitions[from] {
				reachable[to] = true
			}
		}
	}
	if len(reachable) != len(States) {
		t.Errorf("reachable are %v of %v", reachable, States)
	}
}

const fourNodes = `
node n1 zone=a
node n2 zone=b
node n3 zone=c
node n4 zone=a
index a replicas=0
index b replicas=1
copy a/0 p n1 bytes=10gb
copy a/1 p n1 bytes=20gb
copy a/2 p n1 bytes=5gb
copy b/0 p n2 bytes=10gb
copy b/0 r n3 bytes=10gb
`

// TestCarry plays one plan on a cluster that does something meanwhile.
func TestCarry(t *testing.T) {
	const all = "a/0/p/n1 -> n2|a/1/p/n1 -> n3|b/0/r/n3 -> n4"
	for _, test := range []struct {
		name   string
		text   string // fourNodes where empty
		plan   string
		config func(*Config)
		before func(f *fake, s *cluster.Snapshot)
		during func(f *fake, k *fakeCopy) // right after a move has begun
		after  time.Duration              // ctx is done then; 0 is never
		want   string
		where  string
	}{
		{
			name: "all land", plan: all, want: "landed a/0->n2; landed b/0->n4; landed a/1->n3", where: "a/0=n2 a/1=n3 a/2=n1 b/0=n2 b/0=n4",
		},
		{
			name: "one refused, the others land", plan: all,
			before: func(f *fake, _ *cluster.Snapshot) {
				f.refuse = func(m es.Move) string {
					return map[bool]string{true: "disk_threshold"}[m.Index == "a" && m.Shard == 1]
				}
			},
			want: "refused a/1->n3 (disk_threshold: because); landed a/0->n2; landed b/0->n4",
		},
		{
			name: "after waits until it has landed", plan: "a/0/p/n1 -> n2|a/1/p/n1 -> n3 after 1",
			during: func(f *fake, k *fakeCopy) {
				if k.Shard == 1 && f.copies[0].Target != "" {
					f.t.Error("the second began before the first had landed")
				}
			},
			want: "landed a/0->n2; landed a/1->n3",
		},
		{
			name: "after a move that failed nothing follows", plan: "a/0/p/n1 -> n2|a/1/p/n1 -> n3 after 1|a/2/p/n1 -> n4 after 2",
			during: func(_ *fake, k *fakeCopy) { k.stop() },
			want: "cancelled a/0->n2 (it ended where it began: cancelled, or failed at the server; its log says why); " +
				"stale a/1->n3 (it waits for move 1, which is cancelled); stale a/2->n4 (it waits for move 2, which is stale)",
		},
		{
			name: "the copy has moved since", plan: all,
			before: func(f *fake, _ *cluster.Snapshot) { f.copies[0].Node, f.copies[0].AllocationID = "n4", "other" },
			want:   "stale a/0->n2 (the copy is no longer on n1); landed b/0->n4; landed a/1->n3",
		},
		{
			name: "it is so already, and what waits for it may go", plan: "a/0/p/n1 -> n2|a/1/p/n1 -> n3 after 1",
			before: func(f *fake, _ *cluster.Snapshot) { f.copies[0].Node, f.copies[0].AllocationID = "n2", "other" },
			want:   "landed a/0->n2 (it was there already); landed a/1->n3",
		},
		{
			name: "the index is gone", plan: all,
			before: func(f *fake, _ *cluster.Snapshot) { f.copies = f.copies[3:] },
			want:   "stale a/0->n2 (the index is gone); stale a/1->n3 (the index is gone); landed b/0->n4",
		},
		{
			name: "the target has a copy by now", plan: "b/0/r/n3 -> n4",
			before: func(f *fake, _ *cluster.Snapshot) {
				f.copies = append(f.copies, &fakeCopy{RoutingCopy: es.RoutingCopy{Index: "b", Node: "n4", State: cluster.Started, AllocationID: "x"}})
			},
			want: "stale b/0->n4 (node n4 holds a copy of the same shard by now)",
		},
		{
			name: "somebody else moves it", plan: "a/0/p/n1 -> n2",
			before: func(f *fake, _ *cluster.Snapshot) { f.begin(f.copies[0], "n4") },
			want:   "stale a/0->n2 (the copy is relocating)",
		},
		{
			name: "somebody else moves another copy of the shard", plan: "b/0/r/n3 -> n4",
			before: func(f *fake, _ *cluster.Snapshot) { f.begin(f.copies[3], "n1") },
			want:   "stale b/0->n4 (another copy of the shard is being moved by somebody else)",
		},
		{
			name: "somebody takes it elsewhere in mid flight", plan: "a/0/p/n1 -> n2",
			during: func(f *fake, k *fakeCopy) { f.onMove = nil; k.stop(); f.begin(k, "n4") },
			want:   "cancelled a/0->n2 (somebody else moves it to n4)",
		},
		{
			name: "the target is on its way out", plan: "a/0/p/n1 -> n2",
			before: func(_ *fake, s *cluster.Snapshot) { s.Nodes[1].Leaving = "shutdown REMOVE" },
			want:   "stale a/0->n2 (node n2 is on its way out (shutdown REMOVE))",
		},
		{
			name: "the target dies in mid flight", plan: "a/0/p/n1 -> n4|b/0/r/n3 -> n1",
			during: func(f *fake, k *fakeCopy) {
				if k.Index == "b" {
					f.lose("n4")
				}
			},
			want:  "cancelled a/0->n4 (it ended where it began: cancelled, or failed at the server; its log says why); landed b/0->n1",
			where: "a/0=n1 a/1=n1 a/2=n1 b/0=n1 b/0=n2",
		},
		{
			name: "the source of a replica dies in mid flight, the server builds on", plan: "b/0/r/n3 -> n4",
			during: func(f *fake, _ *fakeCopy) { f.lose("n3") },
			want:   "landed b/0->n4",
		},
		{
			name: "the source of a primary dies in mid flight", plan: "a/0/p/n1 -> n4",
			during: func(f *fake, _ *fakeCopy) { f.lose("n1") },
			want:   "lost a/0->n4 (the copy is neither where it was nor where it was going: a node was lost, or somebody else moved it)",
		},
		{
			name: "the index is deleted in mid flight", plan: "a/0/p/n1 -> n4",
			during: func(f *fake, _ *fakeCopy) { f.copies = f.copies[3:] },
			want:   "lost a/0->n4 (the index is gone)",
		},
		{
			name: "no byte arrives", plan: "a/0/p/n1 -> n4",
			during: func(_ *fake, k *fakeCopy) { k.stuck = true },
			want:   "expired a/0->n4 (no byte has arrived for 1m0s; it is left to the cluster)",
		},
		{
			name: "no byte arrives and stuck moves are cancelled", plan: "a/0/p/n1 -> n4",
			config: func(c *Config) { c.CancelStuck = true },
			during: func(_ *fake, k *fakeCopy) { k.stuck = true },
			want:   "cancelled a/0->n4 (it ended where it began: cancelled, or failed at the server; its log says why)",
		},
		{
			name: "interrupted: nothing new, what flies is left", plan: all, after: 5 * time.Second,
			config: func(c *Config) { c.Limits.Cluster = 1 },
			want:   "skipped a/1->n3 (the carrying was interrupted); skipped b/0->n4 (the carrying was interrupted); in flight a/0->n2",
			where:  "a/0=n1>n2 a/1=n1 a/2=n1 b/0=n2 b/0=n3",
		},
		{
			name: "the plan expires while it waits", plan: all,
			config: func(c *Config) { c.Limits.Cluster = 1; c.StuckAfter = 3 * time.Hour },
			during: func(f *fake, k *fakeCopy) { k.lands = k.lands.Add(2 * time.Hour); k.stuck = false },
			want:   "expired a/1->n3 (the plan has expired); expired b/0->n4 (the plan has expired); landed a/0->n2",
		},
		{
			name: "a snapshot of the primary is running: it waits, replicas go", plan: "b/0/p/n2 -> n1|a/0/p/n1 -> n2",
			before: func(f *fake, _ *cluster.Snapshot) { f.snapshots[es.SnapshotShard{Index: "b"}] = struct{}{} },
			want:   "landed a/0->n2; skipped b/0->n1 (the primary of b/0 is being written to a snapshot, which moving it would break); stop snapshot",
		},
		{
			name: "running snapshots cannot be read: primaries stay", plan: "a/0/p/n1 -> n2|b/0/r/n3 -> n4",
			before: func(f *fake, _ *cluster.Snapshot) {
				f.fail["snapshots"] = &cluster.Error{Class: cluster.Refused, Op: "read", Err: errors.New("HTTP 403")}
			},
			want: "landed b/0->n4; skipped a/0->n2 (whether a snapshot is running cannot be read: read: HTTP 403); stop snapshot",
		},
		{
			name: "a node that does not answer", plan: "a/0/p/n1 -> n2|b/0/r/n3 -> n4",
			before: func(f *fake, _ *cluster.Snapshot) { delete(f.disks, "n2") },
			want:   "landed b/0->n4; skipped a/0->n2 (the disk of n2 could not be read); stop no_room",
		},
		{
			name: "a busy target: it waits for the next plan", plan: "a/0/p/n1 -> n2|b/0/r/n3 -> n4",
			config: func(c *Config) { c.Stops.CPU = 0.9 },
			before: func(_ *fake, s *cluster.Snapshot) { s.Nodes[1].CPU = 0.95 },
			want:   "skipped a/0->n2 (n2 is at 95% CPU); skipped b/0->n4 (n2 is at 95% CPU); stop node_busy",
		},
		{
			name: "a busy node gets rid of its own copies, one after the other", plan: "a/0/p/n1 -> n2|a/1/p/n1 -> n3",
			config: func(c *Config) { c.Stops.CPU = 0.9 },
			before: func(_ *fake, s *cluster.Snapshot) { s.Nodes[0].CPU = 0.95 },
			want:   "landed a/0->n2; landed a/1->n3",
		},
		{
			name: "a replica's data comes from the primary's node, which is busy", plan: "b/0/r/n3 -> n4",
			config: func(c *Config) { c.Stops.Rejections = 1 },
			before: func(_ *fake, s *cluster.Snapshot) { s.Nodes[1].Rejections = 3 },
			want:   "skipped b/0->n4 (n2 rejects 3.0 requests per second); stop node_busy",
		},
		{
			name: "no room on the target", plan: "a/0/p/n1 -> n2",
			before: func(f *fake, _ *cluster.Snapshot) {
				f.disks["n2"] = cluster.DiskUse{Total: 100 << 30, Available: 19 << 30}
			},
			want: "skipped a/0->n2 (n2 has 20401094656 bytes free and a/0 needs 10737418240 above the watermarks); stop no_room",
		},
		{
			name: "what arrives counts in full until it has landed", plan: "a/0/p/n1 -> n2|a/1/p/n1 -> n2",
			before: func(f *fake, _ *cluster.Snapshot) {
				f.disks["n2"] = cluster.DiskUse{Total: 100 << 30, Available: 36 << 30}
			},
			want: "landed a/0->n2; landed a/1->n2",
			during: func(f *fake, k *fakeCopy) {
				if k.Shard == 1 && f.copies[0].Target != "" {
					f.t.Error("the second began while the first was charged")
				}
			},
		},
		{
			name: "a request turned down as a whole, again and again", plan: "a/0/p/n1 -> n2",
			before: func(f *fake, _ *cluster.Snapshot) {
				f.fail["reroute"] = &cluster.Error{Class: cluster.Rejected, Op: "send", Err: errors.New("HTTP 400")}
			},
			want: "refused a/0->n2 (the cluster turned the request down as a whole)",
		},
		{
			name: "no time for requests", plan: "a/0/p/n1 -> n2",
			before: func(f *fake, _ *cluster.Snapshot) {
				f.fail["reroute"] = &cluster.Error{Class: cluster.Unavailable, Op: "send", Err: errors.New("HTTP 429")}
			},
			want: "skipped a/0->n2 (send: HTTP 429); stop master_busy",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				text := test.text
				if text == "" {
					text = fourNodes
				}
				f, s := newFake(t, text)
				p := f.plan(strings.Split(test.plan, "|")...)
				if test.before != nil {
					test.before(f, s)
				}
				if test.during != nil {
					f.onMove = func(k *fakeCopy) { test.during(f, k) }
				}
				ctx := t.Context()
				if test.after > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, test.after)
					defer cancel()
				}
				r, err := f.mover(test.config).Carry(ctx, p, s)
				if err != nil {
					t.Fatal(err)
				}
				addsUp(t, r)
				if got := told(r); got != test.want {
					t.Errorf("told\n  %s\nwant\n  %s", got, test.want)
				}
				if got := f.where(); test.where != "" && got != test.where {
					t.Errorf("copies are %s, want %s", got, test.where)
				}
			})
		})
	}
}

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

// A mover that starts anew adopts what its predecessor asked for, and does not ask again.
func TestAdoption(t *testing.T) {
	for _, test := range []struct {
		name  string
		while func(f *fake) // between the two
		want  string
	}{
		{"still under way", func(*fake) {}, "landed a/1->n3"},
		{"landed meanwhile", func(*fake) { pass(time.Minute) }, "landed a/1->n3"},
		{"cancelled meanwhile", func(f *fake) { f.copy("a/1/p/n1").stop() }, "cancelled a/1->n3 (it ended where it began: cancelled, or failed at the server; its log says why)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				f, s := newFake(t, fourNodes)
				p := f.plan("a/1/p/n1 -> n3", "a/0/p/n1 -> n2")
				first := f.mover(func(c *Config) { c.Limits.Cluster = 1 })
				first.ledger = openLedger(t, dir)
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				r, err := first.Carry(ctx, p, s)
				if err != nil || len(r.InFlight) != 1 || r.Count[Skipped] != 1 {
					t.Fatalf("%s, %v", told(r), err)
				}
				test.while(f)
				second := f.mover(nil)
				second.ledger = openLedger(t, dir)
				if r, err = second.Carry(t.Context(), nil, s); err != nil {
					t.Fatal(err)
				}
				addsUp(t, r)
				if told(r) != test.want || r.Adopted != 1 || len(f.requests) != 1 {
					t.Errorf("%s, %d adopted, %d requests", told(r), r.Adopted, len(f.requests))
				}
				third := openLedger(t, dir)
				if len(third.open()) != 0 {
					t.Errorf("the ledger still has %v", third.open())
				}
			})
		})
	}
}

func openLedger(t *testing.T, dir string) *Ledger {
	t.Helper()
	l, warning, err := OpenLedger(dir)
	if err != nil || warning != "" {
		t.Fatal(err, warning)
	}
	return l
}

// Without a ledger the relocations under way at the first look are adopted, once rebalancing is ours.
func TestAdoptionWithoutLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s := newFake(t, fourNodes)
		if _, err := f.Reroute(t.Context(), testProduct, []es.Move{{Index: "a", Shard: 1, From: "n1", To: "n3"}}); err != nil {
			t.Fatal(err)
		}
		m := f.mover(func(c *Config) { c.CancelStuck = true; c.StuckAfter = 5 * time.Second })
		m.own = f.owner("n")
		if err := m.own.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.copy("a/1/p/n1").stuck = true
		r, err := m.Carry(t.Context(), f.plan("a/0/p/n1 -> n2"), s)
		want := "expired a/1->n3 (no byte has arrived for 5s; it is left to the cluster); landed a/0->n2"
		if err != nil || told(r) != want || r.Adopted != 1 || len(f.cancels) != 0 {
			t.Errorf("%s, %d adopted, %v cancelled, %v", told(r), r.Adopted, f.cancels, err)
		}
		addsUp(t, r)
	})
}

// A plan that carries on while an adopted move of the same copy flies does not ask for it twice.
func TestAdoptedMoveIsNotDuplicated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s := newFake(t, fourNodes)
		p := f.plan("a/1/p/n1 -> n3", "a/0/p/n1 -> n2")
		m := f.mover(nil)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if r, err := m.Carry(ctx, &plan.Plan{ID: "one", ExpiresAt: p.ExpiresAt, Cluster: p.Cluster, Moves: p.Moves[:1]}, s); err != nil || len(r.InFlight) != 1 {
			t.Fatalf("%s, %v", told(r), err)
		}
		r, err := m.Carry(t.Context(), p, s)
		if want := "landed a/0->n2; landed a/1->n3; landed a/1->n3 (it was there already)"; err != nil || told(r) != want {
			t.Errorf("%s, %v", told(r), err)
		}
		if len(f.requests) != 2 {
			t.Errorf("%d requests", len(f.requests))
		}
	})
}

// Somebody who moves our copies back is noticed and named, and then we stop.
func TestPingPong(t *testing.T) {
	for _, test := range []struct{ rebalance, who string }{
		{"", "the server's own balancer (cluster.routing.rebalance.enable is all)"},
		{"none", "a person, another tool or an allocation filter"},
	} {
		synctest.Test(t, func(t *testing.T) {
			f, s := newFake(t, fourNodes)
			if test.rebalance != "" {
				f.persistent[rebalanceKey] = test.rebalance
			}
			m := f.mover(func(c *Config) { c.Stops.UndoneAllowed = 1; c.Limits.Cluster = 1 })
			for round := range 2 {
				k := f.copies[round]
				if r, err := m.Carry(t.Context(), f.plan(k.AllocationID+" -> n4"), s); err != nil || r.Count[Landed] != 1 {
					t.Fatalf("round %d: %s, %v", round, told(r), err)
				}
				f.begin(k, "n1") // and back
				pass(time.Minute)
			}
			r, err := m.Carry(t.Context(), f.plan("a/2/p/n1 -> n4"), s)
			if err != nil || r.Stop == nil || r.Stop.Kind != PingPong {
				t.Fatalf("%s, %v", told(r), err)
			}
			if want := "2 of our moves were undone within the hour, by " + test.who; r.Stop.Text != want {
				t.Errorf("%q, want %q", r.Stop.Text, want)
			}
			if where := f.where(); !strings.Contains(where, "a/2=n1") {
				t.Error("it moved on:", where)
			}
		})
	}
}

// A copy that is back where it was before anybody looked has another allocation id: undone all the same.
func TestPingPongBetweenTwoLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s := newFake(t, fourNodes)
		m := f.mover(func(c *Config) { c.Stops.UndoneAllowed = 0 })
		f.onMove = func(k *fakeCopy) {
			k.AllocationID = "back-" + k.AllocationID
			k.stop()
		}
		if r, err := m.Carry(t.Context(), f.plan("a/0/p/n1 -> n4"), s); err != nil || r.Count[Lost] != 1 {
			t.Fatalf("%s, %v", told(r), err)
		}
		r, err := m.Carry(t.Context(), f.plan("a/2/p/n1 -> n4"), s)
		if err != nil || r.Stop == nil || r.Stop.Kind != PingPong {
			t.Fatalf("%s, %v", told(r), err)
		}
		if len(f.requests) != 1 {
			t.Errorf("%d requests", len(f.requests))
		}
	})
}

// Every move is told of when it is asked for and when it has ended; one that is refused, with the decider that did.
func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s := newFake(t, fourNodes)
		m := f.mover(nil)
		f.refuse = func(move es.Move) string { return map[bool]string{true: "awareness"}[move.Shard == 1] }
		told := map[string][]string{}
		m.onEvent = func(e Event) {
			name := fmt.Sprintf("%s/%d", e.Move.Index, e.Move.Shard)
			if said := told[name]; e.State != Relocating || said[len(said)-1] != string(Relocating) {
				told[name] = append(said, strings.TrimSpace(string(e.State)+" "+e.Decider))
			}
			if (e.Elapsed == 0) != (e.State == Requested || e.State == Refused || e.State == Stale) {
				t.Errorf("%s is %s after %s", name, e.State, e.Elapsed)
			}
		}
		if _, err := m.Carry(t.Context(), f.plan("a/0/p/n1 -> n2", "a/1/p/n1 -> n3", "b/0/p/n2 -> n3"), s); err != nil {
			t.Fatal(err)
		}
		want := map[string][]string{"a/0": {"requested", "relocating", "landed"}, "a/1": {"refused awareness"}, "b/0": {"stale"}}
		if diff := cmp.Diff(want, told); diff != "" {
			t.Error(diff)
		}
	})
}

// What moved, or tried to, cools down under the allocation id it has now; going back has to gain a multiple.
func TestLedgerAgainstOscillation(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		f, s := newFake(t, fourNodes)
		m := f.mover(nil)
		m.ledger = openLedger(t, dir)
		f.refuse = func(move es.Move) string { return map[bool]string{true: "awareness"}[move.Shard == 1] }
		if r, err := m.Carry(t.Context(), f.plan("a/0/p/n1 -> n2", "a/1/p/n1 -> n3"), s); err != nil || r.Count[Landed] != 1 || r.Count[Refused] != 1 {
			t.Fatalf("%s, %v", told(r), err)
		}
		l := openLedger(t, dir)
		cooling := l.CoolingDown(time.Now(), time.Hour)
		if _, moved := cooling["new-1"]; !moved || len(cooling) != 2 {
			t.Errorf("cooling down are %v", cooling)
		}
		if _, refused := cooling["a/1/p/n1"]; !refused {
			t.Errorf("cooling down are %v", cooling)
		}
		if back := l.Returns(time.Now()); len(back) != 1 || back["new-1"] != (plan.Return{Node: "n1", MinGain: 3}) {
			t.Errorf("returns are %v", back)
		}
		pass(2 * time.Hour)
		if cooling := l.CoolingDown(time.Now(), time.Hour); len(cooling) != 0 {
			t.Errorf("two hours later cooling down are %v", cooling)
		}
		pass(24 * time.Hour)
		if back := l.Returns(time.Now()); len(back) != 0 {
			t.Errorf("a day later returns are %v", back)
		}
	})
}

func TestErrorsOfCarry(t *testing.T) {
	for _, test := range []struct {
		name   string
		break_ func(f *fake, p *plan.Plan)
		class  cluster.Class
		want   string
	}{
		{"another cluster", func(f *fake, p *plan.Plan) { p.Cluster.UUID = "other" }, cluster.Stale, "it was made for cluster"},
		{"expired", func(f *fake, p *plan.Plan) { p.ExpiresAt = time.Now().Add(-time.Second) }, cluster.Stale, "it expired at"},
		{
			"reroute refused", func(f *fake, _ *plan.Plan) {
				f.fail["reroute"] = &cluster.Error{Class: cluster.Refused, Op: "send", Err: errors.New("HTTP 403")}
			}, cluster.Refused, "this cluster does not let us move copies: send: HTTP 403",
		},
		{
			"reads refused", func(f *fake, _ *plan.Plan) {
				f.fail["routing"] = &cluster.Error{Class: cluster.Refused, Op: "read", Err: errors.New("HTTP 401")}
			}, cluster.Refused, "HTTP 401",
		},
		{
			"unreachable", func(f *fake, _ *plan.Plan) {
				f.fail["health"] = &cluster.Error{Class: cluster.Unavailable, Op: "read", Err: errors.New("connection refused")}
			}, cluster.Unavailable, "connection refused",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, s := newFake(t, fourNodes)
				p := f.plan("a/0/p/n1 -> n2")
				test.break_(f, p)
				r, err := f.mover(nil).Carry(t.Context(), p, s)
				if cluster.ClassOf(err) != test.class || !strings.Contains(fmt.Sprint(err), test.want) {
					t.Errorf("%v of class %s", err, cluster.ClassOf(err))
				}
				if errors.Is(err, ErrNotAllowed) != (test.name == "reroute refused") {
					t.Errorf("not allowed is %v", errors.Is(err, ErrNotAllowed))
				}
				addsUp(t, r)
				if f.where() != "a/0=n1 a/1=n1 a/2=n1 b/0=n2 b/0=n3" {
					t.Error("it moved all the same:", f.where())
				}
			})
		})
	}
}
