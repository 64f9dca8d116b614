package e2e

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
)

// event is one server-sent event.
type event struct{ id, kind, data string }

// eventStream is one open GET of the events.
type eventStream struct {
	lines  *bufio.Scanner
	cancel context.CancelFunc
	body   interface{ Close() error }
}

// openEvents requests the events after the event lastID, or only new events if lastID is empty.
func (s *system) openEvents(t *testing.T, lastID string) *eventStream {
	t.Helper()
	return s.openStream(t, "/api/v1/events", lastID)
}

// openStream opens a stream of server-sent events.
func (s *system) openStream(t *testing.T, path, lastID string) *eventStream {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*againLimit)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.db(path), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	resp, err := s.client.Do(req) //nolint:bodyclose // The stream's close closes it.
	if err != nil {
		t.Fatal(err)
	}
	stream := &eventStream{lines: bufio.NewScanner(resp.Body), cancel: cancel, body: resp.Body}
	t.Cleanup(stream.close)
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		t.Fatalf("%s: got %s %s, want a stream", path, resp.Status, resp.Header.Get("Content-Type"))
	}
	return stream
}

// await reads events until wanted returns true for one of them, and returns it.
func (e *eventStream) await(t *testing.T, wanted func(event) bool) event {
	t.Helper()
	var next event
	for e.lines.Scan() {
		name, value, _ := strings.Cut(e.lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "id":
			next.id = value
		case "event":
			next.kind = value
		case "data":
			next.data += value
		}
		if e.lines.Text() != "" || next == (event{}) {
			continue
		}
		if wanted(next) {
			return next
		}
		next = event{}
	}
	t.Fatalf("the stream of events ended before the wanted one came: %v", e.lines.Err())
	return event{}
}

// close ends the stream; a second time does nothing.
func (e *eventStream) close() {
	e.cancel()
	_ = e.body.Close()
}
