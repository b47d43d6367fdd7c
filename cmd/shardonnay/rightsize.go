package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/model"
	"github.com/shardonnay/shardonnay/internal/plan"
	"github.com/shardonnay/shardonnay/internal/rightsize"
	"github.com/shardonnay/shardonnay/internal/whatif"
)

func parseLimits(texts map[string]string) (map[string]float64, error) {
	limits := make(map[string]float64, len(texts))
	for name, text := range texts {
		share, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, &cluster.Error{Class: cluster.Invalid, Op: "read limit", What: name + "=" + text, Err: fmt.Errorf("%q is not a number", text), Hint: "Write shares like search=0.6,disk=0.8"}
		}
		limits[name] = share
	}
	return limits, nil
}

// rightSize answers how few nodes would carry what the snapshot shows, to which the changes have been made.
func rightSize(w io.Writer, snapshot *cluster.Snapshot, policy *model.Policy, changes []whatif.Change, limits map[string]float64, output format) error {
	plain := *policy
	plain.Regions = nil // they scale what a node is to carry
	plain.Zones = ""    // so do zones that rest, and the answer counts the loss of one itself
	built, err := model.Build(snapshot, &plain)
	if err != nil {
		return err
	}
	answer, err := rightsize.Size(built, limits)
	if err != nil {
		return err
	}
	answer.WhatIf = changeTexts(changes)
	if output == asJSON {
		return printJSON(w, answer)
	}
	printSizes(w, answer)
	return nil
}

// printSizes shows the answer for a person: a table for each domain, a row for each kind of node.
func printSizes(w io.Writer, a *rightsize.Answer) {
	var limits []string
	for name, limit := range a.Limits {
		limits = append(limits, fmt.Sprintf("%s %g", name, limit))
	}
	slices.Sort(limits)
	fmt.Fprintf(w, "How few nodes carry what %s carries, at most %s of a node's capacity\n", a.Cluster, strings.Join(limits, ", "))
	if len(a.WhatIf) > 0 {
		fmt.Fprintf(w, "What if: %s\n", strings.Join(a.WhatIf, " "))
	}
	for _, warning := range a.Warnings {
		fmt.Fprintf(w, "Warning: %s\n", warning)
	}
	if len(a.Domains) == 0 {
		fmt.Fprintln(w, "\nNo copy stands anywhere: there is nothing to carry.")
	}
	for i := range a.Domains {
		d := &a.Domains[i]
		lossless := "no zones to lose"
		if len(d.Zones) > 0 {
			lossless = "also without any one of the zones " + strings.Join(d.Zones, ", ")
		}
		fmt.Fprintf(w, "\n%s: %d copies on %d nodes, %s\n", d.Name, d.Copies, d.Nodes, lossless)
		t := plan.NewTable("nodes like", "today", "at least", "enough", "fullest node then (without a zone)", "what one node less would break")
		plan.RightAligned(t, 2, 3, 4)
		for j := range d.Generations {
			g := &d.Generations[j]
			found := g.Reason
			if found == "" {
				peaks := make([]string, len(g.Peaks))
				for k, peak := range g.Peaks {
					peaks[k] = fmt.Sprintf("%s %.2f (%.2f)", peak.Dimension, peak.Share, peak.WithZone)
				}
				found = strings.Join(peaks, ", ")
			}
			t.AppendRow(table.Row{g.Like, g.Nodes, orDash(g.AtLeast), orDash(g.Enough), found, strings.Join(g.Binding, ", ")})
		}
		fmt.Fprintf(w, "\n%s\n", t.Render())
	}
}

func orDash(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}
