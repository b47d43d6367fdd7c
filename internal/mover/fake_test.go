package mover

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/cluster/clustertest"
	"github.com/shardonnay/shardonnay/internal/es"
	"github.com/shardonnay/shardonnay/internal/plan"
)

// fake is a cluster in memory. A relocation lasts a second a gigabyte; time is that of the synctest bubble.
type fake struct {
	t          *testing.T
	mu         sync.Mutex // of the settings: instances contend for them
	uuid       string
	copies     []*fakeCopy
	nodes      map[cluster.NodeID]es.RoutingNode
	disks      map[cluster.NodeID]cluster.DiskUse
	persistent map[string]string
	transient  map[string]string
	health     cluster.Health // what is added to what the copies say
	snapshots  map[es.SnapshotShard]struct{}
	next       int

	refuse   func(es.Move) (decider string) // empty lets it pass
	onMove   func(*fakeCopy)                // right after a relocation has begun
	fail     map[string]error               // by call
	requests [][]es.Move
	puts     []map[string]any
	onPut    func(map[string]any) // after it
	cancels  []string
}

type fakeCopy struct {
	es.RoutingCopy
	bytes int64
	lands time.Time
	stuck bool
}

// newFake is the cluster of a text (see clustertest), and the snapshot of it.
func newFake(t *testing.T, text string) (*fake, *cluster.Snapshot) {
	t.Helper()
	s, err := clustertest.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{
		t: t, uuid: s.Cluster.UUID, nodes: map[cluster.NodeID]es.RoutingNode{}, disks: map[cluster.NodeID]cluster.DiskUse{},
		persistent: map[string]string{}, transient: map[string]string{}, snapshots: map[es.SnapshotShard]struct{}{}, fail: map[string]error{},
		health: cluster.Health{HasMaster: true},
	}
	for n := range s.Nodes {
		node := &s.Nodes[n]
		f.nodes[node.ID] = es.RoutingNode{ID: node.ID, Name: node.Name, EphemeralID: node.EphemeralID}
		f.disks[node.ID] = node.Disk
	}
	for c := range s.Copies {
		k := &s.Copies[c]
		r := es.RoutingCopy{
			Index: s.Indices[k.Index].Name, Shard: int(k.Shard), Primary: k.Primary, State: k.State, AllocationID: k.AllocationID, RelocationID: k.RelocationID,
		}
		if k.Node != cluster.None {
			r.Node = s.Nodes[k.Node].ID
		}
		if k.Target != cluster.None {
			r.Target = s.Nodes[k.Target].ID
		}
		copied := &fakeCopy{RoutingCopy: r, bytes: k.Bytes}
		if k.Target != cluster.None {
			copied.lands = time.Now().Add(duration(k.Bytes))
		}
		f.copies = append(f.copies, copied)
	}
	s.TakenAt = time.Now()
	return f, s
}

// pass lets time pass in the bubble.
func pass(d time.Duration) { <-time.After(d) }

func duration(bytes int64) time.Duration {
	return time.Duration(float64(bytes) / (1 << 30) * float64(time.Second))
}

// now lands what has arrived.
func (f *fake) now() {
	for _, k := range f.copies {
		if k.Target != "" && !k.stuck && !time.Now().Before(k.lands) {
			k.Node, k.Target, k.AllocationID, k.RelocationID, k.State = k.Target, "", k.RelocationID, "", cluster.Started
		}
		if k.State == cluster.Initializing && !k.lands.IsZero() && !time.Now().Before(k.lands) {
			k.State = cluster.Started
		}
	}
}

// begin relocates a copy, whoever wants it.
func (f *fake) begin(k *fakeCopy, to cluster.NodeID) {
	f.next++
	k.State, k.Target, k.RelocationID = cluster.Relocating, to, fmt.Sprintf("new-%d", f.next)
	k.lands = time.Now().Add(duration(k.bytes))
	if f.onMove != nil {
		f.onMove(k)
	}
}

// stop ends a relocation where it began.
func (k *fakeCopy) stop() {
	k.State, k.Target, k.RelocationID, k.stuck = cluster.Started, "", "", false
}

// lose takes a node away, as servers do it.
func (f *fake) lose(id cluster.NodeID) {
	delete(f.nodes, id)
	for _, k := range f.copies {
		switch {
		case k.Target == id:
			k.stop()
		case k.Node == id && k.Target != "" && !k.Primary:
			k.Node, k.Target, k.AllocationID, k.State = k.Target, "", k.RelocationID, cluster.Initializing
		case k.Node == id:
			k.Node, k.Target, k.AllocationID, k.State, k.Delayed = "", "", "", cluster.Unassigned, true
		}
	}
}

func (f *fake) copy(allocationID string) *fakeCopy {
	for _, k := range f.copies {
		if k.AllocationID == allocationID {
			return k
		}
	}
	f.t.Fatalf("no copy %s", allocationID)
	return nil
}

// where is the node of each copy, "a/0=n1 a/1=n2>n3".
func (f *fake) where() string {
	f.now()
	var all []string
	for _, k := range f.copies {
		at := string(k.Node)
		if k.Target != "" {
			at += ">" + string(k.Target)
		}
		all = append(all, fmt.Sprintf("%s/%d=%s", k.Index, k.Shard, at))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// plan makes a plan of lines "allocation id -> node [after 1,2]".
func (f *fake) plan(lines ...string) *plan.Plan {
	p := &plan.Plan{Version: plan.Version, ID: "plan-1", ExpiresAt: time.Now().Add(time.Hour), Cluster: plan.Cluster{UUID: f.uuid}}
	for i, line := range lines {
		line, waits, _ := strings.Cut(line, " after ")
		id, to, _ := strings.Cut(line, " -> ")
		k := f.copy(id)
		m := plan.Move{
			Seq: i + 1, Index: k.Index, Shard: k.Shard, Primary: k.Primary, AllocationID: id, Bytes: k.bytes, Gain: 1,
			From: plan.Place{ID: k.Node, Name: string(k.Node)}, To: plan.Place{ID: cluster.NodeID(to), Name: to},
			BytesSource: plan.Source{ID: k.Node},
		}
		for seq := range strings.SplitSeq(waits, ",") {
			if n, err := strconv.Atoi(seq); err == nil {
				m.After = append(m.After, n)
			}
		}
		p.Moves = append(p.Moves, m)
	}
	return p
}

func (f *fake) Health(context.Context) (cluster.Health, error) {
	f.now()
	h := f.health
	if h.Status == "" {
		h.Status = "green"
	}
	for _, k := range f.copies {
		switch {
		case k.State == cluster.Unassigned:
			h.Unassigned++
			h.Status = "yellow"
			if k.Delayed {
				h.Delayed++
			}
		case k.State == cluster.Initializing:
			h.Initializing++
			h.Status = "yellow"
		case k.Target != "":
			h.Relocating++
		}
	}
	return h, f.fail["health"]
}

func (f *fake) Routing(context.Context) (*es.Routing, error) {
	f.now()
	r := &es.Routing{ClusterUUID: f.uuid}
	for _, k := range f.copies {
		r.Copies = append(r.Copies, k.RoutingCopy)
	}
	for _, id := range slices.Sorted(maps.Keys(f.nodes)) {
		r.Nodes = append(r.Nodes, f.nodes[id])
	}
	return r, f.fail["routing"]
}

func (f *fake) Recoveries(context.Context) ([]es.Recovery, error) {
	f.now()
	var all []es.Recovery
	for _, k := range f.copies {
		if k.Target != "" {
			left := int64(time.Until(k.lands).Seconds() * (1 << 30))
			arrived := max(0, k.bytes-left)
			if k.stuck {
				arrived = 7
			}
			all = append(all, es.Recovery{Index: k.Index, Shard: k.Shard, Target: k.Target, BytesTotal: k.bytes, BytesRecovered: arrived})
		}
	}
	return all, f.fail["recoveries"]
}

func (f *fake) FileSystems(context.Context) (map[cluster.NodeID]cluster.DiskUse, error) {
	return f.disks, f.fail["disks"]
}

func (f *fake) RunningSnapshots(context.Context) (map[es.SnapshotShard]struct{}, error) {
	return f.snapshots, f.fail["snapshots"]
}

func (f *fake) Reroute(_ context.Context, _ cluster.Product, moves []es.Move) ([]es.Outcome, error) {
	f.now()
	f.requests = append(f.requests, moves)
	if err := f.fail["reroute"]; err != nil {
		return nil, err
	}
	var outcomes []es.Outcome
	for _, m := range moves {
		outcome := es.Outcome{Move: m, Decisions: []es.Decision{{Decider: "throttling", Decision: "THROTTLE"}}}
		if f.refuse != nil {
			if decider := f.refuse(m); decider != "" {
				outcome.Refused = true
				outcome.Decisions = []es.Decision{{Decider: decider, Decision: "NO", Explanation: "because"}}
				outcomes = append(outcomes, outcome)
				continue
			}
		}
		for _, k := range f.copies {
			if k.Index == m.Index && k.Shard == m.Shard && k.Node == m.From {
				f.begin(k, m.To)
			}
		}
		outcomes = append(outcomes, outcome)
	}
	return outcomes, nil
}

func (f *fake) Cancel(_ context.Context, _ cluster.Product, index string, shard int, target cluster.NodeID) error {
	f.cancels = append(f.cancels, fmt.Sprintf("%s/%d at %s", index, shard, target))
	for _, k := range f.copies {
		if k.Index == index && k.Shard == shard && k.Target == target {
			k.stop()
			return nil
		}
	}
	f.t.Errorf("cancel of %s/%d at %s, where nothing relocates to", index, shard, target)
	return nil
}

func (f *fake) Settings(context.Context) (es.RawSettings, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	text, err := json.Marshal(map[string]any{"persistent": f.persistent, "transient": f.transient})
	if err != nil {
		f.t.Fatal(err)
	}
	raw, err := es.DecodeSettings(strings.NewReader(string(text)))
	if err != nil {
		f.t.Fatal(err)
	}
	return raw, f.fail["settings"]
}

func (f *fake) PutSettings(_ context.Context, settings map[string]any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.fail["put"]; err != nil {
		return err
	}
	f.puts = append(f.puts, settings)
	for key, value := range settings {
		if value == nil {
			delete(f.persistent, key)
		} else {
			f.persistent[key] = value.(string)
		}
	}
	if f.onPut != nil {
		f.onPut(settings)
	}
	return nil
}

func (f *fake) DesiredBalance(context.Context) (*es.DesiredBalance, error) { return nil, nil }
func (f *fake) DeleteDesiredBalance(context.Context) error                 { return nil }

// mover is a mover of this cluster, with settings that a test can change.
func (f *fake) mover(change func(*Config)) *Mover {
	config := Config{
		Limits: Limits{}, Poll: time.Second, Patience: 10 * time.Second, UnknownWait: 30 * time.Second, StuckAfter: time.Minute,
	}
	if change != nil {
		change(&config)
	}
	ledger, _, err := OpenLedger("")
	if err != nil {
		f.t.Fatal(err)
	}
	return New(f, cluster.Identity{UUID: f.uuid, Product: testProduct}, config, ledger, nil, nil)
}

var testProduct = cluster.Product{Distribution: cluster.OpenSearch, Version: cluster.Version{Major: 2, Minor: 19, Patch: 6}}

// told is a report in a line: "landed a/0->n2; refused a/1->n3 (disk_threshold: because)".
func told(r Report) string {
	var all []string
	for _, o := range r.Outcomes {
		text := fmt.Sprintf("%s %s/%d->%s", o.State, o.Move.Index, o.Move.Shard, o.Move.To.Name)
		if o.Reason != "" {
			text += " (" + o.Reason + ")"
		}
		all = append(all, text)
	}
	for _, m := range r.InFlight {
		all = append(all, fmt.Sprintf("in flight %s/%d->%s", m.Index, m.Shard, m.To.Name))
	}
	if r.Stop != nil {
		all = append(all, "stop "+string(r.Stop.Kind))
	}
	return strings.Join(all, "; ")
}

// adds up checks the identity of a report.
func addsUp(t *testing.T, r Report) {
	t.Helper()
	sum := len(r.InFlight)
	for _, n := range r.Count {
		sum += n
	}
	if sum != r.Considered+r.Adopted || len(r.Outcomes)+len(r.InFlight) != sum {
		t.Errorf("%d moves considered and %d adopted, but %v and %d in flight", r.Considered, r.Adopted, r.Count, len(r.InFlight))
	}
}
