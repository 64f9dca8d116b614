package client

import (
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"time"

	"rideshare/internal/dbaas"
)

// checked is the body of a snapshot that verifies itself.
type checked struct {
	body  io.ReadCloser
	stop  context.CancelFunc
	quiet time.Duration
	timer *time.Timer // ends the call when nothing comes
	sum   hash.Hash
	left  int64
	want  [32]byte
}

func newChecked(body io.ReadCloser, stop context.CancelFunc, quiet time.Duration, s *dbaas.Snapshot) *checked {
	return &checked{
		body: body, stop: stop, quiet: quiet, timer: time.AfterFunc(quiet, stop),
		sum: sha256.New(), left: s.Size, want: s.SHA256,
	}
}

// Read implements io.Reader. It returns io.EOF only when the whole file came and
// its checksum is right; errors are *dbaas.Error with CodeUnavailable.
func (c *checked) Read(p []byte) (int, error) {
	c.timer.Reset(c.quiet)
	n, err := c.body.Read(p)
	c.timer.Stop()
	c.sum.Write(p[:n])
	c.left -= int64(n)
	switch {
	case err == nil:
		return n, nil
	case !errors.Is(err, io.EOF):
		return n, dbaas.WrapError(dbaas.CodeUnavailable, "the snapshot broke off", err)
	case c.left != 0 || [32]byte(c.sum.Sum(nil)) != c.want:
		return n, dbaas.Errorf(dbaas.CodeUnavailable, "the snapshot arrived damaged")
	default:
		return n, io.EOF
	}
}

// Close implements io.Closer. It may be called before the end.
func (c *checked) Close() error {
	c.timer.Stop()
	c.stop()
	return c.body.Close()
}
