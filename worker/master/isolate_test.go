package master_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/dbaas"
)

var culprit = dbaas.OpID{200}

// failsFor makes every commit with the culprit fail with err, unless it is given up.
func failsFor(err error) func([]dbaas.Operation) error {
	return func(ops []dbaas.Operation) error {
		for _, o := range ops {
			if o.ID == culprit && o.GiveUp == "" {
				return err
			}
		}
		return nil
	}
}

// One operation makes every commit that contains it fail, as if persdb crashed on it or ran out of a resource. All
// others are committed within a second and none of them fails; the one is refused with what is known about its outcome.
func TestMaster_Run_FailingOperationIsIsolated(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		resent bool // like every operation with a key
		want   dbaas.Code
	}{
		"Dies":              {dbaas.ErrUnknown, false, dbaas.CodeUnknown},
		"TimesOut":          {dbaas.Errorf(dbaas.CodeTimeout, "too slow"), false, dbaas.CodeUnknown},
		"Bug":               {errors.New("panic"), false, dbaas.CodeUnknown},
		"Unavailable":       {dbaas.ErrUnavailable, false, dbaas.CodeUnavailable},
		"UnavailableResent": {dbaas.ErrUnavailable, true, dbaas.CodeUnknown},
		"Full":              {dbaas.Errorf(dbaas.CodeFull, "full"), false, dbaas.CodeFull},
		"FullResent":        {dbaas.Errorf(dbaas.CodeFull, "full"), true, dbaas.CodeFull},
		"TooLarge":          {dbaas.Errorf(dbaas.CodeTooLarge, "too large"), false, dbaas.CodeTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newStore(1)
				store.fail = failsFor(c.err)
				m := start(t, store)
				ops := make([]dbaas.Operation, 100)
				for i := range ops {
					ops[i] = op(byte(i+1), 5*time.Second)
				}
				ops[57].ID, ops[57].Resent = culprit, c.resent
				m.bus.send(t, "x", ops...)
				for i := range 20 { // other operations arrive all the time
					m.bus.send(t, "later", op(byte(101+i), time.Second))
					<-time.After(50 * time.Millisecond)
				}
				<-time.After(time.Second)
				synctest.Wait()
				for n := byte(1); n <= 120; n++ {
					if n == 58 {
						continue
					}
					if got, at := m.bus.code(dbaas.OpID{n}), m.bus.at[dbaas.OpID{n}]; got != dbaas.CodeOK || n <= 100 && at > time.Second || n > 100 && at > 2*time.Second {
						t.Errorf("operation %d: got %q after %v, want ok within a second", n, got, at)
					}
				}
				if got := m.bus.code(culprit); got != c.want {
					t.Errorf("the failing operation: got %q, want %q", got, c.want)
				}
				if _, stored := store.stored(culprit); stored {
					t.Error("the failing operation is stored")
				}
				_ = m.finish()
			})
		})
	}
}

// An accepted write that persdb fails on, or refuses, ends with a stored failure that says why.
func TestMaster_Run_AcceptedWriteEndsWithAResult(t *testing.T) {
	for name, c := range map[string]struct {
		fail     error
		classify dbaas.Code
		want     string
	}{
		"Dies":     {dbaas.ErrUnknown, "", "the database failed each time that it was asked for this write; it was not done"},
		"TooLarge": {dbaas.Errorf(dbaas.CodeTooLarge, "too large"), "", "too large"},
		"TooOld":   {nil, dbaas.CodeExpired, "judged"},
		"Refused":  {nil, dbaas.CodeTooLarge, "judged"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newStore(1)
				if c.fail != nil {
					store.fail = failsFor(c.fail)
				}
				store.classify = func(op dbaas.Operation, _ int) (dbaas.OperationResult, bool) {
					judged := c.classify != "" && op.GiveUp == ""
					return dbaas.OperationResult{ID: op.ID, Code: c.classify, Message: "judged"}, judged
				}
				m := start(t, store)
				o := op(0, 0)
				o.ID = culprit
				m.bus.send(t, "accepted", o)
				<-time.After(30 * time.Second)
				synctest.Wait()
				r, _ := store.stored(culprit)
				if len(r.Statements) != 1 || r.Statements[0].Message != c.want {
					t.Errorf("stored: got %+v, want a failure that says %q", r, c.want)
				}
				if !slices.Contains(m.bus.events, "ack accepted") {
					t.Errorf("got events %v, want the message acknowledged", m.bus.events)
				}
				_ = m.finish()
			})
		})
	}
}

// If persdb does not accept even the failure, the message becomes a dead letter, so that it blocks no other message.
// The failure is stored from the dead letter as soon as persdb accepts it.
func TestMaster_Run_AcceptedWriteWaitsInTheDeadLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(1)
		broken := true
		store.fail = func(ops []dbaas.Operation) error {
			if broken && slices.ContainsFunc(ops, func(o dbaas.Operation) bool { return o.ID == culprit }) {
				return dbaas.ErrUnavailable
			}
			return nil
		}
		m := start(t, store)
		o := op(0, 0)
		o.ID = culprit
		m.bus.send(t, "accepted", o)
		<-time.After(2 * time.Minute)
		m.bus.send(t, "x", op(1, time.Second))
		synctest.Wait()
		if got := m.bus.code(dbaas.OpID{1}); got != dbaas.CodeOK || !slices.Contains(m.bus.events, "reject accepted") {
			t.Errorf("another write: got %q, events %v; want ok and the message rejected", got, m.bus.events)
		}
		store.mu.Lock()
		broken = false
		store.mu.Unlock()
		<-time.After(10 * time.Second)
		synctest.Wait()
		if r, stored := store.stored(culprit); !stored || len(r.Statements) != 1 || !slices.Contains(m.bus.events, "ack dead accepted") {
			t.Errorf("stored: got %+v, events %v; want a failure and the dead letter acknowledged", r, m.bus.events)
		}
		_ = m.finish()
	})
}

// A dead letter whose failure persdb refuses by a result, as it does if the stored answer is damaged, is tried again only
// after a long pause each time.
func TestMaster_Run_RefusedDeadLetterIsTriedSeldom(t *testing.T) {
	const ends = 100 // the refusals end then, so that a loop without a pause fails the test and does not hang it
	synctest.Test(t, func(t *testing.T) {
		store := newStore(1)
		refused, damaged := 0, true
		store.classify = func(op dbaas.Operation, _ int) (dbaas.OperationResult, bool) {
			refused++
			return dbaas.OperationResult{ID: op.ID, Code: dbaas.CodeExpired, Message: "damaged"}, damaged && refused < ends
		}
		m := start(t, store)
		m.bus.send(t, "accepted", op(1, 0))
		<-time.After(29 * time.Second)
		synctest.Wait()
		// As a write, given up, and then from the dead letters after 0, 5, 10, 15, 20 and 25 s.
		if got := len(store.asked()); got != 8 || !slices.Contains(m.bus.events, "reject accepted") {
			t.Errorf("got %d commits, events %v; want 8 and the message rejected", got, m.bus.events)
		}
		store.mu.Lock()
		damaged = false
		store.mu.Unlock()
		<-time.After(5 * time.Second)
		synctest.Wait()
		if r, stored := store.stored(dbaas.OpID{1}); !stored || len(r.Statements) != 1 || !slices.Contains(m.bus.events, "ack dead accepted") {
			t.Errorf("stored: got %+v, events %v; want a failure and the dead letter acknowledged", r, m.bus.events)
		}
		_ = m.finish()
	})
}

// Dead letters whose callers have gone are dropped, even while persdb is unreachable; those of accepted writes wait for
// it. An unreadable dead letter is identified by its message id.
func TestMaster_Run_DeadLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(1)
		store.known[dbaas.OpID{3}] = dbaas.OperationResult{ID: dbaas.OpID{3}, Seq: 9}
		store.setAway(true)
		m := start(t, store)
		m.bus.dead <- m.bus.message(t, "accepted", op(1, 0))
		m.bus.dead <- m.bus.message(t, "done", op(3, 0))
		bad := m.bus.message(t, dbaas.OpID{4}.String())
		bad.message.Body = []byte("old version")
		m.bus.dead <- bad
		m.bus.dead <- m.bus.message(t, "caller gone", op(2, time.Second))
		<-time.After(time.Minute)
		synctest.Wait()
		if diff := cmp.Diff([]string{"ack caller gone"}, m.bus.without("")); diff != "" {
			t.Errorf("events while persdb is away (-want +got):\n%s", diff)
		}
		store.setAway(false)
		<-time.After(time.Second)
		synctest.Wait()
		for n, want := range map[byte]int{1: 1, 3: 0, 4: 1} {
			if r, stored := store.stored(dbaas.OpID{n}); !stored || len(r.Statements) != want {
				t.Errorf("operation %d: got %+v, want %d stored failures", n, r, want)
			}
		}
		if _, stored := store.stored(dbaas.OpID{2}); stored {
			t.Error("the write of a caller that has gone is stored")
		}
		_ = m.finish()
	})
}

// Operations that persdb defers stay pending and are committed later, in their order.
func TestMaster_Run_PutOffIsCommittedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(1)
		taken := 0
		store.classify = func(op dbaas.Operation, batch int) (dbaas.OperationResult, bool) {
			if taken++; taken%3 == 0 && batch > 1 {
				taken--
				return dbaas.OperationResult{ID: op.ID, Code: dbaas.CodeAgain}, true
			}
			return dbaas.OperationResult{}, false
		}
		m := start(t, store)
		store.lose = func() error { taken = 0; return nil }
		m.bus.send(t, "x", op(1, time.Second), op(2, time.Second), op(3, time.Second), op(4, time.Second), op(5, time.Second))
		synctest.Wait()
		for n := byte(1); n <= 5; n++ {
			if r := m.bus.results[dbaas.OpID{n}]; r.Code != dbaas.CodeOK || r.Seq != dbaas.Seq(n+1)/2 {
				t.Errorf("operation %d: got %+v, want ok at %d", n, r, (n+1)/2)
			}
		}
		_ = m.finish()
	})
}

// Slow operations are committed alone, in turns with one batch of all others.
func TestMaster_Run_SlowOperationsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(1)
		store.took = time.Second
		store.classify = func(op dbaas.Operation, batch int) (dbaas.OperationResult, bool) {
			return dbaas.OperationResult{ID: op.ID, Code: dbaas.CodeSlow}, op.ID[0] >= 100 && batch > 1
		}
		m := start(t, store)
		m.bus.send(t, "first", op(1, time.Minute))
		synctest.Wait()
		m.bus.send(t, "slow", op(100, time.Minute), op(101, time.Minute), op(102, time.Minute), op(2, time.Minute))
		<-time.After(1500 * time.Millisecond)
		for n := byte(3); n < 6; n++ {
			m.bus.send(t, "quick", op(n, time.Minute))
			<-time.After(2 * time.Second)
		}
		synctest.Wait()
		want := [][]dbaas.OpID{{{1}}, {{100}, {101}, {102}, {2}}, {{100}}, {{3}}, {{101}}, {{4}}, {{102}}}
		got := store.asked()
		if diff := cmp.Diff(want, got[:min(len(want), len(got))]); diff != "" {
			t.Errorf("batches (-want +got):\n%s", diff)
		}
		_ = m.finish()
	})
}

// If persdb defers everything, no progress is made, but each operation still ends.
func TestMaster_Run_EverythingPutOffEnds(t *testing.T) {
	for _, code := range []dbaas.Code{dbaas.CodeAgain, dbaas.CodeSlow} {
		synctest.Test(t, func(t *testing.T) {
			store := newStore(1)
			store.classify = func(op dbaas.Operation, _ int) (dbaas.OperationResult, bool) {
				return dbaas.OperationResult{ID: op.ID, Code: code}, op.GiveUp == ""
			}
			m := start(t, store)
			m.bus.send(t, "x", op(1, 5*time.Second), op(2, 5*time.Second))
			m.bus.send(t, "accepted", op(3, 0))
			<-time.After(30 * time.Second)
			synctest.Wait()
			for n := byte(1); n <= 2; n++ {
				if got := m.bus.code(dbaas.OpID{n}); got != dbaas.CodeUnavailable {
					t.Errorf("%s: operation %d: got %q, want unavailable", code, n, got)
				}
			}
			if _, stored := store.stored(dbaas.OpID{3}); !stored {
				t.Errorf("%s: the accepted write has no result", code)
			}
			_ = m.finish()
		})
	}
}
