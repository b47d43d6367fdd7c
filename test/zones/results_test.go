package zones

import (
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/shardonnay/shardonnay/internal/zones"
	"github.com/shardonnay/shardonnay/test/realcluster"
)

var results = flag.Bool("results", false, "repeat the scenarios often and print the figures of docs/results.md")

// spread is the smallest, the middle and the largest of some times.
func spread(times []time.Duration) string {
	slices.Sort(times)
	seconds := func(d time.Duration) string { return fmt.Sprintf("%.1f", d.Seconds()) }
	return seconds(times[0]) + " / " + seconds(times[len(times)/2]) + " / " + seconds(times[len(times)-1]) + " s"
}

// measured plays what is only measured, and takes so long, on a bed of each product with looks as often as is configured by default.
func measured(t *testing.T, takes string, play func(t *testing.T, p realcluster.Product, b *bed)) {
	if !*results {
		t.Skipf("it takes %s a product; run it with -results", takes)
	}
	opensearch(t, func(t *testing.T, p realcluster.Product) {
		b := newBed(t, p)
		firstWeights(t, b)
		b.pace = 5 * time.Second
		play(t, p, b)
	})
}

// TestResults repeats what has to hold every time: twenty zones killed and twenty frozen, the leader among them as it
// comes; a hundred rotations; ten zones taken out and let back, each time the one from which the cluster is led.
func TestResults(t *testing.T) {
	measured(t, "half an hour", func(t *testing.T, p realcluster.Product, b *bed) {
		fails := func(name string, how func(i int) error, again func(zone string)) {
			t.Run(name, func(*testing.T) {
				var took []time.Duration
				led := 0
				b.after = 0
				for range 20 {
					zone := b.nextToFail()
					if zone == b.leaderZone() {
						led++
					}
					took = append(took, b.failedOver(zone, func() {
						for _, i := range b.in(zone) {
							b.must(how(i))
						}
					}))
					again(zone)
				}
				fmt.Printf("%s: 20 zones %s (%d times the one that leads): failover after %s (least, middle, most), %d searches sent after it\n", p, name, led, spread(took), b.after)
			})
		}
		fails("killed", b.Kill, func(zone string) { b.whole(b.in(zone)...) })
		fails("frozen", b.Freeze, b.thaw)
		t.Run("rotations", func(*testing.T) { b.hundredRotations(p) })
		t.Run("departures", func(*testing.T) { b.tenDepartures(p) })
	})
}

// TestResultsGrey plays every way in which a zone is grey, with looks as often as is configured by default.
func TestResultsGrey(t *testing.T) {
	measured(t, "ten minutes", func(t *testing.T, p realcluster.Product, b *bed) {
		for _, f := range []fault{{clients: true}, {}, {clients: true, leads: true}, {leads: true}} {
			t.Run(f.String(), func(t *testing.T) {
				b := &bed{Cluster: b.Cluster, t: t, pace: b.pace}
				left, asked, out, back := b.grey(f)
				fmt.Printf("%s: %s: searches had left after %s, asked after %s, out %s after it was told to, a standby again %s after the fault had gone\n", p, f, left, asked, out, back)
			})
		}
	})
}

// TestA14AtTheServersPace: with the server's default, two minutes between two tries of a node that was taken out, a zone is
// back within two and a half.
func TestA14AtTheServersPace(t *testing.T) {
	if !*results {
		t.Skip("it waits for two minutes; run it with -results")
	}
	opensearch(t, func(t *testing.T, p realcluster.Product) {
		b := startBed(t, p, "120s")
		firstWeights(t, b)
		r := b.run(fixed(quickly(zones.Act)), "")
		r.healthy()
		zone := b.standby()
		b.order(zones.OrderOut, zone)
		r.until("out", goal, func(s *zones.Status) bool { return s.Write == zones.Gone })
		b.out = zone
		b.inService(zone) // its nodes have noticed, and have begun to ask seldom
		began := time.Now()
		b.order(zones.OrderRecommission, "")
		r.until("rejoined", 150*time.Second, func(*zones.Status) bool { return r.count("rejoined") > 0 })
		fmt.Printf("%s: its nodes were back after %s\n", p, time.Since(began).Round(time.Second))
		b.out = ""
		r.until("a standby again", goal, steady)
		if weights, _ := b.weights(); weights[zone] != 0 {
			t.Errorf("weights %v", weights)
		}
	})
}

// nextToFail is a zone that serves: every other time the one that leads, if that one serves.
func (b *bed) nextToFail() string {
	b.t.Helper()
	rests, leads := b.standby(), b.leaderZone()
	if b.turn++; b.turn%2 == 0 && leads != rests {
		return leads
	}
	serve := slices.DeleteFunc([]string{"a", "b", "c"}, func(zone string) bool { return zone == rests || zone == leads })
	return serve[len(serve)-1]
}

func (b *bed) hundredRotations(p realcluster.Product) {
	config := quickly(zones.Act)
	config.Round, config.Rotation = 500*time.Millisecond, time.Second
	r := b.run(fixed(config), "")
	s := b.search(2, 5*time.Millisecond)
	_, version := b.weights()
	began := time.Now()
	r.until("a hundred rotations", 30*time.Minute, func(*zones.Status) bool { return r.count("done") >= 100 })
	r.stop()
	s.stop()
	_, now := b.weights()
	fmt.Printf("%s: %d rotations in %s, %d version steps, %d of %d searches failed\n", p, r.count("done"), time.Since(began).Round(time.Second), now-version, s.failed.Load(), s.done.Load())
	if now-version != int64(r.count("done")) || s.failed.Load() > 0 {
		b.t.Errorf("%d rotations, %d version steps, %d failed: %s", r.count("done"), now-version, s.failed.Load(), s.first)
	}
}

func (b *bed) tenDepartures(p realcluster.Product) {
	var out, back []time.Duration
	documents := 0
	for i := range 10 {
		zone := b.leaderZone()
		r := b.run(fixed(quickly(zones.Act)), "")
		r.healthy()
		index := fmt.Sprintf("written-%d", i)
		w := b.index(index)
		began := time.Now()
		b.order(zones.OrderOut, zone)
		r.until("out", 2*goal, func(s *zones.Status) bool { return s.Write == zones.Gone })
		out = append(out, time.Since(began))
		b.out = zone
		if state := b.state(); len(state.Exclusions) > 0 || b.zoneOf(state) == zone {
			b.t.Errorf("exclusions %v, led from %s", state.Exclusions, b.zoneOf(state))
		}
		began = time.Now()
		b.order(zones.OrderRecommission, "")
		r.until("a standby again", 3*goal, steady)
		back = append(back, time.Since(began))
		b.out = ""
		w.stop()
		r.stop()
		b.must(b.WaitGreen(b.t.Context()))
		documents += len(w.acknowledged())
		b.complete(index, w.acknowledged())
		b.must(b.Delete(b.t.Context(), "/"+index, nil))
		if state := b.state(); len(state.Exclusions) > 0 || len(state.Voters) != 3 {
			b.t.Errorf("left behind: %+v", state)
		}
	}
	fmt.Printf("%s: 10 zones that lead taken out under writes: out after %s (drain 5 s), a standby again %s after it was let back; %d acknowledged documents, all there\n",
		p, spread(out), spread(back), documents)
}
