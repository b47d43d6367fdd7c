package httpapi

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/shardonnay/shardonnay/internal/history"
	"github.com/shardonnay/shardonnay/internal/zones"
)

// TestA19LoadBalancers: a load balancer is told of each node whether to send traffic there, and nothing by what is old.
func TestA19LoadBalancers(t *testing.T) {
	node := func(name string, up bool) zones.Endpoint {
		return zones.Endpoint{Name: name, Address: "http://" + name + ":9200", Up: up}
	}
	status := &zones.Status{
		At: time.Now(), Attribute: "zone", Version: 7, Zones: []zones.ZoneStatus{
			{Zone: "a", Role: zones.Active, Endpoints: []zones.Endpoint{node("a1", true), node("a2", false)}},
			{Zone: "b", Role: zones.Active, Endpoints: []zones.Endpoint{node("b1", true), {Name: "b2", Up: true}}},
			{Zone: "c", Role: zones.Standby, Endpoints: []zones.Endpoint{node("c1", true), node("c2", false)}},
			{Zone: "d", Role: zones.Out, Endpoints: []zones.Endpoint{node("d1", false)}},
		},
	}
	options := Options{Metrics: http.NotFoundHandler()}
	handler := Handler(&fakeDaemon{}, history.New(), func() Options { return options })
	expect := func(path string, code int, contains string) {
		t.Helper()
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		if answer.Code != code || !strings.Contains(answer.Body.String(), contains) {
			t.Errorf("%s: %d %s, want %d and %q", path, answer.Code, answer.Body, code, contains)
		}
	}
	for _, path := range []string{"/api/v1/zones", "/api/v1/zones/endpoints", "/api/v1/zones/nodes/a1"} {
		expect(path, 503, "zones.mode")
	}
	options.Zones = status
	expect("/api/v1/zones", 200, `"weights_version":7`)
	expect("/api/v1/zones/nodes/a1", 200, "active")
	expect("/api/v1/zones/nodes/a2", 503, "not in the cluster")
	expect("/api/v1/zones/nodes/c1", 421, "zone c stands by")
	expect("/api/v1/zones/nodes/c2", 421, "zone c stands by")
	expect("/api/v1/zones/nodes/d1", 424, "zone d is out")
	expect("/api/v1/zones/nodes/x", 404, `no zone has a node`)
	expect("/api/v1/zones/endpoints", 200, `"zones":{"a":["http://a1:9200"],"b":["http://b1:9200"]}`)
	status.At = time.Now().Add(-2 * time.Minute)
	expect("/api/v1/zones", 200, `"weights_version":7`)
	expect("/api/v1/zones/endpoints", 503, "last looked at 2m")
	expect("/api/v1/zones/nodes/a1", 503, "last looked at 2m")
}
