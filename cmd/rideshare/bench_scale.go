package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"rideshare/bench/ladder"
	"rideshare/bench/report"
	"rideshare/internal/coord/zookeeper"
	"rideshare/system"
)

// benchScaleCommand is `rideshare bench scale`.
type benchScaleCommand struct {
	benchServices
	Share   float64       `default:"0.1" env:"BENCH_SHARE" help:"The part of a core that each slave may use, by a control group of the kernel: needs Linux and root (${default})."`
	Slaves  []int         `default:"1,2,4,8" env:"BENCH_SCALE_SLAVES" help:"Numbers of slaves, ascending (${default})."`
	Clients int           `default:"16" env:"BENCH_SCALE_CLIENTS" help:"Keep-alive clients for each slave, which read one request at a time (${default})."`
	Length  time.Duration `default:"10s" env:"BENCH_DURATION" help:"Length of the measurement of each number of slaves (${default})."`
	Policy  string        `default:"reads" enum:"reads,latency" env:"BENCH_POLICY" help:"The autoscaler's policy: ${enum} (${default})."`
	Period  time.Duration `default:"10s" env:"BENCH_PERIOD" help:"How often the autoscaler decides (${default})."`
	Step    time.Duration `default:"90s" env:"BENCH_STEP" help:"How long the load is three times what one slave serves; before and after that it is half of it, for a third of the time. 0 leaves the autoscaler out (${default})."`
	JSON    string        `name:"json" default:"" placeholder:"FILE" env:"BENCH_JSON" help:"Write the figures there as JSON."`
	HTML    string        `name:"html" default:"" placeholder:"FILE" env:"BENCH_HTML" help:"Write the figures there as a page of its own with plots."`
}

// Run measures and prints the tables.
func (b *benchScaleCommand) Run(ctx context.Context, out *output) error {
	switch {
	case b.Share <= 0 || b.Share > 1:
		return usagef("--share must be above 0, and at most 1")
	case len(b.Slaves) == 0 || b.Slaves[0] < 1 || !slices.IsSorted(b.Slaves):
		return usagef("--slaves must be ascending numbers from 1")
	case b.Clients < 1 || b.Length < time.Second || b.Period < time.Second || b.Step < 0:
		return usagef("--clients must be at least 1, --length and --period at least 1s, --step not negative")
	}
	env, err := b.environment()
	if err != nil {
		return err
	}
	name := fmt.Sprintf("scale-%d", os.Getpid())
	figures, err := ladder.Scale(ctx, ladder.ScaleConfig{
		Processes: &system.Processes{Bus: env.Bus, Coordinator: env.Coordinator + "/" + name, Session: zookeeper.DefaultSessionTimeout, Prefix: name + ".", LogLevel: "error"},
		Share:     b.Share, Slaves: b.Slaves, Clients: b.Clients, Length: b.Length, Policy: b.Policy, Period: b.Period, Step: b.Step, Progress: progressOn(out.stderr),
	})
	if figures == nil {
		return err
	}
	return errors.Join(err, report.WriteJSON(b.JSON, figures), report.WriteFile(b.HTML, figures.WriteHTML), figures.Print(out.stdout))
}
