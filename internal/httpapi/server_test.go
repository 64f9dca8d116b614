package httpapi_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/labstack/echo/v4"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
	"rideshare/internal/testkit/testenv"
)

func openServer(t *testing.T, h http.Handler) *httpapi.Server {
	t.Helper()
	s := httpapi.NewServer(httpapi.ServerConfig{Addr: "127.0.0.1:0", Handler: h, Log: slog.New(slog.DiscardHandler)})
	if err := s.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Errorf("get %s: %v", url, err)
		return 0, ""
	}
	defer func() { _ = resp.Body.Close() }()
	return resp.StatusCode, bodyOf(t, resp)
}

// bodyOf reads the body of an answer.
func bodyOf(t *testing.T, resp *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// A busy or malformed address is an error of Open; closing a server that was never opened is not an error.
func TestServer_Open_BusyPortIsAnError(t *testing.T) {
	defer testenv.NoLeaks(t)
	first := openServer(t, http.NotFoundHandler())
	for _, addr := range []string{first.Addr(), "127.0.0.1:99999", "nonsense"} {
		s := httpapi.NewServer(httpapi.ServerConfig{Addr: addr, Log: slog.New(slog.DiscardHandler)})
		if err := s.Open(t.Context()); err == nil {
			t.Errorf("%s: opened, want an error", addr)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Errorf("%s: close: %v", addr, err)
		}
	}
	if err := first.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// Close waits for the request in flight, and Done reports that serving ended well.
func TestServer_Close_WaitsForRequests(t *testing.T) {
	defer testenv.NoLeaks(t)
	entered, leave := make(chan struct{}), make(chan struct{})
	var ended atomic.Bool
	s := openServer(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(entered)
		<-leave
		_, _ = io.WriteString(w, "done")
		ended.Store(true)
	}))
	s.OnShutdown(func() { close(leave) })
	answered := make(chan string, 1)
	go func() {
		_, body := get(t, s.URL())
		answered <- body
	}()
	<-entered
	err := s.Close(t.Context())
	if inFlight := !ended.Load(); err != nil || inFlight {
		t.Errorf("close: got %v while a request is in flight: %t", err, inFlight)
	}
	if got := <-answered; got != "done" {
		t.Errorf("got %q, want the whole answer", got)
	}
	if err := <-s.Done(); err != nil {
		t.Errorf("serving ended with %v", err)
	}
}

// Close does not wait longer than its context for a request that never ends.
func TestServer_Close_IsBounded(t *testing.T) {
	entered := make(chan struct{})
	s := openServer(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
	}))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, s.URL(), nil)
		if err != nil {
			t.Error(err)
			return
		}
		if resp, err := http.DefaultTransport.RoundTrip(req); err == nil {
			_ = resp.Body.Close()
		}
	}()
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Close(ctx); err != nil {
		t.Errorf("got %v, want nil: a request that does not end is no failure of the server", err)
	}
	<-ended
}

// The end of a request's context tells a client that left from a server that stops. Both are context.Canceled.
func TestServer_ClientLeft(t *testing.T) {
	for _, left := range []bool{true, false} {
		entered, ended := make(chan struct{}), make(chan context.Context, 1)
		s := openServer(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			close(entered)
			<-r.Context().Done()
			ended <- r.Context()
		}))
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		if _, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		<-entered
		if left {
			_ = conn.Close()
		} else {
			now, cancel := context.WithCancel(t.Context())
			cancel()
			_ = s.Close(now)
		}
		ctx := <-ended
		if got := httpapi.ClientLeft(ctx); got != left || !errors.Is(context.Cause(ctx), context.Canceled) {
			t.Errorf("client left: got %v with cause %v, want %v", got, context.Cause(ctx), left)
		}
		_ = conn.Close()
		if err = s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// A readiness check answers with the result of ready; liveness always answers.
func TestAPI_HandleHealth(t *testing.T) {
	var notReady error
	f := newFixture(t, func(a *httpapi.API) {
		a.HandleHealth(func(context.Context) error { return notReady }, http.HandlerFunc(
			func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "metrics") }))
	})
	if code, _ := get(t, f.url+"/readyz"); code != http.StatusOK {
		t.Errorf("ready: got %d", code)
	}
	notReady = dbaas.Errorf(dbaas.CodeUnavailable, "no master")
	if code, body := get(t, f.url+"/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "no master") {
		t.Errorf("not ready: got %d %s", code, body)
	}
	if code, _ := get(t, f.url+"/livez"); code != http.StatusOK {
		t.Errorf("live: got %d", code)
	}
	if _, body := get(t, f.url+"/metrics"); body != "metrics" {
		t.Errorf("metrics: got %q", body)
	}
}

// Positions and keys are parsed strictly, and a position is sent only if there is one.
func TestHeaders(t *testing.T) {
	f := newFixture(t, func(a *httpapi.API) {
		a.Handle(http.MethodGet, "/", func(c echo.Context) error {
			seq, err := httpapi.MinSeq(c)
			if err != nil {
				return err
			}
			key, err := httpapi.IdempotencyKey(c)
			if err != nil {
				return err
			}
			httpapi.SetSeq(c, seq)
			return httpapi.JSONExactly(c, http.StatusOK, key)
		})
	})
	for _, tt := range []struct {
		header, value string
		status        int
		seq, body     string
	}{
		{"X-Min-Seq", "18446744073709551615", 200, "18446744073709551615", `""`},
		{"X-Min-Seq", "0", 200, "", `""`},
		{"X-Min-Seq", "-1", 400, "", ""},
		{"X-Min-Seq", "1.0", 400, "", ""},
		{"X-Min-Seq", "", 400, "", ""},
		{"Idempotency-Key", "a <b>", 200, "", `"a <b>"`},
		{"Idempotency-Key", "", 400, "", ""},
		{"Idempotency-Key", strings.Repeat("k", 255), 200, "", `"` + strings.Repeat("k", 255) + `"`},
		{"Idempotency-Key", strings.Repeat("k", 256), 400, "", ""},
		{"Idempotency-Key", "schlüssel", 400, "", ""},
	} {
		resp, body := f.do(t, http.MethodGet, "/", "", tt.header, tt.value)
		if resp.StatusCode != tt.status || resp.Header.Get("X-Seq") != tt.seq || (tt.body != "" && body != tt.body) {
			t.Errorf("%s %.10q: got %d, seq %q, %.20s", tt.header, tt.value, resp.StatusCode, resp.Header.Get("X-Seq"), body)
		}
	}
}
