package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"rideshare/internal/httpapi"
	"rideshare/internal/instances"
	launchhosts "rideshare/orchestrator/launch/hosts"
	"rideshare/system"
)

// orchestratorCommand is `rideshare orchestrator`.
type orchestratorCommand struct {
	Listen            string `default:":9500" placeholder:"ADDR" env:"ORCHESTRATOR_LISTEN" help:"Listen address of the HTTP API (${default})."`
	Advertise         string `default:"" placeholder:"URL" env:"ORCHESTRATOR_ADVERTISE" help:"Base URL at which the other orchestrators of the system reach this one. They ask it for a sign of life while it leads, and one of them takes over when it is silent for 2 s. None: they wait until its session at the coordinator ends."`
	Data              string `default:"./data" placeholder:"DIR" env:"ORCHESTRATOR_DATA" help:"Where the workers that it starts keep their replicas (${default})."`
	Launcher          string `default:"process" placeholder:"URL" env:"RIDESHARE_LAUNCHER" help:"What starts workers: process, as children of this process that end with it; or the URL of a launcher, http://host:9600 or unix:///path, whose workers stay when this process ends; or several, each with the name of its host: a=https://h1:9600,b=https://h2:9600 (${default})."`
	LauncherTokenFile string `default:"" placeholder:"FILE" env:"LAUNCHER_TOKEN_FILE" help:"File with the bearer token that the launchers ask for."`
	Slaves            int    `default:"1" env:"RIDESHARE_SLAVES" help:"Slaves at the first start, at least 1; afterwards the number is remembered (${default})."`
	stack
	serving `group:"Scaling, cache and queues:"`
	common
}

// The values of --launcher, and of the launcher's --engine, that are not an address.
const (
	launcherProcess = "process" // workers are children of this process
	launcherDocker  = "docker"  // workers are containers
)

// launchers returns the launchers in other processes: none for process, one without a name, or one for each host.
func (o *orchestratorCommand) launchers() ([]system.RemoteLauncher, error) {
	if o.Launcher == launcherProcess {
		return nil, nil
	}
	if name, _, named := strings.Cut(o.Launcher, "="); !named || strings.ContainsAny(name, ":/") {
		if _, _, err := httpapi.Reach(o.Launcher); err != nil {
			return nil, usagef("--launcher: %v, nor process, nor a list like a=https://h1:9600,b=https://h2:9600", err)
		}
		return []system.RemoteLauncher{{URL: o.Launcher}}, nil
	}
	var all []system.RemoteLauncher
	var names []string
	for part := range strings.SplitSeq(o.Launcher, ",") {
		name, url, named := strings.Cut(part, "=")
		if !named {
			return nil, usagef("--launcher: %q in the list has no name; write name=URL for each host", part)
		}
		if _, _, err := httpapi.Reach(url); err != nil {
			return nil, usagef("--launcher: host %s: %v", name, err)
		}
		if slices.ContainsFunc(all, func(r system.RemoteLauncher) bool { return r.URL == url }) {
			return nil, usagef("--launcher: %s is in the list twice", url)
		}
		all, names = append(all, system.RemoteLauncher{Name: name, URL: url}), append(names, name)
	}
	if err := launchhosts.CheckNames(names); err != nil {
		return nil, usagef("--launcher: %v", err)
	}
	return all, nil
}

func (o *orchestratorCommand) checkAdvertise() error {
	if o.Advertise == "" {
		return nil
	}
	if _, err := instances.Parse([]string{o.Advertise}); err != nil {
		return usagef("--advertise: %v", err)
	}
	return nil
}

// Run serves until ctx ends.
func (o *orchestratorCommand) Run(ctx context.Context, out *output) error {
	log, err := o.logger(out, "orchestrator")
	if err != nil {
		return err
	}
	auth, authErr := out.credentials("AUTH_FILE", o.AuthFile)
	budget, budgetErr := o.budget()
	token, tokenErr := readToken("LAUNCHER_TOKEN_FILE", o.LauncherTokenFile)
	busURL, busErr := o.bus()
	launchers, launcherErr := o.launchers()
	var tlsErr error
	if o.Launcher == launcherProcess {
		tlsErr = out.verifiesCallers()
	}
	if err = joinUsage(tlsErr, checkAddress("--listen", o.Listen), o.checkAdvertise(), launcherErr, o.check(o.Slaves), authErr, budgetErr, tokenErr, busErr, o.checkSession()); err != nil {
		return err
	}
	processes := system.Processes{Bus: busURL, Coordinator: o.Coordinator, Session: o.Session, Prefix: o.Prefix, Persdb: o.PersdbURL, LogLevel: o.LogLevel, LogFormat: o.LogFormat}
	processes.Launchers, processes.LauncherToken = launchers, token
	if err = out.follow(ctx, log); err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("host name: %w", err)
	}
	running, err := system.StartOrchestrator(ctx, system.Config{
		// Two orchestrators of a stack listen at the same address, each in its own container.
		Log: log, Name: host + o.Listen, Advertise: strings.TrimSuffix(o.Advertise, "/"), Data: o.Data, Orchestrator: o.Listen, Slaves: o.Slaves, StartsPerMinute: o.StartsPerMinute, HungAfter: o.HungAfter, CallTimeout: o.CallTimeout, LoadTime: o.SQLLoadTime, Version: version,
		Scale: o.scale(), Cache: o.cache(), Changes: o.changes(), Lanes: o.lanes(), Admission: o.settings(), Budget: budget, MaxStatements: o.SQLMaxStatements, AllowedHosts: o.AllowedHosts, Credentials: auth,
		Processes: &processes, Metrics: out.metrics, MaxTimeout: o.SQLMaxTimeout, AllowOrigin: o.AllowOrigin, TLS: out.tls, ChildEnv: out.tlsEnv,
		About: about(out.settings),
	})
	if err != nil {
		return out.nameSettings(err, "listen")
	}
	select {
	case <-ctx.Done():
	case err = <-running.Failed():
	}
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
	defer cancel()
	return errors.Join(err, running.Close(stopCtx))
}
