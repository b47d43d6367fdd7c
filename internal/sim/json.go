package sim

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// jsonWriter writes one JSON document and leaves out, while writing, what filter_path does not ask for. Containers whose
// content is filtered away altogether are left out too. Opening one says whether anything in it can be wanted, so that
// the caller need not compute what nobody will see:
//
//	if w.obj("search") {
//		w.int("query_total", n)
//		w.end()
//	}
//
// Inside arrays the key is "".
type jsonWriter struct {
	buf     []byte
	stack   []frame
	states  []*pathNode // include patterns that are alive, the frames' concatenated
	exclude []*pathNode
	filter  bool
}

type frame struct {
	key      string
	array    bool
	written  bool // its opening bracket
	members  bool // it has one already
	all      bool // everything below is wanted
	lo, hi   int  // its part of states
	xlo, xhi int  // its part of exclude
}

// pathNode is a node of the tree of all patterns of one kind.
type pathNode struct {
	exact  map[string]*pathNode
	wild   []wildEdge
	deep   *pathNode // **
	self   bool      // is the node of a **: stays alive at any depth
	accept bool
}

type wildEdge struct {
	pattern string
	to      *pathNode
}

func (p *pathNode) add(pattern string) {
	at := p
	for _, segment := range splitPath(pattern) {
		switch {
		case segment == "**":
			if at.deep == nil {
				at.deep = &pathNode{self: true}
			}
			at = at.deep
		case strings.Contains(segment, "*"):
			var next *pathNode
			for _, e := range at.wild {
				if e.pattern == segment {
					next = e.to
				}
			}
			if next == nil {
				next = &pathNode{}
				at.wild = append(at.wild, wildEdge{segment, next})
			}
			at = next
		default:
			if at.exact == nil {
				at.exact = map[string]*pathNode{}
			}
			if at.exact[segment] == nil {
				at.exact[segment] = &pathNode{}
			}
			at = at.exact[segment]
		}
	}
	at.accept = true
}

// splitPath splits at dots that no backslash escapes.
func splitPath(text string) []string {
	var parts []string
	var part strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\' && i+1 < len(text) && text[i+1] == '.':
			part.WriteByte('.')
			i++
		case text[i] == '.':
			parts = append(parts, part.String())
			part.Reset()
		default:
			part.WriteByte(text[i])
		}
	}
	return append(parts, part.String())
}

// newJSON is a writer under a filter_path; "" lets everything through.
func newJSON(filterPath string) *jsonWriter {
	w := &jsonWriter{}
	include, exclude := &pathNode{}, &pathNode{}
	anyInclude := false
	for pattern := range strings.SplitSeq(filterPath, ",") {
		pattern = strings.TrimSpace(pattern)
		if rest, ok := strings.CutPrefix(pattern, "-"); ok && rest != "" {
			exclude.add(rest)
			w.filter = true
		} else if pattern != "" {
			include.add(pattern)
			anyInclude, w.filter = true, true
		}
	}
	root := frame{all: !anyInclude}
	if w.filter {
		w.states = closure(w.states, include)
		w.exclude = closure(w.exclude, exclude)
	}
	root.hi, root.xhi = len(w.states), len(w.exclude)
	w.stack = append(w.stack, root)
	return w
}

// closure adds a node and what ** makes of it at no depth at all.
func closure(set []*pathNode, n *pathNode) []*pathNode {
	set = append(set, n)
	if n.deep != nil {
		set = closure(set, n.deep)
	}
	return set
}

func follow(set, from []*pathNode, key string) (next []*pathNode, accepted bool) {
	begin := len(set)
	for _, n := range from {
		if n.self {
			set = append(set, n)
		}
		if to := n.exact[key]; to != nil {
			set = closure(set, to)
		}
		for _, e := range n.wild {
			if e.pattern == "*" || matchWildcard(e.pattern, key) {
				set = closure(set, e.to)
			}
		}
	}
	for _, n := range set[begin:] {
		accepted = accepted || n.accept
	}
	return set, accepted
}

// descend is the frame of a member of the current container; ok is false where nothing in it is wanted.
func (w *jsonWriter) descend(key string) (f frame, ok bool) {
	top := &w.stack[len(w.stack)-1]
	f = frame{key: key, all: top.all, lo: len(w.states), xlo: len(w.exclude)}
	if !w.filter {
		f.hi, f.xhi = f.lo, f.xlo
		return f, true
	}
	if top.array || len(w.stack) == 1 { // arrays are transparent
		w.states = append(w.states, w.states[top.lo:top.hi]...)
		w.exclude = append(w.exclude, w.exclude[top.xlo:top.xhi]...)
	} else {
		var hit, out bool
		if !f.all {
			w.states, hit = follow(w.states, w.states[top.lo:top.hi], key)
			f.all = hit
		}
		w.exclude, out = follow(w.exclude, w.exclude[top.xlo:top.xhi], key)
		if out || !f.all && len(w.states) == f.lo {
			w.states, w.exclude = w.states[:f.lo], w.exclude[:f.xlo]
			return f, false
		}
	}
	f.hi, f.xhi = len(w.states), len(w.exclude)
	return f, true
}

func (w *jsonWriter) open(key string, array bool) bool {
	f, ok := w.descend(key)
	if !ok {
		return false
	}
	f.array = array
	w.stack = append(w.stack, f)
	if f.all {
		w.flush()
	}
	return true
}

// flush writes the opening brackets still owed.
func (w *jsonWriter) flush() {
	for i := 1; i < len(w.stack); i++ {
		f := &w.stack[i]
		if f.written {
			continue
		}
		w.member(&w.stack[i-1], f.key)
		if f.array {
			w.buf = append(w.buf, '[')
		} else {
			w.buf = append(w.buf, '{')
		}
		f.written = true
	}
}

// member writes the comma and key of a member of parent.
func (w *jsonWriter) member(parent *frame, key string) {
	if parent.members {
		w.buf = append(w.buf, ',')
	}
	parent.members = true
	if parent.array || parent == &w.stack[0] {
		return
	}
	w.quote(key)
	w.buf = append(w.buf, ':')
}

func (w *jsonWriter) obj(key string) bool { return w.open(key, false) }
func (w *jsonWriter) arr(key string) bool { return w.open(key, true) }

// end closes the container opened last.
func (w *jsonWriter) end() {
	f := w.stack[len(w.stack)-1]
	if len(w.stack) == 2 && !f.written {
		w.flush() // the document itself is never left out
		f.written = true
	}
	w.stack = w.stack[:len(w.stack)-1]
	w.states, w.exclude = w.states[:f.lo], w.exclude[:f.xlo]
	if !f.written {
		return
	}
	if f.array {
		w.buf = append(w.buf, ']')
	} else {
		w.buf = append(w.buf, '}')
	}
}

// leaf prepares for writing a value and says whether it is wanted.
func (w *jsonWriter) leaf(key string) bool {
	f, ok := w.descend(key)
	if !ok {
		return false
	}
	w.states, w.exclude = w.states[:f.lo], w.exclude[:f.xlo]
	if !f.all {
		return false
	}
	w.flush()
	w.member(&w.stack[len(w.stack)-1], key)
	return true
}

func (w *jsonWriter) str(key, value string) {
	if w.leaf(key) {
		w.quote(value)
	}
}

func (w *jsonWriter) int(key string, value int64) {
	if w.leaf(key) {
		w.buf = strconv.AppendInt(w.buf, value, 10)
	}
}

// count writes a counter or a size: the whole part.
func (w *jsonWriter) count(key string, value float64) { w.int(key, int64(value)) }

func (w *jsonWriter) num(key string, value float64) {
	if !w.leaf(key) {
		return
	}
	if math.IsNaN(value) || math.IsInf(value, 0) {
		value = 0
	}
	if value == math.Trunc(value) && math.Abs(value) < 1e15 {
		w.buf = strconv.AppendFloat(w.buf, value, 'f', 1, 64)
		return
	}
	w.buf = strconv.AppendFloat(w.buf, value, 'g', -1, 64)
}

func (w *jsonWriter) bool(key string, value bool) {
	if w.leaf(key) {
		w.buf = strconv.AppendBool(w.buf, value)
	}
}

func (w *jsonWriter) null(key string) {
	if w.leaf(key) {
		w.buf = append(w.buf, "null"...)
	}
}

// strs writes a list of strings.
func (w *jsonWriter) strs(key string, values []string) {
	if w.arr(key) {
		for _, v := range values {
			w.str("", v)
		}
		w.end()
	}
}

// value writes a setting: a string or a list of them.
func (w *jsonWriter) value(key string, v any) {
	switch v := v.(type) {
	case []string:
		w.strs(key, v)
	case nil:
		w.null(key)
	default:
		w.str(key, asText(v))
	}
}

func (w *jsonWriter) quote(text string) {
	for i := range len(text) {
		if b := text[i]; b < 0x20 || b == '"' || b == '\\' || b >= 0x80 {
			q, _ := json.Marshal(text) // of a string: cannot fail
			w.buf = append(w.buf, q...)
			return
		}
	}
	w.buf = append(append(append(w.buf, '"'), text...), '"')
}
