package es

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// reader pulls one JSON document apart token by token into whatever its caller builds: fifty thousand copies are 20 MB
// of JSON, and a generic map of them would be ten times that.
//
// jsontext and not encoding/json, because it skips and reads without allocating a value per token (measured in
// BenchmarkDecodeNodeStats), and because it knows the byte offset and the JSON pointer of where it stands, which a
// person needs who is told that an answer is broken. It is the standard library's own next decoder, published ahead.
//
// The first error sticks and turns every later call into a no-op, so that a decoder reads like the document it decodes
// and checks once, in finish. Absent and null members are zero values: the servers leave out what does not apply, and
// no two versions agree on what that is.
type reader struct {
	d     *jsontext.Decoder
	err   error
	known map[string]string // texts seen before: member names, index names and node ids repeat by the thousand
}

func newReader(r io.Reader) *reader {
	return &reader{
		// Servers write what their users named: neither duplicate names nor odd bytes are worth refusing a cluster for.
		d:     jsontext.NewDecoder(r, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)),
		known: make(map[string]string),
	}
}

// SyntaxError says where an answer or a captured file stops being what it should be.
type SyntaxError struct {
	Offset int64  // bytes into the (decompressed) document
	Path   string // JSON pointer, "/nodes/abc/name"; empty at the top
	Err    error
}

// Error is one line.
func (e *SyntaxError) Error() string {
	at := fmt.Sprintf("at byte %d", e.Offset)
	if e.Path != "" {
		at += ", " + e.Path
	}
	return at + ": " + e.Err.Error()
}

// Unwrap gives the cause.
func (e *SyntaxError) Unwrap() error { return e.Err }

// fail records the first error, with where it is.
func (r *reader) fail(err error) {
	if r.err != nil {
		return
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	at := &SyntaxError{Offset: r.d.InputOffset(), Path: string(r.d.StackPointer()), Err: err}
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		at.Offset, at.Path, at.Err = syntactic.ByteOffset, string(syntactic.JSONPointer), syntactic.Err
	}
	if errors.Is(at.Err, io.ErrUnexpectedEOF) {
		at.Err = errors.New("it ends in the middle")
		if at.Offset == 0 {
			at.Err = errors.New("it is empty")
		}
	}
	r.err = at
}

// finish is the verdict on the whole document: the first error, or that something follows it.
func (r *reader) finish() error {
	if r.err == nil {
		if _, err := r.d.ReadToken(); !errors.Is(err, io.EOF) {
			if err == nil {
				err = errors.New("something follows the end of the document")
			}
			r.fail(err)
		}
	}
	return r.err
}

// kind peeks at what comes next: '{', '[', '"', '0', 't', 'f', 'n', or 0 at the end and on errors.
func (r *reader) kind() jsontext.Kind {
	if r.err != nil {
		return 0
	}
	return r.d.PeekKind()
}

// object calls member for each member of the object that comes next, which must read or skip the value. A null has no
// members.
func (r *reader) object(member func(name string)) {
	if !r.open('{') {
		return
	}
	for r.err == nil && r.d.PeekKind() != '}' {
		name := r.text()
		if r.err != nil {
			return
		}
		before := r.d.InputOffset()
		member(name)
		if r.err == nil && r.d.InputOffset() == before {
			r.skip() // a member nobody asked about
		}
	}
	r.token()
}

// array calls element for each element of the array that comes next, which must read or skip it. A null has none.
func (r *reader) array(element func()) {
	if !r.open('[') {
		return
	}
	for r.err == nil && r.d.PeekKind() != ']' {
		element()
	}
	r.token()
}

// open enters the object or array that comes next; false where there is none, with an error unless it is null.
func (r *reader) open(delimiter jsontext.Kind) bool {
	switch r.kind() {
	case delimiter:
		r.token()
		return r.err == nil
	case 'n':
		r.skip()
	case 0:
		r.token() // brings the error to light
	default:
		found := r.kind()
		r.skip() // for the pointer: it names what was read last
		r.fail(fmt.Errorf("%s where %s should be", named(found), named(delimiter)))
	}
	return false
}

func named(kind jsontext.Kind) string {
	return map[jsontext.Kind]string{
		'{': "an object", '[': "an array", '"': "a text", '0': "a number", 't': "true", 'f': "false", 'n': "null",
		'}': "the end of an object", ']': "the end of an array",
	}[kind]
}

func (r *reader) token() {
	if r.err != nil {
		return
	}
	if _, err := r.d.ReadToken(); err != nil {
		r.fail(err)
	}
}

// skip passes over the next value, whatever it is.
func (r *reader) skip() {
	if r.err != nil {
		return
	}
	if err := r.d.SkipValue(); err != nil {
		r.fail(err)
	}
}

// scalar gives the bytes of the next text (unquoted), number, true or false; nil for null. They are good until the next
// call.
func (r *reader) scalar() []byte {
	switch r.kind() {
	case '{', '[':
		found := r.kind()
		r.skip() // for the pointer: it names what was read last
		r.fail(fmt.Errorf("%s where a plain value should be", named(found)))
		return nil
	case 'n':
		r.skip()
		return nil
	case 0:
		r.token()
		return nil
	}
	value, err := r.d.ReadValue()
	if err != nil {
		r.fail(err)
		return nil
	}
	if value.Kind() != '"' {
		return value
	}
	if slices.Contains(value, '\\') {
		unquoted, _ := jsontext.AppendUnquote(nil, value) // ReadValue has checked it
		return unquoted
	}
	return value[1 : len(value)-1]
}

// text is the next value as text; numbers and booleans as they are written, null as "". Texts are kept once each.
func (r *reader) text() string {
	b := r.scalar()
	if len(b) == 0 {
		return ""
	}
	if text, ok := r.known[string(b)]; ok {
		return text
	}
	text := string(b)
	if len(r.known) < maxKnown {
		r.known[text] = text
	}
	return text
}

// unique is text for values of which there are no two alike, such as allocation ids.
func (r *reader) unique() string { return string(r.scalar()) }

// maxKnown bounds the texts remembered, so that a document of nothing but different ones does not double in memory.
const maxKnown = 1 << 16

// texts is the next array of texts; a lone text is an array of one, as settings allow.
func (r *reader) texts() []string {
	if r.kind() != '[' {
		if one := r.text(); one != "" {
			return []string{one}
		}
		return nil
	}
	var all []string
	r.array(func() { all = append(all, r.text()) })
	return all
}

// integer is the next number, quoted or not.
func (r *reader) integer() int64 {
	b := r.scalar()
	if len(b) == 0 {
		return 0
	}
	n, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil {
		// Some counters are written as floats ("1.0E9") by some versions.
		f, ferr := strconv.ParseFloat(string(b), 64)
		if ferr != nil || math.IsNaN(f) || math.Abs(f) > math.MaxInt64/2 {
			r.fail(fmt.Errorf("%q where a whole number should be", clip(string(b))))
			return 0
		}
		return int64(f)
	}
	return n
}

// float is the next number, quoted or not.
func (r *reader) float() float64 {
	b := r.scalar()
	if len(b) == 0 {
		return 0
	}
	f, err := strconv.ParseFloat(string(b), 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		r.fail(fmt.Errorf("%q where a number should be", clip(string(b))))
		return 0
	}
	return f
}

// boolean is the next true or false, quoted or not.
func (r *reader) boolean() bool { return string(r.scalar()) == "true" }

// flatten reads the next value and calls leaf for every plain value or array of plain values in it, with the dotted
// path to it: nested and flat settings come out the same. A null leaf is not there.
func (r *reader) flatten(prefix string, leaf func(key string, value any)) {
	switch r.kind() {
	case '{':
		r.object(func(name string) {
			if prefix != "" {
				name = prefix + "." + name
			}
			r.flatten(name, leaf)
		})
	case '[':
		list := make([]string, 0, 4)
		r.array(func() {
			if k := r.kind(); k == '{' || k == '[' {
				r.skip()
				return
			}
			list = append(list, r.text())
		})
		leaf(prefix, list)
	case 'n':
		r.skip()
	default:
		leaf(prefix, r.text())
	}
}

// clip keeps foreign text in messages short and on one line.
func clip(text string) string {
	const limit = 300
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "") + "..."
	}
	return text
}
