package main

import (
	"context"
	"net"
	"os"
	"strings"
	"time"

	"rideshare/internal/httpapi"
	"rideshare/internal/logkey"
	"rideshare/system"
)

// launcherCommand is `rideshare launcher`.
type launcherCommand struct {
	Listen      string `default:"127.0.0.1:9600" placeholder:"ADDR" env:"LAUNCHER_LISTEN" help:"Listen address of the internal API, host:port or unix:///path. Who reaches it can start, end and list workers of this system, and read its settings without secrets, and nothing else (${default})."`
	TokenFile   string `default:"" placeholder:"FILE" env:"LAUNCHER_TOKEN_FILE" help:"File with the bearer token that callers must have. None: no authentication."`
	Engine      string `default:"process" enum:"process,docker" env:"LAUNCHER_ENGINE" help:"What workers are: process, children of this process that end with it; or docker, containers, which stay and are found again. With docker --bus-file is needed: its path on the engine's machine, for the workers alone (${default})."`
	Data        string `default:"./data" placeholder:"DIR" env:"LAUNCHER_DATA" help:"process: where the workers keep their replicas (${default})."`
	Address     string `default:"127.0.0.1" placeholder:"HOST" env:"LAUNCHER_ADDRESS" help:"process: where the workers' control APIs listen, each at a port of its own, and where orchestrators on other hosts reach them (${default})."`
	internalAPI `group:"Access:"`
	hosts       `group:"Access:"`
	logging     `group:"Log:"`
	stack
	dockerSettings `group:"Workers in containers:"`
	sqlLimits      `group:"Limits of SQL:"`
}

// launcherTimeout is longer than the launcher's slowest answer: a worker's grace of a minute plus the time that the
// engine needs afterwards.
const launcherTimeout = 2 * time.Minute

// Run serves until ctx ends.
func (l *launcherCommand) Run(ctx context.Context, out *output) error {
	log, err := l.logger(out, "launcher")
	if err != nil {
		return err
	}
	token, tokenErr := readToken("LAUNCHER_TOKEN_FILE", l.TokenFile)
	workers, workersErr := l.workers()
	limits, limitsErr := l.limits()
	if err = joinUsage(tokenErr, workersErr, l.checkSession(), limitsErr, out.verifiesCallers(), l.checkListen(out, "--listen", l.Listen, token, workers.Bus, l.Coordinator),
		l.checkListen(out, "--address", net.JoinHostPort(l.Address, "0"), "", workers.Bus, l.Coordinator)); err != nil {
		return err
	}
	newLauncher := system.NewProcessLauncher
	if l.Engine == launcherDocker {
		newLauncher = system.NewDockerLauncher
		if err = l.checkWorkerTLS(out); err != nil {
			return err
		}
	}
	if err = out.follow(ctx, log); err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	listener, err := bind(ctx, out, log, l.Listen, end)
	if err != nil {
		return err
	}
	if listener != nil {
		defer func() { _ = listener.Close() }() // a second time if it was served, which does no harm
	}
	launcher, err := newLauncher(system.Config{Log: log, Data: l.Data, Processes: &workers, Metrics: out.metrics, Limits: limits, TLS: out.tls, ChildEnv: out.tlsEnv, About: about(out.settings)}, token)
	if err != nil {
		return err
	}
	if token == "" && !out.tls.Verifies() {
		log.WarnContext(ctx, "no LAUNCHER_TOKEN_FILE: everybody who reaches the launcher can start and end workers", logkey.Addr, l.Listen)
	}
	return serve(ctx, out, part{
		ServerConfig: httpapi.ServerConfig{
			Addr: l.Listen, AllowedHosts: l.AllowedHosts, Listener: listener, ReadTimeout: launcherTimeout, WriteTimeout: launcherTimeout,
			Handler: launcher.Handler(), TLS: out.tls.Server(true), Log: log,
		},
		onShutdown: launcher.Shutdown, close: launcher.Close,
	})
}

// workers returns how to run workers.
func (l *launcherCommand) workers() (system.Processes, error) {
	p := system.Processes{Address: l.Address, Coordinator: l.Coordinator, Session: l.Session, Prefix: l.Prefix, Persdb: l.PersdbURL, LogLevel: l.LogLevel, LogFormat: l.LogFormat}
	var err error
	switch {
	case l.Engine != launcherDocker:
		p.Bus, err = l.bus()
	case l.BusFile == "" || l.Bus != "":
		err = usagef("--engine docker: --bus-file is needed, and no --bus: everybody could read the password in 'docker inspect'")
	default:
		p.Docker = l.docker(l.BusFile)
		p.Docker.PrivateNetwork = l.PrivateNetwork
	}
	return p, err
}

// readToken returns the token in a file, or "" without a file. An empty file is an error: it must not turn
// authentication off.
func readToken(variable, file string) (string, error) {
	if file == "" {
		return "", nil
	}
	text, err := os.ReadFile(file) //nolint:gosec // the operator's choice
	if err != nil {
		return "", usagef("%s: %v", variable, err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" || strings.ContainsAny(token, " \t\r\n") {
		return "", usagef("%s: %s does not hold one token", variable, file)
	}
	return token, nil
}
