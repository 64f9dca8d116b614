package admission

import (
	"cmp"
	"context"
	"errors"
	"time"

	"rideshare/internal/dbaas"
	"rideshare/internal/mq"
)

// ErrNotSent is wrapped by the error of a request that the dispatcher ended before it made a message, for a reason that
// says nothing about the broker or the workers.
var ErrNotSent = errors.New("the request was not sent")

// Ticket is a request between EnterRead or EnterWrite and Ended.
type Ticket struct {
	need   need // besides the broker
	passes [needs]Pass
	depth  Pass
	// given is the request's timeout, from its admission to its deadline.
	given time.Duration
	write bool
	// Queued means that the operation was only handed to the broker. Unless a full queue refused it, a failure then counts against
	// the broker and not against the master. The caller sets Queued before Ended.
	Queued bool
}

// EnterRead admits a read that is about to be handed to the dispatcher, or returns why it is refused. If the error is
// nil, the caller must call Ended.
func (g *Gate) EnterRead(r *dbaas.Read) (t Ticket, err error) {
	if g == nil {
		return t, nil
	}
	worker := slaves
	if r.Linearizable {
		worker = master
	}
	return g.enterNeeds(worker, r.Deadline)
}

// EnterWrite admits an operation that is about to be handed to the dispatcher, if necessary after a wait, or returns why it is
// refused. A wait ends at the latest 50 ms before the deadline. If the error is nil, the caller must call Ended. A load passes only
// the dependency breakers.
func (g *Gate) EnterWrite(ctx context.Context, op *dbaas.Operation) (t Ticket, err error) {
	if g == nil {
		return t, nil
	}
	deadline := op.Deadline
	if deadline.IsZero() {
		deadline = g.cfg.Now().Add(g.cfg.CallTimeout)
	}
	if own, ok := ctx.Deadline(); ok && own.Before(deadline) {
		deadline = own
	}
	if op.Load != dbaas.LoadNone {
		return g.enterNeeds(master, deadline)
	}
	// An operation must not wait for its turn if there is no broker or master to serve it.
	if err = g.check(master, g.cfg.Now()); err != nil {
		return t, err
	}
	if err = g.passEvent(ctx, op.User, deadline); err != nil {
		return t, err
	}
	depth, err := g.passDepth(ctx, op.User, deadline)
	if err != nil {
		return t, err
	}
	if t, err = g.enterNeeds(master, deadline); err != nil {
		g.leftDepth(depth, Inconclusive)
		return t, err
	}
	t.depth, t.write = depth, true
	g.own.Add(1)
	return t, nil
}

func (g *Gate) enterNeeds(n need, deadline time.Time) (t Ticket, err error) {
	now := g.cfg.Now()
	given := g.cfg.CallTimeout
	if !deadline.IsZero() {
		given = deadline.Sub(now)
	}
	t = Ticket{need: n, given: given}
	g.mu.Lock()
	defer g.mu.Unlock()
	if t.passes[broker], err = g.enter(broker, now, true); err != nil {
		return t, err
	}
	if t.passes[n], err = g.enter(n, now, true); err != nil {
		g.ended(broker, t.passes[broker], Inconclusive, now)
	}
	return t, err
}

// Ended records the end of a request that was admitted. err is what the dispatcher returned.
func (g *Gate) Ended(t Ticket, err error) {
	if g == nil {
		return
	}
	outcome := outcomeOf(err, t.given)
	if t.write {
		g.own.Add(-1)
		g.leftDepth(t.depth, g.depthOutcome(err, outcome))
	}
	now := g.cfg.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	published := Inconclusive // it may have ended in its lane, never published
	switch {
	case notTaken(err): // the worker was not asked
		if outcome == Failed {
			published = g.publishOutcome(err)
		}
		outcome = Inconclusive
	case refusedByQueue(err): // the broker works, but those that serve the queue do not keep up
	case t.Queued:
		if published = outcome; outcome == Failed {
			outcome = Inconclusive
		}
	case outcome == Succeeded:
		published = Succeeded
	}
	g.ended(broker, t.passes[broker], published, now)
	g.ended(t.need, t.passes[t.need], outcome, now)
}

// depthOutcome returns the outcome of a write as a probe of the depth breaker. A worker's own 503 or 504, and the lost connection of
// a large message, prove nothing about the queue.
func (g *Gate) depthOutcome(err error, outcome Outcome) Outcome {
	switch {
	case outcome == Failed && notTaken(err):
		return g.publishOutcome(err)
	case outcome == Succeeded && err != nil && outcomeOfCode(err) == Failed:
		return Inconclusive
	}
	return outcome
}

func (g *Gate) ended(n need, p Pass, outcome Outcome, now time.Time) {
	g.needs[n].Ended(p, outcome, now)
	g.announceNeed(n)
}

func notTaken(err error) bool {
	return err != nil && (errors.Is(err, mq.ErrUnavailable) || errors.Is(err, mq.ErrUnroutable))
}

func refusedByQueue(err error) bool {
	return err != nil && (errors.Is(err, mq.ErrRefused) || errors.Is(err, mq.ErrMaybeRefused))
}

// publishOutcome returns what err proves about the broker. err is the error of a message that the broker did not take. It proves
// nothing if the message found no connection while the broker takes other messages: then only the connection for large messages is
// lost.
func (g *Gate) publishOutcome(err error) Outcome {
	if errors.Is(err, mq.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) && g.cfg.Broker() {
		return Inconclusive
	}
	return Failed
}

// outcomeOf returns the outcome of a request for the breakers of its dependency and of the depth of the write queue. The
// request failed if the dispatcher had to end it without an answer from a worker. These ends are inconclusive: a time-out
// after less than meant, a refusal by another limit, ErrNotSent, and a client that has gone.
func outcomeOf(err error, given time.Duration) Outcome {
	if err == nil {
		return Succeeded
	}
	outcome := outcomeOfCode(err)
	e, _ := errors.AsType[*dbaas.Error](err)
	switch {
	case outcome != Failed || e == nil:
		return outcome
	case e.Err == nil && e.Reason == "": // a worker has answered
		return Succeeded
	case e.Err == nil, e.Reason == dbaas.ReasonDeadline && given < meant:
		return Inconclusive
	}
	return Failed
}

// outcomeOfCode returns the outcome by the code of err alone. A 503 or 504 counts as a failure.
func outcomeOfCode(err error) Outcome {
	if errors.Is(err, context.Canceled) || errors.Is(err, ErrNotSent) {
		return Inconclusive
	}
	switch dbaas.CodeOf(err) { //nolint:exhaustive // The others are answers of a service that works.
	case dbaas.CodeTimeout, dbaas.CodeUnknown, dbaas.CodeUnavailable:
		return Failed
	case dbaas.CodeQuota:
		return Inconclusive
	}
	return Succeeded
}

// passEvent admits an operation by the event-count breaker, if necessary after a wait. An operation that waits is also
// admitted if the breaker has closed at any time since it arrived: with many waiting, the breaker may be open again at
// every check.
func (g *Gate) passEvent(ctx context.Context, user string, deadline time.Time) error {
	closings, admitted, err := g.firstLook()
	if admitted || err != nil {
		return err
	}
	return g.waitFor(ctx, deadline, waiting{
		user: user, reason: dbaas.ReasonEventBreaker, message: "too many writes came within a short time",
		pause: func(a int) (time.Duration, bool) { return eventPause(a, pauseCap, g.cfg.Random()), true },
		look: func(now time.Time) bool {
			g.mu.Lock()
			defer g.mu.Unlock()
			_, ok := g.count(0, now)
			return ok || g.closings != closings
		},
	})
}

// firstLook counts an operation that has arrived. If the operation is neither admitted nor refused with err, it waits,
// and closings is the number of closings so far.
func (g *Gate) firstLook() (closings int, admitted bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.cfg.Now()
	held, manually := manual(g.settings.Breakers.Event)
	if manually && held == Closed || !g.rules.events && !manually {
		return 0, true, nil
	}
	if rest, ok := g.count(1, now); ok {
		return 0, true, nil
	} else if !g.rules.event.Delay || manually {
		return 0, false, dbaas.Refuse(dbaas.ReasonEventBreaker, rest, "too many writes came within a short time")
	}
	return g.closings, false, nil
}

// count counts an event of the event-count breaker. rest is the time until the breaker's interval ends. The caller
// holds g.mu.
func (g *Gate) count(weight int, now time.Time) (rest time.Duration, admitted bool) {
	if held, ok := manual(g.settings.Breakers.Event); ok {
		return 0, held == Closed
	}
	if !g.rules.events {
		return 0, true
	}
	before := g.event.Open
	g.event, admitted = g.rules.event.Next(g.event, weight, now)
	if before != g.event.Open {
		if before {
			g.closings++
		}
		g.announceEvent("an interval with few operations")
	}
	return g.rules.event.rest(g.event, now), admitted
}

// passDepth admits an operation by the depth of the write queue, if necessary after a wait. p is the pass of the depth
// breaker.
func (g *Gate) passDepth(ctx context.Context, user string, deadline time.Time) (p Pass, err error) {
	p, admitted, refusal := g.lookDepth(g.cfg.Now())
	if admitted || refusal != nil {
		return p, refusal
	}
	err = g.waitFor(ctx, deadline, waiting{
		user: user, reason: dbaas.ReasonDepthWait, message: "too many writes are waiting",
		pause: func(a int) (time.Duration, bool) { return time.Duration(a) * depthPause, a <= depthLooks },
		look: func(now time.Time) bool {
			p, admitted, refusal = g.lookDepth(now)
			return admitted || refusal != nil
		},
	})
	return p, cmp.Or(err, refusal)
}

// lookDepth admits an operation or refuses it with an error. If it does neither, the operation waits. More operations than
// the queue should hold can arrive between two samples, so the operations of this orchestrator are counted each time.
func (g *Gate) lookDepth(now time.Time) (p Pass, admitted bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	own := int(g.own.Load())
	if own > g.rules.depth.Open {
		g.judge(Depth{Operations: own, at: g.depth.at}, now)
	}
	met, manually := effective(g.long, g.settings.Breakers.Depth)
	if met.State == Open {
		return p, false, dbaas.Refuse(dbaas.ReasonDepthBreaker, max(0, g.long.Until.Sub(now)), "too many writes are waiting")
	}
	depth := g.depth.Operations
	if manually && now.Sub(g.depth.at) >= depthKept {
		depth = 0 // not known, and the operator wants writes to pass
	}
	if max(own, depth) > g.rules.depth.Wait {
		return p, false, nil
	}
	if manually {
		return p, true, nil
	}
	b, p, ok := g.long.Enter(now)
	if !ok {
		return p, false, dbaas.Refuse(dbaas.ReasonDepthBreaker, 0, "writes are being tried again after too many were waiting")
	}
	g.long = b
	return p, true, nil
}

func (g *Gate) leftDepth(p Pass, outcome Outcome) {
	g.mu.Lock()
	defer g.mu.Unlock()
	before := g.long
	g.long = before.Left(p, outcome, g.cfg.Now())
	g.announceDepth(before.Why)
}
