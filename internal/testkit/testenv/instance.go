package testenv

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

	"rideshare/bench/startedservices"
)

// The services.
const (
	rabbitMQ  = "rabbitmq"
	zooKeeper = "zookeeper"
	postgres  = "postgres"
	pgStandby = "pgstandby"
	pgSecond  = "pgstandby2"
)

// scriptTimeout bounds one run of tools/services.sh; a start on a busy machine takes longest.
const scriptTimeout = 5 * time.Minute

// instance is a service that belongs to this process: it ends with stop, or soon after this process ends in
// any way. The work is done by tools/services.sh of the checkout. It is not safe for concurrent use.
type instance struct {
	// name is one of the services above.
	name string
	// url does not change through kill, wipe and start.
	url string
	// dir has its data, its log and its tools.
	dir string

	script string
}

// startInstance starts a service and returns once it answers. dir is the directory for all its files: empty, or the
// directory of an earlier instance. The first start of RabbitMQ takes some 10 s, that of ZooKeeper 2 s. The error says
// what is missing, or what the service reported. The working directory must be in a checkout.
func startInstance(ctx context.Context, name, dir string) (*instance, error) {
	root, err := startedservices.Checkout()
	if err != nil {
		return nil, err
	}
	s := &instance{name: name, dir: dir, script: filepath.Join(root, "tools", "services.sh")}
	out, err := s.run(ctx, "start")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", name, err), s.stop(context.WithoutCancel(ctx)))
	}
	if s.url = startedservices.Value(out, strings.ToUpper(name)+"_URL"); s.url == "" {
		return nil, errors.Join(fmt.Errorf("start %s: no URL in %q", name, out), s.stop(context.WithoutCancel(ctx)))
	}
	return s, nil
}

// stop ends the service. If it does not run, that is no error.
func (s *instance) stop(ctx context.Context) error { return s.verb(ctx, "stop") }

// kill ends the service's process with SIGKILL. Its data stays.
func (s *instance) kill(ctx context.Context) error { return s.verb(ctx, "kill") }

// wipe is kill followed by the loss of all data: start then starts an empty service. Only ZooKeeper supports it.
func (s *instance) wipe(ctx context.Context) error { return s.verb(ctx, "wipe") }

// pause freezes its processes with SIGSTOP until resume.
func (s *instance) pause(ctx context.Context) error { return s.verb(ctx, "pause") }

// resume reverts pause.
func (s *instance) resume(ctx context.Context) error { return s.verb(ctx, "resume") }

// start restarts the service after kill or wipe, and returns when it answers. If it already runs, that is no error.
func (s *instance) start(ctx context.Context) error { return s.verb(ctx, "start") }

// ctl runs rabbitmqctl on this RabbitMQ and returns what it prints.
func (s *instance) ctl(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return output(exec.CommandContext(ctx, filepath.Join(s.dir, rabbitMQ, "rabbitmqctl"), args...)) //nolint:gosec // a tool of this service
}

func (s *instance) verb(ctx context.Context, verb string) error {
	if _, err := s.run(ctx, verb); err != nil {
		return fmt.Errorf("%s %s: %w", verb, s.name, err)
	}
	return nil
}

// run runs a verb of the script and returns its output. Nothing is installed: `make services` does that. A service that is
// started has this process as its owner, and ends with it.
func (s *instance) run(ctx context.Context, verb string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, scriptTimeout)
	defer cancel()
	args := []string{verb}
	if verb == "start" {
		args = append(args, "--owner", strconv.Itoa(os.Getpid()))
	}
	cmd := exec.CommandContext(ctx, s.script, append(args, "--dir", s.dir, s.name)...) //nolint:gosec // a script of this checkout
	cmd.Env = append(os.Environ(), "SERVICES_INSTALL=no")
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
