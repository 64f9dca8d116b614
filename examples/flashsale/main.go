// Command flashsale sells a limited stock to more buyers than it has goods, on the database's HTTP API. README.md says
// which file shows which feature.
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
	"sync"
	"syscall"
	"time"

	"rideshare/examples/flashsale/load"
	"rideshare/examples/flashsale/route"
	"rideshare/examples/internal/db"
	"rideshare/examples/internal/web"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// run runs the service, its load scenes, or the router.
func run(ctx context.Context, args []string) int {
	command := listenAndServe
	switch {
	case len(args) > 0 && args[0] == "load":
		return load.Main(ctx, args[1:], os.Stdout, os.Stderr)
	case len(args) > 0 && args[0] == "route":
		command, args = route.Main, args[1:]
	}
	if err := command(ctx, args, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		_, _ = fmt.Fprintln(os.Stderr, "flashsale:", err) // There is nowhere else to say it.
		return 1
	}
	return 0
}

// settings are the flags of the service.
type settings struct {
	web.Settings

	listen string
	quota  quota
	leases uint
	flag   bool
}

// listenAndServe is the command without a name: the service.
func listenAndServe(ctx context.Context, args []string, messages io.Writer) error {
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
	flags := flag.NewFlagSet("flashsale [load SCENE | route]", flag.ContinueOnError)
	flags.SetOutput(messages)
	flags.StringVar(&s.Database, "database", "http://127.0.0.1:8083", "`URL` of the database's orchestrator")
	flags.StringVar(&s.AuthFile, "auth-file", "", "`file` whose first line 'bearer TOKEN' or 'basic USER:PASSWORD' is sent to the database (default none)")
	flags.DurationVar(&s.Wait, "wait", time.Minute, "how long to wait for the database at the start")
	flags.StringVar(&s.listen, "listen", "127.0.0.1:8088", "`address` of this service")
	flags.Func("rate", "orders of each goods: off, flash-1000, or `PER_SECOND:BURST`; more are 429 (default off)", func(text string) (err error) {
		s.quota, err = parseQuota(text)
		return err
	})
	flags.UintVar(&s.leases, "leases", 0, "`number` of instances that lease units; orders under a lease are answered 202 (default 0: no leases)")
	flags.BoolVar(&s.flag, "sold-out-flag", true, "answer orders of goods that the change feed reports as sold out without asking the database")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if flags.NArg() > 0 {
		return s, fmt.Errorf("unknown argument %q, see --help", flags.Arg(0))
	}
	return s, nil
}

// serve answers requests until ctx ends.
func serve(ctx context.Context, s settings, listener net.Listener, log *slog.Logger) error {
	client, err := s.Open(ctx, "flashsale", db.SQL(schema), log)
	if err != nil {
		return err
	}
	sale := &service{db: client, soldOut: &soldOutFlags{}, rates: newRates(s.quota)}
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	if s.flag {
		group.Go(func() { sale.soldOut.follow(ctx, client, log) })
	}
	group.Go(func() { sale.sweep(ctx, log) })
	if s.leases > 0 {
		sale.leases = &leases{instances: s.leases, wanted: make(chan int64), open: map[int64]*lease{}}
		group.Go(func() { sale.keepLeases(ctx, log) })
	}
	log.Info("flashsale is ready", "url", "http://"+listener.Addr().String())
	return web.Serve(ctx, listener, sale.handler(), 2*writeLimit)
}
