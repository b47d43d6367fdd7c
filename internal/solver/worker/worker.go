// Package worker solves in a process of its own: the same program, started again with a hidden command, reads a problem
// and writes a result. A crash or a hang inside the native library then costs one solve, and not the daemon with copies on
// their way.
//
// Before it stands solver, whose Solve it has the shape of; after it only cmd.
package worker

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/model"
	"github.com/shardonnay/shardonnay/internal/solver"
)

// Command is the hidden command that a program hands to Main.
const Command = "solve-worker"

// grace is how long past its time limit a solve may take before its process is taken for hanging and killed: reading and
// checking a large problem comes on top of the search, on a machine that may be busy.
const grace = 15 * time.Second

// task is what the parent sends.
type task struct {
	Problem *model.Problem
	Options solver.Options // without Progress, which stays with the parent
}

// message is what the worker sends: points on the way, then a result or an error.
type message struct {
	Point  *solver.TracePoint
	Result *solver.Result
	Class  cluster.Class
	Error  string
}

// Solve solves p as solver.Solve does, in a process of the given program. A worker that dies, or that goes on past its time
// limit, is an error of class Internal; one that is ended because ctx is done is of class Interrupted.
func Solve(ctx context.Context, program string, p *model.Problem, o solver.Options) (*solver.Result, error) {
	if o.TimeLimit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.TimeLimit+grace, errHangs)
		defer cancel()
	}
	progress := o.Progress
	o.Progress = nil
	var in bytes.Buffer
	if err := gob.NewEncoder(&in).Encode(task{p, o}); err != nil {
		return nil, failed(fmt.Errorf("the problem cannot be sent: %w", err))
	}
	var complaint head
	process := exec.CommandContext(ctx, program, Command)
	process.Stdin, process.Stderr = &in, &complaint
	process.WaitDelay = time.Second
	out, err := process.StdoutPipe()
	if err != nil {
		return nil, failed(err)
	}
	if err := process.Start(); err != nil {
		return nil, failed(err)
	}
	result, err := receive(out, progress)
	ended := process.Wait()
	switch cause := context.Cause(ctx); {
	case result != nil:
		return result, nil
	case errors.Is(cause, errHangs):
		return nil, failed(fmt.Errorf("no answer %s after its time limit of %s", grace, o.TimeLimit))
	case cause != nil:
		return nil, &cluster.Error{Class: cluster.Interrupted, Op: "solve", What: p.Name, Err: cause}
	case ended != nil:
		return nil, failed(fmt.Errorf("its process died (%w)%s", ended, complaint.after(": ")))
	}
	return nil, err
}

var errHangs = errors.New("the solver hangs")

func failed(err error) error {
	return &cluster.Error{
		Class: cluster.Internal, Op: "solve in a worker process", Err: err,
		Hint: "The next cycle tries again; if this repeats, save the problem with plan --dump-problem and report it",
	}
}

// receive reads messages until the result or an error.
func receive(from io.Reader, progress func(solver.TracePoint)) (*solver.Result, error) {
	decoder := gob.NewDecoder(from)
	for {
		var m message
		if err := decoder.Decode(&m); err != nil {
			return nil, failed(fmt.Errorf("its answer breaks off: %w", err))
		}
		switch {
		case m.Result != nil:
			return m.Result, nil
		case m.Error != "":
			return nil, &cluster.Error{Class: m.Class, Op: "solve in a worker process", Err: errors.New(m.Error)}
		case m.Point != nil && progress != nil:
			progress(*m.Point)
		}
	}
}

// Main is the worker: it reads one task from in, solves it, and writes what comes of it to out.
func Main(ctx context.Context, in io.Reader, out io.Writer) error {
	var t task
	if err := gob.NewDecoder(in).Decode(&t); err != nil {
		return &cluster.Error{Class: cluster.Invalid, Op: "read a problem from standard input", Err: err, Hint: "This command is for the program itself; use solve"}
	}
	encoder := gob.NewEncoder(out)
	t.Options.Progress = func(point solver.TracePoint) {
		_ = encoder.Encode(message{Point: &point}) // a parent that is gone has killed us
	}
	result, err := solver.Solve(ctx, t.Problem, t.Options)
	if err != nil {
		return encoder.Encode(message{Class: cluster.ClassOf(err), Error: err.Error()})
	}
	return encoder.Encode(message{Result: result})
}

// head keeps the beginning of what a process complains about: what went wrong comes first, the runtime's account of every
// goroutine after it.
type head struct{ text []byte }

// mostComplaint is as much as a log line bears.
const mostComplaint = 300

func (h *head) Write(p []byte) (int, error) {
	h.text = append(h.text, p[:min(len(p), mostComplaint-len(h.text))]...)
	return len(p), nil
}

// after is the complaint as one line behind a separator; empty where there was none.
func (h *head) after(separator string) string {
	text := strings.Join(strings.Fields(string(h.text)), " ")
	if text == "" {
		return ""
	}
	return separator + text
}
