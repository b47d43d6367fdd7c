package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/model"
	"github.com/shardonnay/shardonnay/internal/plan"
)

//go:generate go test . -run TestDocumentIsCurrent -update

// The fixed words of the labels. They are those of the packages that make them.
var (
	outcomes = []string{
		"moved", "balanced", "snapshot_incomplete", "cluster_not_ready", "moves_in_flight", "held", "not_owner", "infeasible", "failed",
	}
	stages     = []string{"collect", "model", "solve", "plan", "move"}
	results    = []string{"landed", "refused", "stale", "cancelled", "expired", "lost", "skipped"}
	modes      = []string{string(plan.Observe), string(plan.DryRun), string(plan.Act)}
	owners     = []string{string(OwnedByUs), string(OwnedByOther), string(OwnedByPerson), string(OwnedByServer)}
	kinds      = []string{"read", "write", "retry", "failure"}
	directions = []string{"received", "sent"}
	classes    = []string{
		string(cluster.Unavailable), string(cluster.Refused), string(cluster.Incomplete), string(cluster.Infeasible),
		string(cluster.Stale), string(cluster.Rejected), string(cluster.Invalid), string(cluster.Interrupted), string(cluster.Internal),
	}
	provenances = []string{
		cluster.Measured.String(), cluster.FromGroup.String(), cluster.FromIndex.String(), cluster.FromSeries.String(),
		cluster.SinceStart.String(), cluster.Unknown.String(),
	}
	whens = []string{"before", "after"}
)

// stageBuckets reach from the model of a small cluster to a plan's moves, in seconds.
var stageBuckets = []float64{0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 60, 120, 300, 900, 1800}

// Owner says who moves copies of the cluster.
type Owner string

// The owners.
const (
	OwnedByUs     Owner = "us"
	OwnedByOther  Owner = "other"  // another instance
	OwnedByPerson Owner = "person" // somebody set the rebalancing setting to something else meanwhile
	OwnedByServer Owner = "server" // nobody took it over
)

// Metrics are the daemon's series. Methods may be called from several goroutines.
type Metrics struct {
	mu   sync.Mutex // families are replaced in several steps
	made *builder

	build         *gauges
	cycles        *prometheus.CounterVec
	stageSeconds  *prometheus.HistogramVec
	lastCycle     *gauges
	mode          *gauges
	ownership     *gauges
	stopCondition *gauges

	nodes, indices, copies, samples, window, taken *gauges
	provenance                                     *gauges
	relocations, relocationBytes                   *gauges

	load, utilization *gauges

	peakToMean, objective, lowerBound, gap, captured *gauges
	planMoves, planBytes, verdicts                   *gauges

	considered, moves, movedBytes *prometheus.CounterVec
	inFlight, inFlightBytes       *gauges
	left                          int // of our moves, in flight when the last report was made

	reloadSuccess, reloadTime *gauges

	requests, requestBytes *prometheus.CounterVec
	traffic                Traffic // as last reported
	errors                 *prometheus.CounterVec
}

// New makes the metrics and registers them. With a nil registerer they work and are seen by nobody.
func New(registerer prometheus.Registerer) *Metrics {
	b := &builder{registerer: registerer}
	node, dimension, domain := label{name: "node"}, label{name: "dimension"}, label{name: "domain"}
	m := &Metrics{
		made: b,

		build: b.gauge("build_info", "Always 1; the labels say what runs.",
			label{name: "version"}, label{name: "commit"}, label{name: "go"}, label{name: "clp"}),
		cycles: b.counter("cycles_total",
			"Cycles by how they ended. moved: copies were sent on their way; balanced: nothing is worth moving; held: moves are planned but not wanted now; the others name what was in the way.",
			label{"outcome", outcomes}),
		stageSeconds: b.histogram("cycle_duration_seconds",
			"Time each stage of a cycle took. A collect that grows tells of a cluster under strain, a solve at its limit of a problem too large for it.",
			stageBuckets, label{"stage", stages}),
		lastCycle: b.gauge("last_cycle_timestamp_seconds", "When the last cycle ended, Unix time. Older than a few intervals: the loop hangs."),
		mode:      b.gauge("mode", "1 for the mode at work, 0 for the others.", label{"mode", modes}),
		ownership: b.gauge("ownership",
			"1 for who moves copies: us, another instance (other), a person who set cluster.routing.rebalance.enable meanwhile, or the server itself.",
			label{"state", owners}),
		stopCondition: b.gauge("stop_condition", "1 for the condition that keeps moves from being asked for; no series where none does.", label{name: "reason"}),

		nodes:       b.gauge("snapshot_nodes", "Data nodes in the last complete snapshot."),
		indices:     b.gauge("snapshot_indices", "Indices in the last complete snapshot."),
		copies:      b.gauge("snapshot_copies", "Shard copies in the last complete snapshot, unassigned ones included."),
		samples:     b.gauge("snapshot_samples", "Samples its rates rest on: 2, or 1 while warming up."),
		window:      b.gauge("snapshot_window_seconds", "Time between those samples."),
		taken:       b.gauge("snapshot_timestamp_seconds", "When it was taken, Unix time. Plans rest on nothing newer."),
		provenance:  b.gauge("copies", "Copies by where their load comes from, best first. Many that are not measured: the plan rests on guesses.", label{"provenance", provenances}),
		relocations: b.gauge("relocations", "Relocations under way in the snapshot, whoever asked for them."),
		relocationBytes: b.gauge("relocation_bytes",
			"Size of the copies that relocate in the snapshot."),

		load: b.gauge("node_load_ratio",
			"Load of a node over its fair share: 1 is exactly fair, 2 carries twice as much per unit of capacity as its domain does on average.",
			node, dimension),
		utilization: b.gauge("node_utilization_ratio",
			"Load of a node over its capacity: busy seconds per second and processor, or share of the disk.",
			node, dimension),

		peakToMean: b.gauge("peak_to_mean_ratio",
			"Load ratio of the most loaded node of a domain, now. This is the figure to bring down to 1.", dimension, domain),
		objective: b.gauge("objective",
			"Objective by term, now and after the last plan's moves. What a term counts is in docs/formulation.md.",
			label{name: "term"}, label{"when", whens}),
		lowerBound: b.gauge("objective_lower_bound", "No legal placement has a lower objective."),
		gap:        b.gauge("gap_ratio", "How far the objective after the plan is above the lower bound, over that objective."),
		captured:   b.gauge("captured_ratio", "Share of the possible improvement that the last plan reaches; 1 where nothing can be improved."),
		planMoves:  b.gauge("plan_moves", "Moves in the last plan, carried out or not."),
		planBytes:  b.gauge("plan_bytes", "Bytes of the last plan's moves."),
		verdicts:   b.gauge("plan_verdicts", "Explanations in the last plan by kind: what stays as it is, and why.", label{name: "kind"}),

		considered: b.counter("moves_considered_total", "Moves handed to the mover, and moves of an earlier process it found under way."),
		moves: b.counter("moves_total",
			"Moves by how they ended. landed is the aim; stale (no longer held when its turn came) and skipped are normal; refused, cancelled, expired and lost deserve a look at the log.",
			label{"result", results}),
		movedBytes:    b.counter("moved_bytes_total", "Size of the copies that landed."),
		inFlight:      b.gauge("moves_in_flight", "Our moves under way."),
		inFlightBytes: b.gauge("moves_in_flight_bytes", "Size of the copies they move."),

		reloadSuccess: b.gauge("config_reload_success", "1 where the configuration on disk is in force, 0 where it was refused."),
		reloadTime:    b.gauge("config_reload_timestamp_seconds", "When a configuration was last taken, Unix time."),

		requests:     b.counter("requests_total", "Requests to the cluster: reads, writes, further tries of reads, and requests that failed for good.", label{"kind", kinds}),
		requestBytes: b.counter("request_bytes_total", "Bodies to and from the cluster as they travelled, compressed.", label{"direction", directions}),
		errors:       b.counter("errors_total", "Errors that ended a cycle, by class. docs/operations.md says what each calls for.", label{"class", classes}),
	}
	m.ObserveInFlight(0, 0)
	return m
}

// ObserveBuild says what runs.
func (m *Metrics) ObserveBuild(version, commit, goVersion, clp string) {
	m.build.set(1, version, commit, goVersion, clp)
}

// ObserveCycle counts a cycle that ended: how, in which mode, after how long in which stages (absent where it did not
// come to one), and with which error.
func (m *Metrics) ObserveCycle(outcome, mode string, took map[string]time.Duration, ended time.Time, err error) {
	m.cycles.WithLabelValues(outcome).Inc()
	m.mode.only(mode, modes)
	for stage, d := range took {
		m.stageSeconds.WithLabelValues(stage).Observe(d.Seconds())
	}
	m.lastCycle.set(seconds(ended))
	if err != nil {
		m.errors.WithLabelValues(string(cluster.ClassOf(err))).Inc()
	}
}

// ObserveOwnership says who moves copies.
func (m *Metrics) ObserveOwnership(owner Owner) { m.ownership.only(string(owner), owners) }

// ObserveStop says what keeps moves from being asked for; empty where nothing does.
func (m *Metrics) ObserveStop(reason string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var values []value
	if reason != "" {
		values = append(values, value{[]string{reason}, 1})
	}
	m.stopCondition.replace(values)
}

// ObserveSnapshot shows a complete snapshot: its size, where its loads come from, what is on its way, and how much of
// each node's capacity is used.
func (m *Metrics) ObserveSnapshot(s *cluster.Snapshot) {
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
	for n := range s.Nodes {
		node := &s.Nodes[n]
		for d, dimension := range s.Dimensions {
			if node.IsData() && node.Capacity[d] > 0 {
				used := (carried[n][d] + node.Base[d]) / node.Capacity[d]
				utilization = append(utilization, value{[]string{node.Name, dimension.Name}, used})
			}
		}
	}
	m.utilization.replace(utilization)
}

// ObserveProblem shows each node's load over its fair share. name gives a node's name by its position in the problem.
func (m *Metrics) ObserveProblem(p *model.Problem, name func(node int) string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	domains, _ := p.Domains()
	current := p.Current()
	var load []value
	for d, dimension := range p.Dimensions {
		for n, r := range model.Utilization(p, domains, current, d) {
			if r >= 0 {
				load = append(load, value{[]string{name(n), dimension.Name}, r})
			}
		}
	}
	m.load.replace(load)
}

// ObservePlan shows what a plan is worth.
func (m *Metrics) ObservePlan(p *plan.Plan) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var peaks, terms, verdicts []value
	for _, b := range p.Balance {
		peaks = append(peaks, value{[]string{b.Dimension, b.Domain}, b.Before.PeakToMean})
	}
	for _, t := range p.Objective.Terms {
		terms = append(terms, value{[]string{t.Name, "before"}, t.Before}, value{[]string{t.Name, "after"}, t.After})
	}
	count := make(map[plan.Kind]int)
	for _, v := range p.Verdicts {
		count[v.Kind]++
	}
	for kind, n := range count {
		verdicts = append(verdicts, value{[]string{string(kind)}, float64(n)})
	}
	m.peakToMean.replace(peaks)
	m.objective.replace(terms)
	m.verdicts.replace(verdicts)
	m.lowerBound.set(p.Objective.LowerBound)
	m.gap.set(p.Objective.Gap)
	m.captured.set(p.Objective.Captured)
	m.planMoves.set(float64(p.Totals.Moves))
	m.planBytes.set(float64(p.Totals.Bytes))
}

// Moves is what became of the moves of one plan and of earlier ones that were still under way.
type Moves struct {
	Considered int            // moves of the plan
	Adopted    int            // moves found under way, beside them
	Ended      map[string]int // by result, adopted ones included
	Bytes      int64          // of those that landed

	InFlight      int   // left to the cluster, adopted ones included
	InFlightBytes int64 // of those
}

// ObserveMoves counts the moves of a plan that was carried out. Moves adopted from what this process left in flight were
// counted as considered then, others are now.
func (m *Metrics) ObserveMoves(moves Moves) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.considered.WithLabelValues().Add(float64(moves.Considered + max(0, moves.Adopted-m.left)))
	for result, n := range moves.Ended {
		m.moves.WithLabelValues(result).Add(float64(n))
	}
	m.movedBytes.WithLabelValues().Add(float64(moves.Bytes))
	m.left = moves.InFlight
	m.ObserveInFlight(moves.InFlight, moves.InFlightBytes)
}

// ObserveInFlight shows our moves under way while a plan is carried out.
func (m *Metrics) ObserveInFlight(moves int, bytes int64) {
	m.inFlight.set(float64(moves))
	m.inFlightBytes.set(float64(bytes))
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

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
