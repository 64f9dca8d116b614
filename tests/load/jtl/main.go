// Command jtl checks the result of tests/load/rideshare.jmx: no request of any scene
// failed, and the scaling decisions of its time are those that the scenes ask for.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "jtl:", err)
		os.Exit(1)
	}
}

// run is the program without the process around it.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("jtl", flag.ContinueOnError)
	file := flags.String("jtl", "", "result of JMeter, as CSV with a line of names")
	orchestrator := flags.String("orchestrator", "", "base URL of the orchestrator, which has the decisions")
	settle := flags.Duration("settle", time.Minute, "longest wait for the last slave but one to go")
	if err := flags.Parse(args); err != nil {
		return err
	}
	played, err := readScenes(*file)
	if err != nil {
		return err
	}
	c := cluster{url: *orchestrator}
	slaves, settled := c.reconcile(ctx, *settle)
	decisions, err := c.decisions(ctx, played.start)
	if err != nil {
		return err
	}
	if err := show(out, played, decisions, slaves); err != nil {
		return err
	}
	return errors.Join(played.check(), checkDecisions(decisions, played), settled)
}

// show prints what was found.
func show(out io.Writer, s scenes, decisions []decision, slaves int) error {
	_, err := fmt.Fprintf(out, "%-12s %9s %7s %8s %8s %8s\n", "scene", "requests", "failed", "p50 ms", "p99 ms", "max ms")
	for _, name := range s.names() {
		v := s.byName[name]
		_, lineErr := fmt.Fprintf(out, "%-12s %9d %7d %8d %8d %8d\n", name, len(v.elapsed), v.failed, v.quantile(0.5), v.quantile(0.99), v.quantile(1))
		err = errors.Join(err, lineErr)
	}
	for _, d := range decisions {
		_, lineErr := fmt.Fprintf(out, "after %5.1f s: %d slaves wanted: %s\n", d.At.Sub(s.start).Seconds(), d.Wanted, d.Why)
		err = errors.Join(err, lineErr)
	}
	_, lastErr := fmt.Fprintf(out, "slaves at the end: %d\n", slaves)
	return errors.Join(err, lastErr)
}
