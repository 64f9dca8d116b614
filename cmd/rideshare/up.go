package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"rideshare/cmd/rideshare/assembly"
	"rideshare/internal/telemetry"
	"rideshare/orchestrator/scale"
	"rideshare/rides/usercheck"
)

const (
	// startLimit bounds the start: longer means that something is wrong.
	startLimit = time.Minute
	// stopLimit is within the 10 s that `up` promises to end in.
	stopLimit = 8 * time.Second
)

// upCommand is `rideshare up`.
type upCommand struct {
	Data         string `default:"./data" placeholder:"DIR" env:"RIDESHARE_DATA" help:"Where the database and the log live (${default})."`
	Gateway      string `default:"127.0.0.1:8080" placeholder:"ADDR" env:"RIDESHARE_GATEWAY" help:"Listen address of the gateway; port 0 picks a free one (${default})."`
	Users        string `default:"127.0.0.1:8081" placeholder:"ADDR" env:"RIDESHARE_USERS" help:"Listen address of users (${default})."`
	Rides        string `default:"127.0.0.1:8082" placeholder:"ADDR" env:"RIDESHARE_RIDES" help:"Listen address of rides (${default})."`
	Orchestrator string `default:"127.0.0.1:8083" placeholder:"ADDR" env:"RIDESHARE_ORCHESTRATOR" help:"Listen address of the orchestrator (${default})."`
	Bus          string `default:"inproc" env:"RIDESHARE_BUS" help:"The broker: inproc (${default})."`
	Coordinator  string `default:"inproc" env:"RIDESHARE_COORDINATOR" help:"The coordinator: inproc (${default})."`
	Launcher     string `default:"inproc" env:"RIDESHARE_LAUNCHER" help:"What starts workers: inproc (${default})."`
	Slaves       int    `default:"1" env:"RIDESHARE_SLAVES" help:"Slaves at the first start, at least 1; afterwards the number is remembered (${default})."`
	ReadyFile    string `default:"" placeholder:"FILE" env:"RIDESHARE_READY_FILE" help:"Written once the system is ready, removed at exit: a JSON object with the addresses and the pid."`
	Demo         bool   `env:"RIDESHARE_DEMO" help:"Put a few users and rides in if the database is empty."`

	ScalePeriod        time.Duration `default:"2m" env:"SCALE_PERIOD" help:"How often the number of slaves follows the number of reads (${default})."`
	ScaleReadsPerSlave int           `default:"20" env:"SCALE_READS_PER_SLAVE" help:"Reads in a period that one slave serves (${default})."`
	ScaleMin           int           `default:"1" env:"SCALE_MIN" help:"Fewest slaves (${default})."`
	ScaleMax           int           `default:"8" env:"SCALE_MAX" help:"Most slaves (${default})."`
	ScalePolicy        string        `default:"reads" enum:"reads" env:"SCALE_POLICY" help:"How slaves are counted: reads (${default})."`
	CallTimeout        time.Duration `default:"5s" env:"CALL_TIMEOUT" help:"Longest wait for a worker's answer (${default})."`

	rideRules
	common
}

// Run starts the system, says where it is, and serves until ctx ends.
func (u *upCommand) Run(ctx context.Context, out *output) error {
	cfg, err := u.config(out)
	if err != nil {
		return err
	}
	startCtx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	system, err := assembly.Start(startCtx, cfg)
	if err != nil {
		return err
	}
	err = u.serve(ctx, system, out)
	stopCtx, stopped := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
	defer stopped()
	return errors.Join(err, system.Close(stopCtx))
}

// serve waits until the system is ready, tells, and waits for ctx's end.
func (u *upCommand) serve(ctx context.Context, system *assembly.System, out *output) error {
	readyCtx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := system.Ready(readyCtx); err != nil {
		if ctx.Err() != nil {
			return nil // stopped while starting
		}
		return fmt.Errorf("not ready after %v: %w", startLimit, err)
	}
	urls := system.URLs()
	if u.Demo {
		if err := demo(ctx, urls); err != nil {
			return fmt.Errorf("demo data: %w", err)
		}
	}
	if err := greet(out.stdout, urls); err != nil {
		return err
	}
	remove, err := writeReadyFile(u.ReadyFile, urls)
	if err != nil {
		return err
	}
	<-ctx.Done()
	return remove()
}

func greet(w io.Writer, urls assembly.URLs) error {
	_, err := fmt.Fprintf(w, `rideshare is ready
  gateway       %[1]s
  users         %[2]s
  rides         %[3]s
  orchestrator  %[4]s

try:
  curl -i -X PUT %[1]s/api/v1/users -d '{"username":"ann","password":"a94a8fe5ccb19ba61c4c0873d391e987982fbbd3"}'
  curl -i %[1]s/api/v1/users

`, urls.Gateway, urls.Users, urls.Rides, urls.Orchestrator)
	return err
}

// config checks every setting and reports all problems at once.
func (u *upCommand) config(out *output) (assembly.Config, error) {
	log, err := telemetry.NewLogger(out.stdout, u.LogLevel, "up")
	if err != nil {
		return assembly.Config{}, usagef("%v", err)
	}
	rules, rulesErr := u.rules()
	auth, authErr := u.auth()
	if err := joinUsage(u.checkParts(), u.checkAddresses(), u.checkNumbers(), rulesErr, authErr); err != nil {
		return assembly.Config{}, err
	}
	return assembly.Config{
		Log: log, Data: u.Data,
		Gateway: u.Gateway, Users: u.Users, Rides: u.Rides, Orchestrator: u.Orchestrator,
		Slaves: u.Slaves, CallTimeout: u.CallTimeout,
		Scale: assembly.Scale{
			Policy: scale.Policy{PerSlave: u.ScaleReadsPerSlave, Min: u.ScaleMin, Max: u.ScaleMax}, Period: u.ScalePeriod,
		},
		RideRules:   assembly.RideRules{Now: rules.now, Location: rules.zone, UserCheck: usercheck.Mode(u.RidesUserCheck), Origin: u.RidesOrigin},
		Credentials: auth.accepted, Authorization: auth.own,
	}, nil
}

func (u *upCommand) checkParts() error {
	for _, part := range []struct{ flag, value string }{
		{"--bus", u.Bus}, {"--coordinator", u.Coordinator}, {"--launcher", u.Launcher},
	} {
		if part.value != "inproc" {
			return usagef("%s: %q is not known here; allowed: inproc", part.flag, part.value)
		}
	}
	return nil
}

func (u *upCommand) checkAddresses() error {
	var errs []error
	for _, listen := range []struct{ flag, addr string }{
		{"--gateway", u.Gateway}, {"--users", u.Users}, {"--rides", u.Rides}, {"--orchestrator", u.Orchestrator},
	} {
		if err := checkAddress(listen.flag, listen.addr); err != nil {
			errs = append(errs, err)
		}
	}
	return joinUsage(errs...)
}

func (u *upCommand) checkNumbers() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, usagef(format, args...))
		}
	}
	check(u.Slaves >= 1 && u.Slaves <= u.ScaleMax, "--slaves: %d is not between 1 and SCALE_MAX (%d)", u.Slaves, u.ScaleMax)
	check(u.ScaleMin >= 1 && u.ScaleMin <= u.ScaleMax, "SCALE_MIN: %d is not between 1 and SCALE_MAX (%d)", u.ScaleMin, u.ScaleMax)
	check(u.ScaleReadsPerSlave >= 1, "SCALE_READS_PER_SLAVE: %d is not at least 1", u.ScaleReadsPerSlave)
	check(u.ScalePeriod >= time.Second, "SCALE_PERIOD: %v is not at least 1s", u.ScalePeriod)
	check(u.CallTimeout > 0, "CALL_TIMEOUT: %v is not positive", u.CallTimeout)
	return joinUsage(errs...)
}

// joinUsage makes one usage error of several, so that all are reported at once.
func joinUsage(errs ...error) error {
	if err := errors.Join(errs...); err != nil {
		return &usageError{msg: err.Error()}
	}
	return nil
}

// writeReadyFile writes the file, if one is wanted, and returns what removes it.
func writeReadyFile(file string, urls assembly.URLs) (remove func() error, err error) {
	if file == "" {
		return func() error { return nil }, nil
	}
	text := fmt.Sprintf(`{"gateway":%q,"users":%q,"rides":%q,"orchestrator":%q,"pid":%d}`+"\n",
		urls.Gateway, urls.Users, urls.Rides, urls.Orchestrator, os.Getpid())
	temp := file + ".tmp"
	if err := os.WriteFile(temp, []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("write ready file: %w", err)
	}
	if err := os.Rename(temp, file); err != nil {
		return nil, fmt.Errorf("write ready file: %w", err)
	}
	return func() error {
		if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove ready file: %w", err)
		}
		return nil
	}, nil
}
