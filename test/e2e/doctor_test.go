package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardonnay/shardonnay/internal/doctor"
	"github.com/shardonnay/shardonnay/test/realcluster"
)

// fault is something wrong with a cluster that the doctor has to find.
type fault struct {
	id      string
	subject string // a prefix of the finding's
	plant   func(ctx context.Context, c *realcluster.Cluster) error
	only    func(realcluster.Product) bool // where it can be planted; nil everywhere
}

func persistent(settings map[string]any) func(context.Context, *realcluster.Cluster) error {
	return func(ctx context.Context, c *realcluster.Cluster) error { return c.PutSettings(ctx, settings) }
}

// faults are those that requests can plant. Each is planted in a cluster that has an index "heat" of one copy on n0.
var faults = []fault{
	{
		id: "ownership-left-behind", subject: "setting/cluster.metadata.shardonnay.owner",
		plant: persistent(map[string]any{
			rebalanceSetting:                    "none",
			"cluster.metadata.shardonnay.owner": `{"holder":"gone","session":"1","renewed":"2020-01-01T00:00:00Z","expires":"2020-01-01T00:03:00Z","previous":"unset"}`,
		}),
	},
	{
		id: "ownership-unreadable", subject: "setting/cluster.metadata.shardonnay.owner",
		plant: persistent(map[string]any{"cluster.metadata.shardonnay.owner": "mine"}),
	},
	{
		id: "transient-setting", subject: "setting/" + rebalanceSetting,
		plant: func(ctx context.Context, c *realcluster.Cluster) error {
			return c.Put(ctx, "/_cluster/settings", map[string]any{"transient": map[string]any{rebalanceSetting: "replicas"}}, nil)
		},
	},
	{
		id: "index-rebalance-override", subject: "index/heat",
		plant: func(ctx context.Context, c *realcluster.Cluster) error {
			return c.Put(ctx, "/heat/_settings", map[string]any{"index.routing.rebalance.enable": "all"}, nil)
		},
	},
	{
		id: "awareness-not-forced", subject: "setting/cluster.routing.allocation.awareness.force.zone.values",
		plant: persistent(map[string]any{"cluster.routing.allocation.awareness.attributes": "zone"}),
	},
	{
		id: "awareness-attribute-missing", subject: "setting/cluster.routing.allocation.awareness.attributes",
		plant: persistent(map[string]any{"cluster.routing.allocation.awareness.attributes": "rack"}),
	},
	{
		id: "exclusion-left", subject: "setting/cluster.routing.allocation.exclude._name",
		plant: persistent(map[string]any{"cluster.routing.allocation.exclude._name": "n5,old-*"}),
	},
	{
		id: "allocation-disabled", subject: "setting/cluster.routing.allocation.enable",
		plant: persistent(map[string]any{"cluster.routing.allocation.enable": "primaries"}),
	},
	{
		id: "disk-threshold-off", subject: "setting/cluster.routing.allocation.disk.threshold_enabled",
		plant: persistent(map[string]any{"cluster.routing.allocation.disk.threshold_enabled": false}),
	},
	{
		id: "watermark-out-of-reach", subject: "node/n0",
		plant: persistent(map[string]any{
			"cluster.routing.allocation.disk.watermark.low": "900tb", "cluster.routing.allocation.disk.watermark.high": "20mb",
			"cluster.routing.allocation.disk.watermark.flood_stage": "10mb",
		}),
	},
	{
		id: "watermark-without-effect", subject: "node/n0",
		plant: persistent(map[string]any{
			"cluster.routing.allocation.disk.watermark.low": "0b", "cluster.routing.allocation.disk.watermark.high": "0b",
			"cluster.routing.allocation.disk.watermark.flood_stage": "0b",
		}),
	},
	{
		id: "desired-balance-wishes", subject: "cluster",
		only: func(p realcluster.Product) bool { return p.HasDesiredBalance() },
		plant: func(ctx context.Context, c *realcluster.Cluster) error {
			slow := map[string]any{"indices.recovery.max_bytes_per_sec": "1kb", rebalanceSetting: "none"}
			if err := c.PutSettings(ctx, slow); err != nil {
				return err
			}
			if err := c.Move(ctx, "heat", 0, "n0", "n3"); err != nil {
				return err
			}
			cancel := map[string]any{"commands": []any{map[string]any{"cancel": map[string]any{"index": "heat", "shard": 0, "node": "n3"}}}}
			if err := c.Post(ctx, "/_cluster/reroute", cancel, nil); err != nil {
				return err
			}
			return c.PutSettings(ctx, map[string]any{"indices.recovery.max_bytes_per_sec": nil})
		},
	},
}

// TestDoctor plants each fault in a real cluster, demands that the doctor names it, carries out the cure as it is printed,
// and demands that the finding is gone.
func TestDoctor(t *testing.T) {
	realcluster.ForEach(t, func(t *testing.T, p realcluster.Product) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		c := realcluster.Shared(t, p)
		if err := c.CreateIndex(ctx, realcluster.Index{Name: "heat", Node: "n0"}); err != nil {
			t.Fatal(err)
		}
		fill(ctx, t, c, "heat", 500)
		if err := c.WaitGreen(ctx); err != nil {
			t.Fatal(err)
		}
		before := ids(examine(t, c.Addresses()[0]))
		for _, f := range faults {
			if f.only != nil && !f.only(p) {
				continue
			}
			t.Run(f.id, func(t *testing.T) {
				if err := f.plant(ctx, c); err != nil {
					t.Fatal(err)
				}
				finding := find(t, examine(t, c.Addresses()[0]), f.id, f.subject)
				t.Logf("%s %s: %s; cure: %s", finding.Severity, finding.Subject, finding.Text, finding.Cure)
				cure(ctx, t, c, finding.Cure)
				if left := examine(t, c.Addresses()[0]); slices.Contains(ids(left), f.id) {
					t.Errorf("after its cure it is still found: %+v", left)
				}
			})
			// What a cure leaves, such as values forced, is not for the next fault to find.
			if err := c.PutSettings(ctx, map[string]any{"cluster.routing.*": nil, "cluster.metadata.*": nil}); err != nil {
				t.Fatal(err)
			}
		}
		if after := ids(examine(t, c.Addresses()[0])); !slices.Equal(before, after) {
			t.Errorf("%v is found at the end, it was %v", after, before)
		}
	})
}

// TestDoctorSeesTheBalancer has the server level counts of copies slowly, with and without a desired balance. The cure is to do
// nothing but let the daemon act.
func TestDoctorSeesTheBalancer(t *testing.T) {
	for _, p := range []realcluster.Product{realcluster.OpenSearch2, realcluster.Elasticsearch9} {
		t.Run(p.Name(), func(t *testing.T) { seesTheBalancer(t, p) })
	}
}

func seesTheBalancer(t *testing.T, p realcluster.Product) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	c := realcluster.Shared(t, p)
	lopsided(ctx, t, c, 300)
	if err := c.PutSettings(ctx, map[string]any{"indices.recovery.max_bytes_per_sec": "10kb", "cluster.routing.allocation.balance.threshold": nil}); err != nil {
		t.Fatal(err)
	}
	if err := c.WaitRelocating(ctx); err != nil {
		t.Fatal(err)
	}
	finding := find(t, examine(t, c.Addresses()[0]), "balancer-active", "cluster")
	t.Logf("%s %s: %s; cure: %s", finding.Severity, finding.Subject, finding.Text, finding.Cure)

	d := startDaemon(t, onlyDisk(c, "act", ""))
	d.await(t, time.Minute, "the end of a cycle", func(l logLine) bool { return l.Message == "cycle" })
	owned := ids(examine(t, c.Addresses()[0]))
	if slices.Contains(owned, "balancer-active") || !slices.Contains(owned, "ownership-held") {
		t.Errorf("while a daemon acts, %v is found", owned)
	}
	if code := d.stop(t); code != 0 {
		t.Errorf("the daemon ended with %d", code)
	}
	if err := c.PutSettings(ctx, map[string]any{"indices.recovery.max_bytes_per_sec": nil}); err != nil {
		t.Fatal(err)
	}
}

// TestDoctorSeesNodes needs nodes that are restarted: one without a zone, then one that is upgraded before the other.
func TestDoctorSeesNodes(t *testing.T) {
	for _, upgrade := range []struct{ from, to realcluster.Product }{
		{realcluster.OpenSearch2, realcluster.OpenSearch3},
		{realcluster.Elasticsearch8, realcluster.Elasticsearch9},
	} {
		t.Run(upgrade.from.Name()+" to "+upgrade.to.Version, func(t *testing.T) {
			upgrade.to.SkipUnlessAvailable(t)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			c := realcluster.Start(t, realcluster.Options{Product: upgrade.from, Nodes: 2, Zones: []string{"a", ""}, ProcessPerNode: true, Eligible: 1})
			address := c.Addresses()[0]
			if err := c.CreateIndex(ctx, realcluster.Index{Name: "heat", Node: "n0"}); err != nil {
				t.Fatal(err)
			}
			if err := c.PutSettings(ctx, map[string]any{"cluster.routing.allocation.awareness.attributes": "zone"}); err != nil {
				t.Fatal(err)
			}
			found := func(id, subject string) doctor.Finding {
				f := find(t, examine(t, address), id, subject)
				t.Logf("%s %s: %s; cure: %s", f.Severity, f.Subject, f.Text, f.Cure)
				return f
			}
			gone := func(id string) {
				if left := examine(t, address); slices.Contains(ids(left), id) {
					t.Errorf("after its cure %s is still found: %+v", id, left)
				}
			}

			lacks := found("node-without-zone", "node/n1")
			setting := regexp.MustCompile(`Set (\S+) in the node's configuration and restart it`).FindStringSubmatch(lacks.Cure)
			if setting == nil {
				t.Fatalf("the cure names no setting: %q", lacks.Cure)
			}
			if err := c.Configure(ctx, 1, map[string]any{setting[1]: "b"}); err != nil {
				t.Fatal(err)
			}
			gone("node-without-zone")

			if err := c.Upgrade(ctx, 1, upgrade.to); err != nil {
				t.Fatal(err)
			}
			mixed := found("mixed-versions", "cluster")
			if !strings.Contains(mixed.Text, upgrade.from.Version) || !strings.Contains(mixed.Text, upgrade.to.Version) {
				t.Errorf("the versions are not named: %s", mixed.Text)
			}
			// As the cure says: "Finish the rolling upgrade".
			if err := c.Upgrade(ctx, 0, upgrade.to); err != nil {
				t.Fatal(err)
			}
			gone("mixed-versions")
		})
	}
}

// TestDoctorMissesPrivileges has a user who may not move copies, nor read what the server wishes. TestSecured does that with
// real users; no Elasticsearch that can be had here has any, so that a proxy before a real cluster refuses as its security
// would until the cure has come by.
func TestDoctorMissesPrivileges(t *testing.T) {
	c := realcluster.Shared(t, realcluster.Elasticsearch8)
	target, err := url.Parse(c.Addresses()[0])
	if err != nil {
		t.Fatal(err)
	}
	var manages atomic.Bool
	forward := httputil.NewSingleHostReverseProxy(target)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.Method == http.MethodPut && r.URL.Path == "/_security/role/shardonnay":
			var role struct{ Cluster []string }
			if err := json.NewDecoder(r.Body).Decode(&role); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			manages.Store(slices.Contains(role.Cluster, "manage"))
			fmt.Fprint(w, `{"role":{"created":false}}`)
		case !manages.Load() && (r.URL.Path == "/_cluster/reroute" || r.URL.Path == "/_internal/desired_balance"):
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprintf(w, `{"error":{"type":"security_exception","reason":"action [%s] is unauthorized for user [eve]"},"status":403}`, r.URL.Path)
		default:
			forward.ServeHTTP(w, r)
		}
	}))
	defer server.Close()
	findings := examine(t, server.URL)
	refused := find(t, findings, "reroute-refused", "cluster")
	if refused.Severity != doctor.Blocks || !strings.Contains(refused.Text, "unauthorized for user [eve]") {
		t.Errorf("%+v", refused)
	}
	unreadable := find(t, findings, "desired-balance-unreadable", "cluster")
	if unreadable.Cure != refused.Cure {
		t.Errorf("two cures for one lack: %q and %q", refused.Cure, unreadable.Cure)
	}
	method, path, body := request(t, refused.Cure)
	put, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(put)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if left := ids(examine(t, server.URL)); slices.Contains(left, "reroute-refused") || slices.Contains(left, "desired-balance-unreadable") {
		t.Errorf("%v is found after the cure", left)
	}
}

// examine runs the doctor against an address.
func examine(t *testing.T, address string) []doctor.Finding {
	t.Helper()
	return examined(t, "--address", address)
}

// examined runs the doctor with the flags.
func examined(t *testing.T, flags ...string) []doctor.Finding {
	t.Helper()
	out, code := run(t, append([]string{"doctor", "-o", "json"}, flags...)...)
	var answer struct{ Findings []doctor.Finding }
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		t.Fatalf("exit code %d: %v\n%s", code, err, out)
	}
	blocks := slices.ContainsFunc(answer.Findings, func(f doctor.Finding) bool { return f.Severity == doctor.Blocks })
	if want := map[bool]int{true: 1}[blocks]; code != want {
		t.Errorf("exit code %d, want %d", code, want)
	}
	return answer.Findings
}

func ids(findings []doctor.Finding) []string {
	all := make([]string, len(findings))
	for i, f := range findings {
		all[i] = f.ID
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func find(t *testing.T, findings []doctor.Finding, id, subject string) doctor.Finding {
	t.Helper()
	for _, f := range findings {
		if f.ID == id && strings.HasPrefix(f.Subject, subject) {
			return f
		}
	}
	t.Fatalf("%s of %s is not found: %+v", id, subject, findings)
	return doctor.Finding{}
}

// cure does what the words say: a request, or a command of this program.
func cure(ctx context.Context, t *testing.T, c *realcluster.Cluster, words string) {
	t.Helper()
	if command, ok := strings.CutPrefix(words, "shardonnay "); ok {
		if out, code := run(t, append(strings.Fields(command), "--address", c.Addresses()[0])...); code != 0 {
			t.Fatalf("%s ended with %d: %s", words, code, out)
		}
		return
	}
	method, path, body := request(t, words)
	if err := c.Call(ctx, method, path, body, nil); err != nil {
		t.Fatalf("%s: %v", words, err)
	}
}

// request takes a request in words apart: PUT /path {"a":1}.
func request(t *testing.T, words string) (method, path, body string) {
	t.Helper()
	method, rest, _ := strings.Cut(words, " ")
	path, body, _ = strings.Cut(rest, " ")
	if !strings.HasPrefix(path, "/") || body != "" && !json.Valid([]byte(body)) {
		t.Fatalf("%q is no request", words)
	}
	return method, path, body
}
