package zones

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/sim"
)

// crash is the panic of a process that dies.
type crash struct{}

// TestRestartsAtEveryPoint plays stories over and over. Each time the controller dies at another point, before or after a
// line of its journal is written, and another goes on from that journal, at once or so late that nothing may be begun any
// more. Every time a story ends the same, with nothing left behind. All stories together go through every state there is.
func TestRestartsAtEveryPoint(t *testing.T) {
	const soon, late = 20 * time.Second, staleAfter + 10*time.Minute
	fences := (*bed).fencesStory
	visited := map[string]bool{}
	for _, s := range []struct {
		name   string
		layout layout
		away   time.Duration // how long nobody runs the zones
		story  func(*bed)
		least  int // points
	}{
		{"rotation_failover_departure", layout{}, soon, (*bed).story, 40},
		{"hold_and_restore", layout{}, soon, (*bed).holdStory, 10},
		{"fence_opensearch", layout{dataOnly: "c"}, soon, fences, 15},
		{"fence_old_opensearch", layout{version: "2.5.0"}, soon, fences, 15},
		{"fence_elasticsearch", layout{version: "8.19.0", elastic: true}, soon, fences, 15},
		{"fence_late", layout{dataOnly: "c"}, late, fences, 15},
		{"late", layout{}, late, (*bed).story, 40},
		{"stuck", layout{}, soon, (*bed).stuckStory, 20},
	} {
		t.Run(s.name, func(t *testing.T) {
			play := func(t *testing.T, point int) (points int) {
				b := newBed(t, s.layout)
				b.config.Round, b.config.Clear, b.config.Drain = 10*time.Second, 20*time.Second, 20*time.Second
				met := 0
				dies := func() {
					if met++; met == point {
						panic(crash{})
					}
				}
				b.journal.before = dies
				b.journal.after = func() {
					if point == 0 {
						b.journal.Last().visit(visited)
					}
					dies()
				}
				b.survive(s.away, func() { s.story(b) })
				return met
			}
			points := play(t, 0)
			if points < s.least {
				t.Errorf("the story has %d points only", points)
			}
			for point := 1; point <= points; point += everyPoint {
				t.Run(fmt.Sprint(point), func(t *testing.T) {
					t.Parallel()
					play(t, point)
				})
			}
		})
	}
	for _, state := range append(states(t), `Event "fence_stuck"`) {
		if !visited[state] {
			t.Errorf("no story goes through %s", state)
		}
	}
}

// visit notes the states that e tells of; a change is a note of its kind.
func (e *Entry) visit(visited map[string]bool) {
	visited[fmt.Sprintf("Phase %q", e.State.Phase)] = true
	visited[fmt.Sprintf("WritePhase %q", e.State.Write)] = true
	for _, n := range e.Notes {
		visited[fmt.Sprintf("ChangeKind %q", n.Event)], visited[fmt.Sprintf("Event %q", n.Event)] = true, true
	}
}

// states are all the states that the code has names for.
func states(t *testing.T) (names []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "state.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, constant := n.(*ast.ValueSpec); constant && len(spec.Values) == 1 {
			kind, named := spec.Type.(*ast.Ident)
			value, text := spec.Values[0].(*ast.BasicLit)
			if named && text && value.Kind == token.STRING {
				word, _ := strconv.Unquote(value.Value)
				names = append(names, fmt.Sprintf("%s %q", kind.Name, word))
			}
		}
		return true
	})
	return names
}

// survive does what the story says; where the controller dies meanwhile, another one takes over and the story goes on.
func (b *bed) survive(away time.Duration, story func()) {
	defer func() {
		if died := recover(); died == nil {
			return
		} else if _, ours := died.(crash); !ours {
			panic(died)
		}
		b.end()
		b.Advance(away)
		b.begin()
		if away > staleAfter {
			b.beginsNothing()
		}
		story()
	}()
	story()
}

// beginsNothing checks that a zone which was about to leave stays where it is: the journal is too old to begin that from.
func (b *bed) beginsNothing() {
	b.t.Helper()
	_, out, _ := b.Decommissioned()
	if write := b.c.state.Write; write != Draining && write != Fencing || out != "" || strings.HasPrefix(b.Setting(excludeZone), "c") {
		return
	}
	from := len(b.notes)
	b.until("called off", 5*time.Minute, func(s *Status) bool { return s.Write == Idle })
	for range 12 {
		b.round()
	}
	for _, n := range b.notes[from:] {
		if n.Event == "fence" || n.Event == "let_go" || n.Event == "decommission" {
			b.t.Errorf("begun from a journal of long ago: %s %s: %s", n.Event, n.Zone, n.Text)
		}
	}
}

// insist gives an order until it is taken.
func (b *bed) insist(verb Verb, zone string, taken func(*Status) bool) {
	b.t.Helper()
	for range 3 {
		b.order(verb, zone)
		for range 60 {
			s := b.round()
			if taken(s) {
				return
			}
			if len(s.Notes) > 0 && strings.Contains(b.c.handled, "not carried out") {
				break
			}
		}
	}
	b.t.Fatalf("%s %s is not done:\n%s", verb, zone, b.said())
}

func (b *bed) set(key, value string) {
	b.t.Helper()
	if err := b.SetPersistent(map[string]string{key: value}); err != nil {
		b.t.Fatal(err)
	}
}

// story goes on from wherever it stands.
func (b *bed) story() {
	if b.stage < 2 {
		b.until("steady", 20*time.Minute, steady)
	}
	if b.stage == 0 {
		b.insist(OrderRotate, "", func(s *Status) bool { return b.standby() == "a" && steady(s) })
		b.stage = 1
	}
	if b.stage == 1 {
		b.kill("b")
		b.stage = 2
	}
	if b.stage == 2 {
		b.until("failover", 2*time.Minute, func(s *Status) bool { return b.standby() == "b" && s.Phase == NoStandby })
		b.restart("b")
		b.stage = 3
	}
	gone := func(s *Status) bool { return s.Write == Gone }
	if b.stage == 3 {
		s := b.until("steady again, or further", 20*time.Minute, func(s *Status) bool { return s.Phase == Steady })
		if s.Write == Idle {
			b.insist(OrderOut, "a", gone) // from where the cluster is led
		}
		b.until("out", 20*time.Minute, gone)
		b.stage = 4
	}
	if s := b.round(); s.Write == Gone {
		b.insist(OrderRecommission, "", steady)
	}
	b.whole(map[string]float64{"a": 0, "b": 1, "c": 1})
}

// whole checks that nothing of a departure is left behind.
func (b *bed) whole(weights map[string]float64) {
	t := b.t
	t.Helper()
	b.until("back", 20*time.Minute, steady)
	if _, value, status := b.Decommissioned(); value != "" {
		t.Errorf("%s is left %s", value, status)
	}
	if w, _ := b.zoneWeights(); !maps.Equal(w, weights) {
		t.Errorf("weights %v", w)
	}
	b.until("green, with every vote back", 10*time.Minute, func(*Status) bool { return b.Status() == "green" && len(b.Voters()) == 3 })
}

func (b *bed) standby() string {
	w, _ := b.zoneWeights()
	for _, zone := range slices.Sorted(maps.Keys(w)) {
		if w[zone] == 0 {
			return zone
		}
	}
	return ""
}

const excludeZone = "cluster.routing.allocation.exclude.zone"

// fencesStory keeps zone c free of copies and lets it back. What else somebody keeps copies off, by the same filter or by
// another one, stays.
func (b *bed) fencesStory() {
	t := b.t
	const foreign = "cluster.routing.allocation.exclude._name"
	weights := b.c.Identity.Product.Distribution == cluster.OpenSearch && b.c.Identity.Product.Version.AtLeast(2, 7)
	if b.stage == 0 {
		b.set(foreign, "gone-long-ago")
		b.until("looked at", 20*time.Minute, func(s *Status) bool { return len(s.Zones) == 3 && (!weights || steady(s)) })
		b.stage = 1
	}
	gone := func(s *Status) bool { return s.Write == Gone }
	if b.stage == 1 {
		b.insist(OrderFence, "c", gone)
		b.inSyncOutside("c")
		if b.Setting(excludeZone) != "c" || b.Status() == "red" {
			t.Errorf("exclude %q, %s", b.Setting(excludeZone), b.Status())
		}
		b.set(excludeZone, "c,elsewhere") // what else somebody keeps copies off
		b.stage = 2
	}
	back := func(s *Status) bool { return s.Write == Idle && s.Leaving == nil }
	if s := b.round(); gone(s) {
		b.insist(OrderRecommission, "", func(s *Status) bool { return s.Write != Gone })
	}
	b.until("back", 20*time.Minute, back)
	b.until("green", 10*time.Minute, func(*Status) bool { return b.Status() == "green" })
	if zones, names := b.Setting(excludeZone), b.Setting(foreign); zones != "elsewhere" || names != "gone-long-ago" {
		t.Errorf("copies are kept off zones %q and nodes %q", zones, names)
	}
	if w, _ := b.zoneWeights(); weights && !maps.Equal(w, map[string]float64{"a": 1, "b": 1, "c": 0}) {
		t.Errorf("weights %v", w)
	}
}

// stuckStory has a zone that the server itself drains, and a leader that is lost meanwhile: nobody goes on with it until it
// is dropped and asked for again.
func (b *bed) stuckStory() {
	b.config.ServerTime = true
	if b.stage == 0 {
		b.until("steady", 20*time.Minute, steady)
		b.stage = 1
	}
	drains := func() bool { _, _, status := b.Decommissioned(); return status == "draining" }
	gone := func(s *Status) bool { return s.Write == Gone }
	if b.stage == 1 {
		b.insist(OrderOut, "c", func(s *Status) bool { return drains() || gone(s) })
		b.stage = 2
		if drains() {
			leads := fmt.Sprintf("n%d", b.c.state.Roster.zoneOf(cluster.NodeID(b.c.state.Leader))[0]-'a')
			b.Kill(leads)
			b.Advance(15 * time.Second)
			b.Restart(leads)
		}
	}
	if b.stage == 2 {
		// A try that the controller dies in counts: after the second one it is left alone.
		b.until("out at last, or given up", 20*time.Minute, func(s *Status) bool {
			return gone(s) || s.Phase == Holding && strings.HasPrefix(s.Hold.Kind, "fence_") && s.Write == Idle
		})
		b.stage = 3
	}
	if b.c.state.Phase == Holding {
		b.insist(OrderResume, "", steady)
	}
	if s := b.round(); s.Write == Gone {
		b.insist(OrderRecommission, "", steady)
	}
	b.whole(map[string]float64{"a": 1, "b": 1, "c": 0})
}

// holdStory has a rotation that cannot be seen through, since searches of one index have nowhere else to go, and somebody
// who changes the weights.
func (b *bed) holdStory() {
	t := b.t
	if b.stage == 0 {
		if err := b.AddIndex(sim.IndexSpec{Name: "only", Shards: 1, Search: 1, Settings: map[string]string{"index.routing.allocation.require.zone": "a"}}); err != nil {
			t.Fatal(err)
		}
		b.config.Exempt = []string{"only"}
		b.stage = 1
	}
	holds := func(kind string) func(*Status) bool {
		return func(s *Status) bool { return s.Phase == Holding && s.Hold.Kind == kind }
	}
	if b.stage == 1 {
		b.until("steady", 20*time.Minute, func(s *Status) bool { return steady(s) || s.Phase == Holding })
		if b.c.state.Phase == Steady {
			b.insist(OrderRotate, "", holds("verify_failed"))
		}
		b.stage = 2
	}
	if b.stage == 2 {
		b.insist(OrderResume, "", steady)
		b.DeleteIndex("only")
		b.stage = 3
	}
	theirs := map[string]float64{"a": 1, "b": 0, "c": 1}
	if b.stage == 3 {
		if _, err := b.SetWeights("zone", theirs); err != nil {
			t.Fatal(err)
		}
		b.stage = 4
	}
	if b.stage == 4 {
		b.until("held", 2*time.Minute, holds("foreign_weights"))
		b.stage = 5
	}
	if b.stage == 5 && b.c.state.Phase == Holding {
		b.insist(OrderResume, "", steady)
	}
	b.until("steady at last", 20*time.Minute, steady)
	if w, _ := b.zoneWeights(); !maps.Equal(w, theirs) {
		t.Errorf("weights %v instead of those somebody has set, %v", w, theirs)
	}
}

// TestWhoeverLetsAFencedZoneBackIsNotContradicted: somebody takes the filter away while copies are being given up.
func TestWhoeverLetsAFencedZoneBackIsNotContradicted(t *testing.T) {
	b := newBed(t, layout{dataOnly: "c"})
	b.until("first weights", time.Minute, steady)
	b.Inject(sim.Fault{Kind: sim.FaultStatus, Status: 403, Method: "POST", Path: "/_cluster/reroute"})
	b.order(OrderFence, "c")
	b.until("copies are not given up", 5*time.Minute, func(s *Status) bool {
		return s.Write == Fencing && len(s.Blocked) > 0 && s.Blocked[0].Guard == GuardAccepted
	})
	b.set(excludeZone, "")
	b.until("let back", 5*time.Minute, func(s *Status) bool { return s.Write == Idle && s.Leaving == nil })
	if filter := b.Setting(excludeZone); filter != "" || b.count("fence") != 1 || b.count("recommissioned") != 1 {
		t.Errorf("exclude %q:\n%s", filter, b.said())
	}
}
