package ladder

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"rideshare/bench/ledger"
	"rideshare/bench/loadgen"
	"rideshare/internal/wait"
)

// failoverLoad sends writes and reads at a constant rate. Each write adds a row with a unique name.
type failoverLoad struct {
	f      *failover
	table  string
	cancel context.CancelFunc
	all    sync.WaitGroup
	ledger ledger.Writes[string] // by the name of the row

	mu     sync.Mutex // guards the fields below
	count  int
	writes []answered
	reads  []answered
}

// answered is one call.
type answered struct {
	due, end time.Time
	status   int // 0 for no answer
}

// failoverLongest is longer than any run: a run ends with its last kill.
const failoverLongest = 365 * 24 * time.Hour

func (f *failover) startLoad(ctx context.Context) (*failoverLoad, error) {
	l := &failoverLoad{f: f, table: "failover_" + strconv.FormatInt(time.Now().UnixNano(), 36)}
	err := f.call(ctx, http.MethodPost, "/db/execute", []string{"CREATE TABLE " + l.table + "(n INTEGER PRIMARY KEY, name TEXT NOT NULL)"}, nil)
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(ctx)
	l.cancel = cancel
	f.load = l
	l.send(running, f.Writes, l.write)
	l.send(running, f.Reads, l.read)
	return l, nil
}

// end stops the load and waits for the answers. It is safe to call twice.
func (l *failoverLoad) end() {
	l.cancel()
	l.all.Wait()
}

// send makes rate calls per second until ctx ends, each when it is due. The bound of calls in flight is never reached.
func (l *failoverLoad) send(ctx context.Context, rate int, call func(context.Context, loadgen.Request) loadgen.Outcome) {
	level := float64(rate)
	l.all.Go(func() {
		_, _ = loadgen.Run(ctx, loadgen.Config{ // an error would be of the settings.
			Loop: loadgen.Open, Plan: loadgen.Plan{{Duration: failoverLongest, From: level, To: level}},
			MaxInFlight: 2 * rate * int(failoverCall/time.Second), Call: call,
		})
	})
}

func (l *failoverLoad) write(ctx context.Context, r loadgen.Request) loadgen.Outcome {
	name := l.newName()
	l.ledger.Note(name, ledger.Unknown)
	status, err := l.post(ctx, "/db/execute", []any{[]any{"INSERT INTO " + l.table + "(name) VALUES(?)", name}}, "Idempotency-Key", name)
	l.ledger.Note(name, ledger.FateOf(status, err, http.StatusOK))
	return l.note(&l.writes, answered{due: r.Due, end: time.Now(), status: status})
}

func (l *failoverLoad) read(ctx context.Context, r loadgen.Request) loadgen.Outcome {
	status, _ := l.post(ctx, "/db/query", []any{"SELECT count(*) FROM " + l.table}) // without an answer the status is 0.
	return l.note(&l.reads, answered{due: r.Due, end: time.Now(), status: status})
}

// post returns the status of an answer, and 0 if there is none, or if a statement failed.
func (l *failoverLoad) post(ctx context.Context, path string, statements []any, header ...string) (int, error) {
	r := l.f.Call(ctx, http.MethodPost, path, statements, header...)
	if r.Err != nil || r.Status == http.StatusOK && strings.Contains(string(r.Body), `"error"`) {
		return 0, r.Err
	}
	return r.Status, nil
}

func (l *failoverLoad) newName() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	return l.table + "-" + strconv.Itoa(l.count)
}

func (l *failoverLoad) note(list *[]answered, a answered) loadgen.Outcome {
	l.mu.Lock()
	defer l.mu.Unlock()
	*list = append(*list, a)
	return loadgen.Outcome{}
}

// await waits until a write that was due after a time has ended in any way, at most for failoverAnswer. It reports whether ctx is still
// valid.
func (l *failoverLoad) await(ctx context.Context, after time.Time) bool {
	for deadline := time.Now().Add(failoverAnswer); ; {
		l.mu.Lock()
		ended := slices.ContainsFunc(l.writes, func(a answered) bool { return a.due.After(after) })
		l.mu.Unlock()
		if ended || time.Now().After(deadline) {
			return ctx.Err() == nil
		}
		if !wait.For(ctx, pollEvery) {
			return false
		}
	}
}

// compare checks the database for acknowledged writes that are missing, and for writes that are there twice or unasked. With
// ErrNotCompared report has no numbers of them.
func (l *failoverLoad) compare(ctx context.Context, report *FailoverReport) error {
	var got struct {
		Results []struct {
			Values [][]any `json:"values"`
			Error  string  `json:"error"`
		} `json:"results"`
	}
	if err := l.f.call(ctx, http.MethodPost, "/db/query?level=linearizable", []string{"SELECT name, count(*) FROM " + l.table + " GROUP BY name"}, &got); err != nil {
		return fmt.Errorf("%w: %w", ErrNotCompared, err)
	}
	if len(got.Results) != 1 || got.Results[0].Error != "" {
		return fmt.Errorf("%w: got %+v, want one result", ErrNotCompared, got)
	}
	found := map[string]int{}
	for _, row := range got.Results[0].Values {
		name, named := row[0].(string)
		n, counted := row[1].(float64)
		if !named || !counted {
			return fmt.Errorf("%w: a row is no name and number", ErrNotCompared)
		}
		found[name] = int(n)
	}
	var check ledger.Check
	l.ledger.Compare(&check, "write", found)
	report.Lost, report.Doubled, report.Unasked = check.Missing.Count, check.Doubled.Count, check.Unasked.Count+len(found)
	return l.f.call(ctx, http.MethodPost, "/db/execute", []string{"DROP TABLE " + l.table}, nil)
}

// change is an event of the control loop, with its time of arrival.
type change struct {
	at     time.Time
	PID    int    `json:"pid"`
	Role   string `json:"role"`
	Change string `json:"change"`
}

// watch collects the control loop's events until ctx ends.
func (f *failover) watch(ctx context.Context) (opened, over <-chan struct{}) {
	open, end := make(chan struct{}), make(chan struct{})
	begun := sync.OnceFunc(func() { close(open) })
	go func() { // ends with ctx
		defer close(end)
		for ctx.Err() == nil {
			f.stream(ctx, begun)
			wait.For(ctx, pollEvery)
		}
	}()
	return open, end
}

// hear waits until the stream of events has brought that the new master serves: after the next kill the event would count for that
// one. It does not wait if the system has no such stream, or if failoverWhole was not enough after an earlier kill.
func (f *failover) hear(ctx context.Context, k kill) error {
	for deadline := k.whole.Add(failoverWhole); ; {
		f.mu.Lock()
		_, heard := firstChange(f.changes, k.at, deadline, k.serves)
		heard = heard || !f.streamed
		f.mu.Unlock()
		f.vain = f.vain || time.Now().After(deadline)
		if heard || f.vain {
			return nil
		}
		if !wait.For(ctx, pollEvery) {
			return context.Cause(ctx)
		}
	}
}

// stream reads a stream of events to its end. It calls begun once no later event can be missed.
func (f *failover) stream(ctx context.Context, begun func()) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.Base+"/api/v1/events", http.NoBody)
	if err != nil {
		return
	}
	resp, err := f.HTTP.Do(req) // without a timeout
	if err != nil {
		return
	}
	defer func() { _ = resp.Body.Close() }() // it is over.
	f.mu.Lock()
	f.streamed = f.streamed || strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream")
	f.mu.Unlock()
	begun()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		c := change{at: time.Now()}
		if ok && json.Unmarshal([]byte(data), &c) == nil && c.Change != "" {
			f.mu.Lock()
			f.changes = append(f.changes, c)
			f.mu.Unlock()
		}
	}
}
