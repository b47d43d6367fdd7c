package zones

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shardonnay/shardonnay/internal/sim"
)

// alone runs the calling test in a process of its own and tells whether this is that process.
func alone(t *testing.T) bool {
	t.Helper()
	const mark = "TEST_OF_ITS_OWN_PROCESS"
	if os.Getenv(mark) == t.Name() {
		return true
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	child.Env = append(os.Environ(), mark+"="+t.Name())
	out, err := child.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("in its own process: %v\n%s", err, out)
	}
	return false
}

// full is a disk on which no file of this process may grow beyond so many bytes: what is written up to there is written,
// as on one that is full. It is for a process that is alone with its test: the log that the test command keeps of what
// other tests open, to know whether it can use their results again, is such a file too. The function that comes back
// makes room again.
func full(t *testing.T, bytes int64) (room func()) {
	t.Helper()
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	room = func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: uint64(bytes), Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(room)
	return room
}

func sizeOf(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// Of a line for which the disk had too little room nothing stays: the next one would be joined to it, and whoever reads
// the journal would drop both and all that came after.
func TestALineThatWasCutOffByAFullDiskSpoilsNoOther(t *testing.T) {
	if !alone(t) {
		return
	}
	dir := t.TempDir()
	open := func() *Journal {
		t.Helper()
		j, warning, err := OpenJournal(dir, "u")
		if err != nil || warning != "" {
			t.Fatal(err, warning)
		}
		return j
	}
	j, path := open(), filepath.Join(dir, journalFile)
	entry := func(outcome string) Entry { return Entry{Outcome: outcome, State: &State{Cluster: "u"}} }
	if err := j.Append(entry("first")); err != nil {
		t.Fatal(err)
	}
	whole := sizeOf(t, path)
	room := full(t, whole+10)
	if err := j.Append(entry("second")); err == nil {
		t.Error("a line was written without room for it")
	}
	if err := j.Try(); err == nil {
		t.Error("there is no room for a line, and trying did not find out")
	}
	room()
	if size := sizeOf(t, path); size != whole {
		t.Errorf("the journal has %d bytes instead of %d", size, whole)
	}
	for _, outcome := range []string{"third", "fourth"} {
		if err := j.Append(entry(outcome)); err != nil {
			t.Fatal(err)
		}
	}
	before := sizeOf(t, path)
	if err := j.Try(); err != nil || sizeOf(t, path) != before {
		t.Errorf("trying: %v, and the journal has %d bytes instead of %d", err, sizeOf(t, path), before)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	again := open()
	defer again.Close()
	if last := again.Last(); last == nil || last.Outcome != "fourth" {
		t.Errorf("after a restart the last line is %+v", last)
	}
}

// A journal that somebody has removed is begun anew: what goes on being written to an open file that has no name is lost
// with the process. Without its folder it cannot be, and that is said.
func TestAJournalThatWasRemovedIsBegunAnew(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	j, _, err := OpenJournal(dir, "u")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = j.Close() }()
	entry := Entry{State: &State{Cluster: "u"}}
	remove := func() {
		t.Helper()
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	remove()
	if err := j.Try(); err == nil {
		t.Error("trying did not find out that the journal is gone")
	}
	if err := j.Append(entry); err == nil {
		t.Error("a line was written to a folder that is gone")
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := j.Append(entry); err != nil {
		t.Fatal(err)
	}
	if sizeOf(t, filepath.Join(dir, journalFile)) == 0 {
		t.Error("the line is not in the new journal")
	}
	if err := j.Try(); err != nil {
		t.Error(err)
	}
}

// A disk that fails is noticed before anything has to be written. Nothing is done while it lasts, and what was decided
// meanwhile is in the journal once there is room again, though nothing more is decided then.
func TestAJournalThatCannotBeWrittenIsNoticedAndMadeUpFor(t *testing.T) {
	if !alone(t) {
		return
	}
	b := newBed(t, layout{})
	b.until("first weights", 10*time.Minute, steady)
	room := full(t, sizeOf(t, filepath.Join(b.dir, journalFile)))
	since := b.until("it is noticed", 2*tryJournal, func(s *Status) bool { return !s.Unwritten.IsZero() }).Unwritten
	version := b.c.Status().Version
	b.order(OrderRotate, "")
	for range 12 {
		if s := b.round(); s.Unwritten != since || s.Version != version {
			t.Fatalf("it cannot be written since %s, now %s; weights %d, now %d", since, s.Unwritten, version, s.Version)
		}
	}
	b.order(OrderAbort, "")
	last := fmt.Sprint(b.orders)
	b.until("the order is answered", time.Minute, func(s *Status) bool { return s.Handled == last })
	if n := b.count("journal_failed"); n != 1 {
		t.Errorf("it was said %d times that the journal cannot be written", n)
	}
	room()
	b.until("it can be written again", time.Minute, func(s *Status) bool { return s.Unwritten.IsZero() })
	b.end()
	b.begin()
	if got := b.c.state.Handled; got != last {
		t.Errorf("after a restart the last order that was dealt with is %q, it was %q", got, last)
	}
}

// What nobody could be asked is no look at the zones.
func TestALookThatShowsNothingIsNone(t *testing.T) {
	b := newBed(t, layout{})
	last := b.until("first weights", 10*time.Minute, steady).Judged
	if last.IsZero() {
		t.Fatal("nothing was looked at")
	}
	b.Inject(sim.Fault{Kind: sim.FaultStatus, Status: 403})
	b.until("a minute without news", 2*time.Minute, func(s *Status) bool { return s.At.Sub(s.Judged) > time.Minute })
	b.ClearFaults()
	b.until("looks tell again", time.Minute, func(s *Status) bool { return s.Judged.Equal(s.At) })
}
