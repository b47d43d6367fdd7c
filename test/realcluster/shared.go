package realcluster

import (
	"context"
	"sync"
	"testing"
	"time"
)

// loan is the one cluster of a product that a test binary keeps.
type loan struct {
	busy    sync.Mutex // held by the test that has it
	cluster *Cluster
}

var loans = struct {
	sync.Mutex
	byProduct map[Product]*loan
}{byProduct: map[Product]*loan{}}

// Shared lends the test binary's one cluster of six nodes in one JVM for the product: started at the first call, given
// to one test at a time, taken back and emptied (see Reset) when the test ends. A binary that calls it must end
// by Main. The test is skipped, loudly, where the machine has no Java for the product.
func Shared(tb testing.TB, p Product) *Cluster {
	tb.Helper()
	p.SkipUnlessAvailable(tb)
	loans.Lock()
	l := loans.byProduct[p]
	if l == nil {
		l = &loan{}
		loans.byProduct[p] = l
	}
	loans.Unlock()

	l.busy.Lock()
	tb.Cleanup(func() { l.takeBack(tb) })
	if l.cluster == nil {
		started := time.Now()
		c, err := Launch(context.Background(), Options{Product: p})
		if err != nil {
			tb.Fatal(err)
		}
		tb.Logf("%s with 6 nodes in one JVM formed after %.1f s", p, time.Since(started).Seconds())
		l.cluster = c
	}
	return l.cluster
}

// takeBack empties the cluster, so that it costs next to nothing while other tests run, and stops one that cannot be
// emptied: the next test gets a new one.
func (l *loan) takeBack(tb testing.TB) {
	defer l.busy.Unlock()
	if l.cluster == nil {
		return // it did not start
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := l.cluster.Reset(ctx); err != nil {
		tb.Logf("the shared %s cluster is no longer usable: %v\n%s", l.cluster.Product, err, l.cluster.LogTail())
		l.cluster.Stop()
		l.cluster = nil
	}
}

// Main runs the tests of a binary that uses Shared, then stops the shared clusters: os.Exit(realcluster.Main(m)).
func Main(m *testing.M) int {
	defer StopShared()
	return m.Run()
}

// StopShared stops all shared clusters.
func StopShared() {
	loans.Lock()
	defer loans.Unlock()
	for p, l := range loans.byProduct {
		if l.cluster != nil {
			l.cluster.Stop()
		}
		delete(loans.byProduct, p)
	}
}
