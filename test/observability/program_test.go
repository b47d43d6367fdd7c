package observability

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/shardonnay/shardonnay/test/built"
)

// program is the built binary.
var program string

func TestMain(m *testing.M) {
	os.Exit(built.Main(func(made string) int {
		program = made
		return m.Run()
	}))
}

// process is a program that was started and is ended with its test.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed once it has ended and all it said was read

	mu    sync.Mutex
	lines []string
	fresh *sync.Cond
}

// start starts a program and reads what it says, on standard output and standard error. hear is nil or gets every line.
func start(t *testing.T, hear func(line string), name string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(name, args...), done: make(chan struct{})}
	p.fresh = sync.NewCond(&p.mu)
	said, says := io.Pipe()
	p.cmd.Stdout, p.cmd.Stderr = says, says
	p.cmd.WaitDelay = 5 * time.Second // for what a killed program's own children hold open
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("%s: %v; make deps installs what tests need", name, err)
	}
	go func() {
		_ = p.cmd.Wait() // how it ended is in ProcessState
		says.Close()
	}()
	go func() {
		defer close(p.done)
		defer p.fresh.Broadcast()
		scanner := bufio.NewScanner(said)
		scanner.Buffer(nil, 1<<20)
		for scanner.Scan() {
			p.mu.Lock()
			p.lines = append(p.lines, scanner.Text())
			p.mu.Unlock()
			p.fresh.Broadcast()
			if hear != nil {
				hear(scanner.Text())
			}
		}
	}()
	t.Cleanup(func() {
		p.end(syscall.SIGKILL)
		if t.Failed() {
			t.Logf("%s said:\n%s", name, strings.Join(p.lines[max(0, len(p.lines)-60):], "\n"))
		}
	})
	return p
}

// end sends a signal, if it still runs, and waits.
func (p *process) end(signal syscall.Signal) {
	_ = p.cmd.Process.Signal(signal) // that it has ended already is as well
	<-p.done
}

// says waits for a line that matches and gives what its first group matched.
func (p *process) says(t *testing.T, pattern string) string {
	t.Helper()
	const patience = 2 * time.Minute
	expression, deadline := regexp.MustCompile(pattern), time.Now().Add(patience)
	wake := time.AfterFunc(patience, p.fresh.Broadcast)
	defer wake.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for at := 0; ; p.fresh.Wait() {
		for ; at < len(p.lines); at++ {
			if match := expression.FindStringSubmatch(p.lines[at]); match != nil {
				return match[1]
			}
		}
		select {
		case <-p.done:
			t.Fatalf("%s ended and never said %q", p.cmd.Path, pattern)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s has not said %q for %s", p.cmd.Path, pattern, patience)
		}
	}
}

// settings is a section of a configuration file.
type settings map[string]any

// hasty is a configuration for a simulated cluster where a second on the wall is a minute: a cycle each second.
func hasty(address string) settings {
	return settings{
		"connection": settings{"addresses": []string{address}, "timeout": "1m", "read_retries": 1},
		"mode":       "act",
		"cycle":      settings{"interval": "1s", "jitter": 0, "time_limit": "10s", "deadline": "10s"},
		"balance":    settings{"move_cost": 0.01},
		"pin":        settings{"newest": false, "write_share": 0},
		"limits":     settings{"in_flight": 3, "per_index": 0, "cool_down": "1s"},
		"stop":       settings{"cpu": 0, "rejections": 0, "node_settle": "0s"},
		"ownership":  settings{"lease": "20s", "renew": "5s"},
		"solver":     settings{"time_limit": "300ms", "workers": 1},
		"http":       settings{"listen": "127.0.0.1:0"},
		"log":        settings{"format": "json"},
	}
}

// with sets keys, "cycle.interval" and the like.
func (s settings) with(values settings) settings {
	for key, value := range values {
		if section, name, nested := strings.Cut(key, "."); nested {
			s[section].(settings)[name] = value
		} else {
			s[key] = value
		}
	}
	return s
}

// write puts the settings where a daemon reads them.
func (s settings) write(t *testing.T, path string) {
	t.Helper()
	content, err := yaml.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// move is what a daemon's log says of a move that ended.
type move struct {
	Message string `json:"msg"`
	Index   string `json:"index"`
	Shard   int    `json:"shard"`
	From    string `json:"from"`
	To      string `json:"to"`
	State   string `json:"state"`
}

// landed reads a line of a daemon's log; ok where it says that a move has landed.
func landed(line string) (m move, ok bool) {
	err := json.Unmarshal([]byte(line), &m)
	return m, err == nil && m.Message == "move ended" && m.State == "landed"
}

// promtool runs Prometheus' own tool and gives what it says.
func promtool(t *testing.T, args ...string) (string, error) {
	t.Helper()
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Fatal("promtool is needed; make deps installs it (Debian: prometheus)")
	}
	var out bytes.Buffer
	cmd := exec.Command("promtool", args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// shardonnay runs the built program and gives what it says.
func shardonnay(args ...string) (string, error) {
	out, err := exec.Command(program, args...).CombinedOutput()
	return string(out), err
}
