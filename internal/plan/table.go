package plan

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Table writes the plan for a person: balance, moves, verdicts and one line that sums it up.
func (p *Plan) Table(w io.Writer) error {
	var out strings.Builder
	p.head(&out)
	p.whatIfTable(&out)
	p.balanceTable(&out)
	p.movesTable(&out)
	p.verdictList(&out)
	fmt.Fprintf(&out, "\n%s\n", p.Summary())
	_, err := io.WriteString(w, out.String())
	return err
}

func (p *Plan) head(out *strings.Builder) {
	fmt.Fprintf(out, "Plan %s (%s) for %s: %s %s, %s, %s, %s\n", p.ID, p.Mode, p.Cluster.Name, p.Cluster.Distribution, p.Cluster.Version,
		count(p.Snapshot.Nodes, "node", "nodes"), count(p.Snapshot.Indices, "index", "indices"), count(p.Snapshot.Copies, "copy", "copies"))
	fmt.Fprintf(out, "Taken %s, holds until %s\n", p.Snapshot.TakenAt.Format(time.RFC3339), p.ExpiresAt.Format(time.RFC3339))
	for _, warning := range p.Snapshot.Warnings {
		fmt.Fprintf(out, "Warning: %s\n", warning)
	}
}

// whatIfTable shows today's balance beside that of the cluster as it might be.
func (p *Plan) whatIfTable(out *strings.Builder) {
	if p.WhatIf == nil {
		return
	}
	today := &p.WhatIf.Today
	fmt.Fprintf(out, "What if: %s\n", strings.Join(p.WhatIf.Changes, " "))
	t := NewTable("dimension", "domain", "mean today", "then", "peak/mean today", "at best", "then", "at best")
	RightAligned(t, 3, 4, 5, 6, 7, 8)
	row := func(dimension, domain string, now, then *Balance) {
		cells := table.Row{dimension, domain}
		for _, b := range []*Balance{now, then} {
			cells = append(cells, shown(b, func(b *Balance) string { return amount(b.Mean, b.Unit) }))
		}
		for _, b := range []*Balance{now, then} {
			cells = append(cells, shown(b, func(b *Balance) string { return ratio(b.Before.PeakToMean) }),
				shown(b, func(b *Balance) string { return ratio(b.Target.PeakToMean) }))
		}
		t.AppendRow(cells)
	}
	for i := range p.Balance {
		then := &p.Balance[i]
		row(then.Dimension, then.Domain, same(today.Balance, then), then)
	}
	for i := range today.Balance {
		if now := &today.Balance[i]; same(p.Balance, now) == nil {
			row(now.Dimension, now.Domain, now, nil)
		}
	}
	fmt.Fprintf(out, "\n%s\n\n%s and objective %.4g today, %s and %.4g then; at best %.4g and %.4g.\n", t.Render(),
		count(today.Nodes, "data node", "data nodes"), today.Objective.Before, count(p.Snapshot.Nodes, "data node", "data nodes"), p.Objective.Before,
		today.Objective.LowerBound, p.Objective.LowerBound)
}

// same is the entry of the same dimension and domain as like, nil where there is none.
func same(balance []Balance, like *Balance) *Balance {
	for i := range balance {
		if balance[i].Dimension == like.Dimension && balance[i].Domain == like.Domain {
			return &balance[i]
		}
	}
	return nil
}

// shown is what a cell says of b, a dash where there is nothing to say.
func shown(b *Balance, say func(*Balance) string) string {
	if b == nil {
		return "-"
	}
	return say(b)
}

func (p *Plan) balanceTable(out *strings.Builder) {
	if len(p.Balance) == 0 {
		return
	}
	t := NewTable("dimension", "domain", "mean", "peak/mean before", "after", "target", "cv before", "after", "target")
	RightAligned(t, 3, 4, 5, 6, 7, 8, 9)
	for i := range p.Balance {
		b := &p.Balance[i]
		t.AppendRow(table.Row{
			b.Dimension, b.Domain, amount(b.Mean, b.Unit),
			ratio(b.Before.PeakToMean), ratio(b.After.PeakToMean), ratio(b.Target.PeakToMean), ratio(b.Before.CV), ratio(b.After.CV), ratio(b.Target.CV),
		})
	}
	fmt.Fprintf(out, "\n%s\n", t.Render())
}

func (p *Plan) movesTable(out *strings.Builder) {
	if len(p.Moves) == 0 {
		return
	}
	t := NewTable("#", "shard", "copy", "from", "to", "bytes", "after", "reason", "gain", "what it does")
	RightAligned(t, 1, 6, 9)
	for i := range p.Moves {
		m := &p.Moves[i]
		role := "replica"
		if m.Primary {
			role = "primary"
		}
		after := make([]string, len(m.After))
		for j, seq := range m.After {
			after[j] = fmt.Sprint(seq)
		}
		t.AppendRow(table.Row{
			m.Seq, fmt.Sprintf("%s/%d", m.Index, m.Shard), role, placeText(m.From), placeText(m.To), bytesText(float64(m.Bytes)),
			strings.Join(after, ","), m.Reason, fmt.Sprintf("%.3g", m.Gain), m.Text,
		})
	}
	fmt.Fprintf(out, "\n%s\n", t.Render())
}

func (p *Plan) verdictList(out *strings.Builder) {
	if len(p.Verdicts) == 0 {
		return
	}
	out.WriteString("\n")
	for i := range p.Verdicts {
		v := &p.Verdicts[i]
		fmt.Fprintf(out, "%s  %s: %s.", v.Kind, v.Subject, v.Text)
		if v.Advice != "" {
			fmt.Fprintf(out, " %s.", v.Advice)
		}
		out.WriteString("\n")
	}
}

// Summary is the plan in one line.
func (p *Plan) Summary() string {
	o := &p.Objective
	if len(p.Moves) == 0 {
		reason := "no move pays"
		for i := range p.Verdicts {
			if p.Verdicts[i].blames() {
				reason = strings.TrimPrefix(p.Verdicts[i].Text, "Nothing to do: ")
				break
			}
		}
		return fmt.Sprintf("Nothing to move: %s. Objective %.4g, bound %.4g.", reason, o.Before, o.LowerBound)
	}
	return fmt.Sprintf("%s, %s, about %s, %s touched; objective %.4g -> %.4g, bound %.4g: %.1f%% of what is possible.",
		count(p.Totals.Moves, "move", "moves"), bytesText(float64(p.Totals.Bytes)),
		(time.Duration(p.Totals.EstSeconds) * time.Second).String(), count(p.Totals.NodesTouched, "node", "nodes"),
		o.Before, o.After, o.LowerBound, 100*o.Captured)
}

// NewTable is a table in the plan's style, without frames or colour, for terminals and files alike.
func NewTable(header ...any) table.Writer {
	t := table.NewWriter()
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	style.Format.Header = text.FormatDefault
	t.SetStyle(style)
	t.SuppressTrailingSpaces()
	t.AppendHeader(header)
	return t
}

// RightAligned puts the numbers of those columns, counted from 1, below each other.
func RightAligned(t table.Writer, columns ...int) {
	configs := make([]table.ColumnConfig, len(columns))
	for i, number := range columns {
		configs[i] = table.ColumnConfig{Number: number, Align: text.AlignRight, AlignHeader: text.AlignRight}
	}
	t.SetColumnConfigs(configs)
}

func placeText(place Place) string {
	if place.Zone == "" {
		return place.Name
	}
	return place.Name + " (" + place.Zone + ")"
}

func ratio(r float64) string { return fmt.Sprintf("%.2f", r) }

// amount writes a load in its unit.
func amount(load float64, unit string) string {
	if unit == "bytes" {
		return bytesText(load)
	}
	return fmt.Sprintf("%.3g %s", load, unit)
}
