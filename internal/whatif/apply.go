package whatif

import (
	"fmt"
	"math"
	"slices"

	"github.com/shardonnay/shardonnay/internal/cluster"
)

// Apply is the snapshot after the changes, made one after the other in their order; relocations under way have landed
// before. What a reader should know of the result is added to its warnings. The snapshot that is given stays as it is. An
// error says which change does not fit the cluster.
func Apply(s *cluster.Snapshot, changes []Change) (*cluster.Snapshot, error) {
	next := s.Projected()
	next.Indices, next.Warnings = slices.Clone(s.Indices), slices.Clone(s.Warnings)
	for _, c := range changes {
		var err error
		switch c.Kind {
		case AddNode:
			err = addNode(next, c)
		case RemoveNode:
			err = removeNode(next, c)
		case LoseZone:
			err = loseZone(next, c)
		case ScaleLoad:
			err = scaleLoad(next, c)
		case Grow:
			err = grow(next, c)
		}
		if err != nil {
			return nil, &cluster.Error{Class: cluster.Invalid, Op: "apply what-if", What: c.String(), Err: err}
		}
	}
	next.Sort()
	next.Health.Nodes, next.Health.DataNodes = len(next.Nodes), 0
	for n := range next.Nodes {
		if next.Nodes[n].IsData() {
			next.Health.DataNodes++
		}
	}
	return next, nil
}

// addNode lets an empty node join. Of the one that it resembles it has all but the copies, and what these cost: also what
// is on the disk beside them, for a new machine has its system and its logs too.
func addNode(s *cluster.Snapshot, c Change) error {
	like, err := nodeNamed(s, c.Like)
	if err != nil {
		return err
	}
	if _, err := nodeNamed(s, c.Subject); err == nil {
		return fmt.Errorf("there is a node %s already", c.Subject)
	}
	n := s.Nodes[like]
	n.ID, n.Name, n.Host, n.IP = cluster.NodeID("what-if/"+c.Subject), c.Subject, c.Subject, ""
	n.EphemeralID = string(n.ID)
	n.Base, n.Leaving, n.Uptime, n.CPU, n.Rejections, n.Queue = cluster.Load{}, "", 0, -1, 0, 0
	if n.Disk.Total > 0 {
		n.Disk = cluster.DiskUse{Total: n.Disk.Total, Available: n.Disk.Total - n.Disk.Other()}
	}
	s.Nodes = append(s.Nodes, n)
	return nil
}

func removeNode(s *cluster.Snapshot, c Change) error {
	n, err := nodeNamed(s, c.Subject)
	if err != nil {
		return err
	}
	s.Nodes[n].Leaving = "what-if " + string(RemoveNode)
	return nil
}

// loseZone takes a zone's nodes away with all that is on them. The searches of a shard are then served by the copies that
// are left, one of which is its primary; nothing has been built anew yet.
func loseZone(s *cluster.Snapshot, c Change) error {
	kept := make([]int32, len(s.Nodes))
	var nodes []cluster.Node
	for n := range s.Nodes {
		kept[n] = cluster.None
		if s.Zone(n) != c.Subject {
			kept[n] = int32(len(nodes))
			nodes = append(nodes, s.Nodes[n])
		}
	}
	if len(nodes) == len(s.Nodes) {
		zones := make([]int, len(s.Nodes))
		for n := range zones {
			zones[n] = n
		}
		return fmt.Errorf("no node is in zone %s; zones are %s", c.Subject, names(zones, s.Zone))
	}
	var copies []cluster.Copy
	var lost []string
	gone, bytes := 0, int64(0)
	for from := 0; from < len(s.Copies); {
		to := from
		for to < len(s.Copies) && s.Copies[to].Key() == s.Copies[from].Key() {
			to++
		}
		group := s.Copies[from:to]
		from = to
		stay, went := survivors(group, kept)
		gone += len(went)
		for i := range went {
			bytes += went[i].Bytes
		}
		if len(stay) > 0 && len(went) > 0 {
			inherit(s, stay, went)
		}
		if len(stay) == 0 || !stay[0].Primary {
			lost = append(lost, fmt.Sprintf("%s/%d", s.Indices[group[0].Index].Name, group[0].Shard))
		}
		copies = append(copies, stay...)
	}
	s.Nodes, s.Copies = nodes, copies
	text := fmt.Sprintf("%s: %d copies of %.1f GiB are gone and not built anew", c, gone, float64(bytes)/(1<<30))
	if len(lost) > 0 {
		text += fmt.Sprintf("; %d shards have no copy elsewhere: %s", len(lost), names(lost, func(name string) string { return name }))
	}
	s.Warnings = append(s.Warnings, text)
	return nil
}

// survivors parts a group into the copies that stay, on their nodes' new positions, and those on nodes that are gone.
// Copies that stand nowhere stay so.
func survivors(group []cluster.Copy, kept []int32) (stay, went []cluster.Copy) {
	for _, k := range group {
		if k.Node != cluster.None && kept[k.Node] == cluster.None {
			went = append(went, k)
			continue
		}
		if k.Node != cluster.None {
			k.Node = kept[k.Node]
		}
		stay = append(stay, k)
	}
	return stay, went
}

// inherit gives the copies that stay the searches of those that went, and the first of them their primary's role. Where
// only the primary indexes, its indexing comes with the role.
func inherit(s *cluster.Snapshot, stay, went []cluster.Copy) {
	search, index := s.DimensionAt(cluster.SearchTime.Name), s.DimensionAt(cluster.IndexTime.Name)
	serving, heir := 0, cluster.None
	for i := range stay {
		if stay[i].Node == cluster.None {
			continue
		}
		serving++
		if heir == cluster.None && !stay[i].SearchOnly {
			heir = i
		}
	}
	if serving == 0 {
		return
	}
	for w := range went {
		if search != cluster.None {
			for i := range stay {
				if stay[i].Node != cluster.None {
					stay[i].Load[search] += went[w].Load[search] / float64(serving)
				}
			}
		}
		if went[w].Primary && heir != cluster.None {
			stay[heir].Primary = true
			if index != cluster.None && s.Indices[stay[heir].Index].Replication == "SEGMENT" {
				stay[heir].Load[index] = max(stay[heir].Load[index], went[w].Load[index])
			}
			stay[0], stay[heir] = stay[heir], stay[0]
		}
	}
}

// scaleLoad multiplies what the copies of indices cost. Bytes are for grow: they fill disks.
func scaleLoad(s *cluster.Snapshot, c Change) error {
	var factor cluster.Load
	for d := range factor {
		factor[d] = 1
	}
	for _, f := range c.Factors {
		d := s.DimensionAt(f.Dimension)
		switch {
		case f.Dimension == cluster.DiskBytes.Name:
			return fmt.Errorf("bytes grow by %s:%s,disk=%g", Grow, c.Subject, f.By)
		case d == cluster.None:
			return fmt.Errorf("%s is not measured; measured are %s", f.Dimension, names(s.Dimensions, func(d cluster.Dimension) string { return d.Name }))
		}
		factor[d] = f.By
	}
	return eachCopy(s, c.Subject, func(k *cluster.Copy) {
		for d, f := range factor {
			k.Load[d] *= f
			k.Observed[d] *= f
			k.Deviation[d] *= f
		}
	})
}

// grow multiplies the bytes of the copies of indices, and fills their nodes' disks with the difference.
func grow(s *cluster.Snapshot, c Change) error {
	by, d := c.Factors[0].By, s.DimensionAt(cluster.DiskBytes.Name)
	return eachCopy(s, c.Subject, func(k *cluster.Copy) {
		more := int64(math.Round(float64(k.Bytes) * (by - 1)))
		k.Bytes += more
		k.BytesMoving = int64(math.Round(float64(k.BytesMoving) * by))
		if d != cluster.None {
			k.Load[d] *= by
			k.Observed[d] *= by
			k.Deviation[d] *= by
		}
		if k.Node != cluster.None {
			disk := &s.Nodes[k.Node].Disk
			disk.Store += more
			disk.Available -= more
		}
	})
}

// eachCopy calls do for every copy of the indices that match a pattern; that none does is an error.
func eachCopy(s *cluster.Snapshot, pattern string, do func(*cluster.Copy)) error {
	matched := make([]bool, len(s.Indices))
	for i := range s.Indices {
		matched[i] = cluster.MatchPattern(pattern, s.Indices[i].Name)
	}
	if !slices.Contains(matched, true) {
		return fmt.Errorf("no index matches %s; there are %s", pattern, names(s.Indices, func(i cluster.Index) string { return i.Name }))
	}
	for c := range s.Copies {
		if matched[s.Copies[c].Index] {
			do(&s.Copies[c])
		}
	}
	return nil
}
