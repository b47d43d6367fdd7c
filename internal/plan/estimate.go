package plan

import (
	"math"
	"slices"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// defaultBandwidth is both products' default of indices.recovery.max_bytes_per_sec, in bytes per second: what a node sends
// and receives for all its recoveries together.
const defaultBandwidth = 40 << 20

// perMoveSeconds is what a move takes beside its bytes: opening the copy, replaying operations, the hand-over.
const perMoveSeconds = 1.0

// totals sums up the moves.
func (s *sequencer) totals(moves []Move) Totals {
	t := Totals{Moves: len(moves), EstSeconds: s.estimate(moves)}
	touched := make(map[cluster.NodeID]struct{})
	for i := range moves {
		t.Bytes += moves[i].Bytes
		touched[moves[i].From.ID], touched[moves[i].To.ID] = struct{}{}, struct{}{}
	}
	t.NodesTouched = len(touched)
	return t
}

// estimate plays the moves, each as soon as those it waits for have landed and its sender and target have a slot free. A
// node shares its bandwidth evenly among what it sends and receives at the time. The answer is in seconds.
func (s *sequencer) estimate(moves []Move) float64 {
	settings := &s.b.Snapshot.Settings
	bandwidth := float64(settings.RecoveryBytesPerSec)
	if bandwidth <= 0 {
		bandwidth = defaultBandwidth
	}
	in, out := slots(s.o.PerNode, settings.IncomingRecoveries), slots(s.o.PerNode, settings.OutgoingRecoveries)
	receiving, sending := make(map[cluster.NodeID]int), make(map[cluster.NodeID]int)
	left := make([]float64, len(moves)) // bytes
	landed := make([]bool, len(moves))
	waiting, flying := make([]int, len(moves)), []int(nil)
	for i := range moves {
		left[i], waiting[i] = float64(moves[i].Bytes)+perMoveSeconds*bandwidth, i
	}
	free := func(m *Move) bool {
		return receiving[m.To.ID] < in && sending[m.BytesSource.ID] < out &&
			!slices.ContainsFunc(m.After, func(seq int) bool { return !landed[seq-1] })
	}
	rate := func(m *Move) float64 {
		return bandwidth / float64(max(receiving[m.To.ID]+sending[m.To.ID], receiving[m.BytesSource.ID]+sending[m.BytesSource.ID]))
	}
	seconds := 0.0
	for len(waiting)+len(flying) > 0 {
		still := waiting[:0:len(waiting)]
		for at, i := range waiting {
			m := &moves[i]
			if at < lookAhead && (s.o.AtOnce == 0 || len(flying) < s.o.AtOnce) && free(m) {
				receiving[m.To.ID]++
				sending[m.BytesSource.ID]++
				flying = append(flying, i)
			} else {
				still = append(still, i)
			}
		}
		waiting = still
		step := math.Inf(1)
		for _, i := range flying {
			step = min(step, left[i]/rate(&moves[i]))
		}
		seconds += step
		var done []int
		for _, i := range flying {
			if left[i] -= step * rate(&moves[i]); left[i] <= bandwidth*1e-6 {
				done = append(done, i)
			}
		}
		for _, i := range done {
			landed[i] = true
			receiving[moves[i].To.ID]--
			sending[moves[i].BytesSource.ID]--
		}
		flying = slices.DeleteFunc(flying, func(i int) bool { return landed[i] })
	}
	return seconds
}

// lookAhead is how far past moves that wait for a slot others are started: the mover does the same, and it keeps the
// estimate of a long plan cheap.
const lookAhead = 500

// slots is how many recoveries a node takes at a time: ours where it is set, never more than the server's.
func slots(ours, servers int) int {
	if servers <= 0 {
		servers = 2
	}
	if ours > 0 {
		return min(ours, servers)
	}
	return servers
}
