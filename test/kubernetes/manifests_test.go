package kubernetes

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/shardonnay/shardonnay/internal/config"
	"github.com/shardonnay/shardonnay/internal/plan"
)

// TestEveryObjectIsTaken: the API server takes every object of every rendering, each field of it, and admits every pod to
// a namespace for pods of the strictest kind.
func TestEveryObjectIsTaken(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	p := startControlPlane(t)
	p.define(ctx, t)
	renderings := map[string]func() []*unstructured.Unstructured{
		"kustomize-dry-run":    func() []*unstructured.Unstructured { return kustomize(t, overlaysDir+"dry-run") },
		"kustomize-act":        func() []*unstructured.Unstructured { return kustomize(t, overlaysDir+"act") },
		"kustomize-everything": func() []*unstructured.Unstructured { return kustomize(t, everythingIn) },
	}
	for name, given := range map[string]values{
		"helm-default":    {},
		"helm-everything": everything(),
		"helm-one": {
			"replicas": 1, "secret": "", "networkPolicy": values{"enabled": false},
			"config": values{"election": values{"lease": ""}, "connection": values{"username": "", "password_file": "", "ca_file": ""}},
		},
		"helm-placed": {
			"image": values{"repository": "registry.example/shardonnay", "tag": "1.2.3"}, "imagePullSecrets": []any{values{"name": "pull"}},
			"priorityClassName": "system-cluster-critical", "nodeSelector": values{"kubernetes.io/os": "linux"},
			"tolerations":   []any{values{"key": "search", "operator": "Exists"}},
			"networkPolicy": values{"searchPorts": []any{9200, 9201}},
			"config":        values{"limits": values{"in_flight": 2}, "pin": values{"indices": []any{"logs-*"}}},
		},
	} {
		renderings[name] = func() []*unstructured.Unstructured {
			all, _ := helm(t, name, given)
			return all
		}
	}
	objects, pods := 0, 0
	for _, name := range slices.Sorted(maps.Keys(renderings)) {
		t.Run(name, func(t *testing.T) {
			p.namespace(ctx, t, name)
			all := moved(renderings[name](), name)
			for _, o := range all {
				objects++
				if err := p.apply(ctx, o); err != nil {
					t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
				}
			}
			for _, template := range templates(t, all) {
				pods++
				if err := p.admit(ctx, name, template); err != nil {
					t.Errorf("a pod: %v", err)
				}
				checkPod(t, template)
			}
			checkConfig(t, all)
			checkMonitoring(t, all)
		})
	}
	t.Logf("%d objects of %d renderings taken, %d pods admitted", objects, len(renderings), pods)

	// The server would have refused what is wrong.
	all := moved(kustomize(t, overlaysDir+"dry-run"), "kustomize-dry-run")
	deployment := find(t, all, "Deployment", "shardonnay").DeepCopy()
	if err := unstructured.SetNestedField(deployment.Object, true, "spec", "template", "spec", "hostNetwrok"); err != nil {
		t.Fatal(err)
	}
	if err := p.apply(ctx, deployment); err == nil || !strings.Contains(err.Error(), "hostNetwrok") {
		t.Errorf("a field that does not exist is taken: %v", err)
	}
	for name, weaken := range map[string]func(*core.PodSpec){
		"root":       func(s *core.PodSpec) { s.SecurityContext.RunAsNonRoot = nil },
		"seccomp":    func(s *core.PodSpec) { s.SecurityContext.SeccompProfile = nil },
		"privileges": func(s *core.PodSpec) { s.Containers[0].SecurityContext.AllowPrivilegeEscalation = nil },
		"powers":     func(s *core.PodSpec) { s.Containers[0].SecurityContext.Capabilities = nil },
	} {
		template := templates(t, all)[0]
		weaken(&template.Spec)
		if err := p.admit(ctx, "kustomize-dry-run", template); !apierrors.IsForbidden(err) {
			t.Errorf("%s: a weaker pod is admitted: %v", name, err)
		}
	}
}

// templates are the pods that objects would make.
func templates(t *testing.T, all []*unstructured.Unstructured) (found []*core.PodTemplateSpec) {
	t.Helper()
	for _, o := range all {
		switch o.GetKind() {
		case "Deployment":
			found = append(found, &as[apps.Deployment](t, o).Spec.Template)
		case "Job":
			found = append(found, &as[batch.Job](t, o).Spec.Template)
		case "CronJob":
			found = append(found, &as[batch.CronJob](t, o).Spec.JobTemplate.Spec.Template)
		}
	}
	return found
}

// checkPod is what no admission asks for.
func checkPod(t *testing.T, template *core.PodTemplateSpec) {
	t.Helper()
	spec := &template.Spec
	container := &spec.Containers[0]
	if read := container.SecurityContext.ReadOnlyRootFilesystem; read == nil || !*read {
		t.Error("the root file system can be written to")
	}
	daemon := template.Labels["app.kubernetes.io/component"] == "daemon"
	if mounts := spec.AutomountServiceAccountToken; mounts == nil || *mounts && !daemon {
		t.Error("a pod that needs no token gets one")
	}
	most := resource.MustParse(strings.TrimSuffix(env(container, "GOMEMLIMIT"), "B"))
	if limit := container.Resources.Limits.Memory(); 2*most.Value() >= limit.Value() {
		t.Errorf("GOMEMLIMIT %s leaves two processes no room in %s", &most, limit)
	}
	if !daemon {
		return
	}
	if container.StartupProbe == nil || container.LivenessProbe == nil || container.ReadinessProbe == nil {
		t.Error("a probe is missing")
	}
	// 10 s for giving back, 5 for the Lease, 5 for the web server.
	if grace := spec.TerminationGracePeriodSeconds; grace == nil || *grace < 20+5 {
		t.Error("the grace period is too short to end in")
	}
}

func env(container *core.Container, name string) string {
	for _, variable := range container.Env {
		if variable.Name == name {
			return variable.Value
		}
	}
	return ""
}

// checkConfig reads the configuration as the program would, with the Secret's files in place.
func checkConfig(t *testing.T, all []*unstructured.Unstructured) {
	t.Helper()
	secrets, dir := t.TempDir(), t.TempDir()
	for _, name := range []string{"password", "ca.crt"} {
		if err := os.WriteFile(filepath.Join(secrets, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text := configOf(t, all)
	file := filepath.Join(dir, "shardonnay.yaml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, "/etc/shardonnay/secret", secrets)), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(file, nil)
	if err != nil {
		t.Errorf("%v in\n%s", err, text)
		return
	}
	deployment := as[apps.Deployment](t, find(t, all, "Deployment", "shardonnay"))
	container := &deployment.Spec.Template.Spec.Containers[0]
	if *deployment.Spec.Replicas > 1 && c.Election.Lease == "" {
		t.Error("several instances and no election")
	}
	for _, path := range []string{c.State.Dir, "/etc/shardonnay/config"} {
		if !slices.ContainsFunc(container.VolumeMounts, func(m core.VolumeMount) bool { return m.MountPath == path }) {
			t.Errorf("nothing is mounted at %s", path)
		}
	}
	if want := fmt.Sprintf(":%d", container.Ports[0].ContainerPort); c.HTTP.Listen != want {
		t.Errorf("it listens at %s, the container's port is %s", c.HTTP.Listen, want)
	}
}

func configOf(t *testing.T, all []*unstructured.Unstructured) string {
	t.Helper()
	return as[core.ConfigMap](t, find(t, all, "ConfigMap", "shardonnay")).Data["shardonnay.yaml"]
}

// checkMonitoring holds what is for the Prometheus operator against the operator's own types.
func checkMonitoring(t *testing.T, all []*unstructured.Unstructured) {
	t.Helper()
	for _, o := range all {
		switch o.GetKind() {
		case "ServiceMonitor":
			monitor := as[monitoring.ServiceMonitor](t, o)
			service := as[core.Service](t, find(t, all, "Service", "shardonnay"))
			for key, value := range monitor.Spec.Selector.MatchLabels {
				if service.Labels[key] != value {
					t.Errorf("the ServiceMonitor looks for %s=%s, the Service has %q", key, value, service.Labels[key])
				}
			}
			if monitor.Spec.Endpoints[0].Port != service.Spec.Ports[0].Name {
				t.Errorf("the ServiceMonitor reads port %s", monitor.Spec.Endpoints[0].Port)
			}
		case "PrometheusRule":
			rule := as[monitoring.PrometheusRule](t, o)
			if len(rule.Spec.Groups) == 0 {
				t.Error("a PrometheusRule without rules")
			}
		}
	}
}

// TestModes: what is shipped moves nothing unless somebody chooses to, and acts with small steps.
func TestModes(t *testing.T) {
	chosen, _ := helm(t, "shardonnay", values{"config": values{"mode": "act"}})
	unchosen, notes := helm(t, "shardonnay", nil)
	for name, test := range map[string]struct {
		all  []*unstructured.Unstructured
		mode plan.Mode
	}{
		"base":    {kustomize(t, "../../deploy/kubernetes/base"), plan.DryRun},
		"dry-run": {kustomize(t, overlaysDir+"dry-run"), plan.DryRun},
		"act":     {kustomize(t, overlaysDir+"act"), plan.Act},
		"chart":   {unchosen, plan.DryRun},
		"chosen":  {chosen, plan.Act},
	} {
		if text := configOf(t, test.all); !strings.Contains(text, "mode: "+string(test.mode)+"\n") {
			t.Errorf("%s is not of mode %s:\n%s", name, test.mode, text)
		}
	}
	if !strings.Contains(notes, "mode dry-run") || !strings.Contains(notes, "It moves nothing") {
		t.Errorf("the notes do not say what it does:\n%s", notes)
	}
	// The overlay's file is the base's but for the mode and the small steps.
	dry, act := strings.Split(configOf(t, kustomize(t, overlaysDir+"dry-run")), "\n"), strings.Split(configOf(t, kustomize(t, overlaysDir+"act")), "\n")
	var differing []string
	for _, line := range act {
		if !slices.Contains(dry, line) {
			differing = append(differing, strings.TrimSpace(line))
		}
	}
	for _, line := range dry {
		if !slices.Contains(act, line) {
			differing = append(differing, "not "+strings.TrimSpace(line))
		}
	}
	want := []string{
		"mode: act", "# Small steps to begin with; leave them out when you have seen it work.", "limits:", "max_moves_per_cycle: 3", "in_flight: 1",
		"not mode: dry-run",
	}
	if diff := cmp.Diff(want, differing); diff != "" {
		t.Errorf("the overlay act differs from dry-run in other ways (-want +got):\n%s", diff)
	}
}

// TestChartAndKustomizationAgree: the same objects with the same content, labels of Helm's own aside.
func TestChartAndKustomizationAgree(t *testing.T) {
	plain, _ := helm(t, "shardonnay", nil)
	all, _ := helm(t, "shardonnay", everything())
	for name, pair := range map[string][2][]*unstructured.Unstructured{
		"default":    {kustomize(t, overlaysDir+"dry-run"), plain},
		"everything": {kustomize(t, everythingIn), all},
	} {
		if diff := cmp.Diff(byName(pair[0]), byName(pair[1])); diff != "" {
			t.Errorf("%s: kustomize (-) and Helm (+) differ:\n%s", name, diff)
		}
	}
}

// byName gives objects by kind and name, without what is a matter of the tool.
func byName(all []*unstructured.Unstructured) map[string]any {
	found := make(map[string]any)
	for _, o := range all {
		o = o.DeepCopy()
		var strip func(value any)
		strip = func(value any) {
			switch value := value.(type) {
			case map[string]any:
				for _, label := range []string{"helm.sh/chart", "app.kubernetes.io/managed-by", "app.kubernetes.io/version"} {
					delete(value, label)
				}
				delete(value, "imagePullPolicy")
				for _, v := range value {
					strip(v)
				}
			case []any:
				for _, v := range value {
					strip(v)
				}
			}
		}
		strip(o.Object)
		name := o.GetName()
		if o.GetKind() == "Job" { // a release makes one for each revision
			name = strings.TrimSuffix(name, "-1")
			o.SetName(name)
		}
		if o.GetKind() == "ConfigMap" && name == "shardonnay" {
			// The file is written by a person here and by a printer there; what it says is compared by TestModes and checkConfig.
			delete(o.Object, "data")
		}
		found[o.GetKind()+" "+name] = o.Object
	}
	return found
}

// TestChartIsClean: Helm's own linter has nothing to say.
func TestChartIsClean(t *testing.T) {
	for name, given := range map[string]values{"default": {}, "everything": everything()} {
		for _, message := range lint.RunAll(chartDir, given, "shardonnay").Messages {
			if !strings.Contains(message.Err.Error(), "icon is recommended") {
				t.Errorf("%s: %v", name, message)
			}
		}
	}
}

// TestValuesThatMakeNoSense are refused before anything is installed, and the message names the key.
func TestValuesThatMakeNoSense(t *testing.T) {
	for name, test := range map[string]struct {
		given values
		word  string
	}{
		"a key that does not exist":         {values{"replcias": 3}, "replcias"},
		"a key of the configuration's":      {values{"config": values{"limits": values{"in_flihgt": 3}}}, "in_flihgt"},
		"a section of the configuration's":  {values{"config": values{"limtis": values{}}}, "limtis"},
		"a mode":                            {values{"config": values{"mode": "atc"}}, "mode"},
		"a password":                        {values{"config": values{"connection": values{"password": "secret"}}}, "password"},
		"two instances and nobody to elect": {values{"config": values{"election": values{"lease": ""}}}, "lease"},
		"no instance":                       {values{"replicas": 0}, "replicas"},
		"text for a switch":                 {values{"serviceMonitor": values{"enabled": "yes please"}}, "enabled"},
		"a port that is none":               {values{"networkPolicy": values{"searchPorts": []any{0}}}, "searchPorts"},
		"memory that is none":               {values{"goMemLimit": "lots"}, "goMemLimit"},
	} {
		if _, err := helmFiles(t, "shardonnay", test.given); err == nil || !strings.Contains(err.Error(), test.word) {
			t.Errorf("%s: %v, want a message with %q", name, err, test.word)
		} else if strings.Contains(err.Error(), "secret\"") {
			t.Errorf("%s: the message shows a secret: %v", name, err)
		}
	}
}
