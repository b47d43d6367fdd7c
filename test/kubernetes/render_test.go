package kubernetes

import (
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	helmchart "helm.sh/helm/v4/pkg/chart"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/loader"
	"helm.sh/helm/v4/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const (
	chartDir     = "../../deploy/helm/shardonnay"
	overlaysDir  = "../../deploy/kubernetes/overlays/"
	everythingIn = "testdata/everything"
)

// values are what is given to the chart.
type values = map[string]any

// everything turns all parts of the chart on.
func everything() values {
	on := func() values { return values{"enabled": true} } // Helm merges into what it is given
	return values{
		"serviceMonitor": on(), "prometheusRule": on(), "dashboards": on(), "plan": values{"job": on(), "cronJob": on()}, "config": values{"mode": "act"},
	}
}

// kustomize renders a folder.
func kustomize(t *testing.T, dir string) []*unstructured.Unstructured {
	t.Helper()
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	text, err := made.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return objects(t, string(text))
}

// helm renders the chart as the release "shardonnay". The notes are what a person is shown.
func helm(t *testing.T, namespace string, given values) (all []*unstructured.Unstructured, notes string) {
	t.Helper()
	files, err := helmFiles(t, namespace, given)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if path.Base(name) == "NOTES.txt" {
			notes = files[name]
			continue
		}
		all = append(all, objects(t, files[name])...)
	}
	return all, notes
}

func helmFiles(t *testing.T, namespace string, given values) (map[string]string, error) {
	t.Helper()
	chart, err := loader.LoadDir(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	options := common.ReleaseOptions{Name: "shardonnay", Namespace: namespace, Revision: 1, IsInstall: true}
	merged, err := util.ToRenderValues(helmchart.Charter(chart), given, options, nil)
	if err != nil {
		return nil, err
	}
	return engine.Render(chart, merged)
}

// objects reads what is rendered.
func objects(t *testing.T, text string) (all []*unstructured.Unstructured) {
	t.Helper()
	for document := range strings.SplitSeq(text, "\n---") {
		content, err := yaml.YAMLToJSONStrict([]byte(strings.TrimPrefix(document, "---")))
		if err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if string(content) == "null" { // nothing but comments
			continue
		}
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON(content); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		all = append(all, o)
	}
	return all
}

// moved is a copy of objects in another namespace, so that several renderings have room in one server.
func moved(all []*unstructured.Unstructured, namespace string) (there []*unstructured.Unstructured) {
	for _, o := range all {
		o = o.DeepCopy()
		o.SetNamespace(namespace)
		subjects, _, _ := unstructured.NestedSlice(o.Object, "subjects")
		for _, subject := range subjects {
			subject.(map[string]any)["namespace"] = namespace
		}
		if len(subjects) > 0 {
			o.Object["subjects"] = subjects
		}
		there = append(there, o)
	}
	return there
}

// find is the object of a kind and name.
func find(t *testing.T, all []*unstructured.Unstructured, kind, name string) *unstructured.Unstructured {
	t.Helper()
	for _, o := range all {
		if o.GetKind() == kind && o.GetName() == name {
			return o
		}
	}
	t.Fatalf("there is no %s %s", kind, name)
	return nil
}
