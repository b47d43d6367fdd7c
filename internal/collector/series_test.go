package collector

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/es"
)

// TestSeries reads names, one a line ("stream NAME: a b c" is a data stream, a name with * an alias writes to), and shows
// what they are taken for on the evening of 2026-11-29.
func TestSeries(t *testing.T) {
	now := time.Date(2026, 11, 29, 20, 0, 0, 0, time.UTC)
	datadriven.RunTest(t, "testdata/series.txt", func(t *testing.T, d *datadriven.TestData) string {
		var indices []cluster.Index
		var streams []es.Stream
		writes := map[string]bool{}
		for line := range strings.SplitSeq(d.Input, "\n") {
			if rest, ok := strings.CutPrefix(line, "stream "); ok {
				name, backing, _ := strings.Cut(rest, ": ")
				streams = append(streams, es.Stream{Name: name, Indices: strings.Fields(backing)})
				continue
			}
			name, written := strings.CutSuffix(line, "*")
			if written {
				writes[name] = true
			}
			indices = append(indices, cluster.Index{Name: name})
		}
		nameSeries(indices, streams, writes, now)
		slices.SortFunc(indices, func(a, b cluster.Index) int { return strings.Compare(a.Name, b.Name) })
		var out strings.Builder
		for _, x := range indices {
			line := fmt.Sprintf("%-36s %s", x.Name, x.Series)
			if x.Newest {
				line += " (newest)"
			}
			out.WriteString(strings.TrimRight(line, " ") + "\n")
		}
		return out.String()
	})
}
