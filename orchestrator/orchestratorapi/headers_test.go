package orchestratorapi_test

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"rideshare/internal/httpapi"
	"rideshare/orchestrator/orchestratorapi"
)

// The listener's own refusals, and answers to broken bodies, have the headers too.
func TestRqliteHeaders_RefusedByTheListener(t *testing.T) {
	h := newAPI(&system{}, func(c *orchestratorapi.Config) { c.Version = "v1" })
	s := httpapi.NewServer(httpapi.ServerConfig{
		Addr: "127.0.0.1:0", Handler: h, AddHeaders: h.AddHeaders, ReadTimeout: time.Second, Log: slog.New(slog.DiscardHandler),
	})
	if err := s.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	for request, status := range map[string]int{
		"GET /db/query?q=SELECT+1 HTTP/1.1\r\nHost: evil.example\r\n\r\n":                                         http.StatusForbidden,
		"GET /status HTTP/1.1\r\nHost: evil.example\r\n\r\n":                                                      http.StatusForbidden,
		"GET /nodes HTTP/1.1\r\nHost: evil.example\r\n\r\n":                                                       http.StatusForbidden,
		"GET /readyz HTTP/1.1\r\nHost: evil.example\r\n\r\n":                                                      http.StatusForbidden,
		"GET /livez HTTP/1.1\r\nHost: evil.example\r\n\r\n":                                                       http.StatusForbidden,
		"POST /db/execute HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: cross-site\r\nContent-Length: 0\r\n\r\n": http.StatusForbidden,
		"POST /db/query HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n[":                              http.StatusRequestTimeout,
	} {
		conn, err := net.Dial("tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		if _, err = io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%q: %v", request, err)
		}
		want := "v1"
		if strings.Contains(request, "/livez") {
			want = ""
		}
		if got := resp.Header.Get("X-Rqlite-Version"); resp.StatusCode != status || got != want {
			t.Errorf("%q: got %d with version %q, want %d with %q", request, resp.StatusCode, got, status, want)
		}
		_, _ = resp.Body.Close(), conn.Close()
	}
}
