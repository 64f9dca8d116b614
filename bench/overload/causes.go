package overload

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"sync"
	"time"

	"rideshare/bench/loadgen"
	"rideshare/internal/dbaas"
	"rideshare/internal/wait"
	"rideshare/orchestrator/admission"
)

// cause is one part of N5: why a breaker opens, the work that the breaker refuses, and the reason in the refusals.
type cause struct {
	name, breaker, work, reason string
	// begin starts the cause, and end ends it. A cause without begin is replaced by a breaker that is held open.
	begin func(context.Context) (end func(context.Context) error, err error)
	held  bool // the breaker is held open by PATCH
	load  bool // the load itself is the cause
}

const (
	// openP99 is the goal for the latency of refusals, in ms.
	openP99 = 10.0
	// flat bounds the growth of goroutines and of memory: the maximum in the second half of a stage, divided by the maximum
	// in the first half.
	flat = 1.2
	// refusedShare is the goal for the share of refusals. The rest are requests that are admitted while a half-open breaker
	// probes whether its cause is gone, or while a new worker serves before it is crashed too.
	refusedShare = 0.8
	// shortQueue gives the depth of the write queue at which the breaker opens, in the part with a full queue: as many writes
	// as the load sends in this time.
	shortQueue = 40 * time.Millisecond
	// crashEvery is how often a worker of each role is crashed, so that a worker that was started again is crashed too.
	crashEvery = 50 * time.Millisecond
	// causeLimit bounds how long a cause may take to open its breaker, and how long the system may take to serve again:
	// the starts of workers are limited.
	causeLimit = 3 * time.Minute
)

// causes returns the parts of N5. The short form holds all breakers open, because it must judge nothing that depends on
// the speed of the machine.
func (s *stage) causes() []cause {
	all := []cause{
		{name: "broker alarm", breaker: "broker", work: workRead, reason: dbaas.ReasonBroker, begin: s.alarm()},
		{name: "no slave", breaker: "slaves", work: workRead, reason: dbaas.ReasonSlaves, begin: s.crashing("slave")},
		{name: "no worker", breaker: "master", work: workWrite, reason: dbaas.ReasonMaster, begin: s.crashing("slave", "master")},
		{name: "full queue", breaker: "depth", work: workWrite, reason: dbaas.ReasonDepthBreaker, begin: s.shorten, load: true},
	}
	for i := range all {
		if c := &all[i]; s.cfg.Short || c.begin == nil {
			c.name, c.begin, c.held, c.load = c.breaker+" held open", s.hold(c.breaker), true, false
		}
	}
	return all
}

// hold holds a breaker open, as an operator does.
func (s *stage) hold(breaker string) func(context.Context) (func(context.Context) error, error) {
	return func(ctx context.Context) (func(context.Context) error, error) {
		end := func(ctx context.Context) error { return s.patch(ctx, "breakers", nil) }
		return end, s.patch(ctx, "breakers", map[string]any{breaker: admission.Open.String()})
	}
}

// shorten makes the breaker of the write queue open at a depth that the load exceeds.
func (s *stage) shorten(ctx context.Context) (func(context.Context) error, error) {
	end := func(ctx context.Context) error { return s.patch(ctx, "depth", nil) }
	depth := max(1, int(s.cfg.Rate*shortQueue.Seconds()))
	return end, s.patch(ctx, "depth", admission.DepthSettings{Wait: depth, Open: depth})
}

// alarm runs the commands that raise and clear an alarm of the broker; nil without them.
func (s *stage) alarm() func(context.Context) (func(context.Context) error, error) {
	if s.cfg.AlarmSet == "" {
		return nil
	}
	return func(ctx context.Context) (func(context.Context) error, error) {
		end := func(ctx context.Context) error { return command(ctx, s.cfg.AlarmClear) }
		return end, command(ctx, s.cfg.AlarmSet)
	}
}

func command(ctx context.Context, text string) error {
	ctx, cancel := context.WithTimeout(ctx, causeLimit)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "sh", "-c", text).CombinedOutput(); err != nil { //nolint:gosec // the user gives the command.
		return fmt.Errorf("%s: %w: %.200s", text, err, out)
	}
	return nil
}

// crashing crashes the workers with these roles, and each worker that takes their place.
func (s *stage) crashing(roles ...string) func(context.Context) (func(context.Context) error, error) {
	return func(ctx context.Context) (func(context.Context) error, error) {
		ctx, cancel := context.WithCancel(ctx)
		var loop sync.WaitGroup
		loop.Go(func() {
			for again := true; again; again = wait.For(ctx, crashEvery) {
				for _, role := range roles {
					// There may be no such worker now. A crash that was sent is awaited, so that none comes after the end.
					s.client.Send(context.WithoutCancel(ctx), http.MethodPost, s.url+"/api/v1/crash/"+role, nil)
				}
			}
		})
		return func(context.Context) error {
			cancel()
			loop.Wait()
			return nil
		}, nil
	}
}

// playOpenBreakers plays scene N5.
func playOpenBreakers(ctx context.Context, s *stage) error {
	for _, c := range s.causes() {
		if err := s.playCause(ctx, c); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return s.servesAgain(ctx)
}

// playCause sends the load while a cause keeps its breaker open, and judges the answers.
func (s *stage) playCause(ctx context.Context, c cause) error {
	end, err := c.begin(ctx)
	if err == nil && !c.held && !c.load {
		err = s.await(ctx, c, admission.Open)
	}
	var f figures
	var used []usage
	if err == nil {
		f, used, err = s.whileOpen(ctx, c)
	}
	if err = errors.Join(err, end(context.WithoutCancel(ctx))); err != nil {
		return err
	}
	s.judge(c, f, used)
	if c.held {
		return nil
	}
	return s.await(ctx, c, admission.Closed)
}

func (s *stage) whileOpen(ctx context.Context, c cause) (figures, []usage, error) {
	load := stream{stage: c.name, work: c.work, reason: c.reason, loop: loadgen.Open, level: s.cfg.Rate, length: s.cfg.Length}
	if s.cfg.Short {
		load = brief(c.name, "", c.work, many)
		load.reason = c.reason
	}
	watching, stop := context.WithCancel(ctx)
	watched := s.watch(watching)
	got, err := s.measure(ctx, load)
	stop()
	used := <-watched
	if err != nil {
		return figures{}, nil, err
	}
	return got[0], used, nil
}

func (s *stage) judge(c cause, f figures, used []usage) {
	if c.held {
		s.result.check(c.name+": accepted", int(f.accepted.Count), 0)
		s.result.check(c.name+": failed", int(f.failed.Count), 0)
		s.result.check(c.name+": refused with another reason", int(f.other.Count), 0)
	} else {
		all := f.accepted.Count + f.refused.Count + f.other.Count + f.failed.Count
		s.result.atLeast(c.name+": share of requests that the breaker refused", float64(f.refused.Count)/float64(max(1, all)), refusedShare)
	}
	if s.cfg.Short {
		return
	}
	s.result.atMost(c.name+": p99 of refused, ms", ms(f.refused.P99), openP99)
	for _, u := range used {
		s.result.atMost(c.name+": "+u.name+", second half / first half", u.growth(), flat)
	}
}

// await sends a request from time to time until the breaker is in a state and, if that state is closed, the system is
// ready: a broker reports its alarm, and a half-open breaker closes, only when requests come.
func (s *stage) await(ctx context.Context, c cause, state admission.State) error {
	ctx, cancel := context.WithTimeout(ctx, causeLimit)
	defer cancel()
	var requests sync.WaitGroup
	defer requests.Wait()
	for {
		status, err := s.protection.Status(ctx)
		ready := state != admission.Closed || s.client.Send(ctx, http.MethodGet, s.url+"/readyz", nil).Failure(http.StatusOK) == ""
		now := status.Breakers[c.breaker].State
		if err == nil && ready && now == state.String() {
			return nil
		}
		requests.Go(func() { s.send(context.WithoutCancel(ctx), c.work, "") })
		if !wait.For(ctx, pollEvery) {
			return fmt.Errorf("the breaker %s is %q and not %q after %v", c.breaker, now, state, causeLimit)
		}
	}
}
