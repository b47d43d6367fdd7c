// Package schematest holds the formats that other programs read against their JSON schemas on disk.
package schematest

import (
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var rewrite = flag.Bool("rewrite-schema", false, "write the JSON schemas of testdata anew")

// Check derives the JSON schema of a type and demands that it is the one in the file: a field that goes, is renamed or
// changes its type shows as a difference, and asks for a new version of the format.
func Check(t *testing.T, of reflect.Type, title, file string) {
	t.Helper()
	schema := describe(of)
	schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	schema["title"] = title
	got, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	if *rewrite {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("the JSON of %s is not what %s says (run the test with -rewrite-schema and read the difference):\n%s", of, file, diff)
	}
}

// describe is the schema of a Go type as encoding/json writes it. Every field is there, those aside that say they may be left
// out.
func describe(of reflect.Type) map[string]any {
	switch {
	case of == reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time"}
	case of.Kind() == reflect.Struct:
		properties, required := map[string]any{}, []string{}
		for field := range of.Fields() {
			name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
			properties[name] = describe(field.Type)
			if options == "" {
				required = append(required, name)
			}
		}
		return map[string]any{"type": "object", "properties": properties, "required": required}
	case of.Kind() == reflect.Pointer:
		return describe(of.Elem())
	case of.Kind() == reflect.Slice, of.Kind() == reflect.Array:
		return map[string]any{"type": "array", "items": describe(of.Elem())}
	case of.Kind() == reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": describe(of.Elem())}
	case of.Kind() == reflect.String:
		return map[string]any{"type": "string"}
	case of.Kind() == reflect.Bool:
		return map[string]any{"type": "boolean"}
	case of.Kind() == reflect.Float64:
		return map[string]any{"type": "number"}
	}
	return map[string]any{"type": "integer"}
}
