package sim

import (
	"net/http"
	"slices"
	"strings"
	"time"
)

func (c *Cluster) searchRoutes(expand string) []route {
	const params = "preference size timeout request_cache allow_partial_search_results track_total_hits q routing search_type"
	var list []route
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		for _, path := range []string{"/_search", "/{index}/_search"} {
			list = append(list, route{method: method, path: path, write: true, params: params + expand, do: (*call).search})
		}
	}
	return list
}

// search asks one copy of every shard, as preference and weights have it, and counts that. What is looked for does not
// matter: it answers with how many documents there are. It hangs where a copy's process is halted, as long as the cluster
// still counts on that.
func (cl *call) search() *apiError {
	c := cl.c
	indices, err := c.selectIndices(cl.vars["index"], cl.query.Get("expand_wildcards"), "open")
	if err != nil {
		return err
	}
	pick, err := cl.picker(cl.query.Get("preference"))
	if err != nil {
		return err
	}
	total, successful, failed, docs := 0, 0, 0, 0.0
	var halted []*node
	for _, idx := range indices {
		if idx.closed {
			return &apiError{status: 400, kind: "index_closed_exception", reason: "closed", index: idx.name}
		}
		for _, g := range idx.groups {
			total++
			s, none := pick(g)
			if s == nil {
				if !none {
					failed++
				}
				continue
			}
			successful++
			docs += c.docsNow(g)
			if s.node.frozen {
				halted = append(halted, s.node)
				continue
			}
			c.settle(g)
			s.totals.add(totals{queries: 1, search: g.queryCost})
		}
	}
	if total > 0 && failed == total {
		return &apiError{status: http.StatusServiceUnavailable, kind: "search_phase_execution_exception", reason: "all shards failed"}
	}
	begun := c.now
	answer := func() {
		w := cl.w
		if !w.obj("") {
			return
		}
		w.int("took", max(1, (c.now-begun).Milliseconds()))
		w.bool("timed_out", false)
		if w.obj("_shards") {
			w.int("total", int64(total))
			w.int("successful", int64(successful))
			w.int("skipped", 0)
			w.int("failed", int64(failed))
			w.end()
		}
		if w.obj("hits") {
			if w.obj("total") {
				w.count("value", docs)
				w.str("relation", "eq")
				w.end()
			}
			w.null("max_score")
			if w.arr("hits") {
				w.end()
			}
			w.end()
		}
		w.end()
	}
	if len(halted) == 0 {
		answer()
		return nil
	}
	cl.then = func() *apiError {
		err := cl.await(time.Hour, func() bool {
			return !slices.ContainsFunc(halted, func(n *node) bool { return n.frozen && c.nodeByID[n.id] == n })
		})
		if err != nil {
			return err
		}
		c.mu.RLock()
		defer c.mu.RUnlock()
		answer()
		return nil
	}
	return nil
}

// picker is how a copy is chosen under a preference: none is true where a shard is left out, and that is no failure.
func (cl *call) picker(preference string) (pick func(g *group) (s *shardCopy, none bool), err *apiError) {
	c := cl.c
	kind, rest, _ := strings.Cut(preference, ":")
	if kind == "_shards" { // it comes before another
		_, kind, _ = strings.Cut(rest, "|")
	}
	here := func(g *group) *shardCopy {
		for _, s := range g.copies {
			if s.active() && s.node == cl.node {
				return s
			}
		}
		return nil
	}
	switch {
	case kind == "":
		return func(g *group) (*shardCopy, bool) { return g.nextTurn(), false }, nil
	case kind == "_only_local":
		return func(g *group) (*shardCopy, bool) {
			s := here(g)
			return s, s == nil
		}, nil
	case kind == "_local":
		return func(g *group) (*shardCopy, bool) {
			if s := here(g); s != nil {
				return s, false
			}
			return g.nextTurn(), false
		}, nil
	case kind == "_only_nodes" || kind == "_prefer_nodes":
		if c.weighing() != nil && c.settings.text("cluster.routing.weighted.strict") == "true" {
			return nil, &apiError{
				status: http.StatusForbidden, kind: "preference_based_search_not_allowed_exception",
				reason: "Preference type based routing not allowed with strict weighted shard routing enabled",
			}
		}
		nodes := cl.selectNodes(rest)
		return func(g *group) (*shardCopy, bool) {
			for _, s := range g.copies {
				if s.active() && slices.Contains(nodes, s.node) {
					return s, false
				}
			}
			if kind == "_only_nodes" {
				return nil, false
			}
			return g.nextTurn(), false
		}, nil
	case strings.HasPrefix(kind, "_"):
		return nil, illegal("no Preference for [%s]", preference)
	}
	return func(g *group) (*shardCopy, bool) { // any other text: always the same of those that serve
		var serving []*shardCopy
		for _, s := range g.copies {
			if s.share > 0 {
				serving = append(serving, s)
			}
		}
		if len(serving) == 0 {
			return nil, false
		}
		return serving[int(fraction(preference)*float64(len(serving)))], false
	}, nil
}

// nextTurn is whose turn it is: each copy's comes as often as its share, as evenly as can be. nil: none serves.
func (g *group) nextTurn() *shardCopy {
	var next *shardCopy
	for _, s := range g.copies {
		if s.share == 0 {
			continue
		}
		s.turn += s.share
		if next == nil || s.turn > next.turn+1e-9 {
			next = s
		}
	}
	if next != nil {
		next.turn--
	}
	return next
}
