package httpapi_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/httpapi"
	"rideshare/internal/testkit/testenv"
)

// heads is a server on in-memory connections that answers 200, at /slow after a millisecond and at /endless never.
type heads struct {
	logs     bytes.Buffer
	listener testenv.Pipes
	server   *httpapi.Server
}

func newHeads(t *testing.T, secure *tls.Config) *heads {
	t.Helper()
	h := &heads{listener: testenv.Pipes{Conns: make(chan net.Conn)}}
	h.server = httpapi.NewServer(httpapi.ServerConfig{
		Listener: h.listener, TLS: secure, Log: slog.New(slog.NewJSONHandler(&h.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/slow":
				time.Sleep(time.Millisecond)
			case "/endless":
				<-r.Context().Done()
			}
			w.WriteHeader(http.StatusOK)
		}),
	})
	if err := h.server.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return h
}

// newHeadsWithin is newHeads in a process with the given GOMEMLIMIT. It is not for parallel tests.
func newHeadsWithin(t *testing.T, limit int64) *heads {
	t.Helper()
	t.Setenv("GOMEMLIMIT", "set")
	before := debug.SetMemoryLimit(limit)
	defer debug.SetMemoryLimit(before)
	return newHeads(t, nil)
}

func (h *heads) dial() net.Conn {
	client, conn := net.Pipe()
	h.listener.Conns <- conn
	return client
}

// status sends text, which may be empty, and returns the status of the answer, or 0 without an answer.
func status(conn net.Conn, text string) int {
	if text != "" {
		go func() { _, _ = io.WriteString(conn, text) }()
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// Long heads are limited together: those without room are refused immediately, short requests continue, and when the
// senders are gone there is room again.
func TestServer_ManyLongHeads_AreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHeads(t, nil)
		long := "GET /" + strings.Repeat("x", 3<<20) + " HTTP/1.1\r\nHost: x\r\n"
		for range 2 {
			for range 12 { // one after the other, for any number there is room
				conn := h.dial()
				for range 2 {
					if got := status(conn, long+"\r\n"); got != http.StatusOK {
						t.Fatalf("a long head: got %d, want 200", got)
					}
				}
				_ = conn.Close()
				synctest.Wait() // the room is given back
			}
			var open []net.Conn
			for range 7 { // 64 MiB hold seven, three times over; none of these ends
				conn := h.dial()
				open = append(open, conn)
				if _, err := fmt.Fprint(conn, long); err != nil {
					t.Fatal(err)
				}
			}
			refused := 0
			for range 4 {
				start := time.Now()
				conn := h.dial()
				if status(conn, long) == http.StatusServiceUnavailable && time.Since(start) < 3*time.Second {
					refused++
				}
				_ = conn.Close()
				short := h.dial()
				if got := status(short, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); got != http.StatusOK {
					t.Errorf("a short request beside long heads: got %d, want 200", got)
				}
				_ = short.Close()
			}
			for _, conn := range open {
				_ = conn.Close()
			}
			synctest.Wait()
			if refused != 4 {
				t.Errorf("%d of 4 long heads were refused, want all of them", refused)
			}
		}
		close(h.listener.Conns)
		_ = h.server.Close(context.Background())
		time.Sleep(time.Hour) // of the fake clock: every waiting request has ended
	})
}

// A body that the handler did not read is no head: connections that are idle after such requests take no room from long
// heads.
func TestServer_UnreadBodies_AreNoHeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHeads(t, nil)
		unread := fmt.Sprintf("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", 200<<10, strings.Repeat("x", 200<<10))
		var idle []net.Conn
		for range 64 { // 1 MiB of room for each would be all
			conn := h.dial()
			idle = append(idle, conn)
			if got := status(conn, unread); got != http.StatusOK {
				t.Fatalf("a request whose body is not read: got %d, want 200", got)
			}
		}
		synctest.Wait()
		conn := h.dial()
		if got := status(conn, "GET /"+strings.Repeat("x", 3<<20)+" HTTP/1.1\r\nHost: localhost\r\n\r\n"); got != http.StatusOK {
			t.Errorf("a long head beside idle connections: got %d, want 200", got)
		}
		if got := status(idle[0], unread); got != http.StatusOK {
			t.Errorf("another request on an idle connection: got %d, want 200", got)
		}
		for _, conn := range append(idle, conn) {
			_ = conn.Close()
		}
		close(h.listener.Conns)
		_ = h.server.Close(context.Background())
		time.Sleep(time.Hour) // of the fake clock: every waiting request has ended
	})
}
