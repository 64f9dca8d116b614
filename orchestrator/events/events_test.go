package events_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

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

func serve(t *testing.T) (*events.Log, string) {
	t.Helper()
	log := events.New()
	server := httptest.NewServer(log)
	t.Cleanup(server.Close)
	t.Cleanup(log.Close)
	return log, server.URL
}

// A client that names the last event it saw gets exactly what came after it, old and new.
func TestLog_LastEventID_ResumesWithoutGap(t *testing.T) {
	log, url := serve(t)
	for i := range 3 {
		log.Add("role", map[string]int{"n": i + 1})
	}
	next := watch(t, url, "1")
	for i := 2; i <= 3; i++ {
		want := fmt.Sprintf(`id: %d event: role data: {"n":%d}`, i, i)
		if got := next(); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	log.Add("scale", "x")
	if got, want := next(), `id: 4 event: scale data: "x"`; got != want {
		t.Fatalf("got %q, want %q", got, want)
	}
}

// An id from before a restart is not one of ours: the client gets all there is.
func TestLog_IDOfAnEarlierProcess_GetsAll(t *testing.T) {
	log, url := serve(t)
	log.Add("role", 1)
	if got, want := watch(t, url, "900")(), "id: 1 event: role data: 1"; got != want {
		t.Fatalf("got %q, want %q", got, want)
	}
}

// The oldest events are forgotten, and ids stay dense.
func TestLog_ManyEvents_KeepsTheNewest(t *testing.T) {
	log := events.New()
	for range 2000 {
		log.Add("role", nil)
	}
	got, _ := log.After(0)
	if len(got) != 1024 || got[0].ID != 977 || got[1023].ID != 2000 {
		t.Fatalf("got %d events from %d, want 1024 from 977", len(got), got[0].ID)
	}
}

// Closing ends the streams, so that a shutdown does not wait for them.
func TestLog_Close_EndsStreams(t *testing.T) {
	log, url := serve(t)
	next := watch(t, url, "0")
	log.Close()
	if got := next(); got != "end of stream" {
		t.Fatalf("got %q, want the end of the stream", got)
	}
}

// A Last-Event-ID that is no number is refused.
func TestLog_BadLastEventID_400(t *testing.T) {
	log := events.New()
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	r.Header.Set("Last-Event-ID", "x")
	log.ServeHTTP(w, r)
	if w.Code != http.StatusBadRequest {
		t.Fatalf("got %d, want 400", w.Code)
	}
}
