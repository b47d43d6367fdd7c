package plan

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/cluster/clustertest"
	"github.com/shardonnay/shardonnay/internal/model"
)

// drawCluster draws a small cluster of any kind, present state as broken as real ones are: full disks, copies where they
// should not be, relocations under way, nodes on their way out.
func drawCluster(t *rapid.T) *cluster.Snapshot {
	s, err := clustertest.Parse("")
	if err != nil {
		t.Fatal(err)
	}
	const gb = 1 << 30
	nodes := rapid.IntRange(2, 6).Draw(t, "nodes")
	zones := rapid.IntRange(1, 3).Draw(t, "zones")
	if rapid.Bool().Draw(t, "aware") {
		s.Settings.AwarenessAttributes = []string{"zone"}
	}
	s.Settings.SameShardHost = rapid.IntRange(0, 5).Draw(t, "same host") == 0
	if rapid.IntRange(0, 3).Draw(t, "limited") == 0 {
		s.Settings.TotalShardsPerNode = rapid.IntRange(2, 8).Draw(t, "total per node")
	}
	for n := range nodes {
		name := fmt.Sprintf("n%d", n)
		node := cluster.Node{
			ID: cluster.NodeID(name), Name: name, IP: fmt.Sprintf("10.0.0.%d", n/rapid.IntRange(1, 2).Draw(t, "per host")),
			Version: s.Cluster.Product.Version, Roles: []string{"data"}, Attributes: map[string]string{"zone": string(rune('a' + n%zones))},
			Processors: float64(rapid.SampledFrom([]int{1, 2, 4}).Draw(t, "processors")), Disk: cluster.DiskUse{Total: 100 * gb},
		}
		node.Capacity = cluster.Load{node.Processors, node.Processors, float64(node.Disk.Total)}
		if n > 0 && rapid.IntRange(0, 9).Draw(t, "leaving") == 0 {
			node.Leaving = "shutdown"
		}
		s.Nodes = append(s.Nodes, node)
	}
	for i := range rapid.IntRange(1, 4).Draw(t, "indices") {
		index := cluster.Index{
			Name: fmt.Sprintf("i%d", i), UUID: fmt.Sprintf("u%d", i), Shards: rapid.IntRange(1, 4).Draw(t, "shards"),
			Replicas: rapid.IntRange(0, min(2, nodes-1)).Draw(t, "replicas"),
		}
		if rapid.IntRange(0, 4).Draw(t, "index limited") == 0 {
			index.TotalShardsPerNode = rapid.IntRange(1, 3).Draw(t, "index per node")
		}
		for shard := range index.Shards {
			at := rapid.Permutation(sequenceTo(nodes)).Draw(t, "places")
			size := int64(rapid.IntRange(0, 30).Draw(t, "gb")) * gb
			for r := range 1 + index.Replicas {
				c := cluster.Copy{
					Index: int32(i), Shard: int32(shard), Node: int32(at[r]), Target: cluster.None, Primary: r == 0, State: cluster.Started,
					AllocationID: fmt.Sprintf("%d/%d/%d", i, shard, r), Bytes: size,
				}
				c.Load = cluster.Load{float64(rapid.IntRange(0, 1000).Draw(t, "search")) / 1000, float64(rapid.IntRange(0, 1).Draw(t, "index")) * 0.3, float64(size)}
				c.Deviation[0] = c.Load[0] * rapid.SampledFrom([]float64{0, 0, 0.05, 0.5}).Draw(t, "noise")
				if c.Primary && rapid.IntRange(0, 3).Draw(t, "written") == 0 {
					c.BytesMoving = size / 4
				}
				if r == 0 && 1+index.Replicas < nodes && rapid.IntRange(0, 11).Draw(t, "moving") == 0 {
					c.State, c.Target, c.RelocationID = cluster.Relocating, int32(at[1+index.Replicas]), c.AllocationID+"+"
				}
				s.Copies = append(s.Copies, c)
			}
		}
		s.Indices = append(s.Indices, index)
	}
	for c := range s.Copies {
		s.Nodes[s.Copies[c].Node].Disk.Store += s.Copies[c].Bytes
		if to := s.Copies[c].Target; to != cluster.None {
			s.Nodes[to].Disk.Reserved += s.Copies[c].Bytes
		}
	}
	for n := range s.Nodes {
		disk := &s.Nodes[n].Disk
		disk.Total = max(disk.Store*int64(rapid.IntRange(100, 300).Draw(t, "room"))/100, 20*gb)
		disk.Available = disk.Total - disk.Store
		s.Nodes[n].Capacity[2] = float64(disk.Total)
	}
	s.Sort()
	return s
}

func sequenceTo(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// drawTarget is where some solver might want the copies: by descent, or by any legal moves.
func drawTarget(t *rapid.T, p *model.Problem) []int32 {
	if rapid.Bool().Draw(t, "descend") {
		return descend(p)
	}
	place := model.NewPlacement(p, nil)
	for range rapid.IntRange(0, 15).Draw(t, "wanderings") {
		c := rapid.IntRange(0, len(p.Copies)-1).Draw(t, "copy")
		n := int32(rapid.IntRange(0, len(p.Nodes)-1).Draw(t, "node"))
		if place.Legal(c, n) {
			place.Move(c, n)
		}
	}
	return place.Assignment()
}

func TestEveryPrefixIsLegal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		taken := drawCluster(t)
		policy := model.DefaultPolicy()
		policy.PinWriteShare, policy.SpreadWeight = 0, rapid.SampledFrom([]float64{0, 0.5}).Draw(t, "spread")
		policy.MoveCost = rapid.SampledFrom([]float64{0, 0.02, 0.2}).Draw(t, "move cost")
		b, err := model.Build(taken.Projected(), &policy)
		if err != nil {
			t.Fatal(err)
		}
		o := Options{Mode: DryRun, CreatedAt: clustertest.TakenAt, Taken: taken, MaxMoves: rapid.SampledFrom([]int{0, 0, 3}).Draw(t, "max moves")}
		if rapid.IntRange(0, 4).Draw(t, "limited bytes") == 0 {
			o.MaxBytes = 40 << 30
		}
		solved := Solved{Assignment: drawTarget(t, b.Problem)}
		p, err := Diff(b, solved, o)
		if err != nil {
			t.Fatal(err)
		}
		play(t, taken, &policy, p)
		checkNumbers(t, b, solved.Assignment, &o, p)
		var once, again bytes.Buffer
		second, err := Diff(b, solved, o)
		if err != nil {
			t.Fatal(err)
		}
		if p.Write(&once) != nil || second.Write(&again) != nil || !bytes.Equal(once.Bytes(), again.Bytes()) {
			t.Fatal("the same input gave two plans")
		}
		read, err := Read(&again)
		if err != nil {
			t.Fatal(err)
		}
		again.Reset()
		if read.Write(&again) != nil || !bytes.Equal(once.Bytes(), again.Bytes()) {
			t.Fatal("a plan read back is another plan")
		}
	})
}

// play asks of every move whether it may begin with only those landed that it names and all earlier ones in flight, by
// the model's state and by rules written down once more.
func play(t *rapid.T, taken *cluster.Snapshot, policy *model.Policy, p *Plan) {
	rules := model.NewRules(taken, policy)
	copyAt := func(m *Move) int {
		return slices.IndexFunc(taken.Copies, func(c cluster.Copy) bool { return c.AllocationID == m.AllocationID })
	}
	seen := make(map[string]bool)
	for i := range p.Moves {
		m := &p.Moves[i]
		c, to := copyAt(m), taken.NodeAt(m.To.ID)
		if seen[m.AllocationID] {
			t.Fatalf("copy %s moves twice", m.AllocationID)
		}
		seen[m.AllocationID] = true
		if taken.Nodes[taken.Copies[c].Node].ID != m.From.ID {
			t.Fatalf("move %d leaves %s where its copy is not", m.Seq, m.From.ID)
		}
		state := rules.Start()
		for j := range i {
			state.Begin(copyAt(&p.Moves[j]), taken.NodeAt(p.Moves[j].To.ID))
		}
		for _, seq := range m.After {
			state.Land(copyAt(&p.Moves[seq-1]))
		}
		if why := state.Refusals(c, to) | rules.PinnedBy(c); why != 0 {
			t.Fatalf("move %d of %s/%d to %s, after %v: %s", m.Seq, m.Index, m.Shard, m.To.Name, m.After, why)
		}
		for j := range i {
			if same := &p.Moves[j]; same.Index == m.Index && same.Shard == m.Shard && !slices.Contains(m.After, same.Seq) {
				t.Fatalf("moves %d and %d of one shard may be under way together", same.Seq, m.Seq)
			}
		}
		if why := byHand(taken, p.Moves[:i], m); why != "" {
			t.Fatalf("move %d: %s", m.Seq, why)
		}
	}
}

// byHand is same_shard, disk_threshold and awareness written a second time, from the servers' documentation.
func byHand(taken *cluster.Snapshot, earlier []Move, m *Move) string {
	occupied := make(map[cluster.NodeID]bool)      // by a copy of the shard, there or leaving or arriving
	home := make(map[string]cluster.NodeID)        // where copies of the shard will be
	free := make(map[cluster.NodeID]int64)         // arriving in full, leaving not credited
	total := make(map[cluster.NodeID]int64)        //
	zoneOf := make(map[cluster.NodeID]string)      //
	index := taken.Indices[taken.IndexAt(m.Index)] //
	for n := range taken.Nodes {
		node := &taken.Nodes[n]
		free[node.ID], total[node.ID], zoneOf[node.ID] = node.Disk.Available, node.Disk.Total, node.Attributes["zone"]
	}
	size := int64(0)
	for c := range taken.Copies {
		k := &taken.Copies[c]
		at := taken.Nodes[k.Node].ID
		if k.Target != cluster.None {
			free[taken.Nodes[k.Target].ID] -= k.Bytes
		}
		if k.AllocationID == m.AllocationID {
			size = k.Bytes
		}
		if taken.Indices[k.Index].Name != m.Index || int(k.Shard) != m.Shard {
			continue
		}
		occupied[at], home[k.AllocationID] = true, at
		if k.Target != cluster.None {
			return "a copy of its shard is already under way"
		}
	}
	for _, e := range earlier {
		landed := slices.Contains(m.After, e.Seq)
		free[e.To.ID] -= e.Bytes
		if landed {
			free[e.From.ID] += e.Bytes
		}
		if e.Index == m.Index && e.Shard == m.Shard {
			occupied[e.To.ID], home[e.AllocationID] = true, e.To.ID
			if landed {
				delete(occupied, e.From.ID)
			}
		}
	}
	if occupied[m.To.ID] {
		return "same_shard"
	}
	used := func(bytes int64) float64 { return 1 - float64(bytes)/float64(total[m.To.ID]) }
	if used(free[m.To.ID]) > 0.85+1e-9 || used(free[m.To.ID]-size) > 0.9+1e-9 {
		return fmt.Sprintf("disk_threshold: %.3f used, %.3f after", used(free[m.To.ID]), used(free[m.To.ID]-size))
	}
	if len(taken.Settings.AwarenessAttributes) > 0 {
		zones := make(map[string]bool)
		for _, value := range zoneOf {
			zones[value] = true
		}
		most := int(math.Ceil(float64(1+index.Replicas) / float64(len(zones))))
		there := 1
		for id, at := range home {
			if id != m.AllocationID && zoneOf[at] == zoneOf[m.To.ID] {
				there++
			}
		}
		if there > most {
			return fmt.Sprintf("awareness: %d of at most %d in %s", there, most, zoneOf[m.To.ID])
		}
	}
	return ""
}

// checkNumbers recomputes what a plan claims.
func checkNumbers(t *rapid.T, b *model.Built, target []int32, o *Options, p *Plan) {
	after := b.Problem.Current()
	gains, bytesMoved := 0.0, int64(0)
	for i := range p.Moves {
		m := &p.Moves[i]
		for c := range after {
			if b.Snapshot.Copies[b.CopyOf[c]].AllocationID == m.AllocationID {
				after[c] = int32(slices.IndexFunc(b.Problem.Nodes, func(n model.Node) bool { return n.ID == string(m.To.ID) }))
			}
		}
		gains += m.Gain
		bytesMoved += m.Bytes
	}
	if found := model.Check(b.Problem, after); len(found) > 0 {
		t.Fatalf("the plan ends in %v", found)
	}
	near := func(what string, got, want float64) {
		if math.Abs(got-want) > 1e-9*max(1, math.Abs(want)) {
			t.Fatalf("%s is %v, want %v", what, got, want)
		}
	}
	terms := model.Evaluate(b.Problem, after)
	before := model.Total(model.Evaluate(b.Problem, b.Problem.Current()))
	near("objective.before", p.Objective.Before, before)
	near("objective.after", p.Objective.After, model.Total(terms))
	near("the sum of gains", gains, before-model.Total(terms)+terms[len(terms)-1].Value)
	if p.Objective.After > p.Objective.Before+1e-9 {
		t.Fatalf("the plan makes it worse: %v -> %v", p.Objective.Before, p.Objective.After)
	}
	if p.Totals.Moves != len(p.Moves) || p.Totals.Bytes != bytesMoved ||
		o.MaxMoves > 0 && len(p.Moves) > o.MaxMoves || o.MaxBytes > 0 && bytesMoved > o.MaxBytes {
		t.Fatalf("totals %+v of %d moves and %d bytes, limits %d and %d", p.Totals, len(p.Moves), bytesMoved, o.MaxMoves, o.MaxBytes)
	}
	if len(p.Moves) == 0 && len(p.Verdicts) == 0 {
		t.Fatal("nothing moves and nothing says why")
	}
	explained(t, b, p, after)
	if len(p.Balance) > 0 && p.Balance[0].Domain == "all" {
		// One domain: the numbers by the plainest formula.
		for _, row := range p.Balance {
			d := slices.IndexFunc(b.Problem.Dimensions, func(x model.Dimension) bool { return x.Name == row.Dimension })
			load, all, capacity, nodes := make([]float64, len(b.Problem.Nodes)), 0.0, 0.0, 0
			for c, n := range after {
				load[n] += b.Problem.Copies[c].Load[d]
				all += b.Problem.Copies[c].Load[d]
			}
			peak := 0.0
			for n := range b.Problem.Nodes {
				if c := b.Problem.Nodes[n].Capacity[d]; c > 0 && inSomeClass(b.Problem, int32(n)) {
					capacity += c
					nodes++
				}
			}
			for n := range b.Problem.Nodes {
				if c := b.Problem.Nodes[n].Capacity[d]; c > 0 && inSomeClass(b.Problem, int32(n)) {
					peak = max(peak, load[n]/c/(all/capacity))
				}
			}
			near(row.Dimension+" peak_to_mean", row.After.PeakToMean, peak)
			near(row.Dimension+" mean", row.Mean, all/float64(nodes))
		}
	}
}

func inSomeClass(p *model.Problem, n int32) bool {
	return slices.ContainsFunc(p.Classes, func(k model.Class) bool { return slices.Contains(k.Nodes, n) })
}

// explained checks that every node that stays above its fair share is named by a verdict, or its hottest shard is.
func explained(t *rapid.T, b *model.Built, p *Plan, after []int32) {
	domains, _ := b.Problem.Domains()
	for d, dimension := range b.Problem.Dimensions {
		for n, r := range model.Utilization(b.Problem, domains, after, d) {
			if b.Problem.Objective.Phi.At(r-dimension.Shift) <= 1e-9 {
				continue
			}
			name := nodeName(b, int32(n))
			if !slices.ContainsFunc(p.Verdicts, func(v Verdict) bool { return strings.Contains(v.Text, name+" stays at") }) {
				t.Fatalf("%s stays at %.2f of the mean in %s and no verdict says why: %v", name, r, dimension.Name, p.Verdicts)
			}
		}
	}
}

// The estimate is never below what the busiest node needs for its bytes, and waits for what a move waits for.
func TestEstimate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &sequencer{b: &model.Built{Snapshot: &cluster.Snapshot{Settings: cluster.Settings{
			RecoveryBytesPerSec: 1 << 20, IncomingRecoveries: rapid.IntRange(1, 3).Draw(t, "in"), OutgoingRecoveries: 2,
		}}}, o: &Options{AtOnce: rapid.IntRange(0, 3).Draw(t, "at once")}}
		var moves []Move
		perNode := make(map[cluster.NodeID]float64)
		chain := make([]float64, 0)
		for i := range rapid.IntRange(0, 20).Draw(t, "moves") {
			m := Move{Seq: i + 1, Bytes: int64(rapid.IntRange(0, 100).Draw(t, "mb")) << 20}
			m.BytesSource.ID = cluster.NodeID(fmt.Sprint(rapid.IntRange(0, 2).Draw(t, "from")))
			m.To.ID = cluster.NodeID(fmt.Sprint(rapid.IntRange(3, 5).Draw(t, "to")))
			seconds := perMoveSeconds + float64(m.Bytes)/(1<<20)
			longest := 0.0
			if i > 0 && rapid.Bool().Draw(t, "waits") {
				before := rapid.IntRange(1, i).Draw(t, "for")
				m.After, longest = []int{before}, chain[before-1]
			}
			chain = append(chain, longest+seconds)
			perNode[m.BytesSource.ID] += seconds
			perNode[m.To.ID] += seconds
			moves = append(moves, m)
		}
		got, all := s.estimate(moves), 0.0
		least := 0.0
		for _, seconds := range perNode {
			least = max(least, seconds)
			all += seconds / 2
		}
		for _, seconds := range chain {
			least = max(least, seconds)
		}
		if got < least-1e-3 || got > 6*all+1e-3 || math.IsNaN(got) {
			t.Fatalf("%v seconds, at least %v", got, least)
		}
	})
}

func BenchmarkDiff(b *testing.B) {
	for _, size := range []struct{ nodes, copies int }{{10, 500}, {50, 5000}} {
		b.Run(fmt.Sprintf("%dx%d", size.nodes, size.copies), func(b *testing.B) {
			built, target := bigCluster(b, size.nodes, size.copies)
			b.ResetTimer()
			for range b.N {
				p, err := Diff(built, Solved{Assignment: target}, Options{CreatedAt: time.Unix(0, 0)})
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(len(p.Moves)), "moves")
			}
		})
	}
}

// bigCluster has shards of falling heat, dealt out so that the first nodes are the hottest, and every third copy is wanted
// elsewhere.
func bigCluster(t testing.TB, nodes, copies int) (*model.Built, []int32) {
	s, err := clustertest.Parse("")
	if err != nil {
		t.Fatal(err)
	}
	for n := range nodes {
		name := fmt.Sprintf("n%04d", n)
		s.Nodes = append(s.Nodes, cluster.Node{
			ID: cluster.NodeID(name), Name: name, IP: name, Roles: []string{"data"}, Processors: 8,
			Disk: cluster.DiskUse{Total: 1 << 40, Available: 1 << 39}, Capacity: cluster.Load{8, 8, 1 << 40},
		})
	}
	for c := range copies / 2 {
		s.Indices = append(s.Indices, cluster.Index{Name: fmt.Sprintf("i%05d", c), Shards: 1, Replicas: 1})
		for r := range 2 {
			k := cluster.Copy{
				Index: int32(c), Node: int32((c*nodes/(copies/2) + r*nodes/2) % nodes), Target: cluster.None, Primary: r == 0, State: cluster.Started,
				AllocationID: fmt.Sprintf("%d/%d", c, r), Bytes: 1 << 30, Load: cluster.Load{1 / float64(1+c%97), 0.01, 1 << 30},
			}
			s.Copies = append(s.Copies, k)
		}
	}
	s.Sort()
	policy := model.DefaultPolicy()
	built, err := model.Build(s, &policy)
	if err != nil {
		t.Fatal(err)
	}
	place := model.NewPlacement(built.Problem, nil)
	for c := range built.Problem.Copies {
		best, to := -minNet, int32(-1)
		for n := range built.Problem.Nodes {
			if delta := place.Delta(c, int32(n)); delta < best && place.Legal(c, int32(n)) {
				best, to = delta, int32(n)
			}
		}
		if to >= 0 {
			place.Move(c, to)
		}
	}
	return built, place.Assignment()
}
