package process

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"
)

const (
	// drainLimit is how long the output of a dead child may make no progress before it is no longer read. Output ends with
	// the child, unless a grandchild holds it open.
	drainLimit = time.Second
	// pipeBytes is at least as much as a pipe holds, and so as a dead child can have left in it.
	pipeBytes = 1 << 20
)

// outlet passes on one output of a child.
type outlet struct {
	pipe   *os.File // our end
	to     *lines
	limit  time.Duration // drainLimit, except in tests
	passed atomic.Int64  // bytes
}

// newOutlet returns an outlet, and the child's end of its pipe.
func newOutlet(to *lines, limit time.Duration) (o *outlet, theirs *os.File, err error) {
	ours, theirs, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("make a pipe for the output: %w", err)
	}
	return &outlet{pipe: ours, to: to, limit: limit}, theirs, nil
}

// copy passes the output on to its end, and closes the pipe. If a grandchild holds the output open, copy ends after the
// child's death: when nothing has come for drainLimit twice in a row, or when it has read more than the child can have
// left. A single drainLimit is not enough: if this process is paused before Read, the deadline has passed, and Read returns
// without looking at the pipe.
func (o *outlet) copy() {
	buf, dead, silent := make([]byte, 32<<10), false, false
	for left := pipeBytes; left > 0; {
		if dead { // set before each Read: the time in which our own output blocks does not count
			_ = o.pipe.SetReadDeadline(time.Now().Add(o.limit))
		}
		n, err := o.pipe.Read(buf)
		_, _ = o.to.Write(buf[:n])
		o.passed.Add(int64(n))
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded) && !dead:
			dead = true
		case errors.Is(err, os.ErrDeadlineExceeded) && !silent:
			silent = true
		case err != nil:
			left = 0
		case dead:
			left -= n
			silent = false
		}
	}
	o.to.flush()
	_ = o.pipe.Close()
}

// died tells copy that the child is dead.
func (o *outlet) died() {
	_ = o.pipe.SetReadDeadline(time.Now()) // it fails if copy has ended
}

// openOutlets makes the outlets and returns the child's ends of their pipes.
func (l *life) openOutlets() (stdout, stderr *os.File, err error) {
	first, stdout, err := newOutlet(&l.stdout, l.limit)
	if err != nil {
		return nil, nil, err
	}
	second, stderr, err := newOutlet(&l.stderr, l.limit)
	if err != nil {
		return nil, nil, errors.Join(err, first.pipe.Close(), stdout.Close())
	}
	l.outlets, l.copied = []*outlet{first, second}, make(chan struct{}, 2)
	return stdout, stderr, nil
}

// closeOutlets closes the outlets of a child that was not started.
func (l *life) closeOutlets() error {
	var errs []error
	for _, o := range l.outlets {
		errs = append(errs, o.pipe.Close())
	}
	return errors.Join(errs...)
}

// startCopying begins to pass on the output.
func (l *life) startCopying() {
	for _, o := range l.outlets {
		go func() { // ends with the output
			o.copy()
			l.copied <- struct{}{}
		}()
	}
}

// drain waits until the output of the dead child was passed on. If our own output blocks for drainLimit, drain does not
// wait any longer. The rest is then passed on later.
func (l *life) drain() {
	before := l.passed()
	for _, o := range l.outlets {
		o.died()
	}
	for left := len(l.outlets); left > 0; {
		select {
		case <-l.copied:
			left--
		case <-time.After(l.limit):
			now := l.passed()
			if now == before {
				return
			}
			before = now
		}
	}
}

// passed returns how many bytes of output were passed on.
func (l *life) passed() int64 {
	var sum int64
	for _, o := range l.outlets {
		sum += o.passed.Load()
	}
	return sum
}
