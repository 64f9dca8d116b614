package restore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"rideshare/internal/wait"
	"rideshare/persdb/archive/place"
)

// quiet is how long a call of the place may go without progress.
const quiet = time.Minute

// source is the place of the archive that is read. A call of it, or a read of a body, fails if nothing comes for quiet. It
// remembers the last fault of the place.
type source struct {
	place.Place

	mu   sync.Mutex // guards last
	last error
}

// fault returns the last error that was not a missing object; nil if there was none.
func (s *source) fault() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// note returns the error of a call, with the reason if ctx has ended, and remembers it.
func (s *source) note(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil && !errors.Is(err, place.ErrNotFound) {
		s.mu.Lock()
		s.last = err
		s.mu.Unlock()
	}
	return err
}

// List implements place.Place.
func (s *source) List(ctx context.Context, prefix string) ([]place.Object, error) {
	ctx, cancel := wait.UntilStalled(ctx, quiet)
	defer cancel()
	objects, err := s.Place.List(ctx, prefix)
	return objects, s.note(ctx, err)
}

// Open implements place.Place.
func (s *source) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	ctx, stop := context.WithCancelCause(ctx)
	b := &body{ctx: ctx, stop: stop, source: s}
	var err error
	b.bounded(func() { b.in, err = s.Place.Open(ctx, name) })
	if err != nil {
		err = s.note(ctx, err)
		stop(nil)
		return nil, err
	}
	return b, nil
}

// body is the body of an object. Its time runs only while a call of the place does, since the reader may be slow.
type body struct {
	ctx    context.Context //nolint:containedctx // of the call that the body belongs to.
	stop   context.CancelCauseFunc
	source *source
	in     io.ReadCloser
}

// bounded ends ctx if call takes longer than quiet.
func (b *body) bounded(call func()) {
	timer := time.AfterFunc(quiet, func() { b.stop(fmt.Errorf("nothing came for %v: %w", quiet, context.DeadlineExceeded)) })
	defer timer.Stop()
	call()
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (n int, err error) {
	b.bounded(func() { n, err = b.in.Read(p) })
	if err == io.EOF { // unwrapped, it is the end of the body; an error may wrap it.
		return n, err
	}
	return n, b.source.note(b.ctx, err)
}

// Close implements io.Closer.
func (b *body) Close() error {
	b.stop(nil)
	return b.in.Close()
}
