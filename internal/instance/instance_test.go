package instance

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/model"
)

func generate(t testing.TB, o Options) *model.Problem {
	t.Helper()
	p, err := Generate(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// What is promised of an instance: its size, a placement that is legal everywhere and level in counts, heat that is not,
// disks as full as asked.
func TestGenerateLooksLikeALogCluster(t *testing.T) {
	for _, o := range []Options{Defaults(10, 500, 1), Defaults(50, 3000, 2), Defaults(100, 6000, 3), Defaults(300, 20000, 4)} {
		p := generate(t, o)
		if len(p.Nodes) != o.Nodes || len(p.Copies) < o.Copies*97/100 || len(p.Copies) > o.Copies {
			t.Fatalf("%d nodes and %d copies, wanted %d and %d", len(p.Nodes), len(p.Copies), o.Nodes, o.Copies)
		}
		strict := *p // a problem whose present state breaks nothing has no rule that is only "not worse"
		if broken := broken(&strict); broken != "" {
			t.Errorf("%s: %s", p.Name, broken)
		}
		s := model.NewPlacement(p, nil)
		fewest, most, hottest, bytes, disk := len(p.Copies), 0, 0.0, 0.0, 0.0
		for n := range p.Nodes {
			fewest, most = min(fewest, s.Copies(n)), max(most, s.Copies(n))
			hottest = max(hottest, s.Utilization(n, 0))
			bytes += s.DiskUsed(n)
			disk += p.Nodes[n].Capacity[2]
		}
		if most-fewest > most/2 {
			t.Errorf("%s: from %d to %d copies on a node", p.Name, fewest, most)
		}
		if hottest < 1.3 {
			t.Errorf("%s: the hottest node searches only %.2f times the mean", p.Name, hottest)
		}
		if fill := bytes / disk; fill < o.DiskFill-0.01 || fill > o.DiskFill+0.01 {
			t.Errorf("%s: disks are %.3f full, wanted %.2f", p.Name, fill, o.DiskFill)
		}
	}
}

// broken is the first rule that the present placement breaks absolutely.
func broken(p *model.Problem) string {
	onNode := map[[2]int32]bool{}
	inZone := map[int32]map[string]int{}
	used := make([]float64, len(p.Nodes))
	for c := range p.Copies {
		k := &p.Copies[c]
		if onNode[[2]int32{k.Group, k.Node}] {
			return "two copies of " + p.Groups[k.Group].Name + " share a node"
		}
		onNode[[2]int32{k.Group, k.Node}] = true
		if inZone[k.Group] == nil {
			inZone[k.Group] = map[string]int{}
		}
		inZone[k.Group][p.Nodes[k.Node].Tiers[0]]++
		used[k.Node] += k.Bytes
	}
	for g := range p.Groups {
		for zone, count := range inZone[int32(g)] {
			for _, limit := range p.Groups[g].TierCaps {
				if count > limit.Count() {
					return p.Groups[g].Name + " has too many copies in zone " + zone
				}
			}
		}
	}
	for n := range used {
		if used[n] > p.Nodes[n].Disk.Limit {
			return p.Nodes[n].ID + " is over its disk limit"
		}
	}
	return ""
}

// Same options, same bytes; another seed, others.
func TestGenerateRepeats(t *testing.T) {
	text := func(o Options) string {
		var b bytes.Buffer
		if err := generate(t, o).Write(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	first, second := text(Defaults(20, 900, 5)), text(Defaults(20, 900, 5))
	if first != second {
		t.Error("the same options give two problems")
	}
	if first == text(Defaults(20, 900, 6)) {
		t.Error("two seeds give one problem")
	}
}

// The problem file keeps an instance as it is.
func TestGenerateSurvivesTheFile(t *testing.T) {
	p := generate(t, Defaults(20, 900, 5))
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	q, err := model.Read(&b)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := model.Evaluate(p, p.Current()), model.Evaluate(q, q.Current()); !slices.Equal(a, b) {
		t.Errorf("%v became %v", a, b)
	}
}

func TestOptions(t *testing.T) {
	change := func(f func(*Options)) Options {
		o := Defaults(30, 1500, 1)
		f(&o)
		return o
	}
	five := generate(t, change(func(o *Options) { o.Dimensions = 5 }))
	if len(five.Dimensions) != 5 || len(five.Copies[0].Load) != 5 {
		t.Error("five dimensions are not there")
	}
	giants, fair := 0, 0.0
	with := generate(t, change(func(o *Options) { o.Giants = 3 }))
	for c := range with.Copies {
		fair += with.Copies[c].Load[0] / 30
	}
	for c := range with.Copies {
		if with.Copies[c].Load[0] > 0.9*fair {
			giants++
		}
	}
	if giants < 3 {
		t.Errorf("%d copies are giants", giants)
	}
	draining := 0
	for _, n := range generate(t, change(func(o *Options) { o.Draining = 4 })).Nodes {
		if !n.AcceptsNew {
			draining++
		}
	}
	if draining != 4 {
		t.Errorf("%d nodes drain", draining)
	}
	thrifty := generate(t, change(func(o *Options) { o.Lambda = 5 }))
	all := 0.0
	for c := range thrifty.Copies {
		all += thrifty.MoveCost(c)
	}
	if all < 5.4 || all > 5.6 { // five for the bytes, a tenth of it for the moves
		t.Errorf("moving everything costs %v", all)
	}
	for name, f := range map[string]func(*Options){
		"at least 3 are needed": func(o *Options) { o.Nodes = 2 },
		"two a node":            func(o *Options) { o.Copies = 20 },
		"1 to 5":                func(o *Options) { o.Dimensions = 6 },
		"fill is below":         func(o *Options) { o.DiskFill = 0.9 },
		"skew is from":          func(o *Options) { o.Skew = -1 },
		"at most half":          func(o *Options) { o.Draining = 20 },
	} {
		_, err := Generate(change(f))
		if cluster.ClassOf(err) != cluster.Invalid || !strings.Contains(err.Error(), name) {
			t.Errorf("want %q, got %v", name, err)
		}
	}
}

// Every variant is what its name says, and as legal at the start as the plain one.
func TestVariants(t *testing.T) {
	for _, name := range Variants() {
		t.Run(name, func(t *testing.T) {
			o := Defaults(66, 3000, 1)
			if err := o.Vary(name); err != nil {
				t.Fatal(err)
			}
			p := generate(t, o)
			if broken := broken(p); broken != "" {
				t.Error(broken)
			}
			s := model.NewPlacement(p, nil)
			empty, leaving, bytes, disk, middling := 0, 0, 0.0, 0.0, 0
			fair := 0.0 // of search
			for c := range p.Copies {
				if p.Copies[c].MustLeave {
					leaving++
				}
				fair += p.Copies[c].Load[0] / float64(len(p.Nodes))
			}
			for c := range p.Copies {
				if l := p.Copies[c].Load[0]; l > 0.3*fair && l < 0.9*fair {
					middling++
				}
			}
			for n := range p.Nodes {
				if s.Copies(n) == 0 {
					empty++
				}
				bytes += s.DiskUsed(n)
				disk += p.Nodes[n].Capacity[2]
			}
			is := map[string]bool{
				"tight-disks":     bytes/disk > 0.77,
				"middling":        middling > 45,
				"five-dimensions": len(p.Dimensions) == 5,
				"two-tiers":       len(p.Classes) == 2 && len(p.Classes[1].Nodes) >= zones && len(p.Classes[0].Nodes) > len(p.Classes[1].Nodes)/2,
				"grown":           empty == 6,
				"drained-zone":    leaving > 900 && !p.Nodes[zones-1].AcceptsNew,
			}
			for what, holds := range is {
				if holds != (what == name) {
					t.Errorf("is it %s: %t (%d empty, %d to leave, %d middling, disks %.2f full)", what, holds, empty, leaving, middling, bytes/disk)
				}
			}
			for _, k := range p.Copies {
				if group := &p.Groups[k.Group]; !slices.Contains(p.Classes[group.Class].Nodes, k.Node) {
					t.Fatalf("%s stands outside its class", group.Name)
				}
			}
		})
	}
	o := Defaults(30, 1500, 1)
	if err := o.Vary("windy"); cluster.ClassOf(err) != cluster.Invalid || !strings.Contains(err.Error(), "windy") {
		t.Errorf("%v", err)
	}
}

// A drifted problem is valid, as legal as before, and differs in as many copies as asked.
func TestDrift(t *testing.T) {
	p := generate(t, Defaults(30, 2000, 4))
	q := Drift(p, 0.04, 1)
	if err := q.Validate(); err != nil {
		t.Fatal(err)
	}
	if broken := broken(q); broken != "" {
		t.Error(broken)
	}
	changed := 0
	for c := range p.Copies {
		if !slices.Equal(p.Copies[c].Load, q.Copies[c].Load) {
			changed++
		}
	}
	if fresh := len(q.Copies) - len(p.Copies); changed < 35 || changed > 40 || fresh < 35 || fresh > 42 {
		t.Errorf("%d loads changed and %d copies are new, of %d", changed, fresh, len(p.Copies))
	}
	if before := len(generate(t, Defaults(30, 2000, 4)).Copies); before != len(p.Copies) {
		t.Error("the first problem was touched")
	}
}
