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

// search is the long part: the bound by linear programs on one side, annealing on the other; then what the programs
// suggest, and annealing on with all that is left.
func (r *run) search(from *prices) error {
	seeds := [3]*rand.Rand{}
	for i := range seeds {
		seeds[i] = rand.New(rand.NewPCG(r.rng.Uint64(), uint64(i)))
	}
	s := newSearch(r.f, r.node, r.f.interesting(r.node))
	proof, first := r.allow(0.7, 0.25), r.allow(0.25, 0.2)
	var leave []move
	var err error
	heat := s.heat(r.result.ObjectiveBefore)
	if r.o.Workers > 1 {
		proved := make(chan struct{})
		go func() {
			defer close(proved)
			leave, err = r.bound(from, seeds[0], &proof)
		}()
		s.cool(heat, seeds[1], 1, &first)
		best, node := s.Objective(), s.Assignment()
		for waiting := r.o.TimeLimit > 0; waiting; { // who counts only work does not look at who is first
			select {
			case <-proved:
				waiting = false
			default:
				more := allowance{ctx: r.ctx, since: time.Now(), until: time.Now().Add(r.o.TimeLimit / 20)}
				s.cool(heat/4, seeds[1], 1, &more)
				if s.Objective() < best {
					best, node = s.Objective(), s.Assignment()
				}
			}
		}
		<-proved
		s.reset(node)
	} else {
		leave, err = r.bound(from, seeds[0], &proof)
		first = r.allow(0.25, 0.2) // its time starts now
		s.cool(heat, seeds[1], 1, &first)
	}
	if err != nil {
		return err
	}
	r.used += proof.used + first.used
	r.take(s, "anneal")
	r.result.Counters.MovesTried += s.work
	if err := r.improve(leave, "nodes"); err != nil || r.enough() {
		return err
	}
	return r.settle(seeds[2])
}

// settle anneals from the best answer with what is left, less what the last polish needs.
func (r *run) settle(rng *rand.Rand) error {
	rest := r.allow(1, 0.9)
	if !rest.until.IsZero() {
		rest.until = rest.until.Add(-r.o.TimeLimit / 25)
	}
	s := newSearch(r.f, r.node, r.f.interesting(r.node))
	s.cool(s.heat(r.result.ObjectiveBefore), rng, r.o.Workers, &rest)
	r.used += rest.used
	r.take(s, "anneal")
	last := r.allow(1, 1)
	s.pool = r.f.everything()
	s.reset(r.node)
	solves, err := s.economise(&last)
	r.result.Counters.LPSolves += int64(solves)
	s.bestMoves(&last)
	s.ejections(r.f.large(largeCopies), &last)
	r.take(s, "polish")
	s.pool = r.f.interesting(r.node)
	s.reset(r.node)
	s.descend(&last)
	r.take(s, "polish")
	r.result.Counters.MovesTried += s.work
	r.spent(&last)
	return err
}
