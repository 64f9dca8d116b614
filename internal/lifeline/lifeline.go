// Package lifeline is the child's half of the link between a process of this system and its parent: a pipe whose end
// shows that the parent is gone, and a listener that the parent bound before the start. orchestrator/launch/process
// is the parent's half.
package lifeline

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// The environment variables in which the parent passes open files, each as a file descriptor number.
const (
	EnvLine     = "RIDESHARE_LIFELINE_FD"
	EnvListener = "RIDESHARE_LISTENER_FD"
)

// firstFD is the first number that can have been passed: lower ones are the standard input, output and error.
const firstFD = 3

// Watch calls onGone once, in its own goroutine, when the parent is gone, however the parent ended. If the parent is
// already gone, Watch calls it immediately. Watch stops when ctx ends, and does not call onGone afterwards.
//
// It also returns nil if this process was not started by a launcher: then there is nothing to watch. An error means
// that the variable does not refer to a pipe. Watch takes ownership of the pipe and removes the variable from the
// environment, so it is called once, before other goroutines start processes.
func Watch(ctx context.Context, onGone func()) error {
	line, err := take(EnvLine)
	if err != nil || line == nil {
		return err
	}
	info, err := line.Stat()
	if err == nil && info.Mode()&os.ModeNamedPipe == 0 {
		err = errors.New("no pipe") // its end would not mean that the parent is gone
	}
	if err != nil {
		return errors.Join(fmt.Errorf("%s: %w", EnvLine, err), line.Close())
	}
	unblock := context.AfterFunc(ctx, func() { _ = line.Close() })
	go func() { // ends with the parent, or with ctx
		defer func() { _ = line.Close() }()
		defer unblock()
		for buf := make([]byte, 1); ; { // the pipe carries no data: a read returns when the other end closes
			if _, err := line.Read(buf); err != nil {
				break
			}
		}
		if ctx.Err() == nil {
			onGone()
		}
	}()
	return nil
}

// take returns the file that a variable refers to, or nil if the variable is not set. It removes the variable from
// the environment, and keeps child processes from inheriting the file: a grandchild that inherited it would keep the
// port in use, or wait for the wrong parent.
func take(variable string) (*os.File, error) {
	text, ok := os.LookupEnv(variable)
	if !ok {
		return nil, nil
	}
	if err := os.Unsetenv(variable); err != nil {
		return nil, fmt.Errorf("take %s: %w", variable, err)
	}
	fd, err := strconv.ParseInt(text, 10, 32)
	if err != nil || fd < firstFD {
		return nil, fmt.Errorf("%s: %q is no number of an inherited file", variable, text)
	}
	// Otherwise a read would occupy a thread, and Close would not end it.
	if err := syscall.SetNonblock(int(fd), true); err != nil {
		return nil, fmt.Errorf("%s: file %d: %w", variable, fd, err)
	}
	syscall.CloseOnExec(int(fd))
	return os.NewFile(uintptr(fd), variable), nil
}
