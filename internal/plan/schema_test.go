package plan

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var rewriteSchema = flag.Bool("rewrite-schema", false, "write testdata/plan.schema.json anew")

// The JSON schema of a plan, derived from its types, is the one on disk: a field that goes, is renamed or changes its type
// shows as a difference, and asks for a new version.
func TestSchema(t *testing.T) {
	schema := describe(reflect.TypeFor[Plan]())
	schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	schema["title"] = "Shardonnay plan, version 1"
	got, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	file := filepath.Join("testdata", "plan.schema.json")
	if *rewriteSchema {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("the plan's JSON is not what %s says (run the test with -rewrite-schema and read the difference):\n%s", file, diff)
	}
}

// describe is the schema of a Go type as encoding/json writes it. Every field is there in every plan, those aside that say
// they may be left out.
func describe(of reflect.Type) map[string]any {
	switch {
	case of == reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time"}
	case of.Kind() == reflect.Struct:
		properties, required := map[string]any{}, []string{}
		for field := range of.Fields() {
			name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
			properties[name] = describe(field.Type)
			if options != "omitempty" {
				required = append(required, name)
			}
		}
		return map[string]any{"type": "object", "properties": properties, "required": required}
	case of.Kind() == reflect.Pointer:
		return describe(of.Elem())
	case of.Kind() == reflect.Slice:
		return map[string]any{"type": "array", "items": describe(of.Elem())}
	case of.Kind() == reflect.String:
		return map[string]any{"type": "string"}
	case of.Kind() == reflect.Bool:
		return map[string]any{"type": "boolean"}
	case of.Kind() == reflect.Float64:
		return map[string]any{"type": "number"}
	}
	return map[string]any{"type": "integer"}
}

// Every field of the documented example is read, and none is lost when it is written again. The example is the one of the
// format's definition, filled up.
func TestExample(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "example.json"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := Read(strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := p.Write(&out); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(text), out.String()); diff != "" {
		t.Error(diff)
	}
}

// Read refuses, in one sentence, whatever cannot be a plan, and never panics.
func TestReadRefuses(t *testing.T) {
	example, err := os.ReadFile(filepath.Join("testdata", "example.json"))
	if err != nil {
		t.Fatal(err)
	}
	change := func(old, replacement string) string {
		if !strings.Contains(string(example), old) {
			t.Fatalf("the example has no %s", old)
		}
		return strings.Replace(string(example), old, replacement, 1)
	}
	for _, test := range []struct{ name, text, want string }{
		{"empty", "", "read the plan: not a plan: EOF."},
		{"a page", "<html>", "read the plan: not a plan: invalid character '<'"},
		{"cut", string(example[:len(example)/2]), "read the plan: not a plan: unexpected EOF."},
		{"two", string(example) + "{}", "read the plan: something follows after the plan."},
		{"another version", change(`"version": 1,`, `"version": 2,`), "read the plan: its version is 2, this program reads 1."},
		{"seq", change(`"seq": 2`, `"seq": 3`), "read the plan: move 2 has seq 3."},
		{"no target", change(`"id": "nodeIdC"`, `"id": ""`), "read the plan: move 1 does not name an index, a shard, a copy and two nodes."},
		{"twice", change(`"allocation_id": "a2"`, `"allocation_id": "a1"`), "read the plan: moves 1 and 2 move the same copy."},
		{"waits for itself", change("\"after\": [\n        1\n", "\"after\": [\n        2\n"), "read the plan: move 2 waits for move 2."},
		{"negative size", change(`"bytes": 53687091200`, `"bytes": -1`), "read the plan: move 1 moves -1 bytes."},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Read(strings.NewReader(test.text))
			if err == nil || !strings.HasPrefix(err.Error(), test.want) || !strings.HasSuffix(err.Error(), "Make one with: shardonnay plan --save FILE") {
				t.Errorf("%v, want %s", err, test.want)
			}
		})
	}
}

func FuzzRead(f *testing.F) {
	example, err := os.ReadFile(filepath.Join("testdata", "example.json"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(example))
	f.Add(`{"version":1,"moves":[{"seq":1,"after":[0]}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Read(strings.NewReader(text))
		if err != nil {
			return
		}
		var once, again strings.Builder
		if err := p.Write(&once); err != nil {
			return // a time that JSON cannot hold, past the year 9999
		}
		second, err := Read(strings.NewReader(once.String()))
		if err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		if second.Write(&again) != nil || once.String() != again.String() {
			t.Fatal("written and read it is another plan")
		}
	})
}
