package sim_test

import (
	"context"
	"fmt"

	"rideshare/internal/dbaas"
)

// queued is an asynchronous write that was accepted.
type queued struct {
	id   dbaas.OpID
	name string
}

// queue makes an asynchronous write. checkAccepted looks up its result at the end.
func (c *client) queue() {
	o := c.w.pick(c.rnd)
	if o == nil {
		return
	}
	op, call := c.newWrite()
	c.w.sent(op.ID)
	pending := c.history.Begin(call)
	_, err := o.dispatcher.Enqueue(context.Background(), op)
	switch code := dbaas.CodeOf(err); code { //nolint:exhaustive // all other codes are wrong.
	case dbaas.CodeOK:
		c.w.mu.Lock()
		c.w.accepted = append(c.w.accepted, queued{op.ID, call.Value})
		c.w.mu.Unlock()
	case dbaas.CodeUnknown:
	case dbaas.CodeUnavailable:
		pending.Refused()
		c.w.ledger.Refused(call.Value)
		return
	default:
		c.w.fail(fmt.Errorf("queued write %s: got code %q, want ok, unavailable or unknown", call.Value, code))
	}
	c.history.Unknown(pending)
	c.w.ledger.Unknown(call.Value)
}
