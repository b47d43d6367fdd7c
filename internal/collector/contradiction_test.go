package collector

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/es"
	"github.com/shardonnay/shardonnay/internal/sim"
)

// Requests by path, for the moment at which something happens.
const (
	rootPath     = "/"
	nodesPath    = "/_nodes/os,*"
	statePath    = "/_cluster/state/version,nodes,*"
	settingsPath = "/_cluster/settings"
	indexPath    = "/_all/_settings/*"
	streamPath   = "/_data_stream*"
	aliasPath    = "/_alias"
	healthPath   = "/_cluster/health"
	snapPath     = "/_snapshot/_status"
	statsPath    = "/_nodes/*/stats/*"
	versionPath  = "/_cluster/state/version"
)

func small(t *testing.T, o Options) *lab {
	return newLab(t, sim.Config{Seed: 3}, 4, o,
		sim.IndexSpec{Name: "a", Shards: 2, Replicas: 1, Bytes: 4 << 30, Search: 0.4, Write: 0.1},
		sim.IndexSpec{Name: "b", Shards: 1, Replicas: 1, Bytes: 1 << 30, Search: 0.1},
		sim.IndexSpec{Name: "c", Shards: 3, Replicas: 0, Bytes: 1 << 30},
	)
}

// TestWhatHappensMeanwhile lets something happen in the cluster just before one of a collection's reads is answered.
func TestWhatHappensMeanwhile(t *testing.T) {
	refused := func(reason Reason, words ...string) func(*testing.T, *cluster.Snapshot, error) {
		return func(t *testing.T, _ *cluster.Snapshot, err error) {
			t.Helper()
			if err == nil {
				t.Fatal("there is a snapshot")
			}
			if cluster.ClassOf(err) != cluster.Incomplete || ReasonOf(err) != reason {
				t.Errorf("class %s, reason %q, want %q: %v", cluster.ClassOf(err), ReasonOf(err), reason, err)
			}
			for _, word := range words {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q is not in: %v", word, err)
				}
			}
			t.Log(err)
		}
	}
	accepted := func(check func(*testing.T, *cluster.Snapshot)) func(*testing.T, *cluster.Snapshot, error) {
		return func(t *testing.T, s *cluster.Snapshot, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			check(t, s)
			t.Logf("%q", s.Warnings)
		}
	}
	busy := func(names ...string) func(*testing.T, *cluster.Snapshot, error) {
		return accepted(func(t *testing.T, s *cluster.Snapshot) {
			for i := range s.Indices {
				want := ""
				for _, name := range names {
					if s.Indices[i].Name == name {
						want = busyChanging
					}
				}
				if s.Indices[i].Busy != want {
					t.Errorf("index %s is %q, want %q", s.Indices[i].Name, s.Indices[i].Busy, want)
				}
			}
		})
	}
	for _, test := range []struct {
		name   string
		before string // the request
		then   func(*sim.Cluster)
		check  func(*testing.T, *cluster.Snapshot, error)
	}{
		{
			"nothing", statsPath, func(*sim.Cluster) {},
			accepted(func(t *testing.T, s *cluster.Snapshot) {
				if len(s.Warnings) != 0 || len(s.Copies) != 9 {
					t.Errorf("%d copies, warnings %q", len(s.Copies), s.Warnings)
				}
			}),
		},
		{
			"a node hangs", statsPath, func(c *sim.Cluster) { c.Mute("n2", true) },
			refused(NodeFailed, "node n2", "did not give its statistics", "Look at the node"),
		},
		{
			"a node dies before its statistics", statsPath, func(c *sim.Cluster) { c.Kill("n2") },
			refused(NodeChanged, "node n2", "has probably just left"),
		},
		{
			"a node joins before the state is read", statePath,
			func(c *sim.Cluster) { _, _ = c.AddNode(sim.NodeSpec{Name: "late"}) },
			refused(NodeChanged, "node late", "joined or left"),
		},
		{
			"a node joins after the state was read", indexPath,
			func(c *sim.Cluster) { _, _ = c.AddNode(sim.NodeSpec{Name: "late"}) },
			accepted(func(t *testing.T, s *cluster.Snapshot) {
				if len(s.Nodes) != 4 {
					t.Errorf("%d nodes", len(s.Nodes))
				}
			}),
		},
		{
			"an index is deleted before its settings are read", indexPath, func(c *sim.Cluster) { c.DeleteIndex("b") },
			accepted(func(t *testing.T, s *cluster.Snapshot) {
				if s.IndexAt("b") != cluster.None || len(s.Copies) != 7 || len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], "Index b was deleted") {
					t.Errorf("%d copies, warnings %q", len(s.Copies), s.Warnings)
				}
			}),
		},
		{"an index is deleted before its statistics are read", statsPath, func(c *sim.Cluster) { c.DeleteIndex("b") }, busy("b")},
		{
			"an index is made after the state was read", indexPath,
			func(c *sim.Cluster) { _ = c.AddIndex(sim.IndexSpec{Name: "new", Shards: 2}) }, busy(),
		},
		{
			"replicas are added after the state was read", indexPath,
			func(c *sim.Cluster) { _ = c.SetIndex("c", map[string]string{"index.number_of_replicas": "1"}) }, busy("c"),
		},
		{
			"the state runs away", statsPath,
			func(c *sim.Cluster) {
				for range 60 {
					_ = c.SetPersistent(map[string]string{"cluster.info.update.interval": "31s"})
					_ = c.SetPersistent(map[string]string{"cluster.info.update.interval": "30s"})
				}
			},
			refused(StateMoved, "the cluster state went from version", "quieter"),
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := small(t, Options{MaxStateMoves: 50})
			l.cycles(2)
			l.Advance(time.Minute)
			l.Inject(sim.Fault{Kind: sim.FaultAct, Path: test.before, Count: 1, Then: test.then})
			s, err := l.Collect(context.Background())
			test.check(t, s, err)
			// Whatever it was: the next collection is fine, unless what happened lasts.
			l.Mute("n2", false)
			l.Advance(10 * time.Minute)
			if s = l.collect(); s.Samples != 2 {
				t.Errorf("afterwards %d samples", s.Samples)
			}
		})
	}
}

// TestMovedMeanwhile lets a relocation land between the routing table and the statistics.
func TestMovedMeanwhile(t *testing.T) {
	l := small(t, Options{})
	s := l.cycles(2)
	from, to, moved := freeMove(t, s, "b")
	if _, err := l.client.Reroute(context.Background(), s.Cluster.Product, []es.Move{{Index: "b", Shard: int(s.Copies[moved].Shard), From: from, To: to}}); err != nil {
		t.Fatal(err)
	}
	l.Inject(sim.Fault{Kind: sim.FaultAct, Path: statsPath, Count: 1, Then: func(c *sim.Cluster) { c.Advance(10 * time.Minute) }})
	s = l.collect()
	if x := s.Indices[s.IndexAt("b")]; x.Busy != busyChanging {
		t.Errorf("index %+v", x)
	}
	s = l.cycles(1)
	if x := s.Indices[s.IndexAt("b")]; x.Busy != "" {
		t.Errorf("index %+v", x)
	}
}

// freeMove finds a copy of the index that can go to a node without a copy of its shard.
func freeMove(t *testing.T, s *cluster.Snapshot, index string) (from, to cluster.NodeID, at int) {
	t.Helper()
	x := s.IndexAt(index)
	for i := range s.Copies {
		if int(s.Copies[i].Index) != x || s.Copies[i].Primary && s.Indices[x].Replicas > 0 {
			continue
		}
		taken := map[int32]bool{}
		for j := range s.Copies {
			if s.Copies[j].Key() == s.Copies[i].Key() {
				taken[s.Copies[j].Node] = true
			}
		}
		for n := range s.Nodes {
			if !taken[int32(n)] {
				return s.Nodes[s.Copies[i].Node].ID, s.Nodes[n].ID, i
			}
		}
	}
	t.Fatalf("no copy of %s can move", index)
	return
}

// TestBrokenAnswers spoils each answer in each way: no snapshot, a class, the request named, and nothing learned.
func TestBrokenAnswers(t *testing.T) {
	paths := []string{rootPath, nodesPath, statePath, settingsPath, indexPath, streamPath, aliasPath, healthPath, snapPath, statsPath, versionPath}
	l := small(t, Options{})
	l.cycles(2)
	for _, path := range paths {
		for _, fault := range []struct {
			sim.Fault
			class cluster.Class
		}{
			{sim.Fault{Kind: sim.FaultCut}, cluster.Incomplete},
			{sim.Fault{Kind: sim.FaultGarbage}, cluster.Incomplete},
			{sim.Fault{Kind: sim.FaultHTML}, cluster.Unavailable},
			{sim.Fault{Kind: sim.FaultStatus, Status: 429}, cluster.Unavailable},
			{sim.Fault{Kind: sim.FaultStatus, Status: 503}, cluster.Unavailable},
			{sim.Fault{Kind: sim.FaultLost}, cluster.Unavailable},
		} {
			// Until it is taken off: where a connection that was used before closes without an answer, a read may
			// rightly be sent again at once on a new one.
			fault.Path = path
			l.Inject(fault.Fault)
			l.Advance(time.Minute)
			_, err := l.Collect(context.Background())
			l.ClearFaults()
			if err == nil {
				t.Errorf("%s %s %d: there is a snapshot", path, fault.Kind, fault.Status)
				continue
			}
			got := cluster.ClassOf(err)
			if fault.Kind == sim.FaultCut && got == cluster.Unavailable {
				continue // so little of it that not even its head arrived
			}
			if got != fault.class {
				t.Errorf("%s %s %d: class %s, want %s: %v", path, fault.Kind, fault.Status, got, fault.class, err)
			}
			if fault.class == cluster.Incomplete && ReasonOf(err) != Unreadable {
				t.Errorf("%s %s: reason %q", path, fault.Kind, ReasonOf(err))
			}
			if start, _, _ := strings.Cut(path, "*"); !strings.Contains(err.Error(), strings.TrimSuffix(start, "os,")) {
				t.Errorf("%s %s: the request is not named: %v", path, fault.Kind, err)
			}
		}
	}
	if s := l.cycles(1); s.Samples != 2 || len(s.Warnings) != 0 {
		t.Errorf("afterwards %d samples, warnings %q", s.Samples, s.Warnings)
	}
}

// TestForbiddenExtras shows what a user with few privileges gets: what is not needed is a warning, what is, an error that
// names the privilege.
func TestForbiddenExtras(t *testing.T) {
	for path, warning := range map[string]string{
		streamPath: "Data streams are told by the names", aliasPath: "Which index an alias writes to", snapPath: "Moves may break snapshots",
		healthPath: "own view of its health", settingsPath: "", indexPath: "", statsPath: "", statePath: "",
	} {
		l := small(t, Options{})
		l.Inject(sim.Fault{Kind: sim.FaultStatus, Status: 403, Path: path})
		s, err := l.Collect(context.Background())
		if warning == "" {
			if cluster.ClassOf(err) != cluster.Refused || !strings.Contains(err.Error(), "Give the user the privilege") {
				t.Errorf("%s: %v", path, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if !strings.Contains(strings.Join(s.Warnings, "\n"), warning) {
			t.Errorf("%s: warnings %q", path, s.Warnings)
		}
		if s.Health.Status != "green" {
			t.Errorf("%s: health %+v", path, s.Health)
		}
	}
}

// TestRedAndHeadless: a red cluster is a snapshot that says so; a cluster without a master is none.
func TestRedAndHeadless(t *testing.T) {
	l := small(t, Options{})
	s := l.cycles(2)
	var victim string
	for i := range s.Copies {
		if s.Indices[s.Copies[i].Index].Name == "c" {
			victim = s.Nodes[s.Copies[i].Node].Name
		}
	}
	l.Kill(victim)
	l.Advance(10 * time.Second)
	s = l.collect()
	if s.Health.Status != "red" || s.Health.Unassigned == 0 || len(s.Nodes) != 3 {
		t.Errorf("health %+v, %d nodes", s.Health, len(s.Nodes))
	}
	unassigned := 0
	for i := range s.Copies {
		if s.Copies[i].State == cluster.Unassigned {
			unassigned++
			if s.Copies[i].Node != cluster.None || s.Copies[i].Load[2] != 0 && s.Copies[i].Bytes == 0 {
				t.Errorf("unassigned copy %+v", s.Copies[i])
			}
		}
	}
	if unassigned != s.Health.Unassigned {
		t.Errorf("%d copies are unassigned, health says %d", unassigned, s.Health.Unassigned)
	}
	l.ChangeMaster()
	_, err := l.Collect(context.Background())
	if cluster.ClassOf(err) != cluster.Unavailable || !strings.Contains(err.Error(), "master") {
		t.Errorf("without a master: %v", err)
	}
	l.Advance(time.Minute)
	l.collect()
}

func TestLeaving(t *testing.T) {
	l := newLab(t, sim.Config{Distribution: sim.Elasticsearch, Version: "8.19.0", Seed: 3}, 4, Options{}, sim.IndexSpec{Name: "a", Shards: 2, Replicas: 1})
	l.Shutdown("n0", "REMOVE")
	l.Shutdown("n1", "RESTART")
	if err := l.SetPersistent(map[string]string{"cluster.routing.allocation.exclude._name": "n2,zz*"}); err != nil {
		t.Fatal(err)
	}
	s := l.collect()
	want := map[string]string{"n0": "shutdown REMOVE", "n1": "", "n2": "cluster.routing.allocation.exclude", "n3": ""}
	for _, n := range s.Nodes {
		if n.Leaving != want[n.Name] {
			t.Errorf("%s is leaving for %q, want %q", n.Name, n.Leaving, want[n.Name])
		}
	}
	if s.Health.ShutdownMarked != 2 {
		t.Errorf("%d nodes are marked", s.Health.ShutdownMarked)
	}
}

func TestSnapshotting(t *testing.T) {
	l := small(t, Options{})
	l.Snapshot("nightly", time.Hour, "b")
	s := l.collect()
	for i := range s.Copies {
		c := &s.Copies[i]
		if want := s.Indices[c.Index].Name == "b" && c.Primary; c.Snapshotting != want {
			t.Errorf("copy of %s: %+v", s.Indices[c.Index].Name, c)
		}
	}
}
