package httpapi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/labstack/echo/v4"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
)

// A panic is a 500 that reveals nothing, and the next request is served.
func TestAPI_PanicIsHiddenAndSurvived(t *testing.T) {
	f := newFixture(t, func(a *httpapi.API) {
		a.Handle(http.MethodGet, "/", func(echo.Context) error { panic("secret") })
		a.Handle(http.MethodGet, "/ok", ok)
	})
	resp, body := f.do(t, http.MethodGet, "/", "")
	if resp.StatusCode != http.StatusInternalServerError || strings.Contains(body, "secret") {
		t.Errorf("got %d %s", resp.StatusCode, body)
	}
	if resp, _ := f.do(t, http.MethodGet, "/ok", ""); resp.StatusCode != http.StatusOK {
		t.Errorf("after the panic: got %d, want 200", resp.StatusCode)
	}
	if !strings.Contains(f.logs.String(), "secret") {
		t.Error("the panic is not in the log")
	}
}

// No cache keeps the answer to a GET, nor to any other method: those are not kept unless the answer allows it.
func TestAPI_AnswersAreNotKept(t *testing.T) {
	f := newFixture(t, func(a *httpapi.API) {
		a.Handle(http.MethodGet, "/x", ok)
		a.Handle(http.MethodPost, "/x", ok)
	})
	for method, want := range map[string]string{http.MethodGet: "no-store", http.MethodHead: "no-store", http.MethodPost: ""} {
		if resp, _ := f.do(t, method, "/x", ""); resp.Header.Get("Cache-Control") != want {
			t.Errorf("%s: got Cache-Control %q, want %q", method, resp.Header.Get("Cache-Control"), want)
		}
	}
}

// Metrics see only patterns and standard methods, so that a client cannot create labels.
func TestAPI_ObserveLabelsAreBounded(t *testing.T) {
	f := newFixture(t, routes)
	f.do(t, http.MethodGet, "/things/a%2Fb", "")
	f.do(t, http.MethodGet, "/wp-admin", "")
	f.do(t, "BREW", "/things", "")
	want := []observed{{"/things/:name", "GET", 200}, {httpapi.Unmatched, "GET", 404}, {"/things", "OTHER", 405}}
	if fmt.Sprint(f.seen) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", f.seen, want)
	}
}

// OnRequest sees each request to its path, refused ones included, and no other.
func TestAPI_OnRequestCountsRefusals(t *testing.T) {
	var n int
	f := newFixture(t, func(a *httpapi.API) {
		a.Handle(http.MethodPut, "/x", ok, httpapi.OnRequest(func() { n++ }))
		a.Handle(http.MethodGet, "/y", ok)
	})
	f.do(t, http.MethodPut, "/x", "")
	f.do(t, http.MethodPatch, "/x", "")
	f.do(t, http.MethodPut, "/x", strings.Repeat("x", 200))
	f.do(t, http.MethodGet, "/y", "")
	f.do(t, http.MethodPut, "/x/", "")
	if n != 3 {
		t.Errorf("got %d, want 3", n)
	}
}

// An error without a code is a bug: 500, logged, hidden from the client.
func TestAPI_UncodedErrorIsHidden(t *testing.T) {
	f := newFixture(t, func(a *httpapi.API) {
		a.Handle(http.MethodGet, "/", func(echo.Context) error { return errors.New("disk /dev/sda") })
	})
	resp, body := f.do(t, http.MethodGet, "/", "")
	if resp.StatusCode != http.StatusInternalServerError || strings.Contains(body, "sda") {
		t.Errorf("got %d %s", resp.StatusCode, body)
	}
	if !strings.Contains(f.logs.String(), "/dev/sda") {
		t.Error("the cause is not in the log")
	}
}

// observe has an API serve one request with h, and returns its answer and the observed statuses. log is all that the API logs.
func observe(ctx context.Context, h echo.HandlerFunc) (answered *httptest.ResponseRecorder, seen []int, log string) {
	var logs bytes.Buffer
	a := httpapi.New(httpapi.Config{
		Log:     slog.New(slog.NewJSONHandler(&logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Observe: func(_, _ string, status int, _ time.Duration, _ string) { seen = append(seen, status) },
	})
	a.Handle(http.MethodGet, "/", h)
	answered = httptest.NewRecorder()
	defer func() {
		if p := recover(); p != nil && p != http.ErrAbortHandler { //nolint:errorlint // It is the value itself, as net/http documents.
			panic(p)
		}
		log = logs.String()
	}()
	a.ServeHTTP(answered, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
	return answered, seen, log
}

// A request whose answer the handler aborts is counted, as any other.
func TestAPI_AbortedRequest_IsCounted(t *testing.T) {
	_, seen, _ := observe(t.Context(), func(c echo.Context) error {
		c.Response().WriteHeader(http.StatusOK)
		panic(http.ErrAbortHandler)
	})
	if !slices.Equal(seen, []int{http.StatusOK}) {
		t.Errorf("got statuses %v, want one of 200", seen)
	}
}

// A 5xx for a client that has left is 499 in the metrics. The answer and the log keep their status.
func TestAPI_ClientLeft_Is499(t *testing.T) {
	creds, err := httpapi.ParseCredentials(strings.NewReader("bearer x"))
	if err != nil {
		t.Fatal(err)
	}
	unknown := func(echo.Context) error { return &dbaas.Error{Code: dbaas.CodeUnknown} }
	for name, tt := range map[string]struct {
		left         bool
		h            echo.HandlerFunc
		status, want int
	}{
		"Left":         {true, unknown, 504, 499},
		"LeftAnswered": {true, ok, 200, 200},
		"Stayed":       {false, unknown, 504, 504},
		// A stream has a context of its own, which has ended by then.
		"StayedStream": {false, creds.Guard(httpapi.Access{Role: httpapi.Read, OpenBefore: true, Stream: true}, unknown), 504, 504},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			if tt.left {
				leave()
			}
			answered, seen, log := observe(ctx, tt.h)
			logged := strings.Contains(log, fmt.Sprintf(`"status":%d,"took"`, tt.status))
			if answered.Code != tt.status || !slices.Equal(seen, []int{tt.want}) || !logged {
				t.Errorf("got %d, observed %v, log %s", answered.Code, seen, log)
			}
		})
	}
}

// A client that leaves in the middle of an answer is no error of this process.
func TestAPI_ClientLeaves_IsNoError(t *testing.T) {
	var logs bytes.Buffer
	a := httpapi.New(httpapi.Config{Log: slog.New(slog.NewJSONHandler(&logs, nil))})
	a.Handle(http.MethodGet, "/", func(c echo.Context) error {
		c.Response().WriteHeader(http.StatusOK)
		return fmt.Errorf("write: %w", &net.OpError{Op: "write", Err: syscall.EPIPE})
	})
	func() {
		defer func() {
			if p := recover(); p != http.ErrAbortHandler { //nolint:errorlint // It is the value itself, as net/http documents.
				t.Errorf("got %v, want the answer aborted", p)
			}
		}()
		a.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	}()
	if logs.Len() > 0 {
		t.Errorf("got %s, want nothing", logs.String())
	}
}

// An outage is logged as one warning at its start and one with a count at its end, a second after the last refusal: under
// overload answers and refusals alternate.
func TestAPI_OutageIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logs bytes.Buffer
		var failing error
		a := httpapi.New(httpapi.Config{Log: slog.New(slog.NewJSONHandler(&logs, nil))})
		a.Handle(http.MethodGet, "/", func(c echo.Context) error {
			if failing != nil {
				return failing
			}
			return ok(c)
		})
		send := func(err error) {
			failing = err
			a.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		}
		for range 3 {
			send(dbaas.ErrUnavailable)
			time.Sleep(900 * time.Millisecond)
			send(nil)
		}
		time.Sleep(time.Second)
		send(&dbaas.Error{Code: dbaas.CodeNotCaughtUp}) // A client can cause that at any time.
		send(nil)
		send(nil)
		if got := logs.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, `"count":3`) {
			t.Errorf("got %s, want two lines, the second with a count of 3", got)
		}
	})
}
