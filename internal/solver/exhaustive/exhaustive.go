// Package exhaustive solves tiny placement problems by trying every assignment there is. It is the reference for tests of
// solver and shares nothing with it: what is legal says model.Check, what it costs model.Evaluate.
package exhaustive

import (
	"slices"

	"github.com/shardonnay/shardonnay/internal/model"
)

// Best is the cheapest assignment that keeps every hard rule, the first of several in order of node positions, and its
// objective. It tries nodes^copies of them.
func Best(p *model.Problem) (best []int32, objective float64) {
	node := make([]int32, len(p.Copies))
	for {
		if len(model.Check(p, node)) == 0 {
			if total := model.Total(model.Evaluate(p, node)); best == nil || total < objective {
				best, objective = slices.Clone(node), total
			}
		}
		c := len(node) - 1
		for ; c >= 0; c-- {
			if node[c]++; int(node[c]) < len(p.Nodes) {
				break
			}
			node[c] = 0
		}
		if c < 0 {
			return best, objective
		}
	}
}
