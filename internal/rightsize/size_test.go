package rightsize

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/cluster/clustertest"
	"github.com/shardonnay/shardonnay/internal/model"
)

// TestSize plays testdata/sizes: a cluster and, as arguments, limits; what it would take is drawn.
func TestSize(t *testing.T) {
	datadriven.RunTest(t, "testdata/sizes", func(t *testing.T, d *datadriven.TestData) string {
		limits := make(map[string]float64)
		for _, arg := range d.CmdArgs {
			limits[arg.Key], _ = strconv.ParseFloat(arg.Vals[0], 64)
		}
		a, err := Size(build(t, d.Input), limits)
		if err != nil {
			return err.Error() + "\n"
		}
		var out strings.Builder
		for _, domain := range a.Domains {
			fmt.Fprintf(&out, "%s: %d copies on %d nodes in zones %v\n", domain.Name, domain.Copies, domain.Nodes, domain.Zones)
			for _, g := range domain.Generations {
				fmt.Fprintf(&out, "  %d nodes like %s: at least %d (%s), enough %d %v", g.Nodes, g.Like, g.AtLeast, strings.Join(g.Binding, ", "), g.Enough, g.PerZone)
				for _, peak := range g.Peaks {
					fmt.Fprintf(&out, " %s %.2f/%.2f", peak.Dimension, peak.Share, peak.WithZone)
				}
				if g.Reason != "" {
					fmt.Fprintf(&out, ": %s", g.Reason)
				}
				out.WriteString("\n")
			}
		}
		return out.String()
	})
}

func build(t interface{ Fatal(args ...any) }, text string) *model.Built {
	s, err := clustertest.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	policy := model.DefaultPolicy()
	b, err := model.Build(s.Projected(), &policy)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestAgainstEveryPlacement: on clusters small enough to try every placement, no placement does with fewer nodes than the
// bound says, and the number called enough is.
func TestAgainstEveryPlacement(t *testing.T) {
	proven, answered := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		zones := rapid.IntRange(1, 3).Draw(t, "zones")
		var text strings.Builder
		if zones > 1 {
			text.WriteString("set awareness=zone\n")
		}
		for n := range 3 {
			fmt.Fprintf(&text, "node n%d disk=100gb processors=1", n)
			if zones > 1 {
				fmt.Fprintf(&text, " zone=%c", 'a'+n%zones)
			}
			text.WriteString("\n")
		}
		copies := 0
		for i := range rapid.IntRange(1, 3).Draw(t, "indices") {
			each := rapid.IntRange(1, min(2, 5-copies)).Draw(t, "copies")
			fmt.Fprintf(&text, "index i%d replicas=%d\n", i, each-1)
			search, bytes := rapid.IntRange(0, 6).Draw(t, "search"), rapid.IntRange(1, 60).Draw(t, "bytes")
			for c := range each {
				fmt.Fprintf(&text, "copy i%d/0 %s n%d bytes=%dgb search=0.%d\n", i, map[bool]string{true: "p", false: "r"}[c == 0], (i+c)%3, bytes, search)
			}
			copies += each
		}
		b := build(t, text.String())
		a, err := Size(b, map[string]float64{"search": 0.7, "disk": 0.8})
		if err != nil {
			t.Fatal(err)
		}
		g := a.Domains[0].Generations[0]
		domains, _ := b.Problem.Domains()
		d := newDemand(b, &domains[0])
		usable := generations(b, &domains[0])[0].usable(b.Snapshot, a.Limits)
		if g.Reason != "" {
			if g.AtLeast == 0 && d.anyPlacement(max(copies, zones), usable) {
				t.Fatalf("%s, but there is a placement on %d nodes\n%s", g.Reason, max(copies, zones), text.String())
			}
			return
		}
		if g.AtLeast > 1 && g.AtLeast <= 5 && d.anyPlacement(g.AtLeast-1, usable) {
			t.Fatalf("at least %d, but there is a placement on one node less\n%s", g.AtLeast, text.String())
		}
		if g.Enough <= 4 && !d.anyPlacement(g.Enough, usable) {
			t.Fatalf("%d are called enough, and there is no placement\n%s", g.Enough, text.String())
		}
		answered++
		if g.AtLeast == g.Enough {
			proven++
		}
	})
	if proven*4 < answered*3 {
		t.Errorf("of %d answers only %d are proven to be the least", answered, proven)
	}
}

// anyPlacement tries every way to share n nodes out over the zones, and every placement on them, by rules written down once
// more: node limits before and after the loss of each zone, copies of a shard apart, and evenly over the zones.
func (d *demand) anyPlacement(n int, usable []float64) bool {
	zones := max(1, len(d.zones))
	var zoneOf []int
	var compose func(zone, left int) bool
	compose = func(zone, left int) bool {
		if zone == zones-1 {
			if left < 1 {
				return false
			}
			before := len(zoneOf)
			for range left {
				zoneOf = append(zoneOf, zone)
			}
			found := d.anyOn(zoneOf, usable, make(map[[2]int]int), 0, 0)
			zoneOf = zoneOf[:before]
			return found
		}
		for here := 1; here <= left-(zones-1-zone); here++ {
			before := len(zoneOf)
			for range here {
				zoneOf = append(zoneOf, zone)
			}
			if compose(zone+1, left-here) {
				return true
			}
			zoneOf = zoneOf[:before]
		}
		return false
	}
	return compose(0, n)
}

func (d *demand) anyOn(zoneOf []int, usable []float64, at map[[2]int]int, g, c int) bool {
	if g == len(d.groups) {
		return d.holds(zoneOf, usable, at)
	}
	if c == len(d.groups[g].loads) {
		return d.anyOn(zoneOf, usable, at, g+1, 0)
	}
	for n := range zoneOf {
		alone := true
		for other := range c {
			alone = alone && at[[2]int{g, other}] != n
		}
		if !alone {
			continue
		}
		at[[2]int{g, c}] = n
		if d.anyOn(zoneOf, usable, at, g, c+1) {
			return true
		}
	}
	delete(at, [2]int{g, c})
	return false
}

func (d *demand) holds(zoneOf []int, usable []float64, at map[[2]int]int) bool {
	zones := len(d.zones)
	for g := range d.groups {
		inside := make([]int, max(1, zones))
		for c := range d.groups[g].loads {
			inside[zoneOf[at[[2]int{g, c}]]]++
		}
		for _, count := range inside {
			if zones > 0 && count > (len(d.groups[g].loads)+zones-1)/zones {
				return false
			}
		}
	}
	for lost := -1; lost < zones; lost++ {
		for n := range zoneOf {
			if zoneOf[n] == lost {
				continue
			}
			for i, most := range usable {
				if most < 0 {
					continue
				}
				sum := 0.0
				for g := range d.groups {
					total, left, here := 0.0, 0, -1
					for c, load := range d.groups[g].loads {
						node := at[[2]int{g, c}]
						total += load[i]
						if zoneOf[node] != lost {
							left++
						}
						if node == n {
							here = c
						}
					}
					switch {
					case here < 0:
					case d.b.Snapshot.Dimensions[i] == cluster.SearchTime:
						sum += total / float64(left)
					default:
						sum += d.groups[g].loads[here][i]
					}
				}
				if sum > most*(1+1e-9) {
					return false
				}
			}
		}
	}
	return true
}
