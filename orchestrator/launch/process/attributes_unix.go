//go:build unix && !linux

package process

import "syscall"

// attributes apply to every child. Each child has its own process group, so that Ctrl-C on a terminal reaches only the
// parent, which then stops the children in order. When the parent dies, the pipe of internal/lifeline ends the child. A
// stopped child is first woken by the system, as a member of an orphaned process group.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
