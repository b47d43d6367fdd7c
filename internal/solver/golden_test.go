package solver

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/shardonnay/shardonnay/internal/model"
)

// TestSmall solves problems that a person can check by hand; testdata/small.txt tells the language and the stories.
func TestSmall(t *testing.T) {
	datadriven.RunTest(t, "testdata/small.txt", func(t *testing.T, d *datadriven.TestData) string {
		p := parse(t, d)
		r, err := Solve(context.Background(), p, Options{Workers: 1})
		if err != nil {
			t.Fatal(err)
		}
		if !r.Checked {
			t.Fatal("the answer does not stand the independent check")
		}
		var out strings.Builder
		fmt.Fprintf(&out, "%s: %s -> %s, at least %s\n", r.Status, number(r.ObjectiveBefore), number(r.Objective), number(r.LowerBound))
		before, after := model.Evaluate(p, p.Current()), model.Evaluate(p, r.Assignment)
		for i := range before {
			if before[i].Value != 0 || after[i].Value != 0 {
				fmt.Fprintf(&out, "  %s %s -> %s\n", before[i].Name, number(before[i].Value), number(after[i].Value))
			}
		}
		for c, n := range r.Assignment {
			if k := &p.Copies[c]; n != k.Node {
				fmt.Fprintf(&out, "  %s: %s -> %s\n", p.Groups[k.Group].Name, p.Nodes[k.Node].ID, p.Nodes[n].ID)
			}
		}
		return out.String()
	})
}

// number rounds to six decimals: more would be the order of additions.
func number(x float64) string {
	return strconv.FormatFloat(float64(int64(x*1e6+0.5))/1e6, 'g', -1, 64)
}

// parse reads a problem from lines of words and word=value; see testdata/small.txt.
func parse(t *testing.T, d *datadriven.TestData) *model.Problem {
	p := &model.Problem{Version: model.ProblemVersion, Name: "small", Indices: []model.Index{{Name: "index", SpreadWeight: 1}}}
	p.Objective.Phi = model.Phi{Points: []float64{1}, Slopes: []float64{1}}
	number := func(s string) float64 {
		x, err := strconv.ParseFloat(s, 64)
		if err != nil {
			d.Fatalf(t, "%q is not a number", s)
		}
		return x
	}
	numbers := func(s string) (list []float64) {
		for x := range strings.SplitSeq(s, ",") {
			list = append(list, number(x))
		}
		return list
	}
	limits := func(s string) (list []model.TierLimit) {
		for x := range strings.SplitSeq(s, ",") {
			depth, count, _ := strings.Cut(x, ":")
			list = append(list, model.TierLimit{int(number(depth)), int(number(count))})
		}
		return list
	}
	class := map[string]int32{}
	node, group := map[string]int32{}, map[string]int32{}
	in := func(name string) int32 {
		k, known := class[name]
		if !known {
			k = int32(len(p.Classes))
			class[name] = k
			p.Classes = append(p.Classes, model.Class{})
		}
		return k
	}
	for line := range strings.SplitSeq(d.Input, "\n") {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		values := map[string]string{}
		var names []string
		for _, w := range words[1:] {
			if key, value, found := strings.Cut(w, "="); found {
				values[key] = value
			} else {
				names = append(names, w)
			}
		}
		has := func(word string) bool { return slices.Contains(names, word) }
		value := func(key, missing string) string {
			if v, ok := values[key]; ok {
				return v
			}
			return missing
		}
		switch words[0] {
		case "node":
			n := model.Node{ID: names[0], Capacity: numbers(value("capacity", "10")), AcceptsNew: !has("draining"), MaxCopies: int(number(value("max", "0")))}
			n.Disk = model.Disk{Limit: number(value("disk", "0"))}
			if v := value("tiers", ""); v != "" {
				n.Tiers = strings.Split(v, ",")
			}
			node[n.ID] = int32(len(p.Nodes))
			for name := range strings.SplitSeq(value("class", "all"), ",") {
				k := in(name)
				p.Classes[k].Nodes = append(p.Classes[k].Nodes, int32(len(p.Nodes)))
			}
			p.Nodes = append(p.Nodes, n)
			for len(p.Dimensions) < len(n.Capacity) {
				p.Dimensions = append(p.Dimensions, model.Dimension{Name: fmt.Sprint("d", len(p.Dimensions)), Weight: 1})
			}
		case "group":
			g := model.Group{Name: names[0], Class: in(value("class", "all"))}
			if v := value("caps", ""); v != "" {
				g.TierCaps = limits(v)
			}
			if v := value("floors", ""); v != "" {
				g.TierFloors = limits(v)
			}
			group[g.Name] = int32(len(p.Groups))
			p.Groups = append(p.Groups, g)
		case "copy":
			g, known := group[names[0]]
			if !known {
				g = int32(len(p.Groups))
				group[names[0]] = g
				p.Groups = append(p.Groups, model.Group{Name: names[0], Class: in(value("class", "all"))})
			}
			p.Copies = append(p.Copies, model.Copy{
				Group: g, Node: node[names[1]], Load: numbers(value("load", "0")), Bytes: number(value("bytes", "1")), MoveWeight: 1,
				Pinned: has("pinned"), MustLeave: has("must_leave"),
			})
		case "index":
			p.Indices[0].FairPerNode, p.Indices[0].MaxPerNode = int(number(value("fair", "0"))), int(number(value("most", "0")))
		case "price":
			o := &p.Objective
			o.Move = model.MovePrice{PerByte: number(value("byte", "0")), PerMove: number(value("move", "0"))}
			o.MustLeave, o.Spread.PerCopy = number(value("must_leave", "0")), number(value("spread", "0"))
			if v := value("tier", ""); v != "" {
				o.TierExcess = numbers(v)
			}
		case "budget":
			p.Limits = model.Limits{MaxMoves: int(number(value("moves", "0"))), MaxBytes: number(value("bytes", "0"))}
		default:
			d.Fatalf(t, "what is %q?", words[0])
		}
	}
	if err := p.Validate(); err != nil {
		d.Fatalf(t, "%v", err)
	}
	return p
}
