package httpapi

import (
	"io"
	"net/http"
	"time"
)

// progressBytes is what of a long body must come within one read time-out: a body that comes goes on, whatever
// it takes in all, and one that dribbles ends. 1 MiB in 15 s is under every line that carries 64 MiB.
const progressBytes = 1 << 20

// withProgress gives requests with a long body another read time-out, and write time-out for the answer,
// with each progressBytes of it, and once more at its end: the handler has yet to work then. Without
// it the server's time-outs are for the whole request, however long.
func withProgress(next http.Handler, read, write time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n := r.ContentLength; n < 0 || n > progressBytes {
			r.Body = &progressBody{ReadCloser: r.Body, control: http.NewResponseController(w), read: read, write: write}
		}
		next.ServeHTTP(w, r)
	})
}

// progressBody is the body of one request. Like any body it is read by one goroutine at a time.
type progressBody struct {
	io.ReadCloser
	control     *http.ResponseController
	read, write time.Duration
	since       int // bytes since the deadlines were set
}

// Read implements io.Reader.
func (b *progressBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.since += n; b.since >= progressBytes || err == io.EOF {
		b.since = 0
		b.extend()
	}
	return n, err
}

// extend sets the deadlines anew. A connection that cannot is gone, and the next Read says so.
func (b *progressBody) extend() {
	now := time.Now()
	_ = b.control.SetReadDeadline(now.Add(b.read))
	if b.write > 0 {
		_ = b.control.SetWriteDeadline(now.Add(b.write))
	}
}
