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
	"rideshare/internal/wait"
)

// life is what a link keeps alive: a session, or something built on a session.
type life interface {
	// over is closed when the life has ended; reason then returns why.
	over() <-chan struct{}
	reason() error
	close()
}

// lives are compared by identity.
type lives interface {
	life
	comparable
}

func (s *session) over() <-chan struct{} { return s.done }

// link keeps one connection alive: when the connection is lost, link redials until it succeeds. It is safe for
// concurrent use.
type link[L lives] struct {
	name    string // for the log
	address string // of the broker, for the log
	log     *slog.Logger
	make    func(ctx context.Context) (L, error)
	giveUp  func(error) // called once it is certain that make can never succeed

	mu      sync.Mutex // guards the fields below
	current L
	up      bool
	closed  bool
	err     error  // why it is not up
	lost    uint64 // lives that ended by themselves
	changed wait.Signal
}

func newLink[L lives](name string, config Config, dial func(ctx context.Context) (L, error)) *link[L] {
	return &link[L]{name: name, address: config.address(), log: config.Log, make: dial, giveUp: config.GiveUp}
}

// run keeps the link connected until ctx ends; then it closes the connection and returns, in bounded time.
func (l *link[L]) run(ctx context.Context) {
	defer l.close()
	bad, chance := newStreak(), hope{}
	for ctx.Err() == nil {
		one, err := l.make(ctx)
		if lost := chance.after(err); lost != nil && ctx.Err() == nil {
			l.giveUp(fmt.Errorf("broker %s: %w", l.address, lost))
		}
		if err == nil {
			l.set(func() { l.current, l.up, l.err = one, true, nil })
			l.log.InfoContext(ctx, "bus connected", logkey.Connection, l.name, logkey.Count, bad.failures.Count(), logkey.Took, bad.failures.Took())
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
			l.log.WarnContext(ctx, "bus not connected, trying again", logkey.Connection, l.name, logkey.Addr, l.address, logkey.Error, err)
		}
		bad.backoff.Wait(ctx)
	}
}

func (l *link[L]) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
	l.changed.Notify()
}

// close makes all later calls return mq.ErrClosed.
func (l *link[L]) close() {
	l.set(func() { l.closed, l.up = true, false })
}

// get returns the current life, or ErrClosed, or ErrUnavailable with the reason. The returned channel is closed when
// the result may have changed.
func (l *link[L]) get() (L, <-chan struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var none L
	changed := l.changed.Next()
	switch {
	case l.closed:
		return none, changed, mq.ErrClosed
	case l.up:
		return l.current, changed, nil
	case l.err != nil:
		return none, changed, fmt.Errorf("not connected: %w: %w", mq.ErrUnavailable, opaque{l.err})
	default:
		return none, changed, fmt.Errorf("not connected yet: %w", mq.ErrUnavailable)
	}
}

// state returns the current life, if there is one, and how often it was lost.
func (l *link[L]) state() (current L, up bool, lost uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current, l.up, l.lost
}

// next waits for a current life other than last. It returns ctx's error, ErrClosed, or errLost if ended is closed
// first; a nil ended is never closed. A caller may notice the end of last before the link does, so it passes last to
// get the one after it.
func (l *link[L]) next(ctx context.Context, last L, ended <-chan struct{}) (L, error) {
	for {
		one, changed, err := l.get()
		if errors.Is(err, mq.ErrClosed) || err == nil && one != last {
			return one, err
		}
		select {
		case <-changed:
		case <-ended:
			return one, errLost
		case <-ctx.Done():
			return one, ctx.Err()
		}
	}
}

// opaque keeps the text of an error of the client library and hides its type, which must not be visible outside this
// package.
type opaque struct{ err error }

func (o opaque) Error() string { return o.err.Error() }

// streak is a streak of failures with the waits between them. A short life counts as a failure, so that a broker that
// accepts connections only to drop them is not flooded with new ones.
type streak struct {
	failures wait.Streak
	backoff  wait.Backoff
	logged   bool // the outage has been logged
	told     time.Time
}

const (
	// backoffFirst is the longest first wait; it doubles with each further failure.
	backoffFirst = 100 * time.Millisecond
	// backoffCap is the longest wait, and so limits how long clients take to reconnect once the broker is back.
	backoffCap = 5 * time.Second
)

func newBackoff() wait.Backoff { return wait.Backoff{First: backoffFirst, Cap: backoffCap, Jitter: 1} }

func newStreak() streak { return streak{backoff: newBackoff()} }

// failed counts a failure and reports whether to log it: the first one, and then one every wait.RepeatAfter.
func (s *streak) failed() (report bool) {
	s.failures.Fail()
	if report = !s.logged || time.Since(s.told) >= wait.RepeatAfter; report {
		s.logged, s.told = true, time.Now()
	}
	return report
}

// keep waits for the end of a life, or closes it when ctx ends. It returns why the life ended.
func (s *streak) keep(ctx context.Context, one life) error {
	begun := time.Now()
	s.logged = false
	select {
	case <-one.over():
	case <-ctx.Done():
		one.close()
	}
	if time.Since(begun) > backoffCap {
		s.failures.End()
		s.backoff.Reset()
	}
	return one.reason()
}
