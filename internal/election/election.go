package election

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/version"
)

// The times of an election. A leader that lives has stopped before anybody else leads: after the API server has stored a
// renewal, its answer may take requestTimeout, the next renewal begins retryPeriod later and is tried for renewDeadline,
// nine seconds in all; the others wait for leaseDuration from when they have seen the renewal. Each counts on its own
// clock, so that clocks may differ, though not run at different speeds. A leader that dies is replaced after
// leaseDuration and at most two of the others' looks, which come within 2.2 s of each other: 14.4 s, and the claim in the
// search cluster makes it 17. The default of Kubernetes' own controllers, 15 s with looks up to 4.4 s apart, would
// make it 26.
const (
	leaseDuration  = 10 * time.Second
	renewDeadline  = 6 * time.Second
	retryPeriod    = time.Second
	requestTimeout = 2 * time.Second

	// resignTimeout bounds letting go of the Lease at the end: two short requests. Without them the others wait until it
	// lapses, no more.
	resignTimeout = 5 * time.Second
)

// namespaceFile is where a pod finds the name of its own namespace.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// Config says which Lease decides, and who stands.
type Config struct {
	Lease      string // its name
	Namespace  string // where it is; empty for the pod's own, or that of the kubeconfig
	Kubeconfig string // path of a file that says how to reach the API server; empty inside a pod
	Identity   string // of this instance: no other live one may use it
}

// Status is what is known of the election.
type Status struct {
	Leader  string // who held the Lease when it was last read or written; empty for nobody
	Trouble error  // why it could not be read or written since; nil where it could
}

// Candidate is an instance that stands for election. Its methods may be called from several goroutines.
type Candidate struct {
	lock     *resourcelock.LeaseLock
	identity string
	changed  func()

	mu     sync.Mutex
	status Status
	uid    string // of the Lease
}

// New makes a candidate; it sends nothing. changed is called whenever Status has become another, from any goroutine.
func New(c Config, changed func()) (*Candidate, error) {
	api, namespace, err := c.connection()
	if err != nil {
		return nil, &cluster.Error{
			Class: cluster.Invalid, Op: "prepare the election", What: c.Lease, Err: err,
			Hint: "Outside of a pod set election.kubeconfig; where there is only one instance leave election.lease empty",
		}
	}
	api.Timeout = requestTimeout
	api.UserAgent = "shardonnay/" + version.Number()
	api.WarningHandler = rest.NoWarnings{}
	client, err := coordination.NewForConfig(api)
	if err != nil {
		return nil, &cluster.Error{Class: cluster.Invalid, Op: "prepare the election", What: c.Lease, Err: err, Hint: "Mend " + c.Kubeconfig}
	}
	return newCandidate(client, namespace, c.Lease, c.Identity, changed), nil
}

// connection says how to reach the API server, and in which namespace the Lease is.
func (c *Config) connection() (api *rest.Config, namespace string, err error) {
	if c.Kubeconfig == "" {
		if api, err = rest.InClusterConfig(); err != nil {
			return nil, "", err
		}
		if namespace = c.Namespace; namespace == "" {
			var text []byte
			if text, err = os.ReadFile(namespaceFile); err != nil {
				return nil, "", err
			}
			namespace = strings.TrimSpace(string(text))
		}
		return api, namespace, nil
	}
	file := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(&clientcmd.ClientConfigLoadingRules{ExplicitPath: c.Kubeconfig}, nil)
	if api, err = file.ClientConfig(); err != nil {
		return nil, "", err
	}
	if namespace = c.Namespace; namespace == "" {
		namespace, _, err = file.Namespace()
	}
	return api, namespace, err
}

func newCandidate(client coordination.LeasesGetter, namespace, lease, identity string, changed func()) *Candidate {
	c := &Candidate{identity: identity, changed: changed}
	c.lock = &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: lease},
		Client:     &watched{client, c},
		LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}
	return c
}

// Status is what is known now.
func (c *Candidate) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

// Lease names the Lease, "namespace/name".
func (c *Candidate) Lease() string { return c.lock.Describe() }

func (c *Candidate) election() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lock.Describe() + "@" + c.uid
}

// Campaign stands for election until this instance leads, or ctx ends.
func (c *Candidate) Campaign(ctx context.Context) (*Reign, error) {
	// client-go writes a log of its own; what there is to say is in Status.
	standing, withdraw := context.WithCancel(logr.NewContext(context.WithoutCancel(ctx), logr.Discard()))
	r := &Reign{candidate: c, withdraw: withdraw, ended: make(chan struct{})}
	elected := make(chan context.Context, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: c.lock, Name: c.Lease(), LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(held context.Context) { elected <- held },
			OnStoppedLeading: func() {},
		},
		// Its own release tells of a lost Lease only after it has tried to let go of it, for as long as an API server that
		// does not answer takes: Resign lets go when nothing is done in its name any more.
		ReleaseOnCancel: false,
	})
	if err != nil {
		withdraw()
		return nil, &cluster.Error{Class: cluster.Internal, Op: "stand for election", What: c.Lease(), Err: err}
	}
	go func() {
		defer close(r.ended)
		elector.Run(standing)
	}()
	select {
	case r.held = <-elected:
		r.election = c.election()
		return r, nil
	case <-ctx.Done():
		// It may be won in this very moment, and must not be held by nobody.
		return nil, errors.Join(&cluster.Error{Class: cluster.Interrupted, Op: "stand for election", What: c.Lease(), Err: context.Cause(ctx)}, r.Resign(ctx))
	}
}

// Reign is the time in which this instance leads.
type Reign struct {
	candidate *Candidate
	held      context.Context // ends when client-go finds the Lease lost
	election  string
	withdraw  context.CancelFunc
	ended     chan struct{}
}

// OnLoss calls a function, in a goroutine of its own, once this instance no longer leads.
func (r *Reign) OnLoss(do func()) { context.AfterFunc(r.held, do) }

// Election names the election that was won: the Lease, and which object of that name it was, since another Kubernetes
// cluster may have one of the same name.
func (r *Reign) Election() string { return r.election }

// Resign lets go of the Lease, where it is still ours, so that the others need not wait until it lapses. Call it when
// nothing is done in its name any more; that ctx has ended does not matter.
func (r *Reign) Resign(ctx context.Context) error {
	r.withdraw()
	<-r.ended
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resignTimeout)
	defer cancel()
	for {
		record, _, err := r.candidate.lock.Get(ctx)
		switch {
		case apierrors.IsNotFound(err), err == nil && record.HolderIdentity != r.candidate.identity:
			return nil
		case err == nil:
			now := metav1.Now()
			err = r.candidate.lock.Update(ctx, resourcelock.LeaderElectionRecord{
				LeaseDurationSeconds: 1, AcquireTime: now, RenewTime: now, LeaderTransitions: record.LeaderTransitions,
			})
		}
		if err == nil || !apierrors.IsConflict(err) { // a conflict: a renewal that was on its way has arrived in between
			return r.candidate.trouble(err)
		}
	}
}

// trouble is an error of the API server in the words of an operator; nil for none.
func (c *Candidate) trouble(err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return &cluster.Error{
			Class: cluster.Refused, Op: "read or write the Lease", What: c.Lease(), Err: err,
			Hint: "Bind a Role to this instance's ServiceAccount that lets it get, create and update this Lease",
		}
	}
	return &cluster.Error{
		Class: cluster.Unavailable, Op: "read or write the Lease", What: c.Lease(), Err: err, Hint: "Look whether this instance reaches the Kubernetes API server",
	}
}

// note keeps what a call told of the election.
func (c *Candidate) note(holder *string, uid string, err error) {
	next := Status{Trouble: c.trouble(err)}
	c.mu.Lock()
	if err == nil {
		c.uid = uid
		if holder != nil {
			next.Leader = *holder
		}
	} else {
		next.Leader = c.status.Leader
	}
	same := next.Leader == c.status.Leader && fmt.Sprint(next.Trouble) == fmt.Sprint(c.status.Trouble)
	c.status = next
	c.mu.Unlock()
	if !same && c.changed != nil {
		c.changed()
	}
}
