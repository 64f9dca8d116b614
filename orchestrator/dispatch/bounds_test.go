package dispatch_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/testkit/testenv"
	"rideshare/internal/wire"
	"rideshare/orchestrator/admission"
	"rideshare/orchestrator/dispatch"
)

func TestMain(m *testing.M) { testenv.NoLeaksMain(m) }

// The number of requests of a class that wait or are in flight is bounded. One more request is refused immediately,
// and other requests are not affected.
func TestDispatcher_Read_FullQueueRefusesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call, messages := held()
		d := newDispatcher(t, dispatch.Config{Caller: call, ReadLimit: admission.LaneSetting{Limit: 4}, StaleAfter: time.Hour})
		answers := make(chan answer, 5)
		for i := range 5 {
			ask(t.Context(), d, read(fmt.Sprint(i)), answers)
			synctest.Wait()
		}
		if a := <-answers; a.name != "4" || dbaas.CodeOf(a.err) != dbaas.CodeUnavailable {
			t.Errorf("got %+v, want the last one refused", a)
		}
		for range 3 { // messages
			(<-messages).all()
		}
		for range 4 {
			if a := <-answers; a.err != nil {
				t.Errorf("read %s: %v", a.name, a.err)
			}
		}
	})
}

// A message holds at most MaxBatch requests and about MaxBytes. A larger request is sent alone.
func TestDispatcher_Read_MessagesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call, messages := held()
		d := newDispatcher(t, dispatch.Config{Caller: call, MaxBatch: 4, MaxBytes: 1000, StaleAfter: time.Hour})
		answers := make(chan answer, 16)
		ask(t.Context(), d, read("opener"), answers)
		synctest.Wait()
		for _, size := range []int{1, 1, 1, 1, 1, 1, 5000, 1, 300, 300, 300} {
			ask(t.Context(), d, read(strings.Repeat("x", size)), answers)
			synctest.Wait()
		}
		for _, want := range []int{1, 4, 2, 1, 3, 1} {
			m := <-messages
			if len(m.reads) != want {
				t.Errorf("got a message of %d reads, want %d", len(m.reads), want)
			}
			m.all()
		}
		for range 12 {
			<-answers
		}
	})
}

// With several slaves further messages are sent while others are in flight, but
// only when enough requests wait to fill them.
func TestDispatcher_Read_FurtherWindowsNeedEnoughWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call, messages := held()
		available := healthy()
		available.set(2, true)
		d := newDispatcher(t, dispatch.Config{Caller: call, Availability: available, StaleAfter: time.Hour})
		answers := make(chan answer, 200)
		send := func(n int) {
			for range n {
				ask(t.Context(), d, read("x"), answers)
				synctest.Wait()
			}
		}
		for i, c := range []struct{ reads, messages int }{{1, 1}, {15, 1}, {1, 2}, {31, 2}, {1, 3}, {47, 3}, {1, 4}, {60, 4}} {
			send(c.reads)
			if len(messages) != c.messages {
				t.Errorf("step %d: got %d messages in flight, want %d", i, len(messages), c.messages)
			}
		}
		for left := 157; left > 0; {
			select {
			case m := <-messages:
				m.all()
			case a := <-answers:
				if left--; a.err != nil {
					t.Error(a.err)
				}
			}
		}
	})
}

// A request whose deadline is over by the time a message is made is not sent,
// even before its caller has left.
func TestDispatcher_Read_ExpiredWhileWaitingIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call, messages := held()
		var late atomic.Int64 // how far the dispatcher's clock is ahead of the callers' timers.
		now := func() time.Time { return time.Now().Add(time.Duration(late.Load())) }
		d := newDispatcher(t, dispatch.Config{Caller: call, StaleAfter: time.Hour, Now: now})
		answers := make(chan answer, 3)
		ask(t.Context(), d, read("opener"), answers)
		synctest.Wait()
		short, long := read("short"), read("long")
		short.Deadline, long.Deadline = time.Now().Add(time.Second), time.Now().Add(time.Minute)
		ask(t.Context(), d, short, answers)
		ask(t.Context(), d, long, answers)
		synctest.Wait()
		late.Store(int64(2 * time.Second))
		(<-messages).all()
		m := <-messages
		if len(m.reads) != 1 || m.reads[0].Statements[0].SQL != "long" {
			t.Errorf("got message %v, want only the read that is not expired", m.reads)
		}
		m.all()
		for range 3 {
			if a := <-answers; (dbaas.CodeOf(a.err) == dbaas.CodeTimeout) != (a.name == "short") {
				t.Errorf("got %+v", a)
			}
		}
	})
}

// Without batching every request is a message of its own, and all are sent immediately.
func TestDispatcher_Read_UnbatchedSendsEachAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call, messages := held()
		d := newDispatcher(t, dispatch.Config{Caller: call, Unbatched: true})
		answers := make(chan answer, 50)
		for range 50 {
			ask(t.Context(), d, read("x"), answers)
		}
		synctest.Wait()
		if len(messages) != 50 {
			t.Errorf("got %d messages, want 50", len(messages))
		}
		for range 50 {
			(<-messages).all()
			<-answers
		}
	})
}

// Without a slave reads wait for ReadGrace. After that, new reads and those that still wait to be
// sent fail immediately. When a slave comes back, it is used immediately.
func TestDispatcher_Read_NoSlaveFailsAfterGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call, messages := held()
		available := healthy()
		d := newDispatcher(t, dispatch.Config{Caller: call, Availability: available, MaxMessages: 1})
		available.set(0, true)
		start := time.Now()
		answers := make(chan answer, 2)
		ask(t.Context(), d, read("handed over"), answers)
		synctest.Wait()
		ask(t.Context(), d, read("waits"), answers)
		if a := <-answers; a.name != "waits" || dbaas.CodeOf(a.err) != dbaas.CodeUnavailable {
			t.Errorf("got %+v, want the waiting read refused", a)
		}
		if waited := time.Since(start); waited < time.Second || waited > 1100*time.Millisecond {
			t.Errorf("the waiting read ended after %v, want about the grace of 1s", waited)
		}
		before := time.Now()
		if _, err := d.Read(t.Context(), read("late")); dbaas.CodeOf(err) != dbaas.CodeUnavailable || time.Since(before) != 0 {
			t.Errorf("got %v after %v, want unavailable immediately", err, time.Since(before))
		}
		available.set(1, true)
		(<-messages).all()
		if a := <-answers; a.err != nil {
			t.Errorf("the read that was handed over: %v", a.err)
		}
		ask(t.Context(), d, read("again"), answers)
		(<-messages).all()
		if a := <-answers; a.err != nil {
			t.Error(a.err)
		}
	})
}

// Close refuses new requests, lets pending ones finish, and leaves no goroutine behind.
func TestDispatcher_Close_Drains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call, messages := held()
		d := dispatch.New(dispatch.Config{Caller: call, Availability: healthy()})
		d.SawSeq(0)
		answers := make(chan answer, 1)
		ask(t.Context(), d, read("pending"), answers)
		m := <-messages
		closed := make(chan error, 1)
		go func() { closed <- d.Close(t.Context()) }()
		synctest.Wait()
		if _, err := d.Read(t.Context(), read("new")); dbaas.CodeOf(err) != dbaas.CodeUnavailable {
			t.Errorf("got %v, want unavailable while closing", err)
		}
		m.all()
		if a := <-answers; a.err != nil {
			t.Errorf("the pending read: %v", a.err)
		}
		if err := <-closed; err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

// Close does not wait for ever: when its context ends, pending requests end too.
func TestDispatcher_Close_EndsWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call, messages := held()
		d := dispatch.New(dispatch.Config{Caller: call, Availability: healthy()})
		d.SawSeq(0)
		answers := make(chan answer, 1)
		ask(t.Context(), d, read("x"), answers)
		<-messages
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := d.Close(ctx); err == nil {
			t.Error("Close returned nil though it cut a read off")
		}
		if a := <-answers; dbaas.CodeOf(a.err) != dbaas.CodeUnavailable {
			t.Errorf("got %v, want unavailable", a.err)
		}
	})
}

// The total bytes of the requests of all classes are bounded too. Large requests leave room for small ones, and a
// request that is alone has room whatever its size.
func TestDispatcher_Read_RequestBytesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call, messages := held()
		d := newDispatcher(t, dispatch.Config{Caller: call, RequestBytes: 1 << 20})
		answers := make(chan answer, 5)
		large := func(n int, name string) dbaas.Read {
			r := read(name)
			r.Statements[0].Args = []dbaas.Value{dbaas.Text(strings.Repeat("x", n))}
			return r
		}
		ask(t.Context(), d, large(2<<20, "alone"), answers)
		(<-messages).all()
		<-answers
		ask(t.Context(), d, large(900<<10, "first"), answers)
		synctest.Wait()
		linearizable := large(200<<10, "second")
		linearizable.Linearizable = true
		ask(t.Context(), d, linearizable, answers)
		if a := <-answers; a.name != "second" || dbaas.CodeOf(a.err) != dbaas.CodeUnavailable {
			t.Errorf("got %+v, want the second large one refused", a)
		}
		first := <-messages
		ask(t.Context(), d, read("small"), answers)
		(<-messages).all()
		if a := <-answers; a.name != "small" || a.err != nil {
			t.Errorf("got %+v, want the small one answered", a)
		}
		first.all()
		<-answers
		ask(t.Context(), d, linearizable, answers)
		(<-messages).all()
		if a := <-answers; a.err != nil {
			t.Errorf("after the first: got %v", a.err)
		}
	})
}

// The total bytes of large answers are bounded. An answer counts until its request's context ends.
func TestDispatcher_Read_AnswerBytesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call, messages := held()
		d := newDispatcher(t, dispatch.Config{Caller: call, AnswerBytes: 300 << 10})
		answers := make(chan answer, 1)
		get := func(ctx context.Context, size int) error {
			ask(ctx, d, read("x"), answers)
			m := <-messages
			m.send(wire.ReadReply{Last: true, Answers: []wire.ReadAnswer{{Result: dbaas.ReadResult{Body: make([]byte, size)}}}}.Encode())
			return (<-answers).err
		}
		ctx, cancel := context.WithCancel(t.Context())
		if err := get(ctx, 200<<10); err != nil {
			t.Errorf("the first: got %v", err)
		}
		if err := get(t.Context(), 200<<10); dbaas.CodeOf(err) != dbaas.CodeUnavailable {
			t.Errorf("the second: got %v, want unavailable", err)
		}
		if err := get(t.Context(), 60<<10); err != nil {
			t.Errorf("a small one: got %v", err)
		}
		cancel()
		synctest.Wait()
		if err := get(t.Context(), 200<<10); err != nil {
			t.Errorf("after the first has ended: got %v", err)
		}
	})
}
