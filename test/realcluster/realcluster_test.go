package realcluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

// testContext ends where something hangs. A test takes some seconds, but the machine may be busy with other things.
func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
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

// With one process per node a data node can be killed, frozen and brought back, and what it held survives.
func TestProcessPerNode(t *testing.T) {
	for _, p := range []Product{OpenSearch2, Elasticsearch8} {
		t.Run(p.Name(), func(t *testing.T) {
			started := time.Now()
			c := Start(t, Options{Product: p, Nodes: 4, ProcessPerNode: true})
			t.Logf("%s with 4 nodes in 4 processes formed after %.1f s", p, time.Since(started).Seconds())
			ctx := testContext(t)
			ids := pids(c)
			if len(ids) != 4 {
				t.Fatalf("%d processes, want 4", len(ids))
			}
			var eligible []bool
			for _, n := range c.Nodes() {
				eligible = append(eligible, n.Eligible)
			}
			if diff := cmp.Diff([]bool{true, true, true, false}, eligible); diff != "" {
				t.Errorf("eligible nodes (-want +got):\n%s", diff)
			}

			must(t, c.PutSettings(ctx, map[string]any{"cluster.routing.rebalance.enable": "none"}))
			must(t, c.CreateIndex(ctx, Index{Name: "kept", Node: "n3"}))
			must(t, c.Post(ctx, "/kept/_bulk", "{\"index\":{}}\n{\"n\":1}\n", nil))
			held := primaryOf(t, value(c.Copies(ctx))(t), "kept", 0)

			must(t, c.Kill(3))
			nodeCount := func(want int) error {
				return poll(ctx, func() error {
					var health struct {
						Nodes int `json:"number_of_nodes"`
					}
					if err := c.Get(ctx, "/_cluster/health", &health); err != nil || health.Nodes == want {
						return err
					}
					return fmt.Errorf("%d nodes, want %d", health.Nodes, want)
				})
			}
			must(t, nodeCount(3))
			began := time.Now()
			must(t, c.Restart(ctx, 3))
			must(t, c.WaitGreen(ctx))
			t.Logf("green %.1f s after restarting a killed node", time.Since(began).Seconds())
			if again := primaryOf(t, value(c.Copies(ctx))(t), "kept", 0); again.NodeID != held.NodeID || again.Node != "n3" {
				t.Errorf("after the restart the copy is at %+v, before it was at %+v", again, held)
			}
			if n := value(c.DocCount(ctx, "kept"))(t); n != 1 {
				t.Errorf("%d documents after the restart, want 1", n)
			}

			// A frozen node takes no request but keeps its connections; the rest of the cluster waits for it.
			must(t, c.Freeze(3))
			var stats struct {
				Nodes struct{ Failed int } `json:"_nodes"`
			}
			must(t, c.Get(ctx, "/_nodes/stats/process?timeout=1s", &stats))
			if stats.Nodes.Failed != 1 {
				t.Errorf("%d nodes failed to answer, want the frozen one", stats.Nodes.Failed)
			}
			must(t, c.Thaw(3))
			must(t, c.WaitGreen(ctx))

			// Reset mends what a test has broken.
			must(t, c.Kill(3))
			must(t, c.Reset(ctx))
			if n := len(value(c.Copies(ctx))(t)); n > 0 || len(c.living()) != 4 {
				t.Errorf("after Reset %d of 4 nodes run and there are %d copies", len(c.living()), n)
			}

			ids = pids(c)
			c.Stop()
			mustBeGone(t, c, ids)
		})
	}
}

// orphanVariable makes a run of this test binary start a cluster, print its processes, and wait to be killed.
const orphanVariable = "REALCLUSTER_TEST_ORPHANS"

// When a test binary is killed its servers end too, even a frozen one, and the next cluster removes their folder.
func TestNothingOutlivesTheTestBinary(t *testing.T) {
	if os.Getenv(orphanVariable) != "" {
		c, err := Launch(t.Context(), Options{Product: OpenSearch2, Nodes: 2, ProcessPerNode: true})
		must(t, err)
		must(t, c.Freeze(1))
		fmt.Println("orphans", c.base, pids(c)[0], pids(c)[1])
		select {} // until killed
	}
	OpenSearch2.SkipUnlessAvailable(t)
	must(t, OpenSearch2.Prepare(testContext(t)))
	binary := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	binary.Env = append(os.Environ(), orphanVariable+"=1")
	output := value(binary.StdoutPipe())(t)
	must(t, binary.Start())
	var base string
	ids := make([]int, 2)
	for lines := bufio.NewScanner(output); lines.Scan(); {
		if _, err := fmt.Sscanf(lines.Text(), "orphans %s %d %d", &base, &ids[0], &ids[1]); err == nil {
			break
		}
	}
	must(t, binary.Process.Kill())
	_ = binary.Wait() // it was killed
	if base == "" {
		t.Fatal("the test binary never said what it had started")
	}
	must(t, poll(testContext(t), func() error {
		for _, id := range ids {
			if err := syscall.Kill(id, 0); !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("process %d is still there", id)
			}
		}
		return nil
	}))
	next, release, err := newBase(OpenSearch2)
	must(t, err)
	defer release()
	defer os.RemoveAll(next)
	if _, err := os.Stat(base); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("folder %s outlived the test binary and the start of the next cluster (%v)", base, err)
	}
}

// A cluster that cannot start says why, with the server's own words, and leaves nothing behind.
func TestFailedStart(t *testing.T) {
	OpenSearch2.SkipUnlessAvailable(t)
	c, err := Launch(testContext(t), Options{Product: OpenSearch2, Nodes: 1, Settings: map[string]string{"no.such.setting": "1"}})
	if err == nil || !strings.Contains(err.Error(), "unknown setting [no.such.setting]") {
		t.Errorf("starting with an unknown setting gave %v", err)
	}
	if c != nil {
		t.Error("a cluster that did not start was returned")
	}
}

// Stop of a cluster with all nodes in one JVM leaves nothing behind, on every product.
func TestStop(t *testing.T) {
	ForEach(t, func(t *testing.T, p Product) {
		c := Start(t, Options{Product: p, Nodes: 1})
		ids := pids(c)
		c.Stop()
		mustBeGone(t, c, ids)
	})
}

func TestFindJava(t *testing.T) {
	home := t.TempDir()
	must(t, os.Mkdir(filepath.Join(home, "bin"), 0o755))
	must(t, os.WriteFile(filepath.Join(home, "bin", "javac"), nil, 0o755))
	release := func(text string) {
		must(t, os.WriteFile(filepath.Join(home, "release"), []byte(text), 0o644))
	}
	release("IMPLEMENTOR=\"x\"\nJAVA_VERSION=\"21.0.2\"\n")
	t.Setenv("JAVA21_HOME", home)
	if found, err := findJava(21); found != home || err != nil {
		t.Errorf("with JAVA21_HOME set, found %q, %v", found, err)
	}
	release("JAVA_VERSION=\"17.0.2\"\n")
	if _, err := findJava(21); err == nil || !strings.Contains(err.Error(), "JAVA21_HOME="+home) {
		t.Errorf("with a JAVA21_HOME of 17, got %v", err)
	}
	if _, err := findJava(99); err == nil {
		t.Error("found a JDK 99")
	}
}
