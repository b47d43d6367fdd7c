package config

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// Bytes is a size. In the file it is written as the servers write it, "200gb", in powers of 1024.
type Bytes int64

// UnmarshalText reads "200gb" or "1024".
func (b *Bytes) UnmarshalText(text []byte) error {
	n, err := cluster.ParseBytes(string(text))
	if err != nil || n < 0 {
		return fmt.Errorf("%q is not a size; write for example 200gb", text)
	}
	*b = Bytes(n)
	return nil
}

// String is the shortest exact form that UnmarshalText reads: "200gb".
func (b Bytes) String() string {
	for _, unit := range []struct {
		suffix string
		shift  uint
	}{{"pb", 50}, {"tb", 40}, {"gb", 30}, {"mb", 20}, {"kb", 10}} {
		if b != 0 && b%(1<<unit.shift) == 0 {
			return strconv.FormatInt(int64(b>>unit.shift), 10) + unit.suffix
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

// Secret is text that no printer, encoder or logger shows. Convert it to string where it is sent.
type Secret string

const redacted = "[redacted]"

// String hides the secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// GoString hides the secret from %#v.
func (s Secret) GoString() string { return s.String() }

// MarshalText hides the secret from encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads "search" (weight 1) or "disk=0.5".
func (d *Dimension) UnmarshalText(text []byte) error {
	name, weight, weighted := strings.Cut(string(text), "=")
	d.Name, d.Weight = strings.TrimSpace(name), 1
	if !weighted {
		return nil
	}
	var err error
	if d.Weight, err = strconv.ParseFloat(strings.TrimSpace(weight), 64); err != nil {
		return fmt.Errorf("%q is not a dimension with a weight; write for example disk=0.5", text)
	}
	return nil
}

// String is the form that UnmarshalText reads.
func (d Dimension) String() string {
	return d.Name + "=" + strconv.FormatFloat(d.Weight, 'g', -1, 64)
}

// UnmarshalText reads "hot-* search=12" or "rack=r1 disk=2tb".
func (c *Capacity) UnmarshalText(text []byte) error {
	bad := fmt.Errorf("%q is not a capacity; write for example hot-* search=12, or box_type=warm disk=2tb", text)
	fields := strings.Fields(string(text))
	if len(fields) != 2 {
		return bad
	}
	dimension, amount, ok := strings.Cut(fields[1], "=")
	if !ok {
		return bad
	}
	c.Node, c.Dimension = fields[0], dimension
	var err error
	switch dimension {
	case cluster.DiskBytes.Name, cluster.HeapBytes.Name:
		var size Bytes
		err = size.UnmarshalText([]byte(amount))
		c.Capacity = float64(size)
	default:
		c.Capacity, err = strconv.ParseFloat(amount, 64)
	}
	if err != nil || !(c.Capacity > 0) || c.Capacity > 1e18 {
		return bad
	}
	return nil
}

// String is the form that UnmarshalText reads.
func (c Capacity) String() string {
	amount := strconv.FormatFloat(c.Capacity, 'g', -1, 64)
	if c.Dimension == cluster.DiskBytes.Name || c.Dimension == cluster.HeapBytes.Name {
		amount = Bytes(c.Capacity).String()
	}
	return c.Node + " " + c.Dimension + "=" + amount
}

// UnmarshalText reads "logs-* eu=3 us=1".
func (r *RegionLayout) UnmarshalText(text []byte) error {
	bad := fmt.Errorf("%q is not a layout; write for example logs-* eu=3 us=1", text)
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return bad
	}
	r.Pattern, r.Copies = fields[0], make(map[string]int)
	sum := 0
	for _, field := range fields[1:] {
		region, number, ok := strings.Cut(field, "=")
		count, err := strconv.Atoi(number)
		if _, twice := r.Copies[region]; !ok || region == "" || err != nil || count < 0 || count > 1000 || twice {
			return bad
		}
		r.Copies[region] = count
		sum += count
	}
	if sum == 0 {
		return bad
	}
	return nil
}

// String is the form that UnmarshalText reads.
func (r RegionLayout) String() string {
	words := []string{r.Pattern}
	for _, region := range slices.Sorted(maps.Keys(r.Copies)) {
		words = append(words, region+"="+strconv.Itoa(r.Copies[region]))
	}
	return strings.Join(words, " ")
}

// UnmarshalText reads "logs-*=eu".
func (r *RegionHome) UnmarshalText(text []byte) error {
	pattern, region, ok := strings.Cut(string(text), "=")
	r.Pattern, r.Region = strings.TrimSpace(pattern), strings.TrimSpace(region)
	if !ok || r.Pattern == "" || r.Region == "" {
		return fmt.Errorf("%q is not a home region; write for example logs-*=eu", text)
	}
	return nil
}

// String is the form that UnmarshalText reads.
func (r RegionHome) String() string { return r.Pattern + "=" + r.Region }

// Window is a span of time that comes back every week, in a time zone of its own.
type Window struct {
	from, to time.Weekday // days on which it begins, both included; to may be before from: Fri-Mon
	start    time.Duration
	end      time.Duration // since midnight; not after start means it ends on the next day
	location *time.Location
}

var weekdays = map[string]time.Weekday{
	"sun": time.Sunday, "mon": time.Monday, "tue": time.Tuesday, "wed": time.Wednesday,
	"thu": time.Thursday, "fri": time.Friday, "sat": time.Saturday,
}

// UnmarshalText reads "[days ]hh:mm-hh:mm[ time zone]": "08:00-18:00", "Mon-Fri 08:00-18:00 Europe/Berlin",
// "Sat 22:00-06:00 UTC". Without days it is every day, without a time zone UTC.
func (w *Window) UnmarshalText(text []byte) error {
	bad := fmt.Errorf("%q is not a weekly window; write for example Mon-Fri 08:00-18:00 Europe/Berlin", text)
	*w = Window{from: time.Monday, to: time.Sunday, location: time.UTC}
	fields := strings.Fields(string(text))
	if len(fields) > 0 && !strings.Contains(fields[0], ":") {
		first, last, isRange := strings.Cut(strings.ToLower(fields[0]), "-")
		if !isRange {
			last = first
		}
		var ok, ok2 bool
		w.from, ok = weekdays[first]
		w.to, ok2 = weekdays[last]
		if !ok || !ok2 {
			return bad
		}
		fields = fields[1:]
	}
	if len(fields) == 0 || len(fields) > 2 {
		return bad
	}
	start, end, ok := strings.Cut(fields[0], "-")
	if !ok {
		return bad
	}
	var err error
	if w.start, err = clock(start); err != nil {
		return bad
	}
	if w.end, err = clock(end); err != nil || w.end == w.start {
		return bad
	}
	if len(fields) == 2 {
		if w.location, err = time.LoadLocation(fields[1]); err != nil {
			return fmt.Errorf("%q names no time zone known here; write for example Europe/Berlin or UTC", text)
		}
	}
	return nil
}

// clock reads hh:mm up to 24:00 as the time since midnight.
func clock(text string) (time.Duration, error) {
	if text == "24:00" {
		return 24 * time.Hour, nil
	}
	t, err := time.Parse("15:04", text)
	return time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute, err
}

// Contains tells whether t is in the window. Clock times are those on the wall there, whatever summer time does.
func (w Window) Contains(t time.Time) bool {
	local := t.In(w.location)
	since := time.Duration(local.Hour())*time.Hour + time.Duration(local.Minute())*time.Minute
	if w.start < w.end {
		return w.begins(local.Weekday()) && since >= w.start && since < w.end
	}
	yesterday := (local.Weekday() + 6) % 7
	return w.begins(local.Weekday()) && since >= w.start || w.begins(yesterday) && since < w.end
}

func (w Window) begins(day time.Weekday) bool {
	if w.from <= w.to {
		return day >= w.from && day <= w.to
	}
	return day >= w.from || day <= w.to
}

// String is the form that UnmarshalText reads, complete.
func (w Window) String() string {
	name := func(day time.Weekday) string { return day.String()[:3] }
	hm := func(d time.Duration) string { return fmt.Sprintf("%02d:%02d", d/time.Hour, d%time.Hour/time.Minute) }
	return fmt.Sprintf("%s-%s %s-%s %s", name(w.from), name(w.to), hm(w.start), hm(w.end), w.location)
}

// MarshalText is String.
func (w Window) MarshalText() ([]byte, error) { return []byte(w.String()), nil }

// Equal tells whether both are the same window.
func (w Window) Equal(v Window) bool { return w.String() == v.String() }

// defaultHolder is the machine's name and a random part, once for the process: a second daemon on the same machine is
// another holder, and so is the same one after a restart, which then waits until its predecessor's record expires.
var defaultHolder = sync.OnceValue(func() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "shardonnay"
	}
	random := make([]byte, 4)
	rand.Read(random) // never fails
	return host + "-" + hex.EncodeToString(random)
})
