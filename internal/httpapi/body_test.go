package httpapi_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/labstack/echo/v4"

	"rideshare/internal/httpapi"
)

// An incomplete body is 408 if it timed out and 400 if the client left, whether its length was declared or not.
func TestReadBody_NotToItsEnd_SaysWhy(t *testing.T) {
	api := httpapi.New(httpapi.Config{Log: slog.New(slog.DiscardHandler)})
	api.Handle(http.MethodPost, "/", func(c echo.Context) error {
		_, err := httpapi.ReadBody(c.Response(), c.Request())
		return err
	})
	for end, want := range map[error]int{os.ErrDeadlineExceeded: http.StatusRequestTimeout, io.ErrUnexpectedEOF: http.StatusBadRequest} {
		for _, length := range []int64{-1, 100, 100_000} {
			t.Run(fmt.Sprint(end, " of ", length), func(t *testing.T) {
				req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", io.MultiReader(strings.NewReader("some"), iotest.ErrReader(end)))
				req.ContentLength = length
				rec := httptest.NewRecorder()
				if api.ServeHTTP(rec, req); rec.Code != want {
					t.Errorf("got %d %s, want %d", rec.Code, rec.Body, want)
				}
			})
		}
	}
}

// NoBody accepts an empty body and an empty object, whatever the method, and nothing else.
func TestNoBody(t *testing.T) {
	f := newFixture(t, func(a *httpapi.API) {
		for _, method := range []string{http.MethodGet, http.MethodDelete, http.MethodPost} {
			a.Handle(method, "/", func(c echo.Context) error {
				if err := httpapi.NoBody(c); err != nil {
					return err
				}
				return ok(c)
			})
		}
	})
	for body, want := range map[string]int{
		"": 200, "{}": 200, " { } \n": 200, "\n": 200,
		`{"a":1}`: 400, "[]": 400, "null": 400, `""`: 400, "x": 400, "{}{}": 400, "{": 400, strings.Repeat(" ", 101): 413,
	} {
		for _, method := range []string{http.MethodGet, http.MethodDelete, http.MethodPost} {
			if resp, _ := f.do(t, method, "/", body, "Content-Type", "text/plain"); resp.StatusCode != want {
				t.Errorf("%s with %.20q: got %d, want %d", method, body, resp.StatusCode, want)
			}
		}
	}
}
