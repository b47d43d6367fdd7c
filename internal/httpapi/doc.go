// Package httpapi serves what the daemon knows over HTTP: the page, what the page asks for, metrics, health, the latest
// plan, and pause and resume where a token allows them.
//
// It reads through one small interface and changes nothing but the pause. Before it stand rebalance, history and page,
// after it only cmd.
package httpapi
