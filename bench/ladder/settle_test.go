package ladder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"rideshare/internal/progressbar"
	"rideshare/internal/sqlite"
)

func serveTarget(t *testing.T, name string, h http.Handler) *target {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	p, _ := pathOf(name)
	return &target{path: p, addresses: addresses{Database: server.URL}, touched: true}
}

// Whatever was written, a measurement begins with the rows that the table was filled with.
func TestSettle_AfterWrites_TableHasItsSizeAgain(t *testing.T) {
	const rows, written = 50, 300
	b, file := startBare(t, rows)
	s := &rig{targets: map[string]*target{pathInProcess: serveTarget(t, pathInProcess, b.api()), pathHTTP: nil}}
	w, err := newWork(workWrite, rows, 0)
	if err != nil {
		t.Fatal(err)
	}
	db, err := sqlite.Open(file, sqlite.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }() // read only: nothing to lose.
	for range 2 {
		var r request
		for range written {
			w.next(w, &r)
			if _, err := b.write(t.Context(), r.body); err != nil {
				t.Fatal(err)
			}
		}
		s.targets[pathInProcess].touched = true
		if err := s.reconcile(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := number(t, db, "SELECT count(*) FROM bench"); got != rows+1 {
			t.Errorf("got %d rows, want %d and the mark", got, rows)
		}
	}
}

// behind is the product's API while its replicas are behind: for so many questions each.
type behind struct {
	mark, lag, asked int
	table            int  // reads that do not find the table yet
	left             bool // rows that were deleted stay
	cleared          int  // how often the read cache was emptied
	marked           string
}

// fallsBack is how far a write throws the slave back.
const fallsBack = 7

func (b *behind) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, _ := io.ReadAll(r.Body)
	body := string(text)
	b.asked++
	switch {
	case r.Method == http.MethodDelete && r.URL.Path == "/api/v1/cache":
		b.cleared++
	case r.URL.Path == "/db/execute":
		if _, mark, ok := strings.Cut(body, `"mark",-2,"`); ok {
			b.marked, _, _ = strings.Cut(mark, `"`)
		}
		body = "{}"
	case r.URL.Path == "/db/query":
		body = `{"results":[{"values":[[0]]}]}`
		if b.left {
			body = `{"results":[{"values":[[1]]}]}`
		}
	case r.URL.Path == "/api/v1/cluster":
		body = fmt.Sprintf(`{"members":[{"role":"master"},{"role":"slave","lag":%d}]}`, b.lag)
		b.lag = max(b.lag-1, 0)
	case r.URL.Path == "/api/v1/db/write":
		b.lag = fallsBack
	case strings.Contains(body, markKey) && b.table > 0:
		b.table--
		w.WriteHeader(http.StatusBadRequest)
		body = "no such table"
	case strings.Contains(body, markKey):
		b.mark--
		mark := b.marked
		if b.mark >= 0 {
			mark = "old"
		}
		body = fmt.Sprintf(`[{"v":%q}]`, mark)
	default:
		body = "[]"
		if b.left {
			body = `[{"k":"w1"}]`
		}
	}
	_, _ = io.WriteString(w, body)
}

// A measurement waits until the replica shows the last write and no slave is behind.
func TestSettle_ReplicasBehind_AreWaitedFor(t *testing.T) {
	for name, test := range map[string]struct {
		path string
		behind
	}{"MarkNotSeen": {pathTutorial, behind{mark: 3}}, "TableNotThere": {pathTutorial, behind{table: 3}}, "SlaveBehind": {pathTwoSlaves, behind{lag: 3}}} {
		t.Run(name, func(t *testing.T) {
			b := test.behind
			target := serveTarget(t, test.path, &b)
			if err := target.settle(t.Context()); err != nil || b.mark > 0 || b.lag > 0 {
				t.Errorf("got %v with %d reads and %d entries to go, want none", err, b.mark, b.lag)
			}
			asked := b.asked
			if err := target.settle(t.Context()); err != nil || b.asked > asked+2 {
				t.Errorf("got %v and %d requests though nothing was written, want 2 at most", err, b.asked-asked)
			}
		})
	}
}

// Every measurement begins with an empty read cache, where there is one.
func TestSettle_ReadCache_IsEmptied(t *testing.T) {
	for path, want := range map[string]int{pathBatched: 2, pathEmbedded: 2, pathUncached: 0, pathInProcess: 0, pathTutorial: 0} {
		b := &behind{}
		target := serveTarget(t, path, b)
		for range 2 {
			if err := target.settle(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if b.cleared != want {
			t.Errorf("%s: got %d times emptied, want %d", path, b.cleared, want)
		}
	}
}

// A table that cannot be emptied, and a replica that never catches up, end the run.
func TestSettle_Impossible_IsTold(t *testing.T) {
	for _, path := range []string{pathTutorial, pathNoSlave} {
		if err := serveTarget(t, path, &behind{left: true}).settle(t.Context()); !errors.Is(err, errRowsLeft) {
			t.Errorf("%s: got %v, want the rows named", path, err)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	err := poll(ended, startPoll, errBehind, func() (bool, error) { return false, nil })
	if !errors.Is(err, errBehind) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want what was waited for and why it ended", err)
	}
}

// Rows of writes that were answered 200 and are not there make the measurement wrong, whatever the path is.
func TestSettle_WritesAcknowledgedAndNotThere_IsTold(t *testing.T) {
	for _, path := range []string{pathTutorial, pathBatched} {
		s := &rig{targets: map[string]*target{path: serveTarget(t, path, &behind{})}}
		got, err := s.settled(t.Context(), run{target: s.targets[path], work: workWrite, rows: 1, clients: 1, length: 20 * time.Millisecond})
		if err != nil || got.written == 0 || got.wrong == nil || got.errors != got.written {
			t.Errorf("%s: got %v, %d written, %d errors, %v, want the missing rows told", path, err, got.written, got.errors, got.wrong)
		}
	}
}

// More rows than answers are right: a write may have been done without an answer.
func TestSettle_WritesDoneWithoutAnswer_AreRight(t *testing.T) {
	var f figure
	if err := serveTarget(t, pathBatched, &behind{left: true}).checkWritten(t.Context(), &f); err != nil || f.wrong != nil {
		t.Errorf("got %v and %v, want nothing wrong", err, f.wrong)
	}
}

// A slow statement that fails does not run beside the reads, whatever the status of its answer.
func TestBesideSlow_ErrorInsideA200_IsTold(t *testing.T) {
	target := serveTarget(t, pathBatched, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"results":[{"error":"interrupted"}]}`)
	}))
	end, err := target.besideSlow(t.Context())
	if err == nil {
		err = end()
	}
	if err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("got %v, want the error of the statement", err)
	}
}

// Where hits are measured, the cache has the answers before the measurement begins.
func TestSettled_Hits_AreInTheCacheBefore(t *testing.T) {
	for work, warm := range map[string]bool{workHit: true, workRangeHit: true, workCount: true, workCovered: true, workPoint: false, workOnce: false} {
		var asked atomic.Int64
		target := serveTarget(t, pathTutorial, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
		target.touched = false
		got, err := (&rig{}).settled(t.Context(), run{target: target, work: work, rows: groupRows, clients: 1, length: 20 * time.Millisecond})
		if err != nil || got.answers == 0 || got.answers < asked.Load() != warm {
			t.Errorf("%s: got %v, %d requests, %d of them measured, want some before: %v", work, err, asked.Load(), got.answers, warm)
		}
	}
}

// How far the slaves are behind is read before and after a measurement, which follows the settling.
func TestSettled_SlaveFallsBehind_LagIsRead(t *testing.T) {
	b := &behind{lag: 2}
	s := &rig{targets: map[string]*target{pathBatched: serveTarget(t, pathBatched, b)}}
	r := run{target: s.targets[pathBatched], work: workWrite, rows: 1, clients: 1, length: 20 * time.Millisecond}
	got, err := s.settled(t.Context(), r)
	if err != nil || got.lag == nil || *got.lag != (Lag{Before: 0, After: fallsBack}) || !r.target.touched {
		t.Errorf("got %v, lag %+v, touched %v, want 0 entries before and %d after writes", err, got.lag, r.target.touched, fallsBack)
	}
	row := (&Report{}).row(measurement{})
	row.add(got, nil)
	row.add(figure{lag: &Lag{Before: 1, After: 2}}, nil)
	if text := row.lagText(); text != "1/7" {
		t.Errorf("got %q, want the largest of all rounds", text)
	}
}

// The progress counts the measurements of all rounds, and names the one that goes on.
func TestRig_Ladder_ShowsItsMeasurements(t *testing.T) {
	var out strings.Builder
	cfg := Config{Clients: []int{1}, Rounds: 2, Rows: 1, Duration: time.Millisecond, Progress: progressbar.Output{Writer: &out, Columns: func() int { return 0 }}}
	measurements := []measurement{closedAt(workWrite, pathBatched, 1)}
	s := &rig{targets: map[string]*target{pathBatched: serveTarget(t, pathBatched, &behind{})}, steps: cfg.Progress.Plan(cfg.Rounds * len(measurements))}
	err := s.ladder(t.Context(), cfg, newReport(cfg), measurements)
	s.steps.End()
	if want := "] 100%  0s left  write on batched, 1 clients\n"; err != nil || !strings.HasSuffix(out.String(), want) {
		t.Errorf("got %v and progress %q, want %q at the end", err, out.String(), want)
	}
}
