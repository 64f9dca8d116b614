// Command skilift records the lift rides of skiers and answers questions about them. README.md says which file uses which
// feature of the database.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"rideshare/examples/internal/web"
	"rideshare/examples/skilift/load"
)

const exitFailed, exitUsage = 1, 2

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == "load" {
		return load.Main(ctx, args[1:], stdout, stderr)
	}
	code := exitUsage
	c, err := parse(args, stderr)
	if err == nil {
		code, err = exitFailed, c.serve(ctx, stdout, stderr)
	}
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	_, _ = fmt.Fprintln(stderr, "skilift:", err) // There is nowhere else to say it.
	return code
}

// config is the settings of a service.
type config struct {
	web.Settings

	listen   string
	ranges   ranges
	async    bool          // 201 as soon as the broker has the ride
	batch    int           // rides of a full batch
	deadline time.Duration // after it an unknown outcome is 504
}

func parse(args []string, stderr io.Writer) (config, error) {
	c := config{ranges: defaultRanges()}
	flags := flag.NewFlagSet("skilift [load SCENE]", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&c.Database, "database", "http://127.0.0.1:8083", "`URL` of the orchestrator")
	flags.StringVar(&c.AuthFile, "auth-file", "", "`file` whose first line 'bearer TOKEN' or 'basic USER:PASSWORD' is sent to the database (default none)")
	flags.DurationVar(&c.Wait, "wait", time.Minute, "how long to wait for the database at the start")
	flags.StringVar(&c.listen, "listen", "127.0.0.1:8084", "`address` to listen on")
	ingest := flags.String("ingest", "sync", "when a ride is answered 201: sync: once it is committed; async: once the broker has it on disk")
	flags.IntVar(&c.batch, "batch", 100, "rides that are sent together at most; 1: each alone")
	flags.DurationVar(&c.deadline, "deadline", 10*time.Second, "how long a ride is sent again while its outcome is unknown; then 504")
	flags.Func("ranges", "allowed values, as in resort=1..10,day=1..3; what is not named keeps its range", c.ranges.Set)
	if err := flags.Parse(args); err != nil {
		return c, err
	}
	c.async = *ingest == "async"
	if (*ingest != "sync" && *ingest != "async") || c.batch < 1 || c.batch > maxWaiting || c.deadline <= 0 || flags.NArg() > 0 {
		return c, fmt.Errorf("--ingest is sync or async, --batch is from 1 to %d, --deadline is positive, and there are no other words", maxWaiting)
	}
	return c, nil
}

// serve runs the service until ctx ends.
func (c config) serve(ctx context.Context, stdout, stderr io.Writer) error {
	client, err := c.Open(ctx, "skilift", createTables(c.ranges), slog.New(slog.NewTextHandler(stderr, nil)))
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.listen)
	if err != nil {
		return err
	}
	s := newService(ctx, c, client)
	go s.dashboard.run(ctx)
	_, _ = fmt.Fprintf(stdout, "skilift listens on http://%s\n", listener.Addr()) // for people
	return web.Serve(ctx, listener, s, c.deadline+time.Second)
}
