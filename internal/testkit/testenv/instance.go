package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
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

// instance is a service that belongs to this process: it ends when it is stopped, or soon after this process ends in
// any way. The work is done by tools/services.sh of the checkout. It is not safe for concurrent use.
type instance struct {
	// name is one of the services above.
	name string
	// url does not change while the service stops and starts.
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
		return nil, errors.Join(fmt.Errorf("start %s: %w", name, err), s.do(context.WithoutCancel(ctx), "stop"))
	}
	if s.url = startedservices.Value(out, strings.ToUpper(name)+"_URL"); s.url == "" {
		return nil, errors.Join(fmt.Errorf("start %s: no URL in %q", name, out), s.do(context.WithoutCancel(ctx), "stop"))
	}
	return s, nil
}

// ctl runs rabbitmqctl on this RabbitMQ and returns what it prints.
func (s *instance) ctl(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return Command(ctx, "", nil, filepath.Join(s.dir, rabbitMQ, "rabbitmqctl"), args...)
}

// do runs a verb: start (again, after kill or wipe; it returns when the service answers, and a service that runs is no error),
// stop, kill (SIGKILL; the data stays), wipe (kill and lose all data; only ZooKeeper), pause (SIGSTOP), or resume.
func (s *instance) do(ctx context.Context, verb string) error {
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
	return Command(ctx, "", append(os.Environ(), "SERVICES_INSTALL=no"), s.script, append(args, "--dir", s.dir, s.name)...)
}
