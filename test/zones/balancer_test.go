package zones

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/shardonnay/shardonnay/test/realcluster"
)

// balancer is a HAProxy before the cluster, with the configuration that docs/zones.md prints.
type balancer struct {
	b       *bed
	address string // at which it takes requests
	socket  string // at which it tells of its servers
}

// documented is the block of docs/zones.md that begins with this line.
func documented(t *testing.T, begins string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "zones.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(string(page), "\n```\n"+begins+"\n")
	block, _, closed := strings.Cut(block, "\n```\n")
	if !found || !closed {
		t.Fatalf("docs/zones.md has no block that begins with %q", begins)
	}
	return begins + "\n" + block + "\n"
}

var (
	bind    = regexp.MustCompile(`(?m)^ *bind .*\n`)
	servers = regexp.MustCompile(`(?m)(^ *server .*\n)+`)
)

// balance starts one: what is printed, with another port, this cluster's nodes, and a socket at which it can be asked.
func (b *bed) balance() *balancer {
	b.t.Helper()
	program, err := exec.LookPath("haproxy")
	if err != nil {
		b.t.Fatal("haproxy is needed; make deps installs it (Debian: haproxy)")
	}
	dir := b.t.TempDir()
	// Beside the test's folder, whose name is longer than a socket's may be.
	sockets, err := os.MkdirTemp("", "haproxy")
	b.must(err)
	b.t.Cleanup(func() { os.RemoveAll(sockets) })
	l := &balancer{b: b, socket: filepath.Join(sockets, "stats")}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	b.must(err)
	l.address = "http://" + free.Addr().String()

	var nodes strings.Builder
	for _, n := range b.Nodes() {
		fmt.Fprintf(&nodes, "    server %s %s\n", n.Name, strings.TrimPrefix(n.Address, "http://"))
	}
	printed := documented(b.t, "global")
	printed = bind.ReplaceAllLiteralString(printed, "    bind "+free.Addr().String()+"\n")
	printed = servers.ReplaceAllLiteralString(printed, nodes.String())
	file, more := filepath.Join(dir, "haproxy.cfg"), filepath.Join(dir, "more.cfg")
	b.must(os.WriteFile(file, []byte(printed), 0o600))
	b.must(os.WriteFile(more, []byte("global\n    stats socket "+l.socket+"\n"), 0o600))

	var said bytes.Buffer
	cmd := exec.Command(program, "-db", "-f", file, "-f", more)
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = realcluster.ChildAttributes()
	b.must(free.Close())
	b.must(cmd.Start())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	b.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if b.t.Failed() {
			b.t.Logf("haproxy said\n%s", said.String())
		}
	})
	b.eventually("the load balancer is there", func() bool {
		select {
		case <-ended:
			b.t.Fatalf("haproxy has ended:\n%s\n%s", said.String(), printed)
		default:
		}
		_, err := l.servers("in_service")
		return err == nil
	})
	return l
}

// servers tells of each node in a list whether the balancer sends requests to it, and what its last check was answered: "UP 200".
func (l *balancer) servers(list string) (map[string]string, error) {
	to, err := net.Dial("unix", l.socket)
	if err != nil {
		return nil, err
	}
	defer to.Close()
	if _, err := io.WriteString(to, "show stat\n"); err != nil {
		return nil, err
	}
	rows, err := csv.NewReader(to).ReadAll()
	if err != nil {
		return nil, err
	}
	column := map[string]int{}
	for i, name := range rows[0] {
		column[strings.TrimPrefix(name, "# ")] = i
	}
	found := map[string]string{}
	for _, row := range rows[1:] {
		if name := row[column["svname"]]; row[column["pxname"]] == list && name != "BACKEND" {
			found[name] = row[column["status"]] + " " + row[column["check_code"]]
		}
	}
	return found, nil
}

// sees waits until a zone's nodes are so for the balancer, and all others in service.
func (l *balancer) sees(zone, state string) {
	l.b.t.Helper()
	want := map[string]string{}
	for _, n := range l.b.Nodes() {
		if want[n.Name] = "UP 200"; n.Zone == zone {
			want[n.Name] = state
		}
	}
	l.b.eventually(fmt.Sprintf("a load balancer sees zone %s as %s and the others in service", zone, state), func() bool {
		now, err := l.servers("in_service")
		l.b.must(err)
		return maps.Equal(now, want)
	})
}

// up lists the nodes of a list that the balancer sends requests to, where that list is used.
func (l *balancer) up(list string) []string {
	l.b.t.Helper()
	now, err := l.servers(list)
	l.b.must(err)
	var up []string
	for name, state := range now {
		if strings.HasPrefix(state, "UP") {
			up = append(up, name)
		}
	}
	return up
}

// search searches through it.
func (l *balancer) search() *searches {
	l.b.t.Helper()
	return l.b.searchAt("searched", 2, 5*time.Millisecond, func() []string { return []string{l.address} }, func() {})
}
