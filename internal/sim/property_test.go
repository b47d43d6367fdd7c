package sim

import (
	"fmt"
	"math"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// inconsistency finds what cannot be so in any cluster; "" where all is well.
func inconsistency(c *Cluster) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	onNodes := map[*node][]*shardCopy{}
	homes := map[*node]int{}
	recovering := map[*shardCopy]bool{}
	for s := range c.allCopies {
		for _, x := range []*shardCopy{s, s.target} {
			if x == nil {
				continue
			}
			if (x.node == nil) != (x.state == unassigned) {
				return fmt.Sprintf("%s is %s with node %v", x.label(), x.state, x.node)
			}
			if x.node != nil {
				if c.nodeByID[x.node.id] != x.node {
					return fmt.Sprintf("%s is on node %s, which is not in the cluster", x.label(), x.node.spec.Name)
				}
				onNodes[x.node] = append(onNodes[x.node], x)
			}
			if (x.rec != nil) != (x.state == initializing) {
				return fmt.Sprintf("%s is %s, recovering: %v", x.label(), x.state, x.rec != nil)
			}
			if x.rec != nil {
				recovering[x] = true
				if done := x.rec.done(c.now); done < 0 || done > x.rec.total || math.IsNaN(done) {
					return fmt.Sprintf("%s has recovered %f of %f bytes", x.label(), done, x.rec.total)
				}
			}
		}
		if (s.state == relocating) != (s.target != nil) || s.target != nil && s.target.source != s {
			return fmt.Sprintf("%s is %s with target %v", s.label(), s.state, s.target)
		}
		if slices.Contains(c.unassigned, s) != (s.state == unassigned) {
			return fmt.Sprintf("%s is %s and the list of unassigned copies does not agree", s.label(), s.state)
		}
		if h := s.home(); h != nil {
			homes[h]++
		}
	}
	if len(recovering) != len(c.recoveries) {
		return fmt.Sprintf("%d copies recover, %d recoveries run", len(recovering), len(c.recoveries))
	}
	for _, idx := range c.indices {
		for _, g := range idx.groups {
			if len(g.copies) != idx.spec.Replicas+1 {
				return fmt.Sprintf("[%s][%d] has %d copies, %d are configured", idx.name, g.num, len(g.copies), idx.spec.Replicas+1)
			}
			primaries, taken, shares := 0, map[*node]bool{}, 0.0
			for _, s := range g.copies {
				shares += s.share
				if s.primary {
					primaries++
				}
				for _, x := range []*shardCopy{s, s.target} {
					if x != nil && x.node != nil {
						if taken[x.node] {
							return fmt.Sprintf("%s: two copies on %s", s.label(), x.node.spec.Name)
						}
						taken[x.node] = true
					}
				}
			}
			if primaries != 1 {
				return fmt.Sprintf("[%s][%d] has %d primaries", idx.name, g.num, primaries)
			}
			if g.serving > 0 && math.Abs(shares-1) > 1e-9 {
				return fmt.Sprintf("[%s][%d]: the copies' shares of the searches add up to %f", idx.name, g.num, shares)
			}
		}
	}
	seen := map[string]bool{}
	for _, n := range c.nodes {
		if seen[n.id] || c.nodeByID[n.id] != n || n.last != nil || c.gone[n.spec.Name] != nil {
			return n.spec.Name + " is in the cluster twice, or also not in it"
		}
		seen[n.id] = true
	}
	if len(seen) != len(c.nodeByID) {
		return fmt.Sprintf("%d nodes, %d ids", len(seen), len(c.nodeByID))
	}
	for _, n := range c.outside {
		if seen[n.id] || n.last == nil || len(n.copies) > 0 || c.gone[n.spec.Name] != nil {
			return n.spec.Name + " is put out, and also not"
		}
		seen[n.id] = true
	}
	if m := c.master; m != nil && (c.nodeByID[m.id] != m || !m.eligible() || len(c.voters)%2 == 0) {
		return fmt.Sprintf("%s leads, %d vote", m.spec.Name, len(c.voters))
	}
	for _, n := range c.nodes {
		if len(n.copies) != len(onNodes[n]) || n.count != homes[n] {
			return fmt.Sprintf("%s counts %d copies, %d to come to rest there; it is %d and %d", n.spec.Name, len(n.copies), n.count, len(onNodes[n]), homes[n])
		}
		in, out, initial, transfers := 0, 0, 0, 0
		for _, r := range c.recoveries {
			if r.to == n {
				transfers++
				if r.kind == peer {
					in++
				} else {
					initial++
				}
			}
			if r.kind == peer && r.from == n {
				out++
				transfers++
			}
		}
		if n.incoming != in || n.outgoing != out || n.initial != initial || n.transfers != transfers {
			return fmt.Sprintf("%s counts %d/%d/%d/%d recoveries, it is %d/%d/%d/%d", n.spec.Name, n.incoming, n.outgoing, n.initial, n.transfers, in, out, initial, transfers)
		}
	}
	return ""
}

// TestAnySequenceOfEvents: whatever commands and mishaps come in whatever order, no shard has two copies on a node, no
// copy is lost, the books agree, the state's version only grows, and a request that is refused or dry changes nothing.
func TestAnySequenceOfEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		product := rapid.SampledFrom([]string{"opensearch 2.19.6", "opensearch 3.9.0", "elasticsearch 7.17.28", "elasticsearch 8.19.0", "elasticsearch 9.5.3"}).Draw(t, "product")
		s, err := ParseScenario("events", strings.NewReader("cluster "+product+` seed=7
			set indices.recovery.max_bytes_per_sec=10mb cluster.info.update.interval=10s
			nodes 5 zones=a,b,c disk=100GB
			index one shards=2 replicas=1 size=4GB search=1
			index two shards=1 replicas=2 size=2GB write=0.2
			series logs shards=1 replicas=1 size=2GB keep=3 search=0.5
			settle`))
		if err != nil {
			t.Fatal(err)
		}
		r := &run{ctx: t.Context(), o: RunOptions{Out: &strings.Builder{}}}
		for _, st := range s.steps {
			if err := st.do(r); err != nil {
				t.Fatal(err)
			}
		}
		c := r.c
		handler := c.Handler()
		names := []string{"n1", "n2", "n3", "n4", "n5"}
		name := func(label string) string { return rapid.SampledFrom(names).Draw(t, label) }
		index := func() string {
			c.mu.RLock()
			defer c.mu.RUnlock()
			all := []string{"nope"}
			for _, idx := range c.indices {
				all = append(all, idx.name)
			}
			return rapid.SampledFrom(all).Draw(t, "index")
		}
		post := func(path, body string) int {
			c.mu.RLock()
			n, halted := c.entry("")
			c.mu.RUnlock()
			if n == nil && halted {
				return 0 // nobody would ever answer
			}
			rec := httptest.NewRecorder()
			handler.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), "POST", path, strings.NewReader(body)))
			return rec.Code
		}
		move := func() string {
			return fmt.Sprintf(`{"move":{"index":%q,"shard":%d,"from_node":%q,"to_node":%q}}`, index(), rapid.IntRange(0, 2).Draw(t, "shard"), name("from"), name("to"))
		}
		version, docs := c.Version(), 0.0
		settings := []map[string]string{
			{"cluster.routing.rebalance.enable": "none"},
			{"cluster.routing.rebalance.enable": ""},
			{"cluster.routing.allocation.enable": "none"},
			{"cluster.routing.allocation.enable": ""},
			{"cluster.routing.allocation.exclude._name": "n2"},
			{"cluster.routing.allocation.exclude._name": ""},
			{"cluster.routing.allocation.awareness.attributes": "zone", "cluster.routing.allocation.awareness.force.zone.values": "a,b,c"},
			{"cluster.routing.allocation.awareness.attributes": ""},
			{"indices.recovery.max_bytes_per_sec": "1mb"},
			{"cluster.routing.allocation.total_shards_per_node": "4"},
			{"cluster.routing.allocation.total_shards_per_node": ""},
			{"cluster.routing.use_adaptive_replica_selection": "false"},
		}
		t.Repeat(map[string]func(*rapid.T){
			"move": func(*rapid.T) {
				post("/_cluster/reroute?explain=true&metric=none", `{"commands":[`+move()+","+move()+`]}`)
			},
			"move, all or nothing": func(t *rapid.T) {
				before, now := c.Version(), c.Now()
				if code := post("/_cluster/reroute?metric=none", `{"commands":[`+move()+","+move()+`]}`); code != 200 && c.Version() != before && c.Now().Equal(now) {
					t.Fatalf("a request refused with %d has changed the state", code)
				}
			},
			"dry run": func(t *rapid.T) {
				before, now := c.Version(), c.Now()
				post("/_cluster/reroute?dry_run=true&explain=true&metric=none", `{"commands":[`+move()+","+move()+`]}`)
				if c.Version() != before && c.Now().Equal(now) { // it waits for a halted master, and others do not
					t.Fatal("a dry run has changed the state")
				}
			},
			"cancel": func(t *rapid.T) {
				post("/_cluster/reroute?explain=true&metric=none", fmt.Sprintf(`{"commands":[{"cancel":{"index":%q,"shard":0,"node":%q,"allow_primary":%v}}]}`,
					index(), name("node"), rapid.Bool().Draw(t, "allow")))
			},
			"time": func(t *rapid.T) {
				c.Advance(time.Duration(rapid.IntRange(1, 4000).Draw(t, "seconds")) * time.Second)
			},
			"kill":    func(*rapid.T) { c.Kill(name("node")) },
			"start":   func(*rapid.T) { c.Restart(name("node")) },
			"setting": func(t *rapid.T) { c.SetPersistent(rapid.SampledFrom(settings).Draw(t, "setting")) },
			"replicas": func(t *rapid.T) {
				c.SetIndex(index(), map[string]string{"index.number_of_replicas": fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "replicas"))})
			},
			"delete":   func(*rapid.T) { c.DeleteIndex("two") },
			"create":   func(*rapid.T) { c.AddIndex(IndexSpec{Name: "two", Replicas: 1, Bytes: 1e9, Write: 0.1}) },
			"rollover": func(*rapid.T) { c.Rollover("logs") },
			"fill":     func(t *rapid.T) { c.FillDisk(name("node"), int64(rapid.IntRange(-50, 90).Draw(t, "GB"))*1e9) },
			"master":   func(*rapid.T) { c.ChangeMaster() },
			"freeze":   func(*rapid.T) { c.Freeze(name("node"), true) },
			"thaw":     func(*rapid.T) { c.Freeze(name("node"), false) },
			"weights": func(t *rapid.T) {
				values := map[string]float64{}
				for _, z := range []string{"a", "b", "c"} {
					values[z] = float64(rapid.IntRange(0, 2).Draw(t, "weight"))
				}
				c.SetWeights("zone", values)
			},
			"decommission": func(t *rapid.T) {
				c.Decommission("zone", rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "zone"), time.Duration(rapid.IntRange(0, 3).Draw(t, "minutes"))*time.Minute)
			},
			"recommission": func(*rapid.T) { c.Recommission() },
			"snapshot":     func(*rapid.T) { c.Snapshot("s", time.Minute, "one") },
			"retry":        func(*rapid.T) { post("/_cluster/reroute?retry_failed=true&metric=none", "") },
			"": func(t *rapid.T) {
				if why := inconsistency(c); why != "" {
					t.Fatal(why)
				}
				if v := c.Version(); v < version {
					t.Fatalf("the state's version fell from %d to %d", version, v)
				} else {
					version = v
				}
				c.mu.RLock()
				defer c.mu.RUnlock()
				if idx := c.find("one"); idx != nil {
					now := 0.0
					for _, g := range idx.groups {
						now += c.docsNow(g)
					}
					if now < docs {
						t.Fatalf("documents went from %f to %f", docs, now)
					}
					docs = now
				}
			},
		})
	})
}

// TestCountersOnlyGrow: a copy's counters never fall while it stays where it is, however noisy the traffic, and what a
// group counts in the long run is its rate, whoever served it.
func TestCountersOnlyGrow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := New(Config{Seed: rapid.Uint64().Draw(t, "seed"), Noise: 0.3})
		for range 3 {
			c.AddNode(NodeSpec{})
		}
		replicas := rapid.IntRange(0, 2).Draw(t, "replicas")
		c.AddIndex(IndexSpec{Name: "i", Replicas: replicas, Bytes: 1e9, Search: 2, Write: 0.5})
		c.Settle()
		c.ResetCounters("i")
		g := c.find("i").groups[0]
		last := make([]totals, len(g.copies))
		for range 50 {
			c.Advance(time.Duration(rapid.IntRange(1, 100_000).Draw(t, "ms")) * time.Millisecond)
			if rapid.Bool().Draw(t, "settle") {
				c.SetHeat("i", 1, 1)
			}
			for i, s := range g.copies {
				now := c.totalsOf(s)
				if now.search < last[i].search || now.queries < last[i].queries || now.docs < last[i].docs || now.write < last[i].write {
					t.Fatalf("counters fell: %+v, %+v", last[i], now)
				}
				last[i] = now
			}
		}
		sum := 0.0
		for _, x := range last {
			sum += x.search
		}
		if want := 2 * c.now.Seconds(); math.Abs(sum-want) > 0.3*2*75/math.Pi+1e-6 {
			t.Fatalf("the copies counted %f busy seconds, the rate says %f", sum, want)
		}
	})
}
