package plan

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// docs/plan.md explains every field of a plan, and every kind of verdict that the source declares, and no others.
func TestThePageExplainsEverything(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "plan.md"))
	if err != nil {
		t.Fatal(err)
	}
	var fields func(reflect.Type) []string
	fields = func(of reflect.Type) (names []string) {
		for of.Kind() == reflect.Slice || of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		if of.Kind() != reflect.Struct || of == reflect.TypeFor[time.Time]() {
			return nil
		}
		for field := range of.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			names = append(names, name)
			names = append(names, fields(field.Type)...)
		}
		return names
	}
	for _, name := range fields(reflect.TypeFor[Plan]()) {
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/plan.md does not explain %s", name)
		}
	}
	source, err := os.ReadFile("plan.go")
	if err != nil {
		t.Fatal(err)
	}
	var declared, explained []string
	for _, match := range regexp.MustCompile(`Kind = "(\w+)"`).FindAllStringSubmatch(string(source), -1) {
		declared = append(declared, match[1])
	}
	_, table, _ := strings.Cut(string(page), "| `kind` |")
	table, _, _ = strings.Cut(table, "\n## ")
	for _, match := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|").FindAllStringSubmatch(table, -1) {
		explained = append(explained, match[1])
	}
	slices.Sort(declared)
	slices.Sort(explained)
	if len(declared) == 0 || !slices.Equal(declared, explained) {
		t.Errorf("the page explains the kinds %v, the source declares %v", explained, declared)
	}
}
