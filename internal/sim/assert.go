package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// measure is something an assertion can be about: it reads its arguments and gives the present value, a number or a text.
type measure struct {
	arguments []string // what stands between the name and the operator, for people
	value     func(r *run, args []string) (any, error)
}

func tallied(f func(Tally) int) measure {
	return measure{value: func(r *run, _ []string) (any, error) { return float64(f(r.c.Tally())), nil }}
}

func counted(f func(Counts) int) measure {
	return measure{value: func(r *run, _ []string) (any, error) { return float64(f(r.c.Counts())), nil }}
}

func balanced(f func(Balance) float64) measure {
	return measure{[]string{"dimension"}, func(r *run, args []string) (any, error) {
		if !slices.Contains(Dimensions, args[0]) {
			return nil, fmt.Errorf("no dimension %q; there are %v", args[0], Dimensions)
		}
		return f(r.c.Balance(args[0])), nil
	}}
}

// measures are what assertions can be about.
var measures = map[string]measure{
	"peak_to_mean": balanced(func(b Balance) float64 { return b.PeakToMean }),
	"peak":         balanced(func(b Balance) float64 { return b.Max }),
	"cv":           balanced(func(b Balance) float64 { return b.CV }),
	"mean":         balanced(func(b Balance) float64 { return b.Mean }),

	"started":      counted(func(n Counts) int { return n.Started }),
	"relocating":   counted(func(n Counts) int { return n.Relocating }),
	"initializing": counted(func(n Counts) int { return n.Initializing }),
	"unassigned":   counted(func(n Counts) int { return n.Unassigned }),

	"moves":       tallied(func(t Tally) int { return t.Moves }),
	"landed":      tallied(func(t Tally) int { return t.Landed }),
	"failed":      tallied(func(t Tally) int { return t.Failed }),
	"refused":     tallied(func(t Tally) int { return t.Refused }),
	"returned":    tallied(func(t Tally) int { return t.Returned }),
	"rebalanced":  tallied(func(t Tally) int { return t.Rebalanced }),
	"evacuated":   tallied(func(t Tally) int { return t.Evacuated }),
	"reroutes":    tallied(func(t Tally) int { return t.Reroutes }),
	"bytes_moved": {value: func(r *run, _ []string) (any, error) { return float64(r.c.Tally().BytesMoved), nil }},

	"cycles":       {value: func(r *run, _ []string) (any, error) { return float64(r.report.Cycles), nil }},
	"cycle_errors": {value: func(r *run, _ []string) (any, error) { return float64(len(r.report.Errors)), nil }},
	"wishes":       {value: func(r *run, _ []string) (any, error) { return float64(r.c.Wishes()), nil }},
	"version":      {value: func(r *run, _ []string) (any, error) { return float64(r.c.Version()), nil }},
	"snapshots_lost": {value: func(r *run, _ []string) (any, error) {
		_, lost := r.c.SnapshotShards()
		return float64(lost), nil
	}},
	"status": {value: func(r *run, _ []string) (any, error) { return r.c.Status(), nil }},
	"master": {value: func(r *run, _ []string) (any, error) { return cmp.Or(r.c.Master(), "none"), nil }},
	"voters": {value: func(r *run, _ []string) (any, error) {
		names := r.c.Voters()
		slices.Sort(names)
		return strings.Join(names, ","), nil
	}},
	"decommission": {value: func(r *run, _ []string) (any, error) {
		_, value, status := r.c.Decommissioned()
		if status == "" {
			return "none", nil
		}
		return value + ":" + status, nil
	}},
	"setting": {[]string{"key"}, func(r *run, args []string) (any, error) { return r.c.Setting(args[0]), nil }},
	"copies": {[]string{"node"}, func(r *run, args []string) (any, error) {
		l, err := r.loadOf(args[0])
		return float64(l.Copies), err
	}},
	"disk": {[]string{"node"}, func(r *run, args []string) (any, error) {
		l, err := r.loadOf(args[0])
		return l.DiskUsed / max(l.DiskTotal, 1), err
	}},
	"where": {[]string{"index", "shard", "p|r"}, func(r *run, args []string) (any, error) { return r.c.where(args[0], args[1], args[2]) }},
}

func (r *run) loadOf(name string) (NodeLoad, error) {
	for _, l := range r.c.Loads() {
		if l.Name == name {
			return l, nil
		}
	}
	return NodeLoad{}, fmt.Errorf("no data node %q", name)
}

// where names the nodes that hold a shard's primary or replicas, arriving ones with "+", unassigned ones as "-".
func (c *Cluster) where(index, shard, role string) (string, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	idx := c.find(index)
	num, err := strconv.Atoi(shard)
	if idx == nil || err != nil || num < 0 || num >= len(idx.groups) || role != "p" && role != "r" {
		return "", fmt.Errorf("no shard %s/%s %s", index, shard, role)
	}
	var names []string
	for _, s := range idx.groups[num].copies {
		if s.prirep() != role {
			continue
		}
		switch {
		case s.node == nil:
			names = append(names, "-")
		case s.target != nil:
			names = append(names, s.node.spec.Name+">"+s.target.node.spec.Name)
		case s.state == initializing:
			names = append(names, "+"+s.node.spec.Name)
		default:
			names = append(names, s.node.spec.Name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ","), nil
}

// Status is the cluster's health: green, yellow or red.
func (c *Cluster) Status() string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.statusOf(c.counts())
}

// Wishes are the copies that stand, or are going to stand, elsewhere than the desired balance wants them; 0 where the
// product keeps none.
func (c *Cluster) Wishes() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if !c.keepsDesiredBalance() {
		return 0
	}
	return c.wishes()
}

var operators = []string{"==", "!=", "<=", ">=", "<", ">"}

// parseAssert reads "NAME [ARGUMENTS] OPERATOR VALUE".
func parseAssert(words []string) (action, error) {
	at := slices.IndexFunc(words, func(w string) bool { return slices.Contains(operators, w) })
	if at < 1 || at != len(words)-2 {
		return nil, fmt.Errorf("assert wants a name, an operator of %v, and a value: assert unassigned == 0", operators)
	}
	name, args, op, want := words[0], words[1:at], words[at], words[at+1]
	m, ok := measures[name]
	if !ok {
		return nil, fmt.Errorf("nothing called %q can be asserted; there are %s", name, strings.Join(sortedKeys(measures), ", "))
	}
	if len(args) != len(m.arguments) {
		return nil, fmt.Errorf("%s wants %d arguments %v", name, len(m.arguments), m.arguments)
	}
	number, err := strconv.ParseFloat(want, 64)
	if err != nil {
		number, err = size(want)
	}
	isNumber := err == nil
	if !isNumber && op != "==" && op != "!=" {
		return nil, fmt.Errorf("%q is no number", want)
	}
	text := strings.Join(words, " ")
	return withCluster(func(r *run, _ *Cluster) error {
		got, err := m.value(r, args)
		if err != nil {
			return err
		}
		r.report.Assertions++
		var ok bool
		shown := fmt.Sprint(got)
		if x, is := got.(float64); is {
			if !isNumber {
				return fmt.Errorf("%s is a number, %q is none", name, want)
			}
			ok, shown = compare(x, op, number), strconv.FormatFloat(x, 'g', 5, 64)
		} else {
			ok = (got == want) == (op == "==")
		}
		if ok {
			r.printf("ok   %s (%s)", text, shown)
			return nil
		}
		r.report.Failed = append(r.report.Failed, fmt.Sprintf("line %d: %s is %s, not %s %s", r.line, strings.Join(words[:at], " "), shown, op, want))
		r.printf("FAIL %s (%s)", text, shown)
		return nil
	}), nil
}

func compare(x float64, op string, y float64) bool {
	switch op {
	case "==":
		return x == y
	case "!=":
		return x != y
	case "<=":
		return x <= y
	case ">=":
		return x >= y
	case "<":
		return x < y
	}
	return x > y
}

// parsePrint reads "print WHAT".
func parsePrint(a *arguments) action {
	what := a.word("loads, tally, health, master or copies INDEX")
	switch what {
	case "loads":
		return withCluster(func(r *run, c *Cluster) error {
			r.printf("%s", FormatLoads(c.Loads()))
			return nil
		})
	case "tally":
		return withCluster(func(r *run, c *Cluster) error {
			t := c.Tally()
			r.printf("moves=%d landed=%d failed=%d refused=%d returned=%d rebalanced=%d evacuated=%d bytes=%.1fGB",
				t.Moves, t.Landed, t.Failed, t.Refused, t.Returned, t.Rebalanced, t.Evacuated, float64(t.BytesMoved)/1e9)
			return nil
		})
	case "health":
		return withCluster(func(r *run, c *Cluster) error {
			n := c.Counts()
			r.printf("%s started=%d relocating=%d initializing=%d unassigned=%d", c.Status(), n.Started, n.Relocating, n.Initializing, n.Unassigned)
			return nil
		})
	case "master":
		return withCluster(func(r *run, c *Cluster) error {
			r.printf("%s", c.Master())
			return nil
		})
	case "copies":
		index := a.word("index")
		return withCluster(func(r *run, c *Cluster) error {
			text, err := c.formatCopies(index)
			r.printf("%s", text)
			return err
		})
	}
	a.fault("%q cannot be printed", what)
	return nil
}

// FormatLoads is a table of the nodes' loads for a person.
func FormatLoads(loads []NodeLoad) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-12s %-6s %6s %9s %9s %8s", "node", "zone", "copies", "search", "index", "disk")
	for _, l := range loads {
		fmt.Fprintf(&b, "\n%-12s %-6s %6d %9.3f %9.3f %6.1fGB", l.Name, l.Zone, l.Copies, l.Search, l.Index, l.Disk/1e9)
	}
	for _, d := range Dimensions {
		x := balanceOf(loads, d)
		fmt.Fprintf(&b, "\n%s: peak/mean %.3f at %s", d, x.PeakToMean, x.Hottest)
	}
	return b.String()
}

// formatCopies is one line a shard: the primary, then the replicas.
func (c *Cluster) formatCopies(index string) (string, error) {
	c.mu.RLock()
	idx := c.find(index)
	c.mu.RUnlock()
	if idx == nil {
		return "", fmt.Errorf("no index %q", index)
	}
	var lines []string
	for num := range idx.groups {
		p, _ := c.where(index, itoa(num), "p") // exists
		r, _ := c.where(index, itoa(num), "r")
		lines = append(lines, strings.TrimSuffix(fmt.Sprintf("%d %s %s", num, p, r), " "))
	}
	return strings.Join(lines, "\n"), nil
}
