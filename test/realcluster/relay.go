package realcluster

import (
	"errors"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// relay stands before a port of a node and passes on what comes, later than it came where it was told to. Its own port is the
// one that the node publishes.
type relay struct {
	listener net.Listener
	target   string
	late     atomic.Int64 // nanoseconds by which what goes to the node is held back

	mu     sync.Mutex
	open   map[net.Conn]bool // nil once it has ended
	all    sync.WaitGroup
	closed chan struct{}
}

// chunk is what was read at once, and when it may go on.
type chunk struct {
	due  time.Time
	data []byte
}

// newRelay listens at one port of this machine for another.
func newRelay(port, target int) (*relay, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		return nil, err
	}
	r := &relay{listener: listener, target: "127.0.0.1:" + strconv.Itoa(target), open: map[net.Conn]bool{}, closed: make(chan struct{})}
	r.all.Go(r.accept)
	return r, nil
}

// port is the one at which it listens.
func (r *relay) port() int { return r.listener.Addr().(*net.TCPAddr).Port }

func (r *relay) accept() {
	for {
		from, err := r.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			r.all.Go(func() { r.join(from) })
		}
	}
}

// join passes on in both directions until either side ends: then the other is ended too, as it would be without a relay.
func (r *relay) join(from net.Conn) {
	to, err := net.Dial("tcp", r.target)
	if err != nil {
		from.Close()
		return
	}
	if !r.keep(from, to) {
		return
	}
	defer r.drop(from, to)
	var both sync.WaitGroup
	both.Go(func() { r.pass(from, to, &r.late) })
	both.Go(func() { r.pass(to, from, new(atomic.Int64)) })
	both.Wait()
}

// pass copies until one side ends, and ends the other.
func (r *relay) pass(from, to net.Conn, late *atomic.Int64) {
	waiting := make(chan chunk, 1024) // what is held back; a sender of more than that waits, as on any slow way
	var writer sync.WaitGroup
	writer.Go(func() {
		defer to.Close()
		for c := range waiting {
			if wait := time.Until(c.due); wait > 0 {
				select {
				case <-time.After(wait):
				case <-r.closed:
				}
			}
			if _, err := to.Write(c.data); err != nil {
				from.Close() // and the reader ends
			}
		}
	})
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			waiting <- chunk{time.Now().Add(time.Duration(late.Load())), append([]byte(nil), buffer[:n]...)}
		}
		if err != nil {
			break
		}
	}
	close(waiting)
	writer.Wait()
}

// keep notes connections, so that they end with the relay; it closes them and says no where that has ended already.
func (r *relay) keep(connections ...net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range connections {
		if r.open == nil {
			c.Close()
		} else {
			r.open[c] = true
		}
	}
	return r.open != nil
}

func (r *relay) drop(connections ...net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range connections {
		c.Close()
		delete(r.open, c)
	}
}

// close ends every connection and waits until nothing of the relay runs.
func (r *relay) close() {
	r.listener.Close()
	r.mu.Lock()
	for c := range r.open {
		c.Close()
	}
	r.open = nil
	r.mu.Unlock()
	close(r.closed)
	r.all.Wait()
}
