package process

import "syscall"

// attributes apply to every child. Each child has its own process group, so that Ctrl-C on a terminal reaches only the
// parent, which then stops the children in order. The kernel kills a child, stopped or not, when the thread that started
// it ends. life.run ensures that this thread ends with the parent and not earlier.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
