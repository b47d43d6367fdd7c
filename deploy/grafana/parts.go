package main

import (
	"fmt"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/bargauge"
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/statetimeline"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

const (
	repository = "https://github.com/shardonnay/shardonnay/blob/main/"
	tag        = "shardonnay"

	// chosen selects the daemons that the variables choose. Several stand before one cluster where there are replicas, so
	// what is said of the cluster is the greatest of what they say, and what is counted is added up: only one of them acts.
	chosen = `job=~"$job",instance=~"$instance"`

	// cycles is the shortest step of panels that count what happens once a cycle: with the default interval of a minute each
	// step then sees one.
	cycles = "2m"

	// unitTimes marks multiples of a fair share.
	unitTimes = "suffix:×"
	unitShort = "short"
	unitBytes = "bytes"
	unitShare = "percentunit"
	unitTime  = "s"
)

// expr is a PromQL expression in which SEL stands for the chosen daemons.
func expr(text string) string { return strings.ReplaceAll(text, "SEL", chosen) }

// orNone adds what stands for "none of them" where an expression has nothing to show, so that an empty panel means that
// the data is missing and not that all is well.
func orNone(text, label string) string {
	return fmt.Sprintf(`%s or on () label_replace(vector(0), "%s", "none", "", "")`, text, label)
}

// query is one expression of a panel with the name of its series.
type query struct {
	expr, legend string
	instant      bool
}

func now(text, legend string) query  { return query{expr(text), legend, true} }
func over(text, legend string) query { return query{expr(text), legend, false} }

func targets(queries []query) (all []cog.Builder[variants.Dataquery]) {
	for i, q := range queries {
		target := prometheus.NewDataqueryBuilder().Expr(q.expr).LegendFormat(q.legend).RefId(string(rune('A' + i))).
			EditorMode(prometheus.QueryEditorModeCode).Format(prometheus.PromQueryFormatTimeSeries)
		if q.instant {
			target.Instant()
		} else {
			target.Range()
		}
		all = append(all, target)
	}
	return all
}

func datasource() common.DataSourceRef {
	return common.DataSourceRef{Type: new("prometheus"), Uid: new("${datasource}")}
}

// board is a dashboard with what all of them have: variables, links to each other and to the runbooks.
func board(uid, title, description string, variables ...cog.Builder[dashboard.VariableModel]) *dashboard.DashboardBuilder {
	b := dashboard.NewDashboardBuilder("Shardonnay / "+title).Uid(uid).Description(description).Tags([]string{tag}).
		Timezone("browser").Time("now-6h", "now").Refresh("1m").Tooltip(dashboard.DashboardCursorSyncCrosshair).
		Link(dashboard.NewDashboardLinkBuilder("Shardonnay").Type(dashboard.DashboardLinkTypeDashboards).Tags([]string{tag}).KeepTime(true).IncludeVars(true)).
		Link(dashboard.NewDashboardLinkBuilder("Runbooks").Type(dashboard.DashboardLinkTypeLink).Url(repository + "docs/runbooks").TargetBlank(true)).
		Link(dashboard.NewDashboardLinkBuilder("Every metric").Type(dashboard.DashboardLinkTypeLink).Url(repository + "docs/metrics.md").TargetBlank(true)).
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Data source").Type("prometheus")).
		WithVariable(variable("cluster", "Cluster", `label_values(shardonnay_cluster_info, cluster_name)`)).
		WithVariable(many("job", "Job", `label_values(shardonnay_cluster_info{cluster_name=~"$cluster"}, job)`)).
		WithVariable(many("instance", "Daemon", `label_values(shardonnay_cluster_info{cluster_name=~"$cluster",job=~"$job"}, instance)`))
	for _, v := range variables {
		b.WithVariable(v)
	}
	return b
}

// variable offers one value at a time: figures of two clusters make no sense together.
func variable(name, label, values string) *dashboard.QueryVariableBuilder {
	return dashboard.NewQueryVariableBuilder(name).Label(label).Datasource(datasource()).Query(dashboard.StringOrMap{String: &values}).
		Definition(values).Refresh(dashboard.VariableRefreshOnTimeRangeChanged).Sort(dashboard.VariableSortNaturalAsc)
}

// many offers all values, and to choose among them.
func many(name, label, values string) *dashboard.QueryVariableBuilder {
	all := func(text string) dashboard.StringOrArrayOfString {
		return dashboard.StringOrArrayOfString{ArrayOfString: []string{text}}
	}
	return variable(name, label, values).Multi(true).IncludeAll(true).
		Current(dashboard.VariableOption{Selected: new(true), Text: all("All"), Value: all("$__all")})
}

// steps are colours by value, the first from the lowest value on.
func steps(first string, rest ...dashboard.Threshold) *dashboard.ThresholdsConfigBuilder {
	return dashboard.NewThresholdsConfigBuilder().Mode(dashboard.ThresholdsModeAbsolute).Steps(append([]dashboard.Threshold{{Color: first}}, rest...))
}

func from(value float64, colour string) dashboard.Threshold {
	return dashboard.Threshold{Value: &value, Color: colour}
}

// uneven colours a multiple of the fair share.
func uneven() *dashboard.ThresholdsConfigBuilder {
	return steps("green", from(1.2, "yellow"), from(1.5, "red"))
}

// plain is for figures that are neither good nor bad.
func plain() *dashboard.ThresholdsConfigBuilder { return steps("blue") }

// figure shows the present value, large.
func figure(title, description, unit string, span uint32, colours *dashboard.ThresholdsConfigBuilder, queries ...query) *stat.PanelBuilder {
	return stat.NewPanelBuilder().Title(title).Description(description).Unit(unit).Span(span).Height(4).Datasource(datasource()).
		Targets(targets(queries)).Thresholds(colours).ColorScheme(dashboard.NewFieldColorBuilder().Mode(dashboard.FieldColorModeIdThresholds)).
		GraphMode(common.BigValueGraphModeNone).ColorMode(common.BigValueColorModeValue).
		ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"}))
}

// lines shows values over time.
func lines(title, description, unit string, span uint32, queries ...query) *timeseries.PanelBuilder {
	return timeseries.NewPanelBuilder().Title(title).Description(description).Unit(unit).Span(span).Height(8).Datasource(datasource()).
		Targets(targets(queries)).LineWidth(1).FillOpacity(0).ShowPoints(common.VisibilityModeNever).
		Legend(common.NewVizLegendOptionsBuilder().DisplayMode(common.LegendDisplayModeTable).Placement(common.LegendPlacementRight).
			ShowLegend(true).Calcs([]string{"lastNotNull", "max"}).SortBy("Max").SortDesc(true)).
		Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending))
}

// counts shows how many happened in each step, on top of each other.
func counts(title, description string, span uint32, queries ...query) *timeseries.PanelBuilder {
	return lines(title, description, unitShort, span, queries...).DrawStyle(common.GraphDrawStyleBars).FillOpacity(80).LineWidth(0).Decimals(0).
		Stacking(common.NewStackingConfigBuilder().Mode(common.StackingModeNormal)).Interval(cycles).
		Legend(common.NewVizLegendOptionsBuilder().DisplayMode(common.LegendDisplayModeTable).Placement(common.LegendPlacementRight).
			ShowLegend(true).Calcs([]string{"sum"}).SortBy("Total").SortDesc(true))
}

// layers shows parts of a whole over time, on top of each other.
func layers(title, description string, span uint32, queries ...query) *timeseries.PanelBuilder {
	return lines(title, description, unitShort, span, queries...).FillOpacity(40).
		Stacking(common.NewStackingConfigBuilder().Mode(common.StackingModeNormal))
}

// ranking shows the present values as bars, the longest first as the query sorts them.
func ranking(title, description, unit string, span uint32, colours *dashboard.ThresholdsConfigBuilder, queries ...query) *bargauge.PanelBuilder {
	return bargauge.NewPanelBuilder().Title(title).Description(description).Unit(unit).Span(span).Height(10).Datasource(datasource()).
		Targets(targets(queries)).Min(0).Thresholds(colours).ColorScheme(dashboard.NewFieldColorBuilder().Mode(dashboard.FieldColorModeIdThresholds)).
		Orientation(common.VizOrientationHorizontal).DisplayMode(common.BarGaugeDisplayModeBasic).ShowUnfilled(true).
		ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"}))
}

// states shows which of several words held when. Queries give 1 for a word that held.
func states(title, description string, span, height uint32, queries ...query) *statetimeline.PanelBuilder {
	held := dashboard.ValueMapping{ValueMap: &dashboard.ValueMap{
		Type: dashboard.MappingTypeValueToText,
		Options: map[string]dashboard.ValueMappingResult{
			"0": {Text: new(" "), Color: new("transparent"), Index: new(int32(0))},
			"1": {Text: new(" "), Color: new("semi-dark-blue"), Index: new(int32(1))},
		},
	}}
	return statetimeline.NewPanelBuilder().Title(title).Description(description).Unit(unitShort).Span(span).Height(height).Datasource(datasource()).
		Targets(targets(queries)).Mappings([]dashboard.ValueMapping{held}).ShowValue(common.VisibilityModeNever).MergeValues(true).RowHeight(0.8).
		ColorScheme(dashboard.NewFieldColorBuilder().Mode(dashboard.FieldColorModeIdThresholds)).
		Legend(common.NewVizLegendOptionsBuilder().DisplayMode(common.LegendDisplayModeList).Placement(common.LegendPlacementBottom).ShowLegend(false).Calcs([]string{}))
}

func row(title string) *dashboard.RowBuilder { return dashboard.NewRowBuilder(title) }
