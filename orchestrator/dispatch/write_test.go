package dispatch_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/mq"
	"rideshare/internal/wire"
	"rideshare/orchestrator/dispatch"
)

// publisher fakes dispatch.Publisher.
type publisher struct {
	durable bool
	err     error
	got     []mq.Message
}

func (p *publisher) Durable() bool { return p.durable }

func (p *publisher) Publish(_ context.Context, _ mq.Queue, m mq.Message) error {
	p.got = append(p.got, m)
	return p.err
}

// wrote is the outcome of one write.
type wrote struct {
	result dbaas.OperationResult
	err    error
}

func write(ctx context.Context, d *dispatch.Dispatcher, op dbaas.Operation) chan wrote {
	done := make(chan wrote, 1)
	go func() { // ends with the write's answer, at the latest at its deadline.
		result, err := d.Write(ctx, op)
		done <- wrote{result, err}
	}()
	return done
}

func opOf(err error) dbaas.OpID {
	if e, ok := err.(*dbaas.Error); ok { //nolint:errorlint // the dispatcher returns it unwrapped.
		return e.Op
	}
	return dbaas.OpID{}
}

// An answered write raises the position that recent reads wait for. A later answer with a lower
// position does not lower it.
func TestDispatcher_Write_AnswerRaisesSeenSeq(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call, messages := held()
		d := newDispatcher(t, dispatch.Config{Caller: call})
		for _, c := range []struct{ before, seq, seen dbaas.Seq }{{0, 7, 7}, {7, 3, 7}, {7, 9, 9}} {
			done := write(t.Context(), d, operation(byte(c.seq)))
			m := <-messages
			if m.queue != mq.WriteQ || m.ops[0].SeenSeq != c.before || m.ops[0].Deadline.IsZero() || m.ops[0].Resent {
				t.Errorf("got %+v on %s, want it complete on writeQ", m.ops[0], m.queue)
			}
			m.commit(c.seq)
			if w := <-done; w.err != nil || w.result.Seq != c.seq {
				t.Errorf("got %+v", w)
			}
			if got := d.SeenSeq(); got != c.seen {
				t.Errorf("got SeenSeq %d, want %d", got, c.seen)
			}
		}
	})
}

// The error of a write never claims more than is known: 503 only if the write was
// certainly not handed over, CodeUnknown with the id otherwise.
func TestDispatcher_Write_ErrorsOfTheBus(t *testing.T) {
	for _, c := range []struct {
		errs []error
		code dbaas.Code
	}{
		{[]error{mq.ErrUnavailable}, dbaas.CodeUnavailable},
		{[]error{mq.ErrUnroutable}, dbaas.CodeUnavailable},
		{[]error{mq.ErrRefused}, dbaas.CodeUnavailable},
		{[]error{mq.ErrClosed}, dbaas.CodeUnavailable},
		{[]error{mq.ErrUnconfirmed, mq.ErrUnconfirmed}, dbaas.CodeUnknown},
		{[]error{mq.ErrUnconfirmed, mq.ErrUnavailable}, dbaas.CodeUnknown},
		{[]error{mq.ErrReplyLost, mq.ErrRefused}, dbaas.CodeUnknown},
		{[]error{context.DeadlineExceeded}, dbaas.CodeUnknown},
	} {
		t.Run(fmt.Sprint(c.errs), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				d := newDispatcher(t, dispatch.Config{Caller: callerFunc(func(context.Context, mq.Queue, []byte, func([]byte, bool) bool) error {
					calls++
					return c.errs[calls-1]
				})})
				_, err := d.Write(t.Context(), operation(1))
				if dbaas.CodeOf(err) != c.code || calls != len(c.errs) {
					t.Errorf("got %v after %d calls, want %s after %d", err, calls, c.code, len(c.errs))
				}
				if want := (c.code == dbaas.CodeUnknown); want != (opOf(err) == dbaas.OpID{1}) {
					t.Errorf("got operation id %v with code %s", opOf(err), c.code)
				}
			})
		})
	}
}

// A write whose answer was lost is resent with the same id and gets the stored answer. The
// writes of its message that have their answers are not resent.
func TestDispatcher_Write_LostReplyIsSentAgainWithSameID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call, messages := held()
		d := newDispatcher(t, dispatch.Config{Caller: call, WriteStaleAfter: time.Hour})
		opener := write(t.Context(), d, operation(9))
		first := <-messages
		one := write(t.Context(), d, operation(1))
		synctest.Wait()
		two := write(t.Context(), d, operation(2))
		synctest.Wait()
		first.commit(1)
		<-opener
		m := <-messages
		m.send(wire.WriteReply{Answers: []wire.WriteAnswer{{Index: 0, Result: dbaas.OperationResult{ID: m.ops[0].ID, Seq: 2}}}}.Encode())
		if w := <-one; w.err != nil {
			t.Error(w.err)
		}
		m.end <- mq.ErrReplyLost
		again := <-messages
		if len(again.ops) != 1 || again.ops[0].ID != (dbaas.OpID{2}) || !again.ops[0].Resent {
			t.Fatalf("sent again: %+v, want only the unanswered operation, marked", again.ops)
		}
		again.commit(2)
		if w := <-two; w.err != nil || w.result.Seq != 2 {
			t.Errorf("got %+v", w)
		}
	})
}

// A write that ends at its deadline is CodeUnknown if it was handed over, and certainly
// not done if it still waited.
func TestDispatcher_Write_DeadlineTellsHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call, messages := held()
		d := newDispatcher(t, dispatch.Config{Caller: call, MaxMessages: 1})
		sent := write(t.Context(), d, operation(1))
		<-messages
		waits := write(t.Context(), d, operation(2))
		if w := <-waits; dbaas.CodeOf(w.err) != dbaas.CodeUnavailable {
			t.Errorf("waiting write: got %v, want unavailable", w.err)
		}
		if w := <-sent; dbaas.CodeOf(w.err) != dbaas.CodeUnknown || opOf(w.err) != (dbaas.OpID{1}) {
			t.Errorf("sent write: got %v, want unknown with its id", w.err)
		}
	})
}

// The outcome of one write does not affect the next: after an unknown outcome, a write
// that was certainly not handed over is still 503.
func TestDispatcher_Write_UnknownLeavesNoTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var result error
		d := newDispatcher(t, dispatch.Config{ResendPause: -1, Caller: callerFunc(func(context.Context, mq.Queue, []byte, func([]byte, bool) bool) error {
			return result
		})})
		for range 20 {
			for err, code := range map[error]dbaas.Code{mq.ErrUnconfirmed: dbaas.CodeUnknown, mq.ErrUnavailable: dbaas.CodeUnavailable} {
				result = err
				if _, got := d.Write(t.Context(), operation(1)); dbaas.CodeOf(got) != code {
					t.Fatalf("%v: got %v, want %s", err, got, code)
				}
			}
		}
	})
}

// The master's code for a whole operation becomes the caller's code. If the bus has repeated the message, a refusal is
// CodeUnknown: the copy may still run.
func TestDispatcher_Write_AnswersOfTheMaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			result   dbaas.OperationResult
			repeated bool
			code     dbaas.Code
		}{
			{dbaas.OperationResult{ID: dbaas.OpID{1}, Seq: 5}, false, dbaas.CodeOK},
			{dbaas.OperationResult{ID: dbaas.OpID{1}, Seq: 5}, true, dbaas.CodeOK},
			{dbaas.OperationResult{ID: dbaas.OpID{1}, Code: dbaas.CodeMismatch}, false, dbaas.CodeMismatch},
			{dbaas.OperationResult{ID: dbaas.OpID{1}, Code: dbaas.CodeExpired}, false, dbaas.CodeUnknown},
			{dbaas.OperationResult{ID: dbaas.OpID{1}, Code: dbaas.CodeUnknown}, false, dbaas.CodeUnknown},
			{dbaas.OperationResult{ID: dbaas.OpID{1}, Code: dbaas.CodeUnavailable}, false, dbaas.CodeUnavailable},
			{dbaas.OperationResult{ID: dbaas.OpID{1}, Code: dbaas.CodeUnavailable}, true, dbaas.CodeUnknown},
			{dbaas.OperationResult{ID: dbaas.OpID{1}, Code: dbaas.CodeFull}, false, dbaas.CodeFull},
			{dbaas.OperationResult{ID: dbaas.OpID{1}, Code: dbaas.CodeFull}, true, dbaas.CodeUnknown},
			{dbaas.OperationResult{ID: dbaas.OpID{2}, Seq: 5}, false, dbaas.CodeUnknown},
		} {
			d := newDispatcher(t, dispatch.Config{Caller: callerFunc(func(_ context.Context, _ mq.Queue, _ []byte, onReply func([]byte, bool) bool) error {
				body, err := wire.WriteReply{Last: true, Answers: []wire.WriteAnswer{{Result: c.result}}}.Encode()
				onReply(body, c.repeated)
				return err
			})})
			_, err := d.Write(t.Context(), operation(1))
			if dbaas.CodeOf(err) != c.code {
				t.Errorf("answer %+v: got %v, want %q", c.result, err, c.code)
			}
			if (c.code == dbaas.CodeUnknown) != (opOf(err) == dbaas.OpID{1}) {
				t.Errorf("answer %+v: got operation id %v", c.result, opOf(err))
			}
		}
	})
}

// Without a master writes fail immediately after WriteGrace. Reads are still served.
func TestDispatcher_Write_NoMasterFailsAfterGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call, messages := held()
		available := healthy()
		d := newDispatcher(t, dispatch.Config{Caller: call, Availability: available})
		available.set(1, false)
		available.masterSince = time.Now().Add(-2 * time.Second)
		if _, err := d.Write(t.Context(), operation(1)); dbaas.CodeOf(err) != dbaas.CodeUnavailable {
			t.Errorf("write: got %v, want unavailable", err)
		}
		linear := read("x")
		linear.Linearizable = true
		if _, err := d.Read(t.Context(), linear); dbaas.CodeOf(err) != dbaas.CodeUnavailable {
			t.Errorf("linearizable read: got %v, want unavailable", err)
		}
		answers := make(chan answer, 1)
		ask(t.Context(), d, read("x"), answers)
		(<-messages).all()
		if a := <-answers; a.err != nil {
			t.Errorf("read: %v", a.err)
		}
	})
}

// A refusal of the resent message says nothing about the first message, which may still run: the outcome is unknown.
func TestDispatcher_Write_RefusalOfSecondTryIsUnknown(t *testing.T) {
	for _, code := range []dbaas.Code{
		dbaas.CodeUnavailable, dbaas.CodeExpired, dbaas.CodeAgain, dbaas.CodeSlow, dbaas.CodeFull, dbaas.CodeTooLarge, dbaas.CodeInvalid,
	} {
		synctest.Test(t, func(t *testing.T) {
			call, messages := held()
			d := newDispatcher(t, dispatch.Config{Caller: call})
			done := write(t.Context(), d, operation(1))
			(<-messages).end <- mq.ErrReplyLost
			again := <-messages
			again.send(wire.WriteReply{Last: true, Answers: []wire.WriteAnswer{{Result: dbaas.OperationResult{ID: again.ops[0].ID, Code: code}}}}.Encode())
			if w := <-done; dbaas.CodeOf(w.err) != dbaas.CodeUnknown || opOf(w.err) != (dbaas.OpID{1}) {
				t.Errorf("refused with %q: got %v, want unknown with its id", code, w.err)
			}
		})
	}
}

// A write waits until this orchestrator knows a position of the log. If it learns none in time, the write
// was certainly not done.
func TestDispatcher_Write_WaitsForThePosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call, messages := held()
		p := &publisher{durable: true}
		var head atomic.Uint64 // of persdb; 0: it does not answer
		d := dispatch.New(dispatch.Config{Caller: call, Publisher: p, Availability: healthy(), Head: func(context.Context) (dbaas.Head, error) {
			if seq := head.Load(); seq > 0 {
				return dbaas.Head{Seq: dbaas.Seq(seq)}, nil
			}
			return dbaas.Head{}, dbaas.ErrUnavailable
		}})
		defer func() { _ = d.Close(t.Context()) }()
		queued := operation(3)
		if _, err := d.Enqueue(t.Context(), queued); dbaas.CodeOf(err) != dbaas.CodeUnavailable || len(p.got) > 0 {
			t.Errorf("queued: got %v and %d messages, want unavailable and none", err, len(p.got))
		}
		late := write(t.Context(), d, operation(1))
		if w := <-late; dbaas.CodeOf(w.err) != dbaas.CodeUnavailable || len(messages) > 0 {
			t.Errorf("without a position: got %v and %d messages, want unavailable and none", w.err, len(messages))
		}
		waits := write(t.Context(), d, operation(2))
		synctest.Wait()
		head.Store(41)
		m := <-messages
		if m.ops[0].SeenSeq != 41 {
			t.Errorf("got accepted at %d, want 41", m.ops[0].SeenSeq)
		}
		m.commit(42)
		if w := <-waits; w.err != nil {
			t.Error(w.err)
		}
	})
}

// The master's deadline is a little before the caller's, so that the master's error still reaches the caller.
func TestDispatcher_Write_MasterHasLessTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call, messages := held()
		d := newDispatcher(t, dispatch.Config{Caller: call})
		op := operation(1)
		op.Deadline = time.Now().Add(2 * time.Second)
		done := write(t.Context(), d, op)
		m := <-messages
		if got := op.Deadline.Sub(m.ops[0].Deadline); got != 100*time.Millisecond {
			t.Errorf("the master has %v less, want 100ms", got)
		}
		time.Sleep(time.Until(m.ops[0].Deadline))
		m.send(wire.WriteReply{Last: true, Answers: []wire.WriteAnswer{{Result: dbaas.OperationResult{ID: op.ID, Code: dbaas.CodeUnavailable}}}}.Encode())
		if w := <-done; dbaas.CodeOf(w.err) != dbaas.CodeUnavailable {
			t.Errorf("got %v, want the master's refusal", w.err)
		}
	})
}
