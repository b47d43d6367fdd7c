package realcluster

import (
	"fmt"
	"os"
	"testing"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// Product is one server version that can be started here.
type Product struct {
	Distribution cluster.Distribution
	Version      string

	minJava int    // oldest Java feature version that runs it; its launcher is compiled for that one
	shared  string // folder under java/ with sources shared with another version; may be empty
	secured bool   // it has the security plugin, and speaks HTTPS
}

// The products.
var (
	OpenSearch2    = Product{Distribution: cluster.OpenSearch, Version: "2.19.6", minJava: 17}
	OpenSearch3    = Product{Distribution: cluster.OpenSearch, Version: "3.9.0", minJava: 21}
	Elasticsearch7 = Product{Distribution: cluster.Elasticsearch, Version: "7.17.28", minJava: 17}
	Elasticsearch8 = Product{Distribution: cluster.Elasticsearch, Version: "8.19.0", minJava: 17, shared: "elasticsearch-8-and-9"}
	Elasticsearch9 = Product{Distribution: cluster.Elasticsearch, Version: "9.5.3", minJava: 21, shared: "elasticsearch-8-and-9"}
)

// OpenSearchSecured has the real security plugin: users, roles, TLS. It is not among Products, which differ in how they place
// copies: this one places them like OpenSearch2, and is the newest for which the plugin is published. No Elasticsearch with
// security is.
var OpenSearchSecured = Product{Distribution: cluster.OpenSearch, Version: "2.19.1", minJava: 17, secured: true}

// Products lists all products that tests run on, whether or not they can run on this machine (Available tells), in the order
// tests run them.
func Products() []Product {
	return []Product{OpenSearch2, OpenSearch3, Elasticsearch7, Elasticsearch8, Elasticsearch9}
}

// Name is "opensearch-2.19.6" and the like: for subtests, folders, tables.
func (p Product) Name() string { return string(p.Distribution) + "-" + p.Version }

// String is Name.
func (p Product) String() string { return p.Name() }

// HasDesiredBalance tells whether the product is Elasticsearch 8.6 or newer.
func (p Product) HasDesiredBalance() bool {
	v, err := cluster.ParseVersion(p.Version)
	return err == nil && cluster.Product{Distribution: p.Distribution, Version: v}.HasDesiredBalance()
}

// scheme is that of its addresses.
func (p Product) scheme() string {
	if p.secured {
		return "https"
	}
	return "http"
}

// Available is nil where this machine can run the product, else an error that says what is missing.
func (p Product) Available() error {
	_, err := findJava(p.minJava)
	return err
}

// SkipUnlessAvailable skips the test where the product's Java is missing, and says so on standard error as well, so
// that nobody takes the pass for more than it is.
func (p Product) SkipUnlessAvailable(tb testing.TB) {
	tb.Helper()
	if err := p.Available(); err != nil {
		fmt.Fprintf(os.Stderr, "\n*** NOT TESTED: %s on %s: %v\n\n", tb.Name(), p, err)
		tb.Skipf("%s cannot run here: %v", p, err)
	}
}

// ForEach runs test once per product as a subtest named after it, one after the other, skipping loudly those that this
// machine cannot run.
func ForEach(t *testing.T, test func(t *testing.T, p Product)) {
	t.Helper()
	for _, p := range Products() {
		t.Run(p.Name(), func(t *testing.T) {
			p.SkipUnlessAvailable(t)
			test(t, p)
		})
	}
}
