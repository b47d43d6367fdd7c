// Package metrics owns the names, help texts and labels of everything the daemon exports to Prometheus.
//
// Its methods take what the stages of a cycle made and set the series from it; they decide nothing and remember nothing but
// which moves are under way. Labels are bounded: nodes, dimensions and fixed words, never an index or a shard, and the
// series of a node that left go with it. docs/metrics.md is generated from here.
package metrics
