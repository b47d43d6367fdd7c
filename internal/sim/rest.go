package sim

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// route is one endpoint of the REST dialect. Path segments in braces are variables.
type route struct {
	method, path string
	params       string                // query parameters it takes beside the common ones, separated by spaces
	write        bool                  // changes the cluster
	master       bool                  // fails while there is no master
	wait         func(*call) *apiError // runs first, without the lock, and may let time pass
	do           func(*call) *apiError
}

// call is one request being answered.
type call struct {
	c      *Cluster
	node   *node // that answers; nil in a cluster without nodes
	r      *http.Request
	vars   map[string]string
	query  url.Values
	body   []byte
	w      *jsonWriter
	status int
	warn   []string         // texts of Warning headers
	text   string           // a plain text answer in place of JSON
	empty  bool             // no body at all
	then   func() *apiError // what do leaves to be done last, without the lock; it may let time pass
}

// commonParams every endpoint takes.
var commonParams = []string{"filter_path", "pretty", "human", "error_trace", "format", "source_content_type", "source"}

// maxBody bounds what a request may send: more than any command needs.
const maxBody = 64 << 20

// Handler answers REST requests for the cluster: each goes to the first node that answers, as through a load balancer.
// It may be served at any address, several at once.
func (c *Cluster) Handler() http.Handler { return c.NodeHandler("") }

// NodeHandler answers REST requests as one node does: not at all while its process is halted (Freeze) or gone (Kill), and
// for itself where it is put out of the cluster. "" is any node, as for Handler.
func (c *Cluster) NodeHandler(name string) http.Handler {
	routes := c.routes()
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
		if err != nil {
			return // the client went away
		}
		n, err := c.reach(r.Context(), name)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		fault := c.faultFor(name, r.Method, r.URL.EscapedPath())
		if fault != nil && fault.before(c, rw, r) {
			return
		}
		out := c.answer(routes, n, r, body)
		if fault != nil {
			out = fault.after(out)
		}
		out.send(rw, r)
	})
}

// errNoProcess is what a request meets at the address of a node that is gone.
var errNoProcess = errors.New("no process listens here")

// reach is the node a request goes to: the one named, or any. It waits as long as that is halted.
func (c *Cluster) reach(ctx context.Context, name string) (*node, error) {
	for {
		c.mu.RLock()
		n, halted := c.entry(name)
		changed := c.changed
		c.mu.RUnlock()
		switch {
		case n != nil, name == "" && !halted:
			return n, nil
		case !halted:
			return nil, errNoProcess
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// entry is the node of that name, or the first, if it is not halted.
func (c *Cluster) entry(name string) (n *node, halted bool) {
	if name != "" {
		n := c.process(name)
		if n != nil && n.frozen {
			return nil, true
		}
		return n, false
	}
	for _, list := range [][]*node{c.nodes, c.outside} {
		for _, n := range list {
			if !n.frozen {
				return n, false
			}
			halted = true
		}
	}
	return nil, halted
}

// stale is what the node that answers knew last, where it is out of the cluster and has noticed; else nil.
func (cl *call) stale() *lastSeen {
	if n := cl.node; n != nil && n.last != nil && cl.c.now-n.last.at >= noticeTime {
		return n.last
	}
	return nil
}

// view is the cluster as the node that answers knows it.
func (cl *call) view() view {
	if last := cl.stale(); last != nil {
		return last.view
	}
	return cl.c.seen()
}

// hasMaster tells whether the node that answers knows a master.
func (cl *call) hasMaster() bool { return cl.view().master != nil }

// reply is a finished answer.
type reply struct {
	status int
	header http.Header
	body   []byte
	cut    int // bytes after which the connection breaks; 0: none
}

func (a *reply) send(rw http.ResponseWriter, r *http.Request) {
	h := rw.Header()
	maps.Copy(h, a.header)
	body := a.body
	if len(body) > 0 && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		var b bytes.Buffer
		z, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed) // the level is a valid one
		_, _ = z.Write(body)                            // into memory
		_ = z.Close()
		body = b.Bytes()
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	rw.WriteHeader(a.status)
	if r.Method == http.MethodHead {
		return
	}
	if a.cut > 0 {
		_, _ = rw.Write(body[:max(1, min(a.cut, len(body)/2))]) // compressed, it is shorter than where it was to be cut
		if f, ok := rw.(http.Flusher); ok {
			f.Flush() // what was written so far does go out
		}
		panic(http.ErrAbortHandler) // the server closes the connection in the middle of the body
	}
	_, _ = rw.Write(body) // the client may have gone away
}

// answer finds the endpoint and runs it.
func (c *Cluster) answer(routes []route, n *node, r *http.Request, body []byte) *reply {
	if s := c.served.Load(); s != nil {
		s.catchUp()
		if s.speed <= 0 && s.perRequest > 0 {
			c.Advance(s.perRequest)
		}
	}
	cl := &call{c: c, node: n, r: r, query: r.URL.Query(), body: body, status: 200}
	err := c.authorize(r)
	if err == nil {
		err = c.dispatch(routes, cl)
	}
	header := http.Header{}
	header.Set("Content-Type", "application/json; charset=UTF-8")
	if c.elastic() {
		header.Set("Content-Type", "application/json")
		if c.at(7, 14) {
			header.Set("X-Elastic-Product", "Elasticsearch")
		}
	} else if c.at(3, 0) {
		header.Set("X-OpenSearch-Version", "OpenSearch/"+c.cfg.Version+" (opensearch)")
	}
	for _, text := range cl.warn {
		product := "OpenSearch"
		if c.elastic() {
			product = "Elasticsearch"
		}
		header.Add("Warning", fmt.Sprintf("299 %s-%s-0000000 %q", product, c.cfg.Version, text))
	}
	if err != nil {
		if err.status == http.StatusUnauthorized {
			header.Set("WWW-Authenticate", `Basic realm="security" charset="UTF-8"`)
			if !c.elastic() && !err.message {
				header.Set("Content-Type", "text/plain; charset=UTF-8")
				return &reply{status: 401, header: header, body: []byte("Unauthorized")}
			}
		}
		w := newJSON("")
		err.write(w)
		return &reply{status: err.status, header: header, body: w.buf}
	}
	switch {
	case cl.empty:
		return &reply{status: cl.status, header: header}
	case cl.w == nil:
		header.Set("Content-Type", "text/plain; charset=UTF-8")
		return &reply{status: cl.status, header: header, body: []byte(cl.text)}
	}
	return &reply{status: cl.status, header: header, body: cl.w.buf}
}

func (c *Cluster) authorize(r *http.Request) *apiError {
	a := c.cfg.Auth
	if a == nil {
		return nil
	}
	same := func(x, y string) bool { return x != "" && subtle.ConstantTimeCompare([]byte(x), []byte(y)) == 1 }
	if user, password, ok := r.BasicAuth(); ok && same(a.User, user) && same(a.Password, password) {
		return nil
	}
	if key, ok := strings.CutPrefix(r.Header.Get("Authorization"), "ApiKey "); ok && same(a.APIKey, key) {
		return nil
	}
	reason := fmt.Sprintf("missing authentication credentials for REST request [%s]", r.URL.Path)
	if r.Header.Get("Authorization") != "" {
		reason = fmt.Sprintf("unable to authenticate for REST request [%s]", r.URL.Path)
	}
	return &apiError{status: 401, kind: "security_exception", reason: reason}
}

// dispatch runs the endpoint that fits, or words what the product says where none does.
func (c *Cluster) dispatch(routes []route, cl *call) *apiError {
	path := strings.Trim(cl.r.URL.EscapedPath(), "/")
	method := cl.r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	var methods []string
	for i := range routes {
		vars, ok := routes[i].match(path)
		if !ok {
			continue
		}
		if routes[i].method != method {
			methods = append(methods, routes[i].method)
			continue
		}
		cl.vars = vars
		return c.run(&routes[i], cl)
	}
	uri := cl.r.URL.RequestURI()
	switch {
	case strings.HasPrefix(path, "_") && !strings.Contains(path, "/") && len(methods) == 0: // it is taken for an index
		return &apiError{
			status: 400, kind: "invalid_index_name_exception", index: path,
			reason: fmt.Sprintf("Invalid index name [%s], must not start with '_'.", path),
		}
	case c.elastic() && !c.at(8, 0) && strings.Count(path, "/") == 2 && len(methods) == 0: // .. and for a document of a type
		name, _, _ := strings.Cut(path, "/")
		return noIndex(name)
	case c.elastic() && !c.at(8, 0) && strings.Count(path, "/") == 1 && len(methods) == 0:
		methods = []string{"POST"}
		fallthrough
	case len(methods) > 0 && c.elastic():
		return &apiError{
			status: 405, plain: true,
			reason: fmt.Sprintf("Incorrect HTTP method for uri [%s] and method [%s], allowed: %v", uri, cl.r.Method, methods),
		}
	}
	return &apiError{
		status: 400, plain: true, alone: !c.elastic(), reason: fmt.Sprintf("no handler found for uri [%s] and method [%s]", uri, cl.r.Method),
	}
}

func (rt *route) match(path string) (map[string]string, bool) {
	want, have := strings.Split(strings.Trim(rt.path, "/"), "/"), strings.Split(path, "/")
	if len(want) != len(have) {
		return nil, false
	}
	vars := map[string]string{}
	for i, w := range want {
		if name, ok := strings.CutPrefix(w, "{"); ok {
			value, err := url.PathUnescape(have[i])
			if err != nil || value == "" {
				return nil, false
			}
			name = strings.TrimSuffix(name, "}")
			if name == "index" && strings.HasPrefix(value, "_") && value != "_all" {
				return nil, false
			}
			vars[name] = value
		} else if w != have[i] {
			return nil, false
		}
	}
	return vars, true
}

func (c *Cluster) run(rt *route, cl *call) *apiError {
	allowed := strings.Fields(rt.params)
	for _, name := range sortedKeys(cl.query) {
		if !slices.Contains(allowed, name) && !slices.Contains(commonParams, name) {
			return illegal("request [%s] contains unrecognized parameter: [%s]", cl.r.URL.Path, name)
		}
	}
	cl.w = newJSON(cl.query.Get("filter_path"))
	if rt.wait != nil {
		if err := rt.wait(cl); err != nil {
			return err
		}
	}
	if rt.master && !cl.flag("local") {
		if err := cl.awaitMaster(); err != nil {
			return err
		}
	}
	changed, err := c.runLocked(rt, cl)
	if err == nil && cl.then != nil {
		err = cl.then()
	}
	if err == nil && changed {
		err = cl.awaitPublished()
	}
	return err
}

// runLocked carries the request out and reports whether that changed the cluster's state.
func (c *Cluster) runLocked(rt *route, cl *call) (changed bool, err *apiError) {
	if rt.write {
		c.mu.Lock()
		defer c.mu.Unlock()
	} else {
		c.mu.RLock()
		defer c.mu.RUnlock()
	}
	if rt.master && !cl.hasMaster() && !cl.flag("local") {
		return false, c.noMaster()
	}
	version := c.version
	err = rt.do(cl)
	return c.version != version, err
}

// awaitMaster waits while the master is halted: whoever has a request for it waits for its answer, until the others put
// it out and elect another.
func (cl *call) awaitMaster() *apiError {
	c := cl.c
	halted := func() bool { return c.master != nil && c.master.frozen }
	c.mu.RLock()
	wait := halted()
	c.mu.RUnlock()
	if !wait {
		return nil
	}
	return cl.await(2*failureTime, func() bool { return c.master != nil && !halted() })
}

// awaitPublished waits, after a change, for halted nodes to take note of it: up to half a minute, though it is done long
// before.
func (cl *call) awaitPublished() *apiError {
	c := cl.c
	return cl.await(publishTime, func() bool {
		return !slices.ContainsFunc(c.nodes, func(n *node) bool { return n.frozen })
	})
}

// await is waitFor for a request.
func (cl *call) await(d time.Duration, done func() bool) *apiError {
	if err := cl.c.waitFor(cl.r.Context(), d, done); err != nil {
		return &apiError{status: 503, kind: "timeout_exception", reason: err.Error()}
	}
	return nil
}

func (c *Cluster) noMaster() *apiError {
	kind := "master_not_discovered_exception"
	if !c.elastic() && c.at(2, 0) {
		kind = "cluster_manager_not_discovered_exception"
	}
	return &apiError{status: 503, kind: kind, nullText: true}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// flag reads a boolean query parameter: present without a value means true.
func (cl *call) flag(name string) bool {
	v, ok := cl.query[name]
	return ok && len(v) > 0 && (v[0] == "" || v[0] == "true")
}

// timeout reads the query parameter timeout.
func (cl *call) timeout(fallback time.Duration) (time.Duration, *apiError) {
	text := cl.query.Get("timeout")
	if text == "" {
		return fallback, nil
	}
	d, err := parseTime(text)
	if err != nil {
		return 0, illegal("failed to parse setting [timeout] with value [%s] as a time value: unit is missing or unrecognized", text)
	}
	return d, nil
}

// selectIndices are the indices an expression names: lists, wildcards, exclusions, aliases, streams.
func (c *Cluster) selectIndices(expression, expand string, fallback string) ([]*index, *apiError) {
	if expand == "" {
		expand = fallback
	}
	var open, closed, hidden bool
	for _, e := range splitList(expand) {
		switch e {
		case "all":
			open, closed, hidden = true, true, true
		case "open":
			open = true
		case "closed":
			closed = true
		case "hidden":
			hidden = true
		case "none":
		default:
			return nil, illegal("No valid expand wildcard value [%s]", e)
		}
	}
	shown := func(idx *index, pattern string) bool {
		isHidden := idx.settings["index.hidden"] == "true" && !hidden && !strings.HasPrefix(pattern, ".")
		return (idx.closed && closed || !idx.closed && open) && !isHidden
	}
	if expression == "" || expression == "_all" {
		expression = "*"
	}
	chosen := map[*index]bool{}
	for part := range strings.SplitSeq(expression, ",") {
		if rest, ok := strings.CutPrefix(part, "-"); ok && len(chosen) > 0 {
			for idx := range chosen {
				if matchWildcard(rest, idx.name) {
					delete(chosen, idx)
				}
			}
			continue
		}
		found := strings.Contains(part, "*")
		for _, idx := range c.indices {
			switch {
			case idx.name == part || part == idx.spec.DataStream && part != "" || part == idx.spec.Alias && part != "":
				chosen[idx], found = true, true
			case strings.Contains(part, "*") && shown(idx, part) &&
				(matchWildcard(part, idx.name) || idx.spec.DataStream != "" && matchWildcard(part, idx.spec.DataStream)):
				chosen[idx] = true
			}
		}
		if !found {
			return nil, noIndex(part)
		}
	}
	var list []*index
	for _, idx := range c.indices {
		if chosen[idx] {
			list = append(list, idx)
		}
	}
	return list, nil
}

// selectNodes are the live nodes an expression names: ids, names, wildcards, addresses, roles, attributes, _master. The one
// that answers knows itself also where it is out of the cluster.
func (cl *call) selectNodes(expression string) []*node {
	c, all := cl.c, cl.c.nodes
	if cl.node != nil && cl.node.last != nil {
		all = append(slices.Clone(all), cl.node)
	}
	if expression == "" || expression == "_all" || expression == "*" {
		return all
	}
	chosen := map[*node]bool{}
	for _, part := range splitList(expression) {
		for _, n := range all {
			key, value, pair := strings.Cut(part, ":")
			role := pair && (strings.HasPrefix(key, "data") || slices.Contains([]string{"master", "ingest", "cluster_manager"}, key))
			switch {
			case part == "_local" && n == cl.node,
				(part == "_master" || part == "_cluster_manager") && n == c.master,
				n.id == part, matchWildcard(part, n.spec.Name), n.ip == part, n.spec.Host == part,
				pair && !role && n.zone[key] != "" && matchWildcard(value, n.zone[key]):
				chosen[n] = true
			case role && n.has(key):
				chosen[n] = value == "true"
			}
		}
	}
	var list []*node
	for _, n := range all {
		if chosen[n] {
			list = append(list, n)
		}
	}
	return list
}
