package zones

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardonnay/shardonnay/internal/es"
	"github.com/shardonnay/shardonnay/internal/zones"
	"github.com/shardonnay/shardonnay/test/realcluster"
)

func TestMain(m *testing.M) { os.Exit(realcluster.Main(m)) }

// bed is a real cluster of three zones with two nodes each, one of which may lead.
type bed struct {
	*realcluster.Cluster
	t     *testing.T
	turn  int           // of zones that fail
	pace  time.Duration // from one look to the next while zones fail; 0 is that of quickly
	out   string        // the zone that has been taken out: its nodes still answer, and know nothing
	after int64         // searches sent after failovers, none of which may fail
	wrote string        // the journal of the controller that has failed a zone over last
}

// advised are the settings of docs/zones.md with which a leader that hangs is replaced in time for a failover.
var advised = map[string]string{
	"cluster.fault_detection.leader_check.timeout":   "5s",
	"cluster.fault_detection.follower_check.timeout": "5s",
	"cluster.publish.timeout":                        "10s",
}

// newBed starts one in which a node that was taken out asks every second to be let in again.
func newBed(t *testing.T, p realcluster.Product) *bed {
	t.Helper()
	return startBed(t, p, "1s")
}

// startBed starts one; asks is how often a node that was taken out asks to be let in again.
func startBed(t *testing.T, p realcluster.Product, asks string) *bed {
	t.Helper()
	settings := map[string]string{
		"cluster.routing.allocation.awareness.attributes":        "zone",
		"cluster.routing.allocation.awareness.force.zone.values": "a,b,c",
		"discovery.find_peers_interval_during_decommission":      asks,
	}
	maps.Copy(settings, advised)
	c := realcluster.Start(t, realcluster.Options{Product: p, ProcessPerNode: true, Relayed: true, Settings: settings})
	b := &bed{Cluster: c, t: t}
	b.must(b.CreateIndex(t.Context(), realcluster.Index{Name: "searched", Shards: 3, Replicas: 2}))
	for i := range 50 {
		b.must(b.Post(t.Context(), "/searched/_doc", fmt.Sprintf(`{"n":%d}`, i), nil))
	}
	b.must(b.Post(t.Context(), "/searched/_refresh", nil, nil))
	b.must(b.WaitGreen(t.Context()))
	return b
}

func (b *bed) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// in lists the positions of a zone's nodes.
func (b *bed) in(zone string) []int {
	var found []int
	for i, n := range b.Nodes() {
		if n.Zone == zone {
			found = append(found, i)
		}
	}
	return found
}

// runner is a controller at work beside the test.
type runner struct {
	*zones.Controller
	t      *testing.T
	dir    string
	client *es.Client
	stop   func()

	mu    sync.Mutex
	notes []said
	moved chan struct{} // closed and renewed with every status
	last  *zones.Status
	looks int
}

type said struct {
	at time.Time
	zones.Note
}

// quickly is a configuration in which what takes half an hour takes seconds.
func quickly(mode zones.Mode) zones.Config {
	return zones.Config{
		Mode: mode, Attribute: "zone", Round: time.Second, Clear: 3 * time.Second, Hold: 30 * time.Minute, Writes: zones.Approve,
		Drain: 5 * time.Second, Stable: 5 * time.Second,
	}
}

// run starts a controller; dir is where its journal is, a new folder where it is empty.
func (b *bed) run(config func() zones.Config, dir string) *runner {
	b.t.Helper()
	if dir == "" {
		dir = b.t.TempDir()
	}
	r := &runner{t: b.t, dir: dir, moved: make(chan struct{})}
	var err error
	r.client, err = es.New(es.Config{Addresses: b.Addresses(), Timeout: 10 * time.Second})
	b.must(err)
	identity, err := r.client.Connect(b.t.Context())
	b.must(err)
	journal, _, err := zones.OpenJournal(dir, identity.UUID)
	b.must(err)
	r.Controller = zones.New(zones.Options{
		Client: r.client, Identity: identity, Addresses: b.Addresses(), Config: config, Journal: journal, Holder: "test", Observe: r.observe,
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := r.Run(ctx); err != nil {
			b.t.Error(err)
		}
	}()
	r.stop = sync.OnceFunc(func() {
		cancel()
		<-done
		b.must(journal.Close())
		b.must(r.client.Close())
	})
	b.t.Cleanup(r.stop)
	return r
}

func (r *runner) observe(s *zones.Status) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range s.Notes {
		r.notes = append(r.notes, said{s.At, n})
		r.t.Logf("%s %-18s %-2s %s", s.At.Format("15:04:05.0"), n.Event, n.Zone, n.Text)
	}
	r.last = s
	r.looks++
	close(r.moved)
	r.moved = make(chan struct{})
}

// until waits for a status of which ok says that it is the one.
func (r *runner) until(what string, within time.Duration, ok func(*zones.Status) bool) *zones.Status {
	r.t.Helper()
	deadline := time.After(within)
	for {
		r.mu.Lock()
		s, moved := r.last, r.moved
		r.mu.Unlock()
		if s != nil && ok(s) {
			return s
		}
		select {
		case <-moved:
		case <-deadline:
			text, _ := json.MarshalIndent(s, "", " ")
			r.t.Fatalf("%s: not within %s; the last status is\n%s", what, within, text)
		}
	}
}

// looked counts the looks so far.
func (r *runner) looked() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.looks
}

// order are the events among these that were noted, in their order.
func (r *runner) order(of []string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var events []string
	for _, s := range r.notes {
		if slices.Contains(of, s.Event) {
			events = append(events, s.Event)
		}
	}
	return events
}

// count counts the notes of an event so far.
func (r *runner) count(event string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, s := range r.notes {
		if s.Event == event {
			n++
		}
	}
	return n
}

// sent lists the requests after so many, by method and path; one that was sent again is there once.
func (r *runner) sent(after int) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var requests []string
	for _, s := range r.notes {
		if words := strings.Fields(s.Text); s.Event == "sent" {
			path, _, _ := strings.Cut(words[1], "?")
			requests = append(requests, words[0]+" "+strings.TrimSuffix(path, ":"))
		}
	}
	return slices.Compact(requests[after:])
}

// order asks the controller for something, as a person does.
func (b *bed) order(verb zones.Verb, zone string) {
	b.t.Helper()
	o := zones.Order{ID: fmt.Sprintf("%s-%d", verb, time.Now().UnixNano()), Verb: verb, Zone: zone, By: "a person", At: time.Now()}
	text, err := json.Marshal(o)
	b.must(err)
	client := b.client(b.out)
	defer client.Close()
	b.must(client.PutSettings(b.t.Context(), map[string]any{zones.OrderKey: string(text)}))
}

// state is what the cluster's state says of zones.
func (b *bed) state() *es.ZoneState { return b.stateOutside("") }

// stateOutside is what the nodes of the other zones say: those of a zone that is out know what was.
func (b *bed) stateOutside(zone string) *es.ZoneState {
	b.t.Helper()
	client := b.client(zone)
	defer client.Close()
	state, err := client.ZoneState(b.t.Context(), false)
	b.must(err)
	return state
}

// client asks the nodes outside of a zone.
func (b *bed) client(outside string) *es.Client {
	b.t.Helper()
	var addresses []string
	for _, n := range b.Nodes() {
		if n.Zone != outside {
			addresses = append(addresses, n.Address)
		}
	}
	client, err := es.New(es.Config{Addresses: addresses, Timeout: 10 * time.Second})
	b.must(err)
	return client
}

// weights are those in the cluster, by zone, with their version.
func (b *bed) weights() (map[string]float64, int64) {
	b.t.Helper()
	state := b.state()
	return state.Weights.Values, state.Weights.Version
}

// tryWeights writes weights as a person would, by a node outside of a zone.
func (b *bed) tryWeights(outside string, w map[string]float64, version int64) error {
	b.t.Helper()
	client := b.client(outside)
	defer client.Close()
	return client.PutZoneWeights(b.t.Context(), "zone", w, version)
}

func (b *bed) putWeights(w map[string]float64, version int64) {
	b.t.Helper()
	b.must(b.tryWeights("", w, version))
}

// standby is the zone of weight 0.
func (b *bed) standby() string {
	b.t.Helper()
	w, _ := b.weights()
	for zone, weight := range w {
		if weight == 0 {
			return zone
		}
	}
	b.t.Fatalf("no zone stands by: %v", w)
	return ""
}

// zoneOf is the zone that a state's leader is in.
func (b *bed) zoneOf(state *es.ZoneState) string {
	for _, n := range state.Nodes {
		if n.ID == state.Leader {
			return n.Attributes["zone"]
		}
	}
	return ""
}

func (b *bed) leaderZone() string {
	b.t.Helper()
	return b.zoneOf(b.state())
}

// leader is the position of the node that leads.
func (b *bed) leader() int {
	b.t.Helper()
	state := b.state()
	for _, n := range state.Nodes {
		if n.ID == state.Leader {
			return slices.IndexFunc(b.Nodes(), func(at realcluster.Node) bool { return at.Name == n.Name })
		}
	}
	b.t.Fatal("nobody leads")
	return -1
}

// servingWithoutLeader is a zone that serves and from which the cluster is not led.
func (b *bed) servingWithoutLeader() string {
	b.t.Helper()
	leads, rests := b.leaderZone(), b.standby()
	for _, zone := range []string{"a", "b", "c"} {
		if zone != leads && zone != rests {
			return zone
		}
	}
	panic("three zones, of which one leads and one rests")
}

// placed lists where the copies outside of a zone are.
func (b *bed) placed(outside string) []string {
	b.t.Helper()
	copies, err := b.Copies(b.t.Context())
	b.must(err)
	zone := map[string]string{}
	for _, n := range b.Nodes() {
		zone[n.Name] = n.Zone
	}
	var placed []string
	for _, c := range copies {
		if c.Node != "" && zone[c.Node] != outside {
			placed = append(placed, fmt.Sprintf("%s/%d %s %s %s", c.Index, c.Shard, c.Node, c.State, c.AllocationID))
		}
	}
	slices.Sort(placed)
	return placed
}

// notOverAllocated checks that no shard has two copies in one zone while another is out: forced awareness holds.
func (b *bed) notOverAllocated(out string) {
	b.t.Helper()
	client := b.client(out)
	defer client.Close()
	routing, err := client.Routing(b.t.Context())
	b.must(err)
	zone := map[string]string{}
	for _, n := range b.stateOutside(out).Nodes {
		zone[string(n.ID)] = n.Attributes["zone"]
	}
	seen := map[string]bool{}
	for _, c := range routing.Copies {
		if c.Node == "" {
			continue
		}
		key := fmt.Sprintf("%s/%d in %s", c.Index, c.Shard, zone[string(c.Node)])
		if seen[key] {
			b.t.Errorf("two copies of %s", key)
		}
		seen[key] = true
	}
}

// inService checks what each node tells a load balancer while a zone is out and all others serve.
func (b *bed) inService(out string) {
	b.t.Helper()
	for _, n := range b.Nodes() {
		want := http.StatusOK
		if n.Zone == out {
			want = http.StatusFailedDependency
		}
		b.eventually(fmt.Sprintf("node %s of zone %s answers a load balancer with %d", n.Name, n.Zone, want), func() bool {
			answer, err := http.Get(n.Address + "/_cluster/health?local=true&ensure_node_weighed_in=true")
			b.must(err)
			answer.Body.Close()
			return answer.StatusCode == want
		})
	}
}

// eventually looks until ok, for a minute at most.
func (b *bed) eventually(what string, ok func() bool) {
	b.t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(time.Minute); !ok(); <-ticker.C {
		if time.Now().After(deadline) {
			b.t.Fatalf("not within a minute: %s", what)
		}
	}
}

// writes are documents that are indexed one after the other, counted where they were acknowledged.
type writes struct {
	stop         func()
	done, failed atomic.Int64
	mu           sync.Mutex
	first        string
	kept         []string // ids
}

func (w *writes) acknowledged() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.kept)
}

// index writes without a pause to nodes in service.
func (b *bed) index(name string) *writes {
	b.t.Helper()
	b.must(b.CreateIndex(b.t.Context(), realcluster.Index{Name: name, Shards: 3, Replicas: 2}))
	b.must(b.WaitGreen(b.t.Context()))
	w := &writes{}
	ctx, cancel := context.WithCancel(context.Background())
	list, stopWatching := b.watchService()
	client := &http.Client{Timeout: 30 * time.Second}
	var wait sync.WaitGroup
	for k := range 2 {
		wait.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				at := list()
				if len(at) == 0 {
					continue
				}
				id := fmt.Sprintf("%d-%d", k, i)
				w.one(ctx, client, at[i%len(at)], name, id)
			}
		})
	}
	w.stop = sync.OnceFunc(func() { cancel(); wait.Wait(); stopWatching() })
	b.t.Cleanup(w.stop)
	return w
}

func (w *writes) one(ctx context.Context, client *http.Client, address, index, id string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, address+"/"+index+"/_doc/"+id, strings.NewReader(`{"n":1}`))
	if err != nil {
		return
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := client.Do(request)
	var fault string
	if err == nil {
		text, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode >= 300 {
			fault = string(text)
		}
	} else {
		fault = err.Error()
	}
	if ctx.Err() != nil {
		return
	}
	w.done.Add(1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if fault == "" {
		w.kept = append(w.kept, id)
		return
	}
	w.failed.Add(1)
	if w.first == "" {
		w.first = address + ": " + fault
	}
}

// complete checks that every acknowledged document is there.
func (b *bed) complete(index string, ids []string) {
	b.t.Helper()
	b.must(b.Post(b.t.Context(), "/"+index+"/_refresh", nil, nil))
	for chunk := range slices.Chunk(ids, 500) {
		var answer struct {
			Docs []struct {
				ID    string `json:"_id"`
				Found bool   `json:"found"`
			} `json:"docs"`
		}
		b.must(b.Post(b.t.Context(), "/"+index+"/_mget?_source=false", map[string]any{"ids": chunk}, &answer))
		for _, d := range answer.Docs {
			if !d.Found {
				b.t.Errorf("document %s was acknowledged and is lost", d.ID)
			}
		}
	}
	b.t.Logf("%d acknowledged documents are there", len(ids))
}

// queries counts each zone's shard searches since its nodes started.
func (b *bed) queries() map[string]int64 {
	b.t.Helper()
	var answer struct {
		Nodes map[string]struct {
			Attributes map[string]string `json:"attributes"`
			Indices    struct {
				Search struct {
					Total int64 `json:"query_total"`
				} `json:"search"`
			} `json:"indices"`
		} `json:"nodes"`
	}
	b.must(b.Get(b.t.Context(), "/_nodes/stats/indices/search", &answer))
	sums := map[string]int64{}
	for _, n := range answer.Nodes {
		sums[n.Attributes["zone"]] += n.Indices.Search.Total
	}
	return sums
}

// searches are running without a pause, as a load balancer would send them: to nodes that say they are in service.
type searches struct {
	b            *bed
	index        string
	stop         func()
	done, failed atomic.Int64
	cutoff       atomic.Int64 // Unix nanoseconds: failures of what was sent from then on count as late
	late         atomic.Int64

	mu    sync.Mutex
	first string // what the first failure said
	took  []time.Duration
}

// search searches the index of every bed.
func (b *bed) search(workers int, pause time.Duration) *searches {
	return b.searchIndex("searched", workers, pause)
}

func (b *bed) searchIndex(index string, workers int, pause time.Duration) *searches {
	list, stopWatching := b.watchService()
	return b.searchAt(index, workers, pause, list, stopWatching)
}

// searchAt searches at the addresses that are listed.
func (b *bed) searchAt(index string, workers int, pause time.Duration, list func() []string, stopWatching func()) *searches {
	s := &searches{index: index, b: b}
	ctx, cancel := context.WithCancel(context.Background())
	client := &http.Client{Timeout: 5 * time.Second}
	var wait sync.WaitGroup
	for w := range workers {
		wait.Go(func() {
			for i := w; ctx.Err() == nil; i++ {
				if at := list(); len(at) > 0 {
					s.one(ctx, client, at[i%len(at)])
				}
				select {
				case <-ctx.Done():
				case <-time.After(pause):
				}
			}
		})
	}
	s.stop = sync.OnceFunc(func() { cancel(); wait.Wait(); stopWatching() })
	b.t.Cleanup(s.stop)
	return s
}

// wait returns when there have been so many searches in all.
func (s *searches) wait(count int64) {
	s.b.t.Helper()
	s.b.eventually(fmt.Sprintf("%d searches", count), func() bool { return s.done.Load() >= count })
}

// quantiles are the middle and the 99th percentile of the times that searches took from one of them on.
func (s *searches) quantiles(from int64) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	took := slices.Clone(s.took[from:])
	slices.Sort(took)
	at := func(q float64) time.Duration { return took[int(q*float64(len(took)-1))].Round(time.Millisecond) }
	return fmt.Sprintf("%s, at p99 %s", at(0.5), at(0.99))
}

// watchService keeps a load balancer's list: the nodes that say they are in service, looked at all the time.
func (b *bed) watchService() (list func() []string, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	client := &http.Client{Timeout: time.Second}
	var inService atomic.Pointer[[]string]
	look := func() {
		var found []string
		var mu sync.Mutex
		var asked sync.WaitGroup
		for _, n := range b.Nodes() {
			asked.Go(func() {
				request, err := http.NewRequestWithContext(ctx, http.MethodGet, n.Address+"/_cluster/health?local=true&ensure_node_weighed_in=true", nil)
				if err != nil {
					return
				}
				answer, err := client.Do(request)
				if err != nil {
					return
				}
				answer.Body.Close()
				if answer.StatusCode == http.StatusOK {
					mu.Lock()
					defer mu.Unlock()
					found = append(found, n.Address)
				}
			})
		}
		asked.Wait()
		slices.Sort(found)
		inService.Store(&found)
	}
	look()
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(300 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				look()
			}
		}
	}()
	return func() []string { return *inService.Load() }, func() { cancel(); <-done }
}

func (s *searches) one(ctx context.Context, client *http.Client, address string) {
	began := time.Now()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/"+s.index+"/_search?size=0", nil)
	if err != nil {
		return
	}
	answer, err := client.Do(request)
	var text []byte
	status := 0
	if err == nil {
		status = answer.StatusCode
		text, err = io.ReadAll(answer.Body)
		answer.Body.Close()
	}
	if ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	s.took = append(s.took, time.Since(began))
	s.mu.Unlock()
	s.done.Add(1)
	var body struct {
		Shards struct{ Total, Successful, Failed int } `json:"_shards"`
	}
	if err == nil {
		err = json.Unmarshal(text, &body)
	}
	var fault string
	switch {
	case err != nil:
		fault = err.Error()
	case status != http.StatusOK:
		fault = fmt.Sprintf("%d %s", status, strings.TrimSpace(string(text)))
	case body.Shards.Failed > 0 || body.Shards.Successful < body.Shards.Total:
		fault = string(text)
	default:
		return
	}
	s.failed.Add(1)
	if at := s.cutoff.Load(); at != 0 && began.UnixNano() > at {
		s.late.Add(1)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first == "" {
		s.first = address + ": " + fault
	}
}

// opensearch runs a test on both products, side by side: most of it is waiting.
func opensearch(t *testing.T, test func(t *testing.T, p realcluster.Product)) {
	t.Helper()
	for _, p := range []realcluster.Product{realcluster.OpenSearch2, realcluster.OpenSearch3} {
		t.Run(p.Name(), func(t *testing.T) {
			t.Parallel()
			test(t, p)
		})
	}
}
