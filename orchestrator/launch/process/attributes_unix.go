//go:build unix && !linux

package process

import "syscall"

// attributes are those of every child. It is in a process group of its own, so that
// Ctrl-C on a terminal reaches the parent only, who stops it in order. When the parent
// dies the pipe of internal/lifeline ends it; one that is stopped is woken for it by the
// system, as a member of an orphaned process group.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
