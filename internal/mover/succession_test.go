package mover

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/es"
)

// The elected of an election goes on where the one before it was, at once; everybody else waits as ever.
func TestSuccession(t *testing.T) {
	for _, test := range []struct {
		name            string
		theirs, ours    string // elections
		value           string // of the setting
		expired         bool
		kind            StopKind
		after, released string
	}{
		{name: "the same election", theirs: "ns/l@1", ours: "ns/l@1", value: "none", after: "none n before all", released: "all nobody"},
		{name: "another election", theirs: "ns/l@2", ours: "ns/l@1", value: "none", kind: OtherHolder, after: "none m before all"},
		{name: "they stood alone", theirs: "", ours: "ns/l@1", value: "none", kind: OtherHolder, after: "none m before all"},
		{name: "we stand alone", theirs: "ns/l@1", ours: "", value: "none", kind: OtherHolder, after: "none m before all"},
		{name: "both stand alone", theirs: "", ours: "", value: "none", kind: OtherHolder, after: "none m before all"},
		{
			name: "a person has put a hold on the one before us", theirs: "ns/l@1", ours: "ns/l@1", value: "primaries",
			kind: RebalanceChanged, after: "primaries m before all",
		},
		{
			name: "another election whose time is over", theirs: "ns/l@2", ours: "ns/l@1", value: "none", expired: true,
			after: "none n before all", released: "all nobody",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, s := newFake(t, fourNodes)
				renewed := time.Now()
				if test.expired {
					renewed = renewed.Add(-time.Hour)
				}
				f.persistent[rebalanceKey] = test.value
				f.persistent[ownerKey] = (&Record{
					Holder: "m", Session: "x", Renewed: renewed, Expires: renewed.Add(3 * time.Minute), Previous: "all", Election: test.theirs,
				}).text()
				began := time.Now()
				o := f.elected(f, "n", test.ours)
				if err := o.Acquire(t.Context()); kindOf(err) != test.kind {
					t.Errorf("%v, want %q", err, test.kind)
				}
				if took := time.Since(began); test.kind == "" && took != 2*time.Second {
					t.Errorf("it took %s, want no more than the settling", took)
				}
				if got := f.rebalance(); got != test.after {
					t.Errorf("%s, want %s", got, test.after)
				}
				if test.kind != "" {
					return
				}
				if r, err := o.Release(t.Context(), s); err != nil || f.rebalance() != test.released {
					t.Errorf("%+v, %v: %s", r, err, f.rebalance())
				}
			})
		})
	}
}

// elected is an instance that has won an election, on its way to the cluster.
func (f *fake) elected(api API, holder, election string) *Ownership {
	return NewOwnership(api, testProduct, Lease{Holder: holder, Length: 12 * time.Second, Settle: settle, Election: election})
}

const settle = 2 * time.Second

// stage is a cluster that two instances of one election believe to be theirs, and what came of it.
type stage struct {
	t      *testing.T
	mu     sync.Mutex // of the cluster
	f      *fake
	claims []claim
	acts   map[string]int
	story  string
}

type claim struct {
	holder, session string
	at              time.Time
}

// claimed notes a record of a session that is not the one before it.
func (s *stage) claimed(settings map[string]any) {
	text, ours := settings[ownerKey].(string)
	if !ours {
		return
	}
	record, err := ParseRecord(map[string]string{ownerName: text})
	if err != nil {
		s.t.Error(err)
		return
	}
	n, now := len(s.claims), time.Now()
	switch {
	case n > 0 && s.claims[n-1].session == record.Session:
	case n > 1 && s.claims[n-2].session == record.Session && now.Sub(s.claims[n-1].at) < settle:
		s.claims = s.claims[:n-1] // a renewal was under way: whoever claimed will not find its own record, and not act
	default:
		s.claims = append(s.claims, claim{record.Holder, record.Session, now})
	}
}

// acted judges a request for moves the moment it arrives: whoever has claimed rebalancing acts from the end of its
// settling on, and nobody else does from then.
func (s *stage) acted(holder string) {
	s.acts[holder]++
	now, last := time.Now(), -1
	for i, c := range s.claims {
		if c.holder == holder {
			last = i
		}
	}
	switch {
	case last < 0:
		s.t.Errorf("%s: %s acts and has never claimed rebalancing", s.story, holder)
	case now.Sub(s.claims[last].at) < settle:
		s.t.Errorf("%s: %s acts %s after its claim", s.story, holder, now.Sub(s.claims[last].at))
	}
	for _, c := range s.claims[last+1:] {
		if since := now.Sub(c.at); since >= settle {
			s.t.Errorf("%s: %s acts %s after %s has claimed rebalancing, which acts too by now", s.story, holder, since, c.holder)
		}
	}
}

// way is one instance's way to the cluster. Its process, which does one thing at a time, is stopped and goes on at some
// of its calls: before they leave or before it reads the answer.
type way struct {
	*fake
	stage  *stage
	holder string
	calls  int
	stops  func(call int) (before, after time.Duration)
}

func (w *way) pass(most time.Duration, do func()) {
	w.calls++
	before, after := w.stops(w.calls)
	if before = min(before, most); before > 0 {
		pass(before)
	}
	w.stage.mu.Lock()
	do()
	w.stage.mu.Unlock()
	if after > 0 {
		pass(after)
	}
}

const (
	ever = time.Hour
	// inTime is how long a request may be on its way after it was found fit to be sent, and a write after the read it
	// rests on. What arrives later no protocol without compare-and-set can tell from what is in time.
	inTime = settle/2 - time.Millisecond
)

func (w *way) Health(ctx context.Context) (h cluster.Health, err error) {
	w.pass(ever, func() { h, err = w.fake.Health(ctx) })
	return h, err
}

func (w *way) Routing(ctx context.Context) (r *es.Routing, err error) {
	w.pass(ever, func() { r, err = w.fake.Routing(ctx) })
	return r, err
}

func (w *way) Recoveries(ctx context.Context) (r []es.Recovery, err error) {
	w.pass(ever, func() { r, err = w.fake.Recoveries(ctx) })
	return r, err
}

func (w *way) FileSystems(ctx context.Context) (d map[cluster.NodeID]cluster.DiskUse, err error) {
	w.pass(ever, func() { d, err = w.fake.FileSystems(ctx) })
	return d, err
}

func (w *way) RunningSnapshots(ctx context.Context) (r map[es.SnapshotShard]struct{}, err error) {
	w.pass(ever, func() { r, err = w.fake.RunningSnapshots(ctx) })
	return r, err
}

func (w *way) Settings(ctx context.Context) (r es.RawSettings, err error) {
	w.pass(ever, func() { r, err = w.fake.Settings(ctx) })
	return r, err
}

func (w *way) PutSettings(ctx context.Context, settings map[string]any) (err error) {
	w.pass(inTime, func() { err = w.fake.PutSettings(ctx, settings) })
	return err
}

func (w *way) Reroute(ctx context.Context, p cluster.Product, moves []es.Move) (o []es.Outcome, err error) {
	w.pass(inTime, func() {
		w.stage.acted(w.holder)
		o, err = w.fake.Reroute(ctx, p, moves)
	})
	return o, err
}

// contend lets two instances of one election carry out plans, both of which believe to have won it all the time: worse
// than an election ever is. The second joins when the first is at work. stops says where each process is stopped.
func contend(t *testing.T, story string, joins time.Duration, stops func(holder string, call int) (before, after time.Duration)) *stage {
	t.Helper()
	var text strings.Builder
	text.WriteString("node n1\nnode n2\nnode n3\nindex a replicas=0\n")
	const shards = 24
	for shard := range shards {
		fmt.Fprintf(&text, "copy a/%d p n1 bytes=2gb\n", shard)
	}
	f, snapshot := newFake(t, text.String())
	f.disks = map[cluster.NodeID]cluster.DiskUse{"n2": {}, "n3": {}}
	s := &stage{t: t, f: f, acts: map[string]int{}, story: story}
	f.onPut = s.claimed
	ctx, end := context.WithTimeout(t.Context(), 40*time.Second)
	defer end()
	var done sync.WaitGroup
	for i, holder := range []string{"one", "two"} {
		w := &way{fake: f, stage: s, holder: holder, stops: func(call int) (time.Duration, time.Duration) { return stops(holder, call) }}
		m := f.mover(func(c *Config) { c.Limits.PerRequest, c.Patience = 1, 3*time.Second })
		m.api, m.own = w, f.elected(w, holder, "ns/l@1")
		done.Go(func() {
			if i == 1 {
				pass(joins)
			}
			for ctx.Err() == nil {
				var moves []string
				s.mu.Lock()
				for shard := i; shard < shards; shard += 2 {
					if k := f.copyOf("a", shard); k.Target == "" && k.Node == "n1" {
						moves = append(moves, fmt.Sprintf("%s -> n%d", k.AllocationID, 2+i))
					}
				}
				p := f.plan(moves...)
				s.mu.Unlock()
				if err := m.own.Acquire(ctx); err == nil && len(moves) > 0 {
					_, _ = m.Carry(ctx, p, snapshot)
				}
				pass(time.Second)
			}
		})
	}
	done.Wait()
	return s
}

// copyOf is the only copy of a shard.
func (f *fake) copyOf(index string, shard int) *fakeCopy {
	for _, k := range f.copies {
		if k.Index == index && k.Shard == shard {
			return k
		}
	}
	return nil
}

// Two instances believe to lead, and one of them is stopped at one call, for as long as it takes: every call of its first
// looks at the cluster, both sides of it, either instance. Never do both act.
func TestNeverTwoActOneStop(t *testing.T) {
	runs, both := 0, 0
	for _, stopped := range []string{"one", "two"} {
		for _, d := range []time.Duration{1100 * time.Millisecond, 2100 * time.Millisecond, 15 * time.Second} {
			for _, isBefore := range []bool{true, false} {
				for at := 1; at <= 24; at++ {
					synctest.Test(t, func(t *testing.T) {
						story := fmt.Sprintf("%s is stopped for %s at call %d, before it %t", stopped, d, at, isBefore)
						s := contend(t, story, 4300*time.Millisecond, func(holder string, call int) (before, after time.Duration) {
							switch {
							case holder != stopped || call != at:
							case isBefore:
								before = d
							default:
								after = d
							}
							return before, after
						})
						runs++
						if s.acts["one"] > 0 && s.acts["two"] > 0 {
							both++
						}
					})
				}
			}
		}
	}
	if both < runs/2 {
		t.Errorf("in only %d of %d runs did both come to act", both, runs)
	}
	t.Logf("%d runs, in %d of them both came to act", runs, both)
}

// The same with both stopped again and again.
func TestNeverTwoActManyStops(t *testing.T) {
	acts := 0
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			random := rand.New(rand.NewPCG(seed, 2))
			s := contend(t, fmt.Sprintf("seed %d", seed), 3*time.Second, func(string, int) (before, after time.Duration) {
				mu.Lock()
				defer mu.Unlock()
				held := func() time.Duration {
					if random.IntN(12) > 0 {
						return 0
					}
					return time.Duration(random.Int64N(int64(4 * time.Second)))
				}
				return held(), held()
			})
			acts += s.acts["one"] + s.acts["two"]
		})
	}
	if acts < 300 {
		t.Errorf("only %d requests in all: nothing is shown", acts)
	}
	t.Logf("%d requests for moves", acts)
}
