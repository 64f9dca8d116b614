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
)

// drainLimit bounds how long the end of a dead child's output is waited for. The
// pipes end with the child; only an output of ours that blocks takes longer.
const drainLimit = time.Second

// program is what a child is started from.
type program struct {
	binary string // found by exec.LookPath
	args   []string
	env    []string // nil means that of this process
	// listener is handed over to the child; the caller's stays open, and the caller's.
	listener       *net.TCPListener
	stdout, stderr *sink
}

// life is one process, from its start to its end.
type life struct {
	cmd       *exec.Cmd
	stdout    lines
	stderr    lines
	startedAt time.Time
	terminate func() error // SIGTERM, at the first call only
	ended     chan struct{}

	exitCode int // set before ended is closed
}

// begin starts a process. An error means that none was started; it names the binary.
func begin(p program) (*life, error) {
	l := &life{stdout: lines{to: p.stdout}, stderr: lines{to: p.stderr}, ended: make(chan struct{})}
	l.terminate = sync.OnceValue(func() error { return l.signal(syscall.SIGTERM) })
	started := make(chan error)
	go l.run(p, started) // ends with the process
	if err := <-started; err != nil {
		return nil, err
	}
	return l, nil
}

// run starts the process and waits for its end on one thread that nobody else uses.
//
// The kernel kills a child when the thread that started it ends, not when the parent
// does. Threads end when a goroutine that is locked to one returns, so without the lock
// any such goroutine, anywhere in this process, could take a child along.
func (l *life) run(p program, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	line, err := l.start(p)
	started <- err
	if err != nil {
		return
	}
	// All that an error of Wait says is in the state, or it is about output.
	_ = l.cmd.Wait()
	l.stdout.flush()
	l.stderr.flush()
	l.exitCode = exitCode(l.cmd.ProcessState)
	_ = line.Close() // the child is gone: nobody reads
	close(l.ended)
}

// start starts the process and returns our end of its lifeline, which must be kept open
// while it is to live.
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
	env := p.env
	if env == nil {
		env = os.Environ()
	}
	l.cmd = &exec.Cmd{
		Path: p.binary, Args: append([]string{p.binary}, p.args...),
		// The first of ExtraFiles gets number 3; of equal variables the last one counts.
		ExtraFiles: []*os.File{listener, theirs},
		Env:        append(slices.Clip(env), lifeline.EnvListener+"=3", lifeline.EnvLine+"=4"),
		Stdout:     &l.stdout, Stderr: &l.stderr,
		SysProcAttr: attributes(), WaitDelay: drainLimit,
	}
	l.startedAt = time.Now()
	if err := l.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", p.binary, err), line.Close())
	}
	return line, nil
}

func (l *life) pid() int { return l.cmd.Process.Pid }

// words returns the last lines that the process wrote: of its log, then of its errors.
func (l *life) words() string {
	return strings.Trim(l.stdout.tail.String()+"\n"+l.stderr.tail.String(), "\n")
}

func (l *life) over() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// signal sends a signal. The process may have ended: that is no error, and no other
// process that got its number can be hit (os.Process holds a handle).
func (l *life) signal(s syscall.Signal) error {
	if err := l.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("send %v to process %d: %w", s, l.pid(), err)
	}
	return nil
}

func (l *life) kill() error { return l.signal(syscall.SIGKILL) }

// stop asks the process to finish, kills it when grace is over, and returns when it is
// dead, or with ctx's error.
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
	if l.over() { // also when ctx has ended
		return nil
	}
	select {
	case <-l.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// exitCode is what a container engine would report: 128 and the signal's number for
// one that a signal ended.
func exitCode(s *os.ProcessState) int {
	if status, ok := s.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return s.ExitCode()
}
