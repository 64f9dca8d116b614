package dispatch_test

import (
	"testing"
	"testing/synctest"
	"time"

	"rideshare/orchestrator/dispatch"
)

// While one message of writes is in flight, a second one is sent only when 64 writes wait to fill it.
// While two are in flight, no third one is sent.
func TestDispatcher_Write_SecondMessageNeedsManyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call, messages := held()
		d := newDispatcher(t, dispatch.Config{Caller: call, WriteStaleAfter: time.Hour})
		var all []chan wrote
		for i, c := range []struct{ writes, messages int }{{1, 1}, {63, 1}, {1, 2}, {128, 2}} {
			for range c.writes {
				all = append(all, write(t.Context(), d, operation(byte(len(all)))))
				synctest.Wait()
			}
			if len(messages) != c.messages {
				t.Errorf("step %d: got %d messages in flight, want %d", i, len(messages), c.messages)
			}
		}
		for _, want := range []int{1, 64, 128} {
			m := <-messages
			if len(m.ops) != want {
				t.Errorf("got a message of %d writes, want %d", len(m.ops), want)
			}
			m.commit(1)
			synctest.Wait()
		}
		for _, done := range all {
			if w := <-done; w.err != nil {
				t.Error(w.err)
			}
		}
	})
}

// A message of writes delays others for WriteStaleAfter, ten times as long as a message of reads.
func TestDispatcher_Write_StaleMessageDoesNotBlockOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call, messages := held()
		d := newDispatcher(t, dispatch.Config{Caller: call})
		slow := write(t.Context(), d, operation(1))
		first := <-messages
		start := time.Now()
		other := write(t.Context(), d, operation(2))
		(<-messages).commit(1)
		if w := <-other; w.err != nil {
			t.Error(w.err)
		}
		if waited := time.Since(start); waited < 50*time.Millisecond || waited > 100*time.Millisecond {
			t.Errorf("the other write left after %v, want about 50ms", waited)
		}
		first.commit(2)
		<-slow
	})
}

// While answers take long, as with a slow disk, writes are sent in few and full messages: the master holds only a dozen.
func TestDispatcher_Write_SlowAnswersGatherWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call, messages := held()
		d := newDispatcher(t, dispatch.Config{Caller: call})
		var all []chan wrote
		for n := range 250 {
			all = append(all, write(t.Context(), d, operation(byte(n))))
			time.Sleep(10 * time.Millisecond)
		}
		if n := len(messages); n < 5 || n > 12 {
			t.Errorf("got %d messages without an answer after 2.5 s, want 5 to 12", n)
		}
		answered := make(chan struct{})
		go func() { // ends with the test
			for {
				select {
				case m := <-messages:
					m.commit(1)
				case <-answered:
					return
				}
			}
		}()
		for _, done := range all {
			if w := <-done; w.err != nil {
				t.Error(w.err)
			}
		}
		close(answered)
	})
}
