package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/shardonnay/shardonnay/internal/zones"
)

// newTable is a table in the style of all of them.
func newTable(w io.Writer, header ...any) table.Writer {
	t := table.NewWriter()
	t.SetOutputMirror(w)
	t.SetStyle(table.StyleLight)
	t.Style().Format.Header = text.FormatDefault
	t.AppendHeader(header)
	return t
}

// printZones is zones status for people.
func printZones(w io.Writer, z *zonesAt, s *zones.Status, orders zones.Orders) error {
	fmt.Fprintf(w, "%s: %s, zones by %s", z.identity.Name, z.identity.Product, s.Attribute)
	if s.Version >= 0 {
		fmt.Fprintf(w, ", weights at version %d", s.Version)
	}
	fmt.Fprintln(w)
	if s.Unsupported != "" {
		fmt.Fprintln(w, s.Unsupported)
	} else {
		fmt.Fprintln(w, whoRuns(s, orders))
	}
	t := newTable(w, "zone", "role", "weight", "health", "nodes", "started", "recovering", "moving")
	for _, zone := range s.Zones {
		weight := "none"
		if zone.Weight != nil {
			weight = fmt.Sprintf("%g", *zone.Weight)
		}
		copies := []any{"-", "-", "-"}
		if zone.Copies.DataNodes > 0 {
			copies = []any{zone.Copies.Active, zone.Copies.Initializing, zone.Copies.Relocating}
		}
		role := string(zone.Role)
		if s.Unsupported != "" {
			role = "-"
		}
		leads := ""
		if zone.Zone == s.Leader {
			leads = ", leads"
		}
		nodes := "none"
		if zone.Members > 0 {
			nodes = fmt.Sprintf("%d of %d", zone.Nodes, zone.Members)
		}
		t.AppendRow(append(table.Row{zone.Zone, role, weight, healthText(zone.Health) + leads, nodes}, copies...))
	}
	t.Render()
	for _, line := range unusual(s, orders) {
		fmt.Fprintln(w, line)
	}
	return nil
}

// whoRuns says who runs the zones and how far that is.
func whoRuns(s *zones.Status, orders zones.Orders) string {
	o := orders.Owner
	if s.Owner == nil {
		text := "no daemon runs the zones now"
		if o != nil {
			text += fmt.Sprintf("; %s did until %s", o.Holder, o.Expires.Format(time.RFC3339))
		}
		return text
	}
	line := fmt.Sprintf("run by %s, mode %s, phase %s", o.Holder, o.Mode, cmp.Or(o.Phase, zones.Starting))
	if o.Write != zones.Idle && o.Write != "" {
		line += ", a zone is " + string(o.Write)
	}
	if !o.Due.IsZero() {
		line += ", rotation due " + o.Due.Format(time.RFC3339)
	}
	return line
}

func healthText(h zones.Health) string {
	if h.Healthy() {
		return "well"
	}
	seen := map[zones.Signal]bool{}
	var words []string
	for _, signal := range append(h.Bad, h.Seen...) {
		if !seen[signal] {
			seen[signal], words = true, append(words, string(signal))
		}
	}
	return strings.Join(words, ", ")
}

// unusual are the lines that are there only where there is something to say.
func unusual(s *zones.Status, orders zones.Orders) []string {
	var lines []string
	add := func(is bool, format string, values ...any) {
		if is {
			lines = append(lines, fmt.Sprintf(format, values...))
		}
	}
	add(s.Isolated != "", "nothing is concluded: %s", s.Isolated)
	if s.Hold != nil {
		add(true, "held by %s since %s: %s", s.Hold.By, s.Hold.Since.Format(time.RFC3339), s.Hold.Reason)
	}
	add(s.Pin != "", "zone %s is pinned as the standby", s.Pin)
	add(s.Decommission != "", "a zone is decommissioned: %s", s.Decommission)
	add(s.Voters > 0 && s.Voters < 3, "%d nodes vote: losing %s stops the cluster", s.Voters, map[bool]string{true: "that one", false: "one"}[s.Voters == 1])
	if orders.Owner != nil && s.Owner != nil {
		for _, c := range orders.Owner.Blocked {
			add(true, "held up by %s: %s", c.Guard, c.Text)
		}
	}
	if o := orders.Order; o != nil && (orders.Owner == nil || orders.Owner.Handled != o.ID) {
		add(true, "an order waits: %s, by %s at %s", strings.TrimSpace(string(o.Verb)+" "+o.Zone), o.By, o.At.Format(time.RFC3339))
	}
	return lines
}

// printChecks lists what guards say.
func printChecks(w io.Writer, indent string, checks []zones.Check) {
	for _, c := range checks {
		mark := "ok  "
		switch {
		case !c.OK && c.Warns:
			mark = "warn"
		case !c.OK:
			mark = "NO  "
		}
		fmt.Fprintf(w, "%s%s  %-16s  %s\n", indent, mark, c.Guard, c.Text)
	}
}

// longest request that is shown whole; the JSON output has all of each.
const requestShown = 400

func printRequests(w io.Writer, indent string, requests []string) {
	for _, r := range requests {
		if len(r) > requestShown {
			r = fmt.Sprintf("%s... (%d characters; -o json has them all)", r[:requestShown], len(r))
		}
		fmt.Fprintln(w, indent+r)
	}
}

// printPreview shows an order that is not carried out.
func printPreview(w io.Writer, p *zones.Preview) {
	if p.Possible { // the error says why it is not
		fmt.Fprintln(w, p.Text)
	}
	printChecks(w, "  ", p.Checks)
	if p.Possible {
		printRequests(w, "  ", p.Requests)
	}
}

// printAudit is zones audit for people.
func printAudit(w io.Writer, z *zonesAt, a *zones.Audit, source string) error {
	fmt.Fprintf(w, "%s: %s, zones by %s\n", z.identity.Name, z.identity.Product, a.Attribute)
	if a.Unsupported != "" {
		fmt.Fprintln(w, a.Unsupported)
	}
	printLoad(w, a.Peak, source)
	fmt.Fprintln(w, "\nthe cluster as a whole")
	printChecks(w, "  ", a.Checks)
	for _, zone := range a.Zones {
		verdict := "can be lost"
		if !zone.CanLose {
			verdict = "CANNOT be lost"
		}
		fmt.Fprintf(w, "\nzone %s %s\n", zone.Zone, verdict)
		printChecks(w, "  ", zone.Checks)
	}
	verdict := "every zone can be lost now"
	if !a.OK() {
		verdict = "not every zone can be lost now: mend what says NO"
	}
	_, err := fmt.Fprintln(w, "\n"+verdict)
	return err
}

func printLoad(w io.Writer, peak float64, source string) {
	if peak > 0 {
		fmt.Fprintf(w, "searches keep %.2f threads busy: %s\n", peak, source)
	} else {
		fmt.Fprintln(w, "no search load was seen: the load is", source)
	}
}

// printRehearsal is zones rehearse for people.
func printRehearsal(w io.Writer, z *zonesAt, r *zones.Rehearsal, source string) error {
	fmt.Fprintf(w, "%s: %s, zones by %s\n", z.identity.Name, z.identity.Product, r.Attribute)
	if r.Unsupported != "" {
		fmt.Fprintln(w, r.Unsupported)
	}
	printLoad(w, r.Peak, source)
	for _, zone := range r.Zones {
		fmt.Fprintf(w, "\nzone %s (%s, %s)\n", zone.Zone, zone.Role, healthText(zone.Health))
		fmt.Fprintf(w, "  without it zones %s serve, with %g processors: %d of %d shards\n", strings.Join(zone.Serve, ", "), zone.Processors, zone.Served, zone.Shards)
		if len(zone.Unserved) > 0 {
			fmt.Fprintf(w, "  only by falling back on a zone that does not serve: %s\n", few(zone.Unserved))
		}
		if len(zone.Lost) > 0 {
			fmt.Fprintf(w, "  LOST with it: %s\n", few(zone.Lost))
		}
		printFailover(w, "searches leave it", &zone.Read)
		printFailover(w, "it leaves the cluster", &zone.Write)
		if len(zone.Fence) > 0 {
			fmt.Fprintln(w, "  by hand, to keep copies out of it while it stays in the cluster")
			printRequests(w, "    ", zone.Fence)
		}
	}
	return nil
}

func printFailover(w io.Writer, what string, f *zones.Failover) {
	switch {
	case !f.Possible:
		fmt.Fprintf(w, "  %s: NOT possible\n", what)
		if len(f.Checks) == 0 {
			fmt.Fprintf(w, "    %s\n", f.Text)
		}
	case f.Seconds > 0:
		fmt.Fprintf(w, "  %s: within %.0f s\n", what, f.Seconds)
	default:
		fmt.Fprintf(w, "  %s: %s\n", what, f.Text)
	}
	printChecks(w, "    ", f.Checks)
	if f.Possible {
		printRequests(w, "    ", f.Requests)
	}
}

// few keeps a line readable.
func few(names []string) string {
	const most = 10
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
