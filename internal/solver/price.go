package solver

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
)

// prices are dual prices: what a unit of each shared resource is worth. None is negative.
type prices struct {
	slot  []float64 // per slot, a native unit of load
	move  float64   // a move, where moves are limited
	bytes float64   // a byte moved, where bytes are limited
	seat  []float64 // per lump, a seat on another node, its move included; nil treats lumps like other copies
	crowd []float64 // per crowd's value, a seat there for one of the group's lumps; leaving it earns as much
}

func (f *frame) noPrices() *prices { return &prices{slot: make([]float64, len(f.slots))} }

// blend is the mix of p and q: (1-share) x p + share x q.
func (p *prices) blend(q *prices, share float64) *prices {
	return &prices{slot: blend(p.slot, q.slot, share), move: mix(p.move, q.move, share), bytes: mix(p.bytes, q.bytes, share), seat: blend(p.seat, q.seat, share), crowd: blend(p.crowd, q.crowd, share)}
}

// unseated is the same prices where lumps are like other copies.
func (p *prices) unseated() *prices {
	other := *p
	other.seat, other.crowd = nil, nil
	return &other
}

// mix is (1-share) x a + share x b.
func mix(a, b, share float64) float64 { return (1-share)*a + share*b }

// blend is mix of each element.
func blend(x, y []float64, share float64) []float64 {
	mixed := make([]float64, len(x))
	for i := range mixed {
		mixed[i] = mix(x[i], y[i], share)
	}
	return mixed
}

// restrict brings prices into the range where the node terms are finite: from zero to the steepest slope, and zero
// where nothing is shared.
func (f *frame) restrict(p *prices) {
	for i := range f.slots {
		s := &f.slots[i]
		most := f.steepest(s)
		if !math.IsInf(s.most, 1) {
			most = math.MaxFloat64
		}
		if !(p.slot[i] >= 0) { // NaN too
			p.slot[i] = 0
		}
		p.slot[i] = min(p.slot[i], most)
	}
	p.move, p.bytes = max(p.move, 0), max(p.bytes, 0)
	if f.p.Limits.MaxMoves == 0 {
		p.move = 0
	}
	if f.p.Limits.MaxBytes == 0 {
		p.bytes = 0
	}
}

// budgetTerm is what the budgets are worth at these prices; moves pay for them one by one.
func (f *frame) budgetTerm(p *prices) float64 {
	return -p.move*float64(f.p.Limits.MaxMoves) - p.bytes*f.p.Limits.MaxBytes*(1+diskSlack)
}

// nodeTerms is what the shared resources cost at least at these prices: the sum over slots of the least of cost minus
// price x load.
func (f *frame) nodeTerms(p *prices) float64 {
	total := 0.0
	for i := range f.slots {
		s, v := &f.slots[i], p.slot[i]
		switch {
		case s.share > 0:
			least := f.cost(s, s.fixed)
			for _, knot := range f.p.Objective.Phi.Points {
				if x := (knot + s.shift) / s.scale; x > s.fixed {
					least = min(least, f.cost(s, x)-v*(x-s.fixed))
				}
			}
			total += least
		case v > 0:
			total -= v * (s.most - s.fixed)
		}
	}
	return total
}

// slicesPerCell is how many nodes of a cell a copy is offered: the best of that many random parts of it. One best node
// would send all copies to the same few cheap nodes, round after round.
const slicesPerCell = 4

// pricer prices copies and groups at given prices. Goroutines may share it, each with nodes of its own.
type pricer struct {
	f      *frame
	p      *prices
	active []int              // resources with a price anywhere
	blocks [][]block          // per scheme
	least  [][]float64        // scheme, resource: least price of a unit on a node that accepts copies
	fits   []float64          // per scheme: bytes that fit on every node if all that can leave it does
	known  []map[int32]choice // per node: what leaving costs its copies, as far as anybody asked
	alone  []*answer          // per node: the answer where prices of seats do not matter to it
}

// block is a random part of a cell's nodes with their prices gathered, so that the inner loop runs over flat slices.
type block struct {
	nodes   []int32
	unit    [][]float64 // active resource, node
	special []int32     // nodes whose free range is so small that ordinary copies overflow it
}

func (f *frame) newPricer(p *prices, rng *rand.Rand) *pricer {
	q := &pricer{f: f, p: p, known: make([]map[int32]choice, len(f.p.Nodes)), alone: make([]*answer, len(f.p.Nodes))}
	R := f.resources
	for r := range R {
		for i := r; i < len(f.slots); i += R {
			if p.slot[i] > 0 {
				q.active = append(q.active, r)
				break
			}
		}
	}
	for k := range f.schemes {
		q.addScheme(&f.schemes[k], rng)
	}
	return q
}

func (q *pricer) addScheme(k *scheme, rng *rand.Rand) {
	f, R := q.f, q.f.resources
	var blocks []block
	least := make([]float64, R)
	for r := range least {
		least[r] = math.Inf(1)
	}
	fits := math.Inf(1)
	for _, cell := range k.cells {
		order := slices.Clone(cell)
		rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		parts := min(slicesPerCell, len(order))
		for part := range parts {
			b := block{unit: make([][]float64, len(q.active))}
			for _, n := range order[part*len(order)/parts : (part+1)*len(order)/parts] {
				plain := true
				for r := range R {
					s, price := &f.slots[int(n)*R+r], q.p.slot[int(n)*R+r]
					if s.share > 0 {
						plain = plain && s.room >= f.big[r]
						price = min(price, f.slopeAbove(s, s.fixed+s.room)) // what overflows costs at least that
					}
					least[r] = min(least[r], price)
				}
				bytes := &f.slots[int(n)*R+f.balance]
				fits = min(fits, bytes.most-bytes.fixed)
				if !plain {
					b.special = append(b.special, n)
					continue
				}
				b.nodes = append(b.nodes, n)
				for a, r := range q.active {
					b.unit[a] = append(b.unit[a], q.p.slot[int(n)*R+r])
				}
			}
			blocks = append(blocks, b)
		}
	}
	q.blocks, q.least, q.fits = append(q.blocks, blocks), append(q.least, least), append(q.fits, fits)
}

// slopeAbove is the slope of a slot's cost right above load x, or a little less.
func (f *frame) slopeAbove(s *slot, x float64) float64 {
	slope := 0.0
	for k, knot := range f.p.Objective.Phi.Points {
		if knot <= (x*s.scale-s.shift)*(1+1e-12) {
			slope = f.p.Objective.Phi.Slopes[k]
		}
	}
	return slope * s.share * s.scale
}

// at is what copy c costs on node n at the prices, the move aside: its part of the node's load and the overflow.
func (q *pricer) at(c, n int32) float64 {
	f := q.f
	total := 0.0
	for r, l := range f.loads(c) {
		i := int(n)*f.resources + r
		inside, charge := f.split(&f.slots[i], l)
		total += q.p.slot[i]*inside + charge
	}
	return total
}

// stay is what a movable copy costs where it is.
func (q *pricer) stay(c int32) float64 { return q.at(c, q.f.p.Copies[c].Node) + q.f.stayPrice[c] }

// moving is what moving copy c costs, its part of the budgets included.
func (q *pricer) moving(c int32) float64 {
	return q.f.moveCost[c] + q.p.move + q.p.bytes*q.f.p.Copies[c].Bytes
}

// elsewhere is at most what copy c costs on any other node, the move included. It takes no look at nodes.
func (q *pricer) elsewhere(c int32) float64 {
	k, total := q.f.schemeOf[q.f.p.Copies[c].Group], q.moving(c)
	for _, r := range q.active {
		if l := q.f.load[int(c)*q.f.resources+r]; l > 0 {
			total += l * q.least[k][r]
		}
	}
	return total
}

// candidate is a node for a copy and what the copy costs there, the move included.
type candidate struct {
	cost float64
	node int32
}

// offers appends, for every block, the node where copy c is cheapest; the least of all nodes is among them. It adds the
// pairs it looked at to work.
func (q *pricer) offers(c int32, to []candidate, work *int64) []candidate {
	f := q.f
	k := f.schemeOf[f.p.Copies[c].Group]
	home, moving, load := f.p.Copies[c].Node, q.moving(c), f.loads(c)
	ordinary := load[f.balance] <= q.fits[k]
	for d, most := range f.big {
		ordinary = ordinary && load[d] <= most
	}
	for i := range q.blocks[k] {
		b := &q.blocks[k][i]
		best, at := math.Inf(1), int32(-1)
		if ordinary && len(b.nodes) > 0 {
			// Each copy starts its scan elsewhere: of many nodes that cost the same, each is offered another.
			best, at = b.cheapest(q.active, load, home, int(uint32(c)*2654435761>>8)%len(b.nodes))
		} else {
			best, at = q.cheapestOf(c, b.nodes, best, at)
		}
		best, at = q.cheapestOf(c, b.special, best, at)
		*work += int64(len(b.nodes) + len(b.special))
		if at >= 0 {
			to = append(to, candidate{best + moving, at})
		}
	}
	return to
}

// leaving is leaving as a choice of copy c: its cost is that of the cheapest node elsewhere. It is found once.
func (q *pricer) leaving(c int32, work *int64) choice {
	home := q.f.p.Copies[c].Node
	x, known := q.known[home][c]
	if !known {
		x = choice{copy: c, gone: math.Inf(1)}
		copy(x.load[:], q.f.loads(c)[:q.f.balance])
		x.offers = q.offers(c, nil, work)
		for _, offer := range x.offers {
			x.gone = min(x.gone, offer.cost-q.f.tierGain(c, offer.node))
		}
		if q.known[home] == nil {
			q.known[home] = make(map[int32]choice)
		}
		q.known[home][c] = x
	}
	return x
}

// reseated is the same pricer with other prices of the lumps' seats.
func (q *pricer) reseated(seat, crowd []float64) *pricer {
	other, p := *q, *q.p
	p.seat, p.crowd = seat, crowd
	other.p = &p
	return &other
}

// crowding is what a copy of group g pays for a seat on node n, and earns by leaving it, so that its caps are kept.
func (f *frame) crowding(crowd []float64, g, n int32) (price float64) {
	if len(crowd) == 0 {
		return 0
	}
	for _, k := range f.crowds[g] {
		price += crowd[k.first+k.row[n]]
	}
	return price
}

// crowdTerm is what the room in the caps is worth at the prices.
func (f *frame) crowdTerm(p *prices) (v float64) {
	for i, price := range p.crowd {
		v -= price * f.crowdRoom[i]
	}
	return v
}

// seatsOf copies the prices of seats and crowds from another frame's prices, for the lumps that are in both.
func (f *frame) seatsOf(p *prices, other *frame, from *prices) {
	for at, c := range f.lumps {
		g, there := f.p.Copies[c].Group, other.lumpOf[c]
		if there < 0 {
			continue
		}
		p.seat[at] = from.seat[there]
		for i, k := range f.crowds[g] {
			was := other.crowds[g][i].first
			copy(p.crowd[k.first:k.first+k.values], from.crowd[was:was+k.values])
		}
	}
}

// value is what a node's choice costs at the prices, lumps' seats and crowds apart.
func (q *pricer) value(n int32, a *answer, work *int64) (v float64) {
	f, R := q.f, q.f.resources
	at := int(n) * R
	var b piece
	for d := range f.balance {
		f.piece(at+d, q.p.slot[at+d], &b)
		v += b.cost(a.load[d])
	}
	held := func(c int32) (v float64) {
		for r := f.balance; r < R; r++ {
			v += q.p.slot[at+r] * f.load[int(c)*R+r]
		}
		return v
	}
	for r := f.balance; r < R; r++ {
		if s := &f.slots[at+r]; q.p.slot[at+r] > 0 {
			v -= q.p.slot[at+r] * (s.most - s.fixed)
		}
	}
	for _, c := range f.home[n] {
		v += f.stayPrice[c] + held(c)
	}
	for i := range a.leave {
		c := a.leave[i].copy
		v -= f.stayPrice[c] + held(c)
		if f.lumpOf[c] < 0 {
			v += q.leaving(c, work).gone
		}
	}
	for _, c := range a.come {
		v += q.moving(c) - f.tierGain(c, n) + held(c)
	}
	return v
}

// cheapSeats is the pricer where each lump pays for the cheapest seat, as if no other wanted it.
func (q *pricer) cheapSeats(work *int64) *pricer {
	seat := make([]float64, len(q.f.lumps))
	for at, c := range q.f.lumps {
		// Where no node has room for it, more than leaving can be worth.
		seat[at] = min(q.leaving(c, work).gone, q.moving(c)+math.Abs(q.f.now.Objective()))
	}
	return q.reseated(seat, make([]float64, len(q.f.crowdRoom)))
}

// cheapest is the node of the block, home aside, where the load costs least. It starts at node from.
func (b *block) cheapest(active []int, load []float64, home int32, from int) (best float64, at int32) {
	best, at = math.Inf(1), -1
	scan := func(lo, hi int) {
		nodes := b.nodes[lo:hi]
		switch len(active) {
		case 1:
			l, u := load[active[0]], b.unit[0][lo:hi]
			for i, n := range nodes {
				if x := l * u[i]; x < best && n != home {
					best, at = x, n
				}
			}
		case 2:
			l, m, u, v := load[active[0]], load[active[1]], b.unit[0][lo:hi], b.unit[1][lo:hi]
			for i, n := range nodes {
				if x := l*u[i] + m*v[i]; x < best && n != home {
					best, at = x, n
				}
			}
		case 3:
			l, m, o, u, v, w := load[active[0]], load[active[1]], load[active[2]], b.unit[0][lo:hi], b.unit[1][lo:hi], b.unit[2][lo:hi]
			for i, n := range nodes {
				if x := l*u[i] + m*v[i] + o*w[i]; x < best && n != home {
					best, at = x, n
				}
			}
		default:
			for i, n := range nodes {
				x := 0.0
				for a, r := range active {
					x += load[r] * b.unit[a][lo+i]
				}
				if x < best && n != home {
					best, at = x, n
				}
			}
		}
	}
	scan(from, len(b.nodes))
	scan(0, from)
	return best, at
}

// cheapestOf goes on from the best so far over nodes priced one by one.
func (q *pricer) cheapestOf(c int32, nodes []int32, best float64, at int32) (float64, int32) {
	home, bytes := q.f.p.Copies[c].Node, q.f.p.Copies[c].Bytes
	for _, n := range nodes {
		if s := &q.f.slots[int(n)*q.f.resources+q.f.balance]; n == home || s.fixed+bytes > s.most {
			continue
		}
		if x := q.at(c, n); x < best {
			best, at = x, n
		}
	}
	return best, at
}

// priced is what pricing found out about one group.
type priced struct {
	least    float64 // no placement of the group costs less at these prices
	stay     float64 // what staying costs
	patterns [][]move
}

// scratch is what one goroutine reuses from group to group.
type scratch struct {
	candidates [][]candidate
	chosen     []int32
	best       []int32
	rest       []float64
	work       int64
}

// enumerated is the largest group whose placements are enumerated. Above it (an index with a copy on every node) the
// copies are priced alone, which only makes the bound weaker.
const enumerated = 5

// group prices group g and lists legal patterns cheaper than staying.
func (q *pricer) group(g int32, s *scratch) priced {
	f := q.f
	members := f.group(g)
	for len(s.candidates) < len(members) {
		s.candidates = append(s.candidates, nil)
	}
	result := priced{stay: f.tierNow[g]}
	wanted := f.tierNow[g] > 0
	for i, c := range members {
		stay := 0.0
		if f.movable[c] {
			stay = q.stay(c)
			wanted = wanted || q.elsewhere(c) < stay
		}
		result.stay += stay
		s.candidates[i] = append(s.candidates[i][:0], candidate{stay, f.p.Copies[c].Node})
	}
	result.least = result.stay
	if !wanted {
		return result
	}
	alone := 0.0
	for i, c := range members {
		if f.movable[c] {
			s.candidates[i] = q.offers(c, s.candidates[i], &s.work)
		}
		list := s.candidates[i]
		stay := list[0]
		for _, offer := range list[1:] {
			if offer.cost >= stay.cost && f.tierNow[g] == 0 {
				continue
			}
			m := []move{{c, offer.node}}
			if cost, legal := f.judge(g, m); legal && offer.cost+cost < stay.cost+f.tierNow[g] {
				result.patterns = append(result.patterns, m)
			}
		}
		slices.SortStableFunc(list, func(a, b candidate) int { return order(a.cost, b.cost) })
		alone += list[0].cost
	}
	if len(members) > enumerated || q.tooMany(g, s) {
		result.least = min(result.stay, alone)
		return result
	}
	q.enumerate(g, s, &result)
	var m []move
	for i, c := range members {
		if s.best[i] != f.p.Copies[c].Node {
			m = append(m, move{c, s.best[i]})
		}
	}
	if len(m) > 1 {
		if _, legal := f.judge(g, m); legal {
			result.patterns = append(result.patterns, m)
		}
	}
	return result
}

// enumeratedWishes is how many placements of a group that has wishes are tried at most. What wishes cost is above all else
// by orders of magnitude, so that nothing is cut off while any are open: four copies in nine zones would be a million.
const enumeratedWishes = 4096

// tooMany tells whether that is passed by the candidates of group g.
func (q *pricer) tooMany(g int32, s *scratch) bool {
	if len(q.f.p.Groups[g].TierTables) == 0 {
		return false
	}
	placements := 1
	for i := range q.f.group(g) {
		placements *= len(s.candidates[i])
	}
	return placements > enumeratedWishes
}

// order compares numbers for sorting.
func order(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// enumerate finds the cheapest placement of the group among the candidates. Of the group's rules it knows those of its
// scheme's depths; same_shard and deeper limits are left out, so that the result is a lower bound.
func (q *pricer) enumerate(g int32, s *scratch, result *priced) {
	members := q.f.group(g)
	s.chosen, s.best, s.rest = s.chosen[:0], s.best[:0], append(s.rest[:0], make([]float64, len(members)+1)...)
	for _, c := range members {
		s.chosen = append(s.chosen, q.f.p.Copies[c].Node)
		s.best = append(s.best, q.f.p.Copies[c].Node)
	}
	for i := len(members) - 1; i >= 0; i-- {
		s.rest[i] = s.rest[i+1] + s.candidates[i][0].cost
	}
	depths := q.f.schemes[q.f.schemeOf[g]].depths
	if depths == nil {
		depths = []int{} // nil would mean all
	}
	result.least = q.choose(g, s, depths, 0, 0, result.stay)
}

// choose goes through the candidates of member i and on; sum is what those before cost.
func (q *pricer) choose(g int32, s *scratch, depths []int, i int, sum, least float64) float64 {
	if i == len(s.chosen) {
		if cost, legal := q.f.tierRules(g, s.chosen, depths); legal && sum+cost < least {
			least = sum + cost
			copy(s.best, s.chosen)
		}
		return least
	}
	for _, x := range s.candidates[i] {
		if sum+x.cost+s.rest[i+1] >= least {
			break
		}
		s.chosen[i] = x.node
		least = q.choose(g, s, depths, i+1, sum+x.cost, least)
	}
	return least
}

// groups prices every group on several goroutines; the result does not depend on how many. It returns the pairs priced.
func (q *pricer) groups(workers int) (result []priced, work int64) {
	result = make([]priced, len(q.f.p.Groups))
	total := parallel(workers, len(result), 256, func(from, to int) int64 {
		var s scratch
		for g := from; g < to; g++ {
			result[g] = q.group(int32(g), &s)
		}
		return s.work
	})
	return result, total
}

// parallel runs work over [0,n) in chunks on several goroutines and adds up what it returns.
func parallel(workers, n, chunk int, work func(from, to int) int64) int64 {
	var next, total atomic.Int64
	var wait sync.WaitGroup
	for range max(1, workers) {
		wait.Go(func() {
			for {
				from := int(next.Add(int64(chunk))) - chunk
				if from >= n {
					return
				}
				total.Add(work(from, min(from+chunk, n)))
			}
		})
	}
	wait.Wait()
	return total.Load()
}

// groupBound is the lower bound that prices prove group by group.
func (q *pricer) groupBound(found []priced) float64 {
	total := q.f.constant + q.f.nodeTerms(q.p) + q.f.budgetTerm(q.p)
	for g := range found {
		total += found[g].least
	}
	return total
}
