package instance

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/shardonnay/shardonnay/internal/model"
)

// driftSigma is the sigma of the logarithm of the factor by which a load changes.
const driftSigma = 0.5

// Drift is the problem a while later: of this share of its copies one half has other loads, one half is new, in groups like
// those there are, on the nodes with the fewest copies. What was asked of the first problem, its objective, stays.
func Drift(p *model.Problem, share float64, seed uint64) *model.Problem {
	rng := rand.New(rand.NewPCG(seed, 0xd41f7))
	q := *p
	q.Name = fmt.Sprintf("%s-drift%g", p.Name, share)
	q.Copies, q.Groups, q.Indices = slices.Clone(p.Copies), slices.Clone(p.Groups), slices.Clone(p.Indices)
	each := int(share * float64(len(p.Copies)) / 2)
	for _, c := range rng.Perm(len(p.Copies))[:each] {
		k := &q.Copies[c]
		k.Load = slices.Clone(k.Load)
		for d := range k.Load {
			if name := p.Dimensions[d].Name; name == "search" || name == "index" {
				k.Load[d] *= math.Exp(rng.NormFloat64() * driftSigma)
			}
		}
	}
	members := make([][]int32, len(p.Groups))
	for c := range p.Copies {
		members[p.Copies[c].Group] = append(members[p.Copies[c].Group], int32(c))
	}
	s := model.NewPlacement(p, nil)
	count := make([]int, len(p.Nodes))
	room := make([]float64, len(p.Nodes))
	for n := range p.Nodes {
		count[n], room[n] = s.Copies(n), p.Nodes[n].Disk.Limit-s.DiskUsed(n)
	}
	q.Indices = append(q.Indices, model.Index{Name: "new", SpreadWeight: 1})
	for left := each; left > 0; {
		like := rng.IntN(len(p.Groups))
		group := p.Groups[like]
		group.Index, group.Name = int32(len(q.Indices)-1), fmt.Sprintf("new/%d", len(q.Groups)-len(p.Groups))
		zone := make(map[string]bool)
		var fresh []model.Copy
		for _, c := range members[like] {
			k := p.Copies[c]
			k.Group, k.Pinned, k.MustLeave, k.Node = int32(len(q.Groups)), false, false, -1
			for _, n := range p.Classes[group.Class].Nodes {
				node := &p.Nodes[n]
				if node.AcceptsNew && room[n] >= k.Bytes && !zone[node.Tiers[0]] && (k.Node < 0 || count[n] < count[k.Node]) {
					k.Node = n
				}
			}
			if k.Node < 0 {
				break // more copies than zones
			}
			zone[p.Nodes[k.Node].Tiers[0]] = true
			fresh = append(fresh, k)
		}
		left -= max(1, len(fresh))
		if len(fresh) == 0 {
			continue
		}
		for _, k := range fresh {
			count[k.Node]++
			room[k.Node] -= k.Bytes
		}
		q.Groups, q.Copies = append(q.Groups, group), append(q.Copies, fresh...)
	}
	return &q
}
