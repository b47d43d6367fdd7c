package sim

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// Options tell how a cluster is served.
type Options struct {
	Addr  string      // default "127.0.0.1:0", a free port of the loopback interface
	Speed float64     // virtual seconds per second on the wall; 0: time stands still unless somebody calls Advance
	TLS   *tls.Config // nil: plain HTTP

	// PerRequest is the virtual time every request takes where Speed is 0. With it a client that polls sees things
	// move on, as fast as it polls, and the same every time.
	PerRequest time.Duration
}

// Server is a cluster behind a real port.
type Server struct {
	c          *Cluster
	http       *http.Server
	addr       string
	tls        bool
	speed      float64
	perRequest time.Duration

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
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", o.Addr)
	if err != nil {
		return nil, fmt.Errorf("sim: listen: %w", err)
	}
	s := &Server{c: c, addr: l.Addr().String(), speed: o.Speed, perRequest: o.PerRequest, done: make(chan struct{}), tls: o.TLS != nil}
	s.http = &http.Server{Handler: c.Handler(), ReadHeaderTimeout: 10 * time.Second}
	if s.tls {
		l = tls.NewListener(l, o.TLS)
	}
	c.mu.Lock()
	s.begun, s.base = time.Now(), c.now
	c.served.Store(s)
	c.mu.Unlock()

	ctx, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.http.Serve(l); err != http.ErrServerClosed {
			s.err = err
		}
		stop()
	})
	wg.Go(func() { s.drive(ctx) })
	go func() {
		<-ctx.Done()
		s.http.Close()
		wg.Wait()
		c.served.CompareAndSwap(s, nil)
		close(s.done)
	}()
	return s, nil
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

// URL is the address as a client wants it.
func (s *Server) URL() string {
	if s.tls {
		return "https://" + s.addr
	}
	return "http://" + s.addr
}

// Close stops serving and waits until everything of the server has ended.
func (s *Server) Close() error {
	s.http.Close()
	<-s.done
	return s.err
}
