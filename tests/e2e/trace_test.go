package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"rideshare/internal/testkit/otlptest"
)

// exportLimit bounds the time until all spans of a request have arrived.
const exportLimit = 2 * time.Minute

// traced starts a system that sends its spans to the returned receiver.
func traced(t *testing.T) (*system, *otlptest.Receiver) {
	t.Helper()
	receiver := otlptest.Start(t)
	return start(t, setup{env: []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=" + receiver.URL, "OTEL_BSP_SCHEDULE_DELAY=50", "LOG_LEVEL=debug",
	}}), receiver
}

// traceparent is a caller's span in a trace with the given id.
func traceparent(trace, flags string) string { return "00-" + trace + "-" + callersSpan + "-" + flags }

const callersSpan = "00f067aa0ba902b7"

// One trace of a created ride shows its whole path: the gateway, rides, the user check through gateway and users down to
// SQLite on a worker, and the write down to persdb's fsync.
func TestTraces_OneTraceOfARide(t *testing.T) {
	sys, receiver := traced(t)
	user := sys.NewUser(t, "traced")
	source, destination := newRoute()
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	got := sys.Post(t, sys.ridesURL(), toJSON(ride{CreatedBy: user, Timestamp: later, Source: source, Destination: destination}),
		"Traceparent", traceparent(trace, "01")).expect(t, http.StatusCreated, "{}")
	if id := got.Header.Get("X-Request-Id"); id != trace {
		t.Errorf("request id: got %q, want that of the trace, %s", id, trace)
	}
	const (
		created = "gateway POST rides > rides POST /api/v1/rides"
		write   = created + " > orchestrator POST /db/execute"
		check   = created + " > gateway GET users > users GET /api/v1/users/:username"
		read    = check + " > orchestrator POST /db/query"
	)
	want := []string{
		"gateway POST rides", created, created + " > gateway GET users", check,
		read, read + " > orchestrator wait", read + " > orchestrator message",
		read + " > orchestrator message > worker wait", read + " > orchestrator message > worker sqlite",
		write, write + " > orchestrator wait", write + " > orchestrator message",
		write + " > orchestrator message > worker wait", write + " > orchestrator message > worker commit",
		write + " > orchestrator message > worker commit > persdb commit",
		write + " > orchestrator message > worker commit > persdb commit > persdb sqlite",
		write + " > orchestrator message > worker commit > persdb commit > persdb fsync",
	}
	eventually(t, exportLimit, func() error {
		got := receiver.Paths(trace, callersSpan)
		for _, path := range want { // a repeated call has more spans
			if !slices.Contains(got, path) {
				return fmt.Errorf("no span %s among\n%s", path, strings.Join(got, "\n"))
			}
		}
		if strings.HasPrefix(got[0], "?") {
			return fmt.Errorf("got %s, want its parent too", got[0])
		}
		return nil
	})
	for _, s := range receiver.Spans() {
		if s.Trace == trace && (s.Failed || !strings.HasPrefix(s.Name, s.Texts["rideshare.part"]+" ")) {
			t.Errorf("got %+v, want no failure, and the part", s)
		}
	}
}

// The log lines of a request have its trace, and a request without ids gets the id of its trace.
func TestTraces_LogLinesAgree(t *testing.T) {
	sys, receiver := traced(t)
	id := sys.PutUser(t, "agreed").Header.Get("X-Request-Id")
	want := []string{"operation committed", "request served", "request served", "write answered"}
	eventually(t, exportLimit, func() error { // lines are written after the answer
		var got []string
		for _, line := range sys.lines(t) {
			// persdb's line has no trace if the commit also had the request counts.
			if line.RequestID == id && (line.Trace == id || line.Msg == "operation committed" && line.Trace == "") {
				got = append(got, line.Msg)
			}
		}
		for _, message := range want {
			if count(got, message) < count(want, message) {
				return fmt.Errorf("lines with request id and trace %s: got %q, want %q", id, got, want)
			}
		}
		if len(receiver.Paths(id, "")) == 0 {
			return fmt.Errorf("no span of trace %s", id)
		}
		return nil
	})
}

// Of many concurrent writes, each one's trace leads to its commit: over the links of the messages and commits that served
// several of them.
func TestTraces_BatchesLinkTheirRequests(t *testing.T) {
	sys, receiver := traced(t)
	const writers = 40
	if err := together(writers, func(i int) error {
		a, err := sys.Try(t.Context(), http.MethodPut, sys.usersURL(), userBody(fmt.Sprint("batched", i)))
		if err == nil && a.Status != http.StatusCreated {
			err = fmt.Errorf("got %d %s", a.Status, a.Body)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	eventually(t, exportLimit, func() error {
		spans := receiver.Spans()
		linked := map[string]map[string]bool{} // name of a batch -> requests that it links
		var requests, waits []otlptest.Span
		for _, s := range spans {
			switch s.Name {
			case "orchestrator message", "worker commit":
				if n := len(s.Links); n == 0 || n > int(s.Ints["rideshare.requests"]) { // request counts are not recorded
					return fmt.Errorf("got %+v, want a link for each recorded request", s)
				}
				for _, l := range s.Links {
					if linked[s.Name] == nil {
						linked[s.Name] = map[string]bool{}
					}
					linked[s.Name][l] = true
				}
			case "orchestrator POST /db/execute":
				requests = append(requests, s)
			case "orchestrator wait":
				waits = append(waits, s)
			}
		}
		if len(requests) < writers {
			return fmt.Errorf("%d requests", len(requests))
		}
		for _, r := range requests {
			for _, batch := range []string{"orchestrator message", "worker commit"} {
				if !linked[batch][r.ID] {
					return fmt.Errorf("no %s links the request %+v", batch, r)
				}
			}
		}
		return allLink(waits, spans)
	})
}

// allLink returns an error unless each wait links a message.
func allLink(waits, spans []otlptest.Span) error {
	for _, w := range waits {
		found := slices.ContainsFunc(spans, func(s otlptest.Span) bool {
			return s.Name == "orchestrator message" && slices.Equal(w.Links, []string{s.ID})
		})
		if !found {
			return fmt.Errorf("got %+v, want a link to its message", w)
		}
	}
	return nil
}

// A request whose caller does not sample it leaves no span in any part; a probe starts no trace.
func TestTraces_SampledByTheParent(t *testing.T) {
	sys, receiver := traced(t)
	const trace = "aaaabbbbccccddddeeeeffff00001111"
	sys.Call(t, http.MethodPut, sys.usersURL(), userBody("unseen"), "Traceparent", traceparent(trace, "00")).expect(t, http.StatusCreated, "{}")
	if a := sys.Get(t, sys.Orchestrator+"/readyz"); a.Status != http.StatusOK {
		t.Errorf("ready: got %d", a.Status)
	}
	last := sys.PutUser(t, "seen").Header.Get("X-Request-Id")
	sys.Stop(t)
	for _, s := range receiver.Spans() {
		if s.Trace == trace || strings.Contains(s.Name, "readyz") {
			t.Errorf("got %+v, want no span", s)
		}
	}
	gaveUp := slices.ContainsFunc(sys.lines(t), func(line logLine) bool { return line.Msg == "last spans not exported" }) // after a second
	if len(receiver.Paths(last, "")) == 0 && !gaveUp {
		t.Errorf("no span of trace %s: the last spans were not sent", last)
	}
}

// An unreachable collector delays neither answers nor the end of the process.
func TestTraces_NoCollector(t *testing.T) {
	sys := start(t, setup{env: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_BSP_SCHEDULE_DELAY=50", "OTEL_EXPORTER_OTLP_TIMEOUT=100"}})
	sys.PutUser(t, "alone")
	sys.Stop(t)
}

type logLine struct {
	Msg       string `json:"msg"`
	RequestID string `json:"request_id"`
	Trace     string `json:"trace"`
}

// lines returns the log so far, without what is not JSON: the greeting.
func (s *system) lines(t *testing.T) []logLine {
	t.Helper()
	text, err := os.ReadFile(s.logFile())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	var lines []logLine
	for text := range strings.Lines(string(text)) {
		var line logLine
		if json.Unmarshal([]byte(text), &line) == nil {
			lines = append(lines, line)
		}
	}
	return lines
}
