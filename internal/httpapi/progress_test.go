package httpapi_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/httpapi"
	"rideshare/internal/testkit/testenv"
)

const mebibyte = 1 << 20

// readingServer answers each request with how much of its body arrived, then the error that ended it. It is for a
// bubble, with connections through the pipes.
func readingServer(t *testing.T, read, write time.Duration) testenv.Pipes {
	t.Helper()
	pipes := testenv.Pipes{Conns: make(chan net.Conn)}
	s := httpapi.NewServer(httpapi.ServerConfig{
		Listener: pipes, Log: slog.New(slog.DiscardHandler), ReadTimeout: read, WriteTimeout: write,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n, err := io.Copy(io.Discard, r.Body)
			_, _ = fmt.Fprintf(w, "%d %v %v", n, err != nil, r.Context().Err())
		}),
	})
	if err := s.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		close(pipes.Conns)
		_ = s.Close(context.Background())
		time.Sleep(time.Hour) // of the fake clock: every waiting request has ended
	})
	return pipes
}

// send sends a body in pieces, as long as the server takes them, and returns the answer's body. The pause between the
// pieces simulates a slow line.
func send(t *testing.T, pipes testenv.Pipes, pieces []int, length int, pause time.Duration) string {
	t.Helper()
	client, conn := net.Pipe()
	pipes.Conns <- conn
	defer func() { _ = client.Close() }()
	go func() { // ends with the pieces or the connection
		_, err := fmt.Fprintf(client, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", length)
		for _, n := range pieces {
			if err == nil {
				_, err = client.Write(make([]byte, n))
				time.Sleep(pause)
			}
		}
	}()
	resp, err := http.ReadResponse(bufio.NewReader(client), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	return bodyOf(t, resp)
}

func repeat(n, times int) []int {
	pieces := make([]int, times)
	for i := range pieces {
		pieces[i] = n
	}
	return pieces
}

// A long body that arrives steadily may take longer than the timeouts, and is answered.
func TestServer_LongBody_GoesOnWhileItComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := send(t, readingServer(t, time.Second, time.Second), repeat(mebibyte, 12), 12*mebibyte, time.Second/6)
		if want := fmt.Sprintf("%d false <nil>", 12*mebibyte); got != want {
			t.Errorf("12 MiB in twice the time-out: got %q, want %q", got, want)
		}
	})
}

// Once a long body has come, the read timeout is over: the handler may take longer, and the connection serves the next
// request.
func TestServer_LongBody_HandlerOutlastsTheReadTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipes := testenv.Pipes{Conns: make(chan net.Conn)}
		s := httpapi.NewServer(httpapi.ServerConfig{
			Listener: pipes, Log: slog.New(slog.DiscardHandler), ReadTimeout: time.Second, WriteTimeout: time.Hour,
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				time.Sleep(time.Minute)
				_, _ = fmt.Fprint(w, r.Context().Err())
			}),
		})
		if err := s.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		for name, request := range map[string]string{
			"Long":    fmt.Sprintf("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", 2*mebibyte, make([]byte, 2*mebibyte)),
			"Chunked": "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
		} {
			client, conn := net.Pipe()
			pipes.Conns <- conn
			answers := bufio.NewReader(client)
			for _, text := range []string{request, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"} {
				go func() { _, _ = io.WriteString(client, text) }()
				resp, err := http.ReadResponse(answers, nil)
				if err != nil {
					t.Fatal(err)
				}
				if got := bodyOf(t, resp); got != "<nil>" {
					t.Errorf("%s, %.4s: the request's context ended: %s", name, text, got)
				}
				_ = resp.Body.Close()
			}
			_ = client.Close()
		}
		close(pipes.Conns)
		_ = s.Close(context.Background())
		time.Sleep(time.Hour) // of the fake clock: every waiting request has ended
	})
}

// A long body that trickles is ended, although each piece is in time; so is a short one.
func TestServer_DribblingBody_Ends(t *testing.T) {
	for name, length := range map[string]int{"Long": 12 * mebibyte, "Short": mebibyte} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got int
				var ended bool
				text := send(t, readingServer(t, 250*time.Millisecond, 0), repeat(1000, 100), length, 10*time.Millisecond)
				if _, err := fmt.Sscanf(text, "%d %t", &got, &ended); err != nil || !ended || got >= 100*1000 {
					t.Errorf("got %q (%v), want the body to end early", text, err)
				}
			})
		})
	}
}
