package httpapi

import (
	"io"
	"net/http"
	"time"
)

// progressBytes is how much of a long body must arrive within one read timeout. A body that keeps arriving may take
// any time in total, while one that trickles is ended. 1 MiB in 15 s is slower than any line that could carry 64 MiB.
const progressBytes = 1 << 20

// withProgress renews the read timeout, and the write timeout for the answer, of a request with a long body after each
// progressBytes of it. At the end of the body it renews only the write timeout: net/http has just cleared the read
// deadline and keeps reading in the background. If that read timed out, it would cancel the contexts of the connection
// and its later requests. Without withProgress the server's timeouts would apply to the whole request, however long.
func withProgress(next http.Handler, read, write time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n := r.ContentLength; n < 0 || n > progressBytes {
			r.Body = &progressBody{ReadCloser: r.Body, control: http.NewResponseController(w), read: read, write: write}
		}
		next.ServeHTTP(w, r)
	})
}

// progressBody is the body of one request. Like any body it is read by one goroutine only.
type progressBody struct {
	io.ReadCloser
	control     *http.ResponseController
	read, write time.Duration
	since       int // bytes since the deadlines were last set
}

// Read implements io.Reader.
func (b *progressBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.since += n; b.since >= progressBytes || err == io.EOF {
		b.since = 0
		b.extend(err == io.EOF)
	}
	return n, err
}

// extend renews the deadlines. If that fails, the connection is lost, and the next Read returns the error.
func (b *progressBody) extend(ended bool) {
	now := time.Now()
	if !ended {
		_ = b.control.SetReadDeadline(now.Add(b.read))
	}
	if b.write > 0 {
		_ = b.control.SetWriteDeadline(now.Add(b.write))
	}
}

// AnswerProgress renews the server's write timeout of a long answer for each progressBytes of it. An answer may take any
// time in total, while a client that takes too little of it is cut off. It belongs to one goroutine.
type AnswerProgress struct {
	w    http.ResponseWriter
	r    *http.Request
	left int64 // bytes until the next renewal
}

// NewAnswerProgress returns the AnswerProgress of an answer to r. The first renewal comes early, because the timeout runs
// from the head of the request and the handler may have used up most of it. Short answers need none.
func NewAnswerProgress(w http.ResponseWriter, r *http.Request) AnswerProgress {
	return AnswerProgress{w: w, r: r, left: smallHold}
}

// Next must be called before each write, with its bytes. It reports whether it has renewed the timeout.
func (p *AnswerProgress) Next(n int64) (renewed bool) {
	if p.left > 0 {
		p.left -= n
		return false
	}
	p.left = progressBytes - n
	server, ok := p.r.Context().Value(http.ServerContextKey).(*http.Server)
	if !ok || server.WriteTimeout <= 0 {
		return false
	}
	// If that fails, the connection is lost, and the write returns the error.
	_ = http.NewResponseController(p.w).SetWriteDeadline(time.Now().Add(server.WriteTimeout))
	return true
}
