package sim_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/shardonnay/shardonnay/internal/sim"
)

// Three zones, every node at its own address; an answer is lost, and a zone is halted.
func Example_zones() {
	c := sim.New(sim.Config{Seed: 1, Settings: map[string]string{"discovery.find_peers_interval_during_decommission": "1s"}})
	check := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	for _, zone := range []string{"a", "b", "c"} {
		for i, roles := range [][]string{{"cluster_manager"}, {"data"}, {"data"}} {
			_, err := c.AddNode(sim.NodeSpec{Name: zone + strconv.Itoa(i), Roles: roles, Attributes: map[string]string{"zone": zone}})
			check(err)
		}
	}
	check(c.SetPersistent(map[string]string{
		"cluster.routing.allocation.awareness.attributes":        "zone",
		"cluster.routing.allocation.awareness.force.zone.values": "a,b,c",
	}))
	check(c.AddIndex(sim.IndexSpec{Name: "logs", Shards: 3, Replicas: 2, Bytes: 1 << 30, Search: 3}))
	fmt.Println("unassigned", c.Settle())
	srv, err := sim.Serve(context.Background(), c, sim.Options{PerNode: true})
	check(err)
	defer srv.Close()
	client := &http.Client{Transport: &http.Transport{}, Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	call := func(method, addr, path, body string) {
		req, err := http.NewRequestWithContext(context.Background(), method, "http://"+addr+path, strings.NewReader(body))
		check(err)
		res, err := client.Do(req)
		if err != nil {
			fmt.Println("no answer")
			return
		}
		defer res.Body.Close()
		answer, err := io.ReadAll(res.Body)
		check(err)
		fmt.Println(res.StatusCode, string(answer))
	}

	const weights = "/_cluster/routing/awareness/zone/weights"
	call("PUT", srv.Addr(), weights, `{"weights":{"a":"1","b":"1","c":"0"},"_version":-1}`)
	call("GET", srv.NodeAddr("c1"), "/_cluster/health?local=true&ensure_node_weighed_in=true", "")

	c.Inject(sim.Fault{Kind: sim.FaultLost, Method: "PUT", Path: weights, Count: 1})
	call("PUT", srv.Addr(), weights, `{"weights":{"a":"0","b":"1","c":"1"},"_version":0}`)
	call("GET", srv.NodeAddr("b0"), weights+"?local=true", "")

	for _, name := range c.NodesIn("zone", "a") {
		c.Freeze(name, true)
	}
	c.Advance(time.Minute)
	fmt.Println("leader", c.Master(), "of", c.Voters())
	// Output:
	// unassigned 0
	// 200 {"acknowledged":true}
	// 421 {"error":{"root_cause":[{"type":"node_weighed_away_exception","reason":"local node is weighed away"}],"type":"node_weighed_away_exception","reason":"local node is weighed away"},"status":421}
	// no answer
	// 200 {"weights":{"a":"0.0","b":"1.0","c":"1.0"},"_version":1,"discovered_cluster_manager":true}
	// leader b0 of [b0 c0 a0]
}
