// Package mover carries a plan out: it asks the cluster for a few moves at a time, watches each until it has landed or
// ended otherwise, and stops when the cluster has other worries.
//
// It owns everything that writes to a cluster: the moves, the ownership of rebalancing and the record of it, the ledger of
// what was moved lately. It decides nothing about where copies should be, and it reads again before each request, because
// a plan is old from the moment it is made. It never sends another command than move, and cancel at the target of a
// relocation of its own. Before it stands plan; after it the cluster; the loop in rebalance calls it.
package mover
