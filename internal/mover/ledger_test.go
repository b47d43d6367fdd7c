package mover

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/plan"
)

// A ledger that cannot be read is put aside and said so; a folder that cannot be written to is an error with its cure.
func TestLedgerOnBadDays(t *testing.T) {
	for _, text := range []string{"", "{", `{"version":2,"moves":[]}`, "\x00\x01"} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, ledgerFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		l, warning, err := OpenLedger(dir)
		if err != nil || !strings.Contains(warning, "recent moves are forgotten") || len(l.open()) != 0 {
			t.Errorf("%q: %q, %v", text, warning, err)
		}
		if kept, err := os.ReadFile(filepath.Join(dir, ledgerFile+".broken")); err != nil || string(kept) != text {
			t.Errorf("%q was not kept: %q, %v", text, kept, err)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := OpenLedger(filepath.Join(file, "state")); cluster.ClassOf(err) != cluster.Invalid || !strings.Contains(err.Error(), "state.dir") {
		t.Errorf("%v", err)
	}
}

// What cannot be written down is not asked for: a restart could not adopt it.
func TestNoMoveWithoutLedger(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	f, s := newFake(t, fourNodes)
	m := f.mover(nil)
	m.ledger = openLedger(t, dir)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	r, err := m.Carry(t.Context(), f.plan("a/0/p/n1 -> n2"), s)
	if cluster.ClassOf(err) != cluster.Invalid || len(f.requests) != 0 || r.Count[Skipped] != 1 {
		t.Errorf("%s, %v, %d requests", told(r), err, len(f.requests))
	}
	addsUp(t, r)
}

// What is older than a day is forgotten, on disk too; what has not ended never is.
func TestLedgerForgets(t *testing.T) {
	dir := t.TempDir()
	l := openLedger(t, dir)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i, id := range []string{"old", "young", "open"} {
		f := &flight{move: plan.Move{Seq: i + 1, AllocationID: id}, state: Requested}
		if err := l.requested([]*flight{f}, "p", now.Add(-48*time.Hour)); err != nil {
			t.Fatal(err)
		}
		if id != "open" {
			f.set(Landed)
			f.newID = id + "+"
			l.update(f, now.Add(map[string]time.Duration{"old": -25 * time.Hour, "young": -23 * time.Hour}[id]))
		}
	}
	if err := l.save(now); err != nil {
		t.Fatal(err)
	}
	again := openLedger(t, dir)
	if returns := again.Returns(now); len(returns) != 1 || len(again.entries) != 2 || len(again.open()) != 1 {
		t.Errorf("%v remain, returns %v", again.entries, returns)
	}
	leftovers, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(leftovers) != 1 {
		t.Errorf("the folder holds %v, %v", leftovers, err)
	}
}
