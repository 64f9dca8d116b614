package httpapi_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
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
		dbaas.CodeMismatch: 422, dbaas.CodeExpired: 504, dbaas.CodeTooLarge: 413, dbaas.CodeIncomplete: 408, dbaas.CodeUnavailable: 503, dbaas.CodeQuota: 429,
		dbaas.CodeNotCaughtUp: 503, dbaas.CodeUnknown: 504, dbaas.CodeTimeout: 504, dbaas.CodeUnauthorized: 401,
		dbaas.CodeStaleEpoch: 503, dbaas.CodeGone: 410, dbaas.CodeFull: 503, dbaas.CodeInternal: 500,
	} {
		want := &dbaas.Error{Code: code, Message: "what happened", Op: op, Reason: "why", RetryAfter: 1500 * time.Millisecond}
		f := newFixture(t, func(a *httpapi.API) {
			a.Handle(http.MethodGet, "/", func(echo.Context) error { return fmt.Errorf("wrapped: %w", want) })
		})
		resp, body := f.do(t, http.MethodGet, "/", "")
		if resp.StatusCode != status {
			t.Errorf("%s: got %d, want %d", code, resp.StatusCode, status)
		}
		if got := resp.Header.Get("Retry-After") != ""; got != (status == 503 || status == 429) {
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

// Where the body of an error is `{}`, a header tells the reason, of any text in printable ASCII. A problem needs no
// header.
func TestError_EmptyBody_ReasonInHeader(t *testing.T) {
	for _, tt := range []struct{ message, want string }{
		{"the username is taken", "the username is taken"},
		{"", "Bad Request"},
		{"line\r\nSet-Cookie: a\x00\x7f \u00e4\u65e5 \xff.", "line??Set-Cookie: a?? ?? ?."},
		{strings.Repeat("x", 5000), strings.Repeat("x", 512)},
	} {
		f := newFixture(t, func(a *httpapi.API) {
			fail := func(echo.Context) error { return &dbaas.Error{Code: dbaas.CodeConstraint, Message: tt.message} }
			a.Handle(http.MethodPut, "/course", fail, httpapi.EmptyErrorBodies())
			a.Handle(http.MethodPut, "/ours", fail)
		})
		resp, body := f.do(t, http.MethodPut, "/course", "")
		if got := resp.Header.Get("X-Error"); got != tt.want || body != "{}" {
			t.Errorf("%q: got header %q and body %s, want %q and {}", tt.message, got, body, tt.want)
		}
		for _, as := range []struct{ path, accept string }{{"/ours", "*/*"}, {"/course", "application/problem+json"}} {
			resp, _ = f.do(t, http.MethodPut, as.path, "", "Accept", as.accept)
			if _, there := resp.Header["X-Error"]; there {
				t.Errorf("%s with Accept %s: got X-Error beside a problem", as.path, as.accept)
			}
		}
	}
}

// What a person reads at a terminal ends with a newline. Bodies that clients of the course may compare do not.
func TestAnswers_NewlineWhereNoContractForbidsIt(t *testing.T) {
	f := newFixture(t, func(a *httpapi.API) {
		a.Handle(http.MethodGet, "/ours", func(c echo.Context) error { return httpapi.JSON(c, 200, []int{1}) })
		a.Handle(http.MethodGet, "/exactly", func(c echo.Context) error { return httpapi.JSONExactly(c, 200, []int{1}) })
		a.Handle(http.MethodGet, "/empty", func(c echo.Context) error { return httpapi.Empty(c, 200) })
	})
	for path, want := range map[string]string{"/ours": "[1]\n", "/exactly": "[1]", "/empty": "{}"} {
		if _, body := f.do(t, http.MethodGet, path, ""); body != want {
			t.Errorf("%s: got %q, want %q", path, body, want)
		}
	}
	if _, body := f.do(t, http.MethodGet, "/missing", ""); !strings.HasSuffix(body, "}\n") {
		t.Errorf("a problem: got %q, want it to end with a newline", body)
	}
}

// The title of 413 does not blame the request: the answer may be too large.
func TestNewProblem_TooLarge_TitleBlamesNobody(t *testing.T) {
	if got := httpapi.NewProblem(dbaas.CodeTooLarge); got.Status != 413 || got.Title != "Content Too Large" {
		t.Errorf("got %d %q, want 413 Content Too Large", got.Status, got.Title)
	}
}

// A problem has all the members specified by RFC 9457 and docs/API.md.
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
		200: dbaas.CodeOK, 204: dbaas.CodeOK, 400: dbaas.CodeInvalid, 405: dbaas.CodeInvalid, 429: dbaas.CodeQuota,
		500: dbaas.CodeInternal, 501: dbaas.CodeInternal, 502: dbaas.CodeUnknown, 503: dbaas.CodeUnavailable, 507: dbaas.CodeFull,
	} {
		if got := httpapi.CodeFromStatus(status); got != want {
			t.Errorf("%d: got %s, want %s", status, got, want)
		}
	}
}

// Retry-After is when the refusal is expected to end: rounded up, 1 to 30 s, randomly a second more.
func TestError_Refusal_RetryAfter(t *testing.T) {
	for _, tt := range []struct {
		reason string
		after  time.Duration
		header []string
		ms     string
	}{
		{"", time.Hour, []string{"1"}, `"retry_after_ms":3600000`},
		{dbaas.ReasonUserRate, 500 * time.Millisecond, []string{"1", "2"}, `"retry_after_ms":500`},
		{dbaas.ReasonEventBreaker, 1001*time.Millisecond + time.Microsecond, []string{"2", "3"}, `"retry_after_ms":1002`},
		{dbaas.ReasonMaster, time.Hour, []string{"30", "31"}, `"retry_after_ms":3600000`},
		{dbaas.ReasonLaneFull, 0, []string{"1", "2"}, `"reason":"lane_full"}`},
	} {
		refusal := dbaas.Refuse(tt.reason, tt.after, "not now")
		f := newFixture(t, func(a *httpapi.API) {
			a.Handle(http.MethodGet, "/", func(echo.Context) error { return refusal })
		})
		seen := map[string]bool{}
		for range 64 {
			resp, body := f.do(t, http.MethodGet, "/", "")
			seen[resp.Header.Get("Retry-After")] = true
			if !strings.Contains(body, tt.ms) {
				t.Fatalf("%q: got %s, want %s", tt.reason, body, tt.ms)
			}
		}
		if got := slices.Sorted(maps.Keys(seen)); !slices.Equal(got, tt.header) {
			t.Errorf("%q: got Retry-After %v, want each of %v", tt.reason, got, tt.header)
		}
	}
}

// A server that has no retry_after_ms says in its header how long to wait.
func TestErrorFromAnswer_RetryAfterOfTheHeader(t *testing.T) {
	for header, want := range map[string]time.Duration{"7": 7 * time.Second, "": 0, "-1": 0, "soon": 0, "9999999999": 0} {
		e, _ := httpapi.ErrorFromAnswer(http.StatusServiceUnavailable, http.Header{"Retry-After": {header}}, []byte("{}"))
		if e.RetryAfter != want {
			t.Errorf("Retry-After %q: got %v, want %v", header, e.RetryAfter, want)
		}
	}
}
