// The dashboards' generator is a module of its own, so that building the program needs none of its libraries.
module github.com/shardonnay/shardonnay/deploy/grafana

go 1.26.0

require github.com/grafana/grafana-foundation-sdk/go v0.0.22
