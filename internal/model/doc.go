// Package model turns a projected snapshot and a policy into the placement problem, and knows what a placement is worth.
//
// It is the home of two things: the Problem with its objective and hard rules (docs/formulation.md states them exactly),
// and the Rules, the servers' allocation deciders, which say whether one copy may go to one node now. It takes values
// and returns values; it never sees a solver, a clock or the network. Before it stands cluster, after it solver and plan.
package model
