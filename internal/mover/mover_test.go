package mover

import (
	"context"
	"errors"
	"fmt"
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
