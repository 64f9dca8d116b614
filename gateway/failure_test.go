package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"rideshare/gateway"
	"rideshare/internal/instances"
	"rideshare/internal/testkit/apitest"
	"rideshare/internal/testkit/testenv"
)

// Requests go around the instances in turn, past those that take no connection.
func TestGateway_RoundRobinSkipsDead(t *testing.T) {
	one, three := instance(t, "one"), instance(t, "three")
	two := apitest.ServeAt(t, testenv.FreeAddress(t), instance(t, "two").Config.Handler)
	s := newGateway(t, gateway.Config{Users: []string{one.URL, two.URL, three.URL}, Rides: []string{one.URL}})
	hits := func(n int) map[string]int {
		seen := map[string]int{}
		for range n {
			resp := apitest.Do(t, "PUT", s.URL+"/api/v1/users", `{"x":1}`)
			var g got
			if err := json.Unmarshal([]byte(resp.Body), &g); err != nil || g.Body != `{"x":1}` {
				t.Fatalf("got %d %q (%v)", resp.Status, g.Body, err)
			}
			seen[g.Instance]++
		}
		return seen
	}
	if seen := hits(9); seen["one"] != 3 || seen["two"] != 3 || seen["three"] != 3 {
		t.Errorf("all alive: got %v, want 3 each", seen)
	}
	two.CloseClientConnections()
	two.Close()
	// The pool may hold a connection to the dead one that is just closing.
	apitest.Do(t, "GET", s.URL+"/api/v1/users", "")
	apitest.Do(t, "GET", s.URL+"/api/v1/users", "")
	apitest.Do(t, "GET", s.URL+"/api/v1/users", "")
	if seen := hits(6); seen["two"] != 0 || seen["one"]+seen["three"] != 6 {
		t.Errorf("one dead: got %v, want the other two", seen)
	}
}

// An instance that refused a connection is skipped for a while, even if it is back, so that it does not slow requests
// down; then a probe finds it, and it gets its share again.
func TestGateway_DeadInstanceIsLeftOutForAWhile(t *testing.T) {
	living, addr, handler := instance(t, "living"), testenv.FreeAddress(t), instance(t, "gone").Config.Handler
	var now atomic.Int64
	now.Store(1)
	s := newGateway(t, gateway.Config{
		Users: []string{living.URL, "http://" + addr}, Rides: []string{living.URL},
		Now: func() time.Time { return time.Unix(now.Load(), 0) },
	})
	hits := func() (n int) {
		for range 4 {
			var g got
			if err := json.Unmarshal([]byte(apitest.Do(t, "PUT", s.URL+"/api/v1/users", "body").Body), &g); err != nil || g.Body != "body" {
				t.Fatalf("got body %q (%v), want it to survive the dead instance", g.Body, err)
			}
			if g.Instance == "gone" {
				n++
			}
		}
		return n
	}
	if n := hits(); n != 0 {
		t.Errorf("dead: got %d hits", n)
	}
	apitest.ServeAt(t, addr, handler)
	if n := hits(); n != 0 {
		t.Errorf("back, but not yet tried again: got %d hits", n)
	}
	testenv.Eventually(t, time.Minute, func() error {
		now.Add(60)
		if n := hits(); n != 2 {
			return fmt.Errorf("later: got %d hits of 4, want 2", n)
		}
		return nil
	})
}

// With the order first, the first instance gets all requests, the next one takes its place while it refuses connections, and it
// gets them again when it is back.
func TestGateway_OrderFirst(t *testing.T) {
	addr, second, handler := testenv.FreeAddress(t), instance(t, "second"), instance(t, "first").Config.Handler
	s := newGateway(t, gateway.Config{Users: []string{"http://" + addr, second.URL}, Rides: []string{second.URL}, Order: instances.First})
	serves := func(want string) error {
		for range 4 {
			var g got
			if err := json.Unmarshal([]byte(apitest.Do(t, "PUT", s.URL+"/api/v1/users", "body").Body), &g); err != nil || g.Body != "body" {
				return fmt.Errorf("got body %q (%v), want it to survive the dead instance", g.Body, err) //nolint:errorlint // err may be nil
			}
			if g.Instance != want {
				return fmt.Errorf("got %s, want %s", g.Instance, want)
			}
		}
		return nil
	}
	if err := serves("second"); err != nil {
		t.Error(err)
	}
	apitest.ServeAt(t, addr, handler)
	testenv.Eventually(t, time.Minute, func() error { return serves("first") })
}

// With the order first, a paused instance leaves the write that it holds unknown, and nothing sends it again. Further requests go
// to the next instance.
func TestGateway_OrderFirst_Paused(t *testing.T) {
	defer instances.SetProbeTime(5 * time.Second)() // the pools of this test tell a paused instance by it
	second := instance(t, "second")
	first := testenv.NewNetwork(t, instance(t, "first").URL)
	first.Cut()
	s := newGateway(t, gateway.Config{Users: []string{"http://" + first.Addr(), second.URL}, Rides: []string{second.URL}, Order: instances.First})
	if resp := apitest.Do(t, "PUT", s.URL+"/api/v1/users", "body", "Idempotency-Key", "k"); resp.Status != 504 {
		t.Errorf("got %d %s, want 504", resp.Status, resp.Body)
	}
	if resp := apitest.Do(t, "GET", s.URL+"/api/v1/users", ""); resp.Status != 200 || !strings.Contains(resp.Body, "second") {
		t.Errorf("got %d %s, want an answer of the second", resp.Status, resp.Body)
	}
}

// If no instance accepts the connection, the answer is an immediate 503, in the form that the path requires.
func TestGateway_NobodyThere(t *testing.T) {
	dead := []string{"http://" + testenv.FreeAddress(t)}
	s := newGateway(t, gateway.Config{Users: dead, Rides: dead})
	for _, method := range []string{"GET", "PUT", "DELETE"} {
		resp := apitest.Do(t, method, s.URL+"/api/v1/users", "x")
		if resp.Status != 503 || resp.Header.Get("Retry-After") == "" || resp.Header.Get("X-Request-Id") == "" || resp.Body != "{}" {
			t.Errorf("%s: got %d %s", method, resp.Status, resp.Body)
		}
	}
	if resp := apitest.Do(t, "GET", s.URL+"/", ""); resp.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("other path: got %s", resp.Header.Get("Content-Type"))
	}
}

// A service that dies over a request leaves a write unknown, and a read to be tried again.
func TestGateway_LostInTheMiddle(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(up.Close)
	s := newGateway(t, gateway.Config{Users: []string{up.URL}, Rides: []string{up.URL}})
	for method, want := range map[string]int{"GET": 503, "PUT": 504, "POST": 504, "DELETE": 504} {
		if resp := apitest.Do(t, method, s.URL+"/api/v1/users", ""); resp.Status != want {
			t.Errorf("%s: got %d, want %d", method, resp.Status, want)
		}
	}
}

// A service that hangs is 504 once the time is over.
func TestGateway_Timeout(t *testing.T) {
	leave := make(chan struct{})
	up := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-leave }))
	t.Cleanup(up.Close)
	t.Cleanup(func() { close(leave) })
	s := newGateway(t, gateway.Config{Users: []string{up.URL}, Rides: []string{up.URL}, Timeout: 50 * time.Millisecond})
	for _, method := range []string{"GET", "POST"} {
		if resp := apitest.Do(t, method, s.URL+"/x", ""); resp.Status != 504 {
			t.Errorf("%s: got %d, want 504", method, resp.Status)
		}
	}
}

// Bodies over the limit are 413, announced or not, and the gateway goes on.
func TestGateway_BodyLimit(t *testing.T) {
	up := instance(t, "up")
	s := newGateway(t, gateway.Config{Users: []string{up.URL}, Rides: []string{up.URL}, MaxBody: 100})
	for size, want := range map[int]int{100: 200, 101: 413, 100_000: 413} {
		body := strings.Repeat("x", size)
		if resp := apitest.Do(t, "PUT", s.URL+"/api/v1/users", body); resp.Status != want {
			t.Errorf("%d bytes: got %d, want %d", size, resp.Status, want)
		}
		req, err := http.NewRequestWithContext(t.Context(), "PUT", s.URL+"/api/v1/users", io.MultiReader(strings.NewReader(body)))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%d bytes, chunked: got %d, want %d", size, resp.StatusCode, want)
		}
	}
}

// A stream's first piece arrives while the rest is still to come.
func TestGateway_StreamsPass(t *testing.T) {
	leave := make(chan struct{})
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "one\n")
		w.(http.Flusher).Flush()
		<-leave
		_, _ = io.WriteString(w, "two\n")
	}))
	t.Cleanup(up.Close)
	s := newGateway(t, gateway.Config{Users: []string{up.URL}, Rides: []string{up.URL}})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/x", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewScanner(resp.Body)
	if !lines.Scan() || lines.Text() != "one" {
		t.Errorf("first: got %q", lines.Text())
	}
	close(leave)
	if !lines.Scan() || lines.Text() != "two" {
		t.Errorf("second: got %q", lines.Text())
	}
}

// A change whose connection breaks is not sent again. Only an Idempotency-Key allows that.
func TestGateway_ConnectionBreaks_ChangeIsNotRepeated(t *testing.T) {
	var changes atomic.Int32
	up := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			changes.Add(1)
			panic(http.ErrAbortHandler)
		}
	}))
	t.Cleanup(up.Close)
	s := newGateway(t, gateway.Config{Users: []string{up.URL}, Rides: []string{up.URL}})
	apitest.Do(t, "GET", s.URL+"/api/v1/users", "") // the transport repeats only what it has sent on a connection in use
	resp := apitest.Do(t, "DELETE", s.URL+"/api/v1/users/ann", "", "X-Idempotency-Key", "k")
	if n := changes.Load(); n != 1 || resp.Status != 504 {
		t.Errorf("got %d and %d changes, want 504 and one", resp.Status, n)
	}
}

// An outage is logged when it begins and when it ends, and requests are observed by service.
func TestGateway_LogsAndMetrics(t *testing.T) {
	var logs bytes.Buffer
	var seen []string
	var fail atomic.Bool
	up := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if fail.Load() {
			panic(http.ErrAbortHandler)
		}
	}))
	t.Cleanup(up.Close)
	g, err := gateway.New(gateway.Config{
		Users: []string{up.URL}, Rides: []string{up.URL}, Log: slog.New(slog.NewJSONHandler(&logs, nil)),
		Observe: func(route, method string, _ int, _ time.Duration, _ string) {
			seen = append(seen, route+" "+method)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, failing := range []bool{true, true, true, false, false} {
		fail.Store(failing)
		g.Handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "PUT", "/api/v1/users", nil))
	}
	if got := strings.Count(logs.String(), "\n"); got != 2 || !strings.Contains(logs.String(), `"count":3`) {
		t.Errorf("got %d lines, want 2:\n%s", got, logs.String())
	}
	if len(seen) != 5 || seen[0] != "users PUT" {
		t.Errorf("observed %v", seen)
	}
}

// If the client leaves before the service answers, the request counts as 499 in the metrics. If the server stops before that,
// it counts as 503.
func TestGateway_ClientLeft_Is499(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(up.Close)
	seen := 0
	g, err := gateway.New(gateway.Config{
		Users: []string{up.URL}, Rides: []string{up.URL}, Log: slog.New(slog.DiscardHandler),
		Observe: func(_, _ string, status int, _ time.Duration, _ string) { seen = status },
	})
	if err != nil {
		t.Fatal(err)
	}
	for cause, want := range map[error]int{context.Canceled: 499, fmt.Errorf("the server stops: %w", context.Canceled): 503} {
		ctx, end := context.WithCancelCause(t.Context())
		end(cause)
		answered := httptest.NewRecorder()
		g.Handler().ServeHTTP(answered, httptest.NewRequestWithContext(ctx, "GET", "/api/v1/users", nil))
		if answered.Code != 503 || seen != want {
			t.Errorf("%v: got %d, observed %d, want 503 and %d", cause, answered.Code, seen, want)
		}
	}
}

// Settings that cannot work give errors that say what is wrong.
func TestNew_Settings(t *testing.T) {
	for _, urls := range [][]string{nil, {""}, {"localhost:80"}, {"http://"}, {"http://x/path"}, {"ftp://x"}, {"://"}} {
		if _, err := gateway.New(gateway.Config{Users: urls, Rides: []string{"http://x"}, Log: slog.New(slog.DiscardHandler)}); err == nil {
			t.Errorf("%q: got nil, want an error", urls)
		}
	}
	if _, err := gateway.New(gateway.Config{Users: []string{"http://x"}, Rides: []string{"http://x"}, Order: "last", Log: slog.New(slog.DiscardHandler)}); err == nil {
		t.Error("order: got nil, want an error")
	}
}
