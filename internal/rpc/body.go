package rpc

import (
	"cmp"
	"context"
	"errors"
	"io"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/wait"
)

// body is the body of an answer. It behaves as Open documents.
type body struct {
	ctx    context.Context //nolint:containedctx // of the call that the body belongs to.
	in     io.ReadCloser
	stop   context.CancelFunc
	caller *Caller
	quiet  time.Duration
	timer  *time.Timer // ends the call when no bytes arrive
}

func newBody(ctx context.Context, in io.ReadCloser, stop context.CancelFunc, c *Caller) *body {
	quiet := cmp.Or(c.Timeout, forever)
	return &body{ctx: ctx, in: in, stop: stop, caller: c, quiet: quiet, timer: time.AfterFunc(quiet, stop)}
}

// Read implements io.Reader. It returns io.EOF only after the answer's last chunk, which net/http guarantees.
func (b *body) Read(p []byte) (int, error) {
	b.timer.Reset(b.quiet)
	n, err := b.in.Read(p)
	b.timer.Stop()
	if n > 0 {
		wait.ReportProgress(b.ctx)
	}
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	return n, dbaas.WrapError(dbaas.CodeUnavailable, b.caller.Peer+"'s answer broke off", err)
}

// Close implements io.Closer. It may be called before the end of the body.
func (b *body) Close() error {
	b.timer.Stop()
	b.stop()
	return b.in.Close()
}
