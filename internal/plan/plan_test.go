package plan

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/cluster/clustertest"
	"github.com/shardonnay/shardonnay/internal/model"
)

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
	p := &Plan{ID: "01J", Cluster: Cluster{Name: "c1", UUID: "u1"}, ExpiresAt: clustertest.TakenAt}
	for _, test := range []struct {
		uuid string
		now  time.Time
		want string
	}{
		{"u1", clustertest.TakenAt, ""},
		{"u1", clustertest.TakenAt.Add(time.Second), "apply plan 01J: it expired at 2026-01-02T03:04:05Z. Make a new plan"},
		{"u2", clustertest.TakenAt, "apply plan 01J: it was made for cluster c1 (u1), this one is u2. Make a new plan"},
	} {
		err := p.Usable(test.uuid, test.now)
		if got := fmt.Sprint(err); test.want == "" && err != nil || test.want != "" && got != test.want {
			t.Errorf("%s at %s: %s, want %s", test.uuid, test.now, got, test.want)
		}
		if err != nil && cluster.ExitCode(err) != 6 {
			t.Errorf("exit code %d", cluster.ExitCode(err))
		}
	}
}
