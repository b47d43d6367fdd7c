package rightsize

import (
	"fmt"
	"math"
	"sort"
)

// rounding is how much a sum may be above a limit by the order of its terms alone.
const rounding = 1e-9

// perZone shares n nodes out over the domain's zones, the first ones get what is over.
func (d *demand) perZone(n int) []int {
	zones := max(1, len(d.zones))
	shares := make([]int, zones)
	for z := range shares {
		shares[z] = n / zones
		if z < n%zones {
			shares[z]++
		}
	}
	return shares
}

// shares tells whether dimension i is served by whatever copies of a shard are left.
func (d *demand) shares(i int) bool { return i == d.search && len(d.zones) > 0 }

// impossible says why no number of such nodes can do: a copy that no node may carry, now or after the loss of a zone. Empty
// where there is no such reason.
func (d *demand) impossible(usable []float64) string {
	for i, most := range usable {
		if most < 0 {
			continue
		}
		name := d.b.Snapshot.Dimensions[i].Name
		for g := range d.groups {
			group := &d.groups[g]
			largest, when := 0.0, ""
			for _, load := range group.loads {
				largest = max(largest, load[i])
			}
			if copies := len(group.loads); d.shares(i) && copies > 1 {
				// In some zone there is a copy of it, without which the others are one less at most.
				if left := group.total(i) / float64(copies-1); left > largest {
					largest, when = left, " without a zone"
				}
			}
			if largest > most*(1+rounding) {
				return fmt.Sprintf("one copy of %s needs %.3g in %s%s, and a node has %.3g for copies", group.name, largest, name, when, most)
			}
		}
	}
	return ""
}

// condition is something that n nodes have to fulfil, whatever the placement: it stays fulfilled for every larger n.
type condition struct {
	text string
	ok   func(n int) bool
}

// conditions follow from adding up what nodes carry. With u the most that a node may take of a dimension:
//
//   - All copies are on n nodes: n*u >= their sum.
//   - Without the zone of most nodes, ceil(n/Z), the others serve all searches of the shards with two copies or more: no
//     zone may have all of them. Adding up over all Z zones, each of which may be the lost one:
//     (Z-1)*n*u >= Z*(searches of those) + (Z-1)*(searches of the shards of one copy).
//   - Copies larger than half of u are alone on their node.
//   - Copies of one shard are on different nodes.
func (d *demand) conditions(usable []float64) []condition {
	zones := len(d.zones)
	list := []condition{{"nodes in each zone", func(n int) bool { return n >= max(1, zones) }}}
	most := 0
	for g := range d.groups {
		most = max(most, len(d.groups[g].loads))
	}
	list = append(list, condition{"copies of one shard", func(n int) bool { return n >= most }})
	for i, u := range usable {
		if u < 0 {
			continue
		}
		name := d.b.Snapshot.Dimensions[i].Name
		sum, several, halves := 0.0, 0.0, 0
		for g := range d.groups {
			group := &d.groups[g]
			sum += group.total(i)
			if len(group.loads) > 1 {
				several += group.total(i)
			}
			for _, load := range group.loads {
				if load[i] > u/2*(1+rounding) {
					halves++
				}
			}
		}
		u *= 1 + rounding
		list = append(list,
			condition{name, func(n int) bool { return float64(n)*u >= sum }},
			condition{name + " of large copies", func(n int) bool { return n >= halves }})
		if d.shares(i) {
			z := float64(zones)
			list = append(list, condition{name + " without a zone", func(n int) bool {
				left := float64(n - (n+zones-1)/zones)
				return left*u >= several && (z-1)*float64(n)*u >= z*several+(z-1)*(sum-several)
			}})
		}
	}
	return list
}

// least is the smallest number of nodes that fulfils every condition, and what one less would break: nothing where it is the only one.
func (d *demand) least(usable []float64) (n int, binding []string) {
	list := d.conditions(usable)
	n = sort.Search(math.MaxInt32, func(n int) bool {
		for _, c := range list {
			if !c.ok(n) {
				return false
			}
		}
		return true
	})
	binding = []string{}
	for _, c := range list {
		if n > 1 && !c.ok(n-1) {
			binding = append(binding, c.text)
		}
	}
	return n, binding
}
