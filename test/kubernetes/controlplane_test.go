package kubernetes

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	authentication "k8s.io/api/authentication/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// controlPlane is an API server with its store, and the way in for an administrator.
type controlPlane struct {
	url       string
	authority string // PEM file
	audit     string // file
	admin     kubernetes.Interface
	objects   dynamic.Interface
	mapper    *restmapper.DeferredDiscoveryRESTMapper
}

// auditPolicy writes down who asked for what, and what came of it, of the daemons alone.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    userGroups: [system:serviceaccounts]
  - level: None
`

// startControlPlane starts one for a test and ends it with the test.
func startControlPlane(t *testing.T) *controlPlane {
	t.Helper()
	began := time.Now()
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	const token = "the-administrator"
	store, peers, secure := freePort(t), freePort(t), freePort(t)
	p := &controlPlane{
		url: fmt.Sprintf("https://127.0.0.1:%d", secure), authority: filepath.Join(dir, "certificates", "apiserver.crt"), audit: filepath.Join(dir, "audit.log"),
	}
	serve(t, "etcd", "--data-dir", filepath.Join(dir, "store"), "--unsafe-no-fsync", "--log-level=error",
		"--listen-client-urls", local(store), "--advertise-client-urls", local(store), "--listen-peer-urls", local(peers),
		"--initial-advertise-peer-urls", local(peers), "--initial-cluster", "default="+local(peers))
	serve(t, "apiserver", "--etcd-servers="+local(store), fmt.Sprintf("--secure-port=%d", secure), "--bind-address=127.0.0.1",
		"--endpoint-reconciler-type=none", "--cert-dir="+filepath.Join(dir, "certificates"), "--service-cluster-ip-range=10.0.0.0/24",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+file("accounts.pub", pemText("PUBLIC KEY", public)),
		"--service-account-signing-key-file="+file("accounts.key", pemText("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key))),
		"--authorization-mode=RBAC", "--token-auth-file="+file("tokens.csv", token+`,admin,1,"system:masters"`),
		"--audit-policy-file="+file("audit.yaml", auditPolicy), "--audit-log-path="+p.audit, "--audit-log-mode=blocking", "--v=0")

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var config *rest.Config
	await(ctx, t, "the API server", func(ctx context.Context) error {
		if _, err := os.Stat(p.authority); err != nil {
			return err
		}
		config = &rest.Config{Host: p.url, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAFile: p.authority}, WarningHandler: rest.NoWarnings{}, QPS: -1}
		if p.admin, err = kubernetes.NewForConfig(config); err != nil {
			return err
		}
		return p.admin.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
	if p.objects, err = dynamic.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	p.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(p.admin.Discovery()))
	t.Logf("the control plane was up after %.1f s", time.Since(began).Seconds())
	return p
}

// serve starts a server, and shows the end of what it has said where the test fails.
func serve(t *testing.T, program string, args ...string) {
	t.Helper()
	said := &tail{}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s said at the end:\n%s", program, said.text())
		}
	})
	start(t, said, program, args...)
}

// tail keeps the end of what a server says.
type tail struct {
	mu   sync.Mutex
	said []byte
}

func (b *tail) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	const most = 8 << 10
	b.said = append(b.said, p...)
	b.said = b.said[max(0, len(b.said)-most):]
	return len(p), nil
}

func (b *tail) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.said)
}

func local(port int) string { return fmt.Sprintf("http://127.0.0.1:%d", port) }

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func pemText(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// await tries until it succeeds.
func await(ctx context.Context, t *testing.T, what string, try func(context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		last = try(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("%s: %v", what, last)
	}
}

// namespace makes one that admits only pods of the strictest kind.
func (p *controlPlane) namespace(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	_, err := p.admin.CoreV1().Namespaces().Create(ctx, &core.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/enforce-version": "latest",
	}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// A controller would make the account of pods that name none.
	account := &core.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	if _, err := p.admin.CoreV1().ServiceAccounts(name).Create(ctx, account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// define makes the kinds of the Prometheus operator known. Their fields are checked elsewhere, against the operator's own
// types: its definitions are not to be had as a module.
func (p *controlPlane) define(ctx context.Context, t *testing.T) {
	t.Helper()
	for kind, plural := range map[string]string{"ServiceMonitor": "servicemonitors", "PrometheusRule": "prometheusrules"} {
		definition := fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[2]s.monitoring.coreos.com}
spec:
  group: monitoring.coreos.com
  scope: Namespaced
  names: {kind: %[1]s, listKind: %[1]sList, plural: %[2]s, singular: %[3]s}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`, kind, plural, strings.ToLower(kind))
		for _, o := range objects(t, definition) {
			if err := p.apply(ctx, o); err != nil {
				t.Fatal(err)
			}
		}
	}
	await(ctx, t, "the kinds of the Prometheus operator", func(context.Context) error {
		p.mapper.Reset()
		for _, kind := range []string{"ServiceMonitor", "PrometheusRule"} {
			if _, err := p.mapper.RESTMapping(schema.GroupKind{Group: "monitoring.coreos.com", Kind: kind}, "v1"); err != nil {
				return err
			}
		}
		return nil
	})
}

// apply asks the server to make an object what it is here, and to refuse every field it does not know.
func (p *controlPlane) apply(ctx context.Context, o *unstructured.Unstructured) error {
	mapping, err := p.mapper.RESTMapping(o.GroupVersionKind().GroupKind(), o.GroupVersionKind().Version)
	if err != nil {
		return err
	}
	data, err := json.Marshal(o)
	if err != nil {
		return err
	}
	var to dynamic.ResourceInterface = p.objects.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		to = p.objects.Resource(mapping.Resource).Namespace(o.GetNamespace())
	}
	yes := true
	_, err = to.Patch(ctx, o.GetName(), types.ApplyPatchType, data, metav1.PatchOptions{
		FieldManager: "test", Force: &yes, FieldValidation: metav1.FieldValidationStrict,
	})
	return err
}

// admit asks the server whether it would take a pod of a template.
func (p *controlPlane) admit(ctx context.Context, namespace string, template *core.PodTemplateSpec) error {
	pod := &core.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.GenerateName, pod.Namespace = "pod-", namespace
	_, err := p.admin.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{
		DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict,
	})
	return err
}

// kubeconfig writes a file with which a daemon reaches the API server at an address with the token of a ServiceAccount.
func (p *controlPlane) kubeconfig(ctx context.Context, t *testing.T, url, namespace, account string) string {
	t.Helper()
	hour := int64(3600)
	token, err := p.admin.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account,
		&authentication.TokenRequest{Spec: authentication.TokenRequestSpec{ExpirationSeconds: &hour}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	content := fmt.Sprintf(`
apiVersion: v1
kind: Config
current-context: here
clusters: [{name: here, cluster: {server: %q, certificate-authority: %q}}]
users: [{name: daemon, user: {token: %q}}]
contexts: [{name: here, context: {cluster: here, user: daemon, namespace: %q}}]
`, url, p.authority, token.Status.Token, namespace)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// call is one request of a daemon as the API server has written it down.
type call struct {
	verb, resource, name string // name is empty where the request does not say it
	code                 int32
}

// calls lists what a ServiceAccount has asked for.
func (p *controlPlane) calls(t *testing.T, namespace, account string) (all []call) {
	t.Helper()
	content, err := os.ReadFile(p.audit)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(content) {
		var event struct {
			Verb      string `json:"verb"`
			URI       string `json:"requestURI"`
			User      struct{ Username string }
			ObjectRef *struct{ Resource, Subresource, Name, APIGroup string }
			Response  struct{ Code int32 } `json:"responseStatus"`
		}
		if err := json.Unmarshal(line, &event); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if event.User.Username != "system:serviceaccount:"+namespace+":"+account {
			continue
		}
		c := call{verb: event.Verb, resource: event.URI, code: event.Response.Code}
		if o := event.ObjectRef; o != nil {
			c.resource, c.name = strings.TrimSuffix(o.APIGroup+"/"+o.Resource+"/"+o.Subresource, "/"), o.Name
		}
		if c.verb == "create" {
			c.name = "" // in the body, where authorisation does not look
		}
		all = append(all, c)
	}
	return all
}

// as gives an object its type.
func as[T any](t *testing.T, o *unstructured.Unstructured) *T {
	t.Helper()
	typed := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, typed, true); err != nil {
		t.Fatalf("%s %s: %v", o.GetKind(), o.GetName(), err)
	}
	return typed
}
