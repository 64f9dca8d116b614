package system

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"rideshare/orchestrator/launch/docker"
)

// Docker says how to run workers as containers.
type Docker struct {
	// Host is the engine's address, unix:///path or tcp://host:port.
	Host string
	// Stack names the system; containers without its label are never touched.
	Stack string
	// Project is the compose project of the workers, "" for none.
	Project string
	Image   string
	// Network is the workers' network; "host" is the network of the engine's machine.
	Network string
	// BusFile is the path, on the engine's machine, of the file with the broker's URL.
	BusFile string
	// TLS is the path, on the engine's machine, of the directory with the workers' certificate; "" for none.
	TLS string
	// PrivateNetwork says that only parts of this system reach the workers.
	PrivateNetwork bool
	Limits         docker.Limits
}

// tracesEnv returns the settings of OpenTelemetry in this process's environment, which containers do not inherit.
func tracesEnv() []string {
	return slices.DeleteFunc(os.Environ(), func(setting string) bool { return !strings.HasPrefix(setting, "OTEL_") })
}

// env returns the settings of the workers that do not depend on the engine.
func (d *Docker) env(cfg Config) []string {
	env := append(limitsEnv(cfg.Limits), tracesEnv()...)
	if d.PrivateNetwork {
		env = append(env, "PRIVATE_NETWORK=true")
	}
	return env
}

// newDockerLauncher returns a launcher of containers. end leaves the workers running.
func newDockerLauncher(cfg Config, p Processes) (launcher *docker.Launcher, end func(context.Context) error, err error) {
	d := *p.Docker
	engine, err := docker.Dial(d.Host)
	if err != nil {
		return nil, nil, err
	}
	launcher, err = docker.New(docker.Config{
		Engine: engine, Stack: d.Stack, Project: d.Project, Image: d.Image, Network: d.Network, BusFile: d.BusFile, TLS: d.TLS,
		Coordinator: p.Coordinator, Session: p.session(), Persdb: p.Persdb, Prefix: p.Prefix, LogLevel: p.LogLevel, Limits: d.Limits, Log: cfg.Log,
		Env: d.env(cfg),
	})
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("launcher: %w", err), engine.Close())
	}
	end = func(ctx context.Context) error { return errors.Join(launcher.Close(ctx), engine.Close()) }
	return launcher, end, nil
}
