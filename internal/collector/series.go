package collector

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/es"
)

// dated finds a date in an index's name, whatever separates its parts: 2026.11.29, 2026-11, 20261129, 2026.11.29.13,
// 2026.w48.
var dated = regexp.MustCompile(`(^|[-_.])((?:19|20)\d\d)(?:[-_.]?(?:w(\d\d)|(\d\d)(?:[-_.]?(\d\d)(?:[-_.T]?(\d\d))?)?))([-_.]|$)`)

// numbered finds what a rollover appends: six digits or more.
var numbered = regexp.MustCompile(`-(\d{6,})$`)

// member is an index's place in its series.
type member struct {
	series string    // the name with its date and number replaced by *; empty where it has neither
	begins time.Time // by its name; zero where there is no date
	number int       // by its name
}

// inSeries reads a member's place from its name: ".ds-logs-2026.11.29-000007" is number 7 of ".ds-logs-*".
func inSeries(name string) member {
	var m member
	rest := name
	if found := numbered.FindStringSubmatchIndex(rest); found != nil {
		m.number, _ = strconv.Atoi(rest[found[2]:found[3]])
		rest, m.series = rest[:found[0]], rest[:found[0]]+"-*"
	}
	if found := dated.FindStringSubmatchIndex(rest); found != nil {
		part := func(i int) int {
			if found[2*i] < 0 {
				return 0
			}
			n, _ := strconv.Atoi(rest[found[2*i]:found[2*i+1]])
			return n
		}
		year, week, month, day, hour := part(2), part(3), part(4), part(5), part(6)
		if week > 0 {
			month, day = 1, 7*week-6
		}
		if month <= 12 && day <= 7*53 && hour <= 24 && month+week > 0 {
			m.begins = time.Date(year, time.Month(max(month, 1)), max(day, 1), hour, 0, 0, 0, time.UTC)
			// The separator before the date belongs to the series, what follows it too.
			m.series = rest[:found[4]] + "*" + rest[found[14]:]
		}
	}
	return m
}

// nameSeries fills in Series and Newest. Data streams say which indices they consist of; other series are told by names,
// and take two indices to be one, or an alias that says it writes to the first.
func nameSeries(indices []cluster.Index, streams []es.Stream, writes map[string]bool, now time.Time) {
	at := make(map[string]int, len(indices))
	for i := range indices {
		at[indices[i].Name] = i
	}
	for _, stream := range streams {
		markSeries(indices, at, stream.Name, stream.Indices)
		markSeries(indices, at, stream.Name+"::failures", stream.Failures)
	}
	members := map[string][]int{}
	places := make([]member, len(indices))
	for i := range indices {
		if indices[i].Series != "" {
			continue
		}
		if places[i] = inSeries(indices[i].Name); places[i].series != "" {
			members[places[i].series] = append(members[places[i].series], i)
		}
	}
	for series, all := range members {
		if len(all) < 2 && !writes[indices[all[0]].Name] {
			continue
		}
		for _, i := range all {
			indices[i].Series = series
		}
		newest := newestOf(all, places, indices, writes, now)
		indices[newest].Newest = true
	}
}

func markSeries(indices []cluster.Index, at map[string]int, series string, names []string) {
	for n, name := range names {
		if i, ok := at[name]; ok {
			indices[i].Series, indices[i].Newest = series, n == len(names)-1
		}
	}
}

// newestOf is the member that takes writes now: the one an alias says it writes to, else the latest by name that has
// begun. An index made ahead of its day has not; a day's slack is for clocks and time zones.
func newestOf(all []int, places []member, indices []cluster.Index, writes map[string]bool, now time.Time) int {
	for _, i := range all {
		if writes[indices[i].Name] {
			return i
		}
	}
	later := func(i, j int) int {
		return cmp.Or(places[i].begins.Compare(places[j].begins), cmp.Compare(places[i].number, places[j].number),
			indices[i].Created.Compare(indices[j].Created), strings.Compare(indices[i].Name, indices[j].Name))
	}
	begun := slices.DeleteFunc(slices.Clone(all), func(i int) bool { return places[i].begins.After(now.Add(24 * time.Hour)) })
	if len(begun) == 0 {
		begun = all
	}
	return slices.MaxFunc(begun, later)
}
