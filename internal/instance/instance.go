package instance

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/shardonnay/shardonnay/internal/cluster"
	"github.com/shardonnay/shardonnay/internal/model"
)

// Options say how large and how hard an instance is.
type Options struct {
	Nodes      int
	Copies     int // about: the last index is cut to fit, and copies are whole groups
	Dimensions int // 1 to 5 of search, index, disk, heap, shards
	Seed       uint64

	Skew      float64 // sigma of the lognormal noise of search load, per tenant and per shard
	DiskFill  float64 // share of the cluster's disk in use
	DiskLimit float64 // share of a node's disk it may hold
	Lambda    float64 // price of moving every byte once
	Pinned    float64 // share of today's copies that are pinned
	Giants    int     // shards that alone exceed a mean node's fair share of search load
	Draining  int     // nodes that accept nothing new
	Middling  int     // shards whose copies carry 0.3 to 0.9 of a mean node's fair share of search load
	Empty     int     // nodes that joined a moment ago and hold nothing
	DrainZone bool    // the last zone is to be emptied
	TwoTiers  bool    // the indices of the last week on nodes of their own, by a filter
}

// Defaults are the options of a plain cluster of that size: three dimensions, some pins, giants and draining nodes.
func Defaults(nodes, copies int, seed uint64) Options {
	return Options{
		Nodes: nodes, Copies: copies, Dimensions: 3, Seed: seed, Skew: 0.8, DiskFill: 0.55, DiskLimit: 0.85, Lambda: 1,
		Pinned: 0.1, Giants: nodes / 100, Draining: nodes / 150,
	}
}

// variants change the defaults in the one way that their name says.
var variants = map[string]func(*Options){
	"plain":           func(*Options) {},
	"tight-disks":     func(o *Options) { o.DiskFill = 0.78 },
	"middling":        func(o *Options) { o.Middling = o.Nodes / 2 },
	"five-dimensions": func(o *Options) { o.Dimensions = 5 },
	"two-tiers":       func(o *Options) { o.TwoTiers = true },
	"grown":           func(o *Options) { o.Empty, o.DiskFill = o.Nodes/11, 0.5 },
	"drained-zone":    func(o *Options) { o.DrainZone, o.DiskFill = true, 0.5 },
}

// Variants are the names that Vary knows.
func Variants() []string { return slices.Sorted(maps.Keys(variants)) }

// Vary changes the options as the variant of that name has it.
func (o *Options) Vary(name string) error {
	change, known := variants[name]
	if !known {
		return &cluster.Error{
			Class: cluster.Invalid, Op: "generate an instance", Err: fmt.Errorf("there is no variant %q", name), Hint: "Choose one of " + strings.Join(Variants(), ", "),
		}
	}
	change(o)
	return nil
}

// Validate reports an option that no instance can be made of.
func (o *Options) Validate() error {
	var fault string
	ratio := func(x float64) bool { return x >= 0 && x <= 1 }
	switch {
	case o.Nodes < zones:
		fault = fmt.Sprintf("%d nodes, at least %d are needed, one a zone", o.Nodes, zones)
	case o.Copies < 2*o.Nodes:
		fault = fmt.Sprintf("%d copies on %d nodes, at least two a node are needed", o.Copies, o.Nodes)
	case o.Dimensions < 1 || o.Dimensions > len(dimensionNames):
		fault = fmt.Sprintf("%d dimensions, from 1 to %d are possible", o.Dimensions, len(dimensionNames))
	case !ratio(o.DiskFill) || !ratio(o.DiskLimit) || !ratio(o.Pinned) || o.DiskFill >= o.DiskLimit:
		fault = "disk fill, disk limit and pinned are shares from 0 to 1, and fill is below the limit"
	case !(o.Skew >= 0 && o.Skew <= 3) || !(o.Lambda >= 0):
		fault = "skew is from 0 to 3 and lambda from 0"
	case o.Giants < 0 || o.Middling < 0 || o.Draining < 0 || o.Draining > o.Nodes/2 || o.Empty < 0 || o.Empty > o.Nodes/2:
		fault = "giants, middling, draining and empty are numbers from 0, and at most half of the nodes drain or are empty"
	default:
		return nil
	}
	return &cluster.Error{Class: cluster.Invalid, Op: "generate an instance", Err: fmt.Errorf("%s", fault), Hint: "Change the flag and start again"}
}

const (
	zones = 3
	// A node of the first generation: threads that can be busy, bytes of disk, heap that copies may pin.
	threads, diskBytes, heapBytes = 8.0, 1.8e12, 16e9
	searchUse, indexUse, heapUse  = 0.45, 0.30, 0.35 // shares of the cluster's capacity in use
	// No ordinary copy carries more than this share of a mean node's load: its owner would have given the index more shards.
	copyCap = 0.6
)

var (
	dimensionNames = []string{"search", "index", "disk", "heap", "shards"}
	// Hardware generations and the share of nodes each has.
	generations     = []float64{1, 1.5, 2}
	generationShare = []float64{0.40, 0.35, 0.25}
	// How long tenants keep their daily indices, days, largest tenants first.
	keepDays = []int{7, 14, 14, 30, 30, 30, 90, 90, 365}
)

// heat is how much an index is searched by age in days: today, yesterday, week, month, quarter, long tail, and the same
// weekday of past weeks once more, for people compare with last week.
func heat(age int) float64 {
	h := 0.012
	switch {
	case age < 1:
		h = 1
	case age < 2:
		h = 0.55
	case age < 7:
		h = 0.25
	case age < 30:
		h = 0.08
	case age < 90:
		h = 0.03
	}
	if age >= 7 && age%7 == 0 {
		h *= 1.5
	}
	return h
}

// dailyIndex is one tenant's index of one day.
type dailyIndex struct {
	tenant, age, primaries, replicas int
}

// tenant is who writes: a volume per day spread over sixty-fold, and how hard its data is searched.
type tenant struct {
	volume, intensity float64
	keep, replicas    int
}

// Generate makes the instance. The present placement is what a balancer that counts copies leaves behind.
func Generate(o Options) (*model.Problem, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	g := newGenerator(o)
	g.nodes()
	g.indices()
	g.copies()
	if g.TwoTiers {
		g.split()
	}
	if err := g.place(); err != nil {
		return nil, err
	}
	g.extras()
	g.objective()
	return g.p, g.p.Validate()
}

func newGenerator(o Options) *generator {
	return &generator{Options: o, cap: copyCap, rng: rand.New(rand.NewPCG(o.Seed, 0x5eed)), p: &model.Problem{
		Version: model.ProblemVersion, Name: fmt.Sprintf("synthetic-n%d-c%d-s%d", o.Nodes, o.Copies, o.Seed),
	}}
}

type generator struct {
	Options
	cap      float64 // no copy carries more than this share of a mean node's load
	everyDay bool    // all indices are written, not only the newest
	rng      *rand.Rand
	p        *model.Problem
	tenants  []tenant
	days     []dailyIndex
	ages     []int // per copy: days
}

func (g *generator) nodes() {
	for d := range g.Dimensions {
		g.p.Dimensions = append(g.p.Dimensions, model.Dimension{Name: dimensionNames[d], Weight: 1})
	}
	g.p.Classes = []model.Class{{}}
	class := &g.p.Classes[0]
	perZone := make([][]float64, zones) // the generations of each zone's nodes, shuffled
	for n := range g.Nodes {
		zone := n % zones
		if len(perZone[zone]) == 0 {
			count := (g.Nodes - zone + zones - 1) / zones
			for i := range count {
				at, share := 0, (float64(i)+0.5)/float64(count)
				for at < len(generations)-1 && share > generationShare[at] {
					share -= generationShare[at]
					at++
				}
				perZone[zone] = append(perZone[zone], generations[at])
			}
			g.rng.Shuffle(count, func(i, j int) { perZone[zone][i], perZone[zone][j] = perZone[zone][j], perZone[zone][i] })
		}
		scale := perZone[zone][0]
		perZone[zone] = perZone[zone][1:]
		// The shard dimension has the same capacity everywhere: what a copy costs by being there, masters feel, not disks.
		capacity := []float64{threads * scale, threads * scale, diskBytes * scale, heapBytes * scale, 1000}
		g.p.Nodes = append(g.p.Nodes, model.Node{
			ID: fmt.Sprintf("node-%d", n), Capacity: capacity[:g.Dimensions], Tiers: []string{string(rune('a' + zone))},
			Disk: model.Disk{Limit: math.Round(g.DiskLimit * diskBytes * scale)}, AcceptsNew: true,
		})
		class.Nodes = append(class.Nodes, int32(n))
	}
}

// freshDays is for how long an index stays on the fast nodes.
const freshDays = 7

// split gives the youngest indices as many nodes of their own, in each zone, as their bytes need.
func (g *generator) split() {
	fresh, all := 0.0, 0.0
	for c := range g.p.Copies {
		all += g.p.Copies[c].Bytes
		if g.ages[c] < freshDays {
			fresh += g.p.Copies[c].Bytes
			g.p.Groups[g.p.Copies[c].Group].Class = 1
		}
	}
	disk := 0.0
	for n := range g.p.Nodes {
		disk += g.p.Nodes[n].Disk.Limit
	}
	g.p.Classes = make([]model.Class, 2)
	taken := 0.0
	for from := 0; from < g.Nodes; from += zones {
		class := &g.p.Classes[0]
		if taken < disk*fresh/all || from == 0 {
			class = &g.p.Classes[1]
		}
		for n := from; n < min(from+zones, g.Nodes); n++ {
			class.Nodes = append(class.Nodes, int32(n))
			taken += g.p.Nodes[n].Disk.Limit
		}
	}
}

// indices chooses tenants and how many primaries their daily indices have, so that all copies add up to about Copies.
func (g *generator) indices() {
	// A cluster grows by tenants: with the same few on thousands of nodes, every daily primary would exceed a node.
	count := max(g.Copies/400, 6)
	if count > 120 {
		count = g.Copies * 120 / 50_000
	}
	halfRange := math.Log(60) / 2
	for range count {
		volume := math.Exp(min(halfRange, max(-halfRange, g.rng.NormFloat64()*halfRange/2)))
		replicas := 1
		if g.rng.Float64() < 0.15 {
			replicas = 2
		}
		g.tenants = append(g.tenants, tenant{volume: volume, intensity: math.Exp(g.rng.NormFloat64() * g.Skew), replicas: replicas})
	}
	slices.SortFunc(g.tenants, func(a, b tenant) int {
		if a.volume > b.volume {
			return -1
		}
		return 1
	})
	daily := 0.0 // copies a day per unit of volume
	for i := range g.tenants {
		at := i*len(keepDays)/count + g.rng.IntN(3) - 1
		g.tenants[i].keep = keepDays[min(max(at, 0), len(keepDays)-1)]
		daily += g.tenants[i].volume * float64(g.tenants[i].keep*(1+g.tenants[i].replicas))
	}
	perVolume := float64(g.Copies) / daily
	left := g.Copies
	for age := 0; left > 1; age++ { // newest first, so that it is the oldest that does not fit
		for t := range g.tenants {
			if tenant := &g.tenants[t]; left > 1 && (age < tenant.keep || age >= keepDays[len(keepDays)-1]) {
				day := dailyIndex{tenant: t, age: age, replicas: min(tenant.replicas, left-1)}
				day.primaries = min(min(max(int(math.Round(tenant.volume*perVolume)), 1), 12), left/(1+day.replicas))
				left -= day.primaries * (1 + day.replicas)
				g.days = append(g.days, day)
			}
		}
	}
}

// copies gives every copy its loads and scales them to the cluster's capacity.
func (g *generator) copies() {
	weekday := g.rng.IntN(7)
	for i, day := range g.days {
		g.p.Indices = append(g.p.Indices, model.Index{Name: fmt.Sprintf("tenant%d-day%d", day.tenant, day.age)})
		owner := &g.tenants[day.tenant]
		volume := owner.volume / float64(day.primaries)
		if w := ((weekday-day.age)%7 + 7) % 7; w >= 5 {
			volume *= 0.6 // weekend
		}
		if day.age == 0 {
			volume *= 0.6 // the day is not over
		}
		warmth := heat(day.age)
		if day.age >= 7 && g.rng.Float64() < 0.004 {
			warmth = 0.5 // somebody investigates something old
		}
		written := 0.0
		switch {
		case day.age == 0 || g.everyDay:
			written = 1
		case day.age == 1:
			written = 0.12 // late data
		}
		for shard := range day.primaries {
			bytes := volume * math.Exp(g.rng.NormFloat64()*0.15)
			search := warmth * owner.intensity * math.Sqrt(bytes) * math.Exp(g.rng.NormFloat64()*g.Skew)
			group := model.Group{Index: int32(i), Name: fmt.Sprintf("tenant%d-day%d/%d", day.tenant, day.age, shard)}
			spread := zones
			if g.DrainZone {
				spread-- // what is left
			}
			if limit := (1 + day.replicas + spread - 1) / spread; limit < 1+day.replicas {
				group.TierCaps = []model.TierLimit{{0, limit}}
			}
			g.p.Groups = append(g.p.Groups, group)
			for r := range 1 + day.replicas {
				write := written * bytes
				if r > 0 {
					write *= 0.85 + 0.15*g.rng.Float64()
				}
				load := []float64{search / float64(1+day.replicas), write, bytes, 0.2 + math.Sqrt(bytes), 1}
				g.p.Copies = append(g.p.Copies, model.Copy{
					Group: int32(len(g.p.Groups) - 1), Primary: r == 0, MoveWeight: 1, Bytes: bytes, Load: load[:g.Dimensions],
				})
				g.ages = append(g.ages, day.age)
			}
		}
	}
	total := 0.0
	for n := range g.p.Nodes {
		total += g.p.Nodes[n].Disk.Limit / g.DiskLimit / diskBytes
	}
	g.scaleBytes(total * diskBytes * g.DiskFill)
	for d, use := range []float64{searchUse * threads, indexUse * threads, 0, heapUse * heapBytes}[:min(g.Dimensions, 4)] {
		if d != 2 {
			g.scaleLoad(d, total*use, g.cap*total*use/float64(g.Nodes))
		}
	}
}

func (g *generator) scaleBytes(total float64) {
	sum := 0.0
	for c := range g.p.Copies {
		sum += g.p.Copies[c].Bytes
	}
	for c := range g.p.Copies {
		k := &g.p.Copies[c]
		k.Bytes = math.Round(k.Bytes * total / sum)
		k.BytesMoving = k.Bytes
		if g.Dimensions > 2 {
			k.Load[2] = k.Bytes
		}
	}
}

// scaleLoad scales dimension d to a total and cuts what is above most, spreading the cut over the others. Where too few
// copies carry the dimension for that, the cut is milder.
func (g *generator) scaleLoad(d int, total, most float64) {
	carriers := 0
	for c := range g.p.Copies {
		if g.p.Copies[c].Load[d] > 0 {
			carriers++
		}
	}
	most = max(most, 1.25*total/float64(max(carriers, 1)))
	for range 60 {
		capped, free := 0.0, 0.0
		for c := range g.p.Copies {
			if x := g.p.Copies[c].Load[d]; x >= most {
				capped += most
			} else {
				free += x
			}
		}
		if free <= 0 {
			break
		}
		factor, cut := (total-capped)/free, most
		if capped >= total { // not yet of the right size at all
			factor, cut = total/(capped+free), math.Inf(1)
		}
		for c := range g.p.Copies {
			k := &g.p.Copies[c]
			if k.Load[d] >= cut {
				k.Load[d] = cut
			} else {
				k.Load[d] *= factor
			}
		}
		if math.Abs(factor-1) < 1e-9 {
			break
		}
	}
}

// extras pins some of today's copies, makes giants of some groups and lets some nodes drain.
func (g *generator) extras() {
	fair := 0.0
	for c := range g.p.Copies {
		fair += g.p.Copies[c].Load[0] / float64(g.Nodes)
		g.p.Copies[c].Pinned = g.ages[c] == 0 && g.rng.Float64() < g.Pinned
	}
	for range g.Giants {
		group := int32(g.rng.IntN(max(1, len(g.p.Groups)/20))) // among the newest
		factor := 1.1 + 0.7*g.rng.Float64()
		for c := range g.p.Copies {
			if k := &g.p.Copies[c]; k.Group == group {
				k.Load[0] = factor * fair
				k.Pinned = false
			}
		}
	}
	g.enlarge(fair)
	for _, n := range g.rng.Perm(g.Nodes)[:g.Draining] {
		g.p.Nodes[n].AcceptsNew = false
	}
	if g.DrainZone {
		for n := zones - 1; n < g.Nodes; n += zones {
			g.p.Nodes[n].AcceptsNew = false
		}
		for c := range g.p.Copies {
			if k := &g.p.Copies[c]; k.Node%zones == zones-1 {
				k.MustLeave, k.Pinned = true, false
			}
		}
	}
}

// enlarge makes middling copies of some of the newer groups; the others share what is left of the search load.
func (g *generator) enlarge(fair float64) {
	enlarged := make([]bool, len(g.p.Groups))
	for range g.Middling {
		group := int32(g.rng.IntN(max(1, len(g.p.Groups)/4)))
		if enlarged[group] {
			continue
		}
		share := (0.3 + 0.6*g.rng.Float64()) * fair
		for c := range g.p.Copies {
			if k := &g.p.Copies[c]; k.Group == group && k.Load[0] < share {
				k.Load[0], k.Pinned, enlarged[group] = share, false, true
			}
		}
	}
	large, others := 0.0, 0.0
	for c := range g.p.Copies {
		if k := &g.p.Copies[c]; enlarged[k.Group] {
			large += k.Load[0]
		} else {
			others += k.Load[0]
		}
	}
	for c := range g.p.Copies {
		if k := &g.p.Copies[c]; large > 0 && !enlarged[k.Group] {
			k.Load[0] *= max(0.1, (fair*float64(g.Nodes)-large)/others)
		}
	}
}

func (g *generator) objective() {
	bytes := 0.0
	for c := range g.p.Copies {
		bytes += g.p.Copies[c].Bytes
	}
	g.p.Objective = model.Objective{
		Phi:        model.Parabola(1.05),
		Move:       model.MovePrice{PerByte: g.Lambda / bytes, PerMove: 0.1 * g.Lambda / float64(len(g.p.Copies))},
		MustLeave:  10,
		TierExcess: []float64{5},
	}
}
