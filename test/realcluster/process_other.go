//go:build !linux

package realcluster

import "syscall"

// ChildAttributes puts a server into a process group of its own, so that a Ctrl-C at the terminal reaches the test
// alone, which then ends it in order.
func ChildAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
