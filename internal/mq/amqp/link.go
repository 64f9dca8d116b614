package amqp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"rideshare/internal/logkey"
	"rideshare/internal/mq"
)

// life is what a link keeps alive: a session, or something that lives on one.
type life interface {
	// over is closed when it has ended; reason then says why.
	over() <-chan struct{}
	reason() error
	close()
}

// lives are told apart by identity.
type lives interface {
	life
	comparable
}

func (s *session) over() <-chan struct{} { return s.done }

// link keeps one connection alive: when it is lost, it makes another one, for
// as long as it takes. It is safe for concurrent use.
type link[L lives] struct {
	part string // for the log
	log  *slog.Logger
	make func(ctx context.Context) (L, error)

	mu      sync.Mutex // guards the fields below
	current L
	up      bool
	closed  bool
	err     error         // why it is not up
	lost    uint64        // lives that have ended by themselves
	changed chan struct{} // closed and made anew with each change
}

func newLink[L lives](part string, log *slog.Logger, dial func(ctx context.Context) (L, error)) *link[L] {
	return &link[L]{part: part, log: log, make: dial, changed: make(chan struct{})}
}

// run keeps the link up until ctx ends; then it closes the connection and returns, in bounded time.
func (l *link[L]) run(ctx context.Context) {
	defer l.close()
	var bad streak
	for ctx.Err() == nil {
		one, err := l.make(ctx)
		if err == nil {
			l.set(func() { l.current, l.up, l.err = one, true, nil })
			l.log.InfoContext(ctx, "bus connected", logkey.Part, l.part, logkey.Count, bad.failures, logkey.Took, bad.took())
			err = bad.keep(ctx, one)
		}
		if ctx.Err() != nil {
			return
		}
		l.set(func() {
			if l.up {
				l.lost++
			}
			l.up, l.err = false, err
		})
		if bad.failed() {
			l.log.WarnContext(ctx, "bus not connected, trying again", logkey.Part, l.part, logkey.Error, err)
		}
		backOff(ctx, bad.failures)
	}
}

func (l *link[L]) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
	close(l.changed)
	l.changed = make(chan struct{})
}

// close makes every call from now on return mq.ErrClosed.
func (l *link[L]) close() {
	l.set(func() { l.closed, l.up = true, false })
}

// get returns what is alive, or ErrClosed, or ErrUnavailable with the reason, and a channel
// that is closed when the answer may be another.
func (l *link[L]) get() (L, <-chan struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var none L
	switch {
	case l.closed:
		return none, l.changed, mq.ErrClosed
	case l.up:
		return l.current, l.changed, nil
	case l.err != nil:
		return none, l.changed, fmt.Errorf("not connected: %w: %w", mq.ErrUnavailable, opaque{l.err})
	default:
		return none, l.changed, fmt.Errorf("not connected yet: %w", mq.ErrUnavailable)
	}
}

// state returns what is alive, if anything is, and how often it was lost.
func (l *link[L]) state() (current L, up bool, lost uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current, l.up, l.lost
}

// next returns what is alive and is not last, as soon as there is something, or ctx's
// error, or ErrClosed. Who has seen last die may be faster than the link, and asks for another.
func (l *link[L]) next(ctx context.Context, last L) (L, error) {
	for {
		one, changed, err := l.get()
		if errors.Is(err, mq.ErrClosed) || err == nil && one != last {
			return one, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return one, ctx.Err()
		}
	}
}

// await waits until something is alive. It returns ctx's error, ErrClosed, or errLost when given is closed before.
func (l *link[L]) await(ctx context.Context, given <-chan struct{}) error {
	for {
		_, changed, err := l.get()
		if err == nil || errors.Is(err, mq.ErrClosed) {
			return err
		}
		select {
		case <-changed:
		case <-given:
			return errLost
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// opaque keeps the text of an error of the client library and hides its type, which
// must not be known outside of this package.
type opaque struct{ err error }

func (o opaque) Error() string { return o.err.Error() }

// streak counts failures in a row. A life that was short is one of them: a broker
// that takes connections only to drop them is not to be stormed.
type streak struct {
	failures int
	since    time.Time // when the first failed
	told     bool      // the log knows that it is down
}

// failed counts a failure and reports whether it is the first that the log should tell of.
func (s *streak) failed() (first bool) {
	if s.failures == 0 {
		s.since = time.Now()
	}
	s.failures++
	first = !s.told
	s.told = true
	return first
}

func (s *streak) took() time.Duration {
	if s.failures == 0 {
		return 0
	}
	return time.Since(s.since)
}

// keep waits for the end of a life, or closes it when ctx ends, and returns why it ended.
func (s *streak) keep(ctx context.Context, one life) error {
	begun := time.Now()
	s.told = false
	select {
	case <-one.over():
	case <-ctx.Done():
		one.close()
	}
	if time.Since(begun) > backoffCap {
		s.failures = 0
	}
	return one.reason()
}
