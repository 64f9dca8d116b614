package client

import (
	"context"
	"errors"
	"io"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/wait"
)

// bounded is the body of an answer. It limits the wait for the next bytes, but not the total time while bytes arrive.
type bounded struct {
	ctx   context.Context //nolint:containedctx // of the call that the body belongs to.
	body  io.ReadCloser
	stop  context.CancelFunc
	quiet time.Duration
	timer *time.Timer // ends the call when no bytes arrive
}

func newBounded(ctx context.Context, body io.ReadCloser, stop context.CancelFunc, quiet time.Duration) *bounded {
	return &bounded{ctx: ctx, body: body, stop: stop, quiet: quiet, timer: time.AfterFunc(quiet, stop)}
}

// Read implements io.Reader. It returns io.EOF only after the answer's last chunk, which net/http guarantees; other
// errors are *dbaas.Error with CodeUnavailable.
func (b *bounded) Read(p []byte) (int, error) {
	b.timer.Reset(b.quiet)
	n, err := b.body.Read(p)
	b.timer.Stop()
	if n > 0 {
		wait.Heard(b.ctx)
	}
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	return n, dbaas.WrapError(dbaas.CodeUnavailable, "persdb's answer broke off", err)
}

// Close implements io.Closer. It may be called before the end of the body.
func (b *bounded) Close() error {
	b.timer.Stop()
	b.stop()
	return b.body.Close()
}
