package model

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/shardonnay/shardonnay/internal/cluster/clustertest"
)

// TestBuiltin foretells the server's own balancer.
func TestBuiltin(t *testing.T) {
	datadriven.RunTest(t, "testdata/builtin", func(t *testing.T, d *datadriven.TestData) string {
		s, err := clustertest.Parse(d.Input)
		if err != nil {
			return err.Error() + "\n"
		}
		var out strings.Builder
		for _, move := range Builtin(s) {
			fmt.Fprintf(&out, "%s: %s to %s\n", s.Copies[move.Copy].AllocationID, s.Nodes[move.From].Name, s.Nodes[move.To].Name)
		}
		if out.Len() == 0 {
			return "content\n"
		}
		return out.String()
	})
}
