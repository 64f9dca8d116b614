package server_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/persdb/server"
)

// paced is a snapshot of which each part takes some time to produce.
type paced struct {
	each time.Duration
	left int
}

func (p *paced) Read(b []byte) (int, error) {
	if p.left == 0 {
		return 0, io.EOF
	}
	p.left--
	time.Sleep(p.each)
	return len(b), nil
}

func (p *paced) Close() error { return nil }

// Sending a snapshot pauses as long as it works, so that commits get the CPU, but does not make a slow snapshot much
// slower.
func TestServer_Snapshot_RestsBetweenItsParts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ each, want time.Duration }{
		{each: 2 * time.Millisecond, want: 10 * 4 * time.Millisecond},
		{each: 100 * time.Millisecond, want: 10 * 108 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			body := &paced{each: c.each, left: 10}
			snapshot := &dbaas.Snapshot{Body: body, Sum: func() (uint32, bool) { return 0, true }}
			answer := httptest.NewRecorder()
			began := time.Now()
			server.New(&stub{snapshot: snapshot}, slog.New(slog.DiscardHandler)).ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/snapshot", http.NoBody))
			if took := time.Since(began); took != c.want || answer.Code != http.StatusOK {
				t.Errorf("parts of %v: got %d after %v, want 200 after %v", c.each, answer.Code, took, c.want)
			}
		})
	}
}

// clocked is an answer that notes how many bytes are sent before one deadline, at most.
type clocked struct {
	*httptest.ResponseRecorder

	sent, most int
}

func (c *clocked) SetWriteDeadline(time.Time) error {
	c.sent = 0
	return nil
}

func (c *clocked) Write(p []byte) (int, error) {
	c.sent += len(p)
	c.most = max(c.most, c.sent)
	return c.ResponseRecorder.Write(p)
}

// leisurely is an answer whose reader takes a minute for each piece.
type leisurely struct{ *httptest.ResponseRecorder }

func (l leisurely) Write(p []byte) (int, error) {
	<-time.After(time.Minute)
	return l.ResponseRecorder.Write(p)
}

// A reader of a snapshot has a bounded time in all, however it spreads it: ten minutes, and longer for a size that takes a
// reader of 2 MiB/s longer.
func TestServer_Snapshot_TimeInAllIsBounded(t *testing.T) {
	t.Parallel()
	const perMinute = 60 * 2 << 20
	for name, tc := range map[string]struct {
		size  int64
		parts int           // each takes the reader 16 min
		cut   time.Duration // 0: never
	}{
		"SizeUnknown": {parts: 100, cut: 10 * time.Minute},
		"Small":       {size: 5 * perMinute, parts: 100, cut: 10 * time.Minute},
		"Large":       {size: 40 * perMinute, parts: 100, cut: 40 * time.Minute},
		"ReadInTime":  {size: 40 * perMinute, parts: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				defer func() {
					cut := recover() != nil // rpc.Mux breaks the connection so
					if took := time.Since(began).Truncate(2 * time.Minute); cut != (tc.cut > 0) || cut && took != tc.cut {
						t.Errorf("cut %t after %v, want after %v", cut, took, tc.cut)
					}
				}()
				snapshot := &dbaas.Snapshot{Body: &paced{left: tc.parts}, Bytes: tc.size, Sum: func() (uint32, bool) { return 0, true }}
				server.New(&stub{snapshot: snapshot}, slog.New(slog.DiscardHandler)).ServeHTTP(leisurely{httptest.NewRecorder()}, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/snapshot", http.NoBody))
			})
		})
	}
}

// A reader that takes 64 KiB in 30 s, the slowest client that the orchestrator serves, gets the whole stream.
func TestServer_Snapshot_SlowReaderHasTime(t *testing.T) {
	t.Parallel()
	answer := &clocked{ResponseRecorder: httptest.NewRecorder()}
	snapshot := &dbaas.Snapshot{Body: &paced{left: 2}, Sum: func() (uint32, bool) { return 0, true }}
	server.New(&stub{snapshot: snapshot}, slog.New(slog.DiscardHandler)).ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/snapshot", http.NoBody))
	if answer.most > 64<<10 || answer.Body.Len() < 1<<20 {
		t.Errorf("%d of %d bytes have one deadline, want 64 KiB at most", answer.most, answer.Body.Len())
	}
}
