package main

import (
	"context"
	"fmt"
	"time"

	"rideshare/bench/ladder"
	"rideshare/bench/report"
)

// benchCostsCommand is `rideshare bench costs`.
type benchCostsCommand struct {
	benchServices
	Embedded bool          `env:"BENCH_EMBEDDED" help:"Measure the system in one process, without RabbitMQ and ZooKeeper."`
	Clients  int           `default:"64" env:"BENCH_WRITERS" help:"Number of keep-alive clients that write (${default})."`
	Streams  int           `default:"64" env:"BENCH_STREAMS" help:"Number of streams of changes (${default})."`
	Duration time.Duration `default:"3s" env:"BENCH_DURATION" help:"Length of one measurement (${default})."`
	Rounds   int           `default:"9" env:"BENCH_ROUNDS" help:"How often each is measured, in turn; the median of the ratios counts (${default})."`
	JSON     string        `name:"json" default:"" placeholder:"FILE" env:"BENCH_JSON" help:"Write the figures there as JSON."`
}

// costRows is the number of rows in the table at each measurement.
const costRows = 1000

// Run measures and prints the ratios.
func (b *benchCostsCommand) Run(ctx context.Context, out *output) error {
	if b.Clients < 1 || b.Streams < 1 || b.Streams > 64 || b.Rounds < 1 || b.Duration <= 0 {
		return usagef("--clients and --rounds must be at least 1, --streams 1 to 64, --duration positive")
	}
	cfg := ladder.CostsConfig{
		Embedded: b.Embedded, Clients: b.Clients, Streams: b.Streams, Rounds: b.Rounds, Rows: costRows, Duration: b.Duration, Progress: progressOn(out.stderr),
	}
	var err error
	if !b.Embedded {
		if cfg.Environment, err = b.environment(); err != nil {
			return err
		}
	}
	costs, err := ladder.MeasureCosts(ctx, cfg)
	if err != nil {
		return err
	}
	if err = report.WriteJSON(b.JSON, costs); err != nil {
		return err
	}
	for _, line := range []struct {
		what  string
		ratio ladder.Ratio
	}{{"with an archive", costs.WithArchive}, {fmt.Sprintf("with %d streams of changes", b.Streams), costs.WithStreams}} {
		if _, err = fmt.Fprintf(out.stdout, "rate of writes %-27s %.3f of the rate without (%.3f to %.3f; goal %.2f)\n",
			line.what, line.ratio.Median, line.ratio.Lowest, line.ratio.Highest, ladder.CostGoal); err != nil {
			return err
		}
	}
	return nil
}
