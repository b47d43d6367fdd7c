package plan

import (
	"cmp"
	"maps"
	"slices"

	"github.com/shardonnay/shardonnay/internal/model"
)

const (
	// maxSeeds bounds how many wishes are tried as the start of a chain or for a detour each time the queue runs dry. A
	// guess: past the most promising few dozen, the next cycle is the better place to look.
	maxSeeds = 64
	// maxChain bounds how many moves may be tied together because only all of them pay. A swap is two; a longer chain that
	// is interrupted leaves the cluster worse than it was for longer.
	maxChain = 8
	// maxWhole is how many wishes may be left for the last try, all of them as one chain, whose cost grows by the square.
	maxWhole = 300
	// diskSlack absorbs rounding in sums of sizes, as the model's own check does.
	diskSlack = 1e-9
)

// takeChain takes a few moves that pay only together, such as the two of a swap: every one of them legal in its turn, the
// least bad first.
func (s *sequencer) takeChain() bool {
	var seeds []*wish
	for _, c := range s.wishes() {
		if w := s.left[c]; w.why == 0 && w.barred == "" {
			seeds = append(seeds, w)
		}
	}
	slices.SortStableFunc(seeds, func(a, b *wish) int { return cmp.Compare(b.net, a.net) })
	for _, w := range seeds[:min(maxSeeds, len(seeds))] {
		if s.takeAll(s.chain(w.copy, maxChain, s.neighbours)) {
			return true
		}
	}
	if len(s.left) > maxWhole || len(seeds) == 0 {
		return false
	}
	return s.takeAll(s.chain(seeds[0].copy, len(s.left), func([]int32) []int32 { return s.wishes() }))
}

func (s *sequencer) takeAll(chain []int32) bool {
	for _, c := range chain {
		s.take(c, s.want[c])
	}
	return len(chain) > 0
}

// neighbours lists the wishes that leave or enter a node which a move of the chain left or entered.
func (s *sequencer) neighbours(chain []int32) []int32 {
	var copies []int32
	for _, c := range chain {
		copies = append(copies, s.byNode[s.p.Copies[c].Node]...)
		copies = append(copies, s.byNode[s.want[c]]...)
	}
	slices.Sort(copies)
	return slices.Compact(copies)
}

// chain starts with a move that does not pay and goes on with the best of the candidates, until together they pay and the
// disks are within their limits; nil where that does not happen within so many moves. It leaves no trace.
func (s *sequencer) chain(seed int32, most int, candidates func(chain []int32) []int32) []int32 {
	var chain []int32
	net, bytes, links := 0.0, 0.0, maps.Clone(s.links)
	defer func() {
		for _, c := range slices.Backward(chain) {
			s.shift(c, s.p.Copies[c].Node)
		}
	}()
	for next, found := seed, true; found && len(chain) < most; next, found = s.least(chain, candidates(chain)) {
		if !s.spend(links, next, s.want[next]) {
			return nil
		}
		net -= s.place.Delta(int(next), s.want[next])
		bytes += s.p.Copies[next].Bytes
		s.shift(next, s.want[next])
		chain = append(chain, next)
		if !s.affords(len(chain), bytes) || s.regional() && s.sameGroupTwice(chain) {
			return nil
		}
		if net > minNet && s.disksFit(chain) {
			return slices.Clone(chain)
		}
	}
	return nil
}

// shift moves a copy in the pictures that can go back.
func (s *sequencer) shift(c, to int32) {
	copyAt := int(s.b.CopyOf[c])
	s.place.Move(int(c), to)
	s.landed.Begin(copyAt, int(s.b.NodeOf[to]))
	s.landed.Land(copyAt)
}

// least is the candidate that costs least or gains most of those the server would let move now.
func (s *sequencer) least(chain, candidates []int32) (best int32, found bool) {
	bestDelta := 0.0
	for _, c := range candidates {
		w, waits := s.left[c]
		if !waits || w.barred != "" || slices.Contains(chain, c) || s.refusals(int(c), s.want[c]) != 0 {
			continue
		}
		if delta := s.place.Delta(int(c), s.want[c]); !found || delta < bestDelta {
			best, bestDelta, found = c, delta, true
		}
	}
	return best, found
}

// disksFit tells whether the nodes a chain enters are within the limit that leaves room to grow, or no fuller than they
// were.
func (s *sequencer) disksFit(chain []int32) bool {
	for _, c := range chain {
		n := s.want[c]
		if limit := s.p.Nodes[n].Disk.Limit; limit > 0 && s.place.DiskUsed(int(n)) > max(limit, s.used[n])*(1+diskSlack) {
			return false
		}
		if s.place.Overloaded(n) {
			return false
		}
	}
	return true
}

// takeDetour finds another home for a copy whose way is blocked, which also breaks rings of moves that wait for each
// other's disk space: the copy stays where it is sent, for it moves once only.
func (s *sequencer) takeDetour() bool {
	var blocked []*wish
	for _, c := range s.wishes() {
		w := s.left[c]
		if (w.why != 0 && w.why&never == 0 || w.why == 0 && w.ours != 0) && s.affords(1, s.p.Copies[c].Bytes) {
			blocked = append(blocked, w)
		}
	}
	slices.SortStableFunc(blocked, func(a, b *wish) int {
		if a.must != b.must {
			if a.must {
				return -1
			}
			return 1
		}
		return cmp.Compare(b.net, a.net)
	})
	for _, w := range blocked[:min(maxSeeds, len(blocked))] {
		if to, found := s.otherHome(w.copy); found {
			s.take(w.copy, to)
			return true
		}
	}
	return false
}

// never are the deciders that no other node changes anything about.
const never = model.NotStarted | model.MaxRetry | model.SnapshotInProgress | model.RebalanceOnlyWhenActive |
	model.IndexBusy | model.Pinned | model.CoolDown

// otherHome is the node on which copy c gains most of those that may take it now.
func (s *sequencer) otherHome(c int32) (to int32, found bool) {
	best := minNet
	for _, n := range s.p.Classes[s.p.Groups[s.p.Copies[c].Group].Class].Nodes {
		if n == s.place.Node(int(c)) || !s.place.Legal(int(c), n) {
			continue
		}
		net := -s.place.Delta(int(c), n)
		if net <= best || s.refusals(int(c), n) != 0 || !s.linksAfford(c, n) || s.bars(int(c), n, net+s.p.MoveCost(int(c))) != "" {
			continue
		}
		best, to, found = net, n, true
	}
	return to, found
}
