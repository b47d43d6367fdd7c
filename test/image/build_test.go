package image

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	dockerspec "github.com/moby/docker-image-spec/specs-go/v1"
	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
	"golang.org/x/sys/unix"
)

// root is the folder that an engine would be given as its context.
const root = "../.."

// base is what the image is built on: a Debian with a compiler, git and Go in /usr/local/go. The Go that stands in is this
// machine's.
const base = "golang:1.26-bookworm"

// packages are those of the base image that matter here.
var packages = []string{"ca-certificates", "g++", "gcc", "git", "libc6-dev", "make", "pkg-config"}

// image is what the Dockerfile makes.
type image struct {
	dir         string
	user        string
	entrypoint  []string
	command     []string
	healthcheck *dockerspec.HealthcheckConfig
}

// stage is one stage of it on the way.
type stage struct {
	image
	name, workdir string
	env           []string
}

// build carries out the Dockerfile.
func build(t *testing.T) *image {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := parser.Parse(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	stages, globals, err := instructions.Parse(parsed.AST, nil)
	if err != nil || len(globals) > 0 {
		t.Fatalf("%v; %d arguments before the first stage, which this does not know", err, len(globals))
	}
	work := t.TempDir()
	context := filepath.Join(work, "context")
	ship(t, context)
	done := make(map[string]*stage)
	var last *stage
	for i, s := range stages {
		began := time.Now()
		last = &stage{name: s.Name, workdir: "/", image: image{dir: filepath.Join(work, fmt.Sprint("stage-", i))}}
		last.begin(t, s.BaseName)
		for _, command := range s.Commands {
			last.carryOut(t, command, context, done)
		}
		done[s.Name] = last
		t.Logf("stage %d, from %s: %.0f s", i, s.BaseName, time.Since(began).Seconds())
	}
	return &last.image
}

// ship copies what .dockerignore lets pass.
func ship(t *testing.T, to string) {
	t.Helper()
	file, err := os.Open(filepath.Join(root, ".dockerignore"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	patterns, err := ignorefile.ReadAll(file)
	if err != nil {
		t.Fatal(err)
	}
	matcher, err := patternmatcher.New(patterns)
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		name, _ := filepath.Rel(root, path)
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (name == ".git" || name == ".tools"):
			return filepath.SkipDir
		case !entry.Type().IsRegular():
			return nil
		}
		ignored, err := matcher.MatchesOrParentMatches(filepath.ToSlash(name))
		if err != nil || ignored {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		return errors.Join(os.MkdirAll(filepath.Dir(target), 0o755), os.WriteFile(target, content, 0o644))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// begin lays out what a stage starts from.
func (s *stage) begin(t *testing.T, from string) {
	t.Helper()
	switch from {
	case "scratch":
		if err := os.MkdirAll(s.dir, 0o755); err != nil {
			t.Fatal(err)
		}
	case base:
		_, suite, _ := strings.Cut(from, "-")
		began := time.Now()
		command(t, "debootstrap", "--variant=minbase", "--include="+strings.Join(packages, ","), "--cache-dir="+cache(t, "debs"), suite, s.dir)
		t.Logf("debootstrap: %.0f s", time.Since(began).Seconds())
		s.env = []string{"PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "GOPATH=/go", "GOTOOLCHAIN=local", "HOME=/root"}
		for _, name := range []string{"GOPROXY", "GOSUMDB", "GONOSUMDB", "GOFLAGS", "http_proxy", "https_proxy", "no_proxy"} {
			if value := goEnv(t, name); value != "" && name != "GOFLAGS" {
				s.env = append(s.env, name+"="+value)
			}
		}
		resolver, err := os.ReadFile("/etc/resolv.conf")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(s.dir, "etc/resolv.conf"), resolver, 0o644); err != nil {
			t.Fatal(err)
		}
		mount(t, "proc", filepath.Join(s.dir, "proc"), "proc", 0)
		// What Go has fetched and compiled here before: the modules are checked against go.sum, the compiled packages are known
		// by all that went into them, the compiler included.
		mount(t, goEnv(t, "GOROOT"), filepath.Join(s.dir, "usr/local/go"), "", unix.MS_BIND)
		mount(t, goEnv(t, "GOMODCACHE"), filepath.Join(s.dir, "go/pkg/mod"), "", unix.MS_BIND)
		mount(t, goEnv(t, "GOCACHE"), filepath.Join(s.dir, "root/.cache/go-build"), "", unix.MS_BIND)
	default:
		t.Fatalf("FROM %s: this knows scratch and %s", from, base)
	}
}

// carryOut does what one instruction says.
func (s *stage) carryOut(t *testing.T, command instructions.Command, context string, done map[string]*stage) {
	t.Helper()
	switch c := command.(type) {
	case *instructions.RunCommand:
		line := c.CmdLine
		if c.PrependShell {
			line = []string{"/bin/sh", "-c", strings.Join(c.CmdLine, " ")}
		}
		s.run(t, line)
	case *instructions.CopyCommand:
		from := context
		if c.From != "" {
			if done[c.From] == nil {
				t.Fatalf("%s: there is no stage %s", c, c.From)
			}
			from = done[c.From].dir
		}
		s.copy(t, from, c.SourcePaths, c.DestPath)
	case *instructions.ArgCommand:
		for _, arg := range c.Args {
			if arg.Value != nil {
				s.env = append(s.env, arg.Key+"="+*arg.Value)
			}
		}
	case *instructions.EnvCommand:
		for _, pair := range c.Env {
			s.env = append(s.env, pair.Key+"="+pair.Value)
		}
	case *instructions.WorkdirCommand:
		s.workdir = filepath.Join("/", s.workdir, c.Path)
		if filepath.IsAbs(c.Path) {
			s.workdir = c.Path
		}
		if err := os.MkdirAll(filepath.Join(s.dir, s.workdir), 0o755); err != nil {
			t.Fatal(err)
		}
	case *instructions.UserCommand:
		s.user = c.User
	case *instructions.EntrypointCommand:
		s.entrypoint = plain(t, c.ShellDependantCmdLine)
	case *instructions.CmdCommand:
		s.command = plain(t, c.ShellDependantCmdLine)
	case *instructions.HealthCheckCommand:
		s.healthcheck = c.Health
	case *instructions.ExposeCommand:
	default:
		t.Fatalf("%s is an instruction this does not know: teach it", command.Name())
	}
}

// plain is a command line that needs no shell.
func plain(t *testing.T, c instructions.ShellDependantCmdLine) []string {
	t.Helper()
	if c.PrependShell {
		t.Errorf("%v needs a shell, and there is none in the image", c.CmdLine)
	}
	return c.CmdLine
}

// run runs a command inside of the stage.
func (s *stage) run(t *testing.T, line []string) {
	t.Helper()
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Dir, cmd.Env = s.workdir, s.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: s.dir}
	began := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("RUN %s: %v\n%s", strings.Join(line, " "), err, out)
	}
	what, _, _ := strings.Cut(line[len(line)-1], "  ")
	t.Logf("RUN %.60s: %.0f s", what, time.Since(began).Seconds())
}

// copy copies files, and what is in folders, as COPY does.
func (s *stage) copy(t *testing.T, from string, sources []string, to string) {
	t.Helper()
	into := strings.HasSuffix(to, "/") || len(sources) > 1
	if !filepath.IsAbs(to) {
		to = filepath.Join(s.workdir, to)
	}
	target := filepath.Join(s.dir, to)
	for _, source := range sources {
		source = filepath.Join(from, source)
		info, err := os.Stat(source)
		if err != nil {
			t.Fatalf("COPY: %v: .dockerignore may keep it back", err)
		}
		switch {
		case info.IsDir():
			command(t, "mkdir", "-p", target)
			command(t, "cp", "--archive", source+"/.", target)
		case into:
			command(t, "mkdir", "-p", target)
			command(t, "cp", "--archive", source, target)
		default:
			command(t, "mkdir", "-p", filepath.Dir(target))
			command(t, "cp", "--archive", source, target)
		}
	}
}

// mount mounts something for this process and its children; the end of the process is the end of it.
func mount(t *testing.T, source, target, kind string, flags uintptr) {
	t.Helper()
	if err := os.MkdirAll(target, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(source, target, kind, flags, ""); err != nil {
		t.Fatalf("mount %s on %s: %v", source, target, err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(target, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", target, err)
		}
	})
}

// command runs a program of this machine.
func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// cache is a folder that the next run finds again.
func cache(t *testing.T, name string) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join(root, ".tools", "image", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// goEnv is a setting of Go's, or of the environment.
func goEnv(t *testing.T, name string) string {
	t.Helper()
	if strings.ToLower(name) == name {
		return os.Getenv(name)
	}
	return strings.TrimSpace(command(t, "go", "env", name))
}

// files lists what is in the image.
func (i *image) files(t *testing.T) (names []string, bytes int64) {
	t.Helper()
	err := filepath.WalkDir(i.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(i.dir, path)
		names, bytes = append(names, name), bytes+info.Size()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names, bytes
}
