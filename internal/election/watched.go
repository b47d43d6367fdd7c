package election

import (
	"context"
	"errors"

	api "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// watched is the way to Leases with an eye on it: what each call tells of the election is noted.
type watched struct {
	coordination.LeasesGetter
	candidate *Candidate
}

// Leases is the way to those of a namespace.
func (w *watched) Leases(namespace string) coordination.LeaseInterface {
	return &watchedLeases{w.LeasesGetter.Leases(namespace), w.candidate}
}

type watchedLeases struct {
	coordination.LeaseInterface
	candidate *Candidate
}

// Get reads one.
func (w *watchedLeases) Get(ctx context.Context, name string, o metav1.GetOptions) (*api.Lease, error) {
	lease, err := w.LeaseInterface.Get(ctx, name, o)
	return lease, w.note(ctx, lease, err)
}

// Create makes one.
func (w *watchedLeases) Create(ctx context.Context, lease *api.Lease, o metav1.CreateOptions) (*api.Lease, error) {
	lease, err := w.LeaseInterface.Create(ctx, lease, o)
	return lease, w.note(ctx, lease, err)
}

// Update replaces one.
func (w *watchedLeases) Update(ctx context.Context, lease *api.Lease, o metav1.UpdateOptions) (*api.Lease, error) {
	lease, err := w.LeaseInterface.Update(ctx, lease, o)
	return lease, w.note(ctx, lease, err)
}

// note passes the error on. That there is no Lease yet or that another was faster is the ordinary course of an election,
// and that we broke a call off ourselves tells nothing.
func (w *watchedLeases) note(ctx context.Context, lease *api.Lease, err error) error {
	switch {
	case err == nil:
		w.candidate.note(lease.Spec.HolderIdentity, string(lease.UID), nil)
	case apierrors.IsNotFound(err):
		w.candidate.note(nil, "", nil)
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), errors.Is(ctx.Err(), context.Canceled):
	default:
		w.candidate.note(nil, "", err)
	}
	return err
}
