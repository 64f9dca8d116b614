package httpapi_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/testkit/certtest"
)

// secureHeads returns heads with TLS, and a function that puts a client's connection into TLS.
func secureHeads(t *testing.T) (*heads, func(net.Conn) net.Conn) {
	t.Helper()
	ca := certtest.New(t)
	cert, key := ca.Issue("127.0.0.1", time.Hour)
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.PEM)
	client := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, ServerName: "127.0.0.1"}
	h := newHeads(t, &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}})
	return h, func(c net.Conn) net.Conn { return tls.Client(c, client) }
}

// end closes the server and the connections.
func (h *heads) end(conns []net.Conn) {
	for _, conn := range conns {
		_ = conn.Close()
	}
	close(h.listener.Conns)
	_ = h.server.Close(context.Background())
	time.Sleep(time.Hour) // of the fake clock: every waiting request has ended
}

const (
	request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
	begun   = "GET / HTTP/1.1\r\nHost: x\r\n"
)

// refuses sends requests that get an answer, then text, and reports whether the server refuses one of them with 503 or has
// closed the connection.
func refuses(conn net.Conn, requests []string, text string) bool {
	for _, request := range requests {
		if status(conn, request) == http.StatusServiceUnavailable {
			return true
		}
	}
	answer := make(chan int, 1)
	go func() { answer <- status(conn, text) }()
	synctest.Wait()
	select {
	case got := <-answer:
		return got == 0 || got == http.StatusServiceUnavailable
	default:
		return false
	}
}

// Heads of many short lines take far more memory than their bytes. They find no room, over TLS too, although they have fewer
// bytes than a long head, and wherever they begin.
func TestServer_HeadsOfManyLines_AreBounded(t *testing.T) {
	for name, tt := range map[string]struct {
		secure bool
		first  []string // requests that get an answer, the last with the start of the next head
		next   string   // what follows them
		lines  int      // headers that follow
		conns  int      // more than there is room for
	}{
		"OneHead":           {lines: 400_000, conns: 1},
		"OneHeadTLS":        {lines: 400_000, conns: 1, secure: true},
		"ManyHeads":         {lines: 4000, conns: 40},
		"WithRequestBefore": {first: []string{request + begun + strings.Repeat("a:\n", 1200)}, conns: 120},
		"WithBodyBefore":    {first: []string{"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc" + begun + strings.Repeat("a:\n", 1200)}, conns: 120},
		// net/http reads 4096 bytes, and one more while the request is served.
		"WithByteWhileServed": {first: []string{("GET /slow HTTP/1.1\r\nHost: x\r\n\r\n" + begun + strings.Repeat("a:\n", 2000))[:4097]}, conns: 120},
		"BehindEndOfHead":     {first: []string{request + begun, "\r\n" + begun + strings.Repeat("a:\n", 1300)}, conns: 120},
		// The third request is in net/http's buffer when the second ends, and it is served then.
		"BehindEndOfHeadWhileServed": {first: []string{request + begun, "\r\nGET /endless HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("a:\n", 1300) + "\r\n"}, conns: 120},
		// CONNECT needs no other line.
		"BehindLine":     {first: []string{request + "CONNECT x:1 HTTP/1.1", "\r\n\r\nGET /endless HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("a:\n", 1300) + "\r\n"}, conns: 120},
		"AfterEmptyLine": {first: []string{"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"}, next: "\r\n\r\n" + begun, lines: 4000, conns: 40},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var h *heads
				wrap := func(c net.Conn) net.Conn { return c }
				if tt.secure {
					h, wrap = secureHeads(t)
				} else {
					h = newHeads(t, nil)
				}
				var open []net.Conn
				refused := 0
				for range tt.conns {
					conn := wrap(h.dial())
					open = append(open, conn)
					start := begun
					if tt.first != nil {
						start = tt.next
					}
					if refuses(conn, tt.first, start+strings.Repeat("a:\r\n", tt.lines)) {
						refused++
					}
				}
				if refused == 0 || refused == tt.conns && refused > 1 {
					t.Errorf("%d heads of %d were refused, want those without room", refused, tt.conns)
				}
				h.end(open)
				if got := strings.Count(h.logs.String(), "no room for a request's head"); got < refused {
					t.Errorf("%d lines in the log, want one for each of %d refused heads", got, refused)
				}
			})
		})
	}
}

// The lines of a body are no lines of a head, also if the body comes together with the head: while there is no room for
// heads, short requests with bodies of many lines are served on one connection.
func TestServer_LinesOfBody_AreNoHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHeads(t, nil)
		var open []net.Conn
		for range 130 { // 64 MiB are full
			conn := h.dial()
			open = append(open, conn)
			go func() { _, _ = io.WriteString(conn, begun+strings.Repeat("a:\r\n", 1000)) }()
			synctest.Wait()
		}
		conn := h.dial()
		open = append(open, conn)
		for range 3 {
			if got := status(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2000\r\n\r\n"+strings.Repeat("\n", 2000)); got != http.StatusOK {
				t.Errorf("a body of many lines: got %d, want 200", got)
			}
		}
		h.end(open)
	})
}

// With TLS, plain HTTP gets a 400 that says so, and a line in the log.
func TestServer_PlainHTTPToTLS_IsToldSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := secureHeads(t)
		conn := h.dial()
		go func() { _, _ = io.WriteString(conn, request) }()
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := bodyOf(t, resp); resp.StatusCode != http.StatusBadRequest || !strings.Contains(got, "HTTPS server") {
			t.Errorf("got %d %q", resp.StatusCode, got)
		}
		_ = resp.Body.Close()
		h.end([]net.Conn{conn})
		if !strings.Contains(h.logs.String(), "TLS handshake failed") {
			t.Error("the failed handshake is not in the log")
		}
	})
}

// GOMEMLIMIT limits the connections: a further one is accepted when another has ended.
func TestServer_MemoryLimit_BoundsConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHeadsWithin(t, 3*128<<10)
		var open []net.Conn
		for range 3 {
			conn := h.dial()
			open = append(open, conn)
			if got := status(conn, request); got != http.StatusOK {
				t.Fatalf("got %d, want 200", got)
			}
		}
		accepted := make(chan net.Conn, 1)
		go func() { accepted <- h.dial() }()
		synctest.Wait()
		if len(accepted) != 0 {
			t.Error("a fourth connection was accepted beside three, want it to wait")
		}
		_ = open[0].Close()
		h.end(append(open, <-accepted))
	})
}

// Little GOMEMLIMIT leaves room for one of the longest heads, and not for many.
func TestServer_MemoryLimit_BoundsHeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHeadsWithin(t, 8<<20)
		for lines, want := range map[int]int{1000: http.StatusOK, 40_000: http.StatusServiceUnavailable} {
			conn := h.dial()
			long := "GET /" + strings.Repeat("x", 3<<20) + " HTTP/1.1\r\nHost: x\r\n"
			if got := status(conn, long+strings.Repeat("a:\r\n", lines)+"\r\n"); got != want {
				t.Errorf("a path of 3 MiB and %d headers: got %d, want %d", lines, got, want)
			}
			_ = conn.Close()
			synctest.Wait()
		}
		h.end(nil)
	})
}
