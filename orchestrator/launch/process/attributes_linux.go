package process

import "syscall"

// attributes are those of every child. It is in a process group of its own, so that
// Ctrl-C on a terminal reaches the parent only, who stops it in order. When the thread
// that started it ends it is killed by the kernel, stopped or not: life.run sees to it
// that this is at the parent's end and not before.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
