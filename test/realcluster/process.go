package realcluster

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// stopGrace is how long a server may take to end after its standard input has; the launcher itself gives up after 15 s.
const stopGrace = 20 * time.Second

// process is one server process. It ends when its standard input does, so also when this process dies.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	log   string        // file with everything it printed
	done  chan struct{} // closed when it has ended and was waited for
}

// startProcess runs the program in folder, with all it prints appended to the file named log.
func startProcess(program string, args []string, folder, log string) (*process, error) {
	output, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer output.Close()
	p := &process{cmd: exec.Command(program, args...), log: log, done: make(chan struct{})}
	p.cmd.Dir = folder
	p.cmd.Stdout, p.cmd.Stderr = output, output
	p.cmd.SysProcAttr = ChildAttributes()
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	started := make(chan error, 1)
	go func() {
		// The kernel's "parent died" means the thread that forked: it is kept for as long as the child lives.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // how it ended is told by its log
			close(p.done)
		}
	}()
	return p, <-started
}

// running tells whether the process has not ended yet.
func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// signal sends sig to the process.
func (p *process) signal(sig syscall.Signal) error { return p.cmd.Process.Signal(sig) }

// kill ends the process at once and waits until it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails only where it has ended already
	<-p.done
}

// stop asks the process to end, kills it where it takes longer than grace, and waits until it is gone.
func (p *process) stop(grace time.Duration) {
	p.stdin.Close()
	select {
	case <-p.done:
	case <-time.After(grace):
		p.kill()
	}
}

// logTail returns the end of the process's log, indented.
func (p *process) logTail() string {
	const lines = 40
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	all = all[max(0, len(all)-lines):]
	return fmt.Sprintf("end of %s:\n    %s", p.log, strings.Join(all, "\n    "))
}
