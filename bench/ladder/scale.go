package ladder

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"rideshare/bench/api"
	"rideshare/bench/loadgen"
	"rideshare/internal/progressbar"
	"rideshare/internal/wait"
	"rideshare/orchestrator/scale"
	"rideshare/system"
)

// ScaleConfig says how to measure the gain of more slaves.
type ScaleConfig struct {
	// Processes says how to start the system.
	Processes *system.Processes
	// Share is the part of a core that each slave may use.
	Share float64
	// Slaves are the numbers of slaves to measure, ascending.
	Slaves []int
	// Clients for each slave send reads in a closed loop, for Length at each number of slaves.
	Clients int
	Length  time.Duration
	// Policy is the autoscaler's, and Period how often it decides. Step is how long the load stays up; before and after
	// that it is down for a third of Step. With Step zero the autoscaler is not measured.
	Policy       string
	Period, Step time.Duration
	// Progress shows how many numbers of slaves are measured.
	Progress progressbar.Output
}

const (
	// readCost is how long the engine is to work on a read.
	readCost = time.Millisecond
	// calibrations is how often the read is timed to find its cost; the fastest time counts.
	calibrations = 50
	// firstTurns is the number of turns of the read that is timed.
	firstTurns = 1000
	// scaleQuery counts to its parameter, the number of turns.
	scaleQuery = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM c LIMIT ?) SELECT sum(n) FROM c"
	// scaleStarts is more starts of workers in a minute than a run needs.
	scaleStarts = 600
	// warmUp is the part of a measurement that does not count.
	warmUp = 4
)

// scaleRun is one run.
type scaleRun struct {
	ScaleConfig
	measured

	shares *shares
	turns  int // of each read

	mu      sync.Mutex // guards the fields below
	limited map[int]bool
	serving []servingSlaves
	failed  error // of the limiting
}

// servingSlaves is how many slaves served from a time on.
type servingSlaves struct {
	at time.Time
	n  int
}

// Scale starts a system whose slaves have a share of a core each. It measures the rate of reads with each number of
// slaves, and then how the autoscaler reacts to a load that rises and falls.
func Scale(ctx context.Context, cfg ScaleConfig) (report *ScaleReport, err error) {
	groups, err := newShares(groupRoot, cfg.Share)
	if err != nil {
		return nil, err
	}
	s := &scaleRun{ScaleConfig: cfg, measured: newMeasured(""), shares: groups, limited: map[int]bool{}}
	first := cfg.Slaves[0]
	_, stop, err := s.startOwn(ctx, system.Config{
		Name: "scale", Processes: cfg.Processes, Slaves: first, StartsPerMinute: scaleStarts, Cache: system.Cache{Off: true},
		Scale: system.Scale{Settings: scale.Settings{Policy: cfg.Policy, Min: first, Max: first, ReadsPerSlave: 1}, Period: cfg.Period},
	})
	if err != nil {
		return nil, errors.Join(err, groups.close())
	}
	defer func() { err = errors.Join(err, stop(), groups.close()) }() // the groups after their processes
	return s.run(ctx)
}

func (s *scaleRun) run(ctx context.Context) (*ScaleReport, error) {
	if _, err := s.whole(ctx); err != nil {
		return nil, err
	}
	if err := s.calibrate(ctx); err != nil {
		return nil, err
	}
	var limiting sync.WaitGroup
	watching, end := context.WithCancel(ctx)
	defer limiting.Wait()
	defer end()
	limiting.Go(func() { s.limitSlaves(watching) })
	report := &ScaleReport{Machine: machine(), Share: s.Share, Turns: s.turns, Clients: s.Clients}
	steps := s.Progress.Plan(len(s.Slaves))
	defer steps.End()
	for _, n := range s.Slaves {
		steps.Begin("%d slaves", n)
		step, err := s.step(ctx, n)
		if err != nil {
			return nil, fmt.Errorf("%d slaves: %w", n, err)
		}
		report.add(step)
		steps.Done()
	}
	steps.End()
	if s.Step > 0 {
		auto, err := s.autoscale(ctx, report.Steps[0])
		if err != nil {
			return nil, fmt.Errorf("autoscaler: %w", err)
		}
		report.Auto = auto
	}
	return report, nil
}

// calibrate finds the number of turns at which a read takes the engine about readCost.
func (s *scaleRun) calibrate(ctx context.Context) error {
	fastest := 0.0
	for range calibrations {
		var got struct {
			Results []struct {
				Time  float64 `json:"time"`
				Error string  `json:"error"`
			} `json:"results"`
		}
		if err := s.call(ctx, http.MethodPost, "/db/query?timings", s.statement(firstTurns), &got); err != nil {
			return err
		}
		if len(got.Results) != 1 || got.Results[0].Error != "" || got.Results[0].Time <= 0 {
			return fmt.Errorf("time a read: got %+v", got)
		}
		if took := got.Results[0].Time; fastest == 0 || took < fastest {
			fastest = took
		}
	}
	s.turns = max(1, int(firstTurns*readCost.Seconds()/fastest))
	return nil
}

func (s *scaleRun) statement(turns int) any { return []any{[]any{scaleQuery, turns}} }

// limitSlaves limits each slave as soon as it has its role, and records how many serve, until ctx ends.
func (s *scaleRun) limitSlaves(ctx context.Context) {
	for {
		var c api.Cluster
		if s.call(ctx, http.MethodGet, "/api/v1/cluster", nil, &c) == nil {
			s.limitNew(c)
		}
		if !wait.For(ctx, pollEvery) {
			return
		}
	}
}

func (s *scaleRun) limitNew(c api.Cluster) {
	s.mu.Lock()
	defer s.mu.Unlock()
	serving := 0
	for _, m := range c.Members {
		if m.Role != "slave" {
			continue
		}
		if m.Ready {
			serving++
		}
		if !s.limited[m.PID] {
			s.failed = errors.Join(s.failed, s.shares.limit(m.PID))
			s.limited[m.PID] = true
		}
	}
	if n := len(s.serving); n == 0 || s.serving[n-1].n != serving {
		s.serving = append(s.serving, servingSlaves{time.Now(), serving})
	}
}

// servingAt returns how many slaves served at a time.
func (s *scaleRun) servingAt(at time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, v := range s.serving {
		if !v.at.After(at) {
			n = v.n
		}
	}
	return n
}

// settings are the settings of the autoscaler that a run changes.
type settings struct {
	Min           int `json:"min"`
	Max           int `json:"max"`
	ReadsPerSlave int `json:"reads_per_slave,omitempty"`
}

// set changes the autoscaler's settings.
func (s *scaleRun) set(ctx context.Context, to settings) error {
	return s.call(ctx, http.MethodPatch, "/api/v1/scaling", to, nil)
}

// fix sets the number of slaves, and waits until n slaves serve and are limited.
func (s *scaleRun) fix(ctx context.Context, n int) error {
	if err := s.set(ctx, settings{Min: n, Max: n}); err != nil {
		return err
	}
	for deadline := time.Now().Add(failoverWhole); ; {
		c, err := s.whole(ctx)
		if err != nil {
			return err
		}
		if ready, failed := s.fixed(c, n); ready || failed != nil {
			return failed
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not %d slaves within %v: %+v", n, failoverWhole, c)
		}
		if !wait.For(ctx, pollEvery) {
			return context.Cause(ctx)
		}
	}
}

// fixed reports whether a complete cluster has n slaves that are all limited, or why slaves were not limited.
func (s *scaleRun) fixed(c api.Cluster, n int) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	free := slices.ContainsFunc(c.Members, func(m api.Member) bool { return m.Role == "slave" && !s.limited[m.PID] })
	return c.Desired == n && !free, s.failed
}

// step measures the rate with n slaves.
func (s *scaleRun) step(ctx context.Context, n int) (ScaleStep, error) {
	if err := s.fix(ctx, n); err != nil {
		return ScaleStep{}, err
	}
	clients := float64(s.Clients * n)
	summary, err := loadgen.Run(ctx, loadgen.Config{
		Loop: loadgen.Closed, Call: s.read, Recorder: loadgen.NewRecorder(),
		Plan: loadgen.Plan{{Name: "warm-up", Duration: s.Length / warmUp, From: clients, To: clients}, {Name: "measured", Duration: s.Length, From: clients, To: clients}},
	})
	if err = errors.Join(err, context.Cause(ctx)); err != nil {
		return ScaleStep{}, err
	}
	return stepOf(n, summary.Phases), nil
}

// read sends one read.
func (s *scaleRun) read(ctx context.Context, _ loadgen.Request) loadgen.Outcome {
	r := s.Call(ctx, http.MethodPost, "/db/query", s.statement(s.turns))
	failure := r.Failure(http.StatusOK)
	if failure == "" && strings.Contains(string(r.Body), `"error"`) {
		failure = "wrong"
	}
	return loadgen.Outcome{Kind: "read", Failure: failure, Pause: r.Pause()}
}

// autoscale measures a load that is too much for the slaves of the first step, until the autoscaler has started more.
func (s *scaleRun) autoscale(ctx context.Context, first ScaleStep) (*ScaleAuto, error) {
	if err := s.fix(ctx, 1); err != nil {
		return nil, err
	}
	const low, high, use = 0.5, 3, 0.7 // of what one slave serves; use is what the policy is to leave each slave
	one := first.Rate / float64(first.Slaves)
	a := &ScaleAuto{Policy: s.Policy, Period: s.Period, ReadsPerSlave: max(1, int(use*one*s.Period.Seconds())), Low: low * one, High: high * one}
	if err := s.set(ctx, settings{Min: 1, Max: s.Slaves[len(s.Slaves)-1], ReadsPerSlave: a.ReadsPerSlave}); err != nil {
		return nil, err
	}
	defer s.Progress.Timed(s.Step*5/3, "autoscaler")()
	summary, err := loadgen.Run(ctx, loadgen.Config{
		Loop: loadgen.Open, Call: s.read, Recorder: loadgen.NewRecorder(),
		Plan: loadgen.Plan{
			{Name: "low", Duration: s.Step / 3, From: a.Low, To: a.Low},
			{Name: "high", Duration: s.Step, From: a.High, To: a.High},
			{Name: "low again", Duration: s.Step / 3, From: a.Low, To: a.Low},
		},
	})
	if err = errors.Join(err, context.Cause(ctx)); err != nil {
		return nil, err
	}
	for _, second := range summary.Seconds {
		if second.Took < time.Second {
			break // a rest of the run
		}
		a.add(second, s.servingAt(summary.Start.Add(second.At+second.Took)))
	}
	return a, nil
}
