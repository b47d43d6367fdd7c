// Package doctor reads one snapshot and says what in the cluster stands in Shardonnay's way, and how to cure it.
//
// It decides nothing and asks nothing: what it needs has been read before, what it finds is a list for people.
package doctor
