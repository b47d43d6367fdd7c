package model

import (
	"math"
	"slices"
	"testing"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/cluster/clustertest"
)

func lossOf(t *testing.T, text string, prepare func(*cluster.Snapshot)) *Built {
	t.Helper()
	s, err := clustertest.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if prepare != nil {
		prepare(s)
	}
	policy := DefaultPolicy()
	policy.Zones, policy.MaxLoadAfterLoss = "zone", 0.5
	b, err := Build(s, &policy)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const threeZones = `
set awareness=zone forced=a,b,c
node a1 zone=a processors=4 disk=100gb free=50gb
node b1 zone=b processors=4 disk=100gb free=50gb
node c1 zone=c processors=4 disk=100gb free=50gb
`

// Search replicas serve for one another and for nobody else; a primary's indexing falls to either of those left.
func TestAfterLossOfEachKindOfCopy(t *testing.T) {
	b := lossOf(t, threeZones+`
index segments replicas=2
index split replicas=4
copy segments/0 p a1 bytes=1gb search=0.3 index=0.9
copy segments/0 r b1 bytes=1gb search=0.3 index=0.1
copy segments/0 r c1 bytes=1gb search=0.3 index=0.1
copy split/0 p a1 bytes=1gb index=0.2
copy split/0 r b1 bytes=1gb index=0.2
copy split/0 r c1 bytes=1gb search=0.6
`, func(s *cluster.Snapshot) {
		s.Indices[s.Copies[0].Index].Replication = "SEGMENT"
		for c := range s.Copies {
			if s.Copies[c].Load[0] == 0.6 {
				s.Copies[c].SearchOnly = true
			}
		}
	})
	for _, test := range []struct {
		zone string
		want [3][2]float64 // of a1, b1 and c1: search and index
	}{
		{"a", [3][2]float64{{}, {0.45, 0.1 + 0.4 + 0.2}, {0.45 + 0.6, 0.1 + 0.4}}},
		{"b", [3][2]float64{{0.45, 0.9 + 0.2}, {}, {0.45 + 0.6, 0.1}}},
		{"c", [3][2]float64{{0.45, 0.9 + 0.2}, {0.45, 0.1 + 0.2}, {}}}, // what the search replica served is served by nobody
	} {
		after := b.AfterLoss(b.Problem.Current(), test.zone)
		for n, want := range test.want {
			for d := range want {
				if math.Abs(after[n][d]-want[d]) > 1e-12 {
					t.Errorf("zone %s lost: node %s carries %g in dimension %d, want %g", test.zone, b.Problem.Nodes[n].ID, after[n][d], d, want[d])
				}
			}
		}
	}
}

// Copies count for as few others as awareness lets be left, or for fewer where more are in a zone now.
func TestSharesAfterLoss(t *testing.T) {
	for _, test := range []struct {
		name, at string
		replicas string
		want     float64 // for each of the copies, of one busy second a second each
	}{
		{"one in each zone", "a1 b1 c1", "2", 1.5},
		{"two of three zones", "a1 b1", "1", 2},
		{"alone", "b1", "0", 1},
		{"four, two to a zone", "a1 a2 b1 c1", "3", 2},
		{"six, two to a zone", "a1 a2 b1 b2 c1 c2", "5", 1.5},
		{"three of six, of which two may be in one zone", "a1 b1 c1", "5", 3},
		{"two in one zone, against awareness", "a1 a2 b1", "2", 3},
	} {
		text := threeZones + "node a2 zone=a\nnode b2 zone=b\nnode c2 zone=c\n"
		var copies []string
		for i := 0; i < len(test.at); i += 3 {
			copies = append(copies, test.at[i:i+2])
		}
		text += "index i replicas=" + test.replicas + "\n"
		for i, node := range copies {
			text += "copy i/0 " + map[bool]string{true: "p ", false: "r "}[i == 0] + node + " bytes=1gb search=1\n"
		}
		for _, k := range lossOf(t, text, nil).Problem.Copies {
			if k.Load[0] != test.want {
				t.Errorf("%s: a copy counts for %g, want %g", test.name, k.Load[0], test.want)
			}
		}
	}
}

// A node above the limit adds a dimension that the limit begins; where none is, the limit is all there is.
func TestPriceOfALimitThatIsBroken(t *testing.T) {
	shards := func(loads ...string) string {
		text := threeZones + "node a2 zone=a processors=4\nnode b2 zone=b processors=4\nnode c2 zone=c processors=4\n"
		for i, load := range loads {
			name := "i" + string(rune('0'+i))
			text += "index " + name + " replicas=2\ncopy " + name + "/0 p a1 bytes=1gb search=" + load + "\ncopy " + name + "/0 r b1 bytes=1gb search=" + load +
				"\ncopy " + name + "/0 r c1 bytes=1gb search=" + load + "\n"
		}
		return text
	}
	well := lossOf(t, shards("0.6", "0.6"), nil).Problem // 1.8 of 4 processors with a zone lost
	if len(well.Dimensions) != 3 || !slices.Equal(well.Nodes[0].MaxLoad, []float64{2, 2, 0}) {
		t.Errorf("below the limit there are %d dimensions, and the limits %v", len(well.Dimensions), well.Nodes[0].MaxLoad)
	}
	ill := lossOf(t, shards("0.7", "0.7"), nil).Problem // 2.1 of 4
	domains, _ := ill.Domains()
	if len(ill.Dimensions) != 4 || ill.Dimensions[3].Name != "search_after_loss" || !slices.Equal(ill.Nodes[0].MaxLoad, []float64{2, 2, 0, 0}) {
		t.Fatalf("above the limit there are the dimensions %+v, and the limits %v", ill.Dimensions, ill.Nodes[0].MaxLoad)
	}
	begins := domains[0].Mean[3] * (ill.Objective.Phi.Points[0] + ill.Dimensions[3].Shift)
	if want := 0.5 - lossMargin*domains[0].Mean[3]; math.Abs(begins-want) > 1e-12 {
		t.Errorf("the price begins at %g of the capacity, want %g", begins, want)
	}
	for d := range 3 {
		if free := ill.Objective.Phi.Points[0] + ill.Dimensions[d].Shift; free != well.Objective.Phi.Points[0]+well.Dimensions[d].Shift {
			t.Errorf("%s begins at %g of the mean", ill.Dimensions[d].Name, free)
		}
	}
	for c := range ill.Copies {
		if k := &ill.Copies[c]; len(k.Load) != 4 || k.Load[3] != k.Load[0] || k.Load[2] != 1<<30 {
			t.Errorf("copy %d has the loads %v", c, k.Load)
		}
	}
}
