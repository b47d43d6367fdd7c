// Package sim is a virtual search cluster: nodes, indices, shard copies, the rules of placement, relocations that take
// time, load that follows the age of an index, and the REST dialects of both products in front of it.
//
// It stands in for everything beyond the wire. The same daemon that runs against real clusters runs against it, with
// virtual time in tests and scaled real time behind a real port in the demo. Same seed and same commands give the same
// bytes.
//
// It imports nothing else of the project on purpose: its deciders are written a second time, from what real clusters
// answered, so that a mistake in the model shows as a refused move here and does not hide in shared code.
//
//	c := sim.New(sim.Config{Distribution: sim.OpenSearch, Version: "2.19.6", Seed: 1})
//	c.AddNode(sim.NodeSpec{Name: "n1", Attributes: map[string]string{"zone": "a"}})
//	c.AddIndex(sim.IndexSpec{Name: "logs", Shards: 2, Replicas: 1, Bytes: 10 << 30, Search: 0.4})
//	c.Settle()                     // everything started, as if it had always been there
//	srv, err := sim.Serve(ctx, c, sim.Options{Speed: 60})   // one second on the wall is a minute in the cluster
//
// # Zones
//
// A cluster of three zones, with one node that may lead and two that hold data in each, every node at an address of its
// own:
//
//	c := sim.New(sim.Config{Seed: 1, Settings: map[string]string{"discovery.find_peers_interval_during_decommission": "1s"}})
//	for _, zone := range []string{"a", "b", "c"} {
//		for i, roles := range [][]string{{"cluster_manager"}, {"data"}, {"data"}} {
//			c.AddNode(sim.NodeSpec{Name: zone + strconv.Itoa(i), Roles: roles, Attributes: map[string]string{"zone": zone}})
//		}
//	}
//	c.SetPersistent(map[string]string{
//		"cluster.routing.allocation.awareness.attributes":        "zone",
//		"cluster.routing.allocation.awareness.force.zone.values": "a,b,c",
//	})
//	c.AddIndex(sim.IndexSpec{Name: "logs", Shards: 3, Replicas: 2, Bytes: 1 << 30, Search: 3})
//	c.Settle()
//	srv, err := sim.Serve(ctx, c, sim.Options{PerNode: true}) // time stands still but for Advance and requests that wait
//	srv.URL()              // a common address: the first node that answers
//	srv.NodeAddr("a1")     // a1's own "127.0.0.1:port", which a1 also publishes in GET /_nodes/http
//	c.NodeHandler("a1")    // the same without a port
//
// What may happen: Kill and Restart a process, Freeze it as SIGSTOP does, each for all of NodesIn("zone", "a"); Mute its
// statistics; LoseMaster for a while; Reject, SetOpen; SetWeights and Decommission by another hand; and Inject: FaultLost
// carries a request out and drops the answer, FaultRefuse closes the connection, Fault.Node spoils only what comes to one
// node's own address, an empty Fault.Node and Path everything. A request to a halted node hangs until its client gives up,
// which takes time on the wall; one that waits in the cluster (a change that a halted node has not acknowledged, a search
// on a halted copy, a master that is being elected) passes virtual time by itself where Options.Speed is 0.
//
// What came of it: Master, Voters, Weights, Decommissioned, Loads, Counts, Tally, Status. What the simulator does not show:
// in-sync copies are the active ones; a process put out of the cluster knows weights, votes, decommission and nodes as they
// were, but indices as they are; a restarted one that is not let in knows more of the cluster than a real one.
package sim
