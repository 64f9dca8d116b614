package events_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/testkit/testenv"
	"rideshare/orchestrator/events"
)

// watch opens a stream and returns a function that reads the next event.
func watch(t *testing.T, url, lastID string) func() string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	lines := bufio.NewScanner(resp.Body)
	return func() string {
		var event []string
		for lines.Scan() {
			if lines.Text() == "" {
				return strings.Join(event, " ")
			}
			event = append(event, lines.Text())
		}
		return "end of stream"
	}
}

// HEAD is answered and ends.
func TestLog_Head_Ends(t *testing.T) {
	w := httptest.NewRecorder()
	events.New().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodHead, "/", http.NoBody))
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "text/event-stream" || w.Body.Len() != 0 {
		t.Errorf("got %d %v %q, want only the headers of a stream", w.Code, w.Header(), w.Body)
	}
}

func serve(t *testing.T) (*events.Log, string) {
	t.Helper()
	log := events.New()
	server := httptest.NewServer(log)
	t.Cleanup(server.Close)
	t.Cleanup(log.Close)
	return log, server.URL
}

// wantEvent fails unless event is of that type and data; it returns the event's id.
func wantEvent(t *testing.T, event, kind, data string) string {
	t.Helper()
	id, rest, _ := strings.Cut(strings.TrimPrefix(event, "id: "), " ")
	if want := "event: " + kind + " data: " + data; rest != want {
		t.Fatalf("got %q, want %q", event, want)
	}
	return id
}

// A client that names the last event it saw gets exactly what came after it, old and new.
func TestLog_LastEventID_ResumesWithoutGap(t *testing.T) {
	log, url := serve(t)
	first := watch(t, url, "")
	log.Add("role", map[string]int{"n": 1})
	id := wantEvent(t, first(), "role", `{"n":1}`)
	log.Add("role", map[string]int{"n": 2})
	log.Add("role", map[string]int{"n": 3})
	next := watch(t, url, id)
	for i := 2; i <= 3; i++ {
		wantEvent(t, next(), "role", fmt.Sprintf(`{"n":%d}`, i))
	}
	log.Add("scale", "x")
	wantEvent(t, next(), "scale", `"x"`)
}

// If a client's last event id is of another process or an older release, or was never assigned, the client gets a reset
// and then all kept events. If it resumes with the id of the reset, it gets no further reset.
func TestLog_IDOfAnotherLife_IsReset(t *testing.T) {
	log, url := serve(t)
	log.Add("role", 1)
	log.Add("role", 2)
	newest := watch(t, url, "")
	log.Add("role", 3)
	life, _, _ := strings.Cut(wantEvent(t, newest(), "role", "3"), "-")
	other, _ := serve(t)
	other.Add("role", 1)
	for _, id := range []string{"1", "3", "900", "0", "0123456789abcdef-1", "x-3", life + "-900", life + "-18446744073709551615"} {
		next := watch(t, url, id)
		reset := wantEvent(t, next(), "reset", "{}")
		resumed := watch(t, url, reset)
		for i := 1; i <= 3; i++ {
			wantEvent(t, next(), "role", strconv.Itoa(i))
			wantEvent(t, resumed(), "role", strconv.Itoa(i))
		}
	}
}

// A client with an id of another process gets the reset, once, even before the first event of this process.
func TestLog_ResetWithoutEvents(t *testing.T) {
	log, url := serve(t)
	next := watch(t, url, "7")
	wantEvent(t, next(), "reset", "{}")
	log.Add("role", 1)
	wantEvent(t, next(), "role", "1")
}

// A client that names an event whose successors are no longer kept gets the reset too.
func TestLog_ForgottenEvents_AreAReset(t *testing.T) {
	log, url := serve(t)
	first := watch(t, url, "")
	log.Add("role", 1)
	id := wantEvent(t, first(), "role", "1")
	for i := range 1024 {
		log.Add("role", i)
	}
	wantEvent(t, watch(t, url, id)(), "role", "0") // just kept
	log.Add("role", nil)
	next := watch(t, url, id)
	wantEvent(t, next(), "reset", "{}")
	wantEvent(t, next(), "role", "1")
}

// The oldest events are dropped, and the numbers stay without gaps.
func TestLog_ManyEvents_KeepsTheNewest(t *testing.T) {
	log := events.New()
	for range 2000 {
		log.Add("role", nil)
	}
	got, gap, _ := log.After(0)
	if len(got) != 1024 || got[0].ID != 977 || got[1023].ID != 2000 || !gap {
		t.Fatalf("got %d events from %d, gap %v, want 1024 from 977 after a gap", len(got), got[0].ID, gap)
	}
}

// Closing ends the streams, so that a shutdown does not wait for them.
func TestLog_Close_EndsStreams(t *testing.T) {
	log, url := serve(t)
	next := watch(t, url, "")
	log.Close()
	if got := next(); got != "end of stream" {
		t.Fatalf("got %q, want the end of the stream", got)
	}
}

// A Last-Event-ID that cannot be an event's is refused, with the reason.
func TestLog_BadLastEventID_400(t *testing.T) {
	log := events.New()
	for _, id := range []string{"x", "-", "1-", "a-b", "1-2-3", "-1", "1.5", "99999999999999999999"} {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
		r.Header.Set("Last-Event-ID", id)
		log.ServeHTTP(w, r)
		if w.Code != http.StatusBadRequest || w.Header().Get("Content-Type") != "application/problem+json" || !strings.Contains(w.Body.String(), "Last-Event-ID") {
			t.Errorf("%q: got %d %s %s, want 400 as problem+json", id, w.Code, w.Header().Get("Content-Type"), w.Body)
		}
	}
}

// At most maxStreams streams are open at the same time. When a stream ends, its place is free again.
func TestLog_TooManyStreams_503(t *testing.T) {
	log, url := serve(t)
	log.Add("role", 1)
	var ends []context.CancelFunc
	open := func() int {
		ctx, cancel := context.WithCancel(t.Context())
		ends = append(ends, cancel)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		if resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") == "" {
			t.Error("503 without Retry-After")
		}
		return resp.StatusCode
	}
	for range 256 {
		if got := open(); got != http.StatusOK {
			t.Fatalf("got %d, want 200", got)
		}
	}
	if got := open(); got != http.StatusServiceUnavailable {
		t.Fatalf("one more: got %d, want 503", got)
	}
	ends[0]()
	testenv.Eventually(t, time.Minute, func() error {
		if got := open(); got != http.StatusOK {
			return fmt.Errorf("after one has ended: got %d, want 200", got)
		}
		return nil
	})
	for _, end := range ends {
		end()
	}
}

// A client that stops reading is disconnected after 10 s and holds no resources. A stream that is silent because there
// are no events stays open.
func TestLog_ClientThatDoesNotRead_IsLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := events.New()
		ended := make(chan struct{}, 1)
		server := http.Server{ReadHeaderTimeout: time.Second, WriteTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			log.ServeHTTP(w, r)
			ended <- struct{}{}
		})}
		listener := testenv.Pipes{Conns: make(chan net.Conn, 1)}
		go func() { _ = server.Serve(listener) }()
		client, conn := net.Pipe()
		listener.Conns <- conn
		if _, err := io.WriteString(client, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(client)
		await := func(want string) {
			t.Helper()
			for line := ""; line != want; {
				var err error
				if line, err = lines.ReadString('\n'); err != nil {
					t.Fatalf("before %q: %v", want, err)
				}
			}
		}
		for range 10 { // far longer than any limit, in silence
			await(": still here\n")
		}
		log.Add("role", 1)
		start := time.Now()
		<-ended // nothing reads the event
		if took := time.Since(start); took > 21*time.Second {
			t.Errorf("let go after %v, want 10 s", took)
		}
		_ = client.Close()
		close(listener.Conns)
		_ = server.Close()
		log.Close()
	})
}
