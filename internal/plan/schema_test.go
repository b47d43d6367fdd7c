package plan

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/shardonnay/shardonnay/internal/schematest"
)

func TestSchema(t *testing.T) {
	schematest.Check(t, reflect.TypeFor[Plan](), "Shardonnay plan, version 1", filepath.Join("testdata", "plan.schema.json"))
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
