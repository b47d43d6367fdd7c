package e2e

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/shardonnay/shardonnay/internal/doctor"
	"github.com/shardonnay/shardonnay/test/realcluster"
)

// TestSecured goes from a user who may read to one who may act, on a cluster that checks users for real: what
// docs/operations.md has an administrator type is enough for reading and no more, the doctor says what acting lacks, and its
// cure, as printed, is enough for acting.
func TestSecured(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	c := realcluster.Start(t, realcluster.Options{Product: realcluster.OpenSearchSecured, Nodes: 3})
	const password = "seven, long and hard to guess" // the plugin refuses weak ones
	reading := reading(t, "/_plugins/_security/")
	for _, request := range reading {
		cure(ctx, t, c, strings.ReplaceAll(request, "PASSWORD", password))
	}
	lopsided(ctx, t, c, 300)
	_, before := state(ctx, t, c)

	asUser := onlyDisk(c, "act", "").with("connection", settings{
		"username": "shardonnay", "password_file": secretFile(t, password), "ca_file": c.CAFile(),
	})
	config := asUser.file(t)
	consult := func() []doctor.Finding { return examined(t, "--config", config) }
	found := consult()
	refused := find(t, found, "reroute-refused", "cluster")
	t.Logf("%s %s: %s; cure: %s", refused.Severity, refused.Subject, refused.Text, refused.Cure)
	administrator := asUser.with("connection", settings{
		"username": realcluster.Administrator, "password_file": secretFile(t, realcluster.AdministratorPassword),
	}).file(t)
	others := slices.DeleteFunc(found, func(f doctor.Finding) bool { return f.ID == refused.ID })
	if diff := cmp.Diff(examined(t, "--config", administrator), others); diff != "" {
		t.Errorf("what the documentation gives a reader is not enough to see what an administrator sees:\n%s", diff)
	}
	if !strings.Contains(refused.Text, "cluster:admin/reroute") {
		t.Errorf("the privilege that lacks is not named: %s", refused.Text)
	}
	captured := filepath.Join(t.TempDir(), "capture")
	for _, args := range [][]string{{"plan", "--one-sample", "--config", config}, {"capture", captured, "--config", config}} {
		out, code := run(t, args...)
		if code != 0 {
			t.Fatalf("%v as a user who may read: exit code %d", args, code)
		}
		if strings.Contains(out, password) {
			t.Errorf("%v prints the password:\n%s", args, out)
		}
	}
	mustNotContain(t, captured, password)
	if _, code := run(t, "plan", "--one-sample", "--config", asUser.with("connection", settings{"password_file": secretFile(t, "another")}).file(t)); code != 3 {
		t.Errorf("a wrong password ends with %d, want 3", code)
	}

	cure(ctx, t, c, refused.Cure)
	if left := ids(consult()); slices.Contains(left, "reroute-refused") {
		t.Errorf("after its cure it is still found: %v", left)
	}
	d := startDaemon(t, asUser)
	d.await(t, time.Minute, "a copy that lands", func(l logLine) bool { return l.State == "landed" })
	if code := d.stop(t); code != 0 {
		t.Errorf("the daemon ended with %d", code)
	}
	for _, line := range d.lines {
		if strings.Contains(line.raw, password) {
			t.Errorf("the log has the password: %s", line.raw)
		}
	}
	if _, after := state(ctx, t, c); after != before {
		t.Errorf("settings left behind: %s, before %s", after, before)
	}
}

// reading are the requests by which docs/operations.md makes a user who may read, those below the path.
func reading(t *testing.T, path string) (requests []string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Privileges\n")
	section, _, _ = strings.Cut(section, "\nActing needs ")
	for line := range strings.Lines(section) {
		if request := strings.TrimSpace(line); strings.HasPrefix(request, "PUT "+path) {
			requests = append(requests, request)
		}
	}
	if len(requests) == 0 {
		t.Fatalf("docs/operations.md has no request below %s", path)
	}
	return requests
}

// secretFile writes a secret where a configuration may point to.
func secretFile(t *testing.T, secret string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(name, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// mustNotContain looks through all files of a folder.
func mustNotContain(t *testing.T, folder, secret string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if strings.Contains(string(content), secret) {
			t.Errorf("%s has the password", entry.Name())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
