package dispatch_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"rideshare/internal/dbaas"
	"rideshare/orchestrator/dispatch"
)

// A read whose worker acknowledged it and then died is resent once and answered. The reads of its message that
// have their answers are not resent, and late answers to the first message are dropped.
func TestDispatcher_Read_HolderGoneIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call, messages := held()
		workers := healthy()
		d := newDispatcher(t, dispatch.Config{Caller: call, Availability: workers, StaleAfter: time.Hour})
		answers := make(chan answer, 3)
		first := together(t, d, messages, answers, "fast", "slow")
		first.reply(false, 0)
		<-answers
		first.heldBy("w1")
		workers.lose("w1")
		second := <-messages
		if len(second.reads) != 1 || second.reads[0].Statements[0].SQL != "slow" {
			t.Errorf("sent again: got %v, want the read without an answer alone", second.reads)
		}
		first.reply(true, 1)
		second.all()
		if a := <-answers; a.name != "slow" || a.err != nil || string(a.read.Body) != "slow" {
			t.Errorf("got %+v, want the answer to the second message", a)
		}
	})
}

// However slow a read is, it is sent only once while its worker is alive.
func TestDispatcher_Read_HolderLivesIsNotSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call, messages := held()
		workers := healthy()
		d := newDispatcher(t, dispatch.Config{Caller: call, Availability: workers})
		answers := make(chan answer, 1)
		ask(t.Context(), d, read("x"), answers)
		(<-messages).heldBy("w1")
		workers.lose("w2")
		if a := <-answers; dbaas.CodeOf(a.err) != dbaas.CodeTimeout || len(messages) != 0 {
			t.Errorf("got %+v and %d more messages, want a time-out and none", a, len(messages))
		}
	})
}

// A read whose second worker dies, too, fails and is not sent a third time: it may be what kills the workers.
func TestDispatcher_Read_SecondHolderGoneIsUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call, messages := held()
		workers := healthy()
		d := newDispatcher(t, dispatch.Config{Caller: call, Availability: workers})
		answers := make(chan answer, 1)
		ask(t.Context(), d, read("x"), answers)
		for _, worker := range []dbaas.WorkerID{"w1", "w2"} {
			(<-messages).heldBy(worker)
			workers.lose(worker)
		}
		if a := <-answers; dbaas.CodeOf(a.err) != dbaas.CodeUnavailable || len(messages) != 0 {
			t.Errorf("got %+v and %d more messages, want unavailable and none", a, len(messages))
		}
	})
}

// Close ends a held read, and does not mistake its own cancellation for a worker's death.
func TestDispatcher_Close_HeldReadIsNotSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call, messages := held()
		d := newDispatcher(t, dispatch.Config{Caller: call})
		answers := make(chan answer, 1)
		ask(t.Context(), d, read("x"), answers)
		(<-messages).heldBy("w1")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_ = d.Close(ctx) // it has to end the read
		if a := <-answers; dbaas.CodeOf(a.err) != dbaas.CodeUnavailable || len(messages) != 0 {
			t.Errorf("got %+v and %d more messages, want unavailable and none", a, len(messages))
		}
	})
}

// The read that kills workers is found: the read that ran when a second worker died fails. The other reads of its message
// are resent, to be run one at a time.
func TestDispatcher_Read_NeighboursOfAKillerAreAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call, messages := held()
		workers := healthy()
		d := newDispatcher(t, dispatch.Config{Caller: call, Availability: workers, StaleAfter: time.Hour})
		answers := make(chan answer, 5)
		first := together(t, d, messages, answers, "a", "killer", "b", "second killer")
		first.heldBy("w1")
		workers.lose("w1")
		second := <-messages
		second.heldBy("w2")
		second.runs("w2", 0)
		second.reply(false, 0)
		second.runs("w2", 1)
		workers.lose("w2")
		third := <-messages
		third.runs("w3", 0)
		third.reply(false, 0)
		third.runs("w3", 1)
		workers.lose("w3")
		if first.again || !second.again || !third.again {
			t.Errorf("said to be sent again: %v, %v, %v, want false, true, true", first.again, second.again, third.again)
		}
		got := map[string]dbaas.Code{}
		for range 4 {
			a := <-answers
			got[a.name] = dbaas.CodeOf(a.err)
		}
		want := map[string]dbaas.Code{"a": "", "killer": dbaas.CodeUnavailable, "b": "", "second killer": dbaas.CodeUnavailable}
		if diff := cmp.Diff(want, got); diff != "" || len(messages) != 0 {
			t.Errorf("codes (-want +got):\n%s and %d more messages", diff, len(messages))
		}
		synctest.Wait()
		if n := d.Stats()[0].HandedOver; n != 0 {
			t.Errorf("got %d reads handed over after all were answered, want none", n)
		}
	})
}
