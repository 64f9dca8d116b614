// Command rideshare is the whole system in one binary: a sub-command for each part, and `rideshare up` for all parts on
// this machine.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	_ "time/tzdata" // time zones, for systems without time zone files

	"github.com/alecthomas/kong"

	"rideshare/bench/load"
	"rideshare/bench/report"
	"rideshare/internal/coord/zookeeper"
	"rideshare/internal/failpoint"
	"rideshare/internal/reload"
	"rideshare/internal/settings"
	"rideshare/internal/telemetry"
	"rideshare/internal/tlsfiles"
)

// The exit codes, which scripts rely on.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// version is set by the linker in releases.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() {
		<-ctx.Done()
		stop() // a second signal ends the process immediately
	}()
	if err := failpoint.Serve(); err != nil { // in binaries for fault tests only
		os.Exit(fail(os.Stderr, err))
	}
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program without its process-wide parts. It returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var settings cli
	if len(args) == 0 {
		_ = run(ctx, []string{"--help"}, stderr, stderr)
		return exitUsage
	}
	out := &output{stdout: stdout, stderr: stderr, metrics: telemetry.NewRegistry(), endTraces: func() {}}
	exit := -1
	parser, err := kong.New(&settings,
		kong.Name("rideshare"),
		kong.Description("A database-as-a-service for a ride-pooling application: reads and writes over queues, one master, many slaves, one durable log."),
		kong.Writers(stdout, stderr),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Exit(func(code int) { exit = code }),
		kong.Vars{"version": version, "orSeveral": orSeveral, "loadMix": load.DefaultMix, "session": zookeeper.DefaultSessionTimeout.String()},
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(out),
	)
	if err != nil {
		return fail(stderr, err)
	}
	kctx, err := parse(parser, args)
	if exit >= 0 { // --help was printed
		return exit
	}
	if err != nil {
		return usage(stderr, err)
	}
	out.settings, out.part = effective(kctx), kctx.Command()
	tuneMemory()
	end := func() {}
	if out.tls, err = settings.load(out); err == nil {
		end, err = settings.open(ctx, out)
	}
	if err == nil {
		err = kctx.Run()
		out.endTraces()
		end()
	}
	var wrong *usageError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &wrong):
		return usage(stderr, err)
	default:
		return fail(stderr, err)
	}
}

// parse parses the command line. It returns an error if the command could not write its report, since the folder of --json or --html is
// missing.
func parse(parser *kong.Kong, args []string) (*kong.Context, error) {
	kctx, err := parser.Parse(asFlag(args))
	if err != nil {
		return nil, err
	}
	for _, flag := range kctx.Flags() {
		if flag.Name == "json" || flag.Name == "html" {
			err = errors.Join(err, report.CheckFolder("--"+flag.Name, fmt.Sprint(kctx.FlagValue(flag))))
		}
	}
	return kctx, err
}

// asFlag replaces a first argument "help" by the flag --help.
func asFlag(args []string) []string {
	if args[0] != "help" {
		return args
	}
	return append(slices.Clone(args[1:]), "--help")
}

// fail prints err in one line, even if its text has several lines.
func fail(w io.Writer, err error) int {
	_, _ = fmt.Fprintf(w, "rideshare: %s\n", strings.ReplaceAll(err.Error(), "\n", "; "))
	return exitFailed
}

func usage(w io.Writer, err error) int {
	_, _ = fmt.Fprintf(w, "rideshare: %v\nrideshare --help tells the commands, rideshare COMMAND --help their settings\n", err)
	return exitUsage
}

// output is where commands print results and progress, and register their metrics.
type output struct {
	stdout, stderr io.Writer
	metrics        *telemetry.Registry
	watched        []*reload.Watcher  // see follow
	tls            *tlsfiles.Files    // nil without TLS settings
	tlsEnv         []string           // the same settings, for child processes
	settings       []settings.Setting // of the command, as it runs
	part           string             // the command
	endTraces      func()
}

// usageError is an invalid setting: the command ends with exitUsage.
type usageError struct{ msg string }

func (e *usageError) Error() string { return e.msg }

func usagef(format string, args ...any) error {
	return &usageError{msg: fmt.Sprintf(format, args...)}
}

// shownSQL is how much of a statement is logged, in bytes.
const shownSQL = 200

// endStuck returns a function that ends the process when a statement ignores its interruption. The process is restarted
// within seconds, and no data is lost.
func endStuck(log *slog.Logger) func(sql string) {
	return func(sql string) {
		log.Error("a statement does not end, so the process does", "sql", sql[:min(len(sql), shownSQL)])
		os.Exit(exitFailed)
	}
}
