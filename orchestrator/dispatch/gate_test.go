package dispatch_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/mq"
	"rideshare/orchestrator/admission"
	"rideshare/orchestrator/dispatch"
)

// While the gate is closed for a queue its requests are refused with the gate's error, also those that wait. The gate takes the
// place of the graces.
func TestDispatcher_Gate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call, messages := held()
		available := healthy()
		available.set(0, false)
		available.masterSince, available.slavesSince = time.Now().Add(-time.Hour), time.Now().Add(-time.Hour)
		var closed atomic.Bool
		d := newDispatcher(t, dispatch.Config{Caller: call, Availability: available, Gate: func(q mq.Queue, _ time.Time) error {
			if q == mq.ReadQ && closed.Load() {
				return dbaas.Refuse(dbaas.ReasonSlaves, 0, "closed")
			}
			return nil
		}})
		answers := make(chan answer, 2)
		ask(t.Context(), d, read("a"), answers)
		first := <-messages
		ask(t.Context(), d, read("b"), answers)
		synctest.Wait() // the second read waits in the lane
		closed.Store(true)
		if _, err := d.Read(t.Context(), read("c")); dbaas.ReasonOf(err) != dbaas.ReasonSlaves {
			t.Errorf("a read: got %v, want the gate's error", err)
		}
		if a := <-answers; dbaas.ReasonOf(a.err) != dbaas.ReasonSlaves {
			t.Errorf("a read that waits: got %v, want the gate's error", a.err)
		}
		first.all()
		if a := <-answers; a.err != nil {
			t.Errorf("a read that was sent: got %v", a.err)
		}
	})
}

// gated returns a dispatcher whose gate refuses everything while closed is set.
func gated(t *testing.T) (d *dispatch.Dispatcher, messages chan *message, closed *atomic.Bool) {
	t.Helper()
	call, messages := held()
	closed = &atomic.Bool{}
	return newDispatcher(t, dispatch.Config{
		Caller: call, Availability: healthy(), ReadLimit: admission.LaneSetting{Limit: 4},
		Gate: func(mq.Queue, time.Time) error {
			if closed.Load() {
				return dbaas.Refuse(dbaas.ReasonSlaves, 0, "closed")
			}
			return nil
		},
	}), messages, closed
}

// wantRefused fails the test unless the read that waited was refused by the gate, at once and unsent.
func wantRefused(t *testing.T, waits <-chan answer, messages <-chan *message) {
	t.Helper()
	synctest.Wait()
	if len(waits) != 1 || len(messages) != 0 {
		t.Fatalf("%d reads that waited have ended, and %d messages more were sent; want 1 and none", len(waits), len(messages))
	}
	if a := <-waits; dbaas.ReasonOf(a.err) != dbaas.ReasonSlaves {
		t.Errorf("the read that waited: got %v, want the gate's error", a.err)
	}
}

// Once the gate is closed, the reads that gathered while another message was in flight are not sent, however that message
// makes room for them. A message that was sent is sent again if its answer is lost.
func TestDispatcher_Gate_BeforeEachMessage(t *testing.T) {
	for name, makeRoom := range map[string]func(*message){
		"Lost":           func(first *message) { first.end <- mq.ErrReplyLost },
		"PartlyAnswered": func(first *message) { first.reply(false) },
		"Held":           func(first *message) { first.heldBy("w1") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, messages, closed := gated(t)
				sent, waits := make(chan answer, 1), make(chan answer, 1)
				ask(t.Context(), d, read("a"), sent)
				first := <-messages
				ask(t.Context(), d, read("b"), waits)
				synctest.Wait()
				closed.Store(true)
				makeRoom(first)
				if name == "Lost" {
					first = <-messages
				}
				first.all()
				wantRefused(t, waits, messages)
				if a := <-sent; a.err != nil {
					t.Errorf("the read that was sent: got %v", a.err)
				}
			})
		})
	}
}

// Once the gate is closed, a larger limit of the lane sends no reads either.
func TestDispatcher_Gate_LargerLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, messages, closed := gated(t)
		sent, waits := make(chan answer, 3), make(chan answer, 1)
		for range 2 { // half of the limit
			ask(t.Context(), d, read("a"), sent)
			(<-messages).reply(false)
		}
		ask(t.Context(), d, read("b"), waits)
		synctest.Wait()
		closed.Store(true)
		d.UseLanes(admission.Lanes{Read: admission.LaneSetting{Limit: 8}, Write: admission.LaneSetting{Limit: 8}})
		wantRefused(t, waits, messages)
	})
}

// A request that ends without an answer says why.
func TestDispatcher_ReasonsOfLostRequests(t *testing.T) {
	for _, c := range []struct {
		cause       error
		read, write dbaas.Code
		reason      string
	}{
		{mq.ErrUnavailable, dbaas.CodeUnavailable, dbaas.CodeUnavailable, dbaas.ReasonBroker},
		{mq.ErrUnroutable, dbaas.CodeUnavailable, dbaas.CodeUnavailable, dbaas.ReasonUnroutable},
		{mq.ErrRefused, dbaas.CodeUnavailable, dbaas.CodeUnavailable, dbaas.ReasonQueueFull},
		{context.DeadlineExceeded, dbaas.CodeTimeout, dbaas.CodeUnknown, dbaas.ReasonDeadline},
		{mq.ErrUnconfirmed, dbaas.CodeUnavailable, dbaas.CodeUnknown, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			call := callerFunc(func(context.Context, mq.Queue, []byte, func([]byte, bool) bool) error { return c.cause })
			d := newDispatcher(t, dispatch.Config{Caller: call, Availability: healthy()})
			_, readErr := d.Read(t.Context(), read("a"))
			_, writeErr := d.Write(t.Context(), operation(1))
			for err, code := range map[error]dbaas.Code{readErr: c.read, writeErr: c.write} {
				if dbaas.CodeOf(err) != code || dbaas.ReasonOf(err) != c.reason || !errors.Is(err, c.cause) {
					t.Errorf("%v: got %v with code %s and reason %q, want %s and %q", c.cause, err, dbaas.CodeOf(err), dbaas.ReasonOf(err), code, c.reason)
				}
			}
		})
	}
}
