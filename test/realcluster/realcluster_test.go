package realcluster

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

// testContext ends well within the two minutes a test over a real cluster may take.
func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 110*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// must fails the test on an error: what follows would make no sense.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// value is must for calls with a result: value(f())(t).
func value[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		must(t, err)
		return v
	}
}

// pids are the processes of the cluster.
func pids(c *Cluster) []int {
	var ids []int
	for _, p := range c.processes() {
		ids = append(ids, p.cmd.Process.Pid)
	}
	return ids
}

// mustBeGone checks that nothing of the cluster is left: no process, no listener, no folder.
func mustBeGone(t *testing.T, c *Cluster, ids []int) {
	t.Helper()
	for _, id := range ids {
		if err := syscall.Kill(id, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d is still there after Stop (%v)", id, err)
		}
	}
	for _, address := range c.Addresses() {
		listener, err := net.Listen("tcp", strings.TrimPrefix(address, "http://"))
		if err != nil {
			t.Errorf("port still in use after Stop: %v", err)
			continue
		}
		listener.Close()
	}
	if _, err := os.Stat(c.base); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("folder %s is still there after Stop (%v)", c.base, err)
	}
}

// primaryOf is the one copy that is the shard's primary.
func primaryOf(t *testing.T, copies []Copy, index string, shard int) Copy {
	t.Helper()
	for _, c := range copies {
		if c.Index == index && c.Shard == shard && c.Primary {
			return c
		}
	}
	t.Fatalf("no primary of %s/%d in %+v", index, shard, copies)
	return Copy{}
}

// One cluster of each product says who it is, holds indices, pins one, carries out a move and refuses another, tells
// its settings, comes back empty for the next test, and leaves nothing behind.
func TestCluster(t *testing.T) {
	ForEach(t, func(t *testing.T, p Product) {
		c := Shared(t, p)
		ctx := testContext(t)

		var root struct {
			ClusterName string `json:"cluster_name"`
			Version     struct {
				Number       string
				Distribution string
			}
		}
		must(t, c.Get(ctx, "/", &root))
		if root.ClusterName != c.Name || root.Version.Number != p.Version {
			t.Errorf("GET / says %+v, want cluster %s of version %s", root, c.Name, p.Version)
		}
		var attributes []struct{ Node, Value string }
		must(t, c.Get(ctx, "/_cat/nodeattrs?format=json&h=node,attr,value&s=node", &attributes))
		zones := map[string]string{}
		for _, a := range attributes {
			if len(a.Value) == 1 {
				zones[a.Node] = a.Value
			}
		}
		if diff := cmp.Diff(map[string]string{"n0": "a", "n1": "b", "n2": "c", "n3": "a", "n4": "b", "n5": "c"}, zones); diff != "" {
			t.Errorf("zones of the nodes (-want +got):\n%s", diff)
		}

		must(t, c.PutSettings(ctx, map[string]any{"cluster.routing.rebalance.enable": "none"}))
		must(t, c.CreateIndex(ctx, Index{Name: "spread", Shards: 3, Replicas: 1}))
		must(t, c.CreateIndex(ctx, Index{Name: "pinned", Node: "n4"}))
		must(t, c.WaitGreen(ctx))
		copies := value(c.Copies(ctx))(t)
		if len(copies) != 7 {
			t.Errorf("%d copies, want 7: %+v", len(copies), copies)
		}
		if at := primaryOf(t, copies, "pinned", 0); at.Node != "n4" || at.State != "STARTED" || at.AllocationID == "" {
			t.Errorf("the pinned index is at %+v, want n4", at)
		}

		for range 3 {
			must(t, c.Post(ctx, "/pinned/_bulk", "{\"index\":{}}\n{\"n\":1}\n{\"index\":{}}\n{\"n\":2}\n", nil))
		}
		before := value(c.StateVersion(ctx))(t)
		must(t, c.Move(ctx, "pinned", 0, "n4", "n1"))
		must(t, c.WaitGreen(ctx))
		if at := primaryOf(t, value(c.Copies(ctx))(t), "pinned", 0); at.Node != "n1" {
			t.Errorf("after the move the copy is at %+v, want n1", at)
		}
		if after := value(c.StateVersion(ctx))(t); after <= before {
			t.Errorf("state version went from %d to %d over a move", before, after)
		}
		if n := value(c.DocCount(ctx, "pinned"))(t); n != 6 {
			t.Errorf("%d documents after the move, want 6", n)
		}
		err := c.Move(ctx, "spread", 0, primaryOf(t, copies, "spread", 0).Node, primaryOf(t, copies, "spread", 0).Node)
		if err == nil || !strings.Contains(err.Error(), "same_shard") {
			t.Errorf("a move onto the node that holds the copy gave %v, want a refusal by same_shard", err)
		}
		var status *StatusError
		if err := c.Get(ctx, "/missing", nil); !errors.As(err, &status) || status.Status != 404 {
			t.Errorf("reading a missing index gave %v, want status 404", err)
		}
		if err := c.Kill(3); !errors.Is(err, errOneProcess) {
			t.Errorf("killing one of many nodes in a process gave %v", err)
		}
		want := map[string]string{"persistent.cluster.routing.rebalance.enable": "none"}
		if diff := cmp.Diff(want, value(c.Settings(ctx))(t)); diff != "" {
			t.Errorf("settings (-want +got):\n%s", diff)
		}

		must(t, c.PutSettings(ctx, map[string]any{"cluster.metadata.shardonnay.owner": "somebody"}))
		must(t, c.Reset(ctx))
		if left := value(c.Copies(ctx))(t); len(left) > 0 {
			t.Errorf("after Reset there are still %+v", left)
		}
		if left := value(c.Settings(ctx))(t); len(left) > 0 {
			t.Errorf("after Reset there are still settings %v", left)
		}
	})
}
