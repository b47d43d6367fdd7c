package solver

import (
	"math"
	"slices"

	"github.com/shardonnay/shardonnay/internal/model"
)

// frame is the problem as the relaxation sees it: per node and resource a convex cost of the load on it, per copy what
// it adds to that load. It is built once and only read afterwards.
//
// Resources of a node are the balance dimensions, then bytes and copies, which cost nothing but end at a hard limit. A
// slot is one resource of one node: slot n*resources+r.
type frame struct {
	p         *model.Problem
	now       *model.Placement // the present state; read only
	resources int
	balance   int // the first so many resources are balance dimensions
	slots     []slot
	load      []float64 // copy-major: load[c*resources+r], native units
	moveCost  []float64 // per copy
	stayPrice []float64 // per copy: what it pays for staying at home, whatever else happens
	constant  float64   // what no placement escapes, stayPrice apart (may be negative)
	movable   []bool    // per copy: some other node might take it
	home      [][]int32 // per node: the movable copies at home there
	first     []int32   // copies of group g are members[first[g]:first[g+1]]
	members   []int32
	schemes   []scheme
	schemeOf  []int32   // per group
	tiers     [][]int32 // depth, node: value id; the last row is "no value"
	tables    []tierTable
	tierNow   []float64 // per group: what it pays for tiers now
	big       []float64 // per balance dimension: loads above this are priced node by node
	fair      []float64 // per balance dimension: a mean node's fair share, in load; 0 where nothing costs
	lumpFrom  float64   // the size from which a copy is a lump
	lumps     []int32   // copies so large that only whole seats do for them, ascending
	lumpOf    []int32   // per copy: its position in lumps, -1 for the others
	crowds    [][]crowd // per group: its tier caps, where it has a lump
	crowded   []bool    // per node: copies at home there are of such groups
	crowdRoom []float64 // per crowd's value: how many more copies the cap allows than are at home there
}

// crowd is a tier cap of a group, value by value.
type crowd struct {
	row    []int32 // per node: its value
	first  int32   // value v has position first+v in crowdRoom
	values int32
}

// slot is the cost of one resource on one node as a function of its load x, in native units:
// share x phi(x x scale - shift) for a balance dimension, nothing for the others; impossible above most.
type slot struct {
	fixed float64 // load of all that stays whatever happens
	room  float64 // how much more fits below the first knot: it costs nothing
	most  float64 // hard limit; +Inf where there is none
	scale float64
	share float64
	shift float64
}

// shared tells whether copies compete for the slot at all: it costs, or it ends.
func (s *slot) shared() bool { return s.share > 0 || !math.IsInf(s.most, 1) }

// unit is what loads of the slot are multiplied with in a linear program: 1 is about a full node.
func (s *slot) unit() float64 {
	if s.share > 0 {
		return s.scale
	}
	return 1 / s.most
}

// scheme sorts the nodes a group may move to by the tier values its limits are about. Groups with the same class and
// the same limited depths share one.
type scheme struct {
	depths []int     // rows of tiers that are told apart
	cells  [][]int32 // nodes that accept copies, by cell
	nodes  []int32   // all of them
	takes  []bool    // per node: it is one of them
}

const (
	// maxCells bounds the cells of a scheme: a cell per host would be hundreds, and the group subproblem enumerates
	// cells. Deeper limits are left out then, which only makes the bound weaker.
	maxCells = 24
	// lumpShare is how much of a mean node's fair share makes a copy a lump: a few fill a node then, so which of them share
	// one decides the cost, and they are not cut into fractions. Smaller ones are many, and fractions of many are close.
	lumpShare = 0.25
	// giantShare is how much lets a lump nearly fill one alone.
	giantShare = 0.8
	// bigRank is the share of copies priced by a linear function of their load alone. The rest may overflow a node's
	// free range and is priced node by node, ten times slower.
	bigRank = 0.99
	// diskSlack is the rounding that model.Check allows a disk limit: the bound must allow as much.
	diskSlack = 1e-9
)

func newFrame(p *model.Problem) *frame {
	D := len(p.Dimensions)
	f := &frame{p: p, resources: D + 2, balance: D, now: model.NewPlacement(p, nil)}
	f.load = make([]float64, 0, len(p.Copies)*f.resources)
	f.moveCost = make([]float64, len(p.Copies))
	for c := range p.Copies {
		f.load = append(append(f.load, p.Copies[c].Load...), p.Copies[c].Bytes, 1)
		f.moveCost[c] = p.MoveCost(c)
	}
	f.groupCopies()
	f.prepareSchemes()
	f.findMovable()
	f.prepareSlots()
	f.priceStaying()
	f.tierNow = make([]float64, len(p.Groups))
	for g := range p.Groups {
		if limits := &p.Groups[g]; len(p.Objective.TierExcess) > 0 && len(limits.TierCaps)+len(limits.TierFloors)+len(limits.TierTables) > 0 {
			f.tierNow[g], _ = f.tierRules(int32(g), f.placed(int32(g), nil), nil)
		}
	}
	f.findLarge()
	return f
}

func (f *frame) groupCopies() {
	f.first = make([]int32, len(f.p.Groups)+1)
	for c := range f.p.Copies {
		f.first[f.p.Copies[c].Group+1]++
	}
	for g := range f.p.Groups {
		f.first[g+1] += f.first[g]
	}
	f.members = make([]int32, len(f.p.Copies))
	next := slices.Clone(f.first)
	for c := range f.p.Copies {
		g := f.p.Copies[c].Group
		f.members[next[g]] = int32(c)
		next[g]++
	}
}

// group lists the copies of group g.
func (f *frame) group(g int32) []int32 { return f.members[f.first[g]:f.first[g+1]] }

// nodes lists all nodes.
func (f *frame) nodes() []int32 {
	all := make([]int32, len(f.p.Nodes))
	for n := range all {
		all[n] = int32(n)
	}
	return all
}

// loads is what copy c adds to each resource of its node.
func (f *frame) loads(c int32) []float64 {
	return f.load[int(c)*f.resources : int(c+1)*f.resources]
}

func (f *frame) prepareSchemes() {
	deepest := 0
	for n := range f.p.Nodes {
		deepest = max(deepest, len(f.p.Nodes[n].Tiers))
	}
	for depth := range deepest + 1 {
		id, row := make(map[string]int32), make([]int32, len(f.p.Nodes))
		for n := range f.p.Nodes {
			value := ""
			if depth < len(f.p.Nodes[n].Tiers) {
				value = f.p.Nodes[n].Tiers[depth]
			}
			if _, known := id[value]; !known {
				id[value] = int32(len(id))
			}
			row[n] = id[value]
		}
		f.tiers = append(f.tiers, row)
	}
	f.prepareTables()
	type key struct {
		class   int32
		limited uint64
	}
	known := make(map[key]int32)
	f.schemeOf = make([]int32, len(f.p.Groups))
	for g := range f.p.Groups {
		group := &f.p.Groups[g]
		k := key{class: group.Class}
		for _, limits := range [][]model.TierLimit{group.TierCaps, group.TierFloors} {
			for _, limit := range limits {
				k.limited |= 1 << min(limit.Depth(), deepest, 63)
			}
		}
		for _, t := range group.TierTables {
			k.limited |= 1 << min(f.tables[t].row, 63)
		}
		at, ok := known[k]
		if !ok {
			at = int32(len(f.schemes))
			known[k] = at
			f.schemes = append(f.schemes, f.newScheme(k.class, k.limited))
		}
		f.schemeOf[g] = at
	}
}

func (f *frame) newScheme(class int32, limited uint64) scheme {
	var s scheme
	for _, n := range f.p.Classes[class].Nodes {
		if f.p.Nodes[n].AcceptsNew {
			s.nodes = append(s.nodes, n)
		}
	}
	s.takes = make([]bool, len(f.p.Nodes))
	if len(s.nodes) == 0 {
		return s
	}
	for _, n := range s.nodes {
		s.takes[n] = true
	}
	s.cells = [][]int32{s.nodes}
	for depth := range f.tiers {
		if limited>>min(depth, 63)&1 == 0 {
			continue
		}
		var finer [][]int32
		for _, cell := range s.cells {
			at := make(map[int32]int)
			for _, n := range cell {
				value := f.tiers[depth][n]
				if _, ok := at[value]; !ok {
					at[value] = len(finer)
					finer = append(finer, nil)
				}
				finer[at[value]] = append(finer[at[value]], n)
			}
		}
		if len(finer) > maxCells {
			break
		}
		s.cells = finer
		s.depths = append(s.depths, depth)
	}
	return s
}

// targets are the nodes that copy c might move to; its own may be among them.
func (f *frame) targets(c int32) []int32 { return f.schemes[f.schemeOf[f.p.Copies[c].Group]].nodes }

// mayTake tells whether node n is one of them.
func (f *frame) mayTake(n, c int32) bool {
	return f.schemes[f.schemeOf[f.p.Copies[c].Group]].takes[n]
}

func (f *frame) findMovable() {
	f.movable = make([]bool, len(f.p.Copies))
	f.home = make([][]int32, len(f.p.Nodes))
	for c := range f.p.Copies {
		k := &f.p.Copies[c]
		to := f.targets(int32(c))
		if !k.Pinned && (len(to) > 1 || len(to) == 1 && to[0] != k.Node) {
			f.movable[c] = true
			f.home[k.Node] = append(f.home[k.Node], int32(c))
		}
	}
}

func (f *frame) prepareSlots() {
	D := f.balance
	f.slots = make([]slot, len(f.p.Nodes)*f.resources)
	domains, ofNode := f.p.Domains()
	for n := range f.p.Nodes {
		node := &f.p.Nodes[n]
		for r := range f.resources {
			s := &f.slots[n*f.resources+r]
			s.most, s.room = math.Inf(1), math.Inf(1)
			if r >= D {
				continue
			}
			if node.Base != nil {
				s.fixed = node.Base[r]
			}
			if i := ofNode[n]; i >= 0 && node.Capacity[r] > 0 && domains[i].Mean[r] > 0 && f.p.Dimensions[r].Weight > 0 && len(f.p.Objective.Phi.Points) > 0 {
				s.scale = 1 / node.Capacity[r] / domains[i].Mean[r]
				s.share = f.p.Dimensions[r].Weight * node.Capacity[r] / domains[i].Capacity[r]
				s.shift = f.p.Dimensions[r].Shift
			}
		}
		bytes, count := &f.slots[n*f.resources+D], &f.slots[n*f.resources+D+1]
		bytes.fixed = node.Disk.UsedOther
		if node.Disk.Limit > 0 {
			bytes.most = max(node.Disk.Limit, f.now.DiskUsed(n)) * (1 + diskSlack)
		}
		if node.MaxCopies > 0 {
			count.most = float64(max(node.MaxCopies, f.now.Copies(n)))
		}
	}
	for c := range f.p.Copies {
		if !f.movable[c] {
			for r, l := range f.loads(int32(c)) {
				f.slots[int(f.p.Copies[c].Node)*f.resources+r].fixed += l
			}
		}
	}
	for i := range f.slots {
		if s := &f.slots[i]; s.share > 0 {
			s.room = max(0, (f.p.Objective.Phi.Points[0]+s.shift)/s.scale-s.fixed)
		}
	}
}

// priceStaying puts into prices of the single copy what it pays at home: having to leave, and its index's copies above
// the fair count. With k copies of an index at home on a node and a fair count of m < k, (count - m)+ >= count - m, and
// count is at least those that stay: every copy that stays pays the price, m prices are given back once.
func (f *frame) priceStaying() {
	f.stayPrice = make([]float64, len(f.p.Copies))
	type pair struct{ index, node int32 }
	copies := make(map[pair]int)
	price := func(i int32) float64 {
		if f.p.Indices[i].FairPerNode == 0 {
			return 0
		}
		return f.p.Indices[i].SpreadWeight * f.p.Objective.Spread.PerCopy
	}
	for c := range f.p.Copies {
		if i := f.p.Groups[f.p.Copies[c].Group].Index; price(i) > 0 {
			copies[pair{i, f.p.Copies[c].Node}]++
		}
	}
	for c := range f.p.Copies {
		k := &f.p.Copies[c]
		if k.MustLeave {
			f.stayPrice[c] += f.p.Objective.MustLeave
		}
		i := f.p.Groups[k.Group].Index
		at := pair{i, k.Node}
		if fair := f.p.Indices[i].FairPerNode; fair > 0 && (copies[at] > fair || copies[at] < 0) {
			if copies[at] > 0 { // once a pair, at its first copy
				f.constant -= price(i) * float64(fair)
				copies[at] = -1
			}
			f.stayPrice[c] += price(i)
		}
		if !f.movable[c] {
			f.constant += f.stayPrice[c]
			f.stayPrice[c] = 0
		}
	}
}

func (f *frame) findLarge() {
	f.big, f.fair = make([]float64, f.balance), make([]float64, f.balance)
	var values []float64
	for d := range f.balance {
		values = values[:0]
		for c := range f.movable {
			if l := f.load[c*f.resources+d]; f.movable[c] && l > 0 {
				values = append(values, l)
			}
		}
		slices.Sort(values)
		if len(values) > 0 {
			f.big[d] = values[int(float64(len(values)-1)*bigRank)]
		}
		nodes := 0
		for i := d; i < len(f.slots); i += f.resources {
			if s := &f.slots[i]; s.share > 0 {
				f.fair[d] += 1 / s.scale
				nodes++
			}
		}
		f.fair[d] /= float64(max(1, nodes))
	}
	f.lumpFrom = lumpShare
	f.setLumps(f.lumpy(mostLumps))
}

// lumpy lists the copies of at least a lump's size, in order, the largest of them if there are more than most.
func (f *frame) lumpy(most int) []int32 {
	var lumps []int32
	for _, c := range f.large(most) {
		if f.size(c) < f.lumpFrom {
			break
		}
		lumps = append(lumps, c)
	}
	slices.Sort(lumps)
	return lumps
}

// size is how much of a mean node's fair share copy c has, in the dimension where that is most.
func (f *frame) size(c int32) float64 {
	size := 0.0
	for d, fair := range f.fair {
		if fair > 0 {
			size = max(size, f.load[int(c)*f.resources+d]/fair)
		}
	}
	return size
}

// large are the movable copies of the largest size, largest first.
func (f *frame) large(most int) []int32 {
	size := make([]float64, len(f.p.Copies))
	var list []int32
	for c := range size {
		if f.movable[c] {
			if size[c] = f.size(int32(c)); size[c] > 0 {
				list = append(list, int32(c))
			}
		}
	}
	slices.SortStableFunc(list, func(a, b int32) int { return order(size[b], size[a]) })
	return list[:min(len(list), most)]
}

func (f *frame) setLumps(lumps []int32) {
	f.lumps, f.lumpOf = lumps, make([]int32, len(f.p.Copies))
	for c := range f.lumpOf {
		f.lumpOf[c] = -1
	}
	f.crowds, f.crowdRoom = make([][]crowd, len(f.p.Groups)), nil
	for at, c := range lumps {
		f.lumpOf[c] = int32(at)
		if g := f.p.Copies[c].Group; f.crowds[g] == nil {
			f.addCrowds(g)
		}
	}
	f.crowded = make([]bool, len(f.p.Nodes))
	for n, home := range f.home {
		f.crowded[n] = slices.ContainsFunc(home, func(c int32) bool { return f.lumpOf[c] >= 0 || f.crowds[f.p.Copies[c].Group] != nil })
	}
}

// addCrowds adds the caps of group g. Deep ones with many values, hosts, are left out: the bound then does not know them.
func (f *frame) addCrowds(g int32) {
	for _, limit := range f.p.Groups[g].TierCaps {
		row, _ := f.tierRow(limit)
		values := slices.Max(row) + 1
		if values > maxCells {
			continue
		}
		home := make([]int, values)
		for _, e := range f.group(g) {
			home[row[f.p.Copies[e].Node]]++
		}
		f.crowds[g] = append(f.crowds[g], crowd{row, int32(len(f.crowdRoom)), values})
		for _, k := range home {
			f.crowdRoom = append(f.crowdRoom, float64(max(limit.Count()-k, 0)))
		}
	}
}

// within is the frame of a part of the nodes: only copies at home there move, and only there.
func (f *frame) within(nodes []int32) *frame {
	part := *f
	in := make([]bool, len(f.p.Nodes))
	part.home = make([][]int32, len(f.p.Nodes))
	for _, n := range nodes {
		in[n], part.home[n] = true, f.home[n]
	}
	keep := func(list []int32) []int32 {
		return slices.DeleteFunc(slices.Clone(list), func(n int32) bool { return !in[n] })
	}
	part.schemes = make([]scheme, len(f.schemes))
	for k := range f.schemes {
		part.schemes[k] = scheme{depths: f.schemes[k].depths, nodes: keep(f.schemes[k].nodes), takes: f.schemes[k].takes}
		for _, cell := range f.schemes[k].cells {
			if left := keep(cell); len(left) > 0 {
				part.schemes[k].cells = append(part.schemes[k].cells, left)
			}
		}
	}
	part.movable = slices.Clone(f.movable)
	for c := range part.movable {
		part.movable[c] = part.movable[c] && in[f.p.Copies[c].Node]
	}
	part.setLumps(part.lumpy(mostLumps))
	return &part
}

// mostLumps is how many lumps there are at most in a linear program with rooms, the largest first: every node looks at every one
// of them in every round.
const mostLumps = 256

// cost is what load x costs in a slot.
func (f *frame) cost(s *slot, x float64) float64 {
	if s.share == 0 {
		return 0
	}
	return s.share * f.p.Objective.Phi.At(x*s.scale-s.shift)
}

// split divides the load l that a copy would bring to a slot: inside stays below the first knot at best and enters the
// node's sum, the rest is paid up front as charge. phi is convex, so whatever else is on the node, the rest costs at
// least what it costs right above the fixed load and its own inside part.
func (f *frame) split(s *slot, l float64) (inside, charge float64) {
	if l <= s.room {
		return l, 0
	}
	return s.room, f.cost(s, s.fixed+l) - f.cost(s, s.fixed+s.room)
}

// steepest is the largest price a slot's load can have.
func (f *frame) steepest(s *slot) float64 {
	if s.share == 0 {
		return 0
	}
	slopes := f.p.Objective.Phi.Slopes
	return slopes[len(slopes)-1] * s.share * s.scale
}
