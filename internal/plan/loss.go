package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/model"
)

const lossLimit = "zones.max_load_after_loss"

// lossVerdicts says which nodes would be above their limit with a zone lost, when the plan is done, and whether the disks of
// the zones that stay could take what the server would rebuild there. It counts each loss for itself.
func (s *sequencer) lossVerdicts() []Verdict {
	policy := s.b.Rules.Policy()
	if policy.MaxLoadAfterLoss == 0 {
		return nil
	}
	if !s.b.LossLimited() {
		return []Verdict{{
			Kind: ZoneLoss, Subject: "cluster", Binding: model.Awareness.Names(),
			Text:   fmt.Sprintf("%s is not kept: %q is no awareness attribute, so that nothing keeps the copies of a shard in different zones", lossLimit, policy.Zones),
			Advice: "Add it to cluster.routing.allocation.awareness.attributes, or set zones.attribute",
		}}
	}
	node := s.place.Assignment()
	var worst []zoneLoss
	var disks []Verdict
	for _, zone := range s.b.LossZones() {
		worst = s.above(worst, node, zone)
		disks = append(disks, s.rebuilds(node, zone)...)
	}
	slices.SortStableFunc(worst, func(x, y zoneLoss) int { return cmp.Compare(y.load/y.limit, x.load/x.limit) })
	found := make([]Verdict, 0, len(worst)+len(disks))
	for i := range worst {
		if i == maxPerKind {
			found = append(found, Verdict{
				Kind: ZoneLoss, Subject: "cluster", Binding: model.ZoneLoss.Names(),
				Text: fmt.Sprintf("%s more above the limit with a zone lost", count(len(worst)-i, "node is", "nodes are")),
			})
			break
		}
		found = append(found, s.lossVerdict(&worst[i], node))
	}
	return append(found, disks...)
}

// zoneLoss is a node above its limit with a zone lost.
type zoneLoss struct {
	zone        string
	n           int32
	d           int
	load, limit float64
	ofZone      float64 // load of all nodes of the node's own zone and domain over their capacity
	ofAll       float64 // the same of all that are left of its domain
}

// above adds the nodes above their limit once the zone is lost; a node that is there for another zone already stays there
// with the worse of both.
func (s *sequencer) above(worst []zoneLoss, node []int32, zone string) []zoneLoss {
	after := s.b.AfterLoss(node, zone)
	for n := range s.p.Nodes {
		for d := range s.b.Snapshot.Dimensions {
			limit := s.b.LossLimit(int32(n), d)
			if limit <= 0 || after[n][d] <= limit*(1+lossSlack) {
				continue
			}
			l := zoneLoss{zone: zone, n: int32(n), d: d, load: after[n][d], limit: limit}
			share := func(of func(other int32) bool) float64 {
				load, capacity := 0.0, 0.0
				for other := range s.p.Nodes {
					if s.loads.ofNode[other] == s.loads.ofNode[n] && of(int32(other)) {
						load, capacity = load+after[other][d], capacity+s.p.Nodes[other].Capacity[d]
					}
				}
				return load / capacity
			}
			l.ofZone = share(func(other int32) bool { return s.b.ZoneOf(other) == s.b.ZoneOf(l.n) })
			l.ofAll = share(func(other int32) bool { return s.b.ZoneOf(other) != zone })
			at := slices.IndexFunc(worst, func(w zoneLoss) bool { return w.n == l.n && w.d == d })
			switch {
			case at < 0:
				worst = append(worst, l)
			case worst[at].load < l.load:
				worst[at] = l
			}
		}
	}
	return worst
}

// lossSlack is for sums of many loads in another order than the solver's.
const lossSlack = 1e-6

// lossVerdict says of a node what would be too much, and what helps: more nodes where its whole zone would be above the limit, a
// smaller share of a shard that alone would be, and otherwise what keeps its copies from the other nodes of the zone.
func (s *sequencer) lossVerdict(l *zoneLoss, node []int32) Verdict {
	dimension, capacity := s.p.Dimensions[l.d].Name, s.p.Nodes[l.n].Capacity[l.d]
	limit := l.limit / capacity
	v := Verdict{
		Kind: ZoneLoss, Subject: s.subjectNode(l.n), Binding: append(model.ZoneLoss.Names(), dimension),
		Text: fmt.Sprintf("With zone %s lost it would carry %.0f%% of its capacity in %s, and %.0f%% is the limit: %.3g %s too much",
			l.zone, 100*l.load/capacity, dimension, 100*limit, l.load-l.limit, s.b.Snapshot.Dimensions[l.d].Unit),
	}
	heaviest := int32(-1)
	for c := range node {
		if node[c] == l.n && (heaviest < 0 || s.p.Copies[c].Load[l.d] > s.p.Copies[heaviest].Load[l.d]) {
			heaviest = int32(c)
		}
	}
	switch home := s.b.ZoneOf(l.n); {
	case l.ofZone > limit:
		v.Advice = fmt.Sprintf("Add nodes to zone %s: all its nodes together would be at %.0f%%", home, 100*l.ofZone)
	case l.ofAll > limit:
		v.Advice = fmt.Sprintf("Add nodes where there are fewest: all that are left would be at %.0f%% together", 100*l.ofAll)
	case heaviest >= 0 && s.p.Copies[heaviest].Load[l.d] > l.limit:
		v.Text += fmt.Sprintf("; one copy of %s alone is more than that", s.p.Groups[s.p.Copies[heaviest].Group].Name)
		v.Advice = hotShardAdvice(dimension)
	default:
		v.Advice = fmt.Sprintf("Zone %s has room for it on other nodes: what keeps copies from there is in the other verdicts, or the next plans move them", home)
	}
	return v
}

// rebuilds tells where the disks that stay have no room for what the server would build anew. Which node holds what does not
// matter to that: whatever is lost from some nodes has to fit on the rest.
func (s *sequencer) rebuilds(node []int32, zone string) (found []Verdict) {
	all, limited := s.b.Rebuilt(node, zone, s.loads.domains)
	if !limited {
		return nil
	}
	for _, r := range all {
		if r.Bytes > r.Room {
			attribute := s.b.Rules.Policy().Zones
			found = append(found, Verdict{
				Kind: ZoneLoss, Subject: "cluster", Binding: append(model.DiskThreshold.Names(), cluster.DiskBytes.Name),
				Text: fmt.Sprintf("With zone %s lost the server would build copies of %s anew in the others, which have %s free below their watermarks",
					zone, bytesText(r.Bytes), bytesText(r.Room)),
				Advice: fmt.Sprintf("List all zones in cluster.routing.allocation.awareness.force.%s.values, then nothing is rebuilt; or add disk", attribute),
			})
		}
	}
	return found
}
