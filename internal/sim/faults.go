package sim

import (
	"net/http"
	"slices"
	"time"
)

// FaultKind is a way for an answer to go wrong.
type FaultKind string

// The kinds of fault.
const (
	FaultStatus  FaultKind = "status"  // the request fails with Fault.Status before anything is done
	FaultSlow    FaultKind = "slow"    // the answer comes Fault.Delay of wall time late
	FaultCut     FaultKind = "cut"     // the body breaks off in the middle
	FaultHTML    FaultKind = "html"    // a proxy answers with a page of its own
	FaultGarbage FaultKind = "garbage" // the body is not JSON
	FaultLost    FaultKind = "lost"    // the request is carried out, then the connection closes without an answer
	FaultRefuse  FaultKind = "refuse"  // the connection closes before anything is done
	FaultAct     FaultKind = "act"     // something happens in the cluster just before the answer: Fault.Then
)

// Fault makes answers go wrong, on demand.
type Fault struct {
	Kind   FaultKind
	Node   string        // whose own address the request came to; "": any address
	Method string        // "": any
	Path   string        // with * for anything; "": any
	Status int           // FaultStatus: 429, 503, 403, ...
	Skip   int           // requests to let pass first
	Count  int           // requests to spoil; 0: until ClearFaults
	Delay  time.Duration // FaultSlow
	Then   func(*Cluster)

	hit int
}

// Inject adds a fault. The first one that fits a request is the one it meets.
func (c *Cluster) Inject(f Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = append(c.faults, &f)
}

// ClearFaults ends all faults.
func (c *Cluster) ClearFaults() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = nil
}

// faultFor is what this request meets at a node's address ("": the cluster's), if anything; it counts as met.
func (c *Cluster) faultFor(node, method, path string) *Fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, f := range c.faults {
		if f.Node != "" && f.Node != node || f.Method != "" && f.Method != method || f.Path != "" && !matchWildcard(f.Path, path) {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		f.hit++
		met := *f
		if f.Count > 0 && f.hit >= f.Count {
			c.faults = slices.Delete(c.faults, i, i+1)
		}
		return &met
	}
	return nil
}

// before does what happens to a request before it is carried out, and reports whether that was all.
func (f *Fault) before(c *Cluster, rw http.ResponseWriter, r *http.Request) bool {
	switch f.Kind {
	case FaultRefuse:
		panic(http.ErrAbortHandler)
	case FaultSlow:
		timer := time.NewTimer(f.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
			return true
		}
	case FaultAct:
		f.Then(c)
	case FaultHTML:
		(&reply{
			status: http.StatusBadGateway, header: http.Header{"Content-Type": {"text/html"}},
			body: []byte("<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>\n"),
		}).send(rw, r)
		return true
	case FaultStatus:
		e := &apiError{status: f.Status, kind: "simulated_exception", reason: "asked for by the scenario"}
		switch f.Status {
		case http.StatusTooManyRequests:
			e.kind, e.reason = "circuit_breaking_exception", "[parent] Data too large, data for [<http_request>] would be larger than the limit"
		case http.StatusServiceUnavailable:
			e.kind, e.reason = "cluster_block_exception", "blocked by: [SERVICE_UNAVAILABLE/1/state not recovered / initialized];"
		case http.StatusForbidden:
			e.kind, e.reason = "security_exception", "action is unauthorized for this user"
		}
		w := newJSON("")
		e.write(w)
		(&reply{status: f.Status, header: http.Header{"Content-Type": {"application/json"}}, body: w.buf}).send(rw, r)
		return true
	}
	return false
}

// after spoils a finished answer.
func (f *Fault) after(out *reply) *reply {
	switch f.Kind {
	case FaultLost:
		panic(http.ErrAbortHandler)
	case FaultCut:
		out.cut = max(len(out.body)/2, 1)
	case FaultGarbage:
		out.body = append([]byte("\x00\x01{{"), out.body[:len(out.body)/2]...)
	}
	return out
}
