package rightsize

import (
	"cmp"
	"math"
	"slices"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// A placement is looked for in two steps: shards over zones, so that every zone is about as full as the others whichever is
// lost; then the copies of each zone over its nodes, the largest first. What a copy carries is a vector: its loads, and
// behind them, for each zone, the searches it serves when that zone is lost.

// placement is where every copy would be.
type placement struct {
	perZone []int
	nodes   [][][]float64 // by zone and node: what it carries, a vector
}

// item is one copy in its zone.
type item struct {
	group  int
	vector []float64
	size   float64 // the largest share of a node that it takes
}

// limitsOf are the most that a node may carry of each entry of a vector.
func (d *demand) limitsOf(usable []float64) []float64 {
	limits := slices.Clone(usable)
	for i := range usable {
		if d.shares(i) {
			for range d.zones {
				limits = append(limits, usable[i])
			}
		}
	}
	for e := range limits {
		if limits[e] <= 0 { // not limited, or nothing left and nothing to carry: impossible has seen to that
			limits[e] = math.Inf(1)
		}
	}
	return limits
}

// vectors are what the copies of a shard carry in the zones given: the searches of each lost zone's copies fall to the
// others.
func (d *demand) vectors(g *shard, zones []int, width int) [][]float64 {
	all := make([][]float64, len(zones))
	for c, zone := range zones {
		all[c] = make([]float64, width)
		copy(all[c], g.loads[c])
		if d.search == cluster.None {
			continue
		}
		total := 0.0
		for other := range zones {
			total += g.loads[other][d.search]
		}
		for lost := range d.zones {
			left := 0
			for _, z := range zones {
				if z != lost {
					left++
				}
			}
			if lost != zone {
				all[c][len(g.loads[c])+lost] = total / float64(left)
			}
		}
	}
	return all
}

// place looks for a placement on n nodes in which none is above its limits; nil where none is found, which proves nothing.
func (d *demand) place(n int, usable []float64) *placement {
	p := &placement{perZone: d.perZone(n)}
	limits := d.limitsOf(usable)
	items := d.zoned(p.perZone, limits)
	if items == nil {
		return nil
	}
	for z, nodes := range p.perZone {
		packed := pack(items[z], nodes, limits, emptiest)
		if packed == nil {
			packed = pack(items[z], nodes, limits, fullest)
		}
		if packed == nil {
			return nil
		}
		p.nodes = append(p.nodes, packed)
	}
	return p
}

// zoned shares the shards out over the zones, the largest first, each copy to the zone that leaves the fullest of all least
// full. No zone gets more than its share of a shard's copies, nor more than it has nodes; nil where there are too few.
func (d *demand) zoned(perZone []int, limits []float64) [][]item {
	width, zones := len(limits), len(perZone)
	order := make([]int, len(d.groups))
	sizes := make([]float64, len(d.groups))
	for g := range d.groups {
		order[g] = g
		for _, load := range d.groups[g].loads {
			sizes[g] = max(sizes[g], share(load, limits))
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(sizes[b], sizes[a]) })
	full := make([][]float64, zones) // what each zone carries
	for z := range full {
		full[z] = make([]float64, width)
	}
	items := make([][]item, zones)
	for _, g := range order {
		group := &d.groups[g]
		copies := len(group.loads)
		var chosen []int
		for range copies {
			best, least := -1, math.Inf(1)
			for z := range zones {
				inside := 0
				for _, other := range chosen {
					if other == z {
						inside++
					}
				}
				if inside >= (copies+zones-1)/zones || inside >= perZone[z] {
					continue
				}
				if fullness := d.fullness(group, append(chosen, z), full, perZone, limits); fullness < least {
					best, least = z, fullness
				}
			}
			if best < 0 {
				return nil
			}
			chosen = append(chosen, best)
		}
		for c, vector := range d.vectors(group, chosen, width) {
			z := chosen[c]
			for e := range vector {
				full[z][e] += vector[e]
			}
			items[z] = append(items[z], item{group: g, vector: vector, size: share(vector, limits)})
		}
	}
	return items
}

// fullness is how full the zones of a shard's first copies are with them, at their fullest entry.
func (d *demand) fullness(g *shard, zones []int, full [][]float64, perZone []int, limits []float64) float64 {
	worst := 0.0
	added := d.vectors(&shard{loads: g.loads[:len(zones)]}, zones, len(limits))
	for _, z := range zones {
		for e, limit := range limits {
			sum := full[z][e]
			for other := range zones {
				if zones[other] == z {
					sum += added[other][e]
				}
			}
			worst = max(worst, sum/limit/float64(perZone[z]))
		}
	}
	return worst
}

// share is the largest part of a node that a vector takes.
func share(vector, limits []float64) float64 {
	most := 0.0
	for e, v := range vector {
		if v > 0 {
			most = max(most, v/limits[e])
		}
	}
	return most
}

// preference is which of the nodes that may take an item does: by how full it would be.
type preference func(now, best float64) bool

func emptiest(now, best float64) bool { return now < best }
func fullest(now, best float64) bool  { return now > best }

// pack puts items on nodes, the largest first; nil where one finds no node.
func pack(items []item, nodes int, limits []float64, better preference) [][]float64 {
	items = slices.Clone(items)
	slices.SortStableFunc(items, func(a, b item) int { return cmp.Compare(b.size, a.size) })
	carried := make([][]float64, nodes)
	for n := range carried {
		carried[n] = make([]float64, len(limits))
	}
	type seat struct{ group, node int }
	taken := make(map[seat]struct{})
	for i := range items {
		it := &items[i]
		best, value := -1, 0.0
		for n := range carried {
			fill, fits := 0.0, true
			for e, v := range it.vector {
				part := (carried[n][e] + v) / limits[e]
				if part > 1+rounding {
					fits = false
					break
				}
				fill = max(fill, part)
			}
			if !fits || best >= 0 && !better(fill, value) {
				continue
			}
			if _, twice := taken[seat{it.group, n}]; !twice {
				best, value = n, fill
			}
		}
		if best < 0 {
			return nil
		}
		taken[seat{it.group, best}] = struct{}{}
		for e, v := range it.vector {
			carried[best][e] += v
		}
	}
	return carried
}

// peaks are the fullest nodes of the placement, in shares of a node's capacity.
func (p *placement) peaks(d *demand, k *kind) []Peak {
	peaks := []Peak{}
	for i, capacity := range k.capacity {
		if capacity <= 0 {
			continue
		}
		most, lost := 0.0, 0.0
		for _, nodes := range p.nodes {
			for _, carried := range nodes {
				most = max(most, carried[i])
				lost = max(lost, carried[i])
				if d.shares(i) {
					lost = max(lost, slices.Max(carried[len(k.capacity):]))
				}
			}
		}
		peaks = append(peaks, Peak{
			Dimension: d.b.Snapshot.Dimensions[i].Name, Share: (k.base[i] + most) / capacity, WithZone: (k.base[i] + lost) / capacity,
		})
	}
	return peaks
}
