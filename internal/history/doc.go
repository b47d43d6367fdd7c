// Package history remembers the last day of a cluster's balance, for the page: how hot every node was at each cycle, how
// the cycle ended, and which copies moved.
//
// What it keeps is bounded whatever the cluster does: where cycles come faster than it can keep them it has fewer of them,
// evenly spaced. It decides nothing, reads no clock and forgets everything with the process. Before it stand plan and
// mover, after it httpapi and cmd.
package history
