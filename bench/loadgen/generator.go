// Package loadgen sends requests according to a plan and records how long the answers take.
//
// In an open loop, requests become due at scheduled times, whether or not earlier requests were answered, and latency
// counts from the due time. So if the system stalls for a second, the stall shows in the latency of all requests of that
// second, not only of a single one (no coordinated omission). In a closed loop, each of a number of clients sends one
// request after the other.
package loadgen

import (
	"context"
	"errors"
	"sync"
	"time"

	"rideshare/internal/wait"
)

// Loop says what the level of a plan means.
type Loop string

// The loops.
const (
	Open   Loop = "open"   // the level is a number of requests per second
	Closed Loop = "closed" // the level is a number of clients
)

// lookEvery is how often an idle client of a closed loop checks whether the plan needs it again.
const lookEvery = 20 * time.Millisecond

// Outcome is the result of one request.
type Outcome struct {
	// Kind groups the figures: the work, such as "join".
	Kind string
	// Failure is empty for a request that was answered as expected; otherwise it is a short name of the failure, such as
	// "503". Failures are counted by this name.
	Failure string
	// Pause is how long a client of a closed loop waits before its next request; an open loop ignores it.
	Pause time.Duration
}

// Request is one request to send.
type Request struct {
	// Due is when the request was to be sent: its latency counts from then.
	Due time.Time
	// Slot is a number below the number of clients or MaxInFlight, which no other request in flight has. A caller can
	// keep state for each slot without locks.
	Slot int
	// Stage is the index of the request's stage, and Number the request's own number in it, from 0.
	Stage, Number int
}

// Config is what Run needs; Call, and either Plan and Loop or Stages are required.
type Config struct {
	Plan Plan
	Loop Loop
	// Stages are for a run that ends after a number of requests, not after a time. It is a closed loop.
	Stages []Stage
	// MaxInFlight bounds the requests in flight of an open loop: 1024 by default. Requests that are due beyond it wait
	// their turn, and their latency grows.
	MaxInFlight int
	// Call sends one request and waits for the answer, within its own time limit. Many goroutines call it concurrently.
	// Its context is never cancelled: the outcome of a write that was sent must become known.
	Call func(ctx context.Context, r Request) Outcome
	// Recorder makes the figures. If it is nil, the summary has no figures, and the caller keeps its own.
	Recorder *Recorder
}

// Run sends requests until the plan or ctx ends, waits for the answers to requests in flight, and returns the figures.
// An error means that nothing was sent, because cfg is incomplete.
func Run(ctx context.Context, cfg Config) (Summary, error) {
	if len(cfg.Stages) > 0 {
		cfg.Plan, cfg.Loop = Plan{}, Closed
	} else if len(cfg.Plan) == 0 {
		return Summary{}, errEmptyPlan
	}
	if cfg.Call == nil || (cfg.Loop != Open && cfg.Loop != Closed) {
		return Summary{}, errors.New("the generator needs a call and a loop")
	}
	if cfg.MaxInFlight < 1 {
		cfg.MaxInFlight = 1024
	}
	if len(cfg.Stages) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, cfg.Plan.Duration())
		defer cancel()
	}
	g := &generator{cfg: cfg, start: time.Now()}
	if cfg.Recorder != nil {
		cfg.Recorder.begin(g.start, cfg.Plan)
	}
	var unsent int64
	switch {
	case len(cfg.Stages) > 0:
		g.stages(ctx)
	case cfg.Loop == Open:
		unsent = g.open(ctx)
	default:
		g.closed(ctx)
	}
	g.group.Wait()
	var summary Summary
	if cfg.Recorder != nil {
		summary = cfg.Recorder.end(time.Now())
	}
	summary.Loop, summary.Unsent = cfg.Loop, unsent
	return summary, nil
}

// generator is one run.
type generator struct {
	cfg   Config
	start time.Time
	group sync.WaitGroup
}

// open starts each request when it is due. It returns how many were due and not sent.
func (g *generator) open(ctx context.Context) int64 {
	free := make(chan int, g.cfg.MaxInFlight)
	for slot := range g.cfg.MaxInFlight {
		free <- slot
	}
	times := &schedule{plan: g.cfg.Plan}
	for at, ok := times.due(); ok; at, ok = times.due() {
		due := g.start.Add(at)
		sending := ctx
		if at == 0 { // What is due at the start is sent, however late the generator is.
			sending = context.WithoutCancel(ctx)
		}
		if !sleepUntil(sending, due) {
			return g.missed(times, due)
		}
		select {
		case slot := <-free:
			g.group.Go(func() {
				g.request(ctx, Request{Due: due, Slot: slot})
				free <- slot
			})
		case <-sending.Done():
			return g.missed(times, due)
		}
	}
	<-ctx.Done() // a plan may end with nothing to do.
	return 0
}

// missed returns how many requests were due before now and not sent, including the one at due.
func (g *generator) missed(times *schedule, due time.Time) int64 {
	now := time.Now()
	var n int64
	for ok := true; ok && due.Before(now); n++ {
		var at time.Duration
		at, ok = times.due()
		due = g.start.Add(at)
	}
	return n
}

func (g *generator) request(ctx context.Context, r Request) Outcome {
	outcome := g.cfg.Call(context.WithoutCancel(ctx), r)
	if g.cfg.Recorder != nil {
		g.cfg.Recorder.record(r.Due, time.Now(), outcome)
	}
	return outcome
}

// closed runs as many clients as the plan has at its peak. A client works while the level is above its number, and rests
// otherwise.
func (g *generator) closed(ctx context.Context) {
	for number := range int(g.cfg.Plan.Peak()) {
		g.group.Go(func() { g.client(ctx, number) })
	}
}

func (g *generator) client(ctx context.Context, number int) {
	// The first check is for the plan's start, however late the generator is.
	for at := time.Duration(0); at == 0 || ctx.Err() == nil; at = max(1, time.Since(g.start)) {
		pause := lookEvery
		if _, level := g.cfg.Plan.At(at); float64(number) < level {
			pause = g.request(ctx, Request{Due: time.Now(), Slot: number}).Pause
		}
		sleepUntil(ctx, time.Now().Add(pause))
	}
}

// sleepUntil waits until at; if at has passed it returns immediately. It reports whether ctx is still valid.
func sleepUntil(ctx context.Context, at time.Time) bool {
	return wait.For(ctx, time.Until(at))
}
