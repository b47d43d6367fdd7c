package doctor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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
			case "unreadable_record":
				e.RecordUnreadable = true
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

// docs/doctor.md explains every finding there is, and no other.
func TestThePageExplainsEveryFinding(t *testing.T) {
	source, err := os.ReadFile("doctor.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "doctor.md"))
	if err != nil {
		t.Fatal(err)
	}
	all := func(pattern string, text []byte) (found []string) {
		for _, match := range regexp.MustCompile(pattern).FindAllSubmatch(text, -1) {
			found = append(found, string(match[1])+" "+strings.ToLower(string(match[2])))
		}
		slices.Sort(found)
		return slices.Compact(found)
	}
	made, explained := all(`x\.add\("([a-z-]+)", (\w+),`, source), all("(?m)^\\| `([a-z-]+)` \\| (\\w+) ", page)
	if len(made) < 20 || !slices.Equal(made, explained) {
		t.Errorf("the page explains\n%v\nthe source makes\n%v", explained, made)
	}
}
