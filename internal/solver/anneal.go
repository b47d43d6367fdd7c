package solver

import (
	"math"
	"math/rand/v2"
)

const (
	// The first temperature is this share of what a move costs: high enough to trade one move for another, too low to
	// give up what moves have gained. Where moves are free, it is a share of what a move gains.
	hotPerMove, hotPerGain = 0.25, 0.04
	// coldPerHot is the last temperature's share of the first: by then nothing but gains is accepted.
	coldPerHot = 0.002
	// annealRounds is how often the nodes are dealt anew between the chains during one fall of the temperature.
	annealRounds = 16
	// A chain needs enough nodes and copies to find anything by itself.
	chainNodes, chainCopies = 12, 100
)

// heat is the first temperature for a search that has come from objective before to where it is.
func (s *search) heat(before float64) float64 {
	cost, moved := 0.0, 0
	for _, c := range s.pool {
		if s.away(c) {
			cost += s.f.moveCost[c]
			moved++
		}
	}
	if moved == 0 {
		for _, c := range s.pool {
			cost += s.f.moveCost[c]
		}
		moved = max(1, len(s.pool))
	}
	if cost > 0 {
		return hotPerMove * cost / float64(moved)
	}
	return hotPerGain * max(before-s.Objective(), 1e-9*before) / float64(moved)
}

// chain is one goroutine's part of an annealing round: some nodes, and the copies on them that it may move.
type chain struct {
	*search
	rng    *rand.Rand
	in     []bool  // per node
	nodes  []int32 // of the chain
	active []int32 // copies it may move: they are on its nodes, and their groups are nobody else's
	mine   []bool  // per copy
	out    []int32 // active copies that are away
	outAt  []int32 // per copy: its position there, -1 for the others
}

// newChain deals itself the copies of pool on its nodes. owner says whose a group is.
func newChain(s *search, rng *rand.Rand, nodes []int32, owner func(g int32) bool) *chain {
	k := &chain{search: s, rng: rng, in: make([]bool, len(s.f.p.Nodes)), nodes: nodes, mine: make([]bool, len(s.f.p.Copies)), outAt: make([]int32, len(s.f.p.Copies))}
	for _, n := range nodes {
		k.in[n] = true
	}
	for c := range k.outAt {
		k.outAt[c] = -1
	}
	for _, c := range s.pool {
		if k.in[s.Node(int(c))] && owner(s.f.p.Copies[c].Group) {
			k.active = append(k.active, c)
			k.mine[c] = true
			k.note(c)
		}
	}
	return k
}

// anneal lets the temperature fall from hot to cold while the allowance lasts.
func (k *chain) anneal(hot, cold float64, allow *allowance) {
	if len(k.active) == 0 || len(k.nodes) < 2 {
		return
	}
	const beat = 512 // steps between looks at the allowance
	for temperature := hot; ; {
		for range beat {
			k.step(temperature)
		}
		k.work += beat
		if allow.spent(beat) {
			return
		}
		temperature = hot * math.Pow(cold/hot, allow.gone())
	}
}

// step tries one random change: a copy to a random node or back home, or a swap with a random copy there. Copies that
// are away already are tried as often as all others together: which they are decides what the moves cost.
func (k *chain) step(temperature float64) {
	c := k.active[k.rng.IntN(len(k.active))]
	if len(k.out) > 0 && k.rng.IntN(2) == 0 {
		c = k.out[k.rng.IntN(len(k.out))]
	}
	a, home := k.Node(int(c)), k.f.p.Copies[c].Node
	n := home
	if a == home || !k.in[home] || k.rng.IntN(2) == 0 {
		n = k.nodes[k.rng.IntN(len(k.nodes))]
	}
	if n == a {
		return
	}
	if with := k.on[n]; len(with) > 0 && k.rng.IntN(5) > 0 {
		e := with[k.rng.IntN(len(with))]
		if k.mine[e] && k.accept(k.DeltaSwap(int(c), int(e)), temperature) && k.LegalSwap(int(c), int(e)) && k.affordable(c, n, e) {
			k.swap(c, e)
			k.note(c)
			k.note(e)
		}
		return
	}
	if !k.affordable(c, n, -1) {
		k.exchange(c, n, temperature)
	} else if k.accept(k.DeltaLegal(int(c), n), temperature) && k.Legal(int(c), n) {
		k.move(c, n)
		k.note(c)
	}
}

// exchange lets another copy go home for what the move of c to n takes from the budgets.
func (k *chain) exchange(c, n int32, temperature float64) {
	if len(k.out) == 0 {
		return
	}
	e := k.out[k.rng.IntN(len(k.out))]
	was, home := k.Node(int(e)), k.f.p.Copies[e].Node
	if e == c || !k.in[home] || !k.Legal(int(e), home) {
		return
	}
	back := k.Delta(int(e), home)
	k.move(e, home)
	if k.affordable(c, n, -1) && k.accept(back+k.DeltaLegal(int(c), n), temperature) && k.Legal(int(c), n) {
		k.move(c, n)
		k.note(c)
		k.note(e)
		return
	}
	k.move(e, was)
}

// note keeps the list of copies that are away.
func (k *chain) note(c int32) {
	at := k.outAt[c]
	switch away := k.away(c); {
	case away && at < 0:
		k.outAt[c] = int32(len(k.out))
		k.out = append(k.out, c)
	case !away && at >= 0:
		last := k.out[len(k.out)-1]
		k.out[at], k.outAt[last] = last, at
		k.out, k.outAt[c] = k.out[:len(k.out)-1], -1
	}
}

func (k *chain) accept(delta, temperature float64) bool {
	return delta <= 0 || k.rng.Float64() < math.Exp(-delta/temperature)
}

// cool anneals from hot down with two chains side by side, each on its half of the nodes, dealt anew every round. The
// number of chains does not depend on the number of workers, and so neither does the outcome.
func (s *search) cool(hot float64, rng *rand.Rand, workers int, allow *allowance) {
	chains := 2
	limits := &s.f.p.Limits
	if len(s.on) < 2*chainNodes || len(s.pool) < 2*chainCopies || limits.MaxMoves > 0 || limits.MaxBytes > 0 {
		chains = 1
	}
	ratio := math.Pow(coldPerHot, 1/float64(annealRounds))
	for round := range annealRounds {
		cold := hot * ratio
		part := allow.part(1/float64(annealRounds-round), chains, workers)
		if chains == 1 {
			all := make([]int32, len(s.on))
			for n := range all {
				all[n] = int32(n)
			}
			newChain(s, rng, all, func(int32) bool { return true }).anneal(hot, cold, &part[0])
		} else {
			s.coolApart(hot, cold, rng, workers, part)
		}
		for i := range part {
			allow.used += part[i].used
		}
		if allow.spent(0) {
			return
		}
		hot = cold
	}
}

// coolApart runs one round of chains on clones and takes over what they have moved.
func (s *search) coolApart(hot, cold float64, rng *rand.Rand, workers int, part []allowance) {
	chains := len(part)
	order := rng.Perm(len(s.on))
	half := make([][]int32, chains)
	of := make([]int, len(s.on))
	for i, n := range order {
		half[i%chains] = append(half[i%chains], int32(n))
		of[n] = i % chains
	}
	run := make([]*chain, chains)
	seeds := make([]*rand.Rand, chains)
	for i := range seeds {
		seeds[i] = rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64()))
	}
	parallel(workers, chains, 1, func(i, _ int) int64 {
		// A group is the chain's that has its first copy: two chains moving copies of one group could break its rules.
		owner := func(g int32) bool { return of[s.Node(int(s.f.group(g)[0]))] == i }
		run[i] = newChain(s.clone(), seeds[i], half[i], owner)
		run[i].anneal(hot, cold, &part[i])
		return 0
	})
	for _, k := range run {
		for _, c := range k.active {
			if n := k.Node(int(c)); n != s.Node(int(c)) {
				s.move(c, n)
			}
		}
		s.work += k.work
	}
}
