package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
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

// A user who may not move copies, nor read what the server wishes. No product that can be had here checks users, so that a
// proxy before a real cluster refuses as their security would.
func TestDoctorMissesPrivileges(t *testing.T) {
	for _, p := range []realcluster.Product{realcluster.OpenSearch2, realcluster.Elasticsearch8} {
		t.Run(p.Name(), func(t *testing.T) {
			c := realcluster.Shared(t, p)
			target, err := url.Parse(c.Addresses()[0])
			if err != nil {
				t.Fatal(err)
			}
			forward := httputil.NewSingleHostReverseProxy(target)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/_cluster/reroute" || r.URL.Path == "/_internal/desired_balance" {
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(http.StatusForbidden)
					fmt.Fprintf(w, `{"error":{"type":"security_exception","reason":"action [%s] is unauthorized for user [eve]"},"status":403}`, r.URL.Path)
					return
				}
				forward.ServeHTTP(w, r)
			}))
			defer server.Close()
			findings := examine(t, server.URL)
			refused := find(t, findings, "reroute-refused", "cluster")
			if refused.Severity != doctor.Blocks || !strings.Contains(refused.Text, "unauthorized for user [eve]") {
				t.Errorf("%+v", refused)
			}
			if p.HasDesiredBalance() {
				find(t, findings, "desired-balance-unreadable", "cluster")
			}
			if allowed := ids(examine(t, c.Addresses()[0])); slices.Contains(allowed, "reroute-refused") || slices.Contains(allowed, "desired-balance-unreadable") {
				t.Errorf("%v is found where everything is allowed", allowed)
			}
		})
	}
}

// examine runs the doctor.
func examine(t *testing.T, address string) []doctor.Finding {
	t.Helper()
	out, code := run(t, "doctor", "--address", address, "-o", "json")
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
	method, rest, _ := strings.Cut(words, " ")
	path, text, _ := strings.Cut(rest, " ")
	var body any
	if text != "" {
		if err := json.Unmarshal([]byte(text), &body); err != nil {
			t.Fatalf("%q is no request: %v", words, err)
		}
	}
	if err := c.Call(ctx, method, path, body, nil); err != nil {
		t.Fatalf("%s: %v", words, err)
	}
}
