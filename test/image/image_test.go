package image

import (
	"bytes"
	"context"
	"crypto/x509"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/moby/buildkit/client/llb"
	"github.com/moby/buildkit/client/llb/sourceresolver"
	"github.com/moby/buildkit/frontend/dockerfile/dockerfile2llb"
	"github.com/opencontainers/go-digest"
	"golang.org/x/sys/unix"
)

// TestMain puts the tests into a mount namespace of their own, so that whatever they mount is gone with them.
func TestMain(m *testing.M) {
	const inside = "SHARDONNAY_TEST_NAMESPACE"
	if os.Getenv(inside) != "" {
		os.Exit(m.Run())
	}
	if os.Getuid() != 0 {
		fmt.Fprintln(os.Stderr, "making and mounting an image's folders needs root")
		os.Exit(1)
	}
	cmd := exec.Command("unshare", append([]string{"--mount", "--", os.Args[0]}, os.Args[1:]...)...)
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		os.Exit(exit.ExitCode())
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// most is what the image may weigh. It stands well above what it does, and below what a Debian with a shell does.
const most = 64 << 20

// TestImage builds the image and runs it as a container would be: an unprivileged user, nothing that can be written to, no
// other program.
func TestImage(t *testing.T) {
	i := build(t)
	names, size := i.files(t)
	t.Logf("the image: %d files, %.1f MB, of which the program is %.1f", len(names), float64(size)/1e6, float64(sizeOf(t, i.dir, "shardonnay"))/1e6)
	if size > most {
		t.Errorf("the image has %d bytes, at most %d are allowed", size, most)
	}
	checkContents(t, i, names)
	c := i.contain(t)

	t.Run("version", func(t *testing.T) {
		out := c.mustRun(t, "version")
		if !strings.Contains(out, "CLP 1.") {
			t.Errorf("%s", out)
		}
		t.Log(strings.TrimSpace(out))
	})
	t.Run("solve", func(t *testing.T) {
		c.mustRun(t, "bench", "solver", "--nodes", "20", "--copies", "600", "--time-limit", "2s", "--dump-problem", "/state/problem.json", "-o", "json")
		var report struct {
			Checked  bool
			Solves   int     `json:"lp_solves"`
			Captured float64 `json:"captured"`
		}
		out := c.mustRun(t, "solve", "/state/problem.json", "--time-limit", "5s", "-o", "json")
		if err := json.Unmarshal([]byte(out), &report); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if !report.Checked || report.Solves == 0 || report.Captured < 0.9 {
			t.Errorf("CLP does not do its work: %+v", report)
		}
	})
	t.Run("run", func(t *testing.T) { c.checkDaemon(t) })
	t.Run("nothing can be written to", func(t *testing.T) {
		if _, err := c.run(t, nil, "bench", "solver", "--nodes", "4", "--copies", "20", "--dump-problem", "/problem.json"); err == nil {
			t.Error("a file could be written to the root folder")
		}
	})
}

func sizeOf(t *testing.T, dir, name string) int64 {
	t.Helper()
	info, err := os.Stat(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// checkContents: the program needs no other file to run, there is nothing else to run, and what it trusts is there.
func checkContents(t *testing.T, i *image, names []string) {
	t.Helper()
	for _, name := range names {
		info, err := os.Lstat(filepath.Join(i.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode(); mode&0o111 != 0 && name != "shardonnay" || mode&(os.ModeSetuid|os.ModeSetgid) != 0 || mode&0o002 != 0 && mode&os.ModeSymlink == 0 {
			t.Errorf("%s has mode %s", name, mode)
		}
	}
	program, err := elf.Open(filepath.Join(i.dir, "shardonnay"))
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	for _, segment := range program.Progs {
		if segment.Type == elf.PT_INTERP {
			t.Error("the program asks for a loader, and there is none")
		}
	}
	authorities, err := os.ReadFile(filepath.Join(i.dir, "etc/ssl/certs/ca-certificates.crt"))
	if err != nil || !x509.NewCertPool().AppendCertsFromPEM(authorities) {
		t.Errorf("no certificates of authorities: %v", err)
	}
	for _, wanted := range []string{"etc/passwd", "etc/group", "usr/share/doc/coinor-libclp1/copyright"} {
		if !slices.Contains(names, wanted) {
			t.Errorf("%s is missing", wanted)
		}
	}
	if i.healthcheck == nil || len(i.healthcheck.Test) < 2 || i.healthcheck.Test[0] != "CMD" {
		t.Errorf("no health check that needs no shell: %+v", i.healthcheck)
	}
}

// container is the image as an engine would run it: its files read-only, /proc, and a folder for state.
type container struct {
	*image
	root     string
	uid, gid uint32
}

func (i *image) contain(t *testing.T) *container {
	t.Helper()
	c := &container{image: i, root: filepath.Join(t.TempDir(), "root")}
	user, group, _ := strings.Cut(i.user, ":")
	for text, id := range map[string]*uint32{user: &c.uid, group: &c.gid} {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil || n == 0 {
			t.Fatalf("USER %s is no user and group by number, other than root: Kubernetes cannot tell that it is not root", i.user)
		}
		*id = uint32(n)
	}
	// Engines make these themselves where an image lacks them.
	for _, dir := range []string{"proc", "state"} {
		if err := os.MkdirAll(filepath.Join(i.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	mount(t, i.dir, c.root, "", unix.MS_BIND)
	if err := unix.Mount("", c.root, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|unix.MS_NOSUID, ""); err != nil {
		t.Fatal(err)
	}
	mount(t, "proc", filepath.Join(c.root, "proc"), "proc", 0)
	mount(t, "tmpfs", filepath.Join(c.root, "state"), "tmpfs", 0)
	if err := os.Chown(filepath.Join(c.root, "state"), int(c.uid), int(c.gid)); err != nil {
		t.Fatal(err)
	}
	return c
}

// process prepares a run of the container's entry point.
func (c *container) process(ctx context.Context, env []string, line ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Dir, cmd.Env = "/", env
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: c.root, Credential: &syscall.Credential{Uid: c.uid, Gid: c.gid}}
	return cmd
}

func (c *container) run(t *testing.T, env []string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := c.process(ctx, env, append(slices.Clone(c.entrypoint), args...)...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, said.String())
	}
	return string(out), err
}

func (c *container) mustRun(t *testing.T, args ...string) string {
	t.Helper()
	out, err := c.run(t, nil, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// checkDaemon runs the image's own command against a simulated cluster, which another container of the image is, and asks
// its health as an engine would.
func (c *container) checkDaemon(t *testing.T) {
	scenario := "cluster opensearch 2.19.6 seed=1\nnodes 3\nindex a shards=3 replicas=1 size=1GB\nsettle\n"
	if err := os.WriteFile(filepath.Join(c.root, "state", "cluster.txt"), []byte(scenario), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	search, own := freeAddress(t), freeAddress(t)
	c.background(ctx, t, nil, append(slices.Clone(c.entrypoint), "simulate", "/state/cluster.txt", "--serve", search)...)
	env := []string{
		"SHARDONNAY_CONNECTION_ADDRESSES=http://" + search, "SHARDONNAY_HTTP_LISTEN=" + own, "SHARDONNAY_CYCLE_INTERVAL=1s",
		"SHARDONNAY_STATE_DIR=/state", "SHARDONNAY_STOP_PAUSE=Sun 03:00-03:01 Europe/Berlin", // a time zone has to be known
	}
	health := func() error {
		return c.process(ctx, env, c.healthcheck.Test[1:]...).Run()
	}
	var exit *exec.ExitError
	if err := health(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("the health check of a daemon that does not run ends with %v, want exit code 1", err)
	}
	daemon := c.background(ctx, t, env, append(slices.Clone(c.entrypoint), c.command...)...)
	eventually(ctx, t, "healthy", health)
	eventually(ctx, t, "a cycle that has planned", func() error {
		if text := daemon.text(); !strings.Contains(text, "balanced") && !strings.Contains(text, "moves planned") {
			return errors.New("none yet")
		}
		return nil
	})
	if err := daemon.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-daemon.ended
	if code := daemon.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("told to end it ended with %d", code)
	}
}

// running is a container in the background, and what it has said.
type running struct {
	cmd   *exec.Cmd
	ended chan struct{}
	mu    sync.Mutex
	said  bytes.Buffer
}

// Write keeps what it says.
func (r *running) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.said.Write(p)
}

func (r *running) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.said.String()
}

// background starts a command line in a container, and ends it with the test.
func (c *container) background(ctx context.Context, t *testing.T, env []string, line ...string) *running {
	t.Helper()
	r := &running{cmd: c.process(ctx, env, line...), ended: make(chan struct{})}
	r.cmd.Stdout, r.cmd.Stderr = r, r
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(r.ended)
		_ = r.cmd.Wait() // how it ended is in ProcessState
	}()
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill() // it may have ended
		<-r.ended
		if t.Failed() {
			t.Logf("%v said:\n%s", line, r.text())
		}
	})
	return r
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func eventually(ctx context.Context, t *testing.T, what string, try func() error) {
	t.Helper()
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		case <-ticker.C:
		}
	}
}

// warnings are what BuildKit's linter says of a Dockerfile.
func warnings(t *testing.T, text []byte) (all []string) {
	t.Helper()
	source := llb.NewSourceMap(nil, "Dockerfile", "Dockerfile", text)
	var err error
	if source.Definition, err = llb.Scratch().Marshal(t.Context()); err != nil {
		t.Fatal(err)
	}
	results, err := dockerfile2llb.DockerfileLint(t.Context(), text, dockerfile2llb.ConvertOpt{SourceMap: source, MetaResolver: anyImage{}})
	if err != nil {
		t.Fatal(err)
	}
	if results.Error != nil {
		all = append(all, results.Error.Message)
	}
	for _, w := range results.Warnings {
		all = append(all, fmt.Sprintf("line %d: %s: %s", w.Location.Ranges[0].Start.Line, w.RuleName, w.Detail))
	}
	return all
}

// anyImage stands for a registry that has every image: none is asked for here.
type anyImage struct{}

func (anyImage) ResolveImageConfig(_ context.Context, ref string, _ sourceresolver.Opt) (string, digest.Digest, []byte, error) {
	return ref, digest.FromString(ref), []byte(`{"architecture":"amd64","os":"linux","config":{"Env":["PATH=/usr/bin"]}}`), nil
}

// TestDockerfileIsClean: BuildKit's linter has nothing to say about it, and would have.
func TestDockerfileIsClean(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, warning := range warnings(t, text) {
		t.Error(warning)
	}
	faulty := strings.Replace(string(text), "CMD [\"run\"]", "CMD run\nENV a b", 1)
	if got := strings.Join(warnings(t, []byte(faulty)), "\n"); !strings.Contains(got, "JSONArgsRecommended") || !strings.Contains(got, "LegacyKeyValueFormat") {
		t.Errorf("the linter finds no fault in a faulty file: %q", got)
	}
}
