package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/model"
)

const (
	// maxPerKind bounds verdicts of one kind: past it a reader wants a number, not a list.
	maxPerKind = 50
	// maxExamined is how many copies of a hot node are tried on every other node to say what binds, the heaviest first.
	maxExamined = 8
	// listedNames is how many names a verdict's text spells out.
	listedNames = 4
)

// verdicts explains everything that stays as it is, worst first within each subject.
func (s *sequencer) verdicts() []Verdict {
	found := s.clusterVerdicts()
	found = append(found, s.mustMoveBlocked()...)
	found = append(found, s.wishVerdicts()...)
	found = append(found, s.lossVerdicts()...)
	found = append(found, s.hotNodes()...)
	if len(s.steps) == 0 && !slices.ContainsFunc(found, func(v Verdict) bool { return v.blames() }) {
		found = append([]Verdict{s.balanced()}, found...)
	}
	return found
}

// blames tells whether the verdict says why something does not move, rather than what else is to be known.
func (v *Verdict) blames() bool {
	switch v.Kind {
	case ForeignBalancer, UnassignedCopies, MixedVersions, SingleSample, Zones, ZoneLoss:
		return false
	}
	return true
}

func (s *sequencer) balanced() Verdict {
	v := Verdict{Kind: Balanced, Subject: "cluster", Binding: []string{}}
	domainNodes := 0
	for i := range s.loads.domains {
		domainNodes = max(domainNodes, len(s.loads.domains[i].Nodes))
	}
	switch {
	case len(s.p.Copies) == 0:
		v.Text = "Nothing to do: the cluster holds no copies"
	case domainNodes < 2:
		v.Text = "Nothing to do: no two data nodes may hold the same copies"
	default:
		v.Text = fmt.Sprintf("Nothing to do: every node is within %.0f%% of its fair share in every dimension, noise aside", 100*(s.loads.start()-1))
	}
	return v
}

// clusterVerdicts is what about the cluster as a whole limits a plan.
func (s *sequencer) clusterVerdicts() []Verdict {
	snapshot := s.b.Snapshot
	var found []Verdict
	add := func(kind Kind, subject, text, advice string, binding ...string) {
		found = append(found, Verdict{Kind: kind, Subject: subject, Binding: append([]string{}, binding...), Text: text, Advice: advice})
	}
	if snapshot.Samples < 2 {
		add(SingleSample, "cluster", "The rates come from one sample: they are averages since each copy or its node started, not what goes on now",
			"Take two samples some minutes apart", "samples")
	}
	const rebalance = "cluster.routing.rebalance.enable"
	if enabled := snapshot.Settings.RebalanceEnable; enabled != "none" && enabled != "" {
		add(ForeignBalancer, "cluster", fmt.Sprintf("%s is %s: the server's own balancer counts copies and may move them back", rebalance, enabled),
			"Mode act sets it to none for as long as it runs and puts it back afterwards", rebalance)
	}
	for i := range snapshot.Indices {
		if index := &snapshot.Indices[i]; index.RebalanceEnable != "" && index.RebalanceEnable != "none" {
			add(ForeignBalancer, "index/"+index.Name,
				fmt.Sprintf("index.routing.rebalance.enable is %s on it: the server's balancer moves its copies whatever the cluster setting says", index.RebalanceEnable),
				"Remove the setting from the index", "index.routing.rebalance.enable")
		}
	}
	var unassigned []string
	for c := range snapshot.Copies {
		if k := &snapshot.Copies[c]; k.State == cluster.Unassigned {
			unassigned = append(unassigned, fmt.Sprintf("%s/%d", snapshot.Indices[k.Index].Name, k.Shard))
		}
	}
	if len(unassigned) > 0 {
		add(UnassignedCopies, "cluster", fmt.Sprintf("%s unassigned (%s): they count nowhere and their shards do not move",
			count(len(unassigned), "copy is", "copies are"), listed(slices.Compact(unassigned))),
			"Ask GET /_cluster/allocation/explain why, and cure that first", "rebalance_only_when_active")
	}
	if versions := s.versions(); len(versions) > 1 {
		add(MixedVersions, "cluster", "Nodes run "+strings.Join(versions, " and ")+": copies stay within their version until all are the same",
			"Finish the upgrade", "node_version")
	}
	found = append(found, s.layouts()...)
	return append(found, s.budgetVerdicts()...)
}

// versions lists the data nodes' versions, ascending.
func (s *sequencer) versions() []string {
	var all []cluster.Version
	for _, at := range s.b.NodeOf {
		all = append(all, s.b.Snapshot.Nodes[at].Version)
	}
	slices.SortFunc(all, cluster.Version.Compare)
	var names []string
	for _, v := range slices.Compact(all) {
		names = append(names, v.String())
	}
	return names
}

// budgetVerdicts says when a limit ended the plan before the wishes did, or left the solver no room.
func (s *sequencer) budgetVerdicts() []Verdict {
	wished, wishedBytes := len(s.left)+len(s.steps), s.bytes
	for c := range s.left {
		wishedBytes += s.p.Copies[c].Bytes
	}
	var found []Verdict
	add := func(binding, text string) {
		found = append(found, Verdict{
			Kind: Budget, Subject: "cluster", Binding: []string{binding}, Text: text,
			Advice: "The next plan goes on from here; raise the limit to get there sooner",
		})
	}
	switch {
	case s.full() && len(s.left) > 0:
		add("max_moves", fmt.Sprintf("The plan ends at its limit of %s; the solver wanted %d", count(s.maxMoves, "move", "moves"), wished))
	case s.p.Limits.MaxMoves > 0 && wished >= s.p.Limits.MaxMoves:
		add("max_moves", fmt.Sprintf("The solver used up its limit of %s", count(s.p.Limits.MaxMoves, "move", "moves")))
	}
	switch over := s.countLeft(func(w *wish) bool { return s.overBytes(w) && w.why == 0 && w.barred == "" && w.net > minNet }); {
	case over > 0:
		add("max_bytes", fmt.Sprintf("%s did not fit the plan's limit of %s", count(over, "move", "moves"), bytesText(s.maxBytes)))
	case s.p.Limits.MaxBytes > 0 && wishedBytes >= 0.95*s.p.Limits.MaxBytes:
		add("max_bytes", fmt.Sprintf("The solver used up its limit of %s", bytesText(s.p.Limits.MaxBytes)))
	}
	return found
}

func (s *sequencer) overBytes(w *wish) bool {
	return s.maxBytes > 0 && s.bytes+s.p.Copies[w.copy].Bytes > s.maxBytes
}

func (s *sequencer) countLeft(is func(*wish) bool) int {
	n := 0
	for _, w := range s.left {
		if is(w) {
			n++
		}
	}
	return n
}

// mustMoveBlocked names, node by node, the copies that have to leave and stay.
func (s *sequencer) mustMoveBlocked() (found []Verdict) {
	perNode := make([][]int32, len(s.p.Nodes))
	for c := range s.p.Copies {
		k := &s.p.Copies[c]
		leaves := k.MustLeave || k.Pinned && s.b.Rules.KeepsOut(int(s.b.CopyOf[c]), int(s.b.NodeOf[k.Node]))&(model.NodeShutdown|model.Filter|model.DataTier) != 0
		if leaves && s.place.Node(c) == k.Node && !s.cut(int32(c)) {
			perNode[k.Node] = append(perNode[k.Node], int32(c))
		}
	}
	for n, copies := range perNode {
		if len(copies) == 0 {
			continue
		}
		var why model.Deciders
		var names []string
		for _, c := range copies {
			why |= s.rules.PinnedBy(int(s.b.CopyOf[c])) | s.refusedEverywhere(c)
			names = append(names, s.p.Groups[s.p.Copies[c].Group].Name)
		}
		found = append(found, Verdict{
			Kind: MustMoveBlocked, Subject: s.subjectNode(int32(n)), Binding: why.Names(),
			Text: fmt.Sprintf("%s to leave %s and cannot (%s): %s", count(len(copies), "copy has", "copies have"), s.name(int32(n)),
				listed(names), because(why)),
			Advice: cure(why),
		})
	}
	return found
}

// cut tells whether a budget alone kept a wish out of the plan.
func (s *sequencer) cut(c int32) bool {
	w, waits := s.left[c]
	return waits && w.why == 0 && (s.full() || s.overBytes(w))
}

// refusedEverywhere is what forbids copy c all other nodes, 0 where some node may take it.
func (s *sequencer) refusedEverywhere(c int32) (why model.Deciders) {
	for n := range s.p.Nodes {
		if int32(n) == s.place.Node(int(c)) {
			continue
		}
		refused := s.landed.Refusals(int(s.b.CopyOf[c]), int(s.b.NodeOf[n])) | s.regionRefusals(int(c), int32(n))
		if refused == 0 {
			refused = s.ours(int(c), int32(n))
		}
		if refused == 0 {
			return 0
		}
		why |= refused
	}
	return why
}

// wishVerdicts explains the moves the solver wants and the plan does not hold.
func (s *sequencer) wishVerdicts() (found []Verdict) {
	barred := map[Kind][]int32{}
	var blocked []int32
	for _, c := range s.wishes() {
		w := s.left[c]
		switch {
		case w.must || s.full() || s.overBytes(w):
		case w.barred != "":
			barred[w.barred] = append(barred[w.barred], c)
		case w.why&model.NotStarted != 0:
			barred[InFlight] = append(barred[InFlight], c)
		case w.why&model.CrossRegion != 0 || w.noLink:
			barred[Budget] = append(barred[Budget], c)
		case w.why != 0 || w.ours != 0:
			blocked = append(blocked, c)
		case w.net <= minNet:
			barred[NotWorth] = append(barred[NotWorth], c)
		}
	}
	texts := map[Kind]string{
		Noise:       "would gain less than the noise of its measurement explains and %s left out",
		Oscillation: "would go back to where it came from not long ago, for too little, and %s left out",
		InFlight:    "%s for a relocation of the same shard that is under way",
		Budget:      "%s for a pass in which copies may cross between regions, or for bytes that may cross",
		NotWorth:    "would cost more than it gains once the other moves have landed, and %s left out",
	}
	for _, kind := range []Kind{Noise, Oscillation, InFlight, Budget, NotWorth} {
		if copies := barred[kind]; len(copies) > 0 {
			verb := map[bool]string{true: "is", false: "are"}[len(copies) == 1]
			binding := []string{}
			if kind == Budget {
				binding = model.CrossRegion.Names()
			}
			if kind == InFlight || kind == Budget {
				verb = map[bool]string{true: "waits", false: "wait"}[len(copies) == 1]
			}
			found = append(found, Verdict{
				Kind: kind, Subject: "cluster", Binding: binding,
				Text: fmt.Sprintf("%s ("+listed(s.shardNames(copies))+") "+texts[kind], count(len(copies), "move", "moves"), verb),
			})
		}
	}
	for i, c := range blocked {
		if i == maxPerKind {
			found = append(found, Verdict{
				Kind: NoLegalTarget, Subject: "cluster", Binding: []string{},
				Text: fmt.Sprintf("%s more found no place in the order either", count(len(blocked)-i, "move", "moves")),
			})
			break
		}
		found = append(found, s.blockedVerdict(c))
	}
	return found
}

// blockedVerdict says what stands in the way of one wanted move.
func (s *sequencer) blockedVerdict(c int32) Verdict {
	w, to := s.left[c], s.want[c]
	why := w.why
	why |= w.ours
	v := Verdict{
		Kind: NoLegalTarget, Subject: s.subjectShard(c), Binding: why.Names(), Advice: cure(why),
		Text: fmt.Sprintf("It should go from %s to %s and cannot: %s", s.name(s.place.Node(int(c))), s.name(to), because(why)),
	}
	if ring := s.ring(c); len(ring) > 1 {
		v.Kind = Cycle
		v.Text = fmt.Sprintf("It waits for room that only moves waiting for its own would make (%s), and no third node may take one of them",
			strings.Join(ring, " -> "))
	}
	return v
}

// ring follows blocked moves from target to target and names the nodes of a circle that leads back to the start.
func (s *sequencer) ring(c int32) []string {
	start := s.place.Node(int(c))
	names := []string{s.name(start)}
	seen := map[int32]bool{start: true}
	for at := s.want[c]; ; {
		names = append(names, s.name(at))
		if at == start {
			return names
		}
		if seen[at] {
			return nil
		}
		seen[at] = true
		next := int32(-1)
		for _, other := range s.byNode[at] {
			if w, waits := s.left[other]; waits && w.why != 0 && s.place.Node(int(other)) == at {
				next = s.want[other]
				break
			}
		}
		if next < 0 {
			return nil
		}
		at = next
	}
}

func (s *sequencer) shardNames(copies []int32) []string {
	names := make([]string, len(copies))
	for i, c := range copies {
		names[i] = s.p.Groups[s.p.Copies[c].Group].Name
	}
	return names
}

// hotNode is a node that is still above its fair share when the plan is done.
type hotNode struct {
	n    int32
	d    int
	r    float64 // load over its fair share
	cost float64 // what it costs in the objective
}

// hotNodes says of every node that stays hot what binds.
func (s *sequencer) hotNodes() (found []Verdict) {
	var hot []hotNode
	for n := range s.p.Nodes {
		for d := range s.b.Snapshot.Dimensions {
			r := s.place.Utilization(n, d)
			if cost := s.loads.cost(int32(n), d, s.place.Load(n, d)); r > 0 && cost > minNet {
				hot = append(hot, hotNode{int32(n), d, r, cost})
			}
		}
	}
	slices.SortStableFunc(hot, func(a, b hotNode) int { return cmp.Compare(b.cost, a.cost) })
	target := model.NewPlacement(s.p, s.want)
	on := s.copiesByNode()
	merged := make(map[string]int) // kind, subject and reason -> position in found
	var states [][]string          // of each found
	for i, h := range hot {
		if i == maxPerKind {
			found, states = append(found, Verdict{
				Kind: NotWorth, Subject: "cluster", Binding: []string{}, Text: "by less than those named, and not looked into",
			}), append(states, []string{count(len(hot)-i, "more node stays above its fair share", "more nodes stay above their fair share")})
			break
		}
		state := fmt.Sprintf("%s stays at %s of the mean in %s", s.name(h.n), times(h.r), s.p.Dimensions[h.d].Name)
		for _, v := range s.whyHot(h, target, on[h.n]) {
			key := string(v.Kind) + "\x00" + v.Subject + "\x00" + v.Text
			at, seen := merged[key]
			if !seen {
				at = len(found)
				merged[key] = at
				found, states = append(found, v), append(states, nil)
			}
			states[at] = append(states[at], state)
		}
	}
	for at := range states {
		found[at].Text = listed(states[at]) + ": " + found[at].Text
	}
	return found
}

func (s *sequencer) copiesByNode() [][]int32 {
	on := make([][]int32, len(s.p.Nodes))
	for c := range s.p.Copies {
		on[s.place.Node(c)] = append(on[s.place.Node(c)], int32(c))
	}
	return on
}

// whyHot finds what keeps a node above its fair share, the plainest reason first. The texts say only why.
func (s *sequencer) whyHot(h hotNode, target *model.Placement, copies []int32) (found []Verdict) {
	d, fair := h.d, s.loads.fair(h.n, h.d)
	limit := fair * (s.loads.start() + s.p.Dimensions[d].Shift)
	slices.SortStableFunc(copies, func(a, b int32) int { return cmp.Compare(s.p.Copies[b].Load[d], s.p.Copies[a].Load[d]) })
	if len(copies) > 0 {
		if load := s.p.Copies[copies[0]].Load[d]; load > limit && !s.fitsElsewhere(copies[0], d) {
			found = append(found, Verdict{
				Kind: SingleShardHotspot, Subject: s.subjectShard(copies[0]), Binding: []string{s.p.Dimensions[d].Name},
				Text:   fmt.Sprintf("one copy of it alone is %s of the mean, more than any node's fair share", times(load/fair)),
				Advice: hotShardAdvice(s.p.Dimensions[d].Name),
			})
			if rest := s.place.Load(int(h.n), d) - load; rest < limit/2 {
				return found
			}
		}
	}
	v := Verdict{Subject: s.subjectNode(h.n), Binding: []string{}}
	if kind, why, waits := s.waiting(h.n); waits && target.Utilization(int(h.n), d) < h.r {
		v.Kind, v.Binding, v.Advice = kind, why.Names(), cure(why)
		v.Text = map[Kind]string{
			Budget: "the plan's budget ends before the moves that would relieve it", Noise: "what the moves that would relieve it gain is within the noise",
			Oscillation: "what would relieve it came from there not long ago", NotWorth: "the moves left that would relieve it do not pay",
			NoLegalTarget: "the moves that would relieve it have no legal turn, " + because(why),
		}[kind]
	} else {
		s.examine(&v, h, limit, copies)
	}
	return append(found, v)
}

// fitsElsewhere tells whether some node the copy may live on has a fair share that holds it.
func (s *sequencer) fitsElsewhere(c int32, d int) bool {
	for _, n := range s.p.Classes[s.p.Groups[s.p.Copies[c].Group].Class].Nodes {
		if s.loads.fair(n, d)*(s.loads.start()+s.p.Dimensions[d].Shift) >= s.p.Copies[c].Load[d] {
			return true
		}
	}
	return false
}

// waiting is why wanted moves that would leave node n are not in the plan.
func (s *sequencer) waiting(n int32) (kind Kind, why model.Deciders, found bool) {
	for _, c := range s.byNode[n] {
		w, waits := s.left[c]
		if !waits || s.place.Node(int(c)) != n {
			continue
		}
		found = true
		switch {
		case s.full() || s.overBytes(w):
			return Budget, 0, true
		case w.barred != "":
			kind = w.barred
		case w.why&model.CrossRegion != 0 || w.noLink:
			return Budget, model.CrossRegion, true
		case w.why != 0 || w.ours != 0:
			kind, why = NoLegalTarget, why|w.why|w.ours
		case kind == "":
			kind = NotWorth
		}
	}
	return kind, why, found
}

// examine tries a hot node's heaviest copies on every other node and says what stands against it.
func (s *sequencer) examine(v *Verdict, h hotNode, limit float64, copies []int32) {
	var pins, refused model.Deciders
	pinned := s.place.Load(int(h.n), h.d)
	var movable []int32
	for _, c := range copies {
		why := s.rules.PinnedBy(int(s.b.CopyOf[c]))
		if why != 0 {
			if s.p.Copies[c].Load[h.d] > 0 {
				pins |= why
			}
			continue
		}
		pinned -= s.p.Copies[c].Load[h.d]
		movable = append(movable, c)
	}
	if pinned > limit || len(movable) == 0 {
		v.Kind, v.Binding = Pinned, pins.Names()
		v.Text = fmt.Sprintf("%s of the mean cannot move (%s)", times(pinned/s.loads.fair(h.n, h.d)), pinnedBecause(pins))
		v.Advice = cure(pins)
		return
	}
	bestDelta, bestCopy, bestNode := 0.0, int32(-1), int32(-1)
	examined := movable[:min(maxExamined, len(movable))]
	for _, c := range examined {
		for n := range s.p.Nodes {
			to := int32(n)
			if to == h.n {
				continue
			}
			why := s.refusals(int(c), to)
			if why == 0 {
				why = s.ours(int(c), to)
			}
			if why != 0 {
				if s.loads.ofNode[to] == s.loads.ofNode[h.n] {
					refused |= why
				}
				continue
			}
			if delta := s.place.Delta(int(c), to); bestCopy < 0 || delta < bestDelta {
				bestDelta, bestCopy, bestNode = delta, c, to
			}
		}
	}
	switch {
	case bestCopy < 0:
		v.Kind, v.Binding = NoLegalTarget, refused.Names()
		v.Text = fmt.Sprintf("no node may take any of its %s, %s", count(len(examined), "heaviest copy", "heaviest copies"), because(refused))
		v.Advice = cure(refused)
	case bestDelta >= -minNet:
		cost := s.p.MoveCost(int(bestCopy))
		if s.place.Node(int(bestCopy)) != s.p.Copies[bestCopy].Node {
			cost = 0 // it moves anyway
		}
		v.Kind, v.Binding = NotWorth, []string{"move_cost"}
		if cost-bestDelta <= minNet {
			v.Text = fmt.Sprintf("no other node would be the better place for any of its %s", count(len(examined), "heaviest copy", "heaviest copies"))
			return
		}
		v.Text = fmt.Sprintf("the best move from it (%s to %s) would gain %.2g and cost %.2g",
			s.p.Groups[s.p.Copies[bestCopy].Group].Name, s.name(bestNode), cost-bestDelta, cost)
		v.Advice = "A lower move cost lets more moves pay"
	case s.bars(int(bestCopy), bestNode, s.p.MoveCost(int(bestCopy))-bestDelta) != "":
		v.Kind = s.bars(int(bestCopy), bestNode, s.p.MoveCost(int(bestCopy))-bestDelta)
		v.Text = "what moving copies from it would gain is within the noise of the measurement"
	default:
		v.Kind = SolverLimit
		v.Text = fmt.Sprintf("moving %s to %s would relieve it; the solver did not get there",
			s.p.Groups[s.p.Copies[bestCopy].Group].Name, s.name(bestNode))
		v.Advice = "The next cycle goes on from here; a longer time limit finds more"
	}
}
