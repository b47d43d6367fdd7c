package metrics

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// constants are the values of all string constants of a type, read from the source of the package that defines it: this
// package must not import what stands after it.
func constants(t *testing.T, dir, typeName string) (values []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(node ast.Node) bool {
			spec, ok := node.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 {
				return true
			}
			of, ok := spec.Type.(*ast.Ident)
			literal, isLiteral := spec.Values[0].(*ast.BasicLit)
			if !ok || of.Name != typeName || !isLiteral {
				return true
			}
			value, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, value)
			return true
		})
	}
	slices.Sort(values)
	return values
}

// Every decider that the simulator, which knows them from the servers and not from the model, may say no with has a series
// of its own.
func TestDecidersAreKnown(t *testing.T) {
	source, err := os.ReadFile("../sim/deciders.go")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`decider\{"(\w+)"`).FindAllStringSubmatch(string(source), -1)
	if len(named) < 15 {
		t.Fatalf("only %d deciders found", len(named))
	}
	for _, match := range named {
		if !slices.Contains(deciders, match[1]) {
			t.Errorf("%s would count as %s", match[1], otherDecider)
		}
	}
}

// The fixed label values are the words of the packages that make them: a new outcome, stage, state or class must not be
// forgotten here, or its series would begin with its first event.
func TestWordsAreThoseOfTheirPackages(t *testing.T) {
	underWay := []string{"checked", "planned", "relocating", "requested"}
	for _, c := range []struct {
		dir, typeName string
		ours, aside   []string
	}{
		{"../rebalance", "Outcome", outcomes, nil},
		{"../rebalance", "Stage", stages, nil},
		{"../rebalance", "Owned", owners, nil},
		{"../mover", "State", results, underWay},
		{"../plan", "Mode", modes, nil},
		{"../cluster", "Class", classes, nil},
		{"../mover", "StopKind", reasons, nil},
		{"../plan", "Kind", verdicts, nil},
		{"../solver", "Status", statuses, nil},
		{"../zones", "Mode", zoneModes, nil},
		{"../zones", "Phase", zonePhases, nil},
		{"../zones", "WritePhase", zoneWritePhases, nil},
		{"../zones", "Signal", zoneSignals, nil},
		{"../zones", "Guard", zoneGuards, nil},
	} {
		want := constants(t, c.dir, c.typeName)
		got := slices.Sorted(slices.Values(slices.Concat(c.ours, c.aside)))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s.%s: %s", c.dir, c.typeName, diff)
		}
	}
}
