package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"rideshare/bench/load"
	"rideshare/bench/loadgen"
	"rideshare/bench/report"
)

// loadCommand is `rideshare load`.
type loadCommand struct {
	Gateway      string `default:"http://127.0.0.1:8080" placeholder:"URL" env:"LOAD_GATEWAY" help:"Base URL of the gateway, for users and rides, ${orSeveral} (${default})."`
	Users        string `default:"" placeholder:"URL" env:"LOAD_USERS" help:"Base URL of users, ${orSeveral}; default: the gateway's."`
	Rides        string `default:"" placeholder:"URL" env:"LOAD_RIDES" help:"Base URL of rides, ${orSeveral}; default: the gateway's."`
	Orchestrator string `default:"http://127.0.0.1:8083" placeholder:"URL" env:"ORCHESTRATOR_URL" help:"Base URL of the orchestrator, ${orSeveral} (${default})."`
	ReadyFile    string `default:"" placeholder:"FILE" env:"LOAD_READY_FILE" help:"Take gateway and orchestrator from the file that 'up --ready-file' wrote."`
	clientSettings
	sceneSettings

	Rate     float64       `default:"0" env:"LOAD_RATE" help:"Open loop: requests a second, whether or not earlier ones were answered. Without --rate, --clients and --phases: 50."`
	Clients  int           `default:"0" env:"LOAD_CLIENTS" help:"Closed loop: clients that each send one request after the other."`
	Phases   string        `default:"" env:"LOAD_PHASES" help:"Phases instead of one level: NAME DURATION LEVEL or NAME DURATION FROM-TO, with semicolons between them."`
	Loop     string        `default:"open" enum:"open,closed" env:"LOAD_LOOP" help:"What the levels of --phases are: open: requests a second, closed: clients (${default})."`
	Duration time.Duration `default:"1m" env:"LOAD_DURATION" help:"Length of the run, without --phases (${default})."`
	Mix      string        `default:"${loadMix}" env:"LOAD_MIX" help:"Share of each kind in percent (${default})."`
	As       string        `default:"" placeholder:"USER" env:"LOAD_AS" help:"Header X-Rideshare-User of the requests: the user in whose name they wait, without AUTH_FILE."`
	Seed     uint64        `default:"1" env:"LOAD_SEED" help:"Seed of the sequence of kinds, users and rides (${default})."`

	PoolUsers   int           `default:"20" env:"LOAD_POOL_USERS" help:"Users made before the load, who create and join rides (${default})."`
	MaxInFlight int           `default:"1024" env:"LOAD_MAX_IN_FLIGHT" help:"Open loop: requests that wait for answers at once; more are sent late (${default})."`
	Timeout     time.Duration `default:"15s" env:"LOAD_TIMEOUT" help:"Longest wait for one answer (${default})."`
	Cores       int           `default:"0" env:"LOAD_CORES" help:"Processor cores to use; 0: all of this machine (${default})."`
	MaxFailed   float64       `default:"100" env:"LOAD_MAX_FAILED" help:"Percent of requests that may fail before the run counts as failed; 0: none (${default})."`
	Clean       bool          `env:"LOAD_CLEAN" help:"Remove at the end what the run has written."`

	JSON string `name:"json" default:"" placeholder:"FILE" env:"LOAD_JSON" help:"Write the result there as JSON."`
	HTML string `name:"html" default:"" placeholder:"FILE" env:"LOAD_HTML" help:"Write the result there as one HTML file with plots."`
}

// Help implements kong's longer help.
func (*loadCommand) Help() string {
	return `Sends users, rides, joins, listings and raw database reads and writes, checks every answer, and at the end reads back
everything that was acknowledged. What it writes has names of its own and stays, unless --clean is given.

Examples:
  rideshare load
      50 requests a second for a minute, against 'rideshare up'
  rideshare load --rate 500 --duration 5m --html load.html
      open loop, with a report to look at
  rideshare load --clients 64
      closed loop: as fast as 64 clients get answers
  rideshare load --phases "ramp 60s 0-500; steady 2m 500; burst 10s 3000"
      phases, one after the other
  rideshare load --mix db-read=90,db-write=10 --rate 1000
      the database alone
  rideshare load --gateway http://host:80 --orchestrator http://host:8083
      another system
  rideshare load --gateway http://h1,http://h2,http://h3 --orchestrator http://h1:8083,http://h2:8083,http://h3:8083
      a cluster: a request that was not sent to a host goes to the next one, and a write without an answer is
      sent once more there, under its key
  rideshare load n1 --start process
      a scene of overload, with a verdict; docs/LOAD.md has all six

Exit code 0: everything acknowledged is there, once, and no answer was wrong. 1: not so, or more than --max-failed failed, or a goal of the scene is missed. 2: wrong usage.
Ctrl-C ends the load early; the check and the report still come. Again: at once.`
}

// Run runs the load, writes the reports, and returns an error if a check failed.
func (l *loadCommand) Run(ctx context.Context, out *output) error {
	if l.Scene != "" {
		return l.playScene(ctx, out)
	}
	cfg, err := l.config(ctx, out)
	if err != nil {
		return err
	}
	runtime.GOMAXPROCS(l.cores())
	result, err := load.Run(ctx, cfg)
	if result == nil {
		return err
	}
	return errors.Join(err, report.WriteJSON(l.JSON, result), report.WriteFile(l.HTML, result.HTML), result.Print(out.stdout), l.verdict(result))
}

func (l *loadCommand) cores() int {
	if l.Cores < 1 {
		return runtime.NumCPU()
	}
	return min(l.Cores, runtime.NumCPU())
}

// verdict returns nil if the run met all expectations.
func (l *loadCommand) verdict(r *load.Result) error {
	if !r.Check.OK {
		return errors.New("the check failed, see above")
	}
	if all := r.Load.All; float64(all.Failed) > float64(all.Count)*l.MaxFailed/100 {
		return fmt.Errorf("%d of %d requests failed, more than --max-failed %g percent", all.Failed, all.Count, l.MaxFailed)
	}
	return nil
}

// config checks all settings and reports all problems together.
func (l *loadCommand) config(ctx context.Context, out *output) (load.Config, error) {
	targets, targetsErr := l.targets()
	authorization, authErr := l.authorization(ctx, out)
	mix, mixErr := load.ParseMix(l.Mix)
	if mixErr != nil {
		mixErr = usagef("--mix: %v", mixErr)
	}
	plan, loop, planErr := l.plan()
	if err := joinUsage(targetsErr, authErr, mixErr, planErr, l.limits()); err != nil {
		return load.Config{}, err
	}
	return load.Config{
		Targets: targets, Authorization: authorization, As: l.As, TLS: out.tls, Mix: mix, Plan: plan, Loop: loop, MaxInFlight: l.MaxInFlight,
		Timeout: l.Timeout, Users: l.PoolUsers, Seed: l.Seed, Clean: l.Clean, Progress: progressOn(out.stderr),
	}, nil
}

func (l *loadCommand) limits() error {
	if l.PoolUsers < 2 || l.MaxInFlight < 1 || l.Timeout <= 0 || l.Cores < 0 || !(l.MaxFailed >= 0 && l.MaxFailed <= 100) {
		return usagef("--pool-users must be at least 2, --max-in-flight at least 1, --timeout positive, --cores not negative, --max-failed between 0 and 100")
	}
	return nil
}

// defaultRate is the rate in requests per second if none is given.
const defaultRate = 50

// maxClients bounds a closed loop: each client is a connection.
const maxClients = 20_000

// plan makes the plan from --rate, --clients or --phases, whichever is given.
func (l *loadCommand) plan() (loadgen.Plan, loadgen.Loop, error) {
	given := 0
	for _, is := range []bool{l.Rate != 0, l.Clients != 0, l.Phases != ""} {
		if is {
			given++
		}
	}
	steady := func(level float64) loadgen.Plan {
		return loadgen.Plan{{Name: "steady", Duration: l.Duration, From: level, To: level}}
	}
	var plan loadgen.Plan
	var err error
	loop := loadgen.Open
	switch {
	case given > 1:
		return nil, "", usagef("only one of --rate, --clients and --phases can be given")
	case l.Rate < 0 || l.Clients < 0 || l.Duration <= 0:
		return nil, "", usagef("--rate, --clients and --duration must be positive")
	case l.Phases != "":
		loop = loadgen.Loop(l.Loop)
		if plan, err = loadgen.ParsePlan(l.Phases); err != nil {
			return nil, "", usagef("--phases: %v", err)
		}
	case l.Clients > 0:
		plan, loop = steady(float64(l.Clients)), loadgen.Closed
	case l.Rate > 0:
		plan = steady(l.Rate)
	default:
		plan = steady(defaultRate)
	}
	if loop == loadgen.Closed && plan.Peak() > maxClients {
		return nil, "", usagef("at most %d clients", maxClients)
	}
	return plan, loop, nil
}

// targets returns the URLs to send the load to.
func (l *loadCommand) targets() (load.Targets, error) {
	urls := struct{ Gateway, Orchestrator string }{l.Gateway, l.Orchestrator}
	if l.ReadyFile != "" {
		text, err := os.ReadFile(l.ReadyFile)
		if err != nil {
			return load.Targets{}, usagef("--ready-file: %v", err)
		}
		if err = json.Unmarshal(text, &urls); err != nil {
			return load.Targets{}, usagef("--ready-file %s: %v", l.ReadyFile, err)
		}
	}
	t := load.Targets{Users: urls.Gateway, Rides: urls.Gateway, Orchestrator: urls.Orchestrator}
	if l.Users != "" {
		t.Users = l.Users
	}
	if l.Rides != "" {
		t.Rides = l.Rides
	}
	for _, url := range []*string{&t.Users, &t.Rides, &t.Orchestrator} {
		*url = strings.TrimSuffix(*url, "/")
	}
	return t, joinUsage(checkURLs("--users or --gateway", t.Users), checkURLs("--rides or --gateway", t.Rides), checkURLs("--orchestrator", t.Orchestrator))
}
