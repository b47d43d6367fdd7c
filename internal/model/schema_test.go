package model

import (
	"path/filepath"
	"reflect"
	"testing"

	"github.com/shardonnay/shardonnay/internal/schematest"
)

func TestSchema(t *testing.T) {
	schematest.Check(t, reflect.TypeFor[Problem](), "Shardonnay problem, version 1", filepath.Join("testdata", "problem.schema.json"))
}
