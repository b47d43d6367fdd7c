// Package zones runs the zones of a cluster: some serve, one stands by and takes its turn, and a zone that fails is
// replaced by the one that stands by.
//
// A Controller looks at the cluster round by round and hands what it saw to pure code: a Detector that judges each zone,
// and a machine that decides, from the judgement, the journal and the guards, on at most one change. The cluster's metadata
// is the truth; what the journal keeps is intent, history and timers.
//
//	round: look (every zone, each node's own address) ─► Detector ─► step ─► guards ─► one change ─► read back
//
// Searches are steered by weights (OpenSearch 2.7 and newer), a zone is taken out of the write path by decommissioning it.
// What other products and versions cannot do is said, and nothing is tried there.
package zones
