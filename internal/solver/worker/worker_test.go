package worker

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/instance"
	"github.com/shardonnay/shardonnay/internal/model"
	"github.com/shardonnay/shardonnay/internal/solver"
)

// trouble is the variable that tells this test binary, when it is the worker, how to go wrong.
const trouble = "SHARDONNAY_TEST_WORKER"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == Command {
		switch os.Getenv(trouble) {
		case "crash": // as a C++ exception inside the library does
			os.Stderr.WriteString("terminate called after throwing an instance of 'CoinError'\n")
			if err := syscall.Kill(os.Getpid(), syscall.SIGABRT); err != nil {
				os.Exit(3)
			}
			select {}
		case "hang":
			never := make(chan os.Signal, 1)
			signal.Notify(never, syscall.SIGUSR1)
			<-never
		case "garbage":
			os.Stdout.WriteString("not an answer")
			os.Exit(0)
		}
		if err := Main(context.Background(), os.Stdin, os.Stdout); err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func problem(t *testing.T) *model.Problem {
	t.Helper()
	p, err := instance.Generate(instance.Defaults(10, 200, 1))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func self(t *testing.T) string {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// TestSameAnswer: the worker's answer is the one the search gives in this process, the prices for the next start included.
func TestSameAnswer(t *testing.T) {
	p := problem(t)
	o := solver.Options{WorkLimit: 200_000, Seed: 1, Workers: 1}
	here, err := solver.Solve(t.Context(), p, o)
	if err != nil {
		t.Fatal(err)
	}
	points := 0
	o.Progress = func(solver.TracePoint) { points++ }
	there, err := Solve(t.Context(), self(t), p, o)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(here.Assignment, there.Assignment); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(here.Warm, there.Warm); diff != "" {
		t.Error(diff)
	}
	if !there.Checked || there.LowerBound != here.LowerBound {
		t.Errorf("checked %t, bound %g, want %g", there.Checked, there.LowerBound, here.LowerBound)
	}
	if there.PeakRSS < 1<<20 {
		t.Errorf("the worker's memory was %d bytes at most", there.PeakRSS)
	}
	if points == 0 {
		t.Error("no progress was reported")
	}
	o.Warm = there.Warm
	if _, err := Solve(t.Context(), self(t), p, o); err != nil {
		t.Errorf("with a warm start: %v", err)
	}
}

// TestTrouble: whatever becomes of the worker, the caller gets an error that says so, and lives on.
func TestTrouble(t *testing.T) {
	p := problem(t)
	for _, c := range []struct {
		trouble string
		cancel  bool
		class   cluster.Class
		words   string
	}{
		{"crash", false, cluster.Internal, "CoinError"},
		{"garbage", false, cluster.Internal, "breaks off"},
		{"hang", true, cluster.Interrupted, "canceled"},
	} {
		t.Run(c.trouble, func(t *testing.T) {
			t.Setenv(trouble, c.trouble)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.cancel {
				time.AfterFunc(100*time.Millisecond, cancel)
			}
			_, err := Solve(ctx, self(t), p, solver.Options{TimeLimit: time.Minute})
			if cluster.ClassOf(err) != c.class || err == nil || !strings.Contains(err.Error(), c.words) {
				t.Errorf("got %v, want class %s and %q", err, c.class, c.words)
			}
		})
	}
	if _, err := Solve(t.Context(), self(t), p, solver.Options{WorkLimit: 10_000}); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// TestHangIsKilled: a worker that goes on past its time limit and the grace is killed.
func TestHangIsKilled(t *testing.T) {
	t.Setenv(trouble, "hang")
	started := time.Now()
	_, err := Solve(t.Context(), self(t), problem(t), solver.Options{TimeLimit: 10 * time.Millisecond})
	if cluster.ClassOf(err) != cluster.Internal || !strings.Contains(err.Error(), "no answer") {
		t.Errorf("got %v", err)
	}
	if time.Since(started) < grace {
		t.Error("it was killed before its grace was over")
	}
}

func TestNoSuchProgram(t *testing.T) {
	if _, err := Solve(t.Context(), "/does/not/exist", problem(t), solver.Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestMainRefusesWhatIsNoTask(t *testing.T) {
	if err := Main(t.Context(), strings.NewReader("hello"), new(bytes.Buffer)); cluster.ClassOf(err) != cluster.Invalid {
		t.Errorf("got %v", err)
	}
}
