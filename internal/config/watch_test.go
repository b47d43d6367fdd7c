package config

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// watched is a Watch at work in a test, with what it called.
type watched struct {
	t       *testing.T
	applied chan Config
	failed  chan error
	hangUp  chan os.Signal
}

func startWatch(t *testing.T, path string) *watched {
	t.Helper()
	current, err := Load(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	seen := &watched{t: t, applied: make(chan Config, 100), failed: make(chan error, 100), hangUp: make(chan os.Signal)}
	w := watch{path: path, current: current, apply: func(c Config) { seen.applied <- c }, failed: func(err error) { seen.failed <- err }}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.run(ctx, seen.hangUp)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	seen.hangUp <- syscall.SIGHUP // unbuffered: taken by the loop, so everything is in place
	if c := seen.next(); c.Limits.InFlight != current.Limits.InFlight {
		t.Fatalf("SIGHUP applied %+v", c.Limits)
	}
	return seen
}

// patience is far beyond anything that is waited for here; it ends a broken test.
const patience = 30 * time.Second

func (s *watched) next() Config {
	s.t.Helper()
	select {
	case c := <-s.applied:
		return c
	case err := <-s.failed:
		s.t.Fatalf("refused: %v", err)
	case <-time.After(patience):
		s.t.Fatal("nothing was applied")
	}
	return Config{}
}

func (s *watched) nextFault() error {
	s.t.Helper()
	select {
	case c := <-s.applied:
		s.t.Fatalf("applied %+v", c)
	case err := <-s.failed:
		return err
	case <-time.After(patience):
		s.t.Fatal("nothing was reported")
	}
	return nil
}

func inFlight(n int) string { return fmt.Sprintf("limits:\n  in_flight: %d\n", n) }

func put(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestWatchTakesWhatAnEditorWritesInPlace(t *testing.T) {
	file := write(t, inFlight(1))
	seen := startWatch(t, file)
	put(t, file, inFlight(2))
	if c := seen.next(); c.Limits.InFlight != 2 {
		t.Errorf("in_flight is %d", c.Limits.InFlight)
	}
}

func TestWatchTakesAFileReplacedByRename(t *testing.T) {
	file := write(t, inFlight(1))
	seen := startWatch(t, file)
	for n := 2; n < 5; n++ { // every time, not only the first
		put(t, file+".new", inFlight(n))
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
		if c := seen.next(); c.Limits.InFlight != n {
			t.Errorf("in_flight is %d, want %d", c.Limits.InFlight, n)
		}
	}
}

// Kubernetes mounts a ConfigMap as links through ..data, and swaps that one link.
func TestWatchTakesASwappedKubernetesVolume(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "shardonnay.yaml")
	swap := func(n int) {
		version := filepath.Join(dir, fmt.Sprintf("..version-%d", n))
		if err := os.Mkdir(version, 0o700); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(version, "shardonnay.yaml"), inFlight(n))
		if err := os.Symlink(filepath.Base(version), filepath.Join(dir, "..data_tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
		if n > 1 {
			if err := os.RemoveAll(filepath.Join(dir, fmt.Sprintf("..version-%d", n-1))); err != nil {
				t.Fatal(err)
			}
		}
	}
	swap(1)
	if err := os.Symlink("..data/shardonnay.yaml", file); err != nil {
		t.Fatal(err)
	}
	seen := startWatch(t, file)
	for n := 2; n < 5; n++ {
		swap(n)
		if c := seen.next(); c.Limits.InFlight != n {
			t.Errorf("in_flight is %d, want %d", c.Limits.InFlight, n)
		}
	}
}

// A link straight to a file in another folder, where the change happens.
func TestWatchFollowsALink(t *testing.T) {
	target, link := write(t, inFlight(1)), filepath.Join(t.TempDir(), "shardonnay.yaml")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	seen := startWatch(t, link)
	put(t, target, inFlight(2))
	if c := seen.next(); c.Limits.InFlight != 2 {
		t.Errorf("in_flight is %d", c.Limits.InFlight)
	}
}

func TestWatchRefusesAFaultyFileAndRecovers(t *testing.T) {
	file := write(t, inFlight(1))
	seen := startWatch(t, file)
	put(t, file, "limits:\n  in_flight: many\n")
	if err := seen.nextFault(); !strings.Contains(err.Error(), "limits.in_flight") {
		t.Errorf("the fault is %v", err)
	}
	put(t, file, inFlight(3))
	if c := seen.next(); c.Limits.InFlight != 3 {
		t.Errorf("in_flight is %d", c.Limits.InFlight)
	}
}

func TestWatchReadsARotatedPasswordAndCertificate(t *testing.T) {
	password, authority := write(t, "first"), write(t, "A")
	seen := startWatch(t, write(t, "connection: {username: u, password_file: "+password+", ca_file: "+authority+"}\n"))
	put(t, password, "second")
	if c := seen.next(); string(c.Connection.Password) != "second" {
		t.Error("the new password was not read")
	}
	put(t, authority, "B") // the configuration itself is the same, the client that is made of it is not
	seen.next()
}

func TestWatchAnswersEveryHangUp(t *testing.T) {
	file := write(t, inFlight(1))
	seen := startWatch(t, file)
	seen.hangUp <- syscall.SIGHUP
	seen.next()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	seen.hangUp <- syscall.SIGHUP
	if err := seen.nextFault(); !strings.Contains(err.Error(), "no such file") {
		t.Errorf("the fault is %v", err)
	}
}

// The real signal, through the exported function.
func TestWatchHearsSIGHUP(t *testing.T) {
	// Caught here too, so that a signal sent before Watch listens does not end the test process.
	spare := make(chan os.Signal, 1)
	signal.Notify(spare, syscall.SIGHUP)
	defer signal.Stop(spare)
	current, err := Load("", nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	done := make(chan struct{})
	applied := false
	go func() {
		defer close(done)
		Watch(ctx, "", nil, current, func(Config) { applied = true; cancel() }, func(err error) { t.Error(err) })
	}()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		select {
		case <-done:
			if !applied {
				t.Error("SIGHUP was not heard")
			}
			return
		case <-again.C:
			if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
		}
	}
}
