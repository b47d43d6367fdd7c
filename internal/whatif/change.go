package whatif

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// Kind is what a change does.
type Kind string

// The kinds of changes.
const (
	AddNode    Kind = "add-node"    // an empty node like one that is there joins
	RemoveNode Kind = "remove-node" // a node is on its way out: its copies have to leave it
	LoseZone   Kind = "lose-zone"   // all nodes of a zone are gone at once, with their copies
	ScaleLoad  Kind = "scale-load"  // indices cost a multiple of what they cost now
	Grow       Kind = "grow"        // indices take a multiple of their bytes
)

// Change is one difference between the cluster and what it might be.
type Change struct {
	Kind    Kind
	Subject string   // the node or zone, or a pattern of index names
	Like    string   // of AddNode: the node that it resembles
	Factors []Factor // of ScaleLoad and Grow
}

// Factor multiplies one dimension.
type Factor struct {
	Dimension string
	By        float64 // 0 or more
}

// form shows how a kind is written.
type form struct {
	kind Kind
	text string
}

var forms = []form{
	{AddNode, "add-node:NAME,like=NODE"},
	{RemoveNode, "remove-node:NODE"},
	{LoseZone, "lose-zone:ZONE"},
	{ScaleLoad, "scale-load:INDEXPATTERN,search=2"},
	{Grow, "grow:INDEXPATTERN,disk=1.5"},
}

// Forms lists how changes are written, one for each kind.
func Forms() string {
	all := make([]string, len(forms))
	for i, f := range forms {
		all[i] = f.text
	}
	return strings.Join(all, " · ")
}

// Parse reads a change in the form that Forms shows.
func Parse(text string) (Change, error) {
	kind, rest, _ := strings.Cut(text, ":")
	at := slices.IndexFunc(forms, func(f form) bool { return string(f.kind) == kind })
	if at < 0 {
		return Change{}, invalid(text, fmt.Errorf("there is no %q", kind), "Write one of "+Forms())
	}
	parts := strings.Split(rest, ",")
	c := Change{Kind: Kind(kind), Subject: parts[0]}
	err := c.options(parts[1:])
	if err == nil && c.Subject == "" {
		err = fmt.Errorf("%s: names nothing", kind)
	}
	if err != nil {
		return Change{}, invalid(text, err, "Write it as "+forms[at].text)
	}
	return c, nil
}

// options reads what follows the subject, and demands what the kind cannot do without.
func (c *Change) options(parts []string) error {
	for _, part := range parts {
		key, value, _ := strings.Cut(part, "=")
		switch {
		case c.Kind == AddNode && key == "like" && c.Like == "":
			c.Like = value
		case c.Kind == ScaleLoad || c.Kind == Grow && key == cluster.DiskBytes.Name:
			by, err := strconv.ParseFloat(value, 64)
			if err != nil || !(by >= 0 && by <= maxFactor) {
				return fmt.Errorf("%q is not a factor from 0 to %d", part, maxFactor)
			}
			if slices.ContainsFunc(c.Factors, func(f Factor) bool { return f.Dimension == key }) {
				return fmt.Errorf("%s is given twice", key)
			}
			c.Factors = append(c.Factors, Factor{key, by})
		default:
			return fmt.Errorf("%q does not belong here", part)
		}
	}
	switch {
	case c.Kind == AddNode && c.Like == "":
		return fmt.Errorf("like=NODE is missing, the node that the new one resembles")
	case (c.Kind == ScaleLoad || c.Kind == Grow) && len(c.Factors) == 0:
		return fmt.Errorf("no factor is given")
	}
	return nil
}

// maxFactor keeps sums of bytes within what a number holds; nobody asks about a millionfold load.
const maxFactor = 1_000_000

// String is the change as Parse reads it.
func (c Change) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s:%s", c.Kind, c.Subject)
	if c.Like != "" {
		text.WriteString(",like=" + c.Like)
	}
	for _, f := range c.Factors {
		text.WriteString("," + f.Dimension + "=" + strconv.FormatFloat(f.By, 'g', -1, 64))
	}
	return text.String()
}

func invalid(what string, err error, hint string) error {
	return &cluster.Error{Class: cluster.Invalid, Op: "read what-if", What: what, Err: err, Hint: hint}
}

// nodeNamed is the position of the node of that name, or else of that id.
func nodeNamed(s *cluster.Snapshot, name string) (int, error) {
	var found []int
	for n := range s.Nodes {
		if s.Nodes[n].Name == name {
			found = append(found, n)
		}
	}
	if at := s.NodeAt(cluster.NodeID(name)); len(found) == 0 && at != cluster.None {
		found = append(found, at)
	}
	if len(found) == 1 {
		return found[0], nil
	}
	if len(found) > 1 {
		return 0, fmt.Errorf("%d nodes are called %s: give the id of one", len(found), name)
	}
	return 0, fmt.Errorf("there is no node %s; there are %s", name, names(s.Nodes, func(n cluster.Node) string { return n.Name }))
}

// names lists the first few names of items, sorted, each once.
func names[T any](items []T, name func(T) string) string {
	all := make([]string, len(items))
	for i, item := range items {
		all[i] = name(item)
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	all = slices.DeleteFunc(slices.Compact(all), func(name string) bool { return name == "" })
	if len(all) > listed {
		all = append(all[:listed], fmt.Sprintf("%d more", len(all)-listed))
	}
	return strings.Join(all, ", ")
}

// listed is how many names an error or warning gives: enough to see what kind of names they are.
const listed = 8
