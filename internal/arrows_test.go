// Package internal holds the program's parts. Its test proves that they depend on each other in one direction only.
package internal

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/shardonnay/shardonnay/"

// arrows says which of our packages each package may import. A new arrow is a decision: it is made here, and
// docs/architecture.md shows it. Packages further down know those above, never the other way round; what only tests use
// (names that end in test) is imported by tests alone and may import anything.
var arrows = map[string][]string{
	"internal/version":           {},
	"internal/cluster":           {},
	"internal/model":             {"internal/cluster"},
	"internal/plan":              {"internal/cluster", "internal/model"},
	"internal/whatif":            {"internal/cluster"},
	"internal/rightsize":         {"internal/cluster", "internal/model"},
	"internal/dispersion":        {"internal/cluster", "internal/model", "internal/plan"},
	"internal/solver/clp":        {},
	"internal/solver":            {"internal/cluster", "internal/model", "internal/solver/clp"},
	"internal/solver/exhaustive": {"internal/model"},
	"internal/solver/worker":     {"internal/cluster", "internal/model", "internal/solver"},
	"internal/instance":          {"internal/cluster", "internal/model"},
	"internal/es":                {"internal/cluster"},
	"internal/collector":         {"internal/cluster", "internal/es", "internal/version"},
	"internal/mover":             {"internal/cluster", "internal/es", "internal/model", "internal/plan"},
	"internal/rebalance":         {"internal/cluster", "internal/dispersion", "internal/model", "internal/mover", "internal/plan", "internal/solver"},
	"internal/config":            {"internal/cluster", "internal/es", "internal/model", "internal/plan"},
	"internal/metrics":           {"internal/cluster", "internal/model", "internal/plan"},
	"internal/history":           {"internal/cluster", "internal/model", "internal/mover", "internal/plan"},
	"internal/page":              {},
	"internal/httpapi":           {"internal/cluster", "internal/history", "internal/model", "internal/page", "internal/plan", "internal/rebalance", "internal/version", "internal/zones"},
	"internal/doctor":            {"internal/cluster", "internal/es", "internal/mover"},
	"internal/zones":             {"internal/cluster", "internal/es"},
	"internal/sim":               {"internal/cluster"},
	"internal/election":          {"internal/cluster", "internal/version"},
}

// bans are imports that only some packages may have, with the reason.
var bans = []struct {
	path, why string
	allowed   func(pkg string) bool
}{
	{"C", "native code is called in one place, behind checks of every argument", only("internal/solver/clp")},
	{"github.com/lanl/clp", "it panics and aborts on arguments the clp package checks", only("internal/solver/clp")},
	{"github.com/spf13/viper", "configuration is typed and checked from here on", only("internal/config")},
	{"github.com/opensearch-project/opensearch-go", "its retries must not reach a write", only("internal/es")},
	{"github.com/prometheus/client_golang", "names and labels are in one place", only("internal/metrics", "cmd/shardonnay")},
	{"k8s.io", "it is large, and who leads is all that Kubernetes is asked", only("internal/election")},
	{"github.com/spf13/cobra", "commands are a matter of cmd", only("cmd/shardonnay")},
	{"go.uber.org/zap", "those who decide report in what they return", only("internal/rebalance", "cmd/shardonnay")},
	{"os", "values in, values out", notPure},
	{"os/exec", "values in, values out", notPure},
	{"net", "values in, values out", notPure},
	{"net/http", "values in, values out", notPure},
	{"context", "nothing here waits", notPure},
	{"sync", "nothing here is shared", notPure},
	{"log", "values in, values out", notPure},
	{"unsafe", "there is no need", only("internal/solver/clp")},
}

// pure packages take values and return values: no clock, network, file, logger or goroutine.
var pure = []string{"internal/cluster", "internal/model", "internal/plan", "internal/whatif", "internal/rightsize", "internal/dispersion"}

func notPure(pkg string) bool { return !slices.Contains(pure, pkg) }

func only(packages ...string) func(string) bool {
	return func(pkg string) bool { return slices.Contains(packages, pkg) }
}

// source is one parsed file with the package it belongs to.
type source struct {
	pkg, name string
	file      *ast.File
	isTest    bool
}

// sources parses every Go file of cmd and internal.
func sources(t *testing.T) (all []source, set *token.FileSet) {
	t.Helper()
	set = token.NewFileSet()
	for _, top := range []string{"internal", "cmd"} {
		err := filepath.WalkDir(filepath.Join("..", top), func(name string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && entry.Name() == "testdata":
				return filepath.SkipDir
			case entry.IsDir() || !strings.HasSuffix(name, ".go"):
				return nil
			}
			file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			pkg := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(name)), "../")
			isTest := strings.HasSuffix(name, "_test.go") || strings.HasSuffix(path.Base(pkg), "test")
			all = append(all, source{pkg, name, file, isTest})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(all) < 50 {
		t.Fatalf("only %d files found", len(all))
	}
	return all, set
}

func imports(t *testing.T, file *ast.File) (paths []string) {
	t.Helper()
	for _, spec := range file.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, p)
	}
	return paths
}

func TestImportsGoOneWay(t *testing.T) {
	all, _ := sources(t)
	for _, s := range all {
		if s.isTest {
			continue
		}
		allowed, known := arrows[s.pkg]
		if !known && s.pkg != "internal" && !strings.HasPrefix(s.pkg, "cmd/") {
			t.Errorf("%s: the package is not in the table of arrows", s.name)
		}
		for _, p := range imports(t, s.file) {
			own, ours := strings.CutPrefix(p, module)
			if ours && strings.HasSuffix(path.Base(own), "test") {
				t.Errorf("%s imports %s, which is for tests", s.name, own)
			} else if ours && known && !slices.Contains(allowed, own) {
				t.Errorf("%s imports %s: there is no such arrow", s.name, own)
			}
			for _, ban := range bans {
				if (p == ban.path || strings.HasPrefix(p, ban.path+"/") && strings.Contains(ban.path, ".")) && !ban.allowed(s.pkg) {
					t.Errorf("%s imports %s: %s", s.name, p, ban.why)
				}
			}
		}
	}
}

// The table itself has no cycle and no package that is gone.
func TestArrowsHaveNoCycle(t *testing.T) {
	all, _ := sources(t)
	const open, done = 1, 2
	state := make(map[string]int)
	var visit func(pkg string)
	visit = func(pkg string) {
		state[pkg] = open
		for _, next := range arrows[pkg] {
			if state[next] == open {
				t.Errorf("a cycle leads through %s and %s", pkg, next)
			} else if state[next] != done {
				visit(next)
			}
		}
		state[pkg] = done
	}
	for _, pkg := range slices.Sorted(maps.Keys(arrows)) {
		visit(pkg)
		if !slices.ContainsFunc(all, func(s source) bool { return s.pkg == pkg }) {
			t.Errorf("%s is in the table and not in the tree", pkg)
		}
	}
}

// Pure packages do not ask for the time and start nothing.
func TestPurePackagesHaveNoClockAndNoGoroutine(t *testing.T) {
	all, set := sources(t)
	for _, s := range all {
		if s.isTest || notPure(s.pkg) {
			continue
		}
		ast.Inspect(s.file, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.GoStmt:
				t.Errorf("%s: a goroutine", set.Position(node.Pos()))
			case *ast.SelectorExpr:
				of, isName := node.X.(*ast.Ident)
				clock := []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}
				if isName && of.Name == "time" && slices.Contains(clock, node.Sel.Name) {
					t.Errorf("%s: time.%s; the snapshot knows the time", set.Position(node.Pos()), node.Sel.Name)
				}
			}
			return true
		})
	}
}
