package plan

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/cluster/clustertest"
	"github.com/shardonnay/shardonnay/internal/model"
)

// What might be is shown beside what is.
func TestWhatIfTable(t *testing.T) {
	evenness := func(peak float64) Evenness { return Evenness{PeakToMean: peak} }
	today := &Plan{
		Snapshot: Snapshot{Nodes: 3}, Objective: Objective{Before: 0.8, LowerBound: 0.1},
		Balance: []Balance{
			{Dimension: "search", Unit: "busy_s/s", Domain: "data_hot", Mean: 0.5, Before: evenness(2), Target: evenness(1.1)},
			{Dimension: "search", Unit: "busy_s/s", Domain: "data_warm", Mean: 0.1, Before: evenness(1.2), Target: evenness(1.2)},
		},
	}
	p := &Plan{
		Snapshot: Snapshot{Nodes: 2}, Objective: Objective{Before: 0.3, LowerBound: 0.2},
		Balance: []Balance{
			{Dimension: "search", Unit: "busy_s/s", Domain: "data_hot", Mean: 1, Before: evenness(1.5), Target: evenness(1.25)},
			{Dimension: "disk", Unit: "bytes", Domain: "data_hot", Mean: 5 << 30, Before: evenness(1), Target: evenness(1)},
		},
	}
	p.Suppose([]string{"lose-zone:c", "scale-load:*,search=1.5"}, today)
	var out strings.Builder
	p.whatIfTable(&out)
	want := `What if: lose-zone:c scale-load:*,search=1.5

dimension  domain       mean today        then  peak/mean today  at best  then  at best
search     data_hot   0.5 busy_s/s  1 busy_s/s             2.00     1.10  1.50     1.25
disk       data_hot              -     5.0 GiB                -        -  1.00     1.00
search     data_warm  0.1 busy_s/s           -             1.20     1.20     -        -

3 data nodes and objective 0.8 today, 2 data nodes and 0.3 then; at best 0.1 and 0.2.
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

// TestPlan plays the files of testdata/plans. "cluster" sets the scene (and takes what of the policy differs from the
// default), "plan" says where the solver wants copies ("allocation id -> node", or the argument descend to let plain
// best-move descent decide) and prints what Diff makes of it.
func TestPlan(t *testing.T) {
	datadriven.Walk(t, "testdata/plans", func(t *testing.T, path string) {
		var taken *cluster.Snapshot
		var policy model.Policy
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "cluster":
				var err error
				if taken, err = clustertest.Parse(d.Input); err != nil {
					return err.Error() + "\n"
				}
				policy = model.DefaultPolicy()
				policy.SpreadWeight, policy.GrowthShare, policy.PinWriteShare = 0, 0, 0
				for _, arg := range d.CmdArgs {
					number, _ := strconv.ParseFloat(arg.Vals[0], 64)
					switch arg.Key {
					case "move_cost":
						policy.MoveCost = number
					case "spread":
						policy.SpreadWeight = number
					case "growth":
						policy.GrowthShare = number
					case "tolerance":
						policy.Tolerance = number
					case "loss": // what a node may carry with any one zone lost
						policy.Zones, policy.MaxLoadAfterLoss = "zone", number
					case "pin":
						policy.PinIndices = arg.Vals
					case "samples":
						taken.Samples = int(number)
					}
				}
				return "ok\n"
			case "plan":
				return drawPlan(t, taken, &policy, d)
			}
			return "unknown command\n"
		})
	})
}

func drawPlan(t *testing.T, taken *cluster.Snapshot, policy *model.Policy, d *datadriven.TestData) string {
	b, err := model.Build(taken.Projected(), policy)
	if err != nil {
		return err.Error() + "\n"
	}
	o := Options{Mode: DryRun, CreatedAt: clustertest.TakenAt.Add(2 * time.Second), Taken: taken}
	solved := Solved{Assignment: wanted(t, b, d.Input), Solver: Solver{Status: "feasible", Limit: "none"}}
	format := "table"
	for _, arg := range d.CmdArgs {
		switch arg.Key {
		case "descend":
			solved.Assignment = descend(b.Problem)
		case "json":
			format = "json"
		case "max_moves":
			o.MaxMoves, _ = strconv.Atoi(arg.Vals[0])
		case "max_bytes":
			o.MaxBytes, _ = cluster.ParseBytes(arg.Vals[0])
		case "return": // return=(allocation id,node,min gain)
			gain, _ := strconv.ParseFloat(arg.Vals[2], 64)
			o.Returns = map[string]Return{arg.Vals[0]: {Node: cluster.NodeID(arg.Vals[1]), MinGain: gain}}
		}
	}
	p, err := Diff(b, solved, o)
	if err != nil {
		return err.Error() + "\n"
	}
	var out bytes.Buffer
	if format == "json" {
		err = p.Write(&out)
	} else {
		err = p.Table(&out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// wanted is the present assignment with the changes of the text.
func wanted(t *testing.T, b *model.Built, text string) []int32 {
	node := b.Problem.Current()
	for line := range strings.Lines(text) {
		id, name, _ := strings.Cut(strings.TrimSpace(line), " -> ")
		found := false
		for c := range b.Problem.Copies {
			if b.Snapshot.Copies[b.CopyOf[c]].AllocationID == id {
				for n := range b.Problem.Nodes {
					if b.Problem.Nodes[n].ID == name {
						node[c], found = int32(n), true
					}
				}
			}
		}
		if !found {
			t.Fatalf("no copy or node in %q", line)
		}
	}
	return node
}

// descend makes the best single move until none pays: a plain stand-in for the solver.
func descend(p *model.Problem) []int32 {
	place := model.NewPlacement(p, nil)
	for {
		best, bestCopy, bestNode := -minNet, -1, int32(-1)
		for c := range p.Copies {
			for n := range p.Nodes {
				if delta := place.Delta(c, int32(n)); delta < best && place.Legal(c, int32(n)) {
					best, bestCopy, bestNode = delta, c, int32(n)
				}
			}
		}
		if bestCopy < 0 {
			return place.Assignment()
		}
		place.Move(bestCopy, bestNode)
		if !place.WithinLimits() {
			place.Move(bestCopy, p.Copies[bestCopy].Node)
			return place.Assignment()
		}
	}
}

func TestUsable(t *testing.T) {
	real := &Plan{ID: "01J", Cluster: Cluster{Name: "c1", UUID: "u1"}, ExpiresAt: clustertest.TakenAt}
	supposed := *real
	supposed.Suppose([]string{"remove-node:n1", "lose-zone:b"}, real)
	for _, test := range []struct {
		p    *Plan
		uuid string
		now  time.Time
		want string
	}{
		{real, "u1", clustertest.TakenAt, ""},
		{real, "u1", clustertest.TakenAt.Add(time.Second), "apply plan 01J: it expired at 2026-01-02T03:04:05Z. Make a new plan"},
		{real, "u2", clustertest.TakenAt, "apply plan 01J: it was made for cluster c1 (u1), this one is u2. Make a new plan"},
		{
			&supposed, "u1", clustertest.TakenAt,
			"apply plan 01J: it is for a cluster as it might be (remove-node:n1 lose-zone:b), which this one is not. Make a new plan",
		},
	} {
		err := test.p.Usable(test.uuid, test.now)
		if got := fmt.Sprint(err); test.want == "" && err != nil || test.want != "" && got != test.want {
			t.Errorf("%s at %s: %s, want %s", test.uuid, test.now, got, test.want)
		}
		if err != nil && cluster.ExitCode(err) != 6 {
			t.Errorf("exit code %d", cluster.ExitCode(err))
		}
	}
}
