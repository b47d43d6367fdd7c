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
package sim
