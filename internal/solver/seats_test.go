package solver

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/shardonnay/shardonnay/internal/instance"
)

// Several giants cannot all have the cheapest seat: prices that know it prove more than the cheapest offers do.
func TestSeatPricesKnowThatSeatsAreFew(t *testing.T) {
	for seed := range uint64(3) {
		p := generate(t, 36, 1500, seed, func(o *instance.Options) { o.Giants = 6 })
		f := newFrame(p)
		if len(f.giants) < 6 {
			t.Fatalf("seed %d: only %d giants", seed, len(f.giants))
		}
		nodes := f.nodes()
		q := f.newPricer(f.noPrices(), rand.New(rand.NewPCG(1, 1)))
		seat, work, err := q.seatPrices(nodes, 2)
		if err != nil || work == 0 {
			t.Fatalf("seed %d: %v after %d units of work", seed, err, work)
		}
		again, sameWork, _ := q.seatPrices(nodes, 1)
		if !slices.Equal(seat, again) || work != sameWork {
			t.Errorf("seed %d: one worker finds %v, two find %v", seed, again, seat)
		}
		stay := q.worthLeaving(&work)
		cheapest := make([]float64, len(seat))
		for g, c := range f.giants {
			if seat[g] < 0 || seat[g] > stay[g] {
				t.Errorf("seed %d: a giant whose leaving saves %v pays %v", seed, stay[g], seat[g])
			}
			offers := q.offers(c, nil, &work)
			cheapest[g] = offers[0].cost
			for _, o := range offers {
				cheapest[g] = min(cheapest[g], o.cost)
			}
		}
		bound := func(seat []float64) float64 {
			b, _, _ := q.nodeBound(nodes, seat, 1e-9, nodeSteps, 2)
			return b
		}
		if assigned, naive := bound(seat), bound(cheapest); assigned <= naive {
			t.Errorf("seed %d: seats by assignment prove %v, cheapest offers %v", seed, assigned, naive)
		}
	}
}
