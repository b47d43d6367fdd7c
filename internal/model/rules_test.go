package model

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/cluster/clustertest"
)

// TestRules plays the files of testdata/rules: "cluster" sets the scene, "refusals" asks for every copy and node what
// forbids the move (. is allowed), "begin" and "land" move a copy, "pins" says what keeps copies from moving at all.
func TestRules(t *testing.T) {
	datadriven.Walk(t, "testdata/rules", func(t *testing.T, path string) {
		var s *cluster.Snapshot
		var rules *Rules
		var state *State
		copyAt := func(t *testing.T, id string) int {
			for c := range s.Copies {
				if s.Copies[c].AllocationID == id {
					return c
				}
			}
			t.Fatalf("no copy %q", id)
			return cluster.None
		}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "cluster":
				var err error
				if s, err = clustertest.Parse(d.Input); err != nil {
					return err.Error() + "\n"
				}
				policy := DefaultPolicy()
				for _, arg := range d.CmdArgs {
					if arg.Key == "cooling" {
						policy.CoolingDown = map[string]struct{}{arg.Vals[0]: {}}
					}
				}
				rules = NewRules(s, &policy)
				state = rules.Start()
				return "ok\n"
			case "pins":
				var out strings.Builder
				for c := range s.Copies {
					fmt.Fprintf(&out, "%s: %s\n", s.Copies[c].AllocationID, orDot(rules.PinnedBy(c)))
				}
				return out.String()
			case "refusals":
				var out strings.Builder
				for c := range s.Copies {
					for n := range s.Nodes {
						fmt.Fprintf(&out, "%s to %s: %s\n", s.Copies[c].AllocationID, s.Nodes[n].Name, orDot(state.Refusals(c, n)))
					}
				}
				return out.String()
			case "begin":
				state.Begin(copyAt(t, d.CmdArgs[0].Key), s.NodeAt(cluster.NodeID(d.CmdArgs[1].Key)))
				return freeBytes(s, state)
			case "land":
				state.Land(copyAt(t, d.CmdArgs[0].Key))
				return freeBytes(s, state)
			}
			t.Fatalf("unknown command %s", d.Cmd)
			return ""
		})
	})
}

func orDot(d Deciders) string {
	if d == 0 {
		return "."
	}
	return d.String()
}

func freeBytes(s *cluster.Snapshot, st *State) string {
	var out strings.Builder
	for n := range s.Nodes {
		fmt.Fprintf(&out, "%s %d GiB free\n", s.Nodes[n].Name, st.Free(n)>>30)
	}
	return out.String()
}

// TestBuild prints the problem built from a snapshot, small enough to be checked by hand.
func TestBuild(t *testing.T) {
	datadriven.Walk(t, "testdata/build", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s, err := clustertest.Parse(d.Input)
			if err != nil {
				return err.Error() + "\n"
			}
			before := s.Fingerprint()
			policy := DefaultPolicy()
			built, err := Build(s.Projected(), &policy)
			if err != nil {
				return err.Error() + "\n"
			}
			if s.Fingerprint() != before {
				t.Error("Build changed its snapshot")
			}
			if err := built.Problem.Validate(); err != nil {
				t.Errorf("Build made an invalid problem: %v", err)
			}
			if found := Check(built.Problem, built.Problem.Current()); len(found) > 0 {
				t.Errorf("the present assignment breaks rules: %v", found)
			}
			return describe(built)
		})
	})
}

func describe(b *Built) string {
	var out strings.Builder
	p := b.Problem
	domains, ofNode := p.Domains()
	for n, node := range p.Nodes {
		fmt.Fprintf(&out, "node %s domain=%d capacity=%.4g disk=%.1f/%.1fGiB tiers=%v max_copies=%d accepts_new=%t\n", node.ID, ofNode[n],
			node.Capacity, node.Disk.UsedOther/(1<<30), node.Disk.Limit/(1<<30), node.Tiers, node.MaxCopies, node.AcceptsNew)
	}
	for i, domain := range domains {
		fmt.Fprintf(&out, "domain %d mean=%.4g\n", i, domain.Mean)
	}
	for k, class := range p.Classes {
		fmt.Fprintf(&out, "class %d nodes=%v\n", k, class.Nodes)
	}
	for _, index := range p.Indices {
		fmt.Fprintf(&out, "index %s max_per_node=%d fair=%d\n", index.Name, index.MaxPerNode, index.FairPerNode)
	}
	for _, group := range p.Groups {
		fmt.Fprintf(&out, "group %s class=%d caps=%v\n", group.Name, group.Class, group.TierCaps)
	}
	for c, k := range p.Copies {
		fmt.Fprintf(&out, "copy %s on %s load=%.4g weight=%g", b.Snapshot.Copies[b.CopyOf[c]].AllocationID, p.Nodes[k.Node].ID, k.Load, k.MoveWeight)
		if k.Pinned {
			fmt.Fprintf(&out, " pinned by %s", b.Rules.PinnedBy(int(b.CopyOf[c])))
		}
		if k.MustLeave {
			out.WriteString(" must leave")
		}
		out.WriteString("\n")
	}
	for _, dimension := range p.Dimensions {
		fmt.Fprintf(&out, "dimension %s weight=%g shift=%.3f\n", dimension.Name, dimension.Weight, dimension.Shift)
	}
	for _, term := range Evaluate(p, p.Current()) {
		fmt.Fprintf(&out, "%s = %.6g\n", term.Name, term.Value)
	}
	return out.String()
}
