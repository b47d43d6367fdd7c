package main

import "github.com/grafana/grafana-foundation-sdk/go/dashboard"

// zonesBoard answers: which zones serve, how well is each, could any be lost, and what happened when one was.
func zonesBoard() *dashboard.DashboardBuilder {
	return board("shardonnay-zones", "Zones", "Which zones serve searches and which stands by, how well each is, and whether any could be lost.").
		WithPanel(figure("Serve", "Zones that searches go to.", unitShort, 3, plain(), now(`sum(max by (zone) (shardonnay_zone_role{SEL}) == bool 2)`, "zones"))).
		WithPanel(figure("Stand by", "Zones that could take over. None: after a failover, or while a zone is out.", unitShort, 3, steps("red", from(1, "green")),
			now(`sum(max by (zone) (shardonnay_zone_role{SEL}) == bool 1)`, "zones"))).
		WithPanel(figure("Not well", "Zones that something speaks against.", unitShort, 3, steps("green", from(1, "red")),
			now(`sum(1 - min by (zone) (shardonnay_zone_health{SEL}))`, "zones"))).
		WithPanel(figure("Could not be lost", "Checks of static stability that fail.", unitShort, 3, steps("green", from(1, "red")),
			now(`sum(1 - min by (check) (shardonnay_zone_static_stability{SEL}))`, "checks"))).
		WithPanel(figure("Next rotation", "Negative while one is overdue.", unitTime, 3, steps("yellow", from(0, "green")), now(`max(shardonnay_zone_rotation_due_seconds{SEL})`, "due"))).
		WithPanel(figure("Failovers", "In the time shown.", unitShort, 3, steps("green", from(1, "yellow")),
			now(`round(sum(increase(shardonnay_zone_failover_total{SEL,result="done"}[$__range])))`, "failovers")).Decimals(0)).
		WithPanel(figure("Weights", "Their version: every change adds one.", unitShort, 3, plain(), now(`max(shardonnay_zone_weights_version{SEL})`, "version")).Decimals(0)).
		WithPanel(figure("Voters", "Nodes whose votes count. With one the cluster stands still without it.", unitShort, 3, steps("red", from(2, "yellow"), from(3, "green")),
			now(`max(shardonnay_zone_voting_nodes{SEL})`, "voters"))).
		WithRow(row("Roles")).
		WithPanel(lines("Role of each zone", "2 serves searches, 1 stands by, 0 is out of the cluster.", unitShort, 12, over(`max by (zone) (shardonnay_zone_role{SEL})`, "{{zone}}")).Decimals(0)).
		WithPanel(lines("Searches per second by zone", "Searches of shards. A standby has none, but for those that fail open or ask for a node.", "ops", 12,
			over(`sum by (zone) (rate(shardonnay_zone_queries_total{SEL}[$__rate_interval]))`, "{{zone}}")).Interval(cycles)).
		WithPanel(states("Phase", "Where the steering of searches stands; steady is as it should be.", 8, 6, over(`max by (phase) (shardonnay_zone_phase{SEL})`, "{{phase}}"))).
		WithPanel(states("A zone that leaves", "Where the zone stands that leaves the cluster or comes back; idle: none does.", 8, 6,
			over(`max by (phase) (shardonnay_zone_write_phase{SEL})`, "{{phase}}"))).
		WithPanel(states("Hold", "Why the controller changes nothing. None is the normal state.", 8, 6, over(orNone(`max by (reason) (shardonnay_zone_hold{SEL}) == 1`, "reason"), "{{reason}}"))).
		WithRow(row("Health")).
		WithPanel(states("Well", "A gap: something speaks against the zone.", 12, 5, over(`min by (zone) (shardonnay_zone_health{SEL})`, "{{zone}}"))).
		WithPanel(states("Signals", "What speaks against which zone, for as many looks as it needs to count.", 12, 5,
			over(orNone(`max by (zone, signal) (shardonnay_zone_signal_bad{SEL}) == 1`, "signal"), "{{zone}} {{signal}}"))).
		WithPanel(states("Static stability", "A gap: the loss of some zone would be felt.", 12, 6, over(`min by (check) (shardonnay_zone_static_stability{SEL})`, "{{check}}"))).
		WithPanel(states("What holds a rotation up", "The guard that does not let what is due.", 12, 6,
			over(orNone(`max by (guard) (shardonnay_zone_rotation_blocked{SEL}) == 1`, "guard"), "{{guard}}"))).
		WithRow(row("What happened")).
		WithPanel(counts("Rotations", "By how they ended.", 8, over(`sum by (result) (increase(shardonnay_zone_rotation_total{SEL}[$__rate_interval]))`, "{{result}}"))).
		WithPanel(counts("Failovers by zone", "Searches left it (read), or it was taken out of the cluster (write).", 8,
			over(`sum by (zone, kind) (increase(shardonnay_zone_failover_total{SEL,result="done"}[$__rate_interval]))`, "{{zone}} {{kind}}"))).
		WithPanel(lines("Fail open", "Searches per second that went to a zone which does not serve, for want of another copy.", "ops", 8,
			over(`sum(rate(shardonnay_zone_fail_open_total{SEL}[$__rate_interval]))`, "searches")).Interval(cycles)).
		WithPanel(layers("Primaries by zone", "Writes go to them whatever the weights are.", 8, over(`max by (zone) (shardonnay_zone_primaries{SEL})`, "{{zone}}"))).
		WithPanel(layers("Copies that are not started", "By zone and state, in the last snapshot.", 8,
			over(`max by (zone, state) (shardonnay_zone_shards{SEL,state!="started"})`, "{{zone}} {{state}}"))).
		WithPanel(layers("Shards with their only copy in a zone", "They would go with it.", 8, over(`max by (zone) (shardonnay_zone_unprotected_shards{SEL})`, "{{zone}}")))
}
