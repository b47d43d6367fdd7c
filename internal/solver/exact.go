package solver

import (
	"math"
	"slices"

	"github.com/shardonnay/shardonnay/internal/model"
)

const (
	// exactCopies bounds where trying everything is worth a try, exactNodes how many partial assignments it may look at.
	exactCopies, exactNodes = 24, 400_000
)

// exact tries all assignments of a tiny problem, copy by copy, the weightiest first. A partial assignment is given up
// when it costs as much as the best: loads only grow by what is still to come, and so does every cost, tiers apart. It
// returns the best assignment, nil if none beats the bound to beat, and whether it came to the end.
func (f *frame) exact(beat float64, allow *allowance) (best []int32, objective float64, complete bool) {
	e := &exactSearch{f: f, allow: allow, objective: beat, left: exactNodes, node: f.p.Current(), load: make([]float64, len(f.slots))}
	for i := range f.slots {
		e.load[i] = f.slots[i].fixed
	}
	for c := range f.p.Copies {
		if f.movable[c] {
			e.order = append(e.order, int32(c))
		}
	}
	if len(e.order) > exactCopies {
		return nil, beat, false
	}
	weight := func(c int32) float64 {
		most := 0.0
		for r, l := range f.loads(c)[:f.balance] {
			for n := range f.p.Nodes {
				most = max(most, l*f.slots[n*f.resources+r].scale)
			}
		}
		return most
	}
	slices.SortStableFunc(e.order, func(a, b int32) int { return order(weight(b), weight(a)) })
	e.rest = make([]float64, len(e.order)+1)
	for i := len(e.order) - 1; i >= 0; i-- {
		e.rest[i] = e.rest[i+1] + min(f.stayPrice[e.order[i]], f.moveCost[e.order[i]])
	}
	e.place(0, f.constant+f.nodeTerms(f.noPrices()))
	return e.best, e.objective, e.left > 0
}

type exactSearch struct {
	f         *frame
	allow     *allowance
	order     []int32
	rest      []float64 // what the copies from i on pay at least for staying or moving
	node      []int32
	load      []float64 // per slot: of the copies placed so far
	best      []int32
	objective float64
	left      int
}

// place decides copy i and on; paid is what those before cost, their nodes' loads included.
func (e *exactSearch) place(i int, paid float64) {
	if e.left--; e.left < 0 {
		return
	}
	if e.left%1024 == 0 && e.allow.spent(1024) {
		e.left = 0
		return
	}
	if paid+e.rest[i] >= e.objective-1e-12*(1+math.Abs(e.objective)) {
		return
	}
	f := e.f
	if i == len(e.order) {
		if total := model.Total(model.Evaluate(f.p, e.node)); total < e.objective && len(model.Check(f.p, e.node)) == 0 {
			e.objective, e.best = total, slices.Clone(e.node)
		}
		return
	}
	c := e.order[i]
	home := f.p.Copies[c].Node
	for at := -1; at < len(f.targets(c)); at++ {
		n, own := home, f.stayPrice[c]
		if at >= 0 {
			if n, own = f.targets(c)[at], f.moveCost[c]; n == home {
				continue
			}
		}
		more, fits := own, true
		for r, l := range f.loads(c) {
			s, x := &f.slots[int(n)*f.resources+r], e.load[int(n)*f.resources+r]
			fits = fits && (at < 0 || x+l <= s.most)
			more += f.cost(s, x+l) - f.cost(s, x)
		}
		if !fits {
			continue
		}
		e.node[c] = n
		for r, l := range f.loads(c) {
			e.load[int(n)*f.resources+r] += l
		}
		e.place(i+1, paid+more)
		for r, l := range f.loads(c) {
			e.load[int(n)*f.resources+r] -= l
		}
		e.node[c] = home
	}
}
