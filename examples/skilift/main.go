// Command skilift records the lift rides of skiers and answers questions about them. README.md says which file uses which
// feature of the database.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"rideshare/examples/internal/db"
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
	database, authFile, listen string
	patience                   time.Duration // with a database that does not answer at the start
	ranges                     ranges
	async                      bool          // 201 as soon as the broker has the ride
	batch                      int           // rides of a full batch
	deadline                   time.Duration // after it an unknown outcome is 504
}

func parse(args []string, stderr io.Writer) (config, error) {
	c := config{ranges: defaultRanges()}
	flags := flag.NewFlagSet("skilift [load SCENE]", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&c.database, "database", "http://127.0.0.1:8083", "`URL` of the orchestrator")
	flags.StringVar(&c.authFile, "auth-file", "", "`file` whose first line 'bearer TOKEN' or 'basic USER:PASSWORD' is sent to the database")
	flags.StringVar(&c.listen, "listen", "127.0.0.1:8084", "`address` to listen on")
	flags.DurationVar(&c.patience, "wait", time.Minute, "how long to wait for the database at the start")
	ingest := flags.String("ingest", "sync", "when a ride is answered 201: sync: once it is committed; async: once the broker has it on disk")
	flags.IntVar(&c.batch, "batch", 100, "rides that travel together at most; 1: each alone")
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
	authorization, err := db.ReadAuthorization(c.authFile)
	if err != nil {
		return fmt.Errorf("--auth-file: %w", err)
	}
	s := newService(ctx, c, db.New(c.database, "skilift", authorization))
	if err = s.prepare(stderr); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.listen)
	if err != nil {
		return err
	}
	go s.dashboard.run(ctx)
	server := &http.Server{Handler: s, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second, IdleTimeout: 2 * time.Minute}
	_, _ = fmt.Fprintf(stdout, "skilift listens on http://%s\n", listener.Addr()) // for people
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err = <-ended:
		return err
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.deadline+time.Second)
	defer cancel()
	return server.Shutdown(last)
}
