package collector

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/es"
)

// source is where answers come from: a cluster, a folder, or a cluster by way of a folder (a capture being made).
type source interface {
	// read hands the answer to a request to decode; errAbsent where there can be none.
	read(ctx context.Context, what es.Request, decode func(io.Reader) error) error
	// statistics of those nodes, or of all that are there.
	statistics(ctx context.Context, nodes []cluster.NodeID) (*es.NodesStats, error)
	// stateVersion of the cluster now; known is false where there is no telling.
	stateVersion(ctx context.Context) (version int64, known bool, err error)
}

// errAbsent is a source that does not have what was asked for: an interface the product lacks, a file nobody captured.
var errAbsent = errors.New("it is not there")

// answers is everything one collection read, decoded and not yet understood.
type answers struct {
	identity  cluster.Identity
	nodes     []es.NodeInfo
	routing   *es.Routing
	settings  es.RawSettings
	indices   []es.IndexSettings
	streams   []es.Stream
	writes    map[string]bool // indices some alias says it writes to
	health    cluster.Health
	snapshots map[es.SnapshotShard]struct{}
	shutdowns []es.Shutdown
	stats     *es.NodesStats
	takenAt   time.Time

	moved    int64 // versions the cluster state moved on meanwhile
	maybe    bool  // it cannot be known whether it did
	warnings []string
}

// gather asks everything once. The routing table comes before the settings and the statistics, so that what has gone
// when those are read can be told from what came.
func gather(ctx context.Context, from source, o *Options) (*answers, error) {
	a := &answers{}
	if err := a.identify(ctx, from); err != nil {
		return nil, err
	}
	product := a.identity.Product
	needed := func(what es.Request, decode func(io.Reader) error) error { return from.read(ctx, what, decode) }
	optional := func(what es.Request, lost string, decode func(io.Reader) error) error {
		err := from.read(ctx, what, decode)
		if errors.Is(err, errAbsent) || es.Absent(err) {
			return nil
		}
		var status *es.StatusError
		if errors.As(err, &status) && status.Status == http.StatusForbidden {
			a.warnings = append(a.warnings, fmt.Sprintf("%s: %v", lost, err))
			return nil
		}
		return err
	}
	for _, step := range []func() error{
		func() error {
			return needed(es.RoutingRequest(product), func(r io.Reader) (err error) { a.routing, err = es.DecodeRouting(r); return err })
		},
		func() error {
			return needed(es.SettingsRequest(product), func(r io.Reader) (err error) { a.settings, err = es.DecodeSettings(r); return err })
		},
		func() error {
			return needed(es.IndexSettingsRequest(), func(r io.Reader) (err error) { a.indices, err = es.DecodeIndexSettings(r); return err })
		},
		func() error {
			return optional(es.StreamsRequest(product), "Data streams are told by the names of their indices alone",
				func(r io.Reader) (err error) { a.streams, err = es.DecodeStreams(r); return err })
		},
		func() error {
			return optional(es.AliasesRequest(), "Which index an alias writes to is not known",
				func(r io.Reader) (err error) { a.writes, err = es.DecodeWriteIndices(r); return err })
		},
		func() error {
			a.health.HasMaster = true
			return optional(es.HealthRequest(product), "The cluster's own view of its health is not known",
				func(r io.Reader) (err error) { a.health, err = es.DecodeHealth(r); return err })
		},
		func() error {
			return optional(es.SnapshotsRequest(product), "Moves may break snapshots that are being taken",
				func(r io.Reader) (err error) { a.snapshots, err = es.DecodeSnapshots(r); return err })
		},
		func() error {
			if product.Distribution != cluster.Elasticsearch {
				return nil
			}
			return optional(es.ShutdownsRequest(), "Nodes marked for shutdown are not known",
				func(r io.Reader) (err error) { a.shutdowns, err = es.DecodeShutdowns(r); return err })
		},
		func() error { a.completeNodes(); return nil },
		func() (err error) { a.stats, err = from.statistics(ctx, a.dataNodes()); return err },
		func() error { return a.compareVersions(ctx, from, o) },
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// identify reads what cluster it is and which nodes it has.
func (a *answers) identify(ctx context.Context, from source) error {
	var root es.Root
	if err := from.read(ctx, es.RootRequest(), func(r io.Reader) (err error) { root, err = es.DecodeRoot(r); return err }); err != nil {
		return err
	}
	if err := from.read(ctx, es.NodesRequest(), func(r io.Reader) (err error) { a.nodes, err = es.DecodeNodes(r); return err }); err != nil {
		return err
	}
	var versions []cluster.Version
	for _, n := range a.nodes {
		if n.Version != (cluster.Version{}) {
			versions = append(versions, n.Version)
		}
	}
	var err error
	a.identity, err = es.Identify(root, versions)
	return err
}

// completeNodes takes the nodes from the list of nodes where a captured state has none.
func (a *answers) completeNodes() {
	if len(a.routing.Nodes) > 0 {
		return
	}
	for _, n := range a.nodes {
		a.routing.Nodes = append(a.routing.Nodes, es.RoutingNode{ID: n.ID, Name: n.Name})
	}
}

// dataNodes are the nodes whose statistics are wanted: those that hold copies or may.
func (a *answers) dataNodes() []cluster.NodeID {
	wanted := map[cluster.NodeID]bool{}
	for _, n := range a.nodes {
		if (&cluster.Node{Roles: n.Roles}).IsData() {
			wanted[n.ID] = true
		}
	}
	for i := range a.routing.Copies {
		if node := a.routing.Copies[i].Node; node != "" {
			wanted[node] = true
		}
	}
	var ids []cluster.NodeID
	for _, n := range a.routing.Nodes {
		if wanted[n.ID] {
			ids = append(ids, n.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

func (a *answers) compareVersions(ctx context.Context, from source, o *Options) error {
	version, known, err := from.stateVersion(ctx)
	if err != nil {
		return err
	}
	if !known {
		a.maybe = true
		return nil
	}
	a.moved = version - a.routing.StateVersion
	if a.moved < 0 || a.moved > o.MaxStateMoves {
		return incomplete(StateMoved, a.identity.Name, "Ask again when the cluster is quieter, or raise max_state_moves.",
			"the cluster state went from version %d to %d while it was read", a.routing.StateVersion, version)
	}
	return nil
}

// changed tells whether the cluster may have changed while it was read: then what one answer has and another has not is
// change and not contradiction.
func (a *answers) changed() bool { return a.moved > 0 || a.maybe }

// live is a cluster asked over HTTP.
type live struct {
	client *es.Client
	o      *Options
}

func (l live) read(ctx context.Context, what es.Request, decode func(io.Reader) error) error {
	return l.client.Ask(ctx, what, decode)
}

// sideBySide is how many requests for statistics are under way at a time: one is read while the next is put together,
// and the cluster's heap holds no more than two batches for us.
const sideBySide = 2

func (l live) statistics(ctx context.Context, nodes []cluster.NodeID) (*es.NodesStats, error) {
	batches := slices.Collect(slices.Chunk(nodes, l.o.Batch))
	parts := make([]*es.NodesStats, len(batches))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(sideBySide)
	for i, batch := range batches {
		group.Go(func() error {
			return l.client.Ask(ctx, es.NodeStatsRequest(batch, l.o.heap()), func(r io.Reader) (err error) {
				parts[i], err = es.DecodeNodeStats(r)
				return err
			})
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	all := &es.NodesStats{}
	for _, part := range parts {
		all.Add(part)
	}
	return all, nil
}

func (l live) stateVersion(ctx context.Context) (int64, bool, error) {
	version, _, err := l.client.StateVersion(ctx)
	return version, true, err
}

// heap tells whether the heap of copies is to be measured.
func (o *Options) heap() bool { return slices.Contains(o.Dimensions, cluster.HeapBytes) }
