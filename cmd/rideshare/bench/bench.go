// Package bench runs this system beside bare SQLite behind the same HTTP server,
// in one process, interleaved, so that the ratios hold on a noisy machine.
package bench

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"
)

// Config says what to run.
type Config struct {
	Clients int
	// Each path of each work runs for Duration in each of Rounds.
	Duration time.Duration
	Rounds   int
	Rows     int // in the table
	// Progress gets a line for each measurement.
	Progress io.Writer
}

// Row is the figures of one work on one path over all rounds.
type Row struct {
	Work    string    `json:"work"`
	Path    string    `json:"path"`
	Clients int       `json:"clients"`
	Rate    float64   `json:"rate"` // answers a second, median of the rounds
	P50     float64   `json:"p50_ms"`
	P99     float64   `json:"p99_ms"`
	Errors  int64     `json:"errors"`
	Samples []float64 `json:"samples"` // the rate of each round
}

// Report is the result of a run.
type Report struct {
	Machine map[string]string  `json:"machine"`
	Rows    []Row              `json:"rows"`
	Ratios  map[string]float64 `json:"ratios"` // work/path/other path
}

// The paths.
const (
	pathHTTP      = "http"      // the HTTP server alone
	pathInProcess = "inprocess" // the same server with SQLite behind it
	pathBatched   = "batched"   // the product
	pathUnbatched = "unbatched" // the product, one message a request
)

// target is one path under test.
type target struct {
	path string
	url  string
}

// Run measures every work on every path and returns the figures. A wrong or
// failed answer makes the run an error: figures of wrong answers mean nothing.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	stand, err := newStand(ctx, cfg.Rows)
	if err != nil {
		return nil, err
	}
	report, err := measure(ctx, cfg, stand.targets)
	if closeErr := stand.close(context.WithoutCancel(ctx)); err == nil {
		err = closeErr
	}
	return report, err
}

func measure(ctx context.Context, cfg Config, targets []target) (*Report, error) {
	figures := map[[2]string]*Row{}
	report := &Report{Machine: machine(), Ratios: map[string]float64{}}
	works := works(cfg.Rows)
	for round := range cfg.Rounds {
		for _, w := range works {
			for _, t := range targets {
				if t.path == pathHTTP && w.name != workPoint {
					continue // it answers without looking at the work
				}
				got, err := drive(ctx, t, w, cfg)
				if err != nil {
					return nil, fmt.Errorf("%s on %s: %w", w.name, t.path, err)
				}
				key := [2]string{w.name, t.path}
				if figures[key] == nil {
					figures[key] = &Row{Work: w.name, Path: t.path, Clients: cfg.Clients}
				}
				figures[key].add(got)
				_, _ = fmt.Fprintf(cfg.Progress, "round %d/%d  %-11s %-10s %9.0f/s  p99 %6.2f ms\n", round+1, cfg.Rounds, w.name, t.path, got.rate, got.p99) // progress only.
			}
		}
	}
	for _, w := range works {
		for _, t := range targets {
			if row := figures[[2]string{w.name, t.path}]; row != nil {
				row.Rate = median(row.Samples)
				report.Rows = append(report.Rows, *row)
			}
		}
		report.ratio(figures, w.name, pathBatched, pathInProcess)
		report.ratio(figures, w.name, pathBatched, pathUnbatched)
	}
	return report, nil
}

func (r *Row) add(got figure) {
	r.Samples = append(r.Samples, got.rate)
	r.P50 = max(r.P50, got.p50)
	r.P99 = max(r.P99, got.p99)
	r.Errors += got.errors
}

func (r *Report) ratio(figures map[[2]string]*Row, work, a, b string) {
	top, bottom := figures[[2]string{work, a}], figures[[2]string{work, b}]
	if top != nil && bottom != nil && bottom.Rate > 0 {
		r.Ratios[work+"/"+a+"/"+b] = top.Rate / bottom.Rate
	}
}

func median(samples []float64) float64 {
	sorted := slices.Sorted(slices.Values(samples))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// Print writes the report as a table.
func (r *Report) Print(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "%-11s %-10s %8s %12s %9s %9s\n", "work", "path", "clients", "rate/s", "p50 ms", "p99 ms"); err != nil {
		return err
	}
	for _, row := range r.Rows {
		if _, err := fmt.Fprintf(w, "%-11s %-10s %8d %12.0f %9.2f %9.2f\n", row.Work, row.Path, row.Clients, row.Rate, row.P50, row.P99); err != nil {
			return err
		}
	}
	names := make([]string, 0, len(r.Ratios))
	for name := range r.Ratios {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if _, err := fmt.Fprintf(w, "%-40s %.2f\n", name, r.Ratios[name]); err != nil {
			return err
		}
	}
	return nil
}
