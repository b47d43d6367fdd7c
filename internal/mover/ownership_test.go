package mover

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

func (f *fake) owner(holder string) *Ownership {
	return NewOwnership(f, testProduct, Lease{Holder: holder, Length: time.Minute, Settle: 2 * time.Second})
}

// rebalance is the persistent setting and who the record names.
func (f *fake) rebalance() string {
	value, present := f.persistent[rebalanceKey]
	if !present {
		value = "-"
	}
	record, err := ParseRecord(map[string]string{ownerName: f.persistent[ownerKey]})
	if f.persistent[ownerKey] == "" {
		return value + " nobody"
	}
	if err != nil {
		return value + " broken"
	}
	return fmt.Sprintf("%s %s before %s", value, record.Holder, record.Previous)
}

func kindOf(err error) StopKind {
	if hold, is := errors.AsType[*Hold](err); is {
		if hold.Text == "" || hold.Cure == "" {
			return "silent " + hold.Kind
		}
		return hold.Kind
	}
	if err != nil {
		return StopKind(err.Error())
	}
	return ""
}

// A story of one instance: what is found, what it does, what it leaves.
func TestOwnershipOfOne(t *testing.T) {
	for _, test := range []struct {
		name   string
		before map[string]string // persistent
		while  func(f *fake, o *Ownership)
		kind   StopKind // of the Confirm after it
		after  string   // Release
	}{
		{name: "was unset", after: "- nobody"},
		{name: "was all", before: map[string]string{rebalanceKey: "all"}, after: "all nobody"},
		{name: "was replicas", before: map[string]string{rebalanceKey: "replicas"}, after: "replicas nobody"},
		{name: "was none already", before: map[string]string{rebalanceKey: "none"}, after: "none nobody"},
		{
			name: "a person sets it to all: it is theirs", before: map[string]string{rebalanceKey: "primaries"},
			while: func(f *fake, _ *Ownership) { f.persistent[rebalanceKey] = "all" }, kind: RebalanceChanged, after: "all nobody",
		},
		{
			name: "a person removes it", before: map[string]string{rebalanceKey: "primaries"},
			while: func(f *fake, _ *Ownership) { delete(f.persistent, rebalanceKey) }, kind: RebalanceChanged, after: "- nobody",
		},
		{
			name: "a person changes it and back", while: func(f *fake, o *Ownership) {
				f.persistent[rebalanceKey] = "all"
				if _, err := o.Confirm(f.t.Context()); kindOf(err) != RebalanceChanged {
					f.t.Error(err)
				}
				f.persistent[rebalanceKey] = "none"
			}, after: "- nobody",
		},
		{
			name: "a person's value stays theirs when our record has long expired", while: func(f *fake, o *Ownership) {
				f.persistent[rebalanceKey] = "all"
				for range 50 {
					pass(15 * time.Second)
					if err := o.Acquire(f.t.Context()); kindOf(err) != RebalanceChanged || f.persistent[rebalanceKey] != "all" {
						f.t.Fatalf("%v; the setting is %s", err, f.persistent[rebalanceKey])
					}
				}
			}, kind: RebalanceChanged, after: "all nobody",
		},
		{
			name: "until they set it back", before: map[string]string{rebalanceKey: "primaries"}, while: func(f *fake, o *Ownership) {
				f.persistent[rebalanceKey] = "all"
				for range 50 {
					pass(15 * time.Second)
					if err := o.Acquire(f.t.Context()); kindOf(err) != RebalanceChanged {
						f.t.Fatal(err)
					}
				}
				f.persistent[rebalanceKey] = "none"
				if err := o.Acquire(f.t.Context()); kindOf(err) != NotHeld {
					f.t.Fatal(err)
				}
				if err := o.Acquire(f.t.Context()); err != nil {
					f.t.Fatal(err)
				}
			}, after: "primaries nobody",
		},
		{
			name: "a transient value wins", while: func(f *fake, _ *Ownership) { f.transient[rebalanceKey] = "all" },
			kind: TransientSetting, after: "- nobody",
		},
		{
			name: "somebody releases in our stead", before: map[string]string{rebalanceKey: "all"}, while: func(f *fake, _ *Ownership) {
				if r, err := Release(f.t.Context(), f, testProduct, nil, false); err != nil || !r.Restored || r.Value != "all" {
					f.t.Error(r, err)
				}
			}, kind: GivenBack, after: "all nobody",
		},
		{
			name: "our record is renewed before it expires", while: func(f *fake, o *Ownership) {
				for range 50 {
					pass(15 * time.Second)
					if _, err := o.Confirm(f.t.Context()); err != nil {
						f.t.Error(err)
					}
				}
			}, after: "- nobody",
		},
		{
			name: "a renewal fails and the next one does not", while: func(f *fake, o *Ownership) {
				pass(25 * time.Second)
				f.fail["put"] = &cluster.Error{Class: cluster.Unavailable, Err: errors.New("HTTP 429")}
				if _, err := o.Confirm(f.t.Context()); err != nil {
					f.t.Error("with most of the lease left:", err)
				}
				pass(20 * time.Second)
				if _, err := o.Confirm(f.t.Context()); err == nil {
					f.t.Error("with little of the lease left it goes on")
				}
				delete(f.fail, "put")
			}, after: "- nobody",
		},
		{
			name: "we slept past our lease", while: func(f *fake, _ *Ownership) { pass(time.Hour) }, kind: NotHeld, after: "none n before unset",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, s := newFake(t, fourNodes)
				maps.Copy(f.persistent, test.before)
				o := f.owner("n")
				if err := o.Acquire(t.Context()); err != nil {
					t.Fatal(err)
				}
				previous := test.before[rebalanceKey]
				if previous == "" {
					previous = unset
				}
				if got := f.rebalance(); got != "none n before "+previous {
					t.Fatalf("taken over: %s", got)
				}
				if len(f.puts) != 1 || len(f.puts[0]) != 2 {
					t.Errorf("not one request: %v", f.puts)
				}
				if test.while != nil {
					test.while(f, o)
				}
				if _, err := o.Confirm(t.Context()); kindOf(err) != test.kind {
					t.Errorf("confirm: %v, want %q", err, test.kind)
				}
				r, err := o.Release(t.Context(), s)
				if err != nil || r.Text == "" {
					t.Errorf("%+v, %v", r, err)
				}
				if got := f.rebalance(); got != test.after {
					t.Errorf("released: %s (%s), want %s", got, r.Text, test.after)
				}
			})
		})
	}
}

// What stands against taking over.
func TestAcquireHolds(t *testing.T) {
	record := func(holder string, expires time.Duration) string {
		now := time.Now().UTC()
		return (&Record{Holder: holder, Session: "x", Renewed: now.Add(expires - time.Minute), Expires: now.Add(expires), Previous: "all"}).text()
	}
	for _, test := range []struct {
		name   string
		before func(f *fake)
		kind   StopKind
		after  string
	}{
		{"another holds it", func(f *fake) { f.persistent[ownerKey], f.persistent[rebalanceKey] = record("m", time.Second), "none" }, OtherHolder, "none m before all"},
		{
			"another's has expired: its previous value is kept",
			func(f *fake) {
				f.persistent[ownerKey], f.persistent[rebalanceKey] = record("m", -time.Minute), "none"
			}, "", "none n before all",
		},
		{
			"clocks differ a little: not expired yet", func(f *fake) { f.persistent[ownerKey], f.persistent[rebalanceKey] = record("m", -time.Second), "none" },
			OtherHolder, "none m before all",
		},
		{
			"another's has expired and a person has set the value since",
			func(f *fake) {
				f.persistent[ownerKey], f.persistent[rebalanceKey] = record("m", -time.Minute), "replicas"
			}, "", "none n before replicas",
		},
		{"our own from before a restart", func(f *fake) { f.persistent[ownerKey], f.persistent[rebalanceKey] = record("n", time.Minute), "none" }, "", "none n before all"},
		{"a transient value", func(f *fake) { f.transient[rebalanceKey] = "none" }, TransientSetting, "- nobody"},
		{"a broken record", func(f *fake) { f.persistent[ownerKey] = "?" }, BrokenRecord, "- broken"},
		{"the write is refused", func(f *fake) {
			f.fail["put"] = &cluster.Error{Class: cluster.Refused, Op: "put", Err: errors.New("HTTP 403")}
		}, "put: HTTP 403", "- nobody"},
		{"somebody removes our record at once", func(f *fake) {
			f.onPut = func(map[string]any) { delete(f.persistent, ownerKey) }
		}, NotHeld, "none nobody"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, _ := newFake(t, fourNodes)
				test.before(f)
				o := f.owner("n")
				err := o.Acquire(t.Context())
				if kindOf(err) != test.kind {
					t.Errorf("%v, want %q", err, test.kind)
				}
				if got := f.rebalance(); got != test.after {
					t.Errorf("%s, want %s", got, test.after)
				}
				if _, err := o.Confirm(t.Context()); (err == nil) != (test.kind == "") {
					t.Errorf("confirm: %v", err)
				}
			})
		})
	}
}

// Told to end while the claim settles, or its answer is lost: it is given back all the same.
func TestAClaimBrokenOffIsGivenBack(t *testing.T) {
	for _, lost := range []error{nil, &cluster.Error{Class: cluster.Unavailable, Op: "put", Err: errors.New("connection reset")}} {
		synctest.Test(t, func(t *testing.T) {
			f, _ := newFake(t, fourNodes)
			f.persistent[rebalanceKey] = "primaries"
			o := f.owner("n")
			o.api = &slowPut{fake: f, delay: time.Second, lost: lost}
			ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
			defer cancel()
			if err := o.Acquire(ctx); err == nil {
				t.Error("acquired")
			}
			if got := f.rebalance(); got != "none n before primaries" {
				t.Errorf("claimed: %s", got)
			}
			o.api = f
			if r, err := o.Release(t.Context(), nil); err != nil || f.rebalance() != "primaries nobody" {
				t.Errorf("%+v, %v: %s", r, err, f.rebalance())
			}
		})
	}
}

// Two instances start in the same moment: at no time do both believe to be the holder, and one is.
func TestTwoInstancesContend(t *testing.T) {
	for delay := range 5 {
		synctest.Test(t, func(t *testing.T) {
			f, _ := newFake(t, fourNodes)
			one, two := f.owner("one"), f.owner("two")
			results := make(chan error, 2)
			// The second reads before the first has written and writes up to 2 s after it.
			go func() { results <- one.Acquire(t.Context()) }()
			slow := &slowPut{fake: f, delay: time.Duration(delay) * 450 * time.Millisecond}
			two.api = slow
			go func() { results <- two.Acquire(t.Context()) }()
			first, second := <-results, <-results
			holders := 0
			for _, o := range []*Ownership{one, two} {
				if _, err := o.Confirm(t.Context()); err == nil {
					holders++
				}
			}
			if holders != 1 || (first == nil) == (second == nil) {
				t.Errorf("a write %v late: %d holders, %v and %v", slow.delay, holders, first, second)
			}
			// The other one takes over when the first is gone without a word, and puts back what was there before both.
			pass(2 * time.Minute)
			heir := f.owner("three")
			if err := heir.Acquire(t.Context()); err != nil {
				t.Fatal(err)
			}
			if r, err := heir.Release(t.Context(), nil); err != nil || f.rebalance() != "- nobody" {
				t.Errorf("%+v, %v: %s", r, err, f.rebalance())
			}
		})
	}
}

type slowPut struct {
	*fake
	delay time.Duration
	lost  error // in place of the answer
}

func (s *slowPut) PutSettings(ctx context.Context, settings map[string]any) error {
	pass(s.delay)
	if err := s.fake.PutSettings(ctx, settings); err != nil {
		return err
	}
	return s.lost
}

// Two processes with one holder name: the younger gets it, the elder stops for good and says why.
func TestTwinsWithOneName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := newFake(t, fourNodes)
		elder, younger := f.owner("n"), f.owner("n")
		if err := elder.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := younger.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			err := elder.Acquire(t.Context())
			if kindOf(err) != OtherHolder || !strings.Contains(err.Error(), "another process with our holder name n") {
				t.Errorf("%v", err)
			}
			if err := younger.Acquire(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if r, err := elder.Release(t.Context(), nil); err != nil || r.Restored {
			t.Errorf("the elder gives back what is not its: %+v, %v", r, err)
		}
	})
}

// The mover asks for nothing once it is not the holder any more, and renews while it only watches.
func TestCarryConfirmsOwnership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s := newFake(t, fourNodes)
		o := f.owner("n")
		if err := o.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		m := f.mover(func(c *Config) { c.Limits.Cluster = 1; c.StuckAfter = time.Hour })
		m.own = o
		f.copy("a/0/p/n1").bytes = 300 << 30 // five leases long
		f.disks["n2"] = cluster.DiskUse{}
		r, err := m.Carry(t.Context(), f.plan("a/0/p/n1 -> n2"), s)
		if err != nil || r.Count[Landed] != 1 || len(r.Warnings) > 0 {
			t.Fatalf("%s %v, %v", told(r), r.Warnings, err)
		}
		if _, err := o.Confirm(t.Context()); err != nil {
			t.Error("after five leases:", err)
		}
		f.onMove = func(*fakeCopy) { f.persistent[rebalanceKey] = "all" }
		r, err = m.Carry(t.Context(), f.plan("a/1/p/n1 -> n3", "a/2/p/n1 -> n4"), s)
		want := "skipped a/2->n4 (somebody has set cluster.routing.rebalance.enable to all while rebalancing was ours); landed a/1->n3; stop rebalance_changed"
		if err != nil || told(r) != want {
			t.Errorf("%s, %v", told(r), err)
		}
		addsUp(t, r)
	})
}

func TestReleaseOfOthers(t *testing.T) {
	for _, test := range []struct {
		name        string
		before      map[string]string
		age         time.Duration // of the record
		onlyExpired bool
		after, text string
	}{
		{"nothing to give back", nil, 0, false, "- nobody", "there is no ownership record; cluster.routing.rebalance.enable is unset"},
		{"whoever died", map[string]string{rebalanceKey: "none", ownerKey: "m all"}, 0, false, "all nobody", "cluster.routing.rebalance.enable is all again, as before m took it over; what the server's balancer will move is not foretold"},
		{"was unset", map[string]string{rebalanceKey: "none", ownerKey: "m unset"}, 0, false, "- nobody", "cluster.routing.rebalance.enable is unset again, as before m took it over; what the server's balancer will move is not foretold"},
		{"only expired ones, and this is not", map[string]string{rebalanceKey: "none", ownerKey: "m all"}, 0, true, "none m before all", "the ownership record has not expired"},
		{"only expired ones, and this is", map[string]string{rebalanceKey: "none", ownerKey: "m all"}, time.Hour, true, "all nobody", "cluster.routing.rebalance.enable is all again, as before m took it over; what the server's balancer will move is not foretold"},
		{"a person has set it", map[string]string{rebalanceKey: "primaries", ownerKey: "m all"}, 0, false, "primaries nobody", "cluster.routing.rebalance.enable was set to primaries by somebody else in the meantime and stays so; what the server's balancer will move is not foretold"},
		{"a broken record", map[string]string{rebalanceKey: "none", ownerKey: "?"}, 0, false, "none nobody", "the ownership record could not be read and is removed; cluster.routing.rebalance.enable is none, and what it was before is not known: set it to what it should be"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, _ := newFake(t, fourNodes)
				for key, value := range test.before {
					if holder, previous, found := strings.Cut(value, " "); found {
						renewed := time.Now().Add(-test.age)
						value = (&Record{Holder: holder, Session: "x", Renewed: renewed, Expires: renewed.Add(time.Minute), Previous: previous}).text()
					}
					f.persistent[key] = value
				}
				r, err := Release(t.Context(), f, testProduct, nil, test.onlyExpired)
				if err != nil {
					t.Fatal(err)
				}
				if f.rebalance() != test.after || r.Text != test.text {
					t.Errorf("%s (%s)\nwant %s (%s)", f.rebalance(), r.Text, test.after, test.text)
				}
			})
		})
	}
}
