package main

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardonnay/shardonnay/internal/config"
)

// readElsewhere are keys that no option struct of wiring.go carries, with who reads them.
var readElsewhere = map[string]string{
	"mode":            "loopSettings",
	"cycle.":          "loopSettings",
	"solver.":         "solverOptions",
	"limits.cool_":    "loopSettings",
	"sampling.window": "takeSnapshot, of plan",
	"http.":           "serve",
	"log.":            "newLog",
	// Files with secrets are read by config; their content is what is wired.
	"connection.password_file": "config", "connection.api_key_file": "config",
}

// A key that nothing reads would be obeyed by nobody, without a word.
func TestEveryKeyHasAnEffect(t *testing.T) {
	wired := func(c *config.Config) []any {
		return []any{
			collectorOptions(c), moverConfig(c), lease(&c.Ownership, "an election"), candidacy(c), c.Policy(), c.Connection.Client(), zonesConfig(&c.Zones),
			loopSettings(c).Crossing, loopSettings(c).ShardCoolDown,
		}
	}
	def := config.Default()
	def.Regions.Attribute = "region" // without it nothing else of regions counts
	tried := 0
	var walk func(at reflect.Value, prefix string, of *config.Config)
	walk = func(at reflect.Value, prefix string, of *config.Config) {
		for i := range at.NumField() {
			tag := at.Type().Field(i).Tag.Get("key")
			name, field := prefix+tag, at.Field(i)
			elsewhere := func(key string) bool { return strings.HasPrefix(name, key) }
			switch {
			case tag == "":
			case field.Kind() == reflect.Struct:
				walk(field, name+".", of)
			case slices.ContainsFunc(slices.Collect(maps.Keys(readElsewhere)), elsewhere):
			default:
				tried++
				was := reflect.ValueOf(field.Interface())
				change(t, name, field)
				if reflect.DeepEqual(wired(of), wired(&def)) {
					t.Errorf("%s has no effect", name)
				}
				field.Set(was)
			}
		}
	}
	c := def
	walk(reflect.ValueOf(&c).Elem(), "", &c)
	if tried < 30 {
		t.Errorf("only %d keys tried", tried)
	}
}

// change gives a field another value.
func change(t *testing.T, name string, field reflect.Value) {
	t.Helper()
	switch value := field.Addr().Interface().(type) {
	case *bool:
		*value = !*value
	case *int:
		*value += 7
	case *float64:
		*value += 0.125
	case *time.Duration:
		*value += 7 * time.Second
	case *config.Bytes:
		*value += 4096
	case *string:
		*value += "x"
		switch name {
		case "stop.status":
			*value = "yellow"
		case "regions.remainder":
			*value = "spread"
		case "zones.drain_by":
			*value = "server"
		}
	case *[]string:
		*value = append(slices.Clone(*value), "http://other:9200")
	case *[]config.Dimension:
		*value = []config.Dimension{{Name: "heap", Weight: 3}}
	case *[]config.Capacity:
		*value = []config.Capacity{{Node: "hot-*", Dimension: "search", Capacity: 12}}
	case *[]config.RegionLayout:
		*value = []config.RegionLayout{{Pattern: "logs-*", Copies: map[string]int{"A": 3, "B": 1}}}
	case *[]config.RegionHome:
		*value = []config.RegionHome{{Pattern: "logs-*", Region: "A"}}
	case *[]config.Window:
		*value = make([]config.Window, 1)
	default:
		t.Fatalf("%s: this test cannot change a %s", name, field.Type())
	}
}
