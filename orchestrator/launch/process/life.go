package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"rideshare/internal/lifeline"
	"rideshare/internal/wait"
)

// program describes how to start a child.
type program struct {
	binary string // found by exec.LookPath
	args   []string
	env    []string // nil means the environment of this process
	// listener is duplicated into the child; the caller keeps its own copy open and closes it.
	listener       *net.TCPListener
	stdout, stderr *sink
	drainLimit     time.Duration
}

// life is one process, from its start to its end.
type life struct {
	cmd       *exec.Cmd
	stdout    lines
	stderr    lines
	outlets   []*outlet
	copied    chan struct{} // has an element for each outlet that has ended
	limit     time.Duration // drainLimit, except in tests
	startedAt time.Time
	terminate func() error // sends SIGTERM, on the first call only
	ended     chan struct{}

	exitCode int // set before ended is closed
}

// begin starts a process. An error means that no process was started; it names the binary.
func begin(p program) (*life, error) {
	l := &life{stdout: lines{to: p.stdout}, stderr: lines{to: p.stderr}, limit: p.drainLimit, ended: make(chan struct{})}
	l.terminate = sync.OnceValue(func() error { return l.signal(syscall.SIGTERM) })
	started := make(chan error)
	go l.run(p, started) // ends with the process
	if err := <-started; err != nil {
		return nil, err
	}
	return l, nil
}

// run starts the process and waits for its end on a dedicated thread.
//
// The kernel kills a child when the thread that started it ends, not when the parent process does. A thread ends when a
// goroutine locked to it returns. Without the lock here, any such goroutine in this process could take a child with it.
func (l *life) run(p program, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	line, err := l.start(p)
	started <- err
	if err != nil {
		return
	}
	// The process state has everything that an error of Wait could report.
	_ = l.cmd.Wait()
	l.drain()
	l.exitCode = exitCode(l.cmd.ProcessState)
	_ = line.Close() // the child is gone, so nothing reads from it
	close(l.ended)
}

// start starts the process and returns our end of its lifeline. The caller keeps it open as long as the process is to
// live.
func (l *life) start(p program) (line *os.File, err error) {
	listener, err := p.listener.File()
	if err != nil {
		return nil, fmt.Errorf("hand over the listener: %w", err)
	}
	defer func() { _ = listener.Close() }()
	theirs, line, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make the lifeline: %w", err)
	}
	defer func() { _ = theirs.Close() }()
	stdout, stderr, err := l.openOutlets()
	if err != nil {
		return nil, errors.Join(err, line.Close())
	}
	defer func() { _, _ = stdout.Close(), stderr.Close() }()
	env := p.env
	if env == nil {
		env = os.Environ()
	}
	l.cmd = &exec.Cmd{
		Path: p.binary, Args: append([]string{p.binary}, p.args...),
		// The first of ExtraFiles becomes file descriptor 3. If a variable is set twice, the last value counts.
		ExtraFiles: []*os.File{listener, theirs},
		Env:        append(slices.Clip(env), lifeline.EnvListener+"=3", lifeline.EnvLine+"=4"),
		Stdout:     stdout, Stderr: stderr,
		SysProcAttr: attributes(),
	}
	l.startedAt = time.Now()
	if err := l.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", p.binary, err), line.Close(), l.closeOutlets())
	}
	l.startCopying()
	return line, nil
}

func (l *life) pid() int { return l.cmd.Process.Pid }

// words returns the last lines that the process wrote: first of its log, then of its standard error.
func (l *life) words() string {
	return strings.Trim(l.stdout.tail.String()+"\n"+l.stderr.tail.String(), "\n")
}

func (l *life) over() bool { return wait.Closed(l.ended) }

// signal sends a signal. If the process has ended, signal returns nil. It cannot hit another process that reused the
// pid, because os.Process holds a handle.
func (l *life) signal(s syscall.Signal) error {
	if err := l.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("send %v to process %d: %w", s, l.pid(), err)
	}
	return nil
}

func (l *life) kill() error { return l.signal(syscall.SIGKILL) }

// stop asks the process to finish and kills it when grace is over. It returns when the process is dead, or with ctx's
// error.
func (l *life) stop(ctx context.Context, grace time.Duration) error {
	if l.over() {
		return nil
	}
	if err := l.terminate(); err != nil {
		return err
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-l.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
	}
	if err := l.kill(); err != nil {
		return err
	}
	return l.wait(ctx)
}

// wait returns when the process has ended, or with ctx's error.
func (l *life) wait(ctx context.Context) error {
	if l.over() { // checked first: it also counts when ctx has ended
		return nil
	}
	select {
	case <-l.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// exitCode returns the code that a container engine would report: 128 plus the signal's number for a process ended by a
// signal.
func exitCode(s *os.ProcessState) int {
	if status, ok := s.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return s.ExitCode()
}
