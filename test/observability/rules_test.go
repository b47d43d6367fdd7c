package observability

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

const (
	rulesFile = "../../deploy/prometheus/rules.yaml"
	rulesTest = "../../deploy/prometheus/rules_test.yaml"
	runbooks  = "../../docs/runbooks"
	// runbookURL is where the pages are read by whoever an alert has woken.
	runbookURL = "https://github.com/shardonnay/shardonnay/blob/main/docs/runbooks/"
)

// rules is a rule file as Prometheus reads it.
type rules struct {
	Groups []struct {
		Name  string `yaml:"name"`
		Rules []rule `yaml:"rules"`
	} `yaml:"groups"`
}

type rule struct {
	Record      string            `yaml:"record,omitempty"`
	Alert       string            `yaml:"alert,omitempty"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for,omitempty"`
	Labels      map[string]string `yaml:"labels,omitempty"`
	Annotations map[string]string `yaml:"annotations,omitempty"`
}

func readYAML(t *testing.T, file string, into any) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err == nil {
		err = yaml.Unmarshal(content, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// alerts are all alerting rules, by name.
func alerts(t *testing.T) map[string]rule {
	t.Helper()
	var file rules
	readYAML(t, rulesFile, &file)
	all := make(map[string]rule)
	for _, group := range file.Groups {
		for _, r := range group.Rules {
			if r.Alert != "" {
				all[r.Alert] = r
			}
		}
	}
	if len(all) < 10 {
		t.Fatalf("only %d alerts found", len(all))
	}
	return all
}

func TestRulesPassTheirUnitTests(t *testing.T) {
	t.Parallel()
	if out, err := promtool(t, "check", "rules", rulesFile); err != nil {
		t.Errorf("promtool check rules: %v\n%s", err, out)
	}
	if out, err := promtool(t, "test", "rules", rulesTest); err != nil {
		t.Errorf("promtool test rules: %v\n%s", err, out)
	}
}

// Every alert has a story in which it fires and one in which it does not; and a story cannot be about an alert that has
// been renamed, since nothing of that name would ever fire.
func TestEveryAlertHasAUnitTest(t *testing.T) {
	var file struct {
		Tests []struct {
			Stories []struct {
				Name  string `yaml:"alertname"`
				Fires []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		} `yaml:"tests"`
	}
	readYAML(t, rulesTest, &file)
	known, fires, quiet := alerts(t), make(map[string]bool), make(map[string]bool)
	for _, test := range file.Tests {
		loud := make(map[string]bool) // in this test
		for _, story := range test.Stories {
			if _, is := known[story.Name]; !is {
				t.Errorf("a test is about %s, which is no alert", story.Name)
			}
			loud[story.Name] = loud[story.Name] || len(story.Fires) > 0
		}
		for name, is := range loud {
			fires[name], quiet[name] = fires[name] || is, quiet[name] || !is
		}
	}
	for name := range known {
		if !fires[name] || !quiet[name] {
			t.Errorf("%s: fires in a test: %t; stays quiet in another: %t", name, fires[name], quiet[name])
		}
	}
}

// Every alert says what is so with figures or names, how bad it is, and where to read on; every page belongs to an alert.
func TestEveryAlertHasARunbook(t *testing.T) {
	var names []string
	for name, r := range alerts(t) {
		names = append(names, name)
		if want := runbookURL + name + ".md"; r.Annotations["runbook_url"] != want {
			t.Errorf("%s leads to %q, want %q", name, r.Annotations["runbook_url"], want)
		}
		if r.Annotations["summary"] == "" || len(r.Annotations["description"]) < 40 || r.For == "" {
			t.Errorf("%s says too little: %+v", name, r)
		}
		if severity := r.Labels["severity"]; severity != "warning" && severity != "critical" {
			t.Errorf("%s has the severity %q", name, severity)
		}
	}
	overview, err := os.ReadFile("../../docs/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range alerts(t) {
		if line := fmt.Sprintf("| [%s](runbooks/%s.md) | %s |", name, name, r.Labels["severity"]); !strings.Contains(string(overview), line) {
			t.Errorf("docs/monitoring.md does not list %q", line)
		}
	}
	files, err := filepath.Glob(runbooks + "/*.md")
	if err != nil {
		t.Fatal(err)
	}
	var pages []string
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".md")
		pages = append(pages, name)
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		headings := regexp.MustCompile(`(?m)^#+ .*$`).FindAllString(string(content), -1)
		want := []string{"# " + name, "## What it means", "## How to look", "## What to do", "## When to wake somebody"}
		if diff := cmp.Diff(want, headings); diff != "" {
			t.Errorf("%s: %s", file, diff)
		}
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(names)), slices.Sorted(slices.Values(pages))); diff != "" {
		t.Errorf("alerts and pages differ: %s", diff)
	}
}

// The commands that the pages and alerts tell people to type exist.
func TestCommandsInTheRunbooksExist(t *testing.T) {
	files, err := filepath.Glob(runbooks + "/*.md")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	command := regexp.MustCompile(`bin/shardonnay ([a-z]+)((?: [^|>#` + "`" + `\n]+)?)`)
	flag := regexp.MustCompile(`--[a-z-]+`)
	tried := 0
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range command.FindAllStringSubmatch(string(content), -1) {
			help, err := shardonnay(match[1], "--help")
			if err != nil || !strings.Contains(help, "shardonnay "+match[1]) {
				t.Errorf("%s: there is no %q: %v", file, match[0], err)
			}
			for _, name := range flag.FindAllString(match[2], -1) {
				if !strings.Contains(help, name) {
					t.Errorf("%s: %s has no %s", file, match[1], name)
				}
			}
			tried++
		}
	}
	if tried < 10 {
		t.Errorf("only %d commands were found", tried)
	}
}
