package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// One grep for a request's id shows its whole path: the service, the orchestrator, the worker that served it, and for a
// write persdb. The id comes from X-Request-Id or from a traceparent, and is in the answer.
func TestRequestID_OneGrepShowsTheWholeWay(t *testing.T) {
	sys := start(t, setup{env: []string{"LOG_LEVEL=debug"}})
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	for _, tc := range []struct {
		name, method, path, body string
		header, value, id        string
		status                   int
		want                     []string // messages, each as often as it must come at least
	}{
		{
			"WriteByRequestID", http.MethodPut, "/api/v1/users", `{"username":"ann","password":"` + strings.Repeat("a", 40) + `"}`,
			"X-Request-Id", "my-write.1", "my-write.1", http.StatusCreated,
			[]string{"operation committed", "request served", "request served", "write answered"},
		},
		{
			"ReadByTraceparent", http.MethodGet, "/api/v1/users", "",
			"Traceparent", "00-" + trace + "-00f067aa0ba902b7-01", trace, http.StatusOK,
			[]string{"read served", "request served", "request served"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), tc.method, sys.Gateway+tc.path, strings.NewReader(tc.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set(tc.header, tc.value)
			resp, err := sys.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = resp.Body.Close() }()
			if got := resp.Header.Get("X-Request-Id"); resp.StatusCode != tc.status || got != tc.id {
				t.Errorf("got %d and id %q, want %d and %q", resp.StatusCode, got, tc.status, tc.id)
			}
			eventually(t, 10*time.Second, func() error { // lines are written after the answer
				got := sys.messages(t, tc.id)
				for _, message := range slices.Compact(slices.Clone(tc.want)) {
					if count(got, message) < count(tc.want, message) {
						return fmt.Errorf("lines of %s: got %v, want %v", tc.id, got, tc.want)
					}
				}
				return nil
			})
		})
	}
}

func count(list []string, one string) int {
	n := 0
	for _, s := range list {
		if s == one {
			n++
		}
	}
	return n
}

// messages returns the messages of the log lines of one request.
func (s *system) messages(t *testing.T, id string) []string {
	t.Helper()
	text, err := os.ReadFile(s.logFile())
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for text := range strings.Lines(string(text)) {
		var line struct {
			Msg       string `json:"msg"`
			RequestID string `json:"request_id"`
		}
		if json.Unmarshal([]byte(text), &line) == nil && line.RequestID == id { // some lines are no JSON: the greeting
			out = append(out, line.Msg)
		}
	}
	return out
}
