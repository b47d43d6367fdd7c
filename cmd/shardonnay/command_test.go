package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shardonnay/shardonnay/internal/model"
	"github.com/shardonnay/shardonnay/internal/sim"
	"github.com/shardonnay/shardonnay/internal/solver/worker"
)

// TestMain lets this test binary be its own solver's worker, as the program is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == worker.Command {
		main()
	}
	os.Exit(m.Run())
}

// result is what a command printed and how it ended.
type result struct {
	stdout, stderr string
	code           int
}

// execute runs a command in this process.
func execute(t *testing.T, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	root := newRoot()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	r := result{stdout: out.String(), code: exitCode(err)}
	if err != nil {
		r.stderr = err.Error()
	}
	return r
}

// lopsided is a small simulated cluster with something to move: all that is searched stands on one node.
func lopsided(t *testing.T, c sim.Config) *sim.Cluster {
	t.Helper()
	c.Seed = 1
	c.Settings = map[string]string{"cluster.routing.rebalance.enable": "none"}
	virtual := sim.New(c)
	for _, name := range []string{"n1", "n2", "n3"} {
		if _, err := virtual.AddNode(sim.NodeSpec{Name: name, Processors: 4}); err != nil {
			t.Fatal(err)
		}
	}
	for _, index := range []string{"a", "b", "c", "d", "e", "f"} {
		settings := map[string]string{"index.routing.allocation.include._name": "n1"}
		if err := virtual.AddIndex(sim.IndexSpec{Name: index, Bytes: 1 << 30, Search: 0.4, Age: 48 * time.Hour, Settings: settings}); err != nil {
			t.Fatal(err)
		}
	}
	if left := virtual.Settle(); left > 0 {
		t.Fatalf("%d copies have no place", left)
	}
	for _, index := range []string{"a", "b", "c", "d", "e", "f"} {
		if err := virtual.SetIndex(index, map[string]string{"index.routing.allocation.include._name": ""}); err != nil {
			t.Fatal(err)
		}
	}
	virtual.Advance(24 * time.Hour)
	return virtual
}

// serve answers for a cluster until the test ends. Time stands still but for what requests let pass.
func serve(t *testing.T, virtual *sim.Cluster, o sim.Options) string {
	t.Helper()
	server, err := sim.Serve(t.Context(), virtual, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return server.URL()
}

// file writes a small file.
func file(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// expect checks the exit code and that the message contains the words.
func (r result) expect(t *testing.T, code int, words ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, want %d: %s", r.code, code, r.stderr)
	}
	for _, word := range words {
		if !strings.Contains(r.stderr, word) {
			t.Errorf("the message does not say %q: %s", word, r.stderr)
		}
	}
	if strings.Count(r.stderr, "\n") > 0 && code != 2 {
		t.Errorf("the message is more than one line: %q", r.stderr)
	}
}

// A variant changes the instance; what is given on the command line stands whatever the variant says, and giants come by
// the number of nodes.
func TestBenchVariants(t *testing.T) {
	instanceOf := func(args ...string) *model.Problem {
		file := filepath.Join(t.TempDir(), "p.json")
		args = append([]string{"bench", "solver", "--copies", "1200", "--work-limit", "1", "--dump-problem", file}, args...)
		execute(t, args...).expect(t, 0)
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		p, err := model.Read(f)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if p := instanceOf("--nodes", "12", "--variant", "five-dimensions"); len(p.Dimensions) != 5 || len(p.Nodes) != 12 {
		t.Errorf("%d dimensions, %d nodes", len(p.Dimensions), len(p.Nodes))
	}
	if p := instanceOf("--nodes", "12", "--dimensions", "2", "--variant", "five-dimensions"); len(p.Dimensions) != 2 {
		t.Errorf("%d dimensions, asked for two", len(p.Dimensions))
	}
	draining := 0
	for _, n := range instanceOf("--nodes", "300").Nodes {
		if !n.AcceptsNew {
			draining++
		}
	}
	if draining != 2 {
		t.Errorf("%d of 300 nodes drain, two were to", draining)
	}
}

// There is a manual page for every command that help lists, and for none that it hides.
func TestMan(t *testing.T) {
	dir := t.TempDir()
	execute(t, "man", dir).expect(t, 0)
	for _, command := range newRoot().Commands() {
		page := filepath.Join(dir, "shardonnay-"+command.Name()+".1")
		switch _, err := os.Stat(page); {
		case command.IsAvailableCommand() && err != nil:
			t.Error(err)
		case !command.IsAvailableCommand() && err == nil:
			t.Errorf("%s is hidden and has a page", command.Name())
		}
	}
	execute(t, "man", filepath.Join(dir, "nowhere")).expect(t, 2, "Name a folder that exists")
}
