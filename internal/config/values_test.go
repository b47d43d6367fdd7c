package config

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestBytesReadWhatTheyWrite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := Bytes(rapid.Int64Range(0, 1<<50).Draw(t, "bytes") << rapid.UintRange(0, 10).Draw(t, "shift"))
		var back Bytes
		if err := back.UnmarshalText([]byte(b.String())); err != nil {
			t.Fatal(err)
		}
		// Sizes are read through float64, exact up to 2^53 units of the suffix.
		if b < 1<<53 && back != b {
			t.Fatalf("%d is written %s and read %d", b, b, back)
		}
	})
}

func TestWindowsContainWhatTheySay(t *testing.T) {
	at := func(text string) time.Time {
		parsed, err := time.Parse("2006-01-02 15:04 MST", text)
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	// 2024-01-01 was a Monday.
	for _, c := range []struct {
		window, time string
		want         bool
	}{
		{"08:00-18:00", "2024-01-07 08:00 UTC", true},
		{"08:00-18:00", "2024-01-07 18:00 UTC", false},
		{"Mon-Fri 08:00-18:00", "2024-01-05 17:59 UTC", true},
		{"Mon-Fri 08:00-18:00", "2024-01-06 12:00 UTC", false},
		{"Fri-Mon 00:00-24:00", "2024-01-01 23:59 UTC", true},
		{"Fri-Mon 00:00-24:00", "2024-01-02 00:00 UTC", false},
		{"sat 22:00-06:00", "2024-01-06 23:00 UTC", true},
		{"sat 22:00-06:00", "2024-01-07 05:59 UTC", true},
		{"sat 22:00-06:00", "2024-01-06 05:59 UTC", false},
		{"sat 22:00-06:00", "2024-01-07 22:00 UTC", false},
		{"Mon 08:00-09:00 Europe/Berlin", "2024-01-01 07:30 UTC", true},  // winter: an hour ahead
		{"Mon 08:00-09:00 Europe/Berlin", "2024-07-01 06:30 UTC", true},  // summer: two
		{"Mon 08:00-09:00 Europe/Berlin", "2024-07-01 07:30 UTC", false}, // the wall there shows 09:30
	} {
		var w Window
		if err := w.UnmarshalText([]byte(c.window)); err != nil {
			t.Error(err)
			continue
		}
		if got := w.Contains(at(c.time)); got != c.want {
			t.Errorf("%s contains %s: %t", c.window, c.time, got)
		}
		var back Window
		if err := back.UnmarshalText([]byte(w.String())); err != nil || !back.Equal(w) {
			t.Errorf("%s is written %s, which reads as %s (%v)", c.window, w, back, err)
		}
	}
}

func TestCapacitiesReadWhatTheyWrite(t *testing.T) {
	for text, want := range map[string]Capacity{
		"hot-* search=12":        {"hot-*", "search", 12},
		"box_type=warm disk=2tb": {"box_type=warm", "disk", 2 << 40},
		"n1 shards=0.5":          {"n1", "shards", 0.5},
	} {
		var c Capacity
		if err := c.UnmarshalText([]byte(text)); err != nil || c != want || c.String() != text {
			t.Errorf("%q reads as %+v, written %s (%v)", text, c, c, err)
		}
	}
}

func TestRegionsReadWhatTheyWrite(t *testing.T) {
	var layout RegionLayout
	if err := layout.UnmarshalText([]byte("logs-* us=1  eu=3")); err != nil || layout.String() != "logs-* eu=3 us=1" {
		t.Errorf("read %+v (%v)", layout, err)
	}
	for _, text := range []string{"", "logs-*", "logs-* eu", "logs-* eu=-1", "logs-* eu=x", "logs-* =1", "logs-* eu=1 eu=2", "logs-* eu=0"} {
		if err := new(RegionLayout).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is taken for a layout", text)
		}
	}
	var home RegionHome
	if err := home.UnmarshalText([]byte("logs-* = eu")); err != nil || home.String() != "logs-*=eu" {
		t.Errorf("read %+v (%v)", home, err)
	}
	for _, text := range []string{"", "logs-*", "=eu", "logs-*="} {
		if err := new(RegionHome).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is taken for a home", text)
		}
	}
}

func TestDurationsAreShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", time.Minute: "1m", 90 * time.Second: "1m30s", time.Hour: "1h", 90 * time.Minute: "1h30m",
		24 * time.Hour: "24h", time.Hour + time.Second: "1h0m1s", 100 * time.Millisecond: "100ms",
	} {
		if got := duration(d); got != want {
			t.Errorf("%d ns is written %s, want %s", d, got, want)
		}
	}
}
