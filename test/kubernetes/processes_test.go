package kubernetes

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"
)

// programs is the folder with what the tests run: the daemon, the API server and its store.
var programs string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "shardonnay-kubernetes-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		programs = dir
		for name, build := range map[string]struct{ folder, pkg string }{
			"shardonnay": {"../..", "./cmd/shardonnay"}, "apiserver": {".", "./servers/apiserver"}, "etcd": {".", "./servers/etcd"},
		} {
			began := time.Now()
			cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", filepath.Join(dir, name), build.pkg)
			cmd.Dir = build.folder
			if out, err := cmd.CombinedOutput(); err != nil {
				fmt.Fprintf(os.Stderr, "go build %s: %v\n%s", build.pkg, err, out)
				return 1
			}
			fmt.Fprintf(os.Stderr, "built %s in %.0f s\n", name, time.Since(began).Seconds())
		}
		return m.Run()
	}())
}

// child is a process that a test has started. It ends with this one, whatever happens.
type child struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

// start runs a program that TestMain has built; said gets what it writes. It is killed when the test ends.
func start(t *testing.T, said io.Writer, program string, args ...string) *child {
	t.Helper()
	c := &child{cmd: exec.Command(filepath.Join(programs, program), args...), ended: make(chan struct{})}
	c.cmd.Stdout, c.cmd.Stderr = said, said
	c.cmd.WaitDelay = 2 * time.Second // a solver that outlives its daemon for a moment holds the pipe
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	go func() {
		// The kernel's "parent died" means the thread that forked: it is kept for as long as the child lives.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.cmd.Start()
		started <- err
		if err == nil {
			_ = c.cmd.Wait() // how it ended is in ProcessState
			close(c.ended)
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.kill)
	return c
}

// kill ends it as a power cut does.
func (c *child) kill() {
	_ = c.cmd.Process.Signal(syscall.SIGKILL) // it may have ended
	<-c.ended
}

func (c *child) signal(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := c.cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

// daemon is a running `shardonnay run`.
type daemon struct {
	*child
	name string

	mu    sync.Mutex
	lines []logLine
	fresh *sync.Cond
}

// logLine is one entry of its log.
type logLine struct {
	Message string `json:"msg"`
	URL     string `json:"url"`
	Leader  string `json:"leader"`
	Us      bool   `json:"us"`
	Outcome string `json:"outcome"`
	Reason  string `json:"reason"`
	raw     string
}

// startDaemon starts one with a configuration file.
func startDaemon(t *testing.T, name, config string) *daemon {
	t.Helper()
	d := &daemon{name: name}
	d.fresh = sync.NewCond(&d.mu)
	read, write := io.Pipe()
	go func() {
		scanner := bufio.NewScanner(read)
		scanner.Buffer(nil, 1<<20)
		for scanner.Scan() {
			line := logLine{raw: scanner.Text()}
			_ = json.Unmarshal(scanner.Bytes(), &line) // a line that is not JSON is kept as it is
			d.mu.Lock()
			d.lines = append(d.lines, line)
			d.mu.Unlock()
			d.fresh.Broadcast()
		}
	}()
	d.child = start(t, write, "shardonnay", "run", "--config", config)
	go func() {
		<-d.ended
		_ = write.Close() // it has nobody to tell
		d.fresh.Broadcast()
	}()
	t.Cleanup(func() {
		if t.Failed() {
			d.mu.Lock()
			defer d.mu.Unlock()
			for _, line := range d.lines {
				t.Logf("%s: %s", d.name, line.raw)
			}
		}
	})
	return d
}

// await gives the first log line from a position on that satisfies a condition, and the position after it.
func (d *daemon) await(t *testing.T, from int, most time.Duration, what string, satisfies func(logLine) bool) (logLine, int) {
	t.Helper()
	deadline := time.Now().Add(most)
	wake := time.AfterFunc(most, d.fresh.Broadcast)
	defer wake.Stop()
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		for ; from < len(d.lines); from++ {
			if satisfies(d.lines[from]) {
				return d.lines[from], from + 1
			}
		}
		select {
		case <-d.ended:
			t.Fatalf("%s has ended and did not come to %q", d.name, what)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s did not come to %q within %s", d.name, what, most)
		}
		d.fresh.Wait()
	}
}

// position is where the log stands now.
func (d *daemon) position() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.lines)
}

// url is where the daemon listens.
func (d *daemon) url(t *testing.T) string {
	t.Helper()
	line, _ := d.await(t, 0, 30*time.Second, "listening", func(l logLine) bool { return l.Message == "listening" })
	return line.URL
}

// get reads one of the daemon's own pages.
func (d *daemon) get(t *testing.T, path string) (int, string) {
	t.Helper()
	answer, err := http.Get(d.url(t) + path)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}
