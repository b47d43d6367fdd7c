package solver

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/shardonnay/shardonnay/internal/instance"
)

// Prices of seats know that large copies need whole ones: they prove more than if each took the cheapest seat, the more
// lumps there are the more, and the same on one worker and on two.
func TestSeatsAreForWholeCopies(t *testing.T) {
	for seed := range uint64(2) {
		f := newFrame(generate(t, 20, 800, seed, func(o *instance.Options) { o.Giants = 4 }))
		if len(f.lumps) < 15 {
			t.Fatalf("seed %d: only %d lumps", seed, len(f.lumps))
		}
		look := func(most, workers int) (naive, bound float64, found *prices) {
			g := *f
			g.setLumps(f.lumpy(most))
			q := g.newPricer(g.noPrices(), rand.New(rand.NewPCG(1, 1)))
			naive, _, _ = q.nodeBound(g.nodes(), 1e-9, nodeSteps, workers, &allowance{ctx: context.Background()}, nil)
			s, err := newSeating(q, g.nodes())
			if err != nil {
				t.Fatal(err)
			}
			defer s.close()
			allow := allowance{ctx: context.Background(), since: time.Now(), most: 200_000_000}
			home := f.p.Current()
			best, err := s.search(s.start(home), home, 1e-5, math.Inf(1), workers, &allow, func(b float64) { bound = b })
			if err != nil {
				t.Fatal(err)
			}
			return naive, bound, best.p
		}
		naive, few, _ := look(4, 2)
		_, many, found := look(mostLumps, 2)
		_, again, same := look(mostLumps, 1)
		if !(naive < few && few < many) {
			t.Errorf("seed %d: with cheapest seats %v, prices for four %v, for all lumps %v", seed, naive, few, many)
		}
		if again != many || !slices.Equal(found.seat, same.seat) || !slices.Equal(found.crowd, same.crowd) {
			t.Errorf("seed %d: one worker proves %v, two %v", seed, again, many)
		}
	}
}
