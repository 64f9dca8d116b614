package fault_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"rideshare/internal/testkit/testenv"
	"rideshare/tests/history"
)

const (
	historyClients = 5
	// With few keys, porcupine needs long to find that a history is wrong. With many keys it is fast.
	historyRegisters = 4
	historySets      = 2
	// historyPace is the mean pause between two calls of a client: porcupine's work grows
	// fast with the number of calls on a key.
	historyPace = 40 * time.Millisecond
	// setLimit is the largest number of members of a set.
	setLimit = 150
	// checkLimit bounds how long porcupine checks.
	checkLimit = 2 * time.Minute
)

// trial is a set of clients that use registers and sets through the HTTP API, with the history of their calls. Each write
// also inserts a row with a unique name and increments a counter.
type trial struct {
	sys      *system
	seed     uint64
	recorder *history.Recorder
	ledger   *history.Ledger
	stop     context.CancelFunc
	all      sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	wrong  []error
	fences []fence
}

// fence is a claimed epoch and a position of the log. Every entry after the position has this epoch or a newer one.
type fence struct{ epoch, after uint64 }

// startTrial makes the tables and starts the clients. They end with the test, at the latest.
func startTrial(t *testing.T, sys *system, seed uint64) *trial {
	t.Helper()
	statements := []string{
		"CREATE TABLE effects(n INTEGER PRIMARY KEY, name TEXT NOT NULL, k TEXT)",
		"CREATE TABLE registers(k TEXT NOT NULL PRIMARY KEY, v NOT NULL)", "INSERT INTO registers VALUES('counter', 0)",
	}
	for i := range historyRegisters {
		statements = append(statements, fmt.Sprintf("INSERT INTO registers VALUES('r%d', '')", i))
	}
	sys.exec(t, statements...)
	ctx, cancel := context.WithCancel(context.Background())
	h := &trial{sys: sys, seed: seed, recorder: history.New(), ledger: history.NewLedger(), stop: cancel}
	for i := range historyClients {
		c := &historyClient{
			trial: h, name: fmt.Sprintf("c%d", i), rnd: rand.New(rand.NewPCG(seed, uint64(i))),
			history: h.recorder.Client(), values: map[string]string{},
		}
		h.all.Go(func() { c.run(ctx) })
	}
	t.Cleanup(h.end)
	return h
}

func (h *trial) end() {
	h.stop()
	h.all.Wait()
}

func (h *trial) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wrong = append(h.wrong, err)
}

// unanswered records a call without an answer. A broken connection is an error, since no fault hits the orchestrator. post
// has already reported a call that timed out.
func (h *trial) unanswered(err error) {
	if late, ok := errors.AsType[net.Error](err); !ok || !late.Timeout() {
		h.fail(err)
	}
}

// historyClient makes calls one after the other.
type historyClient struct {
	*trial
	name    string
	rnd     *rand.Rand
	history *history.Client
	values  map[string]string // of the registers, as the client last saw them
	calls   int
}

func (c *historyClient) run(ctx context.Context) {
	for ctx.Err() == nil {
		_ = pause(ctx, time.Duration(c.rnd.Int64N(int64(2*historyPace))))
		c.calls++
		if c.rnd.IntN(3) == 0 {
			c.read(ctx)
		} else {
			c.write(ctx)
		}
	}
}

// newWrite draws a write of a register or a set.
func (c *historyClient) newWrite() ([]any, history.Call) {
	name := fmt.Sprintf("%s-%d", c.name, c.calls)
	call := history.Call{Kind: history.Write, Key: "r" + strconv.Itoa(c.rnd.IntN(historyRegisters)), Value: name}
	statements := []any{"UPDATE registers SET v=v+1 WHERE k='counter'"}
	var set any
	switch p := c.rnd.IntN(6); {
	case p == 0 && c.calls < setLimit*6/historyClients:
		call.Kind, call.Key = history.Add, "s"+strconv.Itoa(c.rnd.IntN(historySets))
		set = call.Key
	case p < 3:
		call.Kind, call.Old = history.Swap, c.values[call.Key]
		statements = append(statements, []any{"UPDATE registers SET v=? WHERE k=? AND v=?", name, call.Key, call.Old})
	default:
		statements = append(statements, []any{"UPDATE registers SET v=? WHERE k=?", name, call.Key})
	}
	return append(statements, []any{"INSERT INTO effects(name, k) VALUES(?, ?)", name, set}), call
}

// write makes one write, repeats it with its key while its outcome is not known, and may give up.
func (c *historyClient) write(ctx context.Context) {
	statements, call := c.newWrite()
	pending := c.history.Begin(call)
	maybe := false
	for patience := c.rnd.IntN(8); ; patience-- {
		// A call that has begun gets its answer, even when the clients are told to end.
		a, err := c.sys.post(context.WithoutCancel(ctx), c.fail, "/db/execute?transaction", statements, "Idempotency-Key", call.Value)
		switch {
		case err == nil && a.status == http.StatusOK:
			c.written(pending, call, a.body)
			return
		case err == nil && a.status == http.StatusServiceUnavailable: // certainly not done
		case err != nil:
			c.unanswered(fmt.Errorf("write %s: %w", call.Value, err))
			maybe = true
		case a.status == http.StatusGatewayTimeout || a.status == http.StatusConflict:
			maybe = true
		default:
			c.fail(fmt.Errorf("write %s: got %d %.200s, want 200, 409, 503 or 504", call.Value, a.status, a.body))
			maybe = true
		}
		if patience > 0 && ctx.Err() == nil {
			_ = pause(ctx, retryAfter)
			continue
		}
		if maybe {
			c.history.Unknown(pending)
			c.ledger.Unknown(call.Value)
		} else {
			pending.Refused()
			c.ledger.Refused(call.Value)
		}
		return
	}
}

// written records the answer to a write.
func (c *historyClient) written(pending *history.Pending, call history.Call, body []byte) {
	var got struct {
		Results []struct {
			RowsAffected int `json:"rows_affected"`
			Error        string
		}
	}
	if err := json.Unmarshal(body, &got); err != nil || len(got.Results) < 2 || got.Results[0].Error != "" {
		c.fail(fmt.Errorf("write %s: got %.200s, want the results of its statements: %w", call.Value, body, err))
		return
	}
	done := got.Results[1].RowsAffected == 1
	pending.Answered(history.Answer{Done: done})
	c.ledger.Acked(call.Value)
	if call.Kind == history.Write || done {
		c.values[call.Key] = call.Value
	}
}

// read reads a register or a set, linearizably.
func (c *historyClient) read(ctx context.Context) {
	call := history.Call{Kind: history.Read, Key: "r" + strconv.Itoa(c.rnd.IntN(historyRegisters))}
	sql := "SELECT v FROM registers WHERE k=?"
	if c.rnd.IntN(4) == 0 {
		call = history.Call{Kind: history.Members, Key: "s" + strconv.Itoa(c.rnd.IntN(historySets))}
		sql = "SELECT name FROM effects WHERE k=?"
	}
	pending := c.history.Begin(call)
	a, err := c.sys.post(context.WithoutCancel(ctx), c.fail, "/db/query?level=linearizable", []any{[]any{sql, call.Key}})
	if err != nil || a.status != http.StatusOK {
		pending.Refused()
		if err != nil {
			c.unanswered(fmt.Errorf("read of %s: %w", call.Key, err))
		} else if a.status != http.StatusServiceUnavailable && a.status != http.StatusGatewayTimeout {
			c.fail(fmt.Errorf("read of %s: got %d %.200s, want 200, 503 or 504", call.Key, a.status, a.body))
		}
		return
	}
	values, err := column(a.body)
	if err != nil {
		c.fail(fmt.Errorf("read of %s: %w", call.Key, err))
		return
	}
	var seen history.Answer
	if call.Kind == history.Members {
		seen.Members = values
	} else if len(values) == 1 {
		seen.Value = values[0]
		c.values[call.Key] = values[0]
	}
	pending.Answered(seen)
}

// column returns the first column of the one result in an answer.
func column(body []byte) ([]string, error) {
	var got results
	if err := json.Unmarshal(body, &got); err != nil || len(got.Results) != 1 || got.Results[0].Error != "" {
		return nil, fmt.Errorf("got %.200s, want one result: %w", body, err)
	}
	values := make([]string, len(got.Results[0].Values))
	for i, row := range got.Results[0].Values {
		if err := json.Unmarshal(row[0], &values[i]); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// verdict ends the clients and returns what was wrong: with answers, effects, epochs, or the history, of which it leaves a
// drawing. The system must be able to answer again.
func (h *trial) verdict(t *testing.T) error {
	t.Helper()
	h.end()
	acked, refused, unknown := h.ledger.Counts()
	t.Logf("seed %d: %d writes acknowledged, %d refused, %d unknown", h.seed, acked, refused, unknown)
	return errors.Join(errors.Join(h.wrong[:min(len(h.wrong), 5)]...), h.compare(t), h.fenced(t), h.linearizable())
}

// compare compares the rows with the answers that the clients got.
func (h *trial) compare(t *testing.T) error {
	t.Helper()
	found, counter := map[string]int{}, 0
	testenv.Eventually(t, healLimit, func() error { // a broken system may have no master at the moment
		// A single statement sees one state, although a write that was given up may still take effect.
		rows, err := h.sys.query("SELECT name, (SELECT v FROM registers WHERE k='counter') FROM effects")
		if err != nil {
			return err
		}
		clear(found)
		for _, row := range rows {
			var name string
			if err := errors.Join(json.Unmarshal(row[0], &name), json.Unmarshal(row[1], &counter)); err != nil {
				return err
			}
			found[name]++
		}
		return nil
	})
	return h.ledger.Compare(found, counter)
}

// linearizable checks the history.
func (h *trial) linearizable() error {
	return h.recorder.Verdict(checkLimit, fmt.Sprintf("rideshare-history-%d-*.html", h.seed))
}

// A broken connection is not a refusal: without a fault of the orchestrator it counts as wrong.
func TestTrial_ConnectionBreaks_Wrong(t *testing.T) {
	t.Parallel()
	breaks := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(breaks.Close)
	for name, do := range map[string]func(*historyClient, context.Context){"Read": (*historyClient).read, "Write": (*historyClient).write} {
		h := &trial{sys: &system{orchestrator: breaks.URL, client: breaks.Client()}, recorder: history.New(), ledger: history.NewLedger()}
		do(&historyClient{trial: h, rnd: rand.New(rand.NewPCG(1, 1)), history: h.recorder.Client()}, t.Context())
		if len(h.wrong) == 0 {
			t.Errorf("%s: got nothing wrong, want the broken connection", name)
		}
	}
}
