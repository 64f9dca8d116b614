package doctest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// keptBody is the length of the longest body that is compared, in bytes. With a longer body only the headers are compared.
const keptBody = 1 << 20

// Recorder compares the exchanges of HTTP clients with documents. It is safe for concurrent use.
type Recorder struct {
	mu       sync.Mutex // guards problems
	problems []string   // each once
}

// Problem is an error that names all exchanges that the documents do not allow; nil if there are none.
func (r *Recorder) Problem() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.problems) == 0 {
		return nil
	}
	return fmt.Errorf("%d exchanges are not as the OpenAPI documents say:\n%s", len(r.problems), strings.Join(r.problems, "\n"))
}

// Transport is an http.RoundTripper whose exchanges are recorded.
type Transport struct {
	*http.Transport

	Recorder *Recorder
	// DocumentOf returns the document of the service at an address; nil for an address that has none.
	DocumentOf func(*url.URL) *Document
}

// RoundTrip implements http.RoundTripper. An exchange is compared when its answer has been read or closed.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.Transport.RoundTrip(req)
	d := t.DocumentOf(req.URL)
	if err != nil || d == nil {
		return resp, err
	}
	x := Exchange{Method: req.Method, URL: req.URL, Request: req.Header, Sent: sent(req), Status: resp.StatusCode, Answer: resp.Header.Clone()}
	resp.Body = &body{ReadCloser: resp.Body, whole: func(got []byte) {
		x.Got = got
		t.Recorder.record(d, x)
	}}
	return resp, nil
}

// sent returns the body of a request, or nil if the body is too long or cannot be read twice.
func sent(req *http.Request) []byte {
	if req.Body == nil || req.Body == http.NoBody {
		return []byte{}
	}
	if req.GetBody == nil || req.ContentLength > keptBody {
		return nil
	}
	again, err := req.GetBody()
	if err != nil {
		return nil
	}
	text, err := io.ReadAll(again)
	if err != nil {
		return nil
	}
	return text
}

func (r *Recorder) record(d *Document, x Exchange) {
	err := d.Check(x)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		problem := fmt.Sprintf("%s %.200s: %d: %v", x.Method, x.URL, x.Status, err)
		if !slices.Contains(r.problems, problem) {
			r.problems = append(r.problems, problem)
		}
	}
}

// body is the body of an answer. It calls whole once: with the text, or with nil if the body is too long or is closed
// before its end.
type body struct {
	io.ReadCloser

	text  bytes.Buffer
	once  sync.Once
	whole func([]byte)
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.text.Len() <= keptBody {
		b.text.Write(p[:n])
	}
	if err == io.EOF {
		b.end(true)
	}
	return n, err
}

// Close implements io.Closer.
func (b *body) Close() error {
	b.end(false)
	return b.ReadCloser.Close()
}

func (b *body) end(complete bool) {
	b.once.Do(func() {
		if !complete || b.text.Len() > keptBody {
			b.whole(nil)
			return
		}
		b.whole(append([]byte{}, b.text.Bytes()...))
	})
}
