package main

import "github.com/grafana/grafana-foundation-sdk/go/dashboard"

// movesAndSafety answers: who moves what, does it land, what holds it up, and is anybody being harmed.
func movesAndSafety() *dashboard.DashboardBuilder {
	// Only the owner watches moves; what a former owner last saw stands still.
	const ours = ` * on (job, instance) shardonnay_ownership{SEL,state="us"}`
	return board("shardonnay-moves", "Moves and safety", "What is moved, what lands, what stops it, and who owns rebalancing.").
		WithPanel(figure("In flight", "Our moves under way.", unitShort, 3, plain(), now(`sum(shardonnay_moves_in_flight{SEL}`+ours+`)`, "moves"))).
		WithPanel(figure("Bytes in flight", "Size of the copies they move.", unitBytes, 3, plain(), now(`sum(shardonnay_moves_in_flight_bytes{SEL}`+ours+`)`, "bytes"))).
		WithPanel(figure("Planned", "Moves in the last plan, carried out or not.", unitShort, 3, plain(), now(`max(shardonnay_plan_moves{SEL})`, "moves"))).
		WithPanel(figure("Bytes planned", "Bytes of the last plan's moves.", unitBytes, 3, plain(), now(`max(shardonnay_plan_bytes{SEL})`, "bytes"))).
		WithPanel(figure("Landed", "In the time shown.", unitShort, 3, steps("green"), now(`round(sum(increase(shardonnay_moves_total{SEL,result="landed"}[$__range])))`, "moves")).Decimals(0)).
		WithPanel(figure("Did not land", "Refused, cancelled, expired or lost in the time shown.", unitShort, 3, steps("green", from(1, "yellow"), from(10, "red")),
			now(`round(sum(increase(shardonnay_moves_total{SEL,result=~"refused|cancelled|expired|lost"}[$__range])))`, "moves")).Decimals(0)).
		WithPanel(figure("Alerts", "Alerts of deploy/prometheus/rules.yaml that fire, of any cluster.", unitShort, 3, steps("green", from(1, "red")),
			now(`count(ALERTS{alertname=~"Shardonnay.+",alertstate="firing"}) or vector(0)`, "firing"))).
		WithPanel(figure("Paused", "1 while moving is paused by request.", unitShort, 3, steps("green", from(1, "yellow")), now(`max(shardonnay_paused{SEL})`, "paused"))).
		WithRow(row("Who, and whether at all")).
		WithPanel(states("Mode", "Nothing is ever moved unless the mode is act.", 12, 5, over(`max by (mode) (shardonnay_mode{SEL})`, "{{mode}}"))).
		WithPanel(states("Ownership", "Who moves copies, as each daemon sees it: us, another instance, a person, or the server itself. With two daemons one says us and one other.", 12, 5,
			over(`max by (instance, state) (shardonnay_ownership{SEL}) == 1`, "{{instance}}: {{state}}"))).
		WithPanel(states("Outcome of cycles", "How each cycle ended: docs/operations.md says what each calls for.", 12, 8,
			over(`max by (instance, outcome) (shardonnay_last_outcome{SEL}) == 1`, "{{instance}}: {{outcome}}"))).
		WithPanel(states("Stop conditions", "What kept moves from being asked for. None is the normal state.", 12, 8,
			over(orNone(`max by (reason) (shardonnay_stop_condition{SEL}) == 1`, "reason"), "{{reason}}"))).
		WithRow(row("Moves")).
		WithPanel(counts("Moves by how they ended", "landed is the aim; stale and skipped are normal; the others deserve a look at the log.", 12,
			over(`sum by (result) (increase(shardonnay_moves_total{SEL}[$__rate_interval]))`, "{{result}}"))).
		WithPanel(counts("Refused by decider", "The first decider that said no. Our model should have foreseen it.", 12,
			over(orNone(`sum by (decider) (increase(shardonnay_moves_refused_total{SEL}[$__rate_interval])) > 0`, "decider"), "{{decider}}"))).
		WithPanel(lines("Under way", "Our moves, and all relocations in the snapshot, whoever asked for them. Many that are not ours: a storm.", unitShort, 12,
			over(`sum(shardonnay_moves_in_flight{SEL}`+ours+`)`, "ours"), over(`max(shardonnay_relocations{SEL})`, "all relocations")).Decimals(0)).
		WithPanel(lines("Bytes under way", "The same in bytes.", unitBytes, 12,
			over(`sum(shardonnay_moves_in_flight_bytes{SEL}`+ours+`)`, "ours"), over(`max(shardonnay_relocation_bytes{SEL})`, "all relocations"))).
		WithPanel(lines("Bytes landed per second", "What moving costs the network and the disks.", "Bps", 8,
			over(`sum(rate(shardonnay_moved_bytes_total{SEL}[$__rate_interval]))`, "landed")).Interval(cycles)).
		WithPanel(lines("Time a move takes", "From asking for it until the copy is started on its target.", unitTime, 8,
			over(`histogram_quantile(0.5, sum by (le) (rate(shardonnay_move_duration_seconds_bucket{SEL}[$__rate_interval])))`, "median"),
			over(`histogram_quantile(0.95, sum by (le) (rate(shardonnay_move_duration_seconds_bucket{SEL}[$__rate_interval])))`, "95 %")).Interval(cycles)).
		WithPanel(lines("Size of what is moved", "Of the copies that landed.", unitBytes, 8,
			over(`histogram_quantile(0.5, sum by (le) (rate(shardonnay_move_size_bytes_bucket{SEL}[$__rate_interval])))`, "median"),
			over(`histogram_quantile(0.95, sum by (le) (rate(shardonnay_move_size_bytes_bucket{SEL}[$__rate_interval])))`, "95 %")).Interval(cycles)).
		WithRow(row("What it asks of the cluster")).
		WithPanel(lines("Requests per second", "Reads, writes, repeated rounds of reads, and tries that failed.", "reqps", 8,
			over(`sum by (kind) (rate(shardonnay_requests_total{SEL}[$__rate_interval]))`, "{{kind}}")).Interval(cycles)).
		WithPanel(lines("Bytes per second", "Bodies as they travel, compressed.", "Bps", 8,
			over(`sum by (direction) (rate(shardonnay_request_bytes_total{SEL}[$__rate_interval]))`, "{{direction}}")).Interval(cycles)).
		WithPanel(counts("Errors that ended a cycle", "By class: docs/operations.md says what each calls for.", 8,
			over(orNone(`sum by (class) (increase(shardonnay_errors_total{SEL}[$__rate_interval])) > 0`, "class"), "{{class}}"))).
		WithRow(row("Daemons")).
		WithPanel(lines("Since the last cycle ended", "Longer than overdue: the loop hangs.", unitTime, 12,
			over(`time() - shardonnay_last_cycle_timestamp_seconds{SEL}`, "{{instance}}"), over(`shardonnay_cycle_overdue_seconds{SEL}`, "{{instance}} overdue"))).
		WithPanel(states("Configuration in force", "Whether the file on disk was taken; a gap: it was refused, and the log says why.", 6, 8,
			over(`max by (instance) (shardonnay_config_reload_success{SEL})`, "{{instance}}"))).
		WithPanel(ranking("Versions", "What runs.", unitShort, 6, plain(), now(`count by (version, commit) (shardonnay_build_info{SEL})`, "{{version}} {{commit}}")).Height(8))
}
