// Package observability runs the committed dashboards and alert rules against a real Prometheus that scrapes the built
// program at work: every expression has to return data, and every alert has to fire when its fault is planted.
package observability
