package model

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
)

// Read decodes a problem file, gzip or plain, and validates it.
func Read(r io.Reader) (*Problem, error) {
	buffered := bufio.NewReader(r)
	magic, err := buffered.Peek(2)
	if err != nil {
		return nil, fmt.Errorf("the file is empty: %w", err)
	}
	var source io.Reader = buffered
	if bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		if source, err = gzip.NewReader(buffered); err != nil {
			return nil, fmt.Errorf("the gzip header is broken: %w", err)
		}
	}
	var p Problem
	if err := json.NewDecoder(source).Decode(&p); err != nil {
		return nil, fmt.Errorf("not a problem file: %w", err)
	}
	return &p, p.Validate()
}

// UnmarshalJSON fills what a file may leave out: move_weight 1.
func (c *Copy) UnmarshalJSON(data []byte) error {
	type plain Copy
	c.MoveWeight = 1
	return json.Unmarshal(data, (*plain)(c))
}

// UnmarshalJSON fills what a file may leave out: accepts_new true.
func (n *Node) UnmarshalJSON(data []byte) error {
	type plain Node
	n.AcceptsNew = true
	return json.Unmarshal(data, (*plain)(n))
}

// Write encodes the problem as one line of JSON.
func (p *Problem) Write(w io.Writer) error { return json.NewEncoder(w).Encode(p) }

// Validate reports everything in the problem that is not of the documented shape, all faults in one error.
func (p *Problem) Validate() error {
	v := validation{}
	v.expect(p.Version == ProblemVersion, "version is %d, this program reads %d", p.Version, ProblemVersion)
	D, N := len(p.Dimensions), len(p.Nodes)
	v.expect(D > 0, "there are no dimensions")
	for d, dimension := range p.Dimensions {
		v.expect(finite(dimension.Weight, dimension.Shift), "dimensions[%d]: weight and shift are numbers from 0", d)
	}
	for n := range p.Nodes {
		node := &p.Nodes[n]
		v.expect(len(node.Capacity) == D && finite(node.Capacity...), "nodes[%d].capacity: %d numbers from 0, one a dimension", n, D)
		v.expect(len(node.Base) == 0 || len(node.Base) == D && finite(node.Base...), "nodes[%d].base: %d numbers from 0, one a dimension", n, D)
		v.expect(finite(node.Disk.Limit, node.Disk.UsedOther) && node.MaxCopies >= 0, "nodes[%d]: disk and max_copies are numbers from 0", n)
		v.expect(len(node.MaxLoad) == 0 || len(node.MaxLoad) == D && finite(node.MaxLoad...), "nodes[%d].max_load: %d numbers from 0, one a dimension", n, D)
		if len(node.Base) == 0 {
			node.Base = nil
		}
	}
	for k := range p.Classes {
		nodes := p.Classes[k].Nodes
		slices.Sort(nodes)
		p.Classes[k].Nodes = slices.Compact(nodes)
		for _, n := range nodes {
			v.expect(n >= 0 && int(n) < N, "classes[%d]: node position %d of %d", k, n, N)
		}
	}
	for i := range p.Indices {
		index := &p.Indices[i]
		v.expect(index.MaxPerNode >= 0 && index.FairPerNode >= 0 && finite(index.SpreadWeight), "indices[%d]: limits and weights are numbers from 0", i)
	}
	for g := range p.Groups {
		group := &p.Groups[g]
		v.expect(group.Index >= 0 && int(group.Index) < len(p.Indices), "groups[%d]: index position %d of %d", g, group.Index, len(p.Indices))
		v.expect(group.Class >= 0 && int(group.Class) < len(p.Classes), "groups[%d]: class position %d of %d", g, group.Class, len(p.Classes))
		for _, limit := range slices.Concat(group.TierCaps, group.TierFloors) {
			v.expect(limit.Depth() >= 0 && limit.Count() >= 0, "groups[%d]: a tier limit is [depth, count], both from 0", g)
		}
		for _, t := range group.TierTables {
			v.expect(t >= 0 && int(t) < len(p.TierTables), "groups[%d]: tier table position %d of %d", g, t, len(p.TierTables))
		}
	}
	for t := range p.TierTables {
		table := &p.TierTables[t]
		v.expect(table.Depth >= 0, "tier_tables[%d]: depth is a number from 0", t)
		for _, counts := range []map[string]int{table.Caps, table.Floors} {
			for value, count := range counts {
				v.expect(count >= 0, "tier_tables[%d]: the count of %q is a number from 0", t, value)
			}
		}
	}
	for t := range p.TollTables {
		v.expect(p.TollTables[t].Depth >= 0, "toll_tables[%d]: depth is a number from 0", t)
		for value, price := range p.TollTables[t].Price {
			v.expect(finite(price), "toll_tables[%d]: the price of %q is a number from 0", t, value)
		}
	}
	for c := range p.Copies {
		k := &p.Copies[c]
		for _, toll := range k.Tolls {
			v.expect(toll.Table >= 0 && int(toll.Table) < len(p.TollTables) && finite(toll.Factor),
				"copies[%d]: a toll is a position in toll_tables (%d) and a number from 0", c, len(p.TollTables))
		}
		v.expect(k.Group >= 0 && int(k.Group) < len(p.Groups), "copies[%d]: group position %d of %d", c, k.Group, len(p.Groups))
		v.expect(k.Node >= 0 && int(k.Node) < N, "copies[%d]: node position %d of %d", c, k.Node, N)
		v.expect(len(k.Load) == D && finite(k.Load...), "copies[%d].load: %d numbers from 0, one a dimension", c, D)
		v.expect(finite(k.Bytes, k.BytesMoving, k.MoveWeight), "copies[%d]: bytes, bytes_moving and move_weight are numbers from 0", c)
	}
	o := &p.Objective
	v.expect(len(o.Phi.Points) == len(o.Phi.Slopes), "objective.phi: as many slopes as points (%d and %d)", len(o.Phi.Slopes), len(o.Phi.Points))
	v.expect(finite(o.Phi.Points...) && finite(o.Phi.Slopes...) && slices.IsSorted(o.Phi.Points) && slices.IsSorted(o.Phi.Slopes),
		"objective.phi: points and slopes are numbers from 0 and ascend, for phi is convex")
	v.expect(finite(o.Spread.PerCopy, o.Move.PerByte, o.Move.PerMove, o.MustLeave) && finite(o.TierExcess...), "objective: prices are numbers from 0")
	v.expect(p.Limits.MaxMoves >= 0 && finite(p.Limits.MaxBytes), "limits are numbers from 0")
	return v.err()
}

// finite tells whether all values are numbers from 0 up.
func finite(values ...float64) bool {
	return !slices.ContainsFunc(values, func(x float64) bool { return !(x >= 0) || math.IsInf(x, 1) })
}

// validation gathers faults; past a handful the rest is counted only, for a broken file repeats itself.
type validation struct {
	faults []error
	more   int
}

const maxFaults = 10

func (v *validation) expect(ok bool, format string, args ...any) {
	switch {
	case ok:
	case len(v.faults) < maxFaults:
		v.faults = append(v.faults, fmt.Errorf(format, args...))
	default:
		v.more++
	}
}

func (v *validation) err() error {
	if v.more > 0 {
		v.faults = append(v.faults, fmt.Errorf("and %d more", v.more))
	}
	return errors.Join(v.faults...)
}

// AssignmentFile is an assignment on disk.
type AssignmentFile struct {
	Version int     `json:"version"`
	Problem string  `json:"problem"` // its name
	Node    []int32 `json:"node"`    // one node position per copy
}
