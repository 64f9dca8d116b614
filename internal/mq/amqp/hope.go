package amqp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

const (
	// refusedFor is how long a broker may refuse the user or the vhost: somebody may create them just after its start.
	refusedFor = 30 * time.Second
	// unknownFor is how long the host's name may fail to resolve. A container has a name only while it runs, and the parts
	// of a system start in any order.
	unknownFor = 5 * time.Minute
)

// connectError is why no session was made. Errors after that, such as a queue that may not be used, are not of this
// type.
type connectError struct{ err error }

func (e *connectError) Error() string { return "connect: " + e.err.Error() }

func (e *connectError) Unwrap() error { return e.err }

// patience returns how long an error of dialSession may last before it counts as one that never ends. never is false
// for all other errors: they may end at any time.
func patience(err error) (limit time.Duration, never bool) {
	connect, ok := errors.AsType[*connectError](err)
	if !ok {
		return 0, false
	}
	// If the password is wrong, RabbitMQ closes the connection without a reason. The library returns the same error when
	// our own time limit ends the connection at that moment because the broker hangs.
	if errors.Is(connect.err, amqp091.ErrCredentials) {
		late := errors.Is(connect.err, context.DeadlineExceeded) || errors.Is(connect.err, context.Canceled)
		return refusedFor, !late
	}
	if refusal, ok := errors.AsType[*amqp091.Error](connect.err); ok && refusal.Server {
		limited := strings.Contains(refusal.Reason, "limit") // too many connections: some of them may end
		return refusedFor, refusal.Code == amqp091.AccessRefused || refusal.Code == amqp091.NotAllowed && !limited
	}
	if unknown, ok := errors.AsType[*net.DNSError](connect.err); ok && unknown.IsNotFound {
		return unknownFor, true
	}
	return 0, false
}

// hope decides when a connection that has never been up is given up. A connection that was up is not: its settings are
// right, and the broker may be in the middle of a change.
type hope struct {
	wasUp bool
	limit time.Duration // how long the present errors may last
	since time.Time     // when they began
}

// after records the result of a try. It returns err with the time that it lasted once it counts as final.
func (h *hope) after(err error) error {
	limit, never := patience(err)
	_, connecting := errors.AsType[*connectError](err)
	switch {
	case err == nil || !connecting: // the login succeeded
		h.wasUp = true
	case h.wasUp:
	case !never:
		h.limit = 0 // the next refusal is the first
	case limit != h.limit:
		h.limit, h.since = limit, time.Now()
	case time.Since(h.since) >= limit:
		return fmt.Errorf("never connected, for %v: %w", limit, opaque{err})
	}
	return nil
}
