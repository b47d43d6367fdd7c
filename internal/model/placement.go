package model

import (
	"math"
	"slices"
)

// Placement is an assignment with its sums kept, so that one move is priced and made in O(dimensions + copies of the
// group), without allocation. It prices by the same definition as Evaluate and judges by the same rules as Check, but
// shares no code with either: each is the other's test. It is not safe for use by several goroutines.
type Placement struct {
	p    *Problem
	d    int     // number of dimensions
	node []int32 // where each copy is

	load     []float64 // copy-major: load[c*d+i]
	moveCost []float64 // per copy

	members []int32 // copies, sorted by group; those of group g are members[first[g]:first[g+1]]
	first   []int32

	sum   []float64 // node-major: load of node n in dimension i is sum[n*d+i], base included
	cost  []float64 // node-major: what that load costs in the objective
	scale []float64 // node-major: 1/(capacity x mean); 0 where the node has no balance term
	share []float64 // node-major: weight x capacity share
	shift []float64 // per dimension
	knots []knot

	used    []float64 // bytes on each node, others' included
	allowed []float64 // most bytes a node may hold; 0 is no bound
	count   []int32   // copies on each node
	room    []int32   // most copies a node may hold; 0 is no bound

	inClass []uint64 // per class one bit a node, in words of 64
	words   int

	tier     []int32    // depth-major: id of node n's value at a depth is tier[depth*nodes+n]
	depths   int        // rows of tier; the last row is "no value" for every depth deeper than any node's
	floorHas [][][]bool // class, depth, value: some node of the class has it (nil where no group of the class has floors)

	tables []tierTable // as Problem.TierTables
	tolls  [][]toll    // per copy; nil where no copy has any
	limit  []float64   // node-major: most load; 0 is no bound; nil where no node has any
	spared []float64   // node-major: load that copies brought which had to leave another node; no limit is for them

	steady []bool // per group: nothing above caps or below floors in the present state; legal moves keep it so

	perIndex pairCounts // copies of an index on a node, for indices with a limit or a spread price
	spread   []float64  // per index: price of one copy above fair; 0 where there is none

	balance, spreadCost, moveTotal, bytesMoved float64
	moves, stayed                              int   // copies away from home; copies that must leave and are at home
	excess                                     []int // per priced depth: copies above caps and below floors
}

// tierTable is a table of wishes, by the row of tier that it is about.
type tierTable struct {
	depth, row int
	floors     bool       // some wish has a floor
	wishes     []tierWish // those for values that no node has are at the end
	at         []int32    // per value: its position in wishes, -1 where there is none
}

// tierWish is one value of a tier table: from floor to most copies of a group are on the nodes with the value.
type tierWish struct {
	value       int32 // -1 where no node has it
	most, floor int
}

// noCap is the cap of a value that has a floor alone.
const noCap = math.MaxInt32

// wish is what the table says of a value, nil where it says nothing.
func (t *tierTable) wish(value int32) *tierWish {
	if at := t.at[value]; at >= 0 {
		return &t.wishes[at]
	}
	return nil
}

// excess is what count copies are above the cap or below the floor.
func (w *tierWish) excess(count int) int { return max(0, count-w.most) + max(0, w.floor-count) }

// toll is a toll of a copy: what each node costs as its target.
type toll struct {
	factor float64
	price  []float64 // per node
}

// knot is where phi changes its slope: from at on it is value + slope x (r - at).
type knot struct{ at, value, slope float64 }

// NewPlacement puts every copy of p on node[c]; nil is the present state. It keeps a copy of node and reads p, which must
// be valid and stay unchanged.
func NewPlacement(p *Problem, node []int32) *Placement {
	D, N := len(p.Dimensions), len(p.Nodes)
	s := &Placement{
		p: p, d: D, node: p.Current(), words: (N + 63) / 64,
		load: make([]float64, 0, len(p.Copies)*D), moveCost: make([]float64, len(p.Copies)),
		sum: make([]float64, N*D), cost: make([]float64, N*D), scale: make([]float64, N*D), share: make([]float64, N*D),
		shift: make([]float64, D), used: make([]float64, N), allowed: make([]float64, N),
		count: make([]int32, N), room: make([]int32, N),
	}
	for i, at := range p.Objective.Phi.Points {
		s.knots = append(s.knots, knot{at, p.Objective.Phi.At(at), p.Objective.Phi.Slopes[i]})
	}
	for c := range p.Copies {
		s.load = append(s.load, p.Copies[c].Load...)
		s.moveCost[c] = p.MoveCost(c)
	}
	s.prepareGroups()
	s.prepareNodes()
	s.prepareTiers()
	s.prepareTables()
	s.prepareTolls()
	s.prepareIndices()
	s.sumUp()
	s.prepareLimits()
	s.steady = make([]bool, len(p.Groups))
	for g := range p.Groups {
		before := slices.Clone(s.excess)
		s.countExcess(int32(g))
		s.steady[g] = len(p.Groups[g].TierTables) == 0 && slices.Equal(before, s.excess)
		copy(s.excess, before)
	}
	for n := range N { // the present state is what "not worse" means
		if limit := p.Nodes[n].Disk.Limit; limit > 0 {
			// Half of Check's slack: sums kept over many moves may differ from fresh ones in the last digits.
			s.allowed[n] = max(limit, s.used[n]) * (1 + diskSlack/2)
		}
		if most := p.Nodes[n].MaxCopies; most > 0 {
			s.room[n] = max(int32(min(most, len(p.Copies))), s.count[n])
		}
	}
	if node != nil {
		s.Reset(node)
	}
	return s
}

func (s *Placement) prepareGroups() {
	s.first = make([]int32, len(s.p.Groups)+1)
	for c := range s.p.Copies {
		s.first[s.p.Copies[c].Group+1]++
	}
	for g := range s.p.Groups {
		s.first[g+1] += s.first[g]
	}
	s.members = make([]int32, len(s.p.Copies))
	next := slices.Clone(s.first)
	for c := range s.p.Copies {
		g := s.p.Copies[c].Group
		s.members[next[g]] = int32(c)
		next[g]++
	}
}

func (s *Placement) prepareNodes() {
	for d := range s.p.Dimensions {
		s.shift[d] = s.p.Dimensions[d].Shift
	}
	domains, _ := s.p.Domains()
	for i := range domains {
		for _, n := range domains[i].Nodes {
			for d := range s.d {
				if capacity := s.p.Nodes[n].Capacity[d]; capacity > 0 && domains[i].Mean[d] > 0 {
					s.scale[int(n)*s.d+d] = 1 / capacity / domains[i].Mean[d]
					s.share[int(n)*s.d+d] = s.p.Dimensions[d].Weight * capacity / domains[i].Capacity[d]
				}
			}
		}
	}
	s.inClass = make([]uint64, len(s.p.Classes)*s.words)
	for k := range s.p.Classes {
		for _, n := range s.p.Classes[k].Nodes {
			s.inClass[k*s.words+int(n)/64] |= 1 << (n % 64)
		}
	}
}

func (s *Placement) prepareTiers() {
	deepest := 0
	for n := range s.p.Nodes {
		deepest = max(deepest, len(s.p.Nodes[n].Tiers))
	}
	s.depths = deepest + 1
	N := len(s.p.Nodes)
	s.tier = make([]int32, s.depths*N)
	values := make([]int, s.depths)
	for depth := range s.depths {
		id := make(map[string]int32)
		for n := range s.p.Nodes {
			value := s.p.Nodes[n].tier(depth)
			if _, known := id[value]; !known {
				id[value] = int32(len(id))
			}
			s.tier[depth*N+n] = id[value]
		}
		values[depth] = len(id)
	}
	s.excess = make([]int, len(s.p.Objective.TierExcess))
	s.floorHas = make([][][]bool, len(s.p.Classes))
	for g := range s.p.Groups {
		k := s.p.Groups[g].Class
		if len(s.p.Groups[g].TierFloors) == 0 || s.floorHas[k] != nil {
			continue
		}
		s.floorHas[k] = make([][]bool, s.depths)
		for depth := range s.depths {
			s.floorHas[k][depth] = make([]bool, values[depth])
			for _, n := range s.p.Classes[k].Nodes {
				s.floorHas[k][depth][s.tier[depth*N+int(n)]] = true
			}
		}
	}
}

// prepareTables compiles the tables. Values that no node has are nowhere: what they lack or have too much of is a constant
// that countExcess counts too.
func (s *Placement) prepareTables() {
	for t := range s.p.TierTables {
		table := &s.p.TierTables[t]
		compiled := tierTable{depth: table.Depth, row: min(table.Depth, s.depths-1), floors: len(table.Floors) > 0}
		named := make(map[string]bool)
		for value := range table.Caps {
			named[value] = true
		}
		for value := range table.Floors {
			named[value] = true
		}
		add := func(name string, value int32) {
			w := tierWish{value: value, most: noCap, floor: table.Floors[name]}
			if most, capped := table.Caps[name]; capped {
				w.most = most
			}
			compiled.wishes = append(compiled.wishes, w)
			delete(named, name)
		}
		for n := range s.p.Nodes {
			name, value := s.p.Nodes[n].tier(compiled.row), s.tier[compiled.row*len(s.p.Nodes)+n]
			for int(value) >= len(compiled.at) {
				compiled.at = append(compiled.at, -1)
			}
			if named[name] {
				compiled.at[value] = int32(len(compiled.wishes))
				add(name, value)
			}
		}
		for _, name := range sortedKeys(named) {
			add(name, -1)
		}
		s.tables = append(s.tables, compiled)
	}
}

// prepareTolls compiles the tolls. Copies share the prices of a table.
func (s *Placement) prepareTolls() {
	prices := make([][]float64, len(s.p.TollTables))
	for t := range s.p.TollTables {
		table := &s.p.TollTables[t]
		prices[t] = make([]float64, len(s.p.Nodes))
		for n := range s.p.Nodes {
			prices[t][n] = table.Price[s.p.Nodes[n].tier(table.Depth)]
		}
	}
	for c := range s.p.Copies {
		for _, of := range s.p.Copies[c].Tolls {
			if s.tolls == nil {
				s.tolls = make([][]toll, len(s.p.Copies))
			}
			s.tolls[c] = append(s.tolls[c], toll{of.Factor, prices[of.Table]})
		}
	}
}

// prepareLimits compiles the limits of load; the present state is what "not worse" means.
func (s *Placement) prepareLimits() {
	for n := range s.p.Nodes {
		for d := range s.d {
			if most := s.p.Nodes[n].maxLoad(d); most > 0 {
				if s.limit == nil {
					s.limit, s.spared = make([]float64, len(s.p.Nodes)*s.d), make([]float64, len(s.p.Nodes)*s.d)
				}
				s.limit[n*s.d+d] = max(most, s.sum[n*s.d+d]) * (1 + diskSlack/2)
			}
		}
	}
}

// toll is what copy c pays for node n, which is not its home.
func (s *Placement) toll(c int, n int32) float64 {
	if s.tolls == nil {
		return 0
	}
	sum := 0.0
	for i := range s.tolls[c] {
		sum += s.tolls[c][i].factor * s.tolls[c][i].price[n]
	}
	return sum
}

// Bears tells whether node n may carry copy c's load too: its limits of load hold, or it is no more loaded than now.
func (s *Placement) Bears(c int, n int32) bool { return s.bears(n, c, -1) }

// Overloaded tells whether node n carries more than its limits of load, and more than in the present state.
func (s *Placement) Overloaded(n int32) bool {
	for d := range s.d {
		if i := int(n)*s.d + d; s.limit != nil && s.limit[i] > 0 && s.sum[i]-s.spared[i] > s.limit[i] {
			return true
		}
	}
	return false
}

// bears tells whether node n may carry so much more of a copy's load, less that of one that leaves it (-1 for none). One
// that has to leave another node always comes.
func (s *Placement) bears(n int32, c, less int) bool {
	if s.limit == nil || s.spares(c, n) {
		return true
	}
	for d := range s.d {
		more := s.load[c*s.d+d]
		if less >= 0 && !s.spares(less, n) {
			more -= s.load[less*s.d+d]
		}
		if i := int(n)*s.d + d; more > 0 && s.limit[i] > 0 && s.sum[i]-s.spared[i]+more > s.limit[i] {
			return false
		}
	}
	return true
}

// spares tells whether node n's limits of load are not for copy c: it has to leave another node.
func (s *Placement) spares(c int, n int32) bool {
	k := &s.p.Copies[c]
	return k.MustLeave && n != k.Node
}

// spare counts the load of copy c, if it is spared on node n, as come or gone.
func (s *Placement) spare(c int, n int32, sign float64) {
	if s.limit != nil && s.spares(c, n) {
		for d, l := range s.load[c*s.d : c*s.d+s.d] {
			s.spared[int(n)*s.d+d] += sign * l
		}
	}
}

func (s *Placement) prepareIndices() {
	s.spread = make([]float64, len(s.p.Indices))
	for i := range s.p.Indices {
		if s.p.Indices[i].FairPerNode > 0 {
			s.spread[i] = s.p.Objective.Spread.PerCopy * s.p.Indices[i].SpreadWeight
		}
	}
	for c := range s.p.Copies {
		k := &s.p.Copies[c]
		if i := s.p.Groups[k.Group].Index; s.counted(i) {
			s.perIndex.at(i, k.Node).was++
		}
	}
}

// counted tells whether the copies of index i are counted per node: a limit or a price depends on it.
func (s *Placement) counted(i int32) bool { return s.spread[i] > 0 || s.p.Indices[i].MaxPerNode > 0 }

// Reset puts every copy on node[c] and sums up afresh.
func (s *Placement) Reset(node []int32) {
	copy(s.node, node)
	s.sumUp()
}

func (s *Placement) sumUp() {
	clear(s.sum)
	clear(s.count)
	clear(s.excess)
	clear(s.spared)
	s.perIndex.clear()
	s.balance, s.spreadCost, s.moveTotal, s.bytesMoved, s.moves, s.stayed = 0, 0, 0, 0, 0, 0
	for n := range s.p.Nodes {
		copy(s.sum[n*s.d:], s.p.Nodes[n].Base)
		s.used[n] = s.p.Nodes[n].Disk.UsedOther
	}
	for c, n := range s.node {
		k := &s.p.Copies[c]
		for d := range s.d {
			s.sum[int(n)*s.d+d] += s.load[c*s.d+d]
		}
		s.used[n] += k.Bytes
		s.count[n]++
		s.spare(c, n, 1)
		if i := s.p.Groups[k.Group].Index; s.counted(i) {
			now := s.perIndex.at(i, n)
			now.now++
			if s.spread[i] > 0 && int(now.now) > s.p.Indices[i].FairPerNode {
				s.spreadCost += s.spread[i]
			}
		}
		switch {
		case n != k.Node:
			s.moves++
			s.moveTotal += s.moveCost[c] + s.toll(c, n)
			s.bytesMoved += k.Bytes
		case k.MustLeave:
			s.stayed++
		}
	}
	for i := range s.sum {
		s.cost[i] = s.nodeCost(i, s.sum[i])
		s.balance += s.cost[i]
	}
	for g := range s.p.Groups {
		s.countExcess(int32(g))
	}
}

// countExcess adds what group g is above its caps and below its floors.
func (s *Placement) countExcess(g int32) {
	group := &s.p.Groups[g]
	N := len(s.p.Nodes)
	for _, limit := range group.TierCaps {
		depth := s.row(limit)
		for j, c := range s.members[s.first[g]:s.first[g+1]] {
			value, earlier := s.tier[depth*N+int(s.node[c])], 0
			for _, other := range s.members[s.first[g] : int(s.first[g])+j] {
				if s.tier[depth*N+int(s.node[other])] == value {
					earlier++
				}
			}
			if earlier >= limit.Count() {
				s.addExcess(limit.Depth(), 1)
			}
		}
	}
	for _, limit := range group.TierFloors {
		depth := s.row(limit)
		for value, has := range s.floorHas[group.Class][depth] {
			if has {
				s.addExcess(limit.Depth(), max(0, limit.Count()-s.inTier(g, depth, int32(value))))
			}
		}
	}
	for _, t := range group.TierTables {
		table := &s.tables[t]
		if table.floors {
			for i := range table.wishes {
				w := &table.wishes[i]
				s.addExcess(table.depth, w.excess(s.inTier(g, table.row, w.value)))
			}
			continue
		}
		members, row := s.members[s.first[g]:s.first[g+1]], s.tier[table.row*N:]
		for j, c := range members { // caps alone: the values its copies are at, each once
			value := row[s.node[c]]
			if w := table.wish(value); w != nil && !slices.ContainsFunc(members[:j], func(e int32) bool { return row[s.node[e]] == value }) {
				s.addExcess(table.depth, w.excess(s.inTier(g, table.row, value)))
			}
		}
	}
}

func (s *Placement) addExcess(depth, copies int) {
	if depth < len(s.excess) {
		s.excess[depth] += copies
	}
}

// row is the row of tier that a limit is about.
func (s *Placement) row(limit TierLimit) int { return min(limit.Depth(), s.depths-1) }

// inTier counts the copies of group g on nodes with a value at a depth.
func (s *Placement) inTier(g int32, depth int, value int32) int {
	count := 0
	row := s.tier[depth*len(s.p.Nodes):]
	for _, c := range s.members[s.first[g]:s.first[g+1]] {
		if row[s.node[c]] == value {
			count++
		}
	}
	return count
}

// wasInTier counts the same in the present state.
func (s *Placement) wasInTier(g int32, depth int, value int32) int {
	count := 0
	row := s.tier[depth*len(s.p.Nodes):]
	for _, c := range s.members[s.first[g]:s.first[g+1]] {
		if row[s.p.Copies[c].Node] == value {
			count++
		}
	}
	return count
}

// nodeCost is the balance cost of load in slot i = n*d+dimension.
func (s *Placement) nodeCost(i int, load float64) float64 {
	if s.scale[i] == 0 {
		return 0
	}
	return s.share[i] * s.phi(load*s.scale[i]-s.shift[i%s.d])
}

func (s *Placement) phi(r float64) float64 {
	last := -1
	for i := range s.knots {
		if r <= s.knots[i].at {
			break
		}
		last = i
	}
	if last < 0 {
		return 0
	}
	k := &s.knots[last]
	return k.value + k.slope*(r-k.at)
}

// Clone is a placement of its own that starts where s is. What never changes is shared.
func (s *Placement) Clone() *Placement {
	clone := *s
	for _, list := range []*[]float64{&clone.sum, &clone.cost, &clone.used, &clone.spared} {
		*list = slices.Clone(*list)
	}
	clone.node, clone.count, clone.excess = slices.Clone(s.node), slices.Clone(s.count), slices.Clone(s.excess)
	clone.perIndex.slots = slices.Clone(s.perIndex.slots)
	return &clone
}

// Problem is what is placed.
func (s *Placement) Problem() *Problem { return s.p }

// Node is where copy c is.
func (s *Placement) Node(c int) int32 { return s.node[c] }

// Assignment is a copy of the whole assignment.
func (s *Placement) Assignment() []int32 { return slices.Clone(s.node) }

// Group lists the copies of group g.
func (s *Placement) Group(g int32) []int32 { return s.members[s.first[g]:s.first[g+1]] }

// Load is what node n carries in dimension d, base included.
func (s *Placement) Load(n, d int) float64 { return s.sum[n*s.d+d] }

// DiskUsed is how many bytes node n holds, those of others included.
func (s *Placement) DiskUsed(n int) float64 { return s.used[n] }

// Copies is how many copies node n holds.
func (s *Placement) Copies(n int) int { return int(s.count[n]) }

// Utilization is node n's load over its capacity, relative to its domain's mean; -1 where Utilization's function of the
// same name says so.
func (s *Placement) Utilization(n, d int) float64 {
	if s.scale[n*s.d+d] == 0 {
		return -1
	}
	return s.sum[n*s.d+d] * s.scale[n*s.d+d]
}

// Moves is how many copies are not where they stand in the present state.
func (s *Placement) Moves() int { return s.moves }

// BytesMoved is the sum of their bytes.
func (s *Placement) BytesMoved() float64 { return s.bytesMoved }

// WithinLimits tells whether the budgets of the problem hold. They are not part of Legal: a search may pass through a
// placement that is over them.
func (s *Placement) WithinLimits() bool {
	limits := &s.p.Limits
	return (limits.MaxMoves == 0 || s.moves <= limits.MaxMoves) &&
		(limits.MaxBytes == 0 || s.bytesMoved <= limits.MaxBytes*(1+diskSlack/2))
}

// Objective is what the placement costs.
func (s *Placement) Objective() float64 {
	// Counts times prices, and not a running sum: a price of a million that came and went would leave its rounding error
	// in a total of a millionth.
	total := s.balance + s.spreadCost + s.moveTotal + float64(s.stayed)*s.p.Objective.MustLeave
	for depth, copies := range s.excess {
		total += float64(copies) * s.p.tierPrice(depth)
	}
	return total
}

// DeltaLegal is Delta for a move that is legal, a little faster.
func (s *Placement) DeltaLegal(c int, n int32) float64 {
	if n == s.node[c] || !s.steady[s.p.Copies[c].Group] {
		return s.Delta(c, n)
	}
	return s.DeltaLeave(c) + s.DeltaEnter(c, n)
}

// Delta is the change of the objective if copy c went to node n, whether that is legal or not.
func (s *Placement) Delta(c int, n int32) float64 {
	if n == s.node[c] {
		return 0
	}
	return s.DeltaLeave(c) + s.DeltaEnter(c, n) + s.deltaTiers(c, n)
}

// DeltaLeave is the part of Delta that does not depend on the target: what the node it leaves no longer costs.
func (s *Placement) DeltaLeave(c int) float64 {
	k := &s.p.Copies[c]
	a := s.node[c]
	delta := 0.0
	load := s.load[c*s.d : c*s.d+s.d]
	for d, l := range load {
		if l > 0 {
			i := int(a)*s.d + d
			delta += s.nodeCost(i, s.sum[i]-l) - s.cost[i]
		}
	}
	if i := s.p.Groups[k.Group].Index; s.spread[i] > 0 && int(s.perIndex.get(i, a).now) > s.p.Indices[i].FairPerNode {
		delta -= s.spread[i]
	}
	if a != k.Node {
		return delta - s.moveCost[c] - s.toll(c, a)
	}
	if k.MustLeave {
		delta -= s.p.Objective.MustLeave
	}
	return delta
}

// DeltaEnter is what node n, which is not the copy's, would cost more with copy c, tiers aside.
func (s *Placement) DeltaEnter(c int, n int32) float64 {
	k := &s.p.Copies[c]
	delta := 0.0
	load := s.load[c*s.d : c*s.d+s.d]
	for d, l := range load {
		if l > 0 {
			i := int(n)*s.d + d
			delta += s.nodeCost(i, s.sum[i]+l) - s.cost[i]
		}
	}
	if i := s.p.Groups[k.Group].Index; s.spread[i] > 0 && int(s.perIndex.get(i, n).now) >= s.p.Indices[i].FairPerNode {
		delta += s.spread[i]
	}
	if n != k.Node {
		return delta + s.moveCost[c] + s.toll(c, n)
	}
	if k.MustLeave {
		delta += s.p.Objective.MustLeave
	}
	return delta
}

// DeltaSwap is the change of the objective if copies c and e, which are on different nodes, changed places, for a swap
// that is legal.
func (s *Placement) DeltaSwap(c, e int) float64 {
	a, b := s.node[c], s.node[e]
	if s.p.Groups[s.p.Copies[c].Group].Index == s.p.Groups[s.p.Copies[e].Group].Index {
		delta := s.Delta(c, b)
		s.Move(c, b)
		delta += s.Delta(e, a)
		s.Move(c, a)
		return delta
	}
	delta := 0.0
	if !s.steady[s.p.Copies[c].Group] || !s.steady[s.p.Copies[e].Group] {
		delta = s.deltaTiers(c, b) + s.deltaTiers(e, a)
	}
	for d := range s.d {
		if more := s.load[e*s.d+d] - s.load[c*s.d+d]; more != 0 {
			i, j := int(a)*s.d+d, int(b)*s.d+d
			delta += s.nodeCost(i, s.sum[i]+more) - s.cost[i] + s.nodeCost(j, s.sum[j]-more) - s.cost[j]
		}
	}
	return delta + s.deltaOwn(c, b) + s.deltaOwn(e, a)
}

// deltaOwn is the part of Delta that is about the copy alone: its move, its having to leave, its index's spread.
func (s *Placement) deltaOwn(c int, n int32) float64 {
	k := &s.p.Copies[c]
	a, delta := s.node[c], 0.0
	if i := s.p.Groups[k.Group].Index; s.spread[i] > 0 {
		if int(s.perIndex.get(i, a).now) > s.p.Indices[i].FairPerNode {
			delta -= s.spread[i]
		}
		if int(s.perIndex.get(i, n).now) >= s.p.Indices[i].FairPerNode {
			delta += s.spread[i]
		}
	}
	switch k.Node {
	case a:
		delta += s.moveCost[c] + s.toll(c, n)
		if k.MustLeave {
			delta -= s.p.Objective.MustLeave
		}
	case n:
		delta -= s.moveCost[c] + s.toll(c, a)
		if k.MustLeave {
			delta += s.p.Objective.MustLeave
		}
	default:
		delta += s.toll(c, n) - s.toll(c, a)
	}
	return delta
}

// LegalSwap tells whether copies c and e, which are on different nodes, may change places; false may also mean that it
// takes a longer look (two copies of one index).
func (s *Placement) LegalSwap(c, e int) bool {
	kc, ke := &s.p.Copies[c], &s.p.Copies[e]
	a, b := s.node[c], s.node[e]
	if b != kc.Node && (kc.Pinned || !s.p.Nodes[b].AcceptsNew || !s.InClass(c, b)) ||
		a != ke.Node && (ke.Pinned || !s.p.Nodes[a].AcceptsNew || !s.InClass(e, a)) {
		return false
	}
	if s.allowed[a] > 0 && ke.Bytes > kc.Bytes && s.used[a]+ke.Bytes-kc.Bytes > s.allowed[a] ||
		s.allowed[b] > 0 && kc.Bytes > ke.Bytes && s.used[b]+kc.Bytes-ke.Bytes > s.allowed[b] {
		return false
	}
	if s.p.Groups[kc.Group].Index == s.p.Groups[ke.Group].Index && (kc.Group == ke.Group || s.p.Indices[s.p.Groups[kc.Group].Index].MaxPerNode > 0) {
		return false
	}
	return s.groupAllows(c, b) && s.groupAllows(e, a) && s.indexAllows(c, b) && s.indexAllows(e, a) &&
		s.bears(b, c, e) && s.bears(a, e, c)
}

func (s *Placement) deltaTiers(c int, n int32) float64 {
	group := &s.p.Groups[s.p.Copies[c].Group]
	if len(s.p.Objective.TierExcess) == 0 || len(group.TierCaps)+len(group.TierFloors)+len(group.TierTables) == 0 {
		return 0
	}
	delta := 0.0
	s.eachTierChange(c, n, func(depth, change int) { delta += float64(change) * s.p.tierPrice(depth) })
	return delta
}

// eachTierChange reports, limit by limit, how the excess at a depth changes if copy c goes to node n.
func (s *Placement) eachTierChange(c int, n int32, report func(depth, change int)) {
	g := s.p.Copies[c].Group
	group := &s.p.Groups[g]
	N := len(s.p.Nodes)
	for _, limit := range group.TierCaps {
		depth := s.row(limit)
		from, to := s.tier[depth*N+int(s.node[c])], s.tier[depth*N+int(n)]
		if from == to {
			continue
		}
		if s.inTier(g, depth, to) >= limit.Count() {
			report(limit.Depth(), 1)
		}
		if s.inTier(g, depth, from) > limit.Count() {
			report(limit.Depth(), -1)
		}
	}
	for _, limit := range group.TierFloors {
		depth := s.row(limit)
		from, to := s.tier[depth*N+int(s.node[c])], s.tier[depth*N+int(n)]
		if from == to {
			continue
		}
		has := s.floorHas[group.Class][depth]
		if has[to] && s.inTier(g, depth, to) < limit.Count() {
			report(limit.Depth(), -1)
		}
		if has[from] && s.inTier(g, depth, from) <= limit.Count() {
			report(limit.Depth(), 1)
		}
	}
	for _, t := range group.TierTables {
		table := &s.tables[t]
		from, to := s.tier[table.row*N+int(s.node[c])], s.tier[table.row*N+int(n)]
		if from == to {
			continue
		}
		for _, end := range [2]struct {
			value  int32
			change int
		}{{from, -1}, {to, 1}} {
			if w := table.wish(end.value); w != nil {
				count := s.inTier(g, table.row, end.value)
				if more := w.excess(count+end.change) - w.excess(count); more != 0 {
					report(table.depth, more)
				}
			}
		}
	}
}

// Legal tells whether copy c may go to node n, given where all others are: every hard rule that this move could break
// holds afterwards, or is no more broken than in the present state. Budgets aside (WithinLimits), a legal placement stays
// legal in Check's eyes exactly if the move is Legal.
func (s *Placement) Legal(c int, n int32) bool {
	k := &s.p.Copies[c]
	if n == s.node[c] {
		return true
	}
	if n != k.Node && (k.Pinned || !s.p.Nodes[n].AcceptsNew || !s.InClass(c, n)) {
		return false
	}
	if s.room[n] > 0 && s.count[n] >= s.room[n] {
		return false
	}
	if s.allowed[n] > 0 && s.used[n]+k.Bytes > s.allowed[n] {
		return false
	}
	return s.groupAllows(c, n) && s.indexAllows(c, n) && s.bears(n, c, -1)
}

// InClass tells whether node n is one that the class of copy c holds.
func (s *Placement) InClass(c int, n int32) bool {
	class := int(s.p.Groups[s.p.Copies[c].Group].Class)
	return s.inClass[class*s.words+int(n)/64]>>(n%64)&1 == 1
}

// groupAllows judges same_shard and awareness.
func (s *Placement) groupAllows(c int, n int32) bool {
	g := s.p.Copies[c].Group
	if s.first[g+1]-s.first[g] > 1 {
		now, was := 0, 0
		for _, other := range s.members[s.first[g]:s.first[g+1]] {
			if s.node[other] == n {
				now++
			}
			if s.p.Copies[other].Node == n {
				was++
			}
		}
		if now+1 > max(1, was) {
			return false
		}
	}
	group := &s.p.Groups[g]
	N := len(s.p.Nodes)
	for _, limit := range group.TierCaps {
		depth := s.row(limit)
		from, to := s.tier[depth*N+int(s.node[c])], s.tier[depth*N+int(n)]
		if from == to {
			continue
		}
		if after := s.inTier(g, depth, to) + 1; after > limit.Count() && after > s.wasInTier(g, depth, to) {
			return false
		}
	}
	for _, limit := range group.TierFloors {
		depth := s.row(limit)
		from, to := s.tier[depth*N+int(s.node[c])], s.tier[depth*N+int(n)]
		if from == to || !s.floorHas[group.Class][depth][from] {
			continue
		}
		if after := s.inTier(g, depth, from) - 1; after < limit.Count() && after < s.wasInTier(g, depth, from) {
			return false
		}
	}
	return true
}

// indexAllows judges the index's share of shards_limit.
func (s *Placement) indexAllows(c int, n int32) bool {
	i := s.p.Groups[s.p.Copies[c].Group].Index
	most := s.p.Indices[i].MaxPerNode
	if most == 0 {
		return true
	}
	on := s.perIndex.get(i, n)
	return int(on.now) < most || on.now < on.was
}

// Move puts copy c on node n, legal or not.
func (s *Placement) Move(c int, n int32) {
	a := s.node[c]
	if n == a {
		return
	}
	k := &s.p.Copies[c]
	s.eachTierChange(c, n, s.addExcess)
	for d, l := range s.load[c*s.d : c*s.d+s.d] {
		if l > 0 {
			s.shiftLoad(int(a)*s.d+d, -l)
			s.shiftLoad(int(n)*s.d+d, l)
		}
	}
	s.used[a] -= k.Bytes
	s.used[n] += k.Bytes
	s.count[a]--
	s.count[n]++
	if i := s.p.Groups[k.Group].Index; s.counted(i) {
		left := s.perIndex.at(i, a)
		if left.now--; s.spread[i] > 0 && int(left.now) >= s.p.Indices[i].FairPerNode {
			s.spreadCost -= s.spread[i]
		}
		entered := s.perIndex.at(i, n) // may move the table: left is not valid any more
		if entered.now++; s.spread[i] > 0 && int(entered.now) > s.p.Indices[i].FairPerNode {
			s.spreadCost += s.spread[i]
		}
	}
	s.spare(c, a, -1)
	s.spare(c, n, 1)
	if s.tolls != nil {
		if a != k.Node {
			s.moveTotal -= s.toll(c, a)
		}
		if n != k.Node {
			s.moveTotal += s.toll(c, n)
		}
	}
	if a == k.Node {
		s.moves++
		s.moveTotal += s.moveCost[c]
		s.bytesMoved += k.Bytes
		if k.MustLeave {
			s.stayed--
		}
	} else if n == k.Node {
		s.moves--
		s.moveTotal -= s.moveCost[c]
		s.bytesMoved -= k.Bytes
		if k.MustLeave {
			s.stayed++
		}
	}
	s.node[c] = n
}

func (s *Placement) shiftLoad(i int, by float64) {
	s.sum[i] += by
	now := s.nodeCost(i, s.sum[i])
	s.balance += now - s.cost[i]
	s.cost[i] = now
}
