package main

import (
	"context"
	"os"
	"strings"
	"time"

	"rideshare/cmd/rideshare/assembly"
	"rideshare/internal/telemetry"
)

// launcherCommand is `rideshare launcher`.
type launcherCommand struct {
	Listen    string `default:"127.0.0.1:9600" placeholder:"ADDR" env:"LAUNCHER_LISTEN" help:"Listen address of the internal API, host:port or unix:///path. Who reaches it can start and end workers of this system, and nothing else (${default})."`
	TokenFile string `default:"" placeholder:"FILE" env:"LAUNCHER_TOKEN_FILE" help:"File with the bearer token that callers must have. None: no authentication."`
	Engine    string `default:"process" enum:"process" env:"LAUNCHER_ENGINE" help:"What workers are: process, children of this process that end with it (${default})."`
	Data      string `default:"./data" placeholder:"DIR" env:"LAUNCHER_DATA" help:"Where the workers keep their replicas (${default})."`
	LogLevel  string `default:"info" enum:"debug,info,warn,error" env:"LOG_LEVEL" help:"Lowest level that is logged, here and in the workers: debug, info, warn or error (${default})."`
	stack
}

const (
	// launcherTimeout is longer than the longest answer of the launcher: a worker's grace
	// of a minute, and what the engine takes after it.
	launcherTimeout = 2 * time.Minute
)

// Run serves until ctx ends.
func (l *launcherCommand) Run(ctx context.Context, out *output) error {
	log, err := telemetry.NewLogger(out.stdout, l.LogLevel, "launcher")
	if err != nil {
		return usagef("%v", err)
	}
	token, tokenErr := readToken("LAUNCHER_TOKEN_FILE", l.TokenFile)
	busURL, busErr := l.bus()
	if err = joinUsage(tokenErr, busErr); err != nil {
		return err
	}
	launcher, err := assembly.NewProcessLauncher(assembly.Config{
		Log: log, Data: l.Data,
		Processes: &assembly.Processes{Bus: busURL, Coordinator: l.Coordinator, Prefix: l.Prefix, Persdb: l.PersdbURL, LogLevel: l.LogLevel},
	}, token)
	if err != nil {
		return err
	}
	if token == "" {
		log.WarnContext(ctx, "no LAUNCHER_TOKEN_FILE: everybody who reaches the launcher can start and end workers")
	}
	return serve(ctx, part{
		addr: l.Listen, inherited: true, readTimeout: launcherTimeout, writeTimeout: launcherTimeout,
		handler: launcher.Handler(), log: log, onShutdown: launcher.Shutdown, close: launcher.Close,
	})
}

// readToken returns the token in a file, "" without a file. An empty file must not
// mean open doors.
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
