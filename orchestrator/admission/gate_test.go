package admission

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/mq"
	"rideshare/internal/wait"
)

// rig is a Gate in a bubble, whose clock starts at zero.
type rig struct {
	*testing.T
	*Gate

	began   time.Time
	changes []Change

	mu     sync.Mutex // guards the fields below
	ready  int
	failed bool // the broker does not answer
	slow   bool // the broker's answer takes 3 s
	away   map[need]bool
	waited map[string]time.Duration
}

const testTimeout = 5 * time.Second

// play runs test with a Gate in a bubble. At its start some needs may be away.
func play(t *testing.T, change func(*Config), test func(*rig), away ...need) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{T: t, began: time.Now(), away: map[need]bool{}, waited: map[string]time.Duration{}}
		for _, n := range away {
			r.away[n] = true
		}
		cfg := Config{
			Log: slog.New(slog.DiscardHandler), Name: "a", Settings: Defaults(), CallTimeout: testTimeout,
			Broker: func() bool { return !r.lost(broker) },
			Master: func() (bool, time.Time) { return !r.lost(master), r.began },
			Slaves: func() (int, time.Time) {
				if r.lost(slaves) {
					return 0, r.began
				}
				return 1, time.Time{}
			},
			Ready: func(ctx context.Context) (int, error) {
				r.mu.Lock()
				failed, slow, ready := r.failed, r.slow, r.ready
				r.mu.Unlock()
				if slow {
					wait.For(ctx, 3*time.Second)
				}
				if failed {
					return 0, mq.ErrUnavailable
				}
				return ready, nil
			},
			Unanswered: func() int { return 0 },
			Event:      func(_ string, c Change) { r.changes = append(r.changes, c) },
			Waited: func(stage string, took time.Duration) {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.waited[stage] += took
			},
			Random: func() float64 { return 0.5 },
		}
		if change != nil {
			change(&cfg)
		}
		var err error
		if r.Gate, err = New(cfg); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { r.Gate.Run(ctx) })
		test(r)
		cancel()
		running.Wait()
	})
}

func (r *rig) lost(n need) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.away[n]
}

func (r *rig) lose(n need, lost bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away[n] = lost
}

func (r *rig) setReady(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ready = n
}

func (r *rig) seconds() float64 { return time.Since(r.began).Seconds() }

func (r *rig) until(seconds float64) {
	time.Sleep(time.Until(r.began.Add(time.Duration(seconds * float64(time.Second)))))
	synctest.Wait()
}

// operation is a write that comes now.
func (r *rig) operation() dbaas.Operation {
	return dbaas.Operation{Deadline: time.Now().Add(testTimeout)}
}

// write passes a write through the gate and ends it with an error.
func (r *rig) write(end error) error {
	op := r.operation()
	ticket, err := r.EnterWrite(r.Context(), &op)
	if err == nil {
		r.Ended(ticket, end)
	}
	return err
}

func (r *rig) read(end error) error {
	ticket, err := r.EnterRead(&dbaas.Read{Deadline: time.Now().Add(testTimeout)})
	if err == nil {
		r.Ended(ticket, end)
	}
	return err
}

// want checks the reason of err, "" for an admission.
func (r *rig) want(what string, err error, reason string) {
	r.Helper()
	if got := dbaas.ReasonOf(err); got != reason || err != nil && got == "" {
		r.Errorf("%s at %.3f s: got %v with reason %q, want %q", what, r.seconds(), err, got, reason)
	}
}

func (r *rig) near(what string, want float64) {
	r.Helper()
	if got := r.seconds(); got < want-1e-9 || got > want+1e-9 {
		r.Errorf("%s at %.6f s, want %.3f", what, got, want)
	}
}

// While a dependency is down what needs it is refused at once; a worker may be away for a moment.
func TestGate_Dependencies(t *testing.T) {
	play(t, nil, func(r *rig) {
		r.lose(master, true)
		r.lose(slaves, true)
		r.until(.99)
		r.want("a read within the grace", r.read(nil), "")
		r.until(1)
		r.want("a read", r.read(nil), dbaas.ReasonSlaves)
		r.want("a message of reads", r.Check(mq.ReadQ, time.Now()), dbaas.ReasonSlaves)
		r.want("a write within the grace", r.write(nil), "")
		r.until(2)
		r.want("a write", r.write(nil), dbaas.ReasonMaster)
		r.want("a message of writes", r.Check(mq.WriteQ, time.Now()), dbaas.ReasonMaster)
		r.lose(broker, true)
		r.want("a write without the broker", r.write(nil), dbaas.ReasonBroker)
		for _, n := range []need{broker, master, slaves} {
			r.lose(n, false)
		}
		r.want("a write when all are back", r.write(nil), "")
		r.want("a read when all are back", r.read(nil), "")
	})
}

// What is not there yet when the system starts is refused without an event. Losing it later, and its return, are events.
func TestGate_Start_SaysNothing(t *testing.T) {
	all := []need{broker, master, slaves}
	play(t, nil, func(r *rig) {
		r.until(3)
		r.want("a write at the start", r.write(nil), dbaas.ReasonBroker)
		for _, n := range all {
			r.lose(n, false)
		}
		r.until(4)
		r.want("a write when all are there", r.write(nil), "")
		if len(r.changes) != 0 {
			r.Errorf("got events %v of a start, want none", r.changes)
		}
		r.lose(broker, true)
		r.until(5)
		r.lose(broker, false)
		r.until(6)
		var got []string
		for _, c := range r.changes {
			got = append(got, c.Name+" "+c.From+" "+c.To)
		}
		if want := []string{"broker closed open", "broker open closed"}; !slices.Equal(got, want) {
			r.Errorf("got events %q of a loss, want %q", got, want)
		}
	}, all...)
}

// A dependency that is still not there after a start's time is told, and so is its coming.
func TestGate_StartWithoutABroker_IsTold(t *testing.T) {
	play(t, nil, func(r *rig) {
		r.until(31)
		r.lose(broker, false)
		r.until(32)
		var got []string
		for _, c := range r.changes {
			got = append(got, c.Name+" "+c.From+" "+c.To)
		}
		if want := []string{"broker closed open", "broker open closed"}; !slices.Equal(got, want) {
			r.Errorf("got events %q, want %q", got, want)
		}
	}, broker)
}

// Requests that fail open the breaker of what failed, and of nothing else.
func TestGate_Failures(t *testing.T) {
	lost := dbaas.WrapError(dbaas.CodeUnknown, "no answer", mq.ErrReplyLost)
	late := dbaas.WrapError(dbaas.CodeUnknown, "no answer", context.DeadlineExceeded)
	late.Reason = dbaas.ReasonDeadline
	notSent := dbaas.WrapError(dbaas.CodeUnavailable, "x", fmt.Errorf("%w: %w", mq.ErrUnavailable, context.DeadlineExceeded))
	notSent.Reason = dbaas.ReasonDeadline
	refused := dbaas.WrapError(dbaas.CodeUnavailable, "x", mq.ErrRefused)
	refused.Reason = dbaas.ReasonQueueFull
	for name, c := range map[string]struct {
		end    error
		given  time.Duration
		reason string
	}{
		"lost":         {lost, testTimeout, dbaas.ReasonMaster},
		"queue full":   {refused, testTimeout, dbaas.ReasonMaster},
		"not sent":     {notSent, testTimeout, dbaas.ReasonBroker},
		"no time":      {notSent, meant - time.Millisecond, ""},
		"too large":    {dbaas.WrapError(dbaas.CodeUnavailable, "x", mq.ErrUnavailable), testTimeout, ""}, // for the connection that is there
		"late":         {late, meant, dbaas.ReasonMaster},
		"impatient":    {late, meant - time.Millisecond, ""},
		"answered 503": {dbaas.Errorf(dbaas.CodeUnavailable, "x"), testTimeout, ""},
		"answered 504": {dbaas.Errorf(dbaas.CodeTimeout, "x"), testTimeout, ""},
		"client gone":  {dbaas.WrapError(dbaas.CodeUnknown, "x", context.Canceled), testTimeout, ""},
		"quota":        {dbaas.Refuse(dbaas.ReasonUserQueue, 0, "x"), testTimeout, ""},
		"lane full":    {dbaas.Refuse(dbaas.ReasonLaneFull, 0, "x"), testTimeout, ""},
		"constraint":   {dbaas.Errorf(dbaas.CodeConstraint, "x"), testTimeout, ""},
		"far position": {dbaas.WrapError(dbaas.CodeNotCaughtUp, "x", ErrNotSent), testTimeout, ""},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, nil, func(r *rig) {
				for range enough {
					op := r.operation()
					op.Deadline = time.Now().Add(c.given)
					ticket, err := r.EnterWrite(r.Context(), &op)
					r.want("a write", err, "")
					r.Ended(ticket, c.end)
				}
				r.want("the next write", r.write(nil), c.reason)
				want := ""
				if c.reason == dbaas.ReasonBroker {
					want = c.reason
				}
				r.want("a read", r.read(nil), want)
			})
		})
	}
}

// Slaves that answer that they have not caught up are there. The breaker stays closed although other reads had no answer.
func TestGate_NotCaughtUpIsAnAnswer(t *testing.T) {
	play(t, nil, func(r *rig) {
		late := dbaas.WrapError(dbaas.CodeTimeout, "no answer came in time", context.DeadlineExceeded)
		late.Reason = dbaas.ReasonDeadline
		for i := range 4 * enough {
			end := []error{late, dbaas.Errorf(dbaas.CodeNotCaughtUp, "x"), dbaas.Errorf(dbaas.CodeNotCaughtUp, "x")}[i%3]
			r.want("a read", r.read(end), "")
		}
	})
}

// A queued write that fails is the broker's fault, unless a full queue has refused it: reads go on.
func TestGate_Failures_Queued(t *testing.T) {
	for name, c := range map[string]struct {
		end    error
		reason string
	}{
		"unconfirmed":           {dbaas.WrapError(dbaas.CodeUnknown, "x", mq.ErrUnconfirmed), dbaas.ReasonBroker},
		"queue full":            {dbaas.WrapError(dbaas.CodeUnavailable, "x", mq.ErrRefused), dbaas.ReasonMaster},
		"queue full, a cluster": {dbaas.WrapError(dbaas.CodeUnknown, "x", mq.ErrMaybeRefused), dbaas.ReasonMaster},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, nil, func(r *rig) {
				for range enough {
					op := r.operation()
					ticket, err := r.EnterWrite(r.Context(), &op)
					r.want("a queued write", err, "")
					ticket.Queued = true
					r.Ended(ticket, c.end)
				}
				r.want("the next write", r.write(nil), c.reason)
				want := ""
				if c.reason == dbaas.ReasonBroker {
					want = c.reason
				}
				r.want("a read", r.read(nil), want)
			})
		})
	}
}

// A user may have three quarters of the requests in flight, all users together all of them.
func TestGate_Inflight(t *testing.T) {
	play(t, func(c *Config) { c.Settings.Inflight = 8 }, func(r *rig) {
		var guests []Guest
		arrive := func(user, reason string) {
			t.Helper()
			guest, err := r.Arrive(user, Read)
			r.want(user, err, reason)
			if err == nil {
				guests = append(guests, guest)
			}
		}
		for range 6 {
			arrive("ann", "")
		}
		arrive("ann", dbaas.ReasonUserInflight)
		arrive("bob", "")
		arrive("bob", "")
		arrive("bob", dbaas.ReasonInflight)
		for _, g := range guests {
			r.Leave(g, nil)
		}
		arrive("ann", "")
		s := r.Status()
		if s.Stages["inflight"].Refused["user_inflight"] != 1 || s.Admitted != 8 || s.Users[0].User != "ann" || s.Users[0].Refused != 1 {
			r.Errorf("got status %+v", s)
		}
	})
}
