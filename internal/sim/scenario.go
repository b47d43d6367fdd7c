package sim

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Scenario is a story in a file: a cluster, what happens to it and when, and what must be true. One command a line, "#"
// begins a comment. docs/scenarios.md describes the language.
//
//	cluster opensearch 2.19.6 seed=1
//	set cluster.routing.allocation.awareness.attributes=zone
//	nodes 6 zones=a,b,c cpu=8 disk=1TB
//	series logs shards=3 replicas=1 size=30GB keep=7 search=4 write=1
//	settle
//	daemon interval=1m
//	at 20m kill n3
//	run 2h
//	assert peak_to_mean search <= 1.10
//	assert unassigned == 0
type Scenario struct {
	Name  string
	steps []step
}

// step is one line, understood.
type step struct {
	line int
	text string
	do   action
}

// action does what a line says.
type action func(*run) error

// Daemon is what a scenario puts to work on its cluster.
type Daemon interface {
	// Cycle runs one cycle. now is the cluster's virtual time; it goes on by the requests the cycle makes, and by
	// Cluster.Sleep.
	Cycle(ctx context.Context, now time.Time) error
	// Stop ends the daemon as a termination signal would: what it took over is given back.
	Stop(ctx context.Context) error
}

// RunOptions are what a scenario needs from outside.
type RunOptions struct {
	Out io.Writer // gets a line for every assertion and print; nil: nobody reads
	// Start starts a daemon against the cluster, which answers at addr ("127.0.0.1:41234"). Scenarios with a daemon
	// command need it.
	Start func(ctx context.Context, c *Cluster, addr string) (Daemon, error)
	// Serve is an address, "127.0.0.1:9200", at which the cluster answers once the story is over, with time going on as on the
	// wall, until the context ends. Empty: the story's end is the end.
	Serve string
}

// Report is how a scenario ended.
type Report struct {
	Assertions int
	Failed     []string // assertions that did not hold: "line 12: peak_to_mean search is 1.32, not <= 1.10"
	Cycles     int
	Errors     []string // of cycles, in order, with the virtual time
	Tally      Tally
	Virtual    time.Duration // time that passed in the cluster
}

// OK tells whether every assertion held.
func (r Report) OK() bool { return len(r.Failed) == 0 }

// run is a scenario under way.
type run struct {
	ctx    context.Context
	o      RunOptions
	report Report
	c      *Cluster
	server *Server
	daemon Daemon
	every  time.Duration // between the starts of two cycles
	due    time.Time     // of the next cycle
	line   int
}

// ParseScenario reads a scenario. The error names every line that could not be understood, and why.
func ParseScenario(name string, from io.Reader) (*Scenario, error) {
	s := &Scenario{Name: name}
	var faults []error
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		words := strings.Fields(text)
		if len(words) == 0 {
			continue
		}
		do, err := parseLine(words)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s:%d: %w", name, n, err))
			continue
		}
		s.steps = append(s.steps, step{n, strings.Join(words, " "), do})
	}
	if err := lines.Err(); err != nil {
		faults = append(faults, fmt.Errorf("%s: %w", name, err))
	}
	if len(faults) == 0 && len(s.steps) == 0 {
		faults = append(faults, fmt.Errorf("%s: no commands", name))
	}
	return s, errors.Join(faults...)
}

// Run plays the scenario. An assertion that does not hold goes into the report and the story goes on; an error ends it.
func (s *Scenario) Run(ctx context.Context, o RunOptions) (report Report, err error) {
	if o.Out == nil {
		o.Out = io.Discard
	}
	r := &run{ctx: ctx, o: o, every: time.Minute}
	defer func() {
		if r.daemon != nil {
			err = errors.Join(err, r.stop())
		}
		if r.server != nil {
			err = errors.Join(err, r.server.Close())
		}
		if r.c != nil {
			r.report.Tally, r.report.Virtual = r.c.Tally(), r.c.Now().Sub(r.c.start)
		}
		report = r.report
	}()
	for _, st := range s.steps {
		r.line = st.line
		if err := st.do(r); err != nil {
			return r.report, fmt.Errorf("%s:%d: %s: %w", s.Name, st.line, st.text, err)
		}
	}
	if o.Serve != "" {
		return r.report, r.serve(o.Serve)
	}
	return r.report, nil
}

// serve answers for the cluster until the run's context ends, which is no error then.
func (r *run) serve(addr string) error {
	switch {
	case r.c == nil:
		return errNoCluster
	case r.daemon != nil:
		if err := r.stop(); err != nil {
			return err
		}
	}
	if err := r.answer(Options{Addr: addr, Speed: 1, PerNode: true}); err != nil {
		return err
	}
	r.printf("the cluster answers at http://%s until this is interrupted", r.server.Addr())
	<-r.ctx.Done()
	return nil
}

// answer puts the cluster behind a port, in place of one before.
func (r *run) answer(o Options) (err error) {
	if r.server != nil {
		if err := r.server.Close(); err != nil {
			return err
		}
	}
	r.server, err = Serve(r.ctx, r.c, o)
	return err
}

// errNoCluster is what commands say that come before there is a cluster.
var errNoCluster = errors.New("there is no cluster yet: begin with a cluster or demo command")

// withCluster wraps an action that needs one.
func withCluster(do func(*run, *Cluster) error) action {
	return func(r *run) error {
		if r.c == nil {
			return errNoCluster
		}
		return do(r, r.c)
	}
}

func (r *run) printf(format string, args ...any) { fmt.Fprintf(r.o.Out, format+"\n", args...) }

// begin makes a cluster the scenario's.
func (r *run) begin(c *Cluster) error {
	if r.c != nil {
		return errors.New("the scenario has its cluster already")
	}
	r.c = c
	return nil
}

// start puts a daemon to work.
func (r *run) start(every time.Duration, o Options) error {
	switch {
	case r.o.Start == nil:
		return errors.New("nobody gave this run a daemon to start")
	case r.daemon != nil:
		return errors.New("a daemon is at work already")
	}
	err := r.answer(o)
	if err != nil {
		return err
	}
	r.daemon, err = r.o.Start(r.ctx, r.c, r.server.Addr())
	r.every, r.due = every, r.c.Now()
	return err
}

// stop ends the daemon.
func (r *run) stop() error {
	d := r.daemon
	if d == nil {
		return errors.New("no daemon is at work")
	}
	r.daemon = nil
	return d.Stop(r.ctx)
}

// pass lets d of virtual time pass, the daemon's cycles in it.
func (r *run) pass(d time.Duration) error {
	end := r.c.Now().Add(d)
	for r.c.Now().Before(end) {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		if r.daemon == nil {
			r.c.Advance(end.Sub(r.c.Now()))
			break
		}
		if wait := r.due.Sub(r.c.Now()); wait > 0 {
			r.c.Advance(min(wait, end.Sub(r.c.Now())))
			continue
		}
		now := r.c.Now()
		r.due = now.Add(r.every)
		r.report.Cycles++
		if err := r.daemon.Cycle(r.ctx, now); err != nil {
			r.report.Errors = append(r.report.Errors, fmt.Sprintf("%s: %v", now.Sub(r.c.start), err))
		}
	}
	return nil
}
