package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/mq"
	"rideshare/internal/wire"
	"rideshare/orchestrator/dispatch"
)

// With nothing in flight a read is sent immediately. Reads that arrive while it is in
// flight are sent in one message, and every caller gets its own answer.
func TestDispatcher_Read_GathersWhileInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call, messages := held()
		d := newDispatcher(t, dispatch.Config{Caller: call, StaleAfter: time.Hour})
		answers := make(chan answer, 11)
		ask(t.Context(), d, read("first"), answers)
		synctest.Wait()
		first := <-messages
		for i := range 10 {
			ask(t.Context(), d, read(fmt.Sprint("later ", i)), answers)
		}
		synctest.Wait()
		if len(messages) != 0 {
			t.Fatalf("%d messages left while one was in flight", len(messages))
		}
		first.all()
		synctest.Wait()
		second := <-messages
		if len(first.reads) != 1 || len(second.reads) != 10 {
			t.Errorf("got messages of %d and %d reads, want 1 and 10", len(first.reads), len(second.reads))
		}
		second.all()
		for range 11 {
			if a := <-answers; a.err != nil || string(a.read.Body) != a.name {
				t.Errorf("read %q: got %q, %v", a.name, a.read.Body, a.err)
			}
		}
	})
}

// A message that is unanswered for longer than StaleAfter no longer delays others.
func TestDispatcher_Read_StaleMessageDoesNotBlockOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call, messages := held()
		d := newDispatcher(t, dispatch.Config{Caller: call})
		answers := make(chan answer, 2)
		ask(t.Context(), d, read("slow"), answers)
		synctest.Wait()
		slow := <-messages
		start := time.Now()
		ask(t.Context(), d, read("fast"), answers)
		(<-messages).all()
		if a := <-answers; a.name != "fast" || a.err != nil {
			t.Errorf("got %+v, want the fast read first", a)
		}
		if waited := time.Since(start); waited < time.Millisecond || waited > 20*time.Millisecond {
			t.Errorf("the fast read left after %v, want about StaleAfter", waited)
		}
		slow.all()
		<-answers
	})
}

// The callers answered in a partial reply get their answers when it arrives, and
// further messages may be sent immediately.
func TestDispatcher_Read_PartialReplyCompletesMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call, messages := held()
		d := newDispatcher(t, dispatch.Config{Caller: call, StaleAfter: time.Hour})
		answers := make(chan answer, 4)
		m := together(t, d, messages, answers, "fast", "slow")
		m.reply(false, 0)
		if a := <-answers; a.name != "fast" {
			t.Errorf("got %q first, want the fast one", a.name)
		}
		ask(t.Context(), d, read("next"), answers)
		(<-messages).all()
		if a := <-answers; a.name != "next" {
			t.Errorf("got %q second, want the next one", a.name)
		}
		m.reply(true, 1)
		if a := <-answers; a.name != "slow" || string(a.read.Body) != "slow" {
			t.Errorf("got %+v last, want the slow one", a)
		}
	})
}

// Each read of a message ends at its own deadline. A read that still waits at its deadline is never sent.
func TestDispatcher_Read_EachHasItsOwnDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call, messages := held()
		d := newDispatcher(t, dispatch.Config{Caller: call, StaleAfter: time.Hour})
		answers := make(chan answer, 3)
		start := time.Now()
		in := func(sql string, after time.Duration) dbaas.Read {
			r := read(sql)
			r.Deadline = start.Add(after)
			return r
		}
		ask(t.Context(), d, in("sent", 3*time.Second), answers)
		synctest.Wait()
		ask(t.Context(), d, in("waits short", time.Second), answers)
		ask(t.Context(), d, in("waits long", 4*time.Second), answers)
		for _, want := range []struct {
			name  string
			after time.Duration
		}{{"waits short", time.Second}, {"sent", 3 * time.Second}} {
			a := <-answers
			if a.name != want.name || time.Since(start) != want.after || dbaas.CodeOf(a.err) != dbaas.CodeTimeout {
				t.Errorf("got %q after %v: %v, want %q after %v: timeout", a.name, time.Since(start), a.err, want.name, want.after)
			}
		}
		<-messages // the first one.
		m := <-messages
		if len(m.reads) != 1 || m.reads[0].Statements[0].SQL != "waits long" {
			t.Errorf("got message %v, want only the read that was still waited for", m.reads)
		}
		m.all()
		if a := <-answers; a.err != nil {
			t.Error(a.err)
		}
	})
}

// The worker's deadline is a little before the caller's, so that the worker's error reaches
// the caller before it times out.
func TestDispatcher_Read_WorkersReasonArrivesInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call, messages := held()
		d := newDispatcher(t, dispatch.Config{Caller: call})
		for _, timeout := range []time.Duration{5 * time.Second, 80 * time.Millisecond} {
			answers := make(chan answer, 1)
			r := read("x")
			r.MinSeq, r.Deadline = 99, time.Now().Add(timeout)
			ask(t.Context(), d, r, answers)
			m := <-messages
			<-time.After(time.Until(m.reads[0].Deadline)) // the bubble's clock, no real time.
			m.send(wire.ReadReply{Last: true, Answers: []wire.ReadAnswer{{Result: dbaas.ReadResult{Code: dbaas.CodeNotCaughtUp}}}}.Encode())
			if a := <-answers; dbaas.CodeOf(a.err) != dbaas.CodeNotCaughtUp {
				t.Errorf("timeout %v: got %v, want not caught up", timeout, a.err)
			}
		}
	})
}

// When a caller goes away, the other callers of the message still get their answers.
func TestDispatcher_Read_CancelledCallerLeavesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call, messages := held()
		d := newDispatcher(t, dispatch.Config{Caller: call, StaleAfter: time.Hour})
		answers := make(chan answer, 3)
		ask(t.Context(), d, read("opener"), answers)
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		ask(ctx, d, read("gone"), answers)
		ask(t.Context(), d, read("stays"), answers)
		synctest.Wait()
		(<-messages).all()
		<-answers
		m := <-messages
		cancel()
		if a := <-answers; a.name != "gone" || a.err == nil {
			t.Errorf("got %+v, want the end of the cancelled read", a)
		}
		m.all()
		if a := <-answers; a.err != nil || string(a.read.Body) != "stays" {
			t.Errorf("got %+v, want the neighbour's answer", a)
		}
	})
}

// Every way a message can fail becomes the code that says what a reader can do about it.
func TestDispatcher_Read_ErrorsOfTheBus(t *testing.T) {
	for _, c := range []struct {
		err   error
		code  dbaas.Code
		calls int
	}{
		{mq.ErrUnavailable, dbaas.CodeUnavailable, 1},
		{mq.ErrUnroutable, dbaas.CodeUnavailable, 1},
		{mq.ErrRefused, dbaas.CodeUnavailable, 1},
		{mq.ErrClosed, dbaas.CodeUnavailable, 1},
		{mq.ErrUnconfirmed, dbaas.CodeUnavailable, 2},
		{mq.ErrReplyLost, dbaas.CodeUnavailable, 2},
		{context.DeadlineExceeded, dbaas.CodeTimeout, 1},
	} {
		t.Run(c.err.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				d := newDispatcher(t, dispatch.Config{Caller: callerFunc(func(context.Context, mq.Queue, []byte, func([]byte, bool) bool) error {
					calls++
					return fmt.Errorf("publish: %w", c.err)
				})})
				_, err := d.Read(t.Context(), read("x"))
				if dbaas.CodeOf(err) != c.code || calls != c.calls {
					t.Errorf("got %v after %d calls, want %s after %d", err, calls, c.code, c.calls)
				}
			})
		})
	}
}

// A read whose message or answer was lost is sent again and answered.
func TestDispatcher_Read_LostReplyIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call, messages := held()
		d := newDispatcher(t, dispatch.Config{Caller: call})
		answers := make(chan answer, 1)
		ask(t.Context(), d, read("x"), answers)
		(<-messages).end <- mq.ErrReplyLost
		(<-messages).all()
		if a := <-answers; a.err != nil || string(a.read.Body) != "x" {
			t.Errorf("got %+v, want the answer to the second message", a)
		}
	})
}

// The caller gets the worker's answer or error. Malformed replies are refused and do not
// affect other requests.
func TestDispatcher_Read_AnswersOfTheWorker(t *testing.T) {
	result := func(r dbaas.ReadResult) func() ([]byte, error) {
		return wire.ReadReply{Last: true, Answers: []wire.ReadAnswer{{Index: 7}, {Result: r}, {Result: dbaas.ReadResult{Body: []byte("twice")}}}}.Encode
	}
	for name, c := range map[string]struct {
		reply func() ([]byte, error)
		code  dbaas.Code
	}{
		"NotCaughtUp": {result(dbaas.ReadResult{Code: dbaas.CodeNotCaughtUp, Message: "not caught up"}), dbaas.CodeNotCaughtUp},
		"Invalid":     {result(dbaas.ReadResult{Code: dbaas.CodeInvalid, Message: "no such table: x"}), dbaas.CodeInvalid},
		"Ok":          {result(dbaas.ReadResult{Body: []byte("[]")}), dbaas.CodeOK},
		"LeftOut":     {wire.ReadReply{Last: true}.Encode, dbaas.CodeUnavailable},
		"Garbage":     {func() ([]byte, error) { return []byte("garbage"), nil }, dbaas.CodeUnavailable},
		"WriteReply":  {wire.WriteReply{Last: true}.Encode, dbaas.CodeUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDispatcher(t, dispatch.Config{Caller: callerFunc(func(_ context.Context, _ mq.Queue, _ []byte, onReply func([]byte, bool) bool) error {
					body, err := c.reply()
					if err == nil && !onReply(body, false) {
						err = errors.New("the reply was not taken for the last one")
					}
					return err
				})})
				got, err := d.Read(t.Context(), read("x"))
				if dbaas.CodeOf(err) != c.code {
					t.Errorf("got %v, want %q", err, c.code)
				}
				if err == nil && string(got.Body) != "[]" {
					t.Errorf("got body %q, want []", got.Body)
				}
			})
		})
	}
}

// Linearizable reads go to the master's queue, all others to the slaves'.
func TestDispatcher_Read_LinearizableGoesToTheMaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call, messages := held()
		d := newDispatcher(t, dispatch.Config{Caller: call})
		answers := make(chan answer, 1)
		for _, linearizable := range []bool{false, true} {
			r := read("x")
			r.Linearizable = linearizable
			ask(t.Context(), d, r, answers)
			m := <-messages
			if want := map[bool]mq.Queue{false: mq.ReadQ, true: mq.LinearQ}[linearizable]; m.queue != want || m.reads[0].Linearizable != linearizable {
				t.Errorf("linearizable %v went to %s", linearizable, m.queue)
			}
			m.all()
			<-answers
		}
	})
}

// After a large answer, a statement is no longer sent in messages of point reads,
// until its answers have been small for a while.
func TestDispatcher_Read_HeavyStatementsTravelApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call, messages := held()
		d := newDispatcher(t, dispatch.Config{Caller: call, StaleAfter: time.Hour})
		answers := make(chan answer, 2)
		apart := func(size int) bool {
			ask(t.Context(), d, read("point"), answers)
			synctest.Wait()
			point := <-messages
			ask(t.Context(), d, read("heavy"), answers)
			synctest.Wait()
			separate := len(messages) == 1
			if !separate {
				point.all()
			}
			heavy := <-messages
			body, err := wire.ReadReply{Last: true, Answers: []wire.ReadAnswer{
				{Result: dbaas.ReadResult{Body: []byte(strings.Repeat("x", size))}},
			}}.Encode()
			heavy.send(body, err)
			if separate {
				point.all()
			}
			<-answers
			<-answers
			return separate
		}
		if apart(1 << 20) {
			t.Error("a statement that never answered was taken for heavy")
		}
		for i := range 8 {
			if !apart(2) {
				t.Errorf("a heavy statement travelled with point reads after %d light answers", i)
			}
		}
		if apart(2) {
			t.Error("a heavy statement was not forgiven")
		}
	})
}
