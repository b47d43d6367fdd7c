// Package dispersion says how far apart the copies of each shard are over regions, zones and hosts, now, after a plan and at
// best, and what keeps them from being further.
//
// It takes values and returns values. Before it stand model and plan, after it rebalance and the command.
package dispersion
