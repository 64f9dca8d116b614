package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/mq"
	"rideshare/orchestrator/admission"
	"rideshare/orchestrator/dispatch"
)

// of returns a read of user.
func of(user, sql string) dbaas.Read {
	r := read(sql)
	r.User = user
	return r
}

func reasonOf(err error) string {
	if e, ok := errors.AsType[*dbaas.Error](err); ok {
		return e.Reason
	}
	return ""
}

// A full lane refuses the newest request of the user with the longest queue, and a newcomer whose user has as many waiting.
// A user who is alone gets 503.
func TestDispatcher_Read_FullLaneIsFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call, messages := held()
		d := newDispatcher(t, dispatch.Config{Caller: call, ReadLimit: admission.LaneSetting{Limit: 5}, StaleAfter: time.Hour})
		answers := make(chan answer, 16)
		come := func(user, name string) {
			ask(t.Context(), d, of(user, name), answers)
			synctest.Wait()
		}
		refused := func(name, reason string, code dbaas.Code) {
			t.Helper()
			select {
			case a := <-answers:
				if a.name != name || reasonOf(a.err) != reason || dbaas.CodeOf(a.err) != code {
					t.Errorf("got %s: %v, want %s refused with %s", a.name, a.err, name, reason)
				}
			default:
				t.Errorf("nothing was refused, want %s", name)
			}
		}
		for _, name := range []string{"opener", "a1", "a2", "a3", "a4"} {
			come("A", name)
		}
		come("A", "a5")
		refused("a5", "lane_full", dbaas.CodeUnavailable)
		come("B", "b1")
		refused("a4", "user_queue", dbaas.CodeQuota)
		come("B", "b2")
		refused("a3", "user_queue", dbaas.CodeQuota)
		come("B", "b3")
		refused("b3", "user_queue", dbaas.CodeQuota)
		(<-messages).all()
		if a := <-answers; a.name != "opener" || a.err != nil {
			t.Errorf("got %s: %v, want the opener answered", a.name, a.err)
		}
		for range 2 { // messages
			(<-messages).all()
		}
		for range 4 { // a1, a2, b1, b2
			if a := <-answers; a.err != nil {
				t.Errorf("%s: %v", a.name, a.err)
			}
		}
	})
}

// A lane that is full keeps half of a small limit for requests that wait: they can make room for another user's.
func TestDispatcher_Read_HandedOverLeavesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call, messages := held()
		d := newDispatcher(t, dispatch.Config{Caller: call, ReadLimit: admission.LaneSetting{Limit: 8}})
		answers := make(chan answer, 16)
		for i := range 8 {
			ask(t.Context(), d, of("A", fmt.Sprint("a", i)), answers)
			synctest.Wait()
		}
		time.Sleep(time.Second) // all messages are stale: only the limit keeps others from being sent
		sent := 0
		for len(messages) > 0 {
			sent += len((<-messages).reads)
		}
		if sent != 4 {
			t.Errorf("got %d reads handed over, want 4 of 8", sent)
		}
		ask(t.Context(), d, of("B", "b"), answers)
		if a := <-answers; a.name != "a7" || reasonOf(a.err) != "user_queue" {
			t.Errorf("got %s: %v, want A's newest refused", a.name, a.err)
		}
	})
}

// A lane follows its settings: a higher limit takes more requests, and the new weights say whose makes room.
func TestDispatcher_UseLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call, messages := held()
		d := newDispatcher(t, dispatch.Config{Caller: call, ReadLimit: admission.LaneSetting{Limit: 3}, StaleAfter: time.Hour})
		answers := make(chan answer, 16)
		come := func(user string, names ...string) {
			for _, name := range names {
				ask(t.Context(), d, of(user, name), answers)
				synctest.Wait()
			}
		}
		come("A", "opener", "a1", "a2", "a3")
		if a := <-answers; a.name != "a3" || reasonOf(a.err) != "lane_full" {
			t.Fatalf("got %s: %v, want the limit of 3", a.name, a.err)
		}
		d.UseLanes(admission.Lanes{Read: admission.LaneSetting{Limit: 6}, Weights: map[string]int{"A": 4}})
		come("A", "a4", "a5")
		come("B", "b1", "b2")
		if a := <-answers; a.name != "b2" || reasonOf(a.err) != "user_queue" {
			t.Errorf("got %s: %v, want b2 refused: 1 of B is as much as 4 of A", a.name, a.err)
		}
		for range 3 { // messages
			(<-messages).all()
		}
		for range 6 { // the opener, a1, a2, a4, a5, b1
			if a := <-answers; a.err != nil {
				t.Errorf("%s: %v", a.name, a.err)
			}
		}
	})
}

// Users that both have more waiting than can be served are served by their weights.
func TestDispatcher_Read_SaturatedLaneServesByWeight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(ctx context.Context, q mq.Queue, body []byte, onReply func([]byte, bool) bool) error {
			time.Sleep(50 * time.Millisecond)
			return instant(ctx, q, body, onReply)
		}
		d := newDispatcher(t, dispatch.Config{Caller: callerFunc(slow), UserWeights: map[string]int{"A": 3}, MaxBatch: 10, StaleAfter: time.Hour})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		served := map[string]*atomic.Int64{"A": {}, "B": {}}
		for user, count := range served {
			for range 40 {
				go func() { // ends with ctx
					for {
						if _, err := d.Read(ctx, of(user, "x")); err != nil {
							return
						}
						count.Add(1)
					}
				}()
			}
		}
		<-ctx.Done()
		synctest.Wait()
		a, b := float64(served["A"].Load()), float64(served["B"].Load())
		if a+b < 1900 || math.Abs(a/b-3) > 0.15 {
			t.Errorf("got %v reads of A and %v of B, want 2000, 3:1", a, b)
		}
	})
}

// An adaptive limit falls when reads take longer, and not for the deadlines of impatient callers.
func TestDispatcher_Read_AdaptiveLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pause atomic.Int64
		call := func(ctx context.Context, q mq.Queue, body []byte, onReply func([]byte, bool) bool) error {
			time.Sleep(time.Duration(pause.Load()))
			return instant(ctx, q, body, onReply)
		}
		d := newDispatcher(t, dispatch.Config{Caller: callerFunc(call), ReadLimit: admission.LaneSetting{Adaptive: true, Limit: 100}})
		limit := func() int { return d.Stats()[0].Limit }
		load := func(count int, timeout time.Duration) {
			answers := make(chan answer, count)
			for range count {
				r := of("A", "x")
				r.Deadline = time.Now().Add(timeout)
				ask(t.Context(), d, r, answers)
			}
			for range count {
				<-answers
			}
		}
		pause.Store(int64(10 * time.Millisecond))
		load(100, time.Minute)
		usual := limit()
		if usual < 100 {
			t.Errorf("got limit %d after answers as usual, want it not lower", usual)
		}
		load(90, time.Millisecond)
		time.Sleep(2 * time.Second)
		load(1, time.Minute)
		if got := limit(); got < usual {
			t.Errorf("got limit %d after short deadlines, want %d", got, usual)
		}
		pause.Store(int64(100 * time.Millisecond))
		load(100, time.Minute)
		load(100, time.Minute)
		if got := limit(); got >= usual {
			t.Errorf("got limit %d after slow answers, want less than %d", got, usual)
		}
	})
}

// A request that was handed over counts against the limit until it ends, however it ends: answered, left out of the answer,
// lost with its message, or abandoned by its caller before or after that.
func TestDispatcher_Read_HandedOverEndsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call, messages := held()
		d := newDispatcher(t, dispatch.Config{Caller: call})
		answers := make(chan answer, 16)
		handedOver := func(want int) {
			t.Helper()
			synctest.Wait()
			if got := d.Stats()[0].HandedOver; got != want {
				t.Errorf("got %d requests handed over, want %d", got, want)
			}
		}
		m := together(t, d, messages, answers, "answered", "left out")
		handedOver(2)
		m.reply(false, 0)
		handedOver(1)
		m.reply(true)
		handedOver(0)

		ask(t.Context(), d, read("opener"), answers)
		opener := <-messages
		impatient := read("abandoned")
		impatient.Deadline = time.Now().Add(time.Second)
		ask(t.Context(), d, read("patient"), answers)
		ask(t.Context(), d, impatient, answers)
		synctest.Wait()
		opener.all()
		m = <-messages
		time.Sleep(2 * time.Second)
		handedOver(2)
		m.end <- mq.ErrReplyLost
		m = <-messages // resent without the abandoned read
		handedOver(1)
		m.end <- mq.ErrReplyLost
		time.Sleep(time.Second)
		handedOver(0)
	})
}
