package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/heatmap"
)

// clusterHeat answers: which nodes are hot, since when, in what, and what keeps them so.
func clusterHeat() *dashboard.DashboardBuilder {
	node := many("node", "Node", `label_values(shardonnay_node_load_ratio{job=~"$job",instance=~"$instance"}, node)`).
		AllValue(".*") // and not an alternation of 750 names
	dimension := many("dimension", "Dimension", `label_values(shardonnay_node_load_ratio{job=~"$job",instance=~"$instance"}, dimension)`)
	const ratio = `max by (node, dimension) (shardonnay_node_load_ratio{SEL,node=~"$node",dimension=~"$dimension"})`
	return board("shardonnay-heat", "Cluster heat", "Which nodes carry more than their fair share, since when, in what, and what binds.", dimension, node).
		WithPanel(figure("Peak over mean", "Load of the most loaded node over the mean of its domain. 1 is perfectly even; this is the figure to bring down.", unitTimes, 10, uneven(),
			now(`max by (dimension) (shardonnay_peak_to_mean_ratio{SEL,dimension=~"$dimension"})`, "{{dimension}}")).Decimals(2)).
		WithPanel(figure("Nodes above 1.2 ×", "Nodes that carry more than 1.2 times their fair share, by dimension.", unitShort, 6, steps("green", from(1, "yellow")),
			now(`sum by (dimension) (max by (node, dimension) (shardonnay_node_load_ratio{SEL,dimension=~"$dimension"}) > bool 1.2)`, "{{dimension}}"))).
		WithPanel(figure("Data nodes", "Data nodes in the last complete snapshot.", unitShort, 2, plain(), now(`max(shardonnay_snapshot_nodes{SEL})`, "nodes"))).
		WithPanel(figure("Copies", "Shard copies in the last complete snapshot.", unitShort, 3, plain(), now(`max(shardonnay_snapshot_copies{SEL})`, "copies"))).
		WithPanel(figure("Age of the snapshot", "Everything on this page is as old as that.", unitTime, 3, steps("green", from(600, "yellow"), from(3600, "red")),
			now(`time() - max(shardonnay_snapshot_timestamp_seconds{SEL})`, "age")).Decimals(0)).
		WithRow(row("Heat, node by time")).
		WithPanel(heat()).
		WithRow(row("How even")).
		WithPanel(lines("Peak over mean, and what it can come down to",
			"Now, and with the placement the solver would like. The two meet when the work is done; what stays above 1 no move can help.", unitTimes, 12,
			over(`max by (dimension, domain) (shardonnay_peak_to_mean_ratio{SEL,dimension=~"$dimension"})`, "{{dimension}} {{domain}}"),
			over(`max by (dimension, domain) (shardonnay_plan_peak_to_mean_ratio{SEL,dimension=~"$dimension",when="target"})`, "{{dimension}} {{domain}} at best"),
		).AxisSoftMin(1).OverrideByRegexp("/ at best$/", []dashboard.DynamicConfigValue{
			{Id: "custom.lineStyle", Value: map[string]any{"fill": "dash", "dash": []int{6, 6}}},
		})).
		WithPanel(lines("Spread over the nodes", "Half of the nodes are below the first line, nineteen of twenty below the second.", unitTimes, 12,
			over(`quantile by (dimension) (0.5, `+ratio+`)`, "{{dimension}} median"),
			over(`quantile by (dimension) (0.95, `+ratio+`)`, "{{dimension}} 95 %"))).
		WithRow(row("Hottest nodes")).
		WithPanel(ranking("Farthest above their fair share", "The fifteen hottest, now.", unitTimes, 12, uneven(),
			now(`sort_desc(topk(15, `+ratio+`))`, "{{node}} {{dimension}}")).Decimals(2)).
		WithPanel(ranking("Most of their capacity used", "Busy seconds per second and processor, or share of the disk. A node far above its share that is idle hurts nobody.", unitShare, 12,
			steps("green", from(0.7, "yellow"), from(0.9, "red")),
			now(`sort_desc(topk(15, max by (node, dimension) (shardonnay_node_utilization_ratio{SEL,node=~"$node",dimension=~"$dimension"})))`, "{{node}} {{dimension}}")).Max(1)).
		WithPanel(lines("Over time", "Of the chosen nodes the twenty hottest at each moment.", unitTimes, 24, over(`topk(20, `+ratio+`)`, "{{node}} {{dimension}}"))).
		WithRow(row("What binds")).
		WithPanel(ranking("Deciders and limits", "How many explanations of the last plan name a decider, limit or setting as what keeps a copy or a node as it is.", unitShort, 8, plain(),
			now(`sort_desc(topk(12, max by (binding) (shardonnay_plan_binding{SEL})))`, "{{binding}}"))).
		WithPanel(layers("Explanations by kind", "What stays as it is and why: docs/plan.md has the kinds, /api/v1/plan the words.", 10,
			over(`max by (kind) (shardonnay_plan_verdicts{SEL})`, "{{kind}}")).Height(10)).
		WithPanel(layers("Copies that may move", "Those that may, and those kept where they are by a decider, the configuration or a cool-down.", 6,
			over(`max by (may) (shardonnay_problem_copies{SEL})`, "{{may}}")).Height(10)).
		WithPanel(layers("Where loads come from", "Copies that are not measured are estimated: from their group, their index or series, or their age. Many of them: the picture is a guess.", 24,
			over(`max by (provenance) (shardonnay_copies{SEL})`, "{{provenance}}")))
}

// heat is the map itself, one for each dimension.
//
// It is a heat map panel fed with plain series, one row each, and not a state timeline: that gives every row a label and a
// least height, and at 750 nodes is a page to scroll through in which no pattern shows. Here a node is a line of a pixel,
// the nodes of a zone or generation are neighbours by their name, and the eye finds the band. 1 is in the middle of the
// scale, so that the colours mean the same on every cluster.
func heat() *heatmap.PanelBuilder {
	return heatmap.NewPanelBuilder().Title("$dimension").
		Description("Load of each node over its fair share: 1 is fair (yellow), 2 twice as much (red), 0 idle (blue).").
		Repeat("dimension").RepeatDirection(dashboard.PanelRepeatDirectionV).Span(24).Height(20).Datasource(datasource()).Unit(unitTimes).
		Targets(targets([]query{over(`max by (node) (shardonnay_node_load_ratio{SEL,node=~"$node",dimension="$dimension"})`, "{{node}}")})).
		Calculate(false).CellGap(0).ShowValue(common.VisibilityModeNever).
		CellValues(heatmap.NewCellValuesBuilder().Unit(unitTimes).Decimals(2)).
		Color(heatmap.NewHeatmapColorOptionsBuilder().Mode(heatmap.HeatmapColorModeScheme).Scheme("Spectral").Steps(64).Min(0).Max(2)).
		YAxis(heatmap.NewYAxisConfigBuilder().AxisPlacement(common.AxisPlacementLeft)).
		FilterValues(heatmap.NewFilterValueRangeBuilder()). // an idle node is cold, and not missing
		Tooltip(heatmap.NewHeatmapTooltipBuilder().Mode(common.TooltipDisplayModeSingle)).
		ShowLegend()
}
