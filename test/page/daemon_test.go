package page

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/history"
	"github.com/shardonnay/shardonnay/internal/httpapi"
	"github.com/shardonnay/shardonnay/internal/model"
	"github.com/shardonnay/shardonnay/internal/mover"
	"github.com/shardonnay/shardonnay/internal/plan"
	"github.com/shardonnay/shardonnay/internal/rebalance"
)

// madeUp is a daemon that is made up: it has a history, a plan and a pause, and no cluster.
type madeUp struct {
	mu     sync.Mutex
	latest *rebalance.Summary
	paused bool
	waits  string // of an instance that does not lead

	past    *history.History
	options httpapi.Options
	server  *httpapi.Server
	cycles  int
}

func (m *madeUp) Alive(time.Time) error  { return nil }
func (m *madeUp) Ready() (string, error) { return cmp.Or(m.waits, rebalance.Working), nil }
func (m *madeUp) Pause()                 { m.set(func() { m.paused = true }) }
func (m *madeUp) Resume()                { m.set(func() { m.paused = false }) }

func (m *madeUp) Latest() *rebalance.Summary {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.latest
}

func (m *madeUp) Paused() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.paused
}

func (m *madeUp) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

// listen makes a daemon and serves it at an address, "127.0.0.1:0" for any.
func listen(t *testing.T, address, token string) *madeUp {
	t.Helper()
	m := &madeUp{past: history.New(), options: httpapi.Options{
		Metrics: http.NotFoundHandler(), Token: token, Mode: plan.Act, Interval: time.Minute, Started: time.Now(),
		Cluster: cluster.Identity{
			Name: "search-prod", UUID: "u", Product: cluster.Product{Distribution: cluster.OpenSearch, Version: cluster.Version{Major: 2, Minor: 19, Patch: 6}},
		},
	}}
	m.past.Of("u")
	server, err := httpapi.Listen(address, httpapi.Handler(m, m.past, func() httpapi.Options {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.options
	}))
	if err != nil {
		t.Fatal(err)
	}
	m.server = server
	t.Cleanup(m.close)
	return m
}

// close ends the server; a second time it does nothing.
func (m *madeUp) close() {
	if m.server != nil {
		_ = m.server.Close(context.Background()) // a page that is looked at keeps its connection open for a while
		m.server = nil
	}
}

// cycle remembers one cycle of nodes with one copy each, and its plan, as the daemon would.
func (m *madeUp) cycle(at time.Time, nodes []cluster.Node, load func(node, dimension int) float64, made *plan.Plan) {
	s := &cluster.Snapshot{Nodes: nodes, Samples: 2}
	p := &model.Problem{Classes: []model.Class{{}}, Groups: make([]model.Group, 1)}
	for _, name := range []string{"search", "index", "disk"} {
		s.Dimensions = append(s.Dimensions, cluster.Dimension{Name: name})
		p.Dimensions = append(p.Dimensions, model.Dimension{Name: name, Weight: 1})
	}
	for n := range nodes {
		p.Nodes = append(p.Nodes, model.Node{ID: string(nodes[n].ID), Capacity: []float64{1, 1, 1}})
		p.Classes[0].Nodes = append(p.Classes[0].Nodes, int32(n))
		p.Copies = append(p.Copies, model.Copy{Node: int32(n), Load: []float64{load(n, 0), load(n, 1), load(n, 2)}})
	}
	m.cycles++
	summary := &rebalance.Summary{
		ID: fmt.Sprint("cycle", m.cycles), Mode: plan.Act, Started: at, Outcome: rebalance.Moved, Snapshot: s, Problem: p, Plan: made,
		Took: map[rebalance.Stage]time.Duration{rebalance.Collect: 400 * time.Millisecond, rebalance.Solve: 2 * time.Second},
	}
	if len(made.Moves) == 0 {
		summary.Outcome, summary.Reason = rebalance.Balanced, "Nothing is worth moving: no node is above 1.05 of its fair share."
	}
	m.past.ObservePlan(summary.ID, at, s, p, made)
	m.past.ObserveCycle(summary.ID, at, string(summary.Outcome))
	m.set(func() { m.latest = summary })
}

// move remembers a move that began some time before it ended; without an end it is under way.
func (m *madeUp) move(number int, index string, from, to cluster.Node, bytes int64, began time.Time, took time.Duration, state mover.State, why string) {
	place := func(n cluster.Node) plan.Place {
		return plan.Place{ID: n.ID, Name: n.Name, Zone: n.Attributes["zone"]}
	}
	e := mover.Event{
		Move: plan.Move{
			Index: index, Shard: number % 8, Primary: number%3 == 0, AllocationID: fmt.Sprint("copy", number), From: place(from), To: place(to), Bytes: bytes,
			Reason: plan.ForBalance, Text: from.Name + " search 2.4x -> 2.1x of mean",
		},
		State: mover.Relocating, Elapsed: time.Second, BytesArrived: bytes / 3,
	}
	m.past.ObserveMove(e, began.Add(time.Second))
	if state.Ended() {
		e.State, e.Reason, e.Elapsed, e.BytesArrived = state, why, took, bytes
		m.past.ObserveMove(e, began.Add(took))
	}
}

// someNodes are nodes of three zones.
func someNodes(n int) []cluster.Node {
	nodes := make([]cluster.Node, n)
	for i := range nodes {
		zone := string("abc"[i%3])
		nodes[i] = cluster.Node{
			ID: cluster.NodeID(fmt.Sprintf("id%04d", i)), Name: fmt.Sprintf("data-%s-%03d", zone, i/3), Attributes: map[string]string{"zone": zone},
		}
	}
	return nodes
}

// somePlan is a plan of moves between nodes, with verdicts.
func somePlan(nodes []cluster.Node, moves int, before float64) *plan.Plan {
	p := &plan.Plan{
		Version: 1, ID: fmt.Sprintf("01PLAN%d%v", moves, before), CreatedAt: time.Now(), Mode: plan.Act,
		Snapshot: plan.Snapshot{Samples: 2, WindowS: 60, Nodes: len(nodes), Indices: 3000, Copies: 50_000},
		Objective: plan.Objective{Before: 0.31, After: 0.052, LowerBound: 0.0507, Captured: 0.995, Gap: 0.025, Terms: []plan.Term{
			{Name: "balance.search", Weight: 1, Before: 0.21, After: 0.03},
			{Name: "balance.index", Weight: 1, Before: 0.07, After: 0.012},
			{Name: "balance.disk", Weight: 1, Before: 0.03, After: 0.004},
			{Name: "spread", Weight: 1},
			{Name: "move", Weight: 1, After: 0.006},
		}},
		Totals: plan.Totals{Moves: moves, Bytes: int64(moves) * 12 << 30, EstSeconds: float64(90 * moves), NodesTouched: min(len(nodes), 2*moves)},
		Solver: plan.Solver{Status: "feasible", WallS: 4.2, Limit: "time"},
	}
	for i, d := range []string{"search", "index", "disk"} {
		at := func(r float64) plan.Evenness { return plan.Evenness{Max: r, PeakToMean: r, CV: r / 10} }
		peak := 1 + (before-1)/float64(1+i)
		p.Balance = append(p.Balance, plan.Balance{Dimension: d, Unit: "busy_s/s", Domain: "all", Mean: 1, Before: at(peak), After: at(1 + (peak-1)/6), Target: at(1.04)})
	}
	for i := range moves {
		from, to := nodes[i%len(nodes)], nodes[(7*i+3)%len(nodes)]
		p.Moves = append(p.Moves, plan.Move{
			Seq: i + 1, Index: fmt.Sprintf("logs-app-%03d-2026.01.%02d", i%40, 1+i%28), Shard: i % 8, Primary: i%3 == 0, AllocationID: fmt.Sprint("a", i),
			From: plan.Place{ID: from.ID, Name: from.Name, Zone: from.Attributes["zone"]}, To: plan.Place{ID: to.ID, Name: to.Name, Zone: to.Attributes["zone"]},
			Bytes: int64(4+i%60) << 30, Reason: plan.ForBalance, Gain: 0.04 / float64(1+i), Text: fmt.Sprintf("%s search %.2fx -> %.2fx of mean", from.Name, before, 1+(before-1)/2),
			After: []int{},
		})
	}
	p.Verdicts = []plan.Verdict{
		{Kind: plan.SingleShardHotspot, Subject: "shard/orders/3", Binding: []string{}, Text: "orders/3 alone is 1.7 of the fair share of data-a-004 in search: no placement can spread it.", Advice: "Split the index into more shards, add a replica, or give it a node of its own."},
		{Kind: plan.NoLegalTarget, Subject: "shard/metrics-2026.01/0", Binding: []string{"awareness", "disk_threshold"}, Text: "No node may take metrics-2026.01/0: zone c has no node with room below the low watermark.", Advice: "Add a node to zone c, or free 40 GiB there."},
		{Kind: plan.Budget, Subject: "cluster", Binding: []string{"limits.max_moves_per_cycle"}, Text: "12 moves that pay are left for the next cycle.", Advice: ""},
	}
	return p
}

// evening is the heat of a day: some nodes are hot until their turn comes to be relieved, all follow the daily rhythm.
func evening(nodes, cycles int, seed uint64) (load func(cycle, node, dimension int) float64, relieved func(node int) int) {
	random := rand.New(rand.NewPCG(seed, 0))
	base, heat, turn := make([][3]float64, nodes), make([][3]float64, nodes), make([]int, nodes)
	for n := range nodes {
		for d := range 3 {
			base[n][d] = 0.97 + 0.06*random.Float64()
			heat[n][d] = math.Exp(0.45 * random.NormFloat64() / float64(1+d))
		}
		if random.IntN(9) == 0 {
			heat[n][0] *= 1.9
		}
		turn[n] = cycles/5 + int(float64(cycles)*0.45*random.Float64())
	}
	noise := rand.New(rand.NewPCG(seed, 1))
	return func(cycle, node, dimension int) float64 {
		rhythm := 1 + 0.02*math.Sin(2*math.Pi*float64(cycle)/float64(cycles)+float64(node))
		if cycle < turn[node] {
			return heat[node][dimension] * rhythm * (0.97 + 0.06*noise.Float64())
		}
		return base[node][dimension] * rhythm
	}, func(node int) int { return turn[node] }
}

// fill gives the daemon a day of history of nodes, up to now, moves included.
func (m *madeUp) fill(nodes []cluster.Node, cycles int, every time.Duration, moves int) {
	load, relieved := evening(len(nodes), cycles, 7)
	start := time.Now().Add(-time.Duration(cycles) * every)
	last := somePlan(nodes, moves, 1.12)
	for c := range cycles {
		made := somePlan(nodes, 0, 2)
		made.Objective.Before = 0.05 + 0.3*math.Exp(-4*float64(c)/float64(cycles))
		if c == cycles-1 {
			made = last
			made.Objective.Before = 0.0564
		}
		m.cycle(start.Add(time.Duration(c)*every), nodes, func(n, d int) float64 { return load(c, n, d) }, made)
	}
	number := 0
	for n := range nodes {
		if relieved(n) >= cycles || n%2 == 1 && len(nodes) > 100 {
			continue
		}
		number++
		state, why := mover.Landed, ""
		if number%25 == 0 {
			state, why = mover.Cancelled, "it ended where it began: cancelled, or failed at the server; its log says why"
		}
		began := start.Add(time.Duration(relieved(n)-1) * every)
		m.move(number, fmt.Sprintf("logs-app-%03d-2026.01.%02d", n%40, 1+n%28), nodes[n], nodes[(n*13+5)%len(nodes)], int64(3+n%50)<<30, began, every, state, why)
	}
	for i := range 3 {
		m.move(100_000+i, "orders", nodes[i], nodes[len(nodes)-1-i], 40<<30, time.Now().Add(-time.Minute), 0, mover.Relocating, "")
	}
}

// has tells whether all texts are in the text.
func has(text string, all ...string) (missing []string) {
	for _, want := range all {
		if !strings.Contains(text, want) {
			missing = append(missing, want)
		}
	}
	return missing
}
