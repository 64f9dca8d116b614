// Package ladder compares this system with the alternatives: the same HTTP server with nothing, or with SQLite, behind
// it, and RPC over RabbitMQ with one message per request. Each path runs in its own processes, all paths run
// side by side, and the measurements are interleaved, so that the ratios are reliable on a noisy machine.
package ladder

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"rideshare/internal/progressbar"
)

// Config says what to run.
type Config struct {
	Environment
	// Works and Paths select what to measure; nil means all.
	Works, Paths []string
	// Loops are closed, open or both; open needs closed.
	Loops []string
	// Clients are the numbers of keep-alive clients. At the first number every work is measured on every path, at the
	// others only the essential works.
	Clients []int
	// Duration is the length of one measurement at the first number of clients and in the open loop; other measurements
	// take half of it.
	Duration time.Duration
	Rounds   int
	Rows     int // in the table, at the beginning of each measurement
	// Seed determines the order of a work's paths in each round.
	Seed uint64
	// Progress shows how many measurements are done.
	Progress progressbar.Output
}

// ErrInvalid means that some answers were wrong or failed: their rows are meaningless.
var ErrInvalid = errors.New("some rows are invalid: answers were wrong or failed")

// ErrNothing means that none of the chosen works is measured on any of the chosen paths.
var ErrNothing = errors.New("none of these works is measured on any of these paths")

// Run measures the ladder. With ErrInvalid the report is complete, and marks the invalid rows.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	measurements := cfg.measurements()
	if len(measurements) == 0 {
		return nil, ErrNothing
	}
	_, _ = fmt.Fprintf(cfg.Progress, "seed %d: the order of the paths in each round\n", cfg.Seed) // progress only.
	s, err := newRig(ctx, cfg, needed(measurements), cfg.Rounds*len(measurements))
	if err != nil {
		return nil, err
	}
	report := newReport(cfg)
	for _, c := range measurements {
		report.row(c) // in this order, whatever the order of the rounds is
	}
	err = s.ladder(ctx, cfg, report, measurements)
	if err = errors.Join(err, s.close()); err != nil {
		return nil, err
	}
	report.finish()
	if report.invalid() {
		return report, ErrInvalid
	}
	return report, nil
}

// rig is the set of paths, running side by side.
type rig struct {
	dir     string
	targets map[string]*target
	steps   *progressbar.Steps // the measurements
}

// newRig starts the paths, for that many measurements.
func newRig(ctx context.Context, cfg Config, paths []path, measurements int) (*rig, error) {
	dir, err := os.MkdirTemp("", "rideshare-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a directory: %w", err)
	}
	s := &rig{dir: dir, targets: map[string]*target{}, steps: cfg.Progress.Plan(measurements)}
	for _, p := range paths {
		if err := s.start(ctx, cfg, p); err != nil {
			return nil, errors.Join(err, s.close())
		}
	}
	return s, nil
}

func (s *rig) start(ctx context.Context, cfg Config, p path) error {
	s.steps.Begin("starting %s", p.name)
	t, err := startTarget(ctx, p, filepath.Join(s.dir, p.name), cfg.Environment)
	if err != nil {
		return err
	}
	s.targets[p.name] = t
	if p.name != pathHTTP {
		if err := fill(ctx, t.addresses.Database, cfg.Rows, p.product); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		t.touched = true
	}
	return nil
}

func (s *rig) close() error {
	s.steps.End()
	var errs []error
	for _, t := range s.targets {
		errs = append(errs, t.stop())
	}
	return errors.Join(append(errs, os.RemoveAll(s.dir))...)
}

// ladder makes each measurement once in every round.
func (s *rig) ladder(ctx context.Context, cfg Config, report *Report, measurements []measurement) error {
	for round := range cfg.Rounds {
		for _, c := range ofRound(measurements, cfg.Seed, round) {
			if err := s.measure(ctx, cfg, report, c, round); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *rig) measure(ctx context.Context, cfg Config, report *Report, c measurement, round int) error {
	r := run{target: s.targets[c.Path], work: c.Work, rows: cfg.Rows, clients: c.Clients, length: cfg.Duration}
	if c.Clients != cfg.Clients[0] {
		r.length /= 2
	}
	if c.Path == pathHTTP {
		r.work = workNothing
	}
	if c.Open {
		r.offered = report.row(c.closed()).Samples[round] / 2
	}
	s.steps.Begin("%v", c)
	got, err := s.settled(ctx, r)
	if err != nil {
		return fmt.Errorf("%s on %s: %w", c.Work, c.Path, err)
	}
	s.steps.Done()
	row := report.row(c)
	row.offers = append(row.offers, r.offered)
	row.add(got, r.target.parts.resident())
	return nil
}

// settled measures once all paths are ready, and reads the replicas' lag before and after.
func (s *rig) settled(ctx context.Context, r run) (figure, error) {
	if err := s.reconcile(ctx); err != nil {
		return figure{}, err
	}
	before, err := r.target.caughtUp(ctx) // users and rides may have written their counts since it was settled
	if err != nil {
		return figure{}, err
	}
	r.target.touched = r.target.touched || writes(r.work)
	if hotRows(r.work) > 0 || counts(r.work) { // the cache is to have the answers
		warm := r
		warm.length /= warmUp
		if _, err = warm.measure(ctx); err != nil {
			return figure{}, err
		}
	}
	got, err := r.beside(ctx)
	if err != nil {
		return got, err
	}
	after, err := r.target.lag(ctx)
	if r.target.product {
		got.lag = &Lag{Before: before, After: after}
	}
	if err == nil && writes(r.work) {
		err = r.target.checkWritten(ctx, &got)
	}
	return got, err
}
