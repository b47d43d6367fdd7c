package httpapi

import (
	"fmt"
	"net/http"
	"time"

	"github.com/shardonnay/shardonnay/internal/zones"
)

// staleAfter is how old what is known of the zones may be to send traffic by it: a dozen rounds of the default length, and
// within the minute in which a failover has to be through.
const staleAfter = time.Minute

// Endpoints are the nodes that should take traffic.
type Endpoints struct {
	Version        int                 `json:"version"`
	At             time.Time           `json:"at"`
	Attribute      string              `json:"attribute"`
	WeightsVersion int64               `json:"weights_version"`
	Zones          map[string][]string `json:"zones"` // addresses of the nodes that are up, of the zones that serve
}

// serveZones serves the zones, and what load balancers ask about their nodes.
func serveZones(mux *http.ServeMux, o func() Options) {
	known := func(show func(w http.ResponseWriter, r *http.Request, s *zones.Status)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if s := o().Zones; s != nil {
				show(w, r, s)
				return
			}
			problem(w, http.StatusServiceUnavailable, "the zones have not been looked at; set zones.mode to have it done by the instance that leads")
		}
	}
	fresh := func(show func(w http.ResponseWriter, r *http.Request, s *zones.Status)) http.HandlerFunc {
		return known(func(w http.ResponseWriter, r *http.Request, s *zones.Status) {
			if age := time.Since(s.At); age > staleAfter {
				problem(w, http.StatusServiceUnavailable, fmt.Sprintf("the zones were last looked at %s ago", age.Round(time.Second)))
				return
			}
			show(w, r, s)
		})
	}
	mux.HandleFunc("GET /api/v1/zones", known(func(w http.ResponseWriter, _ *http.Request, s *zones.Status) { writeJSON(w, http.StatusOK, s) }))
	mux.HandleFunc("GET /api/v1/zones/endpoints", fresh(func(w http.ResponseWriter, _ *http.Request, s *zones.Status) {
		writeJSON(w, http.StatusOK, endpointsOf(s))
	}))
	mux.HandleFunc("GET /api/v1/zones/nodes/{name}", fresh(func(w http.ResponseWriter, r *http.Request, s *zones.Status) {
		code, text := service(s, r.PathValue("name"))
		if code == http.StatusOK {
			writeJSON(w, code, map[string]string{"status": text})
			return
		}
		problem(w, code, text)
	}))
}

func endpointsOf(s *zones.Status) Endpoints {
	e := Endpoints{Version: 1, At: s.At, Attribute: s.Attribute, WeightsVersion: s.Version, Zones: map[string][]string{}}
	for _, z := range s.Zones {
		if z.Role != zones.Active {
			continue
		}
		e.Zones[z.Zone] = []string{}
		for _, n := range z.Endpoints {
			if n.Up && n.Address != "" {
				e.Zones[z.Zone] = append(e.Zones[z.Zone], n.Address)
			}
		}
	}
	return e
}

// service tells whether a node should take traffic, in the codes that OpenSearch itself answers with for
// ensure_node_weighed_in: 421 for one of a standby, 424 for one that is taken out.
func service(s *zones.Status, name string) (code int, text string) {
	for _, z := range s.Zones {
		for _, n := range z.Endpoints {
			switch {
			case n.Name != name:
			case z.Role == zones.Out:
				return http.StatusFailedDependency, fmt.Sprintf("zone %s is out of the cluster", z.Zone)
			case z.Role == zones.Standby:
				return http.StatusMisdirectedRequest, fmt.Sprintf("zone %s stands by", z.Zone)
			case !n.Up:
				return http.StatusServiceUnavailable, "the node is not in the cluster, or does not answer"
			default:
				return http.StatusOK, "active"
			}
		}
	}
	return http.StatusNotFound, fmt.Sprintf("no zone has a node %q", name)
}
