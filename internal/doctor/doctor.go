package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// Severity orders findings by what they mean for the daemon.
type Severity string

// The severities.
const (
	Blocks Severity = "blocks" // the daemon cannot act, or must not
	Warns  Severity = "warns"  // it can act, but not as well as it could, or somebody else acts too
	Notes  Severity = "notes"  // good to know
)

// Finding is one thing found, with its cure.
type Finding struct {
	ID       string   `json:"id"`       // stable, for scripts
	Severity Severity `json:"severity"` // blocks, warns, notes
	Subject  string   `json:"subject"`  // "cluster", "node/n1", "index/logs-1", "setting/..."
	Text     string   `json:"text"`     // one sentence: what is so
	Cure     string   `json:"cure"`     // the exact command or change
}

// Evidence is what the doctor looks at.
type Evidence struct {
	Snapshot *cluster.Snapshot
	// Wishes counts copies that stand on a node the server's desired balance wants them off (Elasticsearch 8.6 and newer).
	Wishes int
	// WishesRefused tells that this user may not read the desired balance.
	WishesRefused bool
	// RerouteRefused is what the server answered to a reroute without commands on paper; nil where it was allowed.
	RerouteRefused error
	// RecordUnreadable tells that what stands where the ownership record should is none.
	RecordUnreadable bool
	// RecordExpired tells whether the ownership record, where there is one, has run out: its holder is gone.
	RecordExpired bool
}

// Examine returns the findings, those that block first, then by id and subject.
func Examine(e Evidence) []Finding {
	x := examination{Evidence: e, s: e.Snapshot}
	x.health()
	x.privileges()
	x.ownership()
	x.balancers()
	x.awareness()
	x.filters()
	x.disks()
	x.nodes()
	rank := map[Severity]int{Blocks: 0, Warns: 1, Notes: 2}
	slices.SortStableFunc(x.found, func(a, b Finding) int {
		if a.Severity != b.Severity {
			return rank[a.Severity] - rank[b.Severity]
		}
		return strings.Compare(a.ID+" "+a.Subject, b.ID+" "+b.Subject)
	})
	return x.found
}

type examination struct {
	Evidence
	s     *cluster.Snapshot
	found []Finding
}

func (x *examination) add(id string, severity Severity, subject, cure, format string, args ...any) {
	x.found = append(x.found, Finding{id, severity, subject, fmt.Sprintf(format, args...), cure})
}

// put is the request that sets one persistent setting; value is JSON.
func put(key, value string) string {
	return fmt.Sprintf(`PUT /_cluster/settings {"persistent":{%q:%s}}`, key, value)
}

func (x *examination) health() {
	h := x.s.Health
	if !h.HasMaster {
		x.add("no-master", Blocks, "cluster", "Bring back enough master-eligible nodes for a majority", "no master is elected: nothing can be moved")
	}
	if h.Status == "red" {
		x.add("status-red", Blocks, "cluster", "GET /_cluster/allocation/explain names the first unassigned primary and why", "the cluster is red: a primary is missing")
	}
	if h.Unassigned > 0 && h.Status != "red" {
		x.add("unassigned-copies", Warns, "cluster", "GET /_cluster/allocation/explain says why the first one stays unassigned",
			"%d copies are unassigned; their shards are left alone until all their copies are active", h.Unassigned)
	}
	if x.s.Settings.AllocationEnable != "all" {
		x.add("allocation-disabled", Blocks, "setting/cluster.routing.allocation.enable", put("cluster.routing.allocation.enable", "null"),
			"allocation is %q: somebody is at work on the cluster, so nothing is moved", x.s.Settings.AllocationEnable)
	}
}

// What acting needs, as an administrator gives it to the role that docs/operations.md makes for the daemon's user.
const (
	actingElasticsearch = `PUT /_security/role/shardonnay {"cluster":["monitor","monitor_snapshot","manage"],` +
		`"indices":[{"names":["*"],"privileges":["monitor","view_index_metadata"],"allow_restricted_indices":true}]}`
	actingOpenSearch = `PUT /_plugins/_security/api/roles/shardonnay {"cluster_permissions":["cluster_monitor","cluster:admin/snapshot/status",` +
		`"cluster:admin/reroute","cluster:admin/settings/update"],"index_permissions":[{"index_patterns":["*"],` +
		`"allowed_actions":["indices_monitor","indices:admin/get","indices:admin/aliases/get","indices:admin/data_stream/get"]}]}`
)

func (x *examination) privileges() {
	if x.RerouteRefused != nil {
		cure := actingOpenSearch
		if x.s.Cluster.Product.Distribution == cluster.Elasticsearch {
			cure = actingElasticsearch
		}
		x.add("reroute-refused", Blocks, "cluster", cure,
			"the server does not let this user move copies; a managed service may let nobody, which leaves the modes observe and dry-run: %v", x.RerouteRefused)
	}
}

func (x *examination) ownership() {
	record, present := x.s.Settings.Ownership["owner"]
	if !present {
		return
	}
	if x.RecordUnreadable {
		x.add("ownership-unreadable", Blocks, "setting/cluster.metadata.shardonnay.owner", "shardonnay release",
			"what stands where the ownership record should is none (%s): nobody can tell who moves copies, so nothing is moved", record)
		return
	}
	if x.RecordExpired {
		x.add("ownership-left-behind", Warns, "setting/cluster.metadata.shardonnay.owner", "shardonnay release",
			"an ownership record has expired: its holder died and the server's own rebalancing may still be off (%s)", record)
		return
	}
	x.add("ownership-held", Notes, "setting/cluster.metadata.shardonnay.owner", "Nothing to do while that instance runs",
		"an instance owns rebalancing: %s", record)
}

func (x *examination) balancers() {
	s := x.s.Settings
	for _, key := range s.Transient {
		x.add("transient-setting", Blocks, "setting/"+key, fmt.Sprintf(`PUT /_cluster/settings {"transient":{%q:null}}`, key),
			"%s is set transiently and wins over what is set persistently, ours included", key)
	}
	for i := range x.s.Indices {
		index := &x.s.Indices[i]
		if index.RebalanceEnable != "" && index.RebalanceEnable != "none" {
			x.add("index-rebalance-override", Warns, "index/"+index.Name,
				fmt.Sprintf(`PUT /%s/_settings {"index.routing.rebalance.enable":null}`, index.Name),
				"%s lets the server's own balancer move it even while cluster-wide rebalancing is off", index.Name)
		}
	}
	if s.RebalanceEnable != "none" && x.s.Health.Relocating > 0 {
		x.add("balancer-active", Notes, "cluster", "Nothing to do: in mode act it is switched off for as long as the daemon owns rebalancing",
			"%d relocations are under way and the server's own balancer is on (%s)", x.s.Health.Relocating, s.RebalanceEnable)
	}
	if x.WishesRefused {
		x.add("desired-balance-unreadable", Warns, "cluster", actingElasticsearch,
			"this user may not read the server's desired balance: whether it would move copies back cannot be foretold")
	}
	if x.Wishes > 0 {
		x.add("desired-balance-wishes", Warns, "cluster", "DELETE /_internal/desired_balance",
			"%d copies stand where the server's desired balance does not want them: it would move them when rebalancing is on again", x.Wishes)
	}
}

func (x *examination) awareness() {
	s := x.s.Settings
	for _, attribute := range s.AwarenessAttributes {
		values := map[string]bool{}
		var without []*cluster.Node
		for n := range x.s.Nodes {
			node := &x.s.Nodes[n]
			if !node.IsData() {
				continue
			}
			if value := node.Attributes[attribute]; value != "" {
				values[value] = true
			} else {
				without = append(without, node)
			}
		}
		if len(values) == 0 && len(without) > 0 {
			x.add("awareness-attribute-missing", Blocks, "setting/cluster.routing.allocation.awareness.attributes",
				put("cluster.routing.allocation.awareness.attributes", others(s.AwarenessAttributes, attribute)),
				"copies are to be kept apart by %s, which no data node has: none may take a copy", attribute)
			continue
		}
		for _, node := range without {
			x.add("node-without-zone", Warns, "node/"+node.Name, fmt.Sprintf("Set node.attr.%s in the node's configuration and restart it", attribute),
				"%s has no attribute %s, by which copies are kept apart: no copy may go there", node.Name, attribute)
		}
		if len(s.ForcedAwareness[attribute]) == 0 && len(values) > 1 {
			names := make([]string, 0, len(values))
			for value := range values {
				names = append(names, value)
			}
			slices.Sort(names)
			key := "cluster.routing.allocation.awareness.force." + attribute + ".values"
			x.add("awareness-not-forced", Warns, "setting/"+key, put(key, fmt.Sprintf("%q", strings.Join(names, ","))),
				"awareness of %s is not forced: when a whole %s is lost, the server packs its copies onto what is left", attribute, attribute)
		}
	}
}

// others is a list setting without one of its values, as JSON.
func others(values []string, without string) string {
	left := slices.DeleteFunc(slices.Clone(values), func(value string) bool { return value == without })
	if len(left) == 0 {
		return "null"
	}
	return fmt.Sprintf("%q", strings.Join(left, ","))
}

func (x *examination) filters() {
	for key, values := range x.s.Settings.Filter.Exclude {
		setting := "cluster.routing.allocation.exclude." + key
		matched := 0
		for n := range x.s.Nodes {
			if !(cluster.Filter{Exclude: map[string][]string{key: values}}).Matches(&x.s.Nodes[n]) {
				matched++
			}
		}
		x.add("exclusion-left", Notes, "setting/"+setting, put(setting, "null"),
			"%s excludes %s (%d of the present nodes): nothing is moved there", setting, strings.Join(values, ","), matched)
	}
}

func (x *examination) disks() {
	s := x.s.Settings
	if !s.DiskThreshold {
		x.add("disk-threshold-off", Warns, "setting/cluster.routing.allocation.disk.threshold_enabled", put("cluster.routing.allocation.disk.threshold_enabled", "null"),
			"the disk watermarks are switched off: neither the server nor this program keeps a disk from filling up")
		return
	}
	for n := range x.s.Nodes {
		node := &x.s.Nodes[n]
		disk := node.Disk
		if !node.IsData() || disk.Total <= 0 {
			continue
		}
		if !x.watermarksMakeSense(node) {
			continue
		}
		low, high, flood := s.Low.Required(disk.Total), s.High.Required(disk.Total), s.FloodStage.Required(disk.Total)
		if low < high || high < flood {
			x.add("watermarks-out-of-order", Warns, "node/"+node.Name, "Set cluster.routing.allocation.disk.watermark.low, .high and .flood_stage so that low leaves the most bytes free",
				"on %s the watermarks ask for %s, %s and %s free (low, high, flood stage): they should fall", node.Name, gib(low), gib(high), gib(flood))
		}
		switch {
		case disk.Available < flood:
			x.add("disk-flood-stage", Blocks, "node/"+node.Name, "Free or add disk; indices there are read-only until it is below the high watermark",
				"%s is past the flood stage: %s of %s free", node.Name, gib(disk.Available), gib(disk.Total))
		case disk.Available < high:
			x.add("disk-over-high", Warns, "node/"+node.Name, "Nothing to do: the server evacuates it, and plans help",
				"%s is above the high watermark: %s of %s free", node.Name, gib(disk.Available), gib(disk.Total))
		case disk.Available < low:
			x.add("disk-over-low", Notes, "node/"+node.Name, "Nothing to do: it takes no copies until it is below the low watermark",
				"%s is above the low watermark: %s of %s free", node.Name, gib(disk.Available), gib(disk.Total))
		}
	}
}

// watermarksMakeSense looks for watermarks whose form was taken for another: a number of bytes for a percentage of a disk, or
// the reverse.
func (x *examination) watermarksMakeSense(node *cluster.Node) bool {
	const prefix = "cluster.routing.allocation.disk.watermark."
	for _, w := range []struct {
		name string
		mark cluster.Watermark
	}{{"low", x.s.Settings.Low}, {"high", x.s.Settings.High}, {"flood_stage", x.s.Settings.FloodStage}} {
		switch required, total := w.mark.Required(node.Disk.Total), node.Disk.Total; {
		case required >= total:
			x.add("watermark-out-of-reach", Warns, "node/"+node.Name, put(prefix+"*", "null"),
				"%s%s asks for %s free on %s, whose disk has %s in all: no copy may go there", prefix, w.name, gib(required), node.Name, gib(total))
			return false
		case required <= 0:
			x.add("watermark-without-effect", Warns, "node/"+node.Name, put(prefix+"*", "null"),
				"%s%s asks for no free byte on %s: neither the server nor this program keeps its disk from filling up", prefix, w.name, node.Name)
			return false
		}
	}
	return true
}

func gib(bytes int64) string { return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30)) }

func (x *examination) nodes() {
	versions := map[cluster.Version]int{}
	for n := range x.s.Nodes {
		node := &x.s.Nodes[n]
		if !node.IsData() {
			continue
		}
		versions[node.Version]++
		if node.Leaving != "" {
			x.add("node-leaving", Notes, "node/"+node.Name, "Nothing to do: nothing is moved there", "%s is on its way out (%s)", node.Name, node.Leaving)
		}
	}
	if len(versions) > 1 {
		names := make([]string, 0, len(versions))
		for version, count := range versions {
			names = append(names, fmt.Sprintf("%d on %s", count, version))
		}
		slices.Sort(names)
		x.add("mixed-versions", Warns, "cluster", "Finish the rolling upgrade", "data nodes run different versions (%s): shards stay within the version they are on", strings.Join(names, ", "))
	}
	for _, warning := range x.s.Warnings {
		x.add("measurement", Notes, "cluster", "Nothing to do where it is about rates: plan takes two samples, and the daemon one more each cycle", "%s", warning)
	}
}
