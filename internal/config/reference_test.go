package config

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/shardonnay/shardonnay/internal/model"
)

const referenceFile = "../../configs/shardonnay.yaml"

// comment is the form of the comment above a key: sentences, then unit, default and range in brackets.
var (
	comment    = regexp.MustCompile(`(?s)^# [A-Z].*\.\n# \[([^\n]+)\]$`)
	allowed    = regexp.MustCompile(`from (\S+) to ([^\s,\]]+)`)
	defaultsTo = regexp.MustCompile(`default (\[[^\]]*\]|"[^"]*"|[^\s,]+)`)
)

// comments gives the comment above each key of the reference file.
func comments(t *testing.T) map[string]string {
	t.Helper()
	content, err := os.ReadFile(referenceFile)
	if err != nil {
		t.Fatal(err)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(content, &document); err != nil {
		t.Fatal(err)
	}
	found := make(map[string]string)
	var walk func(node *yaml.Node, prefix string)
	walk = func(node *yaml.Node, prefix string) {
		for i := 0; i < len(node.Content); i += 2 {
			name, value := node.Content[i], node.Content[i+1]
			found[prefix+name.Value] = name.HeadComment
			if value.Kind == yaml.MappingNode {
				walk(value, prefix+name.Value+".")
			}
		}
	}
	walk(document.Content[0], "")
	return found
}

func TestReferenceFileIsTheDefault(t *testing.T) {
	got, err := Load(referenceFile, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Default(), got, cmp.Transformer("list", func(s []string) []string { return append([]string{}, s...) }),
		cmp.Transformer("windows", func(s []Window) []Window { return append([]Window{}, s...) })); diff != "" {
		t.Errorf("%s and Default differ:\n%s", referenceFile, diff)
	}
}

func TestReferenceFileExplainsEveryKey(t *testing.T) {
	found := comments(t)
	def := Default()
	for _, k := range keys {
		text, present := found[k.name]
		match := comment.FindStringSubmatch(text)
		switch {
		case !present:
			t.Errorf("%s is missing", k.name)
			continue
		case match == nil:
			t.Errorf("%s: the comment is not of sentences and a line in brackets:\n%s", k.name, text)
			continue
		}
		if restart := strings.Contains(match[1], ", restart:"); restart != k.restart {
			t.Errorf("%s: the comment says restart %t, the code %t", k.name, restart, k.restart)
		}
		want := strings.Trim(show(def.at(k)), `"`)
		if k.name == "ownership.holder" {
			want = "" // made up at the start
		}
		if got := defaultsTo.FindStringSubmatch(match[1]); got == nil || strings.Trim(got[1], `"`) != want {
			t.Errorf("%s: the comment %q does not say default %s", k.name, match[1], want)
		}
		delete(found, k.name)
	}
	for section := range sections {
		if text := found[section]; !strings.HasPrefix(text, "# ") {
			t.Errorf("section %s has no comment", section)
		}
	}
}

// The ranges in the comments are the ranges of the checks: both ends pass, a step beyond does not.
func TestReferenceFileGivesTheTrueRanges(t *testing.T) {
	tried := 0
	for key, text := range comments(t) {
		match := allowed.FindStringSubmatch(text[strings.LastIndex(text, "\n")+1:])
		if match == nil || key == "balance.dimensions" || key == "ownership.renew" {
			continue // both have cases of their own below testdata/invalid
		}
		tried++
		// Companions that would be in the way of an extreme value.
		t.Setenv("SHARDONNAY_SOLVER_TIME_LIMIT", "100ms")
		t.Setenv("SHARDONNAY_CYCLE_TIME_LIMIT", "1h")
		t.Setenv("SHARDONNAY_OWNERSHIP_RENEW", "1s")
		faultOf := func(value string) string {
			t.Setenv(envName(key), value)
			if _, err := Load("", nil); err != nil && strings.Contains(err.Error(), key+":") {
				return err.Error()
			}
			return ""
		}
		for _, value := range match[1:] {
			if fault := faultOf(value); fault != "" {
				t.Errorf("%s=%s: %s", key, value, fault)
			}
		}
		for _, value := range beyond(match[1], match[2]) {
			if faultOf(value) == "" {
				t.Errorf("%s=%s is outside of what the comment allows, and passes", key, value)
			}
		}
		t.Setenv(envName(key), "") // counts as not set
	}
	if tried < 25 {
		t.Errorf("only %d keys have a range in their comment", tried)
	}
}

// beyond are a value below and one above the range, in its units.
func beyond(least, most string) []string {
	return []string{"-1" + strings.TrimLeft(least, "0123456789."), "9" + most}
}

// The defaults of the model are those of the file, so that tools without a file solve the same problem. What one plan may
// move is the daemon's own caution.
func TestDefaultPolicyIsTheModels(t *testing.T) {
	def := Default()
	got, want := def.Policy(), model.DefaultPolicy()
	for name, weight := range got.Weights {
		if weight != 1 {
			t.Errorf("%s weighs %g; the model's weight for what is not named is 1", name, weight)
		}
	}
	got.Weights, got.MaxMoves, got.MaxBytes = want.Weights, want.MaxMoves, want.MaxBytes
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
