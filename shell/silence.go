package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// errSilent is wrapped by the error of a transfer whose server is silent.
var errSilent = errors.New("the server has sent and taken nothing")

// transfersOf returns a client for requests whose body or answer may be long. It ends a request with errSilent when the
// server takes no piece of the body for pieceTimeout, when its answer does not begin for transferTimeout after the body, or
// when no piece of the answer comes for pieceTimeout.
func transfersOf(transport http.RoundTripper) *http.Client { return clientOf(transfers{transport}) }

// transfers sends each request within the limits of transfersOf.
type transfers struct{ transport http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t transfers) RoundTrip(r *http.Request) (*http.Response, error) {
	s := &silence{}
	s.ctx, s.end = context.WithCancelCause(r.Context())
	s.timer = time.AfterFunc(transferTimeout, func() { s.end(fmt.Errorf("%w for %v", errSilent, time.Duration(s.limit.Load()))) })
	s.allow(transferTimeout)
	out := r.WithContext(s.ctx)
	if r.Body != nil {
		out.Body = sent{r.Body, s}
	}
	resp, err := t.transport.RoundTrip(out)
	if err != nil {
		defer s.stop()
		return nil, s.cause(err)
	}
	s.answer()
	resp.Body = received{resp.Body, s}
	return resp, nil
}

// silence is the limit of a request's silence.
type silence struct {
	ctx   context.Context // of the request
	end   context.CancelCauseFunc
	timer *time.Timer  // ends ctx
	limit atomic.Int64 // what timer was last set to

	mu       sync.Mutex // guards answered, and timer before the answer
	answered bool       // the answer has begun
}

// allow lets the server be silent for d from now on.
func (s *silence) allow(d time.Duration) {
	s.limit.Store(int64(d))
	s.timer.Reset(d)
}

// allowSending is allow while the request is sent. A transport may read the end of the body after the answer has begun, which
// changes nothing.
func (s *silence) allowSending(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.answered {
		s.allow(d)
	}
}

// answer notes that the answer has begun. Until it is read, the server may be silent.
func (s *silence) answer() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answered = true
	s.timer.Stop()
}

// cause returns the error of a request that failed with err.
func (s *silence) cause(err error) error {
	if cause := context.Cause(s.ctx); errors.Is(cause, errSilent) {
		return cause
	}
	return err
}

func (s *silence) stop() {
	s.timer.Stop()
	s.end(nil)
}

// sent is the body of a request.
type sent struct {
	io.ReadCloser
	silence *silence
}

// Read implements io.Reader. It is called when the server has taken what was read before.
func (b sent) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.silence.allowSending(transferTimeout)
	} else {
		b.silence.allowSending(pieceTimeout)
	}
	return n, err
}

// received is the body of an answer. Only the time within reads counts: the caller may take long to write what it has read.
type received struct {
	io.ReadCloser
	silence *silence
}

// Read implements io.Reader.
func (b received) Read(p []byte) (int, error) {
	b.silence.allow(pieceTimeout)
	n, err := b.ReadCloser.Read(p)
	b.silence.timer.Stop()
	if err != nil && !errors.Is(err, io.EOF) {
		err = b.silence.cause(err)
	}
	return n, err
}

// Close implements io.Closer. It ends the request.
func (b received) Close() error {
	defer b.silence.stop()
	return b.ReadCloser.Close()
}
