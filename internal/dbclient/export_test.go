package dbclient

import (
	"context"
	"errors"
	"net/http"
	"time"

	"rideshare/internal/dbaas"
)

// End is how an attempt ended.
type End = end

// The ends.
const (
	Answered    = endAnswered
	Gone        = endGone
	Busy        = endBusy
	Unavailable = endUnavailable
	Running     = endRunning
	Lost        = endLost
	Elsewhere   = endElsewhere
)

// Repeat is what sends a call, without HTTP. The error of an attempt says how long the server asks to wait.
func (c *Client) Repeat(ctx context.Context, write bool, deadline time.Time, try func() (End, error)) error {
	return c.repeat(ctx, write, deadline, func() ended {
		how, err := try()
		last := ended{how: how, err: err}
		if e, ok := errors.AsType[*dbaas.Error](err); ok {
			last.wait = e.RetryAfter
		}
		return last
	})
}

// Newest is the largest position that a client has seen.
type Newest struct{ newest }

// Note takes the position of an answer.
func (n *Newest) Note(h http.Header, now time.Time) { n.note(h, now) }

// Asks reports whether a read asks for the position.
func (n *Newest) Asks(now time.Time) bool { return n.recent(now) != nil }

// Seq is the position.
func (n *Newest) Seq() dbaas.Seq { return n.seen.Load().seq }
