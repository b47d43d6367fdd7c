package collector

import (
	"math"
	"time"
)

// average is an exponentially weighted mean of a rate and what is needed to tell how far it may be off. The weight of a
// sample halves with time and not with the number of samples, so that a daemon that looks every minute and one that
// looks every ten agree.
//
// With weights w over samples x: Mean = Σwx/Σw, Spread = Σw(x-Mean)², Weight = Σw, Squares = Σw². Weight starts at 0 and
// tends to 1, which makes the first sample count fully instead of being averaged with a zero nobody measured.
type average struct {
	Mean    float64 `json:"m"`
	Spread  float64 `json:"s,omitempty"`
	Weight  float64 `json:"w,omitempty"`
	Squares float64 `json:"q,omitempty"`
}

// known tells whether there was ever a sample.
func (a *average) known() bool { return a.Weight > 0 }

// add takes in the rate x, measured over the time dt.
func (a *average) add(x float64, dt, halfLife time.Duration) {
	keep := math.Exp2(-dt.Seconds() / halfLife.Seconds())
	fresh, old := 1-keep, keep*a.Weight
	a.Weight = old + fresh
	a.Squares = keep*keep*a.Squares + fresh*fresh
	off, part := x-a.Mean, fresh/a.Weight
	a.Mean += off * part
	// How far x is from the new mean is off*old/Weight. As a difference of the two it would be their rounding where they
	// are nearly equal, and its root, the error, a millionth of x instead of nothing.
	a.Spread = keep*a.Spread + off*off*old*part
}

// error is the standard error of the mean: the deviation of the samples, divided by the root of how many the weights
// amount to. The samples' own deviation would be the wrong measure of whether a move is justified: a quiet shard asked
// now and then looks like noise from one minute to the next, and is known well after an hour.
func (a *average) error() float64 {
	if a.Weight <= 0 {
		return 0
	}
	variance := max(0, a.Spread/a.Weight)
	return math.Sqrt(variance * a.Squares / (a.Weight * a.Weight))
}

// memory is how long the mean looks back: the time over which that many equal samples would weigh what these do.
func (a *average) memory(halfLife time.Duration) float64 {
	return a.Weight * halfLife.Seconds() / math.Ln2
}
