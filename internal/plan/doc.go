// Package plan turns the difference between where copies stand and where the solver wants them into a Plan: moves in an
// order in which every prefix is legal, each with its reason, and verdicts for everything that stays as it is.
//
// It is pure: values in, values out, no clock, no network. The same built problem and the same answer give the same plan
// but for its times and the id derived from them. Before it stand model and the solver's result; after it the mover, which
// carries a plan out, and the command line, which shows it.
package plan
