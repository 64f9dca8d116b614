package rpc_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
	"rideshare/internal/rpc"
	"rideshare/internal/wait"
)

const (
	timeout   = time.Second
	maxAnswer = 1 << 10
)

// number is what the calls of these tests answer.
type number struct {
	N int `json:"n"`
}

// callerOf returns a Caller with connections in memory. part gets each connection once a whole request has arrived, and
// leaves it to be closed.
func callerOf(t *testing.T, part func(net.Conn, *http.Request)) *rpc.Caller {
	t.Helper()
	var parts sync.WaitGroup
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		conn, other := net.Pipe()
		parts.Go(func() {
			defer func() { _ = other.Close() }()
			in := bufio.NewReader(other)
			for {
				r, err := http.ReadRequest(in)
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, r.Body)
				part(other, r)
				if r.Header.Get("X-Keep") == "" {
					return
				}
			}
		})
		return conn, nil
	}}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		parts.Wait()
	})
	return &rpc.Caller{Peer: "part", Base: "http://part", HTTP: &http.Client{Transport: transport}, Timeout: timeout, MaxAnswer: maxAnswer}
}

// silence holds a connection until the caller closes it.
func silence(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

func send(text string) func(net.Conn) {
	return func(conn net.Conn) { _, _ = io.WriteString(conn, text) }
}

// page is an answer of status with a body of that length.
func page(status, body string) func(net.Conn) {
	return send("HTTP/1.1 " + status + "\r\nConnection: close\r\n\r\n" + body)
}

// dribble sends one byte at a time, each within the time that a silence may last.
func dribble(conn net.Conn) {
	send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n")(conn)
	for range 100 {
		time.Sleep(timeout * 9 / 10)
		if _, err := conn.Write([]byte(" ")); err != nil {
			return
		}
	}
}

// Only an answer of the part itself has a code that counts. Whatever else comes back leaves the outcome of a call with an
// effect unknown, and says nothing about the subject of any call.
func TestCall_Answers(t *testing.T) {
	lost, unreadable := dbaas.CodeUnavailable, dbaas.CodeInternal
	for name, tc := range map[string]struct {
		part func(net.Conn)
		want dbaas.Code // of a call without an effect
		took time.Duration
	}{
		"Whole":            {part: page("200 OK", `{"n":7,"later":[]}`)},
		"Dropped":          {part: func(net.Conn) {}, want: lost},
		"CutInHead":        {part: send("HTTP/1.1 200 O"), want: lost},
		"CutInBody":        {part: send("HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{\"n\":"), want: lost},
		"CutAfterValue":    {part: send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7\r\n{\"n\":7}\r\n"), want: lost},
		"CutAfterProblem":  {part: send("HTTP/1.1 409 Conflict\r\nContent-Length: 99\r\n\r\n{\"code\":\"conflict\"}"), want: lost},
		"Silent":           {part: silence, want: lost, took: timeout},
		"SilentAfterHead":  {part: func(c net.Conn) { send("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n")(c); silence(c) }, want: lost, took: timeout},
		"SilentInProblem":  {part: func(c net.Conn) { send("HTTP/1.1 503 X\r\nContent-Length: 7\r\n\r\n{")(c); silence(c) }, want: lost, took: timeout},
		"Dribbles":         {part: dribble, want: lost, took: timeout},
		"NoBody500":        {part: page("500 Internal Server Error", ""), want: lost},
		"NoBody503":        {part: page("503 Service Unavailable", ""), want: lost},
		"Proxy502":         {part: page("502 Bad Gateway", "<html><h1>502 Bad Gateway</h1></html>"), want: lost},
		"Proxy404":         {part: page("404 Not Found", "404 page not found\n"), want: lost},
		"OtherStatus":      {part: page("202 Accepted", `{"n":7}`), want: lost},
		"Huge":             {part: page("200 OK", `{"n":7}`+strings.Repeat(" ", maxAnswer)), want: lost},
		"Endless":          {part: func(c net.Conn) { page("200 OK", "")(c); _, _ = io.Copy(c, zeros{}) }, want: lost},
		"HugeProblem":      {part: page("409 Conflict", `{"code":"conflict","detail":"`+strings.Repeat("x", 1<<20)+`"}`), want: lost},
		"Empty":            {part: page("200 OK", ""), want: unreadable},
		"Text":             {part: page("200 OK", "<html>sign in</html>"), want: unreadable},
		"OtherType":        {part: page("200 OK", `{"n":"seven"}`), want: unreadable},
		"Coded":            {part: page("503 Service Unavailable", `{"code":"stale_epoch","detail":"no"}`), want: dbaas.CodeStaleEpoch},
		"CodedOtherStatus": {part: page("409 Conflict", `{"code":"stale_epoch","detail":"no"}`), want: dbaas.CodeStaleEpoch},
		"CodedOldWorker":   {part: page("409 Conflict", `{"code":"conflict","message":"no"}`), want: dbaas.CodeConflict},
		"UnknownCode":      {part: page("409 Conflict", `{"code":"tea"}`), want: lost},
		"EmptyCode":        {part: page("409 Conflict", `{"code":"","detail":"no"}`), want: lost},
		"CodeNoText":       {part: page("409 Conflict", `{"code":409}`), want: lost},
	} {
		for _, effect := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				c := callerOf(t, func(conn net.Conn, _ *http.Request) { tc.part(conn) })
				began := time.Now()
				got, err := rpc.Call[number](t.Context(), c, rpc.Request{Method: http.MethodPost, Path: "/", Effect: effect}, number{})
				want := tc.want
				if effect && (want == lost || want == unreadable) {
					want = dbaas.CodeUnknown
				}
				if took := time.Since(began); dbaas.CodeOf(err) != want || took != tc.took || errors.Is(err, dbaas.ErrUnreachable) {
					t.Errorf("%s, effect %t: got %v after %v, want code %q after %v", name, effect, err, took, want, tc.took)
				}
				if (err == nil) != (got.N == 7) {
					t.Errorf("%s: got %v with %v", name, got, err)
				}
				if strings.HasPrefix(name, "Coded") && err.Error() != "no" {
					t.Errorf("%s: got %q, want the part's own message", name, err)
				}
			})
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// transport fails all requests, without saying how far they came.
type transport struct{}

func (transport) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("connection reset")
}

// dialing is a transport whose connections fail.
func dialing(dial func() error) http.RoundTripper {
	return &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return nil, dial() }}
}

// A call that certainly was not sent is CodeUnavailable even if it has an effect, and wraps dbaas.ErrUnreachable. A
// transport that does not report its connections proves nothing.
func TestCall_NotSent(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for name, tc := range map[string]struct {
		ctx  context.Context //nolint:containedctx // of one call.
		http http.RoundTripper
		want dbaas.Code
		took time.Duration
	}{
		"Refused":   {http: dialing(func() error { return errors.New("connection refused") }), want: dbaas.CodeUnavailable},
		"Filtered":  {http: dialing(func() error { time.Sleep(2 * timeout); return errors.New("timed out") }), want: dbaas.CodeUnavailable, took: timeout},
		"Cancelled": {ctx: over, http: transport{}, want: dbaas.CodeUnavailable},
		"Untraced":  {http: transport{}, want: dbaas.CodeUnknown},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := &rpc.Caller{Peer: "part", Base: "http://part", HTTP: &http.Client{Transport: tc.http}, Timeout: timeout, MaxAnswer: maxAnswer}
			ctx := tc.ctx
			if ctx == nil {
				ctx = t.Context()
			}
			defer time.Sleep(2 * timeout) // the transport dials to the end, whether a call waits for it or not
			began := time.Now()
			_, err := rpc.Call[number](ctx, c, rpc.Request{Method: http.MethodPost, Path: "/", Effect: true}, nil)
			unsent := tc.want == dbaas.CodeUnavailable
			if took := time.Since(began); dbaas.CodeOf(err) != tc.want || took != tc.took || errors.Is(err, dbaas.ErrUnreachable) != unsent {
				t.Errorf("%s: got %v after %v, want code %q after %v, certainly not sent: %t", name, err, took, tc.want, tc.took, unsent)
			}
		})
	}
}

// A call with an effect that meets the end of a kept connection is sent once only.
func TestCall_KeptConnectionBreaks_IsNotSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		c := callerOf(t, func(conn net.Conn, r *http.Request) {
			if calls.Add(1) == 1 {
				send("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n{\"n\":7}")(conn)
				return
			}
			r.Header.Del("X-Keep") // the part dies
		})
		r := rpc.Request{Method: http.MethodPost, Path: "/", Header: http.Header{"X-Keep": {"1"}}, Effect: true}
		if got, err := rpc.Call[number](t.Context(), c, r, number{}); err != nil || got.N != 7 {
			t.Fatalf("got %v and %v, want 7", got, err)
		}
		synctest.Wait()
		if _, err := rpc.Call[number](t.Context(), c, r, number{}); dbaas.CodeOf(err) != dbaas.CodeUnknown || calls.Load() != 2 {
			t.Errorf("got %v after %d calls, want code %q after 2", err, calls.Load(), dbaas.CodeUnknown)
		}
	})
}

// A long answer may take any time while its bytes arrive, and each arrival is heard. A silence ends it.
func TestOpen_BoundsTheSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := callerOf(t, func(conn net.Conn, _ *http.Request) {
			page("200 OK", "")(conn)
			for range 20 {
				time.Sleep(timeout * 9 / 10)
				_, _ = conn.Write([]byte("x"))
			}
			silence(conn)
		})
		heard := 0
		resp, err := c.Open(wait.OnProgress(t.Context(), func() { heard++ }), rpc.Request{Method: http.MethodGet, Path: "/"})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		all, err := io.ReadAll(resp.Body)
		took := time.Since(began)
		if closed := resp.Body.Close(); closed != nil {
			t.Error(closed)
		}
		if len(all) != 20 || heard != 20 || took != 19*timeout || dbaas.CodeOf(err) != dbaas.CodeUnavailable {
			t.Errorf("got %d bytes, %d heard, %v after %v; want 20, 20, code %q after 19s", len(all), heard, err, took, dbaas.CodeUnavailable)
		}
	})
}

// A call carries the request's id and the caller's credentials.
func TestCall_Headers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got http.Header
		c := callerOf(t, func(conn net.Conn, r *http.Request) {
			got = r.Header
			page("200 OK", "{}")(conn)
		})
		c.Authorization = "Bearer t0ken"
		r := rpc.Request{Method: http.MethodGet, Path: "/", Header: http.Header{"X-Epoch": {"3"}}}
		if _, err := rpc.Call[rpc.None](httpapi.WithRequestID(t.Context(), "req-1"), c, r, nil); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{"X-Request-Id": "req-1", "Authorization": "Bearer t0ken", "X-Epoch": "3"} {
			if got.Get(name) != want {
				t.Errorf("%s: got %q, want %q", name, got.Get(name), want)
			}
		}
	})
}
