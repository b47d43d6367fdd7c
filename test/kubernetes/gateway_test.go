package kubernetes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shardonnay/shardonnay/internal/mover"
)

// settle is how long a claim to rebalancing is left to settle before anybody acts on it: claimSettle of cmd/shardonnay.
const settle = 2 * time.Second

const ownerKey = "cluster.metadata.shardonnay.owner"

// chronicle is what the daemons have asked of the search cluster, in the order in which it got there.
type chronicle struct {
	mu     sync.Mutex
	events []event
}

type eventKind string

const (
	claims eventKind = "claims" // it writes a record of a session that is not the one before
	acts   eventKind = "acts"   // it asks for moves
	yields eventKind = "yields" // it removes the record
)

type event struct {
	at      time.Time
	who     string
	kind    eventKind
	session string // of a claim
	moves   int
}

// note writes a request down the moment before it is passed on.
func (c *chronicle) note(who string, r *http.Request, body []byte) {
	e := event{at: time.Now(), who: who}
	switch {
	case r.Method == http.MethodPost && r.URL.Path == "/_cluster/reroute":
		var request struct{ Commands []any }
		if json.Unmarshal(body, &request) != nil || len(request.Commands) == 0 {
			return
		}
		e.kind, e.moves = acts, len(request.Commands)
	case r.Method == http.MethodPut && r.URL.Path == "/_cluster/settings":
		var request struct{ Persistent map[string]any }
		if json.Unmarshal(body, &request) != nil {
			return
		}
		text, present := request.Persistent[ownerKey]
		switch text := text.(type) {
		case string:
			record, err := mover.ParseRecord(map[string]string{"owner": text})
			if err != nil {
				return
			}
			e.kind, e.session = claims, record.Session
		case nil:
			if !present {
				return
			}
			e.kind = yields
		}
	default:
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.kind == claims {
		for i := len(c.events) - 1; i >= 0; i-- { // a renewal is no claim
			if c.events[i].kind == claims {
				if c.events[i].session == e.session {
					return
				}
				break
			}
		}
	}
	c.events = append(c.events, e)
}

// since lists the events of an instance from a time on.
func (c *chronicle) since(at time.Time, who string, kind eventKind) (found []event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.events {
		if e.who == who && e.kind == kind && !e.at.Before(at) {
			found = append(found, e)
		}
	}
	return found
}

// judge checks the whole story.
func (c *chronicle) judge(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, fault := range faults(c.events) {
		t.Error(fault)
	}
	requests, changes, last := 0, 0, ""
	for _, e := range c.events {
		if e.kind != acts {
			continue
		}
		requests++
		if last != "" && last != e.who {
			changes++
		}
		last = e.who
	}
	t.Logf("%d requests for moves; the one who asks changed %d times", requests, changes)
}

// faults are where two act: whoever asks for moves has to have claimed rebalancing and waited until the claim had settled,
// and nobody who claimed it later may have got so far.
func faults(events []event) (found []string) {
	for i, e := range events {
		if e.kind != acts {
			continue
		}
		at := i
		for at >= 0 && (events[at].who != e.who || events[at].kind != claims) {
			at--
		}
		if at < 0 {
			found = append(found, fmt.Sprintf("%s acts and has never claimed rebalancing", e.who))
			continue
		}
		if since := e.at.Sub(events[at].at); since < settle {
			found = append(found, fmt.Sprintf("%s acts %s after its claim", e.who, since))
		}
		for _, other := range events[at+1 : i] {
			if other.who == e.who {
				continue
			}
			if since := e.at.Sub(other.at); other.kind == claims && since >= settle {
				found = append(found, fmt.Sprintf("%s acts %s after %s %s", e.who, since, other.who, other.kind))
			}
		}
	}
	return found
}

// TestTheJudgeIsAwake: it finds fault with every way in which two would act, and none with a takeover.
func TestTheJudgeIsAwake(t *testing.T) {
	began := time.Now()
	story := func(lines ...string) (events []event) {
		for _, line := range lines {
			var e event
			var second float64
			if _, err := fmt.Sscanf(line, "%f %s %s", &second, &e.who, &e.kind); err != nil {
				t.Fatal(err)
			}
			e.at = began.Add(time.Duration(second * float64(time.Second)))
			events = append(events, e)
		}
		return events
	}
	for _, test := range []struct {
		name  string
		story []event
		fault string
	}{
		{"a takeover", story("0 one claims", "3 one acts", "9 one acts", "10 two claims", "13 two acts", "20 two yields", "21 one claims", "24 one acts"), ""},
		{"the old one hurries while the claim settles", story("0 one claims", "10 two claims", "11 one acts", "13 two acts"), ""},
		{"the old one goes on", story("0 one claims", "3 one acts", "10 two claims", "13 two acts", "14 one acts"), "one acts 4s after two claims"},
		{"the old one is woken before the new one has acted", story("0 one claims", "10 two claims", "12.5 one acts"), "one acts 2.5s after two claims"},
		{"the new one does not wait", story("0 one claims", "10 two claims", "11 two acts"), "two acts 1s after its claim"},
		{"a stranger", story("0 one claims", "3 two acts"), "never claimed"},
	} {
		found := strings.Join(faults(test.story), "; ")
		if test.fault == "" && found != "" || !strings.Contains(found, test.fault) {
			t.Errorf("%s: %q, want %q", test.name, found, test.fault)
		}
	}
}

// gateway is a daemon's way to the search cluster: it writes down what it asks for, and can be shut.
type gateway struct {
	*httptest.Server
	mu   sync.Mutex
	shut bool
}

func newGateway(t *testing.T, c *chronicle, who, to string) *gateway {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	g := &gateway{}
	pass := &httputil.ReverseProxy{
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		shut := g.shut
		g.mu.Unlock()
		if shut {
			panic(http.ErrAbortHandler) // as if nobody were there
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		c.note(who, r, body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(g.Close)
	return g
}

func (g *gateway) set(shut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = shut
}

// pipe is a daemon's way to the API server. While it is shut nothing passes, and nobody is told.
type pipe struct {
	listener net.Listener
	mu       sync.Mutex
	open     map[net.Conn]bool
	shut     bool
}

func newPipe(t *testing.T, to string) *pipe {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &pipe{listener: listener, open: make(map[net.Conn]bool)}
	address := strings.TrimPrefix(to, "https://")
	go func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return // closed
			}
			go p.join(in, address)
		}
	}()
	t.Cleanup(func() {
		listener.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.hangUp()
	})
	return p
}

func (p *pipe) join(in net.Conn, address string) {
	defer in.Close()
	out, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer out.Close()
	p.mu.Lock()
	p.open[in], p.open[out] = true, true
	p.mu.Unlock()
	done := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
		go func() {
			p.carry(way[0], way[1])
			done <- struct{}{}
		}()
	}
	<-done
	p.mu.Lock()
	delete(p.open, in)
	delete(p.open, out)
	p.mu.Unlock()
}

// carry passes bytes on, and swallows them while the pipe is shut.
func (p *pipe) carry(from, to net.Conn) {
	var buffer [16 << 10]byte
	for {
		n, err := from.Read(buffer[:])
		p.mu.Lock()
		shut := p.shut
		p.mu.Unlock()
		if n > 0 && !shut {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// set shuts the pipe, or opens it again: what was open while it was shut is broken by then.
func (p *pipe) set(shut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shut && !shut {
		p.hangUp()
	}
	p.shut = shut
}

func (p *pipe) hangUp() {
	for c := range p.open {
		c.Close()
	}
}

func (p *pipe) url() string { return fmt.Sprintf("https://%s", p.listener.Addr()) }
