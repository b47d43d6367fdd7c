package traffic

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"sync"
	"sync/atomic"

	"golang.org/x/time/rate"
)

// The pace of the traffic: enough for steady counters within ten seconds, well below what two cores can serve beside
// everything else in a test. On a slower machine there are fewer searches, in the same proportions.
const (
	searchesPerSecond = 250
	searchers         = 3
	bulksPerSecond    = 20
	docsPerBulk       = 3
)

// Totals is what a run of the traffic came to.
type Totals struct {
	Searches       int64
	FailedSearches int64 // answered with an error or not at all, or with a failed shard

	// Docs are the documents of each index that the cluster has acknowledged, those of Build included. Uncertain ones were
	// sent but not acknowledged: the index may hold them or not.
	Docs      map[string]int64
	Uncertain map[string]int64

	FirstError error // of a search or write; nil where all went well
}

// Start sends searches and writes until stop is called, which waits for the requests under way and says what was done.
func (w *Workload) Start() (stop func() Totals) {
	ctx, cancel := context.WithCancel(context.Background())
	run := &run{workload: w, deck: w.deck(), docs: maps.Clone(w.docs), uncertain: map[string]int64{}}
	var all sync.WaitGroup
	pace := rate.NewLimiter(searchesPerSecond, searchers)
	for i := range searchers {
		all.Go(func() { run.search(ctx, pace, rand.New(rand.NewPCG(w.seed, uint64(10+i)))) })
	}
	all.Go(func() { run.write(ctx, rand.New(rand.NewPCG(w.seed, 20))) })
	return func() Totals {
		cancel()
		all.Wait()
		w.docs = maps.Clone(run.docs) // a next run goes on from here
		return Totals{
			Searches: run.searches.Load(), FailedSearches: run.failed.Load(),
			Docs: run.docs, Uncertain: run.uncertain, FirstError: run.firstError,
		}
	}
}

// run is the state of the traffic between Start and stop.
type run struct {
	workload *Workload
	deck     []int
	next     atomic.Int64 // position in the deck, counting on

	searches, failed atomic.Int64

	docs, uncertain map[string]int64 // only the writer touches them

	mu         sync.Mutex
	firstError error
}

// search takes the next card of the deck at each tick of pace and runs it.
func (r *run) search(ctx context.Context, pace *rate.Limiter, random *rand.Rand) {
	for pace.Wait(ctx) == nil {
		card := r.next.Add(1) - 1
		one := r.workload.indices[r.deck[card%int64(len(r.deck))]]
		var answer struct {
			Shards struct{ Failed int } `json:"_shards"`
		}
		// The request under way is finished when ctx ends: an aborted one would count as failed.
		path := "/" + url.PathEscape(one.name) + "/_search?request_cache=false&filter_path=_shards.failed"
		err := r.workload.cluster.Post(context.WithoutCancel(ctx), path, query(random), &answer)
		if err == nil && answer.Shards.Failed > 0 {
			err = fmt.Errorf("search %s: %d shards failed", one.name, answer.Shards.Failed)
		}
		r.searches.Add(1)
		if err != nil {
			r.failed.Add(1)
			r.note(err)
		}
	}
}

// write sends one bulk request at a time, to the written indices in turn.
func (r *run) write(ctx context.Context, random *rand.Rand) {
	pace := rate.NewLimiter(bulksPerSecond, 1)
	for i := 0; pace.Wait(ctx) == nil; i++ {
		name := r.workload.Written[i%len(r.workload.Written)]
		if err := r.workload.bulk(context.WithoutCancel(ctx), name, docsPerBulk, 0, random); err != nil {
			r.uncertain[name] += docsPerBulk
			r.note(err)
			continue
		}
		r.docs[name] += docsPerBulk
	}
}

// note keeps the first error.
func (r *run) note(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.firstError == nil {
		r.firstError = err
	}
}
