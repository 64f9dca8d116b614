package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"rideshare/bench/ladder"
	"rideshare/bench/report"
	"rideshare/bench/startedservices"
	"rideshare/system"
)

// benchCommand is `rideshare bench` and its sub-commands.
type benchCommand struct {
	Ladder   benchLadderCommand   `cmd:"" default:"withargs" help:"The performance ladder (what bench does without a further word)."`
	Join     benchJoinCommand     `cmd:"" help:"How long a new slave takes on a large database under writes, and what the writers notice."`
	Costs    benchCostsCommand    `cmd:"" help:"What an archive and streams of changes cost the writers."`
	Failover benchFailoverCommand `cmd:"" help:"How long writes stand still when the master goes."`
	Scale    benchScaleCommand    `cmd:"" help:"How many reads more slaves serve, and what the autoscaler makes of a load that rises."`
	Serve    benchServeCommand    `cmd:"" hidden:"" help:"One path of the ladder, as the ladder starts it."`
}

// benchServices says which broker and coordinator a benchmark uses.
type benchServices struct {
	Bus         string `default:"" placeholder:"URL" env:"BENCH_BUS" help:"The broker, amqp://user:password@host:port/vhost; without one the RabbitMQ that 'make services' started (in a checkout)."`
	Coordinator string `default:"" placeholder:"URL" env:"BENCH_COORDINATOR" help:"The coordinator, zk://host:port,host:port/chroot; without one the ZooKeeper that 'make services' started (in a checkout)."`
}

// benchLadderCommand is `rideshare bench` and `rideshare bench ladder`.
type benchLadderCommand struct {
	benchServices
	Clients []int    `default:"128,1,8,64,256" env:"BENCH_CLIENTS" help:"Numbers of keep-alive clients: at the first one every path is measured, at the others the essential ones (${default})."`
	Works   []string `default:"all" enum:"all,point-read,point-read-hit,point-read-once,count-distinct,count-distinct-covered,20-row-read,20-row-read-hit,write,mixed-90-10,ride-get" env:"BENCH_WORKS" help:"Which works: ${enum} (${default})."`
	Paths   []string `default:"all" enum:"all,http,inprocess,batched,batched-0,batched-2,batched-postgres,batched-uncached,batched-2-uncached,embedded,embedded-uncached,unbatched,batched-guarded,batched-unguarded,embedded-guarded,embedded-unguarded,tutorial,rpc-best,batched-sql,rqlite,rqlite-3" env:"BENCH_PATHS" help:"Which paths: ${enum} (${default}: except those with guarded in their name, which compare the protection from overload on and off; batched-postgres only if a PostgreSQL is known; batched-sql, rqlite and rqlite-3 only with --rqlite)."`
	Loops   []string `default:"closed,open" enum:"closed,open" env:"BENCH_LOOPS" help:"closed: each client has one request at a time; open: requests are due at half of that rate, and latency counts from then (${default})."`
	benchPostgres
	Rqlite   string        `default:"" placeholder:"FILE" env:"BENCH_RQLITE" help:"The program rqlited, to measure rqlite too: one node (rqlite), three (rqlite-3), and this system asked in the same way (batched-sql)."`
	Duration time.Duration `default:"1200ms" env:"BENCH_DURATION" help:"Length of one measurement at the first number of clients; the others take half of it (${default})."`
	Rounds   int           `default:"5" env:"BENCH_ROUNDS" help:"How often each is measured, in turn; the median counts (${default})."`
	Rows     int           `default:"100000" env:"BENCH_ROWS" help:"Rows in the table, the same at each measurement (${default})."`
	Seed     uint64        `default:"0" env:"BENCH_SEED" help:"Seed of the order of the paths in each round; 0 draws one, which is printed."`
	JSON     string        `name:"json" default:"" placeholder:"FILE" env:"BENCH_JSON" help:"Write the figures there as JSON."`
	HTML     string        `name:"html" default:"" placeholder:"FILE" env:"BENCH_HTML" help:"Write the figures there as a page of its own with plots."`
}

// Run measures and prints the table.
func (b *benchLadderCommand) Run(ctx context.Context, out *output) error {
	if len(b.Clients) == 0 || slices.Min(b.Clients) < 1 || b.Rounds < 1 || b.Rows < 1000 || b.Duration <= 0 {
		return usagef("--clients and --rounds must be at least 1, --rows at least 1000, --duration positive")
	}
	program, err := b.rqlited()
	if err != nil {
		return err
	}
	env, err := b.environment()
	if err != nil {
		return err
	}
	env.Rqlite = program
	if err = b.into(&env, slices.Contains(b.Paths, "batched-postgres")); err != nil {
		return err
	}
	figures, err := ladder.Run(ctx, ladder.Config{
		Environment: env, Works: some(b.Works), Paths: some(b.Paths), Loops: b.Loops, Clients: b.Clients, Duration: b.Duration, Rounds: b.Rounds, Rows: b.Rows,
		Seed: cmp.Or(b.Seed, rand.Uint64()), Progress: progressOn(out.stderr), //nolint:gosec // an order, no secret.
	})
	if figures == nil {
		return err
	}
	return errors.Join(err, report.WriteJSON(b.JSON, figures), report.WriteFile(b.HTML, figures.WriteHTML), figures.Print(out.stdout))
}

// rqlited returns the absolute path of the program that --rqlite names, or "" if rqlite is not measured.
func (b *benchLadderCommand) rqlited() (string, error) {
	if i := slices.IndexFunc(b.Paths, ladder.NeedsRqlite); b.Rqlite == "" && i >= 0 {
		return "", usagef("--paths %s needs --rqlite FILE, the program rqlited", b.Paths[i])
	}
	if b.Rqlite == "" {
		return "", nil
	}
	file, err := filepath.Abs(b.Rqlite)
	if err == nil {
		_, err = exec.LookPath(file)
	}
	if err != nil {
		return "", usagef("--rqlite is no program: %v", err)
	}
	return file, nil
}

// some returns the names, or nil if all are meant.
func some(names []string) []string {
	if slices.Contains(names, "all") {
		return nil
	}
	return names
}

// environment returns the services to use: those of the flags, else those that `make services` started.
func (b *benchServices) environment() (ladder.Environment, error) {
	env := ladder.Environment{Bus: b.Bus, Coordinator: b.Coordinator}
	if env.Bus == "" {
		var err error
		if env.Bus, err = started("RABBITMQ_URL", "--bus"); err != nil {
			return env, err
		}
		pid, err := started("RABBITMQ_PID", "--bus")
		if err != nil {
			return env, err
		}
		if env.BrokerPID, err = strconv.Atoi(pid); err != nil {
			return env, fmt.Errorf("pid of the broker: %w", err)
		}
	}
	if env.Coordinator == "" {
		var err error
		if env.Coordinator, err = started("ZOOKEEPER_URL", "--coordinator"); err != nil {
			return env, err
		}
	}
	return env, nil
}

// benchPostgres says which PostgreSQL a benchmark keeps a log in.
type benchPostgres struct {
	Postgres             string `default:"" placeholder:"URL" env:"BENCH_POSTGRES" help:"PostgreSQL for the path batched-postgres, postgres://user@host1:port,host2:port/database. It needs psql, and a user that may create schemas. Default: the one that 'make services' started (in a checkout)."`
	PostgresPasswordFile string `default:"" placeholder:"FILE" env:"BENCH_POSTGRES_PASSWORD_FILE" help:"File with the password of that user."`
}

// into sets the PostgreSQL that the flags name, or else the PostgreSQL that `make services` started. Without either it
// returns an error if a path needs PostgreSQL.
func (b *benchPostgres) into(env *ladder.Environment, needed bool) error {
	env.Postgres, env.PostgresPasswordFile = b.Postgres, b.PostgresPasswordFile
	if b.Postgres != "" {
		return nil
	}
	var err error
	if env.Postgres, err = started("POSTGRES_URL", "--postgres"); err == nil {
		env.PostgresPasswordFile, err = started("POSTGRES_PASSWORD_FILE", "--postgres")
	}
	if err != nil && !needed {
		env.Postgres, err = "", nil
	}
	return err
}

// started returns a variable of the services that `make services` started; flag names another service.
func started(variable, flag string) (string, error) {
	value, err := startedservices.Shared(variable)
	if err != nil {
		return "", fmt.Errorf("%s: %w; run `make services` in the checkout, or use %s", variable, err, flag)
	}
	return value, nil
}

// benchJoinCommand is `rideshare bench join`.
type benchJoinCommand struct {
	benchServices
	MiB    int     `name:"mib" default:"200" env:"BENCH_MIB" help:"Size of the database, in MiB (${default})."`
	Writes float64 `default:"300" env:"BENCH_WRITES" help:"Writes a second that go on meanwhile (${default})."`
	JSON   string  `name:"json" default:"" placeholder:"FILE" env:"BENCH_JSON" help:"Write the figures there as JSON."`
}

// Run measures and prints the result.
func (b *benchJoinCommand) Run(ctx context.Context, out *output) error {
	if b.MiB < 1 || b.Writes <= 0 {
		return usagef("--mib must be at least 1, --writes positive")
	}
	env, err := b.environment()
	if err != nil {
		return err
	}
	joined, err := ladder.Join(ctx, ladder.JoinConfig{Environment: env, MiB: b.MiB, Writes: b.Writes, Progress: progressOn(out.stderr)})
	if err != nil {
		return err
	}
	if err = report.WriteJSON(b.JSON, joined); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out.stdout, "new slave on %d MiB ready after %v (goal 2s)\n%d writes, p99 %v, slowest %v (goal 50ms)\nbefore that %d writes, p99 %v, slowest %v\n",
		b.MiB, joined.Ready.Round(time.Millisecond), joined.After.Writes, joined.After.P99, joined.After.Slowest,
		joined.Before.Writes, joined.Before.P99, joined.Before.Slowest)
	return err
}

// benchServeCommand is `rideshare bench serve`: a process of the ladder.
type benchServeCommand struct {
	Path        string `arg:"" help:"Which path."`
	Dir         string `required:"" help:"Directory for its files."`
	ReadyFile   string `required:"" help:"Written once it serves."`
	Bus         string `default:"" env:"RIDESHARE_BUS" help:"The broker."`
	Coordinator string `default:"" env:"RIDESHARE_COORDINATOR" help:"The coordinator."`
	Prefix      string `default:"" help:"Prefix of the names of queues."`
	Rqlite      string `default:"" env:"BENCH_RQLITE" help:"The program rqlited."`
	benchPostgres
}

// Run serves until ctx ends or standard input is closed, which means that the ladder's process has ended.
func (b *benchServeCommand) Run(ctx context.Context, out *output) error {
	log, err := errorLogger(out, "error", "bench")
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	go func() { // ends with the ladder
		_, _ = io.Copy(io.Discard, os.Stdin) // only its end matters.
		end()
	}()
	return ladder.Serve(ctx, ladder.ServeConfig{
		Path: b.Path, Dir: b.Dir, Ready: b.ReadyFile, Bus: b.Bus, Coordinator: b.Coordinator, Prefix: b.Prefix, Rqlite: b.Rqlite, Log: log,
		CommitLog: system.Log{URL: b.Postgres, PasswordFile: b.PostgresPasswordFile},
	})
}
