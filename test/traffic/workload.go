package traffic

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/shardonnay/shardonnay/test/realcluster"
)

// kind is a family of like indices.
type kind struct {
	name             string
	indices          int
	shards, replicas int
	docs             int // documents in each index to begin with
}

// kinds make 58 indices with 204 copies, 34 on each of six nodes. Every node gets a copy of about twelve web indices,
// which are the candidates for being hot: 24 copies that carry four fifths of the load can be spread four to a node, and
// one copy is a fifth of a node's fair share, so that nearly perfect balance is within reach.
var kinds = []kind{
	{name: "web", indices: 36, shards: 1, replicas: 1, docs: 200},
	{name: "logs", indices: 10, shards: 3, replicas: 1, docs: 300},
	{name: "shop", indices: 12, shards: 2, replicas: 2, docs: 200},
}

const (
	hotKind  = "web"
	hotShare = 0.8 // of all shard queries go to the hot indices
	writers  = 8   // of the other indices are written to

	deckSize = 2000 // searches after which their sequence repeats
)

// minSkew is the least peak/mean of search load that Build accepts; 2.4 to 2.6 are usual.
const minSkew = 2.0

// index is one index of the workload.
type index struct {
	name             string
	shards, replicas int
	searches         float64 // share of all searches
}

// Workload is a set of indices and the traffic to come over them.
type Workload struct {
	Hot     []string // indices that get most searches, hottest first
	Written []string // indices that are written to, none of them hot

	cluster *realcluster.Cluster
	seed    uint64
	indices []index
	docs    map[string]int64 // documents written by Build

	measuring sync.Mutex
	costs     map[string]counters // operations and their time by index, over all that was measured
}

// Build sets up indices and documents on an empty cluster, waits until the server has placed every copy and stopped
// moving them, and chooses what will be hot. It sets two persistent cluster settings: allocation awareness by zone, and
// no adaptive replica selection, which on a quiet cluster would send nearly every search to the same copy. The same seed
// and placement give the same traffic.
func Build(ctx context.Context, c *realcluster.Cluster, seed uint64) (*Workload, error) {
	err := c.PutSettings(ctx, map[string]any{
		"cluster.routing.allocation.awareness.attributes": "zone",
		"cluster.routing.use_adaptive_replica_selection":  false,
	})
	if err != nil {
		return nil, err
	}
	w := &Workload{cluster: c, seed: seed, docs: map[string]int64{}, costs: map[string]counters{}}
	for _, k := range kinds {
		for i := range k.indices {
			// A letter before the number, or the names would read as a series with a newest index.
			name := fmt.Sprintf("%s-x%02d", k.name, i)
			w.indices = append(w.indices, index{name: name, shards: k.shards, replicas: k.replicas})
			w.docs[name] = int64(k.docs)
		}
	}
	if err := w.create(ctx); err != nil {
		return nil, fmt.Errorf("create the indices of the workload: %w", err)
	}
	if err := w.fill(ctx); err != nil {
		return nil, fmt.Errorf("fill the indices of the workload: %w", err)
	}
	if err := c.WaitSettled(ctx); err != nil {
		return nil, err
	}
	copies, err := c.Copies(ctx)
	if err != nil {
		return nil, err
	}
	if err := w.choose(copies); err != nil {
		return nil, err
	}
	return w, nil
}

// atOnce is how many indices are created or filled at a time: the server then puts several into one cluster state.
const atOnce = 8

// create makes the indices, shuffled so that kinds mix as they do in a cluster that has grown.
func (w *Workload) create(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, i := range rand.New(rand.NewPCG(w.seed, 1)).Perm(len(w.indices)) {
		one := w.indices[i]
		group.Go(func() error {
			return w.cluster.CreateIndex(ctx, realcluster.Index{
				Name: one.name, Shards: one.shards, Replicas: one.replicas,
				Settings: map[string]any{"refresh_interval": "5s"},
				Mappings: mappings,
			})
		})
	}
	return group.Wait()
}

// fill writes the first documents of all indices and makes them visible.
func (w *Workload) fill(ctx context.Context) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, one := range w.indices {
		group.Go(func() error {
			random := rand.New(rand.NewPCG(w.seed, uint64(1000+i)))
			return w.bulk(groupCtx, one.name, int(w.docs[one.name]), payloadBytes, random)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return w.cluster.Post(ctx, "/_refresh", nil, nil)
}

// choose decides what is hot and what is written to, given where the copies are.
func (w *Workload) choose(copies []realcluster.Copy) error {
	holders := map[string]map[string]bool{} // node to the candidates with a copy there
	for _, c := range copies {
		if strings.HasPrefix(c.Index, hotKind+"-") {
			if holders[c.Node] == nil {
				holders[c.Node] = map[string]bool{}
			}
			holders[c.Node][c.Index] = true
		}
	}
	var node string
	for _, n := range w.cluster.Nodes() {
		if len(holders[n.Name]) > len(holders[node]) {
			node = n.Name
		}
	}
	hot := holders[node]
	random := rand.New(rand.NewPCG(w.seed, 2))
	random.Shuffle(len(w.indices), func(i, j int) { w.indices[i], w.indices[j] = w.indices[j], w.indices[i] })
	slices.SortStableFunc(w.indices, func(a, b index) int {
		return cmp.Compare(fmt.Sprint(hot[b.name]), fmt.Sprint(hot[a.name])) // hot ones first
	})

	// Hot indices differ among themselves, the hottest has seven thirds of the least hot. The others get the same number of
	// queries on each shard, and a search makes one query per shard.
	var hotSum, restSum float64
	for i := range w.indices {
		one := &w.indices[i]
		if i < len(hot) {
			one.searches = 1.4 - 0.8*float64(i)/float64(len(hot))
			hotSum += one.searches
			w.Hot = append(w.Hot, one.name)
			continue
		}
		one.searches = 1 / float64(one.shards)
		restSum++
		if len(w.Written) < writers {
			w.Written = append(w.Written, one.name)
		}
	}
	for i := range w.indices {
		if i < len(hot) {
			w.indices[i].searches *= hotShare / hotSum
		} else {
			w.indices[i].searches *= (1 - hotShare) / restSum
		}
	}
	if skew := PeakToMean(w.ExpectedSearch(copies)); skew < minSkew {
		return fmt.Errorf("the server placed the copies so that search load would peak at %.2f of the mean only, not %.1f: hot indices %v",
			skew, minSkew, w.Hot)
	}
	return nil
}

// ExpectedSearch is each node's share of all shard queries if the copies stay where they are, in the order of the
// cluster's nodes: what Measure approaches in the long run when all queries cost the same.
func (w *Workload) ExpectedSearch(copies []realcluster.Copy) []float64 {
	type shard struct {
		index  string
		number int
	}
	serving := map[shard]float64{}
	for _, c := range copies {
		serving[shard{c.Index, c.Shard}]++
	}
	queries := map[string]float64{}
	for _, one := range w.indices {
		queries[one.name] = one.searches
	}
	nodes := w.cluster.Nodes()
	load := make([]float64, len(nodes))
	for _, c := range copies {
		at := slices.IndexFunc(nodes, func(n realcluster.Node) bool { return n.Name == c.Node })
		if at >= 0 {
			load[at] += queries[c.Index] / serving[shard{c.Index, c.Shard}]
		}
	}
	return load
}

// PeakToMean is the largest value divided by the mean of all; 1 where all are zero.
func PeakToMean(perNode []float64) float64 {
	var sum, peak float64
	for _, v := range perNode {
		sum += v
		peak = math.Max(peak, v)
	}
	if sum == 0 {
		return 1
	}
	return peak * float64(len(perNode)) / sum
}

// deck lists positions in w.indices, each as often as its share of the searches demands, shuffled. Going round it gives
// every index its exact share over any few seconds, which drawing at random would not.
func (w *Workload) deck() []int {
	var total float64
	for _, one := range w.indices {
		total += one.searches
	}
	var deck []int
	for i, one := range w.indices {
		for range max(1, int(math.Round(one.searches/total*deckSize))) {
			deck = append(deck, i)
		}
	}
	rand.New(rand.NewPCG(w.seed, 3)).Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
	return deck
}

var mappings = map[string]any{"properties": map[string]any{
	"message": map[string]any{"type": "text"},
	"payload": map[string]any{"type": "binary"}, // only stored
	"status":  map[string]any{"type": "keyword"},
	"bytes":   map[string]any{"type": "long"},
	"at":      map[string]any{"type": "date"},
}}

// words is a small vocabulary, so that every query finds something.
var words = strings.Fields(`accept answer arrive balance barrel begin bottle bridge cellar change chase city close cloud cold
	copy corner cost count cover cross dawn deliver door draw dust early east edge empty end engine enter even evening fall far
	farm feed field fill find fire first flow fold follow forest frame front garden gate gather glass grain grape green ground
	grow hand harvest heat heavy hill hold hour house index issue join keep kind lamp land late leaf leave lift light line load
	long main mark market measure meet mill month morning move narrow night noon north oak open order paper path pick place plain
	plan plant press price quiet rain reach read red ridge ring ripe rise river road room round row rule search seed send shade
	shard share shelf ship side slope slow soil sort south space split spring stand start station stay steep stem stone store
	stream street summer sun table take tank taste tell thin tide time tower town trade train tree turn valley vine wait wall
	warm wash water weather weigh west wheel white wide wild wind window winter wood work write yard year yield`)

// payloadBytes is how much each of the first documents has to carry. It makes disk usage a matter of the first
// documents, not of how long the traffic has run.
const payloadBytes = 800

// document is one line of a web log, about 200 bytes and a payload that does not compress.
func document(random *rand.Rand, payload int) map[string]any {
	message := make([]string, 12)
	for i := range message {
		message[i] = words[random.IntN(len(words))]
	}
	line := map[string]any{
		"message": strings.Join(message, " "),
		"status":  []string{"200", "200", "200", "304", "404", "500"}[random.IntN(6)],
		"bytes":   random.IntN(100_000),
		"at":      time.Date(2026, 1, 1, 0, 0, random.IntN(86_400), 0, time.UTC).Format(time.RFC3339),
	}
	if payload > 0 {
		noise := make([]byte, payload)
		for i := range noise {
			noise[i] = byte(random.Uint32())
		}
		line["payload"] = noise // JSON has it as base64, which is what the field takes
	}
	return line
}

// query finds documents with any of three words, sums up bytes by status, and returns the best three.
func query(random *rand.Rand) map[string]any {
	some := []string{words[random.IntN(len(words))], words[random.IntN(len(words))], words[random.IntN(len(words))]}
	return map[string]any{
		"size":  3,
		"query": map[string]any{"match": map[string]any{"message": strings.Join(some, " ")}},
		"aggs": map[string]any{"by_status": map[string]any{
			"terms": map[string]any{"field": "status"},
			"aggs":  map[string]any{"bytes": map[string]any{"sum": map[string]any{"field": "bytes"}}},
		}},
	}
}

// bulk writes count new documents to the index; an error means that some may not be there.
func (w *Workload) bulk(ctx context.Context, name string, count, payload int, random *rand.Rand) error {
	var body strings.Builder
	lines := json.NewEncoder(&body)
	for range count {
		body.WriteString(`{"index":{}}` + "\n")
		if err := lines.Encode(document(random, payload)); err != nil {
			return err
		}
	}
	var answer struct{ Errors bool }
	if err := w.cluster.Post(ctx, "/"+url.PathEscape(name)+"/_bulk?filter_path=errors", body.String(), &answer); err != nil {
		return err
	}
	if answer.Errors {
		return fmt.Errorf("bulk to %s: some documents were refused", name)
	}
	return nil
}
