package httpapi

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/history"
	"github.com/shardonnay/shardonnay/internal/model"
	"github.com/shardonnay/shardonnay/internal/plan"
)

// TestPeakOfADay tells by how much a day of 750 nodes in three dimensions, and serving it twelve times, raise the peak of a
// process's memory. It is told, not judged, for other tests of this binary have a peak of their own: run it alone.
func TestPeakOfADay(t *testing.T) {
	peak := func() (mebibytes float64) {
		text, err := os.ReadFile("/proc/self/status")
		if err != nil {
			t.Skipf("the peak of memory is not to be had here: %v", err)
		}
		_, line, _ := strings.Cut(string(text), "VmHWM:")
		if _, err := fmt.Sscan(line, &mebibytes); err != nil {
			t.Fatal(err)
		}
		return mebibytes / 1024
	}
	s := &cluster.Snapshot{}
	p := &model.Problem{Classes: []model.Class{{}}, Groups: make([]model.Group, 1)}
	for _, name := range []string{"search", "index", "disk"} {
		s.Dimensions = append(s.Dimensions, cluster.Dimension{Name: name})
		p.Dimensions = append(p.Dimensions, model.Dimension{Name: name, Weight: 1})
	}
	for n := range 750 {
		id := fmt.Sprintf("data-%03d", n)
		s.Nodes = append(s.Nodes, cluster.Node{ID: cluster.NodeID(id), Name: id + ".search.example.org"})
		p.Nodes = append(p.Nodes, model.Node{ID: id, Capacity: []float64{1, 1, 1}})
		p.Classes[0].Nodes = append(p.Classes[0].Nodes, int32(n))
		p.Copies = append(p.Copies, model.Copy{Node: int32(n), Load: []float64{1, 1 + float64(n%7), 2 + float64(n%13)}})
	}
	past := history.New()
	server := httptest.NewServer(Handler(&fakeDaemon{}, past, func() Options { return Options{Metrics: http.NotFoundHandler()} }))
	defer server.Close()
	ask := func() (bytes int64) {
		answer, err := http.Get(server.URL + "/api/v1/history?dimension=index") // the client asks for gzip, and unpacks it
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		bytes, err = io.Copy(io.Discard, answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return bytes
	}
	before := peak()
	start := time.Now().Add(-24 * time.Hour)
	for cycle := range 24 * 60 {
		past.ObservePlan(fmt.Sprint(cycle), start.Add(time.Duration(cycle)*time.Minute), s, p, &plan.Plan{})
	}
	filled := peak()
	for range 12 {
		if got := ask(); got < 2<<20 {
			t.Fatalf("an answer of %d bytes is no day", got)
		}
	}
	t.Logf("a day raises the peak by %.0f MiB, serving it twelve times by %.0f more", filled-before, peak()-filled)
}
