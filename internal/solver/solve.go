package solver

import (
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/model"
)

// Options say how long to solve and what is known already. The zero value stops by itself.
type Options struct {
	TimeLimit time.Duration // 0 is none
	// WorkLimit bounds the work in units of about a pair priced or a move tried, 0 is none. Limits on work alone make a
	// run repeatable: same problem, seed and limit, same assignment, on any number of workers.
	WorkLimit int64
	Seed      uint64
	Workers   int     // goroutines; 0 is one per core
	TargetGap float64 // relative gap at which the solve may end; 0 asks for a proof
	Warm      *Warm   // from an earlier, similar problem; nil is a cold start
	Progress  func(TracePoint)
}

// Warm is what one solve leaves for the next: the prices of the nodes' resources, and what it would move. What no longer
// fits, because a node or a copy has gone or has moved, is left out.
type Warm struct {
	Prices map[string][]float64 `json:"prices"` // by node id; balance dimensions in order, then bytes, then copies
	Moves  []WarmMove           `json:"moves"`
}

// WarmMove is a move of an answer, by names that outlive a problem.
type WarmMove struct {
	Group string `json:"group"`
	From  string `json:"from"` // node id
	To    string `json:"to"`
}

// Status is how a solve ended.
type Status string

// The ends. A problem's present state always is a solution, for rules it breaks only ask not to be broken further: so
// nothing that Solve is given is infeasible; readers of reports from other solvers may meet the word.
const (
	Optimal    Status = "optimal"  // proven
	Feasible   Status = "feasible" // an answer, and the solver ended by itself
	Limited    Status = "limit"    // an answer, and a limit ended it
	Infeasible Status = "infeasible"
)

// Limit is what ended a solve early.
type Limit string

// The limits.
const (
	NoLimit   Limit = "none"
	TimeLimit Limit = "time"
	WorkLimit Limit = "work"
)

// BoundKind names what proves a lower bound.
type BoundKind string

// The proofs, weakest first; docs/formulation.md has them.
const (
	Trivial     BoundKind = "trivial"                // the objective has no negative term
	Lagrangian  BoundKind = "lagrangian+indivisible" // group by group at prices, copies that overflow a node charged for it
	Nodewise    BoundKind = "nodewise"               // node by node at prices, whole copies leaving
	Exhaustive  BoundKind = "exhaustive"             // everything was tried
	NothingElse BoundKind = "forced"                 // no copy can move
)

// TracePoint is the state of a solve when something got better.
type TracePoint struct {
	T          float64 `json:"t"` // seconds since the start
	Objective  float64 `json:"objective"`
	LowerBound float64 `json:"lower_bound"`
	Phase      string  `json:"phase"`
}

// Counters count the work done. They repeat exactly where the answer does.
type Counters struct {
	PairsPriced   int64 `json:"pairs_priced"`   // copy and node pairs looked at by pricing
	ColumnsBuilt  int64 `json:"columns_built"`  // columns given to CLP
	LPSolves      int64 `json:"lp_solves"`      //
	CLPIterations int64 `json:"clp_iterations"` // simplex iterations of the column generation
	Rounds        int64 `json:"rounds"`         // of pricing
	MovesTried    int64 `json:"moves_tried"`    // deltas computed by searches
}

// Result is a solve's answer and its proof.
type Result struct {
	Status          Status
	Assignment      []int32
	ObjectiveBefore float64
	Objective       float64
	LowerBound      float64 // no assignment that keeps the hard rules and budgets costs less
	BoundKind       BoundKind
	Limit           Limit
	Trace           []TracePoint
	Counters        Counters
	Wall, CPU       time.Duration
	PeakRSS         int64 // bytes: the most memory the process that solved has had resident
	Checked         bool  // model.Check finds nothing and model.Evaluate the same objective
	Warm            *Warm
}

// Captured is the part of what could be gained at most that the answer gains; 1 where nothing could be.
func (r *Result) Captured() float64 { return captured(r.ObjectiveBefore, r.Objective, r.LowerBound) }

func captured(before, objective, bound float64) float64 {
	if before-bound <= 1e-12*math.Abs(before) {
		return 1
	}
	return (before - objective) / (before - bound)
}

// Gap is how far the answer may be from the best, relative to the answer.
func (r *Result) Gap() float64 { return gap(r.Objective, r.LowerBound) }

func gap(objective, bound float64) float64 {
	return max(0, objective-bound) / max(math.Abs(objective), 1e-9)
}

// proven is the gap that is none but for rounding.
const proven = 1e-9

// Solve finds an assignment for p, which must be valid, and a lower bound for it. It fails only if something is wrong
// with the solver; a limit or an end of ctx ends it with the best answer so far, which never is worse than staying put.
func Solve(ctx context.Context, p *model.Problem, o Options) (*Result, error) {
	r := newRun(ctx, p, o)
	if err := r.solve(); err != nil {
		return nil, &cluster.Error{Class: cluster.Internal, Op: "solve", What: p.Name, Err: err, Hint: "Report it with the problem file (--dump-problem)"}
	}
	return r.finish(), nil
}

// Descent is the plain greedy search alone, as a yardstick: best moves and best swaps from the present state until none
// pays. Where a budget is set, the moves that gain most come first. Its bound is the trivial one.
func Descent(ctx context.Context, p *model.Problem, o Options) *Result {
	r := newRun(ctx, p, o)
	s := newSearch(r.f, nil, r.f.everything())
	allow := r.allow(1, 1)
	if r.budgeted() {
		s.steepest(&allow)
	}
	s.descend(&allow)
	r.take(s, "descent")
	r.spent(&allow)
	return r.finish()
}

// run is one solve on its way.
type run struct {
	ctx    context.Context
	o      Options
	p      *model.Problem
	f      *frame
	rng    *rand.Rand
	start  time.Time
	cpu    time.Duration
	used   int64 // work of the steps that have ended
	node   []int32
	result Result
}

func newRun(ctx context.Context, p *model.Problem, o Options) *run {
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	r := &run{ctx: ctx, o: o, p: p, start: time.Now(), cpu: cpuTime(), rng: rand.New(rand.NewPCG(o.Seed, 0x5a4d))}
	r.f = newFrame(p)
	before := r.f.now.Objective()
	r.result = Result{ObjectiveBefore: before, Objective: before, BoundKind: Trivial, Limit: NoLimit}
	r.node = p.Current()
	return r
}

// usable is the share of the time limit that steps may use: the rest is for looking at the answer, and for a step that
// looks at the clock a moment late.
const usable = 0.97

// allow is an allowance for the next step: up to a share of all the time and of all the work, of what is left of it.
func (r *run) allow(ofTime, ofWork float64) allowance {
	a := allowance{ctx: r.ctx, since: time.Now()}
	if r.o.TimeLimit > 0 {
		end := r.start.Add(time.Duration(usable * float64(r.o.TimeLimit)))
		a.until = a.since.Add(time.Duration(ofTime * float64(r.o.TimeLimit)))
		if a.until.After(end) {
			a.until = end
		}
	}
	if limit := r.workLimit(); limit > 0 {
		a.most = max(1, min(int64(ofWork*float64(limit)), limit-r.used))
	}
	return a
}

// workLimit is the work limit; where no limit was set at all, enough for a good answer that is over soon.
func (r *run) workLimit() int64 {
	if r.o.WorkLimit == 0 && r.o.TimeLimit == 0 {
		return 2_000_000 + 1000*int64(len(r.p.Copies))
	}
	return r.o.WorkLimit
}

// spent books what a step has used.
func (r *run) spent(a *allowance) { r.used += a.used }

// take makes the search's placement the answer if it is better and keeps the budgets.
func (r *run) take(s *search, phase string) {
	if objective := s.Objective(); objective < r.result.Objective && s.WithinLimits() {
		r.result.Objective, r.node = objective, s.Assignment()
		r.trace(phase)
	}
}

// prove raises the lower bound.
func (r *run) prove(bound float64, kind BoundKind) {
	if kind == Lagrangian || kind == Nodewise {
		bound -= 1e-13 + 1e-12*math.Abs(bound) // sums of many terms round
	}
	if bound > r.result.LowerBound {
		r.result.LowerBound, r.result.BoundKind = bound, kind
		r.trace(string(kind))
	}
}

func (r *run) trace(phase string) {
	point := TracePoint{T: time.Since(r.start).Seconds(), Objective: r.result.Objective, LowerBound: min(r.result.LowerBound, r.result.Objective), Phase: phase}
	r.result.Trace = append(r.result.Trace, point)
	if r.o.Progress != nil {
		r.o.Progress(point)
	}
}

// enough tells whether the solve may end.
func (r *run) enough() bool {
	return gap(r.result.Objective, r.result.LowerBound) <= max(proven, r.o.TargetGap) || r.ctx.Err() != nil ||
		r.o.TimeLimit > 0 && time.Since(r.start) >= time.Duration(usable*float64(r.o.TimeLimit))
}

// roomShort is the gap after the opening from which on room is taken to be short, and to have a price. Elsewhere the prices of
// seats come first, and a large problem gets no flow and no linear programs with rooms: a flow of that size takes longer to
// settle than all the rest, and both prove less than the opening has.
const roomShort = 0.15

// short tells that room is.
func (r *run) short() bool { return gap(r.result.Objective, r.result.LowerBound) > roomShort }

// start is what linear programs may start from: prices, those of seats for the lumps of a frame, and what they prove node by
// node as far as that is known.
type start struct {
	prices *prices
	seats  *prices // nil: not looked for yet
	of     *frame
	bound  float64 // -Inf: not looked at yet
}

func (r *run) solve() error {
	f := r.f
	if len(f.everything()) == 0 {
		r.prove(r.result.Objective, NothingElse)
		return nil
	}
	r.trace("start")
	r.greedy()
	if r.o.Warm != nil {
		if err := r.propose(f.warmMoves(r.o.Warm), "warm"); err != nil || r.enough() {
			return err
		}
	}
	free, opened, err := r.open()
	if err != nil || r.enough() {
		return err
	}
	if f.parts() > 1 && !r.short() {
		return r.large(free) // which looks for seats when it knows better who leaves
	}
	r.seat(opened, "leavers")
	if r.enough() {
		return nil
	}
	r.makeRoom()
	flow := r.flow()
	if r.enough() {
		return nil
	}
	starts := []start{free, {prices: flow.startPrices(), bound: math.Inf(-1)}} // before rounding, which settles the flow elsewhere
	if err := r.propose(flow.round(), "round"); err != nil {
		return err
	}
	r.exact()
	if r.enough() {
		return nil
	}
	return r.search(starts)
}

// open lets every node decide by itself which of its copies leave, as if room elsewhere cost nothing but what they
// overflow: on large problems there nearly always is some. That is a bound, and where those who leave find the best seats,
// a good answer, which the search it returns has.
func (r *run) open() (start, *search, error) {
	f := r.f
	nodes := f.nodes()
	free := start{prices: f.noPrices()}
	tol := boundTolerance * r.result.Objective / float64(len(nodes)) / 4
	opening := r.allow(0.3, 1)
	look := func(at *prices) (float64, []answer) {
		bound, answers, work := f.newPricer(at, r.rng).nodeBound(nodes, tol, nodeSteps, r.o.Workers, &opening, nil)
		r.result.Counters.PairsPriced += work
		r.result.Counters.Rounds++
		r.used += work
		r.prove(bound, Nodewise)
		return bound, answers
	}
	var answers []answer
	free.bound, answers = look(free.prices)
	free, answers = r.priceBudgets(free, answers, look)
	if r.enough() {
		return free, nil, nil
	}
	var leave []move
	for i := range answers {
		for _, x := range answers[i].leave {
			leave = append(leave, move{x.copy, -1})
		}
	}
	// The largest lumps are few, and matter most.
	allow := r.allow(0.2, 0.05)
	seated := r.proof(r.rng, &allow).seats(&free, seatLevels[:1], 1, r.o.Workers)
	r.spent(&allow)
	if r.enough() {
		return free, nil, nil
	}
	if seated != nil {
		leave = seated
	}
	s, err := r.improve(leave, "leavers")
	return free, s, err
}

// budgetSteps is how often a budget's price is halved in.
const budgetSteps = 10

// priceBudgets finds what a move, and then a byte, has to cost for no more of them to be wanted than the budgets have: the
// bound is concave in each price, and rises as long as more are wanted.
func (r *run) priceBudgets(from start, answers []answer, look func(*prices) (float64, []answer)) (start, []answer) {
	limits := &r.p.Limits
	for _, budget := range []struct {
		most  float64
		price func(*prices) *float64
		each  func(c int32) float64
	}{
		{float64(limits.MaxMoves), func(p *prices) *float64 { return &p.move }, func(int32) float64 { return 1 }},
		{limits.MaxBytes, func(p *prices) *float64 { return &p.bytes }, func(c int32) float64 { return r.p.Copies[c].Bytes }},
	} {
		wanted := func(answers []answer) (sum float64) {
			for i := range answers {
				for _, x := range answers[i].leave {
					sum += budget.each(x.copy)
				}
			}
			return sum
		}
		want := wanted(answers)
		if budget.most == 0 || want <= budget.most {
			continue
		}
		low, high := 0.0, math.Inf(1)
		try := (r.result.ObjectiveBefore - from.bound) / want // what one gains, on average
		for range budgetSteps {
			if r.enough() {
				break
			}
			at := *from.prices
			*budget.price(&at) = try
			bound, found := look(&at)
			if bound > from.bound {
				from, answers = start{prices: &at, bound: bound}, found
			}
			if wanted(found) > budget.most {
				low = try
			} else {
				high = try
			}
			if try = 4 * low; !math.IsInf(high, 1) {
				try = (low + high) / 2
			}
		}
	}
	return from, answers
}

// flow finds prices, and with them a first bound.
func (r *run) flow() *flow {
	f := r.f
	w := newFlow(f)
	allow := r.allow(0.25, 0.3)
	rounds := func(work int64) int {
		most := flowRounds
		if allow.most > 0 {
			most = min(most, int(allow.most/max(1, work)))
		}
		if !allow.until.IsZero() {
			each := time.Since(allow.since) / 3 // two rounds, the first of them long
			most = min(most, int(allow.until.Sub(allow.since)/max(1, each)))
		}
		return max(most, fewestRounds)
	}
	var warm *prices
	if r.o.Warm != nil {
		warm = f.warmPrices(r.o.Warm)
	}
	before := int64(0)
	best, bound, pairs, done := w.settle(warm, r.rng, r.o.Workers, rounds, func() bool {
		allow.used += w.work - before
		before = w.work
		return allow.timeOver()
	})
	allow.used += pairs
	r.result.Counters.PairsPriced += pairs
	r.result.Counters.Rounds += int64(done)
	r.prove(bound, Lagrangian)
	if best == nil {
		best = w.prices()
	}
	r.result.Warm = f.warmth(best)
	r.spent(&allow)
	return w
}

// largeCopies is how many of the largest copies get a search of their own.
const largeCopies = 48

// improve makes an answer of moves that a relaxation proposes: carried out, within the budgets, down to where no single
// move pays.
func (r *run) improve(moves []move, phase string) (*search, error) {
	allow := r.allow(0.1, 0.1)
	s := newSearch(r.f, nil, r.f.everything())
	s.carryOut(moves)
	if !s.WithinLimits() {
		solves, err := s.economise(&allow)
		r.result.Counters.LPSolves += int64(solves)
		if err != nil {
			return nil, err
		}
	}
	s.bestMoves(&allow)
	r.take(s, phase)
	r.result.Counters.MovesTried += s.work
	r.spent(&allow)
	return s, nil
}

// propose improves what a relaxation proposes and then looks for better seats.
func (r *run) propose(moves []move, phase string) error {
	s, err := r.improve(moves, phase)
	if err != nil || r.enough() {
		return err
	}
	r.seat(s, phase)
	return nil
}

// seat looks for better seats for the largest copies and for those who move, and only for them: who leaves is what relaxations
// know best, and where to is what they know least.
func (r *run) seat(s *search, phase string) {
	s.work = 0
	large := r.allow(0.1, 0.1)
	s.ejections(r.f.large(largeCopies), &large)
	r.take(s, phase+", seated")
	r.spent(&large)
	allow := r.allow(0.08, 0.08)
	s.pool = s.moved()
	s.list()
	allow.atMost(stepsPerFall * int64(len(s.pool)))
	s.cool(s.heat(r.result.ObjectiveBefore), r.rng, r.o.Workers, &allow)
	r.take(s, phase+", seated")
	r.result.Counters.MovesTried += s.work
	r.spent(&allow)
}

// greedyPairs is up to where the plain descent comes first: it takes no time there, and so no answer is ever worse than
// its. On larger problems it takes longer than all the rest needs to be better.
const greedyPairs = 200_000

func (r *run) greedy() {
	small := len(r.p.Copies)*len(r.p.Nodes) <= greedyPairs
	pool := r.f.everything()
	if !small && !r.budgeted() {
		// What wishes cost is above all else: shards that miss one come first, at any size, by themselves.
		if pool = r.f.wishing(); len(pool) == 0 {
			return
		}
	}
	allow := r.allow(0.5, 1)
	s := newSearch(r.f, nil, pool)
	switch {
	case r.budgeted():
		s.steepest(&allow) // as many moves as the budget has, at any size
	case !small:
		s.bestMoves(&allow)
	}
	if small {
		s.descend(&allow)
	}
	r.take(s, "descent")
	r.result.Counters.MovesTried += s.work
	r.spent(&allow)
}

// makeRoom lets copies change places where they fit nowhere, if room is short.
func (r *run) makeRoom() {
	if !r.short() {
		return
	}
	allow := r.allow(0.3, 0.2)
	s := newSearch(r.f, r.node, r.f.everything())
	for moved, swapped, over := 1, 1, false; moved+swapped > 0 && !over; {
		if swapped, over = s.promisingSwaps(&allow); !over {
			moved, over = s.bestMoves(&allow)
		}
	}
	r.take(s, "swaps")
	r.result.Counters.MovesTried += s.work
	r.spent(&allow)
}

// budgeted tells whether moves or bytes are limited.
func (r *run) budgeted() bool { return r.p.Limits.MaxMoves > 0 || r.p.Limits.MaxBytes > 0 }

// exact tries everything where that is little.
func (r *run) exact() {
	allow := r.allow(0.3, 0.3)
	best, objective, complete := r.f.exact(r.result.Objective, &allow)
	if best != nil {
		r.node, r.result.Objective = best, objective
		r.trace("exact")
	}
	if complete {
		r.prove(r.result.Objective, Exhaustive)
	}
	r.spent(&allow)
}

func cpuTime() time.Duration {
	var usage unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// finish checks the answer by the definitions alone and closes the books.
func (r *run) finish() *Result {
	out := &r.result
	out.Assignment = r.node
	total := model.Total(model.Evaluate(r.p, r.node))
	rounding := 1e-9*math.Abs(total) + 1e-12*math.Abs(out.ObjectiveBefore) + 1e-15 // sums kept over many moves
	out.Checked = len(model.Check(r.p, r.node)) == 0 && math.Abs(total-out.Objective) <= rounding
	out.Objective = total
	out.LowerBound = min(out.LowerBound, out.Objective)
	out.Status, out.Limit = Feasible, NoLimit
	switch left := gap(out.Objective, out.LowerBound); {
	case left <= proven, out.Objective-out.LowerBound <= rounding: // the latter where the optimum is nothing
		out.Status = Optimal
	case left <= r.o.TargetGap:
	case r.ctx.Err() != nil || r.o.TimeLimit > 0 && time.Since(r.start) >= r.o.TimeLimit*9/10:
		out.Status, out.Limit = Limited, TimeLimit // the search takes all the time it gets, less what it needs to end well
	case r.o.WorkLimit > 0 && r.used >= r.o.WorkLimit*8/10:
		out.Status, out.Limit = Limited, WorkLimit
	}
	if out.Warm == nil {
		out.Warm = &Warm{}
	}
	out.Warm.Moves = r.f.answerMoves(r.node)
	out.Wall, out.CPU, out.PeakRSS = time.Since(r.start), cpuTime()-r.cpu, peakRSS()
	return out
}

// answerMoves is what an assignment moves, by name.
func (f *frame) answerMoves(node []int32) (moves []WarmMove) {
	for c, n := range node {
		if k := &f.p.Copies[c]; n != k.Node {
			moves = append(moves, WarmMove{f.p.Groups[k.Group].Name, f.p.Nodes[k.Node].ID, f.p.Nodes[n].ID})
		}
	}
	return moves
}

// warmMoves are the moves of an earlier answer, as far as copy and nodes still are there.
func (f *frame) warmMoves(warm *Warm) (moves []move) {
	nodes, groups := make(map[string]int32, len(f.p.Nodes)), make(map[string]int32)
	for n := range f.p.Nodes {
		nodes[f.p.Nodes[n].ID] = int32(n)
	}
	for _, m := range warm.Moves {
		groups[m.Group] = -1
	}
	for g := range f.p.Groups {
		if _, wanted := groups[f.p.Groups[g].Name]; wanted {
			groups[f.p.Groups[g].Name] = int32(g)
		}
	}
	for _, m := range warm.Moves {
		g := groups[m.Group]
		to, known := nodes[m.To]
		from, still := nodes[m.From]
		if g < 0 || !known || !still {
			continue
		}
		for _, c := range f.group(g) {
			if f.movable[c] && f.p.Copies[c].Node == from {
				moves = append(moves, move{c, to})
				break
			}
		}
	}
	return moves
}

// warmth is the prices by node id.
func (f *frame) warmth(p *prices) *Warm {
	warm := &Warm{Prices: make(map[string][]float64, len(f.p.Nodes))}
	for n := range f.p.Nodes {
		warm.Prices[f.p.Nodes[n].ID] = slices.Clone(p.slot[n*f.resources : (n+1)*f.resources])
	}
	return warm
}

// warmPrices are the prices of an earlier problem for this one; a node that is new costs nothing yet.
func (f *frame) warmPrices(warm *Warm) *prices {
	p := f.noPrices()
	for n := range f.p.Nodes {
		if old := warm.Prices[f.p.Nodes[n].ID]; len(old) == f.resources {
			copy(p.slot[n*f.resources:], old)
		}
	}
	f.restrict(p)
	return p
}
