package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"rideshare/gateway"
	"rideshare/internal/httpapi"
	"rideshare/internal/instances"
	"rideshare/internal/testkit/apitest"
)

func TestMain(m *testing.M) {
	instances.SetProbeTime(20 * time.Second) // however slow the machine is
	m.Run()
}

// got is a request as an instance saw it.
type got struct {
	Instance, Method, URI, Body string
	Header                      http.Header
	Host                        string
}

// instance answers with the received request as JSON.
func instance(t *testing.T, name string) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		w.Header().Set("X-Request-Id", r.Header.Get("X-Request-Id"))
		_ = json.NewEncoder(w).Encode(got{name, r.Method, r.RequestURI, string(body), r.Header, r.Host})
	}))
	s.Config.MaxHeaderBytes = httpapi.MaxHeaderBytes
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// newGateway serves a gateway in front of the given instances.
func newGateway(t *testing.T, cfg gateway.Config) *httptest.Server {
	t.Helper()
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	g, err := gateway.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(g.Handler())
	s.Config.MaxHeaderBytes = httpapi.MaxHeaderBytes
	s.Start()
	t.Cleanup(func() {
		s.Close()
		if err := g.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// raw sends a request line as it is written and returns what the instance saw.
func raw(t *testing.T, s *httptest.Server, method, target string) got {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err = io.WriteString(conn, method+" "+target+" HTTP/1.1\r\nHost: example.org\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var g got
	if err := json.NewDecoder(resp.Body).Decode(&g); err != nil {
		t.Fatalf("%s: %d: %v", target, resp.StatusCode, err)
	}
	return g
}

// Paths go to their service byte by byte, with their query, whatever they hold.
func TestGateway_RoutesRawPaths(t *testing.T) {
	users, rides := instance(t, "users"), instance(t, "rides")
	s := newGateway(t, gateway.Config{Users: []string{users.URL}, Rides: []string{rides.URL + "/"}})
	for target, want := range map[string]string{
		"/api/v1/users":                               "users",
		"/api/v1/users/":                              "users",
		"/api/v1/users?x=1":                           "users",
		"/api/v1/users/ann":                           "users",
		"/api/v1/users/_count":                        "users",
		"/api/v1/users/a%2Fb%2f%25%20%C3%BC":          "users",
		"/api/v1/users/..":                            "users",
		"/api/v1/users/../rides":                      "users",
		"/api/v1/users/%2E%2E":                        "users",
		"/api/v1/users//a":                            "users",
		`/api/v1/users/a"b`:                           "users",
		"/api/v1/users/%61":                           "users",
		"/api/v1/users/" + strings.Repeat("%F0", 1e5): "users",
		"/api/v1/usersX":                              "rides",
		"/api/v1/user":                                "rides",
		"/api/v1/Users":                               "rides",
		"/api/v1/users%2Fann":                         "rides",
		"/api/v1/rides?source=1&destination=2":        "rides",
		"/api/v1/rides?a=%zz;b&&=":                    "rides",
		"/api/v1/rides/1":                             "rides",
		"/api/v1/rides/../users":                      "rides",
		"/":                                           "rides",
		"//":                                          "rides",
		"//api/v1/users":                              "rides",
		"/x?":                                         "rides",
	} {
		for _, method := range []string{"GET", "DELETE", "BREW"} {
			g := raw(t, s, method, target)
			if g.Instance != want || g.URI != target || g.Method != method {
				t.Errorf("%s %.60s: got %s %.60s at %s, want it unchanged at %s", method, target, g.Method, g.URI, g.Instance, want)
			}
		}
	}
}

// Bodies pass with every method, announced or chunked, and headers of the hop are added.
func TestGateway_BodiesAndHeaders(t *testing.T) {
	users := instance(t, "users")
	s := newGateway(t, gateway.Config{Users: []string{users.URL}, Rides: []string{users.URL}})
	for _, method := range []string{"GET", "DELETE", "PUT", "POST"} {
		for _, chunked := range []bool{false, true} {
			body := io.Reader(strings.NewReader(`{"a":1}`))
			if chunked {
				body = io.MultiReader(body)
			}
			req, err := http.NewRequestWithContext(t.Context(), method, s.URL+"/api/v1/users", body)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("X-Request-Id", "req-1")
			req.Header.Set("X-Forwarded-For", "6.6.6.6")
			req.Header.Set("Idempotency-Key", "k")
			resp, err := http.DefaultTransport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			var g got
			err = json.NewDecoder(resp.Body).Decode(&g)
			_ = resp.Body.Close()
			if err != nil {
				t.Fatal(err)
			}
			if g.Body != `{"a":1}` {
				t.Errorf("%s chunked %v: got body %q", method, chunked, g.Body)
			}
			if g.Header.Get("X-Request-Id") != "req-1" || g.Header.Get("Idempotency-Key") != "k" ||
				g.Header.Get("X-Forwarded-For") != "127.0.0.1" || g.Header.Get("X-Forwarded-Proto") != "http" ||
				g.Header.Get("X-Forwarded-Host") != req.URL.Host || g.Host == req.URL.Host {
				t.Errorf("%s: got headers %v", method, g.Header)
			}
			if ids := resp.Header.Values("X-Request-Id"); len(ids) != 1 || ids[0] != "req-1" {
				t.Errorf("%s: answer has request ids %q", method, ids)
			}
		}
	}
	if g := raw(t, s, "GET", "/api/v1/users"); len(g.Header.Get("X-Request-Id")) != 32 {
		t.Errorf("without an id: got %q, want a new one", g.Header.Get("X-Request-Id"))
	}
}

// A change sent by a page of the gateway's own host comes without Origin: the instance, which is called by another host, would
// take it for one of another site. Any other Origin passes.
func TestGateway_Origin(t *testing.T) {
	users := instance(t, "users")
	s := newGateway(t, gateway.Config{Users: []string{users.URL}, Rides: []string{users.URL}})
	for _, tt := range []struct{ method, host, origin, want string }{
		{"DELETE", "app.example", "http://app.example", ""},
		{"DELETE", "app.example:8080", "https://app.example:8080", ""},
		{"DELETE", "app.example", "http://app.example:8080", "http://app.example:8080"},
		{"DELETE", "app.example", "http://other.example", "http://other.example"},
		{"DELETE", "app.example", "null", "null"},
		{"DELETE", "app.example", users.URL, users.URL},
		{"GET", "app.example", "http://app.example", "http://app.example"}, // as the check of a user may have it
	} {
		req, err := http.NewRequestWithContext(t.Context(), tt.method, s.URL+"/api/v1/users/_count", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = tt.host
		req.Header.Set("Origin", tt.origin)
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		var g got
		err = json.NewDecoder(resp.Body).Decode(&g)
		_ = resp.Body.Close()
		if origin := g.Header.Get("Origin"); err != nil || origin != tt.want {
			t.Errorf("%+v: got Origin %q, %v", tt, origin, err)
		}
	}
}

// Statuses, also redirects, and headers of answers pass unchanged; a 405 keeps its Allow.
func TestGateway_AnswersPassUnchanged(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, err := strconv.Atoi(r.Header.Get("X-Status"))
		if err != nil {
			return
		}
		w.Header().Set("Allow", "GET")
		w.Header().Set("Location", "/elsewhere")
		w.Header().Set("X-Seq", "7")
		w.WriteHeader(status)
	}))
	t.Cleanup(up.Close)
	s := newGateway(t, gateway.Config{Users: []string{up.URL}, Rides: []string{up.URL}})
	for _, status := range []int{200, 201, 204, 301, 400, 405, 409, 500, 503} {
		resp := apitest.Do(t, "POST", s.URL+"/api/v1/rides", "", "X-Status", strconv.Itoa(status))
		if resp.Status != status || resp.Header.Get("Allow") != "GET" || resp.Header.Get("Location") != "/elsewhere" || resp.Header.Get("X-Seq") != "7" {
			t.Errorf("%d: got %d %v", status, resp.Status, resp.Header)
		}
	}
}

// deadlines notes after how many bytes of an answer its write deadline was set.
type deadlines struct {
	*httptest.ResponseRecorder
	after []int
	far   bool // every deadline was a minute ahead
}

func (w *deadlines) SetWriteDeadline(t time.Time) error {
	w.after = append(w.after, w.Body.Len())
	w.far = (w.far || len(w.after) == 1) && time.Until(t) > 50*time.Second
	return nil
}

// A client has the server's write timeout for each MiB of a long answer, and for all of a short one.
func TestGateway_LongAnswer_RenewsTheWriteTimeout(t *testing.T) {
	const mib = 1 << 20
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.URL.RawQuery)
		_, _ = w.Write(make([]byte, n))
	}))
	t.Cleanup(up.Close)
	g, err := gateway.New(gateway.Config{Users: []string{up.URL}, Rides: []string{up.URL}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close(context.Background()) })
	ctx := context.WithValue(t.Context(), http.ServerContextKey, &http.Server{WriteTimeout: time.Minute})
	for _, n := range []int{1000, 5 * mib} {
		w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		g.Handler().ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/api/v1/rides?"+strconv.Itoa(n), http.NoBody))
		if w.Body.Len() != n {
			t.Fatalf("got %d of %d bytes", w.Body.Len(), n)
		}
		last := 0
		for _, at := range append(w.after, n) {
			if at-last > mib+mib/8 {
				t.Errorf("answer of %d bytes: got deadlines after %d, want one for each MiB", n, w.after)
				break
			}
			last = at
		}
		if len(w.after) > 0 && (n < mib || !w.far) {
			t.Errorf("answer of %d bytes: got deadlines after %d, want them only for a long one, a minute ahead", n, w.after)
		}
	}
}
