package dispersion

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

// docs/regions.md explains every field of the report.
func TestThePageExplainsEverything(t *testing.T) {
	page, err := os.ReadFile("../../docs/regions.md")
	if err != nil {
		t.Fatal(err)
	}
	var walk func(of reflect.Type)
	walk = func(of reflect.Type) {
		for of.Kind() == reflect.Slice || of.Kind() == reflect.Map {
			of = of.Elem()
		}
		if of.Kind() != reflect.Struct {
			return
		}
		for field := range of.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if !strings.Contains(string(page), "`"+name+"`") && !strings.Contains(string(page), name+"[]") && !strings.Contains(string(page), "]."+name+"`") {
				t.Errorf("docs/regions.md does not explain %s", name)
			}
			walk(field.Type)
		}
	}
	walk(reflect.TypeFor[Report]())
}
