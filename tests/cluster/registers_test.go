package cluster

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"rideshare/tests/history"
)

const (
	registerCount = 3
	// pace is the pause between two calls of a client: porcupine's work grows fast with the number of calls on a register.
	pace = 500 * time.Millisecond
	// porcupineLimit bounds how long porcupine may think.
	porcupineLimit = 2 * time.Minute
	// readsEach is how many answered reads each client has at least. It has hundreds, unless its host never comes back.
	readsEach = 10
)

// registers has a client at each host, which writes and reads registers one call after the other.
type registers struct {
	c        *cluster
	recorder *history.Recorder
	cancel   context.CancelFunc
	all      sync.WaitGroup

	mu    sync.Mutex // guards wrong
	wrong []error
}

func startRegisters(t *testing.T, c *cluster) *registers {
	t.Helper()
	c.exec(t, "CREATE TABLE registers(k TEXT NOT NULL PRIMARY KEY, v TEXT NOT NULL)")
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	r := &registers{c: c, recorder: history.New(), cancel: cancel}
	for _, h := range c.hosts {
		client := r.recorder.Client()
		r.all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				r.call(ctx, client, h, fmt.Sprintf("%s%d", h.name, i))
				select {
				case <-ctx.Done():
				case <-time.After(pace):
				}
			}
		})
	}
	t.Cleanup(r.stop)
	return r
}

func (r *registers) stop() {
	r.cancel()
	r.all.Wait()
}

// call writes value to a register at a host, or reads a register.
func (r *registers) call(ctx context.Context, client *history.Client, h *host, value string) {
	ctx = context.WithoutCancel(ctx) // a call that has begun has an answer
	key := fmt.Sprintf("r%d", rand.IntN(registerCount))
	if rand.IntN(2) == 0 {
		r.read(ctx, client, h, key)
	} else {
		r.write(ctx, client, h, history.Call{Kind: history.Write, Key: key, Value: value})
	}
}

func (r *registers) read(ctx context.Context, client *history.Client, h *host, key string) {
	p := client.Begin(history.Call{Kind: history.Read, Key: key})
	a, err := r.c.post(ctx, h, "/db/query?level=linearizable", []any{[]string{"SELECT v FROM registers WHERE k=?", key}}, "")
	if err != nil || a.status == http.StatusServiceUnavailable || a.status == http.StatusGatewayTimeout {
		p.Refused()
		return
	}
	values, err := column(a)
	switch {
	case err != nil:
		p.Refused()
		r.fail(fmt.Errorf("read at %s: %w, or 503 or 504", h.name, err))
	case len(values) == 0:
		p.Answered(history.Answer{})
	default:
		p.Answered(history.Answer{Value: values[0]})
	}
}

func (r *registers) write(ctx context.Context, client *history.Client, h *host, call history.Call) {
	p := client.Begin(call)
	change := []string{"INSERT INTO registers VALUES(?, ?) ON CONFLICT(k) DO UPDATE SET v=excluded.v", call.Key, call.Value}
	a, err := r.c.post(ctx, h, "/db/execute", []any{change}, call.Value)
	if err == nil && a.status == http.StatusServiceUnavailable {
		p.Refused()
		return
	}
	if err != nil || a.status == http.StatusGatewayTimeout || a.status == http.StatusConflict {
		client.Unknown(p)
		return
	}
	if _, err = column(a); err != nil {
		client.Unknown(p)
		r.fail(fmt.Errorf("write at %s: %w, or 409, 503 or 504", h.name, err))
		return
	}
	p.Answered(history.Answer{})
}

func (r *registers) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wrong = append(r.wrong, err)
}

// verify checks the answers and the history.
func (r *registers) verify(t *testing.T) {
	t.Helper()
	answered, unknown := r.recorder.Len()
	t.Logf("%d calls answered, %d unknown", answered, unknown)
	for _, err := range r.wrong[:min(len(r.wrong), 5)] {
		t.Error(err)
	}
	if err := r.recorder.WantReads(readsEach); err != nil {
		t.Error(err)
	}
	if err := r.recorder.Verdict(porcupineLimit, "cluster-history-*.html"); err != nil {
		t.Error(err)
	}
}

// answers is a cluster whose hosts all give one answer.
type answers answer

func (a answers) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: a.status, Body: io.NopCloser(bytes.NewReader(a.body))}, nil
}

// An answer that no loss of a host explains is wrong, for reads and for writes.
func TestRegisters_Answers_WrongUnlessALossExplainsThem(t *testing.T) {
	const done = `{"results":[{"rows_affected":1}]}`
	for _, one := range []struct {
		answers
		wrong int // of one read and one write
	}{
		{answers{http.StatusOK, []byte(done)}, 0},
		{answers{http.StatusServiceUnavailable, nil}, 0},
		{answers{http.StatusGatewayTimeout, nil}, 0},
		{answers{http.StatusConflict, nil}, 1}, // reads have no key
		{answers{http.StatusInternalServerError, nil}, 2},
		{answers{http.StatusBadRequest, nil}, 2},
		{answers{http.StatusOK, []byte(`{"results":[{"error":"no such table: registers"}]}`)}, 2},
	} {
		r := &registers{c: &cluster{client: &http.Client{Transport: one.answers}}, recorder: history.New()}
		client, h := r.recorder.Client(), &host{name: "a", address: "a.test"}
		r.read(t.Context(), client, h, "r0")
		r.write(t.Context(), client, h, history.Call{Kind: history.Write, Key: "r0", Value: "1"})
		if len(r.wrong) != one.wrong {
			t.Errorf("%d %s: got %v, want %d wrong answers", one.status, one.body, r.wrong, one.wrong)
		}
	}
}
