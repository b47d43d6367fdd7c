package rightsize

import (
	"path/filepath"
	"reflect"
	"testing"

	"github.com/shardonnay/shardonnay/internal/schematest"
)

func TestSchema(t *testing.T) {
	schematest.Check(t, reflect.TypeFor[Answer](), "Shardonnay right-size answer, version 1", filepath.Join("testdata", "answer.schema.json"))
}
