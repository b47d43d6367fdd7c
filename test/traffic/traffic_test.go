package traffic

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/shardonnay/shardonnay/test/realcluster"
)

func TestMain(m *testing.M) { os.Exit(realcluster.Main(m)) }

// On every product the server's own placement under this workload has a hot node, seen in the server's own counters;
// nothing fails, and every document counted as acknowledged is there.
func TestSkew(t *testing.T) {
	realcluster.ForEach(t, func(t *testing.T, p realcluster.Product) {
		c := realcluster.Shared(t, p)
		ctx, cancel := context.WithTimeout(t.Context(), 110*time.Second)
		defer cancel()

		began := time.Now()
		w, err := Build(ctx, c, 1)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("built in %.1f s; %d hot indices", time.Since(began).Seconds(), len(w.Hot))
		copies, err := c.Copies(ctx)
		if err != nil {
			t.Fatal(err)
		}
		indices := map[string]bool{}
		for _, one := range copies {
			indices[one.Index] = true
		}
		if len(indices) < 40 || len(copies) < 200 {
			t.Errorf("%d indices with %d copies, want at least 40 with 200", len(indices), len(copies))
		}

		stop := w.Start()
		load, err := w.Measure(ctx, 10*time.Second)
		totals := stop()
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("expected %.2f; %v", PeakToMean(w.ExpectedSearch(copies)), load)
		t.Logf("%.3f busy s/s of search per node, %.4f of indexing, %.1f MB; %d searches", load.Search, load.Index, load.Disk[0]/1e6, totals.Searches)
		if skew := PeakToMean(load.Search); skew < 1.8 {
			t.Errorf("search load peaks at %.2f of the mean, want at least 1.8: %v", skew, load.Search)
		}
		if len(load.Changed) > 0 {
			t.Errorf("copies changed place while nobody moved them: %v", load.Changed)
		}
		if totals.FirstError != nil || totals.FailedSearches > 0 || totals.Searches == 0 {
			t.Errorf("%d of %d searches failed; first error %v", totals.FailedSearches, totals.Searches, totals.FirstError)
		}
		for _, name := range append(w.Written, w.Hot...) {
			count, err := c.DocCount(ctx, name)
			if err != nil {
				t.Fatal(err)
			}
			if count != totals.Docs[name] {
				t.Errorf("%s holds %d documents, %d were acknowledged", name, count, totals.Docs[name])
			}
		}
	})
}
