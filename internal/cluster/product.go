package cluster

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Distribution names the product family a cluster runs.
type Distribution string

// The distributions Shardonnay talks to.
const (
	Elasticsearch Distribution = "elasticsearch"
	OpenSearch    Distribution = "opensearch"
)

// Version is a product version; pre-release suffixes are dropped.
type Version struct{ Major, Minor, Patch int }

// ParseVersion reads "2.19.6" or "8.19.0-SNAPSHOT"; missing parts are zero.
func ParseVersion(text string) (Version, error) {
	number, _, _ := strings.Cut(text, "-")
	var parts [3]int
	for i, field := range strings.SplitN(number, ".", 3) {
		n, err := strconv.Atoi(field)
		if err != nil || n < 0 {
			return Version{}, fmt.Errorf("version %q is not of the form major.minor.patch", text)
		}
		parts[i] = n
	}
	return Version{parts[0], parts[1], parts[2]}, nil
}

// String is the dotted form, "2.19.6".
func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch) }

// Compare is negative where v is older than w, zero where they are the same, positive where v is newer.
func (v Version) Compare(w Version) int {
	return cmp.Or(cmp.Compare(v.Major, w.Major), cmp.Compare(v.Minor, w.Minor), cmp.Compare(v.Patch, w.Patch))
}

// AtLeast tells whether v is major.minor or newer.
func (v Version) AtLeast(major, minor int) bool {
	return v.Compare(Version{Major: major, Minor: minor}) >= 0
}

// Product is what a cluster runs. In a rolling upgrade Version is the oldest of its nodes: what every node can do.
type Product struct {
	Distribution Distribution
	Version      Version
}

// HasDesiredBalance tells whether the product keeps a desired balance beside the routing table (Elasticsearch 8.6 and
// newer), which remembers moves, dry runs included.
func (p Product) HasDesiredBalance() bool {
	return p.Distribution == Elasticsearch && p.Version.AtLeast(8, 6)
}

// Supported tells whether the daemon may act on this product: Elasticsearch 7 to 9, OpenSearch 1 to 3.
func (p Product) Supported() bool {
	switch p.Distribution {
	case Elasticsearch:
		return p.Version.Major >= 7 && p.Version.Major <= 9
	case OpenSearch:
		return p.Version.Major >= 1 && p.Version.Major <= 3
	}
	return false
}

// String is for people: "OpenSearch 2.19.6".
func (p Product) String() string {
	name := map[Distribution]string{Elasticsearch: "Elasticsearch", OpenSearch: "OpenSearch"}[p.Distribution]
	if name == "" {
		name = string(p.Distribution)
	}
	return name + " " + p.Version.String()
}
