// Command flashsale sells a limited stock to more buyers than it has goods, on the database's HTTP API. README.md says
// which file shows which feature.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/time/rate"

	"rideshare/examples/flashsale/load"
	"rideshare/examples/internal/db"
)

// settings are the flags.
type settings struct {
	database, listen, authFile string
	quota                      quota
	leases                     uint
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	command, args := run, os.Args[1:]
	switch first := append(args, "")[0]; first { // Without an argument it is "".
	case "load":
		os.Exit(load.Main(ctx, args[1:], os.Stdout, os.Stderr))
	case "route":
		command, args = route, args[1:]
	}
	if err := command(ctx, args, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "flashsale:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, messages io.Writer) error {
	s, err := parse(args, messages)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.listen)
	if err != nil {
		return err
	}
	return serve(ctx, s, listener, slog.New(slog.NewTextHandler(messages, nil)))
}

func parse(args []string, messages io.Writer) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("flashsale", flag.ContinueOnError)
	flags.SetOutput(messages)
	flags.StringVar(&s.database, "database", "http://127.0.0.1:8083", "`URL` of the database's orchestrator")
	flags.StringVar(&s.listen, "listen", "127.0.0.1:8088", "`address` of this service")
	flags.StringVar(&s.authFile, "auth-file", "", "`file` whose first line 'bearer TOKEN' or 'basic USER:PASSWORD' is sent to the database (default none)")
	flags.Func("rate", "orders of each goods: off, flash-1000, or `PER_SECOND:BURST`; more are 429 (default off)", func(text string) (err error) {
		s.quota, err = parseQuota(text)
		return err
	})
	flags.UintVar(&s.leases, "leases", 0, "`number` of instances that lease units; orders under a lease are answered 202 (default 0: no leases)")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if flags.NArg() > 0 {
		return s, fmt.Errorf("unknown argument %q, see --help", flags.Arg(0))
	}
	return s, nil
}

// serve answers requests until ctx ends.
func serve(ctx context.Context, settings settings, listener net.Listener, log *slog.Logger) error {
	authorization, err := db.ReadAuthorization(settings.authFile)
	if err != nil {
		return fmt.Errorf("--auth-file: %w", err)
	}
	c := db.New(settings.database, "flashsale", authorization)
	s := &service{db: c, flags: &flags{}, rates: &rates{quota: settings.quota, now: time.Now, buckets: map[int64]*rate.Limiter{}}}
	if err = prepare(ctx, c, settings.database, log); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	group.Go(func() { s.flags.follow(ctx, c, log) })
	group.Go(func() { s.sweep(ctx, log) })
	if settings.leases > 0 {
		s.leases = &leases{instances: settings.leases, wanted: make(chan int64), open: map[int64]*lease{}}
		group.Go(func() { s.keepLeases(ctx, log) })
	}
	log.Info("flashsale is ready", "url", "http://"+listener.Addr().String())
	return answer(ctx, listener, s.handler())
}

// answer answers requests until ctx ends, and then those in flight.
func answer(ctx context.Context, listener net.Listener, h http.Handler) error {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*requestLimit)
	defer cancel()
	_ = server.Shutdown(end) // Requests that take longer end with the process.
	return nil
}

// prepare creates the missing tables, all or none, as other instances may do concurrently. It tries once a second for a
// minute, so that the database may start later than the service.
func prepare(ctx context.Context, c *db.Client, url string, log *slog.Logger) error {
	for tries := 0; ; tries++ {
		answer, err := c.Execute(ctx, db.Options{}, db.SQL(strings.Join(schema, ";")))
		if err = cmp.Or(err, failed(answer)); err == nil || tries == 60 || ctx.Err() != nil {
			return err
		}
		if tries == 0 {
			log.Warn("no database yet; start one with: go run ./cmd/rideshare up", "url", url, "error", err)
		}
		pause(ctx, time.Second)
	}
}
