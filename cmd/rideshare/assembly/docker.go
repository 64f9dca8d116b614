package assembly

import (
	"context"
	"errors"
	"fmt"

	"rideshare/orchestrator/launch/docker"
)

// Docker says what workers are as containers.
type Docker struct {
	// Host is the engine's address, unix:///path or tcp://host:port.
	Host string
	// Stack names the system; containers without its label are never touched.
	Stack string
	// Project is the compose project that they belong to, "" for none.
	Project string
	Image   string
	// Network is that of the workers; "host" is the engine's machine's own.
	Network string
	// BusFile is the file with the broker's URL, by its path on the engine's machine.
	BusFile string
	Limits  docker.Limits
}

// newDockerLauncher starts workers as containers. end leaves them as they are.
func newDockerLauncher(cfg Config, p Processes) (launcher *docker.Launcher, end func(context.Context) error, err error) {
	d := *p.Docker
	engine, err := docker.Dial(d.Host)
	if err != nil {
		return nil, nil, err
	}
	launcher, err = docker.New(docker.Config{
		Engine: engine, Stack: d.Stack, Project: d.Project, Image: d.Image, Network: d.Network, BusFile: d.BusFile,
		Coordinator: p.Coordinator, Session: p.session(), Persdb: p.Persdb, Prefix: p.Prefix, LogLevel: p.LogLevel, Limits: d.Limits, Log: cfg.Log,
		Env: limitsEnv(cfg.Limits),
	})
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("launcher: %w", err), engine.Close())
	}
	end = func(ctx context.Context) error { return errors.Join(launcher.Close(ctx), engine.Close()) }
	return launcher, end, nil
}
