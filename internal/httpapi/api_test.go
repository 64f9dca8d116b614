package httpapi_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"rideshare/internal/httpapi"
)

// observed is one call of Config.Observe.
type observed struct {
	route, method string
	status        int
}

// answer is the status and headers of an answer.
type answer struct {
	StatusCode int
	Header     http.Header
}

// fixture is an API on a real listener.
type fixture struct {
	url  string
	seen []observed
	logs bytes.Buffer
	// finished receives a value when a handler has returned, which is after its answer and its lines in seen and
	// logs.
	finished chan struct{}
}

func newFixture(t *testing.T, register func(a *httpapi.API)) *fixture {
	t.Helper()
	f := &fixture{finished: make(chan struct{}, 100)}
	a := httpapi.New(httpapi.Config{
		Log:     slog.New(slog.NewJSONHandler(&f.logs, nil)),
		MaxBody: 100,
		Observe: func(route, method string, status int, _ time.Duration, _ string) {
			f.seen = append(f.seen, observed{route, method, status})
		},
	})
	register(a)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { f.finished <- struct{}{} }()
		a.ServeHTTP(w, r)
	}))
	server.Config.MaxHeaderBytes = httpapi.MaxHeaderBytes
	server.Start()
	t.Cleanup(server.Close)
	f.url = server.URL
	return f
}

// do sends one request with the path exactly as given.
func (f *fixture) do(t *testing.T, method, path, body string, headers ...string) (answer, string) {
	t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, f.url+path, reader)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	return f.roundTrip(t, req)
}

// roundTrip sends req and waits for the handler's end.
func (f *fixture) roundTrip(t *testing.T, req *http.Request) (answer, string) {
	t.Helper()
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	got := bodyOf(t, resp)
	<-f.finished
	return answer{resp.StatusCode, resp.Header}, got
}

func ok(c echo.Context) error { return httpapi.Empty(c, http.StatusOK) }

// routes registers a table like that of the real services.
func routes(a *httpapi.API) {
	echoName := func(c echo.Context) error { return httpapi.JSON(c, http.StatusOK, httpapi.Param(c, "name")) }
	a.Handle(http.MethodGet, "/", ok)
	a.Handle(http.MethodGet, "/things", ok, httpapi.EmptyErrorBodies())
	a.Handle(http.MethodPut, "/things", ok)
	a.Handle(http.MethodGet, "/things/count", ok)
	a.Handle(http.MethodGet, "/things/:name", echoName)
	a.Handle(http.MethodPost, "/things/:name", echoName, httpapi.EmptyErrorBodies())
}

// Unknown paths are 404, also with a trailing slash or an empty or extra
// segment; other methods of known paths are 405 with Allow; nothing redirects.
func TestAPI_Routing(t *testing.T) {
	f := newFixture(t, routes)
	for _, tt := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"GET", "/", 200, ""},
		{"GET", "/things", 200, ""},
		{"HEAD", "/things", 200, ""},
		{"OPTIONS", "/things", 204, "GET, HEAD, OPTIONS, PUT"},
		{"POST", "/things", 405, "GET, HEAD, OPTIONS, PUT"},
		{"BREW", "/things", 405, "GET, HEAD, OPTIONS, PUT"},
		{"DELETE", "/", 405, "GET, HEAD, OPTIONS"},
		{"GET", "/things/", 404, ""},
		{"POST", "/things/", 404, ""},
		{"PATCH", "/things/", 404, ""},
		{"GET", "//things", 404, ""},
		{"GET", "/things//", 404, ""},
		{"GET", "/things/a/b", 404, ""},
		{"PATCH", "/things/a/b", 404, ""},
		{"PATCH", "/things/a/", 404, ""},
		{"GET", "/things/a/", 404, ""},
		{"GET", "/Things", 404, ""},
		{"GET", "/nothing", 404, ""},
		{"PATCH", "/things/a", 405, "GET, HEAD, OPTIONS, POST"},
		{"POST", "/things/count", 405, "GET, HEAD, OPTIONS"},
		{"POST", "/things/counter", 200, ""},
		{"GET", "/things/..", 200, ""},
		{"GET", "/things/:name", 200, ""},
	} {
		resp, _ := f.do(t, tt.method, tt.path, "")
		if resp.StatusCode != tt.status || resp.Header.Get("Allow") != tt.allow {
			t.Errorf("%s %s: got %d with Allow %q, want %d with %q",
				tt.method, tt.path, resp.StatusCode, resp.Header.Get("Allow"), tt.status, tt.allow)
		}
	}
}

// A path parameter is decoded exactly once, whatever it contains and however long it is.
func TestParam_DecodedExactlyOnce(t *testing.T) {
	f := newFixture(t, routes)
	names := []string{
		"ann", "a b", "a/b", "a%2Fb", "a%25b", "100%", "a+b", "ü", "日本", "\u0000", "a\nb", `"'\`, "..", ".", ":name",
		"a;b?c#d&e=f", "/", "%", strings.Repeat("x", 100_000), strings.Repeat("😀%/", 33_000),
	}
	for _, name := range names {
		resp, body := f.do(t, http.MethodGet, "/things/"+url.PathEscape(name), "")
		var got string
		if err := json.Unmarshal([]byte(body), &got); err != nil || resp.StatusCode != http.StatusOK || got != name {
			t.Errorf("%.20q: got %d %.40q (%v)", name, resp.StatusCode, got, err)
		}
	}
}

// Characters that need no escape decode the same when they are escaped.
func TestParam_NeedlessEscape(t *testing.T) {
	f := newFixture(t, routes)
	if _, body := f.do(t, http.MethodGet, "/things/%61nn", ""); body != "\"ann\"\n" {
		t.Errorf("got %s, want \"ann\"", body)
	}
}

// Every answer has a request id: the client's own if it is fit for a log.
func TestAPI_RequestID(t *testing.T) {
	var inContext string
	f := newFixture(t, func(a *httpapi.API) {
		a.Handle(http.MethodGet, "/", func(c echo.Context) error {
			inContext = httpapi.RequestID(c.Request().Context())
			return ok(c)
		})
	})
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	for _, tt := range []struct{ name, header, value, want string }{
		{"Own", "X-Request-Id", "abc-1.2_3", "abc-1.2_3"},
		{"Hostile", "X-Request-Id", `a"b c`, ""},
		{"TooLong", "X-Request-Id", strings.Repeat("a", 129), ""},
		{"Trace", "Traceparent", "00-" + trace + "-00f067aa0ba902b7-01", trace},
		{"TraceZero", "Traceparent", "00-" + strings.Repeat("0", 32) + "-00f067aa0ba902b7-01", ""},
		{"TraceUpper", "Traceparent", "00-" + strings.ToUpper(trace) + "-00f067aa0ba902b7-01", ""},
		{"TraceVersion", "Traceparent", "ff-" + trace + "-00f067aa0ba902b7-01", ""},
		{"None", "X-Other", "1", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			resp, _ := f.do(t, http.MethodGet, "/", "", tt.header, tt.value)
			got := resp.Header.Get("X-Request-Id")
			if got != inContext || (tt.want != "" && got != tt.want) || (tt.want == "" && len(got) != 32) {
				t.Errorf("got %q in the answer and %q in the context, want %q", got, inContext, tt.want)
			}
		})
	}
}

// Bodies over the limit are 413 whether they declare their length or not, and a path may have its own limit.
func TestAPI_BodyLimit(t *testing.T) {
	f := newFixture(t, func(a *httpapi.API) {
		read := func(c echo.Context) error {
			if _, err := httpapi.ReadBody(c.Response(), c.Request()); err != nil {
				return err
			}
			return ok(c)
		}
		a.Handle(http.MethodPost, "/small", read)
		a.Handle(http.MethodPost, "/large", read, httpapi.MaxBody(200))
	})
	for _, tt := range []struct {
		path         string
		size, status int
	}{{"/small", 100, 200}, {"/small", 101, 413}, {"/large", 101, 200}, {"/large", 200, 200}, {"/large", 201, 413}} {
		body := strings.Repeat("x", tt.size)
		if resp, _ := f.do(t, http.MethodPost, tt.path, body); resp.StatusCode != tt.status {
			t.Errorf("%s with %d bytes: got %d, want %d", tt.path, tt.size, resp.StatusCode, tt.status)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url+tt.path, io.MultiReader(strings.NewReader(body)))
		if err != nil {
			t.Fatal(err)
		}
		if resp, _ := f.roundTrip(t, req); resp.StatusCode != tt.status {
			t.Errorf("%s with %d bytes, chunked: got %d, want %d", tt.path, tt.size, resp.StatusCode, tt.status)
		}
	}
}
