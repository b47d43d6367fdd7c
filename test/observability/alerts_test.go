package observability

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/shardonnay/shardonnay/internal/sim"
	"github.com/shardonnay/shardonnay/internal/zones"
)

// story is a fault that is planted and the alerts that have to come of it.
type story struct {
	fires    []string
	settings settings                      // what differs from hasty
	cluster  func(*testing.T) *sim.Cluster // lopsided where nil
	after    string                        // expression that holds before the fault is planted; %q is the story's job
	plant    func(*testing.T, *scene)      // nil where the cluster itself is the fault
}

// scene is a simulated cluster with a daemon before it.
type scene struct {
	prometheus *server
	cluster    *sim.Cluster
	daemon     *process
	config     string // file
	state      string // folder
}

// fill leaves the daemon no room on its disk: none of its files grows beyond what the journal of the zones is long.
func (s *scene) fill(t *testing.T) {
	t.Helper()
	journal, err := os.Stat(filepath.Join(s.state, "zones.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	limit := exec.Command("prlimit", "--pid", strconv.Itoa(s.daemon.cmd.Process.Pid), fmt.Sprintf("--fsize=%d:", journal.Size()))
	if out, err := limit.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", limit, err, out)
	}
}

// lopsided is a cluster of three nodes of which one holds all the load.
func lopsided(t *testing.T) *sim.Cluster {
	t.Helper()
	var indices []index
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		indices = append(indices, index{name, 1, 0.4, 1 << 30})
	}
	return build(t, 3, 1<<40, indices)
}

// tight is a cluster of six nodes with full disks and all the load on two of them: it takes chains of exchanges to even it
// out, and more than a moment to find them.
func tight(t *testing.T) *sim.Cluster {
	t.Helper()
	var indices []index
	for i := range 120 {
		heat := 0.01
		if i < 40 {
			heat = 0.05 + 0.01*float64(i*7%20)
		}
		indices = append(indices, index{fmt.Sprintf("i%03d", i), 1 + i/20, heat, 10<<30 + int64(i*37%11)<<26})
	}
	return build(t, 6, 245<<30, indices)
}

// index is one of a single shard, on the node of a number, with the busy seconds per second that searching it takes.
type index struct {
	name   string
	node   int
	search float64
	bytes  int64
}

// build is a cluster of nodes n1, n2 and so on, each with a disk of so many bytes, that holds the indices where they are
// said to be.
func build(t *testing.T, nodes int, disk int64, indices []index) *sim.Cluster {
	t.Helper()
	c := sim.New(sim.Config{Name: t.Name(), Seed: uint64(len(t.Name())), Noise: -1, Settings: map[string]string{"cluster.routing.rebalance.enable": "none"}})
	for n := range nodes {
		if _, err := c.AddNode(sim.NodeSpec{Name: fmt.Sprintf("n%d", n+1), Processors: 4, Disk: disk}); err != nil {
			t.Fatal(err)
		}
	}
	const filter = "index.routing.allocation.include._name"
	for _, i := range indices {
		spec := sim.IndexSpec{
			Name: i.name, Bytes: i.bytes, Search: i.search, Age: 48 * time.Hour, Settings: map[string]string{filter: fmt.Sprintf("n%d", i.node)},
		}
		if err := c.AddIndex(spec); err != nil {
			t.Fatal(err)
		}
	}
	if left := c.Settle(); left > 0 {
		t.Fatalf("%d copies have no place", left)
	}
	for _, i := range indices {
		if err := c.SetIndex(i.name, map[string]string{filter: ""}); err != nil {
			t.Fatal(err)
		}
	}
	c.Advance(24 * time.Hour)
	return c
}

func set(t *testing.T, c *sim.Cluster, key, value string) {
	t.Helper()
	if err := c.SetPersistent(map[string]string{key: value}); err != nil {
		t.Fatal(err)
	}
}

func inject(f sim.Fault) func(*testing.T, *scene) {
	return func(_ *testing.T, s *scene) { s.cluster.Inject(f) }
}

// cycled holds once a cycle has ended, ours once rebalancing was taken over.
const (
	cycled = `shardonnay_last_cycle_timestamp_seconds{job=%q}`
	ours   = `shardonnay_ownership{job=%q,state="us"} == 1`
)

// inRole holds once two zones serve and one stands by.
const inRole = `shardonnay_zone_phase{job=%q,phase="steady"} == 1`

// watched is a section for zones that are looked at every second.
func watched(values settings) settings {
	return settings{"mode": "act", "round": "1s", "rotation": "0s"}.with(values)
}

// threeZones is a cluster of zones a, b and c with so many nodes each, and a copy of everything in every zone. What it is
// searched for is sixty times as much on the wall, where the controller compares it with processors.
func threeZones(t *testing.T, nodes int) *sim.Cluster {
	t.Helper()
	c := sim.New(sim.Config{Name: t.Name(), Seed: 7, Noise: -1, Settings: map[string]string{
		"cluster.routing.allocation.awareness.attributes": "zone", "cluster.routing.allocation.awareness.force.zone.values": "a,b,c",
	}})
	for n := range 3 * nodes {
		zone := string(rune('a' + n%3))
		spec := sim.NodeSpec{Name: fmt.Sprintf("%s%d", zone, 1+n/3), Processors: 4, Disk: 1 << 40, Attributes: map[string]string{"zone": zone}}
		if _, err := c.AddNode(spec); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.AddIndex(sim.IndexSpec{Name: "logs", Shards: 3, Replicas: 2, Bytes: 3 << 30, Search: 0.05, Age: 48 * time.Hour}); err != nil {
		t.Fatal(err)
	}
	if left := c.Settle(); left > 0 {
		t.Fatalf("%d copies have no place", left)
	}
	c.Advance(24 * time.Hour)
	return c
}

func kill(t *testing.T, c *sim.Cluster, names ...string) {
	t.Helper()
	for _, name := range names {
		if !c.Kill(name) {
			t.Errorf("there is no node %s", name)
		}
	}
}

func asText(t *testing.T, value any) string {
	t.Helper()
	content, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// takeOut gives the order to take zone b out.
func takeOut(t *testing.T, s *scene) {
	set(t, s.cluster, zones.OrderKey, asText(t, zones.Order{ID: t.Name(), Verb: zones.OrderOut, Zone: "b", By: "a person", At: time.Now()}))
}

var stories = map[string]story{
	"the daemon is killed": {
		fires: []string{"ShardonnayDown"}, settings: settings{"mode": "observe"}, after: cycled,
		plant: func(_ *testing.T, s *scene) { s.daemon.end(syscall.SIGKILL) },
	},
	// Giving back has ten seconds of its own, more than is normal for the hasty loop as a whole.
	"the cluster answers no more, and takes its time over it, when rebalancing is to be given back": {
		fires: []string{"ShardonnayLoopStalled"}, after: ours,
		settings: settings{"cycle.time_limit": "1s", "cycle.deadline": "1s", "limits.max_moves_per_cycle": 1},
		plant: func(t *testing.T, s *scene) {
			s.cluster.Inject(sim.Fault{Kind: sim.FaultSlow, Path: "/_cluster/settings*", Delay: 50 * time.Second})
			before, err := os.ReadFile(s.config)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(s.config, bytes.Replace(before, []byte("mode: act"), []byte("mode: dry-run"), 1), 0o600); err != nil {
				t.Fatal(err)
			}
		},
	},
	"the user may nothing any more": {
		fires: []string{"ShardonnayCyclesFailing", "ShardonnayRequestsFailing"}, settings: settings{"mode": "dry-run"}, after: cycled,
		plant: inject(sim.Fault{Kind: sim.FaultStatus, Status: 403}),
	},
	"a node does not answer": {
		fires: []string{"ShardonnaySnapshotIncomplete"}, settings: settings{"mode": "dry-run"}, after: cycled,
		plant: func(_ *testing.T, s *scene) { s.cluster.Mute("n2", true) },
	},
	"no node may hold data": {
		fires: []string{"ShardonnayInfeasible"}, settings: settings{"mode": "dry-run"},
		cluster: func(t *testing.T) *sim.Cluster {
			c := sim.New(sim.Config{Name: t.Name()})
			if _, err := c.AddNode(sim.NodeSpec{Name: "m1", Roles: []string{"master"}}); err != nil {
				t.Fatal(err)
			}
			return c
		},
	},
	"the configuration is edited badly": {
		fires: []string{"ShardonnayConfigRefused"}, settings: settings{"mode": "observe"}, after: cycled,
		plant: func(t *testing.T, s *scene) {
			if err := os.WriteFile(s.config, []byte("mode: sideways\n"), 0o600); err != nil {
				t.Error(err)
			}
		},
	},
	"the solver has no time": {
		fires: []string{"ShardonnaySolverShort"}, settings: settings{"mode": "dry-run", "solver.work_limit": 1}, cluster: tight,
	},
	"a person takes rebalancing back": {
		fires: []string{"ShardonnayNotOwner"}, after: ours,
		plant: func(t *testing.T, s *scene) { set(t, s.cluster, "cluster.routing.rebalance.enable", "all") },
	},
	"allocation stays disabled after a restart": {
		fires: []string{"ShardonnayStopped"},
		cluster: func(t *testing.T) *sim.Cluster {
			c := lopsided(t)
			set(t, c, "cluster.routing.allocation.enable", "none")
			return c
		},
	},
	"another tool moves copies back": {
		fires: []string{"ShardonnayPingPong"}, settings: settings{"stop.undone_moves": 0},
	},
	"recoveries fail everywhere": {
		fires: []string{"ShardonnayMovesFailing"},
		cluster: func(t *testing.T) *sim.Cluster {
			c := lopsided(t)
			for _, node := range []string{"n1", "n2", "n3"} {
				c.Break(node, true)
			}
			return c
		},
	},
	// The ownership record keeps two daemons from acting on one cluster, as long as it is one.
	"the cluster has fallen apart into two, with a daemon before each": {
		fires: []string{"ShardonnayTwoOwners"}, after: ours,
		plant: func(t *testing.T, s *scene) {
			half := lopsided(t) // made alike, it has the same name and uuid
			_, url := startBefore(t, half, filepath.Join(t.TempDir(), "shardonnay.yaml"), nil, nil)
			s.prometheus.scrape(t, "the other half", url)
		},
	},
	"a zone is lost": {
		fires:    []string{"ShardonnayZoneImpaired", "ShardonnayZoneFailover", "ShardonnayZoneNoStandby"},
		settings: settings{"mode": "observe", "zones": watched(settings{"clear_after": "1h"})}, after: inRole,
		cluster: func(t *testing.T) *sim.Cluster { return threeZones(t, 2) },
		plant:   func(t *testing.T, s *scene) { kill(t, s.cluster, "a1", "a2") },
	},
	"somebody holds the zones": {
		fires: []string{"ShardonnayZonesHolding"}, settings: settings{"mode": "observe", "zones": watched(nil)}, after: inRole,
		cluster: func(t *testing.T) *sim.Cluster { return threeZones(t, 1) },
		plant: func(t *testing.T, s *scene) {
			set(t, s.cluster, zones.HoldKey, asText(t, zones.Hold{Reason: "work", By: "a person", Since: time.Now()}))
		},
	},
	"an index has no copy in one of the zones": {
		fires:    []string{"ShardonnayZoneStabilityBroken", "ShardonnayZoneRotationBlocked"},
		settings: settings{"mode": "observe", "zones": watched(nil)},
		cluster: func(t *testing.T) *sim.Cluster {
			c := threeZones(t, 1)
			if err := c.AddIndex(sim.IndexSpec{Name: "twice", Replicas: 1, Bytes: 1 << 30, Age: 48 * time.Hour}); err != nil {
				t.Fatal(err)
			}
			c.Settle()
			return c
		},
	},
	"one of three zones with a voter each is taken out": {
		fires: []string{"ShardonnayZoneSingleVoter"}, settings: settings{"mode": "observe", "zones": watched(settings{"drain": "0s"})}, after: inRole,
		cluster: func(t *testing.T) *sim.Cluster { return threeZones(t, 1) },
		plant:   takeOut,
	},
	"the server is long in taking a zone out": {
		fires:    []string{"ShardonnayZoneFenceStuck"},
		settings: settings{"mode": "observe", "zones": watched(settings{"drain": "1h", "drain_by": "server"})}, after: inRole,
		cluster: func(t *testing.T) *sim.Cluster { return threeZones(t, 2) },
		plant:   takeOut,
	},
	// Nothing has to be written when it happens, and nothing will be for hours.
	"the disk with the journal of the zones is full": {
		fires: []string{"ShardonnayZoneJournalStale"}, settings: settings{"mode": "observe", "zones": watched(nil)}, after: inRole,
		cluster: func(t *testing.T) *sim.Cluster { return threeZones(t, 1) },
		plant:   func(t *testing.T, s *scene) { s.fill(t) },
	},
	"the user may no longer look at the zones": {
		fires: []string{"ShardonnayZonesUnwatched"}, settings: settings{"mode": "observe", "zones": watched(nil)}, after: inRole,
		cluster: func(t *testing.T) *sim.Cluster { return threeZones(t, 1) },
		plant:   inject(sim.Fault{Kind: sim.FaultStatus, Status: 403}),
	},
	"the cluster with zones cannot be reached from the start on": {
		fires:    []string{"ShardonnayZonesUnwatched"},
		settings: settings{"connection.addresses": []string{"http://127.0.0.1:1"}, "mode": "observe", "zones": watched(nil)},
	},
	"one shard is all the load": {
		fires:   []string{"ShardonnayNodeHot"},
		cluster: func(t *testing.T) *sim.Cluster { return build(t, 3, 1<<40, []index{{"a", 1, 3, 1 << 30}}) },
	},
}

// Every alert of the rule file is seen to fire in a real Prometheus, with what it is about in its labels. The
// rules are those that are shipped, but for how long each condition has to hold.
func TestAlertsFire(t *testing.T) {
	t.Parallel()
	seen := []string{"ShardonnayAbsent"}
	for _, s := range stories {
		seen = append(seen, s.fires...)
	}
	slices.Sort(seen)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(alerts(t))), slices.Compact(seen)); diff != "" {
		t.Errorf("alerts and stories differ: %s", diff)
	}
	s := startPrometheus(t, hastyRules(t))
	s.awaitAlert(t, "ShardonnayAbsent", "") // nothing is scraped yet
	t.Run("story", func(t *testing.T) {
		for name, story := range stories {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s.play(t, story)
			})
		}
	})
	if firing := s.firing(t, "ShardonnayAbsent", ""); len(firing) > 0 {
		t.Errorf("daemons are scraped, and still %v", firing)
	}
}

// With a second daemon that waits before the same cluster, no alert takes it for a fault, and no dashboard counts what both
// say of the cluster twice.
func TestTwoDaemonsCountOnce(t *testing.T) {
	t.Parallel()
	s := startPrometheus(t, hastyRules(t))
	cluster := lopsided(t)
	served, err := sim.Serve(t.Context(), cluster, sim.Options{Speed: 60})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = served.Close() }) // a simulated cluster has nothing to lose
	var urls []string
	for _, holder := range []string{"one", "two"} {
		config := filepath.Join(t.TempDir(), "shardonnay.yaml")
		hasty(served.URL()).with(settings{"ownership.holder": holder}).write(t, config)
		urls = append(urls, start(t, nil, program, "run", "--config", config).says(t, `"url":"([^"]+)"`))
	}
	s.scrape(t, "pair", urls...)
	s.await(t, `shardonnay_ownership{state="us"} == 1`)
	s.await(t, `shardonnay_ownership{state="other"} == 1`)
	s.await(t, `sum(shardonnay_moves_total{result="landed"}) > 0 and sum(shardonnay_moves_in_flight) == 0 and max(shardonnay_plan_moves) == 0 and min(shardonnay_last_outcome{outcome="balanced"} and on (instance) shardonnay_ownership{state="us"} == 1) == 1`)
	landed := s.now(t, `sum(shardonnay_moves_total{result="landed"})`)[0].Value
	want := map[string]float64{"Data nodes": 3, "Copies": 6, "In flight": 0, "Planned": 0}
	for _, b := range boards(t) {
		values := s.variables(t, b)
		for _, panel := range b.Panels {
			count, known := want[panel.Title]
			if !known {
				continue
			}
			delete(want, panel.Title)
			if got := s.now(t, values.fill(panel.Targets[0].Expr, "", "")); len(got) != 1 || float64(got[0].Value) != count {
				t.Errorf("%s: %v, want %g", panel.Title, got, count)
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("no dashboard shows %v", want)
	}
	if moved := cluster.Tally().Landed; float64(landed) != float64(moved) {
		t.Errorf("%v moves are counted, %d have landed in the cluster", landed, moved)
	}
	for _, name := range []string{"ShardonnayNotOwner", "ShardonnayTwoOwners"} {
		if found := s.firing(t, name, ""); len(found) > 0 {
			t.Errorf("%v", found)
		}
	}
}

// hastyRules is the shipped rule file with every condition having to hold for two seconds only.
func hastyRules(t *testing.T) string {
	t.Helper()
	var file rules
	readYAML(t, rulesFile, &file)
	for g := range file.Groups {
		for r := range file.Groups[g].Rules {
			if file.Groups[g].Rules[r].Alert != "" {
				file.Groups[g].Rules[r].For = "2s"
			}
		}
	}
	content, err := yaml.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// play sets the scene, plants the fault and waits for the alerts.
func (s *server) play(t *testing.T, about story) {
	t.Helper()
	if about.cluster == nil {
		about.cluster = lopsided
	}
	on := &scene{prometheus: s, cluster: about.cluster(t), config: filepath.Join(t.TempDir(), "shardonnay.yaml"), state: t.TempDir()}
	var hear func(string)
	if slices.Contains(about.fires, "ShardonnayPingPong") {
		hear = func(line string) {
			if m, ok := landed(line); ok {
				_ = on.cluster.Move(m.Index, m.Shard, m.To, m.From) // one that comes too late is made up for by the next
			}
		}
	}
	var url string
	differ := settings{"state": settings{"dir": on.state}}
	maps.Copy(differ, about.settings)
	on.daemon, url = startBefore(t, on.cluster, on.config, differ, hear)
	job := strings.ReplaceAll(filepath.Base(t.Name()), ",", "")
	s.scrape(t, job, url)
	if about.after != "" {
		s.await(t, fmt.Sprintf(about.after, job))
	}
	if about.plant != nil {
		about.plant(t, on)
	}
	for _, name := range about.fires {
		if name == "ShardonnayTwoOwners" {
			job = "" // it is about a cluster
		}
		s.awaitAlert(t, name, job)
	}
}

// startBefore starts a daemon before a cluster, with the settings that differ from hasty, and gives where it listens.
func startBefore(t *testing.T, cluster *sim.Cluster, config string, differ settings, hear func(string)) (daemon *process, url string) {
	t.Helper()
	served, err := sim.Serve(t.Context(), cluster, sim.Options{Speed: 60, PerNode: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = served.Close() }) // a simulated cluster has nothing to lose
	hasty(served.URL()).with(differ).write(t, config)
	daemon = start(t, hear, program, "run", "--config", config)
	return daemon, daemon.says(t, `"url":"([^"]+)"`)
}

// alert is one that Prometheus evaluates.
type alert struct {
	Labels, Annotations map[string]string
	State               string
}

// firing are the alerts of a name that fire, of a job where one is given.
func (s *server) firing(t *testing.T, name, job string) (found []alert) {
	t.Helper()
	var data struct{ Alerts []alert }
	s.ask(t, "alerts", nil, &data)
	for _, a := range data.Alerts {
		if a.State == "firing" && a.Labels["alertname"] == name && (job == "" || a.Labels["job"] == job) {
			found = append(found, a)
		}
	}
	return found
}

// awaitAlert waits until an alert fires and looks at what it says: every template has to have been filled in.
func (s *server) awaitAlert(t *testing.T, name, job string) {
	t.Helper()
	var found []alert
	until(t, name+" fires", func() bool {
		found = s.firing(t, name, job)
		return len(found) > 0
	})
	for _, a := range found {
		text := a.Annotations["summary"] + ": " + a.Annotations["description"]
		if strings.Contains(text, "error expanding") || strings.Contains(text, "<no value>") {
			t.Errorf("%s says %q", name, text)
		}
		t.Logf("%s %v: %s", name, a.Labels, text)
	}
}
