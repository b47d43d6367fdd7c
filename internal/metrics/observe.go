package metrics

import (
	"cmp"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/model"
	"github.com/shardonnay/shardonnay/internal/plan"
)

// ObserveBuild says what runs.
func (m *Metrics) ObserveBuild(version, commit, goVersion, clp string) {
	m.build.set(1, version, commit, goVersion, clp)
}

// ObserveCluster says which cluster it runs for.
func (m *Metrics) ObserveCluster(c cluster.Identity) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.searchCluster.replace([]value{{[]string{c.Name, c.UUID, string(c.Product.Distribution), c.Product.Version.String()}, 1}})
}

// ObserveLoop shows how the loop is set: its mode, whether it is paused, and when a cycle is overdue.
func (m *Metrics) ObserveLoop(mode string, paused bool, overdue time.Duration) {
	m.mode.only(mode, modes)
	m.paused.set(0)
	if paused {
		m.paused.set(1)
	}
	m.overdue.set(overdue.Seconds())
}

// ObserveCycle counts a cycle that ended: how, after how long in which stages (absent where it did not come to one), and
// with which error.
func (m *Metrics) ObserveCycle(outcome string, took map[string]time.Duration, ended time.Time, err error) {
	m.cycles.WithLabelValues(outcome).Inc()
	m.lastOutcome.only(outcome, outcomes)
	for stage, d := range took {
		m.stageSeconds.WithLabelValues(stage).Observe(d.Seconds())
	}
	m.lastCycle.set(seconds(ended))
	if err != nil {
		m.errors.WithLabelValues(string(cluster.ClassOf(err))).Inc()
	}
}

// ObserveReload says whether the configuration on disk was taken.
func (m *Metrics) ObserveReload(at time.Time, err error) {
	if err != nil {
		m.reloadSuccess.set(0)
		return
	}
	m.reloadSuccess.set(1)
	m.reloadTime.set(seconds(at))
}

// Traffic is what a client counted since it was made; it has the shape of es.Traffic.
type Traffic struct {
	Reads, Writes, Retries, Failures int64
	BytesReceived, BytesSent         int64
}

// ObserveTraffic counts what was added since the last call. A count below the last one is that of a new client.
func (m *Metrics) ObserveTraffic(t Traffic) {
	m.mu.Lock()
	defer m.mu.Unlock()
	add := func(vec *prometheus.CounterVec, name string, now, before int64) {
		if now < before {
			before = 0
		}
		vec.WithLabelValues(name).Add(float64(now - before))
	}
	add(m.requests, "read", t.Reads, m.traffic.Reads)
	add(m.requests, "write", t.Writes, m.traffic.Writes)
	add(m.requests, "retry", t.Retries, m.traffic.Retries)
	add(m.requests, "failure", t.Failures, m.traffic.Failures)
	add(m.requestBytes, "received", t.BytesReceived, m.traffic.BytesReceived)
	add(m.requestBytes, "sent", t.BytesSent, m.traffic.BytesSent)
	m.traffic = t
}

// ObserveSnapshot shows a complete snapshot: its cluster, its size, where its loads come from, what is on its way, and how
// much of each node's capacity is used.
func (m *Metrics) ObserveSnapshot(s *cluster.Snapshot) {
	m.ObserveCluster(s.Cluster)
	m.mu.Lock()
	defer m.mu.Unlock()
	data := 0
	for n := range s.Nodes {
		if s.Nodes[n].IsData() {
			data++
		}
	}
	m.nodes.set(float64(data))
	m.indices.set(float64(len(s.Indices)))
	m.copies.set(float64(len(s.Copies)))
	m.samples.set(float64(s.Samples))
	m.window.set(s.Window.Seconds())
	m.taken.set(seconds(s.TakenAt))

	carried := make([]cluster.Load, len(s.Nodes))
	byProvenance := make([]int, len(provenances))
	relocations, bytes := 0, int64(0)
	for c := range s.Copies {
		k := &s.Copies[c]
		byProvenance[min(int(k.Provenance), len(provenances)-1)]++
		if k.State == cluster.Relocating {
			relocations++
			bytes += k.Bytes
		}
		if k.Node != cluster.None {
			carried[k.Node] = carried[k.Node].Plus(k.Load)
		}
	}
	for p, name := range provenances {
		m.provenance.set(float64(byProvenance[p]), name)
	}
	m.relocations.set(float64(relocations))
	m.relocationBytes.set(float64(bytes))

	var utilization []value
	names := nodeNames(s)
	for n := range s.Nodes {
		node := &s.Nodes[n]
		for d, dimension := range s.Dimensions {
			if node.IsData() && node.Capacity[d] > 0 {
				used := (carried[n][d] + node.Base[d]) / node.Capacity[d]
				utilization = append(utilization, value{[]string{names[n], dimension.Name}, used})
			}
		}
	}
	m.utilization.replace(utilization)
}

// nodeNames is how each node is called: by its name, or by its id where it has none or shares it with another.
func nodeNames(s *cluster.Snapshot) []string {
	count := make(map[string]int, len(s.Nodes))
	for n := range s.Nodes {
		count[s.Nodes[n].Name]++
	}
	names := make([]string, len(s.Nodes))
	for n := range s.Nodes {
		if names[n] = s.Nodes[n].Name; names[n] == "" || count[names[n]] > 1 {
			names[n] = string(s.Nodes[n].ID)
		}
	}
	return names
}

// ObserveProblem shows what of the snapshot s may move, and each node's load over its fair share.
func (m *Metrics) ObserveProblem(p *model.Problem, s *cluster.Snapshot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	pinned := 0
	for c := range p.Copies {
		if p.Copies[c].Pinned {
			pinned++
		}
	}
	m.problemCopies.set(float64(pinned), "pinned")
	m.problemCopies.set(float64(len(p.Copies)-pinned), "movable")
	domains, _ := p.Domains()
	current, names := p.Current(), nodeNames(s)
	var load []value
	for d, dimension := range s.Dimensions {
		for n, r := range model.Utilization(p, domains, current, d) {
			if at := s.NodeAt(cluster.NodeID(p.Nodes[n].ID)); r >= 0 && at != cluster.None {
				load = append(load, value{[]string{names[at], dimension.Name}, r})
			}
		}
	}
	m.load.replace(load)
}

// Regions is how far apart copies are and what crosses between regions. Pairs of regions are from, to.
type Regions struct {
	Dispersion, RequiredOverload float64        // ratios
	Excess                       map[string]int // per tier, copies
	Missing                      map[string]int // per region, copies
	CoolingShards                int
	Crossed                      map[[2]string]float64 // bytes since the account was opened
	Left                         map[[2]string]float64 // bytes; nil without a limit
}

// ObserveRegions shows how far apart copies are, and counts what has crossed since the last call.
func (m *Metrics) ObserveRegions(r Regions) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dispersion.set(r.Dispersion)
	m.requiredOverload.set(r.RequiredOverload)
	m.coolingShards.set(float64(r.CoolingShards))
	for _, tier := range tiers {
		m.tierExcess.set(float64(r.Excess[tier]), tier)
	}
	var missing, left []value
	for region, copies := range r.Missing {
		missing = append(missing, value{[]string{region}, float64(copies)})
	}
	m.regionMissing.replace(missing)
	for link, bytes := range r.Left {
		left = append(left, value{link[:], bytes})
	}
	m.wanTokens.replace(left)
	for link, bytes := range r.Crossed {
		m.wanBytes.WithLabelValues(link[:]...).Add(max(0, bytes-m.crossed[link]))
		m.crossed[link] = bytes
	}
}

// Solve is what a solve came to and what it took; it has the figures of solver.Result.
type Solve struct {
	Status                                              string
	Objective, Gap, Captured                            float64
	Pairs, Columns, Programs, SimplexIterations, Rounds int64
	CPU                                                 time.Duration
	PeakMemory                                          int64 // bytes
}

// ObserveSolve shows what the solver found and counts its work.
func (m *Metrics) ObserveSolve(s Solve) {
	m.solves.WithLabelValues(s.Status).Inc()
	m.reached.set(s.Objective)
	m.reachedGap.set(s.Gap)
	m.reachedShare.set(s.Captured)
	m.pairs.WithLabelValues().Add(float64(s.Pairs))
	m.columns.WithLabelValues().Add(float64(s.Columns))
	m.programs.WithLabelValues().Add(float64(s.Programs))
	m.simplex.WithLabelValues().Add(float64(s.SimplexIterations))
	m.rounds.WithLabelValues().Add(float64(s.Rounds))
	m.solverCPU.WithLabelValues().Add(max(0, s.CPU.Seconds()))
	m.solverMemory.set(float64(s.PeakMemory))
}

// ObservePlan shows what a plan is worth, and what binds.
func (m *Metrics) ObservePlan(p *plan.Plan) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var peaks, ahead, terms []value
	for _, b := range p.Balance {
		peaks = append(peaks, value{[]string{b.Dimension, b.Domain}, b.Before.PeakToMean})
		ahead = append(ahead, value{[]string{b.Dimension, b.Domain, "after"}, b.After.PeakToMean},
			value{[]string{b.Dimension, b.Domain, "target"}, b.Target.PeakToMean})
	}
	for _, t := range p.Objective.Terms {
		terms = append(terms, value{[]string{t.Name, "before"}, t.Before}, value{[]string{t.Name, "after"}, t.After})
	}
	byKind, byBinding := make(map[string]int), make(map[string]int)
	for _, decider := range model.AllDeciders.Names() {
		byBinding[decider] = 0
	}
	for _, v := range p.Verdicts {
		byKind[string(v.Kind)]++
		for _, what := range v.Binding {
			byBinding[what]++
		}
	}
	for _, kind := range verdicts {
		m.verdicts.set(float64(byKind[kind]), kind)
	}
	var binding []value
	for what, n := range byBinding {
		binding = append(binding, value{[]string{what}, float64(n)})
	}
	m.peakToMean.replace(peaks)
	m.peakAhead.replace(ahead)
	m.objective.replace(terms)
	m.binding.replace(binding)
	m.lowerBound.set(p.Objective.LowerBound)
	m.gap.set(p.Objective.Gap)
	m.captured.set(p.Objective.Captured)
	m.planMoves.set(float64(p.Totals.Moves))
	m.planBytes.set(float64(p.Totals.Bytes))
}

// ObserveOwnership says who moves copies.
func (m *Metrics) ObserveOwnership(owner string) { m.ownership.only(owner, owners) }

// ObserveStop says what kept moves from being asked for; empty where nothing did.
func (m *Metrics) ObserveStop(reason string) { m.stopCondition.only(reason, reasons) }

// Move is one of our moves as the mover last told of it.
type Move struct {
	ID      string        // tells it apart from others under way: the allocation id of its copy
	Bytes   int64         // of the copy
	Result  string        // how it ended; empty while it is under way
	Decider string        // the first that refused it; empty where none did
	Took    time.Duration // since it was asked for; 0 where it never was
}

// ObserveMove shows that a move has begun, goes on or has ended, and tells whether it is the first that is heard of it.
// One that an earlier cycle left under way is known, and not considered twice.
func (m *Metrics) ObserveMove(move Move) (first bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.underWay[move.ID]; !known {
		first = true
		m.considered.WithLabelValues().Inc()
	}
	if move.Result == "" {
		m.underWay[move.ID] = move.Bytes
	} else {
		delete(m.underWay, move.ID)
		m.ended(move)
	}
	bytes := int64(0)
	for _, b := range m.underWay {
		bytes += b
	}
	m.inFlight.set(float64(len(m.underWay)))
	m.inFlightBytes.set(float64(bytes))
	return first
}

// ended counts the end of a move. What was on its target before it was asked for took no time and moved nothing.
func (m *Metrics) ended(move Move) {
	m.moves.WithLabelValues(move.Result).Inc()
	switch {
	case move.Result == "refused":
		decider := cmp.Or(move.Decider, wholeRequest)
		if !slices.Contains(deciders, decider) {
			decider = otherDecider
		}
		m.refused.WithLabelValues(decider).Inc()
	case move.Result == "landed" && move.Took > 0:
		m.movedBytes.WithLabelValues().Add(float64(move.Bytes))
		m.moveSeconds.WithLabelValues().Observe(move.Took.Seconds())
		m.moveSize.WithLabelValues().Observe(float64(move.Bytes))
	}
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// ObserveLeader says whether this instance leads, where several stand for election.
func (m *Metrics) ObserveLeader(leads bool) {
	v := 0.0
	if leads {
		v = 1
	}
	m.leader.set(v)
}
