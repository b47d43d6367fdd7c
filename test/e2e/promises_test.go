package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardonnay/shardonnay/internal/plan"
	"github.com/shardonnay/shardonnay/test/realcluster"
)

// slowRecovery makes a move last: some megabytes at this speed take ten seconds and more.
const slowRecovery = "1mb"

// lopsided builds a small cluster whose bytes are uneven, so that there is something to move without any traffic: eight
// indices with some data on one node, one on each other.
func lopsided(ctx context.Context, t *testing.T, c *realcluster.Cluster, docs int) {
	t.Helper()
	// The server's own balancer would level the counts while we pile up.
	if err := c.PutSettings(ctx, map[string]any{"cluster.routing.allocation.balance.threshold": 1000}); err != nil {
		t.Fatal(err)
	}
	nodes := c.Nodes()
	names := make([]string, 0, len(nodes)+7)
	for i, node := range nodes {
		n := 1
		if i == len(nodes)-1 {
			n = 8
		}
		for k := range n {
			name := fmt.Sprintf("stack-%s-%d", node.Name, k)
			// The servers measure a store once in ten seconds; a plan made at once would see empty indices.
			index := realcluster.Index{Name: name, Node: node.Name, Settings: map[string]any{"store.stats_refresh_interval": "100ms"}}
			if err := c.CreateIndex(ctx, index); err != nil {
				t.Fatal(err)
			}
			names = append(names, name)
		}
	}
	for _, name := range names {
		fill(ctx, t, c, name, docs)
	}
	if err := c.WaitGreen(ctx); err != nil {
		t.Fatal(err)
	}
}

// fill writes documents that hardly compress: a kilobyte and a half each.
func fill(ctx context.Context, t *testing.T, c *realcluster.Cluster, index string, docs int) {
	t.Helper()
	const batch = 500
	random := uint64(len(index)) + 88172645463325252
	var text [1500]byte
	for from := 0; from < docs; from += batch {
		var bulk strings.Builder
		for range min(batch, docs-from) {
			for i := range text {
				random ^= random << 13
				random ^= random >> 7
				random ^= random << 17
				text[i] = 'a' + byte(random%26)
			}
			fmt.Fprintf(&bulk, "{\"index\":{}}\n{\"text\":%q}\n", text[:])
		}
		var answer struct {
			Errors bool `json:"errors"`
		}
		if err := c.Post(ctx, "/"+index+"/_bulk", bulk.String(), &answer); err != nil || answer.Errors {
			t.Fatalf("bulk into %s: %v, errors %t", index, err, answer.Errors)
		}
	}
	if err := c.Post(ctx, "/"+index+"/_flush", nil, nil); err != nil {
		t.Fatal(err)
	}
}

// onlyDisk balances bytes alone, eagerly.
func onlyDisk(c *realcluster.Cluster, mode, stateDir string) settings {
	return fast(c, mode, stateDir).with("balance", settings{"dimensions": []string{"disk"}})
}

// TestDryRunChangesNothing: plan and a dry-running daemon leave the cluster's state version and settings as they were, and
// what plan printed is what apply does, move for move.
func TestDryRunChangesNothing(t *testing.T) {
	realcluster.ForEach(t, func(t *testing.T, p realcluster.Product) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		c := realcluster.Shared(t, p)
		lopsided(ctx, t, c, 200)
		config := onlyDisk(c, "dry-run", t.TempDir())
		file := config.file(t)
		saved := filepath.Join(t.TempDir(), "plan.json")

		version, settingsBefore := state(ctx, t, c)
		printed, code := run(t, "plan", "--config", file, "--one-sample", "--save", saved, "-o", "json", "--detailed-exit-code")
		if code != 10 {
			t.Fatalf("plan ended with %d, want 10: there are moves; it said\n%s", code, printed)
		}
		d := startDaemon(t, config)
		d.await(t, time.Minute, "a held cycle", func(l logLine) bool { return l.Message == "cycle" && l.Outcome == "held" })
		if code, body := d.get(t, "/api/v1/plan"); code != 200 || !json.Valid(body) {
			t.Errorf("/api/v1/plan: %d", code)
		}
		if code := d.stop(t); code != 0 {
			t.Errorf("the daemon ended with %d", code)
		}
		after, settingsAfter := state(ctx, t, c)
		if after != version {
			t.Errorf("the cluster's state version went from %d to %d", version, after)
		}
		if settingsAfter != settingsBefore {
			t.Errorf("settings went from %s to %s", settingsBefore, settingsAfter)
		}

		shown, err := plan.Read(strings.NewReader(printed))
		if err != nil {
			t.Fatalf("the printed plan cannot be read: %v", err)
		}
		if _, code := run(t, "apply", saved, "--config", file); code != 2 {
			t.Errorf("apply without --yes ended with %d, want 2", code)
		}
		if now, _ := state(ctx, t, c); now != version {
			t.Error("apply without --yes changed the cluster")
		}
		if out, code := run(t, "apply", saved, "--config", file, "--yes"); code != 0 {
			t.Fatalf("apply ended with %d: %s", code, out)
		}
		where := places(ctx, t, c)
		for _, move := range shown.Moves {
			if !slices.Contains(where[fmt.Sprintf("%s/%d", move.Index, move.Shard)], move.To.Name) {
				t.Errorf("%s/%d is on %v, the plan said %s", move.Index, move.Shard, where[fmt.Sprintf("%s/%d", move.Index, move.Shard)], move.To.Name)
			}
		}
		moved := 0
		for key, nodes := range where {
			origin := strings.Split(key, "-")[1]
			if strings.HasPrefix(key, "stack-") && !slices.Contains(nodes, origin) {
				moved++
			}
		}
		if moved != len(shown.Moves) {
			t.Errorf("%d copies moved, the plan had %d moves", moved, len(shown.Moves))
		}
		if got := setting(t, c, rebalanceKey); got != "" {
			t.Errorf("%s is %q after apply", rebalanceKey, got)
		}
		// The same plan again, as after an interruption: every copy is there already, and stays.
		out, code := run(t, "apply", saved, "--config", file, "--yes")
		if code != 0 || strings.Count(out, "landed: it was there already") != len(shown.Moves) {
			t.Errorf("applying the plan again ended with %d: %s", code, out)
		}
		if again := places(ctx, t, c); !reflect.DeepEqual(again, where) {
			t.Errorf("applying the plan again moved copies: %v, before %v", again, where)
		}
	})
}

// TestKilledDaemon: SIGKILL in the middle of a move. A new start adopts the move and does not repeat it; without one,
// release restores the setting.
func TestKilledDaemon(t *testing.T) {
	for _, p := range []realcluster.Product{realcluster.OpenSearch2, realcluster.Elasticsearch8} {
		t.Run(p.Name(), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			c := realcluster.Shared(t, p)
			lopsided(ctx, t, c, 3000)
			if err := c.PutSettings(ctx, map[string]any{"indices.recovery.max_bytes_per_sec": slowRecovery}); err != nil {
				t.Fatal(err)
			}
			settingBefore := setting(t, c, rebalanceKey)
			config := onlyDisk(c, "act", t.TempDir())

			first := startDaemon(t, config)
			started := first.await(t, time.Minute, "a move under way", func(l logLine) bool { return l.Message == "move started" })
			first.kill(t)
			if moving := relocating(ctx, t, c); len(moving) == 0 {
				t.Fatal("nothing is relocating after the kill: the test moved too fast to mean anything")
			}
			if got := setting(t, c, rebalanceKey); got != "none" {
				t.Fatalf("%s is %q after the kill", rebalanceKey, got)
			}

			second := startDaemon(t, config)
			adopted := second.await(t, 90*time.Second, "the end of the adopted move", func(l logLine) bool {
				return l.Message == "move ended" && l.Adopted && l.Index == started.Index
			})
			if adopted.State != "landed" {
				t.Errorf("the adopted move ended as %s: %s", adopted.State, adopted.Reason)
			}
			second.mu.Lock()
			for _, line := range second.lines {
				if line.Message == "move started" && !line.Adopted && line.Index == started.Index {
					t.Error("the adopted move was asked for again")
				}
			}
			second.mu.Unlock()
			second.kill(t) // dies holding rebalancing

			out, code := run(t, "release", "--config", config.file(t))
			if code != 0 {
				t.Errorf("release ended with %d", code)
			}
			t.Logf("release: %s", out)
			if got := setting(t, c, rebalanceKey); got != settingBefore {
				t.Errorf("%s is %q after release, it was %q", rebalanceKey, got, settingBefore)
			}
			if owner := setting(t, c, "persistent.cluster.metadata.shardonnay.owner"); owner != "" {
				t.Errorf("the ownership record is still there: %s", owner)
			}
		})
	}
}

// TestNodeDiesDuringMove: a data node is killed while a copy moves to it. Nothing is lost, the daemon stops moving and says
// why, and goes on when the cluster is well again.
func TestNodeDiesDuringMove(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	c := realcluster.Start(t, realcluster.Options{Product: realcluster.OpenSearch2, Nodes: 5, ProcessPerNode: true})
	lopsided(ctx, t, c, 3000)
	docs, err := c.DocCount(ctx, "stack-*")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.PutSettings(ctx, map[string]any{"indices.recovery.max_bytes_per_sec": slowRecovery}); err != nil {
		t.Fatal(err)
	}
	d := startDaemon(t, onlyDisk(c, "act", t.TempDir()).with("stop", settings{"node_settle": "2s"}))
	move := d.await(t, time.Minute, "a move under way", func(l logLine) bool { return l.Message == "move started" })
	victim := slices.IndexFunc(c.Nodes(), func(n realcluster.Node) bool { return n.Name == move.To })
	if err := c.Kill(victim); err != nil {
		t.Fatal(err)
	}
	killed := d.position()
	stopped, ok := d.awaitFrom(killed, 90*time.Second, func(l logLine) bool {
		return l.Message == "cycle" && (l.Outcome == "cluster_not_ready" || l.Outcome == "snapshot_incomplete") ||
			l.Message == "cycle" && l.Outcome == "moved" && l.Reason != ""
	})
	if !ok {
		t.Fatalf("the daemon did not stop moving: %v", d.cycles())
	}
	if stopped.Reason == "" {
		t.Error("it did not say why")
	}
	t.Logf("stopped: %s: %s", stopped.Outcome, stopped.Reason)
	if err := c.Restart(ctx, victim); err != nil {
		t.Fatal(err)
	}
	back := d.position()
	if _, ok := d.awaitFrom(back, 90*time.Second, func(l logLine) bool {
		return l.Message == "cycle" && (l.Outcome == "moved" || l.Outcome == "balanced")
	}); !ok {
		t.Errorf("the daemon did not go on after the node was back: %v", d.cycles())
	}
	if code := d.stop(t); code != 0 {
		t.Errorf("the daemon ended with %d", code)
	}
	if err := c.PutSettings(ctx, map[string]any{"indices.recovery.max_bytes_per_sec": nil}); err != nil {
		t.Fatal(err)
	}
	if err := c.WaitGreen(ctx); err != nil {
		t.Fatal(err)
	}
	if now, err := c.DocCount(ctx, "stack-*"); err != nil || now != docs {
		t.Errorf("%d documents, there were %d (%v)", now, docs, err)
	}
}

// state is the cluster's state version and all its settings as text.
func state(ctx context.Context, t *testing.T, c *realcluster.Cluster) (int64, string) {
	t.Helper()
	version, err := c.StateVersion(ctx)
	if err != nil {
		t.Fatal(err)
	}
	all, err := c.Settings(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return version, fmt.Sprint(all)
}

// places lists the nodes of every shard's copies.
func places(ctx context.Context, t *testing.T, c *realcluster.Cluster) map[string][]string {
	t.Helper()
	all, err := c.Copies(ctx)
	if err != nil {
		t.Fatal(err)
	}
	at := make(map[string][]string)
	for _, k := range all {
		key := fmt.Sprintf("%s/%d", k.Index, k.Shard)
		at[key] = append(at[key], k.Node)
	}
	return at
}

// relocating lists the copies that are on their way.
func relocating(ctx context.Context, t *testing.T, c *realcluster.Cluster) (moving []realcluster.Copy) {
	t.Helper()
	all, err := c.Copies(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range all {
		if k.State == "RELOCATING" {
			moving = append(moving, k)
		}
	}
	return moving
}
