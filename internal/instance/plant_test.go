package instance

import (
	"math"
	"testing"

	"github.com/shardonnay/shardonnay/internal/model"
)

// A planted instance is not level, its optimum is a small part of what it costs now, and nothing but search is out of level.
func TestPlanted(t *testing.T) {
	for seed := range uint64(3) {
		p, optimum, err := Planted(Defaults(60, 3600, seed))
		if err != nil {
			t.Fatal(err)
		}
		before := model.Evaluate(p, p.Current())
		if total := model.Total(before); optimum <= 0 || total < 5*optimum {
			t.Errorf("seed %d: costs %v now, %v at best", seed, total, optimum)
		}
		for _, term := range before {
			if term.Name != "balance.search" && math.Abs(term.Value) > 0 {
				t.Errorf("seed %d: %s costs %v", seed, term.Name, term.Value)
			}
		}
		if broken := broken(p); broken != "" {
			t.Errorf("seed %d: %s", seed, broken)
		}
	}
}
