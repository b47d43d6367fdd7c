// Command grafana writes the dashboards beside it: one JSON file each, for import into Grafana 10 or newer. The files are
// committed; make check-generated finds one that is not what this program writes.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

//go:generate go run .

// boards are all dashboards by the file they are kept in.
var boards = map[string]func() *dashboard.DashboardBuilder{
	"cluster-heat.json":     clusterHeat,
	"moves-and-safety.json": movesAndSafety,
	"solver.json":           solver,
	"zones.json":            zonesBoard,
}

func main() {
	for file, board := range boards {
		content, err := render(board())
		if err == nil {
			err = os.WriteFile(file, content, 0o644)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", file, err)
			os.Exit(1)
		}
	}
}

// render builds a dashboard and writes it down, the same bytes every time.
func render(b *dashboard.DashboardBuilder) ([]byte, error) {
	board, err := b.Build()
	if err != nil {
		return nil, err
	}
	for i := range board.Links {
		board.Links[i].Placement = nil // shown, and not hidden in a menu, as the library would have it
	}
	for i := range board.Panels {
		id := uint32(i + 1) // links to a panel use it, so it must not be Grafana that hands it out at import
		if p := board.Panels[i].Panel; p != nil {
			p.Id = &id
		} else {
			board.Panels[i].RowPanel.Id = id
		}
	}
	return encode(board)
}

func encode(board dashboard.Dashboard) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false) // for people who read the expressions in a diff
	encoder.SetIndent("", "  ")
	err := encoder.Encode(board)
	return out.Bytes(), err
}
