package zones

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardonnay/shardonnay/internal/es"
	"github.com/shardonnay/shardonnay/internal/sim"
)

// bed is a simulated cluster of three zones with two nodes each, one of which may lead, and a controller whose time is
// the cluster's.
type bed struct {
	*sim.Cluster
	t       *testing.T
	config  Config
	server  *sim.Server
	client  *es.Client
	dir     string
	journal *Journal
	c       *Controller
	notes   []Note
	orders  int
	stage   int // of the story
}

type layout struct {
	version  string
	elastic  bool
	dataOnly string // a zone without a node that may lead
}

func newBed(t *testing.T, l layout) *bed {
	t.Helper()
	config := sim.Config{Version: l.version, Seed: 7, Noise: -1, Settings: map[string]string{
		"cluster.routing.allocation.awareness.attributes":        "zone",
		"cluster.routing.allocation.awareness.force.zone.values": "a,b,c",
	}}
	if l.elastic {
		config.Distribution = sim.Elasticsearch
	}
	s := sim.New(config)
	for i := range 6 {
		zone := string(rune('a' + i%3))
		spec := sim.NodeSpec{Name: fmt.Sprintf("n%d", i), Attributes: map[string]string{"zone": zone}}
		if i >= 3 || zone == l.dataOnly {
			spec.Roles = []string{"data"}
		}
		if _, err := s.AddNode(spec); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.AddIndex(sim.IndexSpec{Name: "logs", Shards: 3, Replicas: 2, Bytes: 3 << 20, Search: 0.3}); err != nil {
		t.Fatal(err)
	}
	s.Settle()
	server, err := sim.Serve(t.Context(), s, sim.Options{PerNode: true})
	if err != nil {
		t.Fatal(err)
	}
	b := &bed{Cluster: s, t: t, server: server, dir: t.TempDir(), config: Config{
		Mode: Act, Attribute: "zone", Round: 5 * time.Second, Clear: time.Minute, Hold: 30 * time.Minute, Writes: Approve,
		Drain: 30 * time.Second, Stable: time.Minute,
	}}
	b.client, err = es.New(es.Config{Addresses: []string{server.URL()}, Timeout: 5 * time.Second, ReadRetries: -1})
	if err != nil {
		t.Fatal(err)
	}
	b.begin()
	t.Cleanup(func() {
		b.end()
		if err := errors.Join(b.client.Close(), server.Close()); err != nil {
			t.Error(err)
		}
	})
	return b
}

// begin starts a controller on the journal that is there.
func (b *bed) begin() {
	b.t.Helper()
	identity, err := b.client.Connect(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	var warning string
	if b.journal, warning, err = OpenJournal(b.dir, identity.UUID); err != nil || warning != "" {
		b.t.Fatal(err, warning)
	}
	b.c = New(Options{
		Client: b.client, Identity: identity, Addresses: []string{b.server.URL()}, Config: func() Config { return b.config }, Journal: b.journal,
		Holder: "test", Now: b.Now, Observe: func(s *Status) { b.notes = append(b.notes, s.Notes...) },
	})
}

func (b *bed) end() {
	if err := errors.Join(b.c.Close(), b.journal.Close()); err != nil {
		b.t.Error(err)
	}
}

// round looks once and lets the time pass until the next look.
func (b *bed) round() *Status {
	b.Advance(b.c.Round(b.t.Context()))
	return b.c.Status()
}

// until looks until ok says that it is as wanted, for so long at most in the cluster's time.
func (b *bed) until(what string, within time.Duration, ok func(*Status) bool) *Status {
	b.t.Helper()
	for deadline := b.Now().Add(within); b.Now().Before(deadline); {
		if s := b.round(); ok(s) {
			return s
		}
	}
	text, _ := json.MarshalIndent(b.c.Status(), "", " ")
	b.t.Fatalf("%s: not within %s; said so far:\n%s\nthe last status is\n%s", what, within, b.said(), text)
	return nil
}

func (b *bed) said() string {
	var lines []string
	for _, n := range b.notes {
		lines = append(lines, fmt.Sprintf("%-16s %-2s %s", n.Event, n.Zone, n.Text))
	}
	return strings.Join(lines, "\n")
}

func (b *bed) count(event string) int {
	n := 0
	for _, note := range b.notes {
		if note.Event == event {
			n++
		}
	}
	return n
}

func steady(s *Status) bool { return s.Phase == Steady && s.Write == Idle }

// order asks for something as a person does.
func (b *bed) order(verb Verb, zone string) {
	b.t.Helper()
	b.orders++
	o := Order{ID: fmt.Sprint(b.orders), Verb: verb, Zone: zone, By: "a person", At: b.Now()}
	if err := b.SetPersistent(map[string]string{OrderKey: settingText(o)}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) kill(zone string)    { b.each(zone, b.Kill) }
func (b *bed) restart(zone string) { b.each(zone, b.Restart) }

func (b *bed) each(zone string, do func(name string) bool) {
	b.t.Helper()
	for i := range 6 {
		if string(rune('a'+i%3)) == zone && !do(fmt.Sprintf("n%d", i)) {
			b.t.Fatalf("there is no node n%d", i)
		}
	}
}

func (b *bed) zoneWeights() (map[string]float64, int64) {
	_, w, version := b.Weights()
	return w, version
}

func TestA8NothingIsDoneWhenItMayBeUsWhoAreCutOff(t *testing.T) {
	b := newBed(t, layout{})
	b.until("first weights", time.Minute, steady)
	before, version := b.zoneWeights()
	b.Inject(sim.Fault{Kind: sim.FaultRefuse})
	for range 30 {
		if s := b.round(); s.Isolated == "" {
			t.Fatal("nobody answers, and it is not said that it may be us")
		}
	}
	b.ClearFaults()
	if after, now := b.zoneWeights(); !maps.Equal(before, after) || now != version {
		t.Errorf("weights %v at version %d became %v at version %d", before, version, after, now)
	}
	b.until("all is well again", time.Minute, func(s *Status) bool { return s.Isolated == "" && steady(s) })
	if b.count("failover") > 0 {
		t.Error(b.said())
	}
}

func TestA10AChangeWhoseAnswerIsLostIsLookedForAndNotSentBlindly(t *testing.T) {
	b := newBed(t, layout{})
	b.until("first weights", time.Minute, steady)
	_, version := b.zoneWeights()
	b.Inject(sim.Fault{Kind: sim.FaultLost, Method: "PUT", Path: "/_cluster/routing/awareness/*", Count: 1})
	b.kill("a")
	b.until("failover", time.Minute, func(s *Status) bool { return s.Phase == NoStandby })
	if w, now := b.zoneWeights(); w["a"] != 0 || w["c"] != 1 || now != version+1 {
		t.Errorf("weights %v at version %d, before %d", w, now, version)
	}
	if b.count("sent_again") > 0 || !strings.Contains(b.said(), "unknown: ") {
		t.Error(b.said())
	}
}

func TestA16AZoneThatCannotBeTakenOutIsFenced(t *testing.T) {
	b := newBed(t, layout{dataOnly: "c"})
	b.until("first weights", time.Minute, steady)
	before, version := b.zoneWeights()
	b.order(OrderOut, "c")
	b.until("refused, with what to do instead", time.Minute, func(*Status) bool { return strings.Contains(b.said(), "failover c --out --soft") })
	if err := b.client.Decommission(t.Context(), "zone", "c", 0); err == nil {
		t.Error("the server takes a zone out that has no node which may lead")
	}
	if after, now := b.zoneWeights(); !maps.Equal(before, after) || now != version {
		t.Errorf("a refused order has changed the weights to %v at version %d", after, now)
	}
	b.order(OrderFence, "c")
	b.until("fenced", 5*time.Minute, func(s *Status) bool { return s.Write == Gone })
	if z, _ := b.round().Zone("c"); z.Role != Out || z.Copies.Active > 0 {
		t.Errorf("%+v", z)
	}
	b.inSyncOutside("c")
	if b.Status() == "red" {
		t.Error("a shard has no primary")
	}
	b.order(OrderRecommission, "")
	b.until("a standby again", 10*time.Minute, steady)
	b.until("green", 10*time.Minute, func(*Status) bool { return b.Status() == "green" })
	if filter := b.Setting("cluster.routing.allocation.exclude.zone"); filter != "" {
		t.Errorf("left behind: exclude %q", filter)
	}
}

// TestA17AZoneThatIsWellAgainStays: the controller was away when the drain ended, and the zone that was ill is not any more.
// Its other half, a drain that is gone on with, is played on real clusters.
func TestA17AZoneThatIsWellAgainStays(t *testing.T) {
	b := newBed(t, layout{})
	b.until("first weights", time.Minute, steady)
	b.kill("b")
	b.until("failover", 2*time.Minute, func(s *Status) bool { return s.Phase == NoStandby })
	b.order(OrderOut, "b")
	b.until("draining", time.Minute, func(s *Status) bool { return s.Write == Draining })
	b.end()
	b.restart("b")
	b.Advance(2 * b.config.Drain)
	b.begin()
	b.until("called off", 2*time.Minute, func(s *Status) bool { return s.Write == Idle })
	if b.count("abort") != 1 || b.count("decommission") > 0 {
		t.Error(b.said())
	}
	if _, zone, _ := b.Decommissioned(); zone != "" {
		t.Errorf("zone %s was taken out", zone)
	}
	b.until("a standby", 10*time.Minute, steady)
}

func TestElasticsearchZonesAreFencedByOrder(t *testing.T) {
	b := newBed(t, layout{version: "8.19.0", elastic: true})
	b.until("looked at", time.Minute, func(s *Status) bool { return len(s.Zones) == 3 })
	b.order(OrderOut, "c")
	b.until("refused with the reason", time.Minute, func(*Status) bool { return strings.Contains(b.said(), "has no weights of zones") })
	b.order(OrderFence, "c")
	b.until("fenced", 5*time.Minute, func(s *Status) bool { return s.Write == Gone })
	b.inSyncOutside("c")
	if b.Status() != "yellow" {
		t.Errorf("the cluster is %s", b.Status())
	}
	b.order(OrderRecommission, "")
	b.until("back", 10*time.Minute, func(s *Status) bool { return s.Write == Idle && s.Leaving == nil && b.count("recovered") > 0 })
	if filter := b.Setting("cluster.routing.allocation.exclude.zone"); filter != "" || b.Status() != "green" {
		t.Errorf("exclude %q, %s", filter, b.Status())
	}
}

// inSyncOutside checks that writes wait for no copy of a zone.
func (b *bed) inSyncOutside(zone string) {
	b.t.Helper()
	routing, err := b.client.Routing(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	inSync, err := b.client.InSync(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	known := 0
	for _, c := range routing.Copies {
		if slices.Contains(inSync[c.Index][c.Shard], c.AllocationID) {
			known++
			if b.c.state.Roster.zoneOf(c.Node) == zone {
				b.t.Errorf("%s/%d waits for a copy in zone %s", c.Index, c.Shard, zone)
			}
		}
	}
	for index, shards := range inSync {
		for shard, ids := range shards {
			known -= len(ids)
			if len(ids) == 0 {
				b.t.Errorf("%s/%d has no copy in step", index, shard)
			}
		}
	}
	if known != 0 {
		b.t.Errorf("%d copies in step are not in the routing table", -known)
	}
}

// TestARefusedRequestIsNotRepeatedEveryRound: nothing is different a moment later, and the journal would only grow.
func TestARefusedRequestIsNotRepeatedEveryRound(t *testing.T) {
	b := newBed(t, layout{})
	b.Inject(sim.Fault{Kind: sim.FaultStatus, Status: 403, Method: "PUT", Path: "/_cluster/routing/awareness/*"})
	for began := b.Now(); b.Now().Sub(began) < 10*time.Minute; {
		b.round()
	}
	if n := b.count("sent"); n < 8 || n > 11 {
		t.Errorf("%d requests in ten minutes:\n%s", n, b.said())
	}
	if s := b.c.Status(); len(s.Blocked) == 0 || s.Blocked[0].Guard != GuardAccepted {
		t.Errorf("it is not said what is in the way: %+v", s.Blocked)
	}
	b.ClearFaults()
	b.until("first weights", 2*time.Minute, steady)
}

func TestA28OldServersAndElasticsearchAreOnlyObserved(t *testing.T) {
	for name, l := range map[string]layout{"2.5": {version: "2.5.0"}, "elasticsearch": {version: "8.19.0", elastic: true}} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, l)
			for range 5 {
				s := b.round()
				if s.Unsupported == "" || len(s.Zones) != 3 {
					t.Fatalf("%+v", s)
				}
			}
			if b.count("sent") > 0 {
				t.Error(b.said())
			}
		})
	}
}
