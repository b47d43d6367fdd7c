package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestREST plays the files under testdata/rest: a scenario, then requests with the answers as a client sees them. Ids are
// shown as what they name. Run with -rewrite to make them anew, and read the difference.
func TestREST(t *testing.T) {
	datadriven.Walk(t, "testdata/rest", func(t *testing.T, path string) {
		r := &run{ctx: t.Context(), o: RunOptions{Out: io.Discard}}
		var handler http.Handler
		do := func(text string) string {
			var out strings.Builder
			r.o.Out = &out
			s, err := ParseScenario(path, strings.NewReader(text))
			if err != nil {
				return err.Error() + "\n"
			}
			for _, st := range s.steps {
				r.line = st.line
				if err := st.do(r); err != nil {
					return err.Error() + "\n"
				}
			}
			return out.String()
		}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "scenario":
				out := do(d.Input)
				if r.c == nil {
					return out
				}
				handler = r.c.Handler()
				return out
			case "http": // node=n3 asks at that node's own address
				var node string
				if d.MaybeScanArgs(t, "node", &node); node != "" {
					return request(t, r.c, r.c.NodeHandler(node), d.Input)
				}
				return request(t, r.c, handler, d.Input)
			case "then": // more of the scenario
				return do(d.Input)
			}
			t.Fatalf("no command %q", d.Cmd)
			return ""
		})
	})
}

// request sends "METHOD path" with the rest of the text as the body.
func request(t *testing.T, c *Cluster, h http.Handler, text string) string {
	line, body, _ := strings.Cut(text, "\n")
	method, path, _ := strings.Cut(line, " ")
	path = c.unname(path)
	req := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(c.unname(body)))
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, req)
	var out strings.Builder
	fmt.Fprintln(&out, rec.Code)
	for _, name := range []string{"X-Elastic-Product", "X-Opensearch-Version", "Warning", "Www-Authenticate"} {
		for _, v := range rec.Header()[name] {
			fmt.Fprintf(&out, "%s: %s\n", name, v)
		}
	}
	answer := rec.Body.Bytes()
	if !json.Valid(answer) {
		out.Write(answer)
		if len(answer) == 0 {
			out.WriteString("(no body)\n")
		} else if !bytes.HasSuffix(answer, []byte("\n")) {
			out.WriteByte('\n')
		}
		return c.named(out.String())
	}
	d := json.NewDecoder(bytes.NewReader(answer))
	d.UseNumber()
	out.WriteString(render(ordered(d), "") + "\n")
	return c.named(out.String())
}

// named puts names in place of the ids in a text: <n1>, <logs>, <logs/0/p>.
func (c *Cluster) named(text string) string {
	var pairs []string
	for _, n := range slices.Concat(c.nodes, c.outside) {
		pairs = append(pairs, n.id, "<"+n.spec.Name+">", n.ephemeral, "<"+n.spec.Name+" process>")
	}
	for _, n := range c.gone {
		pairs = append(pairs, n.id, "<"+n.spec.Name+">")
	}
	for _, idx := range c.indices {
		pairs = append(pairs, idx.uuid, "<"+idx.name+">")
		for _, g := range idx.groups {
			for i, s := range g.copies {
				name := fmt.Sprintf("<%s/%d/%s%d", idx.name, g.num, s.prirep(), i)
				if s.aid != "" {
					pairs = append(pairs, s.aid, name+">")
				}
				if s.target != nil {
					pairs = append(pairs, s.target.aid, name+" target>")
				}
			}
		}
	}
	pairs = append(pairs, c.uuid, "<cluster>", c.stateUUID, "<state>")
	text = strings.NewReplacer(pairs...).Replace(text)
	return regexp.MustCompile(`"[A-Za-z0-9_-]{22}"`).ReplaceAllStringFunc(text, func(word string) string {
		if strings.ToLower(word) == word {
			return word // "remote_store_migration"
		}
		return `"<id>"`
	})
}

// unname puts ids for "<n1>".
func (c *Cluster) unname(text string) string {
	for _, n := range c.nodes {
		text = strings.ReplaceAll(text, "<"+n.spec.Name+">", n.id)
	}
	return text
}

type member struct {
	key   string
	value any
}

// ordered reads a JSON value, objects as lists of members in their order.
func ordered(d *json.Decoder) any {
	token, err := d.Token()
	if err != nil {
		return nil
	}
	switch token {
	case json.Delim('{'):
		members := []member{}
		for d.More() {
			key, _ := d.Token()
			members = append(members, member{key.(string), ordered(d)})
		}
		d.Token()
		return members
	case json.Delim('['):
		list := []any{}
		for d.More() {
			list = append(list, ordered(d))
		}
		d.Token()
		return list
	}
	return token
}

// render is JSON for people: what fits into a line is one.
func render(v any, indent string) string {
	short := compact(v)
	if len(indent)+len(short) <= 130 {
		return short
	}
	deeper := indent + "  "
	var parts []string
	switch v := v.(type) {
	case []member:
		for _, m := range v {
			parts = append(parts, deeper+compact(m.key)+": "+render(m.value, deeper))
		}
		return "{\n" + strings.Join(parts, ",\n") + "\n" + indent + "}"
	case []any:
		for _, e := range v {
			parts = append(parts, deeper+render(e, deeper))
		}
		return "[\n" + strings.Join(parts, ",\n") + "\n" + indent + "]"
	}
	return short
}

func compact(v any) string {
	switch v := v.(type) {
	case []member:
		var parts []string
		for _, m := range v {
			parts = append(parts, compact(m.key)+": "+compact(m.value))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case []any:
		var parts []string
		for _, e := range v {
			parts = append(parts, compact(e))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case string:
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		e.Encode(v)
		return strings.TrimSpace(b.String())
	case nil:
		return "null"
	}
	return fmt.Sprint(v)
}
