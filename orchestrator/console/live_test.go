package console_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/orchestrator/console"
)

// client is a streaming client; its methods are safe for concurrent use.
type client struct {
	*httptest.ResponseRecorder
	mu sync.Mutex
}

func (c *client) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ResponseRecorder.Write(p)
}

func (*client) SetWriteDeadline(time.Time) error { return nil }

func (c *client) lines() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Split(strings.TrimSpace(c.Body.String()), "\n")
}

// HEAD is answered and ends.
func TestLive_Head_Ends(t *testing.T) {
	w := httptest.NewRecorder()
	console.NewLive().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodHead, "/", http.NoBody))
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "text/event-stream" || w.Body.Len() != 0 {
		t.Errorf("got %d %v %q, want only the headers of a stream", w.Code, w.Header(), w.Body)
	}
}

// A stream begins with the history, and then has each second's traffic with the state of that moment. Without a stream
// nobody looks at the system, and the history is kept all the same. Close ends the stream.
func TestLive_StreamsHistoryAndThenEachSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var looks atomic.Int64
		l := console.NewLive()
		l.State = func(context.Context) any { return looks.Add(1) }
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go l.Run(ctx)
		l.Observe("/db/query", "POST", 200, time.Millisecond)
		time.Sleep(2500 * time.Millisecond)
		if looks := looks.Load(); looks != 0 {
			t.Fatalf("looked at the system %d times without a stream", looks)
		}
		c := &client{ResponseRecorder: httptest.NewRecorder()}
		ended := make(chan struct{})
		go func() {
			l.ServeHTTP(c, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody))
			close(ended)
		}()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		got := c.lines()
		want := []string{"event: history", "data: [{", "", "event: now", `data: {"point":{`, "", "event: now", `data: {"point":{`}
		if len(got) != len(want) {
			t.Fatalf("got %q", got)
		}
		for i := range want {
			if !strings.HasPrefix(got[i], want[i]) {
				t.Errorf("line %d: got %q, want %q", i, got[i], want[i])
			}
		}
		if strings.Count(got[1], `"at"`) != 2 || !strings.Contains(got[1], `"per_second":1`) || !strings.HasSuffix(got[7], `"state":2}`) {
			t.Errorf("got %q", got)
		}
		l.Close()
		<-ended
	})
}

// A 65th stream is refused with 503. When a stream ends, its place is free again.
func TestLive_TooManyStreams_503(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := console.NewLive()
		ctx, end := context.WithCancel(t.Context())
		open := func(ctx context.Context) *client {
			c := &client{ResponseRecorder: httptest.NewRecorder()}
			go l.ServeHTTP(c, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody))
			synctest.Wait()
			return c
		}
		for range 64 {
			if c := open(ctx); c.Code != http.StatusOK {
				t.Fatalf("got %d, want 200", c.Code)
			}
		}
		if c := open(ctx); c.Code != http.StatusServiceUnavailable {
			t.Errorf("one more: got %d, want 503", c.Code)
		}
		end()
		synctest.Wait()
		ctx, end = context.WithCancel(t.Context())
		if c := open(ctx); c.Code != http.StatusOK {
			t.Errorf("after they have ended: got %d, want 200", c.Code)
		}
		end()
		synctest.Wait()
	})
}
