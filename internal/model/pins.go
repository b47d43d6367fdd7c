package model

import (
	"strings"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// defaultMaxRetries is the servers' default of index.allocation.max_retries.
const defaultMaxRetries = 5

// compilePins finds, for every copy, what keeps it from moving at all.
func (r *Rules) compilePins() {
	r.pinned = make([]Deciders, len(r.s.Copies))
	indexAt := r.s.DimensionAt(cluster.IndexTime.Name)
	regional := r.regional()
	for _, span := range r.groups {
		index := &r.s.Indices[r.s.Copies[span.from].Index]
		shared := r.indexPins(index)
		for c := span.from; c < span.to; c++ {
			if k := &r.s.Copies[c]; !k.Active() {
				shared |= RebalanceOnlyWhenActive
			}
		}
		if int(span.to-span.from) < 1+index.Replicas {
			shared |= RebalanceOnlyWhenActive
		}
		for c := span.from; c < span.to; c++ {
			k := &r.s.Copies[c]
			pins := shared
			if k.State != cluster.Started {
				pins |= NotStarted
			}
			if k.Snapshotting {
				pins |= SnapshotInProgress
			}
			if k.SearchOnly {
				pins |= TargetPool
			}
			if limit := max(index.MaxRetries, 0); k.FailedMoves > 0 && k.FailedMoves >= orDefault(limit, defaultMaxRetries) {
				pins |= MaxRetry
			}
			if _, cooling := r.policy.CoolingDown[k.AllocationID]; cooling {
				pins |= CoolDown
			}
			if regional && k.Node != cluster.None && r.KeepsOut(int(c), int(k.Node))&(NodeShutdown|Filter|DataTier) == 0 {
				if _, cooling := r.policy.Regions.CoolingDown[ShardID{index.UUID, k.Shard}]; cooling {
					pins |= CoolDown
				}
			}
			if share := r.policy.PinWriteShare; share > 0 && indexAt != cluster.None && k.Node != cluster.None {
				if capacity := r.s.Nodes[k.Node].Capacity[indexAt]; capacity > 0 && k.Load[indexAt] > share*capacity {
					pins |= Pinned
				}
			}
			r.pinned[c] = pins
		}
	}
}

func orDefault(value, otherwise int) int {
	if value > 0 {
		return value
	}
	return otherwise
}

// indexPins is what keeps all copies of an index where they are.
func (r *Rules) indexPins(index *cluster.Index) (pins Deciders) {
	if cluster.MatchIndex(r.policy.PinIndices, index.Name) || r.policy.PinNewest && index.Newest {
		pins |= Pinned
	}
	if index.Busy != "" || index.AllocationEnable != "" && index.AllocationEnable != "all" {
		pins |= IndexBusy
	}
	if strings.HasSuffix(index.StoreType, "snapshot") {
		pins |= TargetPool // a searchable snapshot: its disk use is a cache and its home another pool's business
	}
	return pins
}
