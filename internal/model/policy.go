package model

// Policy is what the operator wants: how much each dimension matters, what a move must earn, what stays where it is.
type Policy struct {
	// Weights of the dimensions by name; a dimension that is not named weighs 1.
	Weights map[string]float64
	// Tolerance is the share above the mean that costs nothing, a ratio: 0.05 lets a node carry 5 % more than its fair
	// share for free. The measured noise raises it, per dimension.
	Tolerance float64
	// MoveCost prices data movement against balance: moving every byte of the cluster once costs this much, each move
	// a tenth of it over the number of copies on top. 0.2 is eager, 1 normal, 5 thrifty.
	MoveCost float64
	// WriteFactor multiplies the bytes of a copy that takes writes: what is written during the copy travels twice.
	WriteFactor float64
	// SpreadWeight scales the price of copies of one index above their fair count on a node.
	SpreadWeight float64
	// GrowthShare keeps this share of each disk free below the low watermark, for what is written until the next days.
	GrowthShare float64

	PinIndices []string // patterns of indices whose copies never move
	PinNewest  bool     // keep the newest index of each series where it is
	// PinWriteShare keeps a copy whose write load is above this share of its node's capacity; 0 is off.
	PinWriteShare float64
	// CoolingDown holds allocation ids of copies that moved too recently to move again.
	CoolingDown map[string]struct{}

	// Zones is the awareness attribute whose values take turns in serving searches; empty where all serve. A copy's search
	// load is then the most that it has while any zone but its own rests, and a shard with enough copies keeps one in each.
	Zones string
	// MaxLoadAfterLoss is the share of its capacity that a node may have to carry in search, and in index, with any one of the
	// Zones lost; 0 is no limit.
	MaxLoadAfterLoss float64

	// Regions is nil where regions are of no account.
	Regions *Regions

	MaxMoves int   // of one plan; 0 is no limit
	MaxBytes int64 // of one plan; 0 is no limit
}

// DefaultPolicy is the policy of configs/shardonnay.yaml.
func DefaultPolicy() Policy {
	return Policy{
		Tolerance: 0.05, MoveCost: 0.2, WriteFactor: 2, SpreadWeight: 0.5, GrowthShare: 0.02,
		PinNewest: true, PinWriteShare: 0.5,
	}
}

// phiOffsets are where the slope of phi changes, as distances above 1 + tolerance. They double, so that seven pieces
// follow a parabola from a few per cent to several times the mean with an error that stays proportionate.
var phiOffsets = []float64{0, 0.05, 0.15, 0.35, 0.75, 1.55, 3.15}

// Parabola is the phi that tracks (r - start)^2 from start on by secants between its points, and goes on past the last
// point with the parabola's slope there.
func Parabola(start float64) Phi {
	var phi Phi
	for i, offset := range phiOffsets {
		slope := 2 * offset
		if i+1 < len(phiOffsets) {
			slope = offset + phiOffsets[i+1] // the secant of x^2 between both
		}
		phi.Points = append(phi.Points, start+offset)
		phi.Slopes = append(phi.Slopes, slope)
	}
	return phi
}

// The prices below are in units of the balance terms, which are of order 1 for a badly skewed cluster.
const (
	// perMoveShare is the part of MoveCost that is paid for the number of moves rather than their bytes: moving all
	// copies once costs a tenth of moving all bytes.
	perMoveShare = 0.1
	// mustLeavePrice is above what any balance can gain: a copy that has to leave leaves if it legally can.
	mustLeavePrice = 10
	// tierPrice is what one copy too many in a zone costs: repairing awareness beats balance, and yields to must_leave.
	tierPrice = 5
	// maxShift bounds the noise margin: past half a mean of noise the measurement says nothing, and a real hot spot must
	// still be seen.
	maxShift = 0.5
)
