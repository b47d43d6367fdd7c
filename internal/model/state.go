package model

import (
	"maps"
	"slices"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// PinnedBy is what keeps a copy (a position in the snapshot) from moving at all; empty for a movable one.
func (r *Rules) PinnedBy(c int) Deciders { return r.pinned[c] }

// KeepsOut is what forbids node n to copy c whatever stands where: roles, filters, tiers, versions.
func (r *Rules) KeepsOut(c, n int) Deciders {
	return r.why[int(r.class[r.group[c]])*len(r.s.Nodes)+n]
}

// Group lists the copies of the same shard as c, c included.
func (r *Rules) Group(c int) (from, to int) {
	span := r.groups[r.group[c]]
	return int(span.from), int(span.to)
}

// State is where every copy is and where it is going, while a sequence of moves is played. It answers as the server
// would at that moment: a copy in flight stands on both nodes, and is charged in full to its target's disk.
type State struct {
	r        *Rules
	at, to   []int32
	free     []int64 // per node, bytes: arriving copies charged in full, leaving ones not credited until they have landed
	count    []int   // per node: copies that are there or arriving, leaving ones not
	perIndex map[[2]int32]int
}

// Start is the state of the snapshot itself, relocations under way included.
func (r *Rules) Start() *State {
	s := r.s
	st := &State{
		r: r, at: make([]int32, len(s.Copies)), to: make([]int32, len(s.Copies)),
		free: make([]int64, len(s.Nodes)), count: make([]int, len(s.Nodes)), perIndex: make(map[[2]int32]int),
	}
	for n := range s.Nodes {
		st.free[n] = s.Nodes[n].Disk.Available
	}
	for c := range s.Copies {
		k := &s.Copies[c]
		st.at[c], st.to[c] = k.Node, k.Target
		if k.Target != cluster.None {
			st.free[k.Target] -= k.Bytes
		}
		if home := st.Home(c); home != cluster.None {
			st.count[home]++
			st.perIndex[[2]int32{k.Index, int32(home)}]++
		}
	}
	return st
}

// Clone is an independent copy.
func (st *State) Clone() *State {
	c := *st
	c.at, c.to, c.free, c.count = slices.Clone(st.at), slices.Clone(st.to), slices.Clone(st.free), slices.Clone(st.count)
	c.perIndex = make(map[[2]int32]int, len(st.perIndex))
	maps.Copy(c.perIndex, st.perIndex)
	return &c
}

// Home is the node a copy will be on when nothing is in flight any more, None for an unassigned one.
func (st *State) Home(c int) int {
	if st.to[c] != cluster.None {
		return int(st.to[c])
	}
	return int(st.at[c])
}

// At is the node a copy stands on now: its source while it is in flight.
func (st *State) At(c int) int { return int(st.at[c]) }

// InFlight tells whether the copy is relocating.
func (st *State) InFlight(c int) bool { return st.to[c] != cluster.None }

// Free is the bytes free on node n, arriving copies charged in full.
func (st *State) Free(n int) int64 { return st.free[n] }

// Refusals is what forbids starting to move copy c to node n now. It is empty exactly where the server would answer YES
// (or THROTTLE) and no rule of ours stands against it. What pins a copy is PinnedBy's business.
func (st *State) Refusals(c, n int) (why Deciders) {
	r, k := st.r, &st.r.s.Copies[c]
	why = r.KeepsOut(c, n)
	if st.at[c] == cluster.None || st.to[c] != cluster.None {
		why |= NotStarted
	}
	host := r.s.Nodes[n].HostAddress()
	from, to := r.Group(c)
	for other := from; other < to; other++ {
		at, target := st.at[other], st.to[other]
		if int(at) == n || int(target) == n {
			why |= SameShard
		}
		if r.s.Settings.SameShardHost && host != "" &&
			(at != cluster.None && r.s.Nodes[at].HostAddress() == host || target != cluster.None && r.s.Nodes[target].HostAddress() == host) {
			why |= SameShard // the copy's own host counts against it too
		}
	}
	for a := range r.attribute {
		limit, value := r.caps[a][k.Index], r.attribute[a].value
		if limit == 0 || value[n] == "" {
			continue
		}
		count := 1
		for other := from; other < to; other++ {
			if home := st.Home(other); other != c && home != cluster.None && value[home] == value[n] {
				count++
			}
		}
		if count > limit {
			why |= Awareness
		}
	}
	if !st.diskTakes(n, k.Bytes) {
		why |= DiskThreshold
	}
	if limit := r.s.Settings.TotalShardsPerNode; limit > 0 && st.count[n] >= limit {
		why |= ShardsLimit
	}
	if limit := r.s.Indices[k.Index].TotalShardsPerNode; limit > 0 && st.perIndex[[2]int32{k.Index, int32(n)}] >= limit {
		why |= ShardsLimit
	}
	if limit := r.s.Settings.LoadAwareness.Limit(r.total); limit > 0 && st.count[n] >= limit {
		why |= LoadAwareness
	}
	return why
}

// diskTakes tells whether node n may receive so many bytes: below the low watermark now, below the high one after.
func (st *State) diskTakes(n int, bytes int64) bool {
	settings, disk := &st.r.s.Settings, &st.r.s.Nodes[n].Disk
	if !settings.DiskThreshold || disk.Total <= 0 {
		return true
	}
	return st.free[n] >= 0 && st.free[n] >= settings.Low.Required(disk.Total) &&
		st.free[n]-bytes >= settings.High.Required(disk.Total)
}

// Begin starts moving copy c to node n. The caller has asked Refusals.
func (st *State) Begin(c, n int) {
	k := &st.r.s.Copies[c]
	st.to[c] = int32(n)
	st.free[n] -= k.Bytes
	st.count[st.at[c]]--
	st.count[n]++
	st.perIndex[[2]int32{k.Index, st.at[c]}]--
	st.perIndex[[2]int32{k.Index, int32(n)}]++
}

// Land ends the move of copy c: it stands on its target, its source's bytes are free.
func (st *State) Land(c int) {
	st.free[st.at[c]] += st.r.s.Copies[c].Bytes
	st.at[c], st.to[c] = st.to[c], cluster.None
}
