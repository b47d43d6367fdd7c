package mover_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/collector"
	"github.com/shardonnay/shardonnay/internal/es"
	"github.com/shardonnay/shardonnay/internal/model"
	"github.com/shardonnay/shardonnay/internal/mover"
	"github.com/shardonnay/shardonnay/internal/plan"
	"github.com/shardonnay/shardonnay/internal/sim"
)

// rig is a simulated cluster behind a port, with the client, the collector and all else that stands before the mover. A
// second on the wall is two minutes in the cluster. Leases are four seconds on the wall.
type rig struct {
	t        *testing.T
	sim      *sim.Cluster
	client   *es.Client
	collect  *collector.Collector
	identity cluster.Identity
}

const speed = 120

var products = []struct{ distribution, version string }{
	{sim.OpenSearch, "2.19.6"}, {sim.OpenSearch, "3.9.0"}, {sim.Elasticsearch, "7.17.28"}, {sim.Elasticsearch, "8.19.0"}, {sim.Elasticsearch, "9.5.3"},
}

// newRig has six nodes in three zones and twelve indices, of which a few are hot.
func newRig(t *testing.T, config sim.Config) *rig {
	t.Helper()
	config.Noise, config.Seed = -1, 1
	c := sim.New(config)
	for n := range 6 {
		if _, err := c.AddNode(sim.NodeSpec{Name: fmt.Sprintf("n%d", n), Attributes: map[string]string{"zone": string(rune('a' + n%3))}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.SetPersistent(map[string]string{"cluster.routing.allocation.awareness.attributes": "zone"}); err != nil {
		t.Fatal(err)
	}
	for i := range 12 {
		heat := 0.2 + 6/float64(1+i*i*i) // 6, 3, 0.9, ...: the fourfold copies of three indices are nearly all the load
		spec := sim.IndexSpec{Name: fmt.Sprintf("i%02d", i), Shards: 2, Replicas: 1, Bytes: 4 << 30, Search: heat, Age: 30 * 24 * time.Hour}
		if err := c.AddIndex(spec); err != nil {
			t.Fatal(err)
		}
	}
	c.Settle()
	c.Advance(10 * time.Minute)
	server, err := sim.Serve(t.Context(), c, sim.Options{Speed: speed})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	client, err := es.New(es.Config{Addresses: []string{server.URL()}, Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	r := &rig{t: t, sim: c, client: client}
	if r.identity, err = client.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r.collect, err = collector.New(client, collector.Options{}); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) snapshot() *cluster.Snapshot {
	r.t.Helper()
	s, err := r.collect.Collect(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// plan descends by single best moves, a plain stand-in for the solver.
func (r *rig) plan(s *cluster.Snapshot, most int) *plan.Plan {
	r.t.Helper()
	policy := model.DefaultPolicy()
	policy.MoveCost, policy.PinNewest = 0.01, false
	b, err := model.Build(s.Projected(), &policy)
	if err != nil {
		r.t.Fatal(err)
	}
	place := model.NewPlacement(b.Problem, nil)
	for range most {
		best, bestCopy, to := 0.0, -1, int32(0)
		for c := range b.Problem.Copies {
			if place.Node(c) != b.Problem.Copies[c].Node {
				continue // once each, so that there are as many moves as steps
			}
			for n := range b.Problem.Nodes {
				if delta := place.Delta(c, int32(n)); delta < best-1e-9 && place.Legal(c, int32(n)) {
					best, bestCopy, to = delta, c, int32(n)
				}
			}
		}
		if bestCopy < 0 {
			break
		}
		place.Move(bestCopy, to)
	}
	p, err := plan.Diff(b, plan.Solved{Assignment: place.Assignment()}, plan.Options{Mode: plan.Act, CreatedAt: time.Now(), Taken: s})
	if err != nil {
		r.t.Fatal(err)
	}
	if len(p.Moves) == 0 {
		r.t.Fatalf("nothing to move: %v", p.Verdicts)
	}
	return p
}

func (r *rig) mover(ledger *mover.Ledger, own *mover.Ownership, change func(*mover.Config)) *mover.Mover {
	config := mover.Config{
		Limits: mover.Limits{Cluster: 4, PerIndex: 2}, Poll: 20 * time.Millisecond, Patience: 300 * time.Millisecond,
		UnknownWait: 500 * time.Millisecond, StuckAfter: time.Minute,
	}
	if change != nil {
		change(&config)
	}
	return mover.New(r.client, r.identity, config, ledger, own, nil)
}

func (r *rig) ledger(dir string) *mover.Ledger {
	r.t.Helper()
	l, warning, err := mover.OpenLedger(dir)
	if err != nil || warning != "" {
		r.t.Fatal(err, warning)
	}
	return l
}

func (r *rig) own(holder string) *mover.Ownership {
	return mover.NewOwnership(r.client, r.identity.Product, mover.Lease{Holder: holder, Length: 4 * time.Second, Settle: 50 * time.Millisecond})
}

// acquire takes rebalancing over, waiting for what moves from before.
func (r *rig) acquire(own *mover.Ownership) {
	r.t.Helper()
	r.wait("taking over", func() bool {
		err := own.Acquire(r.t.Context())
		var hold *mover.Hold
		if errors.As(err, &hold) && hold.Kind == mover.Settling {
			return false
		}
		if err != nil {
			r.t.Fatal(err)
		}
		return true
	})
}

// wait polls until something is so.
func (r *rig) wait(what string, so func() bool) {
	r.t.Helper()
	for end := time.Now().Add(20 * time.Second); !so(); {
		if time.Now().After(end) {
			r.t.Fatalf("%s takes too long", what)
		}
		select {
		case <-time.After(10 * time.Millisecond): // virtual time passes with the wall's
		case <-r.t.Context().Done():
		}
	}
}

// whenMoving lets something happen in the cluster a second after the next move has started, by its clock: a move takes
// most of a minute.
func (r *rig) whenMoving(do func(*sim.Cluster)) { r.sim.WhenMoving(time.Second, do) }

// carry carries to the end and demands that the report adds up.
func (r *rig) carry(ctx context.Context, m *mover.Mover, p *plan.Plan, s *cluster.Snapshot) mover.Report {
	r.t.Helper()
	report, err := m.Carry(ctx, p, s)
	if err != nil {
		r.t.Fatal(err)
	}
	sum := len(report.InFlight)
	for _, n := range report.Count {
		sum += n
	}
	if sum != report.Considered+report.Adopted {
		r.t.Errorf("%d considered and %d adopted, but %v and %d in flight", report.Considered, report.Adopted, report.Count, len(report.InFlight))
	}
	return report
}

const setting = "cluster.routing.rebalance.enable"

// On every product: take over, move, give back; no move refused, none undone, all as before.
func TestCarryOnEveryProduct(t *testing.T) {
	for _, product := range products {
		t.Run(product.distribution+" "+product.version, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, sim.Config{Distribution: product.distribution, Version: product.version})
			before := r.sim.Balance("search").PeakToMean
			own := r.own("n")
			r.acquire(own)
			if r.sim.Setting(setting) != "none" {
				t.Fatalf("%s is %q", setting, r.sim.Setting(setting))
			}
			s := r.snapshot()
			p := r.plan(s, 12)
			report := r.carry(t.Context(), r.mover(r.ledger(""), own, nil), p, s)
			tally := r.sim.Tally()
			if report.Count[mover.Landed] != len(p.Moves) || tally.Refused != 0 || tally.Moves != len(p.Moves) || tally.Failed != 0 {
				t.Errorf("%v of %d; %+v", report.Count, len(p.Moves), tally)
			}
			released, err := own.Release(t.Context(), s) // from before the moves, as a daemon that ends has it
			if err != nil || !released.Restored || r.sim.Setting(setting) != "all" {
				t.Errorf("%+v, %v; %s is %q", released, err, setting, r.sim.Setting(setting))
			}
			after := r.sim.Balance("search").PeakToMean
			if after >= before {
				t.Errorf("peak to mean %.2f -> %.2f", before, after)
			}
			// Thirty seconds of the server's own balancing, and more: what moves now was foretold.
			moved := r.places()
			r.sim.Advance(10 * time.Minute)
			for shard, nodes := range r.places() {
				if moved[shard] != nodes && !foretold(released.Returns, shard) {
					t.Errorf("%s went from %s to %s after giving back, which nobody foretold (%s)", shard, moved[shard], nodes, released.Text)
				}
			}
			t.Logf("peak to mean %.2f -> %.2f with %d moves, then %d by the server, %d foretold", before, after, len(p.Moves), r.sim.Tally().Rebalanced, len(released.Returns))
		})
	}
}

// places is the nodes of each shard, "i00/1" -> "n1,n4", as they will be.
func (r *rig) places() map[string]string {
	r.t.Helper()
	routing, err := r.client.Routing(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	all := map[string]string{}
	for _, k := range routing.Copies {
		at := k.Node
		if k.Target != "" {
			at = k.Target
		}
		all[fmt.Sprintf("%s/%d", k.Index, k.Shard)] += string(at) + " "
	}
	return all
}

func foretold(returns []mover.Return, shard string) bool {
	for _, back := range returns {
		if fmt.Sprintf("%s/%d", back.Index, back.Shard) == shard {
			return true
		}
	}
	return false
}

// An answer lost after the request was carried out: the routing table is believed, nothing is asked for twice.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	r := newRig(t, sim.Config{})
	own := r.own("n")
	r.acquire(own)
	s := r.snapshot()
	p := r.plan(s, 6)
	r.sim.Inject(sim.Fault{Kind: sim.FaultLost, Method: "POST", Path: "/_cluster/reroute", Count: 2})
	report := r.carry(t.Context(), r.mover(r.ledger(""), own, nil), p, s)
	if tally := r.sim.Tally(); report.Count[mover.Landed] != len(p.Moves) || tally.Moves != len(p.Moves) || tally.Refused != 0 || len(report.Warnings) == 0 {
		t.Errorf("%v of %d, %v; %+v", report.Count, len(p.Moves), report.Warnings, tally)
	}
}

// A request that never arrived looks the same at first, and is given up when it has had no effect for long enough.
func TestRequestThatNeverArrived(t *testing.T) {
	t.Parallel()
	r := newRig(t, sim.Config{})
	own := r.own("n")
	r.acquire(own)
	s := r.snapshot()
	p := r.plan(s, 1)
	r.sim.Inject(sim.Fault{Kind: sim.FaultCut, Method: "POST", Path: "/_cluster/reroute", Count: 1})
	report := r.carry(t.Context(), r.mover(r.ledger(""), own, nil), p, s)
	if report.Count[mover.Landed] != 1 {
		t.Errorf("a cut answer: %v, %v", report.Count, report.Warnings)
	}
	s = r.snapshot()
	p = r.plan(s, 1)
	r.sim.Inject(sim.Fault{Kind: sim.FaultStatus, Status: 503, Method: "POST", Path: "/_cluster/reroute", Count: 1})
	report = r.carry(t.Context(), r.mover(r.ledger(""), own, nil), p, s)
	if report.Count[mover.Expired] != 1 || r.sim.Tally().Moves != 1 {
		t.Errorf("an answer of 503: %v, %v; %+v", report.Outcomes, report.Warnings, r.sim.Tally())
	}
}

// Too busy for requests at first: asked again when there is time, each time after another look.
func TestTooManyRequests(t *testing.T) {
	t.Parallel()
	r := newRig(t, sim.Config{})
	own := r.own("n")
	r.acquire(own)
	s := r.snapshot()
	p := r.plan(s, 3)
	r.sim.Inject(sim.Fault{Kind: sim.FaultStatus, Status: 429, Method: "POST", Path: "/_cluster/reroute", Count: 3})
	report := r.carry(t.Context(), r.mover(r.ledger(""), own, func(c *mover.Config) { c.Patience = 10 * time.Second }), p, s)
	if report.Count[mover.Landed] != len(p.Moves) || r.sim.Tally().Moves != len(p.Moves) {
		t.Errorf("%v, %v", report.Count, report.Warnings)
	}
}

// A process that dies without a word in mid move: the next one adopts the move; nothing moves twice.
func TestDeathInMidMove(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := newRig(t, sim.Config{})
	own := r.own("n")
	r.acquire(own)
	s := r.snapshot()
	p := r.plan(s, 4)
	ctx, die := context.WithCancel(t.Context())
	died := make(chan mover.Report)
	go func() {
		report, _ := r.mover(r.ledger(dir), own, func(c *mover.Config) { c.Limits.Cluster = 2 }).Carry(ctx, p, s)
		died <- report
	}()
	r.wait("the first move", func() bool { return r.sim.Counts().Relocating > 0 })
	die()
	<-died
	// Nobody gave anything back. The heir waits for the record to expire, then goes on.
	heir := r.own("m")
	r.wait("the record's expiry", func() bool {
		var hold *mover.Hold
		err := heir.Acquire(t.Context())
		if err != nil && (!errors.As(err, &hold) || hold.Kind != mover.OtherHolder) {
			t.Fatal(err)
		}
		return err == nil
	})
	s = r.snapshot()
	report := r.carry(t.Context(), r.mover(r.ledger(dir), heir, nil), r.plan(s, 4), s)
	if report.Adopted == 0 || report.Count[mover.Landed] == 0 {
		t.Errorf("%d adopted, %v", report.Adopted, report.Count)
	}
	if tally := r.sim.Tally(); tally.Refused != 0 || tally.Failed != 0 || tally.Moves != tally.Landed {
		t.Errorf("%+v", tally)
	}
	if _, err := heir.Release(t.Context(), nil); err != nil || r.sim.Setting(setting) != "all" {
		t.Errorf("%v; %s is %q", err, setting, r.sim.Setting(setting))
	}
}

// A data node dies in mid move: nothing more is asked for, the reason is said, and it goes on when the cluster is well.
func TestNodeDiesInMidMove(t *testing.T) {
	t.Parallel()
	r := newRig(t, sim.Config{})
	own := r.own("n")
	r.acquire(own)
	s := r.snapshot()
	p := r.plan(s, 8)
	r.whenMoving(func(c *sim.Cluster) { c.Kill(p.Moves[0].To.Name) })
	m := r.mover(r.ledger(""), own, func(c *mover.Config) { c.Limits.Cluster = 1; c.Stops.Settle = 500 * time.Millisecond })
	report := r.carry(t.Context(), m, p, s)
	if report.Stop == nil || report.Stop.Kind != mover.NodeMissing || report.Count[mover.Landed] > 1 || report.Stop.Text == "" {
		t.Fatalf("%v, stop %+v", report.Count, report.Stop)
	}
	if counts := r.sim.Counts(); counts.UnassignedPrimaries > 0 {
		t.Errorf("%+v", counts)
	}
	r.sim.Restart(p.Moves[0].To.Name)
	r.wait("green", func() bool { return r.sim.Status() == "green" })
	r.acquire(own)
	s = r.snapshot()
	p = r.plan(s, 3)
	report = r.carry(t.Context(), r.mover(r.ledger(""), own, nil), p, s)
	if report.Count[mover.Landed] != len(p.Moves) {
		t.Errorf("once well again: %v, stop %+v", report.Count, report.Stop)
	}
}

// A snapshot of a primary is not broken: its move waits.
func TestSnapshotIsNotBroken(t *testing.T) {
	t.Parallel()
	r := newRig(t, sim.Config{})
	own := r.own("n")
	r.acquire(own)
	s := r.snapshot()
	p := r.plan(s, 8)
	var indices []string
	for i := range 12 {
		indices = append(indices, fmt.Sprintf("i%02d", i))
	}
	r.sim.Snapshot("nightly", 3*time.Minute, indices...)
	report := r.carry(t.Context(), r.mover(r.ledger(""), own, func(c *mover.Config) { c.Patience = 10 * time.Second }), p, s)
	if report.Count[mover.Landed] != len(p.Moves) {
		t.Errorf("%v, stop %+v", report.Count, report.Stop)
	}
	if saved, lost := r.sim.SnapshotShards(); lost != 0 || saved != 24 {
		t.Errorf("the snapshot saved %d and lost %d shards", saved, lost)
	}
}

// A person changes the setting while we move: nothing more is asked for, and the value stays theirs.
func TestPersonChangesTheSetting(t *testing.T) {
	t.Parallel()
	r := newRig(t, sim.Config{})
	own := r.own("n")
	r.acquire(own)
	s := r.snapshot()
	p := r.plan(s, 8)
	r.whenMoving(func(c *sim.Cluster) { _ = c.SetPersistent(map[string]string{setting: "replicas"}) })
	report := r.carry(t.Context(), r.mover(r.ledger(""), own, func(c *mover.Config) { c.Limits.Cluster = 1 }), p, s)
	if report.Stop == nil || report.Stop.Kind != mover.RebalanceChanged || report.Count[mover.Landed] > 2 {
		t.Errorf("%v, stop %+v", report.Count, report.Stop)
	}
	released, err := own.Release(t.Context(), nil)
	if err != nil || released.Restored || r.sim.Setting(setting) != "replicas" || r.sim.Setting("cluster.metadata.shardonnay.owner") != "" {
		t.Errorf("%+v, %v; %s is %q", released, err, setting, r.sim.Setting(setting))
	}
}

// Two instances against one cluster: the second waits until the first has gone.
func TestTwoInstances(t *testing.T) {
	t.Parallel()
	r := newRig(t, sim.Config{})
	one, two := r.own("one"), r.own("two")
	r.acquire(one)
	var hold *mover.Hold
	if err := two.Acquire(t.Context()); !errors.As(err, &hold) || hold.Kind != mover.OtherHolder || !strings.Contains(hold.Text, "one owns rebalancing until") {
		t.Errorf("%v", err)
	}
	if _, err := one.Release(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	r.acquire(two)
}

// The server's own balancer stays on and undoes what we do: we notice, name it and stop.
func TestPingPongWithTheServer(t *testing.T) {
	t.Parallel()
	r := newRig(t, sim.Config{})
	ledger := r.ledger("")
	m := r.mover(ledger, nil, func(c *mover.Config) { c.Limits.Cluster = 1; c.Stops.UndoneAllowed = 0 })
	for round := 0; ; round++ {
		if round == 20 {
			t.Fatal("the server's balancer put up with twenty moves against it")
		}
		s := r.snapshot()
		report := r.carry(t.Context(), m, r.pile(s), s)
		if report.Stop != nil && report.Stop.Kind == mover.PingPong {
			if want := "the server's own balancer (cluster.routing.rebalance.enable is all)"; !strings.Contains(report.Stop.Text, want) {
				t.Errorf("%q does not say %q", report.Stop.Text, want)
			}
			return
		}
		r.wait("the server's move", func() bool { return r.sim.Counts().Relocating == 0 })
	}
}

// pile is a plan of one move that the server's balancer must take back: the first index that it looks at gets a second copy
// on a node, from one that is left with none and so is the lightest that may take it.
func (r *rig) pile(s *cluster.Snapshot) *plan.Plan {
	r.t.Helper()
	policy := model.DefaultPolicy()
	state := model.NewRules(s, &policy).Start()
	copies := make([][]int, len(s.Nodes)) // of the first index, on each node
	for c := range s.Copies {
		if k := &s.Copies[c]; k.Index == s.Copies[0].Index {
			copies[k.Node] = append(copies[k.Node], c)
		}
	}
	which, most := -1, -1
	for _, on := range copies {
		if len(on) != 1 || s.Copies[on[0]].State != cluster.Started {
			continue
		}
		for n := range s.Nodes {
			if len(copies[n]) == 1 && state.Refusals(on[0], n) == 0 {
				which, most = on[0], n
			}
		}
	}
	if which < 0 {
		r.t.Fatal("no copy may join another of its index")
	}
	from := int(s.Copies[which].Node)
	k := &s.Copies[which]
	at := func(n int) plan.Place { return plan.Place{ID: s.Nodes[n].ID, Name: s.Nodes[n].Name} }
	return &plan.Plan{
		ID: "pile", ExpiresAt: time.Now().Add(time.Hour), Cluster: plan.Cluster{UUID: s.Cluster.UUID},
		Moves: []plan.Move{{
			Seq: 1, Index: s.Indices[k.Index].Name, Shard: int(k.Shard), Primary: k.Primary, AllocationID: k.AllocationID, Bytes: k.Bytes,
			From: at(from), To: at(most), BytesSource: plan.Source{ID: s.Nodes[from].ID},
		}},
	}
}

// Old wishes of a desired balance are cleared when taking over, and those that a cancelled move leaves as well.
func TestDesiredBalanceWishes(t *testing.T) {
	for _, version := range []string{"8.19.0", "9.5.3"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, sim.Config{Distribution: sim.Elasticsearch, Version: version})
			if err := r.sim.SetPersistent(map[string]string{setting: "none"}); err != nil {
				t.Fatal(err)
			}
			// A move that was cancelled before our time.
			s := r.snapshot()
			wish := r.pile(s).Moves[0]
			if err := r.sim.Move(wish.Index, wish.Shard, wish.From.Name, wish.To.Name); err != nil {
				t.Fatal(err)
			}
			if err := r.sim.Cancel(wish.Index, wish.Shard, wish.To.Name); err != nil {
				t.Fatal(err)
			}
			if r.sim.Wishes() == 0 {
				t.Fatal("the cancelled move left no wish: this test has nothing to see")
			}
			own := r.own("n")
			r.acquire(own)
			if left := r.sim.Wishes(); left != 0 {
				t.Errorf("%d wishes after taking over", left)
			}
			// One that is cancelled while we watch it.
			s = r.snapshot()
			p := r.plan(s, 1)
			r.whenMoving(func(c *sim.Cluster) { _ = c.Cancel(p.Moves[0].Index, p.Moves[0].Shard, p.Moves[0].To.Name) })
			report := r.carry(t.Context(), r.mover(r.ledger(""), own, nil), p, s)
			if report.Count[mover.Cancelled] != 1 {
				t.Fatalf("%v", report.Count)
			}
			if left := r.sim.Wishes(); left != 0 {
				t.Errorf("%d wishes after a cancelled move", left)
			}
			released, err := own.Release(t.Context(), r.snapshot())
			if err != nil || r.sim.Setting(setting) != "none" {
				t.Errorf("%+v, %v", released, err)
			}
		})
	}
}

// A managed service that lets nobody move copies is told apart from every other trouble.
func TestManagedService(t *testing.T) {
	t.Parallel()
	r := newRig(t, sim.Config{Managed: true})
	s := r.snapshot()
	report, err := r.mover(r.ledger(""), nil, nil).Carry(t.Context(), r.plan(s, 2), s)
	if !errors.Is(err, mover.ErrNotAllowed) || cluster.ClassOf(err) != cluster.Refused || report.Count[mover.Skipped] != report.Considered {
		t.Errorf("%v; %v", err, report.Count)
	}
	if !strings.Contains(err.Error(), "not allowed") || !strings.Contains(err.Error(), "dry-run") {
		t.Errorf("it does not say what was refused and what is left: %v", err)
	}
}
