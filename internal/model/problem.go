package model

// ProblemVersion is the version of the problem file format.
const ProblemVersion = 1

// Problem is the placement problem without any product detail: which copy goes to which node. Positions in its slices
// are how it refers to itself. docs/formulation.md states the objective and the hard rules.
type Problem struct {
	Version    int         `json:"version"`
	Name       string      `json:"name"`
	Dimensions []Dimension `json:"dimensions"`
	Nodes      []Node      `json:"nodes"`
	Classes    []Class     `json:"classes"`
	Groups     []Group     `json:"groups"`
	Indices    []Index     `json:"indices"`
	Copies     []Copy      `json:"copies"`
	Objective  Objective   `json:"objective"`
	Limits     Limits      `json:"limits"`

	TierTables []TierTable `json:"tier_tables,omitempty"` // wishes that groups refer to
	TollTables []TollTable `json:"toll_tables,omitempty"` // prices of targets that copies refer to
}

// Dimension is one kind of load with its weight in the objective.
type Dimension struct {
	Name   string  `json:"name"`
	Weight float64 `json:"weight"`
	// Shift moves phi to the right for this dimension: r - Shift is what phi sees. It is the noise margin beyond the
	// tolerance that phi itself has, a ratio of the mean.
	Shift float64 `json:"shift,omitempty"`
}

// Node is a place for copies.
type Node struct {
	ID         string    `json:"id"`
	Capacity   []float64 `json:"capacity"`       // per dimension; 0 leaves the node out of that dimension
	Base       []float64 `json:"base,omitempty"` // per dimension: load that no copy of the problem accounts for
	Disk       Disk      `json:"disk"`
	Tiers      []string  `json:"tiers,omitempty"` // value at each tier depth, outermost first
	MaxCopies  int       `json:"max_copies"`      // 0 is no limit
	AcceptsNew bool      `json:"accepts_new"`
	MaxLoad    []float64 `json:"max_load,omitempty"` // per dimension: most load, base included; 0 is no limit
}

// Disk bounds the bytes on a node: UsedOther + bytes of its copies <= Limit. Limit 0 is no bound.
type Disk struct {
	Limit     float64 `json:"limit"`
	UsedOther float64 `json:"used_other"`
}

// Class is a set of nodes that a group's copies may live on.
type Class struct {
	Nodes []int32 `json:"nodes"` // positions, ascending
}

// Group is one shard: its copies never share a node.
type Group struct {
	Index      int32       `json:"index"`
	Name       string      `json:"name"`
	Class      int32       `json:"class"`
	TierCaps   []TierLimit `json:"tier_caps,omitempty"`
	TierFloors []TierLimit `json:"tier_floors,omitempty"`
	TierTables []int32     `json:"tier_tables,omitempty"` // positions in Problem.TierTables
}

// TierLimit is [depth, count]: at most (cap) or at least (floor) count copies on the nodes of each value at that depth.
type TierLimit [2]int

// Depth is the tier depth the limit is about.
func (t TierLimit) Depth() int { return t[0] }

// Count is the number of copies.
func (t TierLimit) Count() int { return t[1] }

// TierTable is a wish about the copies of a group at one tier depth that differs from value to value, where a TierLimit has
// one count for all. It has a price, that of its depth, and forbids nothing.
type TierTable struct {
	Depth  int            `json:"depth"`
	Caps   map[string]int `json:"caps,omitempty"`   // at most so many copies on nodes with the value
	Floors map[string]int `json:"floors,omitempty"` // at least so many
}

// TollTable is a price for going to the nodes with a value at one tier depth. A value that it does not name costs nothing.
type TollTable struct {
	Depth int                `json:"depth"`
	Price map[string]float64 `json:"price"`
}

// Toll is what a copy that moves pays for its target beside its move: Factor x the table's price.
type Toll struct {
	Table  int32   `json:"table"` // position in Problem.TollTables
	Factor float64 `json:"factor"`
}

// Index is what the copies of an index share.
type Index struct {
	Name         string  `json:"name"`
	MaxPerNode   int     `json:"max_per_node"`            // 0 is no limit
	SpreadWeight float64 `json:"spread_weight,omitempty"` // factor on Objective.Spread
	FairPerNode  int     `json:"fair_per_node,omitempty"` // copies per node above which Spread is paid; 0 is no spread term
}

// Copy is one primary or replica that stands on a node. Copies that stand nowhere are not part of a problem.
type Copy struct {
	Group       int32     `json:"group"`
	Node        int32     `json:"node"` // where it stands now
	Primary     bool      `json:"primary"`
	Pinned      bool      `json:"pinned,omitempty"`
	MustLeave   bool      `json:"must_leave,omitempty"`
	MoveWeight  float64   `json:"move_weight"` // factor on the bytes of moving it; 1 is plain
	Bytes       float64   `json:"bytes"`
	BytesMoving float64   `json:"bytes_moving,omitempty"`
	Load        []float64 `json:"load"` // per dimension
	Tolls       []Toll    `json:"tolls,omitempty"`
}

// Objective holds the prices; every term is in the same unit, that of a balance cost.
type Objective struct {
	Phi        Phi       `json:"phi"`
	Spread     Spread    `json:"spread"`
	Move       MovePrice `json:"move"`
	MustLeave  float64   `json:"must_leave"`            // per copy that has to leave and stayed
	TierExcess []float64 `json:"tier_excess,omitempty"` // per depth: per copy above a cap or missing below a floor
}

// Phi is a convex piecewise linear function: 0 up to Points[0], slope Slopes[i] from Points[i] to Points[i+1], the last
// slope for ever. Points ascend, slopes are not negative and do not fall.
type Phi struct {
	Points []float64 `json:"points"`
	Slopes []float64 `json:"slopes"`
}

// At is phi(r).
func (f Phi) At(r float64) float64 {
	value := 0.0
	for i, from := range f.Points {
		if r <= from {
			break
		}
		to := r
		if i+1 < len(f.Points) {
			to = min(r, f.Points[i+1])
		}
		value += f.Slopes[i] * (to - from)
	}
	return value
}

// Spread prices copies of one index above the index's FairPerNode on a node, each.
type Spread struct {
	PerCopy float64 `json:"per_copy"`
}

// MovePrice is what moving one copy costs: PerByte x bytes x the copy's MoveWeight + PerMove.
type MovePrice struct {
	PerByte float64 `json:"per_byte"`
	PerMove float64 `json:"per_move"`
}

// Limits bound how much may move; 0 is no limit.
type Limits struct {
	MaxMoves int     `json:"max_moves"`
	MaxBytes float64 `json:"max_bytes"`
}

// Toll is what copy c pays for going to node n beside the cost of moving at all; 0 where it already stands there.
func (p *Problem) Toll(c int, n int32) float64 {
	k, sum := &p.Copies[c], 0.0
	if n == k.Node {
		return 0
	}
	for _, toll := range k.Tolls {
		table := &p.TollTables[toll.Table]
		sum += toll.Factor * table.Price[p.Nodes[n].tier(table.Depth)]
	}
	return sum
}

// MoveCost is the price of moving copy c at all, wherever to.
func (p *Problem) MoveCost(c int) float64 {
	k := &p.Copies[c]
	return p.Objective.Move.PerByte*k.Bytes*k.MoveWeight + p.Objective.Move.PerMove
}

// Current is the assignment as it stands: the node of each copy.
func (p *Problem) Current() []int32 {
	node := make([]int32, len(p.Copies))
	for c := range p.Copies {
		node[c] = p.Copies[c].Node
	}
	return node
}

// Domain is a set of nodes that compete for the same copies: classes that share a node are joined. Every domain has its
// own mean in every dimension its copies carry.
type Domain struct {
	Nodes   []int32
	Classes []int32
	// Mean is, per dimension, the load that a unit of capacity carries when all is even: the load of all copies whose
	// class is in the domain plus the base of its nodes, over the capacity of its nodes. 0 where the domain's copies
	// carry nothing in that dimension: it has no balance term there.
	Mean []float64
	// Capacity is, per dimension, the sum over its nodes.
	Capacity []float64
}

// Domains partitions the nodes, and says of every node which domain it is in (-1 for a node in no class).
func (p *Problem) Domains() (domains []Domain, ofNode []int32) {
	parent := make([]int32, len(p.Classes))
	for k := range parent {
		parent[k] = int32(k)
	}
	find := func(k int32) int32 {
		for parent[k] != k {
			parent[k] = parent[parent[k]]
			k = parent[k]
		}
		return k
	}
	classOf := make([]int32, len(p.Nodes))
	for n := range classOf {
		classOf[n] = -1
	}
	for k := range p.Classes {
		for _, n := range p.Classes[k].Nodes {
			if classOf[n] < 0 {
				classOf[n] = int32(k)
			} else {
				a, b := find(classOf[n]), find(int32(k))
				parent[max(a, b)] = min(a, b)
			}
		}
	}
	D := len(p.Dimensions)
	at := make([]int32, len(p.Classes))
	for k := range p.Classes {
		root := find(int32(k))
		if int(root) == k {
			at[k] = int32(len(domains))
			domains = append(domains, Domain{Mean: make([]float64, D), Capacity: make([]float64, D)})
		} else {
			at[k] = at[root]
		}
		domains[at[k]].Classes = append(domains[at[k]].Classes, int32(k))
	}
	ofNode = make([]int32, len(p.Nodes))
	total := make([][]float64, len(domains))
	carried := make([][]float64, len(domains))
	for i := range domains {
		total[i], carried[i] = make([]float64, D), make([]float64, D)
	}
	for n := range p.Nodes {
		ofNode[n] = -1
		if classOf[n] < 0 {
			continue
		}
		i := at[find(classOf[n])]
		ofNode[n] = i
		domain := &domains[i]
		domain.Nodes = append(domain.Nodes, int32(n))
		for d := range D {
			if p.Nodes[n].Capacity[d] <= 0 {
				continue
			}
			domain.Capacity[d] += p.Nodes[n].Capacity[d]
			if p.Nodes[n].Base != nil {
				total[i][d] += p.Nodes[n].Base[d]
			}
		}
	}
	for c := range p.Copies {
		i := at[p.Groups[p.Copies[c].Group].Class]
		for d, load := range p.Copies[c].Load {
			carried[i][d] += load
		}
	}
	for i := range domains {
		for d := range D {
			if carried[i][d] > 0 && domains[i].Capacity[d] > 0 {
				domains[i].Mean[d] = (total[i][d] + carried[i][d]) / domains[i].Capacity[d]
			}
		}
	}
	return domains, ofNode
}
