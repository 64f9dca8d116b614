package httpapi

import (
	"context"
	"net/http"
	"time"
)

// pieceBytes is how much of a stream must be accepted within its stall time.
const pieceBytes = 16 << 10

// Stream is an endless answer, such as server-sent events. It belongs to one goroutine.
type Stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	stall   time.Duration
	torn    bool
}

// NewStream begins a stream with a status of 200. A client that accepts nothing for stall is cut off.
func NewStream(w http.ResponseWriter, contentType string, stall time.Duration) *Stream {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	inner := w
	if wrapper, ok := w.(interface{ Unwrap() http.ResponseWriter }); ok {
		inner = wrapper.Unwrap() // echo's own Flush has no error
	}
	return &Stream{w: w, control: http.NewResponseController(inner), stall: stall}
}

// Torn reports whether the last Send did not send all of its bytes.
func (s *Stream) Torn() bool { return s.torn }

// Send sends b, perhaps only after the next Flush. An error means that the stream has ended: it wraps
// os.ErrDeadlineExceeded if the client was cut off, and is ctx's cause if ctx has ended.
func (s *Stream) Send(ctx context.Context, b []byte) error {
	for s.torn = true; len(b) > 0; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := s.control.SetWriteDeadline(time.Now().Add(s.stall)); err != nil {
			return err
		}
		n, err := s.w.Write(b[:min(len(b), pieceBytes)])
		if err != nil {
			return err
		}
		b = b[n:]
	}
	s.torn = false
	return nil
}

// Flush sends what is not sent yet. Its errors are those of Send.
func (s *Stream) Flush() error {
	if err := s.control.SetWriteDeadline(time.Now().Add(s.stall)); err != nil {
		return err
	}
	return s.control.Flush()
}
