package sim

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Options tell how a cluster is served.
type Options struct {
	Addr  string      // default "127.0.0.1:0", a free port of the loopback interface
	Speed float64     // virtual seconds per second on the wall; 0: time stands still unless somebody calls Advance
	TLS   *tls.Config // nil: plain HTTP

	// PerNode gives every node an address of its own beside the common one: Server.NodeAddr, which is what the nodes publish
	// as theirs. It stays the node's over restarts; while the node is down connections to it break at once.
	PerNode bool

	// PerRequest is the virtual time every request takes where Speed is 0. With it a client that polls sees things
	// move on, as fast as it polls, and the same every time.
	PerRequest time.Duration
}

// Server is a cluster behind a real port.
type Server struct {
	c          *Cluster
	addr       string
	tls        *tls.Config
	speed      float64
	perRequest time.Duration
	perNode    bool

	ports   sync.Mutex // guards the next three
	running []*http.Server
	nodes   map[string]string // addresses by name of the node
	closed  bool
	serving sync.WaitGroup
	stop    context.CancelFunc

	mu    sync.Mutex
	begun time.Time     // wall time at which the virtual clock stood at base
	base  time.Duration // virtual
	done  chan struct{}
	err   error
}

// tick is how often the virtual clock is moved on when nobody asks: a hundredth of a second is below what a person sees.
const tick = 10 * time.Millisecond

// Serve answers for the cluster at a port until ctx ends or Close is called.
func Serve(ctx context.Context, c *Cluster, o Options) (*Server, error) {
	if o.Addr == "" {
		o.Addr = "127.0.0.1:0"
	}
	s := &Server{
		c: c, tls: o.TLS, speed: o.Speed, perRequest: o.PerRequest, perNode: o.PerNode, nodes: map[string]string{}, done: make(chan struct{}),
	}
	ctx, s.stop = context.WithCancel(ctx)
	var err error
	if s.addr, err = s.open(o.Addr, c.Handler()); err != nil {
		s.stop()
		return nil, err
	}
	c.mu.Lock()
	s.begun, s.base = time.Now(), c.now
	c.served.Store(s)
	names := append(names(c.nodes), names(c.outside)...)
	for name := range c.gone {
		names = append(names, name)
	}
	c.mu.Unlock()
	slices.Sort(names)
	s.serving.Go(func() { s.drive(ctx) })
	go func() {
		<-ctx.Done()
		s.ports.Lock()
		s.closed = true
		for _, h := range s.running {
			h.Close()
		}
		s.ports.Unlock()
		s.serving.Wait()
		c.served.CompareAndSwap(s, nil)
		close(s.done)
	}()
	for _, name := range names {
		if err := s.listen(name); err != nil {
			_ = s.Close() // what it says matters less than why
			return nil, err
		}
	}
	return s, nil
}

// listen gives the node a port of its own, where nodes have that.
func (s *Server) listen(name string) error {
	if !s.perNode {
		return nil
	}
	addr, err := s.open("127.0.0.1:0", s.c.NodeHandler(name))
	if err != nil {
		return err
	}
	s.ports.Lock()
	s.nodes[name] = addr
	s.ports.Unlock()
	return nil
}

// open answers at an address with a handler, and tells which port that became.
func (s *Server) open(addr string, h http.Handler) (string, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), "tcp", addr)
	if err != nil {
		return "", fmt.Errorf("sim: listen: %w", err)
	}
	addr = l.Addr().String()
	if s.tls != nil {
		l = tls.NewListener(l, s.tls)
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	s.ports.Lock()
	defer s.ports.Unlock()
	if s.closed {
		l.Close()
		return "", http.ErrServerClosed
	}
	s.running = append(s.running, server)
	s.serving.Go(func() {
		if err := server.Serve(l); err != http.ErrServerClosed {
			s.ports.Lock()
			s.err = err
			s.ports.Unlock()
			s.stop()
		}
	})
	return addr, nil
}

// drive moves the virtual clock along with the wall's.
func (s *Server) drive(ctx context.Context) {
	if s.speed <= 0 {
		return
	}
	t := time.NewTicker(tick)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			s.catchUp()
		}
	}
}

// catchUp brings the virtual clock to where the wall says it is.
func (s *Server) catchUp() {
	if s.speed <= 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	due := s.base + time.Duration(float64(time.Since(s.begun))*s.speed)
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if d := due - s.c.now; d > 0 {
		s.c.advance(d)
	}
}

// wall is how long a stretch of virtual time takes on the wall.
func (s *Server) wall(d time.Duration) time.Duration {
	return time.Duration(float64(d)/s.speed) + time.Millisecond
}

// Addr is the address the server listens at, "127.0.0.1:41234".
func (s *Server) Addr() string { return s.addr }

// NodeAddr is the node's own address, "127.0.0.1:41235"; "" without Options.PerNode.
func (s *Server) NodeAddr(name string) string {
	s.ports.Lock()
	defer s.ports.Unlock()
	return s.nodes[name]
}

// URL is the address as a client wants it.
func (s *Server) URL() string {
	if s.tls != nil {
		return "https://" + s.addr
	}
	return "http://" + s.addr
}

// Close stops serving and waits until everything of the server has ended.
func (s *Server) Close() error {
	s.stop()
	<-s.done
	return s.err
}
