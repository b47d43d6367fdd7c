// Package deploy tests what is shipped beside the program.
package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The unit is one that systemd takes, and shuts its process in.
func TestSystemdUnit(t *testing.T) {
	systemd, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("NOT TESTED: this machine has no systemd-analyze (Debian package systemd)")
	}
	unit, err := os.ReadFile(filepath.Join("..", "..", "deploy", "systemd", "shardonnay.service"))
	if err != nil {
		t.Fatal(err)
	}
	// The program is not installed here; verify wants one that is.
	const program = "/usr/local/bin/shardonnay"
	if !strings.Contains(string(unit), program+" run --config") {
		t.Fatalf("the unit does not start %s", program)
	}
	here, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "shardonnay.service")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(unit), program, here)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), systemd, "verify", "--man=no", file).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	// 2.0 is where systemd's own scale begins to find a service exposed.
	if out, err := exec.CommandContext(t.Context(), systemd, "security", "--offline=true", "--threshold=20", file).CombinedOutput(); err != nil {
		t.Errorf("systemd-analyze security: %v\n%s", err, out)
	}
}
