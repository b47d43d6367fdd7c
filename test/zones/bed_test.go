package zones

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
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
	t *testing.T
}

// newBed starts one. find is how often a node that was taken out asks to be let in again.
func newBed(t *testing.T, p realcluster.Product) *bed {
	t.Helper()
	c := realcluster.Start(t, realcluster.Options{Product: p, ProcessPerNode: true, Settings: map[string]string{
		"cluster.routing.allocation.awareness.attributes":              "zone",
		"cluster.routing.allocation.awareness.force.zone.values":       "a,b,c",
		"discovery.find_peers_interval_during_decommission":            "1s",
		"cluster.routing.allocation.node_initial_primaries_recoveries": "20",
	}})
	b := &bed{c, t}
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

// order asks the controller for something, as a person does.
func (b *bed) order(verb zones.Verb, zone string) string {
	b.t.Helper()
	o := zones.Order{ID: fmt.Sprintf("%s-%d", verb, time.Now().UnixNano()), Verb: verb, Zone: zone, By: "a person", At: time.Now()}
	text, err := json.Marshal(o)
	b.must(err)
	b.must(b.PutSettings(b.t.Context(), map[string]any{zones.OrderKey: string(text)}))
	return o.ID
}

// weights are those in the cluster, by zone, with their version.
func (b *bed) weights() (map[string]float64, int64) {
	b.t.Helper()
	client, err := es.New(es.Config{Addresses: b.Addresses(), Timeout: 10 * time.Second})
	b.must(err)
	defer client.Close()
	state, err := client.ZoneState(b.t.Context(), false)
	b.must(err)
	return state.Weights.Values, state.Weights.Version
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
	stop                func()
	done, failed, short atomic.Int64
	mu                  sync.Mutex
	first               string // what the first failure said
	slow                time.Duration
	cutoff              atomic.Int64 // Unix nanoseconds: failures from then on count as late
	late                atomic.Int64
}

func (b *bed) search(workers int, pause time.Duration) *searches {
	s := &searches{}
	ctx, cancel := context.WithCancel(context.Background())
	client := &http.Client{Timeout: 5 * time.Second}
	var wait sync.WaitGroup
	// The nodes in service, looked at all the time.
	var inService atomic.Pointer[[]string]
	look := func() {
		var list []string
		var mu sync.Mutex
		var asked sync.WaitGroup
		for _, n := range b.Nodes() {
			asked.Go(func() {
				limited, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				request, err := http.NewRequestWithContext(limited, http.MethodGet, n.Address+"/_cluster/health?local=true&ensure_node_weighed_in=true", nil)
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
					list = append(list, n.Address)
					mu.Unlock()
				}
			})
		}
		asked.Wait()
		slices.Sort(list)
		inService.Store(&list)
	}
	look()
	wait.Go(func() {
		ticker := time.NewTicker(500 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				look()
			}
		}
	})
	for w := range workers {
		wait.Go(func() {
			for i := w; ctx.Err() == nil; i++ {
				if list := *inService.Load(); len(list) > 0 {
					s.one(ctx, client, list[i%len(list)])
				}
				select {
				case <-ctx.Done():
				case <-time.After(pause):
				}
			}
		})
	}
	s.stop = sync.OnceFunc(func() { cancel(); wait.Wait() })
	b.t.Cleanup(s.stop)
	return s
}

func (s *searches) one(ctx context.Context, client *http.Client, address string) {
	began := time.Now()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/searched/_search?size=0", nil)
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
	s.done.Add(1)
	var body struct {
		Shards struct{ Total, Successful, Failed int } `json:"_shards"`
	}
	if err == nil {
		err = json.Unmarshal(text, &body)
	}
	fault := ""
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

// opensearch runs a test on both products.
func opensearch(t *testing.T, test func(t *testing.T, p realcluster.Product)) {
	t.Helper()
	for _, p := range []realcluster.Product{realcluster.OpenSearch2, realcluster.OpenSearch3} {
		t.Run(p.Name(), func(t *testing.T) { test(t, p) })
	}
}
