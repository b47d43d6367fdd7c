// Package rebalance runs the cycle: collect, model, solve, plan, and in mode act carry out; then it does so again.
//
// Cycle does the steps once and ends in exactly one Outcome. Run only ticks: it adds jitter, bounds the time of a cycle,
// never overlaps two, and hands rebalancing back when it ends. The package owns no decision about a copy; before it stand
// collector, model, solver, plan and mover, after it only cmd.
package rebalance
