package plan

import (
	"cmp"
	"container/heap"
	"math"
	"slices"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/model"
)

// sequencer puts the moves of a difference into an order. It keeps three pictures: place, what the objective is once all
// moves taken so far have landed; landed, what the server says then; and flight, what it says while none of them has.
//
// The deciders never forbid more when one more move has landed: its source's disk and place are free, all else is
// unchanged. So a move that landed refuses can wait for others but has no turn now, one that flight allows may begin at
// once, and between the two lies the list of moves that must have landed first.
type sequencer struct {
	b      *model.Built
	p      *model.Problem
	o      *Options
	rules  *model.Rules // of the snapshot as it was taken
	place  *model.Placement
	landed *model.State
	flight *model.State
	loads  *loads

	want   []int32   // per copy: where the solver wants it
	byNode [][]int32 // per node: wanted moves that leave or enter it
	left   map[int32]*wish
	queue  wishHeap
	steps  []step
	from   [][]int         // per node: positions in steps that leave it
	group  map[int32][]int // per shard group: positions in its steps

	used []float64 // per node, bytes before the first step

	links map[model.Link]float64 // bytes that may still cross between regions; nil is no limit

	ofIndex [][]int32 // per index: its copies; filled when first asked for

	maxMoves int
	maxBytes float64
	bytes    float64 // of steps
}

// step is a move that has its place in the order. A chain is a run of steps that pay only together.
type step struct {
	copy     int32
	from, to int32
	after    []int // positions in steps
	gain     float64
	reason   Reason
	text     string
	link     model.Link // between regions, if it crosses
	crosses  bool
}

// wish is a move the solver wants and that has not got its place yet.
type wish struct {
	copy   int32
	must   bool
	net    float64 // what it takes off the objective, its own cost counted
	ratio  float64 // gain for its cost
	stamp  int     // of the latest entry in the queue
	why    model.Deciders
	barred Kind // Noise or Oscillation: it may move but should not
	overBy bool // a budget has no room for it
	// ours is what our own rules alone forbid: the disk would fill into the reserve for growth, or the load pass its limit.
	ours   model.Deciders
	noLink bool // what may still cross between regions has no room for it
}

// minNet is the least net gain a move must have: what differs from zero by rounding only is nothing.
const minNet = 1e-12

// sequence returns the steps in order and the wishes that found no place in it.
func sequence(b *model.Built, target []int32, o *Options) *sequencer {
	p := b.Problem
	s := &sequencer{
		b: b, p: p, o: o, rules: b.Rules, place: model.NewPlacement(p, nil), loads: newLoads(p), want: target,
		byNode: make([][]int32, len(p.Nodes)), left: make(map[int32]*wish), from: make([][]int, len(p.Nodes)), group: make(map[int32][]int),
		maxMoves: smaller(o.MaxMoves, p.Limits.MaxMoves), maxBytes: smaller(float64(o.MaxBytes), p.Limits.MaxBytes),
	}
	if o.Taken != nil {
		s.rules = model.NewRules(o.Taken, b.Rules.Policy())
	}
	s.landed, s.flight = s.rules.Start(), s.rules.Start()
	s.links = s.linkBudgets()
	for n := range p.Nodes {
		s.used = append(s.used, s.place.DiskUsed(n))
	}
	for c := range p.Copies {
		if k := &p.Copies[c]; target[c] != k.Node {
			s.left[int32(c)] = &wish{copy: int32(c), must: k.MustLeave}
			s.byNode[k.Node] = append(s.byNode[k.Node], int32(c))
			s.byNode[target[c]] = append(s.byNode[target[c]], int32(c))
		}
	}
	for _, c := range s.wishes() {
		s.weigh(s.left[c])
	}
	for !s.full() && (s.takeNext() || s.takeChain() || s.takeDetour()) {
	}
	return s
}

// smaller is the smaller of two limits of which 0 is none.
func smaller[T int | float64](a, b T) T {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// wishes lists the copies that still wait, ascending.
func (s *sequencer) wishes() []int32 {
	copies := make([]int32, 0, len(s.left))
	for c := range s.left {
		copies = append(copies, c)
	}
	slices.Sort(copies)
	return copies
}

// full tells whether the budget of moves is spent.
func (s *sequencer) full() bool { return s.maxMoves > 0 && len(s.steps) >= s.maxMoves }

// affords tells whether so many moves of so many bytes fit the budgets.
func (s *sequencer) affords(moves int, bytes float64) bool {
	return (s.maxMoves == 0 || len(s.steps)+moves <= s.maxMoves) && (s.maxBytes == 0 || s.bytes+bytes <= s.maxBytes)
}

// weigh judges a wish anew and puts it in the queue if it may be taken now.
func (s *sequencer) weigh(w *wish) {
	w.stamp++
	c, to := int(w.copy), s.want[w.copy]
	w.net = -s.place.Delta(c, to)
	gain := w.net + s.p.MoveCost(c)
	w.ratio = gain / max(s.p.MoveCost(c), math.SmallestNonzeroFloat64)
	if cost := s.p.MoveCost(c); cost == 0 {
		w.ratio = gain / (s.p.Copies[c].Bytes + 1) // moves are free: fewest bytes first all the same
	}
	w.why = s.refusals(c, to)
	w.ours = 0
	if w.why == 0 {
		w.ours = s.ours(c, to)
	}
	w.barred = s.bars(c, to, gain)
	w.overBy = !s.affords(1, s.p.Copies[c].Bytes)
	w.noLink = !s.linksAfford(w.copy, to)
	if w.why == 0 && w.ours == 0 && w.barred == "" && w.net > minNet {
		heap.Push(&s.queue, queued{*w, w.stamp})
	}
}

// refusals is what forbids copy c to go to node to once all steps so far have landed.
func (s *sequencer) refusals(c int, to int32) model.Deciders {
	copyAt, nodeAt := int(s.b.CopyOf[c]), int(s.b.NodeOf[to])
	why := s.rules.PinnedBy(copyAt) | s.landed.Refusals(copyAt, nodeAt)
	if s.groupInFlight(copyAt) {
		why |= model.NotStarted
	}
	if !s.sourceBears(s.landed, c) {
		why |= model.DiskThreshold
	}
	return why | s.regionRefusals(c, to)
}

// ours is what our own rules forbid to copy c on node to that the server would let pass.
func (s *sequencer) ours(c int, to int32) model.Deciders {
	switch {
	case s.place.Legal(c, to):
		return 0
	case !s.place.Bears(c, to):
		return s.overloads()
	}
	return model.DiskThreshold
}

// overloads are the rules that limit what nodes carry.
func (s *sequencer) overloads() (why model.Deciders) {
	if s.regional() {
		why |= model.Overload
	}
	if s.b.LossLimited() {
		why |= model.ZoneLoss
	}
	return why
}

// groupInFlight tells whether a copy of the same shard was already relocating when the snapshot was taken.
func (s *sequencer) groupInFlight(copyAt int) bool {
	from, to := s.rules.Group(copyAt)
	for other := from; other < to; other++ {
		if s.landed.InFlight(other) {
			return true
		}
	}
	return false
}

// sourceBears tells whether the node that sends the data stays below the high watermark with what it has to keep for the
// time of the move. One that is above it already has to be relieved all the same.
func (s *sequencer) sourceBears(st *model.State, c int) bool {
	keep := int64(s.p.Copies[c].BytesMoving)
	settings := &s.b.Snapshot.Settings
	source := s.sender(c)
	disk := &s.b.Snapshot.Nodes[source].Disk
	if keep <= 0 || !settings.DiskThreshold || disk.Total <= 0 {
		return true
	}
	free, high := st.Free(source), settings.High.Required(disk.Total)
	return free < high || free-keep >= high
}

// sender is the node, in the snapshot, that copy c's data comes from: where its shard's primary stands by then.
func (s *sequencer) sender(c int) int {
	from, to := s.rules.Group(int(s.b.CopyOf[c]))
	for other := from; other < to; other++ {
		if s.b.Snapshot.Copies[other].Primary && s.landed.At(other) != cluster.None {
			return s.landed.At(other)
		}
	}
	return int(s.b.NodeOf[s.place.Node(c)])
}

// bars is why a legal move that gains should not be made all the same.
func (s *sequencer) bars(c int, to int32, gain float64) Kind {
	k := &s.b.Snapshot.Copies[s.b.CopyOf[c]]
	if back, moved := s.o.Returns[k.AllocationID]; moved && !s.p.Copies[c].MustLeave &&
		string(back.Node) == s.p.Nodes[to].ID && gain < back.MinGain {
		return Oscillation
	}
	if !s.p.Copies[c].MustLeave && s.loads.doubtful(s.place, c, to, &k.Deviation, gain, s.p.MoveCost(c)) {
		return Noise
	}
	return ""
}

// takeNext takes the wish with the most gain for its cost, those that must leave first.
func (s *sequencer) takeNext() bool {
	for s.queue.Len() > 0 {
		next := heap.Pop(&s.queue).(queued)
		w, waits := s.left[next.copy]
		if !waits || w.stamp != next.stamp {
			continue
		}
		if !s.affords(1, s.p.Copies[w.copy].Bytes) {
			w.overBy = true
			continue
		}
		if !s.linksAfford(w.copy, s.want[w.copy]) {
			w.noLink = true
			continue
		}
		s.take(w.copy, s.want[w.copy])
		return true
	}
	return false
}

// take gives copy c the next place in the order, to go to node to.
func (s *sequencer) take(c, to int32) {
	copyAt, nodeAt := int(s.b.CopyOf[c]), int(s.b.NodeOf[to])
	from := s.place.Node(int(c))
	st := step{copy: c, from: from, to: to, after: s.mustLandBefore(int(c), to)}
	st.link, st.crosses = s.crossing(int(c), to)
	s.spend(s.links, c, to)
	st.gain = s.p.MoveCost(int(c)) - s.place.Delta(int(c), to)
	st.reason, st.text = s.explain(int(c), to, st.gain)
	s.place.Move(int(c), to)
	s.landed.Begin(copyAt, nodeAt)
	s.landed.Land(copyAt)
	s.flight.Begin(copyAt, nodeAt)
	s.from[from] = append(s.from[from], len(s.steps))
	s.group[s.p.Copies[c].Group] = append(s.group[s.p.Copies[c].Group], len(s.steps))
	s.steps = append(s.steps, st)
	s.bytes += s.p.Copies[c].Bytes
	wanted := s.want[c]
	delete(s.left, c)
	s.reweigh(c, from, to, wanted)
}

// reweigh judges those wishes anew on which a step has a bearing.
func (s *sequencer) reweigh(c int32, nodes ...int32) {
	again := make(map[int32]struct{})
	for _, n := range nodes {
		for _, other := range s.byNode[n] {
			again[other] = struct{}{}
		}
	}
	for _, other := range s.place.Group(s.p.Copies[c].Group) {
		again[other] = struct{}{}
	}
	for other := range again {
		if w, waits := s.left[other]; waits {
			s.weigh(w)
		}
	}
}

// mustLandBefore lists the steps that copy c has to wait for on its way to node to: those of its own shard, for only one
// of a shard is under way at a time, and as many of those that leave the target as make room on its disk.
func (s *sequencer) mustLandBefore(c int, to int32) []int {
	after := append([]int{}, s.group[s.p.Copies[c].Group]...)
	nodeAt := int(s.b.NodeOf[to])
	settings, disk := &s.b.Snapshot.Settings, &s.b.Snapshot.Nodes[nodeAt].Disk
	if settings.DiskThreshold && disk.Total > 0 {
		need := max(0, settings.Low.Required(disk.Total), settings.High.Required(disk.Total)+int64(s.p.Copies[c].Bytes))
		after = s.waitForRoom(after, to, need)
	}
	if keep := int64(s.p.Copies[c].BytesMoving); keep > 0 && settings.DiskThreshold {
		source := s.sender(c)
		total := s.b.Snapshot.Nodes[source].Disk.Total
		high := settings.High.Required(total)
		if at := slices.Index(s.b.NodeOf, int32(source)); at >= 0 && total > 0 && s.landed.Free(source) >= high {
			after = s.waitForRoom(after, int32(at), high+keep)
		}
	}
	slices.Sort(after)
	return after
}

// waitForRoom adds to after the steps that must have left node n until need bytes are free there: the largest first, for
// they are the fewest.
func (s *sequencer) waitForRoom(after []int, n int32, need int64) []int {
	free := s.flight.Free(int(s.b.NodeOf[n]))
	var leaving []int
	for _, i := range s.from[n] {
		if slices.Contains(after, i) {
			free += s.bytesOf(i)
		} else {
			leaving = append(leaving, i)
		}
	}
	slices.SortStableFunc(leaving, func(a, b int) int { return cmp.Compare(s.bytesOf(b), s.bytesOf(a)) })
	for _, i := range leaving {
		if free >= need {
			break
		}
		after = append(after, i)
		free += s.bytesOf(i)
	}
	return after
}

// bytesOf is what the deciders count for the copy of a step.
func (s *sequencer) bytesOf(i int) int64 {
	return s.b.Snapshot.Copies[s.b.CopyOf[s.steps[i].copy]].Bytes
}

// queued is a wish as it was when it was put in the queue; a later stamp on the wish makes the entry void.
type queued struct {
	wish
	stamp int
}

type wishHeap []queued

func (h wishHeap) Len() int { return len(h) }
func (h wishHeap) Less(i, j int) bool {
	if h[i].must != h[j].must {
		return h[i].must
	}
	if h[i].ratio != h[j].ratio {
		return h[i].ratio > h[j].ratio
	}
	return h[i].copy < h[j].copy
}
func (h wishHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push is for container/heap.
func (h *wishHeap) Push(x any) { *h = append(*h, x.(queued)) }

// Pop is for container/heap.
func (h *wishHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
