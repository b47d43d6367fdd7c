package sim

import (
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// zones is a cluster of three zones with one node that may lead and one that holds data in each.
const zones = `cluster opensearch 2.19.6 noise=0 discovery.find_peers_interval_during_decommission=1s
	set cluster.routing.allocation.awareness.attributes=zone cluster.routing.allocation.awareness.force.zone.values=a,b,c
	set cluster.routing.rebalance.enable=none
	nodes 3 prefix=m zones=a,b,c roles=cluster_manager
	nodes 3 prefix=d zones=a,b,c roles=data
	index web shards=3 replicas=2 size=30MB search=3 query=10ms write=0.1
	settle
	weights zone a=1 b=1 c=0`

// tell goes on with a scenario and gives what it printed.
func tell(t *testing.T, c *Cluster, text string) string {
	t.Helper()
	var out strings.Builder
	r := &run{ctx: t.Context(), c: c, o: RunOptions{Out: &out}}
	s, err := ParseScenario("story", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, st := range s.steps {
		r.line = st.line
		if err := st.do(r); err != nil {
			t.Fatalf("%s: %v", st.text, err)
		}
	}
	return out.String()
}

func mustTell(t *testing.T, c *Cluster, text string) {
	t.Helper()
	if out := tell(t, c, text); strings.Contains(out, "FAIL") {
		t.Error(out)
	}
	if why := inconsistency(c); why != "" {
		t.Error(why)
	}
}

// TestStandbyServesWhenNobodyElseDoes: without both active copies of every shard all searches succeed, through the standby.
func TestStandbyServesWhenNobodyElseDoes(t *testing.T) {
	c := build(t, zones)
	search := func() string {
		return request(t, c, c.NodeHandler("m3"), "GET /web/_search?filter_path=_shards.successful,_shards.failed")
	}
	served := func() string {
		return request(t, c, c.Handler(), "GET /_nodes/d3/stats/indices/search?filter_path=**.query_total")
	}
	before := served()
	for range 10 {
		search()
	}
	if after := served(); after != before {
		t.Errorf("the standby was asked: %s, then %s", before, after)
	}
	mustTell(t, c, "kill d1\nkill d2")
	const whole = "200\n{\"_shards\": {\"successful\": 3, \"failed\": 0}}\n"
	for range 10 {
		if got := search(); got != whole {
			t.Fatal(got)
		}
	}
	if after := served(); after == before {
		t.Error("the standby has had no searches")
	}
	mustTell(t, c, "run 2s\nset cluster.routing.weighted.fail_open=false")
	if got := search(); !strings.HasPrefix(got, "503") {
		t.Errorf("without fail-open: %s", got)
	}
}

// TestHaltedCopyHoldsSearches: a search of a halted copy hangs until the cluster gives the node up, half of the searches do,
// and writes stop; with the zone weighed away searches are well at once.
func TestHaltedCopyHoldsSearches(t *testing.T) {
	c := build(t, zones)
	docs := func() float64 {
		c.mu.RLock()
		defer c.mu.RUnlock()
		return c.docsNow(c.indices[0].groups[0])
	}
	c.Freeze("d1", true)
	before := docs()
	c.Advance(time.Second)
	if got := docs(); got != before {
		t.Errorf("%f documents were written while a copy in sync is halted", got-before)
	}
	var took []time.Duration
	for range 4 {
		begun := c.Now()
		if got := request(t, c, c.NodeHandler("m2"), "GET /web/_search?filter_path=timed_out"); !strings.Contains(got, "false") {
			t.Error(got)
		}
		took = append(took, c.Now().Sub(begun))
		if took[0] > 0 {
			break
		}
	}
	if last := took[len(took)-1]; last != failureTime-time.Second {
		t.Errorf("searches took %v", took)
	}
	mustTell(t, c, "thaw d1\nrun 20s\nassert status == green\nweights zone a=0 b=1 c=1\nfreeze d1")
	begun := c.Now()
	for range 10 {
		request(t, c, c.NodeHandler("m2"), "GET /web/_search")
	}
	if took := c.Now().Sub(begun); took != 0 {
		t.Errorf("with the zone weighed away searches took %s", took)
	}
}

// TestOneVoterLeft: with a zone out two of three may lead and one votes; without that one nobody leads until it is back.
func TestOneVoterLeft(t *testing.T) {
	c := build(t, zones)
	mustTell(t, c, `
		assert voters == m1,m2,m3
		decommission zone c drain=0
		run 3s
		assert decommission == c:successful
		assert voters == m1
		kill m1
		run 1m
		assert master == none
		start m1
		run 3s
		assert master == m1
		recommission
		run 5s
		assert voters == m1,m2,m3
		assert decommission == none`)
}

// TestDecommissionThatCannotBe: with everybody who may lead in the zone it fails after two minutes, and all votes are back.
func TestDecommissionThatCannotBe(t *testing.T) {
	c := build(t, strings.Replace(zones, "nodes 3 prefix=m zones=a,b,c", "nodes 3 prefix=m zones=c", 1))
	begun := c.Now()
	got := request(t, c, c.Handler(), "PUT /_cluster/decommission/awareness/zone/c")
	if !strings.HasPrefix(got, "500") || !strings.Contains(got, "timeout_exception") {
		t.Error(got)
	}
	if took := c.Now().Sub(begun); took < decommissionLimit || took > decommissionLimit+time.Second {
		t.Errorf("that took %s", took)
	}
	mustTell(t, c, "assert decommission == c:failed\nassert voters == m1,m2,m3")
	// A failed one is in nobody's way.
	if got := request(t, c, c.Handler(), `PUT /_cluster/routing/awareness/zone/weights`+"\n"+`{"weights":{"a":"0","b":"1","c":"1"},"_version":0}`); !strings.HasPrefix(got, "200") {
		t.Error(got)
	}
	// A zone where nobody may lead cannot be asked for.
	if got := request(t, c, c.Handler(), "PUT /_cluster/decommission/awareness/zone/a"); !strings.Contains(got, "Please set node identifiers correctly") {
		t.Error(got)
	}
}

// TestStuckDrain: the master dies while it drains. The status stays; the zone's nodes are not let in; called off and begun
// again it works.
func TestStuckDrain(t *testing.T) {
	c := build(t, zones)
	mustTell(t, c, `
		decommission zone c drain=20s
		run 3s
		assert decommission == c:draining
		restart m1 for=1s
		run 1m
		assert master == m1
		assert decommission == c:draining
		recommission
		run 3s
		decommission zone c drain=5s
		run 8s
		assert decommission == c:successful`)
	if diff := cmp.Diff([]string{"d3", "m3"}, c.NodesIn("zone", "c")); diff != "" {
		t.Error(diff)
	}
}

// TestOldClockActsOnTheNewDecommission: calling one off does not stop its clock; it then acts on another begun meanwhile.
func TestOldClockActsOnTheNewDecommission(t *testing.T) {
	c := build(t, zones)
	mustTell(t, c, `
		decommission zone c drain=20s
		run 3s
		recommission
		decommission zone c drain=10m
		run 30s
		assert decommission == c:successful`)
}

// TestMasterDiesInInit: it stays at INIT, and everybody may come back.
func TestMasterDiesInInit(t *testing.T) {
	c := build(t, zones)
	mustTell(t, c, `
		decommission zone c drain=20s
		run 100ms
		restart m1 for=1s
		run 1m
		assert decommission == c:init
		assert status == green
		recommission
		decommission zone c drain=5s
		run 8s
		assert decommission == c:successful`)
}

// TestZoneLostAtOnce: a whole zone is killed with the leader in it, and comes back; or halted, which takes longer to notice.
func TestZoneLostAtOnce(t *testing.T) {
	c := build(t, zones)
	mustTell(t, c, `
		kill zone:a
		run 2s
		assert master == m2
		assert unassigned == 3
		start zone:a
		run 20s
		assert unassigned == 0
		freeze zone:b
		run 30s
		assert master == m2
		run 6s
		assert master == m3
		assert unassigned == 3
		thaw zone:b
		run 20s
		assert status == green
		assert voters == m1,m2,m3`)
}

// TestKillSwitch: with weights ignored all zones serve again.
func TestKillSwitch(t *testing.T) {
	c := build(t, zones)
	share := func() string {
		var b strings.Builder
		for _, l := range c.Loads() {
			fmt.Fprintf(&b, "%s=%.2f ", l.Name, l.Search)
		}
		return b.String()
	}
	if got := share(); got != "d1=1.50 d2=1.50 d3=0.00 " {
		t.Error(got)
	}
	mustTell(t, c, "set cluster.routing.ignore_weighted_routing=true cluster.routing.use_adaptive_replica_selection=false")
	if got := share(); got != "d1=1.00 d2=1.00 d3=1.00 " {
		t.Error(got)
	}
}

// TestNoZoneAPI: products and versions that know no weights answer that nothing handles such a request.
func TestNoZoneAPI(t *testing.T) {
	for _, product := range []string{"opensearch 2.3.0", "opensearch 1.3.20", "elasticsearch 8.19.0", "elasticsearch 7.17.28"} {
		c := build(t, "cluster "+product+"\nnodes 3")
		for _, path := range []string{"GET /_cluster/routing/awareness/zone/weights", "PUT /_cluster/decommission/awareness/zone/a"} {
			rec := httptest.NewRecorder()
			method, url, _ := strings.Cut(path, " ")
			c.Handler().ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), method, url, nil))
			body, _ := io.ReadAll(rec.Body)
			if rec.Code != 400 || !strings.Contains(string(body), "no handler found") {
				t.Errorf("%s: %s: %d %s", product, path, rec.Code, body)
			}
		}
	}
}
