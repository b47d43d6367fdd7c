package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

//go:generate go test . -run TestDocumentIsCurrent -update

// Metrics are the daemon's series. Methods may be called from several goroutines.
type Metrics struct {
	mu   sync.Mutex // families are replaced in several steps
	made *builder

	build, searchCluster      *gauges
	mode, paused, overdue     *gauges
	leader                    *gauges
	cycles, errors            *prometheus.CounterVec
	lastOutcome, lastCycle    *gauges
	stageSeconds              *prometheus.HistogramVec
	reloadSuccess, reloadTime *gauges

	requests, requestBytes                         *prometheus.CounterVec
	traffic                                        Traffic // as last reported
	nodes, indices, copies, samples, window, taken *gauges
	provenance                                     *gauges
	relocations, relocationBytes                   *gauges
	load, utilization                              *gauges

	problemCopies                             *gauges
	solves                                    *prometheus.CounterVec
	pairs, columns, programs, simplex, rounds *prometheus.CounterVec
	solverCPU                                 *prometheus.CounterVec
	solverMemory                              *gauges
	reached, reachedGap, reachedShare         *gauges

	peakToMean, peakAhead                   *gauges
	objective, lowerBound, gap, captured    *gauges
	planMoves, planBytes, verdicts, binding *gauges

	dispersion, requiredOverload, coolingShards *gauges
	tierExcess, regionMissing, wanTokens        *gauges
	wanBytes                                    *prometheus.CounterVec
	crossed                                     map[[2]string]float64 // as last reported

	ownership, stopCondition   *gauges
	considered, moves, refused *prometheus.CounterVec
	movedBytes                 *prometheus.CounterVec
	moveSeconds, moveSize      *prometheus.HistogramVec
	inFlight, inFlightBytes    *gauges
	zones                      zoneMetrics
	underWay                   map[string]int64 // bytes of our moves under way, by id
}

// New makes the metrics and registers them. With a nil registerer they work and are seen by nobody.
func New(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{made: &builder{registerer: registerer}, underWay: make(map[string]int64), crossed: make(map[[2]string]float64)}
	m.makeLoop()
	m.makeCollect()
	m.makeSolve()
	m.makePlan()
	m.makeRegions()
	m.makeMove()
	m.makeZones()
	m.begin()
	return m
}

func (m *Metrics) makeLoop() {
	b := m.made
	m.build = b.gauge("build_info", "Always 1; the labels say what runs.",
		label{name: "version"}, label{name: "commit"}, label{name: "go"}, label{name: "clp"})
	m.searchCluster = b.gauge("cluster_info", "Always 1; the labels say which cluster this daemon is for. Join with it to tell several apart.",
		label{name: "cluster_name"}, label{name: "cluster_uuid"}, label{name: "distribution"}, label{name: "version"})
	m.mode = b.gauge("mode", "1 for the mode at work, 0 for the others.", label{"mode", modes})
	m.paused = b.gauge("paused", "1 while moving is paused by POST /api/v1/pause, else 0.")
	m.leader = b.gauge("leader", "1 while this instance leads by the Lease of election.lease, 0 while it waits for another; no series where none is configured.")
	m.overdue = b.gauge("cycle_overdue_seconds",
		"How long after a cycle's end without another one the loop counts as hanging: three intervals and the limits of its steps. /healthz fails then.")
	m.cycles = b.counter("cycles_total",
		"Cycles by how they ended. moved: copies were sent on their way; balanced: nothing is worth moving; held: moves are planned but not wanted now; the others name what was in the way.",
		label{"outcome", outcomes})
	m.lastOutcome = b.gauge("last_outcome", "1 for how the last cycle ended, 0 for the others.", label{"outcome", outcomes})
	m.lastCycle = b.gauge("last_cycle_timestamp_seconds", "When the last cycle ended, Unix time. Older than cycle_overdue_seconds: the loop hangs.")
	m.stageSeconds = b.histogram("cycle_duration_seconds",
		"Time each stage of a cycle took. A collect that grows tells of a cluster under strain, a solve at its limit of a problem too large for it.",
		stageSeconds, label{"stage", stages})
	m.errors = b.counter("errors_total", "Errors that ended a cycle, by class. docs/operations.md says what each calls for.", label{"class", classes})
	m.reloadSuccess = b.gauge("config_reload_success", "1 where the configuration on disk is in force, 0 where it was refused.")
	m.reloadTime = b.gauge("config_reload_timestamp_seconds", "When a configuration was last taken, Unix time.")
}

func (m *Metrics) makeCollect() {
	b := m.made
	node, dimension := label{name: "node"}, label{name: "dimension"}
	m.requests = b.counter("requests_total",
		"Requests to the cluster: reads, writes, further rounds of reads (retry), and tries of all these that got no good answer (failure).",
		label{"kind", kinds})
	m.requestBytes = b.counter("request_bytes_total", "Bodies to and from the cluster as they travelled, compressed.", label{"direction", directions})
	m.nodes = b.gauge("snapshot_nodes", "Data nodes in the last complete snapshot.")
	m.indices = b.gauge("snapshot_indices", "Indices in the last complete snapshot.")
	m.copies = b.gauge("snapshot_copies", "Shard copies in the last complete snapshot, unassigned ones included.")
	m.samples = b.gauge("snapshot_samples", "Samples its rates rest on: 2, or 1 while warming up.")
	m.window = b.gauge("snapshot_window_seconds", "Time between those samples.")
	m.taken = b.gauge("snapshot_timestamp_seconds", "When it was taken, Unix time. Plans rest on nothing newer.")
	m.provenance = b.gauge("copies", "Copies by where their load comes from, best first. Many that are not measured: the plan rests on guesses.",
		label{"provenance", provenances})
	m.relocations = b.gauge("relocations", "Relocations under way in the snapshot, whoever asked for them.")
	m.relocationBytes = b.gauge("relocation_bytes", "Size of the copies that relocate in the snapshot.")
	m.load = b.gauge("node_load_ratio",
		"Load of a node over its fair share, once what relocates has landed: 1 is exactly fair, 2 carries twice as much per unit of capacity as its domain does on average.",
		node, dimension)
	m.utilization = b.gauge("node_utilization_ratio",
		"Load of a node over its capacity: busy seconds per second and processor, or share of the disk.", node, dimension)
}

func (m *Metrics) makeSolve() {
	b := m.made
	m.problemCopies = b.gauge("problem_copies", "Copies in the last problem: those that may move, and those kept where they are by a decider, the configuration or a cool-down.",
		label{"may", movabilities})
	m.solves = b.counter("solves_total",
		"Solves by how they ended. optimal: proven; feasible: near enough; limit: its time or work was over first. All at their limit: raise solver.time_limit.",
		label{"status", statuses})
	m.pairs = b.counter("solver_pairs_priced_total", "Pairs of a copy and a node that pricing looked at.")
	m.columns = b.counter("solver_columns_built_total", "Columns given to CLP: the few of those pairs that could matter.")
	m.programs = b.counter("solver_lp_solves_total", "Linear programs solved.")
	m.simplex = b.counter("solver_simplex_iterations_total", "Simplex iterations of the column generation.")
	m.rounds = b.counter("solver_rounds_total", "Rounds of pricing.")
	m.solverCPU = b.counter("solver_cpu_seconds_total", "Processor time of the solver's process. The daemon's own is process_cpu_seconds_total.")
	m.solverMemory = b.gauge("solver_peak_memory_bytes",
		"The most memory the last solve had resident, in a process of its own. It counts against the container's limit beside process_resident_memory_bytes.")
	m.reached = b.gauge("solver_objective", "Objective of the placement the last solve found; plans go there in steps.")
	m.lowerBound = b.gauge("objective_lower_bound", "No legal placement has a lower objective.")
	m.reachedGap = b.gauge("solver_gap_ratio", "How far that placement's objective is above the lower bound, over that objective.")
	m.reachedShare = b.gauge("solver_captured_ratio", "Share of the possible improvement that the placement reaches; 1 where nothing can be improved.")
}

func (m *Metrics) makePlan() {
	b := m.made
	dimension, domain := label{name: "dimension"}, label{name: "domain"}
	m.peakToMean = b.gauge("peak_to_mean_ratio",
		"Load ratio of the most loaded node of a domain, now. This is the figure to bring down to 1.", dimension, domain)
	m.peakAhead = b.gauge("plan_peak_to_mean_ratio",
		"What it comes down to: after the last plan's moves, and with the placement the solver would like (target).", dimension, domain, label{"when", reaches})
	m.objective = b.gauge("objective",
		"Objective by term, now and after the last plan's moves. What a term counts is in docs/formulation.md.",
		label{name: "term"}, label{"when", whens})
	m.gap = b.gauge("gap_ratio", "How far the objective after the plan is above the lower bound, over that objective.")
	m.captured = b.gauge("captured_ratio", "Share of the possible improvement that the last plan reaches; 1 where nothing can be improved.")
	m.planMoves = b.gauge("plan_moves", "Moves in the last plan, carried out or not.")
	m.planBytes = b.gauge("plan_bytes", "Bytes of the last plan's moves.")
	m.verdicts = b.gauge("plan_verdicts", "Explanations in the last plan by kind: what stays as it is, and why. docs/plan.md has the kinds.", label{"kind", verdicts})
	m.binding = b.gauge("plan_binding",
		"How many of the last plan's verdicts name a decider, limit or setting as what binds. Deciders are always shown, the others while they bind.",
		label{name: "binding"})
}

func (m *Metrics) makeRegions() {
	b := m.made
	from, to := label{name: "from"}, label{name: "to"}
	m.dispersion = b.gauge("dispersion_ratio",
		"Copies above the cap of a region, zone or host, at the tier where they are most, over all copies: 0 is as far apart as can be. These series are there with regions.attribute set only.")
	m.tierExcess = b.gauge("tier_excess", "Copies above the caps of a tier, now.", label{"tier", tiers})
	m.regionMissing = b.gauge("region_copies_missing", "Copies that shards lack in a region, which has fewer of them than it must. They come as soon as bytes may cross.", label{name: "region"})
	m.requiredOverload = b.gauge("required_overload",
		"How far above its fair share of bytes some node has to be for no two copies to be closer than they must, a ratio. Above regions.overload, dispersion stays above 0.")
	m.coolingShards = b.gauge("cooldown_shards", "Shards that stay because a copy of theirs moved within regions.cool_down.")
	m.wanBytes = b.counter("wan_bytes_total", "Size of the copies sent from one region to another, the server's own recoveries included.", from, to)
	m.wanTokens = b.gauge("wan_tokens",
		"Bytes that may still cross between two regions; below 0 after recoveries of the server that nobody could hold up. No series without regions.wan_bytes_per_hour.", from, to)
}

func (m *Metrics) makeMove() {
	b := m.made
	m.ownership = b.gauge("ownership",
		"1 for who moves copies: us, another instance (other), a person who set cluster.routing.rebalance.enable meanwhile or gave it back in our stead, or the server itself.",
		label{"state", owners})
	m.stopCondition = b.gauge("stop_condition",
		"1 for the condition that kept the last cycle from asking for moves, 0 for the others. docs/operations.md has what ends each.", label{"reason", reasons})
	m.considered = b.counter("moves_considered_total", "Moves that were asked for, or ended without that, and moves of an earlier process found under way.")
	m.moves = b.counter("moves_total",
		"Moves by how they ended. landed is the aim; stale (no longer held when its turn came) and skipped are normal; refused, cancelled, expired and lost deserve a look at the log.",
		label{"result", results})
	m.refused = b.counter("moves_refused_total",
		"Refused moves by the first decider that said no; request: the cluster turned the whole request down. A decider we know should have been foreseen: report it.",
		label{"decider", deciders})
	m.movedBytes = b.counter("moved_bytes_total", "Size of the copies that landed.")
	m.moveSeconds = b.histogram("move_duration_seconds", "Time from asking for a move until its copy was seen started on the target.", moveSeconds)
	m.moveSize = b.histogram("move_size_bytes", "Size of each copy that landed.", moveBytes)
	m.inFlight = b.gauge("moves_in_flight", "Our moves under way. Watched in mode act only: it stands still in the others.")
	m.inFlightBytes = b.gauge("moves_in_flight_bytes", "Size of the copies they move.")
}

// begin shows what is so before anything has happened: nothing is under way, and no word of a fixed set holds yet.
func (m *Metrics) begin() {
	m.inFlight.set(0)
	m.inFlightBytes.set(0)
	m.paused.set(0)
	m.mode.only("", modes)
	m.ownership.only("", owners)
	m.stopCondition.only("", reasons)
	m.lastOutcome.only("", outcomes)
}
