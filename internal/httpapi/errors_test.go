package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/labstack/echo/v4"

	"rideshare/internal/dbaas"
	"rideshare/internal/httpapi"
)

// Each code has its status and survives the way to a client and back; outages carry Retry-After.
func TestError_CodeSurvivesRoundTrip(t *testing.T) {
	op := dbaas.NewOpID(time.Now())
	for code, status := range map[dbaas.Code]int{
		dbaas.CodeInvalid: 400, dbaas.CodeConstraint: 400, dbaas.CodeNotFound: 404, dbaas.CodeConflict: 409,
		dbaas.CodeMismatch: 422, dbaas.CodeExpired: 504, dbaas.CodeTooLarge: 413, dbaas.CodeIncomplete: 408, dbaas.CodeUnavailable: 503,
		dbaas.CodeNotCaughtUp: 503, dbaas.CodeUnknown: 504, dbaas.CodeTimeout: 504, dbaas.CodeUnauthorized: 401,
		dbaas.CodeStaleEpoch: 503, dbaas.CodeGone: 410, dbaas.CodeFull: 503, dbaas.CodeInternal: 500,
	} {
		want := &dbaas.Error{Code: code, Message: "what happened", Op: op}
		f := newFixture(t, func(a *httpapi.API) {
			a.Handle(http.MethodGet, "/", func(echo.Context) error { return fmt.Errorf("wrapped: %w", want) })
		})
		resp, body := f.do(t, http.MethodGet, "/", "")
		if resp.StatusCode != status {
			t.Errorf("%s: got %d, want %d", code, resp.StatusCode, status)
		}
		if got := resp.Header.Get("Retry-After") != ""; got != (status == 503) {
			t.Errorf("%s: Retry-After present is %v", code, got)
		}
		if code == dbaas.CodeInternal {
			want = &dbaas.Error{Code: code, Message: "Internal Server Error"}
		}
		got, coded := httpapi.ErrorFromAnswer(resp.StatusCode, resp.Header, []byte(body))
		if diff := cmp.Diff(want, got); diff != "" || !coded {
			t.Errorf("%s, coded %t (-want +got):\n%s", code, coded, diff)
		}
	}
}

// Course paths answer `{}` unless the client lists problem+json; others always answer a problem.
func TestError_BodyByPathAndAccept(t *testing.T) {
	fail := func(echo.Context) error {
		return &dbaas.Error{Code: dbaas.CodeUnknown, Message: "lost", Op: dbaas.OpIDFromKey("k")}
	}
	f := newFixture(t, func(a *httpapi.API) {
		a.Handle(http.MethodGet, "/course", fail, httpapi.EmptyErrorBodies())
		a.Handle(http.MethodGet, "/ours", fail)
	})
	const problem = "application/problem+json"
	for _, tt := range []struct{ path, accept, contentType string }{
		{"/course", "", "application/json"},
		{"/course", "*/*", "application/json"},
		{"/course", "application/*", "application/json"},
		{"/course", "application/problem+jsonx", "application/json"},
		{"/course", problem, problem},
		{"/course", "text/html, Application/Problem+JSON;q=0.5", problem},
		{"/ours", "", problem},
		{"/ours", "text/html", problem},
	} {
		resp, body := f.do(t, http.MethodGet, tt.path, "", "Accept", tt.accept)
		if got := resp.Header.Get("Content-Type"); got != tt.contentType {
			t.Errorf("%s Accept %q: got %s, want %s", tt.path, tt.accept, got, tt.contentType)
		}
		if resp.Header.Get("X-Operation-Id") != dbaas.OpIDFromKey("k").String() {
			t.Errorf("%s Accept %q: the operation's id is not in the headers", tt.path, tt.accept)
		}
		if (body == "{}") != (tt.contentType != problem) {
			t.Errorf("%s Accept %q: got body %s", tt.path, tt.accept, body)
		}
	}
	resp, body := f.do(t, http.MethodPost, "/course", "")
	if resp.StatusCode != http.StatusMethodNotAllowed || body != "{}" {
		t.Errorf("405 of a course path: got %d %s, want {}", resp.StatusCode, body)
	}
}

// A problem has all the members specified by RFC 9457 and api.md.
func TestError_ProblemMembers(t *testing.T) {
	f := newFixture(t, func(a *httpapi.API) {
		a.Handle(http.MethodGet, "/", func(echo.Context) error {
			return &dbaas.Error{Code: dbaas.CodeUnknown, Message: "lost", Op: dbaas.OpIDFromKey("k")}
		})
	})
	_, body := f.do(t, http.MethodGet, "/", "", "X-Request-Id", "req-1")
	var got httpapi.Problem
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	want := httpapi.Problem{
		Type: "urn:rideshare:problem:unknown", Title: "Gateway Timeout", Status: 504, Detail: "lost",
		Instance: "req-1", Code: "unknown", OpID: dbaas.OpIDFromKey("k").String(),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Statuses from other servers become the code that is safe to act on.
func TestCodeFromStatus_Strangers(t *testing.T) {
	for status, want := range map[int]dbaas.Code{
		200: dbaas.CodeOK, 204: dbaas.CodeOK, 400: dbaas.CodeInvalid, 405: dbaas.CodeInvalid, 429: dbaas.CodeUnavailable,
		500: dbaas.CodeInternal, 501: dbaas.CodeInternal, 502: dbaas.CodeUnknown, 503: dbaas.CodeUnavailable, 507: dbaas.CodeFull,
	} {
		if got := httpapi.CodeFromStatus(status); got != want {
			t.Errorf("%d: got %s, want %s", status, got, want)
		}
	}
}
