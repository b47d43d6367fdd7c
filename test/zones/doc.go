// Package zones tests the zone controller against real OpenSearch clusters, one process per node, in which zones are
// killed, frozen and taken out while searches and writes go on. The names of the tests are those of the acceptance
// scenarios (A1, A2, ...); those that need time or faults beyond a real cluster are in internal/zones, against the
// simulator.
package zones
