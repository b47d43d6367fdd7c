package config

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

//go:generate go test . -run TestChartKnowsEveryKey -update

const chartSchemaFile = "../../deploy/helm/shardonnay/values.schema.json"

// chartSchema is what the Helm chart takes as a configuration: the keys there are, each of its kind. Whether a value is
// possible is found out by Load.
func chartSchema() map[string]any {
	section := func() map[string]any {
		return map[string]any{"type": "object", "additionalProperties": false, "properties": map[string]any{}}
	}
	root := section()
	def := Default()
	for _, k := range keys {
		at := root
		parts := strings.Split(k.name, ".")
		for _, part := range parts[:len(parts)-1] {
			properties := at["properties"].(map[string]any)
			if properties[part] == nil {
				properties[part] = section()
			}
			at = properties[part].(map[string]any)
		}
		at["properties"].(map[string]any)[parts[len(parts)-1]] = kindOf(def.at(k))
	}
	root["properties"].(map[string]any)["mode"] = map[string]any{"enum": []any{"observe", "dry-run", "act"}}
	return root
}

// kindOf is what a value of a key may be written as.
func kindOf(field reflect.Value) map[string]any {
	switch field.Interface().(type) {
	case bool:
		return map[string]any{"type": "boolean"}
	case int, float64, Bytes: // also as text: a ratio in per cent, a size with its unit, a number too large for Helm
		return map[string]any{"type": []any{"number", "string"}}
	}
	if field.Kind() == reflect.Slice {
		return map[string]any{"type": "array", "items": map[string]any{"type": "string"}}
	}
	return map[string]any{"type": "string"}
}

func TestChartKnowsEveryKey(t *testing.T) {
	content, err := os.ReadFile(chartSchemaFile)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		content = withConfig(t, content)
		if err := os.WriteFile(chartSchemaFile, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var schema struct {
		Defs map[string]any `json:"$defs"`
	}
	if err := json.Unmarshal(content, &schema); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(any(chartSchema()), schema.Defs["config"]); diff != "" {
		t.Errorf("%s is not current; run go generate ./internal/config:\n%s", chartSchemaFile, diff)
	}
}

// withConfig replaces the last line but two, which is the configuration's part.
func withConfig(t *testing.T, content []byte) []byte {
	t.Helper()
	text, err := json.Marshal(chartSchema())
	if err != nil {
		t.Fatal(err)
	}
	from := bytes.LastIndex(content, []byte(`    "config": `))
	if from < 0 {
		t.Fatalf("%s has no part for the configuration", chartSchemaFile)
	}
	return append(content[:from:from], `    "config": `+string(text)+"\n  }\n}\n"...)
}

// The configurations that are shipped are ones that the daemon takes; what differs from the defaults is for Kubernetes.
func TestShippedConfigurations(t *testing.T) {
	var chart struct {
		Config yaml.Node `yaml:"config"`
	}
	content, err := os.ReadFile("../../deploy/helm/shardonnay/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(content, &chart); err != nil {
		t.Fatal(err)
	}
	ofChart, err := yaml.Marshal(&chart.Config)
	if err != nil {
		t.Fatal(err)
	}
	base, err := os.ReadFile("../../deploy/kubernetes/base/shardonnay.yaml")
	if err != nil {
		t.Fatal(err)
	}
	secret := write(t, "x")
	load := func(text string) Config {
		for _, name := range []string{"password", "ca.crt"} {
			text = strings.ReplaceAll(text, "/etc/shardonnay/secret/"+name, secret)
		}
		c, err := Load(write(t, text), nil)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if diff := cmp.Diff(load(string(base)), load(string(ofChart))); diff != "" {
		t.Errorf("kustomize (-) and Helm (+) ship different configurations:\n%s", diff)
	}
}
