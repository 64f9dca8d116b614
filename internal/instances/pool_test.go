package instances_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"rideshare/internal/instances"
	"rideshare/internal/testkit/apitest"
	"rideshare/internal/testkit/testenv"
)

const (
	// limit is longer than any test takes.
	limit = time.Minute
	// verdict is how long a probe of a paused instance takes: longer than a living one is silent on a slow machine.
	verdict = 5 * time.Second
)

func TestMain(m *testing.M) {
	instances.SetProbeTime(20 * time.Second) // however slow the machine is
	m.Run()
}

// named answers with its name and the request's body.
func named(t *testing.T, name string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			_, _ = fmt.Fprintf(w, "%s %s", name, body)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func newPool(t *testing.T, cfg instances.Config) *instances.Pool {
	t.Helper()
	p, err := instances.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.CloseIdleConnections)
	return p
}

// send sends a request with a body that can be sent again.
func send(ctx context.Context, t *testing.T, p *instances.Pool, body string) (string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.Base()+"/x", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return do(p, r)
}

func do(p *instances.Pool, r *http.Request) (string, error) {
	resp, err := p.RoundTrip(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

func wantAnswer(t *testing.T, p *instances.Pool, want string) {
	t.Helper()
	if got, err := send(t.Context(), t, p, "body"); err != nil || got != want+" body" {
		t.Errorf("got %q, %v, want an answer of %s", got, err, want)
	}
}

func wantError(t *testing.T, err error, sent, elsewhere bool) {
	t.Helper()
	e, ok := errors.AsType[*instances.Error](err)
	if !ok || e.Sent != sent || e.Elsewhere != elsewhere || instances.Sent(err) != sent {
		t.Errorf("got %#v, want sent %t, elsewhere %t", err, sent, elsewhere)
	}
}

// backAt waits until requests go to that instance again.
func backAt(t *testing.T, p *instances.Pool, want string) {
	t.Helper()
	testenv.Eventually(t, limit, func() error {
		got, err := send(t.Context(), t, p, "")
		if err == nil && got != want+" " {
			err = fmt.Errorf("got %q, want an answer of %s", got, want)
		}
		return err
	})
}

// The first instance gets every request. While it refuses connections the next one does, bodies included. When it is back, it gets
// the requests again.
func TestPool_First_RefusedAndBack(t *testing.T) {
	addr, second := testenv.FreeAddress(t), named(t, "second")
	p := newPool(t, instances.Config{URLs: []string{"http://" + addr, second.URL}})
	for range 3 {
		wantAnswer(t, p, "second")
	}
	apitest.ServeAt(t, addr, named(t, "first").Config.Handler)
	backAt(t, p, "first")
	for range 3 {
		wantAnswer(t, p, "first")
	}
}

// A dead instance is not tried again by requests, only by probes, as long as another one answers.
func TestPool_First_NoRequestPaysForTheDead(t *testing.T) {
	second := named(t, "second")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	var probes, requests atomic.Int64
	go func() { // ends with the listener
		for {
			conn, closed := listener.Accept()
			if closed != nil {
				return
			}
			head := make([]byte, 4)
			_, _ = io.ReadFull(conn, head)
			switch string(head) {
			case "OPTI":
				probes.Add(1)
			case "POST":
				requests.Add(1)
			}
			_ = conn.Close()
		}
	}()
	var now atomic.Int64
	now.Store(1)
	p := newPool(t, instances.Config{URLs: []string{"http://" + listener.Addr().String(), second.URL}, Now: func() time.Time { return time.Unix(now.Load(), 0) }})
	_, err = send(t.Context(), t, p, "body")
	wantError(t, err, true, true)
	for want := range int64(3) {
		testenv.Eventually(t, limit, func() error {
			now.Add(60)
			wantAnswer(t, p, "second")
			if got := probes.Load(); got <= want {
				return fmt.Errorf("got %d probes, want more than %d", got, want)
			}
			return nil
		})
	}
	if got := requests.Load(); got != 1 {
		t.Errorf("got %d requests at the instance that resets them, want only the first", got)
	}
}

// A paused host takes connections and requests, and answers nothing. A request there is ended, its outcome is not known, and all
// further ones go to the other host until the first one continues.
func TestPool_First_PausedAndBack(t *testing.T) {
	defer instances.SetProbeTime(verdict)()
	first, second := testenv.NewNetwork(t, named(t, "first").URL), named(t, "second")
	p := newPool(t, instances.Config{URLs: []string{"http://" + first.Addr(), second.URL}})
	wantAnswer(t, p, "first")
	first.Cut()
	_, err := send(t.Context(), t, p, "body")
	wantError(t, err, true, true)
	for range 3 {
		wantAnswer(t, p, "second")
	}
	first.Heal()
	backAt(t, p, "first")
}

// With TLS a paused host never ends the handshake, so the request was certainly not sent and goes to the next one.
func TestPool_First_PausedInTheHandshake(t *testing.T) {
	defer instances.SetProbeTime(verdict)()
	second := httptest.NewTLSServer(named(t, "second").Config.Handler)
	t.Cleanup(second.Close)
	first := testenv.NewNetwork(t, second.URL)
	first.Cut()
	p := newPool(t, instances.Config{URLs: []string{"https://" + first.Addr(), second.URL}, Transport: second.Client().Transport.(*http.Transport)})
	wantAnswer(t, p, "second")
}

// A caller whose time is shorter than the verdict about a paused host does not keep the verdict from being made.
func TestPool_First_ShortDeadlines(t *testing.T) {
	defer instances.SetProbeTime(verdict)()
	first, second := testenv.NewNetwork(t, named(t, "first").URL), named(t, "second")
	first.Cut()
	p := newPool(t, instances.Config{URLs: []string{"http://" + first.Addr(), second.URL}})
	testenv.Eventually(t, limit, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
		defer cancel()
		got, err := send(ctx, t, p, "")
		if err == nil && got != "second " {
			t.Errorf("got %q, want an answer of the second", got)
		}
		return err
	})
}

// An answer that breaks off because its host was paused says so.
func TestPool_First_PausedInTheAnswer(t *testing.T) {
	defer instances.SetProbeTime(verdict)()
	leave := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "one")
		w.(http.Flusher).Flush()
		<-leave
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(leave) })
	first := testenv.NewNetwork(t, server.URL)
	p := newPool(t, instances.Config{URLs: []string{"http://" + first.Addr(), named(t, "second").URL}})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.Base(), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := p.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	first.Cut()
	_, err = io.ReadAll(resp.Body)
	wantError(t, err, true, true)
}

// A request may take longer than a probe, as long as its instance answers probes.
func TestPool_First_SlowIsNotDead(t *testing.T) {
	probed := make(chan struct{}, 100)
	first := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodOptions {
			probed <- struct{}{}
			return
		}
		for range 3 {
			select {
			case <-probed:
			case <-r.Context().Done():
				return
			}
		}
		_, _ = io.WriteString(w, "first body")
	}))
	first.Config.DisableGeneralOptionsHandler = true // so that this test sees the probes
	first.Start()
	t.Cleanup(first.Close)
	wantAnswer(t, newPool(t, instances.Config{URLs: []string{first.URL, named(t, "second").URL}}), "first")
}

// A connection that breaks over a request counts against its instance, unless the body may be the cause.
func TestPool_First_Reset(t *testing.T) {
	for _, tt := range []struct {
		name string
		body io.Reader
		dead bool
	}{
		{"None", nil, true},
		{"InMemory", strings.NewReader("body"), true},
		{"Streamed", io.MultiReader(strings.NewReader("body")), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var received atomic.Int64
			first := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				received.Add(1)
				_, _ = io.Copy(io.Discard, r.Body)
				panic(http.ErrAbortHandler)
			}))
			t.Cleanup(first.Close)
			stopped := func() time.Time { return time.Unix(1, 0) } // no probe finds that the dead instance answers
			p := newPool(t, instances.Config{URLs: []string{first.URL, named(t, "second").URL}, Now: stopped})
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.Base(), tt.body)
			if err != nil {
				t.Fatal(err)
			}
			_, err = do(p, r)
			wantError(t, err, true, tt.dead)
			if received.Load() != 1 {
				t.Errorf("received %d times, want once", received.Load())
			}
			if tt.dead {
				wantAnswer(t, p, "second")
			}
		})
	}
}

// If no instance takes the connection, certainly nothing was sent. The error has the reasons of all.
func TestPool_AllDead(t *testing.T) {
	urls := []string{"http://" + testenv.FreeAddress(t), "http://" + testenv.FreeAddress(t)}
	for _, order := range []instances.Order{instances.First, instances.RoundRobin} {
		p := newPool(t, instances.Config{URLs: urls, Order: order})
		for range 2 {
			_, err := send(t.Context(), t, p, "")
			wantError(t, err, false, false)
			var dial *net.OpError
			if !errors.As(err, &dial) || strings.Count(fmt.Sprint(err), "connection refused") != 2 {
				t.Errorf("got %v, want both refusals", err)
			}
		}
	}
	_, err := send(t.Context(), t, newPool(t, instances.Config{URLs: urls[:1]}), "")
	wantError(t, err, false, false)
}

// In turn, and nothing but a refusal marks an instance dead.
func TestPool_RoundRobin(t *testing.T) {
	cut := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(cut.Close)
	p := newPool(t, instances.Config{URLs: []string{cut.URL, named(t, "second").URL}, Order: instances.RoundRobin})
	for range 3 {
		wantAnswer(t, p, "second")
		_, err := send(t.Context(), t, p, "")
		wantError(t, err, true, false)
	}
}

// An unknown order is refused.
func TestNew_Order(t *testing.T) {
	if _, err := instances.New(instances.Config{URLs: []string{"http://a"}, Order: "last"}); err == nil {
		t.Error("got nil, want an error")
	}
}
