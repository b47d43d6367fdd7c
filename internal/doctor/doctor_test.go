package doctor

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/shardonnay/shardonnay/internal/cluster/clustertest"
)

// TestExamine plants faults in small clusters and shows everything that is found.
func TestExamine(t *testing.T) {
	datadriven.RunTest(t, "testdata/findings", func(t *testing.T, d *datadriven.TestData) string {
		s, err := clustertest.Parse(d.Input)
		if err != nil {
			return err.Error() + "\n"
		}
		e := Evidence{Snapshot: s}
		for _, arg := range d.CmdArgs {
			switch arg.Key {
			case "wishes":
				e.Wishes = 3
			case "unreadable":
				e.WishesRefused = true
			case "refused":
				e.RerouteRefused = errors.New("403 security_exception")
			case "owner":
				s.Settings.Ownership = map[string]string{"owner": arg.Vals[0]}
			case "expired":
				e.RecordExpired = true
			case "transient":
				s.Settings.Transient = arg.Vals
			case "no_disk":
				s.Settings.DiskThreshold = false
			case "allocation":
				s.Settings.AllocationEnable = arg.Vals[0]
			}
		}
		var out strings.Builder
		for _, f := range Examine(e) {
			fmt.Fprintf(&out, "%s %s %s: %s\n  cure: %s\n", f.Severity, f.ID, f.Subject, f.Text, f.Cure)
		}
		if out.Len() == 0 {
			return "nothing found\n"
		}
		return out.String()
	})
}
