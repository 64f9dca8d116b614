// Package lifeline is the child's half of what ties a process of ours to the one that
// started it: a pipe whose end tells that the parent is gone, and a listener that the parent
// bound before the start. orchestrator/launch/process is the parent's half.
package lifeline

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// The environment variables in which the parent names what it hands over, each by the
// number of an open file.
const (
	EnvLine     = "RIDESHARE_LIFELINE_FD"
	EnvListener = "RIDESHARE_LISTENER_FD"
)

// firstFD is the first number that can have been handed over: those below are
// the standard input, output and error.
const firstFD = 3

// Watch calls onGone, once and in a goroutine of its own, when the parent is gone, however it
// ended; if it is gone already, at once. It stops watching when ctx ends, and
// does not call onGone afterwards.
//
// nil also means that this process was not started by a launcher: then there is nothing to
// watch. An error means that the variable names no pipe. Watch takes the pipe over and the
// variable out of the environment, so it is called once, before other goroutines
// start processes.
func Watch(ctx context.Context, onGone func()) error {
	line, err := take(EnvLine)
	if err != nil || line == nil {
		return err
	}
	info, err := line.Stat()
	if err == nil && info.Mode()&os.ModeNamedPipe == 0 {
		err = errors.New("no pipe") // its end would say nothing about the parent
	}
	if err != nil {
		return errors.Join(fmt.Errorf("%s: %w", EnvLine, err), line.Close())
	}
	unblock := context.AfterFunc(ctx, func() { _ = line.Close() })
	go func() { // ends with the parent, or with ctx
		defer func() { _ = line.Close() }()
		defer unblock()
		for buf := make([]byte, 1); ; { // nobody writes: a read returns at the end of the other side
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

// take returns the file that a variable names, or nil where the variable is not set. The
// variable is taken out of the environment and the file closed in what this process starts:
// a grandchild that held them would keep the port, or wait for the wrong parent.
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
	// Without this a read would hold a thread, and Close would not end it.
	if err := syscall.SetNonblock(int(fd), true); err != nil {
		return nil, fmt.Errorf("%s: file %d: %w", variable, fd, err)
	}
	syscall.CloseOnExec(int(fd))
	return os.NewFile(uintptr(fd), variable), nil
}
