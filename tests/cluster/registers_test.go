package cluster

import (
	"bytes"
	"context"
	"fmt"
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
)

// registers has a client at each host, which writes and reads registers one call after the other.
type registers struct {
	c        *cluster
	recorder *history.Recorder
	cancel   context.CancelFunc
	all      sync.WaitGroup
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
		p := client.Begin(history.Call{Kind: history.Read, Key: key})
		a, err := r.c.post(ctx, h, "/db/query?level=linearizable", []any{[]string{"SELECT v FROM registers WHERE k=?", key}}, "")
		var values []string
		if err == nil {
			values, err = column(a)
		}
		switch {
		case err != nil:
			p.Refused()
		case len(values) == 0:
			p.Answered(history.Answer{})
		default:
			p.Answered(history.Answer{Value: values[0]})
		}
		return
	}
	p := client.Begin(history.Call{Kind: history.Write, Key: key, Value: value})
	a, err := r.c.post(ctx, h, "/db/execute", []any{[]string{"INSERT INTO registers VALUES(?, ?) ON CONFLICT(k) DO UPDATE SET v=excluded.v", key, value}}, value)
	switch {
	case err == nil && a.status == http.StatusOK && !bytes.Contains(a.body, []byte(`"error"`)):
		p.Answered(history.Answer{})
	case err == nil && a.status == http.StatusServiceUnavailable:
		p.Refused()
	default:
		client.Unknown(p)
	}
}

// verify checks the history.
func (r *registers) verify(t *testing.T) {
	t.Helper()
	answered, unknown := r.recorder.Len()
	t.Logf("%d calls answered, %d unknown", answered, unknown)
	if answered == 0 {
		t.Error("no call was answered")
	}
	if err := r.recorder.Verdict(porcupineLimit, "cluster-history-*.html"); err != nil {
		t.Error(err)
	}
}
