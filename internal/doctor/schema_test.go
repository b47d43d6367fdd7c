package doctor

import (
	"path/filepath"
	"reflect"
	"testing"

	"github.com/shardonnay/shardonnay/internal/schematest"
)

func TestSchema(t *testing.T) {
	schematest.Check(t, reflect.TypeFor[Finding](), "Shardonnay finding, version 1", filepath.Join("testdata", "finding.schema.json"))
}
