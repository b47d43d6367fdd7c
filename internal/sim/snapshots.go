package sim

import (
	"slices"
	"time"
)

// snapshot is a running snapshot of some primaries.
type snapshot struct {
	name, uuid string
	began      time.Duration
	parts      []*snapshotPart
}

type snapshotPart struct {
	group *group
	node  string // id of the node that copies
	state string // INIT, SUCCESS, FAILED
}

// Snapshot starts one of all primaries of the indices; it takes d of virtual time. A primary that moves meanwhile is
// lost to it, which the products do not prevent.
func (c *Cluster) Snapshot(name string, d time.Duration, indices ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	sn := &snapshot{name: name, uuid: c.newID(), began: c.now}
	for _, idx := range c.indices {
		if !slices.Contains(indices, idx.name) {
			continue
		}
		for _, g := range idx.groups {
			if p := g.primary(); p != nil && p.active() {
				sn.parts = append(sn.parts, &snapshotPart{group: g, node: p.node.id, state: "INIT"})
				g.snapshot = sn
			}
		}
	}
	c.snaps = append(c.snaps, sn)
	c.bump()
	c.after(d, func() {
		for _, part := range sn.parts {
			if part.group.snapshot == sn {
				part.group.snapshot = nil
			}
			if part.state == "INIT" {
				part.state = "SUCCESS"
				c.done.succeeded++
			}
		}
		c.snaps = slices.DeleteFunc(c.snaps, func(x *snapshot) bool { return x == sn })
		c.bump()
		c.reroute()
	})
}

// snapshotTally counts the shards of snapshots by how they ended.
type snapshotTally struct{ succeeded, failed int }

// SnapshotShards tells how many shards snapshots have saved and lost so far.
func (c *Cluster) SnapshotShards() (saved, lost int) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.done.succeeded, c.done.failed
}

// abortSnapshot fails the group's part of a running snapshot: its primary moves.
func (c *Cluster) abortSnapshot(g *group) {
	for _, part := range g.snapshot.parts {
		if part.group == g {
			part.state = "FAILED"
			c.done.failed++
		}
	}
	g.snapshot = nil
}

func (sn *snapshot) indexNames() []string {
	var names []string
	for _, part := range sn.parts {
		if !slices.Contains(names, part.group.idx.name) {
			names = append(names, part.group.idx.name)
		}
	}
	return names
}

// snapshotStatus answers GET /_snapshot/_status: the running ones.
func (cl *call) snapshotStatus() *apiError {
	w := cl.w
	if !w.obj("") {
		return nil
	}
	if w.arr("snapshots") {
		for _, sn := range cl.c.snaps {
			if !w.obj("") {
				continue
			}
			w.str("snapshot", sn.name)
			w.str("repository", "sim")
			w.str("uuid", sn.uuid)
			w.str("state", "STARTED")
			if w.obj("indices") {
				for _, name := range sn.indexNames() {
					if !w.obj(name) {
						continue
					}
					if w.obj("shards") {
						for _, part := range sn.parts {
							if part.group.idx.name == name && w.obj(itoa(part.group.num)) {
								w.str("stage", map[string]string{"INIT": "STARTED", "SUCCESS": "DONE", "FAILED": "FAILURE"}[part.state])
								w.str("node", part.node)
								w.end()
							}
						}
						w.end()
					}
					w.end()
				}
				w.end()
			}
			w.end()
		}
		w.end()
	}
	w.end()
	return nil
}
