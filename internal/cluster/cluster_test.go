package cluster_test

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/cluster/clustertest"
)

func TestVersions(t *testing.T) {
	for text, want := range map[string]cluster.Version{
		"2.19.6": {Major: 2, Minor: 19, Patch: 6}, "8.19.0-SNAPSHOT": {Major: 8, Minor: 19}, "9.0.0-rc1": {Major: 9}, "7.10": {Major: 7, Minor: 10},
	} {
		if got, err := cluster.ParseVersion(text); err != nil || got != want {
			t.Errorf("ParseVersion(%q) = %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "x", "1.x.3", "-1.0.0", "1..2"} {
		if got, err := cluster.ParseVersion(text); err == nil {
			t.Errorf("ParseVersion(%q) = %v, want an error", text, got)
		}
	}
	product := func(d cluster.Distribution, text string) cluster.Product {
		v, err := cluster.ParseVersion(text)
		if err != nil {
			t.Fatal(err)
		}
		return cluster.Product{Distribution: d, Version: v}
	}
	for _, c := range []struct {
		product            cluster.Product
		supported, desired bool
	}{
		{product(cluster.Elasticsearch, "6.8.23"), false, false},
		{product(cluster.Elasticsearch, "7.17.28"), true, false},
		{product(cluster.Elasticsearch, "8.5.3"), true, false},
		{product(cluster.Elasticsearch, "8.6.0"), true, true},
		{product(cluster.Elasticsearch, "9.5.3"), true, true},
		{product(cluster.Elasticsearch, "10.0.0"), false, true},
		{product(cluster.OpenSearch, "1.3.20"), true, false},
		{product(cluster.OpenSearch, "3.9.0"), true, false},
		{product(cluster.OpenSearch, "4.0.0"), false, false},
	} {
		if c.product.Supported() != c.supported || c.product.HasDesiredBalance() != c.desired {
			t.Errorf("%s: supported %t, desired balance %t", c.product, c.product.Supported(), c.product.HasDesiredBalance())
		}
	}
}

func TestWatermarks(t *testing.T) {
	const gib = 1 << 30
	for _, c := range []struct {
		text     string
		headroom int64
		total    int64
		want     int64 // bytes that must stay free
	}{
		{"85%", 0, 100 * gib, 15 * gib},
		{"0.85", 0, 100 * gib, 15 * gib},
		{"20gb", 0, 100 * gib, 20 * gib},
		{"85%", 200 * gib, 10000 * gib, 200 * gib}, // Elasticsearch's headroom caps what a ratio asks of a large disk
		{"85%", 200 * gib, 100 * gib, 15 * gib},
		{"0b", 0, 100 * gib, 0},
	} {
		w, err := cluster.ParseWatermark(c.text)
		if err != nil {
			t.Fatal(err)
		}
		w.Headroom = c.headroom
		if got := w.Required(c.total); got-c.want > 1 || c.want-got > 1 {
			t.Errorf("%s (headroom %d) of %d: %d must stay free, want %d", c.text, c.headroom, c.total, got, c.want)
		}
	}
	for _, text := range []string{"", "%", "101%", "-3%", "much", "20xb"} {
		if w, err := cluster.ParseWatermark(text); err == nil {
			t.Errorf("ParseWatermark(%q) = %+v, want an error", text, w)
		}
	}
}

func TestFilters(t *testing.T) {
	node := &cluster.Node{ID: "id1", Name: "hot-1", IP: "10.0.0.7", Host: "h1", Roles: []string{"data_hot"}, Attributes: map[string]string{"zone": "a", "box": "big"}}
	type filter = map[string][]string
	for name, c := range map[string]struct {
		filter cluster.Filter
		passes bool
	}{
		"no filter":                            {cluster.Filter{}, true},
		"include any of several keys":          {cluster.Filter{Include: filter{"zone": {"b"}, "box": {"big"}}}, true},
		"include none":                         {cluster.Filter{Include: filter{"zone": {"b"}, "box": {"small"}}}, false},
		"require all":                          {cluster.Filter{Require: filter{"zone": {"a"}, "box": {"big"}}}, true},
		"require one missing":                  {cluster.Filter{Require: filter{"zone": {"a"}, "rack": {"1"}}}, false},
		"exclude by wildcard name":             {cluster.Filter{Exclude: filter{"_name": {"cold-*", "hot-*"}}}, false},
		"exclude by ip":                        {cluster.Filter{Exclude: filter{"_ip": {"10.0.0.*"}}}, false},
		"exclude by id of another":             {cluster.Filter{Exclude: filter{"_id": {"id2"}}}, true},
		"tier":                                 {cluster.Filter{Require: filter{"_tier": {"data_warm", "data_hot"}}}, true},
		"included but excluded":                {cluster.Filter{Include: filter{"zone": {"a"}}, Exclude: filter{"box": {"big"}}}, false},
		"empty pattern matches nothing but ''": {cluster.Filter{Include: filter{"zone": {""}}}, false},
	} {
		if got := c.filter.Matches(node); got != c.passes {
			t.Errorf("%s: passes %t, want %t", name, got, c.passes)
		}
	}
}

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"*", "", true},
		{"*", "anything", true},
		{"a*", "abc", true},
		{"*c", "abc", true},
		{"a*c", "ac", true},
		{"a*b*c", "a-b-b-c", true},
		{"a*c", "abd", false},
		{"a*a", "a", false},
		{"ab*ba", "aba", false},
		{"abc", "abc", true},
		{"abc", "abcd", false},
		{"", "", true},
	} {
		if got := cluster.MatchPattern(c.pattern, c.text); got != c.want {
			t.Errorf("MatchPattern(%q, %q) = %t", c.pattern, c.text, got)
		}
	}
	patterns := []string{"logs-*", "-logs-old*", "logs-old-but-kept"}
	for name, want := range map[string]bool{"logs-1": true, "logs-old-1": false, "logs-old-but-kept": true, "other": false} {
		if got := cluster.MatchIndex(patterns, name); got != want {
			t.Errorf("MatchIndex(%q) = %t", name, got)
		}
	}
}

const movingCluster = `
node n3 zone=c disk=100gb free=90gb
node n1 zone=a disk=100gb free=60gb
node n2 zone=b disk=100gb free=70gb
index logs replicas=1
copy logs/0 r n2 -> n3 bytes=20gb search=1
copy logs/0 p n1 bytes=20gb search=1
`

func TestProjected(t *testing.T) {
	s, err := clustertest.Parse(movingCluster)
	if err != nil {
		t.Fatal(err)
	}
	before := s.Fingerprint()
	p := s.Projected()
	if s.Fingerprint() != before {
		t.Fatal("projecting changed the snapshot")
	}
	var got []string
	for _, c := range p.Copies {
		got = append(got, fmt.Sprintf("%s on %s, %s", c.AllocationID, p.Nodes[c.Node].Name, c.State))
	}
	for _, n := range p.Nodes {
		got = append(got, fmt.Sprintf("%s: %d GiB available, %d store, %d other", n.Name, n.Disk.Available>>30, n.Disk.Store>>30, n.Disk.Other()>>30))
	}
	want := []string{
		"logs/0/p/n1 on n1, STARTED",
		"logs/0/r/n2 on n3, RELOCATING",
		"n1: 60 GiB available, 20 store, 20 other",
		"n2: 90 GiB available, 0 store, 10 other",
		"n3: 70 GiB available, 20 store, 10 other",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestFingerprint(t *testing.T) {
	parse := func() *cluster.Snapshot {
		s, err := clustertest.Parse(movingCluster)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	base := parse().Fingerprint()
	same := map[string]func(*cluster.Snapshot){
		"later":    func(s *cluster.Snapshot) { s.TakenAt = s.TakenAt.Add(time.Hour) },
		"warnings": func(s *cluster.Snapshot) { s.Warnings = []string{"x"} },
	}
	for name, change := range same {
		s := parse()
		if change(s); s.Fingerprint() != base {
			t.Errorf("%s changes the fingerprint", name)
		}
	}
	different := map[string]func(*cluster.Snapshot){
		"load":      func(s *cluster.Snapshot) { s.Copies[0].Load[0]++ },
		"attribute": func(s *cluster.Snapshot) { s.Nodes[0].Attributes["zone"] = "z" },
		"place":     func(s *cluster.Snapshot) { s.Copies[0].Node = 2 },
		"setting":   func(s *cluster.Snapshot) { s.Settings.RebalanceEnable = "none" },
		"index":     func(s *cluster.Snapshot) { s.Indices[0].Replicas++ },
	}
	for name, change := range different {
		s := parse()
		if change(s); s.Fingerprint() == base {
			t.Errorf("%s does not change the fingerprint", name)
		}
	}
}

// TestSortIsOrderFree: whatever order the parts arrive in, the snapshot is the same.
func TestSortIsOrderFree(t *testing.T) {
	lines := []string{
		"copy a/0 p n1 bytes=1gb", "copy a/0 r n2 bytes=1gb", "copy a/1 p n2 bytes=2gb", "copy a/1 r n3 -> n1 bytes=2gb", "copy b/0 p n3", "copy b/0 r -",
	}
	nodes := []string{"node n1", "node n2", "node n3"}
	indices := []string{"index a replicas=1", "index b replicas=1"}
	rapid.Check(t, func(t *rapid.T) {
		text := ""
		for _, part := range [][]string{nodes, indices, lines} {
			for _, line := range rapid.Permutation(part).Draw(t, "order") {
				text += line + "\n"
			}
		}
		s, err := clustertest.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		for n := range s.Nodes {
			s.Nodes[n].IP = "" // numbered in order of appearance
		}
		reference, _ := clustertest.Parse("node n1\nnode n2\nnode n3\nindex a replicas=1\nindex b replicas=1\n" +
			"copy a/0 p n1 bytes=1gb\ncopy a/0 r n2 bytes=1gb\ncopy a/1 p n2 bytes=2gb\ncopy a/1 r n3 -> n1 bytes=2gb\ncopy b/0 p n3\ncopy b/0 r -")
		for n := range reference.Nodes {
			reference.Nodes[n].IP = ""
		}
		if diff := cmp.Diff(reference, s); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestErrors(t *testing.T) {
	err := fmt.Errorf("cycle 7: %w", &cluster.Error{
		Class: cluster.Unavailable, Op: "read node stats from", What: "10.0.0.1:9200", Err: io.ErrUnexpectedEOF, Hint: "Check that the node is up",
	})
	if cluster.ClassOf(err) != cluster.Unavailable || cluster.ExitCode(err) != 3 || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("class %s, exit code %d", cluster.ClassOf(err), cluster.ExitCode(err))
	}
	if want := "cycle 7: read node stats from 10.0.0.1:9200: unexpected EOF. Check that the node is up"; err.Error() != want {
		t.Errorf("got %q, want %q", err.Error(), want)
	}
	codes := map[cluster.Class]int{
		cluster.Rejected: 1, cluster.Invalid: 2, cluster.Unavailable: 3, cluster.Refused: 3, cluster.Incomplete: 4, cluster.Infeasible: 5,
		cluster.Stale: 6, cluster.Interrupted: 7, cluster.Internal: 1,
	}
	for class, code := range codes {
		if got := cluster.ExitCode(&cluster.Error{Class: class}); got != code {
			t.Errorf("%s: exit code %d, want %d", class, got, code)
		}
	}
	if cluster.ExitCode(nil) != 0 || cluster.ExitCode(io.EOF) != 1 {
		t.Error("nil is 0, an error without class is a bug: 1")
	}
}

func TestLoadAwareness(t *testing.T) {
	// 6 nodes expected, 60 copies, 50 % skew on top of 2: 2 + ceil(10 * 1.5).
	if got := (cluster.LoadAwareness{ProvisionedCapacity: 6, SkewFactor: 50, FlatSkew: 2}).Limit(60); got != 17 {
		t.Errorf("limit %d, want 17", got)
	}
	if got := (cluster.LoadAwareness{ProvisionedCapacity: -1, SkewFactor: 50, FlatSkew: 2}).Limit(60); got != 0 {
		t.Errorf("limit %d where it is off", got)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"85%", "0.9", "20gb", "-1", "1e400", "NaN", "NaN%", "30s", "7d", "1micros", "2.19.6", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if w, err := cluster.ParseWatermark(text); err == nil && !(w.Ratio >= 0 && w.Ratio <= 1) {
			t.Errorf("ParseWatermark(%q) = %+v", text, w)
		}
		if _, err := cluster.ParseBytes(text); err == nil && text == "" {
			t.Error("nothing is not a size")
		}
		_, _ = cluster.ParseDuration(text)
		_, _ = cluster.ParseVersion(text)
	})
}
