// Package collector turns what a cluster answers into a cluster.Snapshot: what every shard copy costs, where it stands,
// and what binds it.
//
// A collection is one read of the routing table, one of each kind of setting, and the nodes' statistics in batches;
// where it contradicts itself there is no snapshot, but an error that says what and a Reason for the metrics. Rates come
// from two samples of the same counters, smoothed over time and kept over restarts. The same answers can be saved to a
// folder and read from one, or from a bundle of Elastic's support diagnostics: the way from answers to snapshot is one.
// The package asks and never orders. Before it stands es, after it the model.
package collector
