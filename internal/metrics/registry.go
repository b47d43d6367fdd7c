package metrics

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// namespace begins every name.
const namespace = "shardonnay_"

// definition is one metric as docs/metrics.md lists it.
type definition struct {
	name, kind, help string
	labels           []string
	values           map[string][]string // of labels with fixed values
	buckets          []float64           // of a histogram
}

// label is a label with the values it may have; without values it names something of the cluster.
type label struct {
	name   string
	values []string
}

// builder makes metrics, registers them, and remembers what it made.
type builder struct {
	registerer  prometheus.Registerer // nil: nothing is registered
	definitions []definition
}

func (b *builder) define(kind, name, help string, labels []label) (string, []string) {
	d := definition{name: namespace + name, kind: kind, help: help, values: make(map[string][]string)}
	for _, l := range labels {
		d.labels = append(d.labels, l.name)
		if l.values != nil {
			d.values[l.name] = l.values
		}
	}
	b.definitions = append(b.definitions, d)
	return d.name, d.labels
}

func (b *builder) register(c prometheus.Collector) {
	if b.registerer != nil {
		b.registerer.MustRegister(c) // fails only where two metrics share a name
	}
}

func (b *builder) gauge(name, help string, labels ...label) *gauges {
	full, names := b.define("gauge", name, help, labels)
	g := &gauges{vec: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: full, Help: help}, names)}
	b.register(g.vec)
	return g
}

func (b *builder) counter(name, help string, labels ...label) *prometheus.CounterVec {
	full, names := b.define("counter", name, help, labels)
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: full, Help: help}, names)
	b.register(c)
	fromTheStart(labels, func(values ...string) { c.WithLabelValues(values...) })
	return c
}

func (b *builder) histogram(name, help string, buckets []float64, labels ...label) *prometheus.HistogramVec {
	full, names := b.define("histogram", name, help, labels)
	b.definitions[len(b.definitions)-1].buckets = buckets
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: full, Help: help, Buckets: buckets}, names)
	b.register(h)
	fromTheStart(labels, func(values ...string) { h.WithLabelValues(values...) })
	return h
}

// fromTheStart makes every series that can exist, at zero: the first event is then a rise and not a new series, which
// rate() would not see.
func fromTheStart(labels []label, make func(values ...string)) {
	switch {
	case len(labels) == 0:
		make()
	case len(labels) == 1:
		for _, value := range labels[0].values {
			make(value)
		}
	}
}

// gauges is a family of gauges that is replaced as a whole: what is not set again goes.
type gauges struct {
	vec   *prometheus.GaugeVec
	shown map[string][]string // label values of the present series, by their joined text
}

// value is one series of a family.
type value struct {
	labels []string
	value  float64
}

// set sets a series and leaves the others.
func (g *gauges) set(v float64, labels ...string) { g.vec.WithLabelValues(labels...).Set(v) }

// replace sets the given series, then removes those set before that are not among them. A scrape in between sees both,
// never a gap.
func (g *gauges) replace(values []value) {
	shown := make(map[string][]string, len(values))
	for _, v := range values {
		shown[strings.Join(v.labels, "\x00")] = v.labels
		g.set(v.value, v.labels...)
	}
	for key, labels := range g.shown {
		if _, stays := shown[key]; !stays {
			g.vec.DeleteLabelValues(labels...)
		}
	}
	g.shown = shown
}

// only sets the series of one word to 1 and those of the others to 0. A word that is not among them sets none.
func (g *gauges) only(word string, all []string) {
	for _, w := range all {
		v := 0.0
		if w == word {
			v = 1
		}
		g.set(v, w)
	}
}

// document renders docs/metrics.md.
func document(definitions []definition) string {
	sorted := slices.SortedFunc(slices.Values(definitions), func(a, b definition) int { return cmp.Compare(a.name, b.name) })
	var text strings.Builder
	text.WriteString(header)
	for _, d := range sorted {
		fmt.Fprintf(&text, "### %s\n\n%s", d.name, strings.ToUpper(d.kind[:1])+d.kind[1:])
		for i, name := range d.labels {
			text.WriteString([]string{" by ", ", "}[min(i, 1)] + "`" + name + "`")
			if values := d.values[name]; values != nil {
				text.WriteString(" (" + strings.Join(values, ", ") + ")")
			}
		}
		text.WriteString(".\n\n" + d.help + "\n\n")
		if d.buckets != nil {
			fmt.Fprintf(&text, "Buckets: %s.\n\n", strings.Trim(fmt.Sprintf("%.12g", d.buckets), "[]"))
		}
	}
	return strings.TrimSuffix(text.String(), "\n")
}

const header = `# Metrics

<!-- Generated from internal/metrics by "go generate ./internal/metrics"; edit there. -->

` + "`/metrics`" + ` of the daemon, for Prometheus. Every name begins with ` + "`shardonnay_`" + `. Labels are nodes, dimensions and fixed words; there
is no series per index or shard. Series of a node that left the cluster disappear with the next snapshot. Counters start
at zero with the process; where a label has fixed words, all of them are there from the start. A cluster of 750 nodes makes
about five thousand series.

[Monitoring](monitoring.md) says how to scrape them, and what the dashboards and alerts make of them. These hold at every scrape:

- the sum of ` + "`shardonnay_cycles_total`" + ` over ` + "`outcome`" + ` is the number of cycles that ended;
- ` + "`shardonnay_moves_considered_total`" + ` is the sum of ` + "`shardonnay_moves_total`" + ` over ` + "`result`" + ` plus ` + "`shardonnay_moves_in_flight`" + `;
- the sum of ` + "`shardonnay_moves_refused_total`" + ` over ` + "`decider`" + ` is ` + "`shardonnay_moves_total`" + ` refused, and
  ` + "`shardonnay_move_size_bytes_sum`" + ` is ` + "`shardonnay_moved_bytes_total`" + `;
- the sum of ` + "`shardonnay_copies`" + ` over ` + "`provenance`" + ` is ` + "`shardonnay_snapshot_copies`" + `;
- the sum of ` + "`shardonnay_objective`" + ` over ` + "`term`" + ` is the objective of ` + "`when`" + `, and (before - after) over (before - lower bound) is
  ` + "`shardonnay_captured_ratio`" + `.

`
