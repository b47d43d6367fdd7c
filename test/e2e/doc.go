// Package e2e runs the built program against real clusters: the whole of it, from the command line to the copies on disk.
//
// Every test asks the server itself what came of it: its counters, its routing table, its settings.
package e2e
