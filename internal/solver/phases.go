package solver

import (
	"math/rand/v2"
	"time"
)

// fewIncoming is below how many copies coming in a node's room has no price: its own copies are decided by the node
// subproblem, which knows their cost, and where nobody wants in, a price would only give the node credit for room that
// nobody takes.
const fewIncoming = 0.1

// startPrices are the flow's prices as the linear programs start from them.
func (w *flow) startPrices() *prices {
	p := w.prices()
	for n, in := range w.incoming() {
		if in < fewIncoming {
			clear(p.slot[n*w.f.resources : (n+1)*w.f.resources])
		}
	}
	return p
}

const (
	// A fall of the temperature ends by itself after so many steps for each copy of the pool: four and sixteen times as
	// many gained less than a thousandth more at 100 x 6 000. A few falls find more than a long one.
	stepsPerFall = 5_000
	falls        = 3
	// fallsOfLarge is how many more there are on large problems, before these, among the largest copies alone.
	fallsOfLarge = 8
	// mild is the share of a first fall's heat that later ones begin with: what the answer has by then would be lost above.
	mild = 0.25
)

// search is the long part: the bound by linear programs on one side, annealing on the other; then what the programs
// suggest, and annealing on with all that is left.
func (r *run) search(starts []start) error {
	seeds := [3]*rand.Rand{}
	for i := range seeds {
		seeds[i] = rand.New(rand.NewPCG(r.rng.Uint64(), uint64(i)))
	}
	s := newSearch(r.f, r.node, r.f.interesting(r.node))
	proof, first := r.allow(0.4, 0.25), r.allow(0.25, 0.2)
	first.atMost(stepsPerFall * int64(len(s.pool)))
	var leave []move
	var err error
	heat := s.heat(r.result.ObjectiveBefore)
	if r.o.Workers > 1 {
		proved := make(chan struct{})
		go func() {
			defer close(proved)
			leave, err = r.bound(starts, seeds[0], &proof)
		}()
		s.cool(heat, seeds[1], 1, &first)
		best, node := s.Objective(), s.Assignment()
		all := r.allow(1, 1)
		for waiting := r.o.TimeLimit > 0; waiting && !all.timeOver(); { // who counts only work does not look at who is first
			select {
			case <-proved:
				waiting = false
			default:
				more := allowance{ctx: r.ctx, since: time.Now(), until: time.Now().Add(r.o.TimeLimit / 20)}
				if more.until.After(all.until) {
					more.until = all.until
				}
				s.cool(mild*heat, seeds[1], 1, &more)
				if s.Objective() < best {
					best, node = s.Objective(), s.Assignment()
				}
			}
		}
		<-proved
		s.reset(node)
	} else {
		leave, err = r.bound(starts, seeds[0], &proof)
		first = r.allow(0.25, 0.2) // its time starts now
		first.atMost(stepsPerFall * int64(len(s.pool)))
		s.cool(heat, seeds[1], 1, &first)
	}
	if err != nil {
		return err
	}
	r.used += proof.used + first.used
	r.take(s, "anneal")
	r.result.Counters.MovesTried += s.work
	if r.enough() {
		return nil
	}
	if err := r.propose(leave, "nodes"); err != nil || r.enough() {
		return err
	}
	return r.settle(seeds[2], pool{falls, r.f.interesting})
}

// large is the long part of large problems where room is plenty: seats for all lumps first, which tells who should leave, and then
// annealing. Where that would be too many for every node to look at again and again, parts of the nodes take their place.
func (r *run) large(free start) error {
	settle := func() error {
		return r.settle(rand.New(rand.NewPCG(r.rng.Uint64(), 2)), pool{fallsOfLarge, r.f.largest}, pool{falls, r.f.interesting})
	}
	pairs := len(r.p.Nodes) * len(r.f.lumpy(seatLevels[len(seatLevels)-1]))
	if pairs > mostPairs {
		return r.apart(free, settle)
	}
	allow := r.allow(seatsShare, 0.5)
	if end := r.start.Add(time.Duration(seatsUntil * float64(r.o.TimeLimit))); !allow.until.IsZero() && allow.until.After(end) {
		allow.until = end
	}
	if !allow.until.IsZero() && allow.seconds()*float64(r.o.Workers) < leastPerPair*float64(pairs) {
		return settle()
	}
	leave := r.proof(r.rng, &allow).seats(&free, seatLevels, 1, r.o.Workers)
	r.spent(&allow)
	if r.enough() {
		return nil
	}
	if leave != nil {
		if err := r.propose(leave, "seats"); err != nil || r.enough() {
			return err
		}
	}
	return settle()
}

const (
	// mostPairs is for how many pairs of node and lump a round of prices takes two to four seconds, leastPerPair how many seconds a
	// pair it takes until the bound rises, after three rounds.
	mostPairs    = 2_500_000
	leastPerPair = 3e-6
	// seatsShare is the part of the time that prices of seats may take, seatsUntil when they have to end: there is an answer to
	// look for.
	seatsShare, seatsUntil = 0.65, 0.8
)

// apart is the same with parts.
func (r *run) apart(free start, settle func() error) error {
	allow := r.allow(apartShare, 0.25)
	parts := r.f.parts()
	if !allow.until.IsZero() && allow.seconds()*float64(r.o.Workers) < leastApart*float64(parts) {
		return settle()
	}
	rng := rand.New(rand.NewPCG(r.rng.Uint64(), 3))
	p := r.proof(rng, &allow)
	leave := p.apart(p.deal(parts))
	r.spent(&allow)
	if err := r.propose(leave, "parts"); err != nil || r.enough() {
		return err
	}
	return r.search([]start{free})
}

const (
	// apartShare is the parts' share of the time.
	apartShare = 0.35
	// leastApart is the seconds that one part takes at least for an answer worth having.
	leastApart = 2
)

// pool is the copies that take part in so many falls of the temperature.
type pool struct {
	falls  int
	copies func(assignments ...[]int32) []int32
}

// settle anneals from the best answer with what is left, less what the last polish needs: several falls of the
// temperature, each from the best before it, with the largest copies looked at in between. A pool's falls take what those before left.
func (r *run) settle(rng *rand.Rand, pools ...pool) error {
	rest := r.allow(1, 0.9)
	if !rest.until.IsZero() {
		rest.until = rest.until.Add(-r.o.TimeLimit / 25)
	}
	s := newSearch(r.f, r.node, nil)
	for _, pool := range pools {
		for fall := 0; fall < pool.falls && !rest.spent(0) && !r.enough(); fall++ {
			s.pool = pool.copies(r.node)
			s.reset(r.node)
			part := rest.part(1/float64(pool.falls-fall), 1, 1)[0]
			part.atMost(stepsPerFall * int64(len(s.pool)))
			s.cool(mild*s.heat(r.result.ObjectiveBefore), rng, r.o.Workers, &part)
			s.pool = r.f.everything()
			s.list()
			s.bestMoves(&part)
			s.ejections(r.f.large(largeCopies), &part)
			rest.used += part.used
			r.take(s, "anneal")
		}
	}
	r.used += rest.used
	last := r.allow(1, 1)
	s.pool = r.f.everything()
	s.reset(r.node)
	solves, err := s.economise(&last)
	r.result.Counters.LPSolves += int64(solves)
	s.bestMoves(&last)
	r.take(s, "economise")
	s.pool = r.f.interesting(r.node)
	s.reset(r.node)
	s.descend(&last)
	r.take(s, "polish")
	r.result.Counters.MovesTried += s.work
	r.spent(&last)
	return err
}
