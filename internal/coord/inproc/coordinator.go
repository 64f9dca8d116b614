// Package inproc is the coordinator inside one process: that of `rideshare up`
// and of the tests. Sessions end by themselves when nothing is heard of
// them, as ZooKeeper's do, and each fault that ZooKeeper was seen to have can be made to happen.
package inproc

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"rideshare/internal/coord"
)

// DefaultSessionTimeout is how long a session lives without being heard of. Inside one
// process nothing is lost on the way, so it need not be long; it bounds
// how long the registration of a killed worker stays.
const DefaultSessionTimeout = 2 * time.Second

// Config says how sessions end and where values are kept. Zero values mean the defaults.
type Config struct {
	// SessionTimeout is how long a session lives without being heard of.
	SessionTimeout time.Duration
	// File keeps the slave count and the values over restarts; empty means that it is forgotten.
	File string
}

// Coordinator implements coord.Coordinator. It is safe for concurrent use.
type Coordinator struct {
	timeout time.Duration
	file    string

	mu       sync.Mutex // guards the fields below and all sessions
	state    state
	changed  chan struct{} // closed and made anew when state changes
	sessions []*Session
	members  map[int]registration // by pid
	leader   *Session
	kept     kept
}

var _ coord.Coordinator = (*Coordinator)(nil)

// state is whether the coordinator answers.
type state int

const (
	running state = iota
	stopped       // its process is dead: no session ends meanwhile
	paused        // its process is frozen: the clock runs on
)

// registration is a node below /conts.
type registration struct {
	member coord.Member
	owner  *Session
}

// New returns a running Coordinator with what its file keeps, if there
// is one. A file that cannot be read is an error: it is not overwritten.
func New(c Config) (*Coordinator, error) {
	if c.SessionTimeout == 0 {
		c.SessionTimeout = DefaultSessionTimeout
	}
	k := &Coordinator{
		timeout: c.SessionTimeout,
		file:    c.File,
		changed: make(chan struct{}),
		members: map[int]registration{},
	}
	if c.File == "" {
		return k, nil
	}
	var err error
	if k.kept, err = load(c.File); err != nil {
		return nil, fmt.Errorf("read the kept values: %w", err)
	}
	return k, nil
}

// Open implements coord.Coordinator. It waits while the coordinator is stopped or paused.
func (k *Coordinator) Open(ctx context.Context) (coord.Session, error) {
	s, err := k.OpenSession(ctx)
	if err != nil {
		return nil, err // not a nil *Session in an interface
	}
	return s, nil
}

// OpenSession is Open for those who want the session's fault hooks.
func (k *Coordinator) OpenSession(ctx context.Context) (*Session, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("open session: %w: %w", coord.ErrUnavailable, err)
		}
		k.mu.Lock()
		if k.state == running {
			s := newSession(k)
			k.sessions = append(k.sessions, s)
			k.mu.Unlock()
			return s, nil
		}
		changed := k.changed
		k.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// Stop is the death of the coordinator's process. Nothing is reached, and no session
// ends, until Start: sessions are on its disk and get a whole time-out then.
func (k *Coordinator) Stop() { k.leave(stopped) }

// Start ends what Stop began.
func (k *Coordinator) Start() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.state != stopped {
		return
	}
	k.setState(running)
	for _, s := range k.sessions {
		s.silentSince = time.Now()
		s.reconnect()
	}
}

// Pause freezes the coordinator's process, while its clock runs on. Nothing is reached until Resume.
func (k *Coordinator) Pause() { k.leave(paused) }

// Resume ends what Pause began: all sessions of which nothing was heard for their
// time-out, and that is every one after a long pause, end at this moment.
func (k *Coordinator) Resume() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.state != paused {
		return
	}
	k.setState(running)
	for _, s := range slices.Clone(k.sessions) {
		if time.Since(s.silentSince) >= k.timeout {
			s.expire()
		} else {
			s.reconnect()
		}
	}
}

// Wipe is the loss of all data: every session ends, and no value is left.
func (k *Coordinator) Wipe() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.kept = kept{}
	for _, s := range slices.Clone(k.sessions) {
		s.expire()
	}
}

// leave ends running.
func (k *Coordinator) leave(to state) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.state != running {
		return
	}
	k.setState(to)
	for _, s := range k.sessions {
		s.fallSilent()
		s.expiry.Stop() // there is nobody to end it
	}
}

func (k *Coordinator) setState(to state) {
	k.state = to
	close(k.changed)
	k.changed = make(chan struct{})
}

// notify wakes everybody who watches. A session that is cut off hears of it
// when it is back.
func (k *Coordinator) notify() {
	for _, s := range k.sessions {
		s.wake()
	}
}
