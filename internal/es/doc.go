// Package es is the thin REST client of the daemon: it asks an Elasticsearch or OpenSearch cluster and turns the
// answers into compact values.
//
// It owns authentication, TLS, several seed addresses, time limits, retries (reads only; a write is sent exactly once
// on every layer) and the mapping of every way to fail onto a cluster.Error. Each answer has a decoder that reads JSON
// token by token from any io.Reader, so that a capture folder and a live cluster go through the same code. The package
// makes no decisions and keeps no picture of the cluster. Before it stands the network; after it collector, which
// assembles snapshots, and mover, which asks for moves. There is no code here for any of the allocate commands: the
// two that can lose data cannot be sent by accident.
package es
