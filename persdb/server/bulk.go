package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/frame"
	"rideshare/internal/pause"
)

const (
	// largeBytes is the size from which bodies and pages go through a gate.
	largeBytes = 8 << 20
	// largePages is how many large pages of the log are in memory at once: two, so that a reader that has stopped does not
	// hold up all others.
	largePages = 2
)

// gate lets a number of large things through at once, in the order of their coming, and small ones always.
type gate chan struct{}

func newGate(n int) gate { return make(gate, n) }

// take waits for a place for size bytes, which done gives back. A negative size is not known, and counts as large.
func (g gate) take(ctx context.Context, size int64) (done func(), err error) {
	if size >= 0 && size <= largeBytes {
		return func() {}, nil
	}
	select {
	case g <- struct{}{}:
		return func() { <-g }, nil
	case <-ctx.Done():
		return nil, dbaas.WrapError(dbaas.CodeUnavailable, "other large requests are in progress", ctx.Err())
	}
}

// readBody reads a request's body into memory of its size.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	in := http.MaxBytesReader(w, r.Body, frame.MaxBytes)
	var body []byte
	var err error
	switch n := r.ContentLength; {
	case n > frame.MaxBytes:
		err = &http.MaxBytesError{Limit: frame.MaxBytes}
	case n < 0:
		body, err = io.ReadAll(in)
	default:
		body = make([]byte, n)
		_, err = io.ReadFull(in, body)
	}
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return nil, dbaas.WrapError(dbaas.CodeTooLarge, "the batch is too large", err)
	}
	if err != nil {
		return nil, dbaas.WrapError(dbaas.CodeInvalid, "the body ended early", err)
	}
	return body, nil
}

// stream sends a body of unknown length to a reader that must not dawdle. It takes turns with others: at full speed
// it and its reader would keep every core busy, and commits would wait for theirs.
func stream(ctx context.Context, w http.ResponseWriter, body io.Reader) error {
	end := time.Now().Add(snapshotTime)
	control := http.NewResponseController(w)
	buf := make([]byte, chunkBytes)
	for turns := pause.NewTurns(); ; {
		n, err := body.Read(buf)
		now := time.Now()
		if now.After(end) {
			return errSlow
		}
		_ = control.SetWriteDeadline(now.Add(chunkTime)) // not supported by test recorders only.
		if _, sent := w.Write(buf[:n]); sent != nil {
			return sent
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if !turns.Rest(ctx) {
			return context.Cause(ctx)
		}
	}
}

func sendFrame(w http.ResponseWriter, body []byte) error { return sendParts(w, [][]byte{body}) }

// sendParts sends a frame. An error of the connection is not looked at: then nobody reads. A reader that takes no
// byte for chunkTime is let go, since it holds the memory of the frame.
func sendParts(w http.ResponseWriter, parts [][]byte) error {
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.Itoa(size))
	control := http.NewResponseController(w)
	for _, p := range parts {
		for len(p) > 0 {
			n := min(len(p), chunkBytes)
			if size > chunkBytes {
				_ = control.SetWriteDeadline(time.Now().Add(chunkTime)) // not supported by test recorders only.
			}
			if _, err := w.Write(p[:n]); err != nil {
				return nil //nolint:nilerr // as above.
			}
			p = p[n:]
		}
	}
	return nil
}
