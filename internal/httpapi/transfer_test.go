package httpapi_test

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/labstack/echo/v4"

	"rideshare/internal/httpapi"
	"rideshare/internal/testkit/testenv"
)

// bubble serves an API with 4 MiB of room on in-memory connections: POST / reads its body, GET / and GET /json answer
// 3 MiB, and GET /list answers with an Array of that size, whose items come slowly with ?slow.
type bubble struct {
	listener testenv.Pipes
	server   *http.Server
}

func newBubble() *bubble {
	a := httpapi.New(httpapi.Config{Log: slog.New(slog.DiscardHandler), MaxBody: 4 * mib, Budget: httpapi.NewBudget(4 * mib)})
	a.Handle(http.MethodPost, "/", func(c echo.Context) error {
		if _, err := httpapi.ReadBody(c.Response(), c.Request()); err != nil {
			return err
		}
		return httpapi.Empty(c, http.StatusOK)
	})
	a.Handle(http.MethodGet, "/", func(c echo.Context) error {
		if err := httpapi.Hold(c.Request().Context(), 3*mib); err != nil {
			return err
		}
		return httpapi.WriteLong(c, make([]byte, 3*mib))
	})
	a.Handle(http.MethodGet, "/json", func(c echo.Context) error {
		return httpapi.JSON(c, http.StatusOK, strings.Repeat("x", 3*mib))
	})
	a.Handle(http.MethodGet, "/list", func(c echo.Context) error {
		if err := httpapi.Hold(c.Request().Context(), 3*mib); err != nil {
			return err
		}
		list := httpapi.NewArray(c)
		for i := range 3 * 1024 {
			if i%64 == 0 && c.QueryParams().Has("slow") {
				time.Sleep(200 * time.Millisecond)
			}
			if err := list.Add(strings.Repeat("x", 1021)); err != nil {
				return err
			}
		}
		return list.End()
	})
	b := &bubble{listener: testenv.Pipes{Conns: make(chan net.Conn)}, server: &http.Server{Handler: a, ReadTimeout: time.Hour, WriteTimeout: time.Hour}}
	go func() { _ = b.server.Serve(b.listener) }()
	return b
}

func (b *bubble) close() {
	close(b.listener.Conns)
	_ = b.server.Close()
	time.Sleep(time.Hour) // of the fake clock: every waiting request has ended
}

// dial returns a connection that has sent the head of a request.
func (b *bubble) dial(t *testing.T, method string, length int) net.Conn {
	t.Helper()
	return b.dialPath(t, method, "/", length)
}

func (b *bubble) dialPath(t *testing.T, method, path string, length int) net.Conn {
	t.Helper()
	client, conn := net.Pipe()
	b.listener.Conns <- conn
	kind := fmt.Sprintf("Content-Length: %d", length)
	if length < 0 {
		kind = "Transfer-Encoding: chunked"
	}
	if _, err := fmt.Fprintf(client, "%s %s HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n", method, path, kind); err != nil {
		t.Fatal(err)
	}
	return client
}

// answered reads an answer's status and body.
func answered(t *testing.T, conn net.Conn) (status int, body string) {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body = bodyOf(t, resp)
	_ = conn.Close()
	return resp.StatusCode, body
}

// A client that sends its long body too slowly while others wait for its room is evicted.
func TestReadBody_SlowClient_LosesItsPlace(t *testing.T) {
	for _, tt := range []struct {
		name       string
		pause      time.Duration // after each 64 KiB
		slow, fast int
		chunked    bool
	}{
		{"Stalled", time.Minute, 503, 200, false},
		{"Dribbling", time.Second, 503, 200, false},
		{"Chunked", time.Second, 503, 200, true},
		{"FastEnough", 100 * time.Millisecond, 200, 503, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble()
				slow := b.dial(t, "POST", map[bool]int{false: 3 * mib, true: -1}[tt.chunked])
				piece := make([]byte, 64<<10)
				if tt.chunked {
					piece = fmt.Appendf(nil, "%x\r\n%s\r\n", len(piece), piece)
				}
				go func() {
					for range 48 {
						if _, err := slow.Write(piece); err != nil {
							return
						}
						time.Sleep(tt.pause)
					}
				}()
				time.Sleep(3 * time.Second)
				fast := b.dial(t, "POST", 2*mib)
				go func() { _, _ = fast.Write(make([]byte, 2*mib)) }()
				if status, body := answered(t, fast); status != tt.fast {
					t.Errorf("the fast one: got %d %s, want %d", status, body, tt.fast)
				}
				status, body := answered(t, slow)
				if status != tt.slow || status == 503 && !strings.Contains(body, "too slow") {
					t.Errorf("the slow one: got %d %s, want %d", status, body, tt.slow)
				}
				b.close()
			})
		})
	}
}

// Clients that send only the heads of short requests are evicted when others wait, however new they are: short
// requests are answered within the time that a request waits for room.
func TestReadBody_StalledShortBodies_MakeRoom(t *testing.T) {
	for name, length := range map[string]int{"Announced": 64 << 10, "Chunked": -1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble()
				var stalled []net.Conn
				for range 4 { // all of the reserve for short requests
					stalled = append(stalled, b.dial(t, "POST", length))
				}
				synctest.Wait()
				for range 2 {
					short := b.dial(t, "POST", 10)
					go func() { _, _ = short.Write(make([]byte, 10)) }()
					if status, body := answered(t, short); status != 200 {
						t.Errorf("the short one: got %d %s, want 200", status, body)
					}
				}
				for _, conn := range stalled {
					if status, body := answered(t, conn); status != 503 || !strings.Contains(body, "too slow") {
						t.Errorf("a stalled one: got %d %s, want 503", status, body)
					}
				}
				b.close()
			})
		})
	}
}

// If no request waits for room, a slow client is not evicted.
func TestReadBody_SlowClientAlone_IsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble()
		slow := b.dial(t, "POST", 3*mib)
		go func() {
			for range 48 {
				_, _ = slow.Write(make([]byte, 64<<10))
				time.Sleep(5 * time.Second)
			}
		}()
		if status, body := answered(t, slow); status != 200 {
			t.Errorf("got %d %s, want 200", status, body)
		}
		b.close()
	})
}

// A client that does not take its long answer is evicted too, in one piece or as a list: the answer is cut off. A client
// that takes it fast enough gets all of it, however slowly the answer is made.
func TestWriteLong_SlowClient_LosesItsPlace(t *testing.T) {
	for _, tt := range []struct {
		name, path string
		pause      time.Duration // after each 64 KiB
		fast       int
	}{
		{"Stalled", "/", time.Minute, 200},
		{"StalledList", "/list", time.Minute, 200},
		{"DribblingList", "/list", time.Second, 200},
		{"FastEnoughList", "/list", 100 * time.Millisecond, 503},
		{"SlowSource", "/list?slow", 0, 503},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble()
				slow := b.dialPath(t, "GET", tt.path, 0)
				took := make(chan int64, 1)
				go func() { took <- take(slow, tt.pause) }()
				time.Sleep(3 * time.Second)
				fast := b.dial(t, "POST", 2*mib)
				go func() { _, _ = fast.Write(make([]byte, 2*mib)) }()
				if status, body := answered(t, fast); status != tt.fast {
					t.Errorf("the fast one: got %d %s, want %d", status, body, tt.fast)
				}
				if n, whole := <-took, tt.fast != 200; (n >= 3*mib) != whole {
					t.Errorf("the slow one got %d bytes, want all of them: %v", n, whole)
				}
				b.close()
			})
		})
	}
}

// take reads an answer with a pause after each 64 KiB, and returns how many bytes came.
func take(conn net.Conn, pause time.Duration) (all int64) {
	for {
		n, err := io.CopyN(io.Discard, conn, 64<<10)
		if all += n; err != nil {
			return all
		}
		time.Sleep(pause)
	}
}

// If no request waits for room, a long answer may take longer than the write timeout, but not each MiB of it.
func TestWriteLong_SlowClientAlone_HasTheTimeoutForEachMiB(t *testing.T) {
	for _, tt := range []struct {
		name, path string
		pause      time.Duration // the timeout is an hour, and a MiB has 16 pauses
		whole      bool
	}{
		{"Slow", "/", 3 * time.Minute, true},
		{"SlowList", "/list", 3 * time.Minute, true},
		{"SlowJSON", "/json", 3 * time.Minute, true},
		{"TooSlow", "/", 5 * time.Minute, false},
		{"TooSlowList", "/list", 5 * time.Minute, false},
		{"Stalled", "/", 2 * time.Hour, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble()
				conn := b.dialPath(t, "GET", tt.path, 0)
				if n := take(conn, tt.pause); (n >= 3*mib) != tt.whole {
					t.Errorf("got %d bytes, want all of them: %v", n, tt.whole)
				}
				_ = conn.Close()
				b.close()
			})
		})
	}
}

// lateWriter renews its write deadline only once the answer has been evicted, as a busy machine may do.
type lateWriter struct {
	http.ResponseWriter
	renewing, evicted chan struct{}
}

func (w lateWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w lateWriter) SetWriteDeadline(t time.Time) error {
	if t.After(time.Now()) {
		close(w.renewing)
		<-w.evicted
	} else if len(w.evicted) == 0 {
		w.evicted <- struct{}{}
	}
	return http.NewResponseController(w.ResponseWriter).SetWriteDeadline(t)
}

// An answer that is evicted while it renews its timeout is cut off all the same.
func TestWriteLong_EvictedAtARenewal_IsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble()
		api, renewing := b.server.Handler, make(chan struct{})
		b.server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == "POST" {
				api.ServeHTTP(w, r)
				return
			}
			api.ServeHTTP(lateWriter{w, renewing, make(chan struct{}, 1)}, r)
		})
		slow := b.dialPath(t, "GET", "/", 0)
		resp, err := http.ReadResponse(bufio.NewReader(slow), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		if _, err = io.CopyN(io.Discard, resp.Body, 64<<10); err != nil {
			t.Fatal(err)
		}
		<-renewing
		time.Sleep(3 * time.Second) // of the fake clock: longer than a slow transfer may run
		fast := b.dial(t, "POST", 2*mib)
		go func() { _, _ = fast.Write(make([]byte, 2*mib)) }()
		if status, body := answered(t, fast); status != 200 {
			t.Errorf("the fast one: got %d %s, want 200", status, body)
		}
		_ = slow.Close()
		b.close()
	})
}
