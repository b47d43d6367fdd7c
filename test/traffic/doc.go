// Package traffic makes load on a real cluster for tests, and measures where it lands.
//
// Build lets the server's own allocator place the indices, looks where the copies came to be, and only then says which
// indices are hot: those with a copy on one certain node. That is the hot spot which counting shards cannot see, and it
// is there on every product and in every run. Start sends the searches and writes, Measure reads from the server's
// counters what each node got.
package traffic
