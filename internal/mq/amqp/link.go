package amqp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
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
	// leave is close after a moment for what is in flight, once the link has another life.
	leave(ctx context.Context)
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
	name   string // for the log
	nodes  []node // tried in turn
	round  int    // see streak
	silent *silences
	log    *slog.Logger
	make   func(ctx context.Context, at node) (L, error)
	giveUp func(error) // called once it is certain that make can never succeed

	homeAfter time.Duration // see Config.HomeAfter

	mu      sync.Mutex // guards the fields below
	current L
	at      node // of current
	up      bool
	closed  bool
	err     error     // why it is not up
	lost    uint64    // lives that ended by themselves
	lostAt  time.Time // when the last one ended; zero before the first
	changed wait.Signal
}

// newLink returns a link to the broker, in a cluster to one node after the other.
func newLink[L lives](name string, config Config, dial func(ctx context.Context, at node) (L, error)) *link[L] {
	l := &link[L]{name: name, nodes: config.nodes, log: config.Log, make: dial, giveUp: config.GiveUp, silent: config.silent, homeAfter: config.HomeAfter}
	if config.cluster() {
		l.round = len(config.nodes)
	}
	return l
}

// run keeps the link connected until ctx ends; then it closes the connection and returns, in bounded time. After a loss
// it goes to the next node at once, and returns to the first node once that has been usable for HomeAfter: a node that
// came back may be lost again. See home.
func (l *link[L]) run(ctx context.Context) {
	var left sync.WaitGroup // lives that end because the link has another one
	defer left.Wait()
	defer l.close()
	bad, chance := newStreak(l.round), hope{}
	for turn := 0; ctx.Err() == nil; turn++ {
		turn = l.silent.next(l.nodes, turn)
		at := l.nodes[turn%len(l.nodes)]
		one, err := l.try(ctx, at)
		if lost := chance.after(err); lost != nil && ctx.Err() == nil {
			l.giveUp(fmt.Errorf("broker %s: %w", at.address, lost))
		}
		if err == nil {
			l.set(func() { l.current, l.at, l.up, l.err = one, at, true, nil })
			l.log.InfoContext(ctx, "bus connected", logkey.Connection, l.name, logkey.Addr, at.address, logkey.Count, bad.failures.Count(), logkey.Took, bad.failures.Took())
			if own, found := l.home(ctx, one, at); found {
				turn, at = 0, l.nodes[0]
				before := one
				l.moved(before, own)
				left.Go(func() { before.leave(ctx) })
				one = own
			}
			err = bad.keep(ctx, one)
			l.silent.heard(at, errors.Is(err, errSilent))
		}
		if ctx.Err() != nil {
			return
		}
		l.set(func() {
			if l.up {
				l.lost++
				l.lostAt = time.Now()
			}
			l.up, l.err = false, err
		})
		if bad.failed() {
			l.log.WarnContext(ctx, "bus not connected, trying again", logkey.Connection, l.name, logkey.Addr, at.address, logkey.Error, err)
		}
		bad.pause(ctx)
	}
}

// try makes a life at a node, and stores whether the node was silent.
func (l *link[L]) try(ctx context.Context, at node) (L, error) {
	begun := time.Now()
	one, err := l.make(ctx, at)
	l.silent.heard(at, err != nil && time.Since(begun) >= connectTimeout)
	return one, err
}

// moved replaces the present life by one at the first node. Only if the present life has ended by itself is it a loss.
func (l *link[L]) moved(present, own L) {
	at, reason := l.nodes[0], present.reason()
	l.set(func() {
		l.current, l.at = own, at
		if reason != nil {
			l.lost++
			l.lostAt = time.Now()
		}
	})
	l.log.Info("bus back at the first node", logkey.Connection, l.name, logkey.Addr, at.address, logkey.Reason, cmp.Or(reason, errMoved))
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

// state returns the current life, if there is one, adds its node to hosts, and returns how often it was lost.
func (l *link[L]) state(hosts map[string]string) (current L, up bool, lost uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.up {
		hosts[strings.TrimPrefix(l.name, "bus ")] = l.at.host
	}
	return l.current, l.up, l.lost
}

// moves reports whether the link has been on its way to another node for less than limit.
func (l *link[L]) moves(limit time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.closed && (l.up || time.Since(l.lostAt) < limit)
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

// losses calls lost with each life that has ended, unless its node was well, until ctx ends or the link is closed.
func (l *link[L]) losses(ctx context.Context, lost func(L)) {
	var last L
	for {
		one, err := l.next(ctx, last, nil)
		if err != nil {
			return
		}
		select {
		case <-one.over():
			if reason := one.reason(); !errors.Is(reason, errRefuses) && !errors.Is(reason, errMoved) {
				lost(one)
			}
		case <-ctx.Done():
			return
		}
		last = one
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
	// round, unless it is zero, replaces the backoff by roundPause after this many failures: the nodes of a cluster have
	// been tried once.
	round  int
	logged bool // the outage has been logged
	told   time.Time
}

const (
	// backoffFirst is the longest first wait; it doubles with each further failure.
	backoffFirst = 100 * time.Millisecond
	// backoffCap is the longest wait, and so limits how long clients take to reconnect once the broker is back.
	backoffCap = 5 * time.Second
	// roundPause is the pause between rounds over the nodes of a cluster. Somebody else serves while a node is away, so
	// the way back must be short, and a round costs the nodes a few packets.
	roundPause = 200 * time.Millisecond
)

func newBackoff() wait.Backoff { return wait.Backoff{First: backoffFirst, Cap: backoffCap, Jitter: 1} }

func newStreak(round int) streak { return streak{backoff: newBackoff(), round: round} }

// pause waits before the next try.
func (s *streak) pause(ctx context.Context) {
	switch {
	case s.round == 0:
		s.backoff.Wait(ctx)
	case s.failures.Count()%int64(s.round) == 0:
		wait.For(ctx, roundPause)
	}
}

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
