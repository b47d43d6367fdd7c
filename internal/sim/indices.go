package sim

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// AddIndex creates an index. Its copies are unassigned at first; with nodes there the cluster begins to place them, and
// Settle has them started at once.
func (c *Cluster) AddIndex(spec IndexSpec) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.addIndex(spec, nil)
	return err
}

func (c *Cluster) addIndex(spec IndexSpec, of *series) (*index, error) {
	if spec.Name == "" || strings.ContainsAny(spec.Name, " \\/*?\"<>|,#") || strings.HasPrefix(spec.Name, "-") || strings.HasPrefix(spec.Name, "_") {
		return nil, fmt.Errorf("sim: %q is no index name", spec.Name)
	}
	if c.find(spec.Name) != nil {
		return nil, fmt.Errorf("sim: index %q exists", spec.Name)
	}
	if spec.Shards == 0 {
		spec.Shards = 1
	}
	if spec.Shards < 0 || spec.Replicas < 0 || spec.Bytes < 0 || spec.Search < 0 || spec.Write < 0 {
		return nil, fmt.Errorf("sim: index %q: counts and rates cannot be negative", spec.Name)
	}
	if spec.DocBytes == 0 {
		spec.DocBytes = docBytes
		if spec.Docs > 0 && spec.Bytes > 0 {
			spec.DocBytes = float64(spec.Bytes) / float64(spec.Docs)
		}
	}
	if spec.Docs == 0 {
		spec.Docs = int64(float64(spec.Bytes) / spec.DocBytes)
	}
	if spec.QueryCost <= 0 {
		spec.QueryCost = querySeconds
	}
	if spec.DocsPerSec == 0 {
		spec.DocsPerSec = spec.Write / docSeconds
	}
	idx := &index{
		spec: spec, name: spec.Name, uuid: c.newID(), created: c.now - spec.Age, closed: spec.Closed,
		heat: [2]float64{1, 1}, series: of, version: 1,
	}
	idx.settings = map[string]string{
		"index.number_of_shards": strconv.Itoa(spec.Shards), "index.number_of_replicas": strconv.Itoa(spec.Replicas),
		"index.uuid": idx.uuid, "index.provided_name": spec.Name,
		"index.creation_date": strconv.FormatInt(c.start.Add(idx.created).UnixMilli(), 10),
	}
	if spec.Hidden || spec.DataStream != "" {
		idx.settings["index.hidden"] = "true"
	}
	if c.elastic() && !c.cfg.OSS && c.at(7, 10) {
		tier := "data_content"
		if spec.DataStream != "" {
			tier = "data_hot"
		}
		idx.settings["index.routing.allocation.include._tier_preference"] = tier
	}
	for k, v := range spec.Settings {
		if !strings.HasPrefix(k, "index.") {
			k = "index." + k
		}
		idx.settings[k] = v
	}
	idx.applyIndexSettings()
	for num := range spec.Shards {
		g := &group{
			idx: idx, num: num, since: c.now, primaryTerm: 1,
			docs: float64(spec.Docs) / float64(spec.Shards), bytes: float64(spec.Bytes) / float64(spec.Shards),
			phase: 2 * math.Pi * fraction(fmt.Sprint(spec.Name, num, c.cfg.Seed)),
		}
		for i := range spec.Replicas + 1 {
			c.addCopy(g, i == 0, "INDEX_CREATED")
		}
		idx.groups = append(idx.groups, g)
	}
	at, _ := slices.BinarySearchFunc(c.indices, idx.name, func(x *index, name string) int { return strings.Compare(x.name, name) })
	c.indices = slices.Insert(c.indices, at, idx)
	c.reload(idx)
	c.ages(idx)
	c.bump()
	if len(c.nodes) > 0 && !c.instant {
		c.reroute()
	}
	return idx, nil
}

func (c *Cluster) addCopy(g *group, primary bool, reason string) {
	s := &shardCopy{group: g, primary: primary}
	s.why = unassignedInfo{reason: reason, at: c.now, status: "no_attempt"}
	g.copies = append(g.copies, s)
	c.unassigned = append(c.unassigned, s)
}

// removeCopy takes a copy out of existence: its index shrinks or goes.
func (c *Cluster) removeCopy(s *shardCopy) {
	if s.target != nil {
		c.cancelRelocation(s, false)
	}
	if s.rec != nil {
		c.drop(s.rec)
	}
	if s.node != nil {
		c.leave(s)
	}
	c.unassigned = slices.DeleteFunc(c.unassigned, func(x *shardCopy) bool { return x == s })
}

// DeleteIndex deletes an index. It reports whether there was one.
func (c *Cluster) DeleteIndex(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.deleteIndex(name)
}

func (c *Cluster) deleteIndex(name string) bool {
	idx := c.find(name)
	if idx == nil {
		return false
	}
	for _, g := range idx.groups {
		c.settle(g)
		for _, s := range g.copies {
			c.removeCopy(s)
		}
	}
	c.indices = slices.DeleteFunc(c.indices, func(x *index) bool { return x == idx })
	c.chances++
	c.bump()
	c.reroute()
	return true
}

// setReplicas changes how many replicas an index has.
func (c *Cluster) setReplicas(idx *index, replicas int) {
	for _, g := range idx.groups {
		c.settle(g)
		for len(g.copies) < replicas+1 {
			c.addCopy(g, false, "REPLICA_ADDED")
		}
		for len(g.copies) > replicas+1 {
			at := len(g.copies) - 1
			for i, s := range g.copies { // an unassigned one first
				if !s.primary && s.state == unassigned {
					at = i
				}
			}
			if g.copies[at].primary {
				at--
			}
			s := g.copies[at]
			c.removeCopy(s)
			g.copies = slices.Delete(g.copies, at, at+1)
		}
		c.rerate(g)
	}
	idx.spec.Replicas = replicas
	c.unfit = true
}

// SetIndex changes settings of an index as a person would; an empty value resets.
func (c *Cluster) SetIndex(name string, values map[string]string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	idx := c.find(name)
	if idx == nil {
		return fmt.Errorf("sim: no index %q", name)
	}
	changes := map[string]any{}
	for k, v := range values {
		if changes[k] = v; v == "" {
			changes[k] = nil
		}
	}
	if err := c.changeIndex(idx, changes); err != nil {
		return err
	}
	return nil
}

func (c *Cluster) changeIndex(idx *index, changes map[string]any) *apiError {
	for k, v := range changes {
		if slices.Contains([]string{"index.number_of_shards", "index.uuid", "index.creation_date"}, k) {
			return illegal("final %s setting [%s], not updateable", idx.name, k)
		}
		if k == "index.number_of_replicas" && v != nil {
			if n, err := strconv.Atoi(asText(v)); err != nil || n < 0 {
				return illegal("failed to parse value [%s] for setting [%s] must be >= 0", asText(v), k)
			}
		}
	}
	for _, g := range idx.groups {
		c.settle(g)
	}
	for k, v := range changes {
		if v == nil {
			delete(idx.settings, k)
		} else {
			idx.settings[k] = asText(v)
		}
	}
	if n, err := strconv.Atoi(idx.settings["index.number_of_replicas"]); err == nil && n != idx.spec.Replicas {
		c.setReplicas(idx, n)
	}
	idx.version++
	idx.applyIndexSettings()
	c.reload(idx)
	c.unfit = true
	c.chances++
	c.bump()
	c.reroute()
	return nil
}

// SeriesSpec describes a series of time-based indices, one per period.
type SeriesSpec struct {
	Name       string        // "logs": indices logs-2026.03.02, or backing indices of the stream logs
	DataStream bool          // a data stream in place of a date pattern
	Period     time.Duration // default 24 h
	Keep       int           // indices to keep, the newest included; default 7
	Index      IndexSpec     // of each index: shards, replicas, rates; Bytes is what a full period holds
}

type series struct {
	spec       SeriesSpec
	generation int
	indices    []*index // oldest first; the last is written to
}

// AddSeries creates series of time-based indices with all they keep, the oldest first as history would have it, each
// placed by the built-in allocator at the time and started at once. Their rollovers are scheduled from then on.
func (c *Cluster) AddSeries(specs ...SeriesSpec) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var added []*series
	oldest := 0
	for _, spec := range specs {
		s, err := c.newSeries(spec)
		if err != nil {
			return err
		}
		added = append(added, s)
		oldest = max(oldest, s.spec.Keep-1)
	}
	for ago := oldest; ago >= 0; ago-- {
		if err := c.rollAll(added, ago); err != nil {
			return err
		}
	}
	return nil
}

// newSeries checks the specification, fills in its defaults, and schedules the rollovers.
func (c *Cluster) newSeries(spec SeriesSpec) (*series, error) {
	if spec.Period == 0 {
		spec.Period = day
	}
	if spec.Keep == 0 {
		spec.Keep = 7
	}
	if spec.Name == "" || spec.Period < 0 || spec.Keep < 0 {
		return nil, errors.New("sim: a series has a name, a period, and keeps at least one index")
	}
	if spec.Index.Profile == nil {
		spec.Index.Profile = SearchByAge
	}
	if spec.Index.DocBytes == 0 {
		spec.Index.DocBytes = docBytes
	}
	if spec.Index.DocsPerSec == 0 {
		spec.Index.DocsPerSec = float64(spec.Index.Bytes) / spec.Index.DocBytes / spec.Period.Seconds()
	}
	s := &series{spec: spec}
	c.series = append(c.series, s)
	c.scheduleRollover(s)
	return s, nil
}

// rollAll creates the index that each series had for the period so many periods ago.
func (c *Cluster) rollAll(list []*series, ago int) error {
	var err error
	c.instantly(func() {
		for _, s := range list {
			if ago >= s.spec.Keep || err != nil {
				continue
			}
			err = c.roll(s, time.Duration(ago)*s.spec.Period)
			c.reroute()
		}
	})
	return err
}

// scheduleRollover waits for the next full period since the Unix epoch.
func (c *Cluster) scheduleRollover(s *series) {
	period := s.spec.Period
	t := time.Duration(c.clock().UnixNano())
	c.after(period-t%period, func() {
		c.rollover(s)
		c.scheduleRollover(s)
	})
}

// rollover ends a period: the next index is written to, the oldest goes.
func (c *Cluster) rollover(s *series) {
	if err := c.roll(s, 0); err != nil {
		return // already rolled over at this very moment
	}
	for len(s.indices) > s.spec.Keep {
		old := s.indices[0]
		s.indices = s.indices[1:]
		c.deleteIndex(old.name)
	}
}

// roll creates the series' index for the period that began so long before the present one.
func (c *Cluster) roll(s *series, ago time.Duration) error {
	period := s.spec.Period
	begin := c.clock().Truncate(period).Add(-ago)
	spec := s.spec.Index
	spec.Age = c.clock().Sub(begin)
	var last *index
	if len(s.indices) > 0 {
		last = s.indices[len(s.indices)-1]
		if ago == 0 && c.start.Add(last.created).Equal(begin) {
			spec.Age, begin = 0, c.clock() // by hand, within a period
		}
	}
	s.generation++
	date := begin.Format("2006.01.02")
	if period < day {
		date = begin.Format("2006.01.02-15.04")
	}
	switch {
	case s.spec.DataStream && c.elastic():
		spec.Name, spec.DataStream = fmt.Sprintf(".ds-%s-%s-%06d", s.spec.Name, date, s.generation), s.spec.Name
	case s.spec.DataStream:
		spec.Name, spec.DataStream = fmt.Sprintf(".ds-%s-%06d", s.spec.Name, s.generation), s.spec.Name
	default:
		spec.Name = s.spec.Name + "-" + date
		if c.find(spec.Name) != nil {
			spec.Name = fmt.Sprintf("%s-%06d", spec.Name, s.generation)
		}
	}
	if ago == 0 { // the present one holds what came in since it began
		spec.Docs = int64(spec.DocsPerSec * spec.Age.Seconds())
		spec.Bytes = int64(float64(spec.Docs) * spec.DocBytes)
	}
	idx, err := c.addIndex(spec, s)
	if err != nil {
		return err
	}
	s.indices = append(s.indices, idx)
	c.reload(idx)
	if last != nil {
		c.reload(last) // it is not written to any more
	}
	return nil
}

// Rollover ends the period of a series now. It reports whether there is such a series.
func (c *Cluster) Rollover(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.series {
		if s.spec.Name == name {
			c.rollover(s)
			return true
		}
	}
	return false
}
