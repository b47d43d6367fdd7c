package collector

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/es"
	"github.com/shardonnay/shardonnay/internal/sim"
)

// TestContradictions changes one thing in the answers of a cluster in which nothing else changed.
func TestContradictions(t *testing.T) {
	l := newLab(t, sim.Config{Seed: 3}, 4, Options{},
		sim.IndexSpec{Name: "a", Shards: 2, Replicas: 1, Bytes: 4 << 30, Search: 0.4},
		sim.IndexSpec{Name: ".sys", Shards: 1, Replicas: 1, Bytes: 1 << 30, Search: 0.1, Hidden: true},
		sim.IndexSpec{Name: "shut", Shards: 1, Replicas: 0, Bytes: 1 << 30, Closed: true},
	)
	l.Advance(time.Minute)
	o, err := l.o.complete()
	if err != nil {
		t.Fatal(err)
	}
	withoutStats := func(index string) func(*answers) {
		return func(a *answers) {
			for i := range a.stats.Nodes {
				a.stats.Nodes[i].Shards = slices.DeleteFunc(a.stats.Nodes[i].Shards, func(s es.ShardStats) bool { return s.Index == index })
			}
		}
	}
	withoutSettings := func(index string) func(*answers) {
		return func(a *answers) {
			a.indices = slices.DeleteFunc(a.indices, func(s es.IndexSettings) bool { return s.Index == index })
		}
	}
	both := func(f, g func(*answers)) func(*answers) { return func(a *answers) { f(a); g(a) } }
	first := func(a *answers, index string) *es.RoutingCopy {
		for i := range a.routing.Copies {
			if a.routing.Copies[i].Index == index {
				return &a.routing.Copies[i]
			}
		}
		t.Fatalf("no copy of %s", index)
		return nil
	}
	for _, test := range []struct {
		name   string
		change func(*answers)
		reason Reason // empty: a snapshot
		words  string // of the error, or of the only warning
		busy   map[string]string
	}{
		{"nothing", func(*answers) {}, "", "", nil},
		{"two clusters behind one address", func(a *answers) { a.routing.ClusterUUID = "other" }, TwoClusters, "two clusters", nil},
		{"a copy on a node nobody knows", func(a *answers) { first(a, "a").Node = "ghost" }, UnknownNode, "shard a/0: a copy of it is STARTED on node ghost", nil},
		{
			"a copy on its way to a node nobody knows",
			func(a *answers) { first(a, "a").State, first(a, "a").Target = cluster.Relocating, "ghost" }, UnknownNode, "RELOCATING on node ghost", nil,
		},
		{"a started copy on no node", func(a *answers) { first(a, "a").Node = "" }, UnknownNode, "STARTED on no node", nil},
		{"a copy too few", func(a *answers) {
			a.routing.Copies = slices.DeleteFunc(a.routing.Copies, func(c es.RoutingCopy) bool { return c == *first(a, "a") })
		}, CopiesOdd, "index a: shard 0 has", nil},
		{"two primaries", func(a *answers) {
			for i := range a.routing.Copies {
				a.routing.Copies[i].Primary = true
			}
		}, CopiesOdd, "has 2 primaries", nil},
		{"a shard too few", func(a *answers) {
			for i := range a.indices {
				a.indices[i].Shards++
			}
		}, CopiesOdd, "shards have copies, the index has", nil},
		{"a shard missing in the middle", func(a *answers) {
			a.routing.Copies = slices.DeleteFunc(a.routing.Copies, func(c es.RoutingCopy) bool { return c.Index == "a" && c.Shard == 0 })
		}, CopiesOdd, "index a: shard 0 is missing", nil},
		{"no statistics of an index", withoutStats("a"), CopyUnseen, "shard a/0: its copy on node n", nil},
		{"neither statistics nor settings of an index", both(withoutStats("a"), withoutSettings("a")), CopiesOdd, "neither settings nor statistics", nil},
		{"nodes that failed without a name", func(a *answers) { a.stats.Missing = 2 }, NodeFailed, "2 nodes did not give", nil},
		{"a node that is simply missing", func(a *answers) { a.stats.Nodes = a.stats.Nodes[1:] }, NodeFailed, "it gave no statistics", nil},

		{"statistics of a system index kept from us", withoutStats(".sys"), "", "The statistics of index .sys cannot be read", nil},
		{"settings of a system index kept from us", withoutSettings(".sys"), "", "The settings of index .sys cannot be read", map[string]string{".sys": busyUnreadable}},
		{"settings of an index kept from us", withoutSettings("a"), "", "The settings of index a cannot be read", map[string]string{"a": busyUnreadable}},
		{"statistics of a closed index missing, as in old bundles", withoutStats("shut"), "", "The statistics of index shut cannot be read", nil},
		{"a restore", func(a *answers) { first(a, "a").RecoverySource = "SNAPSHOT" }, "", "", map[string]string{"a": busyRestore}},
		{"a shrink", func(a *answers) {
			first(a, "a").RecoverySource = "LOCAL_SHARDS"
			for i := range a.indices {
				if a.indices[i].Index == "a" {
					a.indices[i].ResizeSource = ".sys"
				}
			}
		}, "", "", map[string]string{"a": busyShrink, ".sys": busyShrink}},
		{"copies called together for a shrink", func(a *answers) {
			for i := range a.indices {
				if a.indices[i].Index == "a" {
					a.indices[i].Filter.Require = map[string][]string{"_id": {"x"}}
				}
			}
		}, "", "", map[string]string{"a": busyShrink}},
		{"a state without its nodes", func(a *answers) { a.routing.Nodes = nil; a.completeNodes() }, "", "", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			a, err := gather(t.Context(), live{l.client, &o}, &o)
			if err != nil {
				t.Fatal(err)
			}
			test.change(a)
			p, err := assemble(a, &o)
			if test.reason != "" {
				if ReasonOf(err) != test.reason || cluster.ExitCode(err) != 4 || !strings.Contains(err.Error(), test.words) {
					t.Errorf("reason %q: %v", ReasonOf(err), err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			r := newRates(&o)
			r.learn(p)
			s := r.estimate(p)
			warnings := slices.DeleteFunc(s.Warnings, func(w string) bool {
				return strings.HasPrefix(w, "There is one sample") || strings.HasPrefix(w, "The rates of")
			})
			if len(warnings) > 1 || (test.words != "") != (len(warnings) == 1) || len(warnings) == 1 && !strings.Contains(warnings[0], test.words) {
				t.Errorf("warnings %q, want %q", warnings, test.words)
			}
			if len(s.Copies) != 7 {
				t.Errorf("%d copies", len(s.Copies))
			}
			for i := range s.Indices {
				x := &s.Indices[i]
				if x.Busy != test.busy[x.Name] || x.Shards == 0 {
					t.Errorf("index %+v", x)
				}
			}
		})
	}
}

// TestBaseOfHiddenWork: what a node does for copies whose statistics are kept from us is its base load.
func TestBaseOfHiddenWork(t *testing.T) {
	l := newLab(t, sim.Config{Seed: 3, Noise: -1}, 2, Options{},
		sim.IndexSpec{Name: "a", Shards: 2, Replicas: 1, Bytes: 1 << 30, Search: 0.4, Write: 0.1},
		sim.IndexSpec{Name: ".sys", Shards: 1, Replicas: 1, Bytes: 1 << 30, Search: 0.6, Write: 0.2, Hidden: true})
	o, err := l.o.complete()
	if err != nil {
		t.Fatal(err)
	}
	r := newRates(&o)
	var s *cluster.Snapshot
	for range 5 {
		l.Advance(time.Minute)
		a, err := gather(t.Context(), live{l.client, &o}, &o)
		if err != nil {
			t.Fatal(err)
		}
		for i := range a.stats.Nodes {
			a.stats.Nodes[i].Shards = slices.DeleteFunc(a.stats.Nodes[i].Shards, func(s es.ShardStats) bool { return s.Index == ".sys" })
		}
		p, err := assemble(a, &o)
		if err != nil {
			t.Fatal(err)
		}
		r.learn(p)
		s = r.estimate(p)
	}
	near(t, "search beside the copies", s.Nodes[0].Base[0]+s.Nodes[1].Base[0], 0.6, 0.02)
	near(t, "indexing beside the copies", s.Nodes[0].Base[1]+s.Nodes[1].Base[1], 0.4, 0.02)
}
