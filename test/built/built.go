// Package built makes the program for tests that run it as its users do.
package built

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Main builds the program into a folder of its own, hands its file to run, and removes it again. It is called by a TestMain
// of a package two folders below the root, and gives the exit code of run, or 1 where the program does not build.
func Main(run func(program string) int) int {
	dir, err := os.MkdirTemp("", "shardonnay-built-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }() // what is left is in the folder for temporary things
	program := filepath.Join(dir, "shardonnay")
	build := exec.Command("go", "build", "-o", program, "../../cmd/shardonnay")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
		return 1
	}
	return run(program)
}
