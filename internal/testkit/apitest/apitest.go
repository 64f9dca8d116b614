// Package apitest calls HTTP services in tests.
package apitest

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Answer is the response to a call.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// ServeAt serves handler at an address until the test ends.
func ServeAt(tb testing.TB, address string, handler http.Handler) *httptest.Server {
	tb.Helper()
	listener, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", address)
	if err != nil {
		tb.Fatal(err)
	}
	s := &httptest.Server{Listener: listener, Config: &http.Server{Handler: handler}} //nolint:gosec // a server of a test
	s.Start()
	tb.Cleanup(s.Close)
	return s
}

// Do sends one request with a body of known length. headers are alternating names and values. Do follows no redirect,
// and fails the test if there is no answer.
func Do(tb testing.TB, method, url, body string, headers ...string) Answer {
	tb.Helper()
	return Send(tb, method, url, strings.NewReader(body), headers...)
}

// Send is Do with any body.
func Send(tb testing.TB, method, url string, body io.Reader, headers ...string) Answer {
	tb.Helper()
	req, err := http.NewRequestWithContext(tb.Context(), method, url, body)
	if err != nil {
		tb.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		tb.Fatal(err)
	}
	return Answer{Status: resp.StatusCode, Header: resp.Header, Body: string(got)}
}

// OK makes a call and returns the body of its answer, whose status must be 200.
func OK(tb testing.TB, method, url, body string) string {
	tb.Helper()
	got := Do(tb, method, url, body)
	if got.Status != http.StatusOK {
		tb.Fatalf("%s %s: got %d %s, want 200", method, url, got.Status, got.Body)
	}
	return got.Body
}

// Want makes a call, such as "GET /", to the service at url and fails the test unless the answer has want's status
// and body.
func Want(tb testing.TB, url, call, body string, want Answer) {
	tb.Helper()
	method, path, _ := strings.Cut(call, " ")
	if got := Do(tb, method, url+path, body); got.Status != want.Status || got.Body != want.Body {
		tb.Errorf("%.60s %.100s: got %d %.200s, want %d %.200s", call, body, got.Status, got.Body, want.Status, want.Body)
	}
}
