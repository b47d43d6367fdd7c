package model

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/cluster/clustertest"
)

// planted makes the tree of regions with so many zones each.
func planted(zones map[string]int) (*topology, *tree) {
	t := &topology{policy: &Regions{Remainder: RemainderMain}, zones: true, many: true}
	for _, region := range sortedKeys(zones) {
		for zone := range zones[region] {
			name := fmt.Sprintf("%s/%d", region, zone)
			t.value = append(t.value, [regionTiers]string{region, name, name + "/host"})
		}
	}
	return t, t.plant(func(int) bool { return true })
}

// The examples of docs/regions.md.
func TestWishes(t *testing.T) {
	for _, test := range []struct {
		zones     map[string]int
		copies    int
		remainder Remainder
		want      string
		relaxed   bool
	}{
		{map[string]int{"a": 3, "b": 3}, 3, RemainderMain, "2+1", false},
		{map[string]int{"a": 3, "b": 3, "c": 3}, 5, RemainderMain, "3+1+1", false},
		{map[string]int{"a": 3, "b": 3, "c": 3}, 5, RemainderSpread, "2+2+2", false},
		{map[string]int{"a": 4, "b": 4, "c": 4}, 8, RemainderMain, "4+2+2", false},
		{map[string]int{"a": 4, "b": 4, "c": 4}, 8, RemainderSpread, "3+3+3", false},
		{map[string]int{"a": 2, "b": 1}, 3, RemainderMain, "2+1", false},
		{map[string]int{"a": 2, "b": 1}, 3, RemainderSpread, "2+1", false},
		{map[string]int{"a": 2, "b": 2, "c": 1}, 5, RemainderMain, "2+2+1", false},
		{map[string]int{"a": 1, "b": 6, "c": 4}, 9, RemainderMain, "5+3+1", false}, // c has room for one of the two that a has not
		{map[string]int{"a": 1, "b": 1}, 3, RemainderMain, "2+1", true},
		{map[string]int{"a": 1, "b": 1}, 5, RemainderSpread, "3+3", true},
	} {
		top, on := planted(test.zones)
		top.policy.Remainder = test.remainder
		w := top.wish("i/0", test.copies, nil, nil, on)
		if got := countsText(w.Caps[regionTier]); got != test.want || w.Relaxed != test.relaxed {
			t.Errorf("%v, %d copies, %s: %s, relaxed %v; want %s, %v", test.zones, test.copies, test.remainder, got, w.Relaxed, test.want, test.relaxed)
		}
	}
}

// What a main region has no zones for lies in others as it happens to: where the next is as good, the shard's name does not
// move it there.
func TestOverflowOfMainRegionStays(t *testing.T) {
	for _, test := range []struct {
		zones  map[string]int
		copies int
		now    map[string]int
	}{
		{map[string]int{"a": 1, "b": 1, "c": 1, "d": 1}, 2, map[string]int{"a": 1, "b": 1}},
		{map[string]int{"a": 1, "b": 1, "c": 1, "d": 1}, 2, map[string]int{"c": 1, "d": 1}},
		{map[string]int{"a": 1, "b": 1, "c": 2, "d": 2, "e": 2}, 3, map[string]int{"c": 2, "e": 1}},
		{map[string]int{"a": 1, "b": 1, "c": 2, "d": 2, "e": 2}, 3, map[string]int{"c": 1, "d": 2}},
		{map[string]int{"a": 1, "b": 1, "c": 4, "d": 4, "e": 4}, 9, map[string]int{"a": 1, "b": 1, "c": 4, "d": 1, "e": 2}},
		{map[string]int{"a": 1, "b": 1, "c": 4, "d": 4, "e": 4}, 9, map[string]int{"a": 1, "b": 1, "c": 1, "d": 2, "e": 4}},
	} {
		top, on := planted(test.zones)
		for shard := range 20 {
			name := fmt.Sprint("i/", shard)
			if w := top.wish(name, test.copies, nil, test.now, on); !equalCounts(w.Caps[regionTier], test.now) {
				t.Errorf("%s: %v in zones of %v is wished elsewhere: %v", name, test.now, test.zones, w.Caps[regionTier])
			}
		}
	}
}

// Whatever the regions: caps leave room for all copies, floors ask for no more than there are, no region has more than its
// zones hold, the remainder is in one region where one can hold it, and copies that lie as a main region would have them
// stay so.
func TestWishesCanBeFulfilled(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		zones := map[string]int{}
		all := 0
		for r := range rapid.IntRange(2, 5).Draw(t, "regions") {
			zones[fmt.Sprint("r", r)] = rapid.IntRange(1, 4).Draw(t, "zones")
			all += zones[fmt.Sprint("r", r)]
		}
		top, on := planted(zones)
		top.policy.Remainder = rapid.SampledFrom([]Remainder{RemainderMain, RemainderSpread}).Draw(t, "remainder")
		copies := rapid.IntRange(1, 12).Draw(t, "copies")
		name := rapid.SampledFrom([]string{"a/0", "b/7", "c/3"}).Draw(t, "shard")
		w := top.wish(name, copies, nil, nil, on)
		each := max(1, ceil(copies, all))
		caps, floors, above, roomiest := 0, 0, 0, 0
		for region, most := range w.Caps[regionTier] {
			if most > each*zones[region] {
				t.Fatalf("%s may have %d copies in %d zones of %d", region, most, zones[region], each)
			}
			if w.Floors[region] > most {
				t.Fatalf("%s: from %d to %d", region, w.Floors[region], most)
			}
			if most > w.Floors[region] {
				above++
			}
			caps, floors, roomiest = caps+most, floors+w.Floors[region], max(roomiest, each*zones[region]-w.Floors[region])
		}
		if caps < copies || floors > copies || top.policy.Remainder == RemainderMain && caps != copies {
			t.Fatalf("%d copies, caps of %d, floors of %d", copies, caps, floors)
		}
		if top.policy.Remainder == RemainderMain {
			if above > 1 && roomiest >= copies-floors {
				t.Fatalf("some region has room for %d copies beside its floor, and %d are in several: %v", roomiest, copies-floors, w.Caps[regionTier])
			}
			other := top.wish(fmt.Sprint("another/", rapid.IntRange(0, 99).Draw(t, "another")), copies, nil, nil, on)
			if again := top.wish(name, copies, nil, other.Caps[regionTier], on); !equalCounts(again.Caps[regionTier], other.Caps[regionTier]) {
				t.Fatalf("copies lie as %v, which another shard wishes, and are wished elsewhere: %v", other.Caps[regionTier], again.Caps[regionTier])
			}
		}
	})
}

// Contradictions are refused, and the nodes and zones named.
func TestRegionsThatContradict(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"without a region", "node n1 region=a zone=a1\nnode n2 zone=b1", "1 data nodes do not have the attribute region: n2. Set node.attr.region on every data node"},
		{"a zone in two", "node n1 region=a zone=z\nnode n2 region=b zone=z", "zone z is in the regions a and b"},
		{"zones on some", "node n1 region=a zone=z\nnode n2 region=b", "node n2 has no zone, and others have"},
	} {
		s, err := clustertest.Parse(test.text)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Build(s, &Policy{Regions: &Regions{Region: "region", Zone: "zone"}})
		if cluster.ClassOf(err) != cluster.Invalid || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

// A layout for another number of copies, or with a region that is not there, is refused.
func TestLayoutsThatDoNotFit(t *testing.T) {
	s, err := clustertest.Parse(`
node n1 region=a zone=a1
node n2 region=b zone=b1
index i replicas=1
copy i/0 p n1 bytes=1gb
copy i/0 r n2 bytes=1gb`)
	if err != nil {
		t.Fatal(err)
	}
	for want, copies := range map[string]map[string]int{
		"the layout of i is for 3 copies and it has 2": {"a": 2, "b": 1}, "the layout of i names the region c": {"a": 1, "c": 1},
	} {
		_, err := Build(s, &Policy{Regions: &Regions{Region: "region", Zone: "zone", Layouts: []Layout{{"*", copies}}}})
		if cluster.ClassOf(err) != cluster.Invalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", copies, err)
		}
	}
}

// Search replicas are a group of their own, with wishes for the search nodes' regions; the others do not count them.
func TestSearchReplicasSpreadApart(t *testing.T) {
	s, err := clustertest.Parse(`
cluster opensearch 3.9.0
node n1 region=a zone=a1
node n2 region=b zone=b1
node s1 region=a zone=a1 roles=search
node s2 region=b zone=b1 roles=search
index i replicas=1
copy i/0 p n1 bytes=1gb
copy i/0 r n2 bytes=1gb
copy i/0 s s1 bytes=1gb
copy i/0 t s2 bytes=1gb`)
	if err != nil {
		t.Fatal(err)
	}
	for c := range s.Copies {
		s.Copies[c].SearchOnly = s.Nodes[s.Copies[c].Node].HasRole("search")
	}
	b, err := Build(s, &Policy{Regions: &Regions{Region: "region", Zone: "zone"}})
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for g := range b.Problem.Groups {
		names = append(names, b.Problem.Groups[g].Name+" "+countsText(b.Wishes[g].Caps[regionTier]))
	}
	if !slices.Equal(names, []string{"i/0 1+1", "i/0 search 1+1"}) {
		t.Errorf("%v", names)
	}
	if total := Total(Evaluate(b.Problem, b.Problem.Current())); total != 0 {
		t.Errorf("everything is where it should be and costs %v", total)
	}
}

// A primary that moves is best in its home region, and what crosses between regions pays for its bytes.
func TestTollsOfRegions(t *testing.T) {
	s, err := clustertest.Parse(`
node n1 region=a zone=a1
node n2 region=a zone=a2
node n3 region=b zone=b1
node n4 region=b zone=b2
index i replicas=1
copy i/0 p n1 bytes=1gb
copy i/0 r n3 bytes=1gb`)
	if err != nil {
		t.Fatal(err)
	}
	policy := DefaultPolicy()
	policy.Regions = &Regions{Region: "region", Zone: "zone", Homes: []Home{{"i", "b"}}, WAN: WAN{Factor: 4}}
	b, err := Build(s, &policy)
	if err != nil {
		t.Fatal(err)
	}
	p := b.Problem
	bytes := p.Objective.Move.PerByte * p.Copies[0].Bytes
	for _, test := range []struct {
		copy int
		to   int32
		want float64
	}{
		{0, 1, homePrice}, // stays away from home
		{0, 2, 3 * bytes}, // goes home, over the link
		{1, 3, 3 * bytes}, // a replica within b, read from the primary in a
		{1, 1, 0},         // to where its primary is
		{1, 2, 0},         // it does not move
	} {
		if got := p.Toll(test.copy, test.to); got-test.want > 1e-12 || test.want-got > 1e-12 {
			t.Errorf("copy %d to %d costs %v, want %v", test.copy, test.to, got, test.want)
		}
	}
}
