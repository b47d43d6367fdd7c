package dispersion

import (
	"path/filepath"
	"reflect"
	"testing"

	"github.com/shardonnay/shardonnay/internal/schematest"
)

func TestSchema(t *testing.T) {
	schematest.Check(t, reflect.TypeFor[Report](), "Shardonnay dispersion report, version 1", filepath.Join("testdata", "report.schema.json"))
}
