package solver

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

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
			allow := allowance{ctx: context.Background(), since: time.Now(), most: 200_000_000}
			s := newSeating(q, g.nodes(), rand.New(rand.NewPCG(1, 2)), 1e-5, workers, &allow)
			home := f.p.Current()
			best := s.search(s.start(home), home, 1e-5, math.Inf(1), func(b float64) { bound = b })
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

// Passes end: what they find that the bundle did not know of becomes less from one to the next, and a look then proves what the
// bundle promised but for what is news to it and what the nodes' searches left open.
func TestPassesLeaveLittleThatIsNews(t *testing.T) {
	for seed := range uint64(3) {
		s, best := passing(t, seed, allowance{ctx: context.Background()})
		s.look(best, 0, len(s.nodes))
		center, reach := slices.Concat(best.p.seat, best.p.crowd), s.units()
		for i := range reach {
			reach[i] *= firstWidth
		}
		s.bundle.around(center, reach)
		var news []float64
		for range 8 {
			s.bundle.rise(0, 1e-9)
			found, ended := s.pass()
			if !ended {
				t.Fatalf("seed %d: a pass without a limit did not end", seed)
			}
			news = append(news, found)
		}
		if news[0] == 0 || news[7] > news[0]/4 {
			t.Errorf("seed %d: news from pass to pass: %v", seed, news)
		}
		q := s.priced(s.bundle.y)
		promised := 0.0
		for i := range s.nodes {
			promised += s.bundle.least(i, s.bundle.y)
		}
		f := s.q.f
		bound, open, found := s.look(q, 0, len(s.nodes))
		proven := bound - f.constant - sumOf(f.tierNow) - f.crowdTerm(q.p)
		if slack := float64(len(s.nodes)) * s.each; proven < promised-found-open-slack || found > news[0] {
			t.Errorf("seed %d: promised %v, %v of it news and %v open, but proven %v", seed, promised, found, open, proven)
		}
	}
}

// A pass for which there is by far no time is given up while most of the nodes have not been looked at.
func TestAPassThatWouldTakeTooLongIsGivenUp(t *testing.T) {
	s, best := passing(t, 1, allowance{ctx: context.Background(), since: time.Now(), until: time.Now()})
	s.bundle.around(slices.Concat(best.p.seat, best.p.crowd), s.units())
	if _, ended := s.pass(); ended {
		t.Error("it ended without time")
	}
	looked := 0
	for i := range s.answers {
		if s.answers[i].least != 0 {
			looked++
		}
	}
	if looked == 0 || looked > len(s.nodes)/2 {
		t.Errorf("%d of %d nodes were looked at", looked, len(s.nodes))
	}
}

// passing is a search for the prices of seats that has yet to look at the nodes, and where it begins.
func passing(t *testing.T, seed uint64, allow allowance) (*seating, *pricer) {
	f := newFrame(generate(t, 40, 2400, seed))
	f.setLumps(f.lumpy(mostLumps))
	q := f.newPricer(f.noPrices(), rand.New(rand.NewPCG(1, 1)))
	s := newSeating(q, f.nodes(), rand.New(rand.NewPCG(1, 2)), 1e-5, 2, &allow)
	home := f.p.Current()
	s.stand(home)
	return s, s.start(home)
}

// What a node's answer is said to cost is what its choice costs at those prices, by the problem's own costs: the bundle would
// otherwise promise what no look at the nodes ever confirms, and the bound would stay below what is true. A node that takes several large copies is
// where its costs have to be followed further than any one of them leads.
func TestAnAnswerCostsWhatItsChoiceCosts(t *testing.T) {
	followed := 0
	for seed := range uint64(4) {
		p := generate(t, 60, 3600, seed)
		if seed%2 == 1 {
			p.Limits.MaxMoves = 20
		}
		f := newFrame(p)
		rng := rand.New(rand.NewPCG(seed, 3))
		var work int64
		q := f.newPricer(f.noPrices(), rng).cheapSeats(&work)
		for range 4 {
			dear := slices.Clone(q.p.seat)
			for i := range dear { // dear enough for many to come at once
				dear[i] *= 1 + 2*rng.Float64()
			}
			crowd := make([]float64, len(f.crowdRoom))
			for i := range crowd {
				crowd[i] = rng.Float64() * q.moving(f.lumps[0])
			}
			q := q.reseated(dear, crowd)
			nodes := f.nodes()
			allow := allowance{ctx: context.Background()}
			_, answers, _ := q.nodeBound(nodes, 1e-9, nodeSteps, 1, &allow, nil)
			for i, n := range nodes {
				a := &answers[i]
				cost := q.value(n, a, &work)
				for _, x := range a.leave {
					if at := f.lumpOf[x.copy]; at >= 0 {
						cost += dear[at]
					}
					cost -= f.crowding(crowd, p.Copies[x.copy].Group, n)
				}
				for _, c := range a.come {
					cost += f.crowding(crowd, p.Copies[c].Group, n) - dear[f.lumpOf[c]]
				}
				if math.Abs(cost-a.best) > 1e-12 {
					t.Errorf("seed %d, node %d: said to cost %v, costs %v", seed, n, a.best, cost)
				}
				if len(a.come) > 1 {
					followed++
				}
			}
		}
	}
	if followed < 20 {
		t.Errorf("only %d nodes took several large copies", followed)
	}
}

// The bundle's prices are nearly where its description less the quadratic term is highest, and its ceiling is above all other prices.
func TestTheBundleFindsTheHighestPoint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := func(name string, from, to float64) float64 { return rapid.Float64Range(from, to).Draw(t, name) }
		prices, blocks := rapid.IntRange(1, 6).Draw(t, "prices"), rapid.IntRange(1, 5).Draw(t, "blocks")
		slope, center, reach := make([]float64, prices), make([]float64, prices), make([]float64, prices)
		for i := range slope {
			slope[i], center[i], reach[i] = number("slope", -2, 0), number("center", 0, 3), number("reach", 0.1, 2)
		}
		b := newBundle(blocks, slope)
		for block := range blocks {
			for range rapid.IntRange(1, 5).Draw(t, "planes") {
				p := plane{cost: number("cost", -3, 3)}
				for i := range slope {
					if sign := rapid.IntRange(-1, 1).Draw(t, "sign"); sign != 0 {
						p.terms = append(p.terms, term{int32(i), float64(sign)})
					}
				}
				b.add(block, p)
			}
		}
		height := func(y []float64) (v float64) {
			for i := range y {
				v += slope[i]*y[i] - (y[i]-center[i])*(y[i]-center[i])/(2*reach[i])
			}
			for block := range blocks {
				v += b.least(block, y)
			}
			return v
		}
		b.around(center, reach)
		ceiling := b.rise(math.Inf(1), 1e-6)
		// Blocks that pull at one price from both sides take turns in small steps: so nearly there is what counts, of costs up to 3.
		if reached := height(b.y); reached < ceiling-0.01 || reached > ceiling+1e-12 {
			t.Fatalf("reaches %v under a ceiling of %v", reached, ceiling)
		}
		for range 20 {
			y := make([]float64, prices)
			for i := range y {
				y[i] = max(0, b.y[i]+number("away", -1, 1))
			}
			if v := height(y); v > ceiling+1e-9 {
				t.Fatalf("%v at %v, which is above the ceiling %v", v, y, ceiling)
			}
		}
		for _, planes := range b.blocks {
			sum := 0.0
			for _, p := range planes {
				if p.weight < -1e-12 {
					t.Fatalf("a weight of %v", p.weight)
				}
				sum += p.weight
			}
			if math.Abs(sum-1) > 1e-9 {
				t.Fatalf("weights add up to %v", sum)
			}
		}
	})
}
