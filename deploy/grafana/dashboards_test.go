package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/bargauge"
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/heatmap"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/statetimeline"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// committed reads a dashboard into Grafana's own types.
func committed(t *testing.T, file string) (content []byte, board dashboard.Dashboard) {
	t.Helper()
	runtime := cog.NewRuntime()
	runtime.RegisterPanelcfgVariant(bargauge.VariantConfig())
	runtime.RegisterPanelcfgVariant(heatmap.VariantConfig())
	runtime.RegisterPanelcfgVariant(stat.VariantConfig())
	runtime.RegisterPanelcfgVariant(statetimeline.VariantConfig())
	runtime.RegisterPanelcfgVariant(timeseries.VariantConfig())
	runtime.RegisterDataqueryVariant(prometheus.VariantConfig())
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(content, &board); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if err := board.Validate(); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return content, board
}

// The files are what the generator writes, twice the same; and what Grafana's types read from them, they write back: a field
// they do not know would be lost on the way.
func TestFilesAreCurrentAndSurviveARoundTrip(t *testing.T) {
	files, err := filepath.Glob("*.json")
	if err != nil || len(files) != len(boards) {
		t.Errorf("%d files of %d boards: %v", len(files), len(boards), err)
	}
	for file, make := range boards {
		content, board := committed(t, file)
		for range 2 {
			written, err := render(make())
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(written, content) {
				t.Errorf("%s is not what the generator writes; run go generate and read the diff", file)
			}
		}
		again, err := encode(board)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(again, content) {
			t.Errorf("%s is not the same after it was read and written", file)
		}
	}
}

// Every panel says what it shows, in which unit, from the data source that is chosen; none lies on another.
func TestPanelsAreWhole(t *testing.T) {
	for file := range boards {
		_, board := committed(t, file)
		var ids []uint32
		taken := make(map[[2]uint32]string) // cell of the grid, panel
		for _, item := range board.Panels {
			p := item.Panel
			if p == nil {
				ids = append(ids, item.RowPanel.Id)
				continue
			}
			ids = append(ids, *p.Id)
			title := file + ": " + *p.Title
			if p.Description == nil || !strings.HasSuffix(*p.Description, ".") || strings.TrimSpace(*p.Title) == "" {
				t.Errorf("%s has no description", title)
			}
			if p.FieldConfig == nil || p.FieldConfig.Defaults.Unit == nil || *p.FieldConfig.Defaults.Unit == "" {
				t.Errorf("%s has no unit", title)
			}
			if p.Datasource == nil || *p.Datasource.Uid != "${datasource}" {
				t.Errorf("%s does not use the data source that is chosen", title)
			}
			if len(p.Targets) == 0 {
				t.Errorf("%s shows nothing", title)
			}
			if p.GridPos.X+p.GridPos.W > 24 {
				t.Errorf("%s reaches beyond the edge", title)
			}
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if other, there := taken[[2]uint32{x, y}]; there {
						t.Fatalf("%s lies on %s", title, other)
					}
					taken[[2]uint32{x, y}] = title
				}
			}
		}
		slices.Sort(ids)
		if len(slices.Compact(ids)) != len(board.Panels) || len(board.Panels) < 10 {
			t.Errorf("%s: %d panels with the ids %v", file, len(board.Panels), ids)
		}
	}
}

// They lead to each other and to what is to be done.
func TestBoardsAreLinked(t *testing.T) {
	for file := range boards {
		_, board := committed(t, file)
		var urls []string
		siblings := false
		for _, link := range board.Links {
			siblings = siblings || link.Type == dashboard.DashboardLinkTypeDashboards && slices.Equal(link.Tags, board.Tags) && link.KeepTime && link.IncludeVars
			if link.Url != nil {
				urls = append(urls, *link.Url)
			}
		}
		if !siblings || !slices.Contains(urls, repository+"docs/runbooks") {
			t.Errorf("%s leads to %v, to its siblings: %t", file, urls, siblings)
		}
	}
}
