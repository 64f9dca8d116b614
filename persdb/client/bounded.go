package client

import (
	"context"
	"errors"
	"io"
	"time"

	"rideshare/internal/dbaas"
)

// bounded is the body of a snapshot that waits only so long for the next bytes.
type bounded struct {
	body  io.ReadCloser
	stop  context.CancelFunc
	quiet time.Duration
	timer *time.Timer // ends the call when nothing comes
}

func newBounded(body io.ReadCloser, stop context.CancelFunc, quiet time.Duration) *bounded {
	return &bounded{body: body, stop: stop, quiet: quiet, timer: time.AfterFunc(quiet, stop)}
}

// Read implements io.Reader. It returns io.EOF only when the answer's last chunk came, which net/http
// sees to; other errors are *dbaas.Error with CodeUnavailable.
func (b *bounded) Read(p []byte) (int, error) {
	b.timer.Reset(b.quiet)
	n, err := b.body.Read(p)
	b.timer.Stop()
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	return n, dbaas.WrapError(dbaas.CodeUnavailable, "the snapshot broke off", err)
}

// Close implements io.Closer. It may be called before the end.
func (b *bounded) Close() error {
	b.timer.Stop()
	b.stop()
	return b.body.Close()
}
