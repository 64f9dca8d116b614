package master_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/dbaas"
	"rideshare/internal/mq"
	"rideshare/internal/wire"
)

// An entry is broadcast first, then the message is answered, then acknowledged.
func TestMaster_Run_BroadcastsRepliesAcks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := start(t, newStore(1))
		m.bus.send(t, "x", op(1, time.Second), op(2, time.Second))
		synctest.Wait()
		if err := m.finish(); err != nil {
			t.Errorf("got %v, want nil", err)
		}
		if diff := cmp.Diff([]string{"entry 1", "reply x", "ack x"}, m.bus.events); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		if got := m.bus.results[dbaas.OpID{2}]; got.Seq != 1 || got.Code != dbaas.CodeOK {
			t.Errorf("got result %+v, want ok at 1", got)
		}
		if diff := cmp.Diff([]dbaas.Seq{1}, m.replica.offered); diff != "" {
			t.Errorf("offered to the own replica (-want +got):\n%s", diff)
		}
	})
}

// The master passes the frame that persdb answered to the slaves and to its own replica as it is, whatever it holds.
func TestMaster_Run_PassesTheFrameOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(1)
		store.frame = []byte("bytes that only a replica decodes")
		m := start(t, store)
		m.bus.send(t, "x", op(1, time.Second))
		synctest.Wait()
		if err := m.finish(); err != nil {
			t.Errorf("got %v, want nil", err)
		}
		want := [][]byte{store.frame}
		if diff := cmp.Diff(want, m.bus.frames); diff != "" {
			t.Errorf("broadcast (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want, m.replica.frames); diff != "" {
			t.Errorf("offered to the own replica (-want +got):\n%s", diff)
		}
		if got := m.bus.code(dbaas.OpID{1}); got != dbaas.CodeOK {
			t.Errorf("got answer %q, want ok", got)
		}
	})
}

// Messages that arrive while a commit is in flight go into one commit after it.
func TestMaster_Run_GathersWhileCommitting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(1)
		store.took = 10 * time.Millisecond
		m := start(t, store)
		m.bus.send(t, "a", op(1, time.Second))
		synctest.Wait()
		m.bus.send(t, "b", op(2, time.Second))
		m.bus.send(t, "c", op(3, time.Second))
		synctest.Wait()
		if err := m.finish(); err != nil {
			t.Errorf("got %v, want nil", err)
		}
		want := [][]dbaas.OpID{{{1}}, {{2}, {3}}}
		if diff := cmp.Diff(want, store.batches); diff != "" {
			t.Errorf("batches (-want +got):\n%s", diff)
		}
	})
}

// An operation that makes every batch fail does not affect the other operations.
func TestMaster_Run_BadOperationFailsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(1)
		store.fail = func(ops []dbaas.Operation) error {
			for _, o := range ops {
				if o.ID == (dbaas.OpID{3}) {
					return dbaas.Errorf(dbaas.CodeTooLarge, "too large")
				}
			}
			return nil
		}
		m := start(t, store)
		m.bus.send(t, "x", op(1, time.Second), op(2, time.Second), op(3, time.Second), op(4, time.Second), op(5, time.Second))
		synctest.Wait()
		_ = m.finish()
		for n, want := range map[byte]dbaas.Code{1: "", 2: "", 3: dbaas.CodeTooLarge, 4: "", 5: ""} {
			if got := m.bus.code(dbaas.OpID{n}); got != want {
				t.Errorf("operation %d: got %q, want %q", n, got, want)
			}
		}
		if !slices.Contains(m.bus.events, "ack x") {
			t.Errorf("got events %v, want the ack", m.bus.events)
		}
	})
}

// A commit whose answer is lost is retried, takes effect once and gets a known answer.
func TestMaster_Run_LostAnswerIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(1)
		lost := 2
		store.lose = func() error {
			if lost--; lost >= 0 {
				return dbaas.ErrUnknown
			}
			return nil
		}
		m := start(t, store)
		m.bus.send(t, "x", op(1, time.Second))
		synctest.Wait()
		<-time.After(time.Second)
		synctest.Wait()
		if got := m.bus.results[dbaas.OpID{1}]; got.Code != dbaas.CodeOK || got.Seq != 1 || store.head.Seq != 1 {
			t.Errorf("got %+v with head %d, want ok at 1 and head 1", got, store.head.Seq)
		}
		_ = m.finish()
	})
}

// While persdb is unreachable each operation is answered at its own deadline, as certainly not done; an operation
// without a deadline waits.
func TestMaster_Run_StoreAwayAnswersAtDeadlines(t *testing.T) {
	dropped := fmt.Errorf("%w: %w", dbaas.ErrUnreachable, context.DeadlineExceeded) // no connection within the call's time
	for name, err := range map[string]error{"Refused": away, "Dropped": dbaas.WrapError(dbaas.CodeUnavailable, "away", dropped)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newStore(1)
				store.gone = err
				m := start(t, store)
				m.bus.send(t, "x", op(1, 100*time.Millisecond), op(2, 3*time.Second))
				m.bus.send(t, "queued", op(3, 0))
				<-time.After(time.Hour)
				synctest.Wait()
				for n, at := range map[byte]time.Duration{1: 100 * time.Millisecond, 2: 3 * time.Second} {
					id := dbaas.OpID{n}
					if got := m.bus.code(id); got != dbaas.CodeUnavailable {
						t.Errorf("operation %d: got %q, want unavailable", n, got)
					}
					if got := m.bus.at[id]; got < at || got > at+20*time.Millisecond {
						t.Errorf("operation %d: answered after %v, want %v", n, got, at)
					}
				}
				store.setAway(false)
				<-time.After(time.Second)
				synctest.Wait()
				if got := m.bus.code(dbaas.OpID{3}); got != dbaas.CodeOK {
					t.Errorf("operation without deadline: got %q, want ok", got)
				}
				_ = m.finish()
			})
		})
	}
}

// A late operation is not run; if it was delivered before, it is first looked up at persdb.
func TestMaster_Run_LateOperationIsNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(1)
		store.known[dbaas.OpID{2}] = dbaas.OperationResult{ID: dbaas.OpID{2}, Seq: 9}
		m := start(t, store)
		m.bus.send(t, "first", op(1, -time.Second))
		again := m.bus.message(t, "again", op(2, -time.Second), op(3, -time.Second))
		again.redelivered = true
		m.bus.deliveries <- again
		synctest.Wait()
		_ = m.finish()
		for n, want := range map[byte]dbaas.Code{1: dbaas.CodeUnavailable, 2: dbaas.CodeOK, 3: dbaas.CodeUnavailable} {
			if got := m.bus.code(dbaas.OpID{n}); got != want {
				t.Errorf("operation %d: got %q, want %q", n, got, want)
			}
		}
		if got := m.bus.results[dbaas.OpID{2}].Seq; got != 9 {
			t.Errorf("known operation: got seq %d, want the stored 9", got)
		}
		if len(store.batches) != 1 || store.head.Seq != 0 {
			t.Errorf("got batches %v and head %d, want one look-up and nothing run", store.batches, store.head.Seq)
		}
	})
}

// A master of a stale epoch ends immediately and neither answers nor acknowledges.
func TestMaster_Run_StaleEpochEndsWithoutAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(1)
		m := start(t, store)
		store.mu.Lock()
		store.head.Epoch = 2
		store.mu.Unlock()
		m.bus.send(t, "x", op(1, time.Second))
		if err := <-m.done; !errors.Is(err, dbaas.ErrStaleEpoch) {
			t.Errorf("got %v, want stale epoch", err)
		}
		if len(m.bus.events) != 0 {
			t.Errorf("got events %v, want none", m.bus.events)
		}
	})
}

// When ctx ends in the middle of a commit nothing is answered or acknowledged.
func TestMaster_Run_CutOffLeavesTheDeliveries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(1)
		store.took = 100 * time.Millisecond
		m := start(t, store)
		m.bus.send(t, "x", op(1, time.Second))
		synctest.Wait()
		m.end(t)
		if len(m.bus.events) != 0 {
			t.Errorf("got events %v, want none", m.bus.events)
		}
	})
}

// An answer does not wait until the broker has confirmed the broadcast.
func TestMaster_Run_AnswersBeforeTheBroadcastIsConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := start(t, newStore(1))
		m.bus.slow = true
		m.bus.send(t, "x", op(1, time.Minute))
		m.bus.send(t, "y", op(2, time.Minute))
		synctest.Wait()
		if got, ok := m.bus.at[dbaas.OpID{1}]; !ok || got != 0 {
			t.Errorf("answered: %v, after %v, want immediately", ok, got)
		}
		if err := m.finish(); err != nil {
			t.Errorf("got %v, want nil", err)
		}
	})
}

// When ctx ends while commits wait to be broadcast and answered, their deliveries stay unacknowledged.
func TestMaster_Run_CutOffWhileBroadcasting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := start(t, newStore(1))
		m.bus.hang = true
		m.bus.send(t, "x", op(1, time.Second))
		synctest.Wait()
		m.bus.send(t, "y", op(2, time.Second))
		synctest.Wait()
		m.end(t)
		if len(m.bus.events) != 0 || m.store.head.Seq != 2 {
			t.Errorf("got events %v at head %d, want none at 2", m.bus.events, m.store.head.Seq)
		}
	})
}

// A master that was chosen again goes on with the newer epoch.
func TestMaster_Raise_GoesOnWithNewerEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(1)
		m := start(t, store)
		store.mu.Lock()
		store.head.Epoch = 2
		store.mu.Unlock()
		m.AdvanceEpoch(2)
		m.bus.send(t, "x", op(1, time.Second))
		synctest.Wait()
		if got := m.bus.code(dbaas.OpID{1}); got != dbaas.CodeOK {
			t.Errorf("got %q, want ok", got)
		}
		_ = m.finish()
	})
}

// Undecodable messages are rejected, and the ones behind them are served.
func TestMaster_Run_UndecodableIsRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := start(t, newStore(1))
		m.bus.deliveries <- &fakeDelivery{bus: m.bus, message: mq.Message{ID: "bad", Body: []byte("RS\x01\x03\x00\xff")}}
		m.bus.send(t, "x", op(1, time.Second))
		synctest.Wait()
		_ = m.finish()
		if diff := cmp.Diff([]string{"reject bad", "entry 1", "reply x", "ack x"}, m.bus.without("ack dead bad")); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

// A linearizable read is served at persdb's head as of after its arrival, and only while the epoch is the newest.
func TestMaster_Run_LinearizableReadConfirmsEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(1)
		store.head.Seq = 41
		m := start(t, store)
		body, err := wire.ReadRequest{Reads: []dbaas.Read{
			{Format: dbaas.FormatObjects, Linearizable: true, Deadline: time.Now().Add(time.Second)},
		}}.Encode(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		m.bus.linear <- &fakeDelivery{bus: m.bus, message: mq.Message{Body: body, ID: "r", ReplyTo: "caller"}}
		synctest.Wait()
		if diff := cmp.Diff([]dbaas.Seq{41}, m.reads.minSeq); diff != "" {
			t.Errorf("positions (-want +got):\n%s", diff)
		}
		store.mu.Lock()
		store.head.Epoch = 2
		store.mu.Unlock()
		m.bus.linear <- &fakeDelivery{bus: m.bus, message: mq.Message{Body: body, ID: "s", ReplyTo: "caller"}}
		if err := <-m.done; !errors.Is(err, dbaas.ErrStaleEpoch) {
			t.Errorf("got %v, want stale epoch", err)
		}
		if diff := cmp.Diff([]string{"ack r"}, m.bus.events); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

// A promoted worker catches up with the store's head before it serves as master.
func TestMaster_CatchUp_WaitsForTheReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := start(t, newStore(1))
		done := make(chan error, 1)
		go func() { done <- m.CatchUp(t.Context()) }()
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("caught up with %v before the replica", err)
		default:
		}
		close(m.replica.caughtUp)
		if err := <-done; err != nil {
			t.Errorf("got %v, want nil", err)
		}
		_ = m.finish()
	})
}
