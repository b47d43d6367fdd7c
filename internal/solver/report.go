package solver

import (
	"golang.org/x/sys/unix"

	"github.com/shardonnay/shardonnay/internal/model"
)

// ReportVersion is the version of the report format.
const ReportVersion = 1

// Report is a solve as other programs read it; docs/solver-report.md describes every field.
type Report struct {
	Version         int                `json:"version"`
	Instance        InstanceSize       `json:"instance"`
	Status          Status             `json:"status"`
	ObjectiveBefore float64            `json:"objective_before"`
	Objective       float64            `json:"objective"`
	LowerBound      float64            `json:"lower_bound"`
	Optimum         float64            `json:"optimum,omitempty"` // of an instance whose optimum is known by construction
	Captured        float64            `json:"captured"`          // (before - objective)/(before - bound)
	Gap             float64            `json:"gap"`               // (objective - bound)/|objective|
	LowerBoundKind  BoundKind          `json:"lower_bound_kind"`
	Moves           int                `json:"moves"`
	BytesMoved      float64            `json:"bytes_moved"`
	BytesLowerBound float64            `json:"bytes_lower_bound"` // no placement of that balance with so many moves moves fewer bytes
	WallS           float64            `json:"wall_s"`            // seconds of the solve
	CPUS            float64            `json:"cpu_s"`             // seconds of the process meanwhile
	PeakRSSBytes    int64              `json:"peak_rss_bytes"`
	PairsPriced     int64              `json:"pairs_priced"`
	ColumnsBuilt    int64              `json:"columns_built"`
	LPSolves        int64              `json:"lp_solves"`
	CLPIterations   int64              `json:"clp_iterations"`
	Rounds          int64              `json:"rounds"`
	Limit           Limit              `json:"limit"`
	Trace           []TracePoint       `json:"trace"`
	TimeTo          map[string]float64 `json:"time_to"` // seconds to a captured share, against the bound proven by the end
	GainCurve       []CurvePoint       `json:"gain_curve"`
	Checked         bool               `json:"checked"`
}

// InstanceSize says how large a problem is.
type InstanceSize struct {
	Nodes      int    `json:"nodes"`
	Copies     int    `json:"copies"`
	Groups     int    `json:"groups"`
	Indices    int    `json:"indices"`
	Dimensions int    `json:"dimensions"`
	Seed       uint64 `json:"seed"` // of a generated instance; 0 for one from a file
}

// milestones are the captured shares whose times a report gives.
var milestones = []struct {
	name  string
	share float64
}{{"0.90", 0.90}, {"0.97", 0.97}, {"0.99", 0.99}}

// NewReport describes what came of solving p. Memory is that of this process so far: call it where the solve ran.
func NewReport(p *model.Problem, seed uint64, r *Result) Report {
	report := Report{
		Version: ReportVersion,
		Instance: InstanceSize{
			Nodes: len(p.Nodes), Copies: len(p.Copies), Groups: len(p.Groups), Indices: len(p.Indices), Dimensions: len(p.Dimensions), Seed: seed,
		},
		Status: r.Status, ObjectiveBefore: r.ObjectiveBefore, Objective: r.Objective, LowerBound: r.LowerBound,
		Captured: r.Captured(), Gap: r.Gap(), LowerBoundKind: r.BoundKind, WallS: r.Wall.Seconds(), CPUS: r.CPU.Seconds(),
		PairsPriced: r.Counters.PairsPriced, ColumnsBuilt: r.Counters.ColumnsBuilt, LPSolves: r.Counters.LPSolves,
		CLPIterations: r.Counters.CLPIterations, Rounds: r.Counters.Rounds, Limit: r.Limit, Trace: r.Trace,
		TimeTo: make(map[string]float64), Checked: r.Checked, PeakRSSBytes: peakRSS(),
	}
	if report.Trace == nil {
		report.Trace = []TracePoint{}
	}
	for c := range p.Copies {
		if k := &p.Copies[c]; r.Assignment[c] != k.Node {
			report.Moves++
			report.BytesMoved += k.Bytes
		}
	}
	report.BytesLowerBound = bytesLowerBound(p, r, report.Moves)
	report.GainCurve = GainCurve(p, r.Assignment)
	for _, milestone := range milestones {
		for _, point := range r.Trace {
			if captured(r.ObjectiveBefore, point.Objective, r.LowerBound) >= milestone.share {
				report.TimeTo[milestone.name] = point.T
				break
			}
		}
	}
	return report
}

// bytesLowerBound is what the lower bound says of the bytes alone: whatever moves as many copies to the same balance costs
// at least the bound, and what of that is neither balance nor the price of moves is paid for bytes. 0 where bytes are free.
func bytesLowerBound(p *model.Problem, r *Result, moves int) float64 {
	price := p.Objective.Move.PerByte
	if price == 0 {
		return 0
	}
	left := r.LowerBound - p.Objective.Move.PerMove*float64(moves)
	for _, term := range model.Evaluate(p, r.Assignment) {
		if term.Name != model.MoveTerm {
			left -= term.Value
		}
	}
	return max(0, left/price)
}

// peakRSS is the most memory this process has had resident, in bytes.
func peakRSS() int64 {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return usage.Maxrss * 1024 // Linux counts in kilobytes
}
