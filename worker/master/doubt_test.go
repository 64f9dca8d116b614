package master_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/dbaas"
)

// persdb dies right after a commit, and the commit's answer is lost. The same operation arrives in a second message,
// and persdb stays unreachable. The write is on disk, so no answer may say that it was not done.
func TestMaster_Run_DoubtIsOfTheOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(1)
		store.lose = func() error { store.gone = away; return dbaas.ErrUnknown }
		m := start(t, store)
		o := op(1, 5*time.Second)
		m.bus.send(t, "first", o)
		<-time.After(50 * time.Millisecond)
		m.bus.send(t, "second", o)
		<-time.After(10 * time.Second)
		synctest.Wait()
		if got := m.bus.code(o.ID); got != dbaas.CodeUnknown {
			t.Errorf("got %q, want unknown: %v is on disk", got, store.known)
		}
		_ = m.finish()
	})
}

// The outcome of an operation that may have been sent before, in another message or to another master, is unknown until
// persdb has looked it up.
func TestMaster_Run_MayHaveComeBefore(t *testing.T) {
	for name, mark := range map[string]func(*dbaas.Operation, *fakeDelivery){
		"Resent":      func(o *dbaas.Operation, _ *fakeDelivery) { o.Resent = true },
		"Redelivered": func(_ *dbaas.Operation, d *fakeDelivery) { d.redelivered = true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newStore(1)
				store.setAway(true)
				m := start(t, store)
				o := op(1, time.Second)
				var ignored fakeDelivery
				mark(&o, &ignored)
				d := m.bus.message(t, "x", o)
				mark(&o, d)
				m.bus.deliveries <- d
				<-time.After(2 * time.Second)
				synctest.Wait()
				if got := m.bus.code(o.ID); got != dbaas.CodeUnknown {
					t.Errorf("got %q, want unknown", got)
				}
				_ = m.finish()
			})
		})
	}
}

// A resent operation that persdb has looked up and not run is certainly not done.
func TestMaster_Run_LookedUpIsDefinite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(1)
		store.classify = func(op dbaas.Operation, _ int) (dbaas.OperationResult, bool) {
			return dbaas.OperationResult{ID: op.ID, Code: dbaas.CodeTooLarge}, true
		}
		m := start(t, store)
		o := op(1, time.Second)
		o.Resent = true
		m.bus.send(t, "x", o)
		synctest.Wait()
		if got := m.bus.code(o.ID); got != dbaas.CodeTooLarge {
			t.Errorf("got %q, want too large", got)
		}
		_ = m.finish()
	})
}

// A redelivered message replaces the delivery that was lost with its connection: however often that happens, the
// message is pending once.
func TestMaster_Run_RedeliveryReplacesTheLostDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(1)
		store.setAway(true)
		m := start(t, store)
		m.bus.send(t, "other", op(2, 0))
		for i := range 10 {
			d := m.bus.message(t, "x", op(1, 0))
			d.redelivered = i > 0
			m.bus.deliveries <- d
			<-time.After(time.Second)
		}
		store.setAway(false)
		<-time.After(time.Second)
		synctest.Wait()
		if diff := cmp.Diff([][]dbaas.OpID{{{2}, {1}}}, store.batches); diff != "" {
			t.Errorf("batches (-want +got):\n%s", diff)
		}
		_ = m.finish()
	})
}

// Another body under the same key is another operation. Its message replaces no pending one, also if both are redelivered.
func TestMaster_Run_OtherBodyUnderTheKey_ReplacesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(1)
		store.setAway(true)
		m := start(t, store)
		for body := range byte(2) {
			o := op(1, time.Minute)
			o.Fingerprint[0] = body
			d := m.bus.message(t, "x", o)
			d.redelivered = true
			m.bus.deliveries <- d
			synctest.Wait()
		}
		if got := m.bus.without(""); slices.Contains(got, "ack x") {
			t.Errorf("got %v, want the first message kept", got)
		}
		store.setAway(false)
		_ = m.finish()
	})
}

// A message whose confirm was lost is published again. If both copies are redelivered on the same connection, both are
// acknowledged, and the operation runs once: a delivery that is never settled keeps writeQ from the next master.
func TestMaster_Run_TwoCopiesOnOneConnection_BothAreAcknowledged(t *testing.T) {
	for _, redelivered := range []bool{true, false} {
		t.Run(fmt.Sprint(redelivered), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { copies(t, redelivered) }) })
	}
}

func copies(t *testing.T, redelivered bool) {
	t.Helper()
	store := newStore(1)
	store.setAway(true)
	m := start(t, store)
	for range 3 {
		d := m.bus.message(t, "x", op(1, time.Second))
		d.redelivered = redelivered
		m.bus.deliveries <- d
		<-time.After(400 * time.Millisecond)
	}
	store.setAway(false)
	<-time.After(time.Second)
	synctest.Wait()
	if diff := cmp.Diff([][]dbaas.OpID{{{1}}}, store.batches); diff != "" {
		t.Errorf("batches (-want +got):\n%s", diff)
	}
	acks := 0
	for _, event := range m.bus.without("") {
		if event == "ack x" {
			acks++
		}
	}
	if acks != 3 {
		t.Errorf("got %d acknowledgements, want 3: %v", acks, m.bus.without(""))
	}
	if got := m.bus.code(dbaas.OpID{1}); got != dbaas.CodeOK {
		t.Errorf("got %q, want the write done", got)
	}
	_ = m.finish()
}

// The first copy of a message may have been committed by a master that died. The second copy is not marked as redelivered.
// If persdb then fails each time, the outcome is unknown, as it was for the first copy.
func TestMaster_Run_CopyOfARedeliveredMessage_IsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(1)
		store.setAway(true)
		m := start(t, store)
		for _, redelivered := range []bool{true, false} {
			d := m.bus.message(t, "x", op(1, time.Second))
			d.redelivered = redelivered
			m.bus.deliveries <- d
			synctest.Wait()
		}
		<-time.After(2 * time.Second)
		synctest.Wait()
		if got := m.bus.code(dbaas.OpID{1}); got != dbaas.CodeUnknown {
			t.Errorf("got %q, want unknown", got)
		}
		_ = m.finish()
	})
}

// Refusals are not stored. A refusal is sent only after the message is acknowledged, so that no redelivery can run what
// was refused. If the message is redelivered anyway, the answer is that the outcome is unknown.
func TestMaster_Run_RefusalIsSentAfterTheAck(t *testing.T) {
	for _, stale := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store := newStore(1)
			store.classify = func(op dbaas.Operation, _ int) (dbaas.OperationResult, bool) {
				return dbaas.OperationResult{ID: op.ID, Code: dbaas.CodeTooLarge}, op.ID == culprit
			}
			m := start(t, store)
			o := op(1, time.Second)
			o.ID = culprit
			d := m.bus.message(t, "x", o)
			d.stale = stale
			m.bus.deliveries <- d
			synctest.Wait()
			want, events := dbaas.CodeTooLarge, []string{"ack x", "reply x"}
			if stale {
				want, events = dbaas.CodeUnknown, []string{"reply x"}
			}
			if got := m.bus.code(culprit); got != want {
				t.Errorf("ack lost: %v: got %q, want %q", stale, got, want)
			}
			if diff := cmp.Diff(events, m.bus.without("")); diff != "" {
				t.Errorf("ack lost: %v: events (-want +got):\n%s", stale, diff)
			}
			_ = m.finish()
		})
	}
}

// The second refusal of a message is as definite as the first: the message was acknowledged before, or it will be
// redelivered and may run.
func TestMaster_Run_SecondRefusalDependsOnTheSameAck(t *testing.T) {
	for _, stale := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store := newStore(1)
			store.classify = func(op dbaas.Operation, batch int) (dbaas.OperationResult, bool) {
				if op.ID[0] == 2 && batch > 1 {
					return dbaas.OperationResult{ID: op.ID, Code: dbaas.CodeSlow}, true // it comes in a later commit
				}
				return dbaas.OperationResult{ID: op.ID, Code: dbaas.CodeTooLarge}, true
			}
			m := start(t, store)
			d := m.bus.message(t, "x", op(1, time.Second), op(2, time.Second))
			d.stale = stale
			m.bus.deliveries <- d
			synctest.Wait()
			want, events := dbaas.CodeTooLarge, []string{"ack x", "reply x", "reply x"}
			if stale {
				want, events = dbaas.CodeUnknown, []string{"reply x", "reply x"}
			}
			for n := byte(1); n <= 2; n++ {
				if got := m.bus.code(dbaas.OpID{n}); got != want {
					t.Errorf("ack lost: %v: operation %d: got %q, want %q", stale, n, got, want)
				}
			}
			if diff := cmp.Diff(events, m.bus.without("")); diff != "" {
				t.Errorf("ack lost: %v: events (-want +got):\n%s", stale, diff)
			}
			_ = m.finish()
		})
	}
}
