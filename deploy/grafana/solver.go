package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// solver answers: how good is the placement, how good could one be, and what does finding it take.
func solver() *dashboard.DashboardBuilder {
	perSolve := func(metric, legend string) query {
		return over(`sum(increase(`+metric+`{SEL}[$__rate_interval])) / sum(increase(shardonnay_solves_total{SEL}[$__rate_interval]))`, legend)
	}
	return board("shardonnay-solver", "Solver", "How good the placement is, how good one could be, and what finding it takes.").
		WithPanel(figure("Objective now", "What the present placement costs: 0 is even and in order, a badly skewed cluster stands near 1.", unitShort, 4, plain(),
			now(`sum(max by (term) (shardonnay_objective{SEL,when="before"}))`, "now")).Decimals(3)).
		WithPanel(figure("After the plan", "After the last plan's moves, their cost included.", unitShort, 4, plain(),
			now(`sum(max by (term) (shardonnay_objective{SEL,when="after"}))`, "after")).Decimals(3)).
		WithPanel(figure("Best found", "Of the placement the solver would like; plans go there in steps.", unitShort, 4, plain(),
			now(`max(shardonnay_solver_objective{SEL})`, "found")).Decimals(3)).
		WithPanel(figure("Proven bound", "No legal placement is better than this.", unitShort, 4, plain(),
			now(`max(shardonnay_objective_lower_bound{SEL})`, "bound")).Decimals(3)).
		WithPanel(figure("Captured by the solver", "Share of the possible improvement that its placement reaches. Near 0 where next to nothing is left to improve: then the gap tells.", unitShare, 4, plain(),
			now(`max(shardonnay_solver_captured_ratio{SEL})`, "captured")).Decimals(1)).
		WithPanel(figure("Captured by the plan", "The same of the last plan alone, which limits cut short.", unitShare, 4, plain(),
			now(`max(shardonnay_captured_ratio{SEL})`, "captured")).Decimals(1)).
		WithRow(row("How good")).
		WithPanel(lines("Objective and bound", "The present placement comes down to the best found, which lies above the bound by the gap.", unitShort, 12,
			over(`sum(max by (term) (shardonnay_objective{SEL,when="before"}))`, "now"),
			over(`sum(max by (term) (shardonnay_objective{SEL,when="after"}))`, "after the plan"),
			over(`max(shardonnay_solver_objective{SEL})`, "best found"),
			over(`max(shardonnay_objective_lower_bound{SEL})`, "bound")).AxisSoftMin(0)).
		WithPanel(layers("Objective now, by term", "What the present placement pays for: docs/formulation.md has the terms.", 12,
			over(`max by (term) (shardonnay_objective{SEL,when="before"})`, "{{term}}"))).
		WithPanel(lines("Gap", "How far above the bound, over the objective. A large gap of a small objective is of no account.", unitShare, 12,
			over(`max(shardonnay_solver_gap_ratio{SEL})`, "best found"), over(`max(shardonnay_gap_ratio{SEL})`, "after the plan")).AxisSoftMin(0)).
		WithPanel(lines("Captured", "Share of the possible improvement; of no account where the objective is near the bound.", unitShare, 12,
			over(`max(shardonnay_solver_captured_ratio{SEL})`, "best found"), over(`max(shardonnay_captured_ratio{SEL})`, "after the plan")).AxisSoftMin(0).Max(1)).
		WithRow(row("How long")).
		WithPanel(counts("Solves by how they ended", "optimal: proven; feasible: near enough; limit: its time or work was over first.", 8,
			over(`sum by (status) (increase(shardonnay_solves_total{SEL}[$__rate_interval]))`, "{{status}}"))).
		WithPanel(lines("Time of a cycle by stage", "The mean. A collect that grows tells of a cluster under strain.", unitTime, 8,
			over(`sum by (stage) (rate(shardonnay_cycle_duration_seconds_sum{SEL}[$__rate_interval])) / sum by (stage) (rate(shardonnay_cycle_duration_seconds_count{SEL}[$__rate_interval]))`,
				"{{stage}}")).Interval(cycles)).
		WithPanel(lines("Time of a solve", "Nineteen of twenty take less than the second line.", unitTime, 8,
			over(`histogram_quantile(0.5, sum by (le) (rate(shardonnay_cycle_duration_seconds_bucket{SEL,stage="solve"}[$__rate_interval])))`, "median"),
			over(`histogram_quantile(0.95, sum by (le) (rate(shardonnay_cycle_duration_seconds_bucket{SEL,stage="solve"}[$__rate_interval])))`, "95 %")).Interval(cycles)).
		WithRow(row("What it takes")).
		WithPanel(lines("Work of a solve", "Pairs of copy and node looked at, columns built from them, simplex iterations, programs and rounds, on average.", unitShort, 12,
			perSolve("shardonnay_solver_pairs_priced_total", "pairs priced"),
			perSolve("shardonnay_solver_columns_built_total", "columns built"),
			perSolve("shardonnay_solver_simplex_iterations_total", "simplex iterations"),
			perSolve("shardonnay_solver_lp_solves_total", "linear programs"),
			perSolve("shardonnay_solver_rounds_total", "rounds"),
		).ScaleDistribution(common.NewScaleDistributionConfigBuilder().Type(common.ScaleDistributionSymlog).Log(10).LinearThreshold(1)).Interval(cycles)).
		WithPanel(lines("Processors", "Processor seconds per second of the solver's process and of the daemon's.", unitShort, 6,
			over(`sum(rate(shardonnay_solver_cpu_seconds_total{SEL}[$__rate_interval]))`, "solver"),
			over(`sum(rate(process_cpu_seconds_total{SEL}[$__rate_interval]))`, "daemon")).Interval(cycles)).
		WithPanel(lines("Memory", "The most the last solve had resident, and the daemon beside it. A container's limit has to hold both.", unitBytes, 6,
			over(`max by (instance) (shardonnay_solver_peak_memory_bytes{SEL})`, "{{instance}} solver"),
			over(`max by (instance) (process_resident_memory_bytes{SEL})`, "{{instance}} daemon")))
}
