// Package zookeeper implements the coordinator on ZooKeeper. Registrations are ephemeral nodes of sessions that end
// when the server hears nothing from them. DESIGN.md lists the traps of the server and of its client library, and how
// this package avoids them.
package zookeeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"rideshare/internal/coord"
)

// DefaultSessionTimeout is the session timeout unless configured: 6 s. A killed worker is noticed within that and one
// tick, while a pause of the garbage collector or of a busy machine does not end the session. The server accepts 2 to
// 20 ticks.
const DefaultSessionTimeout = 6 * time.Second

// Config is the settings of a Coordinator.
type Config struct {
	// URL is zk://host:port,host:port/node. All data is kept under the node, which is created if it is missing; so
	// several systems can share a ZooKeeper.
	URL string
	// SessionTimeout is requested; the server decides. Zero means DefaultSessionTimeout.
	SessionTimeout time.Duration
	Log            *slog.Logger
	// GiveUp, if set, is called when no server was ever reached and none of their names has resolved for minutes. It is called
	// concurrently, and more than once. Sessions go on trying.
	GiveUp func(error)
}

// Coordinator implements coord.Coordinator. It is safe for concurrent use, and holds no resources: each session has
// its own connection.
type Coordinator struct {
	address address
	timeout time.Duration
	log     *slog.Logger
	outage  *outage
}

var _ coord.Coordinator = (*Coordinator)(nil)

// New returns the coordinator at c.URL without contacting it: the server need not run yet. An error describes what is
// wrong with the settings.
func New(c Config) (*Coordinator, error) {
	at, err := parse(c.URL)
	if err != nil {
		return nil, fmt.Errorf("coordinator: %w", err)
	}
	c.SessionTimeout = cmp.Or(c.SessionTimeout, DefaultSessionTimeout)
	if c.SessionTimeout < time.Second || c.Log == nil {
		return nil, errors.New("coordinator: a session of at least 1 s and a logger are needed")
	}
	if c.GiveUp == nil {
		c.GiveUp = func(error) {}
	}
	return &Coordinator{address: at, timeout: c.SessionTimeout, log: c.Log, outage: &outage{log: c.Log, giveUp: c.GiveUp}}, nil
}

// Open implements coord.Coordinator. It retries until a server accepts, whatever is wrong with the servers, and
// returns coord.ErrUnavailable once ctx ends. Any other error means that the server does not allow the nodes to be
// created.
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
		// It was lost before the caller received it.
		k.log.DebugContext(ctx, "session lost while it was opened")
	}
}

// connect starts a session that does not exist on the server yet. The first server, that of the own host, is tried first: it is lost
// only together with its clients.
func (k *Coordinator) connect() (*Session, error) {
	servers := slices.Clone(k.address.servers)
	others := servers[1:]
	rand.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] }) //nolint:gosec // to spread load, not a secret
	return start(k.address.root, &link{servers: servers, session: k.timeout, outage: k.outage}, k.timeout, k.log)
}
