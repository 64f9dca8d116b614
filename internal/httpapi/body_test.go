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
