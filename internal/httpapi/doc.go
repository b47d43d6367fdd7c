// Package httpapi serves what the daemon knows over HTTP: metrics, health, the latest plan, and pause and resume where a
// token allows them.
//
// It reads through one small interface and changes nothing but the pause. Before it stands rebalance, after it only cmd.
package httpapi
