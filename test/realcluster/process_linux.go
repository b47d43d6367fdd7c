package realcluster

import "syscall"

// ChildAttributes puts a server into a process group of its own, so that a Ctrl-C at the terminal reaches the test
// alone, which then ends it in order; and has the kernel kill it should the test die while the server is frozen and
// cannot see its standard input end.
func ChildAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
