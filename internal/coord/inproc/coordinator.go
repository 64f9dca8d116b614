// Package inproc is the coordinator inside one process, used by `rideshare up` and by the tests. As in ZooKeeper, a
// session ends when the coordinator hears nothing from it. Tests can trigger each fault that was seen in ZooKeeper.
package inproc

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"rideshare/internal/coord"
	"rideshare/internal/wait"
)

// DefaultSessionTimeout is how long a session lives without a message from its client. Inside one process no messages
// are lost, so it can be short; it limits how long the registration of a killed worker stays.
const DefaultSessionTimeout = 2 * time.Second

// Config is the settings of a Coordinator. Zero values mean the defaults.
type Config struct {
	// SessionTimeout is how long a session lives without a message from its client.
	SessionTimeout time.Duration
	// File stores the slave count and the values across restarts; if empty, a restart loses them.
	File string
}

// Coordinator implements coord.Coordinator. It is safe for concurrent use.
type Coordinator struct {
	timeout time.Duration
	file    string

	mu       sync.Mutex // guards the fields below and all sessions
	state    state
	changed  wait.Signal // of state
	sessions []*Session
	members  map[string]registration // by name
	leader   *Session
	term     coord.Leader // of leader
	kept     kept
}

var _ coord.Coordinator = (*Coordinator)(nil)

// state is the state of the coordinator's process.
type state int

const (
	running state = iota
	stopped       // its process is dead: sessions do not end during that time
	paused        // its process is frozen: the clock keeps running
)

// registration is a node under /conts.
type registration struct {
	member coord.Member
	owner  *Session
}

// New returns a running Coordinator with the contents of its file, if there is one. It returns an error for a file
// that it cannot read, and does not overwrite it.
func New(c Config) (*Coordinator, error) {
	c.SessionTimeout = cmp.Or(c.SessionTimeout, DefaultSessionTimeout)
	k := &Coordinator{
		timeout: c.SessionTimeout,
		file:    c.File,
		members: map[string]registration{},
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

// OpenSession is Open for callers that need the session's fault hooks.
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
		changed := k.changed.Next()
		k.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// Stop simulates the death of the coordinator's process. Until Start, no call reaches it and no session ends:
// sessions are on its disk and get a full timeout at Start.
func (k *Coordinator) Stop() { k.leave(stopped) }

// Start ends a Stop.
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

// Pause freezes the coordinator's process while its clock keeps running. No call reaches it until Resume.
func (k *Coordinator) Pause() { k.leave(paused) }

// Resume ends a Pause. Sessions that were silent for their timeout end at this moment; after a long pause those are
// all sessions.
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

// Wipe simulates the loss of all data: every session ends, and all values are gone.
func (k *Coordinator) Wipe() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.kept = kept{}
	for _, s := range slices.Clone(k.sessions) {
		s.expire()
	}
}

// leave changes the state from running to another state.
func (k *Coordinator) leave(to state) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.state != running {
		return
	}
	k.setState(to)
	for _, s := range k.sessions {
		s.fallSilent()
		s.expiry.Stop() // the process that would end it is not running
	}
}

func (k *Coordinator) setState(to state) {
	k.state = to
	k.changed.Notify()
}

// notify wakes all watching sessions. A session that is cut off is notified when it is back.
func (k *Coordinator) notify() {
	for _, s := range k.sessions {
		s.wake()
	}
}
