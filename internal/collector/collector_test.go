package collector

import (
	"context"
	"fmt"
	"math"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/es"
	"github.com/shardonnay/shardonnay/internal/sim"
)

// lab is a simulated cluster, in virtual time, with a collector.
type lab struct {
	*sim.Cluster
	*Collector
	t      *testing.T
	client *es.Client
	o      Options
}

// products are one version of each line; each is asked for differently.
var products = []sim.Config{
	{Distribution: sim.OpenSearch, Version: "1.3.20"},
	{Distribution: sim.OpenSearch, Version: "2.19.6"},
	{Distribution: sim.OpenSearch, Version: "3.9.0"},
	{Distribution: sim.Elasticsearch, Version: "7.17.28"},
	{Distribution: sim.Elasticsearch, Version: "8.19.0"},
	{Distribution: sim.Elasticsearch, Version: "9.5.3"},
}

func newLab(t *testing.T, config sim.Config, nodes int, o Options, indices ...sim.IndexSpec) *lab {
	t.Helper()
	c := sim.New(config)
	for n := range nodes {
		if _, err := c.AddNode(sim.NodeSpec{Name: fmt.Sprintf("n%d", n), Attributes: map[string]string{"zone": string('a' + rune(n%3))}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, index := range indices {
		if err := c.AddIndex(index); err != nil {
			t.Fatal(err)
		}
	}
	c.Settle()
	l := &lab{Cluster: c, t: t, client: serve(t, c), o: o}
	l.restart()
	return l
}

// serve gives a client of a simulated cluster.
func serve(t *testing.T, c *sim.Cluster) *es.Client { return serveAs(t, c, es.Config{}) }

func serveAs(t *testing.T, c *sim.Cluster, config es.Config) *es.Client {
	t.Helper()
	server := httptest.NewServer(c.Handler())
	t.Cleanup(server.Close)
	config.Addresses, config.ReadRetries = []string{server.URL}, -1
	client, err := es.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// restart makes a new collector, as a new process would.
func (l *lab) restart() {
	l.t.Helper()
	o := l.o
	o.Now = l.Now
	var err error
	if l.Collector, err = New(l.client, o); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) collect() *cluster.Snapshot {
	l.t.Helper()
	s, err := l.Collect(context.Background())
	if err != nil {
		l.t.Fatal(err)
	}
	return s
}

// cycles collects every minute.
func (l *lab) cycles(n int) *cluster.Snapshot {
	l.t.Helper()
	var s *cluster.Snapshot
	for range n {
		l.Advance(time.Minute)
		s = l.collect()
	}
	return s
}

// total is the load of an index over all its copies.
func total(s *cluster.Snapshot, index, dimension string) float64 {
	d, x := s.DimensionAt(dimension), s.IndexAt(index)
	sum := 0.0
	for i := range s.Copies {
		if int(s.Copies[i].Index) == x {
			sum += s.Copies[i].Load[d]
		}
	}
	return sum
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.Abs(got-want) > tolerance*math.Abs(want) {
		t.Errorf("%s is %.4g, want %.4g within %g %%", what, got, want, 100*tolerance)
	}
}

// TestRatesOfEveryProduct measures known loads through every dialect.
func TestRatesOfEveryProduct(t *testing.T) {
	for _, product := range products {
		t.Run(product.Distribution+" "+product.Version, func(t *testing.T) {
			product.Seed, product.Noise = 7, -1
			l := newLab(t, product, 6, Options{},
				sim.IndexSpec{Name: "hot", Shards: 3, Replicas: 1, Bytes: 30 << 30, Search: 1.2, Write: 0.3},
				sim.IndexSpec{Name: "cold", Shards: 2, Replicas: 2, Bytes: 6 << 30, Search: 0.1},
				sim.IndexSpec{Name: "shut", Shards: 1, Replicas: 1, Bytes: 1 << 30, Closed: true},
				sim.IndexSpec{Name: "veiled", Shards: 1, Replicas: 0, Bytes: 1 << 30, Hidden: true},
			)
			s := l.collect()
			if s.Samples != 1 || s.Window != 0 {
				t.Errorf("%d samples over %v", s.Samples, s.Window)
			}
			s = l.cycles(3)
			if s.Samples != 2 || s.Window != time.Minute {
				t.Errorf("%d samples over %v", s.Samples, s.Window)
			}
			if len(s.Nodes) != 6 || len(s.Indices) != 4 || len(s.Copies) != 6+6+2+1 {
				t.Fatalf("%d nodes, %d indices, %d copies", len(s.Nodes), len(s.Indices), len(s.Copies))
			}
			for i := range s.Copies {
				if c := &s.Copies[i]; c.Provenance != cluster.Measured || c.State != cluster.Started || c.AllocationID == "" || c.Bytes == 0 {
					t.Errorf("copy of %s: %+v", s.Indices[c.Index].Name, c)
				}
			}
			for _, n := range s.Nodes {
				if n.Capacity[0] != 8 || n.Capacity[1] != 8 || n.Capacity[2] != float64(n.Disk.Total) || n.Uptime <= 0 || n.EphemeralID == "" || n.CPU < 0 {
					t.Errorf("node %+v", n)
				}
			}
			near(t, "search of hot", total(s, "hot", "search"), 1.2, 0.02)
			near(t, "search of cold", total(s, "cold", "search"), 0.1, 0.05)
			near(t, "disk of hot", total(s, "hot", "disk"), 60<<30, 0.05)
			// Under document replication a replica does the work again.
			near(t, "indexing of hot", total(s, "hot", "index"), 0.6, 0.05)
			if shut := s.Indices[s.IndexAt("shut")]; !shut.Closed {
				t.Errorf("index %+v", shut)
			}
			if veiled := s.Indices[s.IndexAt("veiled")]; !veiled.Hidden {
				t.Errorf("index %+v", veiled)
			}
			if len(s.Warnings) > 0 {
				t.Errorf("warnings %q", s.Warnings)
			}
			if got := s.Cluster.Product.Version.String(); got != product.Version {
				t.Errorf("version %s", got)
			}
		})
	}
}
