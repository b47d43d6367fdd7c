package solver

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/shardonnay/shardonnay/internal/solver/clp"
)

// master is the linear program over node choices: each node mixes choices of who leaves, each copy that leaves somewhere
// takes a seat elsewhere, and the seats' loads fit into the room that the choices leave.
//
//	minimise    sum of choice costs x choice + sum of move costs x seat
//	node        the choices of a node add up to 1
//	room        per slot: loads of those seated - room left by the choices <= 0           price: of the slot
//	copy        parts of the copy that leave - its seats <= 0                             price: of a seat
//	moves       seats <= max_moves, and bytes likewise, where there are budgets           price: of a move, a byte
//
// Its columns are generated: a node's choice by the node subproblem, a copy's seats by pricing pairs. Its prices prove
// bounds; its own objective proves nothing until no column is missing.
type master struct {
	f       *frame
	nodes   []int32
	lp      *clp.Model
	unit    float64 // objective units per unit of the program's cost, so that CLP's tolerances mean the same at all sizes
	nodeRow []int32 // per node
	roomRow []int32 // per slot; -1 where nothing is shared
	copyRow map[int32]int32
	moves   int32 // rows of the budgets; -1 where there are none
	bytes   int32
	seated  map[move]bool // seats that are columns
	crowd   []float64     // prices of the crowds, fixed
	columns []column

	pairs, iterations int64
	solves, rounds    int
}

// column is what a column of the program stands for: a node's choice, or a seat.
type column struct {
	node  int32 // of a choice; -1 for a seat
	leave []int32
	come  []int32 // lumps
	seat  move
}

func newMaster(f *frame, nodes []int32) (*master, error) {
	m := &master{
		f: f, nodes: nodes, unit: 1 / (100 * float64(len(f.p.Nodes))), copyRow: make(map[int32]int32), seated: make(map[move]bool),
		nodeRow: make([]int32, len(f.p.Nodes)), roomRow: make([]int32, len(f.slots)), moves: -1, bytes: -1,
	}
	var rows []clp.Bounds
	row := func(lower, upper float64) int32 {
		rows = append(rows, clp.Bounds{Lower: lower, Upper: upper})
		return int32(len(rows) - 1)
	}
	for i := range m.roomRow {
		m.roomRow[i] = -1
	}
	for _, n := range nodes {
		m.nodeRow[n] = row(1, 1)
		for r := range f.resources {
			if i := int(n)*f.resources + r; f.slots[i].shared() {
				m.roomRow[i] = row(math.Inf(-1), 0)
			}
		}
	}
	if most := f.p.Limits.MaxMoves; most > 0 {
		m.moves = row(math.Inf(-1), float64(most))
	}
	if f.p.Limits.MaxBytes > 0 {
		m.bytes = row(math.Inf(-1), 1)
	}
	var err error
	m.lp, err = clp.NewModel(rows)
	return m, err
}

func (m *master) close() { m.lp.Close() }

// growth is what is to be added to the program.
type growth struct {
	m       *master
	columns clp.Columns
	rows    []clp.Bounds
	meaning []column
}

func (g *growth) copyRow(c int32) int32 {
	row, known := g.m.copyRow[c]
	if !known {
		row = int32(g.m.lp.Rows() + len(g.rows))
		g.m.copyRow[c] = row
		g.rows = append(g.rows, clp.Bounds{Lower: math.Inf(-1), Upper: 0})
	}
	return row
}

// choose adds a node's choice with the room it leaves at the prices, and seats for those who leave.
func (g *growth) choose(n int32, a *answer, p *prices) {
	f := g.m.f
	var room vector
	var b piece
	for d := range f.balance {
		if f.piece(int(n)*f.resources+d, p.slot[int(n)*f.resources+d], &b); len(b.at) > 0 {
			room[d] = max(0, b.at[0]-a.load[d])
		}
	}
	g.node(n, a, &room)
	for i := range a.leave {
		for _, offer := range a.leave[i].offers {
			g.seat(move{a.leave[i].copy, offer.node})
		}
	}
}

// node adds the column of a node's choice that leaves so much room.
func (g *growth) node(n int32, a *answer, room *vector) {
	m, f := g.m, g.m.f
	cost := 0.0
	for _, c := range f.home[n] {
		cost += f.stayPrice[c]
	}
	for i := range a.leave {
		cost -= f.stayPrice[a.leave[i].copy]
	}
	meaning := column{node: n, come: a.come}
	left := make([]float64, f.resources)
	for d := range f.balance {
		if s := &f.slots[int(n)*f.resources+d]; s.share > 0 {
			left[d] = room[d]
			cost += f.cost(s, a.load[d]+room[d])
		}
	}
	for i := range a.leave {
		cost -= f.crowding(m.crowd, f.p.Copies[a.leave[i].copy].Group, n)
	}
	for _, c := range a.come {
		cost += f.moveCost[c] - f.tierGain(c, n) + f.crowding(m.crowd, f.p.Copies[c].Group, n)
	}
	for k := range 2 {
		if s := &f.slots[int(n)*f.resources+f.balance+k]; s.shared() {
			left[f.balance+k] = s.most - s.fixed - a.bytes[k]
			for _, c := range a.come {
				left[f.balance+k] -= f.load[int(c)*f.resources+f.balance+k]
			}
		}
	}
	g.columns.Add(cost/m.unit, clp.Bounds{Lower: 0, Upper: math.Inf(1)})
	g.columns.Put(m.nodeRow[n], 1)
	for r, z := range left {
		if i := int(n)*f.resources + r; m.roomRow[i] >= 0 {
			g.columns.Put(m.roomRow[i], -z*f.slots[i].unit())
		}
	}
	for i := range a.leave {
		g.columns.Put(g.copyRow(a.leave[i].copy), 1)
		meaning.leave = append(meaning.leave, a.leave[i].copy)
	}
	for _, c := range a.come {
		g.columns.Put(g.copyRow(c), -1)
	}
	g.budgets(a.come...)
	g.meaning = append(g.meaning, meaning)
}

// budgets books the moves of those who come.
func (g *growth) budgets(come ...int32) {
	bytes := 0.0
	for _, c := range come {
		bytes += g.m.f.p.Copies[c].Bytes
	}
	if g.m.moves >= 0 && len(come) > 0 {
		g.columns.Put(g.m.moves, float64(len(come)))
	}
	if g.m.bytes >= 0 && bytes > 0 {
		g.columns.Put(g.m.bytes, bytes/(g.m.f.p.Limits.MaxBytes*(1+diskSlack)))
	}
}

// seat adds a seat, once.
func (g *growth) seat(s move) {
	m, f := g.m, g.m.f
	if m.seated[s] || f.lumpOf[s.copy] >= 0 {
		return
	}
	m.seated[s] = true
	cost := f.moveCost[s.copy] - f.tierGain(s.copy, s.node)
	at := int(s.node) * f.resources
	for r, l := range f.loads(s.copy) {
		_, charge := f.split(&f.slots[at+r], l)
		cost += charge
	}
	g.columns.Add(cost/m.unit, clp.Bounds{Lower: 0, Upper: math.Inf(1)})
	g.columns.Put(g.copyRow(s.copy), -1)
	for r, l := range f.loads(s.copy) {
		if inside, _ := f.split(&f.slots[at+r], l); m.roomRow[at+r] >= 0 {
			g.columns.Put(m.roomRow[at+r], inside*f.slots[at+r].unit())
		}
	}
	g.budgets(s.copy)
	g.meaning = append(g.meaning, column{node: -1, seat: s})
}

// enter puts the growth into the program.
func (g *growth) enter() error {
	if err := g.m.lp.AddRows(g.rows); err != nil {
		return err
	}
	g.m.columns = append(g.m.columns, g.meaning...)
	return g.m.lp.AddColumns(&g.columns)
}

// read takes the prices from the last solve.
func (m *master) read() *prices {
	y, f := m.lp.Price(), m.f
	p := f.noPrices()
	for _, n := range m.nodes {
		for r := range f.resources {
			if i := int(n)*f.resources + r; m.roomRow[i] >= 0 {
				p.slot[i] = -y[m.roomRow[i]] * f.slots[i].unit() * m.unit
			}
		}
	}
	if m.moves >= 0 {
		p.move = -y[m.moves] * m.unit
	}
	if m.bytes >= 0 {
		p.bytes = -y[m.bytes] * m.unit / f.p.Limits.MaxBytes
	}
	f.restrict(p)
	p.seat, p.crowd = make([]float64, len(f.lumps)), m.crowd
	for at, c := range f.lumps {
		if row, known := m.copyRow[c]; known {
			p.seat[at] = max(0, -y[row]*m.unit)
		}
	}
	return p
}

// masterRun is the outcome of a master's column generation.
type masterRun struct {
	prices *prices
	bound  float64 // of the part of the nodes
	leave  []move  // who leaves, to where the program seats most of it (node -1: undecided)
}

const (
	// masterRounds is where column generation ends if nothing else ended it; it converges in about 15.
	masterRounds = 30
	// inertia is how much of the best prices so far is kept: the program's own prices swing until most columns that
	// matter are there, and every swing brings columns that never matter. Once its objective falls by little of what it is
	// above the bound, they are there.
	inertia, inertiaLate = 0.9, 0.3
	hardlyFalls          = 0.1
	// Prices at which the bound falls this many times further below the program's objective than the best are a wild swing:
	// they want thousands of columns that nobody ever needs. Nearer to the best prices is tried first, so many times.
	wildSwing, steadyTries = 4, 3
	// iterationWork is how many rows of a simplex iteration make a unit of work.
	iterationWork = 8
	// nodeSteps bounds the branches of one node subproblem.
	nodeSteps = 100_000
)

// generate runs column generation from the given prices until the bound is within tol of the program's objective. It
// starts with an assignment's choices and seats, so that the program's first prices already are about right.
func (m *master) generate(start *prices, assignment []int32, tol float64, rng *rand.Rand, allow *allowance) (masterRun, error) {
	f := m.f
	run := masterRun{prices: start, bound: math.Inf(-1)}
	if allow.timeOver() {
		return run, nil // those before it took all the time
	}
	current := start
	share, last := inertia, math.Inf(1)
	m.crowd = start.crowd
	constant := f.constant + sumOf(f.tierNow) + f.crowdTerm(start)
	look := func() (bound float64, answers []answer) {
		bound, answers, work := f.newPricer(current, rng).nodeBound(m.nodes, tol/float64(len(m.nodes))/4, nodeSteps, 1, allow, nil)
		allow.used += work
		m.pairs += work
		m.rounds++
		return bound, answers
	}
	for round := range masterRounds {
		bound, answers := look()
		for tries := 0; tries < steadyTries && last-bound > wildSwing*(last-run.bound) && round > 0; tries++ {
			current = current.blend(run.prices, inertia)
			bound, answers = look()
		}
		better := bound > run.bound
		if better {
			run.bound, run.prices = bound, current
		}
		g := &growth{m: m}
		if round == 0 {
			m.stand(g, f.p.Current())
			m.stand(g, assignment)
		}
		for i, n := range m.nodes {
			g.choose(n, &answers[i], current)
		}
		if err := g.enter(); err != nil {
			return run, err
		}
		end, iterations, err := m.lp.Solve(clp.Limits{Iterations: 20000, Seconds: allow.seconds()})
		m.solves++
		m.iterations += int64(iterations)
		if err != nil || end != clp.Optimal || allow.spent(int64(iterations)*int64(m.lp.Rows())/iterationWork) {
			return run, err // the bound stands, whatever the program says
		}
		run.leave = m.leavers()
		objective := m.lp.Objective()*m.unit + constant
		if objective-run.bound <= tol {
			break
		}
		if last-objective < hardlyFalls*(objective-run.bound) {
			share = min(share, inertiaLate)
			if !better {
				if share /= 2; share < 0.01 {
					break // the program's own prices prove no more
				}
			}
		}
		last = objective
		current = m.read().blend(run.prices, share)
	}
	return run, nil
}

func sumOf(x []float64) float64 {
	total := 0.0
	for _, v := range x {
		total += v
	}
	return total
}

// stand adds the choices and seats of an assignment, as far as they are within the part: the program can do what it does.
func (m *master) stand(g *growth, assignment []int32) {
	f := m.f
	part := make([]bool, len(f.p.Nodes))
	for _, n := range m.nodes {
		part[n] = true
	}
	assignment = slices.Clone(assignment)
	for _, n := range m.nodes {
		for _, c := range f.home[n] {
			if !part[assignment[c]] {
				assignment[c] = n
			}
		}
	}
	in := f.stand(m.nodes, assignment)
	room := make([]vector, len(f.p.Nodes))
	var seats []move
	for i := range in {
		for _, x := range in[i].leave {
			if f.lumpOf[x.copy] >= 0 {
				continue
			}
			to := assignment[x.copy]
			for d, l := range f.loads(x.copy)[:f.balance] {
				inside, _ := f.split(&f.slots[int(to)*f.resources+d], l)
				room[to][d] += inside
			}
			seats = append(seats, move{x.copy, to})
		}
	}
	for i, n := range m.nodes {
		g.node(n, &in[i], &room[n])
	}
	for _, s := range seats {
		g.seat(s)
	}
}

// stand reads an assignment as choices of the nodes, by their positions: who leaves, which lumps come from another of them, and
// the load of those and of who stays.
func (f *frame) stand(nodes, assignment []int32) []answer {
	in, at := make([]answer, len(nodes)), make(map[int32]*answer, len(nodes))
	for i, n := range nodes {
		at[n] = &in[i]
		for d := range f.balance {
			in[i].load[d] = f.slots[int(n)*f.resources+d].fixed
		}
	}
	for i, n := range nodes {
		for _, c := range f.home[n] {
			a, to := &in[i], at[assignment[c]]
			if assignment[c] != n {
				a.leave = append(a.leave, choice{copy: c})
				if f.lumpOf[c] < 0 || to == nil {
					continue
				}
				to.come = append(to.come, c)
				a = to
			} else {
				a.bytes[0] += f.p.Copies[c].Bytes
				a.bytes[1]++
			}
			for d, l := range f.loads(c)[:f.balance] {
				a.load[d] += l
			}
		}
	}
	return in
}

// leavers are those of the last program.
func (m *master) leavers() []move { return leavers(m.nodes, m.columns, m.lp.X()) }

// leavers reads who leaves in each node's heaviest choice, and where the program seats most of each, from the columns' values.
func leavers(nodes []int32, columns []column, x []float64) []move {
	heaviest := make(map[int32]int)
	type part struct {
		node  int32
		share float64
	}
	seats := make(map[int32]part)
	put := func(c, n int32, share float64) {
		if share > seats[c].share {
			seats[c] = part{n, share}
		}
	}
	for j := range x {
		column := &columns[j]
		if column.node < 0 {
			put(column.seat.copy, column.seat.node, x[j])
			continue
		}
		for _, c := range column.come {
			put(c, column.node, x[j])
		}
		if at, known := heaviest[column.node]; !known || x[j] > x[at] {
			heaviest[column.node] = j
		}
	}
	var leave []move
	for _, n := range nodes {
		for _, c := range columns[heaviest[n]].leave {
			to := move{c, -1}
			if seat, known := seats[c]; known {
				to.node = seat.node
			}
			leave = append(leave, to)
		}
	}
	slices.SortFunc(leave, func(a, b move) int { return int(a.copy - b.copy) })
	return leave
}
