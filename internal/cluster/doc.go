// Package cluster holds what Shardonnay knows of one cluster at one moment: nodes, indices, shard copies, what each
// copy costs, and the settings that decide where a copy may live.
//
// The collector makes a Snapshot, everything after it only reads one. The package is values and arithmetic: it imports
// the standard library, reads no clock, touches no file and no network. Before it stands the collector, after it the
// model.
package cluster
