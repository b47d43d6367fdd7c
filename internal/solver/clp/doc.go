// Package clp turns a linear program into its solution with COIN-OR's CLP; it is the only cgo in the tree and knows
// nothing of nodes and copies. Before it stands solver.
//
// There are two ways in. Solve hands a whole program to github.com/lanl/clp and checks the answer. Model keeps a program
// inside CLP and grows columns between solves: column generation solves nearly the same program a dozen times, and the
// binding has neither a basis to start from nor columns to add, so each of its solves starts from nothing. Measured at
// 100 nodes x 6 000 copies, such a solve takes 240 ms, one from the last basis 5 ms. Model speaks to CLP's own C
// interface for that, and needs nothing else of it.
//
// CLP cannot be interrupted and ends the process on an exception (a shape that does not fit, for example). So every
// shape is checked before the call, every solve has limits, and the daemon solves in a process of its own (worker).
package clp
