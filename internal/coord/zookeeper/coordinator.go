// Package zookeeper is the coordinator on ZooKeeper: ephemeral nodes of sessions that
// end when nothing is heard of them. DESIGN.md says which traps of the server and
// of its client library are closed, and how.
package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"rideshare/internal/coord"
)

// DefaultSessionTimeout is the length of a session unless configured: 6 s. A worker that was
// killed is missed for at most that and one tick; a pause of the garbage collector
// or of a busy machine does not end it. The server takes 2 to 20 ticks.
const DefaultSessionTimeout = 6 * time.Second

// Config says where ZooKeeper is.
type Config struct {
	// URL is zk://host:port,host:port/node. All is kept below the node, which is
	// made if it is missing; that is how systems share a ZooKeeper.
	URL string
	// SessionTimeout is asked for; the server has the last word. Zero means DefaultSessionTimeout.
	SessionTimeout time.Duration
	Log            *slog.Logger
}

// Coordinator implements coord.Coordinator. It is safe for concurrent use, and
// holds nothing: each session has a connection of its own.
type Coordinator struct {
	address address
	timeout time.Duration
	log     *slog.Logger
}

var _ coord.Coordinator = (*Coordinator)(nil)

// New returns the coordinator at c.URL without contacting it: it need not run yet. An
// error says what is wrong with the settings.
func New(c Config) (*Coordinator, error) {
	at, err := parse(c.URL)
	if err != nil {
		return nil, fmt.Errorf("coordinator: %w", err)
	}
	if c.SessionTimeout == 0 {
		c.SessionTimeout = DefaultSessionTimeout
	}
	if c.SessionTimeout < time.Second || c.Log == nil {
		return nil, errors.New("coordinator: a session of at least 1 s and a logger are needed")
	}
	return &Coordinator{address: at, timeout: c.SessionTimeout, log: c.Log}, nil
}

// Open implements coord.Coordinator. It waits for a server, whatever is wrong
// with it, and returns coord.ErrUnavailable once ctx ends. Another error is the server's
// refusal to let the nodes be made.
func (k *Coordinator) Open(ctx context.Context) (coord.Session, error) {
	for {
		s, err := k.connect()
		if err != nil {
			return nil, err
		}
		if err = s.prepare(ctx); err == nil {
			return s, nil
		}
		if closeErr := s.Close(); closeErr != nil {
			return nil, closeErr
		}
		if !errors.Is(err, coord.ErrSessionLost) {
			return nil, fmt.Errorf("open session: %w", err)
		}
		// It was lost before anybody had it.
		k.log.DebugContext(ctx, "session lost while it was opened")
	}
}

// connect starts a session that is not there yet.
func (k *Coordinator) connect() (*Session, error) {
	servers := slices.Clone(k.address.servers)
	rand.Shuffle(len(servers), func(i, j int) { servers[i], servers[j] = servers[j], servers[i] }) //nolint:gosec // to spread load, not a secret
	return start(k.address.root, &link{servers: servers, silence: k.timeout}, k.timeout, k.log)
}
