package fault_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"rideshare/internal/testkit/testenv"
	"rideshare/tests/history"
)

// retryAfter is how long a client of the load waits before it repeats a write without a final answer.
const retryAfter = 20 * time.Millisecond

// quietPause is what a quiet reader waits between reads: two of them make ten in 5 s.
const quietPause = time.Second

// writers is how many clients of the load write.
const writers = 4

// queries are the queries of the load's readers. The read cache may answer the first; only a worker answers the second.
var queries = []string{"SELECT count(*) FROM effects", "SELECT count(*) FROM effects WHERE random() IS NOT NULL"}

// load is a steady stream of writes and reads. Each write adds a row with a unique name and increments a counter, in one
// transaction and with an idempotency key, and is repeated until its answer is final. Each read checks that it sees all
// writes that were acknowledged before it began.
type load struct {
	sys  *system
	stop context.CancelFunc
	all  sync.WaitGroup
	// quiet makes the reads so few that one slave is enough for them.
	quiet atomic.Bool
	// persdbStops means that the test stops persdb for longer than a statement may take. The statement that persdb was running fails.
	persdbStops atomic.Bool

	acked, reads               atomic.Int64 // answered 200
	writesRefused, readsFailed atomic.Int64 // answered 503 or 504
	unknown                    atomic.Int64 // writes and reads, answered 504
	broken                     atomic.Int64 // writes and reads without an answer because the connection broke
	ledger                     *history.Ledger

	mu      sync.Mutex // guards the fields below
	wrong   []error
	last    map[string]time.Time // when each reader, by its query, got its last answer
	longest time.Duration        // between two answers to a reader
}

// startLoad makes the tables and starts the clients. They end with the test, at the latest.
func startLoad(t *testing.T, sys *system) *load {
	t.Helper()
	sys.exec(t,
		"CREATE TABLE effects(n INTEGER PRIMARY KEY, name TEXT NOT NULL)",
		"CREATE TABLE counter(one INTEGER PRIMARY KEY, n INTEGER NOT NULL)", "INSERT INTO counter VALUES(1, 0)")
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{sys: sys, stop: cancel, ledger: history.NewLedger(), last: map[string]time.Time{}}
	for w := range writers {
		l.all.Go(func() { l.write(ctx, w) })
	}
	for _, query := range queries {
		l.all.Go(func() { l.read(ctx, query) })
	}
	t.Cleanup(l.end)
	l.awaitProgress(t)
	return l
}

// end stops the clients and waits for them.
func (l *load) end() {
	l.stop()
	l.all.Wait()
}

// endWell stops the clients and fails the test for each wrong answer and for each call without an answer.
func (l *load) endWell(t *testing.T) {
	t.Helper()
	l.endBroken(t)
	if n := l.broken.Load(); n > 0 {
		t.Errorf("%d calls were not answered since their connections broke, want none", n)
	}
}

// endBroken is endWell for a test in which the orchestrator has ended, so that calls may have lost their connections.
func (l *load) endBroken(t *testing.T) {
	t.Helper()
	l.end()
	t.Logf("%d writes and %d reads answered, %d and %d refused, %d of them with 504, %d connections broken",
		l.acked.Load(), l.reads.Load(), l.writesRefused.Load(), l.readsFailed.Load(), l.unknown.Load(), l.broken.Load())
	if err := errors.Join(l.wrong[:min(len(l.wrong), 5)]...); err != nil {
		t.Errorf("%d answers were wrong, the first: %v", len(l.wrong), err)
	}
}

func (l *load) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wrong = append(l.wrong, err)
}

// write sends one write after the other until ctx ends.
func (l *load) write(ctx context.Context, writer int) {
	for i := 0; ctx.Err() == nil; i++ {
		name := fmt.Sprintf("w%d-%d", writer, i)
		l.ledger.Unknown(name)
		for ctx.Err() == nil {
			final, err := l.writeOnce(ctx, name)
			if ctx.Err() != nil {
				return
			}
			if l.note("write "+name, err); final {
				break
			}
			_ = pause(ctx, retryAfter)
		}
	}
}

// note records what was wrong with an answer, and counts calls without an answer because the connection broke. post has
// already reported an answer that was late.
func (l *load) note(what string, err error) {
	if transport, ok := errors.AsType[*url.Error](err); ok {
		if !transport.Timeout() {
			l.broken.Add(1)
		}
		return
	}
	if err != nil {
		l.fail(fmt.Errorf("%s: %w", what, err))
	}
}

// writeOnce reports whether the answer is final, and what is wrong with it. A repeated
// write must be acknowledged as the first one would have been.
func (l *load) writeOnce(ctx context.Context, name string) (final bool, err error) {
	a, err := l.sys.post(ctx, l.fail, "/db/execute?transaction", []any{
		[]string{"INSERT INTO effects(name) VALUES(?)", name},
		"UPDATE counter SET n = n + 1 WHERE one = 1",
	}, "Idempotency-Key", name)
	if err != nil {
		return false, err
	}
	switch a.status {
	case http.StatusOK:
		var got results
		err = json.Unmarshal(a.body, &got)
		if n := len(got.Results); n > 0 && got.Results[n-1].Error == "execute timeout" && l.persdbStops.Load() {
			l.ledger.Refused(name)
			return true, nil
		}
		if err != nil || len(got.Results) != 2 || got.Results[0].Error+got.Results[1].Error != "" {
			return true, fmt.Errorf("got %.200s, want two results: %w", a.body, err)
		}
		l.ledger.Acked(name)
		l.acked.Add(1)
		return true, nil
	case http.StatusConflict: // The first try is still running.
		return false, nil
	}
	return false, l.refusal(a, &l.writesRefused)
}

// refusal counts an answer that is allowed in an outage. It returns an error for any other answer.
func (l *load) refusal(a answer, refused *atomic.Int64) error {
	switch {
	case a.status == http.StatusGatewayTimeout:
		l.unknown.Add(1)
	case a.status == http.StatusServiceUnavailable && a.header.Get("Retry-After") != "":
	default:
		return fmt.Errorf("got %d %v %.200s, want 200, 504, or 503 with Retry-After", a.status, a.header, a.body)
	}
	refused.Add(1)
	return nil
}

// read counts the rows until ctx ends.
func (l *load) read(ctx context.Context, query string) {
	for ctx.Err() == nil {
		acked := l.acked.Load()
		n, err := l.readOnce(ctx, query)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			l.note("read", err)
		case n >= 0 && n < acked:
			l.fail(fmt.Errorf("a read saw %d rows when %d writes had been acknowledged before it began", n, acked))
		case n >= 0:
			l.answered(query)
		}
		between := retryAfter
		if l.quiet.Load() {
			between = quietPause
		}
		_ = pause(ctx, between)
	}
}

// answered counts an answer to the reader with this query.
func (l *load) answered(query string) {
	l.reads.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if last, ok := l.last[query]; ok {
		l.longest = max(l.longest, now.Sub(last))
	}
	l.last[query] = now
}

// wantReadsThroughout fails the test if a read failed, or if a reader had to wait for an answer as long as a write may
// wait in a failover.
func (l *load) wantReadsThroughout(t *testing.T) {
	t.Helper()
	if n := l.readsFailed.Load(); n > 0 {
		t.Errorf("%d reads failed, want none", n)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	longest := l.longest
	for _, last := range l.last { // reads that still wait count too
		longest = max(longest, time.Since(last))
	}
	if longest >= failoverLimit {
		t.Errorf("the longest time between two answered reads: got %v, want less than %v", longest, failoverLimit)
	}
}

// readOnce returns the number of rows, or -1 if the read was refused in an allowed way.
func (l *load) readOnce(ctx context.Context, query string) (int64, error) {
	a, err := l.sys.post(ctx, l.fail, "/db/query", []string{query})
	if err != nil {
		return -1, err
	}
	if a.status != http.StatusOK {
		return -1, l.refusal(a, &l.readsFailed)
	}
	var got results
	if err = json.Unmarshal(a.body, &got); err != nil || len(got.Results) != 1 || len(got.Results[0].Values) != 1 {
		return -1, fmt.Errorf("got %.200s, want one number: %w", a.body, err)
	}
	return strconv.ParseInt(string(got.Results[0].Values[0][0]), 10, 64)
}

// awaitMore waits until a count has grown by n.
func awaitMore(t *testing.T, what string, count *atomic.Int64, n int64) {
	t.Helper()
	awaitMoreWithin(t, healLimit, what, count, n)
}

func awaitMoreWithin(t *testing.T, limit time.Duration, what string, count *atomic.Int64, n int64) {
	t.Helper()
	want := count.Load() + n
	testenv.Eventually(t, limit, func() error {
		if got := count.Load(); got < want {
			return fmt.Errorf("%s: got %d, want %d", what, got, want)
		}
		return nil
	})
}

// awaitProgress waits until writes and reads are answered with 200.
func (l *load) awaitProgress(t *testing.T) {
	t.Helper()
	awaitMore(t, "acknowledged writes", &l.acked, 20)
	awaitMore(t, "answered reads", &l.reads, 5)
}

// awaitRefusal waits until writes and reads are refused in an allowed way.
func (l *load) awaitRefusal(t *testing.T) {
	t.Helper()
	awaitMore(t, "refused writes", &l.writesRefused, 8)
	awaitMore(t, "refused reads", &l.readsFailed, 4)
}

// awaitFailover waits until writes are acknowledged again after the master's death, and fails the test if that takes
// longer than promised. The dead master may have answered the write that each writer has in flight.
func (l *load) awaitFailover(t *testing.T) {
	t.Helper()
	awaitMoreWithin(t, failoverLimit, "acknowledged writes", &l.acked, writers+1)
}

// sign checks whether a fault shows. It returns an error as long as the fault does not show.
type sign func() error

// awaitStruck waits until a fault shows. If the fault does not show, it had no effect and its test proves nothing.
func awaitStruck(t *testing.T, shows sign) {
	t.Helper()
	testenv.Eventually(t, healLimit, func() error {
		if err := shows(); err != nil {
			return fmt.Errorf("the fault has not struck: %w", err)
		}
		return nil
	})
}

// await is called after a fault. It waits until the system is whole and writes and reads are answered, ends the load,
// and checks the invariants.
func (l *load) await(t *testing.T, slaves int) {
	t.Helper()
	l.sys.awaitWhole(t, slaves)
	l.awaitProgress(t)
	l.endWell(t)
	l.checkEffects(t)
	l.sys.checkReplicas(t, slaves)
	l.sys.stop(t)
	l.sys.checkLog(t)
}
