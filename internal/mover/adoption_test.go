package mover

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardonnay/shardonnay/internal/es"
	"github.com/shardonnay/shardonnay/internal/plan"
)

// A mover that starts anew adopts what its predecessor asked for, and does not ask again.
func TestAdoption(t *testing.T) {
	for _, test := range []struct {
		name  string
		while func(f *fake) // between the two
		want  string
	}{
		{"still under way", func(*fake) {}, "landed a/1->n3"},
		{"landed meanwhile", func(*fake) { pass(time.Minute) }, "landed a/1->n3"},
		{"cancelled meanwhile", func(f *fake) { f.copy("a/1/p/n1").stop() }, "cancelled a/1->n3 (it ended where it began: cancelled, or failed at the server; its log says why)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				f, s := newFake(t, fourNodes)
				p := f.plan("a/1/p/n1 -> n3", "a/0/p/n1 -> n2")
				first := f.mover(func(c *Config) { c.Limits.Cluster = 1 })
				first.ledger = openLedger(t, dir)
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				r, err := first.Carry(ctx, p, s)
				if err != nil || len(r.InFlight) != 1 || r.Count[Skipped] != 1 {
					t.Fatalf("%s, %v", told(r), err)
				}
				test.while(f)
				second := f.mover(nil)
				second.ledger = openLedger(t, dir)
				if r, err = second.Carry(t.Context(), nil, s); err != nil {
					t.Fatal(err)
				}
				addsUp(t, r)
				if told(r) != test.want || r.Adopted != 1 || len(f.requests) != 1 {
					t.Errorf("%s, %d adopted, %d requests", told(r), r.Adopted, len(f.requests))
				}
				third := openLedger(t, dir)
				if len(third.open()) != 0 {
					t.Errorf("the ledger still has %v", third.open())
				}
			})
		})
	}
}

func openLedger(t *testing.T, dir string) *Ledger {
	t.Helper()
	l, warning, err := OpenLedger(dir)
	if err != nil || warning != "" {
		t.Fatal(err, warning)
	}
	return l
}

// Without a ledger the relocations under way at the first look are adopted, once rebalancing is ours.
func TestAdoptionWithoutLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s := newFake(t, fourNodes)
		if _, err := f.Reroute(t.Context(), testProduct, []es.Move{{Index: "a", Shard: 1, From: "n1", To: "n3"}}); err != nil {
			t.Fatal(err)
		}
		m := f.mover(func(c *Config) { c.CancelStuck = true; c.StuckAfter = 5 * time.Second })
		m.own = f.owner("n")
		if err := m.own.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.copy("a/1/p/n1").stuck = true
		r, err := m.Carry(t.Context(), f.plan("a/0/p/n1 -> n2"), s)
		want := "expired a/1->n3 (no byte has arrived for 5s; it is left to the cluster); landed a/0->n2"
		if err != nil || told(r) != want || r.Adopted != 1 || len(f.cancels) != 0 {
			t.Errorf("%s, %d adopted, %v cancelled, %v", told(r), r.Adopted, f.cancels, err)
		}
		addsUp(t, r)
	})
}

// A plan that carries on while an adopted move of the same copy flies does not ask for it twice.
func TestAdoptedMoveIsNotDuplicated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s := newFake(t, fourNodes)
		p := f.plan("a/1/p/n1 -> n3", "a/0/p/n1 -> n2")
		m := f.mover(nil)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if r, err := m.Carry(ctx, &plan.Plan{ID: "one", ExpiresAt: p.ExpiresAt, Cluster: p.Cluster, Moves: p.Moves[:1]}, s); err != nil || len(r.InFlight) != 1 {
			t.Fatalf("%s, %v", told(r), err)
		}
		r, err := m.Carry(t.Context(), p, s)
		if want := "landed a/0->n2; landed a/1->n3; landed a/1->n3 (it was there already)"; err != nil || told(r) != want {
			t.Errorf("%s, %v", told(r), err)
		}
		if len(f.requests) != 2 {
			t.Errorf("%d requests", len(f.requests))
		}
	})
}
