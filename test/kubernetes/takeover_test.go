package kubernetes

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	rbac "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/shardonnay/shardonnay/test/realcluster"
)

// takeoverLimit is within how much time after a leader was killed another one owns rebalancing.
const takeoverLimit = 20 * time.Second

const namespace = "shardonnay"

// bed is two daemons' world: an API server with what is shipped applied to it, and a search cluster.
type bed struct {
	plane     *controlPlane
	search    *realcluster.Cluster
	chronicle *chronicle
	gateways  map[string]*gateway
	pipes     map[string]*pipe
	configs   map[string]string
	skewed    int
}

func newBed(ctx context.Context, t *testing.T, change values) *bed {
	t.Helper()
	realcluster.OpenSearch2.SkipUnlessAvailable(t)
	b := &bed{
		plane: startControlPlane(t), search: realcluster.Start(t, realcluster.Options{Product: realcluster.OpenSearch2, Nodes: 3}),
		chronicle: &chronicle{}, gateways: map[string]*gateway{}, pipes: map[string]*pipe{}, configs: map[string]string{},
	}
	b.plane.namespace(ctx, t, namespace)
	all := kustomize(t, overlaysDir+"act")
	for _, o := range all {
		if slices.Contains([]string{"ServiceAccount", "Role", "RoleBinding"}, o.GetKind()) {
			if err := b.plane.apply(ctx, o); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, name := range []string{"one", "two"} {
		b.gateways[name] = newGateway(t, b.chronicle, name, b.search.Addresses()[0])
		b.pipes[name] = newPipe(t, b.plane.url)
		b.configs[name] = b.config(ctx, t, configOf(t, all), name, change)
	}
	// The server's own balancer would level the counts while they are skewed on purpose.
	if err := b.search.PutSettings(ctx, map[string]any{"cluster.routing.allocation.balance.threshold": 1000}); err != nil {
		t.Fatal(err)
	}
	return b
}

// config is the shipped configuration, in a hurry: it balances the number of copies, each second, and reaches both clusters
// by ways of the test's own.
func (b *bed) config(ctx context.Context, t *testing.T, shipped, name string, change values) string {
	t.Helper()
	var c values
	if err := yaml.UnmarshalStrict([]byte(shipped), &c); err != nil {
		t.Fatal(err)
	}
	for key, section := range map[string]values{
		"cycle":    {"interval": "1s", "jitter": 0, "time_limit": "20s", "deadline": "20s"},
		"sampling": {"window": "1s", "settle": "1s"},
		"balance":  {"dimensions": []string{"shards"}, "move_cost": 0, "tolerance": 0.01},
		"pin":      {"newest": false, "write_share": 0},
		"limits":   {"max_moves_per_cycle": 3, "in_flight": 1, "cool_down": "0s"},
		"stop":     {"cpu": 0, "rejections": 0, "node_settle": "0s", "disk_margin": "0", "undone_moves": 1000},
		"solver":   {"time_limit": "300ms", "workers": 1},
	} {
		c[key] = section
	}
	c["connection"] = values{"addresses": []string{b.gateways[name].URL}}
	c["state"] = values{"dir": t.TempDir()}
	c["http"] = values{"listen": "127.0.0.1:0"}
	election := c["election"].(values)
	election["kubeconfig"] = b.plane.kubeconfig(ctx, t, b.pipes[name].url(), namespace, "shardonnay")
	for key, value := range change {
		c[key] = value
	}
	content, err := yaml.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "shardonnay.yaml")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// skew gives the daemons something to do: copies on one node alone.
func (b *bed) skew(ctx context.Context, t *testing.T) {
	t.Helper()
	for range 3 {
		b.skewed++
		if err := b.search.CreateIndex(ctx, realcluster.Index{Name: fmt.Sprintf("skew-%d", b.skewed), Node: b.search.Nodes()[b.skewed/3%3].Name}); err != nil {
			t.Fatal(err)
		}
	}
}

// owns waits until a daemon owns rebalancing.
func (d *daemon) owns(t *testing.T, from int, most time.Duration) (position int) {
	t.Helper()
	_, position = d.await(t, from, most, "owning rebalancing", func(l logLine) bool { return l.Message == "rebalancing taken over" })
	return position
}

// waits waits until a daemon says, to whoever asks whether it is ready, that another one leads.
func (d *daemon) waits(ctx context.Context, t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	await(ctx, t, d.name+" waits for another", func(context.Context) error {
		if code, text := d.get(t, "/readyz"); code != http.StatusOK || !strings.Contains(text, " leads") || strings.Contains(text, "nobody") {
			return fmt.Errorf("%d %s", code, text)
		}
		return nil
	})
	if code, text := d.get(t, "/healthz"); code != http.StatusOK {
		t.Errorf("%s waits and is not healthy: %s", d.name, text)
	}
}

// works waits until a daemon has asked for moves since a time.
func (b *bed) works(ctx context.Context, t *testing.T, d *daemon, since time.Time) time.Time {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var asked []event
	await(ctx, t, d.name+" asks for moves", func(context.Context) error {
		if asked = b.chronicle.since(since, d.name, acts); len(asked) == 0 {
			return fmt.Errorf("it has not")
		}
		return nil
	})
	return asked[0].at
}

// tidy checks that nothing of the daemons is left.
func (b *bed) tidy(ctx context.Context, t *testing.T) {
	t.Helper()
	settings, err := b.search.Settings(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range settings {
		if strings.Contains(key, "shardonnay") || strings.Contains(key, "rebalance.enable") {
			t.Errorf("left behind: %s is %s", key, value)
		}
	}
	lease, err := b.plane.admin.CoordinationV1().Leases(namespace).Get(ctx, "shardonnay", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if holder := lease.Spec.HolderIdentity; holder != nil && *holder != "" {
		t.Errorf("the Lease is still held by %s", *holder)
	}
}

// TestTakeover: two daemons with the token of the shipped ServiceAccount. One acts; killed, ten times, it is replaced
// within the limit; stopped for longer than an election lasts, or cut off from the API server, it does no harm when it is
// back; in the end nothing is left behind, and all the API server was asked is what the shipped Role allows, to the verb.
func TestTakeover(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	b := newBed(ctx, t, nil)
	b.skew(ctx, t)
	leader := startDaemon(t, "one", b.configs["one"])
	leader.owns(t, 0, time.Minute)
	b.works(ctx, t, leader, time.Time{})
	waiting := startDaemon(t, "two", b.configs["two"])
	waiting.waits(ctx, t)

	var owned, worked []time.Duration
	for range 10 {
		from, killed := waiting.position(), time.Now()
		leader.kill()
		waiting.owns(t, from, time.Minute)
		owned = append(owned, time.Since(killed))
		b.skew(ctx, t)
		worked = append(worked, b.works(ctx, t, waiting, killed).Sub(killed))
		leader, waiting = waiting, startDaemon(t, leader.name, b.configs[leader.name])
		waiting.waits(ctx, t)
	}
	t.Logf("after each of ten kills the other owned rebalancing within %s s", inSeconds(owned))
	slices.Sort(owned)
	slices.Sort(worked)
	t.Logf("killed ten times; the other owned rebalancing after %.1f to %.1f s (median %.1f), and asked for its first move after %.1f to %.1f s (median %.1f)",
		owned[0].Seconds(), owned[9].Seconds(), owned[5].Seconds(), worked[0].Seconds(), worked[9].Seconds(), worked[5].Seconds())
	if owned[9] > takeoverLimit {
		t.Errorf("a takeover lasted %s, at most %s are allowed", owned[9], takeoverLimit)
	}

	// Stopped, and woken when the other has long been at work: it finds out before it asks for anything.
	from, stopped := waiting.position(), time.Now()
	leader.signal(t, syscall.SIGSTOP)
	waiting.owns(t, from, time.Minute)
	b.skew(ctx, t)
	b.works(ctx, t, waiting, stopped)
	b.skew(ctx, t)
	woken := time.Now()
	leader.signal(t, syscall.SIGCONT)
	leader.waits(ctx, t)
	if late := b.chronicle.since(woken, leader.name, acts); len(late) > 0 {
		t.Errorf("%s was stopped for %s and asked for moves when it was woken", leader.name, woken.Sub(stopped))
	}
	leader, waiting = waiting, leader

	// Cut off from the API server alone: it could act and does not, and the other takes over.
	from, cut := waiting.position(), time.Now()
	b.pipes[leader.name].set(true)
	waiting.owns(t, from, time.Minute)
	t.Logf("cut off from the API server; the other owned rebalancing after %.1f s", time.Since(cut).Seconds())
	b.skew(ctx, t)
	b.works(ctx, t, waiting, cut)
	if code, text := leader.get(t, "/readyz"); code == http.StatusOK {
		t.Errorf("%s cannot reach the API server and is ready: %s", leader.name, text)
	}
	b.pipes[leader.name].set(false)
	leader.waits(ctx, t)
	leader, waiting = waiting, leader

	// Told to end: first the one who leads, so that the other leads once more, at once.
	from, told := waiting.position(), time.Now()
	leader.signal(t, syscall.SIGTERM)
	waiting.owns(t, from, 15*time.Second)
	t.Logf("told to end; the other owned rebalancing after %.1f s", time.Since(told).Seconds())
	waiting.signal(t, syscall.SIGTERM)
	for _, d := range []*daemon{leader, waiting} {
		select {
		case <-d.ended:
			if code := d.cmd.ProcessState.ExitCode(); code != 0 {
				t.Errorf("%s ended with %d", d.name, code)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("%s did not end within the grace period", d.name)
		}
	}
	b.tidy(ctx, t)
	b.chronicle.judge(t)
	b.permissions(ctx, t)
}

// inSeconds are durations as they follow each other.
func inSeconds(durations []time.Duration) string {
	var texts []string
	for _, d := range durations {
		texts = append(texts, fmt.Sprintf("%.1f", d.Seconds()))
	}
	return strings.Join(texts, ", ")
}

// permissions holds what the daemons have asked the API server against the shipped Role: nothing was refused, and there is
// no verb in it that they have not used.
func (b *bed) permissions(ctx context.Context, t *testing.T) {
	t.Helper()
	used := map[string]int{}
	for _, c := range b.plane.calls(t, namespace, "shardonnay") {
		if c.code == http.StatusForbidden || c.code == http.StatusUnauthorized {
			t.Errorf("refused: %s %s %s", c.verb, c.resource, c.name)
		}
		used[strings.TrimSpace(c.verb+" "+c.resource+" "+c.name)]++
	}
	allowed := map[string]bool{}
	role := as[rbac.Role](t, find(t, kustomize(t, overlaysDir+"act"), "Role", "shardonnay"))
	for _, rule := range role.Rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, verb := range rule.Verbs {
			for _, resource := range rule.Resources {
				for _, name := range names {
					allowed[strings.TrimSpace(verb+" "+rule.APIGroups[0]+"/"+resource+" "+name)] = true
				}
			}
		}
	}
	for call, times := range used {
		if !allowed[call] {
			t.Errorf("%d times they asked for %q, which the Role does not name", times, call)
		}
	}
	for call := range allowed {
		if used[call] == 0 {
			t.Errorf("the Role allows %q, which nobody has needed", call)
		}
	}
	t.Logf("asked of the API server: %v", used)

	// The token is good for nothing else.
	config, err := clientcmd.BuildConfigFromFlags("", b.plane.kubeconfig(ctx, t, b.plane.url, namespace, "shardonnay"))
	if err != nil {
		t.Fatal(err)
	}
	limited, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	_, secrets := limited.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{})
	_, other := limited.CoordinationV1().Leases(namespace).Get(ctx, "another", metav1.GetOptions{})
	gone := limited.CoordinationV1().Leases(namespace).Delete(ctx, "shardonnay", metav1.DeleteOptions{})
	for what, err := range map[string]error{"list secrets": secrets, "read another Lease": other, "delete the Lease": gone} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("the token lets it %s: %v", what, err)
		}
	}
}

// TestCutOffFromTheSearchCluster: a leader that cannot reach the search cluster makes way for one that can, once its record
// there has lapsed, and stands for election again when it can.
func TestCutOffFromTheSearchCluster(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	b := newBed(ctx, t, values{"ownership": values{"lease": "6s", "renew": "2s"}})
	b.skew(ctx, t)
	leader := startDaemon(t, "one", b.configs["one"])
	leader.owns(t, 0, time.Minute)
	b.works(ctx, t, leader, time.Time{})
	waiting := startDaemon(t, "two", b.configs["two"])
	waiting.waits(ctx, t)
	from, cut := waiting.position(), time.Now()
	b.gateways["one"].set(true)
	waiting.owns(t, from, time.Minute)
	t.Logf("cut off from the search cluster; the other owned rebalancing after %.1f s", time.Since(cut).Seconds())
	b.skew(ctx, t)
	b.works(ctx, t, waiting, cut)
	if code, text := leader.get(t, "/healthz"); code != http.StatusOK {
		t.Errorf("it cannot reach the search cluster and is taken for dead: %s", text)
	}
	if code, text := leader.get(t, "/readyz"); code == http.StatusOK {
		t.Errorf("it cannot reach the search cluster and is ready: %s", text)
	}
	b.gateways["one"].set(false)
	leader.waits(ctx, t)
	for _, d := range []*daemon{leader, waiting} {
		d.signal(t, syscall.SIGTERM)
		<-d.ended
		if code := d.cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("%s ended with %d", d.name, code)
		}
	}
	b.tidy(ctx, t)
	b.chronicle.judge(t)
}
