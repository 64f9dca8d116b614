// Package services starts private instances of RabbitMQ and ZooKeeper, for tests that break them and for the benchmark.
// The work is done by tools/services.sh of the checkout.
package services

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// The services.
const (
	RabbitMQ  = "rabbitmq"
	ZooKeeper = "zookeeper"
)

// scriptTimeout bounds one run of tools/services.sh; a start on a busy machine takes longest.
const scriptTimeout = 5 * time.Minute

// Service is a RabbitMQ or ZooKeeper that belongs to this process: it ends with Stop, or soon after this process ends in
// any way. It is not safe for concurrent use.
type Service struct {
	// Name is RabbitMQ or ZooKeeper.
	Name string
	// URL does not change through Kill, Wipe and Start.
	URL string
	// Dir has its data, its log and its tools.
	Dir string

	script  string
	install bool
}

// Config says what to start. Name and Dir are required.
type Config struct {
	Name string
	// Dir is the directory for all its files: empty, or the directory of an earlier instance.
	Dir string
	// Install permits installing a missing service, which takes minutes and the network.
	Install bool
}

// Start starts a service and returns once it answers. The first start of RabbitMQ takes some 10 s, that of ZooKeeper 2
// s. The error says what is missing, or what the service reported. The working directory must be in a checkout.
func Start(ctx context.Context, c Config) (*Service, error) {
	root, err := Checkout()
	if err != nil {
		return nil, err
	}
	s := &Service{Name: c.Name, Dir: c.Dir, script: filepath.Join(root, "tools", "services.sh"), install: c.Install}
	out, err := s.start(ctx)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", c.Name, err), s.Stop(context.WithoutCancel(ctx)))
	}
	if s.URL = value(out, strings.ToUpper(c.Name)+"_URL"); s.URL == "" {
		return nil, errors.Join(fmt.Errorf("start %s: no URL in %q", c.Name, out), s.Stop(context.WithoutCancel(ctx)))
	}
	return s, nil
}

// Stop ends the service. If it does not run, that is no error.
func (s *Service) Stop(ctx context.Context) error { return s.verb(ctx, "stop") }

// Kill ends the service's process with SIGKILL. Its data stays.
func (s *Service) Kill(ctx context.Context) error { return s.verb(ctx, "kill") }

// Wipe is Kill followed by the loss of all data: Start then starts an empty service. Only ZooKeeper supports it.
func (s *Service) Wipe(ctx context.Context) error { return s.verb(ctx, "wipe") }

// Pause freezes its process with SIGSTOP until Resume.
func (s *Service) Pause(ctx context.Context) error { return s.verb(ctx, "pause") }

// Resume reverts Pause.
func (s *Service) Resume(ctx context.Context) error { return s.verb(ctx, "resume") }

// Start restarts the service after Kill or Wipe, and returns when it answers. If it already runs, that is no error.
func (s *Service) Start(ctx context.Context) error {
	if _, err := s.start(ctx); err != nil {
		return fmt.Errorf("start %s: %w", s.Name, err)
	}
	return nil
}

// PID returns the pid of the service's process, or of its container's process.
func (s *Service) PID() (int, error) {
	text, err := os.ReadFile(filepath.Join(s.Dir, "env"))
	if err != nil {
		return 0, fmt.Errorf("pid of %s: %w", s.Name, err)
	}
	pid, err := strconv.Atoi(value(string(text), strings.ToUpper(s.Name)+"_PID"))
	if err != nil {
		return 0, fmt.Errorf("pid of %s: %w", s.Name, err)
	}
	return pid, nil
}

// Ctl runs rabbitmqctl on this RabbitMQ and returns what it prints.
func (s *Service) Ctl(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return output(exec.CommandContext(ctx, filepath.Join(s.Dir, RabbitMQ, "rabbitmqctl"), args...)) //nolint:gosec // a tool of this service
}

func (s *Service) verb(ctx context.Context, verb string) error {
	if _, err := s.run(ctx, verb); err != nil {
		return fmt.Errorf("%s %s: %w", verb, s.Name, err)
	}
	return nil
}

// start names this process as the owner: the service ends with it.
func (s *Service) start(ctx context.Context) (string, error) {
	return s.run(ctx, "start", "--owner", strconv.Itoa(os.Getpid()))
}

func (s *Service) run(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, scriptTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.script, append(args, "--dir", s.Dir, s.Name)...) //nolint:gosec // a script of this checkout
	cmd.Env = os.Environ()
	if !s.install {
		cmd.Env = append(cmd.Env, "SERVICES_INSTALL=no")
	}
	return output(cmd)
}

// output runs a command and returns its output; an error includes its error output.
func output(cmd *exec.Cmd) (string, error) {
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return "", fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		return "", fmt.Errorf("run: %w", err)
	}
	return string(out), nil
}

// value returns the value of name in lines of NAME=value, or "".
func value(lines, name string) string {
	for line := range strings.Lines(lines) {
		if v, ok := strings.CutPrefix(line, name+"="); ok {
			return strings.Trim(strings.TrimSpace(v), "'")
		}
	}
	return ""
}

// Shared returns the URL of the service that `make services` started, by its variable, such as RABBITMQ_URL. An error
// means that it was not started.
func Shared(variable string) (string, error) {
	root, err := Checkout()
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(filepath.Join(root, ".services", "env")) //nolint:gosec // a file of this checkout
	if err != nil {
		return "", fmt.Errorf("not set, and nothing is started: %w", err)
	}
	if url := value(string(text), variable); url != "" {
		return url, nil
	}
	return "", errors.New("not set, and not started")
}

// Checkout returns the directory of go.mod, in or above the working directory.
func Checkout() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the checkout: %w", err)
	}
	for {
		if _, err = os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("find the checkout: %w", err)
		}
		dir = filepath.Dir(dir)
	}
}
