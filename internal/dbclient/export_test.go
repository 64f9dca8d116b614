package dbclient

import (
	"context"
	"time"
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
)

// Repeat is what sends a call, without HTTP.
func (c *Client) Repeat(ctx context.Context, write bool, deadline time.Time, try func() (End, error)) error {
	return c.repeat(ctx, write, deadline, try)
}
