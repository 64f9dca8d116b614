package dispatch_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/mq"
	"rideshare/internal/wire"
	"rideshare/orchestrator/dispatch"
)

// Enqueue publishes a persistent message without a deadline. Its error claims only what is
// known.
func TestDispatcher_Enqueue_OnADurableBus(t *testing.T) {
	for _, c := range []struct {
		err  error
		code dbaas.Code
	}{
		{nil, dbaas.CodeOK},
		{mq.ErrUnavailable, dbaas.CodeUnavailable},
		{mq.ErrRefused, dbaas.CodeUnavailable},
		{mq.ErrUnroutable, dbaas.CodeUnavailable},
		{mq.ErrUnconfirmed, dbaas.CodeUnknown},
	} {
		p := &publisher{durable: true, err: c.err}
		d := newDispatcher(t, dispatch.Config{Publisher: p})
		d.SawSeq(5)
		op := operation(1)
		op.Deadline = time.Now().Add(time.Second)
		if _, err := d.Enqueue(t.Context(), op); dbaas.CodeOf(err) != c.code {
			t.Errorf("publish %v: got %v, want %q", c.err, err, c.code)
		}
		m := p.got[0]
		sent, err := wire.DecodeWriteRequest(m.Body, time.Now())
		if err != nil || !m.Persistent || m.TTL != 0 || m.ReplyTo != "" {
			t.Fatalf("got message %+v, %v", m, err)
		}
		if o := sent.Operations[0]; o.ID != op.ID || !o.Deadline.IsZero() || o.SeenSeq != 5 {
			t.Errorf("got operation %+v", o)
		}
	}
}

// silentBroker is a publisher to a broker that confirms nothing.
type silentBroker struct{ publisher }

func (silentBroker) Publish(ctx context.Context, _ mq.Queue, _ mq.Message) error {
	<-ctx.Done()
	return ctx.Err()
}

// Enqueue ends at the operation's deadline, with what is known by then.
func TestDispatcher_Enqueue_EndsAtTheDeadline(t *testing.T) {
	db := &database{} // that does not answer
	for name, c := range map[string]struct {
		cfg  dispatch.Config
		code dbaas.Code
	}{
		"SilentBroker": {dispatch.Config{}, dbaas.CodeUnknown},
		"UnknownHead":  {dispatch.Config{Head: db.Head}, dbaas.CodeUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.cfg.Publisher = &silentBroker{publisher{durable: true}}
				d := newDispatcher(t, c.cfg)
				for _, timeout := range []time.Duration{time.Second, 20 * time.Second} {
					op, began := operation(1), time.Now()
					op.Deadline = began.Add(timeout)
					_, err := d.Enqueue(t.Context(), op)
					if took := time.Since(began); dbaas.CodeOf(err) != c.code || took != timeout {
						t.Errorf("got %v after %v of the bubble's time, want %q after %v", err, took, c.code, timeout)
					}
				}
			})
		})
	}
}

// On a bus that is not durable Enqueue runs the write to its end.
func TestDispatcher_Enqueue_OnAVolatileBusWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call, messages := held()
		d := newDispatcher(t, dispatch.Config{Caller: call, Publisher: &publisher{}})
		done := make(chan error, 1)
		go func() {
			ended, err := d.Enqueue(t.Context(), operation(1))
			if !ended {
				t.Error("it has not ended")
			}
			done <- err
		}()
		(<-messages).commit(4)
		if err := <-done; err != nil || d.SeenSeq() != 4 {
			t.Errorf("got %v and position %d", err, d.SeenSeq())
		}
	})
}
