package apitest

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"rideshare/internal/httpapi"
)

// parameter matches a parameter in a pattern.
var parameter = regexp.MustCompile(`:\w+`)

// Guarded returns the routes of a, such as "GET /x", that are not in open, with x as the segment for each parameter.
// It fails the test unless each of them answers 401 without credentials, and each route in open does not. open maps a
// route to the reason why it needs no credentials. HEAD counts as GET.
func Guarded(tb testing.TB, a *httpapi.API, open map[string]string) []string {
	tb.Helper()
	var guarded []string
	known := map[string]bool{}
	for _, route := range a.Routes() {
		known[route] = true
		if strings.HasPrefix(route, http.MethodOptions+" ") { // browsers send OPTIONS without credentials, and no handler runs
			continue
		}
		reason := open[strings.Replace(route, "HEAD ", "GET ", 1)]
		target := parameter.ReplaceAllString(route, "x")
		method, path, _ := strings.Cut(target, " ")
		w := httptest.NewRecorder()
		a.ServeHTTP(w, httptest.NewRequestWithContext(tb.Context(), method, path, http.NoBody))
		switch refused := w.Code == http.StatusUnauthorized; {
		case reason == "" && !refused:
			tb.Errorf("%s without credentials: got %d, want 401, or a reason in the list of open routes", route, w.Code)
		case reason != "" && refused:
			tb.Errorf("%s without credentials: got 401, want it open: %s", route, reason)
		}
		if reason == "" {
			guarded = append(guarded, target)
		}
	}
	for route := range open {
		if !known[route] {
			tb.Errorf("%s is in the list of open routes, and is no route", route)
		}
	}
	return guarded
}
