package election

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	api "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

var leases = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

// store is the API server: one Lease and its version.
type store struct {
	mu      sync.Mutex
	lease   *api.Lease
	version int
	made    int
}

// put stores a Lease as its next version. The caller holds the lock.
func (s *store) put(lease *api.Lease) *api.Lease {
	s.version++
	s.lease = lease.DeepCopy()
	s.lease.ResourceVersion = strconv.Itoa(s.version)
	return s.lease.DeepCopy()
}

func (s *store) holder() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lease == nil || s.lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *s.lease.Spec.HolderIdentity
}

// path is one instance's way to the store.
type path struct {
	coordination.LeaseInterface // what is not used here is not there
	store                       *store

	mu      sync.Mutex
	cut     bool  // nothing arrives
	refuse  error // the answer to everything
	latency func() (there, back time.Duration)
}

func (p *path) Leases(string) coordination.LeaseInterface { return p }

func (p *path) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// call is one request with its answer, neither of which may take longer together than requests may.
func (p *path) call(ctx context.Context, do func() (*api.Lease, error)) (*api.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	wait := func(d time.Duration) bool {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(d):
			return true
		}
	}
	var there, back time.Duration
	p.mu.Lock()
	if p.latency != nil {
		there, back = p.latency()
	}
	cut, refuse := p.cut, p.refuse
	p.mu.Unlock()
	if cut {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if !wait(there) {
		return nil, ctx.Err()
	}
	if refuse != nil {
		return nil, refuse
	}
	p.store.mu.Lock()
	lease, err := do()
	p.store.mu.Unlock()
	if !wait(back) {
		return nil, ctx.Err()
	}
	return lease, err
}

func (p *path) Get(ctx context.Context, name string, _ metav1.GetOptions) (*api.Lease, error) {
	return p.call(ctx, func() (*api.Lease, error) {
		if p.store.lease == nil {
			return nil, apierrors.NewNotFound(leases, name)
		}
		return p.store.lease.DeepCopy(), nil
	})
}

func (p *path) Create(ctx context.Context, lease *api.Lease, _ metav1.CreateOptions) (*api.Lease, error) {
	return p.call(ctx, func() (*api.Lease, error) {
		if p.store.lease != nil {
			return nil, apierrors.NewAlreadyExists(leases, lease.Name)
		}
		p.store.made++
		lease = lease.DeepCopy()
		lease.UID = types.UID(fmt.Sprint("uid-", p.store.made))
		return p.store.put(lease), nil
	})
}

func (p *path) Update(ctx context.Context, lease *api.Lease, _ metav1.UpdateOptions) (*api.Lease, error) {
	return p.call(ctx, func() (*api.Lease, error) {
		if p.store.lease == nil {
			return nil, apierrors.NewNotFound(leases, lease.Name)
		}
		if lease.ResourceVersion != p.store.lease.ResourceVersion {
			return nil, apierrors.NewConflict(leases, lease.Name, errors.New("somebody was faster"))
		}
		return p.store.put(lease), nil
	})
}

func (s *store) candidate(name string) (*Candidate, *path) {
	p := &path{store: s}
	return newCandidate(p, "search", "shardonnay", name, nil), p
}

// elect waits until a candidate leads, at most for a minute.
func elect(t *testing.T, c *Candidate) (*Reign, time.Duration) {
	t.Helper()
	started := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := c.Campaign(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return r, time.Since(started)
}

// lost is closed when a candidate no longer leads.
func lost(r *Reign) <-chan struct{} {
	closed := make(chan struct{})
	r.OnLoss(func() { close(closed) })
	return closed
}

// One leads, the other waits and knows for whom, and comes next when the first resigns.
func TestOneLeadsAndTheOtherFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		one, _ := s.candidate("one")
		two, _ := s.candidate("two")
		first, took := elect(t, one)
		if took > 0 || first.Election() != "search/shardonnay@uid-1" {
			t.Errorf("elected after %s as %s", took, first.Election())
		}
		ended := lost(first)
		following := make(chan *Reign)
		go func() {
			r, err := two.Campaign(t.Context())
			if err != nil {
				t.Error(err)
			}
			following <- r
		}()
		<-time.After(time.Hour)
		synctest.Wait()
		if status := two.Status(); status.Leader != "one" || status.Trouble != nil {
			t.Errorf("the one who waits knows %+v", status)
		}
		select {
		case <-ended:
			t.Error("lost without a reason")
		case <-following:
			t.Fatal("two lead")
		default:
		}
		resigned := time.Now()
		if err := first.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		second := <-following
		if waited := time.Since(resigned); waited > 3*time.Second {
			t.Errorf("the second leads %s after the first has resigned", waited)
		}
		if second.Election() != first.Election() {
			t.Errorf("the same Lease is %s and %s", first.Election(), second.Election())
		}
		if err := second.Resign(t.Context()); err != nil || s.holder() != "" {
			t.Errorf("%v; the Lease is held by %q", err, s.holder())
		}
	})
}

// A leader that dies is replaced within the time that the constants promise, whenever it dies.
func TestTheDeadAreReplaced(t *testing.T) {
	var longest time.Duration
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			s := &store{}
			one, dead := s.candidate("one")
			two, _ := s.candidate("two")
			elect(t, one)
			following := make(chan *Reign)
			go func() {
				r, err := two.Campaign(t.Context())
				if err != nil {
					t.Error(err)
				}
				following <- r
			}()
			<-time.After(30*time.Second + time.Duration(random.Int64N(int64(5*time.Second))))
			dead.set(func() { dead.cut = true })
			died := time.Now()
			heir := <-following
			longest = max(longest, time.Since(died))
			if err := heir.Resign(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	if most := leaseDuration + 2*2200*time.Millisecond; longest > most || longest < leaseDuration-retryPeriod {
		t.Errorf("it took up to %s, want at most %s", longest, most)
	}
	t.Logf("at most %s", longest)
}

// Whatever becomes of the ways to the API server, of requests and of answers: no two that live lead at the same time.
func TestNeverTwoLead(t *testing.T) {
	reigns, losses := 0, 0
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			upTo := func(d time.Duration) time.Duration { return time.Duration(random.Int64N(int64(d) + 1)) }
			s := &store{}
			ctx, end := context.WithTimeout(t.Context(), 10*time.Minute)
			defer end()
			var mu sync.Mutex // of what follows, and of random
			leading := map[string]bool{}
			roll := func(d time.Duration) time.Duration {
				mu.Lock()
				defer mu.Unlock()
				return upTo(d)
			}
			var done sync.WaitGroup
			for i := range 3 {
				name := fmt.Sprint("n", i)
				c, p := s.candidate(name)
				p.latency = func() (time.Duration, time.Duration) {
					return roll(1200 * time.Millisecond), roll(1200 * time.Millisecond)
				}
				done.Go(func() { // the way breaks now and then
					for ctx.Err() == nil {
						<-time.After(roll(time.Minute))
						p.set(func() { p.cut = true })
						<-time.After(roll(20 * time.Second))
						p.set(func() { p.cut = false })
					}
				})
				done.Go(func() {
					for {
						r, err := c.Campaign(ctx)
						if err != nil {
							return
						}
						mu.Lock()
						reigns++
						leading[name] = true
						if len(leading) > 1 {
							t.Errorf("seed %d: %v lead", seed, leading)
						}
						mu.Unlock()
						select {
						case <-lost(r):
							mu.Lock()
							losses++
							mu.Unlock()
						case <-time.After(roll(2 * time.Minute)):
						case <-ctx.Done():
						}
						mu.Lock()
						delete(leading, name)
						mu.Unlock()
						_ = r.Resign(ctx) // where the way is broken it lapses
					}
				})
			}
			done.Wait()
		})
	}
	if reigns < 500 || losses < 100 {
		t.Errorf("only %d reigns, %d of them lost", reigns, losses)
	}
	t.Logf("%d reigns, %d of them lost", reigns, losses)
}

// Who may not read the Lease, or does not reach it, says so, with the cure, and goes on when that is mended.
func TestTroubleIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		c, p := s.candidate("one")
		changes := 0
		c.changed = func() { changes++ }
		p.refuse = apierrors.NewForbidden(leases, "shardonnay", errors.New("no Role allows it"))
		elected := make(chan *Reign)
		go func() {
			r, err := c.Campaign(t.Context())
			if err != nil {
				t.Error(err)
			}
			elected <- r
		}()
		<-time.After(time.Minute)
		synctest.Wait()
		if err := c.Status().Trouble; cluster.ClassOf(err) != cluster.Refused || !strings.Contains(err.Error(), "search/shardonnay") || !strings.Contains(err.Error(), "Role") {
			t.Errorf("got %v", err)
		}
		if changes != 1 {
			t.Errorf("told %d times", changes)
		}
		p.set(func() { p.refuse, p.cut = nil, true })
		<-time.After(time.Minute)
		synctest.Wait()
		if err := c.Status().Trouble; cluster.ClassOf(err) != cluster.Unavailable {
			t.Errorf("got %v", err)
		}
		p.set(func() { p.cut = false })
		r := <-elected
		if status := c.Status(); status.Trouble != nil || status.Leader != "one" {
			t.Errorf("%+v", status)
		}
		if err := r.Resign(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Another Lease of the same name is another election.
func TestALeaseMadeAnewIsAnotherElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		c, _ := s.candidate("one")
		first, _ := elect(t, c)
		s.mu.Lock()
		s.lease = nil // somebody deletes it
		s.mu.Unlock()
		<-time.After(30 * time.Second)
		if err := first.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		other, _ := s.candidate("two")
		second, _ := elect(t, other)
		if first.Election() == second.Election() || second.Election() != "search/shardonnay@uid-2" {
			t.Errorf("%s and %s", first.Election(), second.Election())
		}
		if err := second.Resign(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// To be told to end while waiting is no reason to be elected.
func TestWaitingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		one, _ := s.candidate("one")
		two, _ := s.candidate("two")
		first, _ := elect(t, one)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if r, err := two.Campaign(ctx); r != nil || cluster.ClassOf(err) != cluster.Interrupted {
			t.Errorf("%v, %v", r, err)
		}
		if s.holder() != "one" {
			t.Errorf("held by %q", s.holder())
		}
		if err := first.Resign(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestWhereTheAPIServerIs(t *testing.T) {
	kubeconfig := func(text string) string {
		file := filepath.Join(t.TempDir(), "kubeconfig")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	good := kubeconfig("apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: k, cluster: {server: 'https://127.0.0.1:6443'}}]\n" +
		"contexts: [{name: c, context: {cluster: k, namespace: theirs}}]\n")
	for _, test := range []struct {
		name    string
		config  Config
		lease   string
		trouble string
	}{
		{"the namespace of the context", Config{Lease: "l", Kubeconfig: good, Identity: "i"}, "theirs/l", ""},
		{"a namespace that is given", Config{Lease: "l", Namespace: "ours", Kubeconfig: good, Identity: "i"}, "ours/l", ""},
		{"no such file", Config{Lease: "l", Kubeconfig: "/does/not/exist", Identity: "i"}, "", "/does/not/exist"},
		{"a file that is none", Config{Lease: "l", Kubeconfig: kubeconfig("?"), Identity: "i"}, "", "election.kubeconfig"},
		{"outside of a pod", Config{Lease: "l", Identity: "i"}, "", "election.kubeconfig"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("KUBERNETES_SERVICE_HOST", "")
			c, err := New(test.config, nil)
			if test.trouble != "" {
				if cluster.ClassOf(err) != cluster.Invalid || !strings.Contains(err.Error(), test.trouble) {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if c.Lease() != test.lease {
				t.Errorf("%s, want %s", c.Lease(), test.lease)
			}
		})
	}
}
