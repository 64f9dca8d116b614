package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"rideshare/cmd/rideshare/bench"
)

// benchCommand is `rideshare bench` and what can be measured with it.
type benchCommand struct {
	Ladder benchLadderCommand `cmd:"" default:"withargs" help:"The performance ladder (what bench does without a further word)."`
}

// benchLadderCommand is `rideshare bench` and `rideshare bench ladder`.
type benchLadderCommand struct {
	Clients  int           `default:"128" env:"BENCH_CLIENTS" help:"Keep-alive clients, each with one request at a time (${default})."`
	Duration time.Duration `default:"2s" env:"BENCH_DURATION" help:"Length of one measurement (${default})."`
	Rounds   int           `default:"3" env:"BENCH_ROUNDS" help:"How often each is measured, in turn; the median counts (${default})."`
	Rows     int           `default:"20000" env:"BENCH_ROWS" help:"Rows in the table (${default})."`
	JSON     string        `name:"json" default:"" placeholder:"FILE" env:"BENCH_JSON" help:"Write the figures there as JSON."`
}

// Run measures and prints the table.
func (b *benchLadderCommand) Run(ctx context.Context, out *output) error {
	if b.Clients < 1 || b.Rounds < 1 || b.Rows < 1000 || b.Duration <= 0 {
		return usagef("--clients and --rounds must be at least 1, --rows at least 1000, --duration positive")
	}
	report, err := bench.Run(ctx, bench.Config{
		Clients: b.Clients, Duration: b.Duration, Rounds: b.Rounds, Rows: b.Rows, Progress: out.stderr,
	})
	if err != nil {
		return err
	}
	if b.JSON != "" {
		text, err := json.MarshalIndent(report, "", "  ")
		if err != nil {
			return fmt.Errorf("encode figures: %w", err)
		}
		if err := os.WriteFile(b.JSON, append(text, '\n'), 0o600); err != nil {
			return fmt.Errorf("write figures: %w", err)
		}
	}
	return report.Print(out.stdout)
}
