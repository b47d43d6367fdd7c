// Package realcluster starts real Elasticsearch and OpenSearch clusters on this machine for tests: from published
// artifacts, on loopback, on ports of its own, and never leaves a process behind.
//
// Launchers (Java sources under java/, one pom per product) are resolved and compiled once into a cache folder, the
// user's or $SHARDONNAY_TEST_CACHE; after that no network is needed. A cluster is either one JVM for all nodes, which
// is quick and cheap, or one process per node, which can be killed, frozen, restarted, set otherwise and upgraded node by
// node. One product has users and TLS, by the security plugin.
//
// Tests take a cluster in one of two ways: Shared lends the one cluster that a test binary keeps per product, emptied;
// Start makes one for this test alone. Programs other than tests use Launch.
package realcluster
