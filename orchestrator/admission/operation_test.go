package admission

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/mq"
)

// delaying is an event-count breaker that is open from the start and whose clock the test turns.
func delaying(r *rig) {
	r.Gate.mu.Lock()
	defer r.Gate.mu.Unlock()
	r.rules.event, r.rules.events = EventRule{Opens: 1 << 30, Closes: 1, Interval: time.Hour, Delay: true}, true
	r.event = EventState{Open: true, Start: r.began}
}

// An operation that waits for the breaker looks after random pauses. It is admitted at the first look after the breaker has
// closed, though the breaker is open again by then.
func TestGate_Delay_AdmittedIfClosedSince(t *testing.T) {
	play(t, nil, func(r *rig) {
		delaying(r)
		go func() {
			time.Sleep(2100 * time.Millisecond)
			r.Gate.mu.Lock()
			r.event.Open = false
			r.closings++
			r.Gate.mu.Unlock()
			time.Sleep(5 * time.Millisecond)
			r.Gate.mu.Lock()
			r.event.Open = true
			r.Gate.mu.Unlock()
		}()
		r.want("a write", r.write(nil), "")
		r.near("admitted", 2.111)
		if got := r.waited["event"]; got != 2111*time.Millisecond {
			r.Errorf("got a wait of %v, want 2.111 s", got)
		}
	})
}

// The wait ends before the deadline, with 503.
func TestGate_Delay_AlwaysOpen(t *testing.T) {
	play(t, nil, func(r *rig) {
		delaying(r)
		r.want("a write", r.write(nil), dbaas.ReasonEventBreaker)
		r.near("refused", 4.927)
	})
}

// With longer pauses an operation gives up earlier.
func TestEventPause_LongerPauses(t *testing.T) {
	sum := time.Duration(0)
	for a := 1; sum+eventPause(a, 14, 0.5) <= testTimeout-early; a++ {
		sum += eventPause(a, 14, 0.5)
	}
	if sum != 4095*time.Millisecond {
		t.Errorf("got the last look at %v, want 4.095 s", sum)
	}
}

// At most a thousand operations wait.
func TestGate_Delay_TooManyWait(t *testing.T) {
	play(t, nil, func(r *rig) {
		delaying(r)
		var all sync.WaitGroup
		for range maxWaiting {
			all.Go(func() {
				op := dbaas.Operation{Deadline: time.Now().Add(200 * time.Millisecond)}
				_, err := r.EnterWrite(r.Context(), &op)
				r.want("a write that waits", err, dbaas.ReasonEventBreaker)
			})
		}
		synctest.Wait()
		r.want("one more", r.write(nil), dbaas.ReasonEventBreaker)
		r.near("refused", 0)
		all.Wait()
		if got := r.Status().Stages["event"]; *got.Waiting != 0 {
			r.Errorf("%d operations wait at the end", *got.Waiting)
		}
	})
}

// One user cannot have all places where operations wait: its newest operation makes room for another user's.
func TestGate_Delay_PlacesAreShared(t *testing.T) {
	play(t, nil, func(r *rig) {
		delaying(r)
		var all sync.WaitGroup
		ended := map[string]int{}
		var mu sync.Mutex
		come := func(user string, count int) {
			for range count {
				all.Go(func() {
					op := r.operation()
					op.User = user
					_, err := r.EnterWrite(r.Context(), &op)
					r.want("a write that waits", err, dbaas.ReasonEventBreaker)
					mu.Lock()
					defer mu.Unlock()
					ended[user]++
				})
			}
			synctest.Wait()
		}
		want := func(what string, greedy, modest int) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			if ended["greedy"] != greedy || ended["modest"] != modest || *r.Status().Stages["event"].Waiting != maxWaiting {
				t.Errorf("%s: got refused %v, want greedy %d, modest %d", what, ended, greedy, modest)
			}
		}
		come("greedy", maxWaiting)
		want("a user who is alone", 0, 0)
		come("modest", 2)
		want("two of another user", 2, 0)
		come("greedy", 1)
		want("one more of the first", 3, 0)
		come("modest", maxWaiting/2)
		want("as many of the other", maxWaiting/2+1, 1+1)
		all.Wait()
	})
}

// A client that goes away ends its wait.
func TestGate_Delay_ClientGoes(t *testing.T) {
	play(t, nil, func(r *rig) {
		delaying(r)
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		op := r.operation()
		go func() { time.Sleep(500 * time.Millisecond); cancel() }()
		if _, err := r.EnterWrite(ctx, &op); !errors.Is(err, context.Canceled) {
			r.Errorf("got %v", err)
		}
		r.near("the end", .5)
	})
}

// A write waits while the queue is too deep: it looks again after 0.1, 0.3, 0.6, 1.0 and 1.5 s.
func TestGate_DepthWait(t *testing.T) {
	for _, c := range []struct{ falls, ends float64 }{{10, 1.5}, {.25, .3}, {1.2, 1.5}} {
		t.Run(fmt.Sprint(c.falls), func(t *testing.T) {
			play(t, nil, func(r *rig) {
				r.setReady(5001)
				r.until(.33) // samples come between the looks
				r.began = time.Now()
				go func() {
					time.Sleep(time.Duration(c.falls * float64(time.Second)))
					r.setReady(5000)
				}()
				reason := ""
				if c.falls > 1.5 {
					reason = dbaas.ReasonDepthWait
				}
				r.want("a write", r.write(nil), reason)
				r.near("the end", c.ends)
				r.want("a read", r.read(nil), "")
				time.Sleep(10 * time.Second) // the falling ends
			})
		})
	}
}

// A queue that is much too deep opens the breaker. Afterwards probes close it.
func TestGate_DepthBreaker(t *testing.T) {
	play(t, nil, func(r *rig) {
		r.setReady(10001)
		r.until(.15)
		r.want("a write", r.write(nil), dbaas.ReasonDepthBreaker)
		r.near("refused", .15)
		r.setReady(0)
		r.until(2.25)
		for range probes {
			r.want("a probe", r.write(nil), "")
		}
		if got := r.Breakers()["depth"].State; got != "closed" {
			r.Errorf("got %s after five probes", got)
		}
		want := []string{"closed open", "open half-open", "half-open closed"}
		for i, c := range r.changes {
			if got := c.From + " " + c.To; i >= len(want) || c.Name != "depth" || got != want[i] || c.Why == "" && i < 2 {
				r.Errorf("got event %+v, want %q", c, want)
			}
		}
	})
}

// A probe that ended early by its client's own short timeout, with a worker's 503, or without the connection for large messages neither
// opens the breaker again nor counts as one of the probes that close it.
func TestGate_DepthProbe_OnlyFailuresOpen(t *testing.T) {
	late := dbaas.WrapError(dbaas.CodeUnknown, "no answer", context.DeadlineExceeded)
	late.Reason = dbaas.ReasonDeadline
	for name, c := range map[string]struct {
		end   error
		given time.Duration
		want  State // after this probe and five that succeed
	}{
		"impatient":    {late, meant - time.Millisecond, Closed},
		"late":         {late, meant, Open},
		"queue full":   {dbaas.WrapError(dbaas.CodeUnavailable, "x", mq.ErrRefused), testTimeout, Open},
		"answered 503": {dbaas.Errorf(dbaas.CodeUnavailable, "x"), testTimeout, Closed},
		"large":        {dbaas.WrapError(dbaas.CodeUnavailable, "x", mq.ErrUnavailable), testTimeout, Closed},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, nil, func(r *rig) {
				r.setReady(10001)
				r.until(.15)
				r.want("a write", r.write(nil), dbaas.ReasonDepthBreaker)
				r.setReady(0)
				r.until(2.25)
				op := r.operation()
				op.Deadline = time.Now().Add(c.given)
				ticket, err := r.EnterWrite(r.Context(), &op)
				r.want("a probe", err, "")
				r.Ended(ticket, c.end)
				for range probes - 1 {
					_ = r.write(nil) // refused if the breaker is open again
				}
				if got := r.Breakers()["depth"].State; got == Closed.String() {
					r.Errorf("got %s after %d probes that succeeded, want %d", got, probes-1, probes)
				}
				_ = r.write(nil)
				if got := r.Breakers()["depth"].State; got != c.want.String() {
					r.Errorf("got %s, want %v", got, c.want)
				}
			})
		})
	}
}

// More writes than the queue should hold open the breaker before the next sample.
func TestGate_DepthBetweenSamples(t *testing.T) {
	limits := func(c *Config) { c.Settings.Depth = DepthSettings{Wait: 7, Open: 7} }
	play(t, limits, func(r *rig) {
		r.until(.15)
		for range 8 {
			op := r.operation()
			ticket, err := r.EnterWrite(r.Context(), &op)
			r.want("a write", err, "")
			defer r.Ended(ticket, nil)
		}
		r.want("one more", r.write(nil), dbaas.ReasonDepthBreaker)
		r.near("refused", .15)
	})
}

// A broker that says slowly how deep the queue is makes no write wait.
func TestGate_DepthSlow(t *testing.T) {
	play(t, nil, func(r *rig) {
		r.until(.1)
		r.mu.Lock()
		r.slow = true
		r.mu.Unlock()
		r.until(2)
		r.want("a write", r.write(nil), "")
		r.near("admitted", 2)
	})
}

// A broker that does not say how deep the queue is makes writes wait, after a second.
func TestGate_DepthUnknown(t *testing.T) {
	play(t, nil, func(r *rig) {
		r.until(.1)
		r.mu.Lock()
		r.failed = true
		r.mu.Unlock()
		r.until(.95)
		r.want("a write", r.write(nil), "")
		r.near("admitted", .95)
		r.until(1.25)
		r.want("a write a second later", r.write(nil), dbaas.ReasonDepthWait)
	})
}

// Probes that take long do not keep other requests out.
func TestGate_SlowProbes_MakeRoom(t *testing.T) {
	play(t, nil, func(r *rig) {
		for range enough {
			_ = r.read(dbaas.WrapError(dbaas.CodeUnavailable, "no answer", mq.ErrReplyLost))
		}
		r.until(2.05)
		for range probes {
			ticket, err := r.EnterRead(&dbaas.Read{Deadline: time.Now().Add(50 * time.Second)})
			r.want("a slow probe", err, "")
			defer r.Ended(ticket, nil)
		}
		r.until(4)
		r.want("a read while the probes are new", r.read(nil), dbaas.ReasonSlaves)
		r.until(4.05)
		for range probes {
			r.want("a read after that", r.read(nil), "")
		}
		if got := r.Breakers()[dbaas.ReasonSlaves].State; got != Closed.String() {
			r.Errorf("got %s after five probes", got)
		}
	})
}

// Only what the broker took closes its breaker.
func TestGate_BrokerProbes_NeedEvidence(t *testing.T) {
	late := dbaas.WrapError(dbaas.CodeUnknown, "no answer", context.DeadlineExceeded)
	late.Reason = dbaas.ReasonDeadline
	for name, c := range map[string]struct {
		end  error
		want State
	}{
		"answered":     {nil, Closed},
		"answered 503": {dbaas.Errorf(dbaas.CodeUnavailable, "x"), Closed},
		"late":         {late, HalfOpen},
		"lane full":    {dbaas.Refuse(dbaas.ReasonLaneFull, 0, "x"), HalfOpen},
		"not sent":     {dbaas.WrapError(dbaas.CodeTooLarge, "x", ErrNotSent), HalfOpen},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, nil, func(r *rig) {
				for range enough {
					_ = r.read(dbaas.WrapError(dbaas.CodeUnavailable, "x", mq.ErrUnroutable))
				}
				r.until(2.05)
				for range probes {
					r.want("a probe", r.read(c.end), "")
				}
				if got := r.Breakers()[dbaas.ReasonBroker].State; got != c.want.String() {
					r.Errorf("got %s after five probes, want %v", got, c.want)
				}
			})
		})
	}
}
